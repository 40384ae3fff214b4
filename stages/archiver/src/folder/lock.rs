//! The lock of an instance's files: one process writes them at a time.

use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a start waits for its lock.
const LOCK_WAIT: Duration = Duration::from_secs(3);
/// How often it tries meanwhile.
const LOCK_LOOK: Duration = Duration::from_millis(50);

/// Locks the process's own files. Another instance may hold the lock for a moment, while it
/// finishes what was left.
pub(super) fn own_lock(dir: &Path, instance: u16) -> anyhow::Result<File> {
    let end = Instant::now() + LOCK_WAIT;
    loop {
        match lock(dir, instance) {
            Err(_) if Instant::now() < end => std::thread::sleep(LOCK_LOOK),
            locked => return locked,
        }
    }
}

/// Locks the files of an instance, held as long as the file that is returned.
///
/// # Errors
/// Another process holds the lock, or the directory cannot be written.
pub(super) fn lock(dir: &Path, instance: u16) -> anyhow::Result<File> {
    let path = dir.join(format!(".lock-{instance:03}"));
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    let file = file.with_context(|| format!("cannot create {}", path.display()))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).with_context(|| {
        format!(
            "another archiver with instance {instance} writes to {}: give each crawl a folder of \
             its own (stages.archiver.dir), each process an instance of its own",
            dir.display()
        )
    })?;
    Ok(file)
}

//! A lock of a data directory, which the operating system releases however its holder dies.

use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// The lock of the crawl itself, in its data directory.
pub(crate) const LOCK: &str = "crawl.lock";
/// How long to wait for an owner that is just ending.
const PATIENCE: Duration = Duration::from_millis(500);
/// Wait between two tries.
const POLL: Duration = Duration::from_millis(10);

/// Takes the lock and writes this process's pid into it.
///
/// # Errors
/// A living process holds it.
pub(crate) async fn lock(path: &Path) -> Result<File> {
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .with_context(|| format!("opening {}", path.display()))?;
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK && error != rustix::io::Errno::INTR {
            return Err(error).with_context(|| format!("locking {}", path.display()));
        }
        if Instant::now() >= deadline {
            let holder = fs::read_to_string(path).unwrap_or_default();
            bail!(
                "{} is held by pid {}: a crawl already runs in this data directory",
                path.display(),
                holder.trim()
            );
        }
        tokio::time::sleep(POLL).await;
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(file)
}

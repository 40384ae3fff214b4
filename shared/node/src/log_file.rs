//! The file that standard error goes to: closed when it has grown, so that logs have a bound (P6).
//!
//! In: lines. Out: the file, and as many older ones as are kept: `x.log`, `x.log.1` (the one
//! before), `x.log.2`, ...
//!
//! Invariants: a line is in one file, whole. What is written past this (the words of a panic) goes
//! to the file of the moment, too, since standard error itself is what changes. A file that cannot
//! be renamed goes on growing.

use rustix::stdio::dup2_stderr;
use std::fs::{File, rename};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use tracing_subscriber::fmt::MakeWriter;

/// The file of this process, if its standard error goes to one that has a bound.
static LOG: OnceLock<Mutex<LogFile>> = OnceLock::new();

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    bytes: u64,
    bytes_max: u64,
    kept: u32,
}

/// Closes the file that standard error goes to whenever it has this size, and keeps so many older
/// ones.
pub fn bound(path: &Path, bytes_max: u64, kept: u32) {
    let bytes = path.metadata().map_or(0, |file| file.len());
    let _ = LOG.set(Mutex::new(LogFile {
        path: path.to_owned(),
        bytes,
        bytes_max,
        kept,
    }));
}

/// The `n`th older file.
pub fn older(path: &Path, n: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    name.into()
}

impl LogFile {
    fn has_grown(&mut self, by: usize) {
        self.bytes += by as u64;
        if self.bytes >= self.bytes_max {
            self.bytes = 0;
            // A log that cannot be closed is no reason to end.
            let _ = self.put_aside();
        }
    }

    fn put_aside(&self) -> io::Result<()> {
        // Beside the other first: without room for it nothing changes.
        let mut new = self.path.as_os_str().to_owned();
        new.push(".new");
        let file = File::options().create(true).append(true).open(&new)?;
        for n in (1..self.kept).rev() {
            let _ = rename(older(&self.path, n), older(&self.path, n + 1));
        }
        rename(&self.path, older(&self.path, 1))?;
        rename(&new, &self.path)?;
        Ok(dup2_stderr(&file)?)
    }
}

/// Writes events to standard error, a line at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Held over both, or a second thread could close a file that has just begun.
        let mut log = LOG
            .get()
            .map(|log| log.lock().unwrap_or_else(PoisonError::into_inner));
        io::stderr().write_all(bytes)?;
        if let Some(log) = &mut log {
            log.has_grown(bytes.len());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Lines;
    fn make_writer(&self) -> Lines {
        Lines
    }
}

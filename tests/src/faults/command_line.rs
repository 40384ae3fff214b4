//! Command line: a command of `rhumb` for the crawl in a data directory, which is cut off, with
//! SIGKILL, when it is no longer of use. What came of each time it was given is in its log, beside
//! the data directory.

use crate::harness::binaries;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at a command that is carried out.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A command.
pub(super) struct CommandLine {
    pub(super) data: PathBuf,
    /// Its words, without the program.
    pub(super) text: String,
    pub(super) log: PathBuf,
}

impl CommandLine {
    pub(super) fn new(data: &Path, text: &str, log: &str) -> CommandLine {
        CommandLine {
            data: data.to_owned(),
            text: text.to_owned(),
            log: data.with_file_name(log),
        }
    }

    /// Gives it once. Its exit code; none when it was cut off.
    ///
    /// # Errors
    /// It cannot be started, or its log cannot be written.
    pub(super) fn once(&self, is_cut_off: &AtomicBool) -> io::Result<Option<i32>> {
        let mut log = File::options().create(true).append(true).open(&self.log)?;
        writeln!(log, "$ rhumb {}", self.text)?;
        let mut command = Command::new(binaries().join("rhumb"));
        command
            .args(self.text.split(' '))
            .arg("--data")
            .arg(&self.data)
            .stdin(Stdio::null());
        let mut process = command
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .spawn()?;
        let begun = Instant::now();
        let status = loop {
            if is_cut_off.load(Ordering::Relaxed) {
                let _ = process.kill();
                process.wait()?;
                writeln!(log, "cut off after {:.1} s", begun.elapsed().as_secs_f64())?;
                return Ok(None);
            }
            if let Some(status) = process.try_wait()? {
                break status;
            }
            thread::sleep(LOOK_EVERY);
        };
        writeln!(log, "{status} after {:.1} s", begun.elapsed().as_secs_f64())?;
        Ok(Some(status.code().unwrap_or(-1)))
    }
}

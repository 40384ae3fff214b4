//! This process while it measures: CPU time, memory, how far it is; and others like it.

use anyhow::{Context as _, ensure};
use rhumb_telemetry::process;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Between two lines that tell how far a long run is.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// What a process of its own measures, so that its memory is nobody else's: this program again, with
/// these arguments, in a new folder below `dir`.
///
/// # Errors
/// The program cannot be run, or fails.
pub(super) fn measured_apart<T: DeserializeOwned>(
    arguments: &[&str],
    dir: &Path,
) -> anyhow::Result<T> {
    let output = Command::new(std::env::current_exe()?)
        .arg("--json")
        .args(arguments)
        .arg("--dir")
        .arg(dir)
        .stderr(Stdio::inherit())
        .output()?;
    let arguments = arguments.join(" ");
    ensure!(
        output.status.success(),
        "the measurement {arguments} failed"
    );
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the measurement {arguments} said nothing"))
}

/// CPU time of this process, user and system, in seconds.
pub(super) fn cpu_s() -> anyhow::Result<f64> {
    Ok(process::cpu_time(std::process::id())
        .context("no CPU time in /proc")?
        .own_s)
}

/// CPU time of its main thread alone, in seconds.
pub(super) fn main_thread_cpu_s() -> anyhow::Result<f64> {
    Ok(process::main_thread_cpu_time(std::process::id())
        .context("no CPU time in /proc")?
        .own_s)
}

/// Resident memory of this process, in bytes.
pub(super) fn resident() -> anyhow::Result<u64> {
    Ok(process::memory(std::process::id())
        .context("no memory in /proc")?
        .resident)
}

/// Tells on standard error how far a long run is.
pub(super) struct Progress {
    what: &'static str,
    all: u64,
    told: Instant,
}

impl Progress {
    pub(super) fn new(what: &'static str, all: u64) -> Self {
        Progress {
            what,
            all,
            told: Instant::now(),
        }
    }

    pub(super) fn tell(&mut self, done: u64) {
        if self.told.elapsed() > PROGRESS_EVERY {
            eprintln!(
                "{}: {:.1} of {:.1} million",
                self.what,
                done as f64 / 1e6,
                self.all as f64 / 1e6
            );
            self.told = Instant::now();
        }
    }
}

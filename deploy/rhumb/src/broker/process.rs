//! The server's process: spawned, signalled, and ended when its owner is gone.
//!
//! In: an executable, a configuration file, a log. Out: a [`Server`] that ends with this value.
//!
//! Invariant: a signal goes only to a child that was not waited for yet, or to a process whose
//! command line names a nats-server with our configuration file.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::POLL;

/// A child process that is killed and waited for when dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    // Keeps the thread alive that spawned the child; see `spawn_from_own_thread`.
    _keeper: mpsc::Sender<()>,
}

impl Server {
    /// Starts the server in a process group of its own; what it writes before it opens its log goes
    /// there too.
    ///
    /// # Errors
    /// The executable cannot be run or the log not opened.
    pub(super) fn spawn(
        executable: &Path,
        config: &Path,
        log: &Path,
        env: &[(String, String)],
    ) -> Result<Server> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("opening {}", log.display()))?;
        let mut command = dying_with_parent(executable);
        command
            .arg("-c")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output);
        command.envs(env.iter().map(|(key, value)| (key, value)));
        command.process_group(0);
        spawn_from_own_thread(command).with_context(|| format!("starting {}", executable.display()))
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn try_wait(&mut self) -> Option<ExitStatus> {
        // The only possible error is that there is no such child, which cannot be before it was
        // waited for.
        self.child.try_wait().ok().flatten()
    }

    /// SIGTERM, then SIGKILL once `patience` is over.
    pub(super) async fn stop(&mut self, patience: Duration) -> Result<()> {
        if self.try_wait().is_some() {
            return Ok(());
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM)
            .context("sending SIGTERM to nats-server")?;
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if self.try_wait().is_some() {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        tracing::warn!(
            pid = self.pid(),
            "nats-server ignored SIGTERM and is killed"
        );
        self.kill()
    }

    /// SIGKILL, and waits for the end.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill().context("killing nats-server")?;
        self.child.wait().context("waiting for nats-server")?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            tracing::warn!(%error, pid = self.pid(), "nats-server may still run");
        }
    }
}

/// A command for the server which gets SIGTERM when this process dies, by whatever signal.
///
/// util-linux's `setpriv` sets that up and then becomes the server, under the same pid. Where it is
/// missing or does not know the option, the next start in this data directory ends the orphan
/// instead.
fn dying_with_parent(executable: &Path) -> Command {
    const OPTION: [&str; 2] = ["--pdeathsig", "TERM"];
    let probe = Command::new("setpriv")
        .args(OPTION)
        .arg("true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if probe.is_ok_and(|status| status.success()) {
        let mut command = Command::new("setpriv");
        command.args(OPTION).arg("--").arg(executable);
        return command;
    }
    Command::new(executable)
}

/// Spawns from a thread that lives as long as the returned value: Linux sends the parent-death
/// signal when the spawning thread ends, and a runtime's threads may end early.
fn spawn_from_own_thread(mut command: Command) -> Result<Server> {
    let (keeper, released) = mpsc::channel::<()>();
    let (spawned, child) = mpsc::channel();
    thread::Builder::new()
        .name("broker-keeper".to_owned())
        .spawn(move || {
            let sent = spawned.send(command.spawn());
            drop(command);
            if sent.is_ok() {
                // Nothing is ever sent: this returns when the other end is dropped.
                let _ = released.recv();
            }
        })?;
    let child = child.recv().context("the spawning thread died")??;
    Ok(Server {
        child,
        _keeper: keeper,
    })
}

/// Ends every nats-server that runs with this configuration file. The caller holds the data
/// directory's lock, so such a server has lost its owner. Finds none where there is no `/proc`.
///
/// # Errors
/// The process may not be signalled, or outlives SIGKILL.
pub(super) async fn end_stale(config: &Path, patience: Duration) -> Result<()> {
    for pid in running_with(config) {
        tracing::warn!(pid, config = %config.display(), "ending a nats-server that lost its owner");
        end(pid, config, patience).await?;
    }
    Ok(())
}

async fn end(pid: i32, config: &Path, patience: Duration) -> Result<()> {
    let Some(target) = Pid::from_raw(pid) else {
        return Ok(());
    };
    for signal in [Signal::TERM, Signal::KILL] {
        if !is_server_of(pid, config) {
            return Ok(());
        }
        match kill_process(target, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("ending the stale nats-server {pid}"));
            }
        }
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if !is_server_of(pid, config) {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }
    bail!(
        "the stale nats-server {pid} of {} does not end",
        config.display()
    )
}

fn running_with(config: &Path) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| is_server_of(*pid, config))
        .collect()
}

/// Whether the process's command line has both a program named nats-server and our configuration
/// file. False for a process that is gone or a zombie, whose command line is empty.
fn is_server_of(pid: i32, config: &Path) -> bool {
    let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    let arguments: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let is_server =
        |argument: &&[u8]| argument.rsplit(|byte| *byte == b'/').next() == Some(b"nats-server");
    let config = config.as_os_str().as_encoded_bytes();
    arguments.iter().any(is_server) && arguments.contains(&config)
}

//! Running: a crawl under way, what it can be asked, the taps on its edges, and how it ended.
//!
//! Invariant: a process that was started has ended when its value is dropped.

use super::assertions::json;
use super::command::{COMMAND_AT_MOST, POLL, Said, binaries, ended_within, metric, path_text, run};
use anyhow::Context as _;
use rhumb::handle::Handle;
use rhumb::status::{ProcessUse, Summary};
use rhumb_bus::Access;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a crawl may take to drain.
const DRAIN_AT_MOST: Duration = Duration::from_secs(45);
/// How long a process may take to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// Time between two looks at a whole crawl: each asks all its streams and processes, and with eight
/// crawls beside each other looks would take more of the processors than crawls.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A crawl under way; drained when dropped.
pub struct Running {
    child: Child,
    folder: PathBuf,
}

impl Running {
    pub(super) fn new(child: Child, folder: PathBuf) -> Running {
        Running { child, folder }
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// What other processes find the crawl by; waits for it to appear.
    ///
    /// # Panics
    /// When it does not.
    pub fn handle(&self) -> Handle {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            if let Ok(Some(handle)) = Handle::read(&self.data()) {
                return handle;
            }
            assert!(Instant::now() < end, "no control.json:\n{}", self.log());
            std::thread::sleep(POLL);
        }
    }

    /// A connection to its broker.
    ///
    /// # Panics
    /// When the broker does not answer.
    pub async fn client(&self) -> async_nats::Client {
        let access = Access::by_address(&self.handle().broker).expect("an address");
        access
            .options()
            .connect(access.addresses())
            .await
            .expect("the broker answers")
    }

    /// Waits for the end and reads the summary.
    ///
    /// # Panics
    /// When it does not end in time or left no summary.
    pub fn finish(mut self, at_most: Duration) -> Finished {
        let code = self.exit_code(at_most);
        let summary = std::fs::read(self.folder.join("summary.json"))
            .context("no summary")
            .and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
        match summary {
            Ok(summary) => Finished { code, summary },
            Err(error) => panic!("exit code {code}, {error}; the log says:\n{}", self.log()),
        }
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When it does not come in time.
    pub fn exit_code(&mut self, at_most: Duration) -> i32 {
        match ended_within(&mut self.child, at_most) {
            Some(status) => status.code().unwrap_or(-1),
            None => panic!(
                "still running after {at_most:?}; the log says:\n{}",
                self.log()
            ),
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// What it printed, and the last lines of each process's log.
    pub fn log(&self) -> String {
        let mut text = std::fs::read_to_string(self.folder.join("rhumb.log")).unwrap_or_default();
        for entry in std::fs::read_dir(self.data().join("logs"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let log = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(8)..].join("\n  ");
            text.push_str(&format!(
                "{}:\n  {tail}\n",
                entry.file_name().to_string_lossy()
            ));
        }
        text
    }

    /// Runs another `rhumb` command on this crawl.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn rhumb(&self, arguments: &[&str]) -> Said {
        self.rhumb_within(COMMAND_AT_MOST, arguments)
    }

    /// Runs another `rhumb` command on this crawl that may wait for processes that died.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn rhumb_within(&self, at_most: Duration, arguments: &[&str]) -> Said {
        let mut command = Command::new(binaries().join("rhumb"));
        run(
            command.args(arguments).arg("--data").arg(self.data()),
            at_most,
        )
    }

    /// Taps an edge from now on, to the crawl's end.
    ///
    /// # Panics
    /// When the program cannot be run.
    pub fn tap(&self, edge: &str) -> Tapped {
        let lines = tempfile::tempfile().expect("a temporary file");
        let child = Command::new(binaries().join("rhumb"))
            .args([
                "tap",
                edge,
                "--format",
                "json",
                "--data",
                &path_text(&self.data()),
            ])
            .stdin(Stdio::null())
            .stdout(lines.try_clone().expect("a file"))
            .spawn()
            .expect("rhumb can be started");
        Tapped { child, lines }
    }

    /// How it stands; none while it cannot be asked.
    pub fn status(&self) -> Option<Summary> {
        serde_json::from_str(&self.rhumb(&["status", "--json"]).out).ok()
    }

    /// One of the counts of a stage, from the `/metrics` of its first instance.
    ///
    /// # Panics
    /// When it does not tell.
    pub fn count(&self, stage: &str, name: &str) -> u64 {
        let process = self.instance(stage);
        metric(&process.work.as_ref().expect("a stage").listen, name)
    }

    /// What `status --check` finds wrong; nothing while the crawl cannot be asked.
    pub fn violations(&self) -> Vec<String> {
        let said = self.rhumb(&["status", "--check"]);
        said.err
            .lines()
            .filter(|line| line.starts_with("check failed"))
            .map(str::to_owned)
            .collect()
    }

    /// Waits until a condition on its state holds.
    ///
    /// # Panics
    /// When it does not come about in time, or the crawl ends before.
    pub fn until(&mut self, at_most: Duration, holds: impl Fn(&Summary) -> bool) -> Summary {
        let started = Instant::now();
        let mut last = None;
        loop {
            if let Some(summary) = self.status() {
                if holds(&summary) {
                    return summary;
                }
                last = Some(summary);
            }
            let is_over = started.elapsed() >= at_most || self.has_ended();
            assert!(
                !is_over,
                "did not come about within {at_most:?}; last: {}\n{}",
                json(&last),
                self.log()
            );
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Sends `rhumb` itself a signal.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("rhumb runs");
    }

    /// The process id of an instance of a stage, or of the broker.
    ///
    /// # Panics
    /// When it cannot be found.
    pub fn pid(&self, stage: &str) -> u32 {
        match stage {
            "broker" => self.broker_pid().expect("a broker"),
            _ => self.instance(stage).pid,
        }
    }

    fn stage_pid(&self, stage: &str) -> Option<u32> {
        self.find_instance(stage).map(|process| process.pid)
    }

    /// The first instance of a stage. One that is busy does not answer at once.
    fn instance(&self, stage: &str) -> ProcessUse {
        let end = Instant::now() + ANSWERS_WITHIN;
        loop {
            if let Some(process) = self.find_instance(stage) {
                return process;
            }
            assert!(Instant::now() < end, "no {stage} runs:\n{}", self.log());
            std::thread::sleep(POLL);
        }
    }

    fn find_instance(&self, stage: &str) -> Option<ProcessUse> {
        let processes = self.status()?.processes;
        processes.into_iter().find(|process| process.stage == stage)
    }

    /// The process that was started with this crawl's `broker.conf`.
    fn broker_pid(&self) -> Option<u32> {
        let config = path_text(&std::fs::canonicalize(self.data().join("broker.conf")).ok()?);
        command_lines().find_map(|(pid, line)| line.contains(&config).then_some(pid))
    }

    /// The processes that this `rhumb` runs of a stage, its private broker, or itself. Nobody is
    /// asked: it tells the same while the broker is away.
    pub fn pids(&self, name: &str) -> Vec<u32> {
        match name {
            "broker" => return self.broker_pid().into_iter().collect(),
            "rhumb" => return vec![self.child.id()],
            _ => {}
        }
        let supervisor = ["--supervisor".to_owned(), self.child.id().to_string()];
        let is_of = |line: &[String]| {
            let program = line.first().and_then(|path| path.rsplit('/').next());
            program == Some(name) && line.windows(2).any(|pair| pair == supervisor)
        };
        command_lines()
            .filter(|(_, line)| is_of(line))
            .map(|(pid, _)| pid)
            .collect()
    }

    /// Waits until a process has taken the place of another.
    ///
    /// # Panics
    /// When none does in time.
    pub fn until_replaced(&mut self, stage: &str, old: u32, at_most: Duration) {
        let end = Instant::now() + at_most;
        loop {
            let now = if stage == "broker" {
                self.broker_pid()
            } else {
                self.stage_pid(stage)
            };
            if now.is_some_and(|pid| pid != old) {
                return;
            }
            assert!(
                Instant::now() < end && !self.has_ended(),
                "no new {stage} within {at_most:?}:\n{}",
                self.log()
            );
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// All processes of this machine, each with its command line.
fn command_lines() -> impl Iterator<Item = (u32, Vec<String>)> {
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let arguments = line.split(|byte| *byte == 0);
            Some((
                pid,
                arguments
                    .map(|argument| String::from_utf8_lossy(argument).into_owned())
                    .collect(),
            ))
        })
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.has_ended() {
            return;
        }
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        self.signal(Signal::TERM);
        if ended_within(&mut self.child, DRAIN_AT_MOST).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// How a crawl ended.
#[derive(Debug)]
pub struct Finished {
    /// Exit code of `rhumb`; -1 after a signal.
    pub code: i32,
    /// Its `--summary`.
    pub summary: Summary,
}

/// A tap, ended when dropped.
pub struct Tapped {
    child: Child,
    lines: File,
}

impl Tapped {
    /// How many bytes it has shown so far.
    ///
    /// # Panics
    /// When nobody says.
    pub fn bytes(&self) -> u64 {
        self.lines.metadata().expect("the size of a file").len()
    }

    /// What it showed, each message in one line. A message is shown again that was published again
    /// since the broker's answer was late, as on a machine that stands still: its stream drops the
    /// copy, and so does this. The crawl has to have ended.
    ///
    /// # Panics
    /// When the tap does not end, too.
    pub fn lines(mut self) -> Vec<String> {
        assert!(
            ended_within(&mut self.child, COMMAND_AT_MOST).is_some(),
            "the tap did not end with its crawl"
        );
        let mut text = String::new();
        self.lines
            .rewind()
            .and_then(|()| self.lines.read_to_string(&mut text))
            .expect("what was written can be read");
        let mut shown = HashSet::new();
        let lines = text.lines().filter(|line| shown.insert(*line));
        lines.map(str::to_owned).collect()
    }
}

impl Drop for Tapped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Runs `rhumb` as its users do: as a command, on a data directory, against a web.
//!
//! In: a [`Profile`], arguments, signals. Out: exit codes, summaries, and what the web saw.
//!
//! Invariants: one [`World`] at a time on this machine, so that no test disturbs another's timing; whatever was
//! started has ended when its value is dropped; the folder of a failed test is kept.

use anyhow::Context as _;
use rhumb::handle::Handle;
use rhumb::status::Summary;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use synthetic_web::{Profile, Report, SyntheticWeb};
use tempfile::TempDir;

/// How long a command that asks a running crawl something may take.
const COMMAND_AT_MOST: Duration = Duration::from_secs(20);
/// How long a crawl may take to drain.
const DRAIN_AT_MOST: Duration = Duration::from_secs(45);
const POLL: Duration = Duration::from_millis(20);

/// The folder of the programs: those that were built with the running test or bench.
///
/// # Panics
/// When they have not been built.
pub fn binaries() -> PathBuf {
    let folder = rhumb::binaries::folder().expect("the folder of this program");
    assert!(
        folder.join("rhumb").exists(),
        "no rhumb in {}: run `tests/build` first (for a bench: `cargo build --release --workspace`)",
        folder.display()
    );
    folder
}

/// Waits for the machine to be free of other worlds; it is taken until the value is dropped.
///
/// # Panics
/// When the lock file in the folder of temporary files cannot be used.
pub fn alone() -> File {
    let path = std::env::temp_dir().join("rhumb-tests.lock");
    let file = File::options().create(true).truncate(false).write(true).open(path).expect("a lock file");
    flock(&file, FlockOperation::LockExclusive).expect("a lock");
    file
}

/// A synthetic web, and the folder of one crawl of it.
pub struct World {
    /// The web.
    pub web: SyntheticWeb,
    folder: TempDir,
    _alone: File,
}

impl World {
    /// Starts a web.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn new(profile: Profile) -> World {
        let alone = alone();
        let web = SyntheticWeb::start(profile).expect("a synthetic web");
        World { web, folder: TempDir::new().expect("a temporary folder"), _alone: alone }
    }

    /// The data directory of its crawl.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A crawl of the whole web: no delay, any scope, from the first host's `/`.
    pub fn crawl(&self) -> Crawl {
        self.bare("crawl").arguments(&[&self.web.seed_urls()[0]])
    }

    /// The crawl that was stopped before goes on, with the configuration that it keeps.
    pub fn resume(&self) -> Crawl {
        self.in_data("crawl").arguments(&["--resume"])
    }

    /// The pipeline without seeds.
    pub fn up(&self) -> Crawl {
        self.bare("up")
    }

    /// `rhumb crawl` or `rhumb up` with what a crawl of this web needs, without seeds.
    pub fn bare(&self, command: &str) -> Crawl {
        self.in_data(command)
            .set("network.allow_private_addresses=true")
            .set(&format!("network.nameservers=[\"{}\"]", self.web.dns()))
            .set("politeness.delay=0s")
            .set("scope.follow=any")
    }

    fn in_data(&self, command: &str) -> Crawl {
        let folder = self.folder.path().to_owned();
        let crawl = Crawl { folder, arguments: vec![command.to_owned()], environment: Vec::new() };
        if command == "crawl" { crawl.arguments(&["--summary", &path_text(&self.summary_file())]) } else { crawl }
            .arguments(&["--data", &path_text(&self.data())])
    }

    fn summary_file(&self) -> PathBuf {
        self.folder.path().join("summary.json")
    }

    /// Asserts what a perfect crawl of the whole web comes to: every URL of the truth requested once, nothing
    /// forbidden or hurried, and each counted under its outcome.
    ///
    /// # Panics
    /// When any of it does not hold.
    pub fn assert_whole(&self, finished: &Finished) {
        let report = self.web.report();
        assert!(report.ok, "{}", json(&report));
        self.assert_counted(finished);
    }

    /// Asserts that the crawl is complete and its numbers those of the truth, whatever was requested twice.
    ///
    /// # Panics
    /// When any of it does not hold.
    pub fn assert_counted(&self, finished: &Finished) {
        let Finished { code, summary } = finished;
        let report = self.web.report();
        assert_eq!(*code, 0, "exit code");
        assert!(summary.complete, "{}", json(summary));
        assert_eq!(report.missing.count, 0, "{}", json(&report));
        assert_manners(&report);
        assert_eq!(report.hosts_without_robots_first, 0, "{}", json(&report));
        assert_eq!(report.malformed + report.misdirected + report.unexpected.count, 0, "{}", json(&report));

        let truth = self.web.truth();
        assert_eq!(summary.pages, truth.pages.len() as u64, "{}", json(summary));
        assert_eq!(summary.outcomes, truth.outcomes);
        assert_conserved(summary);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.folder.disable_cleanup(true);
            eprintln!("the crawl's folder is kept: {}", self.folder.path().display());
        }
    }
}

/// Asserts that no URL is lost or counted twice (P3) in a crawl that is complete.
///
/// # Panics
/// When one is.
pub fn assert_conserved(summary: &Summary) {
    let parts = summary.urls_filtered + summary.urls_repeated + summary.urls_new;
    assert_eq!(summary.urls_found, parts, "found = filtered + repeated + new: {}", json(summary));
    let ended: u64 = summary.outcomes.values().sum();
    assert_eq!(summary.urls_new, ended, "new = outcomes: {}", json(summary));
    assert_eq!(summary.waiting + summary.in_flight, 0, "{}", json(summary));
}

/// Asserts that no server was treated against its rules (P1, P2, P5).
///
/// # Panics
/// When one was.
pub fn assert_manners(report: &Report) {
    let violations = &report.violations;
    assert_eq!((violations.robots, violations.parallel, violations.early), (0, 0, 0), "{}", json(report));
}

/// For messages.
pub fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

/// A crawl to be run.
pub struct Crawl {
    folder: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

/// How a crawl ended.
#[derive(Debug)]
pub struct Finished {
    /// Exit code of `rhumb`; -1 after a signal.
    pub code: i32,
    /// Its `--summary`.
    pub summary: Summary,
}

impl Crawl {
    /// Overrides a configuration key.
    #[must_use]
    pub fn set(self, assignment: &str) -> Crawl {
        self.arguments(&["--set", assignment])
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Crawl {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds arguments (seeds, limits).
    #[must_use]
    pub fn arguments<S: AsRef<str>>(mut self, arguments: &[S]) -> Crawl {
        self.arguments.extend(arguments.iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// When the program cannot be run.
    pub fn start(self) -> Running {
        let _ = std::fs::remove_file(self.folder.join("summary.json"));
        let log = File::options().create(true).append(true).open(self.folder.join("rhumb.log")).expect("a log file");
        let child = Command::new(binaries().join("rhumb"))
            .args(&self.arguments)
            .envs(self.environment)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log file"))
            .stderr(log)
            .spawn()
            .expect("rhumb can be started");
        Running { child, folder: self.folder }
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it cannot be run or does not end in time.
    pub fn run(self, at_most: Duration) -> Finished {
        self.start().finish(at_most)
    }
}

/// A crawl under way; drained when dropped.
pub struct Running {
    child: Child,
    folder: PathBuf,
}

impl Running {
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
            None => panic!("still running after {at_most:?}; the log says:\n{}", self.log()),
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// What it printed, and the last lines of each process's log.
    pub fn log(&self) -> String {
        let mut text = std::fs::read_to_string(self.folder.join("rhumb.log")).unwrap_or_default();
        for entry in std::fs::read_dir(self.data().join("logs")).into_iter().flatten().flatten() {
            let log = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(8)..].join("\n  ");
            text.push_str(&format!("{}:\n  {tail}\n", entry.file_name().to_string_lossy()));
        }
        text
    }

    /// Runs another `rhumb` command on this crawl.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn rhumb(&self, arguments: &[&str]) -> Said {
        let data = path_text(&self.data());
        let mut all = arguments.to_vec();
        all.extend(["--data", &data]);
        rhumb(&all)
    }

    /// Taps an edge from now on, to the crawl's end.
    ///
    /// # Panics
    /// When the program cannot be run.
    pub fn tap(&self, edge: &str) -> Tapped {
        let lines = tempfile::tempfile().expect("a temporary file");
        let child = Command::new(binaries().join("rhumb"))
            .args(["tap", edge, "--format", "json", "--data", &path_text(&self.data())])
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

    /// What `status --check` finds wrong; nothing while the crawl cannot be asked.
    pub fn violations(&self) -> Vec<String> {
        let said = self.rhumb(&["status", "--check"]);
        said.err.lines().filter(|line| line.starts_with("check failed")).map(str::to_owned).collect()
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
            assert!(!is_over, "did not come about within {at_most:?}; last: {}\n{}", json(&last), self.log());
            std::thread::sleep(POLL);
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
        let pid = if stage == "broker" { self.broker_pid() } else { self.stage_pid(stage) };
        pid.unwrap_or_else(|| panic!("no {stage} runs:\n{}", self.log()))
    }

    fn stage_pid(&self, stage: &str) -> Option<u32> {
        Some(self.status()?.processes.iter().find(|process| process.stage == stage)?.pid)
    }

    /// The process that was started with this crawl's `broker.conf`.
    fn broker_pid(&self) -> Option<u32> {
        let config = std::fs::canonicalize(self.data().join("broker.conf")).ok()?;
        let config = config.as_os_str().as_encoded_bytes();
        std::fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            line.split(|byte| *byte == 0).any(|argument| argument == config).then_some(pid)
        })
    }

    /// Waits until a process has taken the place of another.
    ///
    /// # Panics
    /// When none does in time.
    pub fn until_replaced(&mut self, stage: &str, old: u32, at_most: Duration) {
        let end = Instant::now() + at_most;
        loop {
            let now = if stage == "broker" { self.broker_pid() } else { self.stage_pid(stage) };
            if now.is_some_and(|pid| pid != old) {
                return;
            }
            assert!(Instant::now() < end && !self.has_ended(), "no new {stage} within {at_most:?}:\n{}", self.log());
            std::thread::sleep(POLL);
        }
    }
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

/// A tap, ended when dropped.
pub struct Tapped {
    child: Child,
    lines: File,
}

impl Tapped {
    /// What it showed, a message a line. The crawl has to have ended.
    ///
    /// # Panics
    /// When the tap does not end, too.
    pub fn lines(mut self) -> Vec<String> {
        assert!(ended_within(&mut self.child, COMMAND_AT_MOST).is_some(), "the tap did not end with its crawl");
        let mut text = String::new();
        self.lines.rewind().and_then(|()| self.lines.read_to_string(&mut text)).expect("what was written can be read");
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Tapped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a process that a crawl started a signal.
///
/// # Panics
/// When it has ended.
pub fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, signal).expect("the process runs");
}

/// Waits for the end of a process.
pub fn ended_within(child: &mut Child, at_most: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + at_most;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(POLL);
    }
}

/// What a command said.
#[derive(Debug)]
pub struct Said {
    /// Exit code; -1 after a signal.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs `rhumb` with these arguments.
///
/// # Panics
/// When it cannot be run or does not end in time.
pub fn rhumb<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Said {
    run(Command::new(binaries().join("rhumb")).args(arguments), COMMAND_AT_MOST)
}

/// Runs a command to its end.
///
/// # Panics
/// When it cannot be run or does not end in time.
pub fn run(command: &mut Command, at_most: Duration) -> Said {
    let file = || tempfile::tempfile().expect("a temporary file");
    let (mut out, mut err) = (file(), file());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out.try_clone().expect("a file"))
        .stderr(err.try_clone().expect("a file"))
        .spawn()
        .expect("the program can be started");
    let status = ended_within(&mut child, at_most);
    if status.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let read = |file: &mut File| {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("what was written can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (out, err) = (read(&mut out), read(&mut err));
    match status {
        Some(status) => Said { code: status.code().unwrap_or(-1), out, err },
        None => panic!("{command:?} did not end within {at_most:?}; it said:\n{out}{err}"),
    }
}

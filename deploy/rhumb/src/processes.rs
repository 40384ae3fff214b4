//! The stage processes of a crawl on this machine: started, restarted when they die, scaled,
//! drained.
//!
//! Each runs in a process group of its own, so that the terminal's Ctrl-C reaches `rhumb` alone,
//! which drains them. Their logs go to `<data>/logs/<stage>-<instance>.log`, which they close
//! themselves when it has grown.

use crate::stages::{ARCHIVER, FETCHER, owns_partitions};
use anyhow::Context as _;
use rhumb_config::identity::Misfit;
use rhumb_config::{Pipeline, VARIABLES, environment};
use rhumb_node::log_file;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

/// How a stage process is started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// Folder of the stage binaries.
    pub(crate) binaries: PathBuf,
    /// `--config`.
    pub(crate) config: PathBuf,
    /// The broker's URL. Given in the environment, where other users do not see a password in it.
    pub(crate) broker: String,
    /// Which crawl it is.
    pub(crate) crawl_id: String,
    /// `--set` assignments, the data directory among them.
    pub(crate) set: Vec<String>,
    /// Where the logs go.
    pub(crate) logs: PathBuf,
}

struct Process {
    child: Child,
    started: Instant,
}

/// One instance of one stage.
pub(crate) type Name = (String, u16);

/// The stage processes.
pub(crate) struct Processes {
    launch: Launch,
    running: BTreeMap<Name, Process>,
    /// Told to end, because fewer instances are wanted.
    ending: Vec<(Name, Child)>,
    /// To be started again, and the earliest time for it.
    due: BTreeMap<Name, Instant>,
    failures: BTreeMap<Name, u32>,
    restarts: u64,
}

/// First wait before a process that died is started again; doubles with each death in quick
/// succession.
const RESTART_WAIT: Duration = Duration::from_millis(100);
const RESTART_WAIT_MAX: Duration = Duration::from_secs(10);
/// A process that lived this long had started well: its next death counts as the first.
const LIVED_WELL: Duration = Duration::from_secs(30);
/// How long processes may drain before they are killed.
const DRAIN_MAX: Duration = Duration::from_secs(30);

impl Processes {
    /// No process yet.
    pub(crate) fn new(launch: Launch) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&launch.logs)
            .with_context(|| format!("cannot create {}", launch.logs.display()))?;
        Ok(Processes {
            launch,
            running: BTreeMap::new(),
            ending: Vec::new(),
            due: BTreeMap::new(),
            failures: BTreeMap::new(),
            restarts: 0,
        })
    }

    /// Starts the stages that own no partitions, as many instances as are configured.
    pub(crate) fn start_stateless(&mut self, pipeline: &Pipeline) -> anyhow::Result<()> {
        for (stage, common) in pipeline.stages.common() {
            if !owns_partitions(stage) {
                self.run(stage, &(0..common.replicas).collect())?;
            }
        }
        Ok(())
    }

    /// How many processes there should be.
    pub(crate) fn expected(&self) -> usize {
        self.running.len() + self.due.len()
    }

    /// Processes that died and were started again.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Starts and ends instances until `stage` has these.
    pub(crate) fn run(&mut self, stage: &str, instances: &BTreeSet<u16>) -> anyhow::Result<()> {
        for &instance in instances {
            let name = (stage.to_owned(), instance);
            if self.running.contains_key(&name) || self.due.contains_key(&name) {
                continue;
            }
            if self.is_ending(&name) {
                self.due.insert(name, Instant::now());
            } else {
                self.start(name)?;
            }
        }
        let surplus: Vec<Name> = self
            .running
            .keys()
            .chain(self.due.keys())
            .filter(|(other, instance)| other == stage && !instances.contains(instance))
            .cloned()
            .collect();
        for name in surplus {
            self.due.remove(&name);
            if let Some(process) = self.running.remove(&name) {
                terminate(&process.child);
                self.ending.push((name, process.child));
            }
        }
        Ok(())
    }

    /// The instances of a stage that there should be.
    pub(crate) fn instances(&self, stage: &str) -> BTreeSet<u16> {
        let of_stage = self
            .running
            .keys()
            .chain(self.due.keys())
            .filter(|(other, _)| other == stage);
        of_stage.map(|(_, instance)| *instance).collect()
    }

    /// Whether an earlier process of the name is still there: two would take each other's messages.
    pub(crate) fn is_ending(&self, name: &Name) -> bool {
        self.ending.iter().any(|(ending, _)| ending == name)
    }

    fn start(&mut self, name: Name) -> anyhow::Result<()> {
        let (stage, instance) = &name;
        let binary = self.launch.binaries.join(stage);
        let path = self.launch.logs.join(format!("{stage}-{instance}.log"));
        let log = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        let mut command = Command::new(&binary);
        command
            .arg("--instance")
            .arg(instance.to_string())
            .arg("--config")
            .arg(&self.launch.config);
        command
            .arg("--supervisor")
            .arg(std::process::id().to_string())
            .arg("--log")
            .arg(&path);
        command.arg("--crawl-id").arg(&self.launch.crawl_id);
        for assignment in &self.launch.set {
            command.arg("--set").arg(assignment);
        }
        // What the environment says is in the file already, below what `--set` of `rhumb` says.
        for (name, _) in environment() {
            if name.starts_with(VARIABLES) {
                command.env_remove(name);
            }
        }
        command.env(
            format!("{VARIABLES}BROKER__URL"),
            serde_json::Value::from(self.launch.broker.as_str()).to_string(),
        );
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| {
                format!(
                    "cannot start {} (build it with `cargo build --release`)",
                    binary.display()
                )
            })?;
        self.running.insert(
            name,
            Process {
                child,
                started: Instant::now(),
            },
        );
        Ok(())
    }

    /// Looks after the processes: reaps the dead, starts them again after a wait. A process that
    /// ends because its configuration or its state is bad would do so for ever: that is an error.
    pub(crate) fn look_after(&mut self) -> anyhow::Result<()> {
        self.ending
            .retain_mut(|(_, child)| matches!(child.try_wait(), Ok(None)));
        let mut dead = Vec::new();
        for (name, process) in &mut self.running {
            if let Ok(Some(status)) = process.child.try_wait() {
                dead.push((name.clone(), status, process.started.elapsed()));
            }
        }
        for (name, status, lived) in dead {
            self.running.remove(&name);
            let log = self.launch.logs.join(format!("{}-{}.log", name.0, name.1));
            if status.code() == Some(2) {
                return Err(Misfit(format!(
                    "{}.{} cannot go on: {}",
                    name.0,
                    name.1,
                    last_line(&log)
                ))
                .into());
            }
            let failures = self.failures.entry(name.clone()).or_default();
            *failures = if lived > LIVED_WELL { 1 } else { *failures + 1 };
            let wait = RESTART_WAIT
                .saturating_mul(1 << failures.saturating_sub(1).min(10))
                .min(RESTART_WAIT_MAX);
            self.restarts += 1;
            tracing::warn!(
                stage = name.0,
                instance = name.1,
                %status,
                wait_ms = wait.as_millis() as u64,
                log = %log.display(),
                last = last_line(&log),
                "a process died and is started again"
            );
            self.due.insert(name, Instant::now() + wait);
        }
        let now = Instant::now();
        let is_due = |(name, at): &(&Name, &Instant)| **at <= now && !self.is_ending(name);
        let due: Vec<Name> = self
            .due
            .iter()
            .filter(is_due)
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            self.due.remove(&name);
            self.start(name)?;
        }
        Ok(())
    }

    /// Ends the fetchers; from then on only an archiver is started again. Schedulers must still
    /// run: they take back what they offered the fetchers, and hear what these did last.
    pub(crate) async fn drain_fetchers(&mut self) {
        self.due.retain(|(stage, _), _| stage == ARCHIVER);
        self.end(|stage| stage == FETCHER).await;
    }

    /// Ends all processes but the archiver.
    pub(crate) async fn drain_all_but_archiver(&mut self) {
        self.end(|stage| stage != ARCHIVER).await;
    }

    /// Whether a process that died is to be started again.
    pub(crate) fn awaits_restart(&self) -> bool {
        !self.due.is_empty()
    }

    /// Ends all processes that are left.
    pub(crate) async fn drain(&mut self) {
        self.end(|_| true).await;
    }

    /// Ends all at once.
    pub(crate) async fn kill(&mut self) {
        for (_, mut process) in std::mem::take(&mut self.running) {
            let _ = process.child.kill().await;
        }
        for (_, mut child) in std::mem::take(&mut self.ending) {
            let _ = child.kill().await;
        }
    }

    async fn end(&mut self, is_meant: impl Fn(&str) -> bool) {
        let mut ending = std::mem::take(&mut self.ending);
        let (meant, others) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|((stage, _), _)| is_meant(stage));
        self.running = others;
        let meant: BTreeMap<Name, Process> = meant;
        for (name, process) in meant {
            terminate(&process.child);
            ending.push((name, process.child));
        }
        let end = tokio::time::Instant::now() + DRAIN_MAX;
        for ((stage, instance), mut child) in ending {
            if tokio::time::timeout_at(end, child.wait()).await.is_err() {
                tracing::warn!(
                    stage,
                    instance,
                    "did not end in time and is killed; what it had in hand is done again"
                );
                let _ = child.kill().await;
            }
        }
    }
}

fn terminate(child: &Child) {
    if let Some(pid) = child
        .id()
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(Pid::from_raw)
    {
        let _ = kill_process(pid, Signal::TERM);
    }
}

fn last_line(log: &Path) -> String {
    let read = |path: &Path| std::fs::read(path).ok().filter(|text| !text.is_empty());
    // One that was just begun has no line yet.
    let text = read(log)
        .or_else(|| read(&log_file::older(log, 1)))
        .unwrap_or_default();
    let start = text.len().saturating_sub(4096);
    String::from_utf8_lossy(&text[start..])
        .trim_end()
        .lines()
        .last()
        .unwrap_or("")
        .to_owned()
}

//! The life of a crawl on one machine: broker, streams, processes, seeds; then watched until it is complete or at
//! a limit; then drained, summed up and stopped.

use crate::broker::{Broker, BrokerOptions};
use crate::handle::{Handle, assignment, keep};
use crate::inject::{Seeds, inject};
use crate::lock::{LOCK, lock};
use crate::processes::{Launch, Processes, binaries};
use crate::progress::Progress;
use crate::status::{ProcessUse, Snapshot, Summary, Supervision, unarchived};
use anyhow::Context as _;
use async_nats::jetstream::kv;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde::{Deserialize, Serialize};
use shared::bus::{Buckets, Bus, ensure_buckets, ensure_streams, leave_unarchived, shown};
use shared::config::{Common, ConfigError, Durability, Layers, Pipeline};
use shared::stage::{Ownership, ProcessStatus, new_life};
use shared::telemetry;
use shared::url_cache::UrlCache;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// What to crawl and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The configuration, as layers, to be kept for the stage processes and for those who resume the crawl.
    pub layers: Layers,
    /// The same, read and checked, with the limits of this run.
    pub pipeline: Pipeline,
    /// Canonical seeds.
    pub seeds: Vec<String>,
    /// Their topic.
    pub topic: String,
    /// End when nothing is left to do (`crawl`), or only when told to (`up`).
    pub ends: bool,
    /// End after so long.
    pub at_most: Option<Duration>,
    /// Where the summary goes.
    pub summary: Option<PathBuf>,
}

/// Why a crawl ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Complete, or at a limit.
    Done,
    /// Ctrl-C or SIGTERM.
    Interrupted,
}

/// Asks of the supervising process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SupervisorRequest {
    /// Run so many instances of a stage.
    Scale {
        /// The stage.
        stage: String,
        /// Instances.
        replicas: u16,
    },
    /// Answer with a [`Supervision`].
    Status,
}

/// Who answers [`SupervisorRequest`]s on the control subject.
pub const SUPERVISOR: &str = "supervisor";
/// How long closing the connection to the broker may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two looks at processes.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Between two snapshots at first; grows with the crawl.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(200);
const SNAPSHOT_EVERY_MAX: Duration = Duration::from_secs(1);
/// What a stage's reason not to be ready says when the broker's disk is full.
const DISK_FULL: &str = "no space left on device";
/// How long the end of a crawl waits for the last reports to be taken in.
const LAST_LOOK_MAX: Duration = Duration::from_secs(3);
/// How long for the archiver to keep what was fetched last, once that was given to it: longer than a document waits.
const ARCHIVE_MAX: Duration = Duration::from_secs(40);
const ARCHIVE_LOOK: Duration = Duration::from_millis(50);
/// A disk with less free is full, in bytes.
const NO_ROOM: u64 = 1 << 20;
/// A full disk has room again from so much free on, in bytes.
const ROOM: u64 = 32 << 20;

/// Runs a crawl from its beginning (or from where it stopped) to its end.
pub async fn run(plan: &Plan) -> anyhow::Result<Ending> {
    let mut crawl = Crawl::start(plan).await?;
    let ending = crawl.watch().await;
    let ended = crawl.end().await;
    let ending = ending?;
    ended?;
    Ok(ending)
}

struct Crawl<'a> {
    plan: &'a Plan,
    broker: Option<Broker>,
    bus: Bus,
    processes: Processes,
    progress: Progress,
    started: Instant,
    snapshot: Snapshot,
    /// Nothing is left to do; complete, unless URLs wait for larger budgets.
    is_over: bool,
    complete: bool,
    /// The streams' last sequences at the latest snapshot, when nothing was left to do.
    quiet_at: Option<BTreeMap<String, u64>>,
    /// Nothing is started again while it is: it would only end again.
    disk_is_full: bool,
    /// Last known use of processes, by id: of those that have ended, too.
    uses: BTreeMap<u32, ProcessUse>,
    broker_restarts: u64,
    /// Nobody else runs this crawl on the broker.
    lease: Option<Ownership>,
    /// Nobody else runs a crawl in the data directory.
    _lock: File,
}

impl<'a> Crawl<'a> {
    async fn start(plan: &'a Plan) -> anyhow::Result<Crawl<'a>> {
        let stages = &plan.pipeline.stages;
        for (key, cache) in [("host-splitter", &stages.host_splitter.cache), ("dedup", &stages.dedup.cache)] {
            // Before anything starts: a stage would find out when the crawl is under way.
            UrlCache::open(&format!("stages.{key}.cache"), cache)?;
        }
        scheduler::quality::Provider::open(&stages.scheduler)?;
        for (stage, common) in stages.common() {
            check_ports(stage, common, common.replicas)?;
        }
        let data = &plan.pipeline.data;
        std::fs::create_dir_all(data)
            .with_context(|| format!("cannot create the data directory {}", data.display()))?;
        let data = std::fs::canonicalize(data).with_context(|| format!("cannot find {}", data.display()))?;
        let lock = lock(&data.join(LOCK)).await?;

        let broker =
            if plan.pipeline.broker.url.is_empty() { Some(start_broker(&plan.pipeline, &data).await?) } else { None };
        let url = broker.as_ref().map_or(plan.pipeline.broker.url.as_str(), Broker::url).to_owned();
        let bus = Bus::connect(&url, &plan.pipeline, "rhumb").await?;
        let (wanted, max_payload) = (plan.pipeline.broker.max_payload, bus.max_payload(&plan.pipeline));
        if max_payload < wanted {
            tracing::warn!(
                "the broker takes messages of at most {max_payload} (max_payload in its configuration), not the {wanted} of \
                 broker.max_payload: longer pages are cut there"
            );
        }
        ensure_streams(&bus, &plan.pipeline).await?;
        leave_unarchived(&bus, &plan.pipeline).await?;
        let Buckets { leases, lease, .. } = ensure_buckets(&bus, plan.pipeline.ownership_lease).await?;
        if broker.is_some() {
            // Of a `rhumb` that was killed: the lock on the data directory says that it is gone.
            let _ = leases.purge(format!("{SUPERVISOR}.0")).await;
        }
        let lease = Some(take_lease(leases, lease, &plan.pipeline, &url).await?);

        keep(&plan.layers, &data)?;
        let set = vec![
            assignment("data", &data.display().to_string()),
            format!("limits.max_pages={}", plan.pipeline.limits.max_pages),
        ];
        let seeds = Seeds::keep(&data, &plan.seeds)?;
        let (config, logs) = (Pipeline::kept_file(&data), data.join("logs"));
        let mut processes = Processes::new(Launch { binaries: binaries()?, config, broker: url.clone(), set, logs })?;
        processes.start_all(&plan.pipeline)?;
        Handle { broker: url, crawl: plan.pipeline.crawl.clone() }.write(&data)?;
        inject(&bus, &plan.topic, &seeds.urls, 0).await?;
        seeds.stored()?;
        Ok(Crawl {
            plan,
            broker,
            bus,
            processes,
            progress: Progress::new(),
            started: Instant::now(),
            snapshot: Snapshot::default(),
            is_over: false,
            complete: false,
            quiet_at: None,
            disk_is_full: false,
            uses: BTreeMap::new(),
            broker_restarts: 0,
            lease,
            _lock: lock,
        })
    }

    /// Until complete, at a limit, or interrupted.
    async fn watch(&mut self) -> anyhow::Result<Ending> {
        let mut requests = self.bus.client.subscribe(self.bus.subjects.control(SUPERVISOR)).await?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (plan, bus) = (self.plan, self.bus.clone());
        // At most one at a time. A process that is away makes it wait: not the supervision.
        let mut snapshots = FuturesUnordered::new();
        let mut next_snapshot = Instant::now();
        loop {
            tokio::select! {
                _ = interrupt.recv() => return Ok(Ending::Interrupted),
                _ = terminate.recv() => return Ok(Ending::Interrupted),
                Some(request) = requests.next() => self.answer(request).await,
                Some(snapshot) = snapshots.next() => {
                    // A broker that is away is no reason to end: the next look may find it back.
                    let quiet = match snapshot {
                        Ok(snapshot) => self.learn(snapshot),
                        Err(_) => false,
                    };
                    next_snapshot = Instant::now() + if quiet { LOOK_EVERY } else { self.snapshot_every() };
                }
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if plan.ends && (self.is_over || self.at_limit()) {
                return Ok(Ending::Done);
            }
            if self.lease.as_ref().is_some_and(Ownership::is_lost) {
                anyhow::bail!("another rhumb has taken over the crawl '{}' on its broker", plan.pipeline.crawl);
            }
            self.look_after_disk().await?;
            if !self.disk_is_full {
                self.processes.look_after()?;
                self.look_after_broker().await?;
            }
            if snapshots.is_empty() && next_snapshot <= Instant::now() && self.bus.is_connected() {
                snapshots.push(Snapshot::take(&bus, &plan.pipeline, Some(self.processes.expected())));
            }
        }
    }

    fn snapshot_every(&self) -> Duration {
        (self.started.elapsed() / 20).clamp(SNAPSHOT_EVERY, SNAPSHOT_EVERY_MAX)
    }

    fn at_limit(&self) -> bool {
        let limit = self.plan.pipeline.limits.max_pages;
        limit > 0 && self.snapshot.summary().pages >= limit
            || self.plan.at_most.is_some_and(|at_most| self.started.elapsed() >= at_most)
    }

    /// Takes a snapshot in: whether nothing was left to do in it. Twice in a row with the same last sequences, that
    /// is so.
    fn learn(&mut self, snapshot: Snapshot) -> bool {
        self.remember(snapshot);
        let quiet = self.snapshot.is_quiet(&self.plan.pipeline, self.processes.expected());
        self.is_over = quiet && self.quiet_at.as_ref() == Some(&self.snapshot.last_sequences);
        self.complete = self.is_over && self.snapshot.summary().waiting == 0;
        self.quiet_at = quiet.then(|| self.snapshot.last_sequences.clone());
        self.progress.show(&self.summary());
        quiet
    }

    fn remember(&mut self, snapshot: Snapshot) {
        for used in snapshot.summary().processes {
            self.uses.insert(used.pid, used);
        }
        if let Some(used) = self.broker.as_ref().and_then(broker_use) {
            self.uses.insert(used.pid, used);
        }
        // Processes that could not answer just now keep their last known numbers: totals do not go back.
        let answered: Vec<(String, u16)> = snapshot.processes.iter().map(|p| (p.stage.clone(), p.instance)).collect();
        let is_owner = |stage: &str| stage == "dedup" || stage == "scheduler";
        let silent = self
            .snapshot
            .processes
            .iter()
            .filter(|p| is_owner(&p.stage) && !answered.contains(&(p.stage.clone(), p.instance)))
            .map(|p| ProcessStatus { idle: false, ..p.clone() });
        let mut snapshot = snapshot;
        snapshot.processes.extend(silent);
        self.snapshot = snapshot;
    }

    fn summary(&self) -> Summary {
        Summary {
            restarts: self.restarts(),
            elapsed_s: self.started.elapsed().as_secs_f64(),
            complete: self.complete,
            processes: self.uses.values().cloned().collect(),
            ..self.snapshot.summary()
        }
    }

    fn restarts(&self) -> u64 {
        self.processes.restarts() + self.broker_restarts
    }

    fn supervision(&self) -> Supervision {
        Supervision {
            restarts: self.restarts(),
            elapsed_s: self.started.elapsed().as_secs_f64(),
            broker: self.broker.as_ref().and_then(broker_use),
        }
    }

    async fn look_after_broker(&mut self) -> anyhow::Result<()> {
        if let Some(broker) = &mut self.broker
            && let Some(status) = broker.try_wait()
        {
            tracing::warn!(%status, "the broker died and is started again");
            self.broker_restarts += 1;
            broker.restart().await?;
        }
        Ok(())
    }

    /// Notices a full disk, and that it has room again. A nats-server that met a full disk refuses what it is sent
    /// until it is started anew (2.15.1: a stream keeps its first write error).
    async fn look_after_disk(&mut self) -> anyhow::Result<()> {
        let plan = self.plan;
        let pipeline = &plan.pipeline;
        let archive = pipeline.archive_dir();
        let is_archived = pipeline.stages.archiver.replicas > 0;
        let folders = std::iter::once(&pipeline.data).chain(is_archived.then_some(&archive));
        let rooms = folders.map(|folder| (bytes_free(folder), folder));
        let (free, folder) = rooms.min_by_key(|(free, _)| *free).unwrap_or((u64::MAX, &pipeline.data));
        let broker_says_full = self.snapshot.processes.iter().any(|process| process.reason.contains(DISK_FULL));
        if !self.disk_is_full && (free < NO_ROOM || broker_says_full) {
            self.disk_is_full = true;
            let room = ROOM >> 20;
            match self.broker {
                Some(_) => tracing::error!("the disk of {} is full: the crawl waits for {room} MiB", folder.display()),
                None => tracing::error!(
                    "the disk of the broker or of {} is full: free {room} MiB, then restart the broker",
                    folder.display()
                ),
            }
        }
        if self.disk_is_full && free >= ROOM && (self.broker.is_some() || !broker_says_full) {
            tracing::info!("the disk has room again: the crawl goes on");
            if let Some(broker) = &mut self.broker {
                broker.restart().await?;
            }
            // What the processes said is outdated.
            self.snapshot.processes.iter_mut().for_each(|process| process.reason.clear());
            self.disk_is_full = false;
        }
        Ok(())
    }

    async fn answer(&mut self, request: async_nats::Message) {
        let answer = match serde_json::from_slice(&request.payload) {
            Ok(SupervisorRequest::Scale { stage, replicas }) => {
                self.scale(&stage, replicas).map_or_else(|error| format!("{error:#}"), |()| String::new()).into_bytes()
            }
            Ok(SupervisorRequest::Status) => serde_json::to_vec(&self.supervision()).unwrap_or_default(),
            Err(_) => return,
        };
        if let Some(reply) = request.reply {
            let _ = self.bus.client.publish(reply, answer.into()).await;
        }
    }

    fn scale(&mut self, stage: &str, replicas: u16) -> anyhow::Result<()> {
        let stages = self.plan.pipeline.stages.common();
        let Some((_, common)) = stages.into_iter().find(|(known, _)| *known == stage) else {
            anyhow::bail!("there is no stage '{stage}'");
        };
        match stage {
            "dedup" | "scheduler" => anyhow::bail!(
                "{stage} owns the partitions' state: its replicas are fixed for the life of a crawl (stages.{stage}.replicas)"
            ),
            "archiver" if (self.plan.pipeline.stages.archiver.replicas == 0) != (replicas == 0) => anyhow::bail!(
                "whether there is an archiver is fixed for a run: stop it and go on with --resume --set \
                 stages.archiver.replicas={replicas}"
            ),
            _ => {
                check_ports(stage, common, replicas)?;
                self.processes.scale(stage, replicas)
            }
        }
    }

    /// Ends all processes. The fetchers first: what they did last then goes into the summary. The archiver last.
    async fn drain(&mut self) {
        self.processes.drain_fetchers().await;
        let end = Instant::now() + LAST_LOOK_MAX;
        while !self.is_over && Instant::now() < end && self.bus.is_connected() {
            let look = Snapshot::take(&self.bus, &self.plan.pipeline, Some(self.processes.expected()));
            if let Ok(snapshot) = look.await {
                let is_last = snapshot.backlog.get("fetch.reports") == Some(&0) && snapshot.summary().in_flight == 0;
                self.remember(snapshot);
                if is_last {
                    break;
                }
            }
        }
        self.processes.drain_all_but_archiver().await;
        self.archive_the_rest().await;
        self.processes.drain().await;
    }

    /// Gives the archiver time for what the others did last: a crawl that ended at a limit may never go on.
    async fn archive_the_rest(&mut self) {
        let pipeline = &self.plan.pipeline;
        if pipeline.stages.archiver.replicas == 0 {
            return;
        }
        // What one had that was killed is given out again after that.
        let edges = &pipeline.edges;
        let given_again = edges.pages.ack_wait.max(edges.documents.ack_wait).max(edges.outcomes.ack_wait);
        let end = Instant::now() + given_again + ARCHIVE_MAX;
        let mut left = None;
        // One that died finishes its file when it is there again.
        while (left != Some(0) || self.processes.awaits_restart()) && Instant::now() < end && self.bus.is_connected() {
            if let Err(error) = self.processes.look_after() {
                tracing::error!("{error:#}");
                break;
            }
            left = unarchived(&self.bus, pipeline).await.ok();
            tokio::time::sleep(ARCHIVE_LOOK).await;
        }
        if left != Some(0) {
            tracing::warn!("what was fetched last is not archived yet: --resume goes on with it");
        }
    }

    /// Drains and stops all, and writes the summary.
    async fn end(&mut self) -> anyhow::Result<()> {
        self.progress.finish();
        tokio::select! {
            () = self.drain() => {}
            _ = tokio::signal::ctrl_c() => {
                tracing::warn!("the processes that are left are killed; what they have in hand is done again");
                self.processes.kill().await;
            }
        }
        let summary = self.summary();
        if let Some(lease) = self.lease.take() {
            lease.release().await;
        }
        // Closed first: a broker that is stopped on purpose is no news.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.bus.client.drain()).await;
        if let Some(broker) = &mut self.broker {
            broker.stop().await?;
        }
        Handle::remove(&self.plan.pipeline.data);
        if let Some(path) = &self.plan.summary {
            std::fs::write(path, serde_json::to_vec_pretty(&summary)?)
                .with_context(|| format!("cannot write the summary to {}", path.display()))?;
        }
        let outcomes: Vec<String> =
            summary.outcomes.iter().filter(|(_, n)| **n > 0).map(|(name, n)| format!("{name} {n}")).collect();
        let _ = writeln!(
            std::io::stdout(),
            "{} in {:.1} s: {} pages, {} bytes; outcomes: {}; waiting {}{}",
            if summary.complete { "complete" } else { "stopped" },
            summary.elapsed_s,
            summary.pages,
            summary.bytes,
            if outcomes.is_empty() { "none".to_owned() } else { outcomes.join(", ") },
            summary.waiting + summary.in_flight,
            match summary.waiting_over_budget {
                0 => String::new(),
                urls => format!(" ({urls} over budget)"),
            },
        );
        Ok(())
    }
}

/// Instances on one machine each need a port of their own.
fn check_ports(stage: &str, common: Common, replicas: u16) -> anyhow::Result<()> {
    if replicas > 1 && common.listen.port() != 0 {
        let listen = common.listen;
        return Err(ConfigError::Range(vec![format!(
            "configuration key stages.{stage}.listen = {listen}: {replicas} instances here cannot share a port; accepted is \
             port 0, for a free one each"
        )])
        .into());
    }
    Ok(())
}

/// Takes the lease of the crawl's supervisor, waiting for that of a `rhumb` that was killed to end.
async fn take_lease(
    leases: kv::Store,
    lease: Duration,
    pipeline: &Pipeline,
    broker: &str,
) -> anyhow::Result<Ownership> {
    let life = new_life(SUPERVISOR);
    match tokio::time::timeout(lease * 3 / 2, Ownership::take(leases, SUPERVISOR, 0, life, lease)).await {
        Ok(taken) => taken,
        Err(_) => anyhow::bail!(
            "another rhumb runs the crawl '{}' on {}: give this one a name of its own (--set crawl=NAME)",
            pipeline.crawl,
            shown(broker)
        ),
    }
}

/// Room on the disk of a directory, in bytes; plenty when nobody can tell.
fn bytes_free(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn broker_use(broker: &Broker) -> Option<ProcessUse> {
    let (cpu_s, peak_rss_bytes) = telemetry::process_usage(broker.pid())?;
    Some(ProcessUse { stage: "broker".into(), instance: 0, pid: broker.pid(), cpu_s, peak_rss_bytes })
}

async fn start_broker(pipeline: &Pipeline, data: &Path) -> anyhow::Result<Broker> {
    let mut options = BrokerOptions::new(data);
    options.sync_interval = match pipeline.durability {
        Durability::Process => pipeline.broker.sync_interval,
        Durability::Power => Duration::ZERO,
    };
    options.max_payload = u32::try_from(pipeline.broker.max_payload.0).unwrap_or(u32::MAX);
    Broker::start(options).await.context("the private broker cannot be started")
}

//! The life of a crawl on one machine.
//!
//! In: a [`Plan`]; signals, and what the operator asks while it runs. Out: why it ended, and a summary.
//!
//! Flow: `start` brings up broker, streams, processes and seeds. Then the crawl is watched until it is complete or at a
//! limit: processes and broker that die are started again, and a full disk is waited for. Then it is drained, summed up
//! and stopped.

mod bystanders;
mod disk;
mod elsewhere;
mod membership;
mod partitions;
mod plan;
mod ports;
mod progress;
mod standing;
mod start;
mod tide;

pub(crate) use disk::PROBE;
pub(crate) use membership::KEPT;
pub(crate) use partitions::OWNERS;
pub(crate) use plan::{EndReason, Plan};
pub(crate) use tide::TIDE;

use crate::broker::Broker;
use crate::control::{SupervisorRequest, supervisor_requests};
use crate::handle::Handle;
use crate::processes::Processes;
use crate::stages::{ARCHIVER, owns_partitions};
use crate::status::{ProcessUse, Snapshot, Summary, Supervision, unarchived};
use anyhow::Context as _;
use bystanders::{Bystanders, Leaving};
use disk::{Disk, DiskChange, FULL, ROOM_MIB};
use futures::stream::{FuturesUnordered, StreamExt as _};
use partitions::Partitions;
use ports::check_ports;
use progress::Progress;
use shared::bus::{Bus, Interested, remove_consumer};
use shared::identity::Misfit;
use shared::message::Edge;
use shared::process;
use shared::stage::Ownership;
use standing::Standing;
use start::{Parts, start};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};
use tide::Tide;
use tokio::signal::unix::{SignalKind, signal};

/// How long closing the connection to the broker may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two looks at processes.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Between two snapshots at first; grows with the crawl.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(200);
const SNAPSHOT_EVERY_MAX: Duration = Duration::from_secs(1);
/// How long the end of a crawl waits until the last reports are taken in, and until the broker tells of its streams.
const LAST_LOOK_MAX: Duration = Duration::from_secs(3);
/// How long the archiver may take to keep what it was given last: longer than a document waits.
const ARCHIVE_MAX: Duration = Duration::from_secs(40);
const ARCHIVE_LOOK: Duration = Duration::from_millis(50);

/// Runs a crawl from its beginning, or from where it stopped, to its end.
///
/// # Errors
/// It cannot be started; a process cannot go on; another `rhumb` took the crawl over; the summary cannot be written; URLs are
/// unaccounted for in the end (P3).
pub(crate) async fn run(plan: &Plan) -> anyhow::Result<EndReason> {
    let mut crawl = Crawl::new(plan, start(plan).await?);
    let reason = crawl.watch().await;
    let ended = crawl.end(reason.is_ok()).await;
    let reason = reason?;
    ended?;
    let violations = crawl.standing.violations();
    anyhow::ensure!(
        violations.is_empty(),
        "the crawl has ended, and URLs are unaccounted for: {}; what was lost cannot be found again in this crawl",
        violations.join("; ")
    );
    Ok(reason)
}

struct Crawl<'a> {
    plan: &'a Plan,
    broker: Option<Broker>,
    bus: Bus,
    processes: Processes,
    tide: Tide,
    progress: Progress,
    standing: Standing,
    bystanders: Bystanders,
    partitions: Partitions,
    /// Nothing is started again while it is full: it would only end again.
    disk: Disk,
    broker_restarts: u64,
    lease: Option<Ownership>,
    _lock: File,
}

impl<'a> Crawl<'a> {
    fn new(plan: &'a Plan, parts: Parts) -> Self {
        let pipeline = &plan.pipeline;
        let mut folders = vec![pipeline.data.clone()];
        if pipeline.stages.archiver.replicas > 0 {
            folders.push(pipeline.archive_dir());
        }
        Crawl {
            plan,
            broker: parts.broker,
            bus: parts.bus,
            processes: parts.processes,
            tide: parts.tide,
            progress: Progress::new(),
            standing: Standing::new(),
            bystanders: Bystanders::default(),
            partitions: parts.partitions,
            disk: Disk::new(folders),
            broker_restarts: 0,
            lease: Some(parts.lease),
            _lock: parts.lock,
        }
    }

    /// Looks after the crawl until it is complete, at a limit, or interrupted.
    async fn watch(&mut self) -> anyhow::Result<EndReason> {
        let mut requests = supervisor_requests(&self.bus).await?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (plan, bus) = (self.plan, self.bus.clone());
        // At most one at a time. A process that is away makes it wait: not the supervision.
        let mut snapshots = FuturesUnordered::new();
        let mut next_snapshot = Instant::now();
        loop {
            tokio::select! {
                _ = interrupt.recv() => return Ok(EndReason::Interrupted),
                _ = terminate.recv() => return Ok(EndReason::Interrupted),
                Some(request) = requests.next() => self.answer(request).await,
                Some(snapshot) = snapshots.next() => {
                    let quiet = self.take_in(snapshot).await?;
                    next_snapshot = Instant::now() + if quiet { LOOK_EVERY } else { self.snapshot_every() };
                }
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if plan.ends && (self.standing.is_over() || self.at_limit()) {
                return Ok(EndReason::Done);
            }
            if self.lease.as_ref().is_some_and(Ownership::is_lost) {
                anyhow::bail!("another rhumb has taken over the crawl '{}' on its broker", plan.pipeline.crawl);
            }
            self.look_after_disk().await?;
            if !self.disk.is_full() {
                self.processes.look_after()?;
                if self.bus.is_connected() {
                    self.partitions.look_after(&mut self.processes, &mut self.standing).await?;
                }
                self.look_after_broker().await?;
            }
            if snapshots.is_empty() && next_snapshot <= Instant::now() && self.bus.is_connected() {
                snapshots.push(Snapshot::take(&bus, &plan.pipeline, Some(self.expected())));
            }
        }
    }

    fn snapshot_every(&self) -> Duration {
        (self.standing.elapsed() / 20).clamp(SNAPSHOT_EVERY, SNAPSHOT_EVERY_MAX)
    }

    fn at_limit(&self) -> bool {
        let limit = self.plan.pipeline.limits.max_pages;
        limit > 0 && self.standing.pages() >= limit
            || self.plan.at_most.is_some_and(|at_most| self.standing.elapsed() >= at_most)
    }

    /// Takes in what a look brought. Returns whether nothing was left to do in it.
    ///
    /// # Errors
    /// A stream has become shorter.
    async fn take_in(&mut self, looked: anyhow::Result<Snapshot>) -> anyhow::Result<bool> {
        // A broker that is away is no reason to end: the next look may find it back.
        let Ok(snapshot) = looked else { return Ok(false) };
        self.look_after_consumers(&snapshot.consumers).await;
        self.learn(snapshot)
    }

    /// Takes a snapshot in and shows it. Returns whether nothing was left to do in it.
    ///
    /// # Errors
    /// A stream has become shorter.
    fn learn(&mut self, snapshot: Snapshot) -> anyhow::Result<bool> {
        self.tide.learn(&snapshot.last_sequences)?;
        let quiet = self.standing.learn(snapshot, self.broker_use(), &self.plan.pipeline, self.expected());
        self.progress.show(&self.summary());
        Ok(quiet)
    }

    /// How many processes there should be, here and on other machines.
    fn expected(&self) -> usize {
        self.processes.expected() + self.partitions.elsewhere().count()
    }

    fn summary(&self) -> Summary {
        Summary { consumers_removed: self.bystanders.removed().to_vec(), ..self.standing.summary(self.restarts()) }
    }

    fn restarts(&self) -> u64 {
        self.processes.restarts() + self.broker_restarts
    }

    fn broker_use(&self) -> Option<ProcessUse> {
        let pid = self.broker.as_ref()?.pid();
        let (cpu_s, peak_rss_bytes) = process::usage(pid)?;
        Some(ProcessUse { stage: "broker".into(), instance: 0, pid, cpu_s, peak_rss_bytes, work: None })
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

    /// Removes optional consumers that hold the crawl back (P8).
    async fn look_after_consumers(&mut self, consumers: &[Interested]) {
        for leaving in self.bystanders.judge(Instant::now(), consumers, &self.plan.pipeline) {
            let Leaving { edge, name, reason } = &leaving;
            match remove_consumer(&self.bus, *edge, name).await {
                Ok(()) => {
                    tracing::warn!("the optional consumer {name} of {} is removed: {reason}", edge.name());
                    self.bystanders.left(&leaving);
                }
                // It is tried again with the next look.
                Err(error) => tracing::debug!(consumer = name, "cannot be removed: {error:#}"),
            }
        }
    }

    /// Says that a disk is full, and goes on when there is room again. A nats-server that met a full disk refuses what it
    /// is sent until it is started anew (2.15.1: a stream keeps its first write error).
    async fn look_after_disk(&mut self) -> anyhow::Result<()> {
        let says_full = |standing: &Standing| FULL.iter().any(|words| standing.says(words));
        while let Some(change) = self.disk.look(self.restarts(), says_full(&self.standing), self.broker.is_some()) {
            match (change, &mut self.broker) {
                (DiskChange::Full(folder), Some(_)) => {
                    tracing::error!(
                        "the disk of {} is full, or a quota there is used up: the crawl waits for {ROOM_MIB} MiB",
                        folder.display()
                    );
                }
                (DiskChange::Full(folder), None) => tracing::error!(
                    "the disk of the broker or of {} is full, or a quota there is used up: free {ROOM_MIB} MiB, then restart \
                     the broker",
                    folder.display()
                ),
                (DiskChange::Room, broker) => {
                    tracing::info!("the disk has room again: the crawl goes on");
                    if let Some(broker) = broker {
                        broker.restart().await?;
                    }
                    self.standing.forget_reasons();
                }
            }
        }
        Ok(())
    }

    /// Looks whether the streams are what they were when all has ended. A broker that does not answer is no news.
    ///
    /// # Errors
    /// One is not.
    async fn last_look(&mut self, has_ended_well: bool) -> Result<(), Misfit> {
        if self.bus.is_connected() && has_ended_well {
            let looked = tokio::time::timeout(LAST_LOOK_MAX, self.tide.look(&self.bus)).await;
            if let Ok(Err(error)) = looked
                && let Ok(misfit) = error.downcast::<Misfit>()
            {
                return Err(misfit);
            }
        }
        self.tide.write();
        Ok(())
    }

    async fn answer(&mut self, request: async_nats::Message) {
        let answer = match serde_json::from_slice(&request.payload) {
            Ok(SupervisorRequest::Scale { stage, replicas, without }) => {
                let scaled = self.scale(&stage, replicas, &without).await;
                scaled.map_or_else(|error| format!("{error:#}"), |()| String::new()).into_bytes()
            }
            Ok(SupervisorRequest::Move { stage, partitions, to }) => {
                let sent = self.partitions.send(&stage, &partitions, to).await;
                sent.map_or_else(|error| format!("{error:#}"), |()| String::new()).into_bytes()
            }
            Ok(SupervisorRequest::Split { partitions }) => {
                let split = self.partitions.split(&partitions).await;
                split.map_or_else(|error| format!("{error:#}"), |()| String::new()).into_bytes()
            }
            Ok(SupervisorRequest::Status) => serde_json::to_vec(&self.supervision()).unwrap_or_default(),
            Err(_) => return,
        };
        if let Some(reply) = request.reply {
            let _ = self.bus.client.publish(reply, answer.into()).await;
        }
    }

    fn supervision(&self) -> Supervision {
        Supervision {
            restarts: self.restarts(),
            elapsed_s: self.standing.elapsed().as_secs_f64(),
            broker: self.broker_use(),
            consumers_removed: self.bystanders.removed().to_vec(),
            elsewhere: self.partitions.elsewhere().in_words(),
        }
    }

    async fn scale(&mut self, stage: &str, replicas: u16, without: &BTreeSet<u16>) -> anyhow::Result<()> {
        let stages = self.plan.pipeline.stages.common();
        let Some((_, common)) = stages.into_iter().find(|(known, _)| *known == stage) else {
            anyhow::bail!("there is no stage '{stage}'");
        };
        if stage == ARCHIVER && (self.plan.pipeline.stages.archiver.replicas == 0) != (replicas == 0) {
            anyhow::bail!(
                "whether there is an archiver is fixed for a run: stop it and go on with --resume --set \
                 stages.archiver.replicas={replicas}"
            );
        }
        check_ports(stage, common, replicas)?;
        if owns_partitions(stage) {
            return self.partitions.want(stage, replicas, without).await;
        }
        self.processes.run(stage, &(0..replicas).collect())
    }

    /// Drains and stops all, and writes the summary. `has_ended_well`: no part of the crawl was missing.
    async fn end(&mut self, has_ended_well: bool) -> anyhow::Result<()> {
        self.progress.finish();
        tokio::select! {
            () = self.drain() => {}
            _ = tokio::signal::ctrl_c() => {
                tracing::warn!("the processes that are left are killed; what they have in hand is done again");
                self.processes.kill().await;
            }
        }
        let looked = self.last_look(has_ended_well).await;
        let mut summary = self.summary();
        summary.complete &= looked.is_ok();
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
        let _ = writeln!(std::io::stdout(), "{}", last_line(&summary));
        Ok(looked?)
    }

    /// Ends all processes: the fetchers first, so that the summary has what they did last, and the archiver last.
    async fn drain(&mut self) {
        self.processes.drain_fetchers().await;
        let end = Instant::now() + LAST_LOOK_MAX;
        while !self.standing.is_over() && Instant::now() < end && self.bus.is_connected() {
            let look = Snapshot::take(&self.bus, &self.plan.pipeline, Some(self.expected()));
            if let Ok(snapshot) = look.await {
                let is_last =
                    snapshot.backlog.get(Edge::FetchReports.name()) == Some(&0) && snapshot.summary().in_flight == 0;
                self.standing.remember(snapshot, self.broker_use(), &self.plan.pipeline);
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
        // The broker gives out again what an archiver that was killed had in hand, but not earlier.
        let edges = &pipeline.edges;
        let given_again = edges.pages.ack_wait.max(edges.documents.ack_wait).max(edges.outcomes.ack_wait);
        let end = Instant::now() + given_again + ARCHIVE_MAX;
        let mut left = None;
        // An archiver that died finishes its file when it is there again.
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
}

/// The line that a crawl ends with.
fn last_line(summary: &Summary) -> String {
    let outcomes = summary.outcomes_text(", ");
    format!(
        "{} in {:.1} s: {} pages, {} bytes; outcomes: {}; waiting {}{}{}",
        if summary.complete { "complete" } else { "stopped" },
        summary.elapsed_s,
        summary.pages,
        summary.bytes,
        if outcomes.is_empty() { "none" } else { &outcomes },
        summary.waiting + summary.in_flight,
        match summary.waiting_over_budget {
            0 => String::new(),
            urls => format!(" ({urls} over budget)"),
        },
        match summary.lost_text() {
            Some(lost) => format!("; {lost}"),
            None => String::new(),
        },
    )
}

//! What of a crawl runs on this machine: the private broker, the stage processes, their spools, and
//! the disk that they write to.
//!
//! In: looks, now and then. Out: what died is started again, and a full disk is waited for.
//! Invariant: nothing is started again while the disk is full, since it would only end again.

use super::disk::{Disk, DiskChange, FULL, ROOM_MIB};
use super::standing::Standing;
use crate::broker::Broker;
use crate::processes::Processes;
use crate::status::{ProcessUse, unarchived};
use rhumb_bus::Bus;
use rhumb_bus::spool::Sweeper;
use rhumb_config::Pipeline;
use rhumb_telemetry::process;
use std::fs::File;
use std::time::{Duration, Instant};

/// How long the archiver may take to keep what it was given last: longer than a document waits.
const ARCHIVE_MAX: Duration = Duration::from_secs(40);
const ARCHIVE_LOOK: Duration = Duration::from_millis(50);
/// How often the spools are swept, and how long the broker may take to say what its streams hold.
const SWEEP_EVERY: Duration = Duration::from_millis(250);
const SWEEP_MAX: Duration = Duration::from_secs(1);

/// What runs here.
pub(super) struct Here {
    /// The private broker; none where the operator has one.
    pub(super) broker: Option<Broker>,
    /// The stages.
    pub(super) processes: Processes,
    /// What removes the files of large messages that nobody waits for any more; none without a
    /// private broker.
    sweeper: Option<Sweeper>,
    next_sweep: Instant,
    disk: Disk,
    broker_restarts: u64,
    /// While it lasts nobody else runs a crawl in the data directory.
    _lock: File,
}

impl Here {
    /// All of it runs.
    pub(super) fn new(
        broker: Option<(Broker, Sweeper)>,
        processes: Processes,
        lock: File,
        pipeline: &Pipeline,
    ) -> Self {
        let (broker, sweeper) = broker.unzip();
        let mut folders = vec![pipeline.data.clone()];
        if pipeline.stages.archiver.replicas > 0 {
            folders.push(pipeline.archive_dir());
        }
        let disk = Disk::new(folders);
        let next_sweep = Instant::now();
        Here {
            broker,
            processes,
            sweeper,
            next_sweep,
            disk,
            broker_restarts: 0,
            _lock: lock,
        }
    }

    /// Processes that died and were started again, the broker among them.
    pub(super) fn restarts(&self) -> u64 {
        self.processes.restarts() + self.broker_restarts
    }

    /// What the private broker has used.
    pub(super) fn broker_use(&self) -> Option<ProcessUse> {
        let pid = self.broker.as_ref()?.pid();
        let (cpu_s, peak_rss_bytes) = process::usage(pid)?;
        Some(ProcessUse {
            stage: "broker".into(),
            instance: 0,
            pid,
            host: None,
            cpu_s,
            peak_rss_bytes,
            work: None,
        })
    }

    /// Returns whether the disk was full at the latest look.
    pub(super) fn is_full(&self) -> bool {
        self.disk.is_full()
    }

    /// Starts again what died.
    ///
    /// # Errors
    /// A process cannot go on, or cannot be started.
    pub(super) async fn look_after(&mut self) -> anyhow::Result<()> {
        self.processes.look_after()?;
        if let Some(broker) = &mut self.broker
            && let Some(status) = broker.try_wait()
        {
            tracing::warn!(%status, "the broker died and is started again");
            self.broker_restarts += 1;
            broker.restart().await?;
        }
        Ok(())
    }

    /// Removes files of large messages that nobody waits for any more. A broker that is away is
    /// asked again later.
    pub(super) async fn sweep(&mut self, bus: &Bus) {
        let Some(sweeper) = self
            .sweeper
            .as_mut()
            .filter(|_| bus.is_connected() && self.next_sweep <= Instant::now())
        else {
            return;
        };
        match tokio::time::timeout(SWEEP_MAX, sweeper.sweep(bus)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!("the spools cannot be swept: {error:#}"),
            Err(_) => tracing::debug!("the spools cannot be swept: the broker does not answer"),
        }
        self.next_sweep = Instant::now() + SWEEP_EVERY;
    }

    /// All processes have ended: removes what is left of the spools, if nobody waits for it.
    pub(super) async fn end_sweep(&mut self, bus: &Bus, pipeline: &Pipeline) {
        if let Some(sweeper) = self.sweeper.take() {
            let _ = tokio::time::timeout(SWEEP_MAX, sweeper.end(bus, pipeline)).await;
        }
    }

    /// Says that a disk is full, and goes on when there is room again. A nats-server that met a
    /// full disk refuses what it is sent until it is started anew (2.15.1: a stream keeps its first
    /// write error).
    ///
    /// # Errors
    /// The broker cannot be started.
    pub(super) async fn look_after_disk(&mut self, standing: &mut Standing) -> anyhow::Result<()> {
        let says_full = |standing: &Standing| FULL.iter().any(|words| standing.says(words));
        while let Some(change) =
            self.disk
                .look(self.restarts(), says_full(standing), self.broker.is_some())
        {
            match (change, &mut self.broker) {
                (DiskChange::Full(folder), Some(_)) => {
                    tracing::error!(
                        "the disk of {} is full, or a quota there is used up: the crawl waits for \
                         {ROOM_MIB} MiB",
                        folder.display()
                    );
                }
                (DiskChange::Full(folder), None) => tracing::error!(
                    "the disk of the broker or of {} is full, or a quota there is used up: free \
                     {ROOM_MIB} MiB, then restart the broker",
                    folder.display()
                ),
                (DiskChange::Room, broker) => {
                    tracing::info!("the disk has room again: the crawl goes on");
                    if let Some(broker) = broker {
                        broker.restart().await?;
                    }
                    standing.forget_reasons();
                }
            }
        }
        Ok(())
    }

    /// Gives the archiver time for what the others did last: a crawl that ended at a limit may
    /// never go on.
    pub(super) async fn archive_the_rest(&mut self, bus: &Bus, pipeline: &Pipeline) {
        if pipeline.stages.archiver.replicas == 0 {
            return;
        }
        // The broker gives out again what an archiver that was killed had in hand, but not earlier.
        let edges = &pipeline.edges;
        let given_again = edges
            .pages
            .stream
            .ack_wait
            .max(edges.documents.ack_wait)
            .max(edges.outcomes.ack_wait);
        let end = Instant::now() + given_again + ARCHIVE_MAX;
        let mut left = None;
        // An archiver that died finishes its file when it is there again.
        while (left != Some(0) || self.processes.awaits_restart())
            && Instant::now() < end
            && bus.is_connected()
        {
            if let Err(error) = self.processes.look_after() {
                tracing::error!("{error:#}");
                break;
            }
            left = unarchived(bus, pipeline).await.ok();
            tokio::time::sleep(ARCHIVE_LOOK).await;
        }
        if left != Some(0) {
            tracing::warn!("what was fetched last is not archived yet: --resume goes on with it");
        }
    }
}

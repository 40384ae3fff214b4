//! A scheduler that is driven as the stage loop drives it, by one thread: messages are decoded, and
//! what a step makes is committed to a store on disk.

use rhumb_config::Pipeline;
use rhumb_node::disk::{DiskStore, StoreOptions};
use rhumb_stage::store::Store;
use rhumb_stage::{Core as _, Event, Output, Send, Ticket};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Edge;
use scheduler::quality::Qualities;
use scheduler::quota::ledger::ClaimAnswer;
use scheduler::{Input, Scheduler, Settings, TABLES};
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Partitions, all of which the scheduler has.
pub(super) const PARTITIONS: u16 = 64;

/// The scheduler with its store, as in a process.
pub(super) struct Driven {
    pub(super) core: Scheduler,
    store: Arc<dyn Store>,
    started: Instant,
    /// Messages so far.
    pub(super) steps: u64,
}

impl Driven {
    /// Opens what a folder has, or an empty one.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn open(
        pipeline: &Pipeline,
        qualities: &Qualities,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let scheduler = &pipeline.stages.scheduler;
        let options = StoreOptions {
            memtable_bytes: scheduler.memtable_bytes,
            cache_bytes: scheduler.store_cache_bytes,
            durability: pipeline.durability,
        };
        let store: Arc<dyn Store> = Arc::new(DiskStore::open(
            folder,
            &TABLES.map(|(table, _)| table),
            options,
        )?);
        let partitions: Vec<u16> = (0..PARTITIONS).collect();
        let settings = Settings {
            origin_ms: unix_ms()?,
            ..Settings::new(pipeline, qualities.clone())
        };
        let core = Scheduler::open(
            settings,
            0,
            std::process::id().into(),
            &partitions,
            Arc::clone(&store),
            Timestamp::ZERO,
        )?;
        Ok(Driven {
            core,
            store,
            started: Instant::now(),
            steps: 0,
        })
    }

    /// A step with a message, and its commit. Returns what is sent then.
    ///
    /// # Errors
    /// The message is not understood, or the store cannot be read or written.
    pub(super) fn message(&mut self, edge: Edge, payload: &[u8]) -> anyhow::Result<Vec<Send>> {
        let input = Scheduler::decode(edge, payload)?;
        self.steps += 1;
        self.event(Event::Message {
            ticket: Ticket(self.steps),
            input,
        })
    }

    /// A step, and its commit. Returns what is sent then.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub(super) fn event(&mut self, event: Event<Input, ClaimAnswer>) -> anyhow::Result<Vec<Send>> {
        let mut out = Output::default();
        let now = Timestamp::ZERO + self.started.elapsed();
        self.core.step(now, event, &mut out)?;
        self.store.commit(&out.changes)?;
        Ok(out.sends)
    }

    /// Steps until all servers have their place.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub(super) fn wake(&mut self) -> anyhow::Result<()> {
        self.event(Event::Wake)?;
        while self.is_busy() {
            self.event(Event::Wake)?;
        }
        Ok(())
    }

    /// Returns whether it would go on at once.
    pub(super) fn is_busy(&self) -> bool {
        self.core.wake_at() == Some(Timestamp::ZERO)
    }

    /// One of its counts; 0 for a name that it has not.
    pub(super) fn count(&self, name: &str) -> u64 {
        let counts = self.core.counts().into_iter();
        counts
            .filter(|(found, _)| *found == name)
            .map(|(_, count)| count)
            .sum()
    }
}

/// The time, in milliseconds of Unix time.
///
/// # Errors
/// The clock is before 1970.
pub(super) fn unix_ms() -> anyhow::Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(u64::try_from(now.as_millis())?)
}

/// Bytes of all files of a folder.
///
/// # Errors
/// It cannot be read.
pub(super) fn disk_bytes(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() {
            disk_bytes(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(bytes)
}

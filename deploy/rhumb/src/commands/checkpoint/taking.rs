//! Taking one checkpoint, from the first check to the manifest.
//!
//! In: a running crawl, a folder. Out: the checkpoint, and how long it took. Invariant: what fails,
//! or is interrupted, leaves the crawl going on and the folder as it was.

use super::collecting::{Collected, capture, collect, forget};
use super::draining::{drain, is_still};
use super::holding::Holding;
use super::interrupt::Interrupt;
use crate::checkpoint::{FORMAT, Folder, Manifest};
use crate::commands::orders::change;
use crate::control::ask_all;
use crate::handle::Running;
use crate::inspect::owners::owners;
use crate::stages::WITH_STATE;
use crate::status::Snapshot;
use anyhow::Context as _;
use async_nats::jetstream::kv;
use futures::TryStreamExt as _;
use rhumb_bus::{Buckets, find_buckets, held_now};
use rhumb_config::identity::Identity;
use rhumb_config::orders::{Author, Orders};
use rhumb_partition::Owners;
use rhumb_stage::{ControlRequest, ProcessPartitions};
use scheduler::spent::Spent;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// What a known URL takes in a checkpoint, and one that waits: the first is random and cannot be
/// compressed.
const BYTES_PER_KNOWN: u64 = 16;
const BYTES_PER_WAITING: u64 = 64;

/// How often it is looked whether the crawl has stopped.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Waits until a crawl has stopped.
///
/// # Errors
/// It cannot be told.
pub(super) async fn stopped(running: &Running) -> anyhow::Result<()> {
    while !running.has_stopped()? {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// How checkpoints are taken.
pub(super) struct Taking {
    pub(super) author: Author,
    pub(super) drain_max: Duration,
    /// How far it has come is shown.
    pub(super) shows: bool,
}

/// A checkpoint that was taken.
#[derive(Debug, Serialize)]
pub(super) struct Taken {
    /// The id of the crawl.
    #[serde(skip)]
    pub(super) id: String,
    dir: PathBuf,
    /// How long dispatch stood still, beside the drain.
    pause_s: f64,
    /// How long it took until nothing was in flight.
    drain_s: f64,
    /// All of it.
    took_s: f64,
    known: u64,
    waiting: u64,
    bytes: u64,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Taken {
            dir,
            pause_s,
            drain_s,
            took_s,
            known,
            waiting,
            bytes,
            ..
        } = self;
        write!(
            f,
            "{}: {known} URLs known, {waiting} waiting, {bytes} bytes, in {took_s:.1} s; dispatch \
             stood still for {pause_s:.1} s beside a drain of {drain_s:.1} s",
            dir.display()
        )
    }
}

/// A crawl as it stood still.
struct Still {
    captured: Vec<super::collecting::Captured>,
    snapshot: Snapshot,
    owners: BTreeMap<String, Owners>,
    scope: BTreeMap<String, String>,
    ledgers: BTreeMap<String, String>,
    drained: Duration,
}

impl Taking {
    /// Takes a checkpoint; none when it was interrupted.
    ///
    /// # Errors
    /// It cannot be taken: why.
    pub(super) async fn take(
        &self,
        running: &Running,
        dir: &Path,
        interrupt: &mut Interrupt,
    ) -> anyhow::Result<Option<Taken>> {
        let began = Instant::now();
        let number = number();
        let folder = Folder::begin(dir)?;
        let (identity, buckets) = crawl(running).await?;
        folder.check_room(estimate(running).await?)?;
        let Some(holding) = Holding::begin(running, self.author_of(dir), interrupt).await? else {
            return Ok(None);
        };
        let still = tokio::select! {
            still = self.stand_still(running, &buckets, number) => Some(still),
            () = interrupt.comes() => None,
        };
        let lifted = holding.lift().await;
        let Some(still) = still else { return Ok(None) };
        let (still, held) = match (still, lifted) {
            (Ok(still), Ok(held)) => (still, held),
            // Without the hold nothing stands still.
            (Err(error), Err(lost)) => return Err(error.context(format!("{lost:#}"))),
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        let crawl = identity.mark.to_string();
        let collected = tokio::select! {
            collected = collect(running, &folder, &still.captured, (&crawl, number)) => Some(collected),
            () = interrupt.comes() => None,
        };
        if !matches!(collected, Some(Ok(_))) {
            // They do so by themselves a little later.
            let _ = forget(running, number).await;
        }
        let Some(collected) = collected.transpose()? else {
            return Ok(None);
        };
        let configuration = buckets.register.configuration().await?;
        let configuration = configuration
            .context("the broker holds no configuration of the crawl: run `rhumb init`")?;
        let orders = change(running, |_| false).await?.orders;
        let pause = held.saturating_sub(still.drained);
        let drained = still.drained;
        let mut manifest = manifest(running, identity, number, orders, still, collected);
        manifest
            .files
            .push(folder.keep_configuration(&configuration)?);
        folder.finish(&manifest)?;
        let Manifest {
            known,
            waiting,
            files,
            mark,
            ..
        } = manifest;
        let bytes = files.iter().map(|file| file.bytes).sum();
        let [pause_s, drain_s, took_s] =
            [pause, drained, began.elapsed()].map(|time| time.as_secs_f64());
        Ok(Some(Taken {
            id: mark.id,
            dir: dir.to_owned(),
            pause_s,
            drain_s,
            took_s,
            known,
            waiting,
            bytes,
        }))
    }

    /// Who holds the crawl: no other command is the same.
    fn author_of(&self, dir: &Path) -> Author {
        let since_s = SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_secs();
        let for_what = format!(
            "for the checkpoint {} (pid {})",
            dir.display(),
            std::process::id()
        );
        let note = if self.author.note.is_empty() {
            for_what
        } else {
            format!("{}; {for_what}", self.author.note)
        };
        Author {
            since_s,
            note,
            ..self.author.clone()
        }
    }

    /// Waits until the crawl stands still, and has all partitions captured.
    async fn stand_still(
        &self,
        running: &Running,
        buckets: &Buckets,
        number: u64,
    ) -> anyhow::Result<Still> {
        let began = Instant::now();
        let snapshot = drain(running, self.drain_max, self.shows).await?;
        let drained = began.elapsed();
        let before = tables(running).await?;
        let captured = capture(running, &before, number).await?;
        let scope = entries(&buckets.scope).await?;
        let ledgers = entries(&buckets.tokens).await?;
        is_still(running, &snapshot).await?;
        let owners = tables(running).await?;
        let is_same = |(stage, owners): (&String, &Owners)| {
            before
                .get(stage)
                .is_some_and(|before| before.partitions.len() == owners.partitions.len())
        };
        anyhow::ensure!(
            owners.iter().all(is_same),
            "a partition was split meanwhile: take the checkpoint again"
        );
        Ok(Still {
            captured,
            snapshot,
            owners,
            scope,
            ledgers,
            drained,
        })
    }
}

/// The crawl at the broker.
async fn crawl(running: &Running) -> anyhow::Result<(Identity, Buckets)> {
    let none = "the broker does not hold all of the crawl: run `rhumb init` of this version, or \
                `rhumb crawl --resume`, first";
    let identity = held_now(&running.bus).await?.context(none)?;
    let buckets = find_buckets(&running.bus).await?.context(none)?;
    anyhow::ensure!(
        buckets.register.restoring().await?.is_none(),
        "the crawl is being restored itself: wait for its end"
    );
    Ok((identity, buckets))
}

/// Bytes that a checkpoint of the crawl takes, about.
async fn estimate(running: &Running) -> anyhow::Result<u64> {
    let answers: Vec<ProcessPartitions> =
        ask_all(&running.bus, &ControlRequest::Partitions, None).await?;
    let urls = |of: &ProcessPartitions| {
        of.partitions
            .iter()
            .map(|partition| partition.urls)
            .sum::<u64>()
    };
    let bytes = answers
        .iter()
        .map(|of| {
            urls(of)
                * if of.stage == WITH_STATE[0] {
                    BYTES_PER_KNOWN
                } else {
                    0
                }
        })
        .sum::<u64>();
    let waiting = Snapshot::take(&running.bus, &running.pipeline, None)
        .await?
        .summary()
        .waiting;
    Ok(bytes + waiting * BYTES_PER_WAITING)
}

/// Who has the partitions, none of which may be on its way.
async fn tables(running: &Running) -> anyhow::Result<BTreeMap<String, Owners>> {
    let mut tables = BTreeMap::new();
    for stage in WITH_STATE {
        let owners = owners(running, stage).await?;
        let moving = owners.moving();
        anyhow::ensure!(
            moving == 0,
            "{moving} partitions of {stage} are moving, or are being split: take the checkpoint \
             when they have arrived (rhumb partitions)"
        );
        tables.insert(stage.to_owned(), owners);
    }
    let ids: Vec<usize> = tables
        .values()
        .map(|owners| owners.partitions.len())
        .collect();
    anyhow::ensure!(
        ids.windows(2).all(|pair| pair[0] == pair[1]),
        "a partition is being split: try again in a moment"
    );
    Ok(tables)
}

/// All entries of a bucket.
async fn entries(bucket: &kv::Store) -> anyhow::Result<BTreeMap<String, String>> {
    let keys: Vec<String> = bucket
        .keys()
        .await
        .context("the broker does not list a bucket")?
        .try_collect()
        .await?;
    let mut entries = BTreeMap::new();
    for key in keys {
        if let Some(value) = bucket.get(&key).await? {
            let text = String::from_utf8(value.to_vec());
            entries.insert(
                key,
                text.context("an entry of the scope or of the budgets is no text")?,
            );
        }
    }
    Ok(entries)
}

fn manifest(
    running: &Running,
    identity: Identity,
    number: u64,
    orders: Orders,
    still: Still,
    collected: Collected,
) -> Manifest {
    let Still {
        snapshot,
        owners,
        scope,
        ledgers,
        ..
    } = still;
    let Collected {
        files,
        unpacked_bytes,
        spent,
    } = collected;
    let all_spent = ledgers.iter().fold(spent, |mut spent: Spent, (key, text)| {
        spent.add_ledger(key, text);
        spent
    });
    Manifest {
        format: FORMAT,
        number,
        taken_s: SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_secs(),
        crawl: running.pipeline.crawl.clone(),
        mark: identity.mark,
        lost: identity.lost,
        partitions: identity.partitions,
        url: identity.url,
        replays: identity.replays,
        owners,
        orders: Orders {
            hold: None,
            ..orders
        },
        scope,
        spent: all_spent.ledgers(),
        known: snapshot.summary().urls_new,
        waiting: snapshot.summary().waiting,
        unpacked_bytes,
        files,
    }
}

/// A number that no other checkpoint has: nanoseconds since 1970.
fn number() -> u64 {
    u64::try_from(
        SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
            .as_nanos(),
    )
    .unwrap_or(u64::MAX)
}

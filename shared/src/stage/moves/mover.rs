//! The mover: gives, takes and forgets what the table of owners says, between two lives of an instance's core.

use super::parts::{Bill, Loading, Unfit};
use super::rows::{Beside, Rows};
use super::steps;
use crate::bus::{Bus, OwnersBucket, OwnersTable};
use crate::identity::{Misfit, WAYS_OUT};
use crate::partitions::Owners;
use crate::stage::ownership::Ownership;
use crate::stage::settlement::{LOOP, OUTBOX, USED};
use crate::stage::store::{Changes, StoreError};
use crate::topology::MOVES;
use anyhow::Context as _;
use async_nats::jetstream::stream::Stream;
use bytes::Bytes;
use futures::future::try_join_all;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Parts that are on their way into their stream at once.
const PARTS_AT_ONCE: usize = 8;
/// How long the stream may take for them.
const PARTS_TIMEOUT: Duration = Duration::from_secs(20);
/// Rows that one commit removes.
const ROWS_REMOVED_AT_ONCE: usize = 2000;

/// What an instance moves partitions with.
pub(in crate::stage) struct Mover<'a> {
    pub(in crate::stage) bus: &'a Bus,
    pub(in crate::stage) owners: &'a OwnersBucket,
    /// Which crawl it is: id and generation.
    pub(in crate::stage) crawl: String,
    pub(in crate::stage) stage: &'static str,
    pub(in crate::stage) instance: u16,
    pub(in crate::stage) rows: Rows,
    /// Opens what the stage keeps beside its tables; none when that is nothing.
    pub(in crate::stage) open: Option<&'a dyn Fn() -> anyhow::Result<Box<dyn Beside>>>,
    /// That, once it was needed.
    pub(in crate::stage) opened: Option<Box<dyn Beside>>,
    pub(in crate::stage) lease: &'a Ownership,
}

/// Why a partition is not taken.
#[derive(Debug, thiserror::Error)]
enum NotTaken {
    /// The parts are not what they should be: its owner keeps the partition.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error("its parts are not in their stream")]
    Missing,
    /// There is no room, or the like: its owner keeps the partition.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Mover<'_> {
    /// Gives what is to leave, takes what was given, and forgets on the way what a move that was undone left. Returns the
    /// owners as they are then.
    ///
    /// # Errors
    /// The broker does not answer, the state cannot be read, or the lease is over.
    pub(in crate::stage) async fn settle(&mut self) -> anyhow::Result<OwnersTable> {
        let OwnersTable { owners, .. } = self.read().await?;
        // What was published under this instance must be in its streams before others go on: it may never come back.
        if self.has_published_all()? {
            for (partition, to) in owners.leaving(self.instance) {
                self.give(partition, owners.version(partition), to).await?;
            }
        }
        let OwnersTable { owners, .. } = self.read().await?;
        for partition in owners.given_to(self.instance) {
            self.take(partition, owners.version(partition)).await?;
        }
        self.read().await
    }

    async fn read(&self) -> anyhow::Result<OwnersTable> {
        self.owners.read(self.stage).await?.with_context(|| format!("the broker knows no owners of {}", self.stage))
    }

    /// Sends a partition to its receiver. When that fails the instance keeps it.
    async fn give(&mut self, partition: u16, version: u64, to: u16) -> anyhow::Result<()> {
        let (stage, instance, began) = (self.stage, self.instance, Instant::now());
        self.divide()?;
        match self.send(partition, version).await {
            Ok(bytes) => {
                let took_ms = began.elapsed().as_millis() as u64;
                tracing::info!(stage, instance, partition, to, bytes, took_ms, "gives a partition away");
                self.owners.change(stage, |owners| owners.give(partition, instance)).await?;
            }
            Err(error) => {
                tracing::warn!(stage, instance, partition, to, "keeps a partition that cannot be sent: {error:#}");
                self.owners.change(stage, |owners| owners.keep(partition, instance)).await?;
            }
        }
        Ok(())
    }

    /// Says whether all that was committed to be published is in its stream.
    fn has_published_all(&self) -> anyhow::Result<bool> {
        let mut is_empty = true;
        self.rows.store.scan(OUTBOX, &[], &[u8::MAX; 17], &mut |_, _| {
            is_empty = false;
            false
        })?;
        Ok(is_empty)
    }

    /// From the first move on each partition has its own position.
    fn divide(&self) -> anyhow::Result<()> {
        match self.rows.divide()? {
            Some(changes) => self.commit(&changes),
            None => Ok(()),
        }
    }

    /// Puts all parts of a partition into their stream. Returns their bytes.
    async fn send(&mut self, partition: u16, version: u64) -> anyhow::Result<u64> {
        let subject = self.bus.subjects.moves(self.stage, partition, version);
        // What earlier tries left.
        let earlier = self.bus.subjects.all_moves(self.stage, partition);
        self.stream().await?.purge().filter(earlier).await.context("the stream of moves cannot be purged")?;
        let (full, mut parts) = mpsc::channel(PARTS_AT_ONCE);
        let (rows, bill) = (self.rows.clone(), self.bill(partition, version));
        let beside = self.beside()?;
        let loading = tokio::task::spawn_blocking(move || load_parts(&rows, beside, partition, bill, &full));
        let (mut some, mut bytes) = (Vec::with_capacity(PARTS_AT_ONCE), 0);
        while parts.recv_many(&mut some, PARTS_AT_ONCE).await > 0 {
            bytes += some.iter().map(|part: &Bytes| part.len() as u64).sum::<u64>();
            self.publish(&subject, some.drain(..)).await?;
        }
        self.opened = loading.await.context("a partition's rows cannot be read")??;
        Ok(bytes)
    }

    /// Publishes parts and waits until their stream has them.
    async fn publish(&self, subject: &str, parts: impl Iterator<Item = Bytes>) -> anyhow::Result<()> {
        let stored = async {
            let mut acks = Vec::with_capacity(PARTS_AT_ONCE);
            for part in parts {
                acks.push(self.bus.jetstream.publish(subject.to_owned(), part).await?.into_future());
            }
            anyhow::Ok(try_join_all(acks).await?)
        };
        tokio::time::timeout(PARTS_TIMEOUT, stored).await.context("the stream of moves does not answer")??;
        Ok(())
    }

    /// Takes a partition over. When that fails its owner keeps it.
    async fn take(&mut self, partition: u16, version: u64) -> anyhow::Result<()> {
        let (stage, instance, began) = (self.stage, self.instance, Instant::now());
        if !self.rows.has_whole(partition, version)? {
            self.remove_rows(partition).await?;
            match self.load(partition, version).await {
                Ok(()) => {}
                Err(error) => {
                    let Some(why) = error.downcast_ref::<NotTaken>() else { return Err(error) };
                    tracing::error!(
                        stage,
                        instance,
                        partition,
                        version,
                        "refuses a partition, its owner keeps it: {why}"
                    );
                    self.owners.change(stage, |owners| owners.refuse(partition, version, instance)).await?;
                    return self.forget(partition).await;
                }
            }
        }
        let mut is_taken = false;
        let take = |owners: &mut Owners| {
            is_taken = owners.take(partition, version, instance);
            is_taken
        };
        let OwnersTable { owners, .. } = self.owners.change(stage, take).await?;
        if is_taken || owners.used_by(instance).contains(&partition) {
            let took_ms = began.elapsed().as_millis() as u64;
            tracing::info!(stage, instance, partition, took_ms, "takes a partition over");
        }
        self.commit(&steps::taken(partition))?;
        let subject = self.bus.subjects.moves(stage, partition, version);
        if let Err(error) = self.stream().await?.purge().filter(&subject).await {
            tracing::debug!(partition, "the parts of a partition that was taken stay: {error}");
        }
        Ok(())
    }

    /// Commits all rows of a partition that lie in the stream, and then that they are all there.
    async fn load(&mut self, partition: u16, version: u64) -> anyhow::Result<()> {
        let (subject, bill) = (self.bus.subjects.moves(self.stage, partition, version), self.bill(partition, version));
        let stream = self.stream().await?;
        let mut beside = self.beside()?;
        if let Some(beside) = &mut beside {
            beside.begin(partition).map_err(NotTaken::from)?;
        }
        let (mut sequence, mut number, mut is_last) = (1, 0, false);
        while !is_last {
            let message = stream.get_first_raw_message_by_subject(&subject, sequence).await;
            let message = message.map_err(|error| match error.kind() {
                async_nats::jetstream::stream::LastRawMessageErrorKind::NoMessageFound => NotTaken::Missing.into(),
                _ => anyhow::Error::new(error).context("the broker does not give the parts of a partition"),
            })?;
            let part = self.rows.of_part(beside.as_deref_mut(), partition, (&bill, number), &message.payload);
            let changes;
            (changes, is_last) = part.map_err(NotTaken::from)?;
            self.fence()?;
            self.rows.store.commit(&changes).map_err(NotTaken::from)?;
            (sequence, number) = (message.sequence + 1, number + 1);
        }
        let changes = steps::whole(beside.as_deref_mut(), partition, version).map_err(NotTaken::from)?;
        self.fence()?;
        self.rows.store.commit(&changes).map_err(NotTaken::from)?;
        if let Some(beside) = &mut beside {
            beside.committed()?;
        }
        self.opened = beside;
        Ok(())
    }

    /// The partitions of others of which the store still has rows: they were given away. What lies beside the tables of them
    /// goes at once; the rows are many, and can go while the instance works.
    ///
    /// # Errors
    /// The store cannot be read or written, or the lease is over.
    pub(in crate::stage) fn left_over(&mut self, owners: &Owners) -> anyhow::Result<Vec<u16>> {
        for (partition, of) in owners.all().filter(|(_, of)| of.owner != self.instance) {
            let used = self.rows.store.get(LOOP, used(partition).as_bytes())?;
            let used = used.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
            if used >= of.version {
                return Err(Misfit(format!(
                    "instance {} of {} had partition {partition} under version {used}, the broker says that instance {} has it \
                     under version {}: the broker lost what it knew of the owners, or was restored from an earlier copy; \
                     {WAYS_OUT}",
                    self.instance, self.stage, of.owner, of.version
                ))
                .into());
            }
        }
        let left_over = steps::left_over(&self.rows, owners, self.instance)?;
        self.forget_beside(&left_over)?;
        Ok(left_over)
    }

    /// Notes which partitions the next life uses, and under which versions: an older table at the broker is not believed.
    ///
    /// # Errors
    /// The store cannot be written, or the lease is over.
    pub(in crate::stage) fn note_used(&self, owners: &Owners) -> anyhow::Result<()> {
        let mut changes = Changes::default();
        for partition in owners.used_by(self.instance) {
            changes.put(LOOP, used(partition), owners.version(partition).to_le_bytes());
        }
        self.commit(&changes)
    }

    /// Removes what lies beside the tables of partitions.
    fn forget_beside(&mut self, partitions: &[u16]) -> anyhow::Result<()> {
        if partitions.is_empty() {
            return Ok(());
        }
        if let Some(mut beside) = self.beside()? {
            let mut changes = Changes::default();
            partitions.iter().try_for_each(|&partition| beside.forget(partition))?;
            beside.stage(&mut changes)?;
            self.commit(&changes)?;
            beside.committed()?;
            self.opened = Some(beside);
        }
        Ok(())
    }

    /// What the stage keeps beside its tables. Who has used it without an error puts it back.
    fn beside(&mut self) -> anyhow::Result<Option<Box<dyn Beside>>> {
        match self.opened.take() {
            Some(opened) => Ok(Some(opened)),
            None => self.open.map(|open| open()).transpose(),
        }
    }

    /// Removes all that the instance has of a partition.
    async fn forget(&mut self, partition: u16) -> anyhow::Result<()> {
        self.forget_beside(&[partition])?;
        self.remove_rows(partition).await
    }

    async fn remove_rows(&self, partition: u16) -> anyhow::Result<()> {
        loop {
            let mut changes = Changes::default();
            if self.rows.remove(&mut changes, partition, ROWS_REMOVED_AT_ONCE)? == 0 {
                return Ok(());
            }
            self.commit(&changes)?;
            tokio::task::yield_now().await;
        }
    }

    fn commit(&self, changes: &Changes) -> anyhow::Result<()> {
        self.fence()?;
        Ok(self.rows.store.commit(changes)?)
    }

    /// Nothing is written after the end of the lease.
    fn fence(&self) -> anyhow::Result<()> {
        let is_held = self.lease.held_until().is_some_and(|until| Instant::now() < until);
        anyhow::ensure!(is_held, "the lease on the partitions of this instance is over");
        Ok(())
    }

    fn bill(&self, partition: u16, version: u64) -> Bill {
        Bill::new(&self.crawl, self.stage, partition, version)
    }

    async fn stream(&self) -> anyhow::Result<Stream<()>> {
        let name = self.bus.subjects.stream(MOVES);
        self.bus.jetstream.get_stream_no_info(&name).await.with_context(|| format!("no stream {name}"))
    }
}

/// The key of the version under which a partition was last used.
fn used(partition: u16) -> String {
    format!("{USED}{partition:05}")
}

/// Reads a partition into parts, as fast as they are taken; the last one ends it.
fn load_parts(
    rows: &Rows,
    mut beside: Option<Box<dyn Beside>>,
    partition: u16,
    bill: Bill,
    full: &mpsc::Sender<Bytes>,
) -> Result<Option<Box<dyn Beside>>, StoreError> {
    // Nobody takes parts any more when the send has failed, which is then the error.
    rows.load(beside.as_deref_mut(), partition, Loading::new(bill), |part| {
        let _ = full.blocking_send(part);
    })?;
    Ok(beside)
}

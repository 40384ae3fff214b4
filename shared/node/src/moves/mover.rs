//! The mover: gives, takes and forgets what the table of owners says, between two lives of an
//! instance's core.

use super::ahead::Brought;
use super::desk::{Desk, NotWritten};
use super::loading::Loaded;
use super::sending::Sent;
use anyhow::Context as _;
use rhumb_bus::OwnersTable;
use rhumb_config::identity::{Misfit, WAYS_OUT};
use rhumb_partition::{Owners, Split};
use rhumb_stage::Beside;
use rhumb_stage::settlement::{LOOP, OUTBOX, USED};
use rhumb_stage::steps;
use rhumb_stage::store::{Changes, StoreError};
use std::time::{Duration, Instant};

/// What an instance moves partitions with while its core does not work.
pub(crate) struct Mover<'a> {
    pub(crate) desk: Desk,
    /// What was done while it worked.
    pub(crate) brought: Brought,
    /// Opens what the stage keeps beside its tables; none when that is nothing.
    pub(crate) open: Option<&'a dyn Fn() -> anyhow::Result<Box<dyn Beside>>>,
    /// That, once it was needed.
    pub(crate) opened: Option<Box<dyn Beside>>,
}

impl Mover<'_> {
    /// Gives what was sent, and takes what has come. Returns the owners as they are then.
    ///
    /// # Errors
    /// The broker does not answer, the state cannot be read, or the lease is over.
    pub(crate) async fn settle(&mut self) -> anyhow::Result<OwnersTable> {
        self.halve().await?;
        let OwnersTable { owners, .. } = self.read().await?;
        // What was published under this instance must be in its streams before others go on: it may
        // never come back.
        if self.has_published_all()? {
            self.give(&owners).await?;
        }
        let OwnersTable { owners, .. } = self.read().await?;
        self.take(&owners).await?;
        loop {
            let table = self.read().await?;
            // One may have been split meanwhile: no life begins with halves that have nothing.
            if table.owners.to_halve(self.desk.instance).is_empty() {
                return Ok(table);
            }
            self.halve().await?;
        }
    }

    /// The owners as they are now; which rows are a partition's follows from them.
    async fn read(&mut self) -> anyhow::Result<OwnersTable> {
        let stage = self.desk.stream.stage;
        let table = self.desk.owners.read(stage).await?;
        let table = table.with_context(|| format!("the broker knows no owners of {stage}"))?;
        self.desk.rows.directory = table.owners.directory();
        Ok(table)
    }

    /// Halves the rows of partitions that were split. Both halves stay.
    async fn halve(&mut self) -> anyhow::Result<()> {
        let OwnersTable { owners, .. } = self.read().await?;
        let stage = self.desk.stream.stage;
        let instance = self.desk.instance;
        for split in owners.to_halve(instance) {
            let partition = split.partition;
            let began = Instant::now();
            let last = match self.desk.rows.is_halved(partition)? {
                Some(last) => last,
                None => self.halve_rows(&split)?,
            };
            self.desk
                .owners
                .change(stage, |owners| owners.halve(partition, instance, last))
                .await?;
            let [(lower, _), (upper, _)] = &split.halves;
            let took_ms = began.elapsed().as_millis() as u64;
            tracing::info!(
                stage,
                instance,
                partition,
                lower,
                upper,
                took_ms,
                "splits a partition"
            );
        }
        Ok(())
    }

    fn halve_rows(&mut self, split: &Split) -> anyhow::Result<u64> {
        let mut beside = self.beside()?;
        let (changes, last) = self.desk.rows.halve(beside.as_deref_mut(), split)?;
        self.desk.commit(&changes)?;
        beside.as_deref_mut().map_or(Ok(()), Beside::committed)?;
        self.opened = beside;
        Ok(last)
    }

    /// Returns whether all that was committed to be published is in its stream.
    fn has_published_all(&self) -> anyhow::Result<bool> {
        let mut is_empty = true;
        self.desk
            .rows
            .store
            .scan(OUTBOX, &[], &[u8::MAX; 17], &mut |_, _| {
                is_empty = false;
                false
            })?;
        Ok(is_empty)
    }

    /// Sends what changed in partitions whose copies their receivers have, and gives them away.
    /// What cannot be sent the instance keeps.
    async fn give(&mut self, owners: &Owners) -> anyhow::Result<()> {
        let stage = self.desk.stream.stage;
        let instance = self.desk.instance;
        let mut given = Vec::new();
        for (partition, to) in owners.leaving(instance) {
            let is_copied = |sent: &Sent| {
                owners.version(partition) == sent.version
                    && owners.copy(partition) == Some(sent.copy)
            };
            let Some(mut sent) = self.brought.sent.remove(&partition).filter(is_copied) else {
                continue;
            };
            self.divide()?;
            let began = Instant::now();
            match self.send_changes(partition, &mut sent).await {
                Ok(bytes) => {
                    let copied_ms = sent.took.as_millis() as u64;
                    let worked_ms = sent.worked.as_millis() as u64;
                    let copied_bytes = sent.bytes;
                    let took_ms = began.elapsed().as_millis() as u64;
                    tracing::info!(
                        stage,
                        instance,
                        partition,
                        to,
                        copied_bytes,
                        copied_ms,
                        worked_ms,
                        bytes,
                        took_ms,
                        "gives a partition away"
                    );
                    given.push((partition, sent.copy));
                }
                Err(error) => self.desk.keeps(partition, sent.version, &error).await,
            }
        }
        if !given.is_empty() {
            let give = |owners: &mut Owners| {
                given.iter().fold(false, |any, &(partition, copy)| {
                    owners.give(partition, copy, instance) || any
                })
            };
            self.desk.owners.change(stage, give).await?;
        }
        Ok(())
    }

    /// From the first move on each partition has its own position.
    fn divide(&self) -> anyhow::Result<()> {
        match self.desk.rows.divide()? {
            Some(changes) => Ok(self.desk.commit(&changes)?),
            None => Ok(()),
        }
    }

    /// Puts the last parts of a partition into their stream. Returns their bytes.
    async fn send_changes(&mut self, partition: u16, sent: &mut Sent) -> anyhow::Result<u64> {
        let changed = self.brought.changed.take(partition);
        let mut beside = self.beside()?;
        let parts = self.desk.rows.copy_changes(
            beside.as_deref_mut(),
            partition,
            &changed,
            &mut sent.loading,
        )?;
        self.opened = beside;
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        self.desk
            .stream
            .publish(partition, sent.version, parts)
            .await?;
        Ok(bytes)
    }

    /// Takes partitions over that have come to the last row. What cannot be taken its owner keeps.
    async fn take(&mut self, owners: &Owners) -> anyhow::Result<()> {
        let stage = self.desk.stream.stage;
        let instance = self.desk.instance;
        let mut taken = Vec::new();
        for partition in owners.given_to(instance) {
            let (version, Some(copy)) = (owners.version(partition), owners.copy(partition)) else {
                continue;
            };
            let loaded = self.brought.loaded.remove(&partition);
            let worked = loaded
                .as_ref()
                .map_or(Duration::ZERO, |loaded| loaded.worked);
            if !self.desk.rows.has_whole(partition, version, copy)? {
                let is_it = |loaded: &Loaded| loaded.version == version && loaded.copy == copy;
                let Some(loaded) = loaded.filter(is_it) else {
                    continue;
                };
                match self.import(partition, loaded) {
                    Ok(()) => {}
                    Err(NotWritten::LeaseOver) => return Err(NotWritten::LeaseOver.into()),
                    Err(why) => {
                        self.desk.refuses(partition, version, &why).await;
                        self.forget(partition)?;
                        continue;
                    }
                }
            }
            self.brought.coming.remove(&partition);
            taken.push((partition, version, worked));
        }
        if taken.is_empty() {
            return Ok(());
        }
        let take = |owners: &mut Owners| {
            taken.iter().fold(false, |any, &(partition, version, _)| {
                owners.take(partition, version, instance) || any
            })
        };
        let OwnersTable { owners, .. } = self.desk.owners.change(stage, take).await?;
        let mut changes = Changes::default();
        for &(partition, _, worked) in &taken {
            if owners.used_by(instance).contains(&partition) {
                let worked_ms = worked.as_millis();
                tracing::info!(
                    stage,
                    instance,
                    partition,
                    worked_ms,
                    "takes a partition over"
                );
            }
            changes.entries.append(&mut steps::taken(partition).entries);
        }
        self.desk.commit(&changes)?;
        let stream = self.desk.stream.clone();
        // Nobody waits for that.
        tokio::spawn(async move {
            for (partition, version, _) in taken {
                stream.purge(partition, version).await;
            }
        });
        Ok(())
    }

    /// All parts of a partition are committed: with this commit it is whole.
    fn import(&mut self, partition: u16, loaded: Loaded) -> Result<(), NotWritten> {
        let Loaded {
            version,
            copy,
            importing,
            ..
        } = loaded;
        let unusable = |error: anyhow::Error| StoreError::Unusable(format!("{error:#}"));
        let mut beside = self.beside().map_err(unusable)?;
        let importing = beside.as_deref_mut().zip(importing);
        self.desk
            .commit(&steps::whole(importing, partition, version, copy)?)?;
        beside.as_deref_mut().map_or(Ok(()), Beside::committed)?;
        self.opened = beside;
        Ok(())
    }

    /// The partitions of others of which the store still has rows: they were given away. What lies
    /// beside the tables of them goes at once; the rows are many, and can go while the instance
    /// works.
    ///
    /// # Errors
    /// The store cannot be read or written, or the lease is over.
    pub(crate) fn left_over(&mut self, owners: &Owners) -> anyhow::Result<Vec<u16>> {
        for (partition, of) in owners
            .all()
            .filter(|(_, of)| of.owner != self.desk.instance)
        {
            let used = self.desk.rows.store.get(LOOP, used(partition).as_bytes())?;
            // One that it never used may be a half in version 0.
            let used = used
                .and_then(|bytes| bytes.try_into().ok())
                .map(u64::from_le_bytes);
            if let Some(used) = used.filter(|used| *used >= of.version) {
                return Err(Misfit(format!(
                    "instance {} of {} had partition {partition} under version {used}, the broker \
                     says that instance {} has it under version {}: the broker lost what it knew \
                     of the owners, or was restored from an earlier copy; {WAYS_OUT}",
                    self.desk.instance, self.desk.stream.stage, of.owner, of.version
                ))
                .into());
            }
        }
        self.check_known(owners)?;
        let left_over = steps::left_over(&self.desk.rows, owners, self.desk.instance)?;
        self.forget_beside(&left_over)?;
        Ok(left_over)
    }

    /// Checks that the table knows all splits whose halves this instance has used.
    fn check_known(&self, owners: &Owners) -> anyhow::Result<()> {
        let mut is_known = true;
        let ids = owners.partitions.len() as u16;
        self.desk.rows.store.scan(
            LOOP,
            used(ids).as_bytes(),
            used(u16::MAX).as_bytes(),
            &mut |_, _| {
                is_known = false;
                false
            },
        )?;
        if is_known {
            return Ok(());
        }
        Err(Misfit(format!(
            "instance {} of {} had a half of a partition of which the broker does not know that it \
             was split: the broker lost what it knew of the owners, or was restored from an \
             earlier copy; {WAYS_OUT}",
            self.desk.instance, self.desk.stream.stage
        ))
        .into())
    }

    /// Notes which partitions the next life uses, and under which versions: an older table at the
    /// broker is not believed.
    ///
    /// # Errors
    /// The store cannot be written, or the lease is over.
    pub(crate) fn note_used(&self, owners: &Owners) -> anyhow::Result<()> {
        let mut changes = Changes::default();
        for partition in owners.used_by(self.desk.instance) {
            changes.put(
                LOOP,
                used(partition),
                owners.version(partition).to_le_bytes(),
            );
        }
        Ok(self.desk.commit(&changes)?)
    }

    /// Removes what lies beside the tables of partitions.
    fn forget_beside(&mut self, partitions: &[u16]) -> anyhow::Result<()> {
        if partitions.is_empty() {
            return Ok(());
        }
        if let Some(mut beside) = self.beside()? {
            let mut changes = Changes::default();
            partitions
                .iter()
                .try_for_each(|&partition| beside.forget(partition))?;
            beside.stage(&mut changes)?;
            self.desk.commit(&changes)?;
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
    fn forget(&mut self, partition: u16) -> anyhow::Result<()> {
        self.forget_beside(&[partition])?;
        Ok(self.desk.remove_rows(&self.desk.rows, partition)?)
    }
}

/// The key of the version under which a partition was last used.
fn used(partition: u16) -> String {
    format!("{USED}{partition:05}")
}

//! Tenure: the partitions that a life of a core works with, from one handover to the next.
//!
//! In: the lease, the table of owners as it is looked at, commits. Out: the epoch, what the
//! instance draws its inputs from, whether it is to have other partitions, and commits that remove
//! left-over rows. Invariants: a life begins under an epoch that is greater than that of any before
//! it; a table older than the one that it began with is not looked at.

use super::change::InstanceId;
use super::coming::Coming;
use super::handover::Settled;
use super::migration::{Brought, Migration};
use crate::beside::Beside;
use crate::moves::{Removal, Rows};
use crate::settlement::{LOOP, are_divided, next_epoch};
use crate::store::{Changes, Store, StoreError};
use rhumb_partition::{Owners, OwnersTable, is_to_have_others};
use rhumb_url::time::Timestamp;
use std::time::Duration;

/// What an instance of a stage with state draws its inputs from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// One consumer of all partitions.
    All,
    /// A consumer of each of these partitions.
    Each {
        /// The partitions, with the versions of their ownership.
        owned: Vec<(u16, u64)>,
        /// The epoch in which they were made. What an earlier consumer had delivered and nobody
        /// acked comes again at once.
        since: u64,
    },
}

impl Drawn {
    /// The partitions of the consumers; none for one of all.
    pub fn partitions(&self) -> Vec<Option<u16>> {
        match self {
            Drawn::All => vec![None],
            Drawn::Each { owned, .. } => owned.iter().map(|(of, _)| Some(*of)).collect(),
        }
    }
}

/// The lease under which a life begins.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// The revision under which it was taken.
    pub taken: u64,
    /// No life before this one had a greater epoch, as far as the process knows.
    pub epoch: u64,
}

/// The partitions of a life.
pub struct Tenure {
    instance: u16,
    /// The revision under which the lease was taken that the epoch is of.
    taken: u64,
    epoch: u64,
    partitions: Vec<u16>,
    /// Of the table of owners with which the life began.
    revision: u64,
    drawn: Drawn,
    rows: Rows,
    /// Partitions of others of which the store still has rows.
    left_over: Vec<u16>,
    /// How far the removal of those of the last of them has come.
    removal: Removal,
    /// Since when partitions are ready to come or to go.
    ready_since: Option<Duration>,
    migration: Migration,
}

impl Tenure {
    /// Begins with what a handover left. `is_first`: the first life of its process.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn begin(
        of: InstanceId,
        lease: Lease,
        settled: Settled,
        is_first: bool,
    ) -> Result<Self, StoreError> {
        let Settled {
            table: OwnersTable { owners, revision },
            rows,
            left_over,
            brought,
            ..
        } = settled;
        let store = rows.store.as_ref();
        let instance = of.instance;
        let epoch = next_epoch(store, lease.taken.max(lease.epoch))?;
        let partitions = owners.used_by(instance);
        let owns_all = partitions.len() == owners.partitions.len();
        let drawn = if owns_all && !are_divided(store)? {
            Drawn::All
        } else {
            let owned = partitions.iter();
            Drawn::Each {
                owned: owned.map(|&of| (of, owners.version(of))).collect(),
                since: drawn_since(store, epoch, is_first)?,
            }
        };
        let migration = Migration::begin(of, rows.clone(), epoch, brought);
        Ok(Tenure {
            instance,
            taken: lease.taken,
            epoch,
            partitions,
            revision,
            drawn,
            rows,
            left_over,
            removal: Removal::default(),
            ready_since: None,
            migration,
        })
    }

    /// The epoch with which the life began.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The partitions that the core works with.
    pub fn partitions(&self) -> &[u16] {
        &self.partitions
    }

    /// What the instance draws its inputs from.
    pub fn drawn(&self) -> &Drawn {
        &self.drawn
    }

    /// The lease was taken under this revision. Returns the epoch that begins when that is another.
    pub(super) fn leased(&mut self, taken: u64) -> Result<Option<u64>, StoreError> {
        if self.taken == taken {
            return Ok(None);
        }
        self.taken = taken;
        next_epoch(self.rows.store.as_ref(), taken).map(Some)
    }

    /// Notes what is about to be committed.
    pub(super) fn note(&mut self, changes: &Changes) {
        self.migration.note(changes);
    }

    /// Looks at the table of owners. Returns whether the instance is to have other partitions.
    pub(super) fn look(
        &mut self,
        now: Timestamp,
        table: &OwnersTable,
        beside: Option<&mut dyn Beside>,
    ) -> Result<bool, StoreError> {
        // What this life began with may be newer than what was seen last.
        if table.revision < self.revision {
            return Ok(false);
        }
        // What is left of a partition that was split meanwhile is not by hash: that is its halves'.
        self.rows.learn(&table.owners);
        let given_up = self.migration.look(&table.owners, beside)?;
        if !given_up.is_empty() {
            self.removal = Removal::default();
        }
        let migration = &self.migration;
        self.left_over.extend(given_up);
        self.left_over
            .retain(|partition| !migration.comes(*partition));
        Ok(is_to_have_others(
            now.since(Timestamp::ZERO),
            &table.owners,
            self.instance,
            &self.partitions,
            &migration.ready(),
            &mut self.ready_since,
        ))
    }

    /// Partitions of the instance that were split, and whose halves have all by now, as `has_all`
    /// says.
    pub(super) fn finished(&self, owners: &Owners, has_all: impl Fn(u16) -> bool) -> Vec<u16> {
        let late = owners.late(self.instance).into_iter();
        late.filter(|&partition| has_all(partition)).collect()
    }

    /// The commit that removes some of the left-over rows, at most `rows_max`; none when there is
    /// nothing to remove now.
    pub(super) fn remove_left_over(
        &mut self,
        rows_max: usize,
    ) -> Result<Option<Changes>, StoreError> {
        let Some(&partition) = self.left_over.last() else {
            return Ok(None);
        };
        let mut changes = Changes::default();
        let removal = &mut self.removal;
        if self
            .rows
            .remove(&mut changes, partition, removal, rows_max)?
            > 0
        {
            return Ok(Some(changes));
        }
        self.left_over.pop();
        self.removal = Removal::default();
        Ok(None)
    }

    /// What is done of the moves while the core works.
    pub(super) fn migration(&self) -> &Migration {
        &self.migration
    }

    /// The same, to tell it what was done.
    pub(super) fn migration_mut(&mut self) -> &mut Migration {
        &mut self.migration
    }

    /// What the life leaves of its moves.
    pub(super) fn end(self, coming: impl IntoIterator<Item = Coming>) -> Brought {
        self.migration.end(coming)
    }
}

/// The epoch in which the consumers of an instance were made. A process that begins goes on with
/// those of the last one: they know how often a message was delivered, and so of which one lives
/// may have died. A life that follows another in the same process has new ones: what was on its way
/// to the last one comes again at once.
fn drawn_since(store: &dyn Store, epoch: u64, is_first: bool) -> Result<u64, StoreError> {
    const SINCE: &[u8] = b"consumers";
    let stored = store
        .get(LOOP, SINCE)?
        .and_then(|bytes| bytes.try_into().ok())
        .map(u64::from_le_bytes);
    if let Some(since) = stored.filter(|_| is_first) {
        return Ok(since);
    }
    let mut changes = Changes::default();
    changes.put(LOOP, SINCE, epoch.to_le_bytes());
    store.commit(&changes)?;
    Ok(epoch)
}

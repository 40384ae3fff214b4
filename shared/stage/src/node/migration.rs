//! Migration: what of the moves of an instance is done while its core works.
//!
//! ```text
//!  table ─▶ leaving ─▶ copy sent ─▶ the receiver has it ─▶ ready to be given ──┐
//!           coming ──▶ parts taken in ─▶ the last one, too ─▶ ready to be taken ┴─▶ the life of the core ends
//! ```
//!
//! In: the table of owners, as it is looked at; commits of the core; what has become of the work in
//! the background. Out: that work; partitions that are ready, and what the
//! [handover](super::Handover) needs to give and take them. Invariant: all rows that change after
//! the copy of a partition began are noted.

use super::change::InstanceId;
use super::coming::{Coming, Loaded};
use super::copying::{Copying, Sent};
use crate::beside::Beside;
use crate::moves::{Changed, Rows};
use crate::store::{Changes, StoreError};
use rhumb_partition::{Owners, Ready};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Work that is done in the background.
pub enum Background {
    /// Empty the stream of the partition's moves, and put the parts of a copy there
    /// ([`Copying::read`]); then call [`Migration::sent`]. One that cannot be sent its owner keeps
    /// ([`Change::Keep`](super::Change::Keep)). One copy after the other.
    Copy(Copying),
    /// Take in the parts of a partition as they come ([`Coming::take`]); then call
    /// [`Migration::loaded`], or [`Migration::ended`].
    Load(Box<Coming>),
    /// Do not go on with a partition that was to come.
    GiveUp(u16),
}

/// What an instance does of its moves while its core works.
pub struct Migration {
    of: InstanceId,
    rows: Rows,
    /// The number of the copies of this life.
    copy: u64,
    changed: Changed,
    /// Partitions that leave, with their versions.
    leaving: BTreeMap<u16, u64>,
    sent: BTreeMap<u16, Sent>,
    /// Partitions that come, with their versions.
    coming: BTreeMap<u16, u64>,
    loaded: BTreeMap<u16, Loaded>,
    background: VecDeque<Background>,
}

/// What the life of a core leaves of its moves to the handover, and the handover to the next life.
#[derive(Default)]
pub struct Brought {
    pub(super) changed: Changed,
    pub(super) sent: BTreeMap<u16, Sent>,
    pub(super) coming: BTreeMap<u16, Coming>,
    pub(super) loaded: BTreeMap<u16, Loaded>,
}

impl Migration {
    /// Goes on with the partitions that were coming in an earlier life. `epoch`: of this life.
    pub fn begin(of: InstanceId, rows: Rows, epoch: u64, brought: Brought) -> Self {
        let Brought { coming, loaded, .. } = brought;
        let versions = coming
            .values()
            .map(|coming| (coming.partition, coming.version));
        let have_come = loaded
            .iter()
            .map(|(&partition, loaded)| (partition, loaded.version));
        let versions = versions.chain(have_come).collect();
        let background = coming
            .into_values()
            .map(|coming| Background::Load(Box::new(coming)));
        Migration {
            of,
            rows,
            copy: epoch,
            changed: Changed::default(),
            leaving: BTreeMap::new(),
            sent: BTreeMap::new(),
            coming: versions,
            loaded,
            background: background.collect(),
        }
    }

    /// The next work for the background, if there is any.
    pub fn next_background(&mut self) -> Option<Background> {
        self.background.pop_front()
    }

    /// Notes what is about to be committed.
    pub fn note(&mut self, changes: &Changes) {
        self.changed.note(&self.rows, changes);
    }

    /// Looks at the table: begins what is to leave and to come, gives up what is not any more.
    /// Returns partitions that were to come, and of which rows are left.
    ///
    /// # Errors
    /// The store cannot be read, or what the stage keeps beside it.
    pub fn look(
        &mut self,
        owners: &Owners,
        mut beside: Option<&mut dyn Beside>,
    ) -> Result<Vec<u16>, StoreError> {
        self.end_split(owners);
        self.rows.learn(owners);
        let leaving = owners.leaving(self.of.instance).into_iter();
        let leaving: BTreeMap<u16, u64> = leaving
            .map(|(partition, _)| (partition, owners.version(partition)))
            .collect();
        for partition in differing(&self.leaving, &leaving) {
            self.sent.remove(&partition);
            self.changed.take(partition);
            if let Some(beside) = &mut beside {
                beside.take_later(partition, &mut |_| Ok(()))?;
            }
        }
        for partition in differing(&leaving, &self.leaving) {
            self.copy(partition, leaving[&partition], beside.as_deref_mut())?;
        }
        self.leaving = leaving;
        let coming = owners.coming_to(self.of.instance).into_iter().collect();
        let given_up = differing(&self.coming, &coming);
        for &partition in &given_up {
            self.background.push_back(Background::GiveUp(partition));
            self.loaded.remove(&partition);
        }
        for partition in differing(&coming, &self.coming) {
            self.load(owners, partition, beside.as_deref_mut())?;
        }
        self.coming = coming;
        Ok(given_up)
    }

    /// Partitions that come and were split meanwhile come anew: what they would take in, and remove
    /// first, by hash is their halves'.
    fn end_split(&mut self, owners: &Owners) {
        let was_split = |partition: &u16| {
            let retired = owners.partitions.get(usize::from(*partition));
            retired.is_some_and(|of| of.retired.is_some())
                && self.rows.directory.hashes_of(*partition).is_some()
        };
        let split: Vec<u16> = self.coming.keys().copied().filter(was_split).collect();
        for partition in split {
            self.background.push_back(Background::GiveUp(partition));
            self.ended(partition);
        }
    }

    /// Begins to copy a partition.
    fn copy(
        &mut self,
        partition: u16,
        version: u64,
        beside: Option<&mut dyn Beside>,
    ) -> Result<(), StoreError> {
        self.changed.watch(partition);
        let copied = match beside {
            Some(beside) => Some((beside.name(), beside.copy(partition)?)),
            None => None,
        };
        self.background.push_back(Background::Copy(Copying {
            rows: self.rows.clone(),
            partition,
            version,
            copy: self.copy,
            bill: self.of.bill(partition, version),
            copied,
        }));
        Ok(())
    }

    /// Begins to take a partition in, unless an earlier process had all of it already.
    fn load(
        &mut self,
        owners: &Owners,
        partition: u16,
        beside: Option<&mut dyn Beside>,
    ) -> Result<(), StoreError> {
        let version = owners.version(partition);
        if let Some(copy) = owners.copy(partition)
            && self.rows.has_whole(partition, version, copy)?
        {
            let loaded = Loaded {
                version,
                copy,
                importing: None,
                worked: Duration::ZERO,
            };
            self.loaded.insert(partition, loaded);
            return Ok(());
        }
        let importing = match beside {
            Some(beside) => Some((beside.name(), beside.importer(partition)?)),
            None => None,
        };
        let coming = Coming {
            rows: self.rows.clone(),
            partition,
            version,
            bill: self.of.bill(partition, version),
            copy: None,
            number: 0,
            sequence: 1,
            importing,
            is_to_tell: false,
            worked: Duration::ZERO,
        };
        self.background
            .push_back(Background::Load(Box::new(coming)));
        Ok(())
    }

    /// A copy of a partition is in its stream.
    pub fn sent(&mut self, partition: u16, sent: Sent) {
        if self.leaving.get(&partition) == Some(&sent.version) {
            self.sent.insert(partition, sent);
        }
    }

    /// All of a partition has come.
    pub fn loaded(&mut self, partition: u16, loaded: Loaded) {
        if self.coming.get(&partition) == Some(&loaded.version) {
            self.loaded.insert(partition, loaded);
        }
    }

    /// A partition that came begins anew with the next look, if it still comes.
    pub fn ended(&mut self, partition: u16) {
        self.coming.remove(&partition);
        self.loaded.remove(&partition);
    }

    /// Returns whether partitions are on their way from the instance, or to it.
    pub fn is_moving(&self) -> bool {
        !self.leaving.is_empty() || !self.coming.is_empty()
    }

    /// Returns whether a partition is on its way to the instance: what the store has of it is its.
    pub fn comes(&self, partition: u16) -> bool {
        self.coming.contains_key(&partition)
    }

    /// What can be given and taken as soon as the life of the core ends.
    pub fn ready(&self) -> Ready {
        let to_give = self.sent.iter();
        let to_take = self.loaded.iter();
        Ready {
            to_give: to_give
                .map(|(&partition, of)| (partition, of.copy))
                .collect(),
            to_take: to_take
                .map(|(&partition, of)| (partition, of.copy))
                .collect(),
        }
    }

    /// Ends with the life of the core. `coming`: what the background was taking in.
    pub fn end(self, coming: impl IntoIterator<Item = Coming>) -> Brought {
        let coming = coming.into_iter().map(|coming| (coming.partition, coming));
        let mut coming: BTreeMap<u16, Coming> = coming.collect();
        // What the background has not heard of yet.
        for work in self.background {
            match work {
                Background::Load(of) => _ = coming.insert(of.partition, *of),
                Background::GiveUp(partition) => _ = coming.remove(&partition),
                Background::Copy(_) => {}
            }
        }
        Brought {
            changed: self.changed,
            sent: self.sent,
            coming,
            loaded: self.loaded,
        }
    }
}

/// The partitions of the one that the other does not have under the same version.
fn differing(one: &BTreeMap<u16, u64>, other: &BTreeMap<u16, u64>) -> Vec<u16> {
    one.iter()
        .filter(|(partition, version)| other.get(partition) != Some(version))
        .map(|(&partition, _)| partition)
        .collect()
}

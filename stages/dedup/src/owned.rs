//! The partitions that an instance owns, the serial numbers of their new URLs, and their counts.
//!
//! Invariant: in a generation of the crawl the new URLs of a partition are numbered 1, 2, 3, …
//! without a gap, in the lower bits of their serials; the upper bits tell the generation. So the
//! next number tells how many the generation has. A commit has a row of counts for each partition
//! whose counts it changes, and no other.

use crate::counters::Counters;
use crate::meta::{COUNTS, META, SERIALS, key, next_serial, of_another_version, refuse_earlier};
use rhumb_config::identity::serials_follow;
use rhumb_partition::Directory;
use rhumb_stage::store::{Changes, Store, StoreError};
use rhumb_wire::lane_of_hash;
use rhumb_wire::topology::Token;

/// The partitions of an instance. One is found by its slot, which never changes in a life of the
/// process.
pub(crate) struct OwnedPartitions {
    /// Which partition each hash belongs to.
    directory: Directory,
    /// The serials of the generation follow this one.
    follow: u64,
    /// The owned partitions, by slot.
    owned: Vec<Owned>,
    /// The slot of each partition, by the partition's number.
    slots: Vec<Option<u16>>,
    /// Slots of the partitions in which was counted since the counts were saved.
    counted: Vec<u16>,
}

struct Owned {
    number: u16,
    next_serial: u64,
    counters: Counters,
    /// As they were when they were last saved; and whether the partition is among those in which
    /// was counted.
    saved: Counters,
    is_counted: bool,
}

impl OwnedPartitions {
    /// Reads where the numbering and the counts of these partitions go on.
    pub(crate) fn open(
        directory: Directory,
        generation: u32,
        numbers: &[u16],
        store: &dyn Store,
    ) -> Result<Self, StoreError> {
        refuse_earlier(store)?;
        let follow = serials_follow(generation);
        let mut slots = vec![None; usize::from(directory.ids())];
        let mut owned = Vec::with_capacity(numbers.len());
        for (slot, &number) in (0..).zip(numbers) {
            if let Some(of) = slots.get_mut(usize::from(number)) {
                *of = Some(slot);
            }
            let next_serial = next_serial(store, number)?;
            let counters = match store.get(META, &key(number, COUNTS))? {
                Some(row) => {
                    Counters::from_bytes(&row).ok_or_else(|| of_another_version("its counts"))?
                }
                None => Counters::default(),
            };
            let next_serial = next_serial.max(follow + 1);
            owned.push(Owned {
                number,
                next_serial,
                counters,
                saved: counters,
                is_counted: false,
            });
        }
        Ok(OwnedPartitions {
            directory,
            follow,
            owned,
            slots,
            counted: Vec::new(),
        })
    }

    /// The slot of the partition of a hash, a host's or a body's; none when another instance owns
    /// it.
    pub(crate) fn slot_of_hash(&self, hash: u64) -> Option<u16> {
        self.slot_of(self.directory.partition_of(hash))
    }

    /// The partition to which what has this hash is to be passed on: of another instance, and once
    /// a part of a partition of this one that was split. None when it should never have come.
    pub(crate) fn passed_on_to(&self, hash: u64) -> Option<u16> {
        let was_here = self
            .owned
            .iter()
            .any(|owned| self.directory.covers(owned.number, hash));
        was_here.then(|| self.directory.partition_of(hash))
    }

    /// The owned partitions that were not split.
    pub(crate) fn live(&self) -> impl Iterator<Item = u16> {
        let numbers = self.owned.iter().map(|owned| owned.number);
        numbers.filter(|number| self.directory.hashes_of(*number).is_some())
    }

    /// Where the new URLs of the partition in a slot go.
    pub(crate) fn token(&self, slot: u16) -> Token {
        let partition = self.number(slot);
        let first = self
            .directory
            .hashes_of(partition)
            .map_or(0, |hashes| *hashes.start());
        Token::InLane {
            partition,
            lane: lane_of_hash(first),
        }
    }

    fn slot_of(&self, number: u16) -> Option<u16> {
        self.slots.get(usize::from(number)).copied().flatten()
    }

    /// The number of the partition in a slot.
    pub(crate) fn number(&self, slot: u16) -> u16 {
        self.owned[usize::from(slot)].number
    }

    /// Numbers `urls` new URLs and returns the first number.
    pub(crate) fn take_serials(&mut self, slot: u16, urls: u64, changes: &mut Changes) -> u64 {
        let owned = &mut self.owned[usize::from(slot)];
        let first = owned.next_serial;
        owned.next_serial += urls;
        changes.put(
            META,
            key(owned.number, SERIALS),
            owned.next_serial.to_le_bytes(),
        );
        first
    }

    /// Counts in the partition of a slot; without one, in the lowest. An instance without
    /// partitions gets no URLs.
    pub(crate) fn count(&mut self, slot: Option<u16>, count: impl FnOnce(&mut Counters)) {
        let slot = slot.unwrap_or(0);
        if let Some(owned) = self.owned.get_mut(usize::from(slot)) {
            count(&mut owned.counters);
            if !owned.is_counted {
                owned.is_counted = true;
                self.counted.push(slot);
            }
        }
    }

    /// Saves the counts that changed.
    pub(crate) fn save_counts(&mut self, changes: &mut Changes) {
        for slot in self.counted.drain(..) {
            let owned = &mut self.owned[usize::from(slot)];
            owned.is_counted = false;
            if owned.counters != owned.saved {
                owned.saved = owned.counters;
                changes.put(META, key(owned.number, COUNTS), owned.counters.to_bytes());
            }
        }
    }

    /// The counts of all partitions.
    pub(crate) fn counters(&self) -> Counters {
        self.owned.iter().map(|owned| owned.counters).sum()
    }

    /// The owned partitions that were not split, with how many URLs were found of each.
    pub(crate) fn found(&self) -> impl Iterator<Item = (u16, u64)> {
        let live = self
            .owned
            .iter()
            .filter(|owned| self.directory.hashes_of(owned.number).is_some());
        live.map(|owned| (owned.number, owned.counters.found()))
    }

    /// New URLs of this generation.
    pub(crate) fn numbered(&self) -> u64 {
        self.owned
            .iter()
            .map(|owned| owned.next_serial - self.follow - 1)
            .sum()
    }
}

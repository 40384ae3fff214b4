//! The partitions that an instance owns, the serial numbers of their new URLs, and their counts.
//!
//! Invariant: in a generation of the crawl the new URLs of a partition are numbered 1, 2, 3, … without a gap, in the lower
//! bits of their serials; the upper bits tell the generation. So the next number tells how many the generation has.
//! A commit has a row of counts for each partition whose counts it changes, and no other.

use crate::counters::Counters;
use crate::meta::{COUNTS, META, SERIALS, key, of_another_version, refuse_earlier};
use shared::identity::serials_follow;
use shared::stage::store::{Changes, Store, StoreError};
use shared::url::{partition, partition_of};

/// The partitions of an instance. One is found by its slot, which never changes in a life of the process.
pub(crate) struct OwnedPartitions {
    /// Partitions of the crawl.
    partitions: u16,
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
    /// As they were when they were last saved; and whether the partition is among those in which was counted.
    saved: Counters,
    is_counted: bool,
}

impl OwnedPartitions {
    /// Reads where the numbering and the counts of these partitions go on.
    pub(crate) fn open(
        partitions: u16,
        generation: u32,
        numbers: &[u16],
        store: &dyn Store,
    ) -> Result<Self, StoreError> {
        refuse_earlier(store)?;
        let follow = serials_follow(generation);
        let mut slots = vec![None; usize::from(partitions)];
        let mut owned = Vec::with_capacity(numbers.len());
        for (slot, &number) in (0..).zip(numbers) {
            if let Some(of) = slots.get_mut(usize::from(number)) {
                *of = Some(slot);
            }
            let next_serial = match store.get(META, &key(number, SERIALS))? {
                Some(row) => row.try_into().map(u64::from_le_bytes).map_err(|_| of_another_version("its serials"))?,
                None => 1,
            };
            let counters = match store.get(META, &key(number, COUNTS))? {
                Some(row) => Counters::from_bytes(&row).ok_or_else(|| of_another_version("its counts"))?,
                None => Counters::default(),
            };
            let next_serial = next_serial.max(follow + 1);
            owned.push(Owned { number, next_serial, counters, saved: counters, is_counted: false });
        }
        Ok(OwnedPartitions { partitions, follow, owned, slots, counted: Vec::new() })
    }

    /// The slot of a host's partition; none when another instance owns it.
    pub(crate) fn slot_of_host(&self, host: &str) -> Option<u16> {
        self.slot_of(partition(host, self.partitions))
    }

    fn slot_of(&self, number: u16) -> Option<u16> {
        self.slots.get(usize::from(number)).copied().flatten()
    }

    /// Says whether this instance owns the partition of a body.
    pub(crate) fn owns_body(&self, fingerprint: u64) -> bool {
        self.slot_of(partition_of(fingerprint, self.partitions)).is_some()
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
        changes.put(META, key(owned.number, SERIALS), owned.next_serial.to_le_bytes());
        first
    }

    /// Counts in the partition of a slot; without one, in the lowest. An instance without partitions gets no URLs.
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

    /// New URLs of this generation.
    pub(crate) fn numbered(&self) -> u64 {
        self.owned.iter().map(|owned| owned.next_serial - self.follow - 1).sum()
    }
}

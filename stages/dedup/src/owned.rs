//! The partitions that an instance owns, and the serial numbers of their new URLs.
//!
//! Invariant: the new URLs of a partition are numbered 1, 2, 3, … without a gap. So the next number tells how many are
//! known.

use crate::meta::META;
use shared::stage::store::{Changes, Store, StoreError};
use shared::url::partition;

/// The partitions of an instance. One is found by its slot, which never changes in a life of the process.
pub(crate) struct OwnedPartitions {
    /// Partitions of the crawl.
    partitions: u16,
    /// The owned partitions, by slot.
    owned: Vec<Owned>,
    /// The slot of each partition, by the partition's number.
    slots: Vec<Option<u16>>,
}

struct Owned {
    number: u16,
    next_serial: u64,
}

impl OwnedPartitions {
    /// Reads where the numbering of these partitions goes on.
    pub(crate) fn open(partitions: u16, numbers: &[u16], store: &dyn Store) -> Result<Self, StoreError> {
        let mut slots = vec![None; usize::from(partitions)];
        let mut owned = Vec::with_capacity(numbers.len());
        for (slot, &number) in (0..).zip(numbers) {
            if let Some(of) = slots.get_mut(usize::from(number)) {
                *of = Some(slot);
            }
            let next = store.get(META, &number.to_be_bytes())?;
            let next_serial = next.and_then(|bytes| bytes.try_into().ok()).map_or(1, u64::from_le_bytes);
            owned.push(Owned { number, next_serial });
        }
        Ok(OwnedPartitions { partitions, owned, slots })
    }

    /// The slot of a host's partition; none when another instance owns it.
    pub(crate) fn slot_of_host(&self, host: &str) -> Option<u16> {
        self.slot_of(partition(host, self.partitions))
    }

    fn slot_of(&self, number: u16) -> Option<u16> {
        self.slots.get(usize::from(number)).copied().flatten()
    }

    /// The partition of a body; none when another instance owns it.
    pub(crate) fn partition_of_body(&self, fingerprint: u64) -> Option<u16> {
        let number = (fingerprint % u64::from(self.partitions)) as u16;
        self.slot_of(number).map(|_| number)
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
        changes.put(META, owned.number.to_be_bytes(), owned.next_serial.to_le_bytes());
        first
    }

    /// URLs known.
    pub(crate) fn known(&self) -> u64 {
        self.owned.iter().map(|owned| owned.next_serial - 1).sum()
    }
}

//! What became known in a partition since its last merge.
//!
//! Keys lie in the order in which they became known, so that those not yet in the log are a tail; a
//! table of places finds them. About 24 bytes a key.

use crate::seen::Key;

/// The keys of a partition that are in none of its runs.
#[derive(Default)]
pub(super) struct Delta {
    keys: Vec<Key>,
    /// Open addressing, a power of two or nothing: 1 + the place in `keys`, 0 when free.
    slots: Vec<u32>,
    /// How many keys are in the log, from the first one on.
    logged: usize,
}

/// Least number of slots; also of keys made room for.
const SLOTS_MIN: usize = 16;

impl Delta {
    pub(super) fn len(&self) -> u64 {
        self.keys.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Memory held, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.keys.capacity() * size_of::<Key>() + self.slots.capacity() * size_of::<u32>()
    }

    pub(super) fn contains(&self, key: Key) -> bool {
        !self.slots.is_empty() && self.slots[self.slot_of(key)] != 0
    }

    /// False when it was there.
    pub(super) fn insert(&mut self, key: Key) -> bool {
        if (self.keys.len() + 1) * 4 > self.slots.len() * 3 {
            self.widen();
        }
        let slot = self.slot_of(key);
        if self.slots[slot] != 0 {
            return false;
        }
        if self.keys.len() == self.keys.capacity() {
            // An eighth at a time: doubling would leave half of the memory unused.
            self.keys
                .reserve_exact((self.keys.len() / 8).max(SLOTS_MIN));
        }
        self.keys.push(key);
        // A table of 2^32 keys would take 100 GB.
        self.slots[slot] = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        true
    }

    /// All keys, in the order in which they became known.
    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Keys that are not in the log.
    pub(super) fn unlogged(&self) -> &[Key] {
        &self.keys[self.logged..]
    }

    /// All keys are in the log.
    pub(super) fn set_logged(&mut self) {
        self.logged = self.keys.len();
    }

    /// No key is in the log.
    pub(super) fn set_unlogged(&mut self) {
        self.logged = 0;
    }

    /// All keys in order; the delta is empty after that and holds no memory.
    pub(super) fn take_sorted(&mut self) -> Vec<Key> {
        let mut keys = std::mem::take(self).keys;
        keys.sort_unstable();
        keys
    }

    /// Where the key is, or where it would be.
    fn slot_of(&self, key: Key) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = mix(key) & mask;
        while let Some(place) = (self.slots[slot] as usize).checked_sub(1) {
            if self.keys[place] == key {
                break;
            }
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn widen(&mut self) {
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        self.slots = vec![0; slots];
        for (place, &key) in (1..).zip(&self.keys) {
            let mut slot = mix(key) & (slots - 1);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (slots - 1);
            }
            self.slots[slot] = place;
        }
    }
}

/// Fingerprints are hashes already, but the partition's number is part of the host's.
fn mix((host, url): Key) -> usize {
    ((url ^ host.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_once_and_come_back_sorted() {
        let mut delta = Delta::default();
        assert!(!delta.contains((0, 0)) && delta.bytes() == 0);
        let keys = |n: u64| (n % 7, n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for n in 0..1_000 {
            assert!(delta.insert(keys(n)) && !delta.insert(keys(n)) && delta.contains(keys(n)));
            assert!(!delta.contains(keys(n + 1)));
        }
        delta.set_logged();
        assert!(delta.insert((u64::MAX, u64::MAX)) && delta.unlogged() == [(u64::MAX, u64::MAX)]);
        assert!(
            (1_001..32_000).contains(&delta.bytes()),
            "{}",
            delta.bytes()
        );
        let sorted = delta.take_sorted();
        assert!(sorted.len() == 1_001 && sorted.is_sorted());
        assert!(delta.is_empty() && delta.bytes() == 0 && delta.unlogged().is_empty());
    }
}

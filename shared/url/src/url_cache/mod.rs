//! The URL cache: fingerprints of URLs that are known, so that a repeat costs neither a message nor
//! a look at a disk.
//!
//! In: fingerprints of URLs that were durably handed on. Out: whether one is among them.
//!
//! Invariants: a hit is certain, because full 64-bit fingerprints are compared (P4), so a hit may
//! drop the URL; a miss means nothing. Memory is fixed when the cache is made (P6).
//!
//! Source: Broder, Najork and Wiener 2003 (policies in sections 3 and 6, sizes in section 5: a
//! cache for each link of the hosts in flight catches about four fifths of all links; one much
//! smaller catches little).

mod replacement;

pub use self::replacement::{Clock, Lru, Random, Replacement};
use crate::index::Index;

/// A set of at most so many fingerprints.
pub struct UrlCache {
    /// Fingerprints by slot; it grows to its capacity and stays there.
    slots: Vec<u64>,
    capacity: usize,
    /// Fingerprint to slot.
    index: Index,
    keeping: Keeping,
}

/// Which fingerprints the cache keeps.
enum Keeping {
    /// The latest, one in the place of another.
    Replacing(Box<dyn Replacement>),
    /// Certain ones alone; by slot, whether its fingerprint has been inserted.
    Fixed(Box<[bool]>),
}

impl UrlCache {
    /// An empty cache of `entries` entries, at least one and below 2^31.
    pub fn replacing(entries: usize, replacement: Box<dyn Replacement>) -> Self {
        let capacity = entries.max(1);
        UrlCache {
            slots: Vec::with_capacity(capacity),
            capacity,
            index: Index::new(capacity),
            keeping: Keeping::Replacing(replacement),
        }
    }

    /// An empty cache that takes in these and never another. They are not in it from the beginning:
    /// that an earlier crawl knew them does not mean that this one does.
    pub fn fixed(fingerprints: &[u64]) -> Self {
        let capacity = fingerprints.len();
        let mut slots = Vec::with_capacity(capacity);
        let mut index = Index::new(capacity);
        for &fingerprint in fingerprints {
            if index.find(fingerprint, &slots).is_none() {
                slots.push(fingerprint);
                index.insert(slots.len() as u32 - 1, &slots);
            }
        }
        let inserted = vec![false; slots.len()].into_boxed_slice();
        UrlCache {
            slots,
            capacity,
            index,
            keeping: Keeping::Fixed(inserted),
        }
    }

    /// Returns whether the fingerprint is here. For the policy, that is a use of it.
    pub fn contains(&mut self, fingerprint: u64) -> bool {
        let Some(slot) = self.index.find(fingerprint, &self.slots) else {
            return false;
        };
        match &mut self.keeping {
            Keeping::Replacing(replacement) => {
                replacement.used(slot);
                true
            }
            Keeping::Fixed(inserted) => inserted[slot as usize],
        }
    }

    /// Takes in the fingerprint of a URL that was durably handed on, in the place of another if
    /// need be.
    pub fn insert(&mut self, fingerprint: u64) {
        let known = self.index.find(fingerprint, &self.slots);
        match (&mut self.keeping, known) {
            (Keeping::Fixed(inserted), Some(slot)) => inserted[slot as usize] = true,
            (Keeping::Fixed(_), None) => {}
            (Keeping::Replacing(replacement), Some(slot)) => replacement.used(slot),
            (Keeping::Replacing(replacement), None) => {
                let slot = if self.slots.len() < self.capacity {
                    self.slots.push(fingerprint);
                    self.slots.len() as u32 - 1
                } else {
                    let slot = replacement.victim();
                    self.index.remove(slot, &self.slots);
                    self.slots[slot as usize] = fingerprint;
                    slot
                };
                self.index.insert(slot, &self.slots);
                replacement.placed(slot);
            }
        }
    }

    /// Fingerprints held.
    pub fn len(&self) -> usize {
        match &self.keeping {
            Keeping::Replacing(_) => self.slots.len(),
            Keeping::Fixed(inserted) => inserted.iter().filter(|inserted| **inserted).count(),
        }
    }

    /// Returns whether none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;

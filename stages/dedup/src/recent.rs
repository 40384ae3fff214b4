//! Fingerprints met lately: a direct-mapped cache that answers repeats without a look at the store.
//!
//! In: fingerprints that are in the store, or in the commit that is being made. Out: whether one is among them.
//!
//! Invariant: a hit is certain, because whole fingerprints are compared (P4). A miss means nothing.
//!
//! Links repeat within a page's neighbourhood: Broder, Najork and Wiener 2003, sections 4 and 6, found that a
//! cache of 2^16 entries catches most repeats of a crawl, and that its policy matters little beyond that size.

/// The cache.
pub(crate) struct Recent {
    /// A fingerprint lies where its low bits say.
    slots: Box<[u64]>,
}

impl Recent {
    /// An empty cache of at least `entries` entries (8 bytes each), rounded up to a power of two.
    pub(crate) fn new(entries: usize) -> Self {
        let mut slots = vec![0; entries.max(2).next_power_of_two()].into_boxed_slice();
        // Slot 0 is the one place where 0 would be taken for a fingerprint; 1 does not belong there.
        slots[0] = 1;
        Recent { slots }
    }

    /// Whether the fingerprint is here.
    pub(crate) fn contains(&self, fingerprint: u64) -> bool {
        self.slots[self.slot(fingerprint)] == fingerprint
    }

    /// Puts a fingerprint in the place of another.
    pub(crate) fn insert(&mut self, fingerprint: u64) {
        self.slots[self.slot(fingerprint)] = fingerprint;
    }

    fn slot(&self, fingerprint: u64) -> usize {
        // The mask leaves what fits.
        fingerprint as usize & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn an_empty_cache_has_nothing_not_even_zero() {
        let cache = Recent::new(4);
        assert!((0..100).all(|fingerprint| !cache.contains(fingerprint)));
    }

    proptest! {
        #[test]
        fn a_hit_was_inserted(inserted in proptest::collection::vec(0u64..200, 0..60)) {
            let mut cache = Recent::new(16);
            for &fingerprint in &inserted {
                cache.insert(fingerprint);
                prop_assert!(cache.contains(fingerprint));
            }
            let model: HashSet<u64> = inserted.into_iter().collect();
            for fingerprint in 0..200 {
                prop_assert!(model.contains(&fingerprint) || !cache.contains(fingerprint));
            }
        }
    }
}

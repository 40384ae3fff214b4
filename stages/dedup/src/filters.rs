//! What a partition certainly has not seen: a chain of Bloom filters, each twice as large as the one before.
//!
//! In: the fingerprints of a partition. Out: whether one may be among them; "no" is certain, "perhaps" is to be
//! looked up in the store (P4).
//!
//! Memory is bounded (P6): when the allowance is used up the last filter takes on more than it was made for.
//! Then more new URLs cost a look at the store, and nothing else changes.
//!
//! Sources: Bloom 1970; Almeida, Baquero, Preguiça and Hutchison 2007 (filters that grow by further filters).

use bloomfilter::Bloom;

/// Chance that a filter as full as it was made for says "perhaps" for a fingerprint it does not hold.
const FALSE_POSITIVES: f64 = 0.01;
/// Fingerprints are hashes already; a fixed seed makes every run alike.
const SEED: [u8; 32] = *b"URL fingerprints of a partition.";

/// Memory for filters, in bytes, shared by the partitions of an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    pub(crate) used: usize,
    pub(crate) max: usize,
}

/// Memory of a filter for so many fingerprints, in bytes.
pub(crate) fn bytes_for(fingerprints: u64) -> usize {
    Bloom::<u64>::compute_bitmap_size(items(fingerprints), FALSE_POSITIVES)
}

fn items(fingerprints: u64) -> usize {
    usize::try_from(fingerprints).unwrap_or(usize::MAX).max(1)
}

/// The filters of a partition.
pub(crate) struct Filters {
    /// The last one takes what comes.
    chain: Vec<Bloom<u64>>,
    /// Fingerprints that the last filter was made for, and that it holds.
    capacity: u64,
    held: u64,
}

impl Filters {
    /// One empty filter for so many fingerprints, at least one.
    pub(crate) fn new(capacity: u64, allowance: &mut Allowance) -> Self {
        let mut filters = Filters { chain: Vec::new(), capacity: capacity.max(1), held: 0 };
        filters.lengthen(allowance);
        filters
    }

    fn lengthen(&mut self, allowance: &mut Allowance) {
        let filter = Bloom::new_for_fp_rate_with_seed(items(self.capacity), FALSE_POSITIVES, &SEED);
        // The library's signature allows for failures; with a given seed it has none.
        if let Ok(filter) = filter {
            allowance.used += bytes_for(self.capacity);
            self.held = 0;
            self.chain.push(filter);
        }
    }

    /// False when the fingerprint was certainly never inserted.
    pub(crate) fn may_contain(&self, fingerprint: u64) -> bool {
        // The newest holds most.
        self.chain.iter().rev().any(|filter| filter.check(&fingerprint)) || self.chain.is_empty()
    }

    /// Remembers a fingerprint.
    pub(crate) fn insert(&mut self, fingerprint: u64, allowance: &mut Allowance) {
        if self.held >= self.capacity {
            let doubled = self.capacity.saturating_mul(2);
            if allowance.used + bytes_for(doubled) <= allowance.max {
                self.capacity = doubled;
                self.lengthen(allowance);
            }
        }
        if let Some(last) = self.chain.last_mut() {
            last.set(&fingerprint);
            self.held += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::url::fingerprint;

    fn nth(n: u64) -> u64 {
        fingerprint(&n.to_string())
    }

    #[test]
    fn what_was_inserted_is_never_denied_and_little_else_is_claimed() {
        let mut allowance = Allowance { used: 0, max: usize::MAX };
        let mut filters = Filters::new(100, &mut allowance);
        for n in 0..10_000 {
            filters.insert(nth(n), &mut allowance);
        }
        assert!((0..10_000).all(|n| filters.may_contain(nth(n))));
        // 100 + 200 + ... + 6400: seven filters.
        assert_eq!(filters.chain.len(), 7);
        let wrong = (10_000..30_000).filter(|&n| filters.may_contain(nth(n))).count();
        assert!(wrong < 20_000 * 7 / 100, "{wrong} of 20000");
    }

    #[test]
    fn memory_ends_at_the_allowance_and_nothing_is_forgotten() {
        let mut allowance = Allowance { used: 0, max: bytes_for(350) };
        let mut filters = Filters::new(100, &mut allowance);
        for n in 0..10_000 {
            filters.insert(nth(n), &mut allowance);
        }
        assert!(allowance.used <= allowance.max);
        assert!((0..10_000).all(|n| filters.may_contain(nth(n))));
    }
}

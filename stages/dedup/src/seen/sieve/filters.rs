//! What a partition certainly has not seen: a chain of Bloom filters, a further one when the last
//! is full.
//!
//! In: the fingerprints of a partition. Out: whether one may be among them; "no" is certain,
//! "perhaps" is to be looked up in the store (P4).
//!
//! Memory is bounded (P6): when the allowance is used up the last filter takes on more than it was
//! made for. Then more new URLs cost a look at the store, and nothing else changes.
//!
//! Sources: Bloom 1970; Almeida, Baquero, Preguiça and Hutchison 2007 (filters that grow by further
//! filters).

use bloomfilter::Bloom;

/// Chance that a filter as full as it was made for says "perhaps" for a fingerprint it does not
/// hold.
const FALSE_POSITIVES: f64 = 0.01;
/// Fingerprints are hashes already; a fixed seed makes every run alike.
const SEED: [u8; 32] = *b"URL fingerprints of a partition.";

/// Memory for filters, in bytes, shared by the partitions of an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    pub(crate) used: usize,
    pub(crate) max: usize,
}

/// Returns the memory of a filter for this many fingerprints, in bytes.
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
    /// Fingerprints that all filters were made for.
    all: u64,
    /// Memory of all of them; counted in the allowance.
    bytes: usize,
}

impl Filters {
    /// Returns an empty filter for `capacity` fingerprints, with no more memory than the allowance
    /// has left, but at least `bytes_min`: with less memory it says "perhaps" more often.
    pub(crate) fn within(capacity: u64, bytes_min: usize, allowance: &mut Allowance) -> Self {
        let capacity = capacity.max(1);
        let left = allowance.max.saturating_sub(allowance.used);
        let bytes = bytes_for(capacity).min(left.max(bytes_min)).max(1);
        let mut filters = Filters {
            chain: Vec::new(),
            capacity,
            all: 0,
            held: 0,
            bytes: 0,
        };
        filters.push(
            Bloom::new_with_seed(bytes, items(capacity), &SEED),
            bytes,
            allowance,
        );
        filters
    }

    /// Gives the memory back to the allowance.
    pub(crate) fn release(self, allowance: &mut Allowance) {
        allowance.used = allowance.used.saturating_sub(self.bytes);
    }

    fn lengthen(&mut self, allowance: &mut Allowance) {
        let filter = Bloom::new_for_fp_rate_with_seed(items(self.capacity), FALSE_POSITIVES, &SEED);
        self.push(filter, bytes_for(self.capacity), allowance);
    }

    fn push(
        &mut self,
        filter: Result<Bloom<u64>, &'static str>,
        bytes: usize,
        allowance: &mut Allowance,
    ) {
        // The library's signature allows for failures; with a given seed it has none.
        if let Ok(filter) = filter {
            allowance.used += bytes;
            self.bytes += bytes;
            self.all += self.capacity;
            self.held = 0;
            self.chain.push(filter);
        }
    }

    /// False when the fingerprint was certainly never inserted.
    pub(crate) fn may_contain(&self, fingerprint: u64) -> bool {
        // The newest holds most.
        self.chain
            .iter()
            .rev()
            .any(|filter| filter.check(&fingerprint))
            || self.chain.is_empty()
    }

    /// Remembers a fingerprint.
    pub(crate) fn insert(&mut self, fingerprint: u64, allowance: &mut Allowance) {
        if self.held >= self.capacity {
            // Half of all there are: little memory that is not used yet, for filters that are soon
            // made anew.
            let next = self.all.div_ceil(2);
            if allowance.used + bytes_for(next) <= allowance.max {
                self.capacity = next;
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
    use rhumb_url::fingerprint;

    fn nth(n: u64) -> u64 {
        fingerprint(&n.to_string())
    }

    #[test]
    fn what_was_inserted_is_never_denied_and_little_else_is_claimed() {
        let mut allowance = Allowance {
            used: 0,
            max: usize::MAX,
        };
        let mut filters = Filters::within(100, 1, &mut allowance);
        for n in 0..10_000 {
            filters.insert(nth(n), &mut allowance);
        }
        assert!((0..10_000).all(|n| filters.may_contain(nth(n))));
        // Each makes the sum half as large again: 100 x 1.5^12 is more than 10,000.
        assert_eq!(filters.chain.len(), 13);
        let wrong = (10_000..30_000)
            .filter(|&n| filters.may_contain(nth(n)))
            .count();
        assert!(wrong < 20_000 * 13 / 100, "{wrong} of 20000");
    }

    #[test]
    fn memory_ends_at_the_allowance_and_nothing_is_forgotten() {
        let mut allowance = Allowance {
            used: 0,
            max: bytes_for(350),
        };
        let mut filters = Filters::within(100, 1, &mut allowance);
        for n in 0..10_000 {
            filters.insert(nth(n), &mut allowance);
        }
        assert!(allowance.used <= allowance.max);
        assert!((0..10_000).all(|n| filters.may_contain(nth(n))));
    }

    #[test]
    fn filters_give_their_memory_back() {
        let mut allowance = Allowance {
            used: 0,
            max: usize::MAX,
        };
        let mut filters = Filters::within(1_000, 1, &mut allowance);
        (0..1_000).for_each(|n| filters.insert(nth(n), &mut allowance));
        // One more makes a second filter, half as large.
        let one = allowance.used;
        (1_000..1_400).for_each(|n| filters.insert(nth(n), &mut allowance));
        assert_eq!(allowance.used, one + bytes_for(500));
        filters.release(&mut allowance);
        assert_eq!(allowance.used, 0);
    }

    #[test]
    fn a_filter_with_too_little_memory_denies_nothing_it_holds() {
        let mut allowance = Allowance {
            used: 0,
            max: bytes_for(1_000),
        };
        let mut filters = Filters::within(2_000, 1, &mut allowance);
        (0..2_000).for_each(|n| filters.insert(nth(n), &mut allowance));
        assert!(allowance.used <= allowance.max);
        assert!((0..2_000).all(|n| filters.may_contain(nth(n))));
        let wrong = (2_000..12_000)
            .filter(|&n| filters.may_contain(nth(n)))
            .count();
        assert!(wrong < 1_500, "{wrong} of 10000");
        let floor = Filters::within(2_000, 64, &mut allowance);
        assert!(!floor.may_contain(nth(1)));
    }
}

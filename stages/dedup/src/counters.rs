//! Counts of found URLs since the crawl began (P3): found = filtered + repeated + new + misrouted.

use rhumb_stage::Count;
use rhumb_wire::message::{FilterReason, SplitUrls};
use std::iter::Sum;

/// The counts of a partition, stored with each commit that changes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    found: u64,
    filtered: [u64; FilterReason::ALL.len()],
    repeated: u64,
    new: u64,
    /// They belong to partitions of other instances, and were dropped.
    misrouted: u64,
}

impl Counters {
    /// A URL was found that is new.
    pub(crate) fn new_url(&mut self) {
        self.found += 1;
        self.new += 1;
    }

    /// A URL was found that is known.
    pub(crate) fn repeat(&mut self) {
        self.found += 1;
        self.repeated += 1;
    }

    /// A URL was found that belongs to a partition of another instance.
    pub(crate) fn misroute(&mut self) {
        self.found += 1;
        self.misrouted += 1;
    }

    /// URLs that were found.
    pub(crate) fn found(&self) -> u64 {
        self.found
    }

    /// URLs that were new.
    pub(crate) fn new_urls(&self) -> u64 {
        self.new
    }

    /// Takes over the counts that were made upstream of a batch.
    pub(crate) fn take_over(&mut self, batch: &SplitUrls) {
        let filtered: u64 = batch.filtered.iter().map(|&count| u64::from(count)).sum();
        for (sum, &count) in self.filtered.iter_mut().zip(&batch.filtered) {
            *sum += u64::from(count);
        }
        self.found += filtered + u64::from(batch.repeated);
        self.repeated += u64::from(batch.repeated);
    }

    /// The counts as they are stored.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let numbers = [self.found, self.repeated, self.new]
            .into_iter()
            .chain(self.filtered);
        numbers
            .chain([self.misrouted])
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    /// Reads what [`Counters::to_bytes`] wrote; none when it did not.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let numbers: Vec<u64> = bytes
            .chunks_exact(8)
            .filter_map(|bytes| bytes.try_into().ok())
            .map(u64::from_le_bytes)
            .collect();
        let (&[found, repeated, new], rest) = numbers.split_first_chunk()?;
        let (filtered, rest) = rest.split_first_chunk()?;
        let &[misrouted] = rest else { return None };
        Some(Counters {
            found,
            filtered: *filtered,
            repeated,
            new,
            misrouted,
        })
    }

    /// The counts by name.
    pub(crate) fn counts(&self) -> Vec<Count> {
        let by = |reason: FilterReason| self.filtered[reason as usize];
        vec![
            ("found_total", self.found),
            ("filtered_total", self.filtered.iter().sum()),
            ("filtered_scope_total", by(FilterReason::Scope)),
            ("filtered_depth_total", by(FilterReason::Depth)),
            ("filtered_redirects_total", by(FilterReason::Redirects)),
            ("filtered_form_total", by(FilterReason::Form)),
            ("filtered_pattern_total", by(FilterReason::Pattern)),
            ("filtered_segments_total", by(FilterReason::Segments)),
            ("filtered_parameters_total", by(FilterReason::Parameters)),
            ("repeated_total", self.repeated),
            ("new_total", self.new),
            ("misrouted_total", self.misrouted),
        ]
    }
}

impl Sum for Counters {
    fn sum<I: Iterator<Item = Counters>>(all: I) -> Self {
        all.fold(Counters::default(), |sum, counters| Counters {
            found: sum.found + counters.found,
            filtered: std::array::from_fn(|reason| {
                sum.filtered[reason] + counters.filtered[reason]
            }),
            repeated: sum.repeated + counters.repeated,
            new: sum.new + counters.new,
            misrouted: sum.misrouted + counters.misrouted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_back_as_they_were_and_add_up() {
        let mut counters = Counters {
            filtered: [1, 2, 3, 4, 5, 6, 7],
            ..Counters::default()
        };
        counters.new_url();
        counters.misroute();
        let bytes = counters.to_bytes();
        assert_eq!(Counters::from_bytes(&bytes), Some(counters));
        assert_eq!(Counters::from_bytes(&bytes[..bytes.len() - 8]), None);
        assert_eq!(Counters::from_bytes(&[bytes, vec![0; 8]].concat()), None);
        let sum: Counters = [counters, counters].into_iter().sum();
        let twice = Counters {
            found: 4,
            filtered: [2, 4, 6, 8, 10, 12, 14],
            repeated: 0,
            new: 2,
            misrouted: 2,
        };
        assert_eq!(sum, twice);
    }
}

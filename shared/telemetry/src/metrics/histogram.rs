//! A histogram of durations: an array of counters, cheap enough for every message.
//!
//! In: durations. Out: how many there were up to each bound, and their sum.

use std::time::Duration;

/// Upper bounds of the buckets, in microseconds: from a step of a core to a message that lay in a
/// backlog for hours.
pub const BOUNDS_US: [u64; 18] = [
    100,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    60_000_000,
    600_000_000,
    3_600_000_000,
];

/// Durations, counted by how long they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Of the last one: those above all bounds.
    counts: [u64; BOUNDS_US.len() + 1],
    sum_us: u64,
}

impl Histogram {
    /// Counts a duration.
    pub fn observe(&mut self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        self.counts[bucket] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// How many durations were at most as long as each bound.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut so_far = 0;
        BOUNDS_US
            .iter()
            .zip(&self.counts)
            .map(move |(bound, count)| {
                so_far += count;
                (*bound, so_far)
            })
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How long they were together.
    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_us)
    }

    /// Counts what another one has counted.
    pub fn add(&mut self, other: &Histogram) {
        self.counts
            .iter_mut()
            .zip(other.counts)
            .for_each(|(count, more)| *count += more);
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_for_its_bound_and_all_above() {
        let mut histogram = Histogram::default();
        for us in [0, 100, 101, 999_999, 7_200_000_000] {
            histogram.observe(Duration::from_micros(us));
        }
        let cumulative: Vec<_> = histogram.cumulative().collect();
        assert_eq!(cumulative[..2], [(100, 2), (500, 3)]);
        assert_eq!(cumulative[10..12], [(500_000, 3), (1_000_000, 4)]);
        assert_eq!(cumulative.last(), Some(&(3_600_000_000, 4)));
        assert_eq!(
            (histogram.count(), histogram.sum()),
            (5, Duration::from_micros(7_201_000_200))
        );
        let mut twice = histogram.clone();
        twice.add(&histogram);
        assert_eq!((twice.count(), twice.sum()), (10, 2 * histogram.sum()));
    }
}

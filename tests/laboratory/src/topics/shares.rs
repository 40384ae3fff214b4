//! Shares: what each topic got in each part of a run.

use super::theme::{TOPICS, Way};
use std::time::Duration;

/// Parts of a run.
pub(super) const PARTS: usize = 12;

/// What topics got in a part of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    /// Connection time of each.
    pub(super) time: [Duration; TOPICS],
    /// Pages of each.
    pub(super) pages: [u64; TOPICS],
}

/// A crawl of one web, one way.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) kind: &'static str,
    pub(super) names: [&'static str; TOPICS],
    pub(super) way: Way,
    pub(super) seed: u64,
    pub(super) parts: [Part; PARTS],
}

impl Run {
    /// Connection time of each topic, in seconds.
    pub(super) fn times(&self) -> [f64; TOPICS] {
        std::array::from_fn(|topic| {
            self.parts
                .iter()
                .map(|part| part.time[topic].as_secs_f64())
                .sum()
        })
    }

    /// Pages of each topic.
    pub(super) fn pages(&self) -> [u64; TOPICS] {
        std::array::from_fn(|topic| self.parts.iter().map(|part| part.pages[topic]).sum())
    }

    /// Parts of the run in which a topic got no page, over all topics.
    pub(super) fn empty_parts(&self) -> usize {
        self.parts
            .iter()
            .flat_map(|part| part.pages)
            .filter(|pages| *pages == 0)
            .count()
    }
}

/// Jain's index: 1 when all are equal, 1/n when one has all (Jain, Chiu and Hawe 1984).
pub(super) fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), share| {
        (sum + share, squares + share * share)
    });
    if squares == 0.0 {
        1.0
    } else {
        sum * sum / (shares.len() as f64 * squares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_one_for_equal_shares_and_least_when_one_has_all() {
        for (shares, index) in [
            ([5.0, 5.0, 5.0], 1.0),
            ([9.0, 0.0, 0.0], 1.0 / 3.0),
            ([0.0; 3], 1.0),
        ] {
            assert!((jain(&shares) - index).abs() < 1e-9);
        }
        assert!((jain(&[1.0, 2.0, 3.0]) - 36.0 / 42.0).abs() < 1e-9);
    }
}

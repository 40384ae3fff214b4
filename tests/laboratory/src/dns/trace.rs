//! Trace: the host names that a crawler collects, with many repeats.
//!
//! Names are drawn independently of one another by a Zipf distribution. In a crawl the names of one
//! page come together, so a cache would have more hits there, a small one above all.
//!
//! Source: the cached, non-blocking resolver for crawlers (2008) was tried on 1,000,000 names that
//! a crawler had collected; that trace is not public.

use super::names::Names;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use std::sync::Arc;

/// Names in the order in which they are wanted.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub(super) names: Arc<Names>,
    /// Numbers of names; the most popular is 0.
    pub(super) draws: Vec<u32>,
}

impl Trace {
    /// Draws `count` times one of `hosts` names; the popularity of the k-th is `1 / k^exponent`.
    pub(super) fn new(count: usize, hosts: usize, exponent: f64, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut sum = 0.0;
        let up_to: Vec<f64> = (1..=hosts)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        let mut draw = || {
            let point = sum * random.random::<f64>();
            // Rounding may put the point at the very end.
            up_to.partition_point(|&end| end <= point).min(hosts - 1) as u32
        };
        Trace {
            draws: (0..count).map(|_| draw()).collect(),
            names: Arc::new(Names::new(hosts, seed)),
        }
    }

    /// The first names of the trace.
    pub(super) fn first(&self, count: usize) -> Trace {
        Trace {
            names: Arc::clone(&self.names),
            draws: self.draws[..count].to_vec(),
        }
    }

    /// The name of a draw.
    pub(super) fn name(&self, draw: u32) -> &str {
        self.names.get(draw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularity_falls_as_the_exponent_says() {
        let trace = Trace::new(200_000, 1_000, 0.9, 3);
        let mut counts = vec![0.0; 1_000];
        trace
            .draws
            .iter()
            .for_each(|&draw| counts[draw as usize] += 1.0);
        let sum: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-0.9)).sum();
        for rank in [1, 2, 10, 100] {
            let expected = 200_000.0 * f64::from(rank).powf(-0.9) / sum;
            let counted = counts[rank as usize - 1];
            let off = (counted - expected).abs();
            assert!(
                off < 5.0 * expected.sqrt(),
                "rank {rank}: {counted} instead of {expected}"
            );
        }
        assert!(counts[999] > 0.0, "the least popular is drawn too");
    }

    #[test]
    fn a_seed_gives_the_same_trace() {
        let draws = |seed| Trace::new(1_000, 300, 0.9, seed).draws;
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        assert_eq!(
            Trace::new(1_000, 300, 0.9, 1).first(10).draws,
            draws(1)[..10]
        );
    }
}

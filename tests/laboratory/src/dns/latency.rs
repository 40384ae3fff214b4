//! Latency: how long the name server takes for a name, or that it never answers.
//!
//! Nine of ten questions take 10 to 100 ms, uniformly. One of ten takes 2.8 s in the mean,
//! exponentially: the paper says no more than "seconds to tens of seconds". Together that is a mean
//! of 330 ms; the paper has 331 ms. One name in 200 is never answered.
//!
//! Invariant: a latency depends on the seed, the name, and how often that name was asked before. So
//! the two types of a lookup, which are asked at once, take the same time.
//!
//! Source: the cached, non-blocking resolver for crawlers (2008), its figures for `gethostbyname`
//! on 3,000 names.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use std::time::Duration;

const FAST_MS: (f64, f64) = (10.0, 100.0);
const SLOW_SHARE: f64 = 0.1;
const SLOW_MEAN_MS: f64 = 2_800.0;
/// Share of the names that are never answered.
const SILENT_SHARE: f64 = 0.005;
/// Stands for the number of times that a name was asked, where the name itself is judged.
const NAME: u32 = u32::MAX;

/// The latencies of all names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub(super) seed: u64,
    /// Factor on all times; 1 gives the paper's.
    pub(super) scale: f64,
}

/// How long one waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    /// Time for one attempt.
    pub(super) timeout: Duration,
    pub(super) attempts: u32,
}

/// What a lookup costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) took: Duration,
    pub(super) is_answered: bool,
    /// How often the name was asked in all.
    pub(super) asked: u32,
}

impl Latency {
    /// How long the answer takes for a name that was asked `asked` times before; none when there is
    /// never an answer.
    pub(super) fn of(self, name: u32, asked: u32) -> Option<Duration> {
        if self.random(name, NAME).random_bool(SILENT_SHARE) {
            return None;
        }
        let mut random = self.random(name, asked);
        let milliseconds = if random.random_bool(SLOW_SHARE) {
            -SLOW_MEAN_MS * (1.0 - random.random::<f64>()).ln()
        } else {
            random.random_range(FAST_MS.0..FAST_MS.1)
        };
        Some(Duration::from_secs_f64(milliseconds * self.scale / 1e3))
    }

    /// What a lookup costs a client that waits for each attempt as `patience` says: its time,
    /// whether there is an answer by then, and how often the name was asked after it.
    pub(super) fn cost(self, name: u32, mut asked: u32, patience: Patience) -> Cost {
        let mut took = Duration::ZERO;
        for _ in 0..patience.attempts {
            let latency = self.of(name, asked);
            asked += 1;
            if let Some(latency) = latency.filter(|&latency| latency < patience.timeout) {
                return Cost {
                    took: took + latency,
                    is_answered: true,
                    asked,
                };
            }
            took += patience.timeout;
        }
        Cost {
            took,
            is_answered: false,
            asked,
        }
    }

    fn random(self, name: u32, asked: u32) -> Xoshiro256PlusPlus {
        let place = (u64::from(name) << 32) | u64::from(asked);
        Xoshiro256PlusPlus::seed_from_u64(self.seed.rotate_left(17) ^ place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Latency = Latency {
        seed: 5,
        scale: 1.0,
    };

    #[test]
    fn latencies_are_spread_as_the_paper_has_them() {
        let all: Vec<Option<Duration>> = (0..200_000).map(|name| PAPER.of(name, 0)).collect();
        let answered: Vec<f64> = all.iter().flatten().map(Duration::as_secs_f64).collect();
        let silent = 1.0 - answered.len() as f64 / all.len() as f64;
        assert!((silent - SILENT_SHARE).abs() < 0.001, "{silent}");
        let mean = answered.iter().sum::<f64>() / answered.len() as f64;
        assert!((mean - 0.331).abs() < 0.01, "{mean}");
        let fast = answered.iter().filter(|&&latency| latency <= 0.1).count() as f64
            / answered.len() as f64;
        // A few of the slow ones are fast: 1 - exp(-0.1 / 2.8).
        assert!((fast - 0.9035).abs() < 0.003, "{fast}");
        assert!(
            answered.iter().any(|&latency| latency > 20.0),
            "tens of seconds"
        );
    }

    #[test]
    fn it_hangs_on_seed_name_and_how_often_that_was_asked() {
        let latency = PAPER.of(1, 0);
        assert_eq!(latency, PAPER.of(1, 0));
        assert_ne!(latency, PAPER.of(1, 1));
        assert_ne!(latency, PAPER.of(2, 0));
        assert_ne!(latency, Latency { seed: 6, ..PAPER }.of(1, 0));
        let scaled = Latency {
            scale: 0.5,
            ..PAPER
        }
        .of(1, 0)
        .unwrap();
        assert!((scaled.as_secs_f64() - latency.unwrap().as_secs_f64() / 2.0).abs() < 1e-6);
    }

    #[test]
    fn a_name_that_is_never_answered_is_not_answered_later_either() {
        let silent = (0..).find(|&name| PAPER.of(name, 0).is_none()).unwrap();
        assert!((0..100).all(|asked| PAPER.of(silent, asked).is_none()));
        let patience = Patience {
            timeout: Duration::from_secs(5),
            attempts: 2,
        };
        let given_up = Cost {
            took: Duration::from_secs(10),
            is_answered: false,
            asked: 2,
        };
        assert_eq!(PAPER.cost(silent, 0, patience), given_up);
        let is_slow = |name, asked| {
            PAPER
                .of(name, asked)
                .is_some_and(|took| took > patience.timeout)
        };
        let slow = (0..)
            .find(|&name| is_slow(name, 0) && !is_slow(name, 1))
            .unwrap();
        let took = patience.timeout + PAPER.of(slow, 1).unwrap();
        assert_eq!(
            PAPER.cost(slow, 0, patience),
            Cost {
                took,
                is_answered: true,
                asked: 2
            }
        );
        let took = PAPER.of(slow, 1).unwrap();
        assert_eq!(
            PAPER.cost(slow, 1, patience),
            Cost {
                took,
                is_answered: true,
                asked: 2
            }
        );
    }
}

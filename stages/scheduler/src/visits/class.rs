//! Class: pages whose values grow alike.
//!
//! A class is a page's importance to a factor of 1.5, and its rate of change to one of e^0.25. The
//! rate of a page that is uncertain is the one that a known rate would need for the same value at
//! the same time: when the page reaches the threshold ([`effective_rate`]).
//!
//! Invariant: any importance and rate have a class.

use super::posterior::{Posterior, saturation};

/// Importance is told to this factor.
const IMPORTANCE_FACTOR: f64 = 1.5;
/// The logarithm of a rate is told to this.
const RATE_STEP: f64 = 0.25;
/// The step of importance 1, and that of one change a second.
const IMPORTANCE_ONE: f64 = 128.0;
const RATE_ONE: f64 = 160.0;
/// The last step of importance: one less than that of [`Class::DONE`].
const IMPORTANCE_MOST: f64 = 254.0;

/// Where the value of all rates is at an end: ten thousand years, in seconds.
const VERY_LONG_S: f64 = 3.2e11;
/// Where y -> saturation(y) / y is largest.
const PEAK: f64 = 1.793_282;
/// Steps of a bisection: of forty e-folds to a hundredth of a class.
const BISECTIONS: u32 = 14;

/// Pages whose values grow alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class {
    /// Step of the importance.
    pub importance: u8,
    /// Step of the rate of change.
    pub rate: u8,
}

impl Class {
    /// Of the pages that have had all visits they may have. No other page is as important.
    pub const DONE: Class = Class {
        importance: u8::MAX,
        rate: u8::MAX,
    };

    /// The class of an importance and a rate in changes a second.
    pub fn new(importance: f64, rate: f64) -> Self {
        let step = |number: f64, step: f64, one: f64, most: f64| {
            (number.ln() / step + one).round().clamp(0.0, most) as u8
        };
        let importance_log = IMPORTANCE_FACTOR.ln();
        Class {
            importance: step(importance, importance_log, IMPORTANCE_ONE, IMPORTANCE_MOST),
            rate: step(rate, RATE_STEP, RATE_ONE, 255.0),
        }
    }

    /// The largest importance in it.
    pub(super) fn importance_max(self) -> f64 {
        IMPORTANCE_FACTOR.powf(f64::from(self.importance) - IMPORTANCE_ONE + 0.5)
    }

    /// The rate in the middle of it, in changes a second.
    pub(super) fn rate(self) -> f64 {
        ((f64::from(self.rate) - RATE_ONE) * RATE_STEP).exp()
    }
}

/// The rate whose value crosses the threshold when that of the posterior does, for a page of
/// importance 1. Where it never does, or no threshold is known: the rate whose value ends where
/// that of the posterior ends.
pub(super) fn effective_rate(posterior: &Posterior, threshold: Option<f64>) -> f64 {
    let end = posterior.value(VERY_LONG_S);
    match threshold.filter(|threshold| *threshold > 0.0 && *threshold < end) {
        Some(threshold) => {
            let value = |log: f64| posterior.value(log.exp());
            // A value grows by at most 1 / e a second.
            let wait = bisect(threshold.ln(), VERY_LONG_S.ln(), |log| {
                value(log) < threshold
            })
            .exp();
            rate_at(posterior, wait, threshold)
        }
        None => 1.0 / end.max(f64::MIN_POSITIVE),
    }
}

/// The rate that has this value after this wait. There are two, below and above the peak; the
/// right one grows as the posterior does.
fn rate_at(posterior: &Posterior, wait: f64, value: f64) -> f64 {
    const NEARBY: f64 = 1.01;
    let height = value / wait;
    let elasticity = (posterior.value(NEARBY * wait) / posterior.value(wait)).ln() / NEARBY.ln();
    let lies_below = |log: f64| saturation(log.exp()) / log.exp() < height;
    let log = if elasticity >= 1.0 {
        bisect(-40.0, PEAK.ln(), lies_below)
    } else {
        bisect(PEAK.ln(), 40.0, |log| !lies_below(log))
    };
    log.exp() / wait
}

/// Where a condition ceases to hold between two numbers.
fn bisect(mut from: f64, mut to: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..BISECTIONS {
        let middle = (from + to) / 2.0;
        if holds(middle) {
            from = middle;
        } else {
            to = middle;
        }
    }
    (from + to) / 2.0
}

#[cfg(test)]
mod tests {
    use super::super::estimate::Estimate;
    use super::super::prior::Prior;
    use super::super::rates::Rates;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn importance_and_rate_are_told_to_their_steps() {
        let class = Class::new(1.0, 1e-5);
        assert_eq!(Class::new(1.2, 1.1e-5), class);
        assert_eq!(Class::new(1.5, 1e-5).importance, class.importance + 1);
        assert_eq!(Class::new(1.0, 1e-5 * 0.25f64.exp()).rate, class.rate + 1);
        assert!(class.importance_max() >= 1.2);
        assert!((class.rate().ln() - 1e-5f64.ln()).abs() <= 0.125);
        assert_eq!(Class::new(0.0, 0.0), Class::default());
        assert_eq!(
            Class::new(f64::INFINITY, f64::INFINITY),
            Class {
                importance: 254,
                rate: 255
            }
        );
    }

    #[test]
    fn a_known_rate_is_its_own_on_both_sides_of_the_peak() {
        for rate in [1e-7, 1e-5, 1e-3] {
            let posterior = Posterior::known(rate);
            for share in [0.01, 0.2, 0.4, 0.7, 0.99] {
                let found = effective_rate(&posterior, Some(share / rate));
                assert!(
                    (found / rate).ln().abs() < 0.05,
                    "{share}: {}",
                    found / rate
                );
            }
            let hopeless = effective_rate(&posterior, Some(2.0 / rate));
            assert!((hopeless / rate).ln().abs() < 1e-6);
        }
    }

    proptest! {
        #[test]
        fn the_effective_rate_reaches_the_threshold_when_the_posterior_does(
            bytes in proptest::array::uniform12(0u8..=254),
            log in 5.0f64..20.0,
        ) {
            let posterior =
                Posterior::new(Estimate::from_bytes(bytes), &Prior::default(), &Rates::default());
            let threshold = log.exp();
            let rate = effective_rate(&posterior, Some(threshold));
            prop_assert!(rate.is_finite() && rate > 0.0);
            if threshold < 0.9 * posterior.value(VERY_LONG_S) {
                // Where the posterior reaches the threshold, so does the rate, to a tenth.
                let reached = |posterior: &Posterior| {
                    bisect(0.0, VERY_LONG_S.ln(), |log| posterior.value(log.exp()) < threshold)
                };
                let own = posterior.value(reached(&posterior).exp());
                let wait = reached(&posterior).exp();
                let of_rate = Posterior::known(rate).value(wait);
                prop_assert!((of_rate / own).ln().abs() < 0.15, "{} {}", of_rate, own);
            }
        }
    }
}

//! Posterior: what is known of the rate of change of one page, and what a visit of it is worth.
//!
//! The value after a wait t is the mean over the rates D of (1 - e^(-D t) (1 + D t)) / D: never the
//! value of the mean rate. So a page that looks hopeless keeps some value by what is not known of
//! it, and is tried again.
//!
//! Invariants: a value never falls with the wait or with signals; it grows by at most 1 / e a
//! second; it is at most the mean of 1 / D.
//!
//! Sources: Cho and Garcia-Molina 2000, section 5 (the Lagrange multiplier); Azar and others 2018
//! (the value as a threshold).

use super::estimate::Estimate;
use super::prior::Prior;
use super::rates::{RATES, Rates};
use super::signals::Signals;

/// Below it the value is told by the first term of its series.
const SMALL: f64 = 1e-4;

/// The probability of each rate for a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Posterior {
    rates: [f64; RATES],
    weights: [f64; RATES],
}

impl Posterior {
    /// Of a page with this estimate.
    pub fn new(estimate: Estimate, prior: &Prior, rates: &Rates) -> Self {
        let likelihoods = estimate.likelihoods();
        let joint: [f64; RATES] =
            std::array::from_fn(|number| likelihoods[number] * prior.0[number]);
        let sum: f64 = joint.iter().sum();
        Posterior {
            rates: rates.0,
            weights: joint.map(|weight| weight / sum),
        }
    }

    /// Of a page whose rate is known, in changes a second.
    pub fn known(rate: f64) -> Self {
        let mut weights = [0.0; RATES];
        weights[0] = 1.0;
        Posterior {
            rates: [rate; RATES],
            weights,
        }
    }

    /// The probability of each rate.
    pub(super) fn weights(&self) -> [f64; RATES] {
        self.weights
    }

    /// The mean rate, in changes a second.
    pub fn mean(&self) -> f64 {
        self.mean_of(|rate| rate)
    }

    /// V: what a visit is worth after a wait, for a page of importance 1, in seconds.
    pub fn value(&self, wait_s: f64) -> f64 {
        self.mean_of(|rate| value(rate, rate * wait_s))
    }

    /// The same after so many signals.
    ///
    /// It is the value of a page without signals whose clock the signals have moved: within 0.2
    /// points of freshness of the exact one ([`Renewal::value`](super::Renewal::value)), which
    /// takes many times as long.
    pub fn value_signalled(&self, wait_s: f64, count: u32, signals: &Signals) -> f64 {
        self.mean_of(|rate| value(rate, signals.distance(rate, wait_s, count)))
    }

    /// The probability of no change in a wait.
    pub fn unchanged(&self, wait_s: f64) -> f64 {
        self.mean_of(|rate| (-rate * wait_s).exp())
    }

    /// The same after so many signals.
    pub fn unchanged_signalled(&self, wait_s: f64, count: u32, signals: &Signals) -> f64 {
        self.mean_of(|rate| (-signals.distance(rate, wait_s, count)).exp())
    }

    /// The probabilities of the rates when so many events were counted that come at a multiple of the page's rate.
    /// `exposure_s` is the multiple times the seconds for which they were counted.
    pub(super) fn given(&self, count: f64, exposure_s: f64) -> Posterior {
        let log = |number: usize| {
            let rate = self.rates[number];
            let counted = count * rate.max(f64::MIN_POSITIVE).ln() - rate * exposure_s;
            self.weights[number].max(f64::MIN_POSITIVE).ln() + counted
        };
        let logs: [f64; RATES] = std::array::from_fn(log);
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights = logs.map(|log| (log - largest).exp());
        let sum: f64 = weights.iter().sum();
        Posterior {
            rates: self.rates,
            weights: weights.map(|weight| weight / sum),
        }
    }

    fn mean_of(&self, of: impl Fn(f64) -> f64) -> f64 {
        self.rates
            .iter()
            .zip(&self.weights)
            .filter(|(_, weight)| **weight > 0.0)
            .map(|(rate, weight)| weight * of(*rate))
            .sum()
    }
}

/// (1 - e^(-y) (1 + y)) / rate, where y is the rate times the wait.
pub(super) fn value(rate: f64, y: f64) -> f64 {
    if rate <= 0.0 {
        0.0
    } else {
        saturation(y) / rate
    }
}

/// 1 - e^(-y) (1 + y): from 0 to 1.
pub(super) fn saturation(y: f64) -> f64 {
    if y < SMALL {
        y * y / 2.0
    } else if y == f64::INFINITY {
        1.0
    } else {
        1.0 - (-y).exp() * (1.0 + y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Goal: the value is the time for which a visit makes the copy current, in the mean of a
    /// policy that visits each time after the same wait, and what the visit costs at the threshold.
    /// Method: 200,000 simulated waits give the freshness F; V = t (F - e^(-D t)) / D t.
    #[test]
    fn the_value_agrees_with_simulated_waits() {
        let rate = 1.0 / 5_000.0;
        let wait: f64 = 7_000.0;
        let mut state = 1u64;
        let mut fresh = 0.0;
        let waits = 200_000;
        for _ in 0..waits {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let chance = (state >> 11) as f64 / (1u64 << 53) as f64;
            fresh += (-(1.0 - chance).ln() / rate).min(wait);
        }
        let simulated = fresh / f64::from(waits) - wait * (-rate * wait).exp();
        let value = Posterior::known(rate).value(wait);
        assert!(
            (simulated / value - 1.0).abs() < 0.01,
            "{simulated} {value}"
        );
    }

    #[test]
    fn small_arguments_meet_large_ones() {
        let rate = 1e-6;
        let below = Posterior::known(rate).value(99.999);
        let above = Posterior::known(rate).value(100.001);
        assert!((below / (rate * 99.999f64.powi(2) / 2.0) - 1.0).abs() < 1e-9);
        assert!((above / below - 1.0).abs() < 2e-4, "{above} {below}");
        assert_eq!(Posterior::known(0.0).value(1e9), 0.0);
    }

    #[test]
    fn what_is_not_known_keeps_a_page_in_the_race() {
        // Half of such pages change each minute, half each month.
        let rates = Rates::default();
        let minute = Estimate::of_age(60.0, &rates, 0);
        let posterior = Posterior::new(minute, &Prior::default(), &rates);
        let week = 7.0 * 86_400.0;
        let of_mean = Posterior::known(posterior.mean()).value(week);
        assert!(posterior.value(week) > 1.2 * of_mean);
    }

    proptest! {
        #[test]
        fn a_value_never_falls_and_is_bounded(
            bytes in proptest::array::uniform12(0u8..=254),
            wait in -3.0f64..10.0,
            factor in 1.0f64..3.0,
            count in 0u32..5,
            recall in 0.0f64..=1.0,
            precision in 0.0f64..=1.0,
        ) {
            let posterior =
                Posterior::new(Estimate::from_bytes(bytes), &Prior::default(), &Rates::default());
            let signals = Signals::new(recall, precision);
            let wait = 10f64.powf(wait);
            let at = |wait, count| posterior.value_signalled(wait, count, &signals);
            let value = at(wait, count);
            let later = at(factor * wait, count);
            let room = 1e-9 * later;
            prop_assert!(value >= 0.0 && later >= value - room);
            prop_assert!(at(wait, count + 1) >= value - room);
            let growth = (factor - 1.0) * wait / std::f64::consts::E;
            prop_assert!(later <= value + growth + room);
            let most = posterior.mean_of(|rate| 1.0 / rate);
            prop_assert!(later <= most + room);
            if !signals.are_heeded() {
                prop_assert!((posterior.value(wait) - value).abs() <= room);
            }
        }
    }
}

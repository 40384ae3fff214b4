//! Renewal: what regular visits of a page with signals bring, exactly.
//!
//! A page changes at rate D; [`Signals`] say how its signals come. It is visited as soon as its
//! clock x = t + n b reaches a threshold. Then everything begins anew, so that the freshness and
//! the rate of visits follow from one such cycle. With R_i(y) = P(Poisson(y) > i), a, g, f and b as
//! in [`Signals`]:
//!
//! ```text
//! psi(x) = sum over i from 0 to floor(x / b) of R_i(g (x - i b)) / g
//! w(x)   = sum over i from 0 to floor(x / b) of f^i / (a + g)^(i + 1) R_i((a + g) (x - i b))
//! V(x)   = w(x) - e^(-a x) psi(x)
//! ```
//!
//! Invariant: without signals it is the cycle of regular visits.
//!
//! Source: the model of Busa-Fekete and others 2025; the formulas are derived by renewal, and
//! checked here against simulated cycles.

use super::posterior::saturation;
use super::signals::Signals;

/// Cycles of a page of a known rate, in changes a second, with signals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Renewal {
    rate: f64,
    signals: Signals,
}

impl Renewal {
    /// Of a page with this rate of change, which is above 0.
    pub fn new(rate: f64, signals: Signals) -> Self {
        Renewal { rate, signals }
    }

    /// psi: the expected time between visits at this threshold, in seconds.
    pub fn between_visits(&self, threshold_s: f64) -> f64 {
        let rate = self.signals.rate(self.rate);
        if rate == 0.0 {
            return threshold_s;
        }
        let terms = self.terms(threshold_s);
        terms.map(|(i, rest)| above(i, rate * rest) / rate).sum()
    }

    /// w: the expected time in a cycle for which the copy is current, in seconds.
    pub fn fresh(&self, threshold_s: f64) -> f64 {
        let unsignalled = self.signals.unsignalled(self.rate);
        let signalled = self.signals.rate(self.rate);
        let ends = unsignalled + signalled;
        let false_share = signalled * self.signals.false_share() / ends;
        let term =
            |(i, rest): (u32, f64)| false_share.powi(i as i32) / ends * above(i, ends * rest);
        self.terms(threshold_s).map(term).sum()
    }

    /// V: what a visit is worth at this threshold, for a page of importance 1, in seconds.
    pub fn value(&self, threshold_s: f64) -> f64 {
        let distance = self.signals.unsignalled(self.rate) * threshold_s;
        if self.signals.are_heeded() {
            self.fresh(threshold_s) - (-distance).exp() * self.between_visits(threshold_s)
        } else {
            saturation(distance) / self.rate
        }
    }

    /// The share of the time for which the copy is current.
    pub fn freshness(&self, threshold_s: f64) -> f64 {
        self.fresh(threshold_s) / self.between_visits(threshold_s)
    }

    /// How many signals a cycle may have, and the threshold less what they moved the clock by.
    fn terms(&self, threshold_s: f64) -> impl Iterator<Item = (u32, f64)> {
        let push = self.signals.clock_push_s(self.rate);
        let last = if push > 0.0 {
            (threshold_s / push) as u32
        } else {
            0
        };
        (0..=last).map(move |i| {
            let moved = if i == 0 { 0.0 } else { f64::from(i) * push };
            (i, threshold_s - moved)
        })
    }
}

/// R_i(y): the probability that a Poisson number of mean y is above i.
fn above(i: u32, y: f64) -> f64 {
    let mut log = -y;
    let mut below = log.exp();
    for j in 1..=i {
        log += (y / f64::from(j)).ln();
        below += log.exp();
    }
    (1.0 - below).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::posterior::Posterior;
    use super::*;

    /// A number from 0 to 1 (Knuth's linear generator).
    fn chance(state: &mut u64) -> f64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The mean length of simulated cycles, and the mean time in them with a current copy.
    fn simulated(rate: f64, recall: f64, precision: f64, threshold: f64) -> [f64; 2] {
        const CYCLES: u32 = 400_000;
        let signals = Signals::new(recall, precision);
        let unsignalled = (1.0 - recall) * rate;
        let signalled = recall * rate / precision;
        let push = signals.clock_push_s(rate);
        let mut state = 7u64;
        let mut sums = [0.0; 2];
        for _ in 0..CYCLES {
            let mut time = 0.0;
            let mut clock = 0.0;
            let mut stale_from = -(1.0 - chance(&mut state)).ln() / unsignalled;
            loop {
                let step = -(1.0 - chance(&mut state)).ln() / signalled;
                if clock + step >= threshold {
                    time += threshold - clock;
                    break;
                }
                time += step;
                clock += step + push;
                if chance(&mut state) < precision {
                    stale_from = stale_from.min(time);
                }
                if clock >= threshold {
                    break;
                }
            }
            sums[0] += time;
            sums[1] += stale_from.min(time);
        }
        sums.map(|sum| sum / f64::from(CYCLES))
    }

    #[test]
    fn the_formulas_agree_with_simulated_cycles() {
        for (recall, precision, threshold) in [
            (0.9, 0.9, 2.0),
            (0.5, 1.0 / 3.0, 1.5),
            (0.5, 0.999, 1.0),
            (0.2, 0.5, 4.0),
        ] {
            let [length, fresh] = simulated(1.0, recall, precision, threshold);
            let renewal = Renewal::new(1.0, Signals::new(recall, precision));
            let found = [
                renewal.between_visits(threshold) / length,
                renewal.fresh(threshold) / fresh,
            ];
            assert!(
                found.iter().all(|ratio| (ratio - 1.0).abs() < 0.005),
                "recall {recall}, precision {precision}: {found:?}"
            );
        }
    }

    #[test]
    fn without_signals_it_is_the_cycle_of_regular_visits() {
        let renewal = Renewal::new(2.0, Signals::NONE);
        assert_eq!(renewal.between_visits(0.7), 0.7);
        assert!((renewal.fresh(0.7) - (1.0 - (-1.4f64).exp()) / 2.0).abs() < 1e-12);
        assert!((renewal.value(0.7) - Posterior::known(2.0).value(0.7)).abs() < 1e-12);
    }

    #[test]
    fn the_value_rises_to_one_by_the_rate() {
        for (recall, precision) in [(0.9, 0.9), (0.5, 1.0 / 3.0), (0.3, 1.0)] {
            let renewal = Renewal::new(0.5, Signals::new(recall, precision));
            let value = |x: u32| renewal.value(f64::from(x));
            let values: Vec<f64> = (1..400).step_by(7).map(value).collect();
            assert!(values.is_sorted_by(|a, b| *a <= b + 1e-9), "{values:?}");
            assert!((value(400) - 2.0).abs() < 0.01, "{}", value(400));
        }
    }

    #[test]
    fn perfect_signals_are_visited_at_once_or_never() {
        let renewal = Renewal::new(1.0, Signals::new(0.999, 1.0));
        // Nothing before a signal, for a long time; visited at each signal the page is current.
        assert!(renewal.value(5.0) < 0.01);
        assert!((renewal.between_visits(50.0) - 1.0).abs() < 0.01);
        assert!(renewal.freshness(50.0) > 0.99);
    }
}

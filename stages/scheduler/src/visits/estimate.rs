//! Estimate: what the visits of one page tell of its rate of change, in twelve bytes.
//!
//! Each byte belongs to one of the [`Rates`]. It says, in sixteenths, how far the logarithm of the
//! rate's likelihood lies below that of the likeliest rate: at most 15.9. What a visit adds is
//! rounded at random, so that many small additions are not lost.
//!
//! Invariant: the likeliest rate has 0.
//!
//! Sources: Cho and Garcia-Molina 2003, section 4 (bits: changed or not) and section 5 (the time of
//! the last change).

use super::rates::{RATES, Rates};
use super::signals::Signals;
use super::visit::Visit;
use std::sync::LazyLock;

/// Steps of a logarithm.
const STEPS: f64 = 16.0;
/// The lowest likelihood, in steps below the likeliest.
const LOWEST: f64 = 254.0;
/// Bits of the random number that round one byte, and how far those of two bytes are apart.
const BITS: u32 = 24;
const ROTATION: u32 = 5;

/// The likelihood that a byte stands for: a row is read with twelve of them.
static LIKELIHOODS: LazyLock<[f64; 256]> =
    LazyLock::new(|| std::array::from_fn(|below| (-(below as f64) / STEPS).exp()));

/// The likelihood of each rate, by what visits found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Estimate([u8; RATES]);

impl Estimate {
    /// From the bytes of a row.
    pub fn from_bytes(bytes: [u8; RATES]) -> Self {
        Estimate(bytes)
    }

    /// The bytes for a row.
    pub fn to_bytes(self) -> [u8; RATES] {
        self.0
    }

    /// After the first visit of a page whose `Last-Modified` is believed and says that it changed
    /// last so many seconds ago. Without one, a first visit tells nothing.
    pub fn of_age(age_s: f64, rates: &Rates, random: u64) -> Self {
        Estimate::default().plus(|rate| rate.ln() - rate * age_s, rates, random)
    }

    /// After a further visit. `mean_before` is the mean rate by what was known of the page when it
    /// was visited. `random` is any number that the visit has for itself.
    #[must_use]
    pub fn after(
        self,
        visit: &Visit,
        signals: &Signals,
        mean_before: f64,
        rates: &Rates,
        random: u64,
    ) -> Self {
        let wait = visit.wait_s;
        if !visit.is_changed {
            // Neither an unsignalled change nor a signalled one.
            return self.plus(|rate| -rate * wait, rates, random);
        }
        let recall = signals.recall();
        match visit.age_s {
            Some(age) if visit.signals == 0 || !signals.are_heeded() => {
                let silence = |rate: f64| recall * rate * wait;
                let density = |rate: f64| rate.ln() - signals.unsignalled(rate) * age;
                self.plus(|rate| density(rate) - silence(rate), rates, random)
            }
            _ => {
                // False signals tell nothing of the rate: they come at that of the page's mean.
                let false_rate = signals.rate(mean_before) * signals.false_share();
                let count = f64::from(visit.signals);
                let added = |rate: f64| {
                    let signalled = recall * rate + false_rate;
                    let none_true = count * share_log(false_rate, signalled);
                    let current = -signals.unsignalled(rate) * wait + none_true;
                    let seen = -current.exp_m1();
                    let counted = count * share_log(signalled, signals.rate(mean_before));
                    counted - recall * rate * wait + seen.max(f64::MIN_POSITIVE).ln()
                };
                self.plus(added, rates, random)
            }
        }
    }

    /// The likelihood of each rate, divided by that of the likeliest.
    pub(super) fn likelihoods(self) -> [f64; RATES] {
        self.0.map(|below| LIKELIHOODS[usize::from(below)])
    }

    /// Adds the logarithm of a likelihood.
    fn plus(self, added: impl Fn(f64) -> f64, rates: &Rates, random: u64) -> Self {
        let sums: [f64; RATES] = std::array::from_fn(|number| {
            added(rates.0[number]) - f64::from(self.0[number]) / STEPS
        });
        let largest = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Estimate(std::array::from_fn(|number| {
            let below = ((largest - sums[number]) * STEPS).min(LOWEST);
            // Each byte has the same bits, in another order.
            let chance = random.rotate_left(ROTATION * number as u32) >> (64 - BITS);
            let rounding = (chance as f64 + 0.5) / f64::from(1u32 << BITS);
            (below + rounding).floor().min(LOWEST) as u8
        }))
    }
}

/// ln(part / whole), where nothing has no share: also 0 of 0.
fn share_log(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (part / whole).max(f64::MIN_POSITIVE).ln()
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::posterior::Posterior;
    use super::super::prior::Prior;
    use super::*;
    use proptest::prelude::*;

    fn visit(wait_s: f64, is_changed: bool) -> Visit {
        Visit {
            wait_s,
            is_changed,
            signals: 0,
            age_s: None,
        }
    }

    fn after(estimate: Estimate, visit: &Visit, signals: &Signals, random: u64) -> Estimate {
        let rates = Rates::default();
        let before = Posterior::new(estimate, &Prior::default(), &rates);
        estimate.after(visit, signals, before.mean(), &rates, random)
    }

    /// A number that looks random (SplitMix64).
    fn mixed(number: u64) -> u64 {
        let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn chance(number: u64) -> f64 {
        mixed(number) as f64 / u64::MAX as f64
    }

    /// The mean of the posterior after so many visits of a page that changes at this rate.
    fn learned(rate: f64, wait: f64, visits: u64, with_age: bool) -> f64 {
        let mut estimate = Estimate::default();
        for number in 0..visits {
            let age = -(1.0 - chance(number)).ln() / rate;
            let is_changed = age < wait;
            let visit = Visit {
                wait_s: wait,
                is_changed,
                signals: 0,
                age_s: (with_age && is_changed).then_some(age),
            };
            estimate = after(estimate, &visit, &Signals::NONE, mixed(visits + number));
        }
        Posterior::new(estimate, &Prior::default(), &Rates::default()).mean()
    }

    #[test]
    fn it_converges_to_the_rate() {
        let Rates(rates) = Rates::default();
        for (rate, with_age) in [(rates[5], false), (rates[7], false), (rates[8], true)] {
            let mean = learned(rate, 0.7 / rate, 400, with_age);
            assert!((0.8..1.25).contains(&(mean / rate)), "{}", mean / rate);
        }
    }

    #[test]
    fn the_age_of_a_change_tells_more_than_bits_of_long_waits() {
        let rate = Rates::default().0[8];
        // Every wait is so long that the page has always changed.
        let bits = learned(rate, 20.0 / rate, 30, false);
        let ages = learned(rate, 20.0 / rate, 30, true);
        assert!(bits > 3.0 * rate, "{}", bits / rate);
        assert!((0.5..2.0).contains(&(ages / rate)), "{}", ages / rate);
    }

    #[test]
    fn the_age_at_the_first_visit_tells_its_order() {
        let rates = Rates::default();
        let of = |age| {
            let estimate = Estimate::of_age(age, &rates, 0);
            Posterior::new(estimate, &Prior::default(), &rates).mean()
        };
        assert!(of(3_600.0) > 30.0 * of(100.0 * 86_400.0));
    }

    #[test]
    fn many_small_additions_are_not_lost() {
        // A wait that takes a twentieth of a step from the fastest rate.
        let wait = 0.05 / STEPS / Rates::default().0[RATES - 1];
        let mut estimate = Estimate::default();
        for number in 0..2_000 {
            estimate = after(estimate, &visit(wait, false), &Signals::NONE, mixed(number));
        }
        let below = estimate.to_bytes()[RATES - 1];
        assert!((70..=130).contains(&below), "{below} steps of 100");
    }

    #[test]
    fn true_signals_count_the_changes() {
        let rate = Rates::default().0[7];
        let signals = Signals::new(0.95, 1.0);
        let mut estimate = Estimate::default();
        for number in 0..40 {
            let visit = Visit {
                signals: 2,
                ..visit(2.0 / rate, true)
            };
            estimate = after(estimate, &visit, &signals, mixed(number));
        }
        let mean = Posterior::new(estimate, &Prior::default(), &Rates::default()).mean();
        assert!((0.7..1.4).contains(&(mean / rate)), "{}", mean / rate);
    }

    #[test]
    fn signals_that_are_not_heeded_change_nothing() {
        let plain = visit(86_400.0, true);
        let signalled = Visit {
            signals: 9,
            ..plain
        };
        let of = |visit: &Visit| after(Estimate::default(), visit, &Signals::NONE, 5);
        assert_eq!(of(&plain), of(&signalled));
    }

    proptest! {
        #[test]
        fn the_likeliest_rate_has_0_whatever_is_found(
            found in proptest::collection::vec(
                (
                    -2.0f64..12.0,
                    any::<bool>(),
                    0u32..20,
                    proptest::option::of(0.0f64..1.0),
                    any::<u64>(),
                ),
                1..20,
            ),
            recall in 0.0f64..=1.0,
            precision in 0.0f64..=1.0,
        ) {
            let signals = Signals::new(recall, precision);
            let mut estimate = Estimate::default();
            for (wait, is_changed, count, age, random) in found {
                let wait_s = 10f64.powf(wait);
                let visit = Visit {
                    wait_s,
                    is_changed,
                    signals: count,
                    age_s: age.map(|share| share * wait_s),
                };
                estimate = after(estimate, &visit, &signals, random);
                prop_assert_eq!(estimate.to_bytes().into_iter().min(), Some(0));
                prop_assert_eq!(Estimate::from_bytes(estimate.to_bytes()), estimate);
            }
        }
    }
}

//! Evidence: what visits tell of the signals of a server and kind.
//!
//! Recall and precision are one of 36 pairs, or the signals tell nothing. Each is as likely as the
//! probability that it gave to what visits found, given the signals before them: whether a page had
//! changed, after signals and after none. False until shown: at the start it is 19 to 1 that they
//! tell nothing, so that none is heeded. What was learned long ago fades, since servers change.
//!
//! A page that changes often would have changed anyway, and may have more signals than others, true
//! or not. So what is known of the page's rate is first weighed by how many signals came; or the
//! signals come to all pages alike. They have credit only for what neither explains.

use super::posterior::Posterior;
use super::signals::Signals;
use super::visit::Visit;

/// Recall and precision are one of these each.
const SHARES: [f64; 6] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.99];
/// At the start each pair is so likely, beside each way to tell nothing: 2 / (19 * 36), in
/// logarithm.
const PAIR_AT_START: f64 = -5.835;
/// Each visit makes what was learned before weigh so much less.
const KEPT: f64 = 1.0 - 1.0 / 500.0;
/// No visit is less likely than so.
const LEAST: f64 = 1e-6;
/// Numbers of an evidence, …
const NUMBERS: usize = 2 + SHARES.len() * SHARES.len() + 2;
/// … and their bytes in a row.
pub(super) const BYTES: usize = 4 * NUMBERS;

/// What was learned of a server and kind of signal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The logarithm of the likelihood that the signals tell nothing, and come as often as the page
    /// changes; that they tell nothing, and come to all pages alike, …
    nothing: [f32; 2],
    /// … and that of each recall and precision.
    pairs: [[f32; SHARES.len()]; SHARES.len()],
    /// Signals, and changes that were expected in the same time.
    signals: f32,
    changes: f32,
}

/// What is left of a number, and more.
fn kept(number: f32, more: f64) -> f32 {
    (KEPT * f64::from(number) + more) as f32
}

impl Evidence {
    /// Learns from a visit. `before` is what was known of its page when it was visited.
    pub fn learn(&mut self, visit: &Visit, before: &Posterior) {
        let wait = visit.wait_s;
        let count = f64::from(visit.signals);
        self.signals = kept(self.signals, count);
        self.changes = kept(self.changes, before.mean() * wait);
        let per_change = f64::from(self.signals) / f64::from(self.changes).max(LEAST);
        let weighed = before.given(count, per_change * wait);
        let log = |current: f64| {
            let seen = if visit.is_changed {
                1.0 - current
            } else {
                current
            };
            seen.max(LEAST).ln()
        };
        for (nothing, page) in self.nothing.iter_mut().zip([&weighed, before]) {
            *nothing = kept(*nothing, log(page.unchanged(wait)));
        }
        for (pairs, recall) in self.pairs.iter_mut().zip(SHARES) {
            let none_unsignalled = weighed.unchanged((1.0 - recall) * wait);
            for (pair, precision) in pairs.iter_mut().zip(SHARES) {
                let all_false = (1.0 - precision).powf(count);
                *pair = kept(*pair, log(none_unsignalled * all_false));
            }
        }
    }

    /// What is believed of the signals.
    pub fn signals(&self) -> Signals {
        let [recall, precision] = self.expected();
        Signals::new(recall, precision)
    }

    /// The expected share of the signals that tell of a change, also of such as are not heeded yet.
    pub fn precision(&self) -> f64 {
        let [_, precision] = self.expected();
        precision
    }

    /// The expected recall and precision, which are 0 as far as the signals tell nothing.
    fn expected(&self) -> [f64; 2] {
        let nothing = self.nothing.map(f64::from);
        let pairs = self.pairs.map(|pairs| pairs.map(f64::from));
        let logs = pairs.iter().flatten().map(|log| log + PAIR_AT_START);
        let largest = logs.chain(nothing).fold(f64::NEG_INFINITY, f64::max);
        let weight = |log: f64| (log - largest).exp();
        let mut sum: f64 = nothing.iter().map(|log| weight(*log)).sum();
        let mut recalls = 0.0;
        let mut precisions = 0.0;
        for (pairs, recall) in pairs.iter().zip(SHARES) {
            for (log, precision) in pairs.iter().zip(SHARES) {
                let weight = weight(log + PAIR_AT_START);
                sum += weight;
                recalls += weight * recall;
                precisions += weight * precision;
            }
        }
        [recalls, precisions].map(|shares| shares / sum)
    }

    /// The bytes for a row.
    pub fn to_bytes(&self) -> [u8; BYTES] {
        let numbers = self.nothing.iter().chain(self.pairs.iter().flatten());
        let numbers = numbers.chain([&self.signals, &self.changes]);
        let mut bytes = [0; BYTES];
        for (bytes, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// From the bytes of a row.
    pub fn from_bytes(bytes: &[u8; BYTES]) -> Self {
        let (numbers, _) = bytes.as_chunks::<4>();
        let mut numbers = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let mut next = || numbers.next().unwrap_or_default();
        Evidence {
            nothing: std::array::from_fn(|_| next()),
            pairs: std::array::from_fn(|_| std::array::from_fn(|_| next())),
            signals: next(),
            changes: next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 1e-5;

    /// A number from 0 to 1 (Knuth's linear generator).
    fn chance(state: &mut u64) -> f64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A Poisson number: how many steps of an exponential length fit.
    fn poisson(mean: f64, state: &mut u64) -> u32 {
        let mut count = 0;
        let mut sum = -(1.0 - chance(state)).ln();
        while sum < mean {
            count += 1;
            sum -= (1.0 - chance(state)).ln();
        }
        count
    }

    /// After visits of pages of a known rate, each a mean time between changes after the other.
    fn learned(recall: f64, false_per_change: f64, visits: u32) -> Evidence {
        let mut state = 11;
        let mut evidence = Evidence::default();
        for _ in 0..visits {
            let signalled = poisson(recall, &mut state);
            let unsignalled = poisson(1.0 - recall, &mut state);
            let visit = Visit {
                wait_s: 1.0 / RATE,
                is_changed: signalled + unsignalled > 0,
                signals: signalled + poisson(false_per_change, &mut state),
                age_s: None,
            };
            evidence.learn(&visit, &Posterior::known(RATE));
        }
        evidence
    }

    #[test]
    fn nothing_is_heeded_at_the_start() {
        assert_eq!(Evidence::default().signals(), Signals::NONE);
        assert!((0.01..0.05).contains(&Evidence::default().precision()));
    }

    #[test]
    fn good_signals_are_believed_after_some_dozen_visits() {
        let perfect = learned(1.0, 0.0, 60).signals();
        assert!(
            perfect.recall() > 0.9 && perfect.false_share() < 0.1,
            "{perfect:?}"
        );
        let mixed = learned(0.5, 0.5, 2_000).signals();
        assert!((0.4..0.6).contains(&mixed.recall()), "{mixed:?}");
        assert!((0.4..0.6).contains(&mixed.false_share()), "{mixed:?}");
    }

    #[test]
    fn signals_that_come_at_random_are_never_believed() {
        for false_per_change in [0.1, 1.0, 10.0] {
            for visits in (50..1_000).step_by(50) {
                let signals = learned(0.0, false_per_change, visits).signals();
                assert_eq!(
                    signals,
                    Signals::NONE,
                    "{false_per_change}, {visits} visits"
                );
            }
        }
    }

    #[test]
    fn bytes_keep_it() {
        let evidence = learned(0.5, 0.5, 60);
        assert_ne!(evidence.to_bytes(), [0; BYTES]);
        assert_eq!(Evidence::from_bytes(&evidence.to_bytes()), evidence);
    }

    #[test]
    fn what_a_server_did_long_ago_fades() {
        let mut evidence = learned(1.0, 0.0, 500);
        let mut state = 5;
        for _ in 0..3_000 {
            let visit = Visit {
                wait_s: 1.0 / RATE,
                is_changed: poisson(1.0, &mut state) > 0,
                signals: poisson(1.0, &mut state),
                age_s: None,
            };
            evidence.learn(&visit, &Posterior::known(RATE));
        }
        assert_eq!(evidence.signals(), Signals::NONE);
    }
}

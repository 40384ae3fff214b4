//! A known page: what a visit of it is worth now, and where it lies among those of its server.

use super::class::{Class, effective_rate};
use super::interval::Interval;
use super::key::VisitKey;
use super::posterior::Posterior;
use super::signals::Signals;
use super::threshold::Threshold;
use std::f64::consts::E;

/// The part of the changes that no signal tells counts as so much at least.
const SILENT_MIN: f64 = 0.01;

/// By which rule a page is visited again.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are of the first, and none is kept but for the heads of classes"
)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// The largest value next.
    Fresh {
        /// What is known of the rate of change.
        posterior: Posterior,
        /// What is believed of the signals of the page's server.
        signals: Signals,
    },
    /// The page that is latest by its interval next, whatever its importance.
    Interval(Interval),
    /// The page that was visited longest ago next, whatever its importance.
    Uniform,
}

/// A page that was visited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownPage {
    /// What a second with a current copy is worth, relative to other pages.
    pub importance: f64,
    /// By which rule it is visited again.
    pub rule: Rule,
    /// Its last visit, in milliseconds of Unix time.
    pub visited_ms: u64,
    /// Signals of a change since.
    pub signals: u32,
}

impl KnownPage {
    /// What a visit is worth now: seconds of a current copy times importance. By `interval` the
    /// seconds by which it is late, by `uniform` those since its visit. A clock that jumped back
    /// makes a page as old as one just visited.
    pub fn value(&self, now_ms: u64) -> f64 {
        let wait_s = now_ms.saturating_sub(self.visited_ms) as f64 / 1e3;
        match &self.rule {
            Rule::Fresh { posterior, signals } => {
                self.importance * posterior.value_signalled(wait_s, self.signals, signals)
            }
            Rule::Interval(interval) => wait_s - interval.as_secs(),
            Rule::Uniform => wait_s,
        }
    }

    /// By how much the value of such pages grows in a second, at most: a number that all pages of
    /// its class share, and few classes differ in.
    pub(super) fn growth_max(&self) -> f64 {
        match self.rule {
            // The largest slope of a value: y e^(-y), at y = 1.
            Rule::Fresh { signals, .. } => {
                Class::new(silent(&signals) * self.importance, 1.0).importance_max() / E
            }
            Rule::Interval(_) | Rule::Uniform => 1.0,
        }
    }

    /// Where the page lies among those of its server. The class is made with the present threshold.
    ///
    /// With signals of recall r the value m / D (1 - e^(-a x) (1 + a x)) is that of a page without
    /// any, of importance (1 - r) m and rate a = (1 - r) D, whose clock the signals have moved. So
    /// it lies among such pages.
    pub fn key(&self, threshold: &Threshold) -> VisitKey {
        match &self.rule {
            Rule::Fresh { posterior, signals } => {
                let for_one = threshold.get().map(|value| value / self.importance);
                let rate = effective_rate(posterior, for_one);
                let silent = silent(signals);
                let class = Class::new(silent * self.importance, silent * rate);
                VisitKey {
                    class,
                    clock_ms: self.clock_ms(signals, class),
                }
            }
            Rule::Interval(interval) => VisitKey {
                class: Class::new(1.0, 1.0 / interval.as_secs()),
                clock_ms: self.visited_ms,
            },
            Rule::Uniform => VisitKey {
                class: Class::default(),
                clock_ms: self.visited_ms,
            },
        }
    }

    /// Returns whether pages of this importance lie in a class, with these signals. Rates may be
    /// others: what they are told by has moved on since the page was placed.
    pub fn belongs_to(&self, class: Class) -> bool {
        match &self.rule {
            Rule::Fresh { signals, .. } => {
                let importance = silent(signals) * self.importance;
                Class::new(importance, 1.0).importance == class.importance
            }
            Rule::Interval(_) | Rule::Uniform => true,
        }
    }

    /// The last visit less n b.
    fn clock_ms(&self, signals: &Signals, class: Class) -> u64 {
        if self.signals == 0 {
            return self.visited_ms;
        }
        let push_s = f64::from(self.signals) * signals.push() / class.rate();
        // A number too large becomes the largest.
        self.visited_ms.saturating_sub((1e3 * push_s) as u64)
    }
}

/// 1 - r: the part of the changes that no signal tells. Pages without any of these are told apart,
/// too.
fn silent(signals: &Signals) -> f64 {
    (1.0 - signals.recall()).max(SILENT_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(rule: Rule, importance: f64) -> KnownPage {
        KnownPage {
            importance,
            rule,
            visited_ms: 1_700_000_000_000,
            signals: 0,
        }
    }

    fn fresh(rate: f64, signals: Signals) -> Rule {
        Rule::Fresh {
            posterior: Posterior::known(rate),
            signals,
        }
    }

    #[test]
    fn a_page_is_worth_its_importance_times_the_value() {
        let page = known(fresh(1e-5, Signals::NONE), 3.0);
        let value = 3.0 * Posterior::known(1e-5).value(86_400.0);
        assert!((page.value(page.visited_ms + 86_400_000) - value).abs() < 1e-6);
        assert_eq!(
            page.value(page.visited_ms - 5_000),
            0.0,
            "the clock jumped back"
        );
    }

    #[test]
    fn a_signal_moves_the_row_by_b_and_raises_the_value() {
        let signals = Signals::new(0.5, 0.5);
        let page = known(fresh(1e-5, signals), 1.0);
        let key = page.key(&Threshold::default());
        let signalled = KnownPage { signals: 2, ..page };
        let moved = signalled.key(&Threshold::default());
        let by = (key.clock_ms - moved.clock_ms) as f64 / 1e3;
        assert_eq!(moved.class, key.class);
        // The rate is told to a factor of e^(1/8).
        assert!(
            (by / (2.0 * signals.clock_push_s(1e-5))).ln().abs() < 0.13,
            "{by}"
        );
        let now = page.visited_ms + 3_600_000;
        assert!(signalled.value(now) > 2.0 * page.value(now));
        assert!(signalled.belongs_to(moved.class));
    }

    /// Goal: pages with signals lie among those without any, in the order of their values. Method:
    /// a page with signals, and one whose importance, rate and last visit are those that its class
    /// and clock stand for.
    #[test]
    fn a_page_with_signals_is_worth_as_much_as_those_of_its_class() {
        let signals = Signals::new(0.9, 0.8);
        let signalled = KnownPage {
            signals: 1,
            ..known(fresh(1e-5, signals), 2.0)
        };
        let key = signalled.key(&Threshold::default());
        let plain = known(fresh(1e-6, Signals::NONE), 0.2);
        assert_eq!(plain.key(&Threshold::default()).class, key.class);
        let plain = KnownPage {
            visited_ms: key.clock_ms,
            ..plain
        };
        for wait_s in [0, 86_400, 1_000_000] {
            let now_ms = signalled.visited_ms + 1000 * wait_s;
            let ratio = signalled.value(now_ms) / plain.value(now_ms);
            // The rate is told to a factor of e^(1/8), and the value grows with its square.
            assert!(ratio.ln().abs() < 0.25, "{ratio} after {wait_s} s");
        }
        assert!(
            !signalled.belongs_to(
                known(fresh(1e-5, Signals::NONE), 2.0)
                    .key(&Threshold::default())
                    .class
            )
        );
    }

    #[test]
    fn the_other_rules_go_by_time_alone() {
        let day_ms = 86_400_000;
        let late = known(Rule::Interval(Interval::from_secs(3_600.0)), 9.0);
        assert_eq!(late.value(late.visited_ms + day_ms), 23.0 * 3_600.0);
        let uniform = known(Rule::Uniform, 9.0);
        assert_eq!(uniform.value(uniform.visited_ms + day_ms), 86_400.0);
        assert_eq!(uniform.key(&Threshold::default()).class, Class::default());
        let signalled = KnownPage {
            signals: 1,
            ..uniform
        };
        let key = uniform.key(&Threshold::default());
        assert_eq!(signalled.key(&Threshold::default()), key);
    }
}

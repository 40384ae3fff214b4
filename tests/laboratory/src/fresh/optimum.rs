//! Optimum: how fresh a copy can be, with as many requests as uniform visits take, and how fresh
//! plans are that follow from a formula.
//!
//! The formulas are those by which the synthetic web judges ([`visiting`]). Here pages may have
//! signals.

use super::web::{INTERVAL_S, Web};
use scheduler::visits::{Renewal, Signals};
use synthetic_web::visiting::{self, Cycles};

/// What a share of signalled changes is at most: at 1, a page without a signal is never old.
const RECALL_MAX: f64 = 0.999;

/// Visits of a page that changes once a second and has these signals.
pub(super) fn cycles(signals: Signals) -> Cycles {
    let signals = if signals.recall() > RECALL_MAX {
        Signals::new(RECALL_MAX, 1.0 - signals.false_share())
    } else {
        signals
    };
    let renewal = Renewal::new(1.0, signals);
    Cycles::new(|distance| {
        let threshold = distance / signals.unsignalled(1.0);
        let visits = 1.0 / renewal.between_visits(threshold);
        [
            renewal.value(threshold),
            visits,
            renewal.fresh(threshold) * visits,
        ]
    })
}

/// Visits a second of all pages together.
fn budget(web: &Web) -> f64 {
    web.pages.len() as f64 / INTERVAL_S
}

/// The freshness of the best plan, by importance.
pub(super) fn optimum(web: &Web, cycles: &Cycles) -> f64 {
    visiting::optimum(&web.paces(), budget(web), cycles)
}

/// All pages alike.
pub(super) fn uniform(web: &Web) -> f64 {
    visiting::uniform(&web.paces(), budget(web))
}

/// Each page as often as it is important.
pub(super) fn weighted(web: &Web) -> f64 {
    visiting::weighted(&web.paces(), budget(web))
}

/// Each page as often as it changes.
pub(super) fn proportional(web: &Web) -> f64 {
    let mean = web.pages.iter().map(|page| page.rate).sum::<f64>() / web.pages.len() as f64;
    visiting::at_intervals(&web.paces(), |page| INTERVAL_S * mean / page.rate)
}

#[cfg(test)]
mod tests {
    use super::super::web::{Shape, Signalling};
    use super::*;

    fn web(importance: f64) -> Web {
        let shape = Shape {
            pages: 500,
            servers: 5,
            speed: 1.0,
            spread: 2.1,
            importance,
            ages: 0.0,
            first_fifth: 1.0,
            signals: Signalling::default(),
        };
        Web::new(shape, 3)
    }

    #[test]
    fn no_regular_plan_is_above_the_optimum() {
        for importance in [0.0, 1.0] {
            let web = web(importance);
            let best = optimum(&web, &cycles(Signals::NONE));
            let others = [uniform(&web), weighted(&web), proportional(&web)];
            assert!(
                others.iter().all(|other| *other < best),
                "{best} {others:?}"
            );
            assert!(others[2] < others[0]);
            // Moving a little from a page to another gains nothing.
            let nudged = visiting::at_intervals(&web.paces(), |page| {
                if page.rate > 1e-5 {
                    2.0 * INTERVAL_S
                } else {
                    0.7 * INTERVAL_S
                }
            });
            assert!(nudged < best);
        }
    }

    #[test]
    fn good_signals_raise_the_optimum_and_nearly_worthless_ones_do_not() {
        let web = web(0.0);
        let of = |recall, precision| optimum(&web, &cycles(Signals::new(recall, precision)));
        let none = of(0.0, 0.0);
        assert!(of(1.0, 1.0) > of(0.9, 0.9) && of(0.9, 0.9) > of(0.5, 0.5));
        assert!(of(0.5, 0.5) > none);
        assert!((of(0.05, 0.1) - none).abs() < 0.01);
    }
}

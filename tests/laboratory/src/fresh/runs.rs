//! Runs: each web is visited by each plan, with several seeds.

use super::Settings;
use super::crawl::{By, Plan, crawl};
use super::optimum::{cycles, optimum, proportional, uniform, weighted};
use super::web::{Shape, Signalling, Web};
use std::ops::Range;

/// Uniform intervals of a run that learns for long, of one that learns, and of one that knows.
const LONG: usize = 45;
const SHORT: usize = 15;
const KNOWING: usize = 20;
/// The intervals in which a run that knows is judged.
const SETTLED: Range<usize> = 10..KNOWING;
/// For so many intervals a run that learns is judged, once it has had its visits.
const JUDGED: usize = 5;

/// Visits a page with which runs that learn are judged.
pub(super) const VISITS: [usize; 5] = [3, 5, 10, 20, 40];
/// Deviations of the logarithm of rates, …
pub(super) const SPREADS: [f64; 3] = [1.0, 2.1, 3.0];
/// … and changes of the median page in a uniform interval.
pub(super) const SPEEDS: [f64; 3] = [0.1, 1.0, 10.0];
/// Recall and precision of signals.
pub(super) const RECALLS: [f64; 2] = [0.5, 1.0];
pub(super) const PRECISIONS: [f64; 3] = [0.2, 0.5, 1.0];
/// Signals that tell nothing: one for each change, and one in each uniform interval.
pub(super) const WORTHLESS: [Signalling; 2] = [
    Signalling {
        recall: 0.0,
        false_per_change: 1.0,
        false_per_interval: 0.0,
    },
    Signalling {
        recall: 0.0,
        false_per_change: 0.0,
        false_per_interval: 1.0,
    },
];

/// The shape that all others differ from.
pub(super) fn plain(settings: &Settings) -> Shape {
    Shape {
        pages: settings.pages,
        servers: settings.servers,
        speed: 1.0,
        spread: 2.1,
        importance: 0.0,
        ages: 0.0,
        first_fifth: 1.0,
        signals: Signalling::default(),
    }
}

/// A web visited by a plan.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) shape: Shape,
    pub(super) plan: Plan,
    pub(super) seeds: Vec<OfSeed>,
}

/// What came of it with one seed.
#[derive(Clone, Debug)]
pub(super) struct OfSeed {
    pub(super) seed: u64,
    /// By uniform interval.
    pub(super) freshness: Vec<f64>,
    /// The share of the budget of each scheduler at the end.
    pub(super) shares: Vec<f64>,
    pub(super) scale: Scale,
}

/// The freshness of plans that follow from a formula, on the same web with as many requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) uniform: f64,
    pub(super) weighted: f64,
    pub(super) proportional: f64,
    /// With what its signals tell.
    pub(super) optimum: f64,
}

impl Scale {
    /// Which part of the way from uniform visits to the optimum a freshness is.
    pub(super) fn way(&self, freshness: f64) -> f64 {
        (freshness - self.uniform) / (self.optimum - self.uniform)
    }
}

impl Run {
    /// What a number is in the median of the seeds, and the least and most of them.
    pub(super) fn median(&self, number: impl Fn(&OfSeed) -> f64) -> [f64; 3] {
        let mut numbers: Vec<f64> = self.seeds.iter().map(number).collect();
        numbers.sort_by(f64::total_cmp);
        [numbers.len() / 2, 0, numbers.len() - 1].map(|at| numbers[at])
    }

    /// The way after so many visits a page.
    pub(super) fn way_after(&self, visits: usize) -> [f64; 3] {
        self.median(|of| of.scale.way(of.after(visits)))
    }

    /// The way of a run that knows.
    pub(super) fn way_settled(&self) -> [f64; 3] {
        self.median(|of| of.scale.way(of.settled()))
    }
}

impl OfSeed {
    /// The freshness in the uniform intervals that follow so many visits a page, the first of which
    /// made the pages known. The run goes on learning.
    pub(super) fn after(&self, visits: usize) -> f64 {
        mean(&self.freshness[visits..visits + JUDGED])
    }

    /// The freshness of a run that knows, when it has settled.
    pub(super) fn settled(&self) -> f64 {
        mean(&self.freshness[SETTLED])
    }
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// All webs by all plans.
pub(super) fn all(settings: &Settings, progress: &mut dyn FnMut(&str)) -> Vec<Run> {
    let mut runs = Vec::new();
    for (shape, plan) in cases(settings) {
        progress(&format!("{shape:?}, {plan:?}"));
        let cycles = cycles(shape.signals.known());
        let of_seed = |seed| {
            let web = Web::new(shape, seed);
            let outcome = crawl(&web, plan, seed);
            OfSeed {
                seed,
                freshness: outcome.freshness,
                shares: outcome.shares,
                scale: Scale {
                    uniform: uniform(&web),
                    weighted: weighted(&web),
                    proportional: proportional(&web),
                    optimum: optimum(&web, &cycles),
                },
            }
        };
        let seeds = settings.seed..settings.seed + settings.seeds;
        runs.push(Run {
            shape,
            plan,
            seeds: seeds.map(of_seed).collect(),
        });
    }
    runs
}

/// The plan of a rule.
pub(super) fn plan(by: By) -> Plan {
    let intervals = match by {
        By::KnownRates => KNOWING,
        By::LearnedRates => SHORT,
        By::Interval => LONG,
    };
    Plan {
        by,
        intervals,
        schedulers: 1,
    }
}

/// A rule that learns for long.
pub(super) fn long() -> Plan {
    Plan {
        intervals: LONG,
        ..plan(By::LearnedRates)
    }
}

/// A web in which importance differs.
pub(super) fn important(settings: &Settings) -> Shape {
    Shape {
        importance: 1.0,
        ..plain(settings)
    }
}

/// A web in which the first of two schedulers has pages that change a hundredth as often.
pub(super) fn uneven(settings: &Settings) -> Shape {
    Shape {
        first_fifth: 0.01,
        ..plain(settings)
    }
}

/// Two schedulers.
pub(super) fn divided() -> Plan {
    Plan {
        schedulers: 2,
        ..plan(By::KnownRates)
    }
}

/// Which webs are visited by which plans.
fn cases(settings: &Settings) -> Vec<(Shape, Plan)> {
    let plain = plain(settings);
    let known = plan(By::KnownRates);
    let learned = plan(By::LearnedRates);
    let important = important(settings);
    let mut cases = vec![
        (plain, known),
        (important, known),
        (uneven(settings), divided()),
        (plain, long()),
        (Shape { ages: 1.0, ..plain }, long()),
        (Shape { ages: 0.5, ..plain }, long()),
        (important, learned),
        (plain, plan(By::Interval)),
        (important, plan(By::Interval)),
    ];
    let spreads = SPREADS.map(|spread| Shape { spread, ..plain });
    let speeds = SPEEDS.map(|speed| Shape { speed, ..plain });
    let others = spreads.into_iter().chain(speeds);
    for shape in others.filter(|shape| *shape != plain) {
        cases.extend([known, learned].map(|plan| (shape, plan)));
    }
    // With the plain web: what is not worth anything without signals.
    cases.push((plain, learned));
    for signals in all_signals() {
        let shape = Shape { signals, ..plain };
        cases.extend([known, learned].map(|plan| (shape, plan)));
    }
    cases
}

/// Signals of each recall and precision, and the worthless ones.
pub(super) fn all_signals() -> Vec<Signalling> {
    let mut all = WORTHLESS.to_vec();
    for recall in RECALLS {
        all.extend(PRECISIONS.map(|precision| Signalling::of_precision(recall, precision)));
    }
    all
}

/// The run of a web by a plan.
pub(super) fn of(runs: &[Run], shape: Shape, plan: Plan) -> Option<&Run> {
    runs.iter()
        .find(|run| run.shape == shape && run.plan == plan)
}

//! Figures: each number that is told, with what is wanted of it.

use super::Settings;
use super::crawl::By;
use super::runs::{Run, divided, important, long, of, plain, plan, uneven};
use super::web::Shape;
use std::fmt;

/// What a way should be at least, and better.
type Wanted = Option<[f64; 2]>;

const KNOWN: Wanted = Some([0.95, 0.99]);
const KNOWN_IMPORTANT: Wanted = Some([0.97, 0.99]);
const BITS_10: Wanted = Some([0.50, 0.62]);
const BITS_40: Wanted = Some([0.62, 0.72]);
const AGES_10: Wanted = Some([0.75, 0.85]);
const IMPORTANT_10: Wanted = Some([0.75, 0.88]);

/// A number of the experiment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) wanted: Wanted,
    /// The way from uniform visits to the optimum: the median of the seeds, the least, the most.
    pub(super) way: [f64; 3],
    /// That of visits in proportion to importance.
    pub(super) weighted: f64,
    pub(super) freshness: f64,
    pub(super) uniform: f64,
    pub(super) optimum: f64,
}

impl Figure {
    pub(super) fn holds(&self) -> bool {
        self.wanted.is_none_or(|[wanted, _]| self.way[0] >= wanted)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, least, most] = self.way;
        write!(
            f,
            "{}: {median:.2} of the way ({least:.2} to {most:.2})",
            self.name
        )?;
        if let Some([wanted, aim]) = self.wanted {
            write!(f, ", wanted {wanted}, aim {aim}")?;
        }
        write!(
            f,
            "; freshness {:.3}, uniform {:.3}, optimum {:.3}; uniform by importance {:.2}",
            self.freshness, self.uniform, self.optimum, self.weighted
        )
    }
}

/// The numbers that something is wanted of, and those that they are compared with.
pub(super) fn all(settings: &Settings, runs: &[Run]) -> Vec<Figure> {
    let mut figures = all_known(settings, runs);
    figures.extend(all_learned(settings, runs));
    let known = of(runs, plain(settings), plan(By::KnownRates));
    figures.extend(known.map(proportional));
    figures
}

fn all_known(settings: &Settings, runs: &[Run]) -> Vec<Figure> {
    let plain = plain(settings);
    let important = important(settings);
    let uneven = uneven(settings);
    let known = plan(By::KnownRates);
    let cases = [
        ("equal importance", plain, known, KNOWN),
        ("importance of sigma 1", important, known, KNOWN_IMPORTANT),
        ("two schedulers", uneven, divided(), None),
    ];
    let figure = |(name, shape, plan, wanted)| {
        let run = of(runs, shape, plan)?;
        Some(knowing(format!("rates known, {name}"), run, wanted))
    };
    cases.into_iter().filter_map(figure).collect()
}

fn all_learned(settings: &Settings, runs: &[Run]) -> Vec<Figure> {
    let plain = plain(settings);
    let important = important(settings);
    let aged = |ages| Shape { ages, ..plain };
    let learned = plan(By::LearnedRates);
    let nutch = plan(By::Interval);
    let bits = "rates learned from bits";
    let ages = "true Last-Modified";
    let cases = [
        (bits, plain, long(), 3, None),
        (bits, plain, long(), 10, BITS_10),
        (bits, plain, long(), 40, BITS_40),
        (ages, aged(1.0), long(), 3, None),
        (ages, aged(1.0), long(), 10, AGES_10),
        ("true Last-Modified at half", aged(0.5), long(), 10, None),
        (
            "learned, importance of sigma 1",
            important,
            learned,
            10,
            IMPORTANT_10,
        ),
        ("Nutch's rule", plain, nutch, 10, None),
        ("Nutch's rule", plain, nutch, 40, None),
        (
            "Nutch's rule, importance of sigma 1",
            important,
            nutch,
            10,
            None,
        ),
    ];
    let figure = |(name, shape, plan, visits, wanted)| {
        let name = format!("{name}, after {visits} visits a page");
        Some(learning(name, of(runs, shape, plan)?, visits, wanted))
    };
    cases.into_iter().filter_map(figure).collect()
}

/// A run with rates learned, after so many visits a page.
pub(super) fn learning(name: String, run: &Run, visits: usize, wanted: Wanted) -> Figure {
    let freshness = run.median(|of| of.after(visits))[0];
    figure(name, run, run.way_after(visits), freshness, wanted)
}

/// A run with rates known.
pub(super) fn knowing(name: String, run: &Run, wanted: Wanted) -> Figure {
    let freshness = run.median(|of| of.settled())[0];
    figure(name, run, run.way_settled(), freshness, wanted)
}

fn proportional(run: &Run) -> Figure {
    let way = run.median(|of| of.scale.way(of.scale.proportional));
    let freshness = run.median(|of| of.scale.proportional)[0];
    let name = "visits in proportion to the rate".to_owned();
    figure(name, run, way, freshness, None)
}

fn figure(name: String, run: &Run, way: [f64; 3], freshness: f64, wanted: Wanted) -> Figure {
    Figure {
        name,
        wanted,
        way,
        weighted: run.median(|of| of.scale.way(of.scale.weighted))[0],
        freshness,
        uniform: run.median(|of| of.scale.uniform)[0],
        optimum: run.median(|of| of.scale.optimum)[0],
    }
}

//! Claims: what is wanted of visits by value, and what was found.

use super::Settings;
use super::crawl::By;
use super::figures::{Figure, all, knowing, learning};
use super::runs::{
    PRECISIONS, RECALLS, Run, SPEEDS, SPREADS, VISITS, WORTHLESS, divided, long, of, plain, plan,
    uneven,
};
use super::web::{Shape, Signalling};
use crate::Claim;

/// What worthless signals may cost, as a part of the freshness without them.
const WORTHLESS_LEAST: f64 = 0.99;
/// How much of what perfect signals can bring is wanted when they are learned.
const PERFECT_LEAST: f64 = 0.9;

/// The three claims.
pub(super) fn judge(settings: &Settings, runs: &[Run]) -> Vec<Claim> {
    let figures = all(settings, runs);
    vec![known(&figures), learned(&figures), signals(settings, runs)]
}

fn wanted(figures: &[Figure], is_known: bool) -> Vec<&Figure> {
    figures
        .iter()
        .filter(|figure| figure.wanted.is_some())
        .filter(|figure| figure.name.starts_with("rates known") == is_known)
        .collect()
}

fn told(figures: &[&Figure]) -> String {
    let tell = |figure: &&Figure| format!("{} {:.2}", figure.name, figure.way[0]);
    figures.iter().map(tell).collect::<Vec<_>>().join("; ")
}

fn known(figures: &[Figure]) -> Claim {
    let known = wanted(figures, true);
    Claim {
        statement: "with rates known, the largest value next comes 0.95 of the way from uniform \
                    visits to the optimum, and 0.97 where importance differs"
            .into(),
        measured: told(&known),
        holds: known.len() == 2 && known.iter().all(|figure| figure.holds()),
    }
}

fn learned(figures: &[Figure]) -> Claim {
    let learned = wanted(figures, false);
    let others: Vec<&Figure> = figures
        .iter()
        .filter(|figure| {
            figure.name.starts_with("Nutch") || figure.name.starts_with("visits in proportion")
        })
        .collect();
    let least = learned
        .iter()
        .map(|figure| figure.way[0])
        .fold(f64::INFINITY, f64::min);
    let most = others
        .iter()
        .map(|figure| figure.way[0])
        .fold(f64::NEG_INFINITY, f64::max);
    Claim {
        statement: "with rates learned from nothing it comes 0.50 of the way after 10 visits a \
                    page, 0.62 after 40, 0.75 after 10 with true Last-Modified or importance of \
                    sigma 1, and is ahead of Nutch's rule and of visits in proportion to the rate"
            .into(),
        measured: format!("{}; {}", told(&learned), told(&others)),
        holds: learned.len() == 4
            && learned.iter().all(|figure| figure.holds())
            && others.len() == 4
            && least > most,
    }
}

fn signals(settings: &Settings, runs: &[Run]) -> Claim {
    let plain = plain(settings);
    let learned = plan(By::LearnedRates);
    let with = |signals| of(runs, Shape { signals, ..plain }, learned);
    let freshness = |run: &Run| run.median(|of| of.after(10))[0];
    let without = of(runs, plain, learned).map_or(f64::NAN, freshness);
    let kept = WORTHLESS.map(|signals| with(signals).map_or(f64::NAN, freshness) / without);
    let perfect = with(Signalling::of_precision(1.0, 1.0));
    let perfect = perfect.map_or(f64::NAN, |run| run.way_after(10)[0]);
    Claim {
        statement: format!(
            "signals that tell nothing leave {WORTHLESS_LEAST} of the freshness, and perfect ones \
             that are learned come {PERFECT_LEAST} of the way to the optimum with them"
        ),
        measured: format!(
            "worthless {:.3} (one a change) and {:.3} (one an interval); perfect {perfect:.2}",
            kept[0], kept[1]
        ),
        holds: kept.iter().all(|kept| *kept >= WORTHLESS_LEAST) && perfect >= PERFECT_LEAST,
    }
}

/// All numbers: lines to be read.
pub(super) fn lines(settings: &Settings, runs: &[Run]) -> Vec<String> {
    let plain = plain(settings);
    let known = plan(By::KnownRates);
    let learned = plan(By::LearnedRates);
    let mut figures = all(settings, runs);
    for visits in VISITS {
        let run = of(runs, plain, long()).into_iter();
        figures.extend(run.map(|run| {
            learning(
                format!("budget: from bits, after {visits} visits a page"),
                run,
                visits,
                None,
            )
        }));
    }
    let spreads = SPREADS.map(|spread| (format!("spread {spread}"), Shape { spread, ..plain }));
    let speeds = SPEEDS.map(|speed| (format!("speed {speed}"), Shape { speed, ..plain }));
    let signals = RECALLS.iter().flat_map(|&recall| {
        PRECISIONS.map(|precision| {
            let signals = Signalling::of_precision(recall, precision);
            let name = format!("signals of recall {recall}, precision {precision}");
            (name, Shape { signals, ..plain })
        })
    });
    let worthless = WORTHLESS.map(|signals| {
        let name = match signals.false_per_change {
            0.0 => "worthless signals, one an interval",
            _ => "worthless signals, one a change",
        };
        (name.to_owned(), Shape { signals, ..plain })
    });
    for (name, shape) in spreads
        .into_iter()
        .chain(speeds)
        .chain(signals)
        .chain(worthless)
    {
        let of = |plan| of(runs, shape, plan);
        figures.extend(of(known).map(|run| knowing(format!("{name}, known"), run, None)));
        let name = format!("{name}, learned, after 10 visits a page");
        figures.extend(of(learned).map(|run| learning(name, run, 10, None)));
    }
    let mut lines: Vec<String> = figures.iter().map(Figure::to_string).collect();
    lines.extend(of(runs, uneven(settings), divided()).map(|run| {
        let share = run.median(|of| of.shares[0])[0];
        format!("two schedulers: the first has 0.2 of the pages and {share:.3} of the budget")
    }));
    lines
}

//! Claims: what Fan and Li say of shared nodes, and what was found.

use super::of;
use super::shares::{Run, jain};
use super::theme::{Theme, Way};
use crate::Claim;
use crate::text::{grouped, percent};

/// The claims, judged on the webs on which the topic with the most links is the slowest.
pub(super) fn judge(runs: &[Run]) -> Vec<Claim> {
    let kind = Theme::KINDS[0].name;
    let both = |number: fn(&Run) -> f64| {
        Way::ALL.map(|way| of(runs, kind, way).map(number).collect::<Vec<f64>>())
    };
    let [fifo, turns] = both(|run| jain(&run.times()));
    let most_fifo = most(&fifo);
    let least_turns = least(&turns);
    let balance = Claim {
        statement: "topics in turns have equal connection time (Jain's index at least 0.95) where \
                    FIFO is below 0.7"
            .into(),
        measured: format!("{least_turns:.3} at least in turns, {most_fifo:.3} at most in FIFO"),
        holds: least_turns >= 0.95 && most_fifo < 0.7,
    };
    let [fifo, turns] = both(|run| run.empty_parts() as f64);
    let no_gaps = Claim {
        statement: "with turns no topic is without a page in a twelfth of the run".into(),
        measured: format!(
            "{} such parts at most in turns, {} to {} in FIFO",
            most(&turns),
            least(&fifo),
            most(&fifo)
        ),
        holds: most(&turns) == 0.0,
    };
    let [fifo, turns] = both(|run| run.pages().iter().sum::<u64>() as f64);
    let ratios: Vec<f64> = turns
        .iter()
        .zip(&fifo)
        .map(|(turns, fifo)| turns / fifo)
        .collect();
    let pages = Claim {
        statement: "turns cost no more than 5 % of all pages".into(),
        measured: format!(
            "{} to {} of the pages of FIFO",
            percent(least(&ratios)),
            percent(most(&ratios))
        ),
        holds: least(&ratios) >= 0.95,
    };
    vec![balance, no_gaps, pages]
}

/// What came of each kind of webs, both ways: means over its webs.
pub(super) fn lines(runs: &[Run]) -> Vec<String> {
    let line = |(kind, way): (&str, Way)| {
        let runs: Vec<&Run> = of(runs, kind, way).collect();
        let mean = |number: &dyn Fn(&Run) -> f64| {
            runs.iter().map(|run| number(run)).sum::<f64>() / runs.len() as f64
        };
        let names = runs.first().map_or([""; 3], |run| run.names);
        let of_topic = |topic: usize| {
            let share = mean(&|run| run.times()[topic] / run.times().iter().sum::<f64>());
            format!(
                "{} {} {}",
                names[topic],
                percent(share),
                grouped(mean(&|run| run.pages()[topic] as f64) as u64)
            )
        };
        format!(
            "{kind}, {way}: Jain's index of connection time {:.3}, of pages {:.3}; time and pages: \
             {}, {}, {}; empty parts {:.1}",
            mean(&|run| jain(&run.times())),
            mean(&|run| jain(&run.pages().map(|pages| pages as f64))),
            of_topic(0),
            of_topic(1),
            of_topic(2),
            mean(&|run| run.empty_parts() as f64),
        )
    };
    Theme::KINDS
        .iter()
        .flat_map(|themes| Way::ALL.map(|way| (themes.name, way)))
        .map(line)
        .collect()
}

fn most(of: &[f64]) -> f64 {
    of.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn least(of: &[f64]) -> f64 {
    of.iter().copied().fold(f64::INFINITY, f64::min)
}

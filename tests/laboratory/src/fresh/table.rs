//! Tables: the figures, and the freshness of each run in each uniform interval, as CSV.

use super::crawl::{By, Plan};
use super::figures::Figure;
use super::runs::Run;

/// A row for each figure.
pub(super) fn csv(figures: &[Figure]) -> String {
    let mut text = String::from(
        "figure,wanted,aim,way,way_least,way_most,freshness,uniform,optimum,way_by_importance\n",
    );
    for figure in figures {
        let wanted = figure
            .wanted
            .map_or(",".to_owned(), |[wanted, aim]| format!("{wanted},{aim}"));
        let [way, least, most] = figure.way;
        let Figure {
            name,
            weighted,
            freshness,
            uniform,
            optimum,
            ..
        } = figure;
        let name = name.replace(',', ";");
        text.push_str(&format!(
            "{name},{wanted},{way:.4},{least:.4},{most:.4},{freshness:.5},{uniform:.5},\
             {optimum:.5},{weighted:.4}\n"
        ));
    }
    text
}

/// A row for each uniform interval of each run and seed.
pub(super) fn runs(runs: &[Run]) -> String {
    let mut text = String::from(
        "spread,speed,importance,ages,recall,false_per_change,false_per_interval,plan,schedulers,\
         seed,interval,freshness,way\n",
    );
    for Run { shape, plan, seeds } in runs {
        let signals = shape.signals;
        let case = format!(
            "{},{},{},{},{},{},{},{},{}",
            shape.spread,
            shape.speed,
            shape.importance,
            shape.ages,
            signals.recall,
            signals.false_per_change,
            signals.false_per_interval,
            name(*plan),
            plan.schedulers
        );
        for of in seeds {
            for (interval, freshness) in of.freshness.iter().enumerate() {
                let way = of.scale.way(*freshness);
                let seed = of.seed;
                text.push_str(&format!(
                    "{case},{seed},{interval},{freshness:.5},{way:.4}\n"
                ));
            }
        }
    }
    text
}

fn name(plan: Plan) -> &'static str {
    match plan.by {
        By::KnownRates => "known",
        By::LearnedRates => "learned",
        By::Interval => "interval",
    }
}

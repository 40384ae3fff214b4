//! Runs: a web is crawled by all rules.

use super::model::{Outcome, crawl};
use super::rules::{Jobs, Order, Rank, Rules, Servers};
use super::scale::Scale;
use synthetic_web::Graph;

/// How many times what has left before further worth of a page is, when it leaves.
pub(super) const FACTORS: [f64; 7] = [0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 7.0];
/// Rounds until news are there.
pub(super) const DELAYS: [usize; 4] = [0, 1, 2, 4];
/// Rounds by which lifts are later than pages that are found, …
pub(super) const LIFTS_LATE: [usize; 5] = [0, 5, 10, 20, 40];
/// … with this factor, by which jobs of several pages are compared, too.
pub(super) const FACTOR_OF_JOBS: f64 = 0.5;
/// Factors where servers are chosen.
pub(super) const FACTORS_OF_SOME: [f64; 2] = [0.0, 1.0];

/// A crawl and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) rules: Rules,
    pub(super) area: f64,
    /// From order of discovery (0) to the best one (1), with all servers and without a delay.
    pub(super) way: f64,
    /// Lifts per page before it was fetched, and after.
    pub(super) lifts: f64,
    pub(super) late_lifts: f64,
    pub(super) rounds: usize,
    /// The share of PageRank after each hundredth of the pages.
    pub(super) curve: Vec<f64>,
}

/// Crawls a web from these pages by all rules.
pub(super) fn all(graph: &Graph, seeds: &[usize], connections: usize) -> Vec<Run> {
    let scale = Scale::new(graph, seeds);
    let run = |rules| {
        let Outcome {
            fetched,
            lifts,
            late_lifts,
            rounds,
        } = crawl(graph, seeds, &scale.ranks, rules);
        let area = scale.area(&fetched);
        let pages = fetched.len() as f64;
        let lifts = lifts as f64 / pages;
        let late_lifts = late_lifts as f64 / pages;
        Run {
            rules,
            area,
            way: scale.way(area),
            lifts,
            late_lifts,
            rounds,
            curve: scale.curve(&fetched),
        }
    };
    rules(connections).into_iter().map(run).collect()
}

fn rules(connections: usize) -> Vec<Rules> {
    let mut rules = Vec::new();
    for delay in DELAYS {
        for order in Order::ALL {
            let factors = if order.is_lifted() {
                &FACTORS[..]
            } else {
                &[0.0]
            };
            rules.extend(factors.iter().map(|&factor| Rules {
                factor,
                delay,
                ..Rules::plain(order)
            }));
        }
    }
    for order in Order::LIFTED {
        let of = |(lifts_late, jobs)| Rules {
            factor: FACTOR_OF_JOBS,
            lifts_late,
            jobs,
            ..Rules::plain(order)
        };
        let late = LIFTS_LATE
            .iter()
            .flat_map(|&late| Jobs::ALL.map(|jobs| (late, jobs)));
        rules.extend(
            late.map(of)
                .filter(|of| (of.lifts_late, of.jobs) != (0, Jobs::Of(1))),
        );
    }
    for rank in Rank::ALL {
        let servers = Servers::Some { connections, rank };
        for order in Order::ALL {
            let factors = if order.is_lifted() {
                &FACTORS_OF_SOME[..]
            } else {
                &[0.0]
            };
            rules.extend(factors.iter().map(|&factor| Rules {
                factor,
                servers,
                ..Rules::plain(order)
            }));
        }
    }
    rules
}

/// The run by these rules.
pub(super) fn of(runs: &[Run], rules: Rules) -> Option<&Run> {
    runs.iter().find(|run| run.rules == rules)
}

/// The run of an order with all servers and without a delay.
pub(super) fn plain(runs: &[Run], order: Order, factor: f64) -> Option<&Run> {
    of(
        runs,
        Rules {
            factor,
            ..Rules::plain(order)
        },
    )
}

//! Claims: what is said of orders, and what was found.

use super::rules::{Jobs, Order, Rank, Rules, Servers};
use super::runs::{DELAYS, FACTOR_OF_JOBS, FACTORS, LIFTS_LATE, Run, of, plain};
use crate::Claim;
use crate::text::percent;

/// The claims, judged on one web.
pub(super) fn judge(runs: &[Run], connections: usize) -> Vec<Claim> {
    let area = |order| area(runs, order, Servers::All);
    let two = |statement: &str, better: Order, worse: Order| Claim {
        statement: statement.to_owned(),
        measured: format!("{better} {:.3}, {worse} {:.3}", area(better), area(worse)),
        holds: area(better) > area(worse),
    };
    let mut claims = vec![
        two(
            "links counted until the fetch are ahead of discovery (Cho and others)",
            Order::Links,
            Order::Discovery,
        ),
        two(
            "cash gathered until the fetch is ahead of discovery (OPIC)",
            Order::Cash,
            Order::Discovery,
        ),
        two(
            "cash until the fetch is ahead of what a page is worth when it is found",
            Order::Cash,
            Order::Flow,
        ),
        two(
            "cash of which each page has a part of its own is ahead of plain cash",
            Order::DampedCash,
            Order::Cash,
        ),
        most_of_the_way(runs),
    ];
    claims.extend(Order::LIFTED.map(|order| few_lifts(runs, order)));
    claims.push(best_page(runs, connections));
    claims
}

fn most_of_the_way(runs: &[Run]) -> Claim {
    let ways = Order::LIFTED.map(|order| {
        (
            order,
            plain(runs, order, 0.0).map_or(f64::NAN, |run| run.way),
        )
    });
    Claim {
        statement:
            "links, cash and damped cash come four fifths of the way from discovery to PageRank"
                .into(),
        measured: ways
            .map(|(order, way)| format!("{order} {}", percent(way)))
            .join(", "),
        holds: ways.iter().all(|(_, way)| *way >= 0.8),
    }
}

fn few_lifts(runs: &[Run], order: Order) -> Claim {
    let [once, doubled] = [0.0, 1.0].map(|factor| plain(runs, order, factor));
    let way = |run: Option<&Run>| run.map_or(f64::NAN, |run| run.way);
    let lifts = |run: Option<&Run>| run.map_or(f64::NAN, |run| run.lifts + run.late_lifts);
    Claim {
        statement: format!(
            "{order}: lifts that wait until they double what has left (factor 1) keep nine tenths \
             of the gain"
        ),
        measured: format!(
            "{} of the way with {:.1} lifts a page, {} with {:.1} at once",
            percent(way(doubled)),
            lifts(doubled),
            percent(way(once)),
            lifts(once)
        ),
        holds: way(doubled) >= 0.9 * way(once),
    }
}

fn best_page(runs: &[Run], connections: usize) -> Claim {
    let by = |order, rank| area(runs, order, Servers::Some { connections, rank });
    let areas = Order::LIFTED.map(|order| (order, by(order, Rank::Best), by(order, Rank::Sum)));
    let measured = areas
        .map(|(order, best, sum)| format!("{order} {best:.3} and {sum:.3}"))
        .join(", ");
    Claim {
        statement: format!(
            "with {connections} connections, servers by their best page are ahead of servers by \
             the sum"
        ),
        measured,
        holds: areas.iter().all(|(_, best, sum)| best > sum),
    }
}

/// What came of each order: lines to be read.
pub(super) fn lines(runs: &[Run], connections: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for order in Order::ALL {
        let runs = plain(runs, order, 0.0).into_iter();
        lines.extend(runs.map(|run| {
            format!(
                "{order}: area {:.4}, {} of the way",
                run.area,
                percent(run.way)
            )
        }));
    }
    lines.extend(
        Order::LIFTED
            .iter()
            .flat_map(|&order| FACTORS.map(|factor| line_of_factor(runs, order, factor))),
    );
    for order in Order::LIFTED {
        lines.extend(Jobs::ALL.map(|jobs| line_of_jobs(runs, order, jobs)));
    }
    for order in Order::ALL {
        let [best, sum, turn] =
            Rank::ALL.map(|rank| area(runs, order, Servers::Some { connections, rank }));
        lines.push(format!(
            "{order}, {connections} connections: by best page {best:.4}, by sum {sum:.4}, in turn \
             {turn:.4}"
        ));
    }
    lines
}

fn line_of_factor(runs: &[Run], order: Order, factor: f64) -> String {
    let of_delay = |delay| {
        of(
            runs,
            Rules {
                factor,
                delay,
                ..Rules::plain(order)
            },
        )
    };
    let ways = DELAYS
        .map(|delay| percent(of_delay(delay).map_or(f64::NAN, |run| run.way)))
        .join(", ");
    let (lifts, late) = of_delay(0).map_or((f64::NAN, f64::NAN), |run| (run.lifts, run.late_lifts));
    format!(
        "{order}, factor {factor}: {ways} of the way with news 0, 1, 2, 4 rounds late; lifts a \
         page {lifts:.2}, late ones {late:.2}"
    )
}

fn line_of_jobs(runs: &[Run], order: Order, jobs: Jobs) -> String {
    let of_lateness = |lifts_late| {
        of(
            runs,
            Rules {
                factor: FACTOR_OF_JOBS,
                lifts_late,
                jobs,
                ..Rules::plain(order)
            },
        )
    };
    let ways = LIFTS_LATE
        .map(|late| percent(of_lateness(late).map_or(f64::NAN, |run| run.way)))
        .join(", ");
    format!(
        "{order}, jobs {jobs}, factor {FACTOR_OF_JOBS}: {ways} of the way with lifts \
         {LIFTS_LATE:?} rounds late"
    )
}

fn area(runs: &[Run], order: Order, servers: Servers) -> f64 {
    of(
        runs,
        Rules {
            servers,
            ..Rules::plain(order)
        },
    )
    .map_or(f64::NAN, |run| run.area)
}

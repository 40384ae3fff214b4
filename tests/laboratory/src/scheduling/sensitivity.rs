//! Sensitivity: lines that show how the claims depend on connections, webs and schedulers.

use super::compared::Compared;
use super::policy::Policy;
use super::quality::Model;
use super::runs::{
    CONNECTIONS, CONNECTIONS_FEW, FAST_SWEEP, Runs, SCHEDULERS, SWEEP, breadth_first, with_cpu,
};
use super::setup::Setup;
use super::web::Shape;
use crate::text::{ms, percent};

/// Pages a second of breadth-first by connections: with and without a CPU, and from fast servers.
pub(super) fn throughput(runs: &Runs, shape: Shape) -> Vec<String> {
    let cpu = runs.page_cpu_us(shape).unwrap_or_default();
    let line = |what: &str, shape: Shape, sweep: &[usize], cpu: u64| {
        let rates = sweep.iter().map(|&connections| {
            let rate = runs.throughput(shape, with_cpu(connections, cpu))?;
            Some(format!("{connections}: {rate:.1}"))
        });
        let rates = rates.collect::<Option<Vec<_>>>()?.join(", ");
        Some(format!(
            "{what}, {} of CPU per page; by connections {rates}",
            ms(cpu)
        ))
    };
    [
        line("all servers", shape, &SWEEP, 0),
        line("all servers", shape, &SWEEP, cpu),
        line("fast servers", shape.of_fast_servers(), &FAST_SWEEP, cpu),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// How the claims fare on one web, in one kind of crawl.
pub(super) fn varied(runs: &Runs, shape: Shape, setup: Setup) -> Option<String> {
    let [page_rank, zipf] = Compared::both(runs, shape, setup)?;
    let behind = page_rank.behind().0.max(zipf.behind().0);
    Some(format!(
        "{shape}, {setup}: E3 {:.2} times breadth-first's {}, {:.2} times the {} of servers in \
         turn; E4 at 30 % {} (breadth-first {}), after half of the pages {} (quality {}); E5 at a \
         third {}, at half {}; behind quality by at most {behind:.1} points",
        page_rank.lead(page_rank.breadth_first),
        percent(page_rank.breadth_first.pages_at(0.5)),
        page_rank.lead(page_rank.in_turn),
        percent(page_rank.in_turn.pages_at(0.5)),
        percent(page_rank.capacity.quality_at(0.3)),
        percent(page_rank.breadth_first.quality_at(0.3)),
        percent(page_rank.capacity.quality_after(0.5)),
        percent(page_rank.quality.quality_after(0.5)),
        percent(zipf.capacity.quality_at(1.0 / 3.0)),
        percent(zipf.capacity.quality_at(0.5)),
    ))
}

/// What the crawler's default reaches, and what capacity would reach if it knew only how deep a
/// page lies: a line for each number of connections.
pub(super) fn defaults(runs: &Runs, shape: Shape) -> Vec<String> {
    let line = |connections: usize| {
        let of = |policy| {
            let run = runs.get(
                shape,
                Setup {
                    policy,
                    ..breadth_first(connections)
                },
                Model::PageRank,
            )?;
            let at = |time| {
                format!(
                    "{} of the pages, {} of PageRank",
                    percent(run.pages_at(time)),
                    percent(run.quality_at(time))
                )
            };
            Some(format!("{policy} {} and {}", at(0.25), at(0.5)))
        };
        let lines = [Policy::InTurn, Policy::CapacityByDepth, Policy::Capacity].map(of);
        let lines = lines.into_iter().collect::<Option<Vec<_>>>()?;
        Some(format!(
            "{connections} connections; at 1/4 and 1/2 of the time {}",
            lines.join("; ")
        ))
    };
    [CONNECTIONS, CONNECTIONS_FEW]
        .into_iter()
        .filter_map(line)
        .collect()
}

/// How much capacity loses when several schedulers share the servers and no order is global: a line
/// for each number.
pub(super) fn order_lost(runs: &Runs, shape: Shape) -> Vec<String> {
    let line = |connections: usize, schedulers: u16| {
        let capacity = Setup {
            policy: Policy::Capacity,
            schedulers,
            ..breadth_first(connections)
        };
        let at = |model| {
            let run = runs.get(shape, capacity, model)?;
            Some(format!(
                "{model} {} and {}",
                percent(run.quality_at(0.25)),
                percent(run.quality_at(0.5))
            ))
        };
        Some(format!(
            "capacity, {connections} connections, schedulers: {schedulers}; at 1/4 and 1/2 of the \
             time {}, {}",
            at(Model::PageRank)?,
            at(Model::Zipf)?
        ))
    };
    [CONNECTIONS, CONNECTIONS_FEW]
        .into_iter()
        .flat_map(|connections| SCHEDULERS.map(|schedulers| line(connections, schedulers)))
        .flatten()
        .collect()
}

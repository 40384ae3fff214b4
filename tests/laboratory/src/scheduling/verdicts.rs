//! Verdicts: what the paper says, and what was measured; and lines that show what that hangs on.
//!
//! Each claim states its tolerance. Throughput is that of the first 80 % of the pages; time is in parts of breadth-first's
//! completion. A claim whose runs were not made is not judged.
//!
//! Source: Cao, Jiang and Singh 2003, section 5.

use super::crawl::Setup;
use super::curves::{Curves, POLICIES, name};
use super::quality::Model;
use super::runs::{CONNECTIONS, CONNECTIONS_FEW, Runs, SCHEDULERS, SWEEP, setup};
use super::web::Shape;
use crate::Verdict;
use shared::config::Policy;

/// What "about twice" is.
const ABOUT_TWICE: std::ops::RangeInclusive<f64> = 1.6..=2.4;
/// Growth of throughput, in per cent, that more connections bring before the knee, and that is none after it.
const GROWTH: f64 = 10.0;
const NO_GROWTH: f64 = 5.0;
/// What performance has for each of breadth-first's pages at half time.
const LEAD: f64 = 1.5;
/// "Only slightly above", in points.
const SLIGHTLY: f64 = 10.0;
/// How far capacity may be behind quality, in points.
const BEHIND: f64 = 2.0;
/// Points in time at which two curves are compared.
const INSTANTS: u32 = 1_000;

/// A verdict on each claim that can be judged.
pub(super) fn judge(runs: &Runs, shape: Shape) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    verdicts.extend(keep_alive_twice_as_fast(runs, shape));
    verdicts.extend(knee_at_96_connections(runs, shape));
    let Some([page_rank, zipf]) = Compared::both(runs, shape, CONNECTIONS) else { return verdicts };
    verdicts.push(performance_leads(&page_rank));
    verdicts.extend([page_rank.quality, page_rank.capacity].map(good_pages_first));
    verdicts.push(capacity_early(&page_rank));
    verdicts.extend([(60.0, 1.0 / 3.0, "a third"), (80.0, 0.5, "half")].map(|point| capacity_of_zipf(&zipf, point)));
    verdicts.push(capacity_ahead(&zipf));
    verdicts.extend([zipf.quality, zipf.performance].map(|run| slightly_above(run, zipf.breadth_first)));
    verdicts.extend([&page_rank, &zipf].map(capacity_not_behind));
    verdicts
}

/// The four policies on one web, for one kind of quality.
struct Compared<'a> {
    breadth_first: &'a Curves,
    performance: &'a Curves,
    quality: &'a Curves,
    capacity: &'a Curves,
}

impl<'a> Compared<'a> {
    fn get(runs: &'a Runs, shape: Shape, connections: usize, model: Model) -> Option<Self> {
        let [breadth_first, performance, quality, capacity] =
            POLICIES.map(|policy| runs.get(shape, setup(policy, connections), model));
        Some(Compared {
            breadth_first: breadth_first?,
            performance: performance?,
            quality: quality?,
            capacity: capacity?,
        })
    }

    /// For PageRank and for Zipf.
    fn both(runs: &'a Runs, shape: Shape, connections: usize) -> Option<[Self; 2]> {
        let get = |model| Compared::get(runs, shape, connections, model);
        Some([get(Model::PageRank)?, get(Model::Zipf)?])
    }

    /// Performance's pages at half time for each of breadth-first's.
    fn lead(&self) -> f64 {
        self.performance.pages_at(0.5) / self.breadth_first.pages_at(0.5)
    }

    /// By how much capacity is behind quality at worst, in points, and when.
    fn behind(&self) -> (f64, f64) {
        let mut worst = (0.0, 0.0);
        for instant in 0..=INSTANTS {
            let time = f64::from(instant) / f64::from(INSTANTS);
            let points = 100.0 * (self.quality.quality_at(time) - self.capacity.quality_at(time));
            if points > worst.0 {
                worst = (points, time);
            }
        }
        worst
    }

    /// Quality of all policies then, as text.
    fn at(&self, time: f64) -> String {
        let of = |run: &Curves| format!("{} {}", name(run.setup.policy), percent(run.quality_at(time)));
        [self.capacity, self.quality, self.performance, self.breadth_first].map(of).join(", ")
    }
}

fn keep_alive_twice_as_fast(runs: &Runs, shape: Shape) -> Option<Verdict> {
    let with = setup(Policy::BreadthFirst, CONNECTIONS);
    let without = Setup { keep_alive: false, ..with };
    let [with, without] = [with, without].map(|setup| runs.get(shape, setup, Model::PageRank).map(Curves::throughput));
    let (with, without) = (with?, without?);
    let ratio = with / without;
    Some(Verdict {
        claim: format!(
            "E1: keep-alive has about 2 times the pages a second of one request per connection ({} to {})",
            ABOUT_TWICE.start(),
            ABOUT_TWICE.end()
        ),
        measured: format!("{with:.1} / {without:.1} = {ratio:.2}"),
        holds: ABOUT_TWICE.contains(&ratio),
    })
}

fn knee_at_96_connections(runs: &Runs, shape: Shape) -> Option<Verdict> {
    let of = |connections| {
        runs.get(shape, setup(Policy::BreadthFirst, connections), Model::PageRank).map(Curves::throughput)
    };
    let growth = |from, to| Some(100.0 * (of(to)? / of(from)? - 1.0));
    let (before, after) = (growth(64, 96)?, growth(96, 128)?);
    let rates =
        SWEEP.map(|connections| format!("{connections}: {:.1}", of(connections).unwrap_or_default())).join(", ");
    Some(Verdict {
        claim: format!(
            "E2: throughput grows to 96 connections (from 64 by at least {GROWTH} %) and no further (to 128 by at most \
             {NO_GROWTH} %)"
        ),
        measured: format!(
            "{before:+.1} % and {after:+.1} %; pages a second by connections {rates}; there is no CPU here to run \
             short of, only servers, which serve one connection each"
        ),
        holds: before >= GROWTH && after <= NO_GROWTH,
    })
}

fn performance_leads(compared: &Compared<'_>) -> Verdict {
    let lead = compared.lead();
    Verdict {
        claim: format!("E3: performance has {LEAD} times breadth-first's pages at half time"),
        measured: format!(
            "{} / {} = {lead:.2}",
            percent(compared.performance.pages_at(0.5)),
            percent(compared.breadth_first.pages_at(0.5))
        ),
        holds: lead >= LEAD,
    }
}

fn good_pages_first(run: &Curves) -> Verdict {
    let quality = run.quality_after(0.5);
    Verdict {
        claim: format!("E4: {} has 80 % of PageRank after half of the pages", name(run.setup.policy)),
        measured: percent(quality),
        holds: quality >= 0.8,
    }
}

fn capacity_early(page_rank: &Compared<'_>) -> Verdict {
    Verdict {
        claim: "E4: capacity has 80 % of PageRank within 30 % of the time".to_owned(),
        measured: page_rank.at(0.3),
        holds: page_rank.capacity.quality_at(0.3) >= 0.8,
    }
}

fn capacity_of_zipf(zipf: &Compared<'_>, (least, time, word): (f64, f64, &str)) -> Verdict {
    Verdict {
        claim: format!("E5: capacity has {least} % of Zipf quality at {word} of the time"),
        measured: zipf.at(time),
        holds: 100.0 * zipf.capacity.quality_at(time) >= least,
    }
}

fn capacity_ahead(zipf: &Compared<'_>) -> Verdict {
    let best_other = |time| {
        [zipf.breadth_first, zipf.performance, zipf.quality]
            .map(|run| run.quality_at(time))
            .into_iter()
            .fold(0.0, f64::max)
    };
    let ahead = [1.0 / 3.0, 0.5].map(|time| 100.0 * (zipf.capacity.quality_at(time) - best_other(time)));
    Verdict {
        claim: "E5: capacity is ahead of all others in Zipf quality at a third and at half of the time".to_owned(),
        measured: format!("{:+.1} and {:+.1} points to the best of them", ahead[0], ahead[1]),
        holds: ahead.iter().all(|&points| points > 0.0),
    }
}

fn slightly_above(run: &Curves, breadth_first: &Curves) -> Verdict {
    let above = [1.0 / 3.0, 0.5].map(|time| 100.0 * (run.quality_at(time) - breadth_first.quality_at(time)));
    Verdict {
        claim: format!(
            "E5: {} is only slightly above breadth-first in Zipf quality (0 to {SLIGHTLY} points at a third and at \
             half of the time)",
            name(run.setup.policy)
        ),
        measured: format!("{:+.1} and {:+.1} points", above[0], above[1]),
        holds: above.iter().all(|points| (0.0..=SLIGHTLY).contains(points)),
    }
}

fn capacity_not_behind(compared: &Compared<'_>) -> Verdict {
    let (points, time) = compared.behind();
    Verdict {
        claim: format!(
            "capacity is never behind quality by more than {BEHIND} points of {} quality",
            compared.capacity.model
        ),
        measured: format!("at most {points:.1} points, at {} of the time", percent(time)),
        holds: points <= BEHIND,
    }
}

/// How the claims fare on other webs, and with few connections: a line for each.
pub(super) fn sensitivity(runs: &Runs, shapes: &[Shape]) -> Vec<String> {
    let setups =
        shapes.iter().map(|&shape| (shape, CONNECTIONS)).chain(shapes.first().map(|&shape| (shape, CONNECTIONS_FEW)));
    setups
        .filter_map(|(shape, connections)| {
            let [page_rank, zipf] = Compared::both(runs, shape, connections)?;
            let behind = page_rank.behind().0.max(zipf.behind().0);
            Some(format!(
                "{shape}, {connections} connections: E3 {:.2} times breadth-first's {}; E4 at 30 % {} (breadth-first \
                 {}), after half of the pages {} (quality {}); E5 at a third {}, at half {}; behind quality by at most \
                 {behind:.1} points",
                page_rank.lead(),
                percent(page_rank.breadth_first.pages_at(0.5)),
                percent(page_rank.capacity.quality_at(0.3)),
                percent(page_rank.breadth_first.quality_at(0.3)),
                percent(page_rank.capacity.quality_after(0.5)),
                percent(page_rank.quality.quality_after(0.5)),
                percent(zipf.capacity.quality_at(1.0 / 3.0)),
                percent(zipf.capacity.quality_at(0.5)),
            ))
        })
        .collect()
}

/// What capacity loses of the global order when several schedulers share the servers: a line for each number.
pub(super) fn order_lost(runs: &Runs, shape: Shape) -> Vec<String> {
    let line = |connections: usize, schedulers: u16| {
        let capacity = Setup { schedulers, ..setup(Policy::Capacity, connections) };
        let at = |model| {
            let run = runs.get(shape, capacity, model)?;
            Some(format!("{model} {} and {}", percent(run.quality_at(0.25)), percent(run.quality_at(0.5))))
        };
        Some(format!(
            "capacity, {connections} connections, schedulers: {schedulers}; at 1/4 and 1/2 of the time {}, {}",
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

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{BASE, curves};
    use super::*;

    /// Four pages that are worth 4, 3, 2 and 1; breadth-first has one a second, the worst first.
    fn compared(capacity: [(u32, f32); 4], quality: [(u32, f32); 4], performance: [(u32, f32); 4]) -> Runs {
        let breadth_first = [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)];
        let mut runs = Runs::default();
        for (policy, points) in POLICIES.into_iter().zip([breadth_first, performance, quality, capacity]) {
            for model in Model::ALL {
                runs.curves.push(curves(setup(policy, CONNECTIONS), model, &points, Some(4.0)));
            }
        }
        runs
    }

    fn line(runs: &Runs, start: &str) -> String {
        judge(runs, BASE).iter().map(Verdict::to_string).find(|line| line[9..].starts_with(start)).unwrap()
    }

    #[test]
    fn claims_on_the_policies_are_judged_at_their_points() {
        let best_first = [(1, 4.0), (2, 3.0), (3, 2.0), (4, 1.0)];
        let runs = compared(best_first, best_first, [(1, 1.0), (1, 2.0), (2, 3.0), (3, 4.0)]);
        assert_eq!(judge(&runs, BASE).len(), 11);
        for (start, verdict, measured) in [
            ("E3: performance", "holds", ": 75.0 % / 50.0 % = 1.50"),
            ("E4: quality", "FAILS", ": 70.0 %"),
            ("E4: capacity has 80 % of PageRank after", "FAILS", ": 70.0 %"),
            (
                "E4: capacity has 80 % of PageRank within",
                "FAILS",
                ": capacity 40.0 %, quality 40.0 %, performance 30.0 %, breadth-first 10.0 %",
            ),
            ("E5: capacity has 60 % of Zipf quality at a third", "FAILS", "breadth-first 10.0 %"),
            ("E5: capacity is ahead", "FAILS", ": +0.0 and +0.0 points to the best of them"),
            ("E5: quality is only", "FAILS", ": +30.0 and +40.0 points"),
            ("E5: performance is only", "FAILS", ": +20.0 and +30.0 points"),
            ("capacity is never behind", "holds", ": at most 0.0 points, at 0.0 % of the time"),
        ] {
            let line = line(&runs, start);
            assert!(line.starts_with(verdict) && line.ends_with(measured), "{line}");
        }
        // The best pages at once.
        let runs =
            compared([(1, 4.0), (1, 3.0), (1, 2.0), (4, 1.0)], [(1, 4.0), (1, 3.0), (2, 2.0), (4, 1.0)], best_first);
        for start in ["E4: capacity has 80 % of PageRank within", "E5: capacity has 60 %", "E5: capacity has 80 %"] {
            assert!(line(&runs, start).starts_with("holds"));
        }
        assert!(line(&runs, "E3").starts_with("FAILS"));
    }

    #[test]
    fn where_capacity_is_behind_quality_is_told() {
        let runs =
            compared([(1, 1.0), (2, 4.0), (3, 3.0), (4, 2.0)], [(1, 4.0), (2, 1.0), (3, 3.0), (4, 2.0)], [(1, 1.0); 4]);
        assert_eq!(
            line(&runs, "capacity is never"),
            "FAILS    capacity is never behind quality by more than 2 points of PageRank quality: at most 30.0 points, at \
             25.0 % of the time"
        );
    }

    #[test]
    fn throughput_is_judged_by_keep_alive_and_by_connections() {
        let run = |setup, seconds| curves(setup, Model::PageRank, &[(seconds, 1.0)], None);
        let with = |connections| setup(Policy::BreadthFirst, connections);
        let mut runs = Runs::default();
        for (connections, seconds) in [(64, 1200), (96, 1000), (128, 970)] {
            runs.curves.push(run(with(connections), seconds));
        }
        assert!(line(&runs, "E2").starts_with("holds"), "{}", line(&runs, "E2"));
        runs.curves.push(run(Setup { keep_alive: false, ..with(64) }, 2400));
        assert!(line(&runs, "E1").starts_with("holds") && line(&runs, "E1").ends_with("= 2.00"));
        runs.curves[2] = run(with(128), 900);
        assert!(line(&runs, "E2").starts_with("FAILS"));
        runs.curves[3] = run(Setup { keep_alive: false, ..with(64) }, 1800);
        assert!(line(&runs, "E1").starts_with("FAILS"));
    }
}

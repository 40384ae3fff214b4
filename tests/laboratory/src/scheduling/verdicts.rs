//! Verdicts: what the paper says, and what was measured; and lines that show what that hangs on.
//!
//! Each claim states its tolerance, and is judged on webs of several seeds: it holds when it does on most of them. What
//! was measured is that of the first, then on how many it holds, and the median and range of the deciding number.
//! Throughput is that of the first 80 % of the pages; time is in parts of breadth-first's completion. A claim whose runs
//! were not made is not judged.
//!
//! Source: Cao, Jiang and Singh 2003, section 5.

use super::crawl::Setup;
use super::curves::Curves;
use super::policy::Policy;
use super::quality::Model;
use super::runs::{CONNECTIONS, CONNECTIONS_FEW, FAST_SWEEP, Runs, SCHEDULERS, SWEEP, breadth_first, with_cpu};
use super::web::Shape;
use crate::Verdict;

/// What "about twice" is.
const ABOUT_TWICE: std::ops::RangeInclusive<f64> = 1.6..=2.4;
/// Growth of throughput, in per cent, that more connections bring before the knee, and that is none after it.
const GROWTH: f64 = 10.0;
const NO_GROWTH: f64 = 5.0;
/// Connections to fast servers that are as good as any number: what "14 to 16" is, and what "as good" is, in per cent.
const FEW_ENOUGH: std::ops::RangeInclusive<usize> = 12..=18;
const AS_GOOD: f64 = 95.0;
/// The paper's throughput with fast servers, in Mbit/s.
const FAST_MBITS: f64 = 8.4;
/// What performance has for each of breadth-first's pages at half time.
const LEAD: f64 = 1.5;
/// "Only slightly above", in points.
const SLIGHTLY: f64 = 10.0;
/// How far capacity may be behind quality, in points.
const BEHIND: f64 = 2.0;
/// Points in time at which two curves are compared.
const INSTANTS: u32 = 1_000;

/// A verdict on each claim that can be judged.
pub(super) fn judge(runs: &Runs, seeds: &[Shape]) -> Vec<Verdict> {
    let mut by_seed = seeds.iter().map(|&shape| findings(runs, shape));
    let Some(first) = by_seed.next() else { return Vec::new() };
    let others: Vec<Vec<Finding>> = by_seed.collect();
    let of_all = |finding: Finding| {
        let same = others.iter().flatten().filter(|other| other.claim == finding.claim);
        let all: Vec<&Finding> = [&finding].into_iter().chain(same).collect();
        verdict(&all)
    };
    first.into_iter().map(of_all).collect()
}

/// What came of a claim on one web.
struct Finding {
    claim: String,
    measured: String,
    /// What decides, and what it counts; without a unit it is a ratio.
    figure: f64,
    unit: &'static str,
    holds: bool,
}

/// Of the findings on one claim, that on the first web first.
fn verdict(findings: &[&Finding]) -> Verdict {
    let (first, seeds) = (findings[0], findings.len());
    let hold = findings.iter().filter(|finding| finding.holds).count();
    let mut figures: Vec<f64> = findings.iter().map(|finding| finding.figure).collect();
    figures.sort_unstable_by(f64::total_cmp);
    let decimals = match first.unit {
        "" => 2,
        "connections" => 0,
        _ => 1,
    };
    let [least, median, most] = [0, seeds / 2, seeds - 1].map(|at| format!("{:.decimals$}", figures[at]));
    let unit = if first.unit.is_empty() { String::new() } else { format!(" {}", first.unit) };
    let measured = match seeds {
        1 => first.measured.clone(),
        _ => format!("{}; on {hold} of {seeds} webs, median {median} ({least} to {most}){unit}", first.measured),
    };
    Verdict { claim: first.claim.clone(), measured, holds: 2 * hold > seeds }
}

fn findings(runs: &Runs, shape: Shape) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(keep_alive_twice_as_fast(runs, shape));
    findings.extend(knee_at_96_connections(runs, shape));
    findings.extend(knee_with_fast_servers(runs, shape));
    let Some([page_rank, zipf]) = Compared::both(runs, shape, breadth_first(CONNECTIONS)) else { return findings };
    findings.push(performance_leads(&page_rank));
    findings.extend([page_rank.quality, page_rank.capacity].map(good_pages_first));
    findings.push(capacity_early(&page_rank));
    findings.extend([(60.0, 1.0 / 3.0, "a third"), (80.0, 0.5, "half")].map(|point| capacity_of_zipf(&zipf, point)));
    findings.push(capacity_ahead(&zipf));
    findings.extend([zipf.quality, zipf.performance].map(|run| slightly_above(run, zipf.breadth_first)));
    findings.extend([&page_rank, &zipf].map(capacity_not_behind));
    findings
}

/// The policies on one web, for one kind of quality.
struct Compared<'a> {
    breadth_first: &'a Curves,
    performance: &'a Curves,
    quality: &'a Curves,
    capacity: &'a Curves,
    in_turn: &'a Curves,
}

impl<'a> Compared<'a> {
    fn get(runs: &'a Runs, shape: Shape, setup: Setup, model: Model) -> Option<Self> {
        let of = |policy| runs.get(shape, Setup { policy, ..setup }, model);
        Some(Compared {
            breadth_first: of(Policy::BreadthFirst)?,
            performance: of(Policy::Performance)?,
            quality: of(Policy::Quality)?,
            capacity: of(Policy::Capacity)?,
            in_turn: of(Policy::InTurn)?,
        })
    }

    /// For PageRank and for Zipf.
    fn both(runs: &'a Runs, shape: Shape, setup: Setup) -> Option<[Self; 2]> {
        let get = |model| Compared::get(runs, shape, setup, model);
        Some([get(Model::PageRank)?, get(Model::Zipf)?])
    }

    /// Performance's pages at half time for each of another run's.
    fn lead(&self, over: &Curves) -> f64 {
        self.performance.pages_at(0.5) / over.pages_at(0.5)
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
        let of = |run: &Curves| format!("{} {}", run.setup.policy, percent(run.quality_at(time)));
        [self.capacity, self.quality, self.performance, self.breadth_first].map(of).join(", ")
    }
}

/// Pages a second of breadth-first, for how many connections.
fn rate(runs: &Runs, shape: Shape, setup: Setup) -> Option<f64> {
    runs.get(shape, setup, Model::PageRank).map(Curves::throughput)
}

fn keep_alive_twice_as_fast(runs: &Runs, shape: Shape) -> Option<Finding> {
    let setup = breadth_first(CONNECTIONS);
    let with = rate(runs, shape, setup)?;
    let without = rate(runs, shape, Setup { keep_alive: false, ..setup })?;
    let ratio = with / without;
    Some(Finding {
        claim: format!(
            "E1: keep-alive has about 2 times the pages a second of one request per connection ({} to {})",
            ABOUT_TWICE.start(),
            ABOUT_TWICE.end()
        ),
        measured: format!("{with:.1} / {without:.1} = {ratio:.2}"),
        figure: ratio,
        unit: "",
        holds: ABOUT_TWICE.contains(&ratio),
    })
}

fn knee_at_96_connections(runs: &Runs, shape: Shape) -> Option<Finding> {
    let cpu = runs.page_cpu_us(shape)?;
    let growth = |from, to| {
        let [from, to] = [from, to].map(|connections| rate(runs, shape, with_cpu(connections, cpu)));
        Some(100.0 * (to? / from? - 1.0))
    };
    let (before, after) = (growth(64, 96)?, growth(96, 128)?);
    Some(Finding {
        claim: format!(
            "E2: throughput grows to 96 connections (from 64 by at least {GROWTH} %) and no further (to 128 by at most \
             {NO_GROWTH} %)"
        ),
        measured: format!("{before:+.1} % and {after:+.1} %, a page takes {} of CPU", ms(cpu)),
        figure: after,
        unit: "%",
        holds: before >= GROWTH && after <= NO_GROWTH,
    })
}

fn knee_with_fast_servers(runs: &Runs, shape: Shape) -> Option<Finding> {
    let (fast, cpu) = (shape.of_fast_servers(), runs.page_cpu_us(shape)?);
    let rates = FAST_SWEEP.into_iter().map(|connections| rate(runs, fast, with_cpu(connections, cpu)));
    let rates: Vec<f64> = rates.collect::<Option<_>>()?;
    let most = rates.iter().copied().fold(0.0, f64::max);
    let knee = rates.iter().position(|rate| 100.0 * rate >= AS_GOOD * most).map(|at| FAST_SWEEP[at])?;
    Some(Finding {
        claim: format!(
            "E2: {} fast servers need 14 to 16 connections ({} to {}) for {AS_GOOD} % of the most pages a second",
            fast.servers,
            FEW_ENOUGH.start(),
            FEW_ENOUGH.end()
        ),
        measured: format!(
            "{knee} for {AS_GOOD} % of {most:.1}, which are the paper's {FAST_MBITS} Mbit/s if a page has {:.1} kB; a \
             page takes {} of CPU",
            FAST_MBITS * 1e3 / 8.0 / most,
            ms(cpu)
        ),
        figure: knee as f64,
        unit: "connections",
        holds: FEW_ENOUGH.contains(&knee),
    })
}

fn ms(micros: u64) -> String {
    format!("{:.1} ms", micros as f64 / 1e3)
}

fn performance_leads(compared: &Compared<'_>) -> Finding {
    let lead = compared.lead(compared.breadth_first);
    Finding {
        claim: format!("E3: performance has {LEAD} times breadth-first's pages at half time"),
        measured: format!(
            "{} / {} = {lead:.2}; of servers in turn {} or {:.2}",
            percent(compared.performance.pages_at(0.5)),
            percent(compared.breadth_first.pages_at(0.5)),
            percent(compared.in_turn.pages_at(0.5)),
            compared.lead(compared.in_turn),
        ),
        figure: lead,
        unit: "",
        holds: lead >= LEAD,
    }
}

fn good_pages_first(run: &Curves) -> Finding {
    let quality = run.quality_after(0.5);
    Finding {
        claim: format!("E4: {} has 80 % of PageRank after half of the pages", run.setup.policy),
        measured: percent(quality),
        figure: 100.0 * quality,
        unit: "%",
        holds: quality >= 0.8,
    }
}

fn capacity_early(page_rank: &Compared<'_>) -> Finding {
    let quality = page_rank.capacity.quality_at(0.3);
    Finding {
        claim: "E4: capacity has 80 % of PageRank within 30 % of the time".to_owned(),
        measured: page_rank.at(0.3),
        figure: 100.0 * quality,
        unit: "%",
        holds: quality >= 0.8,
    }
}

fn capacity_of_zipf(zipf: &Compared<'_>, (least, time, word): (f64, f64, &str)) -> Finding {
    let quality = 100.0 * zipf.capacity.quality_at(time);
    Finding {
        claim: format!("E5: capacity has {least} % of Zipf quality at {word} of the time"),
        measured: zipf.at(time),
        figure: quality,
        unit: "%",
        holds: quality >= least,
    }
}

fn capacity_ahead(zipf: &Compared<'_>) -> Finding {
    let best_other = |time| {
        [zipf.breadth_first, zipf.performance, zipf.quality]
            .map(|run| run.quality_at(time))
            .into_iter()
            .fold(0.0, f64::max)
    };
    let ahead = [1.0 / 3.0, 0.5].map(|time| 100.0 * (zipf.capacity.quality_at(time) - best_other(time)));
    Finding {
        claim: "E5: capacity is ahead of all others in Zipf quality at a third and at half of the time".to_owned(),
        measured: format!("{:+.1} and {:+.1} points to the best of them", ahead[0], ahead[1]),
        figure: ahead[0].min(ahead[1]),
        unit: "points",
        holds: ahead.iter().all(|&points| points > 0.0),
    }
}

fn slightly_above(run: &Curves, breadth_first: &Curves) -> Finding {
    let above = [1.0 / 3.0, 0.5].map(|time| 100.0 * (run.quality_at(time) - breadth_first.quality_at(time)));
    Finding {
        claim: format!(
            "E5: {} is only slightly above breadth-first in Zipf quality (0 to {SLIGHTLY} points at a third and at \
             half of the time)",
            run.setup.policy
        ),
        measured: format!("{:+.1} and {:+.1} points", above[0], above[1]),
        figure: above[0].max(above[1]),
        unit: "points",
        holds: above.iter().all(|points| (0.0..=SLIGHTLY).contains(points)),
    }
}

fn capacity_not_behind(compared: &Compared<'_>) -> Finding {
    let (points, time) = compared.behind();
    Finding {
        claim: format!(
            "capacity is never behind quality by more than {BEHIND} points of {} quality",
            compared.capacity.model
        ),
        measured: format!("at most {points:.1} points, at {} of the time", percent(time)),
        figure: points,
        unit: "points",
        holds: points <= BEHIND,
    }
}

/// Pages a second of breadth-first by connections: with and without a CPU, and from fast servers.
pub(super) fn throughput(runs: &Runs, shape: Shape) -> Vec<String> {
    let cpu = runs.page_cpu_us(shape).unwrap_or_default();
    let line = |what: &str, shape: Shape, sweep: &[usize], cpu: u64| {
        let rates = sweep.iter().map(|&connections| {
            let rate = rate(runs, shape, with_cpu(connections, cpu))?;
            Some(format!("{connections}: {rate:.1}"))
        });
        let rates = rates.collect::<Option<Vec<_>>>()?.join(", ");
        Some(format!("{what}, {} of CPU per page; by connections {rates}", ms(cpu)))
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
        "{shape}, {setup}: E3 {:.2} times breadth-first's {}, {:.2} times the {} of servers in turn; E4 at 30 % {} \
         (breadth-first {}), after half of the pages {} (quality {}); E5 at a third {}, at half {}; behind quality by at \
         most {behind:.1} points",
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

/// What the crawler's default brings, and what capacity would that knows no more than how deep a page lies: a line for
/// each number of connections.
pub(super) fn defaults(runs: &Runs, shape: Shape) -> Vec<String> {
    let line = |connections: usize| {
        let of = |policy| {
            let run = runs.get(shape, Setup { policy, ..breadth_first(connections) }, Model::PageRank)?;
            let at = |time| {
                format!("{} of the pages, {} of PageRank", percent(run.pages_at(time)), percent(run.quality_at(time)))
            };
            Some(format!("{policy} {} and {}", at(0.25), at(0.5)))
        };
        let lines = [Policy::InTurn, Policy::CapacityByDepth, Policy::Capacity].map(of);
        let lines = lines.into_iter().collect::<Option<Vec<_>>>()?;
        Some(format!("{connections} connections; at 1/4 and 1/2 of the time {}", lines.join("; ")))
    };
    [CONNECTIONS, CONNECTIONS_FEW].into_iter().filter_map(line).collect()
}

/// What capacity loses of the global order when several schedulers share the servers: a line for each number.
pub(super) fn order_lost(runs: &Runs, shape: Shape) -> Vec<String> {
    let line = |connections: usize, schedulers: u16| {
        let capacity = Setup { policy: Policy::Capacity, schedulers, ..breadth_first(connections) };
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
    use super::super::crawl::Fetched;
    use super::super::tests::{BASE, curves, setup};
    use super::*;
    use shared::message::Quality;
    use shared::time::Timestamp;

    /// Four pages that are worth 4, 3, 2 and 1; breadth-first has one a second, the worst first.
    fn compared(capacity: [(u32, f32); 4], quality: [(u32, f32); 4], performance: [(u32, f32); 4]) -> Runs {
        let breadth_first = [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)];
        let mut runs = Runs::default();
        let points = [breadth_first, performance, quality, capacity, breadth_first];
        for (policy, points) in Policy::ALL.into_iter().zip(points) {
            for model in Model::ALL {
                runs.curves.push(curves(setup(policy, CONNECTIONS), model, &points, Some(4.0)));
            }
        }
        runs
    }

    fn line(runs: &Runs, start: &str) -> String {
        judge(runs, &[BASE]).iter().map(Verdict::to_string).find(|line| line[9..].starts_with(start)).unwrap()
    }

    #[test]
    fn claims_on_the_policies_are_judged_at_their_points() {
        let best_first = [(1, 4.0), (2, 3.0), (3, 2.0), (4, 1.0)];
        let runs = compared(best_first, best_first, [(1, 1.0), (1, 2.0), (2, 3.0), (3, 4.0)]);
        assert_eq!(judge(&runs, &[BASE]).len(), 11);
        for (start, verdict, measured) in [
            ("E3: performance", "holds", ": 75.0 % / 50.0 % = 1.50; of servers in turn 50.0 % or 1.50"),
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
        let mut runs = Runs::default();
        runs.curves.push(run(breadth_first(96), 1000));
        let with_cpu = |connections| with_cpu(connections, 1_000_000_000);
        for (connections, seconds) in [(64, 1200), (96, 1000), (128, 970)] {
            runs.curves.push(run(with_cpu(connections), seconds));
        }
        assert!(line(&runs, "E2").starts_with("holds"), "{}", line(&runs, "E2"));
        let one_by_one = Setup { keep_alive: false, ..breadth_first(64) };
        runs.curves.extend([run(breadth_first(64), 1000), run(one_by_one, 2000)]);
        assert!(line(&runs, "E1").starts_with("holds") && line(&runs, "E1").ends_with("= 2.00"));
        runs.curves[3] = run(with_cpu(128), 900);
        assert!(line(&runs, "E2").starts_with("FAILS"));
        runs.curves[5] = run(one_by_one, 1500);
        assert!(line(&runs, "E1").starts_with("FAILS"));
    }

    #[test]
    fn fast_servers_are_judged_by_the_fewest_connections_that_are_enough() {
        let rated = |enough: usize| {
            let mut runs = Runs::default();
            runs.curves.push(curves(breadth_first(96), Model::PageRank, &[(1, 1.0)], None));
            for connections in FAST_SWEEP {
                // A page in a thousandth of a second too long for 95 % of one a second, or in one.
                let micros = if connections < enough { 1_053_000 } else { 1_000_000 };
                let fetched = [Fetched { at: Timestamp::from_micros(micros), page: 0 }].into();
                let told = (BASE.of_fast_servers(), with_cpu(connections, 1_000_000), Model::PageRank);
                runs.curves.push(Curves::new(told, fetched, &[Quality::SEED], None));
            }
            line(&runs, "E2")
        };
        assert!(rated(14).starts_with("holds") && rated(14).contains(": 14 for 95 % of 1.0"), "{}", rated(14));
        assert!(rated(10).starts_with("FAILS") && rated(20).starts_with("FAILS"));
    }

    #[test]
    fn a_claim_holds_when_it_does_on_most_webs() {
        let finding = |figure| Finding {
            claim: "a".into(),
            measured: format!("{figure}"),
            figure,
            unit: "points",
            holds: figure > 2.0,
        };
        let of = |figures: &[f64]| {
            let findings: Vec<Finding> = figures.iter().map(|&figure| finding(figure)).collect();
            verdict(&findings.iter().collect::<Vec<_>>()).to_string()
        };
        assert_eq!(of(&[3.0]), "holds    a: 3");
        assert_eq!(of(&[1.0, 4.0, 3.0]), "holds    a: 1; on 2 of 3 webs, median 3.0 (1.0 to 4.0) points");
        assert_eq!(of(&[3.0, 1.0, 2.0]), "FAILS    a: 3; on 1 of 3 webs, median 2.0 (1.0 to 3.0) points");
    }
}

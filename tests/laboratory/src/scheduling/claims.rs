//! Claims: what the paper says, and what was measured.
//!
//! Each claim states its tolerance, and is judged on webs of several seeds: it holds when it holds
//! on most of them. The measurement shown is that of the first web. After it come the number of
//! webs on which the claim holds, and the median and range of the number that decides. Throughput
//! is that of the first 80 % of the pages. Time is in parts of breadth-first's completion. A claim
//! whose runs were not made is not judged.
//!
//! Source: Cao, Jiang and Singh 2003, section 5.

use super::compared::Compared;
use super::curves::Curves;
use super::runs::{CONNECTIONS, FAST_SWEEP, Runs, breadth_first, with_cpu};
use super::setup::Setup;
use super::web::Shape;
use crate::Claim;
use crate::text::{ms, percent};

/// The range of "about twice".
const ABOUT_TWICE: std::ops::RangeInclusive<f64> = 1.6..=2.4;
/// Growth of throughput when there are more connections, in per cent: at least the first before the
/// knee, at most the second after it.
const GROWTH: f64 = 10.0;
const NO_GROWTH: f64 = 5.0;
/// "14 to 16" connections to fast servers are as good as any number: the range of the one, and what
/// is "as good", in per cent.
const FEW_ENOUGH: std::ops::RangeInclusive<usize> = 12..=18;
const AS_GOOD: f64 = 95.0;
/// The paper's throughput with fast servers, in Mbit/s.
const FAST_MBITS: f64 = 8.4;
/// Pages that performance has at half time for each page of breadth-first.
pub(super) const LEAD: f64 = 1.5;
/// PageRank that good policies have after half of the pages, in per cent.
pub(super) const GOOD_FIRST: f64 = 80.0;
/// The limit of "only slightly above", in points.
pub(super) const SLIGHTLY: f64 = 10.0;
/// How far capacity may be behind quality, in points.
pub(super) const BEHIND: f64 = 2.0;

/// Judges each claim whose numbers were measured.
pub(super) fn judge(runs: &Runs, seeds: &[Shape]) -> Vec<Claim> {
    let mut by_seed = seeds.iter().map(|&shape| findings(runs, shape));
    let Some(first) = by_seed.next() else {
        return Vec::new();
    };
    let others: Vec<Vec<Finding>> = by_seed.collect();
    let of_all = |finding: Finding| {
        let same = others
            .iter()
            .flatten()
            .filter(|other| other.statement == finding.statement);
        let all: Vec<&Finding> = [&finding].into_iter().chain(same).collect();
        claim(&all)
    };
    first.into_iter().map(of_all).collect()
}

/// What came of a claim on one web.
pub(super) struct Finding {
    pub(super) statement: String,
    measured: String,
    /// The number that decides, and its unit; without a unit it is a ratio.
    pub(super) figure: f64,
    unit: &'static str,
    pub(super) holds: bool,
}

/// Sums up the findings on one claim. The first finding is that of the first web.
fn claim(findings: &[&Finding]) -> Claim {
    let first = findings[0];
    let seeds = findings.len();
    let hold = findings.iter().filter(|finding| finding.holds).count();
    let mut figures: Vec<f64> = findings.iter().map(|finding| finding.figure).collect();
    figures.sort_unstable_by(f64::total_cmp);
    let decimals = match first.unit {
        "" => 2,
        "connections" => 0,
        _ => 1,
    };
    let [least, median, most] =
        [0, seeds / 2, seeds - 1].map(|at| format!("{:.decimals$}", figures[at]));
    let unit = if first.unit.is_empty() {
        String::new()
    } else {
        format!(" {}", first.unit)
    };
    let measured = match seeds {
        1 => first.measured.clone(),
        _ => format!(
            "{}; on {hold} of {seeds} webs, median {median} ({least} to {most}){unit}",
            first.measured
        ),
    };
    Claim {
        statement: first.statement.clone(),
        measured,
        holds: 2 * hold > seeds,
    }
}

fn findings(runs: &Runs, shape: Shape) -> Vec<Finding> {
    let setup = breadth_first(CONNECTIONS);
    let mut findings = Vec::new();
    findings.extend(keep_alive_twice_as_fast(runs, shape, setup));
    findings.extend(knee_at_96_connections(runs, shape));
    findings.extend(knee_with_fast_servers(runs, shape));
    findings.extend(of_policies(runs, shape, setup));
    findings
}

/// What came of the claims on the policies, in that setup.
pub(super) fn of_policies(runs: &Runs, shape: Shape, setup: Setup) -> Vec<Finding> {
    let Some([page_rank, zipf]) = Compared::both(runs, shape, setup) else {
        return Vec::new();
    };
    let mut findings = vec![performance_leads(&page_rank)];
    findings.extend([page_rank.quality, page_rank.capacity].map(good_pages_first));
    findings.push(capacity_early(&page_rank));
    findings.extend(
        [(60.0, 1.0 / 3.0, "a third"), (80.0, 0.5, "half")]
            .map(|point| capacity_of_zipf(&zipf, point)),
    );
    findings.push(capacity_ahead(&zipf));
    findings.extend(
        [zipf.quality, zipf.performance].map(|run| slightly_above(run, zipf.breadth_first)),
    );
    findings.extend([&page_rank, &zipf].map(capacity_not_behind));
    findings
}

/// What came of the claim on keep-alive, in that setup.
pub(super) fn keep_alive_twice_as_fast(runs: &Runs, shape: Shape, setup: Setup) -> Option<Finding> {
    let with = runs.throughput(shape, setup)?;
    let without = runs.throughput(
        shape,
        Setup {
            keep_alive: false,
            ..setup
        },
    )?;
    let ratio = with / without;
    Some(Finding {
        statement: format!(
            "E1: keep-alive has about 2 times the pages a second of one request per connection ({} \
             to {})",
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
        let [from, to] =
            [from, to].map(|connections| runs.throughput(shape, with_cpu(connections, cpu)));
        Some(100.0 * (to? / from? - 1.0))
    };
    let before = growth(64, 96)?;
    let after = growth(96, 128)?;
    Some(Finding {
        statement: format!(
            "E2: throughput grows to 96 connections (from 64 by at least {GROWTH} %) and no \
             further (to 128 by at most {NO_GROWTH} %)"
        ),
        measured: format!(
            "{before:+.1} % and {after:+.1} %, a page takes {} of CPU",
            ms(cpu)
        ),
        figure: after,
        unit: "%",
        holds: before >= GROWTH && after <= NO_GROWTH,
    })
}

fn knee_with_fast_servers(runs: &Runs, shape: Shape) -> Option<Finding> {
    let fast = shape.of_fast_servers();
    let cpu = runs.page_cpu_us(shape)?;
    let rates = FAST_SWEEP
        .into_iter()
        .map(|connections| runs.throughput(fast, with_cpu(connections, cpu)));
    let rates: Vec<f64> = rates.collect::<Option<_>>()?;
    let most = rates.iter().copied().fold(0.0, f64::max);
    let knee = rates
        .iter()
        .position(|rate| 100.0 * rate >= AS_GOOD * most)
        .map(|at| FAST_SWEEP[at])?;
    Some(Finding {
        statement: format!(
            "E2: {} fast servers need 14 to 16 connections ({} to {}) for {AS_GOOD} % of the most \
             pages a second",
            fast.servers,
            FEW_ENOUGH.start(),
            FEW_ENOUGH.end()
        ),
        measured: format!(
            "{knee} for {AS_GOOD} % of {most:.1}, which are the paper's {FAST_MBITS} Mbit/s if a \
             page has {:.1} kB; a page takes {} of CPU",
            FAST_MBITS * 1e3 / 8.0 / most,
            ms(cpu)
        ),
        figure: knee as f64,
        unit: "connections",
        holds: FEW_ENOUGH.contains(&knee),
    })
}

fn performance_leads(compared: &Compared<'_>) -> Finding {
    let lead = compared.lead(compared.breadth_first);
    Finding {
        statement: format!("E3: performance has {LEAD} times breadth-first's pages at half time"),
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
    let quality = 100.0 * run.quality_after(0.5);
    Finding {
        statement: format!(
            "E4: {} has {GOOD_FIRST} % of PageRank after half of the pages",
            run.setup.policy
        ),
        measured: percent(quality / 100.0),
        figure: quality,
        unit: "%",
        holds: quality >= GOOD_FIRST,
    }
}

fn capacity_early(page_rank: &Compared<'_>) -> Finding {
    let quality = page_rank.capacity.quality_at(0.3);
    Finding {
        statement: "E4: capacity has 80 % of PageRank within 30 % of the time".to_owned(),
        measured: page_rank.at(0.3),
        figure: 100.0 * quality,
        unit: "%",
        holds: quality >= 0.8,
    }
}

fn capacity_of_zipf(zipf: &Compared<'_>, (least, time, word): (f64, f64, &str)) -> Finding {
    let quality = 100.0 * zipf.capacity.quality_at(time);
    Finding {
        statement: format!("E5: capacity has {least} % of Zipf quality at {word} of the time"),
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
    let ahead =
        [1.0 / 3.0, 0.5].map(|time| 100.0 * (zipf.capacity.quality_at(time) - best_other(time)));
    Finding {
        statement:
            "E5: capacity is ahead of all others in Zipf quality at a third and at half of the time"
                .to_owned(),
        measured: format!(
            "{:+.1} and {:+.1} points to the best of them",
            ahead[0], ahead[1]
        ),
        figure: ahead[0].min(ahead[1]),
        unit: "points",
        holds: ahead.iter().all(|&points| points > 0.0),
    }
}

fn slightly_above(run: &Curves, breadth_first: &Curves) -> Finding {
    let above = [1.0 / 3.0, 0.5]
        .map(|time| 100.0 * (run.quality_at(time) - breadth_first.quality_at(time)));
    Finding {
        statement: format!(
            "E5: {} is only slightly above breadth-first in Zipf quality (0 to {SLIGHTLY} points \
             at a third and at half of the time)",
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
        statement: format!(
            "capacity is never behind quality by more than {BEHIND} points of {} quality",
            compared.capacity.model
        ),
        measured: format!(
            "at most {points:.1} points, at {} of the time",
            percent(time)
        ),
        figure: points,
        unit: "points",
        holds: points <= BEHIND,
    }
}

#[cfg(test)]
mod tests {
    use super::super::crawl::Fetched;
    use super::super::policy::Policy;
    use super::super::quality::Model;
    use super::super::tests::{BASE, curves, setup};
    use super::*;
    use rhumb_url::time::Timestamp;
    use rhumb_wire::message::Quality;

    /// Four pages that are worth 4, 3, 2 and 1; breadth-first has one a second, the worst first.
    fn compared(
        capacity: [(u32, f32); 4],
        quality: [(u32, f32); 4],
        performance: [(u32, f32); 4],
    ) -> Runs {
        let breadth_first = [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)];
        let mut runs = Runs::default();
        let points = [breadth_first, performance, quality, capacity, breadth_first];
        for (policy, points) in Policy::ALL.into_iter().zip(points) {
            for model in Model::ALL {
                runs.curves.push(curves(
                    setup(policy, CONNECTIONS),
                    model,
                    &points,
                    Some(4.0),
                ));
            }
        }
        runs
    }

    fn line(runs: &Runs, start: &str) -> String {
        judge(runs, &[BASE])
            .iter()
            .map(Claim::to_string)
            .find(|line| line[9..].starts_with(start))
            .unwrap()
    }

    #[test]
    fn claims_on_the_policies_are_judged_at_their_points() {
        let best_first = [(1, 4.0), (2, 3.0), (3, 2.0), (4, 1.0)];
        let runs = compared(
            best_first,
            best_first,
            [(1, 1.0), (1, 2.0), (2, 3.0), (3, 4.0)],
        );
        assert_eq!(judge(&runs, &[BASE]).len(), 11);
        for (start, word, measured) in [
            (
                "E3: performance",
                "holds",
                ": 75.0 % / 50.0 % = 1.50; of servers in turn 50.0 % or 1.50",
            ),
            ("E4: quality", "FAILS", ": 70.0 %"),
            (
                "E4: capacity has 80 % of PageRank after",
                "FAILS",
                ": 70.0 %",
            ),
            (
                "E4: capacity has 80 % of PageRank within",
                "FAILS",
                ": capacity 40.0 %, quality 40.0 %, performance 30.0 %, breadth-first 10.0 %",
            ),
            (
                "E5: capacity has 60 % of Zipf quality at a third",
                "FAILS",
                "breadth-first 10.0 %",
            ),
            (
                "E5: capacity is ahead",
                "FAILS",
                ": +0.0 and +0.0 points to the best of them",
            ),
            ("E5: quality is only", "FAILS", ": +30.0 and +40.0 points"),
            (
                "E5: performance is only",
                "FAILS",
                ": +20.0 and +30.0 points",
            ),
            (
                "capacity is never behind",
                "holds",
                ": at most 0.0 points, at 0.0 % of the time",
            ),
        ] {
            let line = line(&runs, start);
            assert!(line.starts_with(word) && line.ends_with(measured), "{line}");
        }
        // The best pages come at once.
        let runs = compared(
            [(1, 4.0), (1, 3.0), (1, 2.0), (4, 1.0)],
            [(1, 4.0), (1, 3.0), (2, 2.0), (4, 1.0)],
            best_first,
        );
        for start in [
            "E4: capacity has 80 % of PageRank within",
            "E5: capacity has 60 %",
            "E5: capacity has 80 %",
        ] {
            assert!(line(&runs, start).starts_with("holds"));
        }
        assert!(line(&runs, "E3").starts_with("FAILS"));
    }

    #[test]
    fn where_capacity_is_behind_quality_is_told() {
        let runs = compared(
            [(1, 1.0), (2, 4.0), (3, 3.0), (4, 2.0)],
            [(1, 4.0), (2, 1.0), (3, 3.0), (4, 2.0)],
            [(1, 1.0); 4],
        );
        assert_eq!(
            line(&runs, "capacity is never"),
            "FAILS    capacity is never behind quality by more than 2 points of PageRank quality: \
             at most 30.0 points, at 25.0 % of the time"
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
        assert!(
            line(&runs, "E2").starts_with("holds"),
            "{}",
            line(&runs, "E2")
        );
        let one_by_one = Setup {
            keep_alive: false,
            ..breadth_first(64)
        };
        runs.curves
            .extend([run(breadth_first(64), 1000), run(one_by_one, 2000)]);
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
            runs.curves.push(curves(
                breadth_first(96),
                Model::PageRank,
                &[(1, 1.0)],
                None,
            ));
            for connections in FAST_SWEEP {
                // A page in a thousandth of a second too long for 95 % of one a second, or in one.
                let micros = if connections < enough {
                    1_053_000
                } else {
                    1_000_000
                };
                let fetched = [Fetched {
                    at: Timestamp::from_micros(micros),
                    page: 0,
                }]
                .into();
                let told = (
                    BASE.of_fast_servers(),
                    with_cpu(connections, 1_000_000),
                    Model::PageRank,
                );
                runs.curves
                    .push(Curves::new(told, fetched, &[Quality::SEED], None));
            }
            line(&runs, "E2")
        };
        assert!(
            rated(14).starts_with("holds") && rated(14).contains(": 14 for 95 % of 1.0"),
            "{}",
            rated(14)
        );
        assert!(rated(10).starts_with("FAILS") && rated(20).starts_with("FAILS"));
    }

    #[test]
    fn a_claim_holds_when_it_does_on_most_webs() {
        let finding = |figure| Finding {
            statement: "a".into(),
            measured: format!("{figure}"),
            figure,
            unit: "points",
            holds: figure > 2.0,
        };
        let of = |figures: &[f64]| {
            let findings: Vec<Finding> = figures.iter().map(|&figure| finding(figure)).collect();
            claim(&findings.iter().collect::<Vec<_>>()).to_string()
        };
        assert_eq!(of(&[3.0]), "holds    a: 3");
        assert_eq!(
            of(&[1.0, 4.0, 3.0]),
            "holds    a: 1; on 2 of 3 webs, median 3.0 (1.0 to 4.0) points"
        );
        assert_eq!(
            of(&[3.0, 1.0, 2.0]),
            "FAILS    a: 3; on 1 of 3 webs, median 2.0 (1.0 to 3.0) points"
        );
    }
}

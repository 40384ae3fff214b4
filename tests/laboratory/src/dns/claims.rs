//! Claims: what the papers say, and what was measured.
//!
//! Each claim states its tolerance. Factors between rows differ from the paper's, because its
//! processor, disk and network are not ours. So a comparison holds when it has the right sign, by
//! [`ROW_FACTOR`] at least, and both factors are shown. A claim whose numbers were not measured is
//! not judged.
//!
//! Sources: the cached, non-blocking resolver for crawlers (2008), its results; Yin, Yin and Huang
//! 2008, their table.

use super::Findings;
use super::arm::{Arm, Way};
use super::chained_cache::NODES;
use super::hit_rates::{HitRates, Policy};
use super::lookups::{Kind, Lookup};
use super::row::{Row, Sockets};
use super::rows::Measured;
use crate::Claim;

/// Factors that the paper reports: of its cache, of a small window, and of both.
const CACHE_FACTORS: (f64, f64) = (2.0, 3.0);
const FEW_FACTOR: f64 = 1.5;
const BOTH_FACTOR: f64 = 3.0;
/// Factor that a full window with a cache brings.
const FULL_FACTOR: f64 = 1_000.0;
/// Share of the bound that it reaches.
const BOUND_SHARE: f64 = 0.8;
/// Hits of LRU at 50,000 names, in per cent, and what transposition loses there, in points.
const LRU_PERCENT: (f64, f64) = (55.0, 80.0);
const TRANSPOSITION_POINTS: (f64, f64) = (2.6, 3.8);
/// How far CLOCK may lie from LRU, in points.
const CLOCK_POINTS: f64 = 1.0;
/// Candidates that the two tables compare at 50,000 names.
const SKIP_CHECK_CANDIDATES: f64 = 1_000.0;
const CHAINED_CANDIDATES: (f64, f64) = (1.8, 2.5);
/// Lookups a second of the crawler's cache, and its memory for a name.
const LOOKUPS_PER_S: f64 = 3e6;
const BYTES_PER_NAME: f64 = 200.0;
/// One row is faster than another when it has this many times its pages.
const ROW_FACTOR: f64 = 1.05;
/// Rows that differ by less in the paper may change places.
const ORDER_FACTOR: f64 = 1.5;

/// Judges each claim whose numbers were measured.
pub(super) fn judge(findings: &Findings) -> Vec<Claim> {
    let Findings {
        arms,
        hit_rates,
        lookups,
        rows,
    } = findings;
    let mut claims = factors(arms);
    claims.extend(bound(arms));
    claims.extend(lru_hits(hit_rates));
    claims.extend(transposition(hit_rates));
    claims.extend(clock(hit_rates));
    claims.extend(tables(lookups));
    claims.extend(comparisons(rows));
    claims.extend(order(rows));
    claims
}

/// Arms against serial lookups.
fn factors(arms: &[Arm]) -> Vec<Claim> {
    let Some(serial) = arms.iter().find(|arm| arm.way == Way::Serial) else {
        return Vec::new();
    };
    let factor = |way| {
        let arm = arms.iter().find(|arm| arm.way == way)?;
        Some((arm.rate() / serial.rate(), arm))
    };
    let (least, most) = CACHE_FACTORS;
    let mut claims = Vec::new();
    for (way, how) in [
        (Way::SerialCached, "refreshed after 1,800 s as there"),
        (Way::SerialCachedUnrefreshed, "its names staying good"),
    ] {
        claims.extend(factor(way).map(|(factor, arm)| Claim {
            statement: format!(
                "the paper's cache alone, {how}, is {least} to {most} times as fast as serial \
                 lookups"
            ),
            measured: format!("{factor:.2} times, {:.1} % hits", 100.0 * arm.hit_rate()),
            holds: (least..=most).contains(&factor),
        }));
    }
    for (way, what, least) in [
        (Way::Few, "a window of 2 alone", FEW_FACTOR),
        (
            Way::FewCached,
            "a window of 2 with the paper's cache",
            BOTH_FACTOR,
        ),
        (
            Way::WindowCached,
            "the crawler's resolver, window 1,024 and 50,000 names,",
            FULL_FACTOR,
        ),
    ] {
        claims.extend(factor(way).map(|(factor, arm)| Claim {
            statement: format!("{what} is at least {least} times as fast as serial lookups"),
            measured: format!(
                "{factor:.2} times: {:.1} to {:.2} names/s",
                arm.rate(),
                serial.rate()
            ),
            holds: factor >= least,
        }));
    }
    claims
}

fn bound(arms: &[Arm]) -> Option<Claim> {
    let arm = arms.iter().find(|arm| arm.way == Way::WindowCached)?;
    let share = arm.rate() / arm.bound();
    let before_tail = arm.rate_before_tail().unwrap_or_default();
    Some(Claim {
        statement: format!(
            "the crawler's resolver reaches at least {:.0} % of window / latency x names per \
             lookup, its last slow lookups included",
            100.0 * BOUND_SHARE
        ),
        measured: format!(
            "{:.1} %: {:.0} of {:.0} names/s, {before_tail:.0} without the last ones",
            100.0 * share,
            arm.rate(),
            arm.bound()
        ),
        holds: share >= BOUND_SHARE,
    })
}

fn lru_hits(rates: &HitRates) -> Option<Claim> {
    let percent = rates.percent(Policy::Lru, NODES)?;
    let (least, most) = LRU_PERCENT;
    Some(Claim {
        statement: format!("LRU of 50,000 names knows {least} to {most} % of the trace"),
        measured: format!("{percent:.1} %"),
        holds: (least..=most).contains(&percent),
    })
}

fn transposition(rates: &HitRates) -> Option<Claim> {
    let lru = rates.percent(Policy::Lru, NODES)?;
    let paper = rates.percent(Policy::Transposition, NODES)?;
    let (least, most) = TRANSPOSITION_POINTS;
    // As exact as the claim.
    let points = (10.0 * (lru - paper)).round() / 10.0;
    Some(Claim {
        statement: format!(
            "at 50,000 names transposition costs {least} to {most} points of LRU's hits"
        ),
        measured: format!("{points:.1} points: {paper:.2} % to {lru:.2} %"),
        holds: (least..=most).contains(&points),
    })
}

fn clock(rates: &HitRates) -> Option<Claim> {
    let differences = rates.of(Policy::Lru).filter_map(|lru| {
        let clock = rates.percent(Policy::Clock, lru.entries)?;
        let lru_percent = 100.0 * rates.rate(lru);
        Some((clock - lru_percent, lru.entries))
    });
    let (points, entries) =
        differences.max_by(|(one, _), (other, _)| one.abs().total_cmp(&other.abs()))?;
    Some(Claim {
        statement: format!(
            "the crawler's CLOCK is within {CLOCK_POINTS} point of LRU at every size"
        ),
        measured: format!("largest difference {points:+.2} points, at {entries} names"),
        holds: points.abs() <= CLOCK_POINTS,
    })
}

/// The tables at 50,000 names.
fn tables(lookups: &[Lookup]) -> Vec<Claim> {
    let of = |kind| {
        lookups
            .iter()
            .find(|lookup| lookup.kind == kind && lookup.names == NODES)
    };
    let mut claims = Vec::new();
    if let Some(candidates) = of(Kind::SkipCheck).and_then(|lookup| lookup.candidates) {
        claims.push(Claim {
            statement: format!(
                "among 50,000 names skip-check compares more than {SKIP_CHECK_CANDIDATES} \
                 candidates"
            ),
            measured: format!("{candidates:.0} in the mean"),
            holds: candidates > SKIP_CHECK_CANDIDATES,
        });
    }
    if let Some(candidates) = of(Kind::Chained).and_then(|lookup| lookup.candidates) {
        let (least, most) = CHAINED_CANDIDATES;
        claims.push(Claim {
            statement: format!(
                "among 50,000 names the times-33 chains compare about 2 candidates ({least} to \
                 {most})"
            ),
            measured: format!("{candidates:.2} in the mean"),
            holds: (least..=most).contains(&candidates),
        });
    }
    if let Some(lookup) = of(Kind::NameCache) {
        claims.push(Claim {
            statement: format!(
                "the crawler's cache of 50,000 names answers at least {} million lookups a second \
                 of CPU time",
                LOOKUPS_PER_S / 1e6
            ),
            measured: format!(
                "{:.2} million, {:.0} ns each",
                lookup.rate() / 1e6,
                lookup.nanoseconds
            ),
            holds: lookup.rate() >= LOOKUPS_PER_S,
        });
        claims.push(Claim {
            statement: format!("it takes at most {BYTES_PER_NAME} bytes for a name"),
            measured: format!("{:.0} bytes", lookup.bytes_per_name),
            holds: lookup.bytes_per_name <= BYTES_PER_NAME,
        });
    }
    claims
}

/// The paper's comparisons by one factor, the faster row first.
fn comparisons(rows: &[Measured]) -> Vec<Claim> {
    let best = Row::ALL[0].0;
    let blocking = Row {
        sockets: Sockets::Blocking,
        caches_names: false,
        ..best
    };
    let uncached = Row {
        caches_names: false,
        ..best
    };
    [
        (
            "private queues beat a shared one, non-blocking",
            (
                best,
                Row {
                    has_private_queues: false,
                    ..best
                },
            ),
        ),
        (
            "private queues beat a shared one, blocking",
            (
                blocking,
                Row {
                    has_private_queues: false,
                    ..blocking
                },
            ),
        ),
        ("a name cache beats none", (best, uncached)),
        (
            "30 workers beat 20",
            (
                best,
                Row {
                    workers: 20,
                    ..best
                },
            ),
        ),
        (
            "event beats select",
            (
                best,
                Row {
                    sockets: Sockets::Select,
                    ..best
                },
            ),
        ),
        (
            "non-blocking sockets beat blocking ones, without a name cache",
            (uncached, blocking),
        ),
    ]
    .into_iter()
    .filter_map(|(claim, (faster, slower))| {
        let of = |row| rows.iter().find(|measured| measured.row == row);
        let faster = of(faster)?;
        let slower = of(slower)?;
        let factor = faster.pages_per_s / slower.pages_per_s.max(1e-3);
        Some(Claim {
            statement: format!("{claim} (by a factor of {ROW_FACTOR} at least)"),
            measured: format!(
                "{factor:.2} times ({:.1} to {:.1} pages/s), in the paper {:.1} times",
                faster.pages_per_s,
                slower.pages_per_s,
                faster.paper_pages_per_s / slower.paper_pages_per_s
            ),
            holds: factor >= ROW_FACTOR,
        })
    })
    .collect()
}

/// All pairs of rows that are far apart in the paper.
fn order(rows: &[Measured]) -> Option<Claim> {
    let mut pairs = 0;
    let mut reversed = Vec::new();
    for faster in rows {
        for slower in rows
            .iter()
            .filter(|row| faster.paper_pages_per_s >= ORDER_FACTOR * row.paper_pages_per_s)
        {
            pairs += 1;
            if faster.pages_per_s <= slower.pages_per_s {
                reversed.push(format!(
                    "{} behind {}",
                    faster.row.name(),
                    slower.row.name()
                ));
            }
        }
    }
    let list = if reversed.is_empty() {
        "none".to_owned()
    } else {
        reversed.join("; ")
    };
    (pairs > 0).then(|| Claim {
        statement: format!(
            "no two rows that differ by a factor of {ORDER_FACTOR} or more in the paper change \
             places"
        ),
        measured: format!("{} of {pairs} pairs: {list}", reversed.len()),
        holds: reversed.is_empty(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::arm::tests::arm;
    use super::super::hit_rates::Point;
    use super::*;

    fn holds(claims: &[Claim]) -> Vec<bool> {
        claims.iter().map(|claim| claim.holds).collect()
    }

    #[test]
    fn arms_are_judged_against_serial_lookups() {
        let with = |cached, few, both, full| {
            [
                (Way::Serial, 3),
                (Way::SerialCached, cached),
                (Way::Few, few),
                (Way::FewCached, both),
                (Way::WindowCached, full),
            ]
            .map(|(way, rate)| arm(way, rate))
        };
        assert_eq!(holds(&factors(&with(6, 5, 9, 3_000))), [true; 4]);
        assert_eq!(holds(&factors(&with(9, 6, 12, 9_000))), [true; 4]);
        assert_eq!(holds(&factors(&with(5, 4, 8, 2_999))), [false; 4]);
        assert_eq!(
            holds(&factors(&with(10, 5, 9, 3_000))),
            [false, true, true, true],
            "too much is not right either"
        );
        assert!(
            factors(&with(6, 5, 9, 3_000)[1..]).is_empty(),
            "nothing to compare with"
        );
    }

    #[test]
    fn the_bound_is_that_of_the_whole_run() {
        let mut full = arm(Way::WindowCached, 10);
        // Bound: 10,000 names in 400 s / 2.
        assert!(!bound(std::slice::from_ref(&full)).unwrap().holds);
        full.elapsed = std::time::Duration::from_secs(250);
        let claim = bound(&[full]).unwrap();
        assert!(
            claim.holds
                && claim
                    .measured
                    .starts_with("80.0 %: 40 of 50 names/s, 18 without"),
            "{claim}"
        );
    }

    #[test]
    fn caches_are_judged_in_points() {
        let rates = |lru, clock, paper| {
            let points = [
                (Policy::Lru, lru),
                (Policy::Clock, clock),
                (Policy::Transposition, paper),
            ];
            let points = points
                .map(|(policy, hits)| Point {
                    policy,
                    entries: NODES,
                    hits,
                })
                .to_vec();
            HitRates {
                names: 1_000,
                points,
            }
        };
        let judged = |rates: &HitRates| {
            [lru_hits(rates), transposition(rates), clock(rates)].map(|v| v.unwrap().holds)
        };
        assert_eq!(judged(&rates(600, 610, 574)), [true, true, true]);
        assert_eq!(judged(&rates(600, 589, 561)), [true, false, false]);
        assert_eq!(judged(&rates(540, 540, 515)), [false, false, true]);
        assert!(
            lru_hits(&HitRates {
                names: 1,
                points: Vec::new()
            })
            .is_none()
        );
    }

    #[test]
    fn rows_are_compared_as_in_the_paper() {
        let rows = |rates: [f64; 7]| -> Vec<Measured> {
            let measured = |((row, paper_pages_per_s), pages_per_s): ((Row, f64), f64)| Measured {
                row,
                paper_pages_per_s,
                pages_per_s,
                kilobytes_per_s: 1.0,
                spread: (pages_per_s, pages_per_s),
                lookups: 1,
            };
            Row::ALL.into_iter().zip(rates).map(measured).collect()
        };
        let paper = rows(Row::ALL.map(|(_, paper)| paper));
        assert_eq!(holds(&comparisons(&paper)), [true; 6]);
        assert!(order(&paper).unwrap().holds);
        assert!(
            comparisons(&paper)[0]
                .measured
                .ends_with("in the paper 5.2 times")
        );
        // The two last but one are near one another in the paper, the last is not.
        let close = rows([26.0, 7.0, 13.0, 16.0, 14.0, 6.0, 3.0]);
        assert!(order(&close).unwrap().holds);
        let reversed = rows([26.0, 5.0, 13.0, 16.0, 14.0, 6.0, 6.1]);
        assert_eq!(
            holds(&comparisons(&reversed)),
            [true, false, true, true, true, true]
        );
        let claim = order(&reversed).unwrap();
        assert!(
            !claim.holds && claim.measured.starts_with("2 of 17 pairs"),
            "{claim}"
        );
    }
}

//! Claims: what the paper says, and what was measured.
//!
//! Each claim states its tolerance. "About 80 %" means within five points, and "near 50,000
//! entries" is judged at that size and at the next power of two. A knee "where hosts x links says"
//! means within a factor of four, because only the steepest doubling of a curve shows where its
//! knee is. A claim whose numbers were not measured is not judged.
//!
//! Source: Broder, Najork and Wiener 2003, section 5.

use super::curves::{Curves, Knee, Policy};
use super::stream::StreamName;
use crate::Claim;
use crate::text::grouped;

/// The size that the paper's abstract names.
pub(super) const ENTRIES_RECOMMENDED: usize = 50_000;
/// The power of two that is near it.
const ENTRIES_NEAR: usize = 1 << 16;
/// Worker threads of the paper's crawler.
const HOSTS_OF_THE_PAPER: usize = 500;
/// Hits of all links near that size, in per cent, and how far off "about" may be.
const HITS: (f64, f64) = (80.0, 5.0);
/// The factor by which the knee may lie away from where it should.
const KNEE_FACTOR: f64 = 4.0;
/// How far CLOCK may lie from LRU, in points.
const CLOCK_POINTS: f64 = 1.0;

/// Judges each claim whose numbers were measured.
pub(super) fn judge(measured: &[Curves]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for entries in [ENTRIES_RECOMMENDED, ENTRIES_NEAR] {
        claims.extend(
            measured
                .iter()
                .filter_map(|curves| hits_of_about_80_percent(curves, entries)),
        );
    }
    claims.extend(measured.iter().filter_map(knee_where_hosts_and_links_say));
    claims.extend(clock_like_lru(measured, "at every size", |_, _| true));
    let far =
        format!("at sizes more than a factor of {KNEE_FACTOR} from the steepest doubling of LRU");
    claims.extend(clock_like_lru(measured, &far, |knee, entries| {
        knee.is_none_or(|knee| !within_factor(entries as f64, knee.middle()))
    }));
    claims.extend(none_above_min(measured));
    claims.extend(min_not_above_infinite(measured));
    claims
}

fn hits_of_about_80_percent(curves: &Curves, entries: usize) -> Option<Claim> {
    if curves.stream != StreamName::Full || curves.hosts_in_flight != Some(HOSTS_OF_THE_PAPER) {
        return None;
    }
    let percent = 100.0 * curves.rate(curves.hits(Policy::Clock, entries)?);
    let (about, off) = HITS;
    let entries = grouped(entries as u64);
    Some(Claim {
        statement: format!(
            "with {HOSTS_OF_THE_PAPER} hosts in flight, {entries} entries of CLOCK catch about \
             {about} % of all links (within {off} points)"
        ),
        measured: format!("{percent:.1} %"),
        holds: (percent - about).abs() <= off,
    })
}

fn knee_where_hosts_and_links_say(curves: &Curves) -> Option<Claim> {
    let hosts = curves
        .hosts_in_flight
        .filter(|_| curves.stream == StreamName::Full)?;
    let links_per_page = curves.links_per_page?;
    let expected = hosts as f64 * links_per_page;
    let knee = curves.knee(Policy::Clock)?;
    Some(Claim {
        statement: format!(
            "with {hosts} hosts in flight, the steepest doubling of CLOCK lies within a factor of \
             {KNEE_FACTOR} of hosts x links per page"
        ),
        measured: format!(
            "from {} to {} entries (+{:.1} points); {hosts} x {links_per_page:.1} = {}",
            grouped(knee.entries as u64),
            grouped(knee.entries as u64 * 2),
            100.0 * knee.gain,
            grouped(expected.round() as u64),
        ),
        holds: within_factor(knee.middle(), expected),
    })
}

/// CLOCK against LRU, at the sizes of a stream that lie on the wanted side of its knee.
fn clock_like_lru(
    measured: &[Curves],
    at: &str,
    judged: impl Fn(Option<Knee>, usize) -> bool,
) -> Option<Claim> {
    let mut worst: Option<(f64, String)> = None;
    for curves in measured {
        let knee = curves.knee(Policy::Lru);
        for lru in curves
            .of(Policy::Lru)
            .filter(|lru| judged(knee, lru.entries))
        {
            let Some(clock) = curves.hits(Policy::Clock, lru.entries) else {
                continue;
            };
            let [clock, lru_percent] = [clock, lru.hits].map(|hits| 100.0 * curves.rate(hits));
            let points = (clock - lru_percent).abs();
            if worst.as_ref().is_none_or(|(most, _)| points > *most) {
                let place = place(curves, lru.entries);
                worst = Some((
                    points,
                    format!("(CLOCK {clock:.2} %, LRU {lru_percent:.2} %) at {place}"),
                ));
            }
        }
    }
    let (points, place) = worst?;
    Some(Claim {
        statement: format!("CLOCK is within {CLOCK_POINTS} point of LRU {at}"),
        measured: format!("largest difference {points:.2} points {place}"),
        holds: points <= CLOCK_POINTS,
    })
}

fn none_above_min(measured: &[Curves]) -> Option<Claim> {
    let mut closest: Option<(f64, bool, String)> = None;
    for curves in measured {
        for point in curves
            .points
            .iter()
            .filter(|point| point.policy != Policy::Min)
        {
            let Some(min) = curves.hits(Policy::Min, point.entries) else {
                continue;
            };
            let below = 100.0 * (curves.rate(min) - curves.rate(point.hits));
            if closest.as_ref().is_none_or(|(least, ..)| below < *least) {
                let place = format!("{} at {}", point.policy, place(curves, point.entries));
                closest = Some((below, point.hits <= min, place));
            }
        }
    }
    let (below, holds, place) = closest?;
    Some(Claim {
        statement: "no policy is above MIN at any size".to_owned(),
        measured: format!("closest is {place}, {below:.2} points below"),
        holds,
    })
}

fn min_not_above_infinite(measured: &[Curves]) -> Option<Claim> {
    let mut closest: Option<(f64, bool, String)> = None;
    for curves in measured {
        for min in curves.of(Policy::Min) {
            let below = 100.0 * (curves.rate(curves.infinite) - curves.rate(min.hits));
            if closest.as_ref().is_none_or(|(least, ..)| below < *least) {
                closest = Some((
                    below,
                    min.hits <= curves.infinite,
                    place(curves, min.entries),
                ));
            }
        }
    }
    let (below, holds, place) = closest?;
    Some(Claim {
        statement: "MIN is not above INFINITE at any size".to_owned(),
        measured: format!("closest at {place}, {below:.2} points below"),
        holds,
    })
}

fn within_factor(one: f64, other: f64) -> bool {
    (one / other).max(other / one) <= KNEE_FACTOR
}

fn place(curves: &Curves, entries: usize) -> String {
    format!("{} entries ({})", grouped(entries as u64), curves.title())
}

#[cfg(test)]
mod tests {
    use super::super::curves::Point;
    use super::*;

    /// The full stream of 500 hosts with 60 links a page, 1,000 links counted.
    fn curves(points: &[(Policy, usize, u64)]) -> Curves {
        let point = |&(policy, entries, hits): &_| Point {
            policy,
            entries,
            hits,
        };
        Curves {
            stream: StreamName::Full,
            hosts_in_flight: Some(500),
            links_per_page: Some(60.0),
            links: 1_000,
            infinite: 900,
            points: points.iter().map(point).collect(),
        }
    }

    fn lines(curves: Curves) -> Vec<String> {
        judge(&[curves]).iter().map(Claim::to_string).collect()
    }

    #[test]
    fn about_80_percent_is_75_to_85() {
        for (hits, holds) in [(749, false), (750, true), (850, true), (851, false)] {
            for entries in [50_000, 65_536] {
                let claims = judge(&[curves(&[(Policy::Clock, entries, hits)])]);
                assert_eq!(claims.len(), 1);
                assert_eq!(claims[0].holds, holds, "{}", claims[0]);
            }
        }
    }

    #[test]
    fn the_knee_is_where_doubling_gains_most() {
        // 500 x 60 is 30,000: the middle of 4,096 to 8,192 is too low, that of 60,000 to 120,000 is
        // not too high.
        let steep = |entries| {
            curves(&[
                (Policy::Clock, entries, 100),
                (Policy::Clock, 2 * entries, 600),
            ])
        };
        assert_eq!(
            lines(steep(4_096)),
            [
                "FAILS    with 500 hosts in flight, the steepest doubling of CLOCK lies within a \
                 factor of 4 of hosts x links per page: from 4,096 to 8,192 entries (+50.0 \
                 points); 500 x 60.0 = 30,000"
            ]
        );
        assert!(lines(steep(60_000))[0].starts_with("holds    "));
    }

    #[test]
    fn clock_is_judged_everywhere_and_once_more_away_from_the_knee() {
        let mut points = Vec::new();
        for (entries, lru) in [
            (256, 50),
            (512, 60),
            (1_024, 70),
            (2_048, 500),
            (4_096, 510),
            (8_192, 520),
        ] {
            points.push((Policy::Lru, entries, lru));
            points.push((
                Policy::Clock,
                entries,
                lru + if entries == 2_048 { 20 } else { 5 },
            ));
        }
        let lines = lines(curves(&points));
        assert_eq!(
            lines[1],
            "FAILS    CLOCK is within 1 point of LRU at every size: largest difference 2.00 points \
             (CLOCK 52.00 %, LRU 50.00 %) at 2,048 entries (500 hosts in flight, full stream)"
        );
        assert!(lines[2].starts_with(
            "holds    CLOCK is within 1 point of LRU at sizes more than a factor of 4 from"
        ));
        assert!(
            lines[2].contains("largest difference 0.50 points"),
            "{}",
            lines[2]
        );
    }

    #[test]
    fn a_policy_above_min_or_min_above_infinite_is_told() {
        let lines = lines(curves(&[
            (Policy::Min, 256, 901),
            (Policy::Random, 256, 902),
        ]));
        let place = "256 entries (500 hosts in flight, full stream)";
        assert_eq!(
            lines[0],
            format!(
                "FAILS    no policy is above MIN at any size: closest is RANDOM at {place}, -0.10 \
                 points below"
            )
        );
        assert_eq!(
            lines[1],
            format!(
                "FAILS    MIN is not above INFINITE at any size: closest at {place}, -0.10 points \
                 below"
            )
        );
    }
}

//! Claims: what the sources and the crawler's design say, and what was measured.
//!
//! Each claim states its tolerance, and is judged on the worst web unless it speaks of a mean.
//!
//! Sources: PQ-MCSA; for how full buckets are, Fagin, Nievergelt, Pippenger and Strong 1979.

use super::growth::Growth;
use super::scaling::{Scaling, Scheme, Step};
use super::web::Kind;
use crate::Claim;
use crate::text::percent;

/// How many times the ideal share the planner may move.
const MOVED_MAX: f64 = 1.2;
/// How far means of shares may be off, as a part.
const MEAN_OFF: f64 = 0.15;
/// The number of instances at which balance is judged, and how far URLs may vary over them.
const INSTANCES: u16 = 4;
const CV_ALIKE: f64 = 0.1;
const CV_ZIPF_SPLIT: f64 = 0.2;
/// How full partitions are on average, and how far off that may be.
const FULLNESS: f64 = std::f64::consts::LN_2;
const FULLNESS_OFF: f64 = 0.1;

/// Judges each claim.
pub(super) fn judge(scalings: &[Scaling], growths: &[Growth]) -> Vec<Claim> {
    let mut claims = vec![
        mean_share(scalings, Scheme::Modulo, "n/(n+1)", |step| {
            1.0 - step.ideal()
        }),
        mean_share(scalings, Scheme::Rendezvous, "1/(n+1)", Step::ideal),
    ];
    for (kind, is_split) in [
        (Kind::Alike, false),
        (Kind::Zipf, false),
        (Kind::Zipf, true),
    ] {
        claims.push(planner_moves_little(
            scalings,
            kind,
            is_split,
            "partitions",
            |step| step.moved_partitions,
        ));
        claims.push(planner_moves_little(
            scalings,
            kind,
            is_split,
            "URLs",
            |step| step.moved_urls,
        ));
    }
    claims.push(planner_balances(scalings, Kind::Alike, false, CV_ALIKE));
    claims.push(planner_balances(scalings, Kind::Zipf, true, CV_ZIPF_SPLIT));
    claims.extend(Kind::ALL.map(|kind| planner_ahead_of_rendezvous(scalings, kind)));
    claims.push(partitions_are_as_full_as_expected(growths));
    claims.push(the_directory_stays_small(growths));
    claims
}

fn words(kind: Kind, is_split: bool) -> String {
    let after = if is_split { " after splits" } else { "" };
    format!("{kind}{after}")
}

fn of(
    scalings: &[Scaling],
    scheme: Scheme,
    kind: Kind,
    is_split: bool,
) -> impl Iterator<Item = &Scaling> {
    scalings
        .iter()
        .filter(move |of| of.scheme == scheme && of.kind == kind && of.is_split == is_split)
}

/// What moves when one joins, by what is expected of it, on average over all webs.
fn mean_share(
    scalings: &[Scaling],
    scheme: Scheme,
    formula: &str,
    expected: impl Fn(&Step) -> f64,
) -> Claim {
    let joins = scalings
        .iter()
        .filter(|of| of.scheme == scheme)
        .flat_map(Scaling::joins);
    let ratios: Vec<f64> = joins
        .map(|step| step.moved_partitions / expected(step))
        .collect();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    Claim {
        statement: format!(
            "by {scheme}, an instance that joins n others moves {formula} of the partitions on \
             average (within {})",
            percent(MEAN_OFF)
        ),
        measured: format!("{mean:.2} times that"),
        holds: (mean - 1.0).abs() <= MEAN_OFF,
    }
}

fn planner_moves_little(
    scalings: &[Scaling],
    kind: Kind,
    is_split: bool,
    what: &str,
    moved: impl Fn(&Step) -> f64,
) -> Claim {
    let steps = of(scalings, Scheme::Planner, kind, is_split).flat_map(|of| &of.steps);
    let (most, step) = steps
        .map(|step| (moved(step) / step.ideal(), step))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or((f64::NAN, None), |(most, step)| (most, Some(step)));
    let at = step
        .map(|step| format!("from {} to {} instances", step.from, step.to))
        .unwrap_or_default();
    Claim {
        statement: format!(
            "by the planner, joins and leaves move at most {MOVED_MAX} times the ideal share of \
             the {what} ({})",
            words(kind, is_split)
        ),
        measured: format!("at most {most:.2} times, {at}"),
        holds: most <= MOVED_MAX,
    }
}

/// Coefficients of variation with [`INSTANCES`], each time there are so many.
fn variations(scalings: &[Scaling], scheme: Scheme, kind: Kind, is_split: bool) -> Vec<(f64, f64)> {
    let steps = of(scalings, scheme, kind, is_split).flat_map(|of| &of.steps);
    steps
        .filter(|step| step.to == INSTANCES)
        .map(|step| (step.cv_urls, step.cv_time))
        .collect()
}

fn planner_balances(scalings: &[Scaling], kind: Kind, is_split: bool, most: f64) -> Claim {
    let variations = variations(scalings, Scheme::Planner, kind, is_split);
    let worst = |of: fn(&(f64, f64)) -> f64| variations.iter().map(of).fold(f64::NAN, f64::max);
    let urls = worst(|of| of.0);
    let time = worst(|of| of.1);
    Claim {
        statement: format!(
            "by the planner, URLs vary over {INSTANCES} instances by at most {most} ({})",
            words(kind, is_split)
        ),
        measured: format!("at most {urls:.3}; their time by {time:.3}"),
        holds: urls <= most,
    }
}

fn planner_ahead_of_rendezvous(scalings: &[Scaling], kind: Kind) -> Claim {
    let mean = |scheme| {
        let variations = variations(scalings, scheme, kind, false);
        variations.iter().map(|of| of.0).sum::<f64>() / variations.len() as f64
    };
    let planner = mean(Scheme::Planner);
    let rendezvous = mean(Scheme::Rendezvous);
    Claim {
        statement: format!(
            "by the planner, URLs vary less over {INSTANCES} instances than by rendezvous ({kind})"
        ),
        measured: format!("{planner:.3} and {rendezvous:.3} on average"),
        holds: planner < rendezvous,
    }
}

fn partitions_are_as_full_as_expected(growths: &[Growth]) -> Claim {
    let alike: Vec<f64> = growths
        .iter()
        .filter(|of| of.kind == Kind::Alike)
        .map(Growth::fullness)
        .collect();
    let mean = alike.iter().sum::<f64>() / alike.len() as f64;
    Claim {
        statement: format!(
            "partitions that split are {} full on average while a web grows (within {}; hosts \
             alike)",
            percent(FULLNESS),
            percent(FULLNESS_OFF)
        ),
        measured: percent(mean),
        holds: (mean - FULLNESS).abs() <= FULLNESS_OFF,
    }
}

/// The paper keeps a pointer for each prefix of the global depth; a partition that stays over its
/// limit has less than half of it beside its largest host.
fn the_directory_stays_small(growths: &[Growth]) -> Claim {
    let last = |kind| {
        growths
            .iter()
            .filter(move |of| of.kind == kind)
            .filter_map(|of| of.sizes.last())
    };
    let over = |kind| last(kind).map(|size| size.over_limit).max().unwrap_or(0);
    let depth = last(Kind::Zipf)
        .map(|size| size.global_depth)
        .max()
        .unwrap_or(0);
    let partitions = last(Kind::Zipf)
        .map(|size| size.partitions)
        .max()
        .unwrap_or(0);
    Claim {
        statement:
            "a directory of one entry for each partition is smaller than one of pointers, 2 to the \
             power of its depth (Zipf hosts)"
                .to_owned(),
        measured: format!(
            "at most {partitions} entries against 2 to the power of {depth}; {} partitions stay \
             over the limit, with less than half of it beside their largest hosts ({} with hosts \
             alike)",
            over(Kind::Zipf),
            over(Kind::Alike)
        ),
        holds: (partitions as f64) < f64::from(depth).exp2(),
    }
}

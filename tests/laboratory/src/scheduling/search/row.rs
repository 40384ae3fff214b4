//! Row: what was measured of each claim under one condition, by one reading.

use super::super::claims::{BEHIND, Finding, GOOD_FIRST, LEAD, SLIGHTLY};
use super::condition::Condition;
use super::reading::Reading;
use anyhow::ensure;
use std::cmp::Ordering;
use std::ops::RangeInclusive;

/// A claim, as the search sees it.
pub(super) struct Sought {
    /// Name of its column.
    pub(super) column: &'static str,
    /// Its number in words.
    pub(super) text: &'static str,
    /// For a claim that fails as chosen: where its number has to be.
    pub(super) wanted: Option<RangeInclusive<f64>>,
}

const fn holds(column: &'static str, text: &'static str) -> Sought {
    Sought {
        column,
        text,
        wanted: None,
    }
}

const fn fails(column: &'static str, text: &'static str, wanted: RangeInclusive<f64>) -> Sought {
    Sought {
        column,
        text,
        wanted: Some(wanted),
    }
}

/// All of them, in the order of their findings.
pub(super) static CLAIMS: [Sought; 12] = [
    holds(
        "keep_alive",
        "pages a second of keep-alive, in times those of one request per connection",
    ),
    fails(
        "lead",
        "performance's pages at half time, in times breadth-first's",
        LEAD..=f64::MAX,
    ),
    fails(
        "quality_after_half",
        "quality's PageRank after half of the pages, in %",
        GOOD_FIRST..=f64::MAX,
    ),
    fails(
        "capacity_after_half",
        "capacity's PageRank after half of the pages, in %",
        GOOD_FIRST..=f64::MAX,
    ),
    holds(
        "capacity_at_30_percent",
        "capacity's PageRank at 30 % of the time, in %",
    ),
    holds(
        "capacity_zipf_at_third",
        "capacity's Zipf quality at a third of the time, in %",
    ),
    holds(
        "capacity_zipf_at_half",
        "capacity's Zipf quality at half of the time, in %",
    ),
    holds(
        "capacity_ahead",
        "how far capacity is ahead in Zipf quality, in points",
    ),
    fails(
        "quality_above",
        "how far quality is above breadth-first in Zipf quality, in points",
        0.0..=SLIGHTLY,
    ),
    fails(
        "performance_above",
        "how far performance is above breadth-first in Zipf quality, in points",
        0.0..=SLIGHTLY,
    ),
    holds(
        "behind_page_rank",
        "how far capacity is behind quality in PageRank, in points",
    ),
    fails(
        "behind_zipf",
        "how far capacity is behind quality in Zipf quality, in points",
        0.0..=BEHIND,
    ),
];

/// The claims that fail as chosen, each with its number.
pub(super) fn failing() -> impl Iterator<Item = (usize, &'static Sought)> {
    CLAIMS
        .iter()
        .enumerate()
        .filter(|(_, sought)| sought.wanted.is_some())
}

/// A claim's number on the webs of a condition, in ascending order, and on how many of them it
/// holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Measured {
    pub(super) figures: Vec<f64>,
    pub(super) holding: usize,
}

impl Measured {
    pub(super) fn median(&self) -> f64 {
        self.figures[self.figures.len() / 2]
    }

    /// Returns whether the claim holds on most webs.
    pub(super) fn holds(&self) -> bool {
        2 * self.holding > self.figures.len()
    }
}

/// A condition, a reading, and what was measured of each of [`CLAIMS`].
#[derive(Clone)]
pub(super) struct Row {
    pub(super) condition: Condition,
    pub(super) reading: Reading,
    pub(super) measured: Vec<Measured>,
}

impl Row {
    /// A row without webs.
    pub(super) fn new(condition: Condition, reading: Reading) -> Self {
        Row {
            condition,
            reading,
            measured: vec![Measured::default(); CLAIMS.len()],
        }
    }

    /// Adds what was found on one web.
    pub(super) fn add(&mut self, findings: &[Finding]) -> anyhow::Result<()> {
        ensure!(
            findings.len() == CLAIMS.len(),
            "{} of {} claims were judged",
            findings.len(),
            CLAIMS.len()
        );
        for (measured, finding) in self.measured.iter_mut().zip(findings) {
            measured.figures.push(finding.figure);
            measured.figures.sort_unstable_by(f64::total_cmp);
            measured.holding += usize::from(finding.holds);
        }
        Ok(())
    }

    /// How many claims hold on most webs; and on how many webs claims hold, which tells equals
    /// apart.
    pub(super) fn held(&self) -> (usize, usize) {
        let most = self
            .measured
            .iter()
            .filter(|measured| measured.holds())
            .count();
        (
            most,
            self.measured.iter().map(|measured| measured.holding).sum(),
        )
    }

    /// How far the claim's number is from where it has to be.
    pub(super) fn missed_by(&self, claim: usize) -> f64 {
        let median = self.measured[claim].median();
        let missed = |wanted: &RangeInclusive<f64>| {
            (wanted.start() - median)
                .max(median - wanted.end())
                .max(0.0)
        };
        CLAIMS[claim].wanted.as_ref().map_or(0.0, missed)
    }

    /// Less for the row that is better for a claim: where it holds, then where it comes nearest,
    /// then where more claims hold.
    pub(super) fn cmp_for(&self, claim: usize, other: &Row) -> Ordering {
        let holds = |row: &Row| row.measured[claim].holds();
        (holds(other).cmp(&holds(self)))
            .then(self.missed_by(claim).total_cmp(&other.missed_by(claim)))
            .then(other.held().cmp(&self.held()))
    }
}

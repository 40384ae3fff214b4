//! Fresh: how fresh is a copy whose pages are visited by value, with as many requests as uniform
//! visits take?
//!
//! In: a seed. Out: `fresh.csv` (each figure that is wanted), `fresh-runs.csv` (the freshness of
//! each run in each uniform interval), `fresh.svg`, three claims with what was found, and all
//! figures as lines.
//!
//! Pages change at rates of their own, and signals come of it (`web`). The scheduler's own rules
//! choose what is visited (`crawl`): with rates known, or learned from nothing; with signals that
//! are good, mixed or worthless; with one scheduler or two that share the budget. Beside them
//! stands Nutch's rule. What came of it lies on a scale between uniform visits (0) and the optimum
//! for the same pages and requests (1), both by formula (`optimum`).
//!
//! Invariant: all plans have the same requests. How many choices a second are made is measured in
//! real time (`speed`); all else follows from the seed.
//!
//! Sources: Cho and Garcia-Molina 2000 (freshness, optimum) and 2003 (rates from visits); Azar and
//! others 2018 (the largest value next); Busa-Fekete and others 2025 (signals).

mod claims;
mod crawl;
mod figure;
mod figures;
mod ledger;
mod optimum;
mod runs;
mod speed;
mod table;
#[cfg(test)]
mod tests;
mod web;

use crate::Claim;
use crate::text::grouped;
use anyhow::{Context as _, ensure};
use std::fs;
use std::path::PathBuf;

/// The files that a run writes.
const FILES: [&str; 3] = ["fresh.csv", "fresh-runs.csv", "fresh.svg"];

/// What to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Pages of a web.
    pub pages: usize,
    /// Its servers.
    pub servers: usize,
    /// Webs of each kind.
    pub seeds: u64,
    /// Seed of the first web: the same seed gives the same files.
    pub seed: u64,
    /// Among how many pages choices are measured; 0: they are not.
    pub chosen_among: usize,
    /// Where the tables and the figure go; made if it is not there.
    pub folder: PathBuf,
}

impl Default for Settings {
    /// Five webs of 2,000 pages on 40 servers; choices among a million pages.
    fn default() -> Self {
        Settings {
            pages: 2_000,
            servers: 40,
            seeds: 5,
            seed: 2018,
            chosen_among: 1_000_000,
            folder: PathBuf::from("."),
        }
    }
}

/// What came of the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// The claims, judged by the medians of all webs.
    pub claims: Vec<Claim>,
    /// Each figure: a line.
    pub lines: Vec<String>,
}

/// Visits all webs by all plans, writes tables and figure, and judges.
///
/// `progress` is told what is being done, a line at a time.
///
/// # Errors
/// When there is nothing to visit, or a file cannot be written.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Findings> {
    ensure!(
        settings.servers > 0 && settings.pages >= settings.servers && settings.seeds > 0,
        "there is no web to visit"
    );
    // Before the work, so that a wrong folder does not show after it.
    let folder = &settings.folder;
    fs::create_dir_all(folder)
        .with_context(|| format!("failed to make the folder {}", folder.display()))?;
    let runs = runs::all(settings, progress);
    let texts = [
        table::csv(&figures::all(settings, &runs)),
        table::runs(&runs),
        figure::svg(settings, &runs),
    ];
    for (name, text) in FILES.into_iter().zip(texts) {
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
        progress(&format!("wrote {}", file.display()));
    }
    let mut lines = claims::lines(settings, &runs);
    if settings.chosen_among > 0 {
        let choices = speed::choices_per_second(settings.chosen_among, settings.seed);
        lines.push(format!(
            "{} choices a second of CPU time among {} pages",
            grouped(choices as u64),
            grouped(settings.chosen_among as u64)
        ));
    }
    Ok(Findings {
        claims: claims::judge(settings, &runs),
        lines,
    })
}

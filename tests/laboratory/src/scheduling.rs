//! Scheduling: which policy brings how many pages, and how much quality, by when?
//!
//! In: a seed. Out: `scheduling.csv` (the curves of the policies), `scheduling-runs.csv` (a row for each crawl),
//! `scheduling.svg`, a verdict on each claim, and lines on what the verdicts hang on.
//!
//! A made-up web (`web`) is crawled in simulated time (`crawl`) by the crawler's own scheduler, the same core that
//! runs in a process, with each of its policies. It is told of a page, and what it is worth (`quality`), once a page
//! that links to it was fetched. Then the same with one request per connection, with other numbers of connections,
//! with several schedulers, and on webs with other links, latencies, sizes and seeds.
//!
//! Invariant: all policies meet the same web, with the same latencies and qualities.
//!
//! Source: Cao, Jiang and Singh 2003 (policies in section 3, qualities in section 4, the experiment in section 5).

mod crawl;
mod curves;
mod figure;
mod quality;
mod runs;
mod table;
#[cfg(test)]
mod tests;
mod verdicts;
mod web;

use crate::Verdict;
use anyhow::{Context as _, ensure};
use runs::{CONNECTIONS, Runs};
use std::fs;
use std::path::PathBuf;
use web::Shape;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Servers of the web.
    pub servers: usize,
    /// Its pages: at least one for each server.
    pub pages: usize,
    /// Of web and qualities: the same seed gives the same files.
    pub seed: u64,
    /// Where the files go; made if it is not there.
    pub folder: PathBuf,
}

impl Default for Settings {
    /// The paper's: 500 servers, 30,000 pages.
    fn default() -> Self {
        Settings { servers: 500, pages: 30_000, seed: 2003, folder: PathBuf::from(".") }
    }
}

/// What came of the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// On each claim.
    pub verdicts: Vec<Verdict>,
    /// How the claims fare on other webs, a line for each.
    pub sensitivity: Vec<String>,
    /// What capacity reaches with several schedulers, a line for each number.
    pub order_lost: Vec<String>,
}

/// Crawls the web in all ways, writes tables and figure, and judges.
///
/// `progress` is told what is being done, a line at a time.
///
/// # Errors
/// When settings make no sense, the scheduler breaks a promise, or a file cannot be written.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Findings> {
    let &Settings { servers, pages, seed, ref folder } = settings;
    ensure!(servers > 0 && pages >= servers, "there must be a server, and a page for each");
    // Before the work, so that a wrong folder does not show after it.
    fs::create_dir_all(folder).with_context(|| format!("failed to make the folder {}", folder.display()))?;

    let base = Shape { servers, pages, locality: 0.8, decades: 2.0, pages_deviation: 1.0, seed };
    let others = [
        Shape { locality: 0.6, ..base },
        Shape { locality: 0.95, ..base },
        Shape { decades: 1.0, ..base },
        Shape { decades: 3.0, ..base },
        Shape { pages_deviation: 0.3, ..base },
        Shape { seed: seed.wrapping_add(1), ..base },
        Shape { seed: seed.wrapping_add(2), ..base },
    ];
    let mut runs = Runs::default();
    runs.measure_all(base, progress)?;
    for other in others {
        runs.compare(other, progress)?;
    }

    let compared = runs.comparison(base, CONNECTIONS);
    for (name, text) in [
        ("scheduling.csv", table::curves_csv(&compared)),
        ("scheduling-runs.csv", table::runs_csv(&runs.curves)),
        ("scheduling.svg", figure::svg(&compared)),
    ] {
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
        progress(&format!("wrote {}", file.display()));
    }
    let shapes: Vec<Shape> = [base].into_iter().chain(others).collect();
    Ok(Findings {
        verdicts: verdicts::judge(&runs, base),
        sensitivity: verdicts::sensitivity(&runs, &shapes),
        order_lost: verdicts::order_lost(&runs, base),
    })
}

//! Scheduling: which policy brings how many pages, and how much quality, by when?
//!
//! In: a seed. Out: `scheduling.csv` (the curves of the policies), `scheduling-runs.csv` (a row for
//! each crawl), `scheduling.svg`, each claim with what was found, and lines that show what the
//! claims depend on.
//!
//! The crawler's own scheduler crawls a made-up web (`web`) in simulated time (`crawl`), with each
//! policy (`policy`). It is the same core that runs in a process. It hears of a page, and what the
//! page is worth (`quality`), once a page that links to it was fetched. The same crawls are made
//! with one request per connection, with other numbers of connections, and with pages that cost CPU
//! time, all on webs of several seeds. Then come webs with other links, latencies and sizes, and
//! crawls from other seeds and with several schedulers. [`search`] is an experiment of its own:
//! which conditions bring about the claims that fail.
//!
//! Invariant: all policies meet the same web, with the same latencies and qualities.
//!
//! Source: Cao, Jiang and Singh 2003 (policies in section 3, qualities in section 4, the experiment
//! in section 5).

mod claims;
mod compared;
mod crawl;
mod curves;
mod figure;
mod policy;
mod quality;
mod runs;
pub mod search;
mod sensitivity;
mod setup;
mod table;
#[cfg(test)]
mod tests;
mod traits;
mod web;

use crate::Claim;
use anyhow::{Context as _, ensure};
use runs::{CONNECTIONS, CONNECTIONS_FEW, Runs, breadth_first, with_cpu};
use setup::{Seeds, Setup};
use std::fs;
use std::path::PathBuf;
use traits::Traits;
use web::Shape;

/// Webs on which each claim is judged: that of the seed and those of the seeds after it.
pub const SEEDS: u64 = 5;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Servers of the web.
    pub servers: usize,
    /// Its pages: at least one for each server.
    pub pages: usize,
    /// Seed of web and qualities, and the first of [`SEEDS`]: the same seed gives the same files.
    pub seed: u64,
    /// Where the files go; made if it is not there.
    pub folder: PathBuf,
}

impl Default for Settings {
    /// The paper's settings: 500 servers, 30,000 pages.
    fn default() -> Self {
        Settings {
            servers: 500,
            pages: 30_000,
            seed: 2003,
            folder: PathBuf::from("."),
        }
    }
}

/// What came of the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// The claims, judged on all webs.
    pub claims: Vec<Claim>,
    /// Pages a second by connections, a line for each kind of servers and of CPU.
    pub throughput: Vec<String>,
    /// How the claims fare on other webs, and in other crawls: a line for each.
    pub sensitivity: Vec<String>,
    /// What the crawler's default policy reaches, and what capacity reaches without a table: a line
    /// for each number of connections.
    pub defaults: Vec<String>,
    /// What capacity reaches with several schedulers, a line for each number.
    pub order_lost: Vec<String>,
}

/// The web on which the claims are judged.
fn base(settings: &Settings) -> Shape {
    let &Settings {
        servers,
        pages,
        seed,
        ..
    } = settings;
    Shape {
        servers,
        pages,
        locality: 0.8,
        decades: 2.0,
        pages_deviation: 0.5,
        fast: false,
        traits: Traits::CHOSEN,
        seed,
    }
}

/// The webs of so many seeds.
fn webs(base: Shape, seeds: u64) -> Vec<Shape> {
    (0..seeds)
        .map(|number| Shape {
            seed: base.seed.wrapping_add(number),
            ..base
        })
        .collect()
}

/// Makes sure that settings make sense and that there is a folder for the files: before the work,
/// so that a wrong one does not show after it.
fn check(settings: &Settings) -> anyhow::Result<()> {
    let &Settings {
        servers,
        pages,
        ref folder,
        ..
    } = settings;
    ensure!(
        servers > 0 && pages >= servers,
        "there must be a server, and a page for each"
    );
    fs::create_dir_all(folder)
        .with_context(|| format!("failed to make the folder {}", folder.display()))
}

/// Writes a file.
fn write(
    settings: &Settings,
    name: &str,
    text: &str,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    let file = settings.folder.join(name);
    fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
    progress(&format!("wrote {}", file.display()));
    Ok(())
}

/// Crawls the web in all ways, writes tables and figure, and judges.
///
/// `progress` is told what is being done, a line at a time.
///
/// # Errors
/// When settings make no sense, the scheduler breaks a promise, or a file cannot be written.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Findings> {
    check(settings)?;
    let base = base(settings);
    let setup = breadth_first(CONNECTIONS);
    let seeds = webs(base, SEEDS);
    let mut runs = Runs::default();
    for &shape in &seeds {
        runs.measure_claims(shape, progress)?;
    }
    let cpu = runs.page_cpu_us(base).unwrap_or_default();
    let varied = [
        (base, setup),
        (
            base,
            Setup {
                connections: CONNECTIONS_FEW,
                ..setup
            },
        ),
        (base, with_cpu(CONNECTIONS, cpu)),
        (
            base,
            Setup {
                seeds: Seeds::HomePages,
                ..setup
            },
        ),
        (
            base,
            Setup {
                seeds: Seeds::AllPages,
                ..setup
            },
        ),
        (
            Shape {
                pages_deviation: 0.0,
                ..base
            },
            setup,
        ),
        (
            Shape {
                pages_deviation: 1.0,
                ..base
            },
            setup,
        ),
        (
            Shape {
                decades: 1.0,
                ..base
            },
            setup,
        ),
        (
            Shape {
                decades: 3.0,
                ..base
            },
            setup,
        ),
        (
            Shape {
                locality: 0.6,
                ..base
            },
            setup,
        ),
        (
            Shape {
                locality: 0.95,
                ..base
            },
            setup,
        ),
    ];
    for (shape, setup) in varied {
        runs.compare(shape, setup, progress)?;
    }
    runs.measure_tables(base, progress)?;

    let compared = runs.comparison(base, setup);
    for (name, text) in [
        ("scheduling.csv", table::curves_csv(&compared)),
        ("scheduling-runs.csv", table::runs_csv(&runs.curves)),
        ("scheduling.svg", figure::svg(&compared)),
    ] {
        write(settings, name, &text, progress)?;
    }
    Ok(Findings {
        claims: claims::judge(&runs, &seeds),
        throughput: sensitivity::throughput(&runs, base),
        sensitivity: varied
            .iter()
            .filter_map(|&(shape, setup)| sensitivity::varied(&runs, shape, setup))
            .collect(),
        defaults: sensitivity::defaults(&runs, base),
        order_lost: sensitivity::order_lost(&runs, base),
    })
}

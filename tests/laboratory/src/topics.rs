//! Topics: do several crawls that share one node get equal shares of it?
//!
//! In: a seed. Out: `topics.csv` (connection time and pages of each topic in every twelfth of the
//! run), `topics.svg`, each claim with what was found, and what becomes of the pages when the
//! topics are others.
//!
//! Three topics crawl on one simulated node (`node`): the crawler's own scheduler, and connections
//! that take the time of their topic's servers. The topics have unequal webs (`theme`): the one
//! whose pages link most has the most servers. Each web is crawled twice: first in, first out, as
//! if there were no topics, and with turns of equal slices.
//!
//! Invariant: both ways meet the same webs, with the same latencies.
//!
//! Source: Fan and Li 2015 (PQ-MCSA), whose tables are not legible: the claims are those of their
//! text, the webs are ours.

mod claims;
mod figure;
mod node;
mod shares;
mod table;
#[cfg(test)]
mod tests;
mod theme;

use crate::Claim;
use anyhow::Context as _;
use shares::Run;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use theme::{Theme, Way};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long each crawl lasts, in simulated time.
    pub lasts: Duration,
    /// Connections of the node.
    pub connections: usize,
    /// Webs of each kind.
    pub webs: u64,
    /// Seed of the first web: the same seed gives the same files.
    pub seed: u64,
    /// Where the table and the figure go; made if it is not there.
    pub folder: PathBuf,
}

impl Default for Settings {
    /// Twenty minutes, 24 connections, five webs of each kind.
    fn default() -> Self {
        Settings {
            lasts: Duration::from_secs(1200),
            connections: 24,
            webs: 5,
            seed: 2015,
            folder: PathBuf::from("."),
        }
    }
}

/// What came of the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// The claims, judged on all webs on which the topic with the most links is the slowest.
    pub claims: Vec<Claim>,
    /// What came of each kind of webs, both ways: a line for each.
    pub lines: Vec<String>,
}

/// Crawls all webs both ways, writes table and figure, and judges.
///
/// `progress` is told what is being done, a line at a time.
///
/// # Errors
/// When the scheduler breaks a promise, or a file cannot be written.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Findings> {
    // Before the work, so that a wrong folder does not show after it.
    let folder = &settings.folder;
    fs::create_dir_all(folder)
        .with_context(|| format!("failed to make the folder {}", folder.display()))?;
    let mut runs = Vec::new();
    for themes in Theme::KINDS {
        for seed in settings.seed..settings.seed + settings.webs {
            progress(&format!("{}, web {seed}", themes.name));
            for way in Way::ALL {
                runs.push(node::crawl(themes, way, seed, settings)?);
            }
        }
    }
    for (name, text) in [
        ("topics.csv", table::csv(&runs)),
        ("topics.svg", figure::svg(&runs)),
    ] {
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
        progress(&format!("wrote {}", file.display()));
    }
    Ok(Findings {
        claims: claims::judge(&runs),
        lines: claims::lines(&runs),
    })
}

/// The runs of one kind of webs, one way.
fn of<'a>(runs: &'a [Run], kind: &str, way: Way) -> impl Iterator<Item = &'a Run> {
    runs.iter()
        .filter(move |run| run.kind == kind && run.way == way)
}

//! Order: how soon does a crawl come to the pages that matter, by the order in which it takes what
//! it knows?
//!
//! In: what a synthetic web is like. Out: `order.csv` (area, lifts and rounds of each run),
//! `order-curves.csv`, `order.svg`, each claim with what was found, and the numbers as lines.
//!
//! Each crawl goes in rounds (`model`): every server that has pages waiting fetches its best one,
//! by one of six orders (`rules`). In a second model there are a few connections, and servers are
//! ranked, too. An order is as good as the area under the share of PageRank by the share of pages
//! (`scale`).
//!
//! Further links to a page that is known do not leave one by one: how much of the order is lost
//! when they wait until they matter, and when news come late, is measured.
//!
//! Sources: Cho, Garcia-Molina and Page 1998 (links counted, PageRank of what is known); Abiteboul,
//! Preda and Cobena 2003 (OPIC: cash). Their webs are not ours.

mod claims;
mod figure;
mod model;
mod rules;
mod runs;
mod scale;
mod table;
#[cfg(test)]
mod tests;

use crate::Claim;
use anyhow::{Context as _, ensure};
pub use scale::Scale;
use std::fs;
use std::path::PathBuf;
use synthetic_web::{Graph, Profile};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The web.
    pub profile: Profile,
    /// Each host's first page is a seed, not that of the first host alone.
    pub seeds_everywhere: bool,
    /// Connections of the second model.
    pub connections: usize,
    /// Where the tables and the figure go; made if it is not there.
    pub folder: PathBuf,
}

impl Default for Settings {
    /// 50 hosts of 200 pages, crawled from the first one; 8 connections.
    fn default() -> Self {
        Settings {
            profile: Profile::raw(),
            seeds_everywhere: false,
            connections: 8,
            folder: PathBuf::from("."),
        }
    }
}

/// What came of the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// The claims, judged on this web.
    pub claims: Vec<Claim>,
    /// What came of each order: a line for each.
    pub lines: Vec<String>,
}

/// Crawls the web by all rules, writes tables and figure, and judges.
///
/// `progress` is told what is being done, a line at a time.
///
/// # Errors
/// When the web is out of range, or a file cannot be written.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Findings> {
    let Settings {
        profile,
        seeds_everywhere,
        connections,
        folder,
    } = settings;
    ensure!(*connections > 0, "a crawl needs a connection");
    // Before the work, so that a wrong folder does not show after it.
    fs::create_dir_all(folder)
        .with_context(|| format!("failed to make the folder {}", folder.display()))?;
    let graph = Graph::new(profile.clone())?;
    let mut seeds = graph.front_doors();
    if !seeds_everywhere {
        seeds.truncate(1);
    }
    let links: usize = graph.pages.iter().map(|page| page.links.len()).sum();
    let pages = graph.pages.len();
    let mean = links as f64 / graph.pages.len() as f64;
    progress(&format!(
        "{} hosts, {pages} pages, {mean:.1} links a page, {} seeds",
        graph.hosts,
        seeds.len()
    ));
    let runs = runs::all(&graph, &seeds, *connections);
    let files = [
        ("order.csv", table::csv(&runs)),
        ("order-curves.csv", table::curves(&runs)),
        ("order.svg", figure::svg(&runs)),
    ];
    for (name, text) in files {
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
        progress(&format!("wrote {}", file.display()));
    }
    Ok(Findings {
        claims: claims::judge(&runs, *connections),
        lines: claims::lines(&runs, *connections),
    })
}

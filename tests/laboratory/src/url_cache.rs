//! URL cache: how many links does a cache of each size catch, by policy?
//!
//! In: a trace of links, generated or recorded. Out: `url-cache.csv`, `url-cache.svg` and each
//! claim with what was found.
//!
//! A trace gives two streams: *full*, all links a crawler process finds, and *cross*, those that
//! leave it for another process. RANDOM, STATIC, LRU and CLOCK are the crawler's own
//! [`UrlCache`](rhumb_url::url_cache::UrlCache); two limits stand beside them: MIN, which knows the
//! future (Belady 1966), and INFINITE, which forgets nothing. The first third of a stream fills the
//! caches and is not counted.
//!
//! Invariant: a link met for the first time is a miss under every policy, because it has yet to
//! pass the URL-seen test (P4). So STATIC knows beforehand which URLs it will keep, but holds none
//! of them before it was met.
//!
//! Source: Broder, Najork and Wiener 2003 (policies in section 3, the crawl and its two streams in
//! section 4, results in section 5). Their trace is not public, so a similar one is generated.

mod claims;
mod curves;
mod figure;
mod generator;
mod optimal;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod trace;

use crate::Claim;
use anyhow::{Context as _, ensure};
use curves::Curves;
use std::fs;
use std::path::PathBuf;
use trace::Trace;

/// Upper limit of the entries of a cache: slots are numbered in 32 bits, and an index has twice as
/// many cells.
const ENTRIES_MAX: usize = (1 << 31) - 1;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Hosts that a process serves at once (in the paper, its worker threads). A trace is generated
    /// for each number.
    pub hosts_in_flight: Vec<usize>,
    /// Cache sizes, in entries.
    pub entries: Vec<usize>,
    /// Links of a generated trace, at least; its last page is completed.
    pub links: u64,
    /// Seed of the generator: the same seed gives the same trace.
    pub seed: u64,
    /// A recorded trace, which takes the place of all generated ones: a link per line,
    /// `source-host<TAB>url` or `url`.
    pub trace: Option<PathBuf>,
    /// Where `url-cache.csv` and `url-cache.svg` go; made if it is not there.
    pub folder: PathBuf,
}

impl Default for Settings {
    /// 50 and 500 hosts, 2^8 to 2^20 entries and the 50,000 of the paper's abstract, 4 million
    /// links.
    fn default() -> Self {
        let mut entries: Vec<usize> = (8..=20).map(|exponent| 1 << exponent).collect();
        entries.push(claims::ENTRIES_RECOMMENDED);
        Settings {
            hosts_in_flight: vec![50, 500],
            entries,
            links: 4_000_000,
            seed: 2003,
            trace: None,
            folder: PathBuf::from("."),
        }
    }
}

/// Measures all policies at all sizes on all streams, writes table and figure, and judges.
///
/// `progress` is told what is being done, a line at a time. Of a recorded trace, the claims that
/// need the number of hosts in flight are not judged, and the cross stream is left out if no line
/// names a source in another process.
///
/// # Errors
/// When settings make no sense, the trace cannot be read or has a bad line, or a file cannot be
/// written.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Vec<Claim>> {
    let mut entries = settings.entries.clone();
    entries.sort_unstable();
    entries.dedup();
    ensure!(
        entries.first().is_some_and(|&least| least > 0)
            && entries.last().is_some_and(|&most| most <= ENTRIES_MAX),
        "there must be a cache size, and each between 1 and {ENTRIES_MAX} entries"
    );
    // Before the work, so that a wrong folder does not show after it.
    let folder = &settings.folder;
    fs::create_dir_all(folder)
        .with_context(|| format!("failed to make the folder {}", folder.display()))?;

    let mut measured = Vec::new();
    match &settings.trace {
        Some(file) => {
            progress(&format!("reading {}", file.display()));
            measure(trace::read(file)?, &entries, &mut measured, progress)?;
        }
        None => {
            ensure!(
                !settings.hosts_in_flight.is_empty(),
                "there must be a number of hosts in flight"
            );
            for &hosts in &settings.hosts_in_flight {
                ensure!(hosts > 0, "at least one host must be in flight");
                progress(&format!("generating the links of {hosts} hosts in flight"));
                let trace = generator::generate(hosts, settings.links, settings.seed);
                measure(trace, &entries, &mut measured, progress)?;
            }
        }
    }

    for (name, text) in [
        ("url-cache.csv", table::csv(&measured)),
        ("url-cache.svg", figure::svg(&measured)),
    ] {
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
        progress(&format!("wrote {}", file.display()));
    }
    Ok(claims::judge(&measured))
}

/// Appends the curves of a trace's streams.
fn measure(
    trace: Trace,
    entries: &[usize],
    measured: &mut Vec<Curves>,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    for stream in trace.streams()? {
        measured.push(Curves::measure(&stream, entries, progress));
    }
    Ok(())
}

//! DNS: what do a cache, concurrent lookups, a good table and queues of one's own bring a crawler?
//!
//! In: the settings. Out: `dns-arms.csv`, `dns-hit-rates.csv`, `dns-tables.csv`, `dns-rows.csv`,
//! `dns.svg` and each claim with what was found.
//!
//! - *Arms*: ways to resolve a trace of names (`trace`) with a name server as slow as the paper's
//!   (`latency`). Arms with few lookups at once are simulated (`simulation`), because they would
//!   take days. Arms with a full window run the crawler's own resolver and its queries in real time
//!   (`window`), over a socket to a name server of our own (`name_server`).
//! - *Hit rates* of caches on that trace, by size and policy.
//! - *Tables*: what it takes to find a name in the papers' tables and in the crawler's.
//! - *Rows*: seven ways to build a crawler of threads (`crawler`), on a synthetic web.
//!
//! Invariants: all arms meet the same names, and the same latencies for the same questions. The
//! bound by which the crawler's resolver is judged comes from the latency model and the lookups
//! made, never from the time they took. Two arms, the times of lookups and the rows are measured in
//! real time, so their numbers differ from run to run. All other numbers are the same in every run.
//!
//! Sources: Yin, Yin and Huang 2008 (skip-check, sockets, locks, the seven rows); the cached,
//! non-blocking resolver for crawlers (2008) (cache, trace, arms).

mod arm;
mod chained_cache;
mod claims;
mod crawler;
mod figure;
mod hit_rates;
mod latency;
mod lookups;
mod name_server;
mod names;
mod row;
mod rows;
mod simulation;
mod skip_check;
mod table;
#[cfg(test)]
mod tests;
mod trace;
mod window;
mod work;

use crate::Claim;
use anyhow::{Context as _, ensure};
use arm::{Arm, Way};
use chained_cache::{ChainedCache, NODES, REFRESH};
use hit_rates::HitRates;
use latency::Latency;
use lookups::Lookup;
use row::Row;
use rows::Measured;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use trace::Trace;

/// The arm without a cache takes the first of this many parts of the trace. More is not needed,
/// because names are drawn independently.
const UNCACHED_PART: usize = 5;
/// Lookups at once of the paper's resolver, in the experiment that the paper reports.
const FEW: usize = 2;
/// Limit of the names: they are numbered in 32 bits, and the latency model finds a lookup by name
/// and turn.
const HOSTS_MAX: usize = 10_000_000;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Names of the trace.
    pub names: usize,
    /// Distinct names from which the trace is drawn.
    pub hosts: usize,
    /// Exponent of the Zipf distribution by which names are drawn.
    pub exponent: f64,
    /// Seed of names, trace and latencies.
    pub seed: u64,
    /// Factor on all latencies and time-outs of lookups; 1 gives the paper's.
    pub latency_scale: f64,
    /// Cache sizes, in names.
    pub entries: Vec<usize>,
    /// Numbers of names in a table.
    pub table_names: Vec<usize>,
    /// How often each row crawls. The medians count.
    pub rounds: usize,
    /// How long a row crawls.
    pub row: Duration,
    /// Where the files go; made if it is not there.
    pub folder: PathBuf,
}

impl Default for Settings {
    /// The paper's 1,000,000 names, Zipf of exponent 0.9 over 300,000; caches of 2^10 to 2^18 and
    /// of 50,000 names; three rounds of 4 s.
    fn default() -> Self {
        let mut entries: Vec<usize> = (10..=18).map(|exponent| 1 << exponent).collect();
        entries.push(NODES);
        entries.sort_unstable();
        Settings {
            names: 1_000_000,
            hosts: 300_000,
            exponent: 0.9,
            seed: 2008,
            latency_scale: 1.0,
            entries,
            table_names: vec![500, 5_000, NODES],
            rounds: 3,
            row: Duration::from_secs(4),
            folder: PathBuf::from("."),
        }
    }
}

/// All that was measured.
struct Findings {
    arms: Vec<Arm>,
    hit_rates: HitRates,
    lookups: Vec<Lookup>,
    rows: Vec<Measured>,
}

/// Measures everything, writes tables and figure, and judges; with the default settings that takes
/// under six minutes.
///
/// `progress` is told what is being done, a line at a time.
///
/// # Errors
/// When settings make no sense, a socket, thread or the synthetic web cannot be had, or a file
/// cannot be written.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Vec<Claim>> {
    let &Settings {
        names,
        hosts,
        exponent,
        seed,
        latency_scale,
        rounds,
        row,
        ..
    } = settings;
    ensure!(
        names >= UNCACHED_PART,
        "there must be at least {UNCACHED_PART} names"
    );
    ensure!(
        (1..=HOSTS_MAX).contains(&hosts),
        "there must be 1 to {HOSTS_MAX} hosts"
    );
    ensure!(
        exponent >= 0.0 && latency_scale > 0.0,
        "exponent and scale of the latency must not be negative"
    );
    let is_size = |&size: &usize| (1..=HOSTS_MAX).contains(&size);
    ensure!(
        settings
            .entries
            .iter()
            .chain(&settings.table_names)
            .all(is_size),
        "caches and tables must have room for 1 to {HOSTS_MAX} names"
    );
    // Before the work, so that a wrong folder does not show after it.
    let folder = &settings.folder;
    fs::create_dir_all(folder)
        .with_context(|| format!("failed to make the folder {}", folder.display()))?;

    progress(&format!("drawing {names} names of {hosts} hosts"));
    let trace = Trace::new(names, hosts, exponent, seed);
    let findings = Findings {
        // First, while the machine has nothing else from us to do.
        lookups: lookups::measure(&settings.table_names, seed, progress),
        hit_rates: HitRates::measure(&trace, &settings.entries, progress),
        rows: rows::measure(&Row::ALL, rounds, row, progress)?,
        arms: arms(
            &trace,
            Latency {
                seed,
                scale: latency_scale,
            },
            progress,
        )?,
    };

    let files = table::all(&findings)
        .into_iter()
        .chain([("dns.svg", figure::svg(&findings))]);
    for (name, text) in files {
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
        progress(&format!("wrote {}", file.display()));
    }
    Ok(claims::judge(&findings))
}

/// Resolves the trace in every way.
fn arms(
    trace: &Trace,
    latency: Latency,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<Arm>> {
    let pipeline = window::pipeline(latency.scale)?;
    let patience = window::patience(&pipeline);
    let refresh = REFRESH.mul_f64(latency.scale);
    let mut arms = Vec::new();
    for (way, window, cache) in [
        (Way::Serial, 1, None),
        (
            Way::SerialCached,
            1,
            Some(ChainedCache::new(NODES, Some(refresh))),
        ),
        (
            Way::SerialCachedUnrefreshed,
            1,
            Some(ChainedCache::new(NODES, None)),
        ),
        (Way::Few, FEW, None),
        (
            Way::FewCached,
            FEW,
            Some(ChainedCache::new(NODES, Some(refresh))),
        ),
    ] {
        arms.push(simulation::simulate(
            way, trace, latency, patience, window, cache,
        ));
        progress(&format!("simulated: {}", way.name()));
    }
    let part = trace.first(trace.draws.len() / UNCACHED_PART);
    arms.push(window::resolve(
        Way::Window,
        &part,
        latency,
        &pipeline,
        progress,
    )?);
    arms.push(window::resolve(
        Way::WindowCached,
        trace,
        latency,
        &pipeline,
        progress,
    )?);
    Ok(arms)
}

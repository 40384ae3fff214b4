//! `rhumb lab`: experiments of the papers, run here; a verdict line per claim.

use crate::output::line;
use laboratory::{Claim, dns, scheduling, url_cache};
use std::path::PathBuf;

/// Runs the experiment on URL caches; whether all claims hold.
pub fn url_cache(folder: PathBuf, trace: Option<PathBuf>) -> anyhow::Result<bool> {
    let settings = url_cache::Settings { folder: folder.clone(), trace, ..url_cache::Settings::default() };
    let claims = url_cache::run(&settings, &mut |progress| tracing::info!("{progress}"))?;
    line(format_args!("written  {0}/url-cache.csv {0}/url-cache.svg", folder.display()));
    Ok(all_hold(&claims))
}

/// Runs the experiment on scheduling; whether all claims hold.
pub fn scheduling(folder: PathBuf, seed: Option<u64>) -> anyhow::Result<bool> {
    let defaults = scheduling::Settings::default();
    let settings = scheduling::Settings { folder: folder.clone(), seed: seed.unwrap_or(defaults.seed), ..defaults };
    let findings = scheduling::run(&settings, &mut |progress| tracing::info!("{progress}"))?;
    line(format_args!("written  {0}/scheduling.csv {0}/scheduling-runs.csv {0}/scheduling.svg", folder.display()));
    let hold = all_hold(&findings.claims);
    for throughput in &findings.throughput {
        line(format_args!("pages/s  {throughput}"));
    }
    for sensitivity in &findings.sensitivity {
        line(format_args!("varied   {sensitivity}"));
    }
    for default in &findings.defaults {
        line(format_args!("default  {default}"));
    }
    for order_lost in &findings.order_lost {
        line(format_args!("order    {order_lost}"));
    }
    Ok(hold)
}

/// Runs the experiment on names and pages a second; whether all claims hold.
pub fn dns(folder: PathBuf, seed: Option<u64>) -> anyhow::Result<bool> {
    let defaults = dns::Settings::default();
    let settings = dns::Settings { folder: folder.clone(), seed: seed.unwrap_or(defaults.seed), ..defaults };
    let claims = dns::run(&settings, &mut |progress| tracing::info!("{progress}"))?;
    let tables = ["arms", "hit-rates", "tables", "rows"].map(|table| format!("{}/dns-{table}.csv", folder.display()));
    line(format_args!("written  {} {}/dns.svg", tables.join(" "), folder.display()));
    Ok(all_hold(&claims))
}

/// Prints each claim with what was found.
fn all_hold(claims: &[Claim]) -> bool {
    claims.iter().for_each(line);
    claims.iter().all(|claim| claim.holds)
}

//! The program that `rhumb lab` starts: runs one experiment and prints a verdict line per claim.
//!
//! In: the arguments of `rhumb lab`. Out: files, lines on standard output, and exit code 0 when all
//! claims hold.

use clap::Parser;
use laboratory::{Claim, dns, fresh, order, partitions, scheduling, topics, url_cache};
use rhumb::lab::{Experiment, OrderOfCrawl};
use rhumb::output::line;
use std::path::PathBuf;
use std::process::ExitCode;
use synthetic_web::{PagesPerHost, Profile};

/// Reproduces a paper's experiment
#[derive(Parser)]
#[command(bin_name = "rhumb lab", version)]
struct CommandLine {
    #[command(subcommand)]
    experiment: Experiment,
}

fn main() -> ExitCode {
    let experiment = CommandLine::parse().experiment;
    rhumb_node::log::begin(&rhumb_config::Log::default(), "rhumb");
    let hold = match experiment {
        Experiment::Dns { out, seed } => run_dns(out, seed),
        Experiment::Fresh { out, seed } => run_fresh(out, seed),
        Experiment::Order(what) => run_order(what),
        Experiment::Partitions { out, seed } => run_partitions(out, seed),
        Experiment::Scheduling { out, search, seed } => match search {
            true => search_scheduling(out, seed),
            false => run_scheduling(out, seed),
        },
        Experiment::Topics { out, seed } => run_topics(out, seed),
        Experiment::UrlCache { out, trace } => run_url_cache(out, trace),
    };
    match hold {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("rhumb: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the experiment on names and pages a second. Returns whether all claims hold.
fn run_dns(folder: PathBuf, seed: Option<u64>) -> anyhow::Result<bool> {
    let defaults = dns::Settings::default();
    let settings = dns::Settings {
        folder: folder.clone(),
        seed: seed.unwrap_or(defaults.seed),
        ..defaults
    };
    let claims = dns::run(&settings, &mut |progress| tracing::info!("{progress}"))?;
    let tables = ["arms", "hit-rates", "tables", "rows"]
        .map(|table| format!("{}/dns-{table}.csv", folder.display()));
    line(format_args!(
        "written  {} {}/dns.svg",
        tables.join(" "),
        folder.display()
    ));
    Ok(all_hold(&claims))
}

/// Runs the experiment on visits of known pages. Returns whether all claims hold.
fn run_fresh(folder: PathBuf, seed: Option<u64>) -> anyhow::Result<bool> {
    let defaults = fresh::Settings::default();
    let settings = fresh::Settings {
        folder: folder.clone(),
        seed: seed.unwrap_or(defaults.seed),
        ..defaults
    };
    let findings = fresh::run(&settings, &mut |progress| tracing::info!("{progress}"))?;
    line(format_args!(
        "written  {0}/fresh.csv {0}/fresh-runs.csv {0}/fresh.svg",
        folder.display()
    ));
    let hold = all_hold(&findings.claims);
    findings
        .lines
        .iter()
        .for_each(|found| line(format_args!("fresh    {found}")));
    Ok(hold)
}

/// Runs the experiment on the order of a crawl. Returns whether all claims hold.
fn run_order(what: OrderOfCrawl) -> anyhow::Result<bool> {
    let OrderOfCrawl {
        hosts,
        links_min,
        links_max,
        locality,
        seed,
        ..
    } = what;
    let pages_per_host = match what.heavy_tail {
        true => PagesPerHost::HeavyTail { mean: what.pages },
        false => PagesPerHost::Exactly(what.pages),
    };
    let profile = Profile {
        seed,
        hosts,
        pages_per_host,
        links_min,
        links_max,
        locality,
        ..Profile::raw()
    };
    let seeds_everywhere = what.seeds_everywhere;
    let connections = what.connections;
    let settings = order::Settings {
        profile,
        seeds_everywhere,
        connections,
        folder: what.out,
    };
    let findings = order::run(&settings, &mut |progress| tracing::info!("{progress}"))?;
    line(format_args!(
        "written  {0}/order.csv {0}/order-curves.csv {0}/order.svg",
        settings.folder.display()
    ));
    let hold = all_hold(&findings.claims);
    findings
        .lines
        .iter()
        .for_each(|found| line(format_args!("order    {found}")));
    Ok(hold)
}

/// Runs the experiment on partitions. Returns whether all claims hold.
fn run_partitions(folder: PathBuf, seed: Option<u64>) -> anyhow::Result<bool> {
    let defaults = partitions::Settings::default();
    let settings = partitions::Settings {
        folder: folder.clone(),
        seed: seed.unwrap_or(defaults.seed),
        ..defaults
    };
    let claims = partitions::run(&settings, &mut |progress| tracing::info!("{progress}"))?;
    let folder = folder.display();
    line(format_args!(
        "written  {folder}/partitions-scaling.csv {folder}/partitions-growth.csv \
         {folder}/partitions.svg"
    ));
    Ok(all_hold(&claims))
}

/// Runs the experiment on scheduling. Returns whether all claims hold.
fn run_scheduling(folder: PathBuf, seed: Option<u64>) -> anyhow::Result<bool> {
    let defaults = scheduling::Settings::default();
    let settings = scheduling::Settings {
        folder: folder.clone(),
        seed: seed.unwrap_or(defaults.seed),
        ..defaults
    };
    let findings = scheduling::run(&settings, &mut |progress| tracing::info!("{progress}"))?;
    line(format_args!(
        "written  {0}/scheduling.csv {0}/scheduling-runs.csv {0}/scheduling.svg",
        folder.display()
    ));
    let hold = all_hold(&findings.claims);
    findings
        .throughput
        .iter()
        .for_each(|throughput| line(format_args!("pages/s  {throughput}")));
    findings
        .sensitivity
        .iter()
        .for_each(|sensitivity| line(format_args!("varied   {sensitivity}")));
    findings
        .defaults
        .iter()
        .for_each(|default| line(format_args!("default  {default}")));
    findings
        .order_lost
        .iter()
        .for_each(|order_lost| line(format_args!("order    {order_lost}")));
    Ok(hold)
}

/// Searches for the conditions of the claims on scheduling that fail. It judges nothing.
fn search_scheduling(folder: PathBuf, seed: Option<u64>) -> anyhow::Result<bool> {
    let defaults = scheduling::Settings::default();
    let settings = scheduling::Settings {
        folder: folder.clone(),
        seed: seed.unwrap_or(defaults.seed),
        ..defaults
    };
    let lines = scheduling::search::run(&settings, &mut |progress| tracing::info!("{progress}"))?;
    line(format_args!(
        "written  {}/scheduling-search.csv",
        folder.display()
    ));
    lines
        .iter()
        .for_each(|found| line(format_args!("search   {found}")));
    Ok(true)
}

/// Runs the experiment on topics. Returns whether all claims hold.
fn run_topics(folder: PathBuf, seed: Option<u64>) -> anyhow::Result<bool> {
    let defaults = topics::Settings::default();
    let settings = topics::Settings {
        folder: folder.clone(),
        seed: seed.unwrap_or(defaults.seed),
        ..defaults
    };
    let findings = topics::run(&settings, &mut |progress| tracing::info!("{progress}"))?;
    line(format_args!(
        "written  {0}/topics.csv {0}/topics.svg",
        folder.display()
    ));
    let hold = all_hold(&findings.claims);
    findings
        .lines
        .iter()
        .for_each(|found| line(format_args!("webs     {found}")));
    Ok(hold)
}

/// Runs the experiment on URL caches. Returns whether all claims hold.
fn run_url_cache(folder: PathBuf, trace: Option<PathBuf>) -> anyhow::Result<bool> {
    let settings = url_cache::Settings {
        folder: folder.clone(),
        trace,
        ..url_cache::Settings::default()
    };
    let claims = url_cache::run(&settings, &mut |progress| tracing::info!("{progress}"))?;
    line(format_args!(
        "written  {0}/url-cache.csv {0}/url-cache.svg",
        folder.display()
    ));
    Ok(all_hold(&claims))
}

/// Prints each claim with what was found. Returns whether all claims hold.
fn all_hold(claims: &[Claim]) -> bool {
    claims.iter().for_each(line);
    claims.iter().all(|claim| claim.holds)
}

//! Bench: rounds of the pipeline and of the loop it is compared with.
//!
//! In: a [`World`]. Out: CPU time, throughput and memory per round, and their medians.

pub mod checkpoints;
pub mod frontier;
pub mod known_urls;
pub mod moves;
mod process;
pub mod slow_dns;
pub mod url_cache;
pub mod url_seen;

use crate::harness::{Running, World};
use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use synthetic_web::Report;

/// How long a crawl of a round may take.
const ROUND_AT_MOST: Duration = Duration::from_secs(600);

/// One process, or all instances of a stage, in a round.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// Stage, `broker` or `rhumb` (the supervisor, with starts and ends of processes).
    pub name: String,
    /// CPU milliseconds per page, user and system.
    pub cpu_ms_per_page: f64,
    /// Largest resident memory in bytes; 0 where not known.
    pub peak_rss_bytes: u64,
}

/// One round of one contender.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// Pages fetched.
    pub pages: u64,
    /// From the first request that the web saw to the last.
    pub pages_per_s: f64,
    /// From start to end of the program, in seconds.
    pub whole_s: f64,
    /// CPU milliseconds per page of all processes.
    pub cpu_ms_per_page: f64,
    /// Largest resident memories of all processes, added, in bytes.
    pub peak_rss_bytes: u64,
    /// What it is made of.
    pub parts: Vec<Part>,
}

impl Round {
    /// Medians of all numbers; none of no rounds.
    pub fn median(rounds: &[Round]) -> Option<Round> {
        let first = rounds.first()?;
        let of = |number: &dyn Fn(&Round) -> f64| median(rounds.iter().map(number).collect());
        let part = |part: &Part| {
            let same = |number: fn(&Part) -> f64| {
                median(
                    rounds.iter().flat_map(|round| &round.parts).filter(|p| p.name == part.name).map(number).collect(),
                )
            };
            Part {
                name: part.name.clone(),
                cpu_ms_per_page: same(|p| p.cpu_ms_per_page),
                peak_rss_bytes: same(|p| p.peak_rss_bytes as f64) as u64,
            }
        };
        Some(Round {
            pages: of(&|r| r.pages as f64) as u64,
            pages_per_s: of(&|r| r.pages_per_s),
            whole_s: of(&|r| r.whole_s),
            cpu_ms_per_page: of(&|r| r.cpu_ms_per_page),
            peak_rss_bytes: of(&|r| r.peak_rss_bytes as f64) as u64,
            parts: first.parts.iter().map(part).collect(),
        })
    }
}

/// The median of some numbers; 0 of none.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

/// CPU seconds of all processes that this one started and that have ended, theirs included.
fn cpu_of_ended_processes() -> anyhow::Result<f64> {
    Ok(shared::process::cpu_time(std::process::id()).context("no CPU time in /proc")?.ended_children_s)
}

/// Crawls the world from its first page.
///
/// # Errors
/// When the crawl is not perfect: only the same work compares.
pub fn crawl_round(world: &World, set: &[String]) -> anyhow::Result<Round> {
    world.web.reset();
    let cpu_before = cpu_of_ended_processes()?;
    let started = Instant::now();
    let crawl = set.iter().fold(world.crawl(), |crawl, assignment| crawl.set(assignment));
    let finished = crawl.run(ROUND_AT_MOST);
    let whole_s = started.elapsed().as_secs_f64();
    let cpu_s = cpu_of_ended_processes()? - cpu_before;
    let pages = check(&world.web.report())?;
    ensure!(finished.summary.complete && finished.summary.pages == pages, "the crawl was not complete");

    let mut stages: BTreeMap<&str, (f64, u64)> = BTreeMap::new();
    for process in &finished.summary.processes {
        let stage = stages.entry(&process.stage).or_default();
        stage.0 += process.cpu_s;
        stage.1 += process.peak_rss_bytes;
    }
    let per_page = |cpu_s: f64| cpu_s * 1e3 / pages as f64;
    let rest_s = cpu_s - stages.values().map(|(cpu_s, _)| cpu_s).sum::<f64>();
    let mut parts: Vec<Part> = stages
        .iter()
        .map(|(name, (cpu_s, peak_rss_bytes))| Part {
            name: (*name).to_owned(),
            cpu_ms_per_page: per_page(*cpu_s),
            peak_rss_bytes: *peak_rss_bytes,
        })
        .collect();
    parts.push(Part { name: "rhumb".into(), cpu_ms_per_page: per_page(rest_s), peak_rss_bytes: 0 });
    Ok(Round {
        pages,
        pages_per_s: pages as f64 / world.web.report().elapsed_s,
        whole_s,
        cpu_ms_per_page: per_page(cpu_s),
        peak_rss_bytes: parts.iter().map(|part| part.peak_rss_bytes).sum(),
        parts,
    })
}

/// Fetches the pages of the world by a list, in a process of its own (this program again).
///
/// # Errors
/// When the program cannot be run or a page is missing.
pub fn known_urls_round(world: &World) -> anyhow::Result<Round> {
    world.web.reset();
    let cpu_before = cpu_of_ended_processes()?;
    let started = Instant::now();
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--known-urls")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start this program again")?;
    let mut list = String::new();
    for host in 0..world.web.seed_urls().len() as u32 {
        list.push_str(&format!("{} {}\n", world.web.host_name(host), world.web.host_address(host)));
    }
    for url in world.web.truth().pages {
        list.push_str(&url);
        list.push('\n');
    }
    child.stdin.take().context("no pipe")?.write_all(list.as_bytes())?;
    let output = child.wait_with_output()?;
    let whole_s = started.elapsed().as_secs_f64();
    let cpu_s = cpu_of_ended_processes()? - cpu_before;
    let fetched: known_urls::Fetched = serde_json::from_slice(&output.stdout).context("the loop said nothing")?;
    let report = world.web.report();
    ensure!(report.missing.count == 0, "the loop missed {} pages", report.missing.count);
    Ok(Round {
        pages: fetched.pages,
        pages_per_s: fetched.pages as f64 / report.elapsed_s,
        whole_s,
        cpu_ms_per_page: cpu_s * 1e3 / fetched.pages as f64,
        peak_rss_bytes: fetched.peak_rss_bytes,
        parts: Vec::new(),
    })
}

fn check(report: &Report) -> anyhow::Result<u64> {
    ensure!(report.ok, "the crawl was not perfect: {}", serde_json::to_string(report)?);
    Ok(report.pages.expected)
}

/// How throughput grows with fetchers.
#[derive(Clone, Debug, Serialize)]
pub struct Scaled {
    /// Length of the measured windows, in seconds.
    pub window_s: u64,
    /// With one fetcher.
    pub one_pages_per_s: f64,
    /// With four.
    pub four_pages_per_s: f64,
    /// Four to one.
    pub ratio: f64,
}

const WINDOW: Duration = Duration::from_secs(15);
/// Until throughput is steady: found hosts are many, and fetchers that came or went have settled.
const SETTLE: Duration = Duration::from_secs(6);

/// Crawls a slow world with one and then with four fetchers of 64 connections.
///
/// # Errors
/// When a command fails or politeness is broken.
pub fn scaling(world: &World, set: &[String]) -> anyhow::Result<Scaled> {
    let crawl = world.bare("crawl").arguments(&world.web.seed_urls()).set("stages.fetcher.connections=64");
    let mut crawl = set.iter().fold(crawl, |crawl, assignment| crawl.set(assignment)).start();
    crawl.until(Duration::from_secs(60), |summary| summary.pages > 500);
    let one_pages_per_s = throughput(world)?;
    let said = crawl.rhumb(&["scale", "fetcher=4"]);
    ensure!(said.code == 0, "rhumb scale: {}", said.err);
    let four_pages_per_s = throughput(world)?;
    end(crawl);
    let violations = world.web.report().violations;
    ensure!(violations.parallel + violations.robots == 0, "{violations:?}");
    let ratio = four_pages_per_s / one_pages_per_s;
    Ok(Scaled { window_s: WINDOW.as_secs(), one_pages_per_s, four_pages_per_s, ratio })
}

fn throughput(world: &World) -> anyhow::Result<f64> {
    std::thread::sleep(SETTLE);
    let started = Instant::now();
    let before = world.web.report().pages.requested;
    std::thread::sleep(WINDOW);
    let fetched = world.web.report().pages.requested - before;
    Ok(fetched as f64 / started.elapsed().as_secs_f64())
}

fn end(mut crawl: Running) {
    crawl.signal(Signal::INT);
    crawl.exit_code(Duration::from_secs(60));
}

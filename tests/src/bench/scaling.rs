//! Scaling: how throughput grows with fetchers, on a web that answers slowly.
//!
//! In: a world. Out: pages a second with one fetcher and with four.

use crate::harness::{Running, World};
use anyhow::ensure;
use rustix::process::Signal;
use serde::Serialize;
use std::time::{Duration, Instant};

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
pub fn measure(world: &World, set: &[String]) -> anyhow::Result<Scaled> {
    let crawl = world
        .bare("crawl")
        .arguments(&world.web.seed_urls())
        .set("stages.fetcher.connections=64");
    let mut crawl = set
        .iter()
        .fold(crawl, |crawl, assignment| crawl.set(assignment))
        .start();
    crawl.until(Duration::from_secs(60), |summary| summary.pages > 500);
    let one_pages_per_s = throughput(world)?;
    let said = crawl.rhumb(&["scale", "fetcher=4"]);
    ensure!(said.code == 0, "rhumb scale: {}", said.err);
    let four_pages_per_s = throughput(world)?;
    end(crawl);
    let violations = world.web.report().violations;
    ensure!(
        violations.parallel + violations.robots == 0,
        "{violations:?}"
    );
    let ratio = four_pages_per_s / one_pages_per_s;
    Ok(Scaled {
        window_s: WINDOW.as_secs(),
        one_pages_per_s,
        four_pages_per_s,
        ratio,
    })
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

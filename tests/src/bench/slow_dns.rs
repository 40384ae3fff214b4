//! Slow DNS: what a name server that takes long costs a crawl whose names are asked for when they
//! are found.
//!
//! In: a [`World`] with or without DNS latency. Out: requests a second (all but one a host are
//! pages) and CPU time per request of a crawl of all its hosts, from a few seconds after the first
//! request to the last one: before that, no name is known to anybody.

use crate::bench::turns::ROUND_AT_MOST;
use crate::harness::World;
use anyhow::{Context as _, ensure};
use rhumb::status::Summary;
use serde::Serialize;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// After the first request, what is not counted.
const FIRST: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(5);

/// A crawl after its first seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Steady {
    /// Requests in that time.
    pub requests: usize,
    /// A second.
    pub requests_per_s: f64,
    /// CPU milliseconds per request, of the stages and the broker.
    pub cpu_ms_per_request: f64,
    /// Of the whole crawl, from its first request to its last.
    pub whole_requests_per_s: f64,
}

/// Crawls the world from its first page.
///
/// # Errors
/// When the crawl is not perfect, or ends too early.
pub fn measure(world: &World, set: &[String]) -> anyhow::Result<Steady> {
    let started = Instant::now();
    let crawl = set
        .iter()
        .fold(world.crawl(), |crawl, assignment| crawl.set(assignment))
        .start();
    while world.web.report().pages.requested == 0 {
        ensure!(started.elapsed() < ROUND_AT_MOST, "no request came");
        sleep(POLL);
    }
    sleep(FIRST);
    let cpu_before = cpu_s(&crawl.status().context("the crawl cannot be asked")?);
    let (before, at_before) = progress(world)?;
    let finished = crawl.finish(ROUND_AT_MOST);
    let report = world.web.report();
    ensure!(
        report.ok && finished.summary.complete,
        "the crawl was not perfect: {}",
        serde_json::to_string(&report)?
    );
    let (after, at_after) = progress(world)?;
    let requests = after - before;
    ensure!(
        requests > after / 4,
        "only {requests} of {after} requests came after the first seconds"
    );
    Ok(Steady {
        requests,
        requests_per_s: requests as f64 / at_after.saturating_sub(at_before).as_secs_f64(),
        cpu_ms_per_request: (cpu_s(&finished.summary) - cpu_before) * 1e3 / requests as f64,
        whole_requests_per_s: after as f64 / report.elapsed_s,
    })
}

/// Requests so far, and when the last one came.
fn progress(world: &World) -> anyhow::Result<(usize, Duration)> {
    let contacts = world.web.contacts();
    let last = contacts
        .iter()
        .map(|contact| contact.at)
        .max()
        .context("no request came")?;
    Ok((contacts.len(), last))
}

fn cpu_s(summary: &Summary) -> f64 {
    summary.processes.iter().map(|process| process.cpu_s).sum()
}

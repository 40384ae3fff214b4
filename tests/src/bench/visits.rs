//! Visits: what a later visit of a page costs, by what it finds.
//!
//! In: keys of the crawl. Out: the processor time of all processes for a visit that brings another
//! body, one that brings the body of before, and one that is answered 304, on the modern web. Each
//! is that of a crawl of a web of its own, whose pages all change all the time, or never, after all
//! first visits.

use crate::harness::{Running, World};
use anyhow::{Context as _, ensure};
use rhumb::status::Summary;
use rustix::process::Signal;
use serde::Serialize;
use std::time::Duration;
use synthetic_web::{Change, PagesPerHost, Profile, ValidatorShares};

const HOSTS: u32 = 40;
const PAGES: u32 = 25;
/// Visits that are counted: six of each page, in the mean.
const VISITS: u64 = 6 * (HOSTS * PAGES) as u64;
/// More visits a second than any machine makes.
const RATE: u32 = 20_000;
/// How long a crawl may take to have them.
const WITHIN: Duration = Duration::from_secs(180);
/// How long the processes may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Processor time of a visit, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Costs {
    /// It brings another body.
    pub changed: f64,
    /// It brings the body of before.
    pub unchanged: f64,
    /// It is answered 304, but for one in sixteen, which asks without validators.
    pub not_modified: f64,
}

/// Crawls three webs, one after the other.
///
/// # Errors
/// The visits did not come in time, or found something else.
pub fn measure(set: &[String]) -> anyhow::Result<Costs> {
    let none = ValidatorShares {
        tags: 0.0,
        dates: 0.0,
        ..ValidatorShares::RIGHT
    };
    let often = Change {
        sigma: 0.0,
        never: 0.0,
        validators: none,
        ..Change::new(Duration::from_millis(50))
    };
    let never = Change {
        never: 1.0,
        ..often
    };
    let tagged = Change {
        validators: ValidatorShares::RIGHT,
        ..never
    };
    Ok(Costs {
        changed: cost(often, "changed", set)?,
        unchanged: cost(never, "unchanged", set)?,
        not_modified: cost(tagged, "unchanged", set)?,
    })
}

/// The cost of a visit of a page that changes so.
fn cost(change: Change, finds: &str, set: &[String]) -> anyhow::Result<f64> {
    let world = World::alone(Profile {
        hosts: HOSTS,
        pages_per_host: PagesPerHost::Exactly(PAGES),
        change: Some(change),
        ..Profile::modern()
    });
    let crawl = world
        .crawl()
        .set("recrawl.policy=uniform")
        .set(&format!("recrawl.requests_per_second={RATE}"))
        .set("recrawl.interval_min=1s");
    let crawl = set
        .iter()
        .fold(crawl, |crawl, assignment| crawl.set(assignment));
    let mut crawl = crawl.start();
    let before = until(&mut crawl, |summary| {
        let recrawl = summary.recrawl.as_ref();
        recrawl.is_some_and(|recrawl| recrawl.first_visits_done)
    });
    let after = until(&mut crawl, |summary| {
        visits(summary) >= visits(&before) + VISITS
    });
    crawl.signal(Signal::TERM);
    crawl.exit_code(ENDS_WITHIN);
    let more = visits(&after) - visits(&before);
    let found = |summary: &Summary| {
        let recrawl = summary.recrawl.as_ref()?;
        recrawl.visits.get(finds).copied()
    };
    let as_expected = found(&after).context("no page is known")?;
    ensure!(
        as_expected * 100 > visits(&after) * 95,
        "{as_expected} of {} visits are {finds}",
        visits(&after)
    );
    Ok(1e3 * (cpu_s(&after) - cpu_s(&before)) / more as f64)
}

fn until(crawl: &mut Running, holds: impl Fn(&Summary) -> bool) -> Summary {
    crawl.until(WITHIN, holds)
}

fn visits(summary: &Summary) -> u64 {
    let recrawl = summary.recrawl.iter();
    recrawl.flat_map(|recrawl| recrawl.visits.values()).sum()
}

/// Processor time of all processes and the broker.
fn cpu_s(summary: &Summary) -> f64 {
    summary.processes.iter().map(|process| process.cpu_s).sum()
}

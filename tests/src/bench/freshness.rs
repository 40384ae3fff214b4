//! Freshness: how current a crawl keeps its copy of pages that change, on the way from visits in
//! turn to the best plan.
//!
//! In: a seed, and keys of the crawl. Out: what the web saw in the last 90 of 150 seconds of a
//! crawl that begins with nothing: 40 hosts of 50 pages and 400 requests a second, so that the
//! median page changes once in the time between two visits in turn. Half of the hosts say when a
//! page changed last. The web knows which version it served last, and what each plan of as many
//! visits would come to.

use crate::harness::World;
use anyhow::Context as _;
use rustix::process::Signal;
use std::ops::Range;
use std::time::Duration;
use synthetic_web::{Change, Freshness, PagesPerHost, Profile, ValidatorShares};

const HOSTS: u32 = 40;
const PAGES: u32 = 50;
/// Visits a second.
const RATE: u32 = 400;
/// The time that is judged, since the start of the web.
const JUDGED: Range<Duration> = Duration::from_secs(60)..Duration::from_secs(150);
/// How long the processes may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Crawls the web of a seed.
///
/// # Errors
/// No page changed.
pub fn measure(seed: u64, set: &[String]) -> anyhow::Result<Freshness> {
    let world = World::alone(Profile {
        seed,
        hosts: HOSTS,
        pages_per_host: PagesPerHost::Exactly(PAGES),
        change: Some(Change {
            validators: ValidatorShares {
                dates: 0.5,
                ..ValidatorShares::RIGHT
            },
            ..Change::new(Duration::from_secs((HOSTS * PAGES / RATE).into()))
        }),
        ..Profile::raw()
    });
    let crawl = world
        .crawl()
        .set("recrawl.policy=fresh")
        .set(&format!("recrawl.requests_per_second={RATE}"))
        .set("recrawl.interval_min=1s");
    let crawl = set
        .iter()
        .fold(crawl, |crawl, assignment| crawl.set(assignment));
    let mut crawl = crawl.start();
    std::thread::sleep(JUDGED.end.saturating_sub(world.web.began().elapsed()));
    let fresh = world.web.freshness(JUDGED.start, JUDGED.end);
    crawl.signal(Signal::TERM);
    crawl.exit_code(ENDS_WITHIN);
    fresh.context("no page of the web changes")
}

//! Outages: nobody dies, but for a while something cannot be reached; what was done meanwhile is neither lost nor done
//! again, and nothing is held against those who had no part in it.

use rhumb_tests::harness::{Crawl, Running, World, json, signal};
use rustix::process::Signal;
use std::time::Duration;
use synthetic_web::{Latency, PagesPerHost, Profile};

const HOSTS: u64 = 25;
const PAGES_PER_HOST: u64 = 50;
const CRAWL_AT_MOST: Duration = Duration::from_secs(90);
/// Longer than a job's lease with its grace, which is six seconds here.
const DEAF: Duration = Duration::from_secs(9);

#[test]
fn what_was_fetched_while_the_broker_was_away_is_not_fetched_again() {
    loses_and_repeats_nothing_while_it_is_stopped("broker");
}

#[test]
fn what_was_fetched_while_the_scheduler_stood_still_is_not_fetched_again() {
    loses_and_repeats_nothing_while_it_is_stopped("scheduler");
}

/// Goal: time in which the scheduler cannot hear does not count against the jobs that are out. Method: a process is
/// stopped for longer than their leases last.
fn loses_and_repeats_nothing_while_it_is_stopped(name: &str) {
    let world = World::new(Profile {
        hosts: HOSTS as u32,
        pages_per_host: PagesPerHost::Exactly(PAGES_PER_HOST as u32),
        latency: Latency::Fixed { ms: 150 },
        ..Profile::raw()
    });
    let mut crawl = with_short_leases(world.crawl()).start();
    until_share(&mut crawl, 1, 3);
    let pid = crawl.pid(name);
    signal(pid, Signal::STOP);
    std::thread::sleep(DEAF);
    signal(pid, Signal::CONT);
    let finished = crawl.finish(CRAWL_AT_MOST);
    world.assert_counted(&finished);
    let report = world.web.report();
    assert!(report.repeats.count <= HOSTS, "at most one request a connection: {}", json(&report));
    assert_eq!(finished.summary.restarts, 0, "{}", json(&finished.summary));
}

fn with_short_leases(crawl: Crawl) -> Crawl {
    crawl
        .set("ownership_lease=2s")
        .set("stages.scheduler.job_lease=4s")
        .set("stages.fetcher.renew_every=1s")
}

fn until_share(crawl: &mut Running, part: u64, of: u64) {
    let pages = HOSTS * PAGES_PER_HOST * part / of;
    let summary = crawl.until(CRAWL_AT_MOST, |summary| summary.pages >= pages);
    assert!(!summary.complete, "too late to be a test: {}", json(&summary));
}

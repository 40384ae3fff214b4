//! Delivery: what a crawl does when a consumer stands still.

use rhumb::status::{ProcessWork, Summary};
use rhumb_tests::harness::{World, json, signal};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use synthetic_web::{PagesPerHost, Profile};

const CRAWL_AT_MOST: Duration = Duration::from_secs(60);

/// What a stage of a crawl is doing.
fn work_of<'a>(summary: &'a Summary, stage: &str) -> Option<&'a ProcessWork> {
    summary.processes.iter().find(|process| process.stage == stage)?.work.as_ref()
}

/// Goal: back-pressure is seen, and is no failure. Method: the archiver stands still for longer than a publish may be
/// unanswered, and `pages` is small.
#[test]
fn a_consumer_that_stands_still_holds_its_publishers_back_and_all_stay_ready() {
    const STANDS_STILL: Duration = Duration::from_secs(12);
    let world = World::new(Profile { hosts: 20, pages_per_host: PagesPerHost::Exactly(60), ..Profile::raw() });
    let settings = ["broker.max_payload=1MiB", "limits.body_bytes_max=256KiB", "edges.pages.bytes_max=2MiB"];
    let crawl = world.crawl().set("stages.archiver.replicas=1");
    let mut crawl = settings.into_iter().fold(crawl, |crawl, setting| crawl.set(setting)).start();
    crawl.until(CRAWL_AT_MOST, |summary| summary.pages > 0);
    let archiver = crawl.pid("archiver");
    let since = Instant::now();
    signal(archiver, Signal::STOP);
    let is_held_back = |summary: &Summary| {
        let share = work_of(summary, "fetcher").and_then(|work| work.shares.held_back.get("pages"));
        share.is_some_and(|share| *share > 0.5)
    };
    let held_back = crawl.until(CRAWL_AT_MOST, |summary| since.elapsed() > STANDS_STILL && is_held_back(summary));
    let text = crawl.rhumb(&["status"]).out;
    signal(archiver, Signal::CONT);
    assert!(text.contains("held back by pages"), "{text}");
    for process in held_back.processes.iter().filter(|process| process.stage != "broker") {
        let work = process.work.as_ref().expect("a stage tells what it does");
        let sum = work.shares.busy + work.shares.waiting + work.shares.held_back.values().sum::<f64>();
        assert!(work.ready && (0.99..1.01).contains(&sum), "{}", json(process));
    }
    for stage in ["parser", "fetcher", "scheduler", "dedup", "resolver", "host-splitter"] {
        assert!(work_of(&held_back, stage).is_some(), "{stage}: {}", json(&held_back));
    }
    let log = std::fs::read_to_string(crawl.data().with_file_name("rhumb.log")).expect("the log");
    assert!(!log.contains("is full"), "{log}");
    world.assert_whole(&crawl.finish(CRAWL_AT_MOST));
}

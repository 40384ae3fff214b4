//! Processes that fall silent: what a crawl says of itself keeps their share, says whose it is and
//! how old, and never goes back.

use rhumb::status::Summary;
use rhumb_tests::harness::{Running, World, assert_conserved, json, signal};
use rustix::process::Signal;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use synthetic_web::{Latency, PagesPerHost, Profile};

const MINUTE: Duration = Duration::from_secs(60);

fn world(hosts: u32, pages: u32) -> World {
    World::new(Profile {
        hosts,
        pages_per_host: PagesPerHost::Exactly(pages),
        latency: Latency::Fixed { ms: 60 },
        ..Profile::raw()
    })
}

/// What only grows in the life of a crawl.
fn sums(of: &Summary) -> Vec<u64> {
    let Summary {
        pages,
        bytes,
        urls_found,
        urls_filtered,
        urls_repeated,
        urls_new,
        refetched,
        ..
    } = of;
    let sums = [
        pages,
        bytes,
        urls_found,
        urls_filtered,
        urls_repeated,
        urls_new,
        refetched,
    ];
    sums.into_iter()
        .chain(of.outcomes.values())
        .copied()
        .collect()
}

fn assert_never_falls(told: &[Summary]) {
    for pair in told.windows(2) {
        let falls = sums(&pair[0])
            .iter()
            .zip(sums(&pair[1]))
            .any(|(before, after)| after < *before);
        assert!(
            !falls,
            "a sum has fallen from\n{}\nto\n{}",
            json(&pair[0]),
            json(&pair[1])
        );
    }
}

/// Asks a crawl again and again how it stands while something is done to it. Gives all that it
/// told, and what was done.
fn told_while<T>(crawl: &Running, does: impl FnOnce() -> T) -> (Vec<Summary>, T) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut told = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                told.extend(crawl.status());
            }
            told
        });
        let done = panic::catch_unwind(AssertUnwindSafe(does));
        is_over.store(true, Ordering::Relaxed);
        let told = asking.join().expect("it is asked");
        (
            told,
            done.unwrap_or_else(|failure| panic::resume_unwind(failure)),
        )
    })
}

/// The process of an instance.
fn pid(crawl: &Running, stage: &str, instance: u16) -> u32 {
    let status = crawl.status().expect("it answers");
    let process = status
        .processes
        .iter()
        .find(|process| process.stage == stage && process.instance == instance);
    process.expect("it runs").pid
}

/// Goal: the share of a process that stands still counts on, and `status` says whose it is and how
/// old, in all its forms. Method: one of two dedups is stopped for longer than a look waits.
#[test]
fn the_share_of_a_dedup_that_stands_still_counts_on_and_is_named_with_its_age() {
    let world = world(40, 120);
    let mut crawl = world
        .crawl()
        .set("stages.dedup.replicas=2")
        .set("stages.fetcher.connections=12")
        .start();
    crawl.until(MINUTE, |summary| summary.pages > 150);
    let before = crawl.status().expect("it answers");
    assert!(before.silent.is_empty(), "{}", json(&before));
    let dedup = pid(&crawl, "dedup", 1);
    signal(dedup, Signal::STOP);
    let (told, texts) = told_while(&crawl, || {
        thread::sleep(Duration::from_secs(6));
        [&["status"][..], &["status", "--check"]].map(|arguments| crawl.rhumb(arguments))
    });
    signal(dedup, Signal::CONT);
    assert!(
        !crawl.has_ended() && told.len() > 2,
        "too late to be a test"
    );
    assert_never_falls(&[vec![before], told.clone()].concat());
    let last = told.last().expect("it was asked");
    let silent = last.silent.first().expect("one is silent");
    assert_eq!((silent.stage.as_str(), silent.instance), ("dedup", 1));
    assert!(
        silent
            .age_s
            .is_some_and(|age_s| (2.0..20.0).contains(&age_s)),
        "{}",
        json(last)
    );
    assert!(
        !last
            .processes
            .iter()
            .any(|of| of.stage == "dedup" && of.instance == 1),
        "it does not answer"
    );
    let line = texts[0]
        .out
        .lines()
        .find(|line| line.starts_with("silent "))
        .expect("a line");
    assert!(
        line.contains("dedup.1 has not answered for ")
            && line.ends_with("its last known numbers count"),
        "{line}"
    );
    assert!(
        texts[1].code == 1 && texts[1].err.contains("cannot be checked"),
        "{}",
        texts[1].err
    );
    crawl.until(MINUTE, |summary| summary.silent.is_empty());
    let finished = crawl.finish(2 * MINUTE);
    world.assert_counted(&finished);
    assert_conserved(&finished.summary);
    assert!(finished.summary.silent.is_empty());
}

/// Goal: no sum falls, whoever is killed and however soon it is asked, and none is counted twice
/// when it is back; nor while partitions move; nor while the crawl ends. Method: a crawl with one
/// dedup and one scheduler, asked all the time.
#[test]
fn no_sum_falls_while_processes_are_killed_partitions_move_and_the_crawl_ends() {
    let world = world(60, 200);
    let mut crawl = world
        .crawl()
        .set("ownership_lease=3s")
        .set("stages.fetcher.connections=10")
        .set("politeness.delay=1ms")
        .start();
    crawl.until(MINUTE, |summary| summary.pages > 200);
    let pids = ["dedup", "scheduler"].map(|stage| (stage, pid(&crawl, stage, 0)));
    let (mut told, ()) = told_while(&crawl, || {
        for (stage, killed) in pids {
            signal(killed, Signal::KILL);
            let end = Instant::now() + MINUTE;
            while crawl.pids(stage).iter().all(|pid| *pid == killed) {
                assert!(Instant::now() < end, "no new {stage}:\n{}", crawl.log());
                thread::sleep(Duration::from_millis(100));
            }
            thread::sleep(Duration::from_secs(5));
        }
        for replicas in ["3", "1"] {
            let scaled = crawl.rhumb(&[
                "scale",
                &format!("dedup={replicas}"),
                &format!("scheduler={replicas}"),
            ]);
            assert_eq!(scaled.code, 0, "{}", scaled.err);
        }
    });
    assert!(!crawl.has_ended(), "the crawl was too short");
    assert!(
        told.iter().any(|summary| !summary.silent.is_empty()),
        "a process that was killed is silent for a while"
    );
    let end = Instant::now() + 4 * MINUTE;
    while !crawl.has_ended() {
        assert!(Instant::now() < end, "it does not end:\n{}", crawl.log());
        told.extend(crawl.status());
    }
    assert_never_falls(&told);
    let finished = crawl.finish(MINUTE);
    told.push(finished.summary.clone());
    assert_never_falls(&told);
    assert_conserved(&finished.summary);
}

//! Machines come and go while a crawl runs: one joins with a data directory of its own and takes
//! all over, the first is emptied, the other dies, and what lay with it is brought back from a
//! copy. One that is told to end gives its partitions away if it is no longer wanted, and keeps
//! them otherwise.

use rhumb_tests::harness::{Cluster, Further, Running, Said, World, assert_conserved, signal};
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};
use synthetic_web::{Latency, PagesPerHost, Profile};

const MINUTE: Duration = Duration::from_secs(60);
/// `moves.sigterm_wait`.
const WAIT: Duration = Duration::from_secs(5);
const STATEFUL: [&str; 2] = ["dedup", "scheduler"];

/// How many partitions an instance of a stage has, by the table of owners.
fn partitions(crawl: &Running, stage: &str, instance: u64) -> usize {
    let said = crawl.rhumb(&["partitions", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let lines = said
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    lines
        .filter(|line| line["stage"] == stage && line["owner"] == instance)
        .count()
}

fn ok(crawl: &Running, arguments: &[&str]) -> String {
    let Said { code, out, err } = crawl.rhumb(arguments);
    assert_eq!(code, 0, "{arguments:?}: {out}{err}\n{}", crawl.log());
    out
}

/// A command is refused as a bad argument, in words.
fn refused(crawl: &Running, arguments: &[&str], words: &str) {
    let Said { code, out, err } = crawl.rhumb(arguments);
    assert!(
        code == 2 && err.contains(words),
        "{arguments:?}: {code} {out}{err}"
    );
}

/// Waits until a crawl has so many processes of a stage here.
fn until_processes(crawl: &Running, stage: &str, n: usize) {
    let end = Instant::now() + MINUTE / 2;
    while crawl.pids(stage).len() != n {
        assert!(
            Instant::now() < end,
            "{stage}: {:?}\n{}",
            crawl.pids(stage),
            crawl.log()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// One instance of each stage is to have what lies in a copy: the command that asks for it waits
/// until it was adopted.
fn adopt(crawl: &Running, copy: &str) {
    std::thread::scope(|scope| {
        let scaling = scope.spawn(|| crawl.rhumb(&["scale", "dedup=1", "scheduler=1"]));
        STATEFUL
            .iter()
            .for_each(|stage| until_processes(crawl, stage, 1));
        let said = ok(crawl, &["adopt", copy]);
        assert!(
            said.contains("dedup.1 has given all away") && said.contains("may be deleted"),
            "{said}"
        );
        let scaling = scaling.join().expect("a command");
        assert_eq!(scaling.code, 0, "{}{}", scaling.out, scaling.err);
    });
}

/// Empties the instances of a crawl here, and removes their folders.
fn empty(crawl: &Running) {
    let without = [
        "scale",
        "dedup=2",
        "scheduler=2",
        "--without",
        "dedup.0",
        "--without",
        "scheduler.0",
    ];
    let said = ok(crawl, &without);
    assert!(
        said.contains("dedup 2 → 1 (without 0): 32 partitions move"),
        "{said}"
    );
    for stage in STATEFUL {
        assert_eq!(partitions(crawl, stage, 1), 64, "{stage}");
        until_processes(crawl, stage, 0);
        std::fs::remove_dir_all(crawl.data().join(stage))
            .expect("the folder of an emptied instance");
    }
}

#[test]
fn a_machine_joins_takes_all_over_dies_and_its_state_is_adopted() {
    let world = World::new(Profile {
        hosts: 60,
        pages_per_host: PagesPerHost::Exactly(100),
        latency: Latency::Fixed { ms: 60 },
        ..Profile::raw()
    });
    let broker = Cluster::start(1, None);
    let on_broker = format!("broker.url={}", broker.url());
    let crawl = world
        .crawl()
        .set(&on_broker)
        .set("ownership_lease=2s")
        .set("stages.fetcher.connections=6");
    let mut crawl = crawl.start();
    crawl.until(MINUTE, |summary| summary.pages > 100);

    let folder = tempfile::tempdir().expect("a folder");
    let there = folder.path().join("there");
    let copy = folder.path().join("copy");
    let machine = STATEFUL.map(|stage| Further::join(stage, 1, &there, &crawl));
    ok(&crawl, &["scale", "dedup=2", "scheduler=2"]);
    for stage in STATEFUL {
        assert_eq!(
            (partitions(&crawl, stage, 0), partitions(&crawl, stage, 1)),
            (32, 32),
            "{stage}"
        );
        assert_eq!(crawl.pids(stage).len(), 1, "the other one runs elsewhere");
    }
    let elsewhere = crawl.status().expect("the crawl runs").elsewhere;
    assert!(
        elsewhere.len() == 2 && elsewhere[0].starts_with("dedup.1 is pid "),
        "{elsewhere:?}"
    );
    let there_text = there.display().to_string();
    let copy_text = copy.display().to_string();
    refused(&crawl, &["adopt", &there_text], "dedup.1 lives");

    refused(
        &crawl,
        &["scale", "dedup=1", "--without", "dedup.0"],
        "nobody would be left",
    );
    refused(
        &crawl,
        &["scale", "dedup=2", "--without", "fetcher.0"],
        "'fetcher.0' is no instance",
    );
    empty(&crawl);
    let so_far = crawl.status().map_or(0, |summary| summary.pages);
    crawl.until(MINUTE, |summary| summary.pages > so_far + 100);
    assert_eq!(crawl.violations(), [""; 0]);

    for mut instance in machine {
        instance.kill();
    }
    std::fs::rename(&there, &copy).expect("the disk of the other machine, elsewhere");
    refused(
        &crawl,
        &["adopt", &copy_text],
        "no other instance is to have the partitions of dedup",
    );
    refused(
        &crawl,
        &["adopt", &folder.path().display().to_string()],
        "nothing to adopt in",
    );
    refused(&crawl, &["adopt", &there_text], "cannot be read");
    assert!(!crawl.has_ended(), "the crawl was too short");
    adopt(&crawl, &copy_text);
    std::fs::remove_dir_all(&copy).expect("the copy");
    refused(
        &crawl,
        &["adopt", &crawl.data().display().to_string()],
        "of the running crawl itself",
    );
    for stage in STATEFUL {
        assert_eq!(
            (partitions(&crawl, stage, 0), crawl.pids(stage).len()),
            (64, 1),
            "{stage}"
        );
    }
    assert!(!crawl.has_ended(), "the crawl was too short");
    assert_eq!(crawl.violations(), [""; 0]);
    ok(&crawl, &["scale", "fetcher=4"]);
    let finished = crawl.finish(2 * MINUTE);
    world.assert_counted(&finished);
    assert_conserved(&finished.summary);
}

/// Goal: SIGTERM alone moves nothing; an instance that is no longer wanted when it comes, or soon
/// afterwards, gives all away before it ends; a second SIGTERM ends it at once; nothing is lost
/// (P3). Method: a second machine beside a crawl, whose instances are told to end, with and without
/// a `rhumb scale` at the same time.
#[test]
fn one_that_is_told_to_end_keeps_its_partitions_unless_it_is_no_longer_wanted() {
    let world = World::new(Profile {
        hosts: 60,
        pages_per_host: PagesPerHost::Exactly(100),
        latency: Latency::Fixed { ms: 60 },
        ..Profile::raw()
    });
    let crawl = world
        .crawl()
        .set("ownership_lease=2s")
        .set("stages.fetcher.connections=6");
    let mut crawl = crawl.start();
    crawl.until(MINUTE, |summary| summary.pages > 100);
    let folder = tempfile::tempdir().expect("a folder");
    let there = folder.path();
    let mut dedup = join("dedup", there, &crawl);
    let mut scheduler = join("scheduler", there, &crawl);
    ok(&crawl, &["scale", "dedup=2", "scheduler=2"]);

    // Both are wanted: they stop in place, when the wait is over or they are told again.
    let since = Instant::now();
    signal(dedup.pid(), Signal::TERM);
    signal(scheduler.pid(), Signal::TERM);
    assert_eq!(
        scheduler.ended_within(WAIT / 2),
        None,
        "it looks whether it is wanted"
    );
    assert_eq!(scheduler.stop(), 0);
    assert!(
        since.elapsed() < WAIT,
        "the second SIGTERM ends it at once: {:?}",
        since.elapsed()
    );
    assert_eq!(
        (dedup.ended(), since.elapsed() > WAIT),
        (0, true),
        "{:?}",
        since.elapsed()
    );
    assert!(
        since.elapsed() < WAIT + Duration::from_secs(2),
        "{:?}",
        since.elapsed()
    );
    for stage in STATEFUL {
        assert_eq!(
            (partitions(&crawl, stage, 0), partitions(&crawl, stage, 1)),
            (32, 32),
            "{stage}"
        );
    }

    // One is found to be unwanted while it waits, the other when it is told.
    (dedup, scheduler) = (
        join("dedup", there, &crawl),
        join("scheduler", there, &crawl),
    );
    signal(dedup.pid(), Signal::TERM);
    std::thread::scope(|scope| {
        let scaling = scope.spawn(|| ok(&crawl, &["scale", "dedup=1", "scheduler=1"]));
        let is_told = || {
            ok(&crawl, &["partitions", "--json"])
                .contains(r#""stage":"scheduler","state":"leaving""#)
        };
        let end = Instant::now() + MINUTE / 2;
        while !is_told() && partitions(&crawl, "scheduler", 1) > 0 {
            assert!(Instant::now() < end, "{}", crawl.log());
        }
        signal(scheduler.pid(), Signal::TERM);
        assert_eq!((dedup.ended(), scheduler.ended()), (0, 0));
        scaling.join().expect("a command");
    });
    for stage in STATEFUL {
        assert_eq!(
            (partitions(&crawl, stage, 0), partitions(&crawl, stage, 1)),
            (64, 0),
            "{stage}"
        );
    }
    // They are not missed.
    std::fs::remove_dir_all(there).expect("the folder of emptied instances");
    assert!(!crawl.has_ended(), "the crawl was too short");
    assert_eq!(crawl.violations(), [""; 0]);
    ok(&crawl, &["scale", "fetcher=4"]);
    let finished = crawl.finish(2 * MINUTE);
    world.assert_counted(&finished);
    assert_conserved(&finished.summary);
}

fn join(stage: &str, data: &Path, crawl: &Running) -> Further {
    Further::join(stage, 1, data, crawl)
}

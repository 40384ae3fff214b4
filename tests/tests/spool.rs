//! Spools: pages that lie in files of the machine while their messages wait (`broker.spool`).

use rhumb_tests::harness::{Running, World, json, signal};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use synthetic_web::{Latency, PagesPerHost, Profile};

const CRAWL_AT_MOST: Duration = Duration::from_secs(60);
/// Bytes of a page of [`world`], about.
const PAGE_BYTES: u64 = 17_000;
/// Pages that wait for a stage that stands still.
const WAITING: u64 = 50;

fn world() -> World {
    World::new(Profile {
        hosts: 20,
        pages_per_host: PagesPerHost::Exactly(40),
        latency: Latency::Fixed { ms: 100 },
        ..Profile::raw()
    })
}

/// The files of pages in a data directory; none when there is no folder.
fn files(data: &Path) -> Vec<PathBuf> {
    let files = data.join("spool/pages").read_dir().into_iter().flatten();
    files.map(|file| file.expect("a file").path()).collect()
}

fn bytes(files: &[PathBuf]) -> u64 {
    files
        .iter()
        .filter_map(|file| file.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

/// Waits until pages lie in files that came from now on, about [`WAITING`] of them.
fn until_more_wait(crawl: &Running) {
    let since = Instant::now();
    let before = bytes(&files(&crawl.data()));
    while bytes(&files(&crawl.data())) < before + WAITING * PAGE_BYTES {
        assert!(
            since.elapsed() < CRAWL_AT_MOST,
            "{:?}",
            files(&crawl.data())
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The bytes that the broker keeps in a folder, all streams together.
fn bytes_at_broker(data: &Path) -> u64 {
    let Ok(entries) = data.read_dir() else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_at_broker(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Goal: pages lie in files while a stage has not had them, a tap shows them whole, files go when
/// nobody waits for them, and with the last one their folder. Method: the archiver stands still for
/// a while. A delay gives the tap time to begin.
#[test]
fn pages_lie_in_files_until_every_stage_has_had_them() {
    let world = world();
    let mut crawl = world
        .crawl()
        .set("stages.archiver.replicas=1")
        .set("politeness.delay=500ms")
        .start();
    crawl.until(CRAWL_AT_MOST, |summary| summary.pages > 0);
    let tap = crawl.tap("pages");
    let archiver = crawl.pid("archiver");
    signal(archiver, Signal::STOP);
    until_more_wait(&crawl);
    let at_broker = bytes_at_broker(&crawl.data().join("jetstream"));
    signal(archiver, Signal::CONT);
    assert!(
        at_broker < WAITING * PAGE_BYTES,
        "{at_broker} bytes at the broker"
    );
    let data = crawl.data();
    world.assert_whole(&crawl.finish(CRAWL_AT_MOST));
    assert!(!data.join("spool").exists(), "{:?}", files(&data));
    let shown = tap.lines();
    let whole = shown
        .iter()
        .filter(|line| line.contains("\"status\":200"))
        .count() as u64;
    assert!(
        whole >= world.web.truth().pages.len() as u64 / 2,
        "{whole} of {}: {:?}",
        shown.len(),
        shown.first()
    );
}

/// Goal: pages whose file is gone go to the dead letters by name, and the crawl goes on. Method:
/// the parser stands still while a file is cut.
#[test]
fn pages_whose_file_is_damaged_go_to_the_dead_letters_and_the_crawl_goes_on() {
    let world = world();
    let mut crawl = world.up().start();
    crawl.until(CRAWL_AT_MOST, |summary| !summary.processes.is_empty());
    let said = crawl.rhumb(&["inject", &world.web.seed_urls()[0]]);
    assert_eq!(said.code, 0, "{}", said.err);
    crawl.until(CRAWL_AT_MOST, |summary| summary.pages > 0);
    let parser = crawl.pid("parser");
    signal(parser, Signal::STOP);
    until_more_wait(&crawl);
    // It would write on where it was, and what was cut would be zeros.
    let fetcher = crawl.pid("fetcher");
    signal(fetcher, Signal::STOP);
    for file in files(&crawl.data()) {
        let file = std::fs::File::options()
            .write(true)
            .open(file)
            .expect("a file");
        file.set_len(0).expect("a file that can be cut");
    }
    signal(parser, Signal::CONT);
    crawl.until(CRAWL_AT_MOST, |summary| summary.dead > 0);
    signal(fetcher, Signal::CONT);
    let letters = crawl.rhumb(&["dead", "--json"]).out;
    assert!(
        letters.contains("what it refers to is not in")
            && letters.contains("spool/pages/fetcher-0-"),
        "{letters}"
    );
    let summary = crawl.until(CRAWL_AT_MOST, |summary| summary.complete);
    assert!(summary.pages > WAITING, "{}", json(&summary));
    crawl.signal(Signal::INT);
    crawl.exit_code(CRAWL_AT_MOST);
}

/// Goal: a crawl that was stopped goes on with the pages in its files, also when it is told to have
/// no more of them. Method: everything is killed while the parser stands still.
#[test]
fn pages_in_files_outlive_all_processes_and_the_key() {
    let world = world();
    let mut crawl = world.crawl().set("edges.pages.ack_wait=2s").start();
    crawl.until(CRAWL_AT_MOST, |summary| summary.pages > 0);
    signal(crawl.pid("parser"), Signal::STOP);
    until_more_wait(&crawl);
    crawl.signal(Signal::KILL);
    crawl.exit_code(CRAWL_AT_MOST);
    let left = files(&world.data());
    assert!(bytes(&left) >= WAITING * PAGE_BYTES, "{left:?}");
    let finished = world.resume().set("broker.spool=false").run(CRAWL_AT_MOST);
    world.assert_counted(&finished);
    assert_eq!(finished.summary.dead, 0, "{}", json(&finished.summary));
    let more: Vec<PathBuf> = files(&world.data())
        .into_iter()
        .filter(|file| !left.contains(file))
        .collect();
    assert!(more.is_empty(), "{more:?}");
}

/// Goal: with `broker.spool=false` all goes through the broker.
#[test]
fn without_spools_no_page_lies_in_a_file() {
    let world = world();
    let mut crawl = world.crawl().set("broker.spool=false").start();
    crawl.until(CRAWL_AT_MOST, |summary| summary.pages > 0);
    let parser = crawl.pid("parser");
    signal(parser, Signal::STOP);
    std::thread::sleep(Duration::from_millis(500));
    let found = files(&crawl.data());
    signal(parser, Signal::CONT);
    world.assert_whole(&crawl.finish(CRAWL_AT_MOST));
    assert!(found.is_empty(), "{found:?}");
}

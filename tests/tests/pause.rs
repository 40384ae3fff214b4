//! Pauses: what an operator wants to be left alone is left alone within a second, whatever happens
//! to the crawl meanwhile.

use rhumb_tests::harness::{Running, World, json, signal};
use rustix::process::Signal;
use std::time::Duration;
use synthetic_web::{Latency, PagesPerHost, Profile};

const HOSTS: u32 = 20;
const PAGES: u32 = 250;
const MINUTE: Duration = Duration::from_secs(60);
/// The longest that a request may start after the command has ended.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How long nothing must come.
const A_WHILE: Duration = Duration::from_secs(2);

fn world(hosts: u32, pages: u32, ms: u64) -> Profile {
    let pages_per_host = PagesPerHost::Exactly(pages);
    Profile {
        hosts,
        pages_per_host,
        latency: Latency::Fixed { ms },
        ..Profile::raw()
    }
}

/// Requests to a host, or to all.
fn requests(world: &World, host: Option<u32>) -> usize {
    world
        .web
        .contacts()
        .iter()
        .filter(|contact| host.is_none_or(|host| contact.host == host))
        .count()
}

/// Checks that a host, or the whole web, is left alone from a second on. Returns the requests made
/// until then.
fn assert_left_alone(world: &World, host: Option<u32>) -> usize {
    std::thread::sleep(AT_ONCE);
    let before = requests(world, host);
    std::thread::sleep(A_WHILE);
    assert_eq!(
        requests(world, host),
        before,
        "requests to {host:?} that is paused"
    );
    before
}

fn says(crawl: &Running, arguments: &[&str], words: &str) {
    let said = crawl.rhumb(arguments);
    assert!(
        said.code == 0 && said.out.contains(words),
        "{arguments:?}: {}{}",
        said.out,
        said.err
    );
}

/// Goal: an order holds at once, for all schedulers, over kills and moves, and nothing that waits
/// is lost by it. Method: a host, and then the crawl, is paused in the middle; the web says when it
/// was contacted.
#[test]
fn what_is_paused_is_left_alone_over_kills_and_moves_and_goes_on_when_it_is_unpaused() {
    let world = World::new(world(HOSTS, PAGES, 200));
    let host = 3;
    let name = world.web.host_name(3);
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| {
        summary.pages > u64::from(HOSTS * PAGES / 8)
    });
    let pause = [
        "pause",
        "--host",
        &name,
        "--note",
        "asked by mail",
        "--by",
        "anna",
    ];
    says(
        &crawl,
        &pause,
        &format!("host {name} is paused by anna since 20"),
    );
    let of_host = assert_left_alone(&world, Some(host));
    assert!(of_host < PAGES as usize / 2, "too late to be a test");

    let of_others = requests(&world, None);
    let scheduler = crawl.pid("scheduler");
    signal(scheduler, Signal::KILL);
    crawl.until_replaced("scheduler", scheduler, MINUTE);
    let scaled = crawl.rhumb(&["scale", "scheduler=2"]);
    assert_eq!(scaled.code, 0, "{}{}", scaled.out, scaled.err);
    assert_eq!(
        assert_left_alone(&world, Some(host)),
        of_host,
        "after a kill and a move"
    );
    assert!(requests(&world, None) > of_others, "others are fetched");

    let url = &world.web.seed_urls()[host as usize];
    says(&crawl, &["why", url], ": asked by mail");
    says(
        &crawl,
        &["status"],
        &format!("paused    host {name} is paused by anna since "),
    );
    says(
        &crawl,
        &["pause", "--json"],
        "\"heeded_by\":[0,1],\"silent\":[],\"late_fetchers\":[]",
    );
    let of_all = assert_left_alone(&world, None);
    let summary = crawl.status().expect("a summary");
    assert!(
        !summary.complete && summary.paused.len() == 2,
        "{}",
        json(&summary)
    );
    assert!(
        summary.waiting > u64::from(PAGES),
        "too late to be a test: {}",
        json(&summary)
    );

    says(
        &crawl,
        &["unpause"],
        "no longer paused: the crawl; 2 schedulers heed it",
    );
    let only_host_waits = |summary: &rhumb::status::Summary| {
        summary.in_flight == 0 && summary.waiting < u64::from(PAGES)
    };
    crawl.until(MINUTE, only_host_waits);
    assert!(requests(&world, None) > of_all && requests(&world, Some(host)) == of_host);
    says(
        &crawl,
        &["unpause", "--all"],
        &format!("no longer paused: host {name}"),
    );
    world.assert_counted(&crawl.finish(MINUTE));
}

/// Goal: the same with as many connections as a large crawl has. Method: all of a crawl is paused
/// while they are in use.
#[test]
fn two_thousand_connections_are_left_alone_within_a_second() {
    let world = World::alone(world(2000, 40, 3000));
    let mut crawl = world.crawl().set("stages.fetcher.connections=2000").start();
    crawl.until(2 * MINUTE, |summary| {
        summary.in_flight > 0 && summary.pages > 3000
    });
    let last = requests(&world, None);
    let host = world.web.host_name(7);
    says(&crawl, &["pause", "--host", &host], "1 scheduler heeds it");
    assert_left_alone(&world, Some(7));
    let before = requests(&world, None);
    assert!(
        before > last + 1000,
        "the others go on: {last}, then {before}"
    );
    says(&crawl, &["pause"], "1 scheduler heeds it");
    assert_left_alone(&world, None);
    says(&crawl, &["status", "--check"], "every URL is accounted for");
}

/// Goal: an order that a process does not hear is kept, the operator is told who has not heard it,
/// and it holds when it is back. Method: the scheduler stands still, and then the fetcher.
#[test]
fn an_order_that_is_not_heard_is_kept_and_heeded_later() {
    let world = World::new(world(HOSTS, PAGES, 200));
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| {
        summary.pages > u64::from(HOSTS * PAGES / 8)
    });
    let scheduler = crawl.pid("scheduler");
    signal(scheduler, Signal::STOP);
    let said = crawl.rhumb(&["pause"]);
    signal(scheduler, Signal::CONT);
    let expected = "not heard yet by scheduler.0 (partitions 0-63)";
    assert!(
        said.code == 1 && said.err.contains(expected),
        "{}{}",
        said.out,
        said.err
    );
    crawl.until(MINUTE, |summary| summary.in_flight == 0);
    let before = assert_left_alone(&world, None);
    says(&crawl, &["unpause"], "no longer paused: the crawl");
    std::thread::sleep(A_WHILE);
    assert!(requests(&world, None) > before, "it goes on");

    let fetcher = crawl.pid("fetcher");
    signal(fetcher, Signal::STOP);
    let said = crawl.rhumb(&["pause", "--json"]);
    signal(fetcher, Signal::CONT);
    assert!(
        said.out
            .contains("\"heeded_by\":[0],\"silent\":[],\"late_fetchers\":[0]"),
        "{}{}",
        said.out,
        said.err
    );
    assert!(
        said.code == 1 && said.err.contains("not heard yet by fetcher.0: no answer"),
        "{}{}",
        said.out,
        said.err
    );
    std::thread::sleep(A_WHILE);
    assert_left_alone(&world, None);
}

#[test]
fn targets_that_make_no_sense_are_refused() {
    let world = World::new(world(4, 300, 100));
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| summary.pages > 4);
    for (arguments, words) in [
        (
            ["pause", "--host", "http://a.test/"].as_slice(),
            "this is no name or address of a host",
        ),
        (
            &["pause", "--domain", "www.example.org"],
            "the registered domain is example.org",
        ),
        (
            &["pause", "--host", "a.test", "--domain", "b.test"],
            "cannot be used with",
        ),
        (
            &["unpause", "--host", "a.test"],
            "host a.test is not paused; paused: nothing",
        ),
        (&["unpause"], "the crawl is not paused; paused: nothing"),
        (&["unpause", "--all"], "nothing paused; paused: nothing"),
    ] {
        let said = crawl.rhumb(arguments);
        assert!(
            said.code == 2 && said.err.contains(words),
            "{arguments:?}: {}{}",
            said.out,
            said.err
        );
    }
}

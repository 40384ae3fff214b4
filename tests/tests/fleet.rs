//! The stages of a crawl are deployed one by one: `rhumb init` makes what they need, `rhumb
//! conduct` looks after the crawl, commands find it by its broker.

use rhumb_telemetry::process::host_name;
use rhumb_tests::harness::{
    Cluster, Deployment, Finished, World, assert_conserved, assert_manners, json,
};
use std::time::{Duration, Instant};
use synthetic_web::{Latency, PagesPerHost, Profile};

const MINUTE: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(15);

fn world(pages: u32, ms: u64) -> World {
    World::new(Profile {
        hosts: 20,
        pages_per_host: PagesPerHost::Exactly(pages),
        latency: Latency::Fixed { ms },
        ..Profile::raw()
    })
}

/// Makes a crawl's streams, and starts its stages and a conductor.
fn deploy(world: &World, broker: &Cluster, conduct: &[&str]) -> Deployment {
    let mut fleet = Deployment::new(world, broker);
    let said = fleet.configured(&["init"]);
    assert_eq!(said.code, 0, "{}", said.err);
    fleet.start_stages();
    fleet.conduct("conductor", conduct);
    fleet
}

/// Goal: the order in which a fleet starts does not matter, and any process of it may die. Method:
/// stages are started before there is anything; then the streams are made, twice; the conductor, a
/// fetcher and a dedup are killed in the middle.
#[test]
fn stages_wait_for_init_and_a_crawl_that_is_conducted_is_exact() {
    let world = world(40, 40);
    let broker = Cluster::start(1, None);
    let mut fleet = Deployment::new(&world, &broker).set("stages.fetcher.connections=8");
    fleet.start_stages();
    fleet.conduct("first", &["--until-complete"]);
    for waiting in ["parser", "dedup", "fetcher", "first"] {
        fleet.until_said(waiting, "waiting for `rhumb init`", SOON);
    }
    for _ in 0..2 {
        let said = fleet.configured(&["init", "--set", "owner=tests/fleet"]);
        assert!(
            said.code == 0 && said.out.contains("the crawl 'default' (crawl "),
            "{}{}",
            said.out,
            said.err
        );
    }
    let refused = fleet.configured(&["init", "--set", "owner=tests/other"]);
    assert!(
        refused.code == 2 && refused.err.contains("a crawl 'default' of 'tests/fleet'"),
        "{}",
        refused.err
    );
    fleet.until_said("fetcher", "running", SOON);
    // A crawl without any URL is not over.
    fleet.until_said("first", "conducting", SOON);
    std::thread::sleep(Duration::from_secs(3));
    let injected = fleet.inject(&world.web.seed_urls()[..1]);
    assert_eq!(injected.code, 0, "{}", injected.err);
    let tapped = fleet.rhumb(&["tap", "pages", "--limit", "2"]);
    assert_eq!(
        (tapped.code, tapped.out.lines().count()),
        (0, 2),
        "{}",
        tapped.err
    );
    fleet.until(MINUTE, |summary| summary.pages > 100);

    fleet.kill("first");
    fleet.kill("fetcher");
    fleet.kill("dedup");
    fleet.conduct("second", &["--until-complete"]);
    fleet.start("fetcher again", "fetcher", &["--instance", "auto"]);
    fleet.start("dedup again", "dedup", &["--instance", "0"]);
    let why = fleet.rhumb(&["why", &world.web.seed_urls()[0]]);
    assert!(
        why.code == 0 && why.out.contains("scheduler"),
        "{}{}",
        why.out,
        why.err
    );
    assert_eq!(fleet.ended("second", 2 * MINUTE), 0);
    world.assert_counted(&Finished {
        code: 0,
        summary: fleet.summary(),
    });
    let checked = fleet.rhumb(&["status", "--check"]);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
}

/// Goal: two processes never have one name, and one without a number finds a free one. Method:
/// fetchers with the same number, and without any; two conductors.
#[test]
fn two_processes_of_one_name_are_refused() {
    let world = world(200, 100);
    let broker = Cluster::start(1, None);
    let mut fleet = deploy(&world, &broker, &[]);
    fleet.until_said("fetcher", "instance=0", SOON);
    fleet.start("twin", "fetcher", &["--instance", "0"]);
    assert_eq!(fleet.ended("twin", SOON), 1);
    let pid = fleet.pid("fetcher");
    assert!(
        fleet
            .log("twin")
            .contains(&format!("fetcher.0 runs already: pid {pid} on ")),
        "{}",
        fleet.log("twin")
    );
    fleet.start("sister", "fetcher", &["--instance", "auto"]);
    fleet.until_said("sister", "instance=1", SOON);
    // Unless this machine's own name ends as that of a pod.
    if host_name().is_none_or(|host| {
        host.rsplit('-')
            .next()
            .is_none_or(|last| last.parse::<u16>().is_err())
    }) {
        fleet.start("nameless", "dedup", &["--instance", "auto"]);
        assert_eq!(fleet.ended("nameless", SOON), 2);
        assert!(
            fleet
                .log("nameless")
                .contains("--instance auto: dedup keeps files"),
            "{}",
            fleet.log("nameless")
        );
    }

    fleet.until_said("conductor", "conducting", SOON);
    fleet.conduct("another", &[]);
    assert_eq!(fleet.ended("another", SOON), 1);
    assert!(
        fleet
            .log("another")
            .contains("another rhumb runs the crawl 'default'"),
        "{}",
        fleet.log("another")
    );
    fleet.terminate("conductor");
    assert_eq!(fleet.ended("conductor", SOON), 130);
}

/// Goal: `--for` ends what a crawl contacts, over all its schedulers, and a conductor without it
/// goes on (P3). Method: a web that takes longer.
#[test]
fn a_crawl_whose_time_is_over_contacts_nobody_until_it_goes_on() {
    let world = world(150, 100);
    let broker = Cluster::start(1, None);
    let mut fleet = deploy(&world, &broker, &["--for", "4s", "--until-complete"]);
    assert_eq!(fleet.inject(&world.web.seed_urls()[..1]).code, 0);
    assert_eq!(fleet.ended("conductor", MINUTE), 0);
    let stopped = fleet.summary();
    assert!(
        !stopped.complete && stopped.in_flight == 0 && stopped.waiting > 0,
        "{}",
        json(&stopped)
    );
    let requests = world.web.report().requests;
    let why = fleet.rhumb(&["why", &world.web.seed_urls()[1]]);
    assert!(
        why.out.contains("the crawl was stopped by its conductor"),
        "{}",
        why.out
    );
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(world.web.report().requests, requests, "nobody is contacted");

    fleet.conduct("next", &["--until-complete"]);
    assert_eq!(fleet.ended("next", 2 * MINUTE), 0);
    world.assert_counted(&Finished {
        code: 0,
        summary: fleet.summary(),
    });
    assert_manners(&world.web.report());
    assert_conserved(&fleet.summary());
}

/// Goal: an instance that ended with partitions is named, with what can be done. Method: one of two
/// dedups is killed, after the crawl was told to do with one.
#[test]
fn an_instance_that_ended_before_it_was_emptied_is_named_until_it_is_back() {
    let world = world(200, 100);
    let broker = Cluster::start(1, None);
    let mut fleet = deploy(&world, &broker, &[]);
    fleet.start("dedup 1", "dedup", &["--instance", "1"]);
    assert_eq!(fleet.inject(&world.web.seed_urls()[..1]).code, 0);
    let scaled = fleet.rhumb(&["scale", "dedup=2"]);
    assert_eq!(scaled.code, 0, "{}{}", scaled.out, scaled.err);
    let refused = fleet.rhumb(&["scale", "fetcher=3"]);
    assert!(
        refused.code == 2 && refused.err.contains("deployed by others"),
        "{}",
        refused.err
    );
    fleet.kill("dedup 1");
    let missing = fleet
        .until(SOON, |summary| !summary.elsewhere.is_empty())
        .elsewhere;
    assert!(
        missing[0].starts_with("dedup.1 has 32 partitions and does not run: start it again"),
        "{missing:?}"
    );

    // It comes back with its files, and gives all away.
    fleet.start("dedup 1 again", "dedup", &["--instance", "1"]);
    fleet.until(SOON, |summary| summary.elsewhere.is_empty());
    let scaled = fleet.rhumb(&["scale", "dedup=1"]);
    assert_eq!(scaled.code, 0, "{}{}", scaled.out, scaled.err);
    fleet.terminate("dedup 1 again");
    assert_eq!(fleet.ended("dedup 1 again", SOON), 0);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(8) {
        assert_eq!(fleet.status().elsewhere, [""; 0]);
    }
    let checked = fleet.rhumb(&["status", "--check"]);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
}

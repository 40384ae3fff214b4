//! Faults: a process ends in the middle of a crawl, asked to or not, and the crawl comes to the
//! same (P1 to P3, P9).

use rhumb_tests::harness::{Cluster, Crawl, Running, World, assert_manners, json, signal};
use rhumb_tests::stages::STAGES;
use rustix::process::Signal;
use std::time::{Duration, Instant};
use synthetic_web::{Latency, PagesPerHost, Profile};

const HOSTS: u64 = 25;
const PAGES_PER_HOST: u64 = 80;
/// Of every response.
const LATENCY_MS: u64 = 150;
/// How often a job's lease is renewed, and with it what it has done reported.
const RENEW_MS: u64 = 500;
/// Beyond that, until a report has arrived.
const REPORT_MS: u64 = 500;
/// How long a stage may take to be back: the lease on its partitions, and the wait before it is
/// started again.
const BACK_AT_MOST: Duration = Duration::from_secs(15);
const CRAWL_AT_MOST: Duration = Duration::from_secs(90);

#[test]
fn the_end_of_the_host_splitter_loses_and_repeats_nothing() {
    ends_without_a_trace("host-splitter");
}

#[test]
fn the_end_of_dedup_loses_and_repeats_nothing() {
    ends_without_a_trace("dedup");
}

#[test]
fn the_end_of_the_resolver_loses_and_repeats_nothing() {
    ends_without_a_trace("resolver");
}

/// Goal: what a resolver knows outlives it. Method: it is killed when all names are known and
/// written down; its successor, to whom URLs of all hosts come, asks for next to none.
#[test]
fn a_killed_resolver_still_knows_its_names() {
    let world = world();
    let mut crawl = crawl(&world)
        .set("stages.resolver.cache.snapshot_every=100ms")
        .start();
    until_share(&mut crawl, 1, 2);
    std::thread::sleep(Duration::from_millis(300));
    let before = world.web.report().dns_queries;
    assert!(
        before >= 2 * HOSTS,
        "for both versions of the protocol, {before}"
    );
    end_and_replace(&mut crawl, "resolver", Signal::KILL);
    let finished = crawl.finish(CRAWL_AT_MOST);
    world.assert_whole(&finished);
    let after = world.web.report().dns_queries;
    assert!(
        after - before < HOSTS / 10,
        "{before} questions before, {after} in all"
    );
}

/// Goal: names that are being asked for may be lost with the resolver, and no URL is. Method: the
/// name server takes a second; the resolver is killed while it waits for most of the names.
#[test]
fn a_resolver_killed_while_it_asks_loses_no_url() {
    let world = World::new(Profile {
        hosts: HOSTS as u32,
        pages_per_host: PagesPerHost::Exactly(10),
        dns_latency_ms: 2_000,
        ..Profile::raw()
    });
    let crawl = crawl(&world).set("stages.scheduler.retry_wait=1s");
    let mut crawl = crawl.start();
    // The first page is there, and with it the names of others.
    crawl.until(CRAWL_AT_MOST, |summary| {
        summary.pages > 0 && summary.urls_new > HOSTS / 2
    });
    let asked = world.web.report().dns_queries;
    assert!(
        asked > HOSTS / 2,
        "names are asked for when they are found: {asked}"
    );
    end_and_replace(&mut crawl, "resolver", Signal::KILL);
    assert_accounted_for_until_the_end(&mut crawl);
    let finished = crawl.finish(CRAWL_AT_MOST);
    world.assert_whole(&finished);
    assert_eq!(finished.summary.restarts, 1, "{}", json(&finished.summary));
}

#[test]
fn the_end_of_the_scheduler_loses_and_repeats_nothing() {
    ends_without_a_trace("scheduler");
}

#[test]
fn the_end_of_the_parser_loses_and_repeats_nothing() {
    ends_without_a_trace("parser");
}

#[test]
fn a_killed_broker_comes_back_and_nothing_is_lost_or_repeated() {
    let world = world();
    let mut crawl = world.crawl().set("ownership_lease=2s").start();
    until_share(&mut crawl, 1, 4);
    end_and_replace(&mut crawl, "broker", Signal::KILL);
    assert_eq!(
        world.web.report().repeats.count,
        0,
        "{}",
        json(&world.web.report())
    );
    until_share(&mut crawl, 3, 5);
    end_and_replace(&mut crawl, "broker", Signal::KILL);
    assert_accounted_for_until_the_end(&mut crawl);
    world.assert_whole(&crawl.finish(CRAWL_AT_MOST));
}

/// Goal: an owner whose lease lapsed takes it again and goes on, under a new epoch. Method: the
/// broker forgets the leases.
#[test]
fn owners_whose_leases_lapsed_take_them_again_and_begin_an_epoch() {
    let world = world();
    let mut crawl = start(&world);
    until_share(&mut crawl, 1, 4);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let jetstream = async_nats::jetstream::new(crawl.client().await);
        let leases = jetstream
            .get_key_value("rhumb_default_leases")
            .await
            .expect("leases");
        for key in ["dedup.0", "scheduler.0"] {
            leases.purge(key).await.expect("a lease");
        }
    });
    assert_accounted_for_until_the_end(&mut crawl);
    let finished = crawl.finish(CRAWL_AT_MOST);
    world.assert_whole(&finished);
    assert_eq!(finished.summary.restarts, 0, "{}", json(&finished.summary));
    for stage in ["dedup", "scheduler"] {
        let log = std::fs::read_to_string(world.data().join(format!("logs/{stage}-0.log")))
            .expect("a log");
        assert_eq!(log.matches("was taken again").count(), 1, "{log}");
    }
}

#[test]
fn a_killed_fetcher_repeats_only_what_it_did_since_its_last_report() {
    // How much it did depends on the time that its reports take.
    let world = World::alone(web());
    let mut crawl = start(&world);
    until_share(&mut crawl, 1, 4);
    end_and_replace(&mut crawl, "fetcher", Signal::TERM);
    until_share(&mut crawl, 2, 4);
    let report = world.web.report();
    assert_eq!(
        report.repeats.count,
        0,
        "a fetcher that was asked to end repeats nothing: {}",
        json(&report)
    );

    end_and_replace(&mut crawl, "fetcher", Signal::KILL);
    assert_accounted_for_until_the_end(&mut crawl);
    let finished = crawl.finish(CRAWL_AT_MOST);
    world.assert_counted(&finished);
    assert_eq!(finished.summary.restarts, 2, "{}", json(&finished.summary));
    let repeats = world.web.report().repeats.count;
    let since_last_report = (RENEW_MS + REPORT_MS) / LATENCY_MS + 1;
    assert!(
        repeats <= HOSTS * since_last_report,
        "{repeats} repeats: {}",
        json(&finished.summary)
    );
    assert!(
        repeats <= finished.summary.refetched,
        "{repeats} repeats: {}",
        json(&finished.summary)
    );
}

#[test]
fn a_killed_dedup_with_all_urls_in_memory_forgets_none() {
    let world = world();
    let mut crawl = crawl(&world).set("stages.dedup.store=memory").start();
    until_share(&mut crawl, 1, 3);
    end_and_replace(&mut crawl, "dedup", Signal::KILL);
    assert_accounted_for_until_the_end(&mut crawl);
    world.assert_whole(&crawl.finish(CRAWL_AT_MOST));
}

#[test]
fn a_killed_rhumb_leaves_no_process_behind_and_its_crawl_goes_on() {
    let world = world();
    let mut crawl = start(&world);
    until_share(&mut crawl, 1, 3);
    let names = STAGES.into_iter().chain(["broker"]);
    let pids: Vec<u32> = names.flat_map(|name| crawl.pids(name)).collect();
    assert_eq!(pids.len(), 7, "six stages and the broker");
    crawl.signal(Signal::KILL);
    assert_eq!(crawl.exit_code(BACK_AT_MOST), -1);
    let end = Instant::now() + Duration::from_secs(5);
    while let Some(pid) = pids
        .iter()
        .find(|pid| rhumb_telemetry::process::usage(**pid).is_some())
    {
        assert!(Instant::now() < end, "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
    world.assert_counted(&world.resume().run(CRAWL_AT_MOST));
}

/// A stage is asked to end at a quarter of the crawl and killed at half of it.
fn ends_without_a_trace(stage: &str) {
    let world = world();
    let mut crawl = start(&world);
    until_share(&mut crawl, 1, 4);
    end_and_replace(&mut crawl, stage, Signal::TERM);
    until_share(&mut crawl, 1, 2);
    assert_eq!(crawl.violations(), [""; 0]);
    end_and_replace(&mut crawl, stage, Signal::KILL);
    assert_accounted_for_until_the_end(&mut crawl);
    let finished = crawl.finish(CRAWL_AT_MOST);
    world.assert_whole(&finished);
    assert_eq!(finished.summary.restarts, 2, "{}", json(&finished.summary));
}

fn world() -> World {
    World::new(web())
}

fn web() -> Profile {
    Profile {
        hosts: HOSTS as u32,
        pages_per_host: PagesPerHost::Exactly(PAGES_PER_HOST as u32),
        latency: Latency::Fixed { ms: LATENCY_MS },
        ..Profile::raw()
    }
}

fn start(world: &World) -> Running {
    crawl(world).start()
}

/// Leases short enough that a crawl of some ten seconds sees them run out. What a killed scheduler
/// had in hand comes again before that, as it does with the defaults.
fn crawl(world: &World) -> Crawl {
    world
        .crawl()
        .set("ownership_lease=2s")
        .set("stages.scheduler.job_lease=4s")
        .set("edges.urls.found.ack_wait=5s")
        .set("edges.fetch.reports.ack_wait=2s")
        .set(&format!("stages.fetcher.renew_every={RENEW_MS}ms"))
}

fn until_share(crawl: &mut Running, part: u64, of: u64) {
    let pages = HOSTS * PAGES_PER_HOST * part / of;
    let summary = crawl.until(CRAWL_AT_MOST, |summary| summary.pages >= pages);
    assert!(
        !summary.complete,
        "too late to be a test: {}",
        json(&summary)
    );
}

/// Ends a process, and waits until another has taken its place. Nobody is asked: a short crawl may
/// end before all answer.
fn end_and_replace(crawl: &mut Running, name: &str, how: Signal) {
    let pid = crawl.pid(name);
    signal(pid, how);
    let end = Instant::now() + BACK_AT_MOST;
    while !crawl.pids(name).iter().any(|now| *now != pid) {
        assert!(
            Instant::now() < end && !crawl.has_ended(),
            "no new {name} within {BACK_AT_MOST:?}:\n{}",
            crawl.log()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// No look at the crawl, while it recovers and goes on, finds a URL unaccounted for (P3).
fn assert_accounted_for_until_the_end(crawl: &mut Running) {
    let mut looks = 0;
    while !crawl.has_ended() {
        assert_eq!(crawl.violations(), [""; 0]);
        looks += 1;
        std::thread::sleep(Duration::from_millis(200));
        assert!(looks < 300, "the crawl does not end:\n{}", crawl.log());
    }
}

#[test]
fn a_process_that_dies_is_not_impolite_when_it_is_back() {
    let delay_ms = 300;
    let world = World::new(Profile {
        hosts: 8,
        pages_per_host: PagesPerHost::Exactly(60),
        delay_expected_ms: delay_ms,
        ..Profile::raw()
    });
    let mut crawl = world
        .crawl()
        .set("ownership_lease=2s")
        .set("stages.scheduler.job_lease=4s")
        .set(&format!("stages.fetcher.renew_every={RENEW_MS}ms"))
        .set(&format!("politeness.delay={delay_ms}ms"))
        .start();
    crawl.until(CRAWL_AT_MOST, |summary| summary.pages >= 30);
    for stage in ["scheduler", "fetcher"] {
        end_and_replace(&mut crawl, stage, Signal::KILL);
        std::thread::sleep(Duration::from_secs(1));
    }
    let finished = crawl.finish(CRAWL_AT_MOST);
    world.assert_counted(&finished);
    assert_manners(&world.web.report());
}

/// Goal: the death of one server of three stops nothing when all is kept on three. Method: the one
/// that leads the leases is killed in the middle of the crawl.
#[test]
fn a_killed_server_of_three_takes_no_lease_and_no_url_along() {
    let world = world();
    let mut cluster = Cluster::start(3, None);
    let mut crawl = crawl(&world)
        .set(&format!("broker.url=[{}]", cluster.url()))
        .set("broker.replicas=3")
        .start();
    until_share(&mut crawl, 1, 4);
    for bucket in ["leases", "scope", "tokens"] {
        assert_eq!(
            cluster.replicas_of(&format!("KV_rhumb_default_{bucket}")),
            3,
            "{bucket}"
        );
    }
    cluster.kill(cluster.leader_of("KV_rhumb_default_leases"));
    let finished = crawl.finish(CRAWL_AT_MOST);
    world.assert_counted(&finished);
    // Jobs whose leases could not be renewed meanwhile are done again, and nothing else is.
    let repeats = world.web.report().repeats.count;
    let refetched = finished.summary.refetched;
    assert!(
        repeats <= refetched,
        "{repeats} repeats: {}",
        json(&finished.summary)
    );
}

/// Goal: buckets of a crawl that was begun with one copy are adapted. Method: the crawl is stopped,
/// and goes on with three.
#[test]
fn the_buckets_of_a_crawl_follow_the_number_of_copies_that_is_wanted() {
    let world = World::new(Profile {
        hosts: 3,
        pages_per_host: PagesPerHost::Exactly(5),
        ..Profile::raw()
    });
    let cluster = Cluster::start(3, None);
    let leases = "KV_rhumb_default_leases";
    let url = format!("broker.url=[{}]", cluster.url());
    let limited = world
        .crawl()
        .set(&url)
        .arguments(&["--max-pages", "2"])
        .run(CRAWL_AT_MOST);
    assert_eq!((limited.code, cluster.replicas_of(leases)), (0, 1));
    let finished = world
        .resume()
        .set("broker.replicas=3")
        .set("edges.dead.replicas=1")
        .run(CRAWL_AT_MOST);
    world.assert_counted(&finished);
    // An edge that names a number of its own keeps it.
    assert_eq!(
        ["pages", "dead"].map(|edge| cluster.replicas_of(&format!("rhumb_default_{edge}"))),
        [3, 1]
    );
    assert_eq!(cluster.replicas_of(leases), 3);
}

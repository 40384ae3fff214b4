//! Delivery: what a crawl does when a consumer stands still, dies of an input, or cannot read one.

use rhumb::status::{Parked, ProcessWork, Summary};
use rhumb_tests::harness::{Further, Running, World, json, signal};
use rhumb_wire::message::{FoundUrls, Origin, SplitUrls, encode};
use rustix::process::Signal;
use serde_json::Value;
use std::time::{Duration, Instant};
use synthetic_web::{Latency, PagesPerHost, Profile};

const CRAWL_AT_MOST: Duration = Duration::from_secs(60);

/// What a stage of a crawl is doing.
fn work_of<'a>(summary: &'a Summary, stage: &str) -> Option<&'a ProcessWork> {
    summary
        .processes
        .iter()
        .find(|process| process.stage == stage)?
        .work
        .as_ref()
}

/// Goal: back-pressure is seen, and is no failure. Method: the archiver stands still for longer
/// than a publish may be unanswered, and `pages` is small.
#[test]
fn a_consumer_that_stands_still_holds_its_publishers_back_and_all_stay_ready() {
    const STANDS_STILL: Duration = Duration::from_secs(12);
    // The crawl takes 9 s at least, so it is not over before the archiver stands still.
    let world = World::new(Profile {
        hosts: 20,
        pages_per_host: PagesPerHost::Exactly(60),
        latency: Latency::Fixed { ms: 150 },
        ..Profile::raw()
    });
    let settings = [
        "broker.max_payload=1MiB",
        "limits.body_bytes_max=256KiB",
        "edges.pages.bytes_max=2MiB",
    ];
    let crawl = world.crawl().set("stages.archiver.replicas=1");
    let mut crawl = settings
        .into_iter()
        .fold(crawl, |crawl, setting| crawl.set(setting))
        .start();
    crawl.until(CRAWL_AT_MOST, |summary| summary.pages > 0);
    let archiver = crawl.pid("archiver");
    let since = Instant::now();
    signal(archiver, Signal::STOP);
    let is_held_back = |summary: &Summary| {
        let share = work_of(summary, "fetcher").and_then(|work| work.shares.held_back.get("pages"));
        share.is_some_and(|share| *share > 0.5)
    };
    let held_back = crawl.until(CRAWL_AT_MOST, |summary| {
        since.elapsed() > STANDS_STILL && is_held_back(summary)
    });
    let text = crawl.rhumb(&["status"]).out;
    signal(archiver, Signal::CONT);
    assert!(text.contains("held back by pages"), "{text}");
    for process in held_back
        .processes
        .iter()
        .filter(|process| process.stage != "broker")
    {
        let work = process.work.as_ref().expect("a stage tells what it does");
        let sum =
            work.shares.busy + work.shares.waiting + work.shares.held_back.values().sum::<f64>();
        assert!(
            work.ready && (0.99..1.01).contains(&sum),
            "{}",
            json(process)
        );
    }
    for stage in [
        "parser",
        "fetcher",
        "scheduler",
        "dedup",
        "resolver",
        "host-splitter",
    ] {
        assert!(
            work_of(&held_back, stage).is_some(),
            "{stage}: {}",
            json(&held_back)
        );
    }
    let log = std::fs::read_to_string(crawl.data().with_file_name("rhumb.log")).expect("the log");
    assert!(!log.contains("is full"), "{log}");
    world.assert_whole(&crawl.finish(CRAWL_AT_MOST));
}

/// Goal: an input that kills a process is buried after three deaths of it, whether the process
/// aborts or its core panics; a process that is killed from outside buries nothing. Method: a stage
/// that dies of two pages, and is killed three times besides; another one counts what came through.
#[test]
fn an_input_that_three_processes_died_of_is_buried_and_the_crawl_goes_on() {
    const KILLS: u32 = 3;
    /// Of the panic, which is always noted, and of the abort, which is not when the page comes for
    /// the first time.
    const DEATHS_MAX: u32 = 3 + 4;
    let world = World::new(Profile {
        hosts: 10,
        pages_per_host: PagesPerHost::Exactly(40),
        ..Profile::raw()
    });
    let mut up = world.up().set("edges.pages.ack_wait=1s").start();
    let counts = Further::start("count-titles", &up);
    let mut dying = Further::start("die-of-pages", &up);
    let said = up.rhumb(&["inject", &world.web.seed_urls()[0]]);
    assert_eq!(said.code, 0, "{}", said.err);
    let mut kills = 0;
    let mut deaths = 0;
    let since = Instant::now();
    while up.status().is_none_or(|summary| summary.dead < 2) {
        if kills < KILLS {
            kills += 1;
            std::thread::sleep(Duration::from_millis(100));
            dying.kill();
        }
        if dying.ended_within(Duration::from_millis(100)).is_some() {
            deaths += 1;
            dying = Further::start("die-of-pages", &up);
        }
        assert!(
            since.elapsed() < CRAWL_AT_MOST,
            "after {deaths} deaths not buried:\n{}",
            up.log()
        );
    }
    assert!(
        (6..=DEATHS_MAX + KILLS).contains(&deaths),
        "{deaths} deaths"
    );
    let pages = world.web.truth().pages.len() as u64;
    until(
        || counts.count("rhumb_count_titles_titles_total") == pages - 2,
        "every page but two came through",
    );
    let summary = up.until(CRAWL_AT_MOST, |summary| summary.pages == pages);
    assert_eq!(summary.dead, 2, "{}", json(&summary));
    let letters = up.rhumb(&["dead", "--json"]).out;
    for letter in letters.lines() {
        let letter: Value = serde_json::from_str(letter).expect("JSON");
        assert_eq!(letter["reason"], "three processes died of it", "{letters}");
        assert_eq!(letter["subject"], "rhumb.default.pages", "{letters}");
    }
    assert_eq!(letters.lines().count(), 2, "{letters}");
    assert_eq!(dying.stop(), 0);
    up.signal(Signal::INT);
    up.exit_code(CRAWL_AT_MOST);
}

/// Waits until a condition holds.
fn until(holds: impl Fn() -> bool, what: &str) {
    let since = Instant::now();
    while !holds() {
        assert!(
            since.elapsed() < CRAWL_AT_MOST,
            "did not come about: {what}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Links as a parser of this build sends them, under a version of their schema.
fn found(url: &str, version: Option<u8>) -> Vec<u8> {
    let origin = Origin {
        topic: "default".into(),
        seed: true,
        ..Origin::default()
    };
    let found = FoundUrls {
        origin,
        urls: [url].into_iter().collect(),
        ..FoundUrls::default()
    };
    let mut payload = encode(&found).to_vec();
    payload[5] = version.unwrap_or(payload[5]);
    payload
}

/// Publishes messages to the broker of a crawl, each under an id of its own.
fn publish(up: &Running, subject: &str, of: Option<&str>, payloads: impl Iterator<Item = Vec<u8>>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let jetstream = async_nats::jetstream::new(up.client().await);
        for payload in payloads {
            let mut headers = async_nats::HeaderMap::new();
            if let Some(of) = of {
                headers.insert("Rhumb-Subject", of);
            }
            let stored = jetstream
                .publish_with_headers(subject.to_owned(), headers, payload.into())
                .await;
            stored
                .expect("a published message")
                .await
                .expect("a stored message");
        }
    });
}

/// Goal: messages of another schema version do not stop an edge, are named, and are put back when a
/// program runs that reads them. Method: more of them than the edge may have unacked, and some for
/// a stage with state, then a crawl over the same edges; and messages of this version that are
/// parked by hand, which the next process finds.
#[test]
fn messages_of_another_schema_version_are_parked_and_put_back_to_a_program_that_reads_them() {
    const FOREIGN: u64 = 60;
    let world = World::new(Profile {
        hosts: 10,
        pages_per_host: PagesPerHost::Exactly(20),
        ..Profile::raw()
    });
    let mut up = world
        .up()
        .set("edges.urls.found.unacked_max=18")
        .set("ownership_lease=2s")
        .start();
    let seed = &world.web.seed_urls()[0];
    publish(
        &up,
        "rhumb.default.urls.found",
        None,
        (0..FOREIGN).map(|n| found(&format!("{seed}?{n}"), Some(99))),
    );
    let mut split = encode(&SplitUrls::default()).to_vec();
    split[5] = 99;
    publish(
        &up,
        "rhumb.default.urls.split.000",
        None,
        std::iter::repeat_n(split, 3),
    );
    let parked = |stage: &str, edge: &str, messages| Parked {
        stage: stage.into(),
        edge: edge.into(),
        version: 99,
        messages,
    };
    let all = [
        parked("dedup", "urls.split", 3),
        parked("host-splitter", "urls.found", FOREIGN),
    ];
    up.until(CRAWL_AT_MOST, |summary| summary.parked == all);
    let text = up.rhumb(&["status"]).out;
    assert!(
        text.contains(&format!(
            "host-splitter  urls.found version 99: {FOREIGN} messages"
        )),
        "{text}"
    );

    // The edge goes on. What is parked is looked for when a process starts.
    let version = found(seed, None)[5];
    let subject = format!("rhumb.default.parked.host-splitter.urls.found.{version}");
    let old = up.pid("host-splitter");
    publish(
        &up,
        &subject,
        Some("rhumb.default.urls.found"),
        std::iter::once(found(seed, None)),
    );
    signal(old, Signal::TERM);
    let pages = world.web.truth().pages.len() as u64;
    // What no program reads stays parked. Streams are looked at before processes: the next look at
    // them is the one that counts.
    up.until(CRAWL_AT_MOST, |summary| {
        summary.pages == pages && summary.waiting + summary.in_flight == 0
    });
    let summary = up.until(CRAWL_AT_MOST, |summary| summary.pages == pages);
    assert_eq!(
        summary.parked,
        all,
        "what no program reads stays parked: {}",
        json(&summary)
    );
    assert!(!summary.complete && summary.dead == 0, "{}", json(&summary));
    assert!(
        summary
            .processes
            .iter()
            .all(|process| process.work.as_ref().is_none_or(|work| work.ready))
    );
    assert_eq!(up.violations(), [""; 0]);
    up.signal(Signal::INT);
    up.exit_code(CRAWL_AT_MOST);
}

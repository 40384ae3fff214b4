//! Settings: keys of the configuration that change while the crawl runs.

use rhumb_tests::harness::{Running, World, assert_conserved, assert_manners, json, signal};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use synthetic_web::{Latency, PagesPerHost, Profile};

const HOSTS: u32 = 20;
const PAGES: u32 = 250;
const MINUTE: Duration = Duration::from_secs(60);
/// How long a change may take to reach every process.
const REACH_MAX: Duration = Duration::from_secs(2);

fn world() -> World {
    let pages_per_host = PagesPerHost::Exactly(PAGES);
    World::new(Profile {
        hosts: HOSTS,
        pages_per_host,
        latency: Latency::Fixed { ms: 50 },
        ..Profile::raw()
    })
}

fn says(crawl: &Running, code: i32, arguments: &[&str], words: &str) -> String {
    let said = crawl.rhumb(arguments);
    let text = format!("{}{}", said.out, said.err);
    assert!(
        said.code == code && text.contains(words),
        "{arguments:?} ends with {}: {text}",
        said.code
    );
    text
}

fn requests(world: &World) -> usize {
    world.web.contacts().len()
}

/// Waits until no request has been made for a while. Gives how many were made.
fn until_still(world: &World) -> usize {
    let end = Instant::now() + MINUTE;
    loop {
        let before = requests(world);
        std::thread::sleep(REACH_MAX);
        if requests(world) == before {
            return before;
        }
        assert!(Instant::now() < end, "requests go on");
    }
}

/// Goal: a longer delay reaches every process within two seconds, requests of jobs in hand
/// included; it holds over a kill and for a further scheduler; taken back, all is as before.
/// Method: the web counts requests.
#[test]
fn a_longer_delay_holds_at_once_over_kills_and_moves_until_it_is_taken_back() {
    let world = world();
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| {
        summary.pages > u64::from(HOSTS * PAGES / 10)
    });
    let begun = Instant::now();
    let set = [
        "set",
        "politeness.delay=1h",
        "politeness.crawl_delay_max=1h",
        "--note",
        "asked by mail",
        "--by",
        "anna",
    ];
    says(
        &crawl,
        0,
        &set,
        "politeness.delay = \"1h\", politeness.crawl_delay_max = \"1h\"; 6 processes go by it",
    );
    let took = begun.elapsed();
    // One more contact of each server at most: its wait may be over just then.
    let at_once = requests(&world);
    let before = until_still(&world);
    assert!(
        before <= at_once + 2 * HOSTS as usize,
        "{at_once}, then {before} requests"
    );
    for stage in ["fetcher", "scheduler"] {
        let pid = crawl.pid(stage);
        signal(pid, Signal::KILL);
        crawl.until_replaced(stage, pid, MINUTE);
    }
    says(&crawl, 0, &["scale", "scheduler=2"], "");
    std::thread::sleep(REACH_MAX);
    assert_eq!(
        requests(&world),
        before,
        "requests although each server has its next contact in an hour"
    );
    says(
        &crawl,
        0,
        &["status"],
        "set       politeness.delay = \"1h\" by anna since 20",
    );
    says(
        &crawl,
        0,
        &["set"],
        "politeness.crawl_delay_max = \"1h\" by anna since ",
    );
    says(
        &crawl,
        0,
        &["set", "--keys"],
        "politeness.delay                           \"1h\"",
    );
    assert!(
        took < REACH_MAX + Duration::from_secs(1),
        "the command took {took:?}"
    );
    let summary = crawl.status().expect("a summary");
    assert!(
        summary.waiting > 0 && !summary.complete,
        "too late to be a test: {}",
        json(&summary)
    );

    // What a server was told to wait stands: the crawl is stopped by its own limit instead of being
    // waited for.
    let unset = [
        "set",
        "--unset",
        "politeness.delay",
        "--unset",
        "politeness.crawl_delay_max",
    ];
    says(&crawl, 0, &unset, "politeness.delay = \"0s\"");
    says(&crawl, 0, &["set"], "nothing is set");
    says(
        &crawl,
        0,
        &["status", "--check"],
        "every URL is accounted for",
    );
}

/// Waits until all that a paused crawl has in hand is where it waits.
fn until_all_waits(crawl: &mut Running) {
    let mut before = None;
    let end = Instant::now() + MINUTE;
    loop {
        let summary = crawl.until(MINUTE, |summary| summary.in_flight == 0);
        let now = Some((summary.urls_found, summary.waiting));
        if now == before {
            return;
        }
        assert!(Instant::now() < end, "URLs are found although it is paused");
        before = now;
        std::thread::sleep(REACH_MAX);
    }
}

/// Goal: filters change for what is found from now on, and for what waits when that is asked for;
/// the rest of the web is crawled. Method: the crawl is paused meanwhile, or all would be fetched
/// before a busy machine comes to the last command.
#[test]
fn new_filters_hold_for_what_is_found_and_for_what_waits_if_that_is_asked_for() {
    let world = world();
    let one = world.web.host_name(3);
    let two = world.web.host_name(5);
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| {
        summary.pages > u64::from(HOSTS * PAGES / 10)
    });
    says(&crawl, 0, &["pause"], "the crawl is paused");
    until_all_waits(&mut crawl);
    let reject = format!("scope.reject=['//{one}[:/]']");
    says(
        &crawl,
        0,
        &["set", &reject],
        &format!("scope.reject = [\"//{one}[:/]\"]"),
    );
    let reject = format!("scope.reject=['//{one}[:/]', '//{two}[:/]']");
    says(
        &crawl,
        2,
        &["set", &reject, "--and-waiting"],
        "URLs that wait are of what the filters reject; to have them",
    );
    // The filters were set; only what waits was not judged again.
    let kept = crawl.pid("host-splitter");
    signal(kept, Signal::KILL);
    crawl.until_replaced("host-splitter", kept, MINUTE);
    says(
        &crawl,
        0,
        &["set", "--and-waiting", "--yes"],
        "URLs of what the filters reject",
    );
    let rejected = crawl.rhumb(&["drop", "--match", &format!("//({one}|{two})[:/]")]);
    assert!(
        rejected.code == 0 && rejected.out.contains("nothing to drop"),
        "{}{}",
        rejected.out,
        rejected.err
    );
    says(&crawl, 0, &["unpause"], "no longer paused: the crawl");
    let finished = crawl.finish(2 * MINUTE);
    assert_eq!(finished.code, 0, "{}", json(&finished.summary));
    assert_conserved(&finished.summary);
    assert_manners(&world.web.report());
    assert!(finished.summary.urls_filtered > 0 && finished.summary.outcomes["dropped"] > 0);
    assert!(
        finished.summary.pages >= u64::from((HOSTS - 2) * PAGES),
        "the others are whole"
    );
}

/// Goal: what waits is judged by how it was found, too, and also when a process does not hear of
/// the change. Method: nothing is fetched, and the parser stands still, while the crawl is cut down
/// to its seeds.
#[test]
fn what_waits_is_judged_by_its_depth_although_a_process_is_silent() {
    let world = world();
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| {
        summary.pages > u64::from(HOSTS * PAGES / 10)
    });
    says(&crawl, 0, &["pause"], "the crawl is paused");
    let waiting = crawl
        .until(MINUTE, |summary| summary.in_flight == 0)
        .waiting;
    assert!(waiting > 0, "too late to be a test");
    let parser = crawl.pid("parser");
    signal(parser, Signal::STOP);
    let set = [
        "set",
        "scope.max_depth=0",
        "--and-waiting",
        "--yes",
        "--yes",
    ];
    let said = crawl.rhumb(&set);
    signal(parser, Signal::CONT);
    assert!(
        said.code == 1 && said.err.contains("not heard yet by parser.0: no answer"),
        "{}{}",
        said.out,
        said.err
    );
    assert!(
        said.out.contains(" URLs of what the filters reject"),
        "{}{}",
        said.out,
        said.err
    );
    // Nothing waits any more: it is complete, although it is paused.
    let finished = crawl.finish(2 * MINUTE);
    assert_eq!(finished.code, 0, "{}", json(&finished.summary));
    assert_conserved(&finished.summary);
    assert!(
        finished.summary.outcomes["dropped"] >= waiting,
        "{waiting} waited: {}",
        json(&finished.summary)
    );
}

/// Goal: what was set holds when the crawl goes on, and a configuration that it does not go with is
/// refused before it is kept.
#[test]
fn a_configuration_that_does_not_go_with_what_is_set_is_refused_and_the_crawl_goes_on_without_it() {
    let world = world();
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| summary.pages > 40);
    let set = ["set", "stages.scheduler.retry_wait=10m", "--by", "anna"];
    says(&crawl, 0, &set, "stages.scheduler.retry_wait = \"10m\"; ");
    crawl.signal(Signal::INT);
    assert_eq!(crawl.exit_code(MINUTE), 130, "{}", crawl.log());

    let mut refused = world
        .resume()
        .set("stages.scheduler.retry_wait_max=1m")
        .start();
    assert_eq!(refused.exit_code(MINUTE), 2, "{}", refused.log());
    let log = refused.log();
    for words in [
        "stages.scheduler.retry_wait_max = 1m: accepted are 10m to ",
        "stages.scheduler.retry_wait = \"10m\" by anna since 20",
        "`rhumb set --unset stages.scheduler.retry_wait` takes it back",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }

    let mut crawl = world.resume().set("stages.scheduler.retry_wait=3s").start();
    crawl.until(MINUTE, |summary| {
        summary.pages > u64::from(HOSTS * PAGES / 10)
    });
    let log = crawl.log();
    let overridden = "stages.scheduler.retry_wait=3s is given, and does not hold: while the crawl \
                      ran, stages.scheduler.retry_wait";
    assert!(log.contains(overridden), "{log}");
    says(
        &crawl,
        0,
        &["set", "--unset", "stages.scheduler.retry_wait"],
        "stages.scheduler.retry_wait = \"3s\"; ",
    );
    let summary = crawl.finish(2 * MINUTE).summary;
    assert_eq!(
        summary.pages,
        u64::from(HOSTS * PAGES),
        "{}",
        json(&summary)
    );
}

#[test]
fn keys_and_values_that_make_no_sense_are_refused_and_change_nothing() {
    let world = world();
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| summary.pages > 40);
    for (arguments, words) in [
        (
            ["set", "politeness.delay"].as_slice(),
            "--set takes key.path=VALUE",
        ),
        (
            &["set", "politeness.delay=soon"],
            "configuration key politeness.delay",
        ),
        (&["set", "politeness.delays=1s"], "there is no such key"),
        (
            &["set", "partitions=8"],
            "it is fixed for the life of the crawl",
        ),
        (
            &["set", "stages.fetcher.replicas=2"],
            "`rhumb scale fetcher=N` changes it",
        ),
        (&["set", "limits.redirects=51"], "limits.redirects"),
        (
            &["set", "limits.redirects=5", "scope.accept=[(]"],
            "not a regular expression",
        ),
        (
            &["set", "--unset", "politeness.delay"],
            "politeness.delay is not set by rhumb set",
        ),
        (&["set", "--yes", "politeness.delay=1s"], "--and-waiting"),
    ] {
        says(&crawl, 2, arguments, words);
    }
    says(&crawl, 0, &["set"], "nothing is set");
    let summary = crawl.finish(2 * MINUTE).summary;
    assert_eq!(
        summary.pages,
        u64::from(HOSTS * PAGES),
        "{}",
        json(&summary)
    );
}

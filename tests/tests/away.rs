//! Away: a crawl whose network, name servers or seeds are not there. It waits as long as that may
//! change, goes on by itself, and never calls an end without a page a success.

use rhumb_tests::harness::{Crawl, Finished, Gate, Running, World, json, signal};
use rustix::process::Signal;
use std::net::TcpListener;
use std::time::{Duration, Instant};
use synthetic_web::{Latency, PagesPerHost, Profile};

const CRAWL_AT_MOST: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(100);

fn small() -> World {
    World::new(Profile {
        hosts: 4,
        pages_per_host: PagesPerHost::Exactly(5),
        ..Profile::raw()
    })
}

/// A crawl whose network is away, from one seed, and with tries that are few and short: without
/// doubt it would end within seconds.
fn unforgiving(crawl: Crawl) -> Crawl {
    crawl
        .set("stages.scheduler.attempts=2")
        .set("stages.scheduler.server_failures_max=2")
        .set("stages.scheduler.resolve_attempts=2")
        .set("stages.scheduler.retry_wait=200ms")
        .set("stages.scheduler.retry_wait_max=500ms")
        .set("stages.resolver.timeout=200ms")
        .set("stages.resolver.attempts=1")
        .set("limits.first_answer_timeout=300ms")
        .set("limits.first_byte_timeout=300ms")
}

/// What `rhumb` itself has printed.
fn printed(world: &World) -> String {
    std::fs::read_to_string(world.folder().join("rhumb.log")).expect("a log")
}

/// Waits until `rhumb` has printed these words.
fn until_printed(world: &World, crawl: &mut Running, words: &str, at_most: Duration) {
    let end = Instant::now() + at_most;
    while !printed(world).contains(words) {
        assert!(
            Instant::now() < end && !crawl.has_ended(),
            "nobody says '{words}':\n{}",
            crawl.log()
        );
        std::thread::sleep(POLL);
    }
}

/// It has ended without a page, with exit code 1, and its last line has these words.
fn assert_nothing(world: &World, finished: &Finished, words: &[&str]) {
    assert_eq!(
        (finished.code, finished.summary.pages),
        (1, 0),
        "{}",
        json(&finished.summary)
    );
    assert!(
        finished.summary.complete,
        "nothing is left to do: {}",
        json(&finished.summary)
    );
    let printed = printed(world);
    let last = printed.lines().last().unwrap_or_default();
    for word in ["no page was fetched"].iter().chain(words) {
        assert!(last.contains(word), "{word}: {printed}");
    }
}

/// Goal: a network that is away when a crawl of one seed begins costs nothing but time. Method:
/// name servers say nothing for 22 seconds, the way to the web is shut for 45; all else is as it is
/// shipped.
#[test]
fn a_crawl_of_one_seed_waits_until_the_network_is_back_and_fetches_everything() {
    // It lasts for some seconds after the network is back.
    let world = World::new(Profile {
        hosts: 4,
        pages_per_host: PagesPerHost::Exactly(60),
        latency: Latency::Fixed { ms: 50 },
        ..Profile::raw()
    });
    let names = Gate::to_name_server(world.web.dns());
    let web = Gate::to_web();
    names.shut();
    web.shut();
    let begun = Instant::now();
    let mut crawl = world
        .crawl()
        .set(&format!("network.nameservers=[\"{}\"]", names.address()))
        .set(&format!("network.proxy=socks5://{}", web.address()))
        .start();
    until_printed(
        &world,
        &mut crawl,
        "the crawl waits: resolver.0: no name server answers",
        Duration::from_secs(21),
    );
    let status = crawl.rhumb(&["status"]).out;
    assert!(
        status.contains("\nwaits     resolver.0: no name server answers"),
        "{status}"
    );
    std::thread::sleep(Duration::from_secs(22).saturating_sub(begun.elapsed()));
    names.open();
    until_printed(
        &world,
        &mut crawl,
        "the crawl waits: fetcher.0: no server can be reached",
        Duration::from_secs(20),
    );
    std::thread::sleep(Duration::from_secs(45).saturating_sub(begun.elapsed()));
    web.open();
    until_printed(
        &world,
        &mut crawl,
        "the crawl goes on",
        Duration::from_secs(15),
    );
    let finished = crawl.finish(Duration::from_secs(30));
    world.assert_whole(&finished);
}

#[test]
fn name_servers_that_never_answer_end_a_crawl_with_exit_code_1_after_doubt() {
    let world = small();
    let gate = Gate::to_name_server(world.web.dns());
    gate.shut();
    let begun = Instant::now();
    let crawl = unforgiving(world.crawl())
        .set(&format!("network.nameservers=[\"{}\"]", gate.address()))
        .set("network.doubt_max=4s");
    let finished = crawl.run(CRAWL_AT_MOST);
    assert!(
        begun.elapsed() > Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    assert_nothing(
        &world,
        &finished,
        &[
            "1 URL ended as unresolvable (name servers do not answer)",
            "h0000",
        ],
    );
    assert!(
        printed(&world).contains("the crawl waits: resolver.0"),
        "{}",
        printed(&world)
    );
}

/// Servers that take connections and say nothing are as silent as a network that is cut.
#[test]
fn a_web_that_never_answers_ends_a_crawl_with_exit_code_1_after_doubt() {
    let world = small();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let seed = format!("http://{}/", silent.local_addr().expect("an address"));
    let begun = Instant::now();
    let crawl = unforgiving(world.bare("crawl"))
        .arguments(&[&seed])
        .set("network.doubt_max=4s");
    let finished = crawl.run(CRAWL_AT_MOST);
    assert!(
        begun.elapsed() > Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    assert_nothing(&world, &finished, &["127.0.0.1"]);
    assert!(
        printed(&world).contains("the crawl waits: fetcher.0"),
        "{}",
        printed(&world)
    );
}

/// Goal: what is answered, if only by a refusal, is no matter of doubt. Method: nine wrong ports; a
/// name that does not exist.
#[test]
fn wrong_ports_and_wrong_names_end_a_crawl_without_doubt() {
    let ports = (1..=9).map(|n| format!("http://127.77.0.{n}:9/")).collect();
    let name = vec!["http://missing.nowhere.test/".to_owned()];
    for (seeds, words) in [
        (ports, "9 URLs ended as failed (no connection)"),
        (name, "(no such name)"),
    ] {
        let world = small();
        let seeds: Vec<String> = seeds;
        let begun = Instant::now();
        let finished = unforgiving(world.bare("crawl"))
            .arguments(&seeds)
            .run(CRAWL_AT_MOST);
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
        assert_nothing(&world, &finished, &[words]);
        assert!(
            !printed(&world).contains("no server can be reached"),
            "{}",
            printed(&world)
        );
    }
}

#[test]
fn seeds_that_the_rules_leave_out_are_told_with_the_rule() {
    let world = small();
    let seeds = ["http://a.test/file.pdf", "http://b.test/?a&b&c"];
    let crawl = world
        .bare("crawl")
        .arguments(&seeds)
        .set(r#"scope.reject=["\\.pdf$"]"#)
        .set("limits.query_parameters=2");
    let finished = crawl.run(CRAWL_AT_MOST);
    assert_nothing(
        &world,
        &finished,
        &["1 URL by limits.query_parameters, 1 URL by scope.reject"],
    );
    // Whoever resumes it is told the same; one with a page is a success, whatever else is left out.
    let resumed = world.resume().run(CRAWL_AT_MOST);
    assert_nothing(&world, &resumed, &["1 URL by scope.reject"]);
    let resumed = world
        .resume()
        .arguments(&[&world.web.seed_urls()[0]])
        .run(CRAWL_AT_MOST);
    assert!(
        resumed.code == 0 && resumed.summary.pages > 0,
        "{}",
        json(&resumed.summary)
    );
    assert_eq!(
        world.resume().run(CRAWL_AT_MOST).code,
        0,
        "its page is of an earlier run"
    );
}

#[test]
fn a_limit_of_time_is_no_end_without_a_page() {
    let world = small();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let seed = format!("http://{}/", silent.local_addr().expect("an address"));
    let finished = world
        .bare("crawl")
        .arguments(&[&seed, "--for", "3s"])
        .run(CRAWL_AT_MOST);
    assert_eq!(
        (finished.code, finished.summary.complete),
        (0, false),
        "{}",
        json(&finished.summary)
    );
}

/// Kills the broker and `rhumb`; the system kills the stages with it.
fn kill_all(crawl: &Running) {
    for pid in ["broker", "rhumb"].iter().flat_map(|name| crawl.pids(name)) {
        signal(pid, Signal::KILL);
    }
}

/// Goal: after a death of all processes nothing is waited for that can be asked for at once.
/// Method: a parser that stands still holds what is left; then all are killed. The broker would
/// give it out again a minute later (edges.pages.ack_wait).
#[test]
fn what_a_killed_process_had_in_hand_is_given_out_at_once_when_the_crawl_is_resumed() {
    let world = World::new(Profile {
        hosts: 10,
        pages_per_host: PagesPerHost::Exactly(40),
        latency: Latency::Fixed { ms: 150 },
        ..Profile::raw()
    });
    let mut crawl = world.crawl().start();
    crawl.until(CRAWL_AT_MOST, |summary| summary.pages >= 60);
    signal(crawl.pid("parser"), Signal::STOP);
    // All that is known is fetched; what comes of it lies with the parser.
    crawl.until(CRAWL_AT_MOST, |summary| {
        summary.waiting + summary.in_flight == 0
    });
    kill_all(&crawl);
    crawl.exit_code(CRAWL_AT_MOST);
    let begun = Instant::now();
    let finished = world.resume().run(CRAWL_AT_MOST);
    assert!(
        begun.elapsed() < Duration::from_secs(25),
        "{:?}:\n{}",
        begun.elapsed(),
        printed(&world)
    );
    world.assert_counted(&finished);
}

/// Goal: what has to be waited for is said. Method: all processes are killed while requests are
/// under way; their servers are left alone until the leases are over (P1).
#[test]
fn a_resumed_crawl_says_that_it_waits_for_leases() {
    let world = World::new(Profile {
        hosts: 3,
        pages_per_host: PagesPerHost::Exactly(4),
        latency: Latency::Fixed { ms: 1500 },
        ..Profile::raw()
    });
    let mut crawl = world.crawl().arguments(&world.web.seed_urls()).start();
    crawl.until(CRAWL_AT_MOST, |summary| {
        summary.pages > 0 && summary.in_flight > 0
    });
    kill_all(&crawl);
    crawl.exit_code(CRAWL_AT_MOST);
    let mut resumed = world.resume().start();
    resumed.handle();
    until_printed(
        &world,
        &mut resumed,
        "in jobs of a fetcher that is gone",
        Duration::from_secs(15),
    );
    world.assert_counted(&resumed.finish(CRAWL_AT_MOST));
}

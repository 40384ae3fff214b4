//! Outages: nobody dies, but for a while something cannot be reached; what was done meanwhile is
//! neither lost nor done again, and nothing is held against those who had no part in it.

use rhumb_tests::harness::{Crawl, Gate, Running, World, binaries, json, signal};
use rustix::process::Signal;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use synthetic_web::{Latency, PagesPerHost, Profile};

const HOSTS: u64 = 25;
const PAGES_PER_HOST: u64 = 50;
const CRAWL_AT_MOST: Duration = Duration::from_secs(90);
/// Longer than a job's lease with its grace, which is six seconds here.
const DEAF: Duration = Duration::from_secs(9);

#[test]
fn what_was_fetched_while_the_broker_was_away_is_not_fetched_again() {
    loses_and_repeats_nothing_while_it_is_stopped("broker");
}

#[test]
fn what_was_fetched_while_the_scheduler_stood_still_is_not_fetched_again() {
    loses_and_repeats_nothing_while_it_is_stopped("scheduler");
}

/// Goal: time in which the scheduler cannot hear does not count against the jobs that are out.
/// Method: a process is stopped for longer than their leases last.
fn loses_and_repeats_nothing_while_it_is_stopped(name: &str) {
    let world = World::new(Profile {
        hosts: HOSTS as u32,
        pages_per_host: PagesPerHost::Exactly(PAGES_PER_HOST as u32),
        latency: Latency::Fixed { ms: 150 },
        ..Profile::raw()
    });
    let mut crawl = with_short_leases(world.crawl()).start();
    until_share(&mut crawl, 1, 3);
    let pid = crawl.pid(name);
    signal(pid, Signal::STOP);
    std::thread::sleep(DEAF);
    signal(pid, Signal::CONT);
    let finished = crawl.finish(CRAWL_AT_MOST);
    world.assert_counted(&finished);
    let report = world.web.report();
    assert!(
        report.repeats.count <= HOSTS,
        "at most one request a connection: {}",
        json(&report)
    );
    assert_eq!(finished.summary.restarts, 0, "{}", json(&finished.summary));
}

fn with_short_leases(crawl: Crawl) -> Crawl {
    crawl
        .set("ownership_lease=2s")
        .set("stages.scheduler.job_lease=4s")
        .set("stages.fetcher.renew_every=1s")
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

/// Few tries and short waits: what is held against a server ends its URLs within a second or two.
fn unforgiving(crawl: Crawl) -> Crawl {
    crawl
        .set("stages.scheduler.attempts=3")
        .set("stages.scheduler.server_failures_max=2")
        .set("stages.scheduler.resolve_attempts=2")
        .set("stages.scheduler.retry_wait=200ms")
        .set("stages.scheduler.retry_wait_max=500ms")
}

/// Waits until `status` shows a line with these words.
fn until_said(crawl: &mut Running, words: &str, at_most: Duration) {
    let end = Instant::now() + at_most;
    loop {
        let status = crawl.rhumb(&["status"]).out;
        if status.contains(words) {
            return;
        }
        assert!(
            Instant::now() < end && !crawl.has_ended(),
            "nobody says '{words}':\n{status}\n{}",
            crawl.log()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The lines of a stage's log that contain these words.
fn logged(crawl: &Running, stage: &str, words: &str) -> usize {
    let logs = std::fs::read_dir(crawl.data().join("logs"))
        .expect("logs")
        .flatten();
    let of_stage = logs.filter(|entry| entry.file_name().to_string_lossy().starts_with(stage));
    let text: String = of_stage
        .map(|entry| std::fs::read_to_string(entry.path()).expect("a log"))
        .collect();
    text.lines().filter(|line| line.contains(words)).count()
}

/// Goal: a network that is cut is not held against servers. Method: the only fetcher has no way out
/// for far longer than it takes to give up a server.
#[test]
fn a_network_that_is_cut_for_a_while_costs_no_page() {
    let world = World::new(Profile {
        hosts: HOSTS as u32,
        pages_per_host: PagesPerHost::Exactly(PAGES_PER_HOST as u32),
        latency: Latency::Fixed { ms: 200 },
        ..Profile::raw()
    });
    let gate = Gate::to_web();
    // Two threads of the gate pass on the end of a connection and the beginning of the next: the
    // delay keeps their order.
    let crawl = unforgiving(world.crawl()).set("politeness.delay=100ms");
    let mut crawl = crawl
        .set(&format!("network.proxy=socks5://{}", gate.address()))
        .start();
    until_share(&mut crawl, 1, 3);
    gate.shut();
    until_said(
        &mut crawl,
        "not ready (no server can be reached from here",
        Duration::from_secs(10),
    );
    let why = crawl.rhumb(&["why", &world.web.seed_urls()[0]]).out;
    assert!(why.contains("no server can be reached from here"), "{why}");
    std::thread::sleep(Duration::from_secs(5));
    let before = crawl.until(CRAWL_AT_MOST, |_| true).pages;
    gate.open();
    let opened = Instant::now();
    crawl.until(CRAWL_AT_MOST, |summary| summary.pages >= before + 2 * HOSTS);
    assert!(
        opened.elapsed() < Duration::from_secs(20),
        "goes on {:?} after the cut",
        opened.elapsed()
    );
    let begun = logged(&crawl, "fetcher", "no server can be reached from here");
    let ended = logged(&crawl, "fetcher", "servers can be reached again");
    assert_eq!((begun, ended), (1, 1), "one line each");
    let finished = crawl.finish(CRAWL_AT_MOST);
    world.assert_counted(&finished);
}

/// Goal: a fetcher that has no way out, while another has one, costs no URL an attempt, however
/// long that lasts. Method: it works beside the crawl's own, gives up its doubt at once, and fails
/// as fast as it can.
#[test]
fn a_fetcher_without_a_way_out_costs_no_page_while_another_has_one() {
    let world = World::new(Profile {
        hosts: 60,
        pages_per_host: PagesPerHost::Exactly(20),
        latency: Latency::Fixed { ms: 100 },
        ..Profile::raw()
    });
    let mut crawl = unforgiving(world.crawl())
        .set("network.doubt_max=1s")
        .set("stages.fetcher.connections=20")
        .start();
    // The scheduler knows of one that reaches servers.
    crawl.until(CRAWL_AT_MOST, |summary| summary.pages > 0);
    let other = OtherFetcher::start(
        &crawl,
        &crawl.handle().broker,
        &["network.proxy=http://127.0.0.1:1"],
    );
    until_said(&mut crawl, "fetcher.1", CRAWL_AT_MOST);
    let finished = crawl.finish(CRAWL_AT_MOST);
    world.assert_whole(&finished);
    drop(other);
}

/// A fetcher beside the crawl's own; it ends when it is dropped.
struct OtherFetcher(Child);

impl OtherFetcher {
    fn start(crawl: &Running, broker: &str, set: &[&str]) -> OtherFetcher {
        let mut command = Command::new(binaries().join("fetcher"));
        command
            .args(["--instance", "1", "--config"])
            .arg(crawl.data().join("configuration.json"));
        for assignment in set {
            command.args(["--set", assignment]);
        }
        let log =
            std::fs::File::create(crawl.data().join("other-fetcher.log")).expect("a log file");
        let child = command
            .env("RHUMB__BROKER__URL", broker)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        OtherFetcher(child.spawn().expect("a fetcher can be started"))
    }
}

impl Drop for OtherFetcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Goal: name servers that are dead for a while make no name unresolvable. Method: they are when
/// the crawl begins, for far longer than it takes to give up a name.
#[test]
fn name_servers_that_are_dead_for_a_while_cost_no_page() {
    let world = World::new(Profile {
        hosts: 30,
        pages_per_host: PagesPerHost::Exactly(5),
        ..Profile::raw()
    });
    let gate = Gate::to_name_server(world.web.dns());
    gate.shut();
    let mut crawl = unforgiving(world.crawl())
        .arguments(&world.web.seed_urls())
        .set(&format!("network.nameservers=[\"{}\"]", gate.address()))
        .set("stages.resolver.timeout=1s")
        .set("stages.resolver.attempts=1")
        .start();
    until_said(
        &mut crawl,
        "not ready (no name server answers",
        Duration::from_secs(15),
    );
    std::thread::sleep(Duration::from_secs(4));
    gate.open();
    let opened = Instant::now();
    let finished = crawl.finish(CRAWL_AT_MOST);
    assert!(
        opened.elapsed() < Duration::from_secs(20),
        "ends {:?} after they are back",
        opened.elapsed()
    );
    world.assert_whole(&finished);
}

/// Goal: a list of dead hosts ends (P6), with the right outcomes, at most `network.doubt_max` later
/// than without doubt. Method: thirty hosts that take connections and say nothing, once without and
/// once with it.
#[test]
fn a_list_of_dead_hosts_ends_when_doubt_has_lasted_long_enough() {
    let doubt_max = Duration::from_secs(4);
    let times = [Duration::ZERO, doubt_max].map(|doubt_max| {
        let world = World::new(Profile {
            hosts: 1,
            pages_per_host: PagesPerHost::Exactly(1),
            ..Profile::raw()
        });
        // Nobody accepts: the system does, and that is all.
        let silent = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port");
        let port = silent.local_addr().expect("an address").port();
        let dead: Vec<String> = (1..=30)
            .map(|n| format!("http://127.77.0.{n}:{port}/"))
            .collect();
        let crawl = unforgiving(world.bare("crawl"))
            .arguments(&dead)
            .set(&format!("network.doubt_max={}s", doubt_max.as_secs()))
            .set("limits.first_answer_timeout=200ms")
            .set("limits.first_byte_timeout=200ms")
            .set("politeness.respect_robots=false")
            .start();
        let started = Instant::now();
        let log = crawl.data().join("logs");
        let finished = crawl.finish(CRAWL_AT_MOST);
        assert_eq!(
            (finished.code, finished.summary.complete),
            (1, true),
            "{}",
            json(&finished.summary)
        );
        assert_eq!(
            finished.summary.outcomes["failed"],
            30,
            "{} ({})",
            json(&finished.summary),
            log.display()
        );
        started.elapsed()
    });
    let [without, with] = times;
    assert!(with > doubt_max, "there was doubt: {with:?}");
    assert!(
        with < without + doubt_max + Duration::from_secs(5),
        "{without:?} without doubt, {with:?} with it"
    );
}

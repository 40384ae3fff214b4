//! Hostile servers: what their URLs come to, how little they are contacted, and what they cost the
//! others (P3, P5, P6, P9).

use rhumb_tests::harness::{
    ATTEMPTS, CRAWL_LIMITS, RETRY_WAIT, SERVER_FAILURES_MAX, World, honest_hosts, hurried, json,
};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use synthetic_web::{Hostility, Latency, PagesPerHost, Profile, RobotsShares};

/// `limits.first_answer_timeout`, the same part of `request_timeout` as by default
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// `limits.transfer_rate_window`, the same part
const TRANSFER_RATE_WINDOW: Duration = Duration::from_millis(333);
const CRAWL_AT_MOST: Duration = Duration::from_secs(120);
/// All processes of a crawl together, broker included.
const MEMORY_BYTES_MAX: u64 = 1_000_000_000;

/// Answers of a server before it takes leave, and the one that may be on its way then.
const GOES_AWAY_AFTER: usize = 6;
/// What counts of a robots.txt (RFC 9309, section 2.5).
const ROBOTS_BYTES_MAX: u64 = 500 << 10;
/// What a server may have sent beyond what was read: it lies in the buffers of both kernels.
const UNREAD_BYTES_MAX: u64 = 8 << 20;

/// Goal: whatever a hostile server does, the crawl ends by itself, within its memory, with exactly
/// what is there: each URL ends once, as the table of troubles says, after few contacts. Method: a
/// crawl of a web in which most hosts are hostile, one of each kind, with 40 pages each; outcomes
/// are compared with the truth, one by one as a tap shows them and all in the summary, and contacts
/// with what the settings allow.
#[test]
fn a_crawl_through_every_hazard_ends_with_exactly_what_is_there() {
    let world = World::alone(honest_hosts(40).with_all_hazards());
    let started = Instant::now();
    let crawl = hurried(world.crawl()).set("politeness.delay=20ms").start();
    crawl.handle();
    let tap = crawl.tap("outcomes");
    let finished = crawl.finish(CRAWL_AT_MOST);
    let elapsed = started.elapsed();
    world.assert_whole(&finished);
    let peaks: u64 = finished
        .summary
        .processes
        .iter()
        .map(|process| process.peak_rss_bytes)
        .sum();
    println!(
        "{elapsed:.1?}, {} MB together, {:?}",
        peaks / 1_000_000,
        finished.summary.outcomes
    );
    assert!(peaks < MEMORY_BYTES_MAX, "{}", json(&finished.summary));
    assert!(
        finished
            .summary
            .processes
            .iter()
            .any(|process| process.stage == "broker")
    );

    let expected = expected_outcomes(&world);
    let mut ended: HashMap<String, String> = HashMap::new();
    for line in tap.lines() {
        let message: Value = serde_json::from_str(&line).expect("JSON");
        for entry in message["message"]["entries"].as_array().expect("entries") {
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            let url = text("url");
            let outcome = text("outcome");
            assert_eq!(
                expected.get(&url).copied(),
                Some(outcome.as_str()),
                "{entry}"
            );
            assert_eq!(ended.insert(url, outcome), None, "{entry} ended before");
        }
    }
    assert!(
        ended.len() * 10 > expected.len() * 9,
        "the tap saw {} of {} outcomes",
        ended.len(),
        expected.len()
    );

    for (host, hostility) in hostile_hosts(&world) {
        let (pages, robots) = contacts(&world, host);
        let found = expected
            .keys()
            .filter(|url| is_of(&world, host, url))
            .count();
        println!(
            "{hostility:?}: {found} URLs, {robots} + {pages} contacts, {} bytes",
            world.web.bytes_sent(host)
        );
        assert!(
            robots <= robots_at_most(hostility),
            "{hostility:?}: {robots} requests for robots.txt"
        );
        assert!(
            pages <= pages_at_most(hostility, found, elapsed),
            "{hostility:?}: {pages} contacts for {found} URLs"
        );
        if hostility == Hostility::Http2GoAway {
            let longest = requests_by_connection(&world, host).into_values().max();
            assert!(
                longest.is_some_and(|requests| requests <= GOES_AWAY_AFTER),
                "{longest:?} requests on a connection"
            );
        }
    }
}

/// Goal: a robots.txt of any kind is read up to its bound in bytes and time, and decided as RFC
/// 9309 says. Method: every host but the first has a robots.txt that is broken in another way; the
/// report shows whether all that may be fetched was, and nothing else; the web counts the bytes
/// that it sent.
#[test]
fn a_robots_txt_of_any_kind_is_bounded_and_obeyed_as_far_as_it_can_be_read() {
    let hostilities: Vec<Hostility> = Hostility::ALL
        .into_iter()
        .filter(|hostility| format!("{hostility:?}").starts_with("Robots"))
        .collect();
    assert_eq!(hostilities.len(), 12);
    let world = World::alone(Profile {
        hosts: 13,
        pages_per_host: PagesPerHost::Exactly(60),
        robots: RobotsShares {
            disallowed_pages: 0.3,
            ..Profile::raw().robots
        },
        hostile: 12.0 / 13.0,
        hostilities,
        ..Profile::raw()
    });
    let finished = hurried(world.crawl()).run(CRAWL_AT_MOST);
    world.assert_whole(&finished);
    assert!(!world.web.truth().disallowed.is_empty());

    for (host, hostility) in hostile_hosts(&world) {
        let (pages, robots) = contacts(&world, host);
        let sent = world.web.bytes_sent(host);
        println!("{hostility:?}: {robots} + {pages} contacts, {sent} bytes");
        assert!(
            robots <= robots_at_most(hostility),
            "{hostility:?}: {robots} requests for robots.txt"
        );
        let is_obeyed = !matches!(
            hostility,
            Hostility::RobotsRefused
                | Hostility::RobotsWalled
                | Hostility::RobotsDrips
                | Hostility::RobotsShort
        );
        assert_eq!(pages > 0, is_obeyed, "{hostility:?}: {pages} pages");
        let is_endless = matches!(hostility, Hostility::RobotsEndless | Hostility::RobotsHuge);
        assert!(
            !is_endless || sent > ROBOTS_BYTES_MAX,
            "{hostility:?}: {sent} bytes"
        );
        let pages_bytes = pages as u64 * 500_000;
        let at_most = robots as u64 * (ROBOTS_BYTES_MAX + UNREAD_BYTES_MAX) + pages_bytes;
        assert!(
            sent <= at_most,
            "{hostility:?}: {sent} bytes, at most {at_most}"
        );
    }
}

/// Goal: hostile servers, one in ten, cost the others less than a tenth of their throughput.
/// Method: the same hosts with and without hostile ones, in turn; how long it takes until the pages
/// of the others have been requested is decided by latency and delay, not by the processor. Medians
/// of three.
#[test]
fn hostile_servers_cost_the_others_less_than_a_tenth() {
    // A robots.txt that lies with the first host is one contact more there, and so one delay: no
    // loss of throughput.
    let hostilities: Vec<Hostility> = Hostility::ALL
        .into_iter()
        .filter(|hostility| *hostility != Hostility::RobotsElsewhere)
        .collect();
    let kinds = hostilities.len() as u32;
    let race = Race {
        honest: 9 * kinds,
        hostilities,
        pages_per_host: 6,
        delay_ms: 1_600,
        connections: 600,
    };
    race.assert_cost_below_a_tenth(kinds);
}

/// The same when connections are short and every hostile server keeps those that it gets.
#[test]
fn servers_that_hold_connections_cost_the_others_less_than_a_tenth_when_connections_are_short() {
    let hostilities = vec![Hostility::Silent, Hostility::Drips, Hostility::RobotsDrips];
    let race = Race {
        honest: 45,
        hostilities,
        pages_per_host: 40,
        delay_ms: 100,
        connections: 20,
    };
    race.assert_cost_below_a_tenth(5);
}

/// A crawl of honest hosts, with or without hostile ones beside them.
struct Race {
    honest: u32,
    hostilities: Vec<Hostility>,
    pages_per_host: u32,
    delay_ms: u64,
    connections: u32,
}

impl Race {
    fn assert_cost_below_a_tenth(&self, hostile: u32) {
        let mut with = Vec::new();
        let mut without = Vec::new();
        for _ in 0..3 {
            without.push(self.time(0));
            with.push(self.time(hostile));
        }
        let cost = median(&mut with).as_secs_f64() / median(&mut without).as_secs_f64() - 1.0;
        println!(
            "{:.1} %: {with:.2?} with hostile servers, {without:.2?} without",
            100.0 * cost
        );
        assert!(
            cost < 0.1,
            "{with:?} with hostile servers, {without:?} without"
        );
    }

    /// From the first request to the first for the last page of the honest hosts.
    fn time(&self, hostile: u32) -> Duration {
        let hosts = self.honest + hostile;
        let world = World::alone(Profile {
            hosts,
            pages_per_host: PagesPerHost::Exactly(self.pages_per_host),
            page_bytes_median: 2_000,
            links_min: 5,
            links_max: 15,
            latency: Latency::Fixed { ms: 20 },
            hostile: f64::from(hostile) / f64::from(hosts),
            hostilities: self.hostilities.clone(),
            crawl_limits: CRAWL_LIMITS,
            ..Profile::raw()
        });
        let crawl = hurried(world.bare("crawl").arguments(&world.web.seed_urls()))
            .set(&format!("politeness.delay={}ms", self.delay_ms))
            .set(&format!(
                "limits.first_answer_timeout={}ms",
                FIRST_ANSWER_TIMEOUT.as_millis()
            ))
            .set(&format!(
                "limits.transfer_rate_window={}ms",
                TRANSFER_RATE_WINDOW.as_millis()
            ))
            .set(&format!("stages.fetcher.connections={}", self.connections));
        let mut crawl = crawl.start();
        let end = Instant::now() + CRAWL_AT_MOST;
        loop {
            let mut first_requests: HashMap<String, Duration> = HashMap::new();
            for contact in world
                .web
                .contacts()
                .into_iter()
                .filter(|contact| contact.host < self.honest)
            {
                let at = first_requests.entry(contact.url).or_insert(contact.at);
                *at = contact.at.min(*at);
            }
            // With robots.txt of each.
            if first_requests.len() as u32 == self.honest * (self.pages_per_host + 1) {
                let times: Vec<Duration> = first_requests.into_values().collect();
                return times
                    .iter()
                    .max()
                    .expect("requests")
                    .saturating_sub(*times.iter().min().expect("requests"));
            }
            assert!(
                Instant::now() < end && !crawl.has_ended(),
                "{}\n{}",
                json(&world.web.report()),
                crawl.log()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Outcome of each URL that a perfect crawl finds.
fn expected_outcomes(world: &World) -> BTreeMap<String, &'static str> {
    let truth = world.web.truth();
    let lists = [
        ("fetched", truth.pages),
        ("redirected", truth.redirects),
        ("gone", truth.not_found),
        ("disallowed", truth.disallowed),
        ("refused", truth.refused),
        ("failed", truth.failed),
        ("unresolvable", truth.unresolvable),
        ("over-budget", truth.over_budget),
    ];
    lists
        .into_iter()
        .flat_map(|(outcome, urls)| urls.into_iter().map(move |url| (url, outcome)))
        .collect()
}

fn hostile_hosts(world: &World) -> Vec<(u32, Hostility)> {
    let hosts = 0..world.web.seed_urls().len() as u32;
    hosts
        .filter_map(|host| Some((host, world.web.hostility(host)?)))
        .collect()
}

fn is_of(world: &World, host: u32, url: &str) -> bool {
    url.contains(&format!("://{}:", world.web.host_name(host)))
}

/// Requests to a host: for pages, and for robots.txt.
fn contacts(world: &World, host: u32) -> (usize, usize) {
    let contacts = world
        .web
        .contacts()
        .into_iter()
        .filter(|contact| contact.host == host);
    let (robots, pages): (Vec<_>, Vec<_>) =
        contacts.partition(|contact| contact.url.ends_with("/robots.txt"));
    (pages.len(), robots.len())
}

/// How many requests came on each connection to a host.
fn requests_by_connection(world: &World, host: u32) -> BTreeMap<u32, usize> {
    let mut requests = BTreeMap::new();
    for contact in world
        .web
        .contacts()
        .into_iter()
        .filter(|contact| contact.host == host)
    {
        *requests.entry(contact.connection).or_default() += 1;
    }
    requests
}

/// `stages.scheduler.attempts`, when there is no answer, and one more when that has lapsed; five
/// redirects.
fn robots_at_most(hostility: Hostility) -> usize {
    match hostility {
        Hostility::RobotsRefused
        | Hostility::RobotsWalled
        | Hostility::RobotsDrips
        | Hostility::RobotsShort => ATTEMPTS + 1,
        Hostility::RobotsLoop => 1 + 5,
        Hostility::NameMissing
        | Hostility::NameEmpty
        | Hostility::NameFails
        | Hostility::NameSilent => 0,
        _ => 1,
    }
}

/// `stages.scheduler.server_failures_max` when nothing is ever answered, and one more each time
/// that has lapsed, for URLs that were found later.
fn pages_at_most(hostility: Hostility, urls: usize, elapsed: Duration) -> usize {
    match hostility {
        Hostility::Refuses
        | Hostility::RefusesForADay
        | Hostility::Silent
        | Hostility::HangsUp
        | Hostility::Drips
        | Hostility::Garbage
        | Hostility::HeadDrips
        | Hostility::HeadMissing
        | Hostility::BodyMissing => {
            let lapses_after = RETRY_WAIT * (1 << (SERVER_FAILURES_MAX - 1));
            SERVER_FAILURES_MAX + (elapsed.as_secs_f64() / lapses_after.as_secs_f64()) as usize
        }
        Hostility::RobotsRefused
        | Hostility::RobotsWalled
        | Hostility::RobotsDrips
        | Hostility::RobotsShort => 0,
        Hostility::NameMissing
        | Hostility::NameEmpty
        | Hostility::NameFails
        | Hostility::NameSilent => 0,
        // Each counts for its URL alone.
        Hostility::ServerErrors | Hostility::HeadHuge | Hostility::HeadEndless => ATTEMPTS * urls,
        // One in ten is sent away, and what was on its way may be lost with each connection.
        Hostility::Busy => 2 * urls,
        // A page is lost with each connection at most.
        Hostility::Closes | Hostility::Resets | Hostility::Http2Resets => 2 * urls,
        _ => urls,
    }
}

//! The scheduler's policies through all processes: the same pages whatever the policy, each policy
//! in its own order.
//!
//! Order is looked at on a web of which every URL is a seed, over one connection, from servers that
//! close a connection after five requests: what is requested next is then the policy's choice
//! alone, and it chooses often.

use laboratory::order::Scale;
use rhumb_tests::harness::{Crawl, World};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use synthetic_web::{Graph, Latency, PagesPerHost, Profile, RobotsShares};

const AT_MOST: Duration = Duration::from_secs(120);

/// Hosts and pages of the web on which order is looked at: few enough for all URLs to be one
/// message of seeds.
const HOSTS: usize = 4;
const PAGES: usize = 40;
/// Requests that a connection serves there.
const REQUESTS: usize = 5;
/// Good pages of each host, as many as two connections serve; the others are worth a thousandth.
const GOOD: usize = PAGES / 4;

/// Goal: a policy decides when a page is fetched and never whether. Method: each policy, with a
/// quality of each kind, crawls a web with latencies, robots.txt, redirects, dead links and closing
/// servers, and must request every URL of the truth once and count each under its outcome.
#[test]
fn every_policy_comes_to_the_same() {
    let mixed = Profile::mixed();
    let profile = Profile {
        hosts: 40,
        pages_per_host: PagesPerHost::HeavyTail { mean: 20 },
        robots: RobotsShares {
            crawl_delay: 0.0,
            ..mixed.robots
        },
        ..mixed
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut outcomes = BTreeMap::new();
    for (policy, quality) in [
        ("breadth-first", "depth"),
        ("performance", "depth"),
        ("quality", "table"),
        ("capacity", "flow"),
        ("capacity", "depth"),
        ("capacity", "links"),
        ("quality", "opic"),
    ] {
        let world = World::new(profile.clone());
        let crawl = with_table(world.crawl(), folder.path(), &world.web.truth().pages);
        let finished = crawl
            .set(&format!("stages.scheduler.policy={policy}"))
            .set(&format!("stages.scheduler.quality={quality}"))
            .run(AT_MOST);
        world.assert_whole(&finished);
        outcomes.insert((policy, quality), finished.summary.outcomes);
    }
    let first = &outcomes[&("breadth-first", "depth")];
    assert!(
        ["fetched", "redirected", "gone", "disallowed"]
            .iter()
            .all(|name| first[*name] > 0),
        "{first:?}"
    );
    assert!(
        outcomes.values().all(|other| other == first),
        "{outcomes:?}"
    );
}

/// Goal: breadth-first is first in, first out, whatever pages are worth, among the URLs of a server
/// and among servers. Method: the URLs of each host are requested in just the order of the seeds,
/// which is not that of their names; and when half of all pages are requested, no host, fast or
/// slow, has had much more or less than half of its own.
#[test]
fn breadth_first_is_first_in_first_out() {
    let order = order("breadth-first", "table");
    for host in 0..HOSTS {
        let of_host = |urls: &[String]| {
            urls.iter()
                .filter(|url| is_of(url, host))
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(of_host(&order.requested), of_host(&order.seeds));
        let half = order.first_half().filter(|url| is_of(url, host)).count();
        assert!(
            (PAGES / 4..=PAGES * 3 / 4).contains(&half),
            "host {host}: {half} in {:?}",
            order.requested
        );
    }
}

/// Goal: performance requests fast servers first, as soon as it is known which are. Method: every
/// second host takes 100 ms for a request, the others 5 ms. A crawl with a budget of some pages for
/// each host measures them all; the one that goes on without, over one connection, requests what is
/// left of the fast hosts in its first half.
#[test]
fn performance_goes_to_fast_servers_first() {
    let world = World::alone(web());
    let folder = tempfile::tempdir().expect("a folder");
    let seeds = seeds(&world);
    let crawl = of_seeds(&world, folder.path(), &seeds).set("stages.scheduler.policy=performance");
    let measuring = crawl
        .set("limits.pages_per_host=8")
        .set("limits.over_budget=wait")
        .run(AT_MOST);
    assert_eq!(
        (measuring.code, measuring.summary.pages),
        (0, HOSTS as u64 * 8)
    );

    let resumed = world
        .resume()
        .set("limits.pages_per_host=0")
        .set("stages.fetcher.connections=1")
        .run(AT_MOST);
    world.assert_whole(&resumed);
    let left = requested(&world).split_off(HOSTS * 8);
    let fast = left[..left.len() / 2]
        .iter()
        .filter(|url| (0..HOSTS).step_by(2).any(|host| is_of(url, host)))
        .count();
    assert!(
        fast * 100 >= left.len() / 2 * 90,
        "{fast} fast ones in the first half of {left:?}"
    );
}

/// Goal: quality requests the good pages before the bad ones, of each server and of all. Method:
/// every fourth page is good. A connection that was opened before all good ones were known may have
/// brought bad ones.
#[test]
fn quality_goes_to_good_pages_first() {
    let order = order("quality", "table");
    for host in 0..HOSTS {
        let first = order
            .requested
            .iter()
            .filter(|url| is_of(url, host))
            .take(GOOD);
        let good = first.filter(|url| order.good.contains(*url)).count();
        assert!(
            good + REQUESTS >= GOOD,
            "host {host}: {good} good ones at first in {:?}",
            order.requested
        );
    }
    let good = order.requested[..HOSTS * PAGES / 3]
        .iter()
        .filter(|url| order.good.contains(*url))
        .count();
    assert!(
        good * 100 >= HOSTS * GOOD * 90,
        "{good} good ones in the first third of {:?}",
        order.requested
    );
}

/// Goal: capacity gathers quality faster than breadth-first. Method: every fourth page is good.
/// When half of the pages are requested, breadth-first has about half of the good ones, capacity
/// nearly all.
#[test]
fn capacity_gathers_quality_faster_than_breadth_first() {
    let [breadth_first, capacity] = ["breadth-first", "capacity"].map(|policy| {
        let order = order(policy, "table");
        order
            .first_half()
            .filter(|url| order.good.contains(*url))
            .count()
            * 100
            / (HOSTS * GOOD)
    });
    assert!(
        (30..=70).contains(&breadth_first) && capacity >= 90,
        "{breadth_first} % and {capacity} %"
    );
}

/// Goal: links that are found later lift the pages that they lead to. Method: on the laboratory's
/// scale, the order in which the web saw its pages requested lies well above that of the same crawl
/// by what pages were worth when they were found, and above breadth-first. Pauses between requests
/// let what is found be known.
#[test]
fn pages_with_many_links_are_fetched_sooner_when_later_links_count() {
    let profile = Profile {
        hosts: 20,
        pages_per_host: PagesPerHost::Exactly(100),
        ..Profile::raw()
    };
    let scale = Scale::new(&Graph::new(profile.clone()).expect("a web"), &[0]);
    let way = |policy: &str, quality: &str| {
        let world = World::alone(profile.clone());
        let finished = world
            .crawl()
            .set("politeness.delay=20ms")
            .set("stages.scheduler.requests_per_connection=10")
            .set(&format!("stages.scheduler.policy={policy}"))
            .set(&format!("stages.scheduler.quality={quality}"))
            .run(AT_MOST);
        world.assert_whole(&finished);
        scale.way(scale.area(&world.web.pages_in_order()))
    };
    let [links, opic, flow] = ["links", "opic", "flow"].map(|quality| way("quality", quality));
    let breadth_first = way("breadth-first", "depth");
    let found = format!(
        "links {links:.2}, opic {opic:.2}, flow {flow:.2}, breadth-first {breadth_first:.2} of the \
         way"
    );
    println!("{found}");
    assert!(
        links > breadth_first + 0.1 && links > flow + 0.3 && opic > flow + 0.1,
        "{found}"
    );
}

/// A crawl of which all URLs were seeds.
struct Order {
    seeds: Vec<String>,
    good: BTreeSet<String>,
    /// Without robots.txt, in the order of the requests.
    requested: Vec<String>,
}

impl Order {
    fn first_half(&self) -> impl Iterator<Item = &String> {
        self.requested[..self.requested.len() / 2].iter()
    }
}

fn order(policy: &str, quality: &str) -> Order {
    let world = World::alone(web());
    let folder = tempfile::tempdir().expect("a folder");
    let seeds = seeds(&world);
    let finished = of_seeds(&world, folder.path(), &seeds)
        .set("stages.fetcher.connections=1")
        .set(&format!("stages.scheduler.policy={policy}"))
        .set(&format!("stages.scheduler.quality={quality}"))
        .run(AT_MOST);
    world.assert_whole(&finished);
    Order {
        seeds,
        good: good(&world.web.truth().pages).cloned().collect(),
        requested: requested(&world),
    }
}

/// The web on which order is looked at: every second host is slow.
fn web() -> Profile {
    Profile {
        hosts: HOSTS as u32,
        pages_per_host: PagesPerHost::Exactly(PAGES as u32),
        request_caps: vec![(1.0, REQUESTS as u32)],
        latency: Latency::FastAndSlow {
            fast_ms: 5,
            slow_ms: 100,
        },
        ..Profile::raw()
    }
}

/// All pages, in an order that is not that of their names.
fn seeds(world: &World) -> Vec<String> {
    let pages = world.web.truth().pages;
    // Steps that have no factor in common with the number of pages come to each once.
    (0..pages.len())
        .map(|step| pages[step * 97 % pages.len()].clone())
        .collect()
}

/// A crawl that begins with all pages.
fn of_seeds(world: &World, folder: &Path, seeds: &[String]) -> Crawl {
    let file = folder.join("seeds.txt");
    std::fs::write(&file, seeds.join("\n")).expect("a file");
    with_table(world.bare("crawl"), folder, &world.web.truth().pages)
        .arguments(&["--seeds", &file.display().to_string()])
        // It answers in the order of the questions, the sieve in that of fingerprints.
        .set("stages.dedup.store=memory")
}

/// What was requested, without robots.txt, in the order of the requests.
fn requested(world: &World) -> Vec<String> {
    let mut contacts = world.web.contacts();
    contacts.retain(|contact| !contact.url.ends_with("/robots.txt"));
    contacts.sort_by_key(|contact| contact.at);
    contacts.into_iter().map(|contact| contact.url).collect()
}

/// Gives a crawl a table in which every fourth page is good.
fn with_table(crawl: Crawl, folder: &Path, pages: &[String]) -> Crawl {
    let good: BTreeSet<&String> = good(pages).collect();
    let rows: Vec<String> = pages
        .iter()
        .map(|page| format!("{page} {}\n", if good.contains(page) { 1.0 } else { 0.001 }))
        .collect();
    let file = folder.join("qualities.txt");
    std::fs::write(&file, rows.concat()).expect("a file");
    crawl.set(&format!(
        "stages.scheduler.quality_table={}",
        file.display()
    ))
}

fn good(pages: &[String]) -> impl Iterator<Item = &String> {
    pages.iter().step_by(PAGES / GOOD)
}

fn is_of(url: &str, host: usize) -> bool {
    url.starts_with(&format!("http://h{host:04}."))
}

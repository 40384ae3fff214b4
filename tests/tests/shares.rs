//! Shares: topics of one fleet, by the requests that each makes.

use rhumb_tests::harness::{Crawl, Running, World, assert_conserved, assert_manners, signal};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::time::Duration;
use synthetic_web::{Latency, PagesPerHost, Profile};

const MINUTE: Duration = Duration::from_secs(60);
const CONNECTIONS: usize = 6;
const LATENCY_MS: u64 = 40;

fn world(hosts: u32, pages: u32) -> World {
    let latency = Latency::Fixed { ms: LATENCY_MS };
    World::alone(Profile {
        hosts,
        pages_per_host: PagesPerHost::Exactly(pages),
        latency,
        ..Profile::raw()
    })
}

/// A crawl that fetches lists and follows no link, whose servers are all slow alike.
fn crawl(world: &World) -> Crawl {
    world
        .up()
        .set("politeness.delay=0s")
        .set("politeness.download_factor=0")
        .set("politeness.respect_robots=false")
        .set("scope.max_depth=0")
        .set(&format!("stages.fetcher.connections={CONNECTIONS}"))
}

/// Injects pages of some hosts for a topic, so many of each. Gives how many.
fn inject(crawl: &Running, world: &World, topic: &str, hosts: Range<u32>, of_each: usize) -> usize {
    let mut list = String::new();
    let mut count = 0;
    let truth = world.web.truth();
    for host in hosts {
        let name = world.web.host_name(host);
        let of_host = truth
            .pages
            .iter()
            .filter(|url| rhumb_url::host_of(url) == name);
        for url in of_host.take(of_each) {
            let _ = writeln!(list, "{url}");
            count += 1;
        }
    }
    let file = crawl.data().join(format!("{topic}.txt"));
    fs::write(&file, list).expect("a list");
    let said = crawl.rhumb(&[
        "inject",
        "--seeds",
        &file.to_string_lossy(),
        "--topic",
        topic,
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    count
}

/// When each request to some hosts came, in order.
fn times(world: &World, hosts: &Range<u32>) -> Vec<Duration> {
    let of = |contact: &synthetic_web::Contact| hosts.contains(&contact.host);
    let mut times: Vec<Duration> = world
        .web
        .contacts()
        .into_iter()
        .filter(of)
        .map(|contact| contact.at)
        .collect();
    times.sort_unstable();
    times
}

fn within(times: &[Duration], window: &Range<Duration>) -> usize {
    times.iter().filter(|at| window.contains(*at)).count()
}

/// Goal: three equal topics have equal shares of the connections while all have work, although one
/// has a hundred times the URLs of the others. Method: lists on servers of one latency, injected
/// while the crawl is paused; the requests until the first of the two short lists is nearly done.
#[test]
fn equal_topics_have_equal_shares_however_much_waits_of_each() {
    let world = world(48, 1000);
    let hosts = [0..40, 40..44, 44..48];
    let topics = ["wide", "left", "right"];
    let slices = [
        "stages.scheduler.slice=200ms",
        "stages.scheduler.requests_per_connection=5",
    ];
    let mut up = slices.iter().fold(crawl(&world), |up, set| up.set(set));
    for topic in topics {
        up = up.set(&format!("topics.{topic}.priority=3"));
    }
    let mut crawl = up.start();
    crawl.handle();
    assert_eq!(crawl.rhumb(&["pause"]).code, 0);
    let counts = [(1000, 0), (100, 1), (100, 2)].map(|(of_each, topic)| {
        inject(&crawl, &world, topics[topic], hosts[topic].clone(), of_each)
    });
    assert_eq!(counts, [40_000, 400, 400]);
    crawl.until(2 * MINUTE, |summary| summary.waiting == 40_800);
    assert_eq!(crawl.rhumb(&["unpause"]).code, 0);
    crawl.until(2 * MINUTE, |_| {
        times(&world, &hosts[1])
            .len()
            .max(times(&world, &hosts[2]).len())
            == 400
    });
    let times = hosts.map(|hosts| times(&world, &hosts));
    let begin = times
        .iter()
        .filter_map(|times| times.first())
        .max()
        .copied()
        .expect("each has begun");
    let end = times
        .iter()
        .filter_map(|times| times.get(360))
        .min()
        .copied()
        .expect("each has gone on");
    let requests = times.each_ref().map(|times| within(times, &(begin..end)));
    println!(
        "requests in {:?}, of 40,000, 400 and 400 URLs: {requests:?}",
        end - begin
    );
    let mean = requests.iter().sum::<usize>() / requests.len();
    assert!(
        requests
            .iter()
            .all(|requests| requests.abs_diff(mean) * 10 <= mean),
        "{requests:?}"
    );
    let told = crawl
        .until(MINUTE, |summary| {
            summary.topics["left"].waiting + summary.topics["right"].waiting == 0
        })
        .topics;
    let counts =
        ["wide", "left", "right", "default"].map(|topic| (told[topic].new, told[topic].fetched));
    assert!(
        matches!(counts, [(40_000, 400..), (400, 400), (400, 400), (0, 0)]),
        "{counts:?}"
    );
    let ratio = told["left"].connection_s as f64 / told["right"].connection_s as f64;
    assert!((0.8..1.25).contains(&ratio), "{told:?}");
    assert_eq!(
        crawl.count(
            "scheduler",
            "rhumb_scheduler_topic_fetched_total{topic=\"left\"}"
        ),
        400
    );
    let status = crawl.rhumb(&["status"]).out;
    assert!(
        status.contains("topic     left  new 400  waiting 0  fetched 400"),
        "{status}"
    );
    crawl.signal(Signal::INT);
    assert_eq!(crawl.exit_code(MINUTE), 130, "{}", crawl.log());
    assert_manners(&world.web.report());
}

/// Goal: URLs of a topic of the highest priority that come to a crawl with all connections in use
/// have their first page within a second and nearly all connections soon after, and the others go
/// on when they are done; a killed scheduler changes nothing of it. Method: lists on servers of
/// their own; the requests of both from the injection on.
#[test]
fn an_urgent_topic_takes_the_connections_and_gives_them_back() {
    let world = world(24, 250);
    let slow = 0..12;
    let urgent = 12..24;
    let up = crawl(&world)
        .set("topics.archive={pages_min: 100}")
        .set("topics.urgent={priority: 9}");
    let mut crawl = up.start();
    crawl.handle();
    let archived = inject(&crawl, &world, "archive", slow.clone(), 250);
    crawl.until(MINUTE, |summary| summary.pages > 300);
    let asked = world.web.began().elapsed();
    let injected = inject(&crawl, &world, "urgent", urgent.clone(), 100);
    let begun = world.web.began().elapsed();
    crawl.until(MINUTE, |_| times(&world, &urgent).len() == injected);
    let low = times(&world, &slow);
    let high = times(&world, &urgent);
    let first = high[0];
    let last = high[high.len() - 1];
    println!(
        "the first request came {:?} after the injection began, {:?} after it ended",
        first - asked,
        first.saturating_sub(begun)
    );
    assert!(
        first < begun + Duration::from_secs(1),
        "{first:?} and {begun:?}"
    );
    // Near the end the last servers alone have URLs.
    let window = first + Duration::from_secs(1)..last - Duration::from_millis(500);
    let shares = [&low, &high].map(|times| within(times, &window));
    println!(
        "requests from a second later on, of the others and of the urgent topic, in {:?}: \
         {shares:?}",
        window.end - window.start
    );
    assert!(shares[1] >= 9 * shares[0], "{shares:?}");
    assert!(
        crawl.count("scheduler", "rhumb_scheduler_jobs_yielded_total") >= CONNECTIONS as u64 / 2
    );

    let scheduler = crawl.pid("scheduler");
    signal(scheduler, Signal::KILL);
    crawl.until_replaced("scheduler", scheduler, MINUTE);
    let all = (archived + injected) as u64;
    assert_conserved(&crawl.until(3 * MINUTE, |summary| {
        summary.pages == all && summary.in_flight == 0
    }));
    assert!(
        times(&world, &slow).last() > Some(&last),
        "the others go on"
    );
    crawl.signal(Signal::INT);
    assert_eq!(crawl.exit_code(MINUTE), 130, "{}", crawl.log());
    assert_manners(&world.web.report());
}

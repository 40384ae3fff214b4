//! What an operator is told of what waits, one situation a test.

use super::web::{Fine, drawn, pages, response, robots, robots_txt};
use super::world::{World, elsewhere};
use crate::ranking::quality::Provider;
use crate::settings::tests::{settings, with};
use rhumb_stage::{Core as _, Measure, QueueQuestion, ServerQueue};
use rhumb_url::partition;
use std::time::Duration;

const A: &str = "http://a.test";
const SECOND: Duration = Duration::from_secs(1);

fn of_host(world: &World, host: &str, limit: usize) -> Vec<ServerQueue> {
    world
        .core
        .queue(
            world.now,
            &QueueQuestion::OfHost {
                host: host.to_owned(),
                limit,
            },
        )
        .unwrap()
        .unwrap()
}

fn urls(queue: &ServerQueue) -> Vec<&str> {
    queue.urls.iter().map(|url| url.url.as_str()).collect()
}

fn top(world: &World, n: usize, by: Measure) -> Vec<String> {
    let servers = world
        .core
        .queue(world.now, &QueueQuestion::Top { n, by })
        .unwrap()
        .unwrap();
    assert!(servers.iter().all(|server| server.urls.is_empty()));
    servers.into_iter().map(|server| server.server).collect()
}

/// Goal: what is listed is what the next jobs take, in their order. Method: list, then fetch all.
#[test]
fn urls_are_listed_in_the_order_in_which_they_are_fetched() {
    for by_quality in [false, true] {
        let policy = if by_quality {
            rhumb_config::Policy::Quality
        } else {
            rhumb_config::Policy::BreadthFirst
        };
        let quality = Provider::Drawn(drawn).into();
        let mut world = World::new(with(|set| {
            set.politeness.respect_robots = false;
            set.scheduler.requests_per_connection = 3;
            set.scheduler.policy = policy;
            set.quality = quality;
        }));
        world.tell_pages(A, 10);
        // Some of them fail, and wait for another try.
        world.ask(1);
        world.run(
            &mut pages(|_, url| {
                if url.ends_with('1') {
                    response(500)
                } else {
                    response(200)
                }
            }),
            SECOND,
        );
        let listed = of_host(&world, "a.test", 100);
        assert_eq!(listed.len(), 1);
        let waiting = world.count("waiting");
        assert_eq!(
            (listed[0].waiting, listed[0].urls.len() as u64),
            (waiting, waiting)
        );
        assert!(waiting > 3 && waiting < 10, "{waiting}");
        let failed: Vec<_> = listed[0]
            .urls
            .iter()
            .filter(|url| url.why.is_some())
            .collect();
        assert!(
            failed
                .iter()
                .all(|url| url.url.ends_with('1') && url.attempts == 1 && url.in_s > Some(0.0)),
            "{failed:?}"
        );
        let first: Vec<String> = urls(&of_host(&world, "a.test", 2)[0])
            .into_iter()
            .map(str::to_owned)
            .collect();
        assert_eq!(first, urls(&listed[0])[..2]);
        let before = world.contacts.len();
        let held: Vec<String> = world
            .held
            .iter()
            .flat_map(|held| &held.job.requests)
            .map(|of| of.url.clone())
            .collect();
        world.finish(&mut Fine, 3600 * SECOND);
        let fetched = world.contacts[before..].iter().map(|(_, url)| url.as_str());
        let fetched: Vec<&str> = fetched
            .filter(|url| !held.iter().any(|held| held == url))
            .collect();
        // Another try of one that failed comes when its time has come.
        let at_once = |urls: &[&str]| {
            urls.iter()
                .filter(|url| !url.ends_with('1'))
                .map(|url| (*url).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(at_once(&fetched), at_once(&urls(&listed[0])));
    }
}

#[test]
fn what_is_in_a_job_is_not_listed_and_a_question_changes_nothing() {
    let mut world = World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.scheduler.requests_per_connection = 4;
    }));
    world.tell_pages(A, 10);
    world.ask(1);
    let queue = &of_host(&world, "a.test", 100)[0];
    assert_eq!(
        (queue.waiting, queue.in_flight, queue.urls.len()),
        (6, 4, 6)
    );
    assert!(queue.why.starts_with("connected"), "{}", queue.why);
    let held: Vec<_> = world.held[0]
        .job
        .requests
        .iter()
        .map(|request| request.url.as_str())
        .collect();
    assert!(urls(queue).iter().all(|url| !held.contains(url)));
    let all = || format!("{:?}", world.core.counts());
    let before = all();
    assert_eq!(of_host(&world, "a.test", 0)[0].urls, []);
    assert_eq!(all(), before);
}

#[test]
fn servers_of_a_host_are_told_from_the_store_and_those_of_others_are_not() {
    let mut world = World::owning(settings(), &[partition("a.test", 4)]);
    const RULES: &str = "User-agent: *\nDisallow: /private\nAllow: /private/x\nCrawl-delay: 2\n";
    assert_eq!(of_host(&world, "a.test", 9), []);
    world.tell_pages(A, 2);
    world.tell_pages("https://a.test:8443", 1);
    world.finish(&mut robots_txt(|_, _| robots(200, RULES)), 3600 * SECOND);
    let queues = of_host(&world, "a.test", 9);
    assert_eq!(
        queues
            .iter()
            .map(|queue| queue.server.as_str())
            .collect::<Vec<_>>(),
        [A, "https://a.test:8443"]
    );
    let robots = &queues[0].robots;
    assert_eq!((robots.is.as_str(), robots.crawl_delay_s), ("rules", 2.0));
    assert_eq!(robots.rules, ["+/private/x", "-/private"]);
    assert!(
        robots.for_s > 3600.0
            && !queues[0].addresses.is_empty()
            && queues[0].estimates.connect_ms.is_some()
    );
    let other = elsewhere(A);
    assert_eq!(of_host(&world, rhumb_url::host_of(&other), 9), []);
}

#[test]
fn the_top_is_by_what_is_asked() {
    let mut world = World::new(with(|set| set.politeness.respect_robots = false));
    for (server, n) in [
        ("http://few.test", 2),
        ("http://many.test", 9),
        ("http://some.test", 5),
    ] {
        world.tell_pages(server, n);
    }
    assert_eq!(
        top(&world, 2, Measure::Waiting),
        ["http://many.test", "http://some.test"]
    );
    assert_eq!(top(&world, 9, Measure::Errors), [""; 0]);
    assert_eq!(
        top(&world, 9, Measure::Age).len(),
        3,
        "since the clock began"
    );
    world.run(
        &mut pages(|_, url| {
            if url.contains("some") {
                response(503)
            } else {
                response(200)
            }
        }),
        2 * SECOND,
    );
    assert_eq!(top(&world, 9, Measure::Errors), ["http://some.test"]);
}

//! Servers that fail, refuse, or are slow: what that costs their URLs and the servers; one
//! situation a test.

use super::web::{Fine, addresses, pages, response, robots_txt};
use super::world::World;
use crate::core::dispatcher::Input;
use crate::settings::tests::{settings, with};
use rhumb_url::server_of;
use rhumb_wire::message::{
    Ask, FailureKind, Outcome, Report, RequestEnd, RequestResult, ResponseSummary,
};
use std::collections::BTreeSet;
use std::time::Duration;

const A: &str = "http://a.test";
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn statuses_and_failures_end_or_are_tried_again() {
    let mut world = World::polite();
    let paths = [
        "ok",
        "gone",
        "moved",
        "forbidden",
        "broken",
        "busy",
        "reset",
        "flaky",
        "private",
    ];
    world.tell(&paths.map(|path| format!("{A}/{path}")), &addresses());
    let mut flaky = 0;
    let mut web = pages(|_, url| match url.rsplit('/').next().unwrap() {
        "ok" => response(200),
        "gone" => response(404),
        "moved" => response(302),
        "forbidden" => response(403),
        "broken" => response(500),
        "busy" => response(429),
        "reset" => RequestEnd::Failure(FailureKind::Reset),
        "private" => RequestEnd::Failure(FailureKind::Forbidden),
        _ => {
            flaky += 1;
            if flaky < 4 {
                RequestEnd::Failure(FailureKind::Timeout)
            } else {
                response(200)
            }
        }
    });
    world.finish(&mut web, 2 * HOUR);
    for (path, outcome, attempts) in [
        ("ok", Outcome::Fetched, 1),
        ("gone", Outcome::Gone, 1),
        ("moved", Outcome::Redirected, 1),
        ("forbidden", Outcome::Refused, 1),
        ("broken", Outcome::Failed, 4),
        ("busy", Outcome::Refused, 4),
        ("reset", Outcome::Failed, 4),
        ("private", Outcome::Failed, 0),
        ("flaky", Outcome::Fetched, 4),
    ] {
        let entry = &world.outcomes[&format!("{A}/{path}")];
        assert_eq!(
            (entry.outcome, entry.attempts),
            (outcome, attempts),
            "{path}"
        );
    }
    assert_eq!(world.count("retried_total"), 12);
}

#[test]
fn a_url_that_fails_does_not_hold_up_the_others() {
    let mut world = World::polite();
    world.tell_pages(A, 100);
    let mut web = pages(|_, url| {
        if url.ends_with("/0") {
            response(500)
        } else {
            response(200)
        }
    });
    let start = world.now;
    world.finish(&mut web, HOUR);
    let last_good = world
        .contacts
        .iter()
        .rev()
        .find(|(_, url)| !url.ends_with("/0"))
        .unwrap()
        .0;
    assert!(last_good.since(start) <= Duration::from_secs(104));
}

#[test]
fn a_slow_server_is_left_alone_for_as_long_as_it_took() {
    for (factor, longest, pause) in [
        (0, 60, 1),
        (1, 60, 4),
        (10, 60, 40),
        (100, 60, 60),
        (10, 20, 20),
    ] {
        let mut world = World::new(with(|set| {
            set.politeness.download_factor = factor;
            set.politeness.crawl_delay_max = Duration::from_secs(longest);
            set.scheduler.requests_per_connection = 2;
        }));
        world.tell_pages(A, 4);
        let slow = RequestEnd::Response(ResponseSummary {
            status: 200,
            bytes: 1,
            elapsed_us: 4_000_000,
            ..ResponseSummary::default()
        });
        world.finish(&mut pages(|_, _| slow.clone()), HOUR);
        let waits: Vec<_> = world
            .contacts
            .windows(2)
            .map(|pair| pair[1].0.since(pair[0].0).as_secs())
            .collect();
        assert_eq!(
            waits,
            [1, pause, pause, pause],
            "inside a job and between two"
        );
    }
}

#[test]
fn retry_after_holds_for_the_server() {
    let mut world = World::polite();
    world.tell_pages(A, 3);
    let mut first = true;
    let mut web = pages(|_, _| match std::mem::take(&mut first) {
        true => RequestEnd::Response(ResponseSummary {
            status: 503,
            elapsed_us: 1,
            retry_after_s: Some(600),
            ..ResponseSummary::default()
        }),
        false => response(200),
    });
    world.finish(&mut web, HOUR);
    assert_eq!(
        world.contacts[2].0.since(world.contacts[1].0),
        Duration::from_secs(600)
    );
    assert_eq!(world.count("outcome_fetched_total"), 3);
}

#[test]
fn retry_after_survives_a_crash() {
    let mut world = World::polite();
    world.tell_pages(A, 2);
    let answer = RequestEnd::Response(ResponseSummary {
        status: 429,
        elapsed_us: 1,
        retry_after_s: Some(600),
        ..ResponseSummary::default()
    });
    world.run(&mut pages(|_, _| answer.clone()), Duration::from_secs(5));
    world.crash();
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.count("outcome_fetched_total"), 2);
}

#[test]
fn a_dead_server_ends_its_urls() {
    for kind in [FailureKind::Connect, FailureKind::Tls] {
        let mut world = World::polite();
        world.tell_pages(A, 2500);
        world.finish(&mut robots_txt(|_, _| Err(kind)), HOUR);
        assert_eq!(world.contacted().len(), 6);
        assert_eq!(
            world.outcome("http://a.test/7"),
            (Outcome::Failed, kind.name())
        );
        // A later URL gets one more connection.
        world.tell(&[format!("{A}/later")], &addresses());
        world.finish(&mut robots_txt(|_, _| Err(kind)), 2 * HOUR);
        assert!(world.contacted().len() <= 7);
    }
}

#[test]
fn a_server_that_never_answers_or_always_refuses_costs_few_contacts_and_no_other_server_anything() {
    for (end, outcome) in [
        (
            RequestEnd::Failure(FailureKind::Timeout),
            (Outcome::Failed, "timeout"),
        ),
        (
            RequestEnd::Failure(FailureKind::Reset),
            (Outcome::Failed, "reset"),
        ),
        (
            RequestEnd::Failure(FailureKind::Protocol),
            (Outcome::Failed, "protocol"),
        ),
        (response(429), (Outcome::Refused, "too many requests")),
        (response(503), (Outcome::Failed, "service unavailable")),
    ] {
        let mut world = World::polite();
        world.tell_pages(A, 2500);
        world.tell_pages("http://b.test", 200);
        let start = world.now;
        world.finish(
            &mut pages(|_, url| {
                if server_of(url) == A {
                    end.clone()
                } else {
                    response(200)
                }
            }),
            HOUR,
        );
        let contacts = |server| {
            world
                .contacts
                .iter()
                .filter(move |(_, url)| server_of(url) == server)
        };
        let waits: Vec<_> = contacts(A)
            .map(|(at, _)| at.since(start).as_secs())
            .collect();
        assert_eq!(
            waits,
            [0, 1, 31, 91, 211, 451, 931],
            "robots.txt, then waits that double"
        );
        assert_eq!(world.outcome("http://a.test/2499"), outcome);
        assert!(
            contacts("http://b.test").all(|(at, _)| at.since(start) <= Duration::from_secs(200))
        );
        assert_eq!(world.count("outcome_fetched_total"), 200);
    }
}

/// P6: what a server says of its robots.txt says nothing of its pages.
#[test]
fn a_server_that_gives_its_robots_txt_again_and_again_and_no_page_is_dead_in_the_end() {
    for (end, outcome) in [
        (response(429), (Outcome::Refused, "too many requests")),
        (
            RequestEnd::Failure(FailureKind::Timeout),
            (Outcome::Failed, "timeout"),
        ),
        (
            RequestEnd::Failure(FailureKind::Connect),
            (Outcome::Failed, "connect"),
        ),
    ] {
        let mut world = World::new(with(|set| {
            set.politeness.robots_lifetime = Duration::from_secs(60)
        }));
        world.tell_pages(A, 2500);
        world.finish(&mut pages(|_, _| end.clone()), HOUR);
        let of_robots = world
            .contacted()
            .iter()
            .filter(|url| url.ends_with("/robots.txt"))
            .count();
        assert_eq!(
            (of_robots, world.contacts.len()),
            (6, 12),
            "six jobs for pages: {:?}",
            world.contacted()
        );
        assert_eq!(world.outcome("http://a.test/2499"), outcome);
    }
}

#[test]
fn a_robots_txt_that_comes_in_the_end_makes_good_the_tries_to_get_it() {
    let mut world = World::new(with(|set| set.scheduler.server_failures_max = 3));
    world.tell_pages(A, 3);
    world.run(
        &mut robots_txt(|_, _| Err(FailureKind::Connect)),
        Duration::from_secs(32),
    );
    assert_eq!(world.contacts.len(), 2);
    let mut refusals = 2;
    let mut web = pages(|_, _| {
        refusals -= 1;
        response(if refusals >= 0 { 429 } else { 200 })
    });
    world.finish(&mut web, HOUR);
    assert_eq!(world.count("outcome_fetched_total"), 3);
}

#[test]
fn servers_in_trouble_hold_few_connections_while_others_need_them_and_half_of_them_otherwise() {
    let retry_wait = Duration::from_secs(1);
    let mut world = World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.scheduler.retry_wait = retry_wait;
    }));
    (0..40).for_each(|n| world.tell_pages(&format!("http://silent{n}.test"), 2));
    world.ask(40);
    assert_eq!(world.held.len(), 40, "nobody knows yet");
    let mut silent = pages(|_, _| RequestEnd::Failure(FailureKind::Timeout));
    while !world.held.is_empty() {
        world.request(0, &mut silent);
        let report = world.held.remove(0).report(true, false);
        world.step(Some(Input::Report(report)));
    }
    (0..30).for_each(|n| world.tell_pages(&format!("http://good{n}.test"), 2));
    world.ask(30);
    assert!(
        world
            .held
            .iter()
            .all(|held| held.job.server.contains("good")),
        "the others are set aside"
    );
    world.pass(retry_wait);
    world.step(None);
    assert_eq!(world.count("servers_ready"), 40);
    world.ask(2);
    world.ask(1);
    assert_eq!(world.held.len(), 32, "two of 32 connections");
    for _ in 0..30 {
        let report = world.held.remove(0).report(true, false);
        world.step(Some(Input::Report(report)));
    }
    world.pass(Duration::from_millis(50));
    world.ask(30);
    assert_eq!(world.held.len(), 16, "half of 32");
    assert!(
        world
            .held
            .iter()
            .all(|held| held.job.server.contains("silent"))
    );
}

#[test]
fn a_server_that_has_not_sent_a_page_yet_has_little_time_once() {
    let mut world = World::new(settings());
    world.tell_pages(A, 3);
    let mut times = Vec::new();
    let mut asked = 0;
    // The first page is too late, and later another one.
    let mut web = pages(|_, _| {
        asked += 1;
        if asked == 1 || asked == 3 {
            RequestEnd::Failure(FailureKind::Timeout)
        } else {
            response(200)
        }
    });
    while world.count("outcome_fetched_total") < 3 {
        world.ask(1);
        for index in (0..world.held.len()).rev() {
            times.push(world.held[index].job.first_answer_ms);
            while world.request(index, &mut web) {
                world.pass(Duration::from_secs(1));
            }
            let report = world.held.remove(index).report(true, false);
            world.step(Some(Input::Report(report)));
        }
        world.pass(Duration::from_secs(1));
    }
    // The short time holds for robots.txt and for the page that comes too late. After that the
    // server was tried in vain, and then it is known.
    assert_eq!(times[..2], [Some(15_000); 2]);
    assert!(
        times.len() > 3 && times[2..].iter().all(Option::is_none),
        "{times:?}"
    );
}

#[test]
fn a_few_bad_pages_do_not_set_a_server_aside_for_long_nor_end_the_others() {
    for end in [RequestEnd::Failure(FailureKind::Timeout), response(503)] {
        let mut world = World::polite();
        world.tell_pages(A, 100);
        let bad = |url: &str| {
            ["/0", "/1", "/60"]
                .iter()
                .any(|path| url.ends_with(path) && url.len() <= 16)
        };
        world.finish(
            &mut pages(|_, url| if bad(url) { end.clone() } else { response(200) }),
            HOUR,
        );
        assert_eq!(world.count("outcome_fetched_total"), 97);
        assert_eq!(world.count("outcome_failed_total"), 3);
        assert!(
            world
                .outcomes
                .values()
                .all(|entry| entry.attempts <= if bad(&entry.url) { 4 } else { 1 })
        );
    }
}

#[test]
fn a_first_refusal_sets_the_server_aside_and_later_ones_their_urls_alone() {
    let mut world = World::polite();
    world.tell_pages(A, 3);
    let mut asked = 0;
    let mut web = pages(|_, _| {
        asked += 1;
        response(if asked % 2 == 1 { 429 } else { 200 })
    });
    world.finish(&mut web, HOUR);
    let waits: Vec<_> = world
        .contacts
        .windows(2)
        .map(|pair| pair[1].0.since(pair[0].0).as_secs())
        .collect();
    // /0 is refused and the server set aside, /1 answered, /2 refused, which waits from the end of
    // a gap of 2 s; then /0 is answered, and /2 refused once more, and waits for 60 s from the end
    // of a gap of 4 s.
    assert_eq!(waits, [1, 30, 1, 29, 3, 64], "{:?}", world.contacted());
}

#[test]
fn failures_to_connect_cost_no_attempt() {
    let mut world = World::polite();
    world.tell_pages(A, 3);
    let mut tries = 0;
    let mut web = pages(|_, _| {
        tries += 1;
        if tries % 6 == 0 {
            response(200)
        } else {
            RequestEnd::Failure(FailureKind::Connect)
        }
    });
    world.finish(&mut web, 3 * HOUR);
    assert!(
        world
            .outcomes
            .values()
            .all(|entry| (entry.outcome, entry.attempts) == (Outcome::Fetched, 1))
    );
}

#[test]
fn a_request_lost_on_a_connection_that_has_served_costs_nothing_and_goes_first_on_the_next() {
    let mut world = World::new(with(|set| set.politeness.respect_robots = false));
    world.tell_pages(A, 3);
    let mut reset = pages(|_, _| RequestEnd::Failure(FailureKind::Reset));
    world.ask(1);
    world.request(0, &mut Fine);
    world.pass(Duration::from_secs(1));
    world.request(0, &mut reset);
    let mut report = world.held.remove(0).report(true, true);
    // A page is reported when it is stored. The next request may have failed before that.
    report.results.swap(0, 1);
    world.step(Some(Input::Report(report)));
    assert_eq!(
        (
            world.count("outcome_fetched_total"),
            world.count("retried_total")
        ),
        (1, 0)
    );

    world.pass(Duration::from_secs(1));
    world.ask(1);
    let requests = &world.held[0].job.requests;
    assert_eq!(requests.len(), 1, "what a connection serves");
    assert_eq!(
        (requests[0].url.as_str(), requests[0].attempts),
        ("http://a.test/1", 0)
    );
    world.request(0, &mut reset);
    let report = world.held.remove(0).report(true, false);
    world.step(Some(Input::Report(report)));
    assert_eq!(
        world.count("retried_total"),
        1,
        "alone on its connection it counts"
    );
}

#[test]
fn a_server_that_hangs_up_before_every_request_is_dead_in_the_end() {
    let mut world = World::new(with(|set| set.politeness.respect_robots = false));
    world.tell_pages(A, 3);
    for _ in 0..6 {
        world.ask(1);
        let mut held = world.held.remove(0);
        held.connected = true;
        world.step(Some(Input::Report(held.report(true, true))));
        world.pass(HOUR);
        if world.count("waiting") > 0 {
            world.step(None);
        }
    }
    assert_eq!(
        world.outcome("http://a.test/0"),
        (Outcome::Failed, "connection ended before a request")
    );
}

/// A job is out for a server; the other fetcher reports that it could not reach it.
fn fails_with_the_other_fetcher(world: &mut World, server: &str) {
    let index = world
        .held
        .iter()
        .position(|held| held.job.server == server)
        .expect("a job is out");
    let mut held = world.held.remove(index);
    let end = RequestEnd::Failure(FailureKind::Connect);
    held.results.push(RequestResult {
        slot: held.job.requests[0].slot,
        end,
    });
    held.next = 1;
    let report = held.report(true, false);
    world.step(Some(Input::Report(Report {
        fetcher: "fetcher-1".into(),
        ..report
    })));
}

/// Goal: what fails with one fetcher, while servers answer another, is not held against servers,
/// and not for ever. Method: jobs of which one fetcher brings answers to nine, and the other to
/// none.
#[test]
fn what_one_fetcher_alone_cannot_reach_is_not_held_against_servers() {
    let mut world = World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.scheduler.server_failures_max = 3;
    }));
    let servers: Vec<String> = (0..12).map(|n| format!("http://s{n}.test")).collect();
    for server in &servers {
        world.tell_pages(server, 2);
    }
    world.step(Some(Input::Ask(Ask {
        fetcher: "fetcher-1".into(),
        ask: 1,
        life: 3,
        ..Ask::default()
    })));
    world.ask(12);
    for server in &servers[3..] {
        let index = world
            .held
            .iter()
            .position(|held| held.job.server == *server)
            .unwrap();
        world.request(index, &mut Fine);
        let report = world.held.remove(index).report(true, false);
        world.step(Some(Input::Report(report)));
    }
    let why = |world: &World, server: &String| {
        world.core.why_idle(world.now, server).unwrap().to_string()
    };
    for server in &servers[..2] {
        fails_with_the_other_fetcher(&mut world, server);
        assert!(
            why(&world, server).starts_with("set aside"),
            "it may be the server: {}",
            why(&world, server)
        );
    }
    let server = &servers[2];
    for excused in 1..=3 {
        fails_with_the_other_fetcher(&mut world, server);
        assert_eq!(world.count("failures_excused_total"), excused);
        assert!(
            why(&world, server).starts_with("delay"),
            "{}",
            why(&world, server)
        );
        world.pass(Duration::from_secs(1));
        world.ask(12);
    }
    fails_with_the_other_fetcher(&mut world, server);
    assert_eq!(world.count("failures_excused_total"), 3);
    assert!(
        why(&world, server).starts_with("set aside"),
        "{}",
        why(&world, server)
    );
    world.held.clear();
    world.finish(&mut Fine, HOUR);
    assert!(
        world
            .outcomes
            .values()
            .all(|entry| entry.outcome == Outcome::Fetched)
    );
}

/// Goal: a server that refuses one request in twenty goes on, a little slower; it is not set aside.
/// Method: 200 pages, of which each twentieth is refused once, without Retry-After; the refused
/// ones come again after their own wait.
#[test]
fn a_server_that_refuses_now_and_then_is_asked_less_often_and_goes_on() {
    for trouble in [
        response(503),
        response(429),
        RequestEnd::Failure(FailureKind::Timeout),
    ] {
        let mut world = World::polite();
        world.tell_pages(A, 200);
        let mut asked = 0;
        let mut refused = BTreeSet::new();
        let mut web = pages(|_, url| {
            asked += 1;
            if asked % 20 == 0 && refused.insert(url.to_owned()) {
                trouble.clone()
            } else {
                response(200)
            }
        });
        let start = world.now;
        world.finish(&mut web, HOUR);
        assert_eq!(world.count("outcome_fetched_total"), 200);
        let lasted = world.contacts.last().unwrap().0.since(start).as_secs();
        // A second for each request, and one more for about ten after each trouble.
        assert!((210..400).contains(&lasted), "{lasted} s for {trouble:?}");
        let pauses: Vec<_> = world
            .contacts
            .windows(2)
            .map(|pair| pair[1].0.since(pair[0].0).as_secs())
            .collect();
        // At last the URL that was refused last waits alone.
        assert!(pauses[..198].iter().all(|pause| *pause <= 2), "{pauses:?}");
    }
}

/// Goal: trouble three times in a row is general. Method: pages go well, then all are refused for a
/// while.
#[test]
fn trouble_three_times_in_a_row_sets_the_server_aside() {
    let mut world = World::polite();
    world.tell_pages(A, 60);
    let mut asked = 0;
    let mut web = pages(|_, _| {
        asked += 1;
        response(if (30..35).contains(&asked) { 503 } else { 200 })
    });
    world.finish(&mut web, HOUR);
    let pauses: Vec<_> = world
        .contacts
        .windows(2)
        .map(|pair| pair[1].0.since(pair[0].0).as_secs())
        .collect();
    // The first contact is the robots.txt.
    assert_eq!(pauses[28..36], [1, 1, 2, 4, 30, 60, 120, 1], "{pauses:?}");
    assert_eq!(world.count("outcome_fetched_total"), 60);
}

//! Walls: challenges in the place of pages, and what they cost their URLs and their servers; one
//! situation a test.

use super::web::{pages, pages_with_robots, response};
use super::world::World;
use crate::core::dispatcher::Input;
use crate::settings::tests::with;
use rhumb_usage::{Purpose, Stance};
use rhumb_wire::message::{Outcome, RequestEnd, ResponseSummary};
use std::time::Duration;

const A: &str = "http://a.test";
const HOUR: Duration = Duration::from_secs(3600);

fn wall(status: u16) -> RequestEnd {
    RequestEnd::Response(ResponseSummary {
        status,
        bytes: 9_000,
        elapsed_us: 20_000,
        wall: "cloudflare".to_owned(),
        ..ResponseSummary::default()
    })
}

fn pauses(world: &World) -> Vec<u64> {
    world
        .contacts
        .windows(2)
        .map(|pair| pair[1].0.since(pair[0].0).as_secs())
        .collect()
}

#[test]
fn a_wall_ends_its_url_at_once_whatever_its_status() {
    for status in [200, 202, 403, 429, 503] {
        let mut world = World::polite();
        world.tell_pages(A, 2);
        let mut web = pages(|_, url| {
            if url.ends_with("/1") {
                wall(status)
            } else {
                response(200)
            }
        });
        world.finish(&mut web, HOUR);
        let entry = &world.outcomes[&format!("{A}/1")];
        assert_eq!(entry.outcome, Outcome::Refused, "{status}");
        assert_eq!(
            (entry.reason.as_str(), entry.wall.as_str(), entry.attempts),
            ("challenged", "cloudflare", 1)
        );
        assert_eq!(world.count("outcome_fetched_total"), 1);
    }
}

#[test]
fn of_the_use_of_a_page_behind_a_wall_there_is_what_robots_txt_says() {
    let mut world = World::polite();
    world.tell_pages(A, 2);
    let is_walled = |url: &str| url.ends_with("/1");
    let mut web = pages_with_robots(
        |_, url| match is_walled(url) {
            true => wall(200),
            false => response(200),
        },
        "User-agent: *\nContent-Usage: train-ai=n\nAllow: /\n",
    );
    world.finish(&mut web, HOUR);
    assert_eq!(world.outcomes.len(), 2);
    for (url, entry) in &world.outcomes {
        let expected = match is_walled(url) {
            true => Stance::Refused,
            // Its document says it.
            false => Stance::Unsaid,
        };
        assert_eq!(entry.usage.stances.on(Purpose::AiTrain), expected, "{url}");
    }
}

/// Goal: a server that has nothing but walls is left alone as one that refuses, and given up after
/// as many jobs. Method: jobs of two requests; each of them sets the server aside for longer.
#[test]
fn a_server_of_walls_is_set_aside_by_jobs_and_given_up() {
    let mut world = World::new(with(|settings| {
        settings.scheduler.requests_per_connection = 2;
        settings.scheduler.server_failures_max = 3;
    }));
    world.tell_pages(A, 20);
    world.finish(&mut pages(|_, _| wall(200)), HOUR);
    // robots.txt, and three jobs.
    assert_eq!(world.contacts.len(), 1 + 3 * 2);
    let pauses = pauses(&world);
    assert!(pauses[2] >= 30 && pauses[4] >= 60, "{pauses:?}");
    assert_eq!(world.outcomes.len(), 20);
    let all_refused = world
        .outcomes
        .values()
        .all(|entry| entry.outcome == Outcome::Refused && entry.reason == "challenged");
    assert!(all_refused);
}

#[test]
fn walls_among_pages_leave_the_server_as_it_was() {
    for first in [0, 1] {
        let mut world = World::new(with(|settings| {
            settings.scheduler.requests_per_connection = 2;
            settings.scheduler.server_failures_max = 2;
        }));
        world.tell_pages(A, 20);
        let mut asked = first;
        let mut web = pages(|_, _| {
            asked += 1;
            if asked % 2 == 0 {
                wall(403)
            } else {
                response(200)
            }
        });
        world.finish(&mut web, HOUR);
        assert_eq!(world.count("outcome_fetched_total"), 10);
        assert_eq!(world.count("outcome_refused_total"), 10);
        let pauses = pauses(&world);
        assert!(
            pauses.iter().all(|pause| *pause <= 2),
            "{first}: {pauses:?}"
        );
    }
}

/// Goal: a crash does not forget that a job has met nothing but walls. Method: the first report
/// tells of a wall, the last one, after the crash, of nothing.
#[test]
fn a_job_of_walls_counts_after_a_crash() {
    let mut world = World::new(with(|settings| {
        settings.scheduler.server_failures_max = 1;
    }));
    world.tell_pages(A, 4);
    world.run(&mut pages(|_, _| wall(200)), Duration::from_millis(1500));
    let mut held = world.held.remove(0);
    world.step(Some(Input::Report(held.report(false, false))));
    assert_eq!(world.count("outcome_refused_total"), 1);
    world.crash();
    world.step(Some(Input::Report(held.report(true, false))));
    world.run(&mut pages(|_, _| wall(200)), Duration::from_secs(1));
    assert_eq!(world.count("outcome_refused_total"), 4);
}

/// Goal: what a server asks for holds, also behind a wall (P2). Method: a job meets a wall, and
/// then a 429 with a wait.
#[test]
fn a_wait_that_is_asked_for_behind_a_wall_holds() {
    let mut world = World::new(with(|settings| {
        settings.scheduler.requests_per_connection = 2;
    }));
    world.tell_pages(A, 4);
    let mut asked = 0;
    let mut web = pages(|_, _| {
        asked += 1;
        match asked {
            1 => wall(200),
            2 => RequestEnd::Response(ResponseSummary {
                status: 429,
                elapsed_us: 20_000,
                retry_after_s: Some(600),
                ..ResponseSummary::default()
            }),
            _ => response(200),
        }
    });
    world.finish(&mut web, HOUR);
    let pauses = pauses(&world);
    assert!(pauses.iter().any(|pause| *pause >= 600), "{pauses:?}");
    assert_eq!(world.count("outcome_fetched_total"), 3);
}

/// A server that says less, and less, is asked less often, though its other pages come.
#[test]
fn walls_that_ask_for_less_lengthen_the_gap() {
    let mut world = World::new(with(|_| {}));
    world.tell_pages(A, 20);
    let mut asked = 0;
    let mut web = pages(|_, _| {
        asked += 1;
        if asked % 2 == 0 {
            wall(429)
        } else {
            response(200)
        }
    });
    world.finish(&mut web, HOUR);
    let pauses = pauses(&world);
    assert!(pauses.iter().any(|pause| *pause >= 4), "{pauses:?}");
    assert_eq!(world.count("outcome_refused_total"), 10);
}

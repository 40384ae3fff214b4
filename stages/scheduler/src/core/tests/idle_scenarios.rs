//! Why a server is not being fetched, one situation a test.

use super::web::{Fine, addresses, pages, redirect, response, robots, robots_txt};
use super::world::{World, elsewhere};
use crate::core::dispatcher::Input;
use crate::core::idle::Idle;
use crate::settings::tests::{settings, with};
use rhumb_stage::{Core as _, Event, Output};
use rhumb_url::partition;
use rhumb_wire::message::{Errand, FailureKind, Outcome, RequestEnd, Resolution};
use std::time::Duration;

const A: &str = "http://a.test";
const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

fn why(world: &World, server: &str) -> Idle {
    world.core.why_idle(world.now, server).unwrap()
}

#[test]
fn a_server_that_nobody_knows_is_another_s_or_has_nothing_to_do() {
    let mut world = World::owning(settings(), &[partition("a.test", 4)]);
    assert_eq!(why(&world, A), Idle::Unknown);
    assert_eq!(why(&world, "nonsense"), Idle::Unknown);
    let other = elsewhere(A);
    assert_eq!(
        why(&world, &other),
        Idle::Elsewhere(world.core.key_of(&other).partition)
    );
    world.tell_pages(A, 1);
    world.finish(&mut Fine, HOUR);
    assert_eq!(why(&world, A), Idle::NothingWaiting);
    world.run(&mut Fine, HOUR);
    assert_eq!(world.count("servers"), 0);
    assert_eq!(why(&world, A), Idle::NothingWaiting, "from the store");
}

#[test]
fn a_server_is_ready_then_connected_then_delayed() {
    let mut world = World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.scheduler.requests_per_connection = 1;
    }));
    world.tell_pages("http://b.test", 1);
    world.tell_pages(A, 2);
    assert_eq!(
        why(&world, A),
        Idle::Ready {
            before: 1,
            credit: 0
        }
    );
    world.ask(1);
    assert_eq!(
        why(&world, A),
        Idle::Ready {
            before: 0,
            credit: 0
        }
    );
    assert_eq!(why(&world, "http://b.test"), Idle::Connected(22 * SECOND));
    world.ask(1);
    world.request(1, &mut Fine);
    let report = world.held.remove(1).report(true, false);
    world.step(Some(crate::core::dispatcher::Input::Report(report)));
    assert_eq!(why(&world, A), Idle::Delay(SECOND));
    let mut out = Output::default();
    world.core.step(world.now, Event::Drain, &mut out).unwrap();
    world.pass(SECOND);
    world.step(None);
    assert_eq!(why(&world, A), Idle::Draining);
}

/// The URL of a server that waits, that is in a job, that failed, and that has ended, for a server
/// in memory and for one that is not.
#[test]
fn a_url_waits_is_in_flight_and_ends() {
    let mut world = World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.scheduler.requests_per_connection = 1;
    }));
    world.tell_pages(A, 2);
    let why = |world: &World, page: &str| {
        world
            .core
            .why(world.now, &format!("{A}/{page}"))
            .unwrap()
            .unwrap()
    };
    assert!(
        why(&world, "0").starts_with(
            "waits; found on http://seed.test/ (depth 1, topic default); http://a.test: ready \
             behind 0 servers"
        ),
        "{}",
        why(&world, "0")
    );
    world.ask(1);
    assert!(
        why(&world, "0").starts_with(
            "in flight; found on http://seed.test/ (depth 1, topic default); http://a.test: \
             connected"
        ),
        "{}",
        why(&world, "0")
    );
    assert!(why(&world, "1").starts_with("waits; "));
    assert!(why(&world, "2").starts_with("does not wait: it has ended, or has not come yet; "));
    assert_eq!(
        world
            .core
            .why(world.now, "http://b.test/")
            .unwrap()
            .unwrap(),
        "no URL of http://b.test has come"
    );
    world.held.clear();
    world.run(&mut pages(|_, _| response(500)), 30 * SECOND);
    // The job whose fetcher is gone may have contacted it.
    assert!(
        why(&world, "0").starts_with("waits after 2 attempts; "),
        "{}",
        why(&world, "0")
    );
    world.finish(&mut Fine, HOUR);
    world.run(&mut Fine, HOUR);
    assert_eq!(world.count("servers"), 0);
    assert!(
        why(&world, "0").starts_with("does not wait: "),
        "{}",
        why(&world, "0")
    );
}

#[test]
fn a_server_in_trouble_is_set_aside_and_then_its_urls_end() {
    let mut world = World::new(with(|set| set.politeness.respect_robots = false));
    world.tell_pages(A, 1);
    let mut silent = pages(|_, _| RequestEnd::Failure(FailureKind::Connect));
    world.run(&mut silent, SECOND);
    assert_eq!(why(&world, A), Idle::BackOff(29 * SECOND));
    // The sixth connection fails after 930 seconds.
    world.run(&mut silent, 1029 * SECOND);
    assert_eq!(
        why(&world, A),
        Idle::Ending(Outcome::Failed, "connect", Some(800 * SECOND))
    );
}

#[test]
fn urls_that_failed_wait_for_their_retry() {
    let mut world = World::new(with(|set| set.politeness.respect_robots = false));
    world.tell_pages(A, 1);
    world.run(&mut pages(|_, _| response(500)), 10 * SECOND);
    // 30 seconds after its server may be contacted again.
    assert_eq!(why(&world, A), Idle::Retry(21 * SECOND));
}

#[test]
fn robots_txt_is_awaited_and_then_out_of_reach() {
    let other = elsewhere(A);
    let mut world = World::owning(settings(), &[partition("a.test", 4)]);
    world.tell_pages(A, 1);
    let mut web = robots_txt(|_, _| redirect(&format!("{other}/robots.txt")));
    world.run(&mut web, 11 * SECOND);
    assert_eq!(why(&world, A), Idle::RobotsAwaited(20 * SECOND));
    // The other server cannot be reached: the scheduler that is asked for it says so each time.
    for _ in 0..settings().scheduler.attempts {
        world.step(Some(Input::Errand(Errand::Found {
            server: A.into(),
            response: None,
        })));
        world.run(&mut web, 540 * SECOND);
    }
    let reason = why(&world, A).to_string();
    assert!(
        reason.starts_with("its URLs end disallowed: robots.txt unreachable; for "),
        "{reason}"
    );
}

#[test]
fn the_address_is_awaited_and_then_missing() {
    let mut world = World::polite();
    world.tell(&[format!("{A}/")], &Resolution::Temporary);
    assert_eq!(why(&world, A), Idle::AddressAwaited(30 * SECOND));
    let mut world = World::polite();
    world.tell(&[format!("{A}/")], &Resolution::Private);
    world.pass(100 * SECOND);
    let ending = Idle::Ending(Outcome::Unresolvable, "private address", Some(200 * SECOND));
    assert_eq!(why(&world, A), ending);
}

#[test]
fn budgets_and_limits_are_named() {
    let mut world = World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.limits.pages_per_host = 1;
    }));
    world.tell_pages(A, 2);
    world.tell_pages("https://a.test", 2);
    world.ask(5);
    assert_eq!(why(&world, "https://a.test"), Idle::BudgetReserved);
    world.held.clear();
    world.run(&mut Fine, HOUR);
    assert_eq!(world.count("servers"), 0);
    assert_eq!(
        why(&world, A),
        Idle::Ending(Outcome::OverBudget, "pages per host", None),
        "from the store"
    );

    let mut world = World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.politeness.connections_per_address = 1;
    }));
    world.tell_pages(A, 2);
    world.tell_pages("http://b.test", 2);
    world.ask(5);
    assert_eq!(
        why(&world, "http://b.test"),
        Idle::AddressTaken("192.0.2.1".parse().unwrap())
    );

    let mut world = World::new(with(|set| set.limits.max_pages = 1));
    world.tell(&[format!("{A}/0"), format!("{A}/1")], &addresses());
    world.run(&mut robots_txt(|_, _| robots(404, "")), HOUR);
    assert_eq!(why(&world, A), Idle::EnoughPages);
}

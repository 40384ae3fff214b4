//! Budgets of hosts that are used up, shared by servers, given back, and kept through crashes; one
//! situation a test.

use super::web::{Fine, Web, addresses, pages, redirect, response, robots, robots_txt};
use super::world::{World, elsewhere};
use crate::core::dispatcher::Input;
use crate::settings::tests::with;
use rhumb_wire::message::{Outcome, RequestEnd, Resolution, ResponseSummary};
use std::time::Duration;

const A: &str = "http://a.test";
const A_TLS: &str = "https://a.test";
const A_8080: &str = "http://a.test:8080";
const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

/// A world with a budget of pages for each host; robots.txt does not count.
fn budget_of(pages_per_host: u64) -> World {
    World::new(with(|set| {
        set.limits.pages_per_host = pages_per_host;
        set.politeness.respect_robots = false;
    }))
}

/// The fetcher makes this number of requests of a job and ends it with the last.
fn work(world: &mut World, server: &str, requests: usize, web: &mut dyn Web) {
    let index = world
        .held
        .iter()
        .position(|held| held.job.server == server)
        .expect("a job");
    for _ in 0..requests {
        world.request(index, web);
        world.pass(SECOND);
    }
    let report = world.held.remove(index).report(true, false);
    world.step(Some(Input::Report(report)));
    world.receive();
}

fn jobs(world: &World) -> Vec<(&str, usize)> {
    world
        .held
        .iter()
        .map(|held| (held.job.server.as_str(), held.job.requests.len()))
        .collect()
}

#[test]
fn a_host_gives_as_many_pages_as_its_budget_and_the_rest_ends_in_bounded_steps() {
    let mut world = World::new(with(|set| set.limits.pages_per_host = 30));
    world.tell_pages(A, 3500);
    world.tell_pages("http://b.test", 20);
    let mut page = 0;
    let mut web = pages(|_, url| {
        page += u32::from(url.starts_with(A));
        if url.starts_with(A) {
            response([200, 404, 301][page as usize % 3])
        } else {
            response(200)
        }
    });
    world.finish(&mut web, HOUR);
    // Neither robots.txt nor a response that is no page counts: every third request brought one.
    assert_eq!(
        world
            .contacted()
            .iter()
            .filter(|url| url.starts_with(A))
            .count(),
        1 + 90
    );
    assert_eq!(world.count("outcome_fetched_total"), 30 + 20);
    assert_eq!(world.count("outcome_over_budget_total"), 3500 - 90);
    assert_eq!(
        world.outcome("http://a.test/3499"),
        (Outcome::OverBudget, "pages per host")
    );
}

#[test]
fn later_urls_of_a_host_without_budget_end_without_a_contact_on_any_of_its_servers() {
    let mut world = World::new(with(|set| set.limits.pages_per_host = 5));
    world.tell_pages(A, 5);
    world.finish(&mut Fine, HOUR);
    world.run(&mut Fine, HOUR);
    assert_eq!(world.count("servers"), 0);
    let contacts = world.contacts.len();
    for _ in 0..2 {
        let n = world.told.len();
        let urls = [A, A_TLS, A_8080].map(|server| format!("{server}/later{n}"));
        world.tell(&urls, &Resolution::Temporary);
        for url in &urls {
            assert_eq!(world.outcome(url).0, Outcome::OverBudget);
        }
        world.crash();
    }
    assert!(world.refreshes.is_empty());
    assert_eq!(world.contacts.len(), contacts);
}

#[test]
fn servers_of_a_host_share_its_budget_and_what_is_in_flight_is_reserved() {
    let mut world = budget_of(4);
    for server in [A, A_TLS, A_8080] {
        world.tell_pages(server, 3);
    }
    world.ask(3);
    assert_eq!(jobs(&world), [(A, 3), (A_TLS, 1)]);
    assert_eq!(
        world.count("servers_ready"),
        0,
        "who has no room does not compete"
    );
    // Two places are free again. The server that was held takes them, then nothing is left.
    let mut web = pages(|_, url| {
        if url.ends_with("/0") {
            response(200)
        } else {
            response(404)
        }
    });
    work(&mut world, A, 3, &mut web);
    world.ask(3);
    assert_eq!(jobs(&world), [(A_TLS, 1), (A_8080, 2)]);
    work(&mut world, A_TLS, 1, &mut web);
    work(&mut world, A_8080, 2, &mut web);
    // Three pages were fetched. One more is fetched, and what waits ends.
    world.ask(3);
    assert_eq!(jobs(&world), [(A_TLS, 1)]);
    work(&mut world, A_TLS, 1, &mut Fine);
    assert_eq!((world.count("waiting"), world.count("in_flight")), (0, 0));
    assert_eq!(
        (
            world.count("outcome_fetched_total"),
            world.count("outcome_over_budget_total")
        ),
        (4, 2)
    );
}

#[test]
fn room_that_a_held_server_does_not_take_goes_to_the_next() {
    let mut world = budget_of(1);
    world.tell_pages(A, 2);
    world.ask(1);
    // Its address is stale when there is room for it.
    let stale = Resolution::Addresses {
        addresses: vec!["192.0.2.1".parse().unwrap()],
        ttl_s: 60,
    };
    world.tell(&[format!("{A_TLS}/0")], &stale);
    world.tell_pages(A_8080, 1);
    let gone = &mut pages(|_, _| response(404));
    for _ in 0..15 {
        world.pass(Duration::from_secs(5));
        let report = world.held[0].report(false, false);
        world.step(Some(Input::Report(report)));
        world.receive();
    }
    work(&mut world, A, 1, gone);
    assert_eq!(world.refreshes.len(), 1);
    world.ask(2);
    assert_eq!(jobs(&world), [(A_8080, 1)]);
}

#[test]
fn a_place_is_free_again_when_a_lease_expires() {
    let mut world = budget_of(2);
    world.tell_pages(A, 2);
    world.ask(1);
    world.held.clear();
    world.tell_pages(A_TLS, 2);
    world.pass(Duration::from_secs(22));
    world.ask(1);
    assert_eq!(jobs(&world), [(A_TLS, 2)]);
    world.finish(&mut Fine, HOUR);
    assert_eq!(
        (
            world.count("outcome_fetched_total"),
            world.count("outcome_over_budget_total")
        ),
        (2, 2)
    );
}

#[test]
fn urls_of_a_server_that_is_left_alone_or_retried_later_end_with_the_budget_of_the_host() {
    let mut world = budget_of(2);
    world.tell_pages(A_TLS, 1);
    world.tell_pages(A_8080, 1);
    world.ask(2);
    let busy = RequestEnd::Response(ResponseSummary {
        status: 429,
        elapsed_us: 1,
        retry_after_s: Some(3600),
        ..ResponseSummary::default()
    });
    work(&mut world, A_TLS, 1, &mut pages(|_, _| busy.clone()));
    work(&mut world, A_8080, 1, &mut pages(|_, _| response(500)));
    world.tell_pages(A, 2);
    world.run(&mut Fine, 2 * SECOND);
    assert_eq!(
        (
            world.count("outcome_fetched_total"),
            world.count("outcome_over_budget_total")
        ),
        (2, 2)
    );
    assert_eq!(world.outcome("https://a.test/0").0, Outcome::OverBudget);
}

#[test]
fn a_crash_forgets_neither_the_count_nor_what_is_to_end() {
    let mut world = budget_of(3);
    world.tell_pages(A, 3500);
    world.tell_pages(A_TLS, 3500);
    world.ask(1);
    work(&mut world, A, 2, &mut Fine);
    world.crash();
    world.pass(SECOND);
    world.ask(2);
    assert_eq!(world.count("in_flight"), 1);
    world.crash();
    assert_eq!(
        jobs(&world).len(),
        1,
        "the job survives, and its reservation"
    );
    world.ask(2);
    assert_eq!(world.count("in_flight"), 1);
    let server = world.held[0].job.server.clone();
    work(&mut world, &server, 1, &mut Fine);
    while world.count("waiting") > 0 {
        let waiting = world.count("waiting");
        world.crash();
        world.step(None);
        assert_eq!(world.count("waiting"), waiting.saturating_sub(1000));
    }
    assert_eq!(
        (
            world.count("outcome_fetched_total"),
            world.count("outcome_over_budget_total")
        ),
        (3, 6997)
    );
}

#[test]
fn a_budget_that_comes_later_holds_for_the_whole_crawl() {
    let mut world = budget_of(0);
    world.tell_pages(A, 5);
    world.finish(&mut Fine, HOUR);
    world.tell_pages(A_TLS, 5);
    world.settings.limits.pages_per_host = 8;
    world.crash();
    world.finish(&mut Fine, HOUR);
    assert_eq!(
        (
            world.count("outcome_fetched_total"),
            world.count("outcome_over_budget_total")
        ),
        (8, 2)
    );
}

#[test]
fn a_robots_txt_for_another_host_is_fetched_from_a_host_without_budget() {
    let other = elsewhere(A);
    let mut world = World::new(with(|set| set.limits.pages_per_host = 2));
    world.tell_pages(A, 3);
    world.finish(&mut Fine, HOUR);
    world.tell_pages(&other, 2);
    let mut web = robots_txt(|_, url| {
        if url.starts_with(A) {
            robots(200, "User-agent: *\nDisallow: /1\n")
        } else {
            redirect(&format!("{A}/rules"))
        }
    });
    world.finish(&mut web, HOUR);
    assert!(world.contacted().contains(&"http://a.test/rules"));
    assert_eq!(world.outcome(&format!("{other}/1")).0, Outcome::Disallowed);
    world.tell(&[format!("{A}/later")], &addresses());
    assert_eq!(world.outcome("http://a.test/later").0, Outcome::OverBudget);
}

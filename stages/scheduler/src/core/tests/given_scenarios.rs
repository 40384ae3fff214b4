//! Pages that are given as known; one situation a test.

use super::recrawl_scenarios::{body, recrawled};
use super::web::{Fine, addresses, pages, response};
use super::world::World;
use crate::core::dispatcher::Input;
use crate::settings::Settings;
use crate::settings::tests::with;
use rhumb_config::RecrawlPolicy;
use rhumb_stage::{Core as _, KnownTold, NextVisit};
use rhumb_wire::message::{Change, LastVisit, Origin, OutcomeEntry, PageState};
use std::time::Duration;

const URL: &str = "http://a.test/1";
const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// A page as it was a minute after the beginning.
const LAST: LastVisit = LastVisit {
    at_ms: 60_000,
    number: 4,
    state: PageState::Page,
};

/// A world of an hour's age.
fn aged(settings: Settings) -> World {
    let mut world = World::new(settings);
    world.pass(HOUR);
    world
}

fn visited_each_second() -> World {
    aged(recrawled(RecrawlPolicy::Uniform, 1))
}

fn give(world: &mut World, url: &str, last: LastVisit) {
    world.told.remove(url);
    let mut ready = world.batch(&[url.to_owned()], Some(&addresses()));
    ready.origins = vec![Origin::known("default", 2, last)];
    ready.origin_of = vec![0];
    let number = world.given.entry(url.to_owned()).or_default();
    *number = last.number.max(*number);
    world.step(Some(Input::Ready(ready)));
}

fn known(world: &World) -> KnownTold {
    let known = world.core.known(world.now, URL).unwrap();
    known.expect("a known page")
}

/// URLs that were given, and those of them that changed nothing.
fn given(world: &World) -> [u64; 2] {
    ["pages_given_total", "pages_given_again_total"].map(|name| world.count(name))
}

/// The first visit of a page that was given so.
fn next_visit(last: LastVisit, status: u16) -> OutcomeEntry {
    let mut world = visited_each_second();
    give(&mut world, URL, last);
    world.run(&mut pages(|_, _| response(status)), MINUTE);
    world.visits.swap_remove(0)
}

#[test]
fn a_page_that_is_given_is_known_without_a_fetch_and_its_visits_go_on() {
    let mut world = aged(with(|_| {}));
    give(&mut world, URL, LAST);
    world.run(&mut Fine, HOUR);
    assert_eq!(world.contacted(), [""; 0]);
    let told = known(&world);
    assert_eq!((told.visits, told.state), (4, PageState::Page));
    assert_eq!(told.next, NextVisit::PolicyNone);
    assert_eq!(told.age_s, 7141.0);
    assert_eq!(world.count("new_total"), 1);
    assert_eq!(world.count("pages_known_total"), 1);
    assert_eq!(given(&world), [1, 0]);

    world.settings = recrawled(RecrawlPolicy::Uniform, 1);
    world.crash();
    world.run(&mut pages(|_, _| body(1)), MINUTE);
    let first = &world.visits[0];
    assert_eq!((first.visit, first.before), (5, PageState::Page));
    assert_eq!(first.change, Change::Changed, "nobody knows its body");
    assert_eq!(world.visits[1].change, Change::Unchanged);
    assert_eq!((first.origin.depth, first.origin.seed), (2, false));
    assert_eq!((first.origin.again, &*first.origin.page), (0, ""));
    assert!(world.outcomes.is_empty(), "P3 is about what is fetched");
}

#[test]
fn what_is_given_of_a_page_is_what_its_next_visit_is_compared_with() {
    let last = |state| LastVisit { state, ..LAST };
    for (state, status, change) in [
        (PageState::None, 200, Change::New),
        (PageState::None, 404, Change::Gone),
        (PageState::Page, 404, Change::None),
        (PageState::Page, 301, Change::Changed),
        (PageState::Moved, 200, Change::Changed),
        (PageState::Gone, 404, Change::Unchanged),
        (PageState::Gone, 200, Change::Back),
    ] {
        let visit = next_visit(last(state), status);
        assert_eq!((visit.change, visit.before), (change, state), "{status}");
    }
}

/// Goal: a body that nobody can compare teaches nothing of how often its page changes. Method: a
/// page that was visited a second ago.
#[test]
fn nothing_is_learned_of_a_body_that_nobody_knows() {
    let mut world = visited_each_second();
    let a_second_ago = LastVisit {
        at_ms: 3_600_000,
        ..LAST
    };
    give(&mut world, URL, a_second_ago);
    let before = known(&world).change_s;
    let mut web = pages(|_, _| body(1));
    while world.visits.is_empty() {
        world.run(&mut web, Duration::from_millis(100));
    }
    assert_eq!(world.visits[0].change, Change::Changed);
    let change = known(&world).change_s / before;
    assert!((0.99..1.01).contains(&change), "{change}");
    world.run(&mut web, MINUTE);
    assert!(known(&world).change_s > 2.0 * before);
}

#[test]
fn of_several_visits_that_are_given_the_latest_counts() {
    let mut world = aged(with(|_| {}));
    let at = |at_ms, number, state| LastVisit {
        at_ms,
        number,
        state,
    };
    give(&mut world, URL, LAST);
    give(&mut world, URL, at(90_000, 6, PageState::Gone));
    give(&mut world, URL, at(90_000, 6, PageState::Gone));
    give(&mut world, URL, at(70_000, 5, PageState::Page));
    assert_eq!(
        (known(&world).visits, known(&world).state),
        (6, PageState::Gone)
    );
    assert!((3509.0..3512.0).contains(&known(&world).age_s));
    assert_eq!(given(&world), [4, 2]);
    assert_eq!(world.count("pages_known_total"), 1);
    world.settings = recrawled(RecrawlPolicy::Uniform, 1);
    world.crash();
    world.run(&mut Fine, MINUTE);
    assert_eq!(
        (world.visits[0].visit, world.visits[0].change),
        (7, Change::Back)
    );
}

#[test]
fn a_page_that_this_crawl_knows_stays_as_it_is() {
    let mut world = visited_each_second();
    world.tell(&[URL.to_owned()], &addresses());
    world.run(&mut Fine, MINUTE);
    // Later than all its visits.
    world.pass(HOUR);
    let told = |world: &World| {
        let KnownTold {
            visits,
            state,
            change_s,
            ..
        } = known(world);
        (visits, state, change_s)
    };
    let before = told(&world);
    let last = LastVisit {
        at_ms: 7_000_000,
        number: 1000,
        state: PageState::Gone,
    };
    give(&mut world, URL, last);
    assert_eq!(told(&world), before);
    assert_eq!(given(&world), [1, 1]);
    assert_eq!(world.count("pages_known_total"), 1);
    world.run(&mut Fine, MINUTE);
    let numbers = world.visits.iter().map(|visit| visit.visit);
    assert!(numbers.max() < Some(200));
}

#[test]
fn a_page_whose_visit_is_planned_stays_as_it_is() {
    let mut world = visited_each_second();
    give(&mut world, URL, LAST);
    // Nobody fetches.
    world.run_with(&mut Fine, 0, MINUTE);
    assert_eq!(known(&world).next, NextVisit::Planned);
    let later = LastVisit {
        at_ms: 90_000,
        number: 9,
        ..LAST
    };
    give(&mut world, URL, later);
    assert_eq!((known(&world).visits, given(&world)), (4, [2, 1]));
    world.given.insert(URL.to_owned(), LAST.number);
    world.run(&mut Fine, MINUTE);
    assert_eq!(world.visits[0].visit, 5);
}

#[test]
fn a_url_that_waits_for_its_first_visit_waits_on() {
    let mut world = aged(with(|_| {}));
    world.tell(&[URL.to_owned()], &addresses());
    give(&mut world, URL, LAST);
    assert_eq!(world.count("waiting"), 1);
    world.settings = recrawled(RecrawlPolicy::Uniform, 1);
    world.crash();
    world.run(&mut Fine, MINUTE);
    let first = &world.outcomes[URL];
    assert_eq!((first.visit, first.before), (1, PageState::Page));
    assert_eq!(world.count("pages_known_total"), 1);
    assert!(known(&world).visits > 20);
    assert_eq!(world.visits[0].visit, 5);
}

#[test]
fn a_visit_of_the_future_counts_as_of_now() {
    let mut world = aged(with(|_| {}));
    let of_the_future = LastVisit {
        at_ms: u64::MAX,
        number: 0,
        state: PageState::Page,
    };
    give(&mut world, URL, of_the_future);
    let told = known(&world);
    assert_eq!((told.visits, told.age_s), (1, 0.0));
    world.pass(HOUR);
    assert_eq!(known(&world).age_s, 3600.0);
}

#[test]
fn pages_that_are_given_are_kept_over_crashes_and_splits() {
    let mut world = visited_each_second();
    let urls: Vec<String> = (0..40).map(|n| format!("http://s{n}.test/")).collect();
    world.settings.recrawl.requests_per_second = 0;
    world.crash();
    urls.iter().for_each(|url| give(&mut world, url, LAST));
    world.settings.recrawl.requests_per_second = 20;
    world.split(&super::split_scenarios::HALVES);
    assert_eq!(given(&world), [40, 0]);
    world.run(&mut Fine, MINUTE);
    let numbers = |url: &String| {
        let visits = world.visits.iter().filter(|visit| visit.url == *url);
        visits.map(|visit| visit.visit).next()
    };
    assert!(urls.iter().all(|url| numbers(url) == Some(5)));
}

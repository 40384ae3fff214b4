//! Later links: URLs that wait go before others, and nothing else of them changes.

use super::web::{Fine, addresses, pages, response};
use super::world::World;
use crate::core::dispatcher::Input;
use crate::ranking::quality::Provider;
use crate::settings::tests::with;
use rhumb_config::Policy;
use rhumb_url::{fingerprint, host_hash, host_of};
use rhumb_wire::message::{Boost, Boosts, Quality};
use std::time::Duration;

const A: &str = "http://a.test";
const HOUR: Duration = Duration::from_secs(3600);

fn world(quality: Provider, policy: Policy) -> World {
    let delay = Duration::from_millis(1);
    World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.quality = quality.into();
        set.scheduler.policy = policy;
        set.politeness.delay = delay;
    }))
}

/// Later links bring so much to each of these URLs.
fn boosts(urls: &[&str], worth: f32) -> Boosts {
    let boost = |url: &&str| Boost {
        host: host_hash(host_of(url)),
        url: fingerprint(url),
        worth: Quality::new(worth).unwrap(),
        is_cash: false,
    };
    Boosts {
        boosts: urls.iter().map(boost).collect(),
        ..Boosts::default()
    }
}

fn boost(world: &mut World, page: usize, worth: f32) {
    world.step(Some(Input::Boosts(boosts(
        &[&format!("{A}/{page}")],
        worth,
    ))));
}

/// So much cash has gathered at a URL.
fn cash(page: usize, worth: f32) -> Boosts {
    let mut boosts = boosts(&[&format!("{A}/{page}")], worth);
    boosts.boosts[0].is_cash = true;
    boosts
}

fn order(world: &mut World) -> Vec<usize> {
    let before = world.contacted().len();
    world.finish(&mut Fine, HOUR);
    world.contacted()[before..]
        .iter()
        .map(|url| url.rsplit('/').next().unwrap().parse().unwrap())
        .collect()
}

fn counts(world: &World) -> (u64, u64) {
    (
        world.count("boosts_lifted_total"),
        world.count("boosts_dropped_total"),
    )
}

#[test]
fn the_url_with_most_links_goes_first_also_after_a_crash() {
    let mut world = world(Provider::Links, Policy::Capacity);
    world.tell_pages(A, 80);
    boost(&mut world, 70, 3.0);
    boost(&mut world, 5, 1.0);
    boost(&mut world, 79, 2.0);
    world.crash();
    boost(&mut world, 5, 3.5);
    assert_eq!(world.count("boosts_lifted_total"), 1, "of this life");
    let order = order(&mut world);
    let rest = (0..80).filter(|page| ![5, 70, 79].contains(page));
    assert_eq!(
        order,
        [5, 70, 79].into_iter().chain(rest).collect::<Vec<_>>()
    );
}

#[test]
fn cash_that_gathers_at_a_url_goes_on_to_its_links() {
    let mut world = world(Provider::Opic, Policy::Quality);
    world.tell_pages(A, 3);
    for worth in [0.25, 0.5] {
        world.step(Some(Input::Boosts(cash(2, worth))));
    }
    boost(&mut world, 1, 9.0);
    assert_eq!(counts(&world), (2, 1), "links are no cash");
    world.ask(1);
    let requests = &world.held[0].job.requests;
    let flow = |at: usize| requests[at].origin.flow.get();
    assert_eq!(
        (requests[0].url.as_str(), flow(0), flow(1)),
        ("http://a.test/2", 0.75, 0.0)
    );
}

#[test]
fn a_server_goes_before_others_with_its_url() {
    let mut world = world(Provider::Links, Policy::Quality);
    for server in ["http://b.test", "http://c.test", A] {
        world.tell_pages(server, 2);
    }
    boost(&mut world, 1, 1.0);
    world.ask(1);
    assert_eq!(
        (
            world.held[0].job.server.as_str(),
            world.held[0].job.requests[0].url.as_str()
        ),
        (A, "http://a.test/1")
    );
}

/// Goal: what is in flight, failed, fetched, not known or not here stays as it is, and is counted.
#[test]
fn a_url_that_does_not_wait_among_the_fresh_ones_is_left_alone() {
    let mut world = World::owning(
        with(|set| {
            set.quality = Provider::Links.into();
            set.scheduler.policy = Policy::Capacity;
            set.politeness.respect_robots = false;
        }),
        &[0, 1, 2],
    );
    let here = |n: u32| format!("http://h{n}.test");
    let partition = |server: &str| rhumb_url::partition(host_of(server), 4);
    let server = (0..)
        .map(here)
        .find(|server| partition(server) == 0)
        .unwrap();
    let foreign = (0..)
        .map(here)
        .find(|server| partition(server) == 3)
        .unwrap();
    let url = |page: usize| format!("{server}/{page}");
    let step = |world: &mut World, url: &str| world.step(Some(Input::Boosts(boosts(&[url], 1.0))));
    world.tell_pages(&server, 2);
    step(&mut world, &format!("{foreign}/0"));
    step(&mut world, &url(7));
    assert_eq!(counts(&world), (0, 2));
    world.ask(1);
    step(&mut world, &url(0));
    assert_eq!(counts(&world), (0, 3), "it is in flight");
    world.run(
        &mut pages(|_, url| response(if url.ends_with("/0") { 500 } else { 200 })),
        Duration::from_secs(10),
    );
    step(&mut world, &url(0));
    step(&mut world, &url(1));
    assert_eq!(
        counts(&world),
        (0, 5),
        "the one has failed, the other was fetched"
    );
    world.finish(&mut Fine, HOUR);
}

#[test]
fn where_the_policy_or_the_quality_do_not_ask_for_it_nothing_is_kept_or_lifted() {
    for (quality, policy) in [
        (Provider::Links, Policy::BreadthFirst),
        (Provider::Opic, Policy::Performance),
        (Provider::Flow, Policy::Capacity),
    ] {
        let mut world = world(quality, policy);
        world.tell_pages(A, 3);
        boost(&mut world, 2, 9.0);
        assert_eq!(counts(&world), (0, 1));
        assert_eq!(order(&mut world), [0, 1, 2]);
    }
}

#[test]
fn no_row_of_the_index_outlasts_its_url() {
    let mut world = world(Provider::Links, Policy::Capacity);
    world.tell(
        &(0..9).map(|page| format!("{A}/{page}")).collect::<Vec<_>>(),
        &addresses(),
    );
    boost(&mut world, 8, 2.0);
    let rows = |world: &World| {
        let mut rows = 0;
        let count = &mut |_: &[u8], row: &[u8]| {
            assert_eq!(row.len(), 11);
            rows += 1;
            true
        };
        rhumb_stage::store::Store::scan(world.store.as_ref(), "index", &[], &[0xff; 32], count)
            .unwrap();
        rows
    };
    assert_eq!(rows(&world), 9);
    world.run(
        &mut pages(|_, url| response(if url.ends_with("/3") { 500 } else { 200 })),
        Duration::from_secs(20),
    );
    assert_eq!(
        (rows(&world), world.count("waiting")),
        (0, 1),
        "one waits for another try"
    );
    world.finish(&mut Fine, HOUR);
}

#[test]
fn what_is_too_little_for_another_place_leaves_a_url_where_it_is() {
    let mut world = world(Provider::Opic, Policy::Quality);
    world.tell_pages(A, 3);
    for page in 0..3 {
        world.step(Some(Input::Boosts(cash(page, 1.0))));
    }
    world.step(Some(Input::Boosts(cash(0, 1e-6))));
    assert_eq!(counts(&world), (3, 1));
    assert_eq!(order(&mut world), [0, 1, 2]);
}

#[test]
fn one_message_lifts_no_more_urls_than_a_step_has_time_for() {
    let mut world = world(Provider::Links, Policy::Quality);
    world.tell_pages(A, 300);
    let urls: Vec<String> = (0..300).map(|page| format!("{A}/{page}")).collect();
    world.step(Some(Input::Boosts(boosts(
        &urls.iter().map(String::as_str).collect::<Vec<_>>(),
        1.0,
    ))));
    assert_eq!(counts(&world), (200, 100));
}

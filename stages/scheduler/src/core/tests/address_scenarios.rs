//! Addresses that are unknown, missing, stale, or shared by servers; one situation a test.

use super::web::{Fine, Web, addresses};
use super::world::World;
use crate::core::dispatcher::Input;
use crate::settings::tests::with;
use rhumb_wire::message::{Outcome, Resolution};
use std::time::Duration;

const A: &str = "http://a.test";
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn servers_on_one_address_share_its_connections_and_others_do_not_wait() {
    let mut world = World::new(with(|set| {
        set.politeness.connections_per_address = 2;
        set.politeness.respect_robots = false;
    }));
    let servers: Vec<_> = (0..6).map(|n| format!("http://s{n}.test")).collect();
    for server in &servers {
        world.tell_pages(server, 3);
    }
    let alone = Resolution::Addresses {
        addresses: vec!["192.0.2.77".parse().unwrap()],
        ttl_s: 3600,
    };
    world.tell(&["http://alone.test/".to_owned()], &alone);
    world.ask(10);
    let mut held: Vec<_> = world
        .held
        .iter()
        .map(|held| held.job.server.clone())
        .collect();
    assert_eq!(
        held,
        ["http://s0.test", "http://s1.test", "http://alone.test"]
    );
    // A connection ends: the server that has waited for longest goes on.
    world.request(0, &mut Fine);
    let report = world.held.remove(0).report(true, false);
    world.step(Some(Input::Report(report)));
    world.receive();
    held = world
        .held
        .iter()
        .map(|held| held.job.server.clone())
        .collect();
    assert_eq!(
        held,
        ["http://s1.test", "http://alone.test", "http://s2.test"]
    );
    // Leases, and what they count for, survive a crash, and the end of a lease makes room.
    world.crash();
    world.ask(10);
    assert_eq!(world.held.len(), 3);
    world.held.clear();
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.count("outcome_fetched_total"), 19);
}

#[test]
fn urls_without_an_address_end() {
    for (resolution, reason) in [
        (Resolution::NoAddress, "no such name"),
        (Resolution::Private, "private address"),
    ] {
        let mut world = World::polite();
        let urls: Vec<_> = (0..2500).map(|page| format!("{A}/{page}")).collect();
        world.tell(&urls, &resolution);
        world.run(&mut Fine, Duration::from_secs(1));
        assert_eq!(
            world.outcome("http://a.test/2499"),
            (Outcome::Unresolvable, reason)
        );
        assert!(world.contacts.is_empty() && world.refreshes.is_empty());
        world.tell(&[format!("{A}/later")], &resolution);
        assert_eq!(
            world.outcome("http://a.test/later").0,
            Outcome::Unresolvable
        );
        world.tell(&[format!("{A}/resolved")], &addresses());
        world.finish(&mut Fine, HOUR);
        assert_eq!(world.outcome("http://a.test/resolved").0, Outcome::Fetched);
    }
}

/// A resolver that fails a given number of times, or does not answer at all.
struct Resolver(Vec<Option<Resolution>>, usize);
impl Web for Resolver {
    fn resolve(&mut self, _: &str) -> Option<Resolution> {
        self.1 += 1;
        if self.0.is_empty() {
            None
        } else {
            self.0.remove(0)
        }
    }
}

#[test]
fn a_temporary_failure_to_resolve_is_tried_again() {
    let mut world = World::polite();
    world.tell(&[format!("{A}/x")], &Resolution::Temporary);
    world.finish(
        &mut Resolver(vec![Some(Resolution::Temporary), Some(addresses())], 0),
        HOUR,
    );
    assert_eq!(world.outcome("http://a.test/x").0, Outcome::Fetched);
}

#[test]
fn name_servers_that_fail_are_given_up() {
    let mut world = World::polite();
    world.tell(&[format!("{A}/x")], &Resolution::Temporary);
    let mut resolver = Resolver(vec![Some(Resolution::Temporary); 9], 0);
    world.finish(&mut resolver, HOUR);
    assert_eq!(
        world.outcome("http://a.test/x"),
        (Outcome::Unresolvable, "name servers do not answer")
    );
    assert_eq!(resolver.1, 2);
}

#[test]
fn a_resolver_that_is_away_is_waited_for() {
    let mut world = World::polite();
    world.tell(&[format!("{A}/x")], &Resolution::Temporary);
    let mut resolver = Resolver(vec![None, None, None, None, None, Some(addresses())], 0);
    world.finish(&mut resolver, HOUR);
    assert_eq!(
        (world.outcome("http://a.test/x").0, resolver.1),
        (Outcome::Fetched, 6)
    );
}

#[test]
fn a_stale_address_is_refreshed_before_the_next_job() {
    let mut world = World::new(with(|set| set.politeness.delay = Duration::from_secs(10)));
    let stale = Resolution::Addresses {
        addresses: vec!["192.0.2.1".parse().unwrap()],
        ttl_s: 60,
    };
    let urls: Vec<_> = (0..30).map(|page| format!("{A}/{page}")).collect();
    world.tell(&urls, &stale);
    let mut resolver = Resolver(vec![None, Some(addresses())], 0);
    world.finish(&mut resolver, HOUR);
    assert_eq!(resolver.1, 2);
    assert_eq!(world.count("outcome_fetched_total"), 30);
}

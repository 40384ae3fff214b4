//! What happens to servers and their URLs when all goes well, and after a crash; one situation a
//! test.

use super::recrawl_scenarios::recrawled;
use super::web::{Fine, addresses, pages, response};
use super::world::{World, elsewhere};
use crate::core::dispatcher::Input;
use crate::core::scheduler::Scheduler;
use crate::ranking::topics::tests::topics;
use crate::settings::Settings;
use crate::settings::tests::{settings, with};
use rhumb_config::RecrawlPolicy;
use rhumb_stage::Core as _;
use rhumb_stage::store::Store as _;
use rhumb_url::time::Timestamp;
use rhumb_url::{partition, server_of};
use rhumb_wire::message::{Errand, Outcome, ReadyUrls};
use std::time::Duration;

const A: &str = "http://a.test";
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn urls_of_a_server_are_fetched_in_order_after_its_robots_txt_with_the_delay_between() {
    let mut world = World::polite();
    world.tell_pages(A, 120);
    let start = world.now;
    world.finish(&mut Fine, HOUR);
    let expected: Vec<_> = std::iter::once(format!("{A}/robots.txt"))
        .chain((0..120).map(|page| format!("{A}/{page}")))
        .collect();
    assert_eq!(world.contacted(), expected);
    assert!(
        world
            .outcomes
            .values()
            .all(|entry| entry.outcome == Outcome::Fetched && entry.attempts == 1)
    );
    // P2 lets no contact come earlier; none comes later either.
    assert_eq!(world.contacts[120].0.since(start), Duration::from_secs(120));
    assert_eq!(world.count("jobs_granted_total"), 4);
    assert_eq!(world.count("bytes_total"), 12_000);
    assert_eq!(world.count("contacts_total"), 121);
    world.run(&mut Fine, Duration::from_secs(2));
    assert_eq!(
        world.count("servers"),
        0,
        "a server without URLs leaves memory"
    );
}

#[test]
fn a_server_that_left_memory_is_remembered() {
    let mut world = World::polite();
    world.tell_pages(A, 1);
    world.finish(&mut Fine, HOUR);
    world.run(&mut Fine, Duration::from_secs(10));
    assert!(world.core.servers.get(world.core.key_of(A)).is_none());
    world.tell(&[format!("{A}/later")], &addresses());
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.count("robots_fetched_total"), 1);
}

#[test]
fn servers_take_turns_in_the_order_in_which_they_became_ready() {
    let mut world = World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.scheduler.requests_per_connection = 2;
    }));
    for server in ["http://c.test", "http://a.test", "http://b.test"] {
        world.tell_pages(server, 3);
    }
    for _ in 0..3 {
        world.ask(1);
    }
    let order: Vec<_> = world
        .held
        .iter()
        .map(|held| held.job.server.clone())
        .collect();
    assert_eq!(order, ["http://c.test", "http://a.test", "http://b.test"]);
    world.ask(1);
    assert_eq!(world.held.len(), 3, "each server has its connection");
}

#[test]
fn no_more_pages_are_asked_for_than_allowed() {
    let mut world = World::new(with(|set| set.limits.max_pages = 30));
    for server in ["http://a.test", "http://b.test", "http://c.test"] {
        world.tell_pages(server, 40);
    }
    let mut even = 0;
    let mut web = pages(|_, _| {
        even += 1;
        if even % 2 == 0 {
            response(200)
        } else {
            response(404)
        }
    });
    world.run(&mut web, HOUR);
    assert_eq!(world.count("outcome_fetched_total"), 30);
    assert_eq!(world.count("in_flight"), 0);
    assert!(world.count("waiting") > 0);
}

#[test]
fn repeated_batches_change_nothing() {
    let mut world = World::polite();
    let urls: Vec<_> = (0..20).map(|page| format!("{A}/{page}")).collect();
    let batch = world.batch(&urls, Some(&addresses()));
    let half = ReadyUrls {
        urls: urls[..10].iter().collect(),
        serials: batch.serials[..10].to_vec(),
        ..batch.clone()
    };
    for ready in [&half, &batch, &half, &batch] {
        world.step(Some(Input::Ready(ready.clone())));
        world.crash();
    }
    assert_eq!(
        (
            world.count("new_total"),
            world.count("serials_repeated_total")
        ),
        (20, 40)
    );
    world.finish(&mut Fine, HOUR);
    world.step(Some(Input::Ready(batch)));
    assert_eq!(world.count("new_total"), 20);
}

#[test]
fn messages_that_make_no_sense_are_counted_and_ignored() {
    let mut world = World::owning(settings(), &[partition("a.test", 4)]);
    let batch = world.batch(
        &[format!("{A}/0"), format!("{A}/1"), format!("{A}/2")],
        Some(&addresses()),
    );
    let odd = ReadyUrls {
        server_of: vec![0, 9],
        origin_of: vec![7, 0, 0],
        serials: vec![1],
        ..batch.clone()
    };
    world.step(Some(Input::Ready(odd)));
    assert_eq!(
        (world.count("malformed_total"), world.count("new_total")),
        (3, 0)
    );
    world.step(Some(Input::Ready(ReadyUrls {
        partition: 77,
        ..batch
    })));
    world.step(Some(Input::Errand(Errand::Wanted {
        url: "nonsense".into(),
        server: "x".into(),
    })));
    world.step(Some(Input::Errand(Errand::Found {
        server: elsewhere(A),
        response: None,
    })));
    assert_eq!(
        (world.count("malformed_total"), world.count("foreign_total")),
        (4, 2)
    );
    world.crash();
    assert_eq!(
        (
            world.count("malformed_urls_total"),
            world.count("foreign_urls_total")
        ),
        (3, 3),
        "of URLs, for good"
    );
}

#[test]
fn state_of_partitions_that_are_not_owned_is_left_alone() {
    let mut world = World::polite();
    world.tell_pages(A, 3);
    let others: Vec<u16> = (0..4).filter(|&p| p != partition("a.test", 4)).collect();
    let core = Scheduler::open(settings(), 0, 9, &others, world.store.clone(), world.now).unwrap();
    assert_eq!(
        (0..4)
            .filter(|&partition| core.servers.owns(partition))
            .collect::<Vec<_>>(),
        others
    );
    assert_eq!(core.wake_at(), Some(Timestamp::ZERO));
    assert!(
        world
            .store
            .contains(
                crate::servers::server::SERVERS,
                &world.core.key_of(server_of(A)).to_bytes()
            )
            .unwrap()
    );
}

#[test]
fn the_table_of_metrics_has_a_row_for_each_number_and_no_other() {
    let without_topics = World::polite().core.labelled_counts();
    assert!(
        without_topics
            .iter()
            .all(|of| of.label == "kind" && of.value == 0)
    );
    let core = World::new(Settings {
        topics: topics(&[(0, 1000)]),
        ..recrawled(RecrawlPolicy::Fresh, 1)
    })
    .core;
    let labelled = core.labelled_counts();
    let of_one = labelled
        .iter()
        .filter(|of| ["t1", "sitemap"].contains(&&*of.label_value))
        .map(|of| (of.count, of.value));
    let counts: Vec<_> = core.counts().into_iter().chain(of_one).collect();
    assert_eq!(
        rhumb_telemetry::metrics::unlike(crate::metrics::METRICS, &counts, &core.histograms()),
        [""; 0]
    );
}

//! Topics that share connections, one situation a test.

use super::fetching::Held;
use super::web::{Fine, Web, robots};
use super::world::World;
use crate::keys::topic::TopicIndex;
use crate::ranking::topics::tests::topics;
use crate::ranking::topics::{TopicLimits, Topics, TurnRules};
use crate::settings::tests::with;
use rhumb_url::server_of;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{FailureKind, RobotsResponse};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const FREE: u32 = 4;

/// A world with topics `t1`, `t2`, … of these priorities.
fn world(priorities: &[u8], respect_robots: bool) -> World {
    let rules: Vec<_> = priorities
        .iter()
        .map(|&priority| (priority, 10_000))
        .collect();
    World::new(with(|set| {
        set.politeness.respect_robots = respect_robots;
        set.topics = topics(&rules);
    }))
}

/// Tells pages of servers of a topic: the names of the servers begin with the topic's.
fn tell(world: &mut World, topic: &str, servers: usize, pages: usize) {
    world.topics = vec![topic.to_owned()];
    (0..servers)
        .for_each(|server| world.tell_pages(&format!("http://{topic}-{server}.test"), pages));
}

/// Contacts so far of each topic.
fn contacts<const N: usize>(world: &World, topics: [&str; N]) -> [usize; N] {
    topics.map(|topic| {
        world
            .contacted()
            .iter()
            .filter(|url| url.starts_with(&format!("http://{topic}-")))
            .count()
    })
}

fn held(world: &World, topic: &str) -> usize {
    world
        .held
        .iter()
        .filter(|held| held.job.server.starts_with(&format!("http://{topic}-")))
        .count()
}

/// Runs with few connections.
fn run(world: &mut World, web: &mut dyn Web, wait: Duration) {
    world.run_with(web, FREE, wait);
}

#[test]
fn equal_topics_share_the_connections_also_when_one_has_a_hundred_times_the_urls() {
    let mut world = world(&[0, 0, 0], false);
    tell(&mut world, "t1", 100, 400);
    tell(&mut world, "t2", 10, 40);
    tell(&mut world, "t3", 10, 40);
    run(&mut world, &mut Fine, 3 * MINUTE);
    let of = contacts(&world, ["t1", "t2", "t3"]);
    let mean = of.iter().sum::<usize>() / 3;
    assert!(
        of.iter()
            .all(|contacts| contacts.abs_diff(mean) * 10 <= mean),
        "{of:?}"
    );
    assert_eq!(world.count("jobs_yielded_total"), 0);
}

#[test]
fn a_higher_topic_gets_the_connections_after_a_page_and_the_others_go_on_when_it_is_done() {
    let mut world = world(&[0, 9], false);
    tell(&mut world, "t1", 10, 100);
    run(&mut world, &mut Fine, MINUTE);
    assert_eq!(held(&world, "t1"), FREE as usize);
    let before = world.contacted().len();
    tell(&mut world, "t2", 10, 5);
    world.receive();
    assert_eq!(
        world.count("jobs_yielded_total"),
        u64::from(FREE),
        "no more than there are"
    );
    run(&mut world, &mut Fine, Duration::from_secs(2));
    assert_eq!((held(&world, "t1"), held(&world, "t2")), (0, FREE as usize));
    run(&mut world, &mut Fine, Duration::from_secs(60));
    let of = contacts(&world, ["t1", "t2"]);
    assert!(of[1] == 50 && of[0] > before, "{of:?}");
    world.finish(&mut Fine, 60 * MINUTE);
    assert_eq!(world.count("outcome_fetched_total"), 1050);
}

#[test]
fn the_job_of_a_server_yields_to_a_higher_topic_that_comes_to_the_same_server() {
    let mut world = world(&[1, 5], false);
    tell(&mut world, "t1", 1, 100);
    run(&mut world, &mut Fine, Duration::from_secs(5));
    world.topics = vec!["t2".to_owned()];
    world.tell(
        &["http://t1-0.test/urgent".to_owned()],
        &super::web::addresses(),
    );
    // Others are free: the server has one connection.
    run(&mut world, &mut Fine, Duration::from_secs(3));
    let contacted = world.contacted();
    let urgent = contacted
        .iter()
        .position(|url| url.ends_with("/urgent"))
        .unwrap();
    assert!(urgent <= 7 && contacted.len() > urgent, "{contacted:?}");
    world.topics = vec!["t1".to_owned()];
    world.tell(
        &["http://t1-0.test/more".to_owned()],
        &super::web::addresses(),
    );
    assert_eq!(
        world.count("jobs_yielded_total"),
        1,
        "an equal one does not make it yield"
    );
}

#[test]
fn a_topic_of_a_lower_priority_waits_while_higher_ones_have_servers() {
    let mut world = world(&[0, 9], false);
    tell(&mut world, "t1", 10, 10);
    tell(&mut world, "t2", 10, 10);
    run(&mut world, &mut Fine, Duration::from_secs(20));
    let of = contacts(&world, ["t1", "t2"]);
    assert!(of[0] == 0 && of[1] >= 60, "{of:?}");
}

#[test]
fn a_retry_of_a_higher_topic_is_tried_when_it_is_due_though_its_server_stands_for_a_lower_one() {
    /// The urgent page fails once.
    struct Once(bool);
    impl Web for Once {
        fn page(&mut self, _: Timestamp, url: &str) -> rhumb_wire::message::RequestEnd {
            let fails = url.ends_with("/urgent") && std::mem::replace(&mut self.0, false);
            super::web::response(if fails { 500 } else { 200 })
        }
    }
    let mut world = world(&[0, 9, 5], false);
    world.topics = vec!["t2".to_owned()];
    world.tell(
        &["http://t1-0.test/urgent".to_owned()],
        &super::web::addresses(),
    );
    let mut web = Once(true);
    run(&mut world, &mut web, Duration::from_secs(1));
    assert_eq!(world.count("retried_total"), 1);
    // Its server stands for the lowest topic, which gets nothing: the third one has all
    // connections.
    tell(&mut world, "t3", 10, 1000);
    run(&mut world, &mut web, Duration::from_secs(5));
    tell(&mut world, "t1", 1, 5);
    run(&mut world, &mut web, MINUTE);
    assert_eq!(
        world
            .contacted()
            .iter()
            .filter(|url| url.ends_with("/urgent"))
            .count(),
        2
    );
    assert_eq!(contacts(&world, ["t1"]), [2], "the urgent one alone");
}

#[test]
fn robots_txt_uses_up_no_slice_of_a_topic() {
    struct Slow;
    impl Web for Slow {
        fn robots(&mut self, _: Timestamp, _: &str) -> Result<RobotsResponse, FailureKind> {
            robots(404, "")
        }
    }
    let mut world = world(&[0, 0], true);
    tell(&mut world, "t1", 30, 1);
    world.ask(30);
    let is_robots = |held: &Held| held.job.requests[0].url.ends_with("/robots.txt");
    assert!(world.held.len() == 30 && world.held.iter().all(is_robots));
    let left = |world: &World, index| {
        world
            .core
            .places
            .queue
            .turns
            .account(TopicIndex(index))
            .left
    };
    assert_eq!(left(&world, 1), 0);
    let preparation = world.settings.topics.preparation(0);
    assert_ne!(left(&world, preparation.0), 0);
    run(&mut world, &mut Slow, Duration::from_secs(5));
    assert!(left(&world, 1) != 0);
    world.finish(&mut Slow, 10 * MINUTE);
}

#[test]
fn how_topics_stand_outlives_a_crash_and_a_topic_that_is_configured_no_more_goes_on_with_the_others()
 {
    let mut world = world(&[0, 9], false);
    tell(&mut world, "t1", 10, 100);
    tell(&mut world, "t2", 2, 100);
    run(&mut world, &mut Fine, MINUTE);
    let stands = |world: &World| {
        [0, 1, 2].map(|index| world.core.places.queue.turns.account(TopicIndex(index)))
    };
    let before = stands(&world);
    assert!(before[1].left != 0 && before[2].left != 0, "{before:?}");
    world.crash();
    assert_eq!(stands(&world), before);
    world.settings.topics = topics(&[]);
    world.crash();
    world.finish(&mut Fine, 60 * MINUTE);
    assert_eq!(world.count("outcome_fetched_total"), 1200);
    assert!(
        world
            .contacted()
            .iter()
            .any(|url| server_of(url) == "http://t2-1.test")
    );
}

/// A world with the topics `t1`, which has these limits, and `t2`, which has none.
fn limited(limits: TopicLimits) -> World {
    limited_at(0, limits)
}

/// The same, where `t1` has this priority.
fn limited_at(priority: u8, limits: TopicLimits) -> World {
    let slice = Duration::from_secs(1);
    let rules = [("t1", priority, limits), ("t2", 0, TopicLimits::default())].map(
        |(name, priority, limits)| TurnRules {
            name: Some(name.to_owned()),
            priority,
            slice,
            pages_min: 0,
            limits,
        },
    );
    World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.topics = Topics::new(rules, slice);
    }))
}

#[test]
fn a_topic_has_no_more_than_its_rates_and_wakes_for_the_rest_by_itself() {
    for limits in [
        TopicLimits {
            pages_per_second: 3,
            ..TopicLimits::default()
        },
        // A page has 100 bytes.
        TopicLimits {
            bytes_per_second: 300,
            ..TopicLimits::default()
        },
    ] {
        let mut world = limited(limits);
        tell(&mut world, "t1", 20, 60);
        tell(&mut world, "t2", 10, 60);
        world.run(&mut Fine, MINUTE);
        let of = contacts(&world, ["t1", "t2"]);
        assert!(
            (150..=190).contains(&of[0]) && of[1] == 600,
            "{limits:?}: {of:?}"
        );
        // Alone, and with nothing else to wake for.
        world.run(&mut Fine, MINUTE);
        let more = contacts(&world, ["t1"])[0] - of[0];
        assert!((165..=190).contains(&more), "{limits:?}: {more}");
        world.finish(&mut Fine, 10 * MINUTE);
        assert_eq!(world.count("outcome_fetched_total"), 1800);
    }
}

#[test]
fn a_topic_has_no_more_than_its_share_of_the_connections() {
    let mut world = limited(TopicLimits {
        connections_percent: 25,
        ..TopicLimits::default()
    });
    tell(&mut world, "t1", 20, 60);
    run(&mut world, &mut Fine, Duration::from_secs(10));
    assert_eq!(held(&world, "t1"), 1, "of four");
    tell(&mut world, "t2", 20, 60);
    run(&mut world, &mut Fine, Duration::from_secs(10));
    assert_eq!((held(&world, "t1"), held(&world, "t2")), (1, 3));
}

/// Goal: what limits keep from going makes no job yield, neither at its own servers nor at others.
#[test]
fn a_higher_topic_that_has_all_that_it_may_have_lets_the_others_work() {
    for limits in [
        TopicLimits {
            pages_per_second: 1,
            ..TopicLimits::default()
        },
        TopicLimits {
            connections_percent: 25,
            ..TopicLimits::default()
        },
    ] {
        let mut world = limited_at(9, limits);
        tell(&mut world, "t1", 20, 60);
        world.topics = vec!["t2".to_owned()];
        let urls =
            |server: usize| (0..60).map(move |page| format!("http://t1-{server}.test/low-{page}"));
        (0..20).for_each(|server| {
            world.tell(&urls(server).collect::<Vec<_>>(), &super::web::addresses())
        });
        tell(&mut world, "t2", 10, 60);
        run(&mut world, &mut Fine, MINUTE);
        let low = world
            .contacted()
            .iter()
            .filter(|url| url.contains("/low-") || url.contains("//t2-"))
            .count();
        let high = world.contacted().len() - low;
        let yielded = world.count("jobs_yielded_total");
        // Of four connections one at most is the higher topic's.
        assert!(
            (50..=75).contains(&high) && low > 110,
            "{limits:?}: {high} and {low}"
        );
        assert!(yielded <= 60, "{limits:?}: {yielded} jobs yield");
        world.finish(&mut Fine, 60 * MINUTE);
    }
}

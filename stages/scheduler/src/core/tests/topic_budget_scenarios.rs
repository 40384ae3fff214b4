//! Budgets of topics: used up exactly, shared by two schedulers, kept through crashes, made larger.

use super::two::Two;
use super::web::{Fine, addresses};
use super::world::World;
use crate::core::idle::Idle;
use crate::ranking::topics::{TopicLimits, Topics, TurnRules};
use crate::settings::Settings;
use crate::settings::tests::with;
use proptest::prelude::*;
use rhumb_url::partition;
use rhumb_wire::message::Outcome;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Topics `t1`, `t2`, … that have these budgets.
pub(super) fn with_budgets(pages_max: &[u64]) -> Settings {
    let slice = Duration::from_secs(1);
    let rules = (1..).zip(pages_max).map(|(number, &pages_max)| {
        let name = Some(format!("t{number}"));
        let limits = TopicLimits {
            pages_max,
            ..TopicLimits::default()
        };
        TurnRules {
            name,
            priority: 0,
            slice,
            pages_min: 0,
            limits,
        }
    });
    with(|set| {
        set.politeness.respect_robots = false;
        set.topics = Topics::new(rules, slice);
    })
}

pub(super) fn tell(world: &mut World, topic: &str, server: &str, pages: usize) {
    world.topics = vec![topic.to_owned()];
    let urls: Vec<_> = (0..pages)
        .map(|page| format!("{server}/{topic}/{page}"))
        .collect();
    world.tell(&urls, &addresses());
}

/// Pages of a topic that were fetched.
fn fetched(worlds: &[World], topic: &str) -> usize {
    let ended = worlds.iter().flat_map(|world| world.outcomes.values());
    ended
        .filter(|entry| entry.outcome == Outcome::Fetched && entry.origin.topic == topic)
        .count()
}

#[test]
fn what_is_beyond_a_topic_s_budget_waits_for_a_larger_one_and_others_go_on() {
    let mut world = World::new(with_budgets(&[10, 0]));
    for server in ["http://a.test", "http://b.test"] {
        tell(&mut world, "t1", server, 20);
    }
    tell(&mut world, "t2", "http://b.test", 30);
    world.run(&mut Fine, HOUR);
    let of = |world: &World| ["t1", "t2"].map(|topic| fetched(std::slice::from_ref(world), topic));
    assert_eq!(of(&world), [10, 30]);
    assert_eq!(
        (world.count("waiting"), world.count("waiting_over_budget")),
        (30, 30)
    );
    assert_eq!(
        (
            world.count("servers_ready"),
            world.count("servers_waiting_budget")
        ),
        (0, 2)
    );
    let why = world.core.why_idle(world.now, "http://b.test").unwrap();
    assert_eq!(why, Idle::OverBudget("pages of their topics"));
    // A URL of the other topic that comes there is fetched; a crash changes nothing.
    world.crash();
    assert_eq!(world.count("waiting_over_budget"), 30);
    tell(&mut world, "t2", "http://a.test", 1);
    world.run(&mut Fine, HOUR);
    assert_eq!(
        (of(&world), world.count("waiting_over_budget")),
        ([10, 31], 30)
    );
    world.settings.topics = with_budgets(&[25, 0]).topics;
    world.crash();
    world.run(&mut Fine, HOUR);
    assert_eq!(
        (of(&world), world.count("waiting_over_budget")),
        ([25, 31], 15)
    );
    world.settings.topics = with_budgets(&[0, 0]).topics;
    world.crash();
    world.finish(&mut Fine, HOUR);
    assert_eq!(of(&world), [40, 31]);
}

#[test]
fn a_budget_that_comes_later_counts_what_was_fetched_before() {
    let mut world = World::new(with_budgets(&[0]));
    tell(&mut world, "t1", "http://a.test", 10);
    world.run(&mut Fine, HOUR);
    world.settings.topics = with_budgets(&[12]).topics;
    world.crash();
    tell(&mut world, "t1", "http://b.test", 10);
    world.run(&mut Fine, HOUR);
    assert_eq!((fetched(&[world], "t1")), 12);
}

#[test]
fn a_topic_whose_budget_is_used_up_takes_no_place_from_the_ninth_at_a_server() {
    let mut world = World::new(with_budgets(&[1; 9]));
    for topic in 1..=9 {
        tell(&mut world, &format!("t{topic}"), "http://a.test", 3);
    }
    world.run(&mut Fine, HOUR);
    assert_eq!(
        (
            world.count("outcome_fetched_total"),
            world.count("waiting_over_budget")
        ),
        (9, 18)
    );
    let mut budgets = [1; 9];
    budgets[8] = 2;
    world.settings.topics = with_budgets(&budgets).topics;
    world.crash();
    world.run(&mut Fine, HOUR);
    assert_eq!(
        (
            world.count("outcome_fetched_total"),
            world.count("waiting_over_budget")
        ),
        (10, 17)
    );
}

/// The n-th server of a scheduler.
fn server(scheduler: u16, number: usize) -> String {
    let hosts = (0..).map(|n| format!("h{n}.test"));
    let host = hosts
        .filter(|host| partition(host, 4) % 2 == scheduler)
        .nth(number)
        .expect("there are enough");
    format!("http://{host}")
}

#[test]
fn tokens_of_a_topic_go_from_a_scheduler_that_does_not_need_them_to_one_that_does() {
    let mut two = Two::new(with_budgets(&[90]));
    two.run(&mut Fine, 2);
    tell(&mut two.worlds[1], "t1", &server(1, 0), 2);
    two.run(&mut Fine, 10);
    tell(&mut two.worlds[0], "t1", &server(0, 0), 200);
    two.run(&mut Fine, 300);
    assert_eq!(fetched(&two.worlds, "t1"), 90, "{:?}", two.ledgers);
    assert_eq!(
        (two.count("waiting"), two.count("waiting_over_budget")),
        (112, 112)
    );
}

#[test]
fn a_budget_that_comes_later_counts_what_all_schedulers_have_fetched() {
    for (first, second) in [(0, 100), (50, 100), (0, 65)] {
        let mut two = Two::new(with_budgets(&[0]));
        tell(&mut two.worlds[1], "t1", &server(1, 0), 60);
        tell(&mut two.worlds[0], "t1", &server(0, 0), 10);
        two.run(&mut Fine, 100);
        assert_eq!(fetched(&two.worlds, "t1"), 70);
        for budget in [first, second] {
            two.worlds
                .iter_mut()
                .for_each(|world| world.settings.topics = with_budgets(&[budget]).topics);
            two.worlds[0].crash();
            two.run(&mut Fine, 3);
            two.worlds[1].crash();
            two.run(&mut Fine, 3);
        }
        // Only one of them has more.
        tell(&mut two.worlds[0], "t1", &server(0, 1), 1000);
        two.run(&mut Fine, 200);
        assert_eq!(
            fetched(&two.worlds, "t1"),
            second.max(70) as usize,
            "{:?}",
            two.ledgers
        );
        assert_eq!(two.count("waiting"), two.count("waiting_over_budget"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]
    /// Goal: of each topic as many pages are fetched as its budget has, or as there are, never
    /// more; and all that is left is over a budget. Method: two schedulers with URLs of three
    /// topics in any order, which crash now and then.
    #[test]
    fn budgets_of_topics_are_used_up_exactly(
        loads in prop::collection::vec((0u16..2, 0usize..3, 1usize..4, 1usize..8, prop::option::weighted(0.2, 0usize..2)), 1..14),
        budgets in prop::array::uniform2(1u64..20),
        pages_max in prop::option::of(1u64..30),
    ) {
        let of_topics = with_budgets(&[budgets[0], budgets[1], 0]);
        let mut two = Two::new({
            let mut set = of_topics;
            set.limits.max_pages = pages_max.unwrap_or(0);
            set.politeness.delay = Duration::from_millis(100);
            set
        });
        let mut told = [0; 3];
        for (n, (scheduler, number, topic, urls, crash)) in loads.into_iter().enumerate() {
            let name = format!("t{topic}");
            tell(&mut two.worlds[usize::from(scheduler)], &name, &format!("{}/{n}", server(scheduler, number)), urls);
            told[topic - 1] += urls;
            two.run(&mut Fine, 1);
            crash.into_iter().for_each(|world| two.worlds[world].crash());
        }
        two.run(&mut Fine, 90);
        let of = ["t1", "t2", "t3"].map(|topic| fetched(&two.worlds, topic));
        let most = [told[0].min(budgets[0] as usize), told[1].min(budgets[1] as usize), told[2]];
        let all = of.iter().sum::<usize>();
        let pages_max = pages_max.map_or(usize::MAX, |pages| pages as usize);
        prop_assert!(of.iter().zip(&most).all(|(of, most)| of <= most) && all <= pages_max, "{of:?} of {most:?}");
        prop_assert_eq!(all, most.iter().sum::<usize>().min(pages_max), "{:?} of {:?}: {:?}", of, most, two.ledgers);
        prop_assert_eq!(two.count("in_flight"), 0);
        if all < pages_max {
            prop_assert_eq!(two.count("waiting"), two.count("waiting_over_budget"));
        }
    }
}

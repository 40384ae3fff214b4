//! A budget of visits that two schedulers divide; one situation a test.

use super::circle_scenarios::server;
use super::recrawl_scenarios::recrawled;
use super::topic_budget_scenarios::tell;
use super::two::Two;
use super::web::Fine;
use crate::ranking::topics::tests::topics;
use crate::settings::Settings;
use rhumb_config::{RecrawlPolicy, TopicRecrawl};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// Visits a second, of both schedulers.
const RATE: u64 = 10;

/// Two schedulers that know so many pages, each at a server of its own.
fn two(settings: Settings, pages: [usize; 2]) -> Two {
    let mut two = Two::new(settings);
    for (scheduler, pages) in pages.into_iter().enumerate() {
        let server = server(scheduler as u16, 0);
        if pages > 0 {
            two.worlds[scheduler].tell_pages(&server, pages);
        }
    }
    two
}

/// Visits that each has in the next while.
fn visits(two: &mut Two, seconds: u32) -> [usize; 2] {
    let count = |two: &Two| [0, 1].map(|of| two.worlds[of].visits.len());
    let before = count(two);
    two.run(&mut Fine, seconds);
    let after = count(two);
    [after[0] - before[0], after[1] - before[1]]
}

#[track_caller]
fn assert_near(visits: usize, expected: usize) {
    let far = visits.abs_diff(expected);
    assert!(20 * far <= expected, "{visits} of {expected}");
}

#[test]
fn a_budget_goes_where_the_pages_are() {
    let mut two = two(recrawled(RecrawlPolicy::Uniform, RATE), [40, 0]);
    two.run(&mut Fine, 30);
    assert_near(visits(&mut two, 60)[0], 600);
    assert!(two.ledgers.texts.contains_key("visits"));
}

/// Goal: pages are visited alike, whoever has them, and no more often than the budget allows.
/// Method: one has three times as many as the other; planned visits are counted all ten seconds.
#[test]
fn pages_of_two_schedulers_are_visited_alike() {
    let mut two = two(recrawled(RecrawlPolicy::Uniform, RATE), [60, 20]);
    two.run(&mut Fine, 5);
    for _ in 0..6 {
        let before = two.count("visits_planned_total");
        two.run(&mut Fine, 10);
        let planned = two.count("visits_planned_total") - before;
        assert!(planned <= 10 * RATE + 5, "{planned}");
    }
    let [many, few] = visits(&mut two, 60);
    assert_near(many + few, 600);
    let ratio = many as f64 / few as f64;
    assert!((2.7..3.3).contains(&ratio), "{many} {few}");
}

#[test]
fn a_topic_of_one_host_has_all_of_its_budget() {
    let own = TopicRecrawl {
        requests_per_second: Some(RATE),
        ..TopicRecrawl::default()
    };
    let settings = Settings {
        topics: topics(&[(0, 1000)]),
        topic_recrawls: [("t1".to_owned(), own)].into(),
        ..recrawled(RecrawlPolicy::Uniform, 2)
    };
    let mut two = two(settings, [20, 20]);
    tell(&mut two.worlds[0], "t1", &server(0, 1), 40);
    two.run(&mut Fine, 60);
    let of_topic = |two: &Two| {
        let visits = two.worlds[0].visits.iter();
        visits.filter(|visit| visit.origin.topic == "t1").count()
    };
    let before = of_topic(&two);
    let all: usize = visits(&mut two, 60).into_iter().sum();
    let of_topic = of_topic(&two) - before;
    assert_near(of_topic, 600);
    assert_near(all - of_topic, 120);
}

/// Goal: the share of a scheduler that is gone is not lost, and one that stands still does not go on
/// with a share that others have by then. Method: one stands still for three minutes.
#[test]
fn a_scheduler_that_is_gone_leaves_its_share_to_the_others() {
    let mut two = two(recrawled(RecrawlPolicy::Uniform, RATE), [40, 40]);
    two.run(&mut Fine, 30);
    let mut alone = |seconds: u32| {
        let before = two.worlds[0].visits.len();
        for _ in 0..seconds {
            two.worlds[0].run(&mut Fine, SECOND);
            two.exchange();
        }
        two.worlds[0].visits.len() - before
    };
    alone(120);
    assert_near(alone(60), 600);
    two.worlds[1].now = two.worlds[0].now;
    let [one, other] = visits(&mut two, 10);
    assert!(one + other <= 110, "{one} {other}");
    two.run(&mut Fine, 120);
    let [one, other] = visits(&mut two, 60);
    assert_near(one + other, 600);
    let ratio = one as f64 / other as f64;
    assert!((0.9..1.1).contains(&ratio), "{one} {other}");
}

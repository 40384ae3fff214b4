//! Known pages of topics that are visited again by rules of their own; one situation a test.

use super::recrawl_scenarios::recrawled;
use super::topic_budget_scenarios::tell;
use super::web::{Fine, pages, response};
use super::world::World;
use crate::ranking::topics::tests::topics;
use crate::settings::Settings;
use rhumb_config::{RecrawlPolicy, TopicRecrawl};
use rhumb_stage::{Core as _, NextVisit};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{RequestEnd, ResponseSummary};
use std::collections::BTreeMap;
use std::time::Duration;

const A: &str = "http://a.test";
const B: &str = "http://b.test";
const HOUR: Duration = Duration::from_secs(3600);
const TEN_MINUTES: Duration = Duration::from_secs(600);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const OTHERS: &str = "default";

/// Topics `t1` and `t2` that say this, beside a crawl of this policy and so many visits a second.
fn with_own(policy: RecrawlPolicy, requests_per_second: u64, own: [TopicRecrawl; 2]) -> Settings {
    let names = ["t1", "t2"].map(str::to_owned);
    Settings {
        topics: topics(&[(0, 1000), (0, 1000)]),
        topic_recrawls: names.into_iter().zip(own).collect(),
        ..recrawled(policy, requests_per_second)
    }
}

/// So many visits a second of its own.
fn budget(requests_per_second: u64) -> TopicRecrawl {
    TopicRecrawl {
        requests_per_second: Some(requests_per_second),
        ..TopicRecrawl::default()
    }
}

fn policy(policy: RecrawlPolicy) -> TopicRecrawl {
    TopicRecrawl {
        policy: Some(policy),
        ..TopicRecrawl::default()
    }
}

/// What a topic has that says nothing.
const NOTHING: TopicRecrawl = TopicRecrawl {
    policy: None,
    requests_per_second: None,
    interval_min: None,
    interval_max: None,
    cache_lifetime_max: None,
    forget_after: None,
    visits_max: None,
};

/// Pages of the two topics and of the others, so many each: at a server of their own, and as many
/// at one that all share.
fn tell_all(world: &mut World, pages: [usize; 3]) {
    for (topic, pages) in ["t1", "t2", OTHERS].into_iter().zip(pages) {
        tell(world, topic, A, pages);
        tell(world, topic, &format!("http://{topic}.test"), pages);
    }
}

/// Visits after a page's first, of the two topics and of the others.
fn visits(world: &World) -> [usize; 3] {
    ["t1", "t2", OTHERS].map(|topic| {
        let visits = world.visits.iter();
        visits.filter(|visit| visit.origin.topic == topic).count()
    })
}

/// Those of the next while.
fn visits_in(world: &mut World, span: Duration) -> [usize; 3] {
    let before = visits(world);
    world.run(&mut Fine, span);
    let mut after = visits(world);
    after
        .iter_mut()
        .zip(before)
        .for_each(|(n, before)| *n -= before);
    after
}

/// Checks numbers of visits, each to a twentieth.
fn assert_near(visits: [usize; 3], expected: [u64; 3]) {
    let is_near = |(n, expected): (&usize, u64)| {
        let n = *n as f64;
        (n - expected as f64).abs() <= 0.05 * expected as f64
    };
    assert!(
        visits.iter().zip(expected).all(is_near),
        "{visits:?}, expected {expected:?}"
    );
}

#[test]
fn each_budget_is_kept_and_none_takes_from_another() {
    let own = [budget(2), budget(6)];
    let mut world = World::new(with_own(RecrawlPolicy::Uniform, 4, own));
    tell_all(&mut world, [20, 20, 20]);
    world.run(&mut Fine, MINUTE);
    for _ in 0..5 {
        assert_near(visits_in(&mut world, MINUTE), [120, 360, 240]);
    }
}

/// Goal: what a topic leaves of its budget is no other's. Method: one has few pages, and more
/// budget than its shortest interval lets it use.
#[test]
fn what_a_topic_cannot_use_of_its_budget_goes_to_nobody() {
    let own = [budget(50), budget(3)];
    let mut world = World::new(with_own(RecrawlPolicy::Fresh, 1, own));
    tell_all(&mut world, [1, 30, 30]);
    world.run(&mut Fine, MINUTE);
    let visits = visits_in(&mut world, TEN_MINUTES);
    assert!(visits[0] <= 2 * 600, "{visits:?}");
    assert_near([1, visits[1], visits[2]], [1, 3 * 600, 600]);
}

/// Goal: a server that is always full serves all budgets. Method: its delay allows one request a
/// second, and each of two topics wants fifty.
#[test]
fn topics_share_a_server_that_is_full() {
    let own = [budget(50), budget(50)];
    let mut settings = with_own(RecrawlPolicy::Uniform, 0, own);
    settings.politeness.delay = SECOND;
    let mut world = World::new(settings);
    tell(&mut world, "t1", A, 60);
    tell(&mut world, "t2", A, 60);
    world.run(&mut Fine, TEN_MINUTES);
    let [one, other, _] = visits_in(&mut world, HOUR);
    assert!(one + other > 3_000, "{one} {other}");
    let share = one as f64 / (one + other) as f64;
    assert!((0.4..0.6).contains(&share), "{one} {other}");
}

#[test]
fn budgets_are_kept_through_crashes() {
    let own = [budget(2), budget(6)];
    let mut world = World::new(with_own(RecrawlPolicy::Uniform, 4, own));
    tell_all(&mut world, [10, 10, 10]);
    world.run(&mut Fine, MINUTE);
    let mut sum = [0; 3];
    for _ in 0..12 {
        let visits = visits_in(&mut world, Duration::from_secs(20));
        sum.iter_mut().zip(visits).for_each(|(sum, n)| *sum += n);
        world.held.clear();
        world.crash();
    }
    assert_near(sum, [480, 1_440, 960]);
    let mut pages: Vec<&str> = world
        .visits
        .iter()
        .map(|visit| visit.url.as_str())
        .collect();
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(pages.len(), 60);
}

#[test]
fn a_topic_without_a_policy_has_no_visits() {
    let own = [policy(RecrawlPolicy::None), NOTHING];
    let mut world = World::new(with_own(RecrawlPolicy::Uniform, 4, own));
    tell_all(&mut world, [10, 10, 10]);
    world.run(&mut Fine, MINUTE);
    assert_eq!(world.count("pages_known_total"), 40);
    let is_final = |topic: &str| {
        let entries = world.outcomes.values();
        let of_topic = entries.filter(|entry| entry.origin.topic == topic);
        of_topic.map(|entry| entry.is_final).collect::<Vec<_>>()
    };
    assert!(is_final("t1").iter().all(|is_final| *is_final));
    assert!(is_final("t2").iter().all(|is_final| !is_final));
    let visits = visits_in(&mut world, MINUTE);
    assert_eq!(visits[0], 0);
    assert_near([0, visits[1] + visits[2], 0], [0, 240, 0]);
}

#[test]
fn a_topic_may_have_a_policy_where_the_crawl_has_none() {
    for own in [policy(RecrawlPolicy::Fresh), budget(3)] {
        let own = TopicRecrawl {
            policy: Some(RecrawlPolicy::Fresh),
            ..own
        };
        let mut world = World::new(with_own(RecrawlPolicy::None, 3, [own, NOTHING]));
        tell_all(&mut world, [10, 10, 10]);
        world.run(&mut Fine, MINUTE);
        assert_eq!(
            (world.count("pages_known_total"), world.count("visits_on")),
            (20, 1)
        );
        assert_eq!(world.count("visits_budget_per_hour"), 3 * 3600);
        assert_near(visits_in(&mut world, MINUTE), [180, 0, 0]);
    }
}

/// Goal: known pages of a topic that loses its policy rest, so that a crawl that ends after so many
/// visits does not wait for them, and go on when it has one again. Method: it is changed live.
#[test]
fn pages_of_a_topic_that_loses_its_policy_rest_until_it_has_one() {
    let resting =
        |world: &World| world.count("pages_rested_total") - world.count("pages_woken_total");
    let on = with_own(RecrawlPolicy::Uniform, 6, [NOTHING, NOTHING]);
    let off = with_own(
        RecrawlPolicy::Uniform,
        6,
        [policy(RecrawlPolicy::None), NOTHING],
    );
    let mut world = World::new(on.clone());
    tell_all(&mut world, [10, 10, 10]);
    world.run(&mut Fine, MINUTE);
    world.run(&mut Fine, MINUTE);
    world.settings = off;
    world.crash();
    assert!(!world.core.is_idle(), "they have to find their places");
    world.run(&mut Fine, SECOND * 5);
    assert_eq!(resting(&world), 20);
    assert_eq!(next(&world, "t1"), Some(NextVisit::PolicyNone));
    assert_near(visits_in(&mut world, MINUTE), [0, 180, 180]);
    world.settings = on;
    world.crash();
    world.run(&mut Fine, SECOND);
    assert_eq!(resting(&world), 0);
    assert_near(visits_in(&mut world, MINUTE), [120, 120, 120]);
}

/// What the next visit of the first page of a topic waits for.
fn next(world: &World, topic: &str) -> Option<NextVisit> {
    let url = format!("{A}/{topic}/0");
    let known = world.core.known(world.now, &url).unwrap();
    known.map(|known| known.next)
}

#[test]
fn a_budget_is_given_and_taken_away_while_the_crawl_runs() {
    let of = |own| with_own(RecrawlPolicy::Uniform, 3, own);
    let mut world = World::new(of([NOTHING, NOTHING]));
    tell_all(&mut world, [10, 10, 10]);
    world.run(&mut Fine, MINUTE);
    world.run(&mut Fine, MINUTE);
    assert_near(visits_in(&mut world, MINUTE), [60, 60, 60]);
    world.settings = of([budget(8), budget(0)]);
    world.crash();
    world.run(&mut Fine, SECOND * 10);
    assert_near(visits_in(&mut world, MINUTE), [480, 0, 180]);
    assert_eq!(next(&world, "t2"), Some(NextVisit::BudgetNone));
    world.settings = of([NOTHING, NOTHING]);
    world.crash();
    // Those of the topic that had most visits have waited for the shortest time.
    world.run(&mut Fine, MINUTE);
    assert_near(visits_in(&mut world, MINUTE), [60, 60, 60]);
}

/// Goal: pages that became known before their topic was configured, or to a program that knew no
/// budgets of topics, become their topic's. Method: the topics are not configured at first.
#[test]
fn pages_that_lie_among_the_crawls_find_the_lots_of_their_topic() {
    let mut world = World::new(recrawled(RecrawlPolicy::Uniform, 5));
    tell(&mut world, "t1", A, 300);
    tell(&mut world, "t2", B, 300);
    world.run(&mut Fine, MINUTE);
    world.run(&mut Fine, MINUTE);
    world.settings = with_own(RecrawlPolicy::Uniform, 0, [budget(8), budget(2)]);
    world.crash();
    assert!(!world.core.is_idle());
    world.run(&mut Fine, SECOND * 5);
    assert_near(visits_in(&mut world, MINUTE), [480, 120, 0]);
    world.crash();
    assert!(world.core.is_idle(), "all have their places");
    assert_near(visits_in(&mut world, MINUTE), [480, 120, 0]);
    // One that is configured no more goes by the crawl's rules.
    world.settings = recrawled(RecrawlPolicy::Uniform, 4);
    world.crash();
    let [one, other, _] = visits_in(&mut world, MINUTE * 5);
    assert_near([one + other, 0, 0], [1_200, 0, 0]);
    assert!(one > 400 && other > 400, "{one} {other}");
}

/// Goal: the same, where they lie behind pages that are never visited again. Method: the crawl's
/// pages are at the same server, were visited first, and have no budget any more.
#[test]
fn pages_find_the_lots_of_their_topic_behind_pages_that_have_no_visits() {
    let mut world = World::new(recrawled(RecrawlPolicy::Uniform, 0));
    tell(&mut world, OTHERS, A, 100);
    world.run(&mut Fine, MINUTE);
    tell(&mut world, "t1", A, 100);
    world.run(&mut Fine, MINUTE);
    world.settings = with_own(RecrawlPolicy::Uniform, 0, [budget(8), NOTHING]);
    world.crash();
    world.run(&mut Fine, SECOND * 5);
    assert_near(visits_in(&mut world, MINUTE), [480, 0, 0]);
}

#[test]
fn intervals_are_those_of_the_topic() {
    let own = [
        TopicRecrawl {
            interval_max: Some(Duration::from_secs(30)),
            ..NOTHING
        },
        TopicRecrawl {
            interval_min: Some(Duration::from_secs(40)),
            ..NOTHING
        },
    ];
    let mut world = World::new(with_own(RecrawlPolicy::Fresh, 4, own));
    tell_all(&mut world, [10, 3, 10]);
    // The others change all the time, those of the topics never.
    let mut web = pages(|now, url| match url.contains(OTHERS) {
        true => body(now.as_micros()),
        false => body(1),
    });
    world.run(&mut web, TEN_MINUTES);
    let mut last: BTreeMap<&str, Timestamp> = BTreeMap::new();
    let mut spans: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for (at, url) in world
        .contacts
        .iter()
        .filter(|(_, url)| !url.ends_with(".txt"))
    {
        if let Some(before) = last.insert(url, *at) {
            let topic = ["/t1/", "/t2/", "/default/"];
            let topic = topic.into_iter().find(|topic| url.contains(topic));
            let spans = spans.entry(topic.expect("a topic")).or_default();
            spans.push(at.since(before));
        }
    }
    let longest = |topic: &str| spans[topic].iter().max().copied().unwrap_or_default();
    let shortest = |topic: &str| spans[topic].iter().min().copied().unwrap_or_default();
    assert!(
        longest("/t1/") < Duration::from_secs(33),
        "{:?}",
        longest("/t1/")
    );
    assert!(
        shortest("/t2/") >= Duration::from_secs(40),
        "{:?}",
        shortest("/t2/")
    );
    assert!(shortest("/default/") < Duration::from_secs(40));
    let of_topic = spans["/t1/"].len();
    assert!((20 * 17..=20 * 24).contains(&of_topic), "{of_topic}");
}

/// A page that has this body, whose fingerprint is no 0.
fn body(number: u64) -> RequestEnd {
    let RequestEnd::Response(summary) = response(200) else {
        unreachable!("it is one");
    };
    RequestEnd::Response(ResponseSummary {
        body: number + 1,
        ..summary
    })
}

/// Goal: policies that share a budget do not starve each other, whatever their visits are worth.
/// Method: what a visit is worth by `uniform` is always more than by `fresh`.
#[test]
fn policies_that_share_a_budget_take_turns() {
    let own = [policy(RecrawlPolicy::Uniform), NOTHING];
    let mut world = World::new(with_own(RecrawlPolicy::Fresh, 10, own));
    tell_all(&mut world, [20, 20, 20]);
    world.run(&mut Fine, MINUTE);
    let [one, two, others] = visits_in(&mut world, TEN_MINUTES);
    assert_near([one, two + others, 0], [3_000, 3_000, 0]);
    assert!(two > 1_000 && others > 1_000, "{two} {others}");
}

/// Goal: how often pages change is learned where a topic's interval asks for other rates than the
/// crawl's. Method: pages that change every ten seconds, in a crawl whose interval is an hour.
#[test]
fn a_topic_of_short_intervals_learns_by_fast_rates() {
    let own = TopicRecrawl {
        interval_min: Some(SECOND),
        requests_per_second: Some(10),
        ..NOTHING
    };
    let mut settings = with_own(RecrawlPolicy::Fresh, 1, [own, NOTHING]);
    settings.recrawl.interval_min = HOUR;
    let mut world = World::new(settings);
    tell(&mut world, "t1", A, 40);
    let changes = |url: &str| url.ends_with('3') || url.ends_with('7');
    let mut web = pages(|now, url| match changes(url) {
        true => body(now.as_micros() / 10_000_000),
        false => body(1),
    });
    world.run(&mut web, TEN_MINUTES);
    let often = world.visits.iter().filter(|visit| changes(&visit.url));
    // Eight of forty.
    let often = often.count() as f64 / 8.0;
    let visits = world.visits.len();
    let seldom = (visits as f64 - 8.0 * often) / 32.0;
    assert!(often > 3.0 * seldom, "{often} {seldom}");
    assert!((5_500..=6_000).contains(&visits), "{visits}");
}

#[test]
fn a_page_has_the_visits_and_the_numbers_of_its_topic() {
    let own = [
        TopicRecrawl {
            visits_max: Some(3),
            ..budget(5)
        },
        budget(1),
    ];
    let mut world = World::new(with_own(RecrawlPolicy::Uniform, 2, own));
    tell_all(&mut world, [10, 10, 10]);
    world.run(&mut Fine, MINUTE);
    world.run(&mut Fine, TEN_MINUTES);
    assert_eq!(visits(&world)[0], 20 * 2);
    assert_eq!(next(&world, "t1"), Some(NextVisit::VisitsMax));
    assert_eq!(
        world.count("visits_max"),
        0,
        "the others have them without end"
    );
    assert_eq!(world.count("visits_budget_per_hour"), 8 * 3600);
    let counts = world.core.labelled_counts();
    let of = |count: &str| {
        ["t1", "t2", OTHERS].map(|topic| {
            let found = counts
                .iter()
                .find(|of| of.count == count && of.label_value == topic);
            found.expect("a number").value
        })
    };
    assert_eq!(
        of("topic_visits_budget_per_hour"),
        [5 * 3600, 3600, 2 * 3600]
    );
    let thresholds = of("topic_visits_threshold_seconds");
    assert_eq!(world.count("visits_threshold_seconds"), thresholds[2]);
    // In turn, each page waits for as long as all take.
    assert!(
        (16..=21).contains(&thresholds[1]) && (9..=11).contains(&thresholds[2]),
        "{thresholds:?}"
    );
    let known = world.core.known(world.now, &format!("{A}/t2/0")).unwrap();
    let threshold_s = known.and_then(|known| known.threshold_s);
    assert_eq!(threshold_s.map(f64::round), Some(thresholds[1] as f64));
}

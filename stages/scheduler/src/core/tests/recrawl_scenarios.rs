//! Known pages that are visited again; one situation a test.

use super::pause_scenarios::order;
use super::topic_budget_scenarios::{tell, with_budgets};
use super::web::{Fine, addresses, pages, response, robots, robots_txt};
use super::world::World;
use crate::core::dispatcher::Input;
use crate::settings::Settings;
use crate::settings::tests::with;
use rhumb_config::orders::Target;
use rhumb_config::{OverBudget, RecrawlPolicy};
use rhumb_stage::{Core as _, KnownTold, NextVisit};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{
    Change, FailureKind, Outcome, OutcomeEntry, PageState, RequestEnd, Resolution, ResponseSummary,
};
use std::collections::BTreeMap;
use std::time::Duration;

const A: &str = "http://a.test";
const HOUR: Duration = Duration::from_secs(3600);
const TEN_MINUTES: Duration = Duration::from_secs(600);
const SECOND: Duration = Duration::from_secs(1);

/// A policy with so many visits a second, and no delay.
pub(super) fn recrawled(policy: RecrawlPolicy, requests_per_second: u64) -> Settings {
    with(|settings| {
        settings.recrawl.policy = policy;
        settings.recrawl.requests_per_second = requests_per_second;
        settings.recrawl.interval_min = SECOND;
        settings.politeness.delay = Duration::ZERO;
        settings.politeness.download_factor = 0;
    })
}

/// A page that has this body, whose fingerprint is no 0.
pub(super) fn body(number: u64) -> RequestEnd {
    RequestEnd::Response(ResponseSummary {
        body: number + 1,
        ..summary(200)
    })
}

fn summary(status: u16) -> ResponseSummary {
    let RequestEnd::Response(summary) = response(status) else {
        unreachable!("it is one");
    };
    summary
}

fn visits_by_url(world: &World) -> BTreeMap<&str, usize> {
    let mut visits = BTreeMap::new();
    for visit in &world.visits {
        *visits.entry(visit.url.as_str()).or_default() += 1;
    }
    visits
}

fn changes(world: &World) -> Vec<Change> {
    world.visits.iter().map(|visit| visit.change).collect()
}

#[test]
fn without_a_policy_no_page_is_known() {
    let mut world = World::polite();
    world.tell_pages(A, 3);
    world.finish(&mut Fine, HOUR);
    world.run(&mut Fine, HOUR);
    assert_eq!(
        (world.count("pages_known_total"), world.visits.len()),
        (0, 0)
    );
    let first = &world.outcomes[&format!("{A}/0")];
    assert_eq!(
        (first.visit, first.change, first.before),
        (1, Change::New, PageState::None)
    );
}

#[test]
fn pages_are_visited_again_one_after_the_other_as_often_as_the_budget_allows() {
    let mut world = World::new(recrawled(RecrawlPolicy::Uniform, 2));
    world.tell_pages(A, 10);
    world.run(&mut pages(|_, _| body(7)), Duration::from_secs(100));
    let visits = world.visits.len();
    assert!((190..=200).contains(&visits), "{visits}");
    let by_url = visits_by_url(&world);
    assert!(
        by_url.values().all(|visits| (18..=21).contains(visits)),
        "{by_url:?}"
    );
    assert!(
        changes(&world)
            .iter()
            .all(|change| *change == Change::Unchanged)
    );
    assert_eq!(world.count("pages_known_total"), 10);
    assert_eq!(world.outcomes.len(), 10, "P3 is about first visits");
    assert_eq!(world.count("bytes_total"), 1000);
}

#[test]
fn visits_go_on_after_a_crash_and_none_is_left_out() {
    let mut world = World::new(recrawled(RecrawlPolicy::Uniform, 3));
    world.tell_pages(A, 7);
    for _ in 0..12 {
        world.run(&mut Fine, Duration::from_millis(3_300));
        world.held.clear();
        world.crash();
    }
    world.run(&mut Fine, Duration::from_secs(60));
    let by_url = visits_by_url(&world);
    assert!(
        by_url.len() == 7 && by_url.values().all(|visits| *visits > 10),
        "{by_url:?}"
    );
}

#[test]
fn a_page_is_not_visited_again_before_its_shortest_interval_is_over() {
    let mut settings = recrawled(RecrawlPolicy::Fresh, 100);
    settings.recrawl.interval_min = Duration::from_secs(20);
    let mut world = World::new(settings);
    world.tell_pages(A, 5);
    world.run(
        &mut pages(|now, _| body(now.as_micros())),
        Duration::from_secs(110),
    );
    let by_url = visits_by_url(&world);
    assert!(
        by_url.values().all(|visits| (4..=5).contains(visits)),
        "{by_url:?}"
    );
}

#[test]
fn a_page_that_was_not_visited_for_long_goes_before_others() {
    let mut settings = recrawled(RecrawlPolicy::Fresh, 4);
    settings.recrawl.interval_max = Duration::from_secs(30);
    let mut world = World::new(settings);
    world.tell_pages(A, 20);
    // Half of them change all the time, and the others never.
    let mut web = pages(|now, url| match url.len() % 2 {
        0 => body(now.as_micros()),
        _ => body(1),
    });
    world.run(&mut web, Duration::from_secs(300));
    let mut last: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for (at, url) in world.contacts.iter().skip(1) {
        if let Some(before) = last.insert(url, *at) {
            assert!(at.since(before) < Duration::from_secs(33), "{url}");
        }
    }
    assert_eq!(last.len(), 20);
}

#[test]
fn what_changes_now_and_then_is_visited_more_often_than_what_never_does() {
    let mut world = World::new(recrawled(RecrawlPolicy::Fresh, 10));
    world.tell_pages(A, 40);
    // Every fourth page changes every ten seconds.
    let changes = |url: &str| url.ends_with('3') || url.ends_with('7');
    let mut web = pages(|now, url| match changes(url) {
        true => body(now.as_micros() / 10_000_000),
        false => body(1),
    });
    world.run(&mut web, Duration::from_secs(600));
    let by_url = visits_by_url(&world);
    let mean = |of: &dyn Fn(&str) -> bool| {
        let visits: Vec<usize> = by_url
            .iter()
            .filter(|(url, _)| of(url))
            .map(|(_, visits)| *visits)
            .collect();
        visits.iter().sum::<usize>() as f64 / visits.len() as f64
    };
    let often = mean(&changes);
    let seldom = mean(&|url| !changes(url));
    assert!(often > 3.0 * seldom, "{often} {seldom}");
    let visits: usize = by_url.values().sum();
    assert!((5_500..=6_000).contains(&visits), "{visits}");
}

#[test]
fn each_visit_says_what_it_found() {
    let mut world = World::new(recrawled(RecrawlPolicy::Uniform, 1));
    world.tell_pages(A, 1);
    let mut answers = vec![
        response(404),
        RequestEnd::Response(summary(304)),
        body(2),
        response(410),
        response(404),
        body(2),
        body(2),
        body(1),
    ];
    let mut web = pages(|_, _| answers.pop().unwrap_or_else(|| body(3)));
    world.run(&mut web, Duration::from_secs(12));
    assert_eq!(
        changes(&world)[..7],
        [
            Change::Changed,
            Change::Unchanged,
            Change::None,
            Change::Gone,
            Change::Back,
            Change::Unchanged,
            Change::None
        ]
    );
    assert_eq!(world.visits[4].before, PageState::Gone);
    assert_eq!(world.visits[1].outcome, Outcome::Fetched);
}

#[test]
fn a_server_that_does_not_answer_costs_one_visit_at_a_time() {
    let mut world = World::new(recrawled(RecrawlPolicy::Uniform, 20));
    world.tell_pages(A, 30);
    world.finish(&mut Fine, HOUR);
    let mut silent = pages(|_, _| RequestEnd::Failure(FailureKind::Connect));
    let begun = world.contacts.len();
    world.run(&mut silent, HOUR);
    let contacts = world.contacts.len() - begun;
    assert!(contacts < 150, "{contacts}");
    assert!(world.count("visits_withdrawn_total") > 0);
    world.run(&mut Fine, TEN_MINUTES);
    let by_url = visits_by_url(&world);
    assert!(
        by_url.len() == 30 && by_url.values().all(|visits| *visits > 100),
        "{by_url:?}"
    );
}

#[test]
fn what_robots_txt_forbids_by_now_is_not_asked_for() {
    let mut settings = recrawled(RecrawlPolicy::Uniform, 5);
    settings.politeness.robots_lifetime = Duration::from_secs(60);
    let mut world = World::new(settings);
    world.tell_pages(A, 10);
    world.finish(&mut Fine, HOUR);
    let mut forbids = robots_txt(|_, _| robots(200, "User-agent: *\nDisallow: /3\n"));
    // Its robots.txt holds for a minute.
    world.run(&mut forbids, Duration::from_secs(61));
    let begun = world.contacts.len();
    world.run(&mut forbids, Duration::from_secs(120));
    let asked = &world.contacts[begun..];
    assert!(asked.len() > 400 && asked.iter().all(|(_, url)| !url.ends_with("/3")));
    assert!(world.count("visits_withdrawn_total") > 0);
}

#[test]
fn visits_count_for_no_budget_of_pages() {
    let mut settings = recrawled(RecrawlPolicy::Uniform, 2);
    settings.limits.pages_per_host = 5;
    let mut world = World::new(settings);
    world.tell_pages(A, 8);
    world.run(&mut Fine, Duration::from_secs(60));
    assert_eq!(world.count("outcome_fetched_total"), 5);
    let by_url = visits_by_url(&world);
    assert!(
        by_url.len() == 5 && by_url.values().all(|visits| *visits > 15),
        "{by_url:?}"
    );
}

#[test]
fn a_page_whose_first_visit_was_no_request_is_visited_by_number_two() {
    let mut world = World::new(recrawled(RecrawlPolicy::Uniform, 1));
    world.tell(&[format!("{A}/1")], &Resolution::NoAddress);
    world.run(&mut Fine, Duration::from_secs(30));
    assert_eq!(world.outcome(&format!("{A}/1")).0, Outcome::Unresolvable);
    world.run(&mut Fine, HOUR);
    let found = world.visits.iter().map(|visit| (visit.visit, visit.change));
    assert_eq!(found.take(1).collect::<Vec<_>>(), [(2, Change::New)]);
}

#[test]
fn a_page_that_is_injected_again_stays_one_page() {
    let mut world = World::new(recrawled(RecrawlPolicy::Uniform, 1));
    let url = format!("{A}/1");
    world.tell(std::slice::from_ref(&url), &addresses());
    world.run(&mut pages(|_, _| body(1)), Duration::from_secs(10));
    world.forget(&url);
    let mut ready = world.batch(std::slice::from_ref(&url), Some(&addresses()));
    ready.origins.iter_mut().for_each(|origin| origin.again = 9);
    world.step(Some(Input::Ready(ready)));
    world.run(&mut pages(|_, _| body(2)), Duration::from_secs(20));
    let entry = &world.outcomes[&url];
    assert_eq!((entry.visit, entry.change), (1, Change::Changed));
    assert_eq!(world.count("pages_known_total"), 1);
}

/// Goal: a visit that cannot go now does not keep its server busy, while what is new there has no
/// budget. Method: it fails, and waits to be tried again; then its server is set aside.
#[test]
fn a_visit_that_waits_to_be_tried_again_does_not_hold_up_a_host_without_budget() {
    for answer in [response(500), RequestEnd::Failure(FailureKind::Reset)] {
        let mut settings = recrawled(RecrawlPolicy::Uniform, 2);
        settings.limits.pages_per_host = 5;
        settings.limits.over_budget = OverBudget::Wait;
        let mut world = World::new(settings);
        world.tell_pages(A, 8);
        world.run(&mut Fine, Duration::from_secs(3));
        let mut troubled = pages(|_, url| match url.ends_with("/2") {
            true => answer.clone(),
            false => response(200),
        });
        world.run(&mut troubled, HOUR);
        assert_eq!(world.count("outcome_fetched_total"), 5);
        let by_url = visits_by_url(&world);
        assert!(
            by_url.len() == 5 && by_url.values().all(|visits| *visits > 5),
            "{by_url:?}"
        );
    }
}

/// Goal: what waits to be tried again, and has no budget any more, does not stand before visits.
#[test]
fn visits_go_on_behind_retries_that_have_no_budget() {
    let mut settings = recrawled(RecrawlPolicy::Uniform, 2);
    settings.limits.pages_per_host = 3;
    settings.limits.over_budget = OverBudget::Wait;
    let mut world = World::new(settings);
    world.tell_pages(A, 40);
    let mut answers = 0;
    let mut troubled = pages(|_, _| {
        answers += 1;
        response(if answers <= 20 { 500 } else { 200 })
    });
    world.run(&mut troubled, HOUR);
    assert_eq!(world.count("outcome_fetched_total"), 3);
    let by_url = visits_by_url(&world);
    assert!(
        by_url.len() == 3 && by_url.values().all(|visits| *visits > 100),
        "{by_url:?}"
    );
}

/// A policy under which each page has so many visits.
fn visited_so_often(visits: u32) -> Settings {
    let mut settings = recrawled(RecrawlPolicy::Uniform, 5);
    settings.recrawl.visits_max = visits;
    settings
}

fn resting(world: &World) -> u64 {
    world.count("pages_rested_total") - world.count("pages_woken_total")
}

#[test]
fn pages_that_have_had_all_their_visits_rest_until_they_may_have_more() {
    let mut world = World::new(visited_so_often(3));
    world.tell_pages(A, 20);
    world.run(&mut Fine, TEN_MINUTES);
    let visits = |world: &World| world.visits.len();
    assert_eq!((visits(&world), resting(&world)), (2 * 20, 20));
    world.settings = visited_so_often(2);
    world.crash();
    world.run(&mut Fine, TEN_MINUTES);
    assert_eq!((visits(&world), resting(&world)), (2 * 20, 20));
    world.settings = visited_so_often(5);
    world.crash();
    assert!(!world.core.is_idle(), "pages may have more visits");
    world.run(&mut Fine, SECOND);
    assert_eq!(resting(&world), 0);
    world.run(&mut Fine, TEN_MINUTES);
    assert_eq!((visits(&world), resting(&world)), (4 * 20, 20));
    world.settings = visited_so_often(0);
    world.crash();
    world.run(&mut Fine, TEN_MINUTES);
    assert_eq!(resting(&world), 0);
    let by_url = visits_by_url(&world);
    assert!(by_url.values().all(|visits| *visits > 100), "{by_url:?}");
}

#[test]
fn pages_that_cannot_be_visited_rest_after_a_while() {
    let mut world = World::new(visited_so_often(100));
    world.tell_pages(A, 20);
    world.run(&mut Fine, SECOND);
    let mut silent = pages(|_, _| RequestEnd::Failure(FailureKind::Connect));
    world.run(&mut silent, HOUR);
    assert_eq!(
        (world.count("pages_known_total"), resting(&world)),
        (20, 20)
    );
    let mut settings = visited_so_often(100);
    settings.politeness.robots_lifetime = Duration::from_secs(60);
    let mut world = World::new(settings);
    world.tell_pages(A, 4);
    world.finish(&mut Fine, HOUR);
    let mut forbids = robots_txt(|_, _| robots(200, "User-agent: *\nDisallow: /3\n"));
    world.run(&mut forbids, TEN_MINUTES);
    assert_eq!((world.count("pages_known_total"), resting(&world)), (4, 4));
    assert_eq!(visits_by_url(&world)[&*format!("{A}/1")], 99);
}

#[test]
fn a_page_that_was_gone_for_long_is_forgotten_with_its_last_visit() {
    let mut settings = recrawled(RecrawlPolicy::Uniform, 1);
    settings.recrawl.forget_after = Duration::from_secs(20);
    let mut world = World::new(settings);
    world.tell_pages(A, 2);
    let mut web =
        pages(
            |now, url| match url.ends_with('1') && now > Timestamp::from_micros(10_000_000) {
                true => response(404),
                false => body(1),
            },
        );
    world.run(&mut web, TEN_MINUTES);
    assert_eq!(world.count("pages_known_total"), 2);
    assert_eq!(world.count("pages_forgotten_total"), 1);
    let of_gone: Vec<&OutcomeEntry> = world
        .visits
        .iter()
        .filter(|visit| visit.url.ends_with('1'))
        .collect();
    let (last, before) = of_gone.split_last().unwrap();
    assert!(last.is_final && before.iter().all(|visit| !visit.is_final));
    assert!((16..=24).contains(&before.len()), "{}", before.len());
}

#[test]
fn a_page_that_says_it_is_fresh_is_left_alone_for_a_while() {
    let mut settings = recrawled(RecrawlPolicy::Uniform, 10);
    settings.recrawl.cache_lifetime_max = Duration::from_secs(20);
    let mut world = World::new(settings);
    world.tell_pages(A, 3);
    let fresh_s = |url: &str| match url.as_bytes().last() {
        Some(b'0') => 5,
        Some(b'1') => 1_000_000,
        _ => 0,
    };
    let mut web = pages(move |_, url| {
        RequestEnd::Response(ResponseSummary {
            body: 1,
            fresh_s: fresh_s(url),
            ..summary(200)
        })
    });
    world.run(&mut web, Duration::from_secs(205));
    let by_url = visits_by_url(&world);
    let visits = [0, 1, 2].map(|page| by_url[&*format!("{A}/{page}")]);
    assert!((36..=41).contains(&visits[0]), "{visits:?}");
    assert!((8..=10).contains(&visits[1]), "{visits:?}");
    assert!(visits[2] > 150, "{visits:?}");
    assert_eq!(next(&world, 1), Some(NextVisit::Fresh));
}

/// Goal: the numbers say what the budget buys, and by how much pages are late. Method: more pages
/// than can be visited within the longest interval, for want of budget or by the delay of their
/// server, at which 50 visits are planned at once; visits in turn, so that a page's age is known.
#[test]
fn numbers_say_what_the_budget_buys_and_by_how_much_pages_are_late() {
    let run = |policy: RecrawlPolicy, budget: u64, n: usize, delay: Duration| {
        let mut settings = recrawled(policy, 0);
        settings.recrawl.interval_max = Duration::from_secs(4);
        settings.politeness.delay = delay;
        let mut world = World::new(settings);
        world.tell_pages(A, n);
        world.finish(&mut pages(|_, _| body(1)), HOUR);
        world.settings.recrawl.requests_per_second = budget;
        world.crash();
        world.run(&mut pages(|_, _| body(1)), TEN_MINUTES * 3);
        [
            "visits_budget_per_hour",
            "visits_threshold_seconds",
            "visits_overdue_seconds",
        ]
        .map(|name| world.count(name))
    };
    let uniform = RecrawlPolicy::Uniform;
    let [budget, threshold, overdue] = run(uniform, 1, 40, Duration::ZERO);
    assert_eq!(budget, 3600);
    assert!((39..=41).contains(&threshold), "{threshold}");
    assert!((34..=37).contains(&overdue), "{overdue}");
    let [_, _, overdue] = run(uniform, 50, 100, SECOND);
    assert!((44..=47).contains(&overdue), "of a full server: {overdue}");
    let [_, _, overdue] = run(uniform, 50, 40, Duration::ZERO);
    assert_eq!(overdue, 0);
    assert_eq!(run(RecrawlPolicy::None, 1, 40, Duration::ZERO), [0; 3]);
}

fn known(world: &World, page: usize) -> Option<KnownTold> {
    let url = format!("{A}/{page}");
    world.core.known(world.now, &url).unwrap()
}

fn next(world: &World, page: usize) -> Option<NextVisit> {
    known(world, page).map(|known| known.next)
}

#[test]
fn what_is_told_of_a_page_says_what_its_next_visit_waits_for() {
    let mut settings = recrawled(RecrawlPolicy::Uniform, 0);
    settings.recrawl.interval_min = Duration::from_secs(20);
    let mut world = World::new(settings);
    world.tell_pages(A, 40);
    assert_eq!(known(&world, 0), None);
    let mut web = pages(|_, _| body(1));
    world.finish(&mut web, HOUR);
    let first = known(&world, 0).expect("a known page");
    assert_eq!((first.visits, first.state), (1, PageState::Page));
    assert_eq!(first.next, NextVisit::BudgetNone);

    world.settings.recrawl.requests_per_second = 1;
    world.crash();
    assert_eq!(next(&world, 0), Some(NextVisit::Due));
    world.run(&mut web, TEN_MINUTES * 3);
    let of_all: Vec<KnownTold> = (0..40).filter_map(|page| known(&world, page)).collect();
    let waiting = |next: NextVisit| of_all.iter().filter(move |known| known.next == next);
    let early = waiting(NextVisit::IntervalMin).count();
    let unworthy = waiting(NextVisit::Threshold).count();
    assert!((19..=21).contains(&early), "{early} are early");
    assert!((18..=21).contains(&unworthy), "{unworthy} are not worth it");
    for page in waiting(NextVisit::IntervalMin) {
        let due_s = page.age_s + page.next_in_s.expect("a wait") as f64;
        assert!((20.0..=21.0).contains(&due_s), "{page:?}");
    }
    for page in waiting(NextVisit::Threshold) {
        let due_s = page.age_s + page.next_in_s.expect("a wait") as f64;
        let threshold_s = page.threshold_s.expect("a threshold");
        assert!((0.0..=1.0).contains(&(due_s - threshold_s)), "{page:?}");
        assert!(page.worth_s < threshold_s && page.visits > 40, "{page:?}");
        // It never changed, in half an hour of visits.
        assert!(page.change_s > 1000.0, "{page:?}");
    }

    order(&mut world, &[Target::Host("a.test".into())]);
    assert_eq!(next(&world, 0), Some(NextVisit::Paused));
    order(&mut world, &[]);
    world.settings.recrawl.visits_max = 2;
    world.crash();
    assert_eq!(next(&world, 0), Some(NextVisit::VisitsMax));
    world.settings.recrawl.policy = RecrawlPolicy::None;
    world.crash();
    assert_eq!(next(&world, 0), Some(NextVisit::PolicyNone));
}

#[test]
fn what_is_told_of_a_page_says_when_its_server_holds_it_up() {
    let mut settings = recrawled(RecrawlPolicy::Uniform, 0);
    settings.politeness.delay = SECOND;
    let mut world = World::new(settings);
    world.tell_pages(A, 100);
    world.finish(&mut Fine, HOUR);
    world.settings.recrawl.requests_per_second = 50;
    world.crash();
    world.run(&mut Fine, TEN_MINUTES);
    let waiting = |world: &World, next: NextVisit| {
        let of_all = (0..100).filter_map(|page| known(world, page));
        of_all.filter(|known| known.next == next).count()
    };
    let planned = waiting(&world, NextVisit::Planned);
    assert_eq!(planned as u64, world.count("visits_out"));
    assert_eq!(waiting(&world, NextVisit::ServerFull), 100 - planned);
    let mut silent = pages(|_, _| RequestEnd::Failure(FailureKind::Connect));
    world.run(&mut silent, TEN_MINUTES * 3);
    assert_eq!(waiting(&world, NextVisit::ServerAway), 100);
}

/// Goal: visits leave new URLs of a slow server their part. Method: a budget that is fifty times
/// what its delay allows.
#[test]
fn visits_do_not_keep_a_server_from_what_is_new() {
    let mut settings = recrawled(RecrawlPolicy::Uniform, 50);
    settings.politeness.delay = SECOND;
    let mut world = World::new(settings);
    world.tell_pages(A, 200);
    world.run(&mut Fine, TEN_MINUTES);
    assert_eq!(world.count("outcome_fetched_total"), 200);
    assert!(world.visits.len() > 300, "{}", world.visits.len());
}

/// Goal: visits go on where the budget of pages is larger than the web, also when nothing of it is
/// held. Method: a scheduler begins anew when all is fetched: it counts on what is spent alone.
#[test]
fn a_budget_that_is_not_used_up_holds_no_visit_up() {
    let mut settings = recrawled(RecrawlPolicy::Uniform, 2);
    settings.limits.max_pages = 1_000;
    let mut world = World::new(settings);
    world.tell_pages(A, 10);
    world.run(&mut Fine, TEN_MINUTES);
    world.held.clear();
    world.crash();
    world.run(&mut Fine, TEN_MINUTES);
    let before = world.visits.len();
    world.run(&mut Fine, TEN_MINUTES);
    let visits = world.visits.len() - before;
    assert!((1_140..=1_260).contains(&visits), "{visits}");
}

/// Goal: pages whose topic has no budget of pages are not waited for, and hold no others up.
/// Method: two topics at one server, one of them used up.
#[test]
fn pages_of_a_topic_without_budget_rest() {
    let mut settings = visited_so_often(3);
    settings.topics = with_budgets(&[5, 0]).topics;
    let mut world = World::new(settings);
    tell(&mut world, "t1", A, 5);
    tell(&mut world, "t2", A, 6);
    world.run(&mut Fine, TEN_MINUTES);
    assert_eq!(
        (world.count("pages_known_total"), resting(&world)),
        (11, 11)
    );
    let by_url = visits_by_url(&world);
    let of_second = |visits: &&usize| **visits == 2;
    assert_eq!(by_url.values().filter(of_second).count(), 6, "{by_url:?}");
}

/// Goal: where `Last-Modified` is true, a page's rate is learned from it, although each visit finds
/// a change; and where it is a date of now at each look it is not. Method: pages that change every
/// minute and are visited every five.
#[test]
fn true_dates_of_changes_tell_how_often_a_page_changes() {
    const CHANGE_S: u64 = 60;
    let change_s = |date_of: fn(u64) -> Option<u64>| {
        let mut world = World::new(recrawled(RecrawlPolicy::Fresh, 1));
        world.tell_pages(A, 290);
        let dated = |now: Timestamp, _: &str| {
            let now_s = now.as_micros() / 1_000_000;
            let mut summary = summary(200);
            summary.body = 1 + now_s / CHANGE_S;
            if let Some(date_s) = date_of(now_s) {
                let date = std::time::UNIX_EPOCH + Duration::from_secs(date_s);
                summary.validators.last_modified = httpdate::fmt_http_date(date);
            }
            RequestEnd::Response(summary)
        };
        world.run(&mut pages(dated), HOUR);
        known(&world, 0).expect("it is known").change_s
    };
    let by_true_dates = change_s(|now_s| Some(now_s / CHANGE_S * CHANGE_S));
    // Changes come in turn, so their mean age is half of the time between two.
    assert!((20.0..45.0).contains(&by_true_dates), "{by_true_dates}");
    let by_bodies = change_s(|_| None);
    assert!(by_bodies < by_true_dates / 3.0, "{by_bodies}");
    assert_eq!(change_s(Some), by_bodies);
}

//! What parsers say of the texts of pages that are visited again; one situation a test.

use super::recrawl_scenarios::{body, recrawled};
use super::signal_scenarios::{dated, hear};
use super::web::pages;
use super::world::World;
use crate::core::dispatcher::Input;
use rhumb_config::RecrawlPolicy;
use rhumb_stage::{Core as _, Difference, KnownTold};
use rhumb_url::time::Timestamp;
use rhumb_url::{fingerprint, host_hash};
use rhumb_wire::message::{KnownText, PageSignal, PageSignals, RequestEnd, SeenText};
use std::time::Duration;

const A: &str = "http://a.test";
const SECOND: Duration = Duration::from_secs(1);

/// Pages that are visited in turn, one a second.
fn world(n: usize) -> World {
    let mut world = World::new(recrawled(RecrawlPolicy::Uniform, 1));
    world.tell_pages(A, n);
    world
}

fn url(page: usize) -> String {
    format!("{A}/{page}")
}

fn told(world: &World, page: usize) -> KnownTold {
    let told = world.core.known(world.now, &url(page)).unwrap();
    told.expect("a known page")
}

/// The number of visits of a page that ended.
fn visits(world: &World, page: usize) -> u32 {
    let told = world.core.known(world.now, &url(page)).unwrap();
    told.map_or(0, |told| told.visits)
}

/// A page with another body in each visit.
fn restless(now: Timestamp, _: &str) -> RequestEnd {
    body(now.as_micros())
}

fn known(number: u32) -> KnownText {
    KnownText {
        body: number.into(),
        sketch: Some(u64::from(number) << 32),
        noise: 80,
    }
}

/// A parser says what a visit of a page found of its text.
fn say(world: &mut World, page: usize, visit: u32, is_changed: Option<bool>) {
    let text = SeenText {
        visit,
        is_https: false,
        port: 80,
        is_changed,
        known: known(visit),
    };
    let signal = PageSignal {
        url: fingerprint(&url(page)),
        host: host_hash("a.test"),
        text: Some(text),
        ..PageSignal::default()
    };
    let pages = vec![signal];
    let partition = world.core.key_of(A).partition;
    world.step(Some(Input::Signals(PageSignals {
        partition,
        pages,
        ..PageSignals::default()
    })));
}

/// What the next request for a page says of its text.
fn asked_with(world: &mut World, page: usize) -> Option<KnownText> {
    for _ in 0..100 {
        world.pass(SECOND);
        world.step(None);
        world.ask(64);
        let requests = world.held.iter().flat_map(|held| &held.job.requests);
        let mut requests = requests.filter(|request| request.url == url(page));
        if let Some(request) = requests.next() {
            return request.text.as_deref().copied();
        }
        world.run(&mut pages(restless), SECOND);
    }
    panic!("page {page} is not asked for");
}

/// Goal: another body with the same text counts as no change, whether a parser says so before or
/// after the report of the visit; where none says anything the body decides. Method: four pages
/// with as many visits: one never changes; of one the parser speaks before each report, of one
/// after it, and of one never.
#[test]
fn another_body_with_the_same_text_is_no_change() {
    const QUIET: usize = 0;
    const EARLY: usize = 1;
    const LATE: usize = 2;
    const UNTOLD: usize = 3;
    let mut world = world(4);
    let mut web = pages(|now, url| match url.ends_with('0') {
        true => body(1),
        false => restless(now, url),
    });
    let mut late = 0;
    for _ in 0..400 {
        let next = visits(&world, EARLY) + 1;
        say(&mut world, EARLY, next, (next > 1).then_some(false));
        world.run(&mut web, SECOND);
        let last = visits(&world, LATE);
        if last > late {
            say(&mut world, LATE, last, (last > 1).then_some(false));
            late = last;
        }
    }
    let change_s = [QUIET, EARLY, LATE, UNTOLD].map(|page| told(&world, page).change_s);
    for page in [EARLY, LATE] {
        let ratio = change_s[page] / change_s[QUIET];
        assert!((0.7..1.4).contains(&ratio), "{change_s:?}");
    }
    assert!(change_s[UNTOLD] < change_s[QUIET] / 20.0, "{change_s:?}");
    let differences = [QUIET, EARLY, LATE, UNTOLD].map(|page| told(&world, page).difference);
    let same = Difference::SameText;
    let expected = [Difference::SameBody, same, same, Difference::OtherBody];
    assert_eq!(differences, expected);
    let counted = u64::from(visits(&world, EARLY) - 1 + visits(&world, LATE) - 1);
    assert_eq!(world.count("visits_text_unchanged_total"), counted);
    assert_eq!(world.count("visits_text_changed_total"), 0);
}

/// Goal: a text that is another one is a change, as is another body of which nobody can tell.
#[test]
fn another_text_is_a_change() {
    let mut world = world(3);
    for _ in 0..150 {
        for (page, is_changed) in [(0, Some(true)), (1, None)] {
            let next = visits(&world, page) + 1;
            say(&mut world, page, next, is_changed);
        }
        world.run(&mut pages(restless), SECOND);
    }
    let change_s = [0, 1, 2].map(|page| told(&world, page).change_s);
    assert!(change_s.iter().all(|s| *s < 10.0), "{change_s:?}");
    assert_eq!(told(&world, 0).difference, Difference::OtherText);
    assert_eq!(told(&world, 1).difference, Difference::OtherBody);
    let counted = u64::from(visits(&world, 0) - 1);
    assert_eq!(world.count("visits_text_changed_total"), counted);
}

/// Goal: what is said twice counts once; what is said of an older visit than the last is left, also
/// when the next one is out; and what was said of a visit that never ended changes nothing.
#[test]
fn what_is_said_twice_or_of_an_older_visit_changes_nothing() {
    let mut world = world(1);
    world.run(&mut pages(restless), SECOND * 20);
    let last = visits(&world, 0);
    let before = told(&world, 0).change_s;
    for visit in [1, last - 1] {
        say(&mut world, 0, visit, Some(false));
    }
    say(&mut world, 0, last + 7, Some(false));
    assert_eq!(told(&world, 0).change_s, before);
    assert_eq!(world.count("visits_text_unchanged_total"), 0);
    say(&mut world, 0, last, Some(false));
    let learned = told(&world, 0).change_s;
    assert!(learned > before, "{learned} {before}");
    for is_changed in [Some(false), Some(true), None] {
        say(&mut world, 0, last, is_changed);
        assert_eq!(told(&world, 0).change_s, learned);
    }
    assert_eq!(world.count("visits_text_unchanged_total"), 1);
    assert_eq!(world.count("visits_text_changed_total"), 0);
}

/// Goal: a visit whose report came waits for what is said of its text through a crash, and what is
/// known of the text goes with the next request; it is kept where a visit says nothing of it.
#[test]
fn what_is_known_of_a_text_outlives_a_crash_and_goes_with_the_next_request() {
    let mut world = world(1);
    world.run(&mut pages(restless), SECOND * 20);
    world.held.clear();
    world.crash();
    let last = visits(&world, 0);
    let before = told(&world, 0).change_s;
    say(&mut world, 0, last, Some(false));
    assert!(told(&world, 0).change_s > before);
    world.crash();
    assert_eq!(asked_with(&mut world, 0), Some(known(last)));
    world.held.clear();
    world.run(&mut pages(restless), SECOND * 100);
    assert!(visits(&world, 0) > last);
    assert_eq!(asked_with(&mut world, 0), Some(known(last)));
}

/// Goal: a body that comes again byte for byte is without noise.
#[test]
fn noise_sinks_when_a_body_comes_again() {
    let mut world = world(1);
    let mut same = pages(|_, _| body(1));
    world.run(&mut same, SECOND * 3);
    let last = visits(&world, 0);
    say(&mut world, 0, last, Some(true));
    world.run(&mut same, SECOND * 20);
    let asked = asked_with(&mut world, 0).expect("a text");
    let expected = KnownText {
        noise: 0,
        ..known(last)
    };
    assert_eq!(asked, expected);
}

/// Goal: nobody is asked to look at texts of pages that are not visited again.
#[test]
fn texts_are_looked_at_where_pages_are_visited_again() {
    for (policy, expected) in [
        (RecrawlPolicy::None, None),
        (RecrawlPolicy::Fresh, Some(KnownText::default())),
    ] {
        let mut settings = recrawled(policy, 1);
        settings.politeness.respect_robots = false;
        let mut world = World::new(settings);
        world.tell_pages(A, 1);
        assert_eq!(asked_with(&mut world, 0), expected);
    }
}

/// Goal: signals are judged by the text. Method: each visit finds another body with the same text,
/// and all pages are dated now each second: the dates foretell each other body.
#[test]
fn dates_that_foretell_other_bodies_with_the_same_text_are_not_believed() {
    const PAGES: usize = 20;
    let mut world = World::new(recrawled(RecrawlPolicy::Fresh, 1));
    world.tell_pages(A, PAGES);
    let mut said = [1; PAGES];
    for _ in 0..1500 {
        world.run(&mut pages(restless), SECOND);
        for (page, said) in said.iter_mut().enumerate() {
            let visits = visits(&world, page);
            if visits > *said {
                say(&mut world, page, visits, Some(false));
                *said = visits;
            }
        }
        let now_s = world.now.as_micros() as f64 / 1e6;
        let now_dated = (0..PAGES).map(|page| dated(page, now_s)).collect();
        hear(&mut world, now_dated);
    }
    assert!(world.count("signals_counted_total") > 1000);
    assert!(world.count("visits_text_unchanged_total") > 1000);
    for page in 0..PAGES {
        let believed = told(&world, page).believed.expect("it had signals");
        assert_eq!(believed.precision, 0.0, "{believed:?}");
    }
}

//! Signals that pages have changed; one situation a test.

use super::recrawl_scenarios::{body, recrawled};
use super::web::pages;
use super::world::World;
use crate::core::dispatcher::Input;
use rhumb_config::RecrawlPolicy;
use rhumb_stage::{Core as _, KnownTold, NextVisit};
use rhumb_url::time::Timestamp;
use rhumb_url::{fingerprint, host_hash, host_of, partition};
use rhumb_wire::message::{DatedPage, PageSignals, RequestEnd, SignalKind};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

const A: &str = "http://a.test";
const SECOND: Duration = Duration::from_secs(1);
const PAGES: usize = 60;
/// Visits a second.
const BUDGET: u64 = 1;
/// Mean times between two changes of a page, in seconds: of a third of the pages each.
const BETWEEN_S: [f64; 3] = [100.0, 300.0, 1_000.0];
/// The time that is judged, in seconds.
const FROM_S: f64 = 1_500.0;
const TO_S: f64 = 4_500.0;

fn url(page: usize) -> String {
    format!("{A}/{page}")
}

fn seconds(at: Timestamp) -> f64 {
    at.as_micros() as f64 / 1e6
}

/// A number from 0 to 1 (Knuth's linear generator).
fn chance(state: &mut u64) -> f64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

/// Times of this mean distance, until the end.
fn times(between_s: f64, state: &mut u64) -> Vec<f64> {
    let mut at_s = 0.0;
    let next = || {
        at_s -= (1.0 - chance(state)).ln() * between_s;
        Some(at_s)
    };
    std::iter::from_fn(next)
        .take_while(|at_s| *at_s < TO_S)
        .collect()
}

/// When each page changes.
fn changes(state: &mut u64) -> Vec<Vec<f64>> {
    let between_s = (0..PAGES).map(|page| BETWEEN_S[page % BETWEEN_S.len()]);
    between_s.map(|between_s| times(between_s, state)).collect()
}

/// A sitemap says that a page changed then.
pub(super) fn dated(page: usize, at_s: f64) -> DatedPage {
    DatedPage {
        url: fingerprint(&url(page)),
        host: host_hash(host_of(A)),
        is_https: false,
        port: 80,
        at_ms: (1e3 * at_s) as u64,
        kind: SignalKind::Sitemap,
        ..DatedPage::default()
    }
}

pub(super) fn hear(world: &mut World, dated: Vec<DatedPage>) {
    let signals = PageSignals {
        partition: partition(host_of(A), world.settings.directory.ids()),
        dated,
        ..PageSignals::default()
    };
    world.step(Some(Input::Signals(signals)));
}

/// Pages that have as many versions as changes until now.
fn versions(changes: &[Vec<f64>]) -> impl FnMut(Timestamp, &str) -> RequestEnd {
    |now, url| {
        let page: usize = url.rsplit('/').next().unwrap().parse().unwrap();
        let now_s = seconds(now);
        body(changes[page].partition_point(|at_s| *at_s <= now_s) as u64)
    }
}

/// How a crawl fared.
struct Fared {
    /// The median time from a change to the next visit of its page, in seconds.
    delay_s: f64,
    /// The share of the time in which copies were current.
    freshness: f64,
    world: World,
}

/// A crawl with these signals of each page, told every second.
fn crawl(changes: &[Vec<f64>], signals: &[Vec<f64>]) -> Fared {
    let mut world = World::new(recrawled(RecrawlPolicy::Fresh, BUDGET));
    world.tell_pages(A, PAGES);
    let mut web = pages(versions(changes));
    while seconds(world.now) < TO_S {
        let from_s = seconds(world.now);
        world.run(&mut web, SECOND);
        let now_s = seconds(world.now);
        hear(&mut world, dates(signals, from_s..now_s));
    }
    fared(changes, world)
}

/// The signals of that time.
fn dates(signals: &[Vec<f64>], time: Range<f64>) -> Vec<DatedPage> {
    let of_page = |(page, signals): (usize, &Vec<f64>)| {
        let new = signals.iter().filter(|at_s| time.contains(*at_s));
        new.map(|at_s| dated(page, *at_s)).collect::<Vec<_>>()
    };
    signals.iter().enumerate().flat_map(of_page).collect()
}

/// A crawl whose signals are in a sitemap: they are told when it is visited.
fn crawl_with_sitemap(changes: &[Vec<f64>], signals: &[Vec<f64>]) -> Fared {
    let mut all: Vec<f64> = signals.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let pages_and_sitemap: Vec<Vec<f64>> = changes.iter().cloned().chain([all]).collect();
    let sitemap = url(PAGES);
    let mut world = World::new(recrawled(RecrawlPolicy::Fresh, BUDGET));
    world.tell_pages(A, PAGES + 1);
    let mut web = pages(versions(&pages_and_sitemap));
    let mut visited_s = 0.0;
    let mut contacts = 0;
    while seconds(world.now) < TO_S {
        world.run(&mut web, SECOND);
        let new = world.contacts[contacts..].iter();
        let visits: Vec<f64> = new
            .filter(|(_, url)| *url == sitemap)
            .map(|(at, _)| seconds(*at))
            .collect();
        contacts = world.contacts.len();
        for at_s in visits {
            let told = |page| DatedPage {
                by: fingerprint(&sitemap),
                waited_ms: (1e3 * (at_s - visited_s)) as u64,
                ..page
            };
            if visited_s > 0.0 {
                let new = dates(signals, visited_s..at_s);
                hear(&mut world, new.into_iter().map(told).collect());
            }
            visited_s = at_s;
        }
    }
    fared(changes, world)
}

fn fared(changes: &[Vec<f64>], world: World) -> Fared {
    let mut visits: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (at, url) in &world.contacts {
        visits.entry(url).or_default().push(seconds(*at));
    }
    let mut delays = Vec::new();
    let mut stale_s = 0.0;
    for (page, changes) in changes.iter().enumerate() {
        let visits = &visits[&*url(page)];
        let next = |at_s: f64| {
            let next = visits.partition_point(|visit_s| *visit_s < at_s);
            visits.get(next).copied().unwrap_or(TO_S)
        };
        let mut fresh_from_s = FROM_S;
        for at_s in changes.iter().filter(|at_s| **at_s >= FROM_S) {
            delays.push(next(*at_s) - at_s);
            if *at_s >= fresh_from_s {
                fresh_from_s = next(*at_s);
                stale_s += fresh_from_s - at_s;
            }
        }
    }
    delays.sort_by(f64::total_cmp);
    Fared {
        delay_s: delays[delays.len() / 2],
        freshness: 1.0 - stale_s / (PAGES as f64 * (TO_S - FROM_S)),
        world,
    }
}

fn known(world: &World, page: usize) -> KnownTold {
    let known = world.core.known(world.now, &url(page)).unwrap();
    known.expect("a known page")
}

/// Goal: signals that tell each change bring a visit at once, and such as come at random cost
/// nothing. Method: the same changes of the same pages without signals, with one at each change,
/// and with as many at random.
#[test]
fn true_signals_bring_visits_at_once_and_worthless_ones_cost_nothing() {
    let mut state = 3;
    let changes = changes(&mut state);
    let random = self::changes(&mut state);
    let without = crawl(&changes, &[]);
    let perfect = crawl(&changes, &changes);
    let worthless = crawl(&changes, &random);
    let told = [&without, &perfect, &worthless].map(|fared| (fared.delay_s, fared.freshness));
    println!(
        "{told:?} {:?} {:?}",
        counted(&perfect.world),
        counted(&worthless.world)
    );
    assert!(perfect.delay_s < 0.1 * without.delay_s, "{told:?}");
    assert!(perfect.freshness > without.freshness, "{told:?}");
    assert!(worthless.freshness > 0.99 * without.freshness, "{told:?}");
    let believed = |fared: &Fared| known(&fared.world, 0).believed.expect("signals");
    let perfect_told = believed(&perfect);
    assert!(perfect_told.precision > 0.8, "{perfect_told:?}");
    assert_eq!(believed(&worthless).precision, 0.0);
    assert_eq!(known(&without.world, 0).believed, None);
}

fn counted(world: &World) -> [u64; 4] {
    ["counted", "unknown", "old", "unheeded"]
        .map(|reason| world.count(&format!("signals_{reason}_total")))
}

#[test]
fn a_date_counts_once_and_only_of_a_known_page_since_its_visit() {
    let mut world = World::new(recrawled(RecrawlPolicy::Fresh, 0));
    world.tell_pages(A, 2);
    world.run(&mut pages(|_, _| body(1)), Duration::from_secs(20));
    hear(&mut world, vec![dated(7, 15.0)]);
    assert_eq!(counted(&world), [0, 1, 0, 0]);
    hear(&mut world, vec![dated(0, 0.5)]);
    assert_eq!(counted(&world), [0, 1, 1, 0], "it was visited since");
    hear(
        &mut world,
        vec![dated(0, 15.0), dated(0, 15.0), dated(0, 14.0)],
    );
    assert_eq!(counted(&world), [1, 1, 3, 0]);
    hear(&mut world, vec![dated(0, 16.0)]);
    assert_eq!((counted(&world)[0], known(&world, 0).signals), (2, 2));
    let feed = DatedPage {
        kind: SignalKind::Feed,
        ..dated(1, 16.0)
    };
    hear(&mut world, vec![feed]);
    let told = known(&world, 1);
    assert_eq!(
        (told.signals, told.believed.map(|of| of.kind)),
        (1, Some(SignalKind::Feed))
    );
}

#[test]
fn signals_do_nothing_by_the_other_policies() {
    for policy in [RecrawlPolicy::Uniform, RecrawlPolicy::Interval] {
        let mut world = World::new(recrawled(policy, 0));
        world.tell_pages(A, 1);
        world.run(&mut pages(|_, _| body(1)), Duration::from_secs(20));
        hear(&mut world, vec![dated(0, 15.0)]);
        assert_eq!(counted(&world), [0, 0, 0, 1]);
        assert_eq!(
            (known(&world, 0).signals, known(&world, 0).believed),
            (0, None)
        );
    }
}

/// A crawl whose signals are perfect, and believed by now.
fn believing() -> (World, Vec<Vec<f64>>) {
    let changes = changes(&mut 3);
    let world = crawl(&changes, &changes).world;
    assert!(
        known(&world, 0)
            .believed
            .is_some_and(|of| of.precision > 0.8)
    );
    (world, changes)
}

/// Goal: what was learned of signals goes where the server goes. Method: the scheduler dies, and
/// another one opens what it has stored.
#[test]
fn what_was_learned_of_signals_outlives_the_process() {
    let (mut world, _) = believing();
    let before = known(&world, 0);
    world.crash();
    assert_eq!(known(&world, 0).believed, before.believed);
    assert_eq!(known(&world, 0).signals, before.signals);
}

/// Goal: a believed signal undercuts the shortest interval and what a page says of its freshness,
/// and its visit ends it. Method: pages that say that they are fresh for long, at a server whose
/// signals are believed.
#[test]
fn a_believed_signal_brings_a_visit_before_the_shortest_interval_is_over_and_ends_with_it() {
    let (mut world, _) = believing();
    world.settings.recrawl.interval_min = Duration::from_secs(3_600);
    world.crash();
    let mut web = pages(|_, _| body(999));
    world.run(&mut web, SECOND);
    let begun = world.contacts.len();
    world.run(&mut web, 60 * SECOND);
    assert_eq!(world.contacts.len(), begun, "no page may be visited yet");
    let now_s = seconds(world.now) - 1.0;
    hear(&mut world, vec![dated(1, now_s)]);
    world.run(&mut web, 10 * SECOND);
    let contacts: Vec<&str> = world.contacts[begun..]
        .iter()
        .map(|(_, url)| url.as_str())
        .collect();
    assert_eq!(contacts, [url(1)]);
    assert_eq!(known(&world, 1).signals, 0);
    hear(&mut world, vec![dated(1, now_s)]);
    world.run(&mut web, 60 * SECOND);
    assert_eq!(world.contacts.len(), begun + 1, "the date was heard before");
}

/// Goal: a signal of a page with a planned visit counts, and that visit ends it, unless it tells of
/// a change after it. Method: signals while a visit is in flight.
#[test]
fn a_signal_of_a_page_in_flight_counts_and_stays_if_it_is_later_than_its_visit() {
    let (mut world, _) = believing();
    world.settings.recrawl.interval_min = Duration::from_secs(3_600);
    world.crash();
    world.run(&mut pages(|_, _| body(998)), 60 * SECOND);
    let now_s = seconds(world.now) - 1.0;
    hear(&mut world, vec![dated(1, now_s)]);
    let planned = known(&world, 1);
    assert_eq!((planned.next, planned.signals), (NextVisit::Planned, 1));
    hear(&mut world, vec![dated(1, now_s + 0.5)]);
    assert_eq!(known(&world, 1).signals, 2);
    world.run(&mut pages(|_, _| body(999)), 10 * SECOND);
    assert_eq!(known(&world, 1).signals, 0);
}

/// Goal: a sitemap is visited by the news that it brings, so that what it tells is heard in time;
/// one that tells nothing is not. Method: the same changes with and without a sitemap of theirs,
/// and with one of dates at random.
#[test]
fn a_sitemap_is_visited_as_often_as_its_news_are_worth() {
    let mut state = 3;
    let changes = changes(&mut state);
    let random = self::changes(&mut state);
    let without = crawl(&changes, &[]);
    let perfect = crawl_with_sitemap(&changes, &changes);
    let worthless = crawl_with_sitemap(&changes, &random);
    let told = [&without, &perfect, &worthless].map(|fared| (fared.delay_s, fared.freshness));
    let visits = |fared: &Fared| {
        let contacts = fared.world.contacts.iter();
        contacts
            .filter(|(_, contact)| *contact == url(PAGES))
            .count()
    };
    assert!(perfect.delay_s < 0.5 * without.delay_s, "{told:?}");
    assert!(perfect.freshness > without.freshness, "{told:?}");
    assert!(worthless.freshness > 0.99 * without.freshness, "{told:?}");
    let often = visits(&perfect);
    let seldom = visits(&worthless);
    assert!(often > 20 * seldom, "{often}, {seldom}");
}

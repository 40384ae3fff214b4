//! How fresh the copies of known pages are, by what the scheduler has learned.

use super::recrawl_scenarios::{body, recrawled};
use super::web::pages;
use super::world::World;
use rhumb_config::RecrawlPolicy;
use rhumb_url::time::Timestamp;
use std::time::Duration;

const A: &str = "http://a.test";

/// Goal: the numbers say how many copies are current, and visits find as many changes as they say.
/// Method: pages that change at random, each every 10 s to every 2500 s in the mean, are compared
/// with their copies now and then.
#[test]
fn numbers_say_how_many_copies_are_current() {
    const PAGES: usize = 60;
    let between = |page: usize| 10.0 * 1.1f64.powi(page as i32);
    let mut state = 3;
    let changes = (0..PAGES).map(|page| random_times(between(page), 3600.0, &mut state));
    let changes: Vec<Vec<f64>> = changes.collect();
    let version = |page: usize, at: Timestamp| {
        let at_s = at.since(Timestamp::ZERO).as_secs_f64();
        changes[page].partition_point(|change| *change <= at_s) as u64
    };
    let mut copies = [0; PAGES];
    let mut world = World::new(recrawled(RecrawlPolicy::Uniform, 6));
    world.tell_pages(A, PAGES);
    let mut current = 0;
    let mut told = [0; 2];
    for round in 0..40 {
        let mut web = pages(|now, url| {
            let page: usize = url.rsplit('/').next().unwrap().parse().unwrap();
            copies[page] = version(page, now);
            body(copies[page])
        });
        world.run(&mut web, Duration::from_secs(60));
        drop(web);
        if round < 16 {
            continue;
        }
        let is_current = |page: &usize| copies[*page] == version(*page, world.now);
        current += (0..PAGES).filter(is_current).count();
        told[0] += world.count("pages_fresh_expected");
        told[1] += world.count("pages_compared");
    }
    let share = current as f64 / (24 * PAGES) as f64;
    let expected = told[0] as f64 / told[1] as f64;
    assert!((0.7..0.95).contains(&share), "{share}");
    assert!((expected - share).abs() < 0.04, "{expected} {share}");
    let found = world.count("changes_found_total") as f64;
    let of_expected = found / world.count("changes_expected_total") as f64;
    assert!(found > 1000.0, "{found}");
    assert!((0.9..1.1).contains(&of_expected), "{of_expected}");
    let age = world.count("pages_age_seconds") / world.count("pages_compared");
    assert!((4..=6).contains(&age), "{age}");
}

/// Times at random up to an end, with so many seconds between them in the mean.
fn random_times(between_s: f64, end_s: f64, state: &mut u64) -> Vec<f64> {
    let mut times = Vec::new();
    let mut at = 0.0;
    while at < end_s {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let chance = (*state >> 11) as f64 / (1u64 << 53) as f64;
        at -= (1.0 - chance).ln() * between_s;
        times.push(at);
    }
    times
}

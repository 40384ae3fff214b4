//! Drops: what operators want to be rid of, one situation a test.

use super::fetching::Held;
use super::web::{Fine, addresses, pages, response};
use super::world::{World, elsewhere};
use crate::core::dispatcher::Input;
use crate::keys::slot::RETRIES;
use crate::settings::tests::with;
use rhumb_config::Policy;
use rhumb_config::orders::{Author, DropOrder, Orders, Selection};
use rhumb_stage::Core as _;
use rhumb_wire::message::{Outcome, RequestResult, ToFetcher};
use std::time::Duration;

const A: &str = "http://a.one.test";
const B: &str = "http://b.one.test";
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
/// More than one step looks at.
const MANY: usize = 25_000;

fn world() -> World {
    World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.scheduler.requests_per_connection = 4;
    }))
}

fn drop(id: u64, what: Selection, and_later: bool) -> DropOrder {
    DropOrder {
        id,
        what,
        and_later,
        author: Author::default(),
    }
}

fn host(server: &str) -> Selection {
    Selection::Host(rhumb_url::host_of(server).to_owned())
}

impl World {
    fn heed(&mut self, drops: &[DropOrder]) {
        let orders = Orders {
            drops: drops.to_vec(),
            ..Orders::default()
        };
        self.core.orders(&orders);
        assert!(
            self.core.wake_at().is_some_and(|at| at <= self.now),
            "the step follows at once"
        );
    }

    /// Steps for as long as the core has more to do at once.
    pub(super) fn step_on(&mut self) -> usize {
        let mut steps = 0;
        while self.core.wake_at().is_some_and(|at| at <= self.now) {
            self.step(None);
            steps += 1;
        }
        steps
    }

    fn is_done(&self, id: u64) -> bool {
        self.core.drop_progress(id).unwrap().is_done
    }

    pub(super) fn dropped(&self) -> Vec<&str> {
        let dropped = self
            .outcomes
            .values()
            .filter(|entry| entry.outcome == Outcome::Dropped);
        dropped.map(|entry| entry.url.as_str()).collect()
    }
}

#[test]
fn what_waits_at_a_host_ends_in_steps_and_everything_else_goes_on() {
    let mut world = world();
    world.tell_pages(A, MANY);
    world.tell_pages(B, 8);
    world.heed(&[drop(1, host(A), false)]);
    let steps = world.step_on();
    assert!(steps >= 10, "{steps}");
    assert_eq!(world.dropped().len(), MANY);
    let progress = world.core.drop_progress(1).unwrap();
    assert_eq!((progress.dropped, progress.is_done), (MANY as u64, true));
    assert!(!world.is_done(2), "an order that it has not heard of");
    assert_eq!(
        world.outcome(&format!("{A}/0")),
        (Outcome::Dropped, "an operator dropped it")
    );
    // What comes afterwards is not meant.
    world.tell(&[format!("{A}/later")], &addresses());
    world.finish(&mut Fine, HOUR);
    assert_eq!(
        (world.count("outcome_fetched_total"), world.dropped().len()),
        (9, MANY)
    );
}

/// Goal: whichever of a server's URLs are dropped, those that stay are fetched in the order in
/// which they would have been.
#[test]
fn some_urls_of_a_server_end_and_the_others_keep_their_order() {
    for policy in [Policy::BreadthFirst, Policy::Quality] {
        let urls = |dropped: bool| {
            let settings = with(|set| {
                set.politeness.respect_robots = false;
                set.scheduler.requests_per_connection = 4;
                set.scheduler.policy = policy;
            });
            let mut world = World::new({
                let mut set = settings;
                set.politeness.delay = SECOND;
                set
            });
            world.tell_pages(A, 40);
            // Some fail, and wait for another try.
            let mut web = pages(|_, url| {
                if url.ends_with('3') {
                    response(500)
                } else {
                    response(200)
                }
            });
            world.run(&mut web, 10 * SECOND);
            let before: Vec<String> = world
                .contacted()
                .iter()
                .map(|&url| url.to_owned())
                .collect();
            if dropped {
                world.heed(&[drop(1, Selection::Match("[01234]$".into()), false)]);
                world.finish(&mut Fine, HOUR);
                assert!(world.is_done(1) && world.dropped().len() > 5);
            } else {
                world.finish(&mut Fine, HOUR);
            }
            // The world's fetcher forgets a job that it is told to stop: what it had fetched of it
            // comes again.
            let after = world
                .contacted()
                .split_off(before.len())
                .into_iter()
                .map(str::to_owned);
            after
                .filter(|url| url.ends_with('3') || !before.contains(url))
                .collect::<Vec<_>>()
        };
        let all = urls(false);
        let left = urls(true);
        let is_left = |url: &&String| left.contains(url);
        assert_eq!(
            all.iter().filter(is_left).collect::<Vec<_>>(),
            left.iter().collect::<Vec<_>>()
        );
        assert!(
            left.iter()
                .filter(|url| url.ends_with(['0', '1', '2', '3', '4']))
                .count()
                <= 4,
            "{left:?}"
        );
    }
}

#[test]
fn a_job_with_such_urls_is_told_to_stop_and_what_comes_back_ends_before_it_is_given_out_again() {
    // It comes back untried; after a failure; without a report, since its fetcher is gone; after
    // the scheduler died.
    for how in ["untried", "failed", "lost", "crash"] {
        let mut world = world();
        world.tell_pages(A, 12);
        world.tell_pages(B, 4);
        world.ask(2);
        let of_a = world
            .held
            .iter()
            .position(|held| held.job.server == A)
            .unwrap();
        let mut held = world.held.remove(of_a);
        let asked = [drop(1, Selection::Match("//a.*/([0-9]|10)$".into()), false)];
        world.heed(&asked);
        world.step_on();
        let in_job = held.job.requests.len();
        assert_eq!(
            (world.dropped().len(), world.is_done(1)),
            (11 - in_job, false),
            "{how}"
        );
        let job = held.job.id;
        let is_told = |message: &ToFetcher| matches!(message, ToFetcher::Revoked { job: other } if *other == job);
        assert!(world.inbox.iter().any(is_told));
        world.inbox.clear();
        if how == "crash" {
            world.crash();
            world.heed(&asked);
            world.step_on();
            assert!(!world.is_done(1));
        }
        match how {
            "lost" => world.pass(HOUR),
            _ => {
                if how == "failed" {
                    let slot = held.job.requests[0].slot;
                    held.results.push(RequestResult {
                        slot,
                        end: response(500),
                    });
                    held.next = 1;
                }
                let report = held.report(true, false);
                world.step(Some(Input::Report(report)));
            }
        }
        world.step_on();
        assert!(world.is_done(1), "{how}");
        world.finish(&mut Fine, HOUR);
        assert_eq!(world.dropped().len(), 11, "{how}");
        assert!(
            world
                .contacted()
                .iter()
                .all(|url| !url.starts_with(A) || url.ends_with("/11")),
            "{how}"
        );
    }
}

/// Goal: no URL of a job escapes. Method: a job whose first and last URLs lie further apart than
/// one step looks.
#[test]
fn a_job_whose_urls_are_found_in_several_steps_gives_all_of_them_back_to_be_dropped() {
    let mut world = world();
    world.tell_pages(A, MANY);
    let take_job = |world: &mut World| {
        world.ask(1);
        world.held.pop().unwrap()
    };
    let mut held = take_job(&mut world);
    held.results.push(RequestResult {
        slot: held.job.requests[0].slot,
        end: response(500),
    });
    held.next = 1;
    let report = held.report(true, false);
    world.step(Some(Input::Report(report)));
    world.pass(HOUR);
    let mut held = take_job(&mut world);
    let retries = held
        .job
        .requests
        .iter()
        .filter(|request| request.slot >= RETRIES)
        .count();
    assert!(
        retries > 0 && retries < held.job.requests.len(),
        "{:?}",
        held.job.requests
    );
    world.heed(&[drop(1, host(A), false)]);
    assert!(world.step_on() > 10);
    assert_eq!(
        (world.dropped().len(), world.is_done(1)),
        (MANY - held.job.requests.len(), false)
    );
    let report = held.report(true, false);
    world.step(Some(Input::Report(report)));
    world.step_on();
    assert_eq!((world.dropped().len(), world.is_done(1)), (MANY, true));
}

#[test]
fn jobs_of_all_partitions_are_told_to_stop_at_once() {
    let mut world = world();
    let other = elsewhere(A);
    world.tell_pages(A, 12);
    world.tell_pages(&other, 12);
    world.ask(2);
    assert_eq!(world.held.len(), 2);
    let mut held = std::mem::take(&mut world.held);
    world.heed(&[drop(1, Selection::Match("/".into()), false)]);
    world.step_on();
    for Held { job, .. } in &held {
        let is_told = |message: &ToFetcher| matches!(message, ToFetcher::Revoked { job: other } if *other == job.id);
        assert!(world.inbox.iter().any(is_told), "{}", job.server);
    }
    world.inbox.clear();
    // They end in any order, and what waits for one does not hold up the other.
    let mut in_jobs: usize = held.iter().map(|held| held.job.requests.len()).sum();
    while let Some(mut ended) = held.pop() {
        assert_eq!(
            (world.dropped().len(), world.is_done(1)),
            (24 - in_jobs, false)
        );
        in_jobs -= ended.job.requests.len();
        let report = ended.report(true, false);
        world.step(Some(Input::Report(report)));
        world.step_on();
    }
    assert_eq!((world.dropped().len(), world.is_done(1)), (24, true));
}

#[test]
fn an_order_is_carried_out_once_whoever_dies() {
    let mut world = world();
    world.tell_pages(A, MANY);
    let asked = [drop(1, host(A), false)];
    world.heed(&asked);
    world.step(None);
    world.step(None);
    let before = world.dropped().len();
    assert!(before > 0 && before < MANY);
    world.crash();
    // The orders come with the next life: until then nothing is known of them.
    assert!(!world.is_done(1));
    world.heed(&asked);
    world.step_on();
    assert_eq!(world.core.drop_progress(1).unwrap().dropped, MANY as u64);
    world.crash();
    world.heed(&asked);
    assert!(world.is_done(1));
    world.tell(&[format!("{A}/later")], &addresses());
    world.step_on();
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.outcome(&format!("{A}/later")).0, Outcome::Fetched);
    // An order of another id means what waits now.
    world.tell(&[format!("{A}/still-later")], &addresses());
    world.heed(&[asked[0].clone(), drop(2, host(A), false)]);
    world.step_on();
    assert_eq!(
        world.outcome(&format!("{A}/still-later")).0,
        Outcome::Dropped
    );
}

#[test]
fn what_is_found_later_ends_on_arrival_until_the_order_is_taken_back() {
    let mut world = world();
    let asked = [drop(1, Selection::Prefix("http://(test,one,".into()), true)];
    world.tell_pages(A, 3);
    world.heed(&asked);
    world.step_on();
    let why =
        |world: &World, url: &str| world.core.why(world.now, url).unwrap().unwrap_or_default();
    world.tell(
        &[format!("{A}/later"), format!("{A}/later?2")],
        &addresses(),
    );
    assert_eq!(world.dropped().len(), 5);
    assert!(why(&world, &format!("{A}/later")).contains("found now or later, is dropped by"));
    assert_eq!(
        (world.count("new_total"), world.count("servers")),
        (5, 0),
        "it takes no memory"
    );
    world.heed(&[]);
    world.step_on();
    world.tell(&[format!("{B}/after")], &addresses());
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.outcome(&format!("{B}/after")).0, Outcome::Fetched);
}

#[test]
fn a_count_is_what_a_drop_ends_and_changes_nothing() {
    let mut world = world();
    world.tell_pages(A, MANY);
    world.tell_pages(B, 100);
    world.ask(2);
    for what in [
        host(B),
        Selection::Domain("one.test".into()),
        Selection::Prefix("http://(test,one,a,)/1".into()),
        Selection::Match("7$".into()),
        host("http://nowhere.test"),
    ] {
        let selector = what.selector().unwrap();
        let mut found = 0;
        let mut rows = 0;
        let mut answers = 0;
        let mut after = None::<Vec<u8>>;
        loop {
            let counted = world
                .core
                .count(&selector, after.as_deref())
                .unwrap()
                .unwrap();
            assert!(counted.rows <= 20_000 && counted.examples.iter().all(|url| selector.has(url)));
            (found, rows, answers) = (found + counted.found, rows + counted.rows, answers + 1);
            match counted.next {
                None => break,
                next => after = next,
            }
        }
        let expected = world.told.keys().filter(|url| selector.has(url)).count() as u64;
        let is_of_host = matches!(what, Selection::Host(_));
        assert_eq!(
            (found, rows),
            (
                expected,
                if is_of_host {
                    expected
                } else {
                    MANY as u64 + 100
                }
            ),
            "{what}"
        );
        assert_eq!(answers, if is_of_host { 1 } else { 2 });
    }
    assert_eq!(
        world.count("waiting") + world.count("in_flight"),
        MANY as u64 + 100
    );
}

/// Goal: other things have their turn. Method: a scheduler that is never free takes a piece now and
/// then.
#[test]
fn a_scheduler_with_other_work_looks_now_and_then() {
    let mut world = world();
    world.tell_pages(A, MANY);
    world.heed(&[drop(1, host(A), false)]);
    let mut page = 0;
    let mut dropped_by = |world: &mut World, messages: usize| {
        let before = world.dropped().len();
        for _ in 0..messages {
            page += 1;
            world.tell(&[format!("{B}/{page}")], &addresses());
        }
        world.dropped().len() - before
    };
    let first = dropped_by(&mut world, 10);
    assert!(first > 0 && first < MANY / 2);
    assert_eq!(dropped_by(&mut world, 10), 0, "no time has passed");
    world.pass(SECOND);
    assert_eq!(dropped_by(&mut world, 10), first);
}

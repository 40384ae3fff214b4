//! What is told for a report: what ended, and who stands out, through crashes, splits and moves.

use super::split_scenarios::HALVES;
use super::web::{Web, pages, response};
use super::world::World;
use crate::core::dispatcher::Input;
use crate::core::scheduler::{Scheduler, TABLES};
use crate::servers::halves::halve;
use crate::settings::tests::{settings, with};
use rhumb_stage::store::{Changes, MemoryStore, Store as _};
use rhumb_stage::{Core as _, Leaders, Reported, Rows, Tallied};
use rhumb_url::{host_of, partition};
use rhumb_wire::message::{FailureKind, Outcome, RequestEnd, ResponseSummary};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const HOSTS: usize = 20;

/// All that a scheduler tells, from its first answer to its last.
fn told(world: &World, core: &Scheduler) -> (Tallied, Leaders) {
    let mut told = core.report(world.now, HOSTS, None).unwrap().unwrap();
    let tallied = told.tallied.take().unwrap();
    let mut leaders = told.leaders;
    let mut answers = 1;
    while let Some(next) = told.next {
        told = core.report(world.now, HOSTS, Some(&next)).unwrap().unwrap();
        leaders.add(std::mem::take(&mut told.leaders), HOSTS);
        assert_eq!(
            (told.tallied.is_none(), told.ran_ms),
            (true, 0),
            "sums are in the first answer"
        );
        answers += 1;
        assert!(answers < 100, "goes on without end");
    }
    (tallied, leaders)
}

/// A web of some good pages, and some that end otherwise.
fn mixed() -> impl Web {
    pages(|_, url| match url.as_bytes().last() {
        Some(b'1') => response(404),
        Some(b'2') => response(403),
        Some(b'3') => RequestEnd::Failure(FailureKind::Timeout),
        Some(b'4') => typed("application/pdf", 5000),
        _ => typed("text/html", 700),
    })
}

fn typed(of: &str, length: u64) -> RequestEnd {
    let mut end = response(200);
    if let RequestEnd::Response(ResponseSummary {
        bytes, media_type, ..
    }) = &mut end
    {
        (*bytes, *media_type) = (length, of.to_owned());
    }
    end
}

/// A world in which servers of all partitions have ten pages each.
fn begun(servers: usize) -> World {
    let mut world = World::new(with(|set| set.politeness.respect_robots = false));
    for server in 0..servers {
        world.tell_pages(&format!("http://s{server}.test"), 10);
    }
    world
}

/// What is told is what the outcomes say.
fn assert_told(world: &World, tallied: &Tallied, leaders: &Leaders) {
    let mut expected = Tallied::default();
    let mut hosts = BTreeMap::new();
    for entry in world.outcomes.values() {
        expected.add_end(entry.outcome.name(), &entry.reason, 1);
        let host: &mut (u64, u64, u64) = hosts.entry(host_of(&entry.url)).or_default();
        match entry.outcome {
            Outcome::Fetched => (host.0, host.1) = (host.0 + 1, host.1 + entry.bytes),
            Outcome::Failed | Outcome::Refused => host.2 += 1,
            _ => {}
        }
        if entry.status != 0 {
            *expected.statuses.entry(entry.status).or_default() += 1;
        }
        if entry.outcome == Outcome::Fetched {
            *expected
                .media_types
                .entry(entry.media_type.clone())
                .or_default() += 1;
        }
    }
    assert_eq!(tallied.ends, expected.ends);
    assert_eq!(tallied.statuses, expected.statuses);
    assert_eq!(tallied.media_types, expected.media_types);
    assert_eq!(
        tallied.depths.iter().sum::<u64>(),
        world.outcomes.len() as u64
    );
    let slots = &tallied.pace.slots;
    let sums = (
        slots.iter().map(|slot| slot.pages).sum::<u64>(),
        slots.iter().map(|slot| slot.bytes).sum::<u64>(),
    );
    let fetched = |of: fn(&(u64, u64, u64)) -> u64| hosts.values().map(of).sum::<u64>();
    assert_eq!(sums, (fetched(|host| host.0), fetched(|host| host.1)));
    assert_eq!(tallied.sizes.iter().sum::<u64>(), sums.0);
    for host in leaders
        .by_pages
        .iter()
        .chain(&leaders.by_bytes)
        .chain(&leaders.by_errors)
    {
        assert_eq!(
            (host.pages, host.bytes, host.errors),
            hosts[host.host.as_str()],
            "{}",
            host.host
        );
    }
    let some = |of: fn(&(u64, u64, u64)) -> u64| {
        hosts
            .values()
            .filter(|host| of(host) > 0)
            .count()
            .min(HOSTS)
    };
    let lengths = [
        leaders.by_pages.len(),
        leaders.by_bytes.len(),
        leaders.by_errors.len(),
    ];
    assert_eq!(
        lengths,
        [
            some(|host| host.0),
            some(|host| host.1),
            some(|host| host.2)
        ]
    );
}

/// Goal: what ended is counted once, whenever the process dies. Method: before each commit of a
/// report, and after it, a crash.
#[test]
fn a_crash_between_two_steps_counts_nothing_twice_and_loses_nothing() {
    let mut world = begun(12);
    let mut web = mixed();
    for round in 0..40 {
        world.run_with(&mut web, 3, Duration::from_millis(700));
        if let Some(mut held) = world.held.first().cloned() {
            let report = held.report(true, false);
            drop(world.step_only(Some(Input::Report(report))));
            world.crash();
        } else if round % 3 == 0 {
            world.crash();
        }
    }
    let (tallied, leaders) = told(&world, &world.core);
    assert!(tallied.counted() > 10);
    assert_told(&world, &tallied, &leaders);
    world.finish(&mut web, HOUR);
    world.crash();
    let (tallied, leaders) = told(&world, &world.core);
    assert_eq!(tallied.counted(), 120);
    assert_told(&world, &tallied, &leaders);
    assert_eq!(
        (
            tallied.media_types["application/pdf"],
            tallied.ends["failed"]["timeout"]
        ),
        (12, 12)
    );
    assert_eq!(
        (leaders.slowest.len(), leaders.slowest[0].response_us),
        (12, 20_000)
    );
}

#[test]
fn a_server_that_does_not_answer_is_told_as_troubled() {
    let mut world = begun(2);
    let mut web = pages(|_, url| match url.starts_with("http://s1.") {
        true => RequestEnd::Failure(FailureKind::Connect),
        false => response(200),
    });
    world.run(&mut web, Duration::from_secs(30));
    let (_, leaders) = told(&world, &world.core);
    let named: Vec<&str> = leaders
        .troubled
        .iter()
        .map(|server| server.server.as_str())
        .collect();
    assert_eq!(named, ["http://s1.test"]);
    assert!(leaders.troubled[0].failures > 0);
    assert_eq!(leaders.slowest[0].server, "http://s0.test");
}

/// Goal: a split changes no sum: what was counted stays with the partition, what ends later is its
/// halves'.
#[test]
fn a_split_keeps_the_sums() {
    let mut world = begun(24);
    let mut web = mixed();
    world.run(&mut web, Duration::from_secs(4));
    let before = told(&world, &world.core);
    assert!(before.0.counted() > 0 && world.count("waiting") > 0);
    world.split(&HALVES);
    assert_eq!(told(&world, &world.core), before);
    world.finish(&mut web, HOUR);
    world.crash();
    let (tallied, leaders) = told(&world, &world.core);
    assert_eq!(tallied.counted(), 240);
    assert_told(&world, &tallied, &leaders);
}

/// Goal: a move changes no sum. Method: the rows of two partitions go to another store, as the loop
/// of the stages carries them.
#[test]
fn a_move_keeps_the_sums() {
    let mut world = begun(24);
    let mut web = mixed();
    world.run(&mut web, Duration::from_secs(4));
    let before = told(&world, &world.core);
    let moved = [1, 3];
    let store = MemoryStore::default();
    let directory = world.settings.directory.clone();
    let rows = Rows {
        store: world.store.clone(),
        tables: TABLES.into(),
        edges: Vec::new(),
        directory,
        halve,
    };
    let mut changes = Changes::default();
    let named = |table: &str| {
        TABLES
            .into_iter()
            .find(|(name, _)| *name == table)
            .unwrap()
            .0
    };
    for partition in moved {
        let mut take = |table: &str, key: &[u8], value: &[u8]| {
            changes.put(named(table), key.to_vec(), value.to_vec());
            Ok(())
        };
        rows.visit(partition, &mut take).unwrap();
    }
    store.commit(&changes).unwrap();
    let open = |store, partitions: &[u16]| {
        Scheduler::open(world.settings.clone(), 0, 2, partitions, store, world.now).unwrap()
    };
    let here = open(world.store.clone(), &[0, 2]);
    let there = open(Arc::new(store), &moved);
    let [(mut tallied, mut leaders), other] = [told(&world, &here), told(&world, &there)];
    let others = moved;
    let hosts = other.1.by_pages.iter().map(|host| partition(&host.host, 4));
    assert!(hosts.collect::<BTreeSet<_>>().is_subset(&others.into()));
    tallied.add(other.0);
    leaders.add(other.1, HOSTS);
    assert_eq!((tallied, leaders), before);
}

#[test]
fn a_scheduler_without_partitions_tells_of_nothing() {
    let world = World::owning(settings(), &[]);
    let told = world.core.report(world.now, HOSTS, None).unwrap().unwrap();
    assert_eq!(
        told,
        Reported {
            tallied: Some(Tallied::default()),
            ..Reported::default()
        }
    );
}

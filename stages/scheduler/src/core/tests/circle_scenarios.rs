//! Groups of hosts, and addresses and groups that several schedulers share; one situation a test.

use super::two::Two;
use super::web::{Fine, addresses};
use super::world::World;
use crate::core::idle::Idle;
use crate::keys::schedulers::Schedulers;
use crate::settings::Settings;
use crate::settings::tests::with;
use rhumb_config::{Group, GroupedBy};
use rhumb_partition::Owners;
use rhumb_stage::Core as _;
use rhumb_url::partition;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn by_domain(jobs_max: u32, delay: Duration) -> Settings {
    let group = Group {
        by: Some(GroupedBy::RegisteredDomain),
        hosts: Vec::new(),
        jobs_max,
        delay,
    };
    with(|set| {
        set.politeness.groups = [group].into();
        set.politeness.respect_robots = false;
    })
}

/// A server of example.test in a partition of that scheduler of two.
pub(super) fn server(scheduler: u16, number: usize) -> String {
    let hosts = (0..).map(|n| format!("h{n}.example.test"));
    let host = hosts
        .filter(|host| partition(host, 4) % 2 == scheduler)
        .nth(number)
        .expect("there are enough");
    format!("http://{host}")
}

/// The jobs of both schedulers that are out.
fn out(two: &Two) -> usize {
    two.worlds
        .iter()
        .map(|world| {
            world
                .held
                .iter()
                .filter(|held| held.lease_end > world.now)
                .count()
        })
        .sum()
}

#[test]
fn a_group_has_so_many_jobs_out_and_others_do_not_wait() {
    let mut world = World::new(by_domain(2, Duration::ZERO));
    for number in 0..4 {
        world.tell_pages(&server(0, number), 2);
    }
    world.tell_pages("http://elsewhere.test", 1);
    world.ask(10);
    assert_eq!(world.held.len(), 3);
    assert_eq!(
        world.core.why_idle(world.now, &server(0, 2)).unwrap(),
        Idle::GroupTaken(0)
    );
    world.crash();
    assert_eq!(
        world.core.why_idle(world.now, &server(0, 2)).unwrap(),
        Idle::GroupTaken(0)
    );
    world.held.clear();
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.count("outcome_fetched_total"), 9);
    assert!(world.claims.is_empty(), "one scheduler asks nobody");
}

#[test]
fn the_delay_of_a_group_holds_between_its_servers_and_across_a_crash() {
    let delay = 7 * SECOND;
    let mut world = World::new(by_domain(3, delay));
    for number in 0..3 {
        world.tell_pages(&server(0, number), 3);
    }
    assert_eq!(
        world.core.why_idle(world.now, &server(0, 0)).unwrap(),
        Idle::GroupDelay(0, delay)
    );
    world.run(&mut Fine, 30 * SECOND);
    world.crash();
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.contacts.len(), 9);
    let is_apart = |pair: &[(rhumb_url::time::Timestamp, String)]| pair[1].0 >= pair[0].0 + delay;
    assert!(
        world.contacts.windows(2).all(is_apart),
        "{:?}",
        world.contacts
    );
}

#[test]
fn two_schedulers_take_turns_and_both_get_on() {
    for (jobs_max, delay) in [(1, Duration::ZERO), (3, Duration::ZERO), (1, 2 * SECOND)] {
        let mut two = Two::new(by_domain(jobs_max, delay));
        for number in 0..3 {
            two.worlds[0].tell_pages(&server(0, number), 30);
            two.worlds[1].tell_pages(&server(1, number), 30);
        }
        for second in 0..1500 {
            for world in &mut two.worlds {
                world.ask(5);
            }
            two.exchange();
            assert!(
                out(&two) <= jobs_max as usize,
                "{second}: {} jobs are out",
                out(&two)
            );
            two.run(&mut Fine, 1);
        }
        assert_eq!(
            two.count("outcome_fetched_total"),
            180,
            "{jobs_max} {delay:?} {:?}",
            two.ledgers
        );
        let mut times: Vec<_> = two
            .worlds
            .iter()
            .flat_map(|world| world.contacts.iter().map(|(at, _)| *at))
            .collect();
        times.sort();
        assert!(
            times.windows(2).all(|pair| pair[1] >= pair[0] + delay),
            "{delay:?}"
        );
        assert!(
            two.ledgers.entries < 400,
            "{} entries for 180 pages",
            two.ledgers.entries
        );
    }
}

/// Goal: the tokens of a scheduler that is gone come free, but not before its jobs must have ended.
/// Method: it dies with a job out, and never comes back.
#[test]
fn the_tokens_of_a_scheduler_that_is_gone_come_free_after_its_leases() {
    let mut two = Two::new(with(|set| {
        set.politeness.connections_per_address = 1;
        set.politeness.respect_robots = false;
    }));
    two.worlds[0].tell(&[format!("{}/0", server(0, 0))], &addresses());
    two.worlds[0].ask(1);
    two.exchange();
    two.worlds[0].ask(1);
    assert_eq!(out(&two), 1);
    let (dead, alive) = two.worlds.split_at_mut(1);
    let dead = &mut dead[0];
    let alive = &mut alive[0];
    dead.held.clear();
    alive.tell(&[format!("{}/0", server(1, 0))], &addresses());
    let ledgers = &mut two.ledgers.texts;
    let mut waited = 0;
    while alive.contacts.is_empty() {
        alive.run(&mut Fine, SECOND);
        waited += 1;
        assert!(waited < 120, "it waits for ever");
        for claim in std::mem::take(&mut alive.claims) {
            let ledger = ledgers.entry(claim.quota.key()).or_default();
            let entered = claim.enter(ledger).unwrap();
            *ledger = entered.text.unwrap_or(std::mem::take(ledger));
            alive.answer(entered.answer);
        }
        alive.errands.clear();
    }
    assert!(
        waited > 52,
        "after {waited} seconds its jobs may still be out"
    );
}

/// Goal: a life that begins after partitions have moved takes nothing while jobs may be out that
/// nobody has entered.
#[test]
fn after_partitions_have_moved_nothing_is_granted_before_a_lease_is_over() {
    let mut owners = Owners::new(4, 1);
    owners.wanted = 2;
    owners.plan(|_| true);
    for (partition, _) in owners.leaving(0) {
        assert!(
            owners.copied(partition, 1, 7, 1)
                && owners.give(partition, 7, 0)
                && owners.take(partition, 1, 1)
        );
    }
    let shared = Settings {
        schedulers: Schedulers::of(&owners, 0),
        ..by_domain(1, Duration::ZERO)
    };
    let mut two = Two::new(by_domain(1, Duration::ZERO));
    for world in &mut two.worlds {
        world.settings = shared.clone();
        world.crash();
    }
    two.worlds[0].tell_pages(&server(0, 0), 1);
    two.run(&mut Fine, 21);
    assert!(two.worlds[0].contacts.is_empty());
    two.run(&mut Fine, 10);
    assert_eq!(two.count("outcome_fetched_total"), 1, "{:?}", two.ledgers);
}

#[test]
fn a_job_of_an_earlier_life_is_renewed_once_the_ledger_knows_it() {
    let mut two = Two::new({
        let mut set = by_domain(1, Duration::ZERO);
        set.scheduler.requests_per_connection = 9;
        set
    });
    two.worlds[0].tell_pages(&server(0, 0), 9);
    two.worlds[0].ask(1);
    two.exchange();
    let world = &mut two.worlds[0];
    world.ask(1);
    assert_eq!(world.held.len(), 1);
    world.crash();
    let renewal = |world: &mut World| {
        world.request(0, &mut Fine);
        let report = world.held[0].report(false, false);
        world.inbox.clear();
        world.step(Some(crate::core::dispatcher::Input::Report(report)));
        std::mem::take(&mut world.inbox).len()
    };
    assert_eq!(renewal(world), 0, "not yet");
    let claims = std::mem::take(&mut world.claims);
    assert!(
        matches!(claims.as_slice(), [claim] if claim.in_use == 1),
        "{claims:?}"
    );
    let answer = two.ledgers.enter(&claims[0]);
    two.worlds[0].answer(answer);
    two.worlds[0].pass(2 * SECOND);
    assert_eq!(renewal(&mut two.worlds[0]), 1);
}

#[test]
fn a_circle_in_which_nothing_is_left_to_do_leaves_memory() {
    let mut two = Two::new(by_domain(1, Duration::ZERO));
    two.worlds[0].tell_pages(&server(0, 0), 2);
    two.run(&mut Fine, 120);
    assert_eq!(two.count("outcome_fetched_total"), 2);
    assert!(two.worlds[0].core.wake_at().is_none() && two.worlds[0].core.places.circles.is_empty());
    // What the ledger still says is given back when it is called for.
    two.worlds[1].tell_pages(&server(1, 0), 2);
    two.run(&mut Fine, 10);
    assert_eq!(two.count("outcome_fetched_total"), 4, "{:?}", two.ledgers);
}

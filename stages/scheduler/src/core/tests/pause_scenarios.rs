//! Pauses: what operators want to be left alone, one situation a test.

use super::web::Fine;
use super::world::World;
use crate::core::dispatcher::Input;
use crate::core::idle::Idle;
use crate::settings::tests::with;
use rhumb_config::orders::{Author, Orders, Pause, Target};
use rhumb_stage::Core as _;
use rhumb_wire::message::{JobId, ToFetcher};
use std::time::Duration;

const A: &str = "http://a.one.test";
const B: &str = "http://b.one.test";
const C: &str = "http://c.two.test";
const HOUR: Duration = Duration::from_secs(3600);

fn world() -> World {
    let mut world = World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.scheduler.requests_per_connection = 2;
    }));
    for server in [A, B, C] {
        world.tell_pages(server, 4);
    }
    world
}

fn host(server: &str) -> Target {
    Target::Host(rhumb_url::host_of(server).to_owned())
}

/// The orders hold from the step on that follows at once.
pub(super) fn order(world: &mut World, paused: &[Target]) {
    let mut orders = Orders::default();
    for what in paused {
        orders.pause(Pause {
            what: what.clone(),
            author: Author {
                by: "anna".into(),
                since_s: 0,
                note: "asked".into(),
            },
        });
    }
    world.core.orders(&orders);
    assert!(
        world.core.wake_at().is_some_and(|at| at <= world.now),
        "the step follows at once"
    );
    world.step(None);
}

/// Jobs that fetchers were told to stop.
fn revoked(world: &mut World) -> Vec<JobId> {
    let jobs = world.inbox.iter().filter_map(|message| match message {
        ToFetcher::Revoked { job } => Some(*job),
        _ => None,
    });
    let jobs = jobs.collect();
    world.inbox.clear();
    jobs
}

fn servers_held(world: &World) -> Vec<String> {
    let mut servers: Vec<_> = world
        .held
        .iter()
        .map(|held| held.job.server.clone())
        .collect();
    servers.sort();
    servers
}

#[test]
fn a_paused_host_or_domain_gets_no_job_and_goes_on_where_it_was() {
    for (target, others) in [
        (host(A), vec![B, C]),
        (Target::Domain("one.test".into()), vec![C]),
        (Target::Crawl, vec![]),
    ] {
        let mut world = world();
        order(&mut world, std::slice::from_ref(&target));
        world.ask(8);
        assert_eq!(servers_held(&world), others, "{target}");
        world.run(&mut Fine, HOUR);
        assert!(
            world
                .contacted()
                .iter()
                .all(|url| others.iter().any(|other| url.starts_with(other))),
            "{target}"
        );
        let ended = 4 * others.len() as u64;
        assert_eq!(
            (world.count("waiting"), world.count("in_flight")),
            (12 - ended, 0),
            "{target}"
        );
        let waiting = world.count("servers_waiting_pause");
        assert_eq!(
            (waiting, world.count("servers_ready")),
            (3 - others.len() as u64, 0),
            "{target}"
        );
        order(&mut world, &[]);
        world.finish(&mut Fine, HOUR);
        assert_eq!(world.outcomes.len(), 12, "{target}");
    }
}

#[test]
fn a_job_that_is_out_is_told_to_stop_and_costs_its_urls_nothing() {
    for target in [host(A), Target::Crawl] {
        let mut world = world();
        world.ask(3);
        assert_eq!(world.held.len(), 3);
        let of_a = world
            .held
            .iter()
            .find(|held| held.job.server == A)
            .unwrap()
            .job
            .id;
        order(&mut world, std::slice::from_ref(&target));
        let stopped = revoked(&mut world);
        assert!(stopped.contains(&of_a));
        assert_eq!(stopped.len(), if target == Target::Crawl { 3 } else { 1 });
        for mut held in std::mem::take(&mut world.held) {
            let report = held.report(true, false);
            world.step(Some(Input::Report(report)));
        }
        assert_eq!((world.count("in_flight"), world.count("waiting")), (0, 12));
        order(&mut world, &[]);
        world.finish(&mut Fine, HOUR);
        assert!(world.outcomes.values().all(|entry| entry.attempts == 1));
    }
}

#[test]
fn a_job_that_did_not_hear_is_told_again_when_it_reports_and_its_end_without_a_report_costs_nothing()
 {
    let mut world = world();
    world.ask(3);
    order(&mut world, &[host(A)]);
    world.inbox.clear();
    let at = world
        .held
        .iter()
        .position(|held| held.job.server == A)
        .unwrap();
    let job = world.held[at].job.id;
    let report = world.held[at].report(false, false);
    world.step(Some(Input::Report(report)));
    assert_eq!(revoked(&mut world), [job]);
    // Its fetcher is gone.
    world.held.remove(at);
    world.finish_others(A);
    assert_eq!(world.count("leases_expired_total"), 1);
    order(&mut world, &[]);
    world.finish(&mut Fine, HOUR);
    assert!(world.outcomes.values().all(|entry| entry.attempts == 1));
}

/// The fetcher of a job from an earlier life is not known: all that ask are told.
#[test]
fn orders_hold_in_the_next_life_of_a_scheduler_for_jobs_of_the_last_one_too() {
    let mut world = world();
    world.ask(3);
    let job = world
        .held
        .iter()
        .find(|held| held.job.server == A)
        .unwrap()
        .job
        .id;
    world.crash();
    world.ask(0);
    order(&mut world, &[host(A)]);
    assert_eq!(revoked(&mut world), [job]);
    world.held.retain(|held| held.job.id != job);
    world.finish_others(A);
    assert_eq!(world.count("waiting"), 4);
    assert!(world.contacted().iter().all(|url| !url.starts_with(A)));
}

#[test]
fn an_operator_is_told_which_order_holds() {
    let mut world = world();
    order(&mut world, &[host(A), Target::Domain("two.test".into())]);
    let why = |world: &World, server: &str| world.core.why_idle(world.now, server).unwrap();
    let said = |what: &str| {
        Idle::Paused(format!(
            "{what} is paused by anna since 1970-01-01T00:00:00Z: asked"
        ))
    };
    assert_eq!(why(&world, A), said("host a.one.test"));
    assert_eq!(why(&world, C), said("domain two.test"));
    assert!(matches!(why(&world, B), Idle::Ready { .. }));
    assert_eq!((world.count("pauses"), world.count("crawl_paused")), (2, 0));
    order(&mut world, &[Target::Crawl]);
    assert_eq!(why(&world, B), said("the crawl"));
    assert_eq!((world.count("pauses"), world.count("crawl_paused")), (1, 1));
}

impl World {
    /// Runs until every server but this one has nothing left.
    fn finish_others(&mut self, paused: &str) {
        self.run(&mut Fine, HOUR);
        let left: Vec<_> = self
            .told
            .keys()
            .filter(|url| !self.outcomes.contains_key(*url))
            .collect();
        assert!(left.iter().all(|url| url.starts_with(paused)), "{left:?}");
    }
}

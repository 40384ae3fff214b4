//! Partitions that were split: what comes late, what was granted before, and what each half begins
//! with.

use super::recrawl_scenarios::recrawled;
use super::web::{Fine, addresses};
use super::world::World;
use crate::core::dispatcher::Input;
use crate::ranking::topics::tests::topics;
use crate::servers::halves::halve;
use crate::servers::server::Server;
use crate::settings::Settings;
use crate::settings::tests::settings;
use rhumb_config::RecrawlPolicy;
use rhumb_config::orders::{Author, DropOrder, Orders, Selection};
use rhumb_partition::Owners;
use rhumb_stage::Core as _;
use rhumb_stage::store::{Changes, Store as _};
use rhumb_url::{host_hash, host_of, partition};
use rhumb_wire::message::{
    DatedPage, Edge, Errand, JobId, PageSignal, PageSignals, ReadyUrls, Report, decode,
};
use rhumb_wire::topology::StageName;
use rhumb_wire::topology::Token;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const HOME: u16 = 2;
pub(super) const HALVES: [u16; 2] = [4, 5];

/// Servers of the partition that is split, by the half that will have them.
fn servers(half: usize) -> impl Iterator<Item = String> {
    let of_home = (0..)
        .map(|n| format!("s{n}.test"))
        .filter(|host| partition(host, 4) == HOME);
    of_home
        .filter(move |host| partition(host, 8) == HOME * 2 + half as u16)
        .map(|host| format!("http://{host}"))
}

/// Ten pages of two servers of each half.
fn pages() -> Vec<String> {
    let servers: Vec<String> = servers(0).take(2).chain(servers(1).take(2)).collect();
    servers
        .iter()
        .flat_map(|server| (0..10).map(move |page| format!("{server}/{page}")))
        .collect()
}

impl World {
    /// The rows of a partition are halved, and the next life begins with the halves, or with one of
    /// them.
    pub(super) fn split(&mut self, halves: &[u16]) {
        let mut owners = Owners::new(4, 1);
        owners.split(HOME).unwrap();
        let mut changes = Changes::default();
        assert_eq!(
            halve(self.store.as_ref(), &owners.splits()[0], &mut changes).unwrap(),
            0
        );
        self.store.commit(&changes).unwrap();
        self.settings.directory = owners.directory();
        self.owned.extend(halves);
        self.crash();
    }

    /// New = ended + waiting + in flight, in each partition by itself.
    fn assert_each_conserves(&mut self) {
        for partition in self.owned.clone() {
            let of = |server: &&Server| {
                self.settings
                    .directory
                    .partition_of(host_hash(host_of(&server.name)))
                    == partition
            };
            let loads = self.core.servers.all().filter(of).map(Server::load);
            let not_ended: u64 = loads.map(|load| load.waiting + load.in_flight).sum();
            let counts = self
                .core
                .servers
                .partition(partition)
                .unwrap()
                .counts
                .clone();
            assert_eq!(
                counts.new + counts.visits_out(),
                counts.left() + not_ended,
                "P3 in partition {partition}"
            );
        }
    }
}

/// A world in which each partition has URLs of two topics.
fn two_topics() -> World {
    let mut world = World::new(Settings {
        topics: topics(&[(0, 1000)]),
        ..settings()
    });
    world.topics = ["default", "t1"].map(str::to_owned).into();
    world
}

/// Goal: planned visits are their halves', and end there; no other page is lost from its visits.
/// Method: some are in flight when the partition is split, and some wait.
#[test]
fn visits_that_were_planned_before_a_split_end_in_its_halves() {
    let mut world = World::new(recrawled(RecrawlPolicy::Uniform, 40));
    world.topics = ["default", "t1"].map(str::to_owned).into();
    world.tell(&pages(), &addresses());
    world.run(&mut Fine, Duration::from_secs(10));
    world.run_with(&mut Fine, 0, Duration::from_secs(2));
    assert!(world.count("visits_out") > 4);
    let part = world.core.servers.part();
    world.split(&HALVES);
    assert_eq!(world.core.servers.part(), part, "budgets are shared by it");
    world.assert_each_conserves();
    let before = world.visits.len();
    world.run(&mut Fine, Duration::from_secs(20));
    world.assert_each_conserves();
    let mut visited: Vec<&str> = world.visits[before..]
        .iter()
        .map(|visit| visit.url.as_str())
        .collect();
    visited.sort_unstable();
    visited.dedup();
    assert_eq!(visited.len(), pages().len());
}

/// Dedup's table, when it has numbered so many URLs within the partition.
fn dedups(last_serial: u64) -> Owners {
    let mut owners = Owners::new(4, 1);
    owners.split(HOME).unwrap();
    assert!(owners.halve(HOME, 0, last_serial));
    owners
}

/// Goal: nothing is lost or taken on twice when a partition splits while its URLs wait, are in
/// flight, and on their way.
#[test]
fn what_comes_late_for_a_partition_that_was_split_is_its_halves_and_counts_once() {
    let mut world = two_topics();
    let pages = pages();
    let late = world.batch(&pages[..20], Some(&addresses()));
    let early = world.batch(&pages[20..], Some(&addresses()));
    world.step(Some(Input::Ready(early.clone())));
    let few: Vec<String> = servers(0)
        .skip(2)
        .take(1)
        .map(|server| format!("{server}/ended"))
        .collect();
    world.tell(&few, &addresses());
    world.run(&mut Fine, Duration::from_secs(5));
    let not_ended = world.count("waiting") + world.count("in_flight");
    assert!(
        !world.outcomes.is_empty() && not_ended > 0,
        "some have ended, some have not"
    );
    let ended = world.outcomes.len() as u64;
    world.split(&HALVES);
    world.assert_each_conserves();
    assert_eq!(
        world.core.servers.partition(HOME).unwrap().counts.new,
        ended,
        "the partition keeps what has ended"
    );

    assert!(!world.core.has_all(HOME), "dedup has not split it yet");
    world.core.owners(StageName::Dedup, &dedups(41));
    assert!(!world.core.has_all(HOME) && !world.core.has_all(HALVES[0]));
    world.step(Some(Input::Ready(early)));
    assert_eq!(
        (
            world.count("serials_repeated_total"),
            world.count("new_total")
        ),
        (20, 21)
    );
    for repeated in [20, 40] {
        world.step(Some(Input::Ready(late.clone())));
        assert_eq!(
            (
                world.count("serials_repeated_total"),
                world.count("new_total")
            ),
            (repeated, 41)
        );
        world.assert_each_conserves();
    }
    assert!(world.core.has_all(HOME));
    world.crash();
    world.core.owners(StageName::Dedup, &dedups(41));
    assert!(world.core.has_all(HOME), "that is stored");
    world.assert_each_conserves();
    world.finish(&mut Fine, HOUR);
    assert_eq!(
        (
            world.outcomes.len(),
            world.count("malformed_total"),
            world.count("foreign_total")
        ),
        (41, 0, 0)
    );
}

#[test]
fn serials_of_a_half_are_its_own() {
    let mut world = two_topics();
    let pages = pages();
    let batch = world.batch(&pages[..1], Some(&addresses()));
    world.split(&HALVES);
    // The same number, within the half: another URL.
    let mut of_half = world.batch(&pages[1..2], Some(&addresses()));
    (of_half.partition, of_half.serials) = (HALVES[0], batch.serials.clone());
    world.step(Some(Input::Ready(batch)));
    world.step(Some(Input::Ready(of_half)));
    assert_eq!(
        (
            world.count("new_total"),
            world.count("serials_repeated_total")
        ),
        (2, 0)
    );
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.outcomes.len(), 2);
}

#[test]
fn a_job_that_was_granted_before_a_split_is_reported_after_it() {
    let mut world = two_topics();
    let pages = pages();
    world.tell(&pages[..10], &addresses());
    world.run(&mut Fine, Duration::from_millis(1500));
    world.ask(3);
    assert!(world.count("in_flight") > 0 && !world.held.is_empty());
    world.split(&HALVES);
    world.assert_each_conserves();
    world.finish(&mut Fine, HOUR);
    assert_eq!(
        (
            world.outcomes.len(),
            world.count("foreign_total"),
            world.count("malformed_total")
        ),
        (10, 0, 0)
    );
}

/// Goal: of two hosts of a partition that was split one is here still, and what is learned of pages
/// of the other goes to whoever has it.
#[test]
fn signals_for_a_half_that_has_moved_on_are_passed_on() {
    let mut world = World::owning(settings(), &[HOME]);
    world.split(&HALVES[..1]);
    let signal = |server: &str| PageSignal {
        host: host_hash(host_of(server)),
        ..PageSignal::default()
    };
    let dated = |server: &str| DatedPage {
        host: host_hash(host_of(server)),
        ..DatedPage::default()
    };
    let here = servers(0).next().unwrap();
    let there = servers(1).next().unwrap();
    let out = world.step_only(Some(Input::Signals(PageSignals {
        partition: HOME,
        pages: vec![signal(&here), signal(&there)],
        dated: vec![dated(&there), dated(&here)],
    })));
    assert_eq!(out.publishes.len(), 1);
    assert_eq!(out.publishes[0].token, Token::Partition(HALVES[1]));
    assert_eq!(
        decode::<PageSignals>(&out.publishes[0].payload).unwrap(),
        PageSignals {
            partition: HALVES[1],
            pages: vec![signal(&there)],
            dated: vec![dated(&there)],
        }
    );
}

#[test]
fn what_comes_for_a_half_that_has_moved_on_is_passed_on() {
    let mut world = World::owning(settings(), &[HOME]);
    world.split(&HALVES[..1]);
    let there = servers(1).next().unwrap();
    let job = JobId {
        scheduler: 3,
        epoch: 1,
        number: 7,
    };
    let report = Report {
        job,
        fetcher: "fetcher-0".into(),
        partition: HOME,
        server: there.clone(),
        sequence: 1,
        last: true,
        ..Report::default()
    };
    let out = world.step_only(Some(Input::Report(report.clone())));
    assert_eq!(out.publishes[0].token, Token::Partition(HALVES[1]));
    let passed_on: Report = decode(&out.publishes[0].payload).unwrap();
    assert_eq!(
        passed_on,
        Report {
            partition: HALVES[1],
            ..report
        }
    );
    let errand = Errand::Wanted {
        url: format!("{there}/robots.txt"),
        server: "http://a.test".into(),
    };
    let out = world.step_only(Some(Input::Errand(errand.clone())));
    assert_eq!(
        (out.sends[0].edge, &out.sends[0].token),
        (Edge::Errands, &Token::Partition(HALVES[1]))
    );
    assert_eq!(decode::<Errand>(&out.sends[0].payload).unwrap(), errand);
    // An address that was asked for before: whoever has the half asks again.
    let found = world.batch(&[format!("{there}/1")], Some(&addresses()));
    world.step(Some(Input::Ready(ReadyUrls {
        partition: HOME,
        servers: found.servers,
        ..ReadyUrls::default()
    })));
    assert_eq!(
        (
            world.count("foreign_total"),
            world.count("malformed_total"),
            world.count("servers")
        ),
        (0, 0, 0)
    );
}

/// Goal: an order to drop is carried out once at what a partition had, also when its halves have
/// it; what is found later is fetched.
#[test]
fn what_was_dropped_before_a_split_is_not_looked_for_again_and_what_was_not_is() {
    let mut world = two_topics();
    let pages = pages();
    let batch = world.batch(&pages, Some(&addresses()));
    world.step(Some(Input::Ready(batch)));
    let order = |id, server: &str| DropOrder {
        id,
        what: Selection::Host(host_of(server).to_owned()),
        and_later: false,
        author: Author::default(),
    };
    let heed = |world: &mut World, drops: Vec<DropOrder>| {
        world.core.orders(&Orders {
            drops,
            ..Orders::default()
        })
    };
    let one = servers(0).next().unwrap();
    let two = servers(1).next().unwrap();
    heed(&mut world, vec![order(1, &one)]);
    world.step_on();
    assert_eq!(world.dropped().len(), 10);
    world.split(&HALVES);
    heed(&mut world, vec![order(1, &one), order(2, &two)]);
    let mut later = world.batch(&[format!("{one}/later")], Some(&addresses()));
    (later.partition, later.serials) = (HALVES[0], vec![1]);
    world.step(Some(Input::Ready(later)));
    world.step_on();
    let progress = [1, 2].map(|id| world.core.drop_progress(id).unwrap());
    assert_eq!(
        progress.map(|of| (of.dropped, of.is_done)),
        [(10, true), (10, true)]
    );
    world.assert_each_conserves();
    world.finish(&mut Fine, HOUR);
    assert_eq!(
        (world.dropped().len(), world.outcomes.len()),
        (20, 41),
        "P3"
    );
}

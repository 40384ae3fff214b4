//! Random interleavings of everything that can happen; P1 to P3 and budgets hold after every step,
//! and every URL ends.

use super::fetching::Held;
use super::twin::Twin;
use super::web::{Web, addresses, drawn, redirect, response, robots};
use super::world::World;
use crate::core::dispatcher::Input;
use crate::ranking::quality::Provider;
use crate::ranking::topics::Topics;
use crate::ranking::topics::tests::topics;
use crate::settings::Settings;
use crate::settings::tests::with;
use proptest::prelude::*;
use rhumb_config::Policy;
use rhumb_url::time::Timestamp;
use rhumb_url::{fingerprint, host_hash, host_of, partition, server_of};
use rhumb_wire::message::{
    Boost, Boosts, Errand, FailureKind, Quality, ReadyUrls, Report, RequestEnd, Resolution,
    ResponseSummary, RobotsResponse,
};
use std::time::Duration;

/// A web in which every answer depends on the URL and on how often it was asked.
#[derive(Default)]
struct Wild {
    asked: u64,
}

impl Wild {
    fn dice(&mut self, url: &str) -> u64 {
        self.asked += 1;
        fingerprint(&format!("{url} {}", self.asked))
    }
}

impl Web for Wild {
    fn page(&mut self, _: Timestamp, url: &str) -> RequestEnd {
        match self.dice(url) % 16 {
            0 => response(500),
            1 => RequestEnd::Response(ResponseSummary {
                status: 503,
                elapsed_us: 9,
                retry_after_s: Some(5),
                ..ResponseSummary::default()
            }),
            2 => RequestEnd::Failure(FailureKind::Connect),
            3 => RequestEnd::Failure(FailureKind::Reset),
            4 => RequestEnd::Failure(FailureKind::Timeout),
            5 => response(404),
            6 => response(301),
            7 => RequestEnd::Failure(FailureKind::Forbidden),
            8 => response(429),
            9 => RequestEnd::Response(ResponseSummary {
                status: 200,
                bytes: 1,
                elapsed_us: 3_000_000,
                ..ResponseSummary::default()
            }),
            _ => response(200),
        }
    }

    fn robots(&mut self, _: Timestamp, url: &str) -> Result<RobotsResponse, FailureKind> {
        let dice = self.dice(url);
        match dice % 9 {
            0 => robots(500, ""),
            1 => redirect("/other"),
            2 => redirect(&format!("{}/robots.txt", server_name((dice % 7) as u8))),
            3 => Err(FailureKind::Connect),
            4 => Err(FailureKind::Timeout),
            5 => robots(200, "User-agent: *\nDisallow: /1\nCrawl-delay: 2\n"),
            _ => robots(404, ""),
        }
    }

    fn resolve(&mut self, server: &str) -> Option<Resolution> {
        match self.dice(server) % 6 {
            0 => None,
            1 => Some(Resolution::Temporary),
            2 => Some(Resolution::NoAddress),
            _ => Some(addresses()),
        }
    }

    fn requests_per_connection(&self) -> usize {
        3
    }
}

#[derive(Clone, Debug)]
enum Happening {
    /// New URLs of a server come.
    New {
        server: u8,
        urls: u8,
        resolution: u8,
    },
    /// A batch comes again.
    Again(prop::sample::Index),
    Ask(u8),
    /// A fetcher makes requests of a job; then it reports, or says nothing yet.
    Work {
        job: prop::sample::Index,
        requests: u8,
        report: bool,
    },
    /// A fetcher ends a job.
    End(prop::sample::Index),
    /// A fetcher forgets a job.
    Die(prop::sample::Index),
    /// A report that is on the way arrives; maybe it will once more.
    Arrive {
        report: prop::sample::Index,
        keep: bool,
    },
    /// Later links add to a URL that was told, or to one that was not.
    Boost {
        url: prop::sample::Index,
        worth: f32,
    },
    Answer,
    Errands,
    Pass(u16),
    Wake,
    Crash,
    /// A step is made, and the process dies before its commit.
    CrashInStep(u8),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let index = any::<prop::sample::Index>;
    let one = prop_oneof![
        5 => (0u8..7, 1u8..12, 0u8..10).prop_map(|(server, urls, resolution)| Happening::New { server, urls, resolution }),
        1 => index().prop_map(Happening::Again),
        6 => (0u8..5).prop_map(Happening::Ask),
        8 => (index(), 1u8..4, any::<bool>()).prop_map(|(job, requests, report)| Happening::Work { job, requests, report }),
        5 => index().prop_map(Happening::End),
        1 => index().prop_map(Happening::Die),
        12 => (index(), any::<bool>()).prop_map(|(report, keep)| Happening::Arrive { report, keep }),
        4 => (index(), 0f32..9.0).prop_map(|(url, worth)| Happening::Boost { url, worth }),
        3 => Just(Happening::Answer),
        2 => Just(Happening::Errands),
        8 => (0u16..30_000).prop_map(Happening::Pass),
        4 => Just(Happening::Wake),
        1 => Just(Happening::Crash),
        1 => (0u8..7).prop_map(Happening::CrashInStep),
    ];
    proptest::collection::vec(one, 1..150)
}

/// What is on the way in the random world.
#[derive(Default)]
struct Way {
    reports: Vec<Report>,
    batches: Vec<ReadyUrls>,
    pages: u64,
    crashes: usize,
}

/// A server; two of them are one host.
fn server_name(server: u8) -> String {
    let scheme = ["http", "https"][usize::from(server % 2)];
    format!("{scheme}://s{}.test", server / 2)
}

fn resolution(kind: u8) -> Option<Resolution> {
    Some(match kind {
        0 => Resolution::NoAddress,
        1 => Resolution::Temporary,
        2 => Resolution::Addresses {
            addresses: vec!["192.0.2.9".parse().unwrap()],
            ttl_s: 60,
        },
        3 => return None,
        _ => addresses(),
    })
}

impl Way {
    fn batch(&mut self, world: &mut World, server: u8, urls: u8, kind: u8) -> ReadyUrls {
        let urls: Vec<_> = (0..urls)
            .map(|_| {
                self.pages += 1;
                format!("{}/{}", server_name(server), self.pages)
            })
            .collect();
        let batch = world.batch(&urls, resolution(kind).as_ref());
        self.batches.push(batch.clone());
        batch
    }

    fn happen(&mut self, world: &mut World, web: &mut Wild, what: Happening) {
        match what {
            Happening::New {
                server,
                urls,
                resolution,
            } => {
                let batch = self.batch(world, server, urls, resolution);
                world.step(Some(Input::Ready(batch)));
            }
            Happening::Again(index) if !self.batches.is_empty() => {
                let batch = index.get(&self.batches).clone();
                world.step(Some(Input::Ready(batch)));
            }
            Happening::Ask(free) => world.ask(u32::from(free)),
            Happening::Work {
                job,
                requests,
                report,
            } if !world.held.is_empty() => {
                let index = job.index(world.held.len());
                self.work(world, web, index, requests, report);
            }
            Happening::End(index) if !world.held.is_empty() => {
                let mut held = world.held.remove(index.index(world.held.len()));
                self.reports.push(held.report(true, held.served == 3));
            }
            Happening::Die(index) if !world.held.is_empty() => {
                world.held.remove(index.index(world.held.len()));
            }
            Happening::Arrive { report, keep } if !self.reports.is_empty() => {
                let index = report.index(self.reports.len());
                let report = if keep {
                    self.reports[index].clone()
                } else {
                    self.reports.remove(index)
                };
                world.step(Some(Input::Report(report)));
                world.receive();
            }
            Happening::Boost { url, worth } => boost(world, url, worth),
            Happening::Answer => answer_refresh(world, web),
            Happening::Errands => answer_errands(world, web),
            Happening::Pass(millis) => world.pass(Duration::from_millis(u64::from(millis))),
            Happening::Wake => {
                world.step(None);
                world.receive();
            }
            Happening::Crash => self.crash(world),
            Happening::CrashInStep(server) => {
                let batch = self.batch(world, server, 3, 9);
                let _ = world.step_only(Some(Input::Ready(batch.clone())));
                self.crash(world);
                world.step(Some(Input::Ready(batch)));
            }
            _ => {}
        }
        world.receive();
        self.reports.extend(
            world
                .revoked
                .drain(..)
                .map(|mut held| held.report(true, false)),
        );
    }

    /// The process dies. The next one has other topics: they were added, changed or removed.
    fn crash(&mut self, world: &mut World) {
        self.crashes += 1;
        world.settings.topics = topics_of(self.crashes);
        world.crash();
    }

    /// Requests of a job, as its fetcher may make them: within its lease, with its gap between.
    fn work(
        &mut self,
        world: &mut World,
        web: &mut Wild,
        index: usize,
        requests: u8,
        report: bool,
    ) {
        for _ in 0..requests {
            let Held {
                job,
                next,
                at,
                lease_end,
                ..
            } = &world.held[index];
            let at = world.now.max(*at);
            if at >= *lease_end || *next >= job.requests.len() {
                break;
            }
            world.now = at;
            if !world.request(index, web) {
                let mut held = world.held.remove(index);
                self.reports.push(held.report(true, held.served == 3));
                return;
            }
        }
        if report {
            self.reports.push(world.held[index].report(false, false));
        }
    }
}

/// The resolver answers the request for addresses that has waited for longest.
fn answer_refresh(world: &mut World, web: &mut Wild) {
    let Some(refresh) = world.refreshes.pop_front() else {
        return;
    };
    let mut answer = ReadyUrls {
        partition: refresh.partition,
        refresh: refresh.number,
        ..ReadyUrls::default()
    };
    for server in refresh.servers {
        if let resolution @ Some(_) = web.resolve(&server) {
            answer
                .servers
                .push(rhumb_wire::message::ServerResolution { server, resolution });
        }
    }
    world.step(Some(Input::Ready(answer)));
}

/// Later links add to a URL, maybe one that ended or was never told.
fn boost(world: &mut World, url: prop::sample::Index, worth: f32) {
    let at = url.index(world.told.len() + 1);
    let url = world
        .told
        .keys()
        .nth(at)
        .map_or("http://s0.test/never", String::as_str);
    let boost = Boost {
        host: host_hash(host_of(url)),
        url: fingerprint(url),
        worth: Quality::new(worth).unwrap_or_default(),
        is_cash: worth < 4.5,
    };
    let boosts = Boosts {
        boosts: vec![boost],
        ..Boosts::default()
    };
    world.step(Some(Input::Boosts(boosts)));
}

/// The schedulers of other partitions answer what they were asked.
fn answer_errands(world: &mut World, web: &mut Wild) {
    for (_, errand) in std::mem::take(&mut world.errands) {
        if let Errand::Wanted { url, server } = errand {
            let response = web.robots(world.now, &url).ok();
            world.step(Some(Input::Errand(Errand::Found { server, response })));
        }
    }
}

/// The topics of a life of the scheduler.
fn topics_of(life: usize) -> Topics {
    let lives: [&[(u8, u64)]; 4] = [
        &[(0, 1000), (9, 1000)],
        &[],
        &[(3, 10), (3, 60_000), (3, 500)],
        &[(0, 1000)],
    ];
    topics(lives[life % lives.len()])
}

fn wild_settings(
    pages_per_host: u64,
    connections_per_address: u32,
    policy: Policy,
    quality: Provider,
) -> Settings {
    with(|set| {
        set.scheduler.policy = policy;
        set.quality = quality.into();
        set.scheduler.requests_per_connection = 6;
        set.scheduler.attempts = 3;
        set.scheduler.server_failures_max = 3;
        set.scheduler.retry_wait = Duration::from_secs(10);
        set.scheduler.retry_wait_max = Duration::from_secs(60);
        set.limits.pages_per_host = pages_per_host;
        set.politeness.connections_per_address = connections_per_address;
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Goal: whatever happens in whatever order, with messages lost, repeated and late, and with
    /// fetchers and the scheduler dying at any point, P1, P2, P3 and budgets hold after every step,
    /// and in the end each URL has exactly one outcome; and batches of steps come to the same as
    /// single ones. Method: a random run, then one in which all behave; a twin that commits
    /// several steps together.
    #[test]
    fn promises_hold_whatever_happens(
        happenings in happenings(),
        some_owned: bool,
        pages_per_host in prop::sample::select(vec![0u64, 1, 4, 20]),
        connections_per_address in 0u32..3,
        life in 0usize..4,
        policy in prop::sample::select(vec![Policy::BreadthFirst, Policy::Performance, Policy::Quality, Policy::Capacity]),
        quality in prop::sample::select(vec![Provider::Drawn(drawn), Provider::Links, Provider::Opic]),
        batches in prop::collection::vec(1usize..20, 1..8),
    ) {
        let owned: &[u16] = if some_owned { &[0, 1, 2, 3] } else { &[1, 2, 3] };
        let mut settings = wild_settings(pages_per_host, connections_per_address, policy, quality);
        settings.topics = topics_of(life);
        let mut world = World::owning(settings, owned);
        world.twin = Some(Twin::of(world.settings.clone(), owned, batches, world.now));
        let mut way = Way { crashes: life, ..Way::default() };
        let mut web = Wild::default();
        world.topics = ["default", "t1", "t2", "t3"].map(str::to_owned).into();
        for what in happenings {
            if let Happening::New { server, .. } | Happening::CrashInStep(server) = &what
                && !owned.contains(&partition(host_of(&server_name(*server)), 4))
            {
                continue;
            }
            way.happen(&mut world, &mut web, what);
        }
        // Jobs that the fetcher forgot are in nobody's hands. What is on the way arrives.
        for report in std::mem::take(&mut way.reports) {
            world.step(Some(Input::Report(report)));
            world.receive();
        }
        // So do the answers to errands.
        let end = world.now + Duration::from_secs(48 * 3600);
        while world.count("waiting") + world.count("in_flight") > 0 && world.now < end {
            way.happen(&mut world, &mut web, Happening::Errands);
            world.run(&mut web, Duration::from_secs(300));
        }
        world.finish(&mut web, Duration::ZERO);
        prop_assert_eq!(world.outcomes.len(), world.told.len());
        for url in world.told.keys() {
            prop_assert!(world.outcomes.contains_key(url), "{} of {} is lost", url, server_of(url));
        }
    }
}

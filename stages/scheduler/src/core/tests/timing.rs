//! The time that a URL takes, from its arrival to its outcome. Run by hand, in a release build.

use super::web::{addresses, origin, response, robots, robots_txt};
use super::world::World;
use crate::core::scheduler::Scheduler;
use crate::settings::tests::with;
use rhumb_config::Bytes;
use rhumb_partition::Directory;
use rhumb_stage::store::{MemoryStore, Store};
use rhumb_stage::{Core as _, Event, Output, Ticket};
use rhumb_url::time::Timestamp;
use rhumb_url::{host_hash, partition};
use rhumb_wire::message::{
    Ask, Edge, Origin, ReadyUrls, Report, RequestResult, ServerResolution, ToFetcher, decode,
    encode,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SERVERS: usize = 200;
const PAGES: usize = 500;
/// Few, so that batches are full.
const PARTITIONS: u16 = 16;

/// Steps and commits. The time in the core and the time in the store are summed up apart.
struct Bench {
    core: Scheduler,
    store: Arc<dyn Store>,
    now: Timestamp,
    core_time: Duration,
    commit_time: Duration,
    steps: u64,
    jobs: Vec<rhumb_wire::message::Job>,
    topics: usize,
    by: By,
}

/// How URLs belong to topics.
#[derive(Clone, Copy)]
enum By {
    /// All of a server to one.
    Server,
    /// Those of each server to all.
    Page,
}

impl Bench {
    fn step(&mut self, edge: Edge, payload: &[u8]) {
        self.now = self.now + Duration::from_micros(10);
        let start = Instant::now();
        let input = Scheduler::decode(edge, payload).unwrap();
        let mut out = Output::default();
        self.core
            .step(
                self.now,
                Event::Message {
                    ticket: Ticket(self.steps),
                    input,
                },
                &mut out,
            )
            .unwrap();
        let stepped = Instant::now();
        self.store.commit(&out.changes).unwrap();
        self.commit_time += stepped.elapsed();
        self.core_time += stepped - start;
        self.steps += 1;
        for send in out.sends {
            if let Ok(ToFetcher::Job(job)) = decode(&send.payload) {
                self.jobs.push(job);
            }
        }
    }

    /// Batches of up to 100 URLs of ten servers, as they come from a crawl.
    fn tell(&mut self) {
        let mut serials = [0u64; PARTITIONS as usize];
        let mut hosts: Vec<_> = (0..SERVERS)
            .map(|number| format!("host-{number}.example.test"))
            .collect();
        hosts.sort_by_key(|host| host_hash(host));
        for round in 0..PAGES / 10 {
            let of_partitions =
                hosts.chunk_by(|a, b| partition(a, PARTITIONS) == partition(b, PARTITIONS));
            for group in of_partitions.flat_map(|hosts| hosts.chunks(10)) {
                let partition = partition(&group[0], PARTITIONS);
                let topics = (0..self.topics).map(|number| Origin {
                    topic: format!("t{}", number + 1),
                    ..origin()
                });
                let mut ready = ReadyUrls {
                    partition,
                    origins: topics.collect(),
                    ..ReadyUrls::default()
                };
                for (server, host) in (0u32..).zip(group) {
                    let name = format!("http://{host}");
                    for page in 0..10 {
                        serials[usize::from(partition)] += 1;
                        ready.urls.push(&format!(
                            "{name}/section/{round}/page-{page}.html?id={}",
                            round * 10 + page
                        ));
                        let topic = match self.by {
                            By::Server => host_hash(host) as usize,
                            By::Page => round * 10 + page,
                        };
                        ready.origin_of.push((topic % self.topics) as u32);
                        ready.server_of.push(server);
                        ready.serials.push(serials[usize::from(partition)]);
                    }
                    ready.servers.push(ServerResolution {
                        server: name,
                        resolution: Some(addresses()),
                    });
                }
                self.step(Edge::UrlsReady, &encode(&ready));
            }
        }
    }

    /// Fetches all of them: every job that is granted is reported at once.
    fn fetch(&mut self) {
        let mut received = 0;
        for number in 1.. {
            let ask = Ask {
                fetcher: "f".into(),
                ask: number,
                free: 64,
                received,
                life: 1,
            };
            self.step(Edge::FetchAsks, &encode(&ask));
            if self.jobs.is_empty() {
                break;
            }
            for job in std::mem::take(&mut self.jobs) {
                received += 1;
                let results: Vec<_> = job
                    .requests
                    .iter()
                    .map(|request| RequestResult {
                        slot: request.slot,
                        end: response(200),
                    })
                    .collect();
                let report = Report {
                    job: job.id,
                    fetcher: "f".into(),
                    partition: job.partition,
                    server: job.server,
                    sequence: 1,
                    last: true,
                    requests: results.len() as u32,
                    results,
                    connect_us: Some(1000),
                    ..Report::default()
                };
                self.step(Edge::FetchReports, &encode(&report));
            }
        }
    }
}

fn measure(name: &str, store: Arc<dyn Store>, topics: usize, by: By) {
    let settings = with(|set| {
        set.politeness.delay = Duration::ZERO;
        set.politeness.respect_robots = false;
        set.directory = Directory::new(PARTITIONS);
        set.topics =
            crate::ranking::topics::tests::topics(&vec![
                (0, 1000);
                if topics == 1 { 0 } else { topics }
            ]);
    });
    let partitions: Vec<u16> = (0..PARTITIONS).collect();
    let now = Timestamp::from_micros(1);
    let core = Scheduler::open(settings, 0, 1, &partitions, Arc::clone(&store), now).unwrap();
    let none = Duration::ZERO;
    let mut bench = Bench {
        core,
        store,
        now,
        topics,
        by,
        core_time: none,
        commit_time: none,
        steps: 0,
        jobs: Vec::new(),
    };
    bench.tell();
    let arrival_core = bench.core_time;
    let arrival_commit = bench.commit_time;
    bench.fetch();
    let urls = (SERVERS * PAGES) as u64;
    let fetched = bench
        .core
        .counts()
        .into_iter()
        .find(|(name, _)| *name == "outcome_fetched_total")
        .unwrap()
        .1;
    assert_eq!(fetched, urls);
    let per_url = |time: Duration| time.as_nanos() as f64 / urls as f64 / 1000.0;
    println!(
        "{name}: {urls} URLs, {} steps; µs a URL: core {:.2} (arrival {:.2}), commit {:.2} \
         (arrival {:.2})",
        bench.steps,
        per_url(bench.core_time),
        per_url(arrival_core),
        per_url(bench.commit_time),
        per_url(arrival_commit),
    );
    println!(
        "a server in memory: {} bytes",
        size_of::<crate::servers::server::Server>()
    );
}

#[test]
#[ignore = "a measurement: cargo test --release -p scheduler timing -- --ignored --nocapture"]
fn what_a_url_costs() {
    for _ in 0..3 {
        measure("one topic", Arc::new(MemoryStore::default()), 1, By::Server);
        measure(
            "100 topics, one at a server",
            Arc::new(MemoryStore::default()),
            100,
            By::Server,
        );
        measure(
            "8 topics at each server",
            Arc::new(MemoryStore::default()),
            8,
            By::Page,
        );
        measure(
            "100 topics at each server",
            Arc::new(MemoryStore::default()),
            100,
            By::Page,
        );
    }
}

/// Jobs for a server with a robots.txt of 500 KiB.
fn measure_rules(robots_cache_bytes: Bytes) {
    let settings = with(|set| {
        set.politeness.delay = Duration::ZERO;
        set.scheduler.requests_per_connection = 10;
        set.scheduler.robots_cache_bytes = robots_cache_bytes;
    });
    let mut world = World::new(settings);
    world.tell_pages("http://a.test", 1000);
    let rules: String = (0..12_000)
        .map(|n| format!("Disallow: /some/where/{n}/nobody-goes\n"))
        .collect();
    let text = format!("User-agent: *\n{rules}");
    let mut web = robots_txt(|_, _| robots(200, &text));
    let start = Instant::now();
    world.finish(&mut web, Duration::from_secs(3600));
    let jobs = world.count("jobs_granted_total");
    println!(
        "{} KiB kept: {jobs} jobs, {:?} each, a test's world included",
        robots_cache_bytes.0 >> 10,
        start.elapsed() / jobs as u32
    );
}

#[test]
#[ignore = "a measurement: cargo test --release -p scheduler timing -- --ignored --nocapture"]
fn what_a_large_robots_txt_costs() {
    measure_rules(Bytes(0));
    measure_rules(Bytes(16 << 20));
}

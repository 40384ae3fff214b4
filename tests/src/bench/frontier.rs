//! How fast the scheduler takes on URLs, chooses servers and fills jobs, and what a server in play
//! and a waiting URL cost, with millions of both.
//!
//! The core is driven (`driven.rs`) by one thread. No server is slow, none has a delay: all
//! compete. What is taken on is measured with the store's own threads; jobs without them, as they
//! are busy with what was taken on before.

use super::driven::{Driven, PARTITIONS, disk_bytes};
use super::median;
use super::order::Policy;
use super::process::{Progress, cpu_s, main_thread_cpu_s, measured_apart, resident};
use crate::faults::copy_folder;
use anyhow::{Context as _, ensure};
use rhumb_config::orders::{Author, DropOrder, Orders, Selection};
use rhumb_config::{Layers, Pipeline, QualityProvider};
use rhumb_stage::{Core as _, Event};
use rhumb_url::{fingerprint, host_hash, partition};
use rhumb_wire::message::{
    Ask, Boost, Boosts, Edge, Origin, Quality, ReadyUrls, Resolution, ServerResolution, ToFetcher,
    decode, encode,
};
use scheduler::TABLES;
use scheduler::quality::{Provider, Qualities};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// A batch has so many URLs of each of so many servers.
const URLS_OF_SERVER_IN_BATCH: usize = 4;
const SERVERS_OF_BATCH: usize = 64;
/// Jobs asked for at once, and in all for each measurement: of a quarter of the servers at most,
/// since each has one.
const FREE: u32 = 64;
const JOBS: usize = 50_000;
/// Jobs asked for one by one, of another quarter.
const SINGLE_JOBS: usize = 10_000;
/// Steps between two looks at the memory.
const LOOK_EVERY: u64 = 10;
/// Links that come later: so many in a message, and in all, about.
const BOOSTS_IN_MESSAGE: usize = 100;
const BOOSTS: usize = 500_000;

/// The scheduler with so much to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Which server is next, and what a URL is worth.
    pub policy: String,
    /// Servers in play.
    pub servers: usize,
    /// URLs that wait.
    pub urls: usize,
    /// URLs a second of CPU time taken on, that of the store's threads counted.
    pub taken_on_per_s: f64,
    /// Seconds to open the state again.
    pub open_s: f64,
    /// Servers a second of CPU time chosen, each for a job of one URL.
    pub chosen_per_s: f64,
    /// From the ask for one job to its commit, in milliseconds: the slowest hundredth takes longer.
    pub chosen_p99_ms: f64,
    /// URLs a second of CPU time put into jobs. Where later links count, the first jobs of a server
    /// are short.
    pub filled_per_s: f64,
    /// URLs a second of CPU time that are found by an expression and end as dropped, that of the
    /// store's threads counted.
    pub dropped_per_s: f64,
    /// URLs a second of CPU time that later links lift, each found in the store, with that of its
    /// threads; none where such links do not count.
    pub lifted_per_s: Option<f64>,
    /// Resident memory in bytes while the last tenth is taken on, with the caches of the store: the
    /// median.
    pub resident: f64,
    /// Resident memory in bytes per server in play, without the caches of the store as they are
    /// configured.
    pub memory_per_server: f64,
    /// All files, in bytes per waiting URL.
    pub disk_per_url: f64,
}

/// Measures a scheduler with so many servers and as many URLs of each in a process of its own, in a
/// new folder below `dir`.
///
/// # Errors
/// The program cannot be run, or fails.
pub fn measure_apart(
    policy: &Policy,
    servers: usize,
    urls_of_server: usize,
    dir: &Path,
) -> anyhow::Result<Measured> {
    let arguments = [
        "--by",
        &policy.to_string(),
        "--frontier",
        &servers.to_string(),
        "--urls-each",
        &urls_of_server.to_string(),
    ];
    measured_apart(&arguments, dir)
}

/// Measures a scheduler with so many servers and as many URLs of each, in a new folder below `dir`.
///
/// # Errors
/// The folder cannot be written, or the scheduler does not do what it should.
pub fn measure(
    policy: &Policy,
    servers: usize,
    urls_of_server: usize,
    dir: &Path,
) -> anyhow::Result<Measured> {
    let folder = tempfile::Builder::new()
        .prefix("frontier-")
        .tempdir_in(dir)?;
    let hosts = Hosts::new(servers);
    let rounds = urls_of_server.div_ceil(URLS_OF_SERVER_IN_BATCH);
    let urls = servers * rounds * URLS_OF_SERVER_IN_BATCH;

    let mut process = Process::open(&Setup::new(policy, 50)?, folder.path())?;
    let began = cpu_s()?;
    let held = process.take_on(&hosts, rounds, urls as u64)?;
    let taken_on_per_s = urls as f64 / (cpu_s()? - began);
    ensure!(process.waiting() == urls as u64, "not all URLs wait");
    drop(process);
    let disk_per_url = disk_bytes(folder.path())? as f64 / urls as f64;
    // Of the same, without jobs.
    let copy = tempfile::Builder::new()
        .prefix("frontier-")
        .tempdir_in(dir)?;
    copy_folder(folder.path(), copy.path())?;

    let one_by_one = Setup::new(policy, 1)?;
    let before = resident()?;
    let started = Instant::now();
    let mut process = Process::open(&one_by_one, folder.path())?;
    process.driven.wake()?;
    let open_s = started.elapsed().as_secs_f64();
    let scheduler = &one_by_one.pipeline.stages.scheduler;
    let caches = scheduler.store_cache_bytes.0 + scheduler.memtable_bytes.0 * TABLES.len() as u64;
    let memory = resident()?.saturating_sub(before).saturating_sub(caches);
    let jobs = JOBS.min(servers / 4);
    let (chosen, chosen_per_s) = process.grant(jobs)?;
    ensure!(chosen == jobs, "{chosen} URLs in {jobs} jobs of one");
    let chosen_p99_ms = process.grant_singly(SINGLE_JOBS.min(servers / 4))?;
    drop(process);

    let mut process = Process::open(&Setup::new(policy, 50)?, folder.path())?;
    process.driven.wake()?;
    let (_, filled_per_s) = process.grant(jobs)?;
    drop(process);

    let lifted_per_s = lifted_per_s(&Setup::new(policy, 50)?, (&hosts, rounds), copy.path(), dir)?;
    let mut process = Process::open(&Setup::new(policy, 50)?, copy.path())?;
    process.driven.wake()?;
    let dropped_per_s = process.drop_all()?;
    Ok(Measured {
        policy: policy.to_string(),
        servers,
        urls,
        taken_on_per_s,
        open_s,
        chosen_per_s,
        chosen_p99_ms,
        filled_per_s,
        dropped_per_s,
        lifted_per_s,
        resident: held,
        memory_per_server: memory as f64 / servers as f64,
        disk_per_url,
    })
}

/// URLs a second that later links lift, in a copy of this folder below `dir`; none where such links
/// do not count.
fn lifted_per_s(
    setup: &Setup,
    (hosts, rounds): (&Hosts, usize),
    folder: &Path,
    dir: &Path,
) -> anyhow::Result<Option<f64>> {
    let is_cash = match setup.pipeline.stages.scheduler.quality {
        QualityProvider::Links => false,
        QualityProvider::Opic => true,
        _ => return Ok(None),
    };
    let copy = tempfile::Builder::new()
        .prefix("frontier-")
        .tempdir_in(dir)?;
    copy_folder(folder, copy.path())?;
    let mut process = Process::open(setup, copy.path())?;
    process.driven.wake()?;
    process.lift(hosts, rounds, is_cash).map(Some)
}

/// A scheduler's configuration, and where its qualities come from: `zipf` is no value of a key, it
/// is the laboratory's.
struct Setup {
    pipeline: Pipeline,
    qualities: Qualities,
}

impl Setup {
    fn new(policy: &Policy, requests_per_connection: u32) -> anyhow::Result<Self> {
        const DRAWN: &str = "stages.scheduler.quality=zipf";
        let is_drawn = policy.set().iter().any(|assignment| assignment == DRAWN);
        let mut set: Vec<String> = policy
            .set()
            .iter()
            .filter(|&assignment| assignment != DRAWN)
            .cloned()
            .collect();
        set.extend([
            format!("partitions={PARTITIONS}"),
            format!("stages.scheduler.requests_per_connection={requests_per_connection}"),
            "politeness.delay=0s".to_owned(),
            "politeness.respect_robots=false".to_owned(),
            "network.user_agent='rhumb/0 (+https://example.org/bench)'".to_owned(),
        ]);
        let pipeline = Layers { file: None, set }.load_with(std::iter::empty())?;
        let qualities = if is_drawn {
            Provider::Drawn(laboratory::zipf).into()
        } else {
            Qualities::open(&pipeline)?
        };
        Ok(Setup {
            pipeline,
            qualities,
        })
    }
}

/// Hosts by partition.
struct Hosts(Vec<Vec<usize>>);

impl Hosts {
    fn new(servers: usize) -> Self {
        let mut hosts = vec![Vec::new(); usize::from(PARTITIONS)];
        for host in 0..servers {
            hosts[usize::from(partition(&name(host), PARTITIONS))].push(host);
        }
        Hosts(hosts)
    }

    /// Groups of hosts, each of one partition.
    fn groups(&self) -> impl Iterator<Item = (u16, &[usize])> {
        (0..PARTITIONS).zip(&self.0).flat_map(|(partition, hosts)| {
            hosts
                .chunks(SERVERS_OF_BATCH)
                .map(move |group| (partition, group))
        })
    }
}

fn name(host: usize) -> String {
    format!("www{host}.example.test")
}

/// A URL of a host, by the round in which it comes and its place there.
fn url(host: &str, round: usize, place: usize) -> String {
    format!(
        "http://{host}/section/{round}/page-{}.html",
        round * 17 + place
    )
}

fn batch(partition: u16, hosts: &[usize], round: usize, serial: &mut u64) -> ReadyUrls {
    let mut ready = ReadyUrls {
        partition,
        ..ReadyUrls::default()
    };
    for (server, &host) in (0..).zip(hosts) {
        let host = name(host);
        ready.origins.push(Origin {
            page: format!("http://{host}/section/index.html"),
            topic: "default".into(),
            depth: 3,
            ..Origin::default()
        });
        for place in 0..URLS_OF_SERVER_IN_BATCH {
            *serial += 1;
            ready.urls.push(&url(&host, round, place));
            ready.origin_of.push(server);
            ready.server_of.push(server);
            ready.serials.push(*serial);
        }
        let addresses = vec![std::net::IpAddr::from([192, 0, 2, 1])];
        let resolution = Some(Resolution::Addresses {
            addresses,
            ttl_s: 86_400,
        });
        ready.servers.push(ServerResolution {
            server: format!("http://{host}"),
            resolution,
        });
    }
    ready
}

/// The scheduler, and a fetcher that asks it for jobs.
struct Process {
    driven: Driven,
    asks: u64,
    /// Jobs received.
    received: u64,
}

impl Process {
    fn open(setup: &Setup, folder: &Path) -> anyhow::Result<Self> {
        Ok(Process {
            driven: Driven::open(&setup.pipeline, &setup.qualities, folder)?,
            asks: 0,
            received: 0,
        })
    }

    /// URLs of all hosts, round by round. Gives the resident memory while the last tenth comes, in
    /// bytes: the median.
    fn take_on(&mut self, hosts: &Hosts, rounds: usize, urls: u64) -> anyhow::Result<f64> {
        let mut progress = Progress::new("taking on URLs", urls);
        let mut held = Vec::new();
        let mut serials = vec![0; usize::from(PARTITIONS)];
        for round in 0..rounds {
            for (partition, servers) in hosts.groups() {
                let batch = batch(
                    partition,
                    servers,
                    round,
                    &mut serials[usize::from(partition)],
                );
                self.driven.message(Edge::UrlsReady, &encode(&batch))?;
                let done = serials.iter().sum();
                progress.tell(done);
                if done >= urls / 10 * 9 && self.driven.steps.is_multiple_of(LOOK_EVERY) {
                    held.push(resident()? as f64);
                }
            }
        }
        Ok(median(held))
    }

    fn waiting(&self) -> u64 {
        self.driven.count("waiting")
    }

    /// The URLs of each job that is granted.
    fn ask(&mut self, free: u32) -> anyhow::Result<Vec<usize>> {
        self.asks += 1;
        let ask = Ask {
            fetcher: "fetcher-0".into(),
            ask: self.asks,
            free,
            received: self.received,
            life: 1,
        };
        let sends = self.driven.message(Edge::FetchAsks, &encode(&ask))?;
        let mut jobs = Vec::new();
        for send in sends {
            if let Ok(ToFetcher::Job(job)) = decode(&send.payload) {
                jobs.push(job.requests.len());
            }
        }
        self.received += jobs.len() as u64;
        Ok(jobs)
    }

    /// URLs in so many jobs, and jobs a second of CPU time, or URLs where jobs have several.
    fn grant(&mut self, jobs: usize) -> anyhow::Result<(usize, f64)> {
        let began = main_thread_cpu_s()?;
        let mut granted = 0;
        let mut urls = 0;
        while granted < jobs {
            let more = self.ask(FREE.min((jobs - granted) as u32))?;
            ensure!(!more.is_empty(), "no job after {granted}");
            granted += more.len();
            urls += more.into_iter().sum::<usize>();
        }
        Ok((urls, urls as f64 / (main_thread_cpu_s()? - began)))
    }

    /// The time of which one hundredth of the jobs need more, in milliseconds.
    fn grant_singly(&mut self, jobs: usize) -> anyhow::Result<f64> {
        let mut times = Vec::with_capacity(jobs);
        for _ in 0..jobs {
            let started = Instant::now();
            ensure!(self.ask(1)?.len() == 1, "one job");
            times.push(started.elapsed());
        }
        times.sort();
        let p99: Duration = times[jobs * 99 / 100];
        Ok(p99.as_secs_f64() * 1e3)
    }

    /// All that waits is dropped: URLs a second of CPU time.
    fn drop_all(&mut self) -> anyhow::Result<f64> {
        let order = DropOrder {
            id: 1,
            what: Selection::Match("/page-".into()),
            and_later: false,
            author: Author::default(),
        };
        let began = cpu_s()?;
        let waiting = self.waiting();
        self.driven.core.orders(&Orders {
            drops: vec![order],
            ..Orders::default()
        });
        let mut progress = Progress::new("dropping URLs", waiting);
        while self.driven.is_busy() {
            self.driven.event(Event::Wake)?;
            progress.tell(waiting - self.waiting());
        }
        ensure!(
            self.driven
                .core
                .drop_progress(1)
                .is_some_and(|of| of.dropped == waiting),
            "not all URLs were dropped"
        );
        Ok(waiting as f64 / (cpu_s()? - began))
    }

    /// Later links to one URL of each batch, by turns of the servers: URLs lifted a second of CPU
    /// time.
    fn lift(&mut self, hosts: &Hosts, rounds: usize, is_cash: bool) -> anyhow::Result<f64> {
        let began = cpu_s()?;
        let mut sent = 0;
        let worth = Quality::new(3.0).context("a number of links")?;
        for round in (0..rounds).rev() {
            for (partition, hosts) in (0..PARTITIONS).zip(&hosts.0) {
                for hosts in hosts.chunks(BOOSTS_IN_MESSAGE) {
                    let boost = |&host: &usize| {
                        let name = name(host);
                        Boost {
                            host: host_hash(&name),
                            url: fingerprint(&url(&name, round, 0)),
                            worth,
                            is_cash,
                        }
                    };
                    let boosts = Boosts {
                        partition,
                        boosts: hosts.iter().map(boost).collect(),
                    };
                    sent += boosts.boosts.len();
                    self.driven.message(Edge::UrlsBoosts, &encode(&boosts))?;
                }
            }
            if sent >= BOOSTS {
                break;
            }
        }
        let lifted = self.driven.count("boosts_lifted_total");
        ensure!(lifted == sent as u64, "{lifted} of {sent} URLs were lifted");
        Ok(lifted as f64 / (cpu_s()? - began))
    }
}

//! Instance: a scheduler of the crawler, and what its one fetcher asks of it and tells it.
//!
//! In: new pages, asks, reports. Out: jobs. Each step is committed to a store in memory, as in a
//! process.

use anyhow::ensure;
use rhumb_config::topics::Depths;
use rhumb_config::{Bytes, Pipeline, Policy};
use rhumb_partition::{Directory, Owners};
use rhumb_stage::store::{MemoryStore, Store as _};
use rhumb_stage::{Core as _, Event, Output, Ticket};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{
    Ask, Job, Origin, Quality, ReadyUrls, RequestEnd, Resolution, ResponseSummary,
    ServerResolution, ToFetcher, decode,
};
use scheduler::quality::Provider;
use scheduler::{Input, Scheduler, Schedulers, Settings, Topics};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

/// The one fetcher of all schedulers.
pub(crate) const FETCHER: &str = "fetcher-0";
const LIFE: u64 = 1;
/// Longer than any crawl, so that no lease has to be renewed and no address asked for again: the
/// most seconds that a message can say.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// A page that a scheduler is told of.
pub(crate) struct NewPage {
    pub(crate) url: String,
    /// `scheme://host[:port]`.
    pub(crate) server: String,
    pub(crate) origin: Origin,
}

/// A scheduler with its store, and what its fetcher counts of it.
pub(crate) struct Instance {
    core: Scheduler,
    store: Arc<MemoryStore>,
    partition: u16,
    /// Serial of the last URL that it was told.
    serial: u64,
    asks: u64,
    received: u64,
}

impl Instance {
    /// The scheduler of the partition with that number.
    pub(crate) fn open(number: u16, settings: Settings) -> anyhow::Result<Self> {
        let store = Arc::new(MemoryStore::default());
        let core = Scheduler::open(
            settings,
            number,
            1,
            &[number],
            store.clone(),
            Timestamp::ZERO,
        )?;
        Ok(Instance {
            core,
            store,
            partition: number,
            serial: 0,
            asks: 0,
            received: 0,
        })
    }

    /// A message of new pages.
    pub(crate) fn ready(&mut self, pages: impl IntoIterator<Item = NewPage>) -> ReadyUrls {
        let mut ready = ReadyUrls {
            partition: self.partition,
            ..ReadyUrls::default()
        };
        let mut servers = BTreeMap::new();
        for (
            index,
            NewPage {
                url,
                server,
                origin,
            },
        ) in (0..).zip(pages)
        {
            let server_of = *servers.entry(server.clone()).or_insert_with(|| {
                let resolution = Resolution::Addresses {
                    addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
                    ttl_s: u32::MAX,
                };
                ready.servers.push(ServerResolution {
                    server,
                    resolution: Some(resolution),
                });
                ready.servers.len() as u32 - 1
            });
            self.serial += 1;
            ready.urls.push(&url);
            ready.origins.push(origin);
            ready.origin_of.push(index);
            ready.server_of.push(server_of);
            ready.serials.push(self.serial);
        }
        ready
    }

    /// Asks for a job, and withdraws the ask when there is none.
    pub(crate) fn ask(&mut self, now: Timestamp) -> anyhow::Result<Option<Job>> {
        let job = self.ask_for(now, 1)?;
        if job.is_none() {
            ensure!(
                self.ask_for(now, 0)?.is_none(),
                "a job that nobody asked for"
            );
        }
        Ok(job)
    }

    fn ask_for(&mut self, now: Timestamp, free: u32) -> anyhow::Result<Option<Job>> {
        self.asks += 1;
        let ask = Ask {
            fetcher: FETCHER.to_owned(),
            ask: self.asks,
            free,
            received: self.received,
            life: LIFE,
        };
        let mut jobs = self.step(now, Input::Ask(ask))?;
        ensure!(jobs.len() <= free as usize, "more jobs than asked for");
        self.received += jobs.len() as u64;
        Ok(jobs.pop())
    }

    /// Steps the core until it has no more to do now, and commits. Gives the jobs that it grants.
    pub(crate) fn step(&mut self, now: Timestamp, input: Input) -> anyhow::Result<Vec<Job>> {
        let mut jobs = Vec::new();
        let mut event = Event::Message {
            ticket: Ticket(0),
            input,
        };
        loop {
            let mut out = Output::default();
            self.core.step(now, event, &mut out)?;
            self.store.commit(&out.changes)?;
            for send in out.sends {
                if let ToFetcher::Job(job) = decode(&send.payload)? {
                    jobs.push(job);
                }
            }
            if self.core.wake_at().is_none_or(|at| at > now) {
                return Ok(jobs);
            }
            event = Event::Wake;
        }
    }
}

/// The answer of a server, after so many microseconds.
pub(crate) fn response(elapsed_us: u64) -> RequestEnd {
    RequestEnd::Response(ResponseSummary {
        status: 200,
        elapsed_us: micros(elapsed_us),
        ..ResponseSummary::default()
    })
}

/// Microseconds, as reports have them.
pub(crate) fn micros(long: u64) -> u32 {
    u32::try_from(long).unwrap_or(u32::MAX)
}

/// How a page was found: on another one, or as a seed.
pub(crate) fn origin(topic: &str, page: &str, quality: Quality) -> Origin {
    Origin {
        page: page.to_owned(),
        topic: topic.to_owned(),
        depth: u16::from(!page.is_empty()),
        redirects: 0,
        seed: page.is_empty(),
        again: 0,
        flow: quality,
    }
}

/// No politeness except one connection per server. A new server has the paper's estimates, and
/// servers take turns.
pub(crate) fn settings(schedulers: u16) -> Settings {
    let mut settings = Settings::new(&Pipeline::default(), Provider::Flow.into());
    settings.directory = Directory::new(schedulers);
    let politeness = &mut settings.politeness;
    politeness.delay = Duration::ZERO;
    politeness.crawl_delay_max = Duration::ZERO;
    politeness.download_factor = 0;
    politeness.retry_after_max = Duration::ZERO;
    politeness.respect_robots = false;
    politeness.robots_lifetime = FOR_EVER;
    let scheduler = &mut settings.scheduler;
    scheduler.policy = Policy::BreadthFirst;
    scheduler.requests_per_connection = 50;
    scheduler.visit_budget = FOR_EVER;
    scheduler.job_lease = FOR_EVER;
    scheduler.attempts = 1;
    scheduler.retry_wait = Duration::ZERO;
    scheduler.retry_wait_max = Duration::ZERO;
    scheduler.robots_cache_bytes = Bytes(0);
    scheduler.resolve_attempts = 1;
    scheduler.server_failures_max = 1;
    let limits = &mut settings.limits;
    limits.first_answer_timeout = FOR_EVER;
    limits.sitemaps_per_server = 0;
    limits.shape_pages = 0;
    settings.ask_lifetime = FOR_EVER;
    settings.no_address_lifetime = FOR_EVER;
    settings.schedulers = Schedulers::of(&Owners::new(1, 1), 0);
    settings.topics = Topics::new([], FOR_EVER);
    settings.max_depth = Depths::all(u16::MAX);
    settings
}

//! Crawl: the scheduler's own core, a fetcher and a web in simulated time.
//!
//! In: a web, what its pages are worth, a policy. Out: when each page was fetched.
//!
//! ```text
//!  pages found ─▶ ReadyUrls ─▶ scheduler ─▶ job ─▶ connection: open, request after request, close ─▶ report
//!       ▲                          ▲                                  │ each page: its links            │
//!       └──────────────────────────┼──────────────────────────────────┘                                 │
//!                                 ask ◀── a connection is free ◀────────────────────────────────────────┘
//! ```
//!
//! Opening a connection takes the server's connection time, and closing it takes as long again: the
//! paper's `2 * ConnectionTime`. Requests follow one another without a gap and without pipelining.
//! A page that has come waits for the crawler's one CPU behind the pages that came before it. Only
//! when the CPU is done with it does the next request go over its connection, as in the paper's
//! single-threaded event loop. Nothing else takes time. A server closes after as many requests as
//! it allows; what the job has left goes back.
//!
//! A free connection is offered to one scheduler after another until one has a job for it.
//! Schedulers that have none lose the offer, so that each job finds a connection free. With several
//! schedulers each has the servers of one partition.
//!
//! Invariants, checked: a server never has two connections; there are never more connections than
//! allowed; each page is fetched once, after it was found; and all pages are fetched in the end, or
//! as many as the setup says.

use super::setup::Setup;
use super::web::Web;
use crate::instance::{FETCHER, Instance, NewPage, micros, origin, response, settings};
use anyhow::{Context as _, ensure};
use rhumb_config::DEFAULT_TOPIC;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Job, Quality, Report, RequestEnd, RequestResult};
use scheduler::Input;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

/// A page, and when its last byte came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fetched {
    pub(super) at: Timestamp,
    pub(super) page: usize,
}

impl Fetched {
    /// When it came, in seconds since the crawl began.
    pub(super) fn seconds(&self) -> f64 {
        self.at.as_micros() as f64 / 1e6
    }
}

/// Crawls a web, all of it or as many pages as the setup says. Gives the pages in the order in
/// which they came.
///
/// # Errors
/// When the scheduler breaks a promise, or leaves pages unfetched.
pub(super) fn crawl(
    web: &Web,
    qualities: &[Quality],
    setup: Setup,
) -> anyhow::Result<Vec<Fetched>> {
    let mut crawl = Crawl::new(web, qualities, setup)?;
    crawl.discover(None, &setup.seeds.pages(web))?;
    crawl.offer()?;
    while crawl.fetched.len() < setup.pages_max
        && let Some(Reverse((at, _, place))) = crawl.events.pop()
    {
        crawl.now = at;
        crawl.advance(place)?;
        crawl.offer()?;
    }
    let wanted = web.pages.len().min(setup.pages_max);
    ensure!(
        crawl.fetched.len() == wanted,
        "{} of {wanted} pages fetched",
        crawl.fetched.len()
    );
    Ok(crawl.fetched)
}

/// A connection and its job.
struct Connection {
    job: Job,
    server: usize,
    /// Requests that it serves.
    limit: usize,
    results: Vec<RequestResult>,
    waits_for: WaitsFor,
}

/// What happens next to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitsFor {
    /// The last byte of a page comes.
    Page,
    /// The CPU is done with the page.
    Cpu,
    /// It is closed.
    Close,
}

struct Crawl<'a> {
    web: &'a Web,
    qualities: &'a [Quality],
    setup: Setup,
    now: Timestamp,
    schedulers: Vec<Instance>,
    /// The scheduler to which the next free connection is offered first.
    turn: usize,
    /// Places for connections.
    connections: Vec<Option<Connection>>,
    /// The time of the next event at each place: by time, then in the order in which the events
    /// were made.
    events: BinaryHeap<Reverse<(Timestamp, u64, usize)>>,
    events_made: u64,
    /// The time when the CPU is done with all that has come.
    cpu_free: Timestamp,
    /// Servers with a connection.
    connected: Vec<bool>,
    /// Seeds, and pages that a fetched page links to.
    found: Vec<bool>,
    pages_found: u32,
    /// Links that a page was away from a seed when it was found.
    depths: Vec<u16>,
    fetched: Vec<Fetched>,
    is_fetched: Vec<bool>,
}

impl<'a> Crawl<'a> {
    fn new(web: &'a Web, qualities: &'a [Quality], setup: Setup) -> anyhow::Result<Self> {
        let mut settings = settings(setup.schedulers);
        settings.scheduler.policy = setup.policy.configured();
        let schedulers =
            (0..setup.schedulers).map(|number| Instance::open(number, settings.clone()));
        Ok(Crawl {
            web,
            qualities,
            setup,
            now: Timestamp::ZERO,
            schedulers: schedulers.collect::<anyhow::Result<_>>()?,
            turn: 0,
            connections: (0..setup.connections).map(|_| None).collect(),
            events: BinaryHeap::new(),
            events_made: 0,
            cpu_free: Timestamp::ZERO,
            connected: vec![false; web.servers.len()],
            found: vec![false; web.pages.len()],
            pages_found: 0,
            depths: vec![0; web.pages.len()],
            fetched: Vec::with_capacity(web.pages.len()),
            is_fetched: vec![false; web.pages.len()],
        })
    }

    /// Tells the schedulers of the pages that are new, with what each is worth to the policy.
    fn discover(&mut self, on: Option<usize>, pages: &[usize]) -> anyhow::Result<()> {
        let depth = on.map_or(0, |on| self.depths[on] + 1);
        let mut batches: BTreeMap<u16, Vec<(usize, Quality)>> = BTreeMap::new();
        for &page in pages {
            if !std::mem::replace(&mut self.found[page], true) {
                self.depths[page] = depth;
                let worth = self
                    .setup
                    .policy
                    .worth(self.qualities[page], self.pages_found, depth);
                self.pages_found += 1;
                let partition = Web::partition(self.web.pages[page].server, self.setup.schedulers);
                batches.entry(partition).or_default().push((page, worth));
            }
        }
        let on = on.map(|on| self.web.url(on)).unwrap_or_default();
        for (partition, pages) in batches {
            let scheduler = &mut self.schedulers[usize::from(partition)];
            let pages = pages.into_iter().map(|(page, worth)| NewPage {
                url: self.web.url(page),
                server: Web::name(self.web.pages[page].server),
                origin: origin(DEFAULT_TOPIC, &on, worth),
            });
            let ready = scheduler.ready(pages);
            let jobs = scheduler.step(self.now, Input::Ready(ready))?;
            ensure!(jobs.is_empty(), "a job that nobody asked for");
        }
        Ok(())
    }

    /// Offers free connections, one at a time, to one scheduler after another until none has a job.
    fn offer(&mut self) -> anyhow::Result<()> {
        let mut declined = 0;
        while declined < self.schedulers.len()
            && let Some(place) = self.connections.iter().position(Option::is_none)
        {
            let job = self.schedulers[self.turn].ask(self.now)?;
            self.turn = (self.turn + 1) % self.schedulers.len();
            match job {
                Some(job) => {
                    self.open(place, job)?;
                    declined = 0;
                }
                None => declined += 1,
            }
        }
        Ok(())
    }

    fn open(&mut self, place: usize, job: Job) -> anyhow::Result<()> {
        let first = job
            .requests
            .first()
            .and_then(|request| Web::page(&request.url))
            .context("a job without a page")?;
        let server = self.web.pages[first].server;
        ensure!(
            !std::mem::replace(&mut self.connected[server], true),
            "a second connection to {}",
            job.server
        );
        let limit = if self.setup.keep_alive {
            self.web.servers[server].requests as usize
        } else {
            1
        };
        let opened = self.web.servers[server].connect_us;
        self.connections[place] = Some(Connection {
            job,
            server,
            limit,
            results: Vec::new(),
            waits_for: WaitsFor::Page,
        });
        self.happens(
            self.now + us(opened + self.web.pages[first].response_us),
            place,
        );
        Ok(())
    }

    /// Something happens at a place.
    fn happens(&mut self, at: Timestamp, place: usize) {
        self.events_made += 1;
        self.events.push(Reverse((at, self.events_made, place)));
    }

    /// What a connection waited for has come.
    fn advance(&mut self, place: usize) -> anyhow::Result<()> {
        let mut connection = self.connections[place]
            .take()
            .context("an event without a connection")?;
        match connection.waits_for {
            WaitsFor::Page => {
                connection.waits_for = WaitsFor::Cpu;
                self.cpu_free = self.cpu_free.max(self.now) + us(self.setup.page_cpu_us);
                self.happens(self.cpu_free, place);
                self.connections[place] = Some(connection);
                Ok(())
            }
            WaitsFor::Cpu => self.fetched(connection, place),
            WaitsFor::Close => {
                self.connected[connection.server] = false;
                self.report(connection)
            }
        }
    }

    /// A page is there: its links are found, and the next one is requested.
    fn fetched(&mut self, mut connection: Connection, place: usize) -> anyhow::Result<()> {
        let request = &connection.job.requests[connection.results.len()];
        let page = Web::page(&request.url).context("a URL that is not a page's")?;
        ensure!(self.found[page], "{} was not found yet", request.url);
        ensure!(
            !std::mem::replace(&mut self.is_fetched[page], true),
            "{} came twice",
            request.url
        );
        self.fetched.push(Fetched { at: self.now, page });
        connection.results.push(RequestResult {
            slot: request.slot,
            end: response(self.web.pages[page].response_us),
        });
        let web = self.web;
        self.discover(Some(page), &web.pages[page].links)?;

        let served = connection.results.len();
        let next = connection
            .job
            .requests
            .get(served)
            .filter(|_| served < connection.limit);
        match next {
            Some(request) => {
                let page = Web::page(&request.url).context("a URL that is not a page's")?;
                connection.waits_for = WaitsFor::Page;
                self.happens(self.now + us(web.pages[page].response_us), place);
            }
            None => {
                connection.waits_for = WaitsFor::Close;
                self.happens(
                    self.now + us(web.servers[connection.server].connect_us),
                    place,
                );
            }
        }
        self.connections[place] = Some(connection);
        Ok(())
    }

    /// The last report of a job. What the job has left is untried.
    fn report(&mut self, connection: Connection) -> anyhow::Result<()> {
        let Connection {
            job,
            server,
            limit,
            mut results,
            ..
        } = connection;
        let served = results.len();
        for request in &job.requests[served..] {
            results.push(RequestResult {
                slot: request.slot,
                end: RequestEnd::Untried,
            });
        }
        let report = Report {
            job: job.id,
            fetcher: FETCHER.to_owned(),
            partition: job.partition,
            server: job.server,
            sequence: 1,
            last: true,
            results,
            connect_us: Some(micros(self.web.servers[server].connect_us)),
            requests: u32::try_from(served).unwrap_or(u32::MAX),
            // The report says nothing of an overlap, so the paper's holds, by which the web here
            // answers.
            busy_us: 0,
            closed_by_server: served == limit,
            ..Report::default()
        };
        let jobs =
            self.schedulers[usize::from(job.partition)].step(self.now, Input::Report(report))?;
        ensure!(jobs.is_empty(), "a job that nobody asked for");
        Ok(())
    }
}

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

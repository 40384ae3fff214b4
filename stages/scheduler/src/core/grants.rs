//! Grants connection jobs: for the server of the highest rank, to the fetcher whose turn it is.

use crate::core::errands::Errands;
use crate::core::fetchers::{Fetchers, Grantee};
use crate::core::places::Places;
use crate::frontier::queue::{Queue, Wanted};
use crate::frontier::rows::FrontierUrl;
use crate::frontier::url_end::UrlEnd;
use crate::frontier::validators;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::topic_of;
use crate::keys::topic::{TopicIndex, TopicNumber};
use crate::servers::in_play::Servers;
use crate::servers::lease::{JOBS, Lease, ROBOTS_SLOT, RobotsTask};
use crate::servers::server::Server;
use crate::servers::todo::Todo;
use crate::settings::Settings;
use crate::step::staged::Staged;
use rhumb_stage::store::StoreError;
use rhumb_url::path_of;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Job, JobId, Origin, Outcome, Request, ToFetcher, Validators};
use std::time::Duration;

/// Bytes of URLs in a job, at most: well below the smallest `broker.max_payload`.
const JOB_BYTES_MAX: usize = 512 << 10;
/// Of this many connections one is for servers in trouble, while the others are in use.
const TROUBLED_PART: u64 = 16;

/// What became of an attempt to grant a job.
pub(crate) enum Granted {
    /// A job for this fetcher.
    Job(String),
    /// None for that server now. There may be one for the next server.
    Nothing,
    /// No fetcher has credit.
    NoFetcher,
    /// No server is ready, or enough pages were fetched.
    NoneLeft,
}

/// Gives jobs to fetchers.
pub(crate) struct Grants {
    instance: u16,
    epoch: u64,
    /// Jobs granted in this life.
    jobs: u64,
    pub(crate) fetchers: Fetchers,
    /// The scheduler is told to end. A job granted now might go to a fetcher that ends as well, and
    /// block its server for a lease.
    is_draining: bool,
    /// The crawl was stopped by its conductor.
    is_stopped: bool,
}

impl Grants {
    pub(crate) fn new(instance: u16, epoch: u64) -> Self {
        Grants {
            instance,
            epoch,
            jobs: 0,
            fetchers: Fetchers::default(),
            is_draining: false,
            is_stopped: false,
        }
    }

    /// Grants nothing while the crawl is stopped.
    pub(crate) fn stop(&mut self, is_stopped: bool) {
        self.is_stopped = is_stopped;
    }

    /// Returns whether nothing is granted while the crawl is stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Jobs are named by this epoch from now on; their numbers go on.
    pub(crate) fn owned_since(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Grants nothing more.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Returns whether nothing more is granted.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Grants one job, if there is one to be granted.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn grant(
        &mut self,
        servers: &mut Servers,
        places: &mut Places,
        errands: &mut Errands,
        staged: &mut Staged<'_>,
    ) -> Result<Granted, StoreError> {
        if self.is_draining || self.is_stopped || servers.paused().has_all() {
            return Ok(Granted::NoneLeft);
        }
        let now = staged.now;
        let settings = staged.settings;
        let Some(grantee) = self.fetchers.next(now) else {
            return Ok(Granted::NoFetcher);
        };
        let pages_left = servers.shares().crawl().left();
        let next = next_server(servers, places, self.fetchers.credit(now), staged);
        let Some((key, topic)) = next else {
            return Ok(Granted::NoneLeft);
        };
        let budgets = servers.budgets(key);
        let Some(in_play) = servers.in_play(key, "granting a job to a server that is ready") else {
            return Ok(Granted::NoneLeft);
        };
        let server = in_play.server;
        let grantee = self.fetchers.but(now, server.unreached_by, grantee);
        staged.touch(key);
        let todo = server.todo(key, now, settings, budgets, &places.circles);
        let Some(address) = server.address.first().filter(|_| todo == Todo::Job) else {
            return Ok(Granted::Nothing);
        };
        let id = JobId {
            scheduler: self.instance,
            epoch: self.epoch,
            number: self.jobs + 1,
        };
        let holder = (grantee.fetcher.clone(), grantee.life);
        let mut lease = Lease::new(id, (address, topic), now, settings.job_lease, holder);
        let requests = if !server.errands.is_empty() || server.needs_robots(now, settings) {
            vec![robots_request(settings, now, server, &mut lease)]
        } else {
            let pages_max = places.queue.limits.pages_max(topic) as u64;
            fill(
                key,
                pages_left.min(budgets.left()).min(pages_max),
                &mut lease,
                servers,
                errands,
                staged,
            )?
        };
        if requests.is_empty() {
            return Ok(Granted::Nothing);
        }
        if let Some(server) = servers.get_mut(key) {
            let seconds = server.connection_s(requests.len() as u64, settings, &places.speeds);
            lease.expected = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            server.served = lease
                .slots
                .front()
                .map_or(server.served, |slot| topic_of(*slot));
            places.connect(key, server, &mut lease, staged);
        }
        self.send_job(key, lease, requests, &grantee, servers, staged);
        Ok(Granted::Job(grantee.fetcher))
    }

    /// Stages the lease, and the job that is sent once it is committed.
    fn send_job(
        &mut self,
        key: ServerKey,
        lease: Lease,
        requests: Vec<Request>,
        grantee: &Grantee,
        servers: &mut Servers,
        staged: &mut Staged<'_>,
    ) {
        let Some(in_play) = servers.in_play(key, "granting a job") else {
            return;
        };
        let server = in_play.server;
        let partition = in_play.partition;
        let settings = staged.settings;
        // A longer try comes after it.
        let is_short_try = server.is_stranger() && settings.attempts > 1;
        self.jobs += 1;
        partition.counts.jobs += 1;
        let job = Job {
            id: lease.id,
            life: grantee.life,
            ask: grantee.ask,
            partition: key.partition,
            lease_ms: millis(settings.job_lease),
            kind: lease.kind(),
            server: server.name.to_string(),
            addresses: server.address.addresses().to_vec(),
            gap_ms: millis(server.gap(settings)),
            first_answer_ms: is_short_try.then(|| millis(settings.first_answer_timeout)),
            requests,
        };
        for request in &job.requests {
            let url = &request.url;
            let attempts = request.attempts;
            let fetcher = &grantee.fetcher;
            tracing::debug!(trace = %request.trace(), url, attempts, job = %job.id, fetcher, "a page is asked for");
        }
        staged.rows.put(JOBS, key.to_bytes(), lease.to_row());
        staged.messages.send(&grantee.fetcher, ToFetcher::Job(job));
        server.lease = Some(Box::new(lease));
        self.fetchers.granted(staged.now, grantee);
        servers.account(key);
    }
}

/// The server that goes next, and for which topic. `free`: connections that fetchers ask jobs for.
fn next_server(
    servers: &mut Servers,
    places: &mut Places,
    free: u64,
    staged: &Staged<'_>,
) -> Option<(ServerKey, TopicIndex)> {
    let now = staged.now;
    let settings = staged.settings;
    let connections = servers.load_of_all().jobs + free;
    let troubled_too = has_room_for_trouble(free, servers);
    if servers.shares().crawl().left() > 0 {
        return places.queue.next(now, connections, troubled_too);
    }
    // Errands need no budget, and stand for the first preparation.
    let next = places
        .queue
        .first_of(settings.topics.first_preparation(), troubled_too);
    let has_errands = |key| {
        servers
            .get(key)
            .is_some_and(|server| !server.errands.is_empty())
    };
    let next = next.filter(|(key, _)| has_errands(*key));
    if next.is_none() && places.queue.ready() > 0 {
        servers.shares_mut().want_for_crawl(now);
    }
    next
}

/// Returns whether a server in trouble may be given a connection. Some of these servers keep theirs
/// until a time-out, and would take all. So they hold a small part of the connections, and more
/// only while more than half are free.
fn has_room_for_trouble(free: u64, servers: &Servers) -> bool {
    let load = servers.load_of_all();
    let connections = load.jobs + free;
    load.troubled < (connections / TROUBLED_PART).max(1) || free > connections / 2
}

/// Takes URLs of a server for one connection. Those that its robots.txt disallows end here.
fn fill(
    key: ServerKey,
    pages_left: u64,
    lease: &mut Lease,
    servers: &mut Servers,
    errands: &mut Errands,
    staged: &mut Staged<'_>,
) -> Result<Vec<Request>, StoreError> {
    let Some(in_play) = servers.in_play(key, "filling a job") else {
        return Ok(Vec::new());
    };
    let server = in_play.server;
    let partition = in_play.partition;
    let settings = staged.settings;
    let robots = errands.rules(key, server, staged)?;
    let limit = server
        .requests_max(settings)
        .min(usize::try_from(pages_left).unwrap_or(usize::MAX));
    let clock = partition.clock;
    let fresh_first = server.was_set_aside();
    let mut requests = Vec::new();
    let mut bytes = 0;
    let is_of_topic = |number: &TopicNumber| partition.topics.index_of(*number) == lease.topic;
    let numbers: Vec<TopicNumber> = server
        .queues
        .going()
        .map(Queue::topic)
        .filter(is_of_topic)
        .collect();
    let lane = server.queues.lane(&numbers, staged.now);
    while requests.len() < limit && bytes < JOB_BYTES_MAX && staged.endings_left > 0 {
        // What lies behind others has jobs of its own, when it is its server's turn.
        if server.queues.lane(&numbers, staged.now) != lane {
            break;
        }
        let limit = (limit - requests.len()).min(staged.endings_left);
        let wanted = Wanted {
            limit,
            fresh_first,
            all_lanes: false,
        };
        let restore = |stored| clock.restore(stored);
        let urls =
            server
                .queues
                .take_of(&numbers, &staged.rows, key, staged.now, restore, wanted)?;
        if urls.is_empty() {
            break;
        }
        let mut left = Vec::new();
        for (slot, url) in server.sort_out(key, urls, staged) {
            if bytes >= JOB_BYTES_MAX {
                left.push(slot);
            } else if robots
                .as_ref()
                .is_none_or(|robots| robots.allows(path_of(&url.url)))
            {
                bytes += url.bytes();
                lease.slots.push_back(slot);
                let validators = match url.origin.again {
                    0 => Validators::default(),
                    _ => validators::read(&staged.rows, key, &url.url)?,
                };
                let FrontierUrl {
                    url,
                    origin,
                    attempts,
                    ..
                } = url;
                requests.push(Request {
                    slot,
                    url,
                    origin,
                    attempts,
                    validators,
                });
            } else {
                staged.endings_left -= 1;
                partition.end(
                    staged,
                    key,
                    slot,
                    url,
                    UrlEnd::without_response(Outcome::Disallowed, "robots.txt"),
                );
            }
        }
        server
            .queues
            .give_back(left.into_iter(), settings.head_max());
    }
    Ok(requests)
}

/// The one request of a robots job. It is for others that wait for an answer first, else for the
/// server itself. All that want the same URL get the same answer.
fn robots_request(
    settings: &Settings,
    now: Timestamp,
    server: &mut Server,
    lease: &mut Lease,
) -> Request {
    let own = server.needs_robots(now, settings) && !server.robots.awaits_errand();
    let own_url = server.robots.own_url(&server.name);
    let url = server
        .errands
        .first()
        .map_or_else(|| own_url.clone(), |task| task.url.clone());
    let mut askers = Vec::new();
    server.errands.retain(|task| {
        let same = task.url == url;
        if same {
            askers.push(task.asker.clone());
        }
        !same
    });
    lease.robots = Some(RobotsTask {
        own: own && url == own_url,
        url: url.clone(),
        askers,
    });
    let origin = Origin::default();
    Request {
        slot: ROBOTS_SLOT,
        url,
        origin,
        attempts: 0,
        validators: Validators::default(),
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    // Rounded up: a gap must not become shorter on its way.
    u64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

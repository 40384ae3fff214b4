//! Grants connection jobs: for the server of the highest rank, to the fetcher whose turn it is.

use crate::core::doors::{Candidate, Doors};
use crate::core::errands;
use crate::core::fetchers::{Fetchers, Grantee};
use crate::core::work::Work;
use crate::frontier::queue::{Queue, Wanted};
use crate::frontier::rows::FrontierUrl;
use crate::frontier::url_end::UrlEnd;
use crate::frontier::validators;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::{RETRIES, topic_of};
use crate::keys::topic::TopicNumber;
use crate::known::record;
use crate::servers::in_play::Servers;
use crate::servers::lease::{JOBS, Lease, ROBOTS_SLOT, RobotsTask};
use crate::servers::server::Server;
use crate::servers::todo::Todo;
use crate::settings::Settings;
use crate::step::staged::Staged;
use rhumb_config::RecrawlPolicy;
use rhumb_robots::Robots;
use rhumb_stage::store::StoreError;
use rhumb_url::time::Timestamp;
use rhumb_url::{fingerprint, path_of};
use rhumb_usage::Signals;
use rhumb_wire::message::{Job, JobId, Origin, Outcome, Request, ToFetcher, Validators};
use std::time::Duration;

/// Bytes of URLs in a job, at most: well below the smallest `broker.max_payload`.
const JOB_BYTES_MAX: usize = 512 << 10;
/// Retries without a budget that are passed over for visits behind them, at most.
const PASSED_OVER_MAX: usize = 256;
/// Of this many connections one is for servers in trouble, while the others are in use.
const TROUBLED_PART: u64 = 16;

/// Of this many visits of a page one asks for it whatever its validators.
const CHECKED_PART: u64 = 16;

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
        work: &mut Work<'_>,
        doors: &mut Doors,
    ) -> Result<Granted, StoreError> {
        if self.is_draining || self.is_stopped || work.servers.paused().has_all() {
            return Ok(Granted::NoneLeft);
        }
        let now = work.staged.now;
        let settings = work.staged.settings;
        let Some(grantee) = self.fetchers.next(now) else {
            return Ok(Granted::NoFetcher);
        };
        let free = self.fetchers.credit(now);
        let connections = work.servers.load_of_all().jobs + free;
        let troubled_too = has_room_for_trouble(free, work.servers);
        let Some(next) = Doors::asked(work, connections, troubled_too) else {
            return Ok(Granted::NoneLeft);
        };
        let Candidate { key, budgets, .. } = next;
        let Some(in_play) = work
            .servers
            .in_play(key, "granting a job to a server that is ready")
        else {
            return Ok(Granted::NoneLeft);
        };
        let server = in_play.server;
        let grantee = self.fetchers.but(now, server.unreached_by, grantee);
        work.staged.touch(key);
        let todo = server.todo(key, now, settings, budgets, &work.places.circles);
        let Some(address) = server.address.first().filter(|_| todo == Todo::Job) else {
            return Ok(Granted::Nothing);
        };
        let id = JobId {
            scheduler: self.instance,
            epoch: self.epoch,
            number: self.jobs + 1,
        };
        let holder = (grantee.fetcher.clone(), grantee.life);
        let mut lease = Lease::new(
            id,
            (address, next.topic),
            now,
            settings.scheduler.job_lease,
            holder,
        );
        let endings_left = work.staged.endings_left;
        let requests = if !server.errands.is_empty() || server.needs_robots(now, settings) {
            vec![robots_request(settings, now, server, &mut lease)]
        } else {
            fill(work, key, next.pages, &mut lease)?
        };
        if requests.is_empty() {
            let ended_none = work.staged.endings_left == endings_left;
            if let Some(server) = work.servers.get_mut(key).filter(|_| ended_none) {
                server.waits_for_visits(now);
            }
            return Ok(Granted::Nothing);
        }
        if let Some(server) = work.servers.get_mut(key) {
            let seconds = server.connection_s(requests.len() as u64, settings, &work.places.speeds);
            lease.expected = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            server.served = lease
                .slots
                .front()
                .map_or(server.served, |slot| topic_of(*slot));
        }
        doors.granted(work, key, &mut lease);
        self.send_job(work, key, lease, requests, &grantee);
        Ok(Granted::Job(grantee.fetcher))
    }

    /// Stages the lease, and the job that is sent once it is committed.
    fn send_job(
        &mut self,
        work: &mut Work<'_>,
        key: ServerKey,
        lease: Lease,
        requests: Vec<Request>,
        grantee: &Grantee,
    ) {
        let Work {
            servers, staged, ..
        } = work;
        let Some(in_play) = servers.in_play(key, "granting a job") else {
            return;
        };
        let server = in_play.server;
        let partition = in_play.partition;
        let settings = staged.settings;
        // A longer try comes after it.
        let is_short_try = server.is_stranger() && settings.scheduler.attempts > 1;
        self.jobs += 1;
        partition.counts.jobs += 1;
        let job = Job {
            id: lease.id,
            life: grantee.life,
            ask: grantee.ask,
            partition: key.partition,
            lease_ms: millis(settings.scheduler.job_lease),
            kind: lease.kind(),
            server: server.name.to_string(),
            addresses: server.address.addresses().to_vec(),
            gap_ms: millis(server.gap(settings)),
            first_answer_ms: is_short_try.then(|| millis(settings.limits.first_answer_timeout)),
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
    work: &mut Work<'_>,
    key: ServerKey,
    pages_left: u64,
    lease: &mut Lease,
) -> Result<Vec<Request>, StoreError> {
    let robots = errands::rules(work, key)?;
    let Some(mut at) = work.at(key, "filling a job") else {
        return Ok(Vec::new());
    };
    let settings = at.staged.settings;
    // Planned visits count for no budget.
    let visits = u64::from(at.server.visits_out);
    let pages_max = usize::try_from(pages_left.max(visits)).unwrap_or(usize::MAX);
    let limit = at.server.requests_max(settings).min(pages_max);
    let mut pages_left = pages_left;
    let clock = at.partition.clock;
    // Without a budget there is nothing for what is new.
    let fresh_first = at.server.was_set_aside() && pages_left > 0;
    let mut requests = Vec::new();
    let mut bytes = 0;
    let is_of_topic = |number: &TopicNumber| at.partition.topics.index_of(*number) == lease.topic;
    let numbers: Vec<TopicNumber> = at
        .server
        .queues
        .going()
        .map(Queue::topic)
        .filter(is_of_topic)
        .collect();
    let lane = at.server.queues.lane(&numbers, at.staged.now);
    let mut left = Vec::new();
    let mut is_full = false;
    while !is_full && requests.len() < limit && at.staged.endings_left > 0 {
        // What lies behind others has jobs of its own, when it is its server's turn.
        if at.server.queues.lane(&numbers, at.staged.now) != lane {
            break;
        }
        let limit = (limit - requests.len()).min(at.staged.endings_left);
        let wanted = Wanted {
            limit,
            fresh_first,
            all_lanes: false,
        };
        let restore = |stored| clock.restore(stored);
        let urls = at.server.queues.take_of(
            &numbers,
            &at.staged.rows,
            key,
            at.staged.now,
            restore,
            wanted,
        )?;
        if urls.is_empty() {
            break;
        }
        for (slot, url) in Doors::taken(&mut at, urls) {
            let is_over_budget = !url.is_planned() && pages_left == 0;
            if bytes >= JOB_BYTES_MAX || is_over_budget {
                left.push(slot);
                // Visits are the first of those that were never tried.
                is_full |= visits == 0 || slot < RETRIES || left.len() >= PASSED_OVER_MAX;
                continue;
            }
            pages_left = pages_left.saturating_sub(u64::from(!url.is_planned()));
            match admitted(robots.as_deref(), &url, settings) {
                Ok(usage) => {
                    bytes += url.bytes() + usage.bytes();
                    lease.slots.push_back(slot);
                    requests.push(request(key, slot, url, usage, at.staged)?);
                }
                Err(end) => {
                    at.staged.endings_left -= 1;
                    at.partition.end(at.staged, key, slot, url, *end);
                }
            }
        }
        is_full |= bytes >= JOB_BYTES_MAX;
    }
    at.server
        .queues
        .give_back(left.into_iter(), settings.head_max());
    Ok(requests)
}

/// What robots.txt says of the use of a URL that may be fetched; how one ends that may not.
fn admitted(
    robots: Option<&Robots>,
    url: &FrontierUrl,
    settings: &Settings,
) -> Result<Signals, Box<UrlEnd>> {
    let Some(robots) = robots else {
        return Ok(Signals::default());
    };
    let path = path_of(&url.url);
    if !robots.allows(path) {
        let end = UrlEnd::without_response(Outcome::Disallowed, "robots.txt");
        return Err(Box::new(end));
    }
    let usage = Signals::of_robots_txt(&robots.usage(path));
    let topic = &url.origin.topic;
    match settings.usages.of(topic).skips(usage.stances) {
        true => Err(Box::new(UrlEnd::unwanted(usage))),
        false => Ok(usage),
    }
}

/// The request for a URL, with what is known of its last fetch.
fn request(
    key: ServerKey,
    slot: u64,
    url: FrontierUrl,
    usage: Signals,
    staged: &Staged<'_>,
) -> Result<Request, StoreError> {
    let is_conditional = match url.is_planned() {
        true => !is_checked(&url),
        false => url.origin.again != 0,
    };
    let validators = match is_conditional {
        true => validators::read(&staged.rows, key, &url.url)?,
        false => Validators::default(),
    };
    let known = match url.is_planned() {
        true => record::read(&staged.rows, key, fingerprint(&url.url))?,
        false => None,
    };
    let recrawl = staged.settings.recrawl_of(&url.origin.topic);
    let is_visited_again = recrawl.policy != RecrawlPolicy::None;
    let text = known.as_ref().map(|known| known.text.known);
    Ok(Request {
        slot,
        url: url.url,
        origin: url.origin,
        attempts: url.attempts,
        validators,
        usage,
        visit: url.visit,
        body: known.as_ref().map_or(0, |known| known.body),
        text: is_visited_again.then(|| Box::new(text.unwrap_or_default())),
        visited_ms: known.map_or(0, |known| known.answered_ms),
    })
}

/// Returns whether a visit asks for the page whatever its validators: so a server is found out that
/// says of all pages that they have not changed.
fn is_checked(url: &FrontierUrl) -> bool {
    (fingerprint(&url.url) >> 32).wrapping_add(url.visit.into()) % CHECKED_PART == 0
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
        ..Request::default()
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    // Rounded up: a gap must not become shorter on its way.
    u64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

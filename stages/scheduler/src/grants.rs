//! Grants connection jobs: for the server of the highest rank, to the fetcher whose turn it is.

use crate::fetchers::Grantee;
use crate::frontier::{End, StoredUrl, corrupt};
use crate::jobs::{GRACE, JOBS, Lease, ROBOTS_SLOT, RobotsTask, job_key};
use crate::politeness::requests_max;
use crate::robots::Robots;
use crate::robots_policy::{ROBOTS, Rules};
use crate::rules_cache::RulesCache;
use crate::scheduler::{Granted, Scheduler};
use crate::server::{Server, ServerKey, Todo};
use crate::settings::Settings;
use crate::staged::Staged;
use crate::validators;
use shared::message::{Job, JobId, Origin, Outcome, Request, ToFetcher, Validators};
use shared::stage::store::StoreError;
use shared::time::Timestamp;
use shared::url::path_of;
use std::sync::Arc;

/// URLs of a job take no more bytes than this: well below the smallest `broker.max_payload`.
const JOB_BYTES_MAX: usize = 512 << 10;
/// Of so many connections one is for servers in trouble while the others are in use.
const TROUBLED_PART: u64 = 16;

impl Scheduler {
    /// Grants one job, if there is one to be granted.
    pub(crate) fn grant(&mut self, now: Timestamp, staged: &mut Staged<'_>) -> Result<Granted, StoreError> {
        if self.draining {
            return Ok(Granted::NoneLeft);
        }
        let (grantee, troubled_too) = (self.fetchers.next(now), self.has_room_for_trouble(now));
        let (Some(grantee), Some(key)) = (grantee, self.queue.first_ready(troubled_too)) else {
            return Ok(Granted::NoneLeft);
        };
        let pages_left = self.shares.crawl().left();
        // Errands need none.
        if pages_left == 0 && self.servers.get(&key).is_none_or(|server| server.errands.is_empty()) {
            self.shares.want_for_crawl(now);
            return Ok(Granted::NoneLeft);
        }
        let budgets = self.budgets(key);
        let Some(server) = self.servers.get_mut(&key) else { return Ok(Granted::NoneLeft) };
        staged.touch(key);
        let todo = server.todo(now, &self.settings, budgets, &self.connections);
        let Some(address) = server.address.first().filter(|_| todo == Todo::Job) else {
            return Ok(Granted::Nothing);
        };
        let id = JobId { scheduler: self.instance, epoch: self.epoch, number: self.jobs + 1 };
        let deadline = now + self.settings.job_lease + GRACE;
        let mut lease = Lease::new(id, address, deadline, &grantee.fetcher, grantee.life);
        let requests = if !server.errands.is_empty() || server.needs_robots(now, &self.settings) {
            vec![robots_request(&self.settings, now, server, &mut lease)]
        } else {
            self.fill(now, key, pages_left.min(budgets.left()), &mut lease, staged)?
        };
        if requests.is_empty() {
            return Ok(Granted::Nothing);
        }
        self.send_job(key, lease, requests, &grantee, staged);
        Ok(Granted::Job(grantee.fetcher))
    }

    /// Whether a server in trouble may be given a connection: lest those that keep theirs until a time-out take all, they
    /// hold a small part of them, or of what is free more than the half.
    fn has_room_for_trouble(&self, now: Timestamp) -> bool {
        let free = self.fetchers.credit(now);
        let connections = self.load.jobs + free;
        self.load.troubled < (connections / TROUBLED_PART).max(1) || free > connections / 2
    }

    /// Takes URLs of a server for one connection. Those that its robots.txt disallows end here.
    fn fill(
        &mut self,
        now: Timestamp,
        key: ServerKey,
        pages_left: u64,
        lease: &mut Lease,
        staged: &mut Staged<'_>,
    ) -> Result<Vec<Request>, StoreError> {
        let (Some(server), Some(partition)) = (self.servers.get_mut(&key), self.partitions.get_mut(&key.partition))
        else {
            return Ok(Vec::new());
        };
        let robots = stored_robots(&self.settings, now, key, server, &mut self.rules, staged)?;
        let limit = requests_max(&self.settings, server.requests_learned, server.gap(&self.settings));
        let limit = limit.min(usize::try_from(pages_left).unwrap_or(usize::MAX));
        let (clock, fresh_first) = (partition.clock, server.was_set_aside());
        let mut requests = Vec::new();
        let mut bytes = 0;
        while requests.len() < limit && bytes < JOB_BYTES_MAX && staged.endings_left > 0 {
            let wanted = (limit - requests.len()).min(staged.endings_left);
            let urls = server.queue.take(staged, key, now, |stored| clock.restore(stored), wanted, fresh_first)?;
            if urls.is_empty() {
                break;
            }
            let mut left = Vec::new();
            for (slot, url) in urls {
                if bytes >= JOB_BYTES_MAX {
                    left.push(slot);
                } else if robots.as_ref().is_none_or(|robots| robots.allows(path_of(&url.url))) {
                    bytes += url.bytes();
                    lease.slots.push_back(slot);
                    let validators = match url.origin.again {
                        0 => Validators::default(),
                        _ => validators::read(staged, key, &url.url)?,
                    };
                    let StoredUrl { url, origin, attempts, .. } = url;
                    requests.push(Request { slot, url, origin, attempts, validators });
                } else {
                    staged.endings_left -= 1;
                    partition.end(staged, key, slot, url, End::without_response(Outcome::Disallowed, "robots.txt"));
                }
            }
            server.queue.give_back(left.into_iter(), self.settings.head_max());
        }
        Ok(requests)
    }

    /// Stages the lease, and the job that is sent once it is committed.
    fn send_job(
        &mut self,
        key: ServerKey,
        lease: Lease,
        requests: Vec<Request>,
        grantee: &Grantee,
        staged: &mut Staged<'_>,
    ) {
        let (Some(server), Some(partition)) = (self.servers.get_mut(&key), self.partitions.get_mut(&key.partition))
        else {
            return;
        };
        // There is a longer one after it.
        let is_short_try = server.is_stranger() && self.settings.attempts > 1;
        self.jobs += 1;
        partition.counts.jobs += 1;
        let job = Job {
            id: lease.id,
            life: grantee.life,
            ask: grantee.ask,
            partition: key.partition,
            lease_ms: millis(self.settings.job_lease),
            kind: lease.kind(),
            server: server.name.to_string(),
            addresses: server.address.addresses().to_vec(),
            gap_ms: millis(server.gap(&self.settings)),
            first_answer_ms: is_short_try.then(|| millis(self.settings.first_answer_timeout)),
            requests,
        };
        self.connections.connect(lease.address);
        staged.put(JOBS, job_key(key), lease.to_row());
        staged.send(&grantee.fetcher, ToFetcher::Job(job));
        server.lease = Some(Box::new(lease));
        self.fetchers.granted(grantee);
        self.account(key);
    }
}

/// The one request of a robots job: for others that wait for an answer first, else for the server itself. Who
/// wants the same gets the same answer.
fn robots_request(settings: &Settings, now: Timestamp, server: &mut Server, lease: &mut Lease) -> Request {
    let own = server.needs_robots(now, settings) && !server.robots.awaits_errand();
    let own_url = server.robots.own_url(&server.name);
    let url = server.errands.first().map_or_else(|| own_url.clone(), |task| task.url.clone());
    let mut askers = Vec::new();
    server.errands.retain(|task| {
        let same = task.url == url;
        if same {
            askers.push(task.asker.clone());
        }
        !same
    });
    lease.robots = Some(RobotsTask { own: own && url == own_url, url: url.clone(), askers });
    let origin = Origin::default();
    Request { slot: ROBOTS_SLOT, url, origin, attempts: 0, validators: Validators::default() }
}

/// The rules that the server's URLs are matched against; none when all are allowed.
fn stored_robots(
    settings: &Settings,
    now: Timestamp,
    key: ServerKey,
    server: &Server,
    rules: &mut RulesCache,
    staged: &Staged<'_>,
) -> Result<Option<Arc<Robots>>, StoreError> {
    if !settings.respect_robots {
        return Ok(None);
    }
    match server.robots.rules(now) {
        Some(Rules::AllowAll) => Ok(None),
        Some(Rules::Text) => {
            if let Some(robots) = rules.get(key) {
                return Ok(Some(robots));
            }
            let body =
                staged.get(ROBOTS, &key.to_bytes())?.ok_or_else(|| corrupt(ROBOTS, "a robots.txt is missing"))?;
            let robots = Arc::new(Robots::parse(&body, &settings.agent));
            rules.put(key, Arc::clone(&robots));
            Ok(Some(robots))
        }
        Some(Rules::Unreachable) | None => Ok(Some(Arc::new(Robots::disallow_all()))),
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    // Rounded up: a gap must not become shorter on its way.
    u64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

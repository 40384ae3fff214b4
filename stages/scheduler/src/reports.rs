//! Reports of jobs: how URLs ended, what the connection was like; and leases that expire without one.
//!
//! A report counts once, whatever the broker repeats: by its sequence number, and because a slot that has left
//! its job is never looked at again. A job ends when its last report and all before it came; reports of other
//! jobs change nothing.

use crate::frontier::{End, StoredUrl, read_url, remove_url, write_url};
use crate::jobs::{GRACE, JOBS, Lease, ROBOTS_SLOT, job_key};
use crate::partition::Partition;
use crate::politeness::{Verdict, back_off, learn_overlap, learn_requests, retry_after, smooth, verdict};
use crate::scheduler::Scheduler;
use crate::server::{ErrandTask, Server, ServerKey};
use crate::settings::Settings;
use crate::shares::Shares;
use crate::speeds::Speeds;
use crate::staged::Staged;
use crate::trouble::{ForUrl, SetAside, Trouble};
use crate::validators;
use shared::message::{Outcome, Report, RequestEnd, RequestResult, ToFetcher};
use shared::stage::store::StoreError;
use shared::time::Timestamp;
use std::time::Duration;

/// A server of which a job came back untouched is not granted again at once: whoever sends jobs back would be
/// sent them as fast as messages go.
const UNTOUCHED_PAUSE: Duration = Duration::from_millis(100);

impl Scheduler {
    /// Takes a report.
    pub(crate) fn report(&mut self, now: Timestamp, report: Report, staged: &mut Staged<'_>) -> Result<(), StoreError> {
        if !self.partitions.contains_key(&report.partition) {
            self.foreign += 1;
            return Ok(());
        }
        let key = ServerKey::of(report.partition, &report.server);
        staged.unsettle(key);
        let held = self.load(key)?.and_then(|server| match &server.lease {
            Some(lease) if lease.id == report.job => server.lease.take(),
            _ => None,
        });
        let Some(mut lease) = held else {
            if !report.last {
                staged.send(&report.fetcher, ToFetcher::Revoked { job: report.job });
            }
            return self.heed(now, key, &report, staged);
        };
        if lease.reports.insert(u64::from(report.sequence)) {
            self.apply(now, key, &mut lease, &report, staged)?;
            staged.touch(key);
            if lease.is_over() {
                return self.finish(now, key, *lease, staged);
            }
            lease.deadline = now + self.settings.job_lease + GRACE;
            if lease.last.is_none() {
                let (job, sequence) = (report.job, report.sequence);
                let answer = if self.may_go_on(now, key, &lease) {
                    ToFetcher::Renewed { job, sequence }
                } else {
                    ToFetcher::Revoked { job }
                };
                staged.send(&report.fetcher, answer);
            }
            staged.put(JOBS, job_key(key), lease.to_row());
        }
        if let Some(server) = self.servers.get_mut(&key) {
            server.lease = Some(lease);
        }
        Ok(())
    }

    /// Whether the rules hold under which a job was granted: one that waits for a full stream may outlast them
    /// (P5). Rules lapse earlier than they must, by more than what is left of the lease.
    fn may_go_on(&self, now: Timestamp, key: ServerKey, lease: &Lease) -> bool {
        lease.robots.is_some()
            || !self.settings.respect_robots
            || self.servers.get(&key).is_some_and(|server| server.robots.rules(now).is_some())
    }

    /// A report of another's job, or of one that has expired: its URLs are not its own, but what the server asks
    /// for holds whoever was told (P2), and so does the pause after its answer.
    fn heed(
        &mut self,
        now: Timestamp,
        key: ServerKey,
        report: &Report,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        let asked_for = |result: &RequestResult| match result.end {
            RequestEnd::Response { elapsed_us, .. } => {
                let pause = self.settings.download_pause.after(Duration::from_micros(elapsed_us.into()));
                Some(retry_after(&self.settings, &result.end).unwrap_or_default().max(pause))
            }
            _ => None,
        };
        let wait = report.results.iter().filter_map(asked_for).max();
        if let Some(wait) = wait
            && let Some(server) = self.load(key)?
        {
            server.leave_alone(now, wait);
            staged.touch(key);
        }
        Ok(())
    }

    /// What a report that was not seen before says.
    fn apply(
        &mut self,
        now: Timestamp,
        key: ServerKey,
        lease: &mut Lease,
        report: &Report,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        lease.contacted |= report.connect_us.is_some() || report.requests > 0;
        if report.last {
            lease.last = Some(report.sequence);
            if let Some(server) = self.servers.get_mut(&key) {
                measure(server, lease, report, &self.settings, &mut self.speeds);
            }
        }
        if lease.robots.is_some() {
            return self.apply_robots(now, key, lease, report, staged);
        }
        let (Some(server), Some(partition)) = (self.servers.get_mut(&key), self.partitions.get_mut(&key.partition))
        else {
            return Ok(());
        };
        let mut untried = Vec::new();
        for result in &report.results {
            if lease.take(result.slot) {
                let mut urls = Urls {
                    now,
                    key,
                    settings: &self.settings,
                    speeds: &mut self.speeds,
                    shares: &mut self.shares,
                    server,
                    partition,
                    served: lease.progressed || report.requests > 0,
                    lease,
                    staged,
                };
                if urls.apply(result)? == Verdict::Untried {
                    untried.push(result.slot);
                }
            }
        }
        server.queue.give_back(untried.into_iter(), self.settings.head_max());
        Ok(())
    }

    /// The report of a robots job.
    fn apply_robots(
        &mut self,
        now: Timestamp,
        key: ServerKey,
        lease: &mut Lease,
        report: &Report,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        let end = report.results.iter().find(|result| result.slot == ROBOTS_SLOT).map(|result| &result.end);
        let end = end.filter(|end| **end != RequestEnd::Untried);
        if end.is_none() && report.robots.is_none() {
            return Ok(());
        }
        let (Some(server), Some(partition)) = (self.servers.get_mut(&key), self.partitions.get_mut(&key.partition))
        else {
            return Ok(());
        };
        let trouble = end.and_then(Trouble::of);
        let contacted = trouble.is_none_or(Trouble::contacts);
        lease.contacted |= contacted;
        partition.counts.contacts += u64::from(contacted);
        // Tries to get a robots.txt are counted by themselves, so that it is out of reach as RFC 9309 has it in the end;
        // but a server that refuses is left alone.
        let has_own_tries = trouble.is_some_and(|trouble| trouble.class().url == ForUrl::Attempt);
        if let Some(end) = end {
            if !has_own_tries {
                take_trouble(now, server, lease, end, false, &self.settings);
            } else if trouble.is_some_and(|trouble| trouble.class().server == SetAside::Always) {
                let wait = retry_after(&self.settings, end).unwrap_or_else(|| back_off(&self.settings, 1));
                server.leave_alone(now, wait);
            }
        }
        let answered = trouble.is_none_or(|trouble| trouble.class().url != ForUrl::GoesBack);
        let Some(task) = lease.robots.as_ref().filter(|_| answered && !lease.progressed) else { return Ok(()) };
        if task.own {
            self.robots_answered(now, key, &task.url, report.robots.as_ref(), staged)?;
        }
        for asker in &task.askers {
            self.deliver(now, asker, report.robots.clone(), staged)?;
        }
        lease.progressed = true;
        Ok(())
    }

    /// A job's connection is closed, and all its reports came.
    fn finish(
        &mut self,
        now: Timestamp,
        key: ServerKey,
        lease: Lease,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        let restored = lease.holder.is_none();
        let hung_up = lease.contacted && !lease.progressed && lease.trouble.is_none();
        let trouble = lease.trouble.or(hung_up.then_some(Trouble::HungUp));
        self.close_connection(&lease, staged);
        let askers = match lease.robots {
            Some(task) if !lease.progressed => task.askers.into_iter().map(|asker| (task.url.clone(), asker)).collect(),
            _ => Vec::new(),
        };
        staged.remove(JOBS, job_key(key));
        if let Some(server) = self.servers.get_mut(&key) {
            server.queue.give_back(lease.slots.into_iter(), self.settings.head_max());
            if hung_up {
                server.set_aside(now, Trouble::HungUp, None, &self.settings);
            }
            let touched = lease.contacted || restored || trouble.is_some();
            let pause = if touched { server.gap(&self.settings) } else { UNTOUCHED_PAUSE };
            server.leave_alone(now, pause);
            if trouble.is_none() {
                server.errands.extend(askers.into_iter().map(|(url, asker)| ErrandTask { url, asker }));
                return Ok(());
            }
        }
        for (_, asker) in askers {
            self.deliver(now, &asker, None, staged)?;
        }
        Ok(())
    }

    /// A lease ran out: what became of its URLs nobody knows. Its holder may have had the first one in hand.
    pub(crate) fn expire(&mut self, now: Timestamp, key: ServerKey, staged: &mut Staged<'_>) -> Result<(), StoreError> {
        staged.touch(key);
        let (Some(server), Some(partition)) = (self.servers.get_mut(&key), self.partitions.get_mut(&key.partition))
        else {
            return Ok(());
        };
        let Some(mut lease) = server.lease.take() else { return Ok(()) };
        partition.counts.leases_expired += 1;
        partition.counts.refetched += lease.slots.len() as u64;
        staged.remove(JOBS, job_key(key));
        if let (Some((fetcher, life)), 0, 0) = (&lease.holder, lease.reports.low(), lease.reports.ranges()) {
            self.fetchers.lost(fetcher, *life);
        }
        if let Some(&first) = lease.slots.front() {
            let mut url = read_url(staged, key, first)?;
            url.attempts = url.attempts.saturating_add(1);
            if url.attempts >= self.settings.attempts {
                partition.counts.refetched -= 1;
                lease.slots.pop_front();
                partition.end(staged, key, first, url, End::without_response(Outcome::Failed, "lease expired"));
            } else {
                write_url(staged, key, first, &url);
            }
        }
        let slots = std::mem::take(&mut lease.slots);
        server.queue.give_back(slots.into_iter(), self.settings.head_max());
        let gap = server.gap(&self.settings);
        server.leave_alone(now, gap);
        self.close_connection(&lease, staged);
        if let Some(task) = lease.robots.filter(|_| !lease.progressed) {
            if task.own {
                self.robots_answered(now, key, &task.url, None, staged)?;
            }
            for asker in &task.askers {
                self.deliver(now, asker, None, staged)?;
            }
        }
        Ok(())
    }
}

/// The server answered, and in what time, or is set aside: as the end of a request says, and whether its job brought an
/// answer.
fn take_trouble(
    now: Timestamp,
    server: &mut Server,
    lease: &mut Lease,
    end: &RequestEnd,
    served: bool,
    settings: &Settings,
) {
    if let RequestEnd::Response { elapsed_us, .. } = end {
        server.downloaded(now, *elapsed_us, settings);
    }
    // Of requests at once a job's first trouble counts: the streak is one of jobs.
    let is_first = lease.trouble.is_none();
    let Some(trouble) = Trouble::of(end) else {
        if is_first {
            server.answered();
        }
        return;
    };
    let is_set_aside = match trouble.class().server {
        SetAside::Always => true,
        SetAside::Unanswered => !served,
        SetAside::Never => false,
    };
    if !is_first {
        return;
    }
    if is_set_aside {
        server.set_aside(now, trouble, retry_after(settings, end), settings);
        lease.trouble = Some(trouble);
    } else if trouble.answers() {
        server.answered();
    }
}

/// Estimates after a connection, kept for ranking and for the length of the next job.
fn measure(server: &mut Server, lease: &Lease, report: &Report, settings: &Settings, speeds: &mut Speeds) {
    if let Some(connect_us) = report.connect_us {
        speeds.connect.add(connect_us);
        server.connect_us = smooth(server.connect_us, connect_us);
    }
    if lease.robots.is_none() {
        server.requests_learned =
            learn_requests(settings, server.requests_learned, report.requests, report.closed_by_server);
        server.overlap_permille = learn_overlap(server.overlap_permille, report);
    }
}

/// A job's URLs while its report is taken.
struct Urls<'a, 's> {
    now: Timestamp,
    key: ServerKey,
    settings: &'a Settings,
    speeds: &'a mut Speeds,
    shares: &'a mut Shares,
    server: &'a mut Server,
    partition: &'a mut Partition,
    /// The job brought an answer; its page may be reported after the request that failed behind it.
    served: bool,
    lease: &'a mut Lease,
    staged: &'a mut Staged<'s>,
}

impl Urls<'_, '_> {
    /// What becomes of one URL. One that is untried is left to the caller.
    fn apply(&mut self, result: &RequestResult) -> Result<Verdict, StoreError> {
        if result.end == RequestEnd::Untried {
            return Ok(Verdict::Untried);
        }
        let trouble = Trouble::of(&result.end);
        let contacted = trouble.is_none_or(Trouble::contacts);
        let lost_with_its_connection = self.served && trouble == Some(Trouble::Reset);
        let goes_back = trouble.is_some_and(|trouble| trouble.class().url == ForUrl::GoesBack);
        let counts = contacted && !goes_back && !lost_with_its_connection;
        if let RequestEnd::Response { elapsed_us, .. } = result.end {
            self.speeds.response.add(elapsed_us);
            self.server.response_us = smooth(self.server.response_us, elapsed_us);
        }
        self.lease.contacted |= contacted;
        self.partition.counts.contacts += u64::from(contacted);
        take_trouble(self.now, self.server, self.lease, &result.end, self.served, self.settings);
        self.lease.progressed |= trouble.is_none_or(Trouble::answers);
        let mut url = read_url(self.staged, self.key, result.slot)?;
        url.attempts = url.attempts.saturating_add(u8::from(counts));
        let verdict = match lost_with_its_connection {
            true => Verdict::Untried,
            false => verdict(self.settings, &result.end, url.attempts),
        };
        match verdict {
            Verdict::Untried => {}
            Verdict::Retry(wait) => self.retry(result.slot, url, wait),
            Verdict::Ends(outcome, reason) => {
                validators::note(self.staged, self.key, &url, &result.end);
                let end = end_of(&result.end, outcome, reason);
                if outcome == Outcome::Fetched {
                    self.shares.fetched(self.staged, self.server.domain);
                }
                self.partition.end(self.staged, self.key, result.slot, url, end);
            }
        }
        Ok(verdict)
    }

    fn retry(&mut self, slot: u64, mut url: StoredUrl, wait: Duration) {
        let at = self.now.max(self.server.next_contact) + wait;
        url.not_before = self.partition.clock.store(at);
        self.partition.counts.retried += 1;
        remove_url(self.staged, self.key, slot);
        self.server.queue.push_retry(self.staged, self.key, &url, at);
    }
}

fn end_of(end: &RequestEnd, outcome: Outcome, reason: &'static str) -> End {
    match end {
        &RequestEnd::Response { status, bytes, truncated, elapsed_us, fetched_at_ms, ref media_type, .. } => {
            End { outcome, reason, status, bytes, truncated, elapsed_us, fetched_at_ms, media_type: media_type.clone() }
        }
        _ => End::without_response(outcome, reason),
    }
}

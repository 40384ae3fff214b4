//! Reports of jobs: how URLs ended, what the connection was like; and leases that expire without
//! one.
//!
//! A report counts once, whatever the broker repeats: by its job, by its sequence number, and
//! because a slot that has left its job is never looked at again. A job ends when its last report
//! and all before it came. A report of another job moves no URL; it can only make the server wait
//! longer.

use crate::core::doors::Doors;
use crate::core::errands;
use crate::core::fetchers::Fetchers;
use crate::core::results::{JobUrls, take_trouble};
use crate::core::work::Work;
use crate::frontier::rows::{read_url, write_url};
use crate::frontier::url_end::UrlEnd;
use crate::keys::server_key::ServerKey;
use crate::politeness::pauses::{back_off, retry_after};
use crate::politeness::trouble::{ForUrl, Trouble};
use crate::politeness::url_fate::UrlFate;
use crate::politeness::visit::{learn_overlap, learn_requests, smooth};
use crate::ranking::speeds::Speeds;
use crate::servers::in_play::InPlay;
use crate::servers::lease::{JOBS, Lease, ROBOTS_SLOT, RobotsTask};
use crate::servers::server::{ErrandTask, Server};
use crate::settings::Settings;
use rhumb_stage::store::StoreError;
use rhumb_url::fingerprint;
use rhumb_wire::message::{
    FailureKind, Outcome, Report, RequestEnd, RequestResult, ResponseSummary, ToFetcher,
};
use std::borrow::Cow;
use std::time::Duration;

/// Pause of a server whose job came back untouched, at least. Without it a fetcher that sends jobs
/// back would be sent them again as fast as messages go.
const UNTOUCHED_PAUSE: Duration = Duration::from_millis(100);

/// What a report changes.
pub(crate) struct Reports<'a, 'w> {
    pub(crate) work: &'a mut Work<'w>,
    pub(crate) doors: &'a mut Doors,
    pub(crate) fetchers: &'a mut Fetchers,
}

impl Reports<'_, '_> {
    /// Takes a report of a server of this instance.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn take(&mut self, key: ServerKey, report: &Report) -> Result<(), StoreError> {
        self.work.staged.unsettle(key);
        let held = self
            .work
            .servers
            .load(key)?
            .and_then(|server| match &server.lease {
                Some(lease) if lease.id == report.job => server.lease.take(),
                _ => None,
            });
        let Some(mut lease) = held else {
            if !report.last {
                self.work
                    .staged
                    .messages
                    .send(&report.fetcher, ToFetcher::Revoked { job: report.job });
            }
            return self.heed(key, report);
        };
        if lease.reports.insert(u64::from(report.sequence)) {
            let counts = self.compare(key, report);
            self.apply(key, &mut lease, &counts)?;
            self.work.staged.touch(key);
            if lease.is_over() {
                return self.finish(key, *lease);
            }
            lease.renew(
                self.work.staged.now,
                self.work.staged.settings.scheduler.job_lease,
            );
            if lease.last.is_none() {
                let job = report.job;
                let sequence = report.sequence;
                if !self.may_go_on(key, &lease) {
                    lease.is_excused = true;
                    self.work
                        .staged
                        .messages
                        .send(&report.fetcher, ToFetcher::Revoked { job });
                } else if Doors::renewed(self.work, key, &lease) {
                    self.work
                        .staged
                        .messages
                        .send(&report.fetcher, ToFetcher::Renewed { job, sequence });
                }
            }
            self.work
                .staged
                .rows
                .put(JOBS, key.to_bytes(), lease.to_row());
        }
        if let Some(InPlay { server, .. }) = self.work.servers.in_play(key, "keeping a lease") {
            server.lease = Some(lease);
        }
        Ok(())
    }

    /// Compares fetchers. Gives the report as it counts: what a fetcher that is cut off could not
    /// reach goes back untried, as if the fetcher had withheld it itself; so often and no more
    /// (P6).
    fn compare<'r>(&mut self, key: ServerKey, report: &'r Report) -> Cow<'r, Report> {
        let unreached = |result: &RequestResult| {
            use FailureKind::{Connect, Reset, Timeout, Tls};
            matches!(
                result.end,
                RequestEnd::Failure(Connect | Reset | Timeout | Tls)
            )
        };
        let was_answered = report.requests > 0;
        let was_unreached = !was_answered && report.results.iter().any(unreached);
        if report.last || was_unreached {
            let reached = (was_answered || was_unreached).then_some(was_answered);
            self.fetchers
                .ended(self.work.staged.now, &report.fetcher, reached);
        } else if was_answered {
            self.fetchers.reaches(self.work.staged.now, &report.fetcher);
        }
        let Some(server) = self.work.servers.get_mut(key).filter(|_| was_unreached) else {
            return Cow::Borrowed(report);
        };
        server.unreached_by = fingerprint(&report.fetcher);
        if !self
            .fetchers
            .is_cut_off(self.work.staged.now, &report.fetcher)
            || !server.excuse(self.work.staged.settings)
        {
            return Cow::Borrowed(report);
        }
        self.fetchers.excuse();
        let mut excused = Report {
            connect_us: None,
            ..report.clone()
        };
        for result in excused
            .results
            .iter_mut()
            .filter(|result| unreached(result))
        {
            result.end = RequestEnd::Untried;
        }
        Cow::Owned(excused)
    }

    /// Returns whether the rules under which a job was granted still hold. A job that waits for a
    /// full stream may outlast them (P5). Rules lapse earlier than they must, by more than what is
    /// left of the lease.
    fn may_go_on(&self, key: ServerKey, lease: &Lease) -> bool {
        let Some(server) = self.work.servers.get(key) else {
            return false;
        };
        let has_rules = || server.robots.rules(self.work.staged.now).is_some();
        let is_stopped =
            lease.is_stopped || server.is_paused || self.work.servers.paused().has_all();
        !is_stopped
            && (lease.robots.is_some()
                || !self.work.staged.settings.politeness.respect_robots
                || has_rules())
    }

    /// Takes a report of a job that is not, or no longer, the server's. Its results do not count.
    /// But the waits that the server asked for hold (P2), and so do the pauses after its answers.
    fn heed(&mut self, key: ServerKey, report: &Report) -> Result<(), StoreError> {
        let asked_for = |result: &RequestResult| match result.end {
            RequestEnd::Response(ResponseSummary { elapsed_us, .. }) => {
                let pause = self
                    .work
                    .staged
                    .settings
                    .download_pause()
                    .after(Duration::from_micros(elapsed_us.into()));
                Some(
                    retry_after(self.work.staged.settings, &result.end)
                        .unwrap_or_default()
                        .max(pause),
                )
            }
            _ => None,
        };
        let wait = report.results.iter().filter_map(asked_for).max();
        if let Some(wait) = wait
            && let Some(server) = self.work.servers.load(key)?
        {
            server.leave_alone(self.work.staged.now, wait);
            self.work.staged.touch(key);
        }
        Ok(())
    }

    /// Takes what is new in a report.
    fn apply(
        &mut self,
        key: ServerKey,
        lease: &mut Lease,
        report: &Report,
    ) -> Result<(), StoreError> {
        lease.contacted |= report.connect_us.is_some() || report.requests > 0;
        if report.last {
            lease.last = Some(report.sequence);
            if let Some(server) = self.work.servers.get_mut(key) {
                measure(
                    server,
                    lease,
                    report,
                    self.work.staged.settings,
                    &mut self.work.places.speeds,
                );
            }
        }
        if lease.robots.is_some() {
            return self.apply_robots(key, lease, report);
        }
        // What the pages behind walls say of their use cannot be seen: robots.txt is all there is.
        let is_wall = |end| Trouble::of(end) == Some(Trouble::Challenged);
        let has_walls = report.results.iter().any(|result| is_wall(&result.end));
        let robots = match has_walls {
            true => errands::rules(self.work, key)?,
            false => None,
        };
        let Some(mut at) = self.work.at(key, "taking a report of pages") else {
            return Ok(());
        };
        let mut untried = Vec::new();
        // They ended one after the other, and not all of them now.
        let mut left = report
            .results
            .iter()
            .filter(|result| result.end != RequestEnd::Untried)
            .count() as u32;
        let each = lease.hear(at.staged.now) / left.max(1);
        for result in &report.results {
            left -= u32::from(result.end != RequestEnd::Untried);
            if !lease.take(result.slot) {
                continue;
            }
            let mut urls = JobUrls {
                at: &mut at,
                served: lease.progressed || report.requests > 0,
                lease: &mut *lease,
                robots: robots.as_deref(),
                before: each * left,
            };
            if urls.apply(result)? == UrlFate::Untried {
                untried.push(result.slot);
            }
            let bytes = match result.end {
                RequestEnd::Untried => continue,
                RequestEnd::Response(ResponseSummary { bytes, .. }) => bytes,
                RequestEnd::Failure(_) => 0,
            };
            Doors::answered(&mut at, lease, bytes);
        }
        Doors::spared(&mut at, lease, untried.len());
        let head_max = at.staged.settings.head_max();
        at.server.queues.give_back(untried.into_iter(), head_max);
        Ok(())
    }

    /// Takes the report of a robots job.
    fn apply_robots(
        &mut self,
        key: ServerKey,
        lease: &mut Lease,
        report: &Report,
    ) -> Result<(), StoreError> {
        let end = report
            .results
            .iter()
            .find(|result| result.slot == ROBOTS_SLOT)
            .map(|result| &result.end);
        let end = end.filter(|end| **end != RequestEnd::Untried);
        if end.is_none() && report.robots.is_none() {
            return Ok(());
        }
        let Work {
            servers, staged, ..
        } = &mut *self.work;
        let Some(InPlay {
            server, partition, ..
        }) = servers.in_play(key, "taking a report of a robots.txt")
        else {
            return Ok(());
        };
        let trouble = end.and_then(Trouble::of);
        let contacted = trouble.is_none_or(Trouble::contacts);
        lease.contacted |= contacted;
        partition.counts.contacts += u64::from(contacted);
        // Tries to get a robots.txt are counted by themselves, so that it counts as out of reach in
        // the end, as RFC 9309 says. But a server that refuses is left alone.
        let has_own_tries = trouble.is_some_and(|trouble| trouble.class().url == ForUrl::Attempt);
        if let Some(end) = end {
            if !has_own_tries {
                take_trouble(server, lease, end, false, staged);
            } else if trouble.is_some_and(Trouble::refuses) {
                let wait = retry_after(staged.settings, end)
                    .unwrap_or_else(|| back_off(staged.settings, 1));
                server.leave_alone(staged.now, wait);
            }
        }
        if !lease.is_prompt(self.work.staged.now) {
            // The report waited, since the last life or while nothing could be heard, and nobody
            // knows how long. So its robots.txt may be older than rules may be (P5). It is asked
            // for again, also by those who asked for it on behalf of another server.
            if let (Some(RobotsTask { own: true, .. }), Some(robots)) =
                (&lease.robots, &report.robots)
            {
                errands::heed(self.work, key, robots);
            }
            lease.progressed = true;
            return Ok(());
        }
        let answered = trouble.is_none_or(|trouble| trouble.class().url != ForUrl::GoesBack);
        let Some(task) = lease
            .robots
            .as_ref()
            .filter(|_| answered && !lease.progressed)
        else {
            return Ok(());
        };
        if task.own {
            let elapsed_us = match end {
                Some(RequestEnd::Response(ResponseSummary { elapsed_us, .. })) => *elapsed_us,
                _ => 0,
            };
            let since = lease.before_end_of(Duration::from_micros(elapsed_us.into()));
            errands::answered(self.work, key, &task.url, report.robots.as_ref(), since)?;
        }
        for asker in &task.askers {
            errands::deliver(self.work, asker, report.robots.clone())?;
        }
        lease.progressed = true;
        Ok(())
    }

    /// Ends a job whose reports all came: its connection is closed.
    fn finish(&mut self, key: ServerKey, lease: Lease) -> Result<(), StoreError> {
        let restored = lease.is_restored();
        let hung_up =
            lease.contacted && !lease.progressed && lease.trouble.is_none() && !lease.is_stopped;
        let trouble = lease.trouble.or(hung_up.then_some(Trouble::HungUp));
        self.doors.closed(self.work, key, &lease);
        let is_robots = lease.robots.is_some();
        let askers = match lease.robots {
            Some(task) if !lease.progressed => task
                .askers
                .into_iter()
                .map(|asker| (task.url.clone(), asker))
                .collect(),
            _ => Vec::new(),
        };
        let Work {
            servers, staged, ..
        } = &mut *self.work;
        staged.rows.remove(JOBS, key.to_bytes());
        let Some(InPlay { server, .. }) = servers.in_play(key, "ending a job") else {
            return Ok(());
        };
        server
            .queues
            .give_back(lease.slots.into_iter(), staged.settings.head_max());
        if hung_up {
            server.set_aside(staged.now, Trouble::HungUp, None, staged.settings);
            if is_robots {
                server.failed_robots();
            }
        }
        // Of a robots.txt the tries are counted by themselves.
        if trouble == Some(Trouble::Challenged) && !is_robots {
            server.set_aside(staged.now, Trouble::Challenged, None, staged.settings);
        }
        // A fetcher that doubts its network says untried of what may have been a contact: the pause
        // holds all the same (P2).
        let touched = lease.contacted || restored || trouble.is_some();
        let pause = server.gap(staged.settings).max(if touched {
            Duration::ZERO
        } else {
            UNTOUCHED_PAUSE
        });
        server.leave_alone(staged.now, pause);
        if trouble.is_none() {
            server.errands.extend(
                askers
                    .into_iter()
                    .map(|(url, asker)| ErrandTask { url, asker }),
            );
            return Ok(());
        }
        for (_, asker) in askers {
            errands::deliver(self.work, &asker, None)?;
        }
        Ok(())
    }

    /// Ends a job whose lease ran out. Nobody knows what became of its URLs; its holder may have
    /// had the first one in hand, which costs that one an attempt, unless that is excused.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn expire(&mut self, key: ServerKey) -> Result<(), StoreError> {
        let Work {
            servers, staged, ..
        } = &mut *self.work;
        staged.touch(key);
        let Some(InPlay {
            server, partition, ..
        }) = servers.in_play(key, "expiring a lease")
        else {
            return Ok(());
        };
        let Some(mut lease) = server.lease.take() else {
            return Ok(());
        };
        partition.counts.leases_expired += 1;
        partition.counts.refetched += lease.slots.len() as u64;
        staged.rows.remove(JOBS, key.to_bytes());
        if let (Some((fetcher, life)), 0, 0) =
            (&lease.holder, lease.reports.low(), lease.reports.ranges())
        {
            self.fetchers.lost(fetcher, *life);
        }
        if let Some(&first) = lease.slots.front().filter(|_| !lease.is_excused) {
            let mut url = read_url(&staged.rows, key, first)?;
            url.attempts = url.attempts.saturating_add(1);
            if url.attempts >= staged.settings.scheduler.attempts {
                partition.counts.refetched -= 1;
                lease.slots.pop_front();
                partition.end(
                    staged,
                    key,
                    first,
                    url,
                    UrlEnd::without_response(Outcome::Failed, "lease expired"),
                );
            } else {
                write_url(&mut staged.rows, key, first, &url);
            }
        }
        let gap = server.gap(staged.settings);
        server.leave_alone(staged.now, gap);
        self.doors.closed(self.work, key, &lease);
        let head_max = self.work.staged.settings.head_max();
        if let Some(server) = self.work.servers.get_mut(key) {
            let slots = std::mem::take(&mut lease.slots);
            server.queues.give_back(slots.into_iter(), head_max);
        }
        if let Some(task) = lease.robots.filter(|_| !lease.progressed) {
            if task.own {
                let now = self.work.staged.now;
                errands::answered(self.work, key, &task.url, None, now)?;
            }
            for asker in &task.askers {
                errands::deliver(self.work, asker, None)?;
            }
        }
        Ok(())
    }
}

/// Updates what is known of the server's connections, for its rank and for the length of its next
/// job.
fn measure(
    server: &mut Server,
    lease: &Lease,
    report: &Report,
    settings: &Settings,
    speeds: &mut Speeds,
) {
    if let Some(connect_us) = report.connect_us {
        speeds.connect.add(connect_us);
        server.connect_us = smooth(server.connect_us, connect_us);
    }
    if lease.robots.is_none() {
        server.requests_learned = learn_requests(
            settings,
            server.requests_learned,
            report.requests,
            report.closed_by_server,
        );
        server.overlap_permille = learn_overlap(server.overlap_permille, report);
    }
}

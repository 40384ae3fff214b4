//! A connection job in hand: requests over one connection, then its close, then the last report.
//! Where HTTP/2 fails the connection is closed, and one over HTTP/1.1 follows, once (`fallback`):
//! for what failed, for what the server did not look at beside it, and for the rest. Requests go
//! one after the other; several at once only when the connection has shown that it is HTTP/2 and
//! nobody asks for a pause between contacts ([`Settings::streams`]).
//!
//! Invariants: a request is sent only before the lease's deadline (P1), after the gap (P2), to the
//! job's server (P7), and while at most [`UNSTORED_MAX`] pages wait for their stream. A URL enters
//! a report as answered only when its page is stored (P3). The last report follows the close and
//! every other report.

mod fallback;
mod reports;

use crate::challenge;
use crate::content::{NO_ROBOTS, ROBOTS_BYTES_MAX, end_of, page, robots_response};
use crate::cookie_walls::CookieWalls;
use crate::effect::{Effect, End, Request as Fetch, Response, Target};
use crate::findings::{Findings, Reported};
use crate::lease::Lease;
use crate::surroundings::Surroundings;
use crate::times::Times;
use crate::turns::Turns;
use rhumb_config::DownloadPause;
use rhumb_stage::Output;
use rhumb_url::time::{Timestamp, millis};
use rhumb_wire::message::{FailureKind, HttpVersion, Job, JobKind, RequestEnd, RequestResult};
use rhumb_wire::topology::Token;
use std::sync::Arc;
use std::time::Duration;

/// Pages of a job that may wait for their stream before its next request.
const UNSTORED_MAX: usize = 2;

pub(crate) struct Running {
    job: Job,
    target: Arc<Target>,
    turns: Turns,
    cookie_walls: CookieWalls,
    phase: Phase,
    /// Its connection speaks HTTP/1.1 alone: the next one that is opened.
    http11: bool,
    /// As what HTTP/2 failed, until the server has answered over HTTP/1.1.
    http2_failed: Option<FailureKind>,
    /// The server looks at no further request on this connection. Those that it did not look at
    /// wait for how the others end: with them on the next connection, or untried.
    gone: bool,
    /// Requests that may be in hand at once.
    streams: usize,
    /// No further request, whatever the lease says.
    stopped: bool,
    lease: Lease,
    /// No request earlier (P2).
    not_before: Timestamp,
    /// Number of the last report.
    sequence: u32,
    /// Tag of the report on its way to its stream.
    report_tag: Option<u64>,
    /// Tags that were given since they were asked for.
    new_tags: Vec<u64>,
    findings: Findings,
    answered: u32,
    times: Times,
    closed_by_server: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No request was made yet.
    Unconnected,
    /// A connection is there, or on its way.
    Open,
    /// It is being closed, and one over HTTP/1.1 follows.
    Replacing,
    Closing,
    Closed,
}

impl Running {
    /// A job whose lease ends at `deadline`.
    pub(crate) fn new(
        mut job: Job,
        now: Timestamp,
        deadline: Timestamp,
        around: &Surroundings,
    ) -> Self {
        let mut addresses = std::mem::take(&mut job.addresses);
        addresses.retain(|&address| around.settings.reach.has(address));
        job.gap_ms = job.gap_ms.max(millis(around.settings.delay));
        let target = Arc::new(Target {
            server: std::mem::take(&mut job.server),
            addresses,
        });
        let length = Duration::from_millis(job.lease_ms);
        let lease = Lease::new(length, deadline, now + around.settings.renew_every);
        Running {
            turns: Turns::new(job.requests.len()),
            cookie_walls: CookieWalls::default(),
            job,
            http11: around.http11.has(now, &target.server),
            http2_failed: None,
            gone: false,
            target,
            phase: Phase::Unconnected,
            streams: 1,
            stopped: false,
            lease,
            not_before: now,
            sequence: 0,
            report_tag: None,
            new_tags: Vec::new(),
            findings: Findings::default(),
            answered: 0,
            times: Times::new(now),
            closed_by_server: false,
        }
    }

    /// `scheme://host[:port]`.
    pub(crate) fn server(&self) -> &str {
        &self.target.server
    }

    /// Since when there has been a request in hand: the one that ends next was not sent later, or
    /// right then.
    pub(crate) fn busy_since(&self) -> Timestamp {
        self.times.busy_since
    }

    /// Returns whether it brought an answer.
    pub(crate) fn has_served(&self) -> bool {
        self.answered > 0
    }

    /// Returns whether a connection of the job may be open.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Replacing | Phase::Closing)
    }

    /// Between two of its contacts there is so much time from now on, at least (P2).
    pub(crate) fn leave_at_least(&mut self, delay: Duration) {
        let more = millis(delay).saturating_sub(self.job.gap_ms);
        self.job.gap_ms += more;
        if more > 0 && (self.phase == Phase::Open || self.http2_failed.is_some()) {
            self.not_before = self.not_before + Duration::from_millis(more);
        }
    }

    /// Pages on their way to their stream.
    pub(crate) fn unstored(&self) -> usize {
        self.findings.unstored()
    }

    /// A renewal was confirmed.
    pub(crate) fn renewed(&mut self, sequence: u32) {
        self.lease.confirmed(sequence);
    }

    /// The job is the fetcher's no longer.
    pub(crate) fn revoke(&mut self) {
        self.stopped = true;
    }

    /// The connection is closed.
    pub(crate) fn closed(&mut self) {
        self.phase = match self.phase {
            Phase::Replacing => Phase::Unconnected,
            _ => Phase::Closed,
        };
    }

    /// A page or a report is in its stream.
    pub(crate) fn stored(&mut self, tag: u64) {
        if self.report_tag == Some(tag) {
            self.report_tag = None;
        } else {
            self.findings.stored(tag);
        }
    }

    /// A request ended.
    pub(crate) fn ended(
        &mut self,
        now: Timestamp,
        index: usize,
        connect_us: Option<u32>,
        end: End,
        around: &mut Surroundings,
        out: &mut Output<Effect>,
    ) {
        if !self.turns.end(index) {
            return;
        }
        around.asked -= 1;
        self.times.ended(now, connect_us, self.turns.in_hand() == 0);
        // Strictly: from the end of a response, not from its request (P2).
        self.leave_alone(now, Duration::from_millis(self.job.gap_ms));
        if let Some(us) = connect_us {
            around
                .tally
                .connects
                .observe(Duration::from_micros(us.into()));
        }
        let failure = match end {
            End::Response(response) => return self.responded(now, index, *response, around, out),
            End::Http2Failed(kind) if !self.http11 => {
                self.http2_failed = Some(kind);
                return self.turns.repeat(index);
            }
            End::Failure(FailureKind::NotArchived) => {
                self.findings.robots = (self.job.kind == JobKind::Robots).then_some(NO_ROBOTS);
                around.absent.note(&self.job.requests[index].url);
                Some(FailureKind::NotArchived)
            }
            End::Failure(kind) | End::Http2Failed(kind) => {
                self.failed_before_head(kind, around);
                Some(self.failed(kind, around))
            }
            End::BodyFailed(kind) => Some(self.failed(kind, around)),
            End::Refused => {
                self.stopped = true;
                Some(FailureKind::Connect)
            }
            End::Withheld => {
                self.stopped = true;
                if self.answered == 0 {
                    // A server that was connected to and did not answer would be taken for one that
                    // hung up.
                    self.times.connect_us = None;
                }
                None
            }
            End::Gone => {
                self.gone = true;
                return self.turns.repeat(index);
            }
        };
        match (self.cookie_walls.take(index), failure) {
            // Tried again, it might fail in this way for ever: a reset costs no attempt where
            // something was answered (P6).
            (Some(wall), _) => self.pass_on(index, wall.answer, None, around, out),
            (None, Some(kind)) => self.fail(index, kind, around),
            (None, None) => self.turns.miss(index),
        }
    }

    /// A request failed. Returns as what.
    fn failed(&mut self, kind: FailureKind, around: &mut Surroundings) -> FailureKind {
        // Where HTTP/1.1 cannot be had, what HTTP/2 failed with stands.
        let kind = self
            .http2_failed
            .filter(|_| kind == FailureKind::Tls)
            .unwrap_or(kind);
        // What was never contacted leaves the connection as it was.
        self.stopped |= kind != FailureKind::Forbidden;
        if kind == FailureKind::Reset && self.answered > 0 {
            self.closed_by_server(around);
        }
        kind
    }

    /// A request brought an answer.
    fn responded(
        &mut self,
        now: Timestamp,
        index: usize,
        response: Response,
        around: &mut Surroundings,
        out: &mut Output<Effect>,
    ) {
        let took = Duration::from_micros(response.elapsed_us.into());
        self.leave_alone(now, around.settings.download_pause.after(took));
        self.times.elapsed += took;
        around.tally.responses.observe(took);
        if self.http11 {
            self.answered_over_http11(now, response.status, around);
        }
        self.answered(&response, around);
        // A challenge is not asked for again, whatever cookies it sets.
        let challenge = challenge::of(response.status, &response.headers, &response.body);
        if challenge.is_some() {
            return self.pass_on(index, response, challenge, around, out);
        }
        match self.cookie_walls.answered(index, response, self.http11) {
            Some(response) => self.pass_on(index, response, None, around, out),
            None => self.turns.repeat(index),
        }
    }

    /// No request for so long, at least.
    fn leave_alone(&mut self, now: Timestamp, wait: Duration) {
        self.not_before = self.not_before.max(now + wait);
    }

    /// What an answer says of the connection and of the requests to come.
    fn answered(&mut self, response: &Response, around: &mut Surroundings) {
        self.answered += 1;
        around.tally.bytes += response.body.len() as u64;
        around.tally.truncated += u64::from(response.truncated.is_some());
        // The server asks to be left alone: for how long, the scheduler decides (P2).
        self.stopped |= matches!(response.status, 429 | 503);
        if !response.keeps_open {
            self.stopped = true;
            if response.truncated.is_none() {
                self.closed_by_server(around);
            }
        }
        if response.http_version == HttpVersion::Http2 && self.job.gap_ms == 0 {
            // With a pause after each answer there is nothing to gain, and P2 to lose.
            let pauses = around.settings.download_pause != DownloadPause::default();
            self.streams = if pauses { 1 } else { around.settings.streams };
        }
    }

    /// Passes the answer to a request on. `challenge`: what tells that it is one.
    fn pass_on(
        &mut self,
        index: usize,
        response: Response,
        challenge: Option<&challenge::Rule>,
        around: &mut Surroundings,
        out: &mut Output<Effect>,
    ) {
        let request = &self.job.requests[index];
        let wall = challenge.map(|rule| rule.vendor);
        around.tally.met(wall);
        let wall = wall.unwrap_or_default();
        let result = RequestResult {
            slot: request.slot,
            end: end_of(request, &response, wall, &around.settings),
        };
        match self.job.kind {
            JobKind::Pages => {
                around.tally.pages += 1;
                self.publish(index, response, wall, Some((result, None)), around, out);
            }
            JobKind::Robots => {
                around.tally.robots += 1;
                // A wall in their place says nothing of the rules: they are out of reach.
                let rules = wall.is_empty().then(|| robots_response(&response));
                let rules = rules.transpose();
                if let Err(kind) = rules {
                    self.fail(index, kind, around);
                }
                let reported = rules.ok().map(|robots| (result, robots));
                if around.settings.keeps_robots {
                    self.publish(index, response, wall, reported, around, out);
                } else {
                    self.findings.note(reported);
                }
            }
        }
    }

    /// Publishes a response. What is reported of it waits until it is stored.
    fn publish(
        &mut self,
        index: usize,
        response: Response,
        wall: &str,
        reported: Option<Reported>,
        around: &mut Surroundings,
        out: &mut Output<Effect>,
    ) {
        let tag = around.tag();
        let room = response.room.clone();
        let page = page(&mut self.job, index, response, wall);
        out.publish_tagged(Token::None, &page, Vec::new(), tag);
        self.findings.await_page(tag, reported, room);
        self.new_tags.push(tag);
    }

    /// The server has ended the connection, and so shown how many requests one serves.
    fn closed_by_server(&mut self, around: &mut Surroundings) {
        around.tally.closed_by_server += u64::from(!self.closed_by_server);
        self.closed_by_server = true;
    }

    /// Counts a request as failed.
    fn fail(&mut self, index: usize, kind: FailureKind, around: &mut Surroundings) {
        around.tally.failed(kind);
        let request = &self.job.requests[index];
        let url = &request.url;
        let failure = kind.name();
        let job = self.job.id;
        tracing::debug!(trace = %request.trace(), url, failure, %job, "a request failed");
        self.findings.ended(request.slot, RequestEnd::Failure(kind));
    }

    /// Does what can be done now. Returns whether the job is over.
    pub(crate) fn advance(
        &mut self,
        now: Timestamp,
        around: &mut Surroundings,
        out: &mut Output<Effect>,
    ) -> bool {
        while matches!(self.phase, Phase::Unconnected | Phase::Open)
            && self.turns.in_hand() < self.streams
        {
            self.skip_forbidden(around);
            let is_finished = self.is_finished(now, around);
            if is_finished {
                self.leave_cookie_walls(around, out);
            }
            if is_finished || self.gone || self.wants_http11() {
                match self.turns.in_hand() {
                    0 if is_finished => self.close(out),
                    0 => self.replace(around, out),
                    _ => {}
                }
                break;
            }
            if !self.may_request(now) {
                break;
            }
            self.request(now, around, out);
        }
        if self.phase == Phase::Closed && self.unstored() == 0 && self.report_tag.is_none() {
            self.report_last(around, out);
            return true;
        }
        if self.renew_at().is_some_and(|at| at <= now) {
            self.renew(now, around, out);
        }
        false
    }

    /// What was to be requested once more is not.
    fn leave_cookie_walls(&mut self, around: &mut Surroundings, out: &mut Output<Effect>) {
        for index in self.turns.take_repeated() {
            match self.cookie_walls.take(index) {
                Some(wall) if !around.draining => {
                    self.pass_on(index, wall.answer, None, around, out)
                }
                // After a drain another fetcher begins anew.
                _ => self.turns.miss(index),
            }
        }
    }

    /// When to advance the job although nothing came.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        let renewal = self.renew_at();
        let waiting = match self.phase {
            Phase::Unconnected => true,
            Phase::Open => self.turns.in_hand() == 0,
            Phase::Replacing | Phase::Closing | Phase::Closed => false,
        };
        let deadline = self.lease.deadline();
        let next = waiting.then(|| {
            if self.unstored() <= UNSTORED_MAX {
                self.not_before.min(deadline)
            } else {
                deadline
            }
        });
        [renewal, next].into_iter().flatten().min()
    }

    /// Tags of pages and reports that have been on their way since this was asked last.
    pub(crate) fn take_tags(&mut self) -> impl Iterator<Item = u64> {
        self.new_tags.drain(..)
    }

    /// Requests that the job may not make end here, without a contact (P7).
    fn skip_forbidden(&mut self, around: &mut Surroundings) {
        while let Some(next) = self.turns.next()
            && !self.target.allows(&self.job.requests[next].url)
        {
            self.turns.pass();
            self.fail(next, FailureKind::Forbidden, around);
        }
    }

    /// Returns whether no further request is made.
    fn is_finished(&mut self, now: Timestamp, around: &mut Surroundings) -> bool {
        // Not earlier: what is in hand may still show that HTTP/2 is at fault.
        if self.gone && self.turns.in_hand() == 0 && !self.wants_http11() {
            self.stopped = true;
            self.closed_by_server(around);
        }
        if self.stopped || around.draining || self.turns.next().is_none() {
            return true;
        }
        let expired = now >= self.lease.deadline();
        if expired {
            self.stopped = true;
            around.tally.jobs_expired += 1;
        }
        expired
    }

    fn may_request(&self, now: Timestamp) -> bool {
        now >= self.not_before && self.unstored() <= UNSTORED_MAX
    }

    fn request(&mut self, now: Timestamp, around: &mut Surroundings, out: &mut Output<Effect>) {
        debug_assert!(
            now < self.lease.deadline(),
            "P1: no request past the deadline"
        );
        debug_assert!(
            now >= self.not_before,
            "P2: no request before the gap is over"
        );
        let is_first = self.turns.in_hand() == 0;
        let Some(index) = self.turns.begin() else {
            return;
        };
        let request = &self.job.requests[index];
        let body_bytes_max = match self.job.kind {
            JobKind::Pages => around.settings.bytes_max_of(request),
            JobKind::Robots => ROBOTS_BYTES_MAX,
        };
        let first_answer = self.job.first_answer_ms.filter(|_| self.answered == 0);
        around.tally.requests += 1;
        around.tally.connections += u64::from(self.phase == Phase::Unconnected);
        out.effect(Effect::Request(Fetch {
            job: self.job.id,
            index,
            url: request.url.clone(),
            validators: request.validators.clone(),
            is_page: self.job.kind == JobKind::Pages,
            target: self.target.clone(),
            lease_left: self.lease.deadline().since(now),
            body_bytes_max,
            head_timeout: first_answer.map(Duration::from_millis),
            http11: self.http11,
        }));
        if is_first {
            self.times.busy_since = now;
        }
        around.asked += 1;
        self.phase = Phase::Open;
    }

    fn close(&mut self, out: &mut Output<Effect>) {
        if self.phase == Phase::Unconnected {
            self.phase = Phase::Closed;
        } else {
            self.phase = Phase::Closing;
            out.effect(Effect::Close { job: self.job.id });
        }
    }
}

/// The only report of a job that is not carried out: nothing was contacted for it.
pub(crate) fn refuse(job: Job, around: &mut Surroundings, out: &mut Output<Effect>) {
    Running::new(job, Timestamp::ZERO, Timestamp::ZERO, around).report_last(around, out);
}

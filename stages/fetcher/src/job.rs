//! A connection job in hand: requests over one connection, then its close, then the last report. Requests go one after
//! the other; several at once only when the connection has shown that it is HTTP/2 and nobody asks for a pause between
//! contacts ([`Settings::streams`]).
//!
//! Invariants: a request is sent only before the lease's deadline (P1), after the gap (P2), to the job's server
//! (P7), and while at most [`UNSTORED_MAX`] pages wait for their stream. A URL enters a report as answered only
//! when its page is stored (P3). The last report follows the close and every other report.

use crate::content::{NO_ROBOTS, ROBOTS_BYTES_MAX, end_of, page, robots_response};
use crate::effect::{Effect, End, Request as Fetch, Response, Target};
use crate::lease::Lease;
use crate::room::Taken;
use crate::surroundings::Surroundings;
use shared::config::DownloadPause;
use shared::message::{
    FailureKind, HttpVersion, Job, JobKind, Report, Request, RequestEnd, RequestResult, RobotsResponse,
};
use shared::stage::{Output, Token};
use shared::time::{Timestamp, micros, millis};
use shared::url;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Pages of a job that may wait for their stream before its next request.
const UNSTORED_MAX: usize = 2;

/// What is reported of a response; of a robots.txt with its rules.
type Reported = (RequestResult, Option<RobotsResponse>);

pub(crate) struct Running {
    job: Job,
    target: Arc<Target>,
    /// Index of the next request.
    next: usize,
    /// Indexes of the requests in hand.
    in_hand: Vec<usize>,
    /// Indexes of requests that were taken and did not reach the server.
    unreached: Vec<usize>,
    phase: Phase,
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
    /// What is reported of pages on their way to their stream, by their tags, and the room that they take.
    unstored: Vec<(u64, Option<Reported>, Arc<Taken>)>,
    /// Results for the next report.
    results: Vec<RequestResult>,
    robots: Option<RobotsResponse>,
    connect_us: Option<u32>,
    answered: u32,
    /// Since when there has been a request in hand.
    busy_since: Timestamp,
    /// How long there was before that, and how long the answered ones took together.
    busy: Duration,
    elapsed: Duration,
    closed_by_server: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No request was made yet.
    Unconnected,
    /// A connection is there, or on its way.
    Open,
    Closing,
    Closed,
}

impl Running {
    /// A job whose lease ends at `deadline`.
    pub(crate) fn new(mut job: Job, now: Timestamp, deadline: Timestamp, around: &Surroundings) -> Self {
        let mut addresses = std::mem::take(&mut job.addresses);
        addresses.retain(|&address| around.settings.reach.has(address));
        job.gap_ms = job.gap_ms.max(millis(around.settings.delay));
        let target = Arc::new(Target { server: std::mem::take(&mut job.server), addresses });
        let length = Duration::from_millis(job.lease_ms);
        let lease = Lease::new(length, deadline, now + around.settings.renew_every);
        Running {
            job,
            target,
            next: 0,
            in_hand: Vec::new(),
            unreached: Vec::new(),
            phase: Phase::Unconnected,
            streams: 1,
            stopped: false,
            lease,
            not_before: now,
            sequence: 0,
            report_tag: None,
            unstored: Vec::new(),
            results: Vec::new(),
            robots: None,
            connect_us: None,
            answered: 0,
            busy_since: now,
            busy: Duration::ZERO,
            elapsed: Duration::ZERO,
            closed_by_server: false,
        }
    }

    /// `scheme://host[:port]`.
    pub(crate) fn server(&self) -> &str {
        &self.target.server
    }

    /// Since when there has been a request in hand: the one that ends next was not sent later, or right then.
    pub(crate) fn busy_since(&self) -> Timestamp {
        self.busy_since
    }

    /// Says whether it brought an answer.
    pub(crate) fn has_served(&self) -> bool {
        self.answered > 0
    }

    /// Says whether a connection of the job may be open.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Closing)
    }

    /// Between two of its contacts there is so much time from now on, at least (P2).
    pub(crate) fn leave_at_least(&mut self, delay: Duration) {
        let more = millis(delay).saturating_sub(self.job.gap_ms);
        self.job.gap_ms += more;
        if more > 0 && self.phase == Phase::Open {
            self.not_before = self.not_before + Duration::from_millis(more);
        }
    }

    /// Pages on their way to their stream.
    pub(crate) fn unstored(&self) -> usize {
        self.unstored.len()
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
        self.phase = Phase::Closed;
    }

    /// A page or a report is in its stream.
    pub(crate) fn stored(&mut self, tag: u64) {
        if self.report_tag == Some(tag) {
            self.report_tag = None;
        } else if let Some(index) = self.unstored.iter().position(|(page, ..)| *page == tag) {
            let (_, reported, _) = self.unstored.remove(index);
            self.report_with(reported);
        }
    }

    /// A request ended. Returns the tag of the page that was published, if one was.
    pub(crate) fn ended(
        &mut self,
        now: Timestamp,
        index: usize,
        connect_us: Option<u32>,
        end: End,
        around: &mut Surroundings,
        out: &mut Output<Effect>,
    ) -> Option<u64> {
        let place = self.in_hand.iter().position(|&in_hand| in_hand == index)?;
        self.in_hand.swap_remove(place);
        around.asked -= 1;
        self.idle_again(now, connect_us);
        // Strictly: from the end of a response, not from its request (P2).
        self.leave_alone(now, Duration::from_millis(self.job.gap_ms));
        if let Some(us) = connect_us {
            around.tally.connects.observe(Duration::from_micros(us.into()));
        }
        self.connect_us = self.connect_us.or(connect_us);
        match end {
            End::Response(response) => {
                let took = Duration::from_micros(response.elapsed_us.into());
                self.leave_alone(now, around.settings.download_pause.after(took));
                self.elapsed += took;
                around.tally.responses.observe(took);
                return self.responded(index, *response, around, out);
            }
            End::Failure(FailureKind::NotArchived) => {
                self.robots = (self.job.kind == JobKind::Robots).then_some(NO_ROBOTS);
                around.absent.note(&self.job.requests[index].url);
                self.fail(index, FailureKind::NotArchived, around);
            }
            End::Failure(kind) => {
                self.fail(index, kind, around);
                // What was never contacted leaves the connection as it was.
                self.stopped |= kind != FailureKind::Forbidden;
                if kind == FailureKind::Reset && self.answered > 0 {
                    self.closed_by_server(around);
                }
            }
            End::Withheld => {
                self.unreached.push(index);
                self.stopped = true;
                if self.answered == 0 {
                    // A server that was connected to and did not answer would be taken for one that hung up.
                    self.connect_us = None;
                }
            }
            End::Gone => {
                self.unreached.push(index);
                self.stopped = true;
                self.closed_by_server(around);
            }
        }
        None
    }

    /// Counts the time in which there was a request in hand, when it was the last one; without that to connect.
    fn idle_again(&mut self, now: Timestamp, connect_us: Option<u32>) {
        if let Some(connect_us) = connect_us.filter(|_| self.connect_us.is_none()) {
            self.busy_since = (self.busy_since + Duration::from_micros(connect_us.into())).min(now);
        }
        if self.in_hand.is_empty() {
            self.busy += now.since(self.busy_since);
        }
    }

    /// No request for so long, at least.
    fn leave_alone(&mut self, now: Timestamp, wait: Duration) {
        self.not_before = self.not_before.max(now + wait);
    }

    fn responded(
        &mut self,
        index: usize,
        response: Response,
        around: &mut Surroundings,
        out: &mut Output<Effect>,
    ) -> Option<u64> {
        let bytes = response.body.len() as u64;
        let result = RequestResult { slot: self.job.requests[index].slot, end: end_of(&response) };
        self.answered += 1;
        around.tally.bytes += bytes;
        around.tally.truncated += u64::from(response.truncated);
        // The server asks to be left alone: for how long, the scheduler decides (P2).
        self.stopped |= matches!(response.status, 429 | 503);
        if !response.keeps_open {
            self.stopped = true;
            if !response.truncated {
                self.closed_by_server(around);
            }
        }
        if response.http_version == HttpVersion::Http2 && self.job.gap_ms == 0 {
            // With a pause after each answer there is nothing to gain, and P2 to lose.
            let pauses = around.settings.download_pause != DownloadPause::default();
            self.streams = if pauses { 1 } else { around.settings.streams };
        }
        match self.job.kind {
            JobKind::Pages => {
                around.tally.pages += 1;
                Some(self.publish(index, response, Some((result, None)), around, out))
            }
            JobKind::Robots => {
                around.tally.robots += 1;
                let rules = robots_response(&response);
                if let Err(kind) = rules {
                    self.fail(index, kind, around);
                }
                let reported = rules.ok().map(|robots| (result, Some(robots)));
                if around.settings.keeps_robots {
                    return Some(self.publish(index, response, reported, around, out));
                }
                self.report_with(reported);
                None
            }
        }
    }

    /// Passes a response on. What is reported of it waits until it is stored.
    fn publish(
        &mut self,
        index: usize,
        response: Response,
        reported: Option<Reported>,
        around: &mut Surroundings,
        out: &mut Output<Effect>,
    ) -> u64 {
        let (tag, room) = (around.tag(), response.room.clone());
        let page = page(&mut self.job, index, response);
        out.publish_tagged(Token::None, &page, Vec::new(), tag);
        self.unstored.push((tag, reported, room));
        tag
    }

    fn report_with(&mut self, reported: Option<Reported>) {
        let Some((result, robots)) = reported else { return };
        self.results.push(result);
        self.robots = robots.or(self.robots.take());
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
        let (url, failure, job) = (&request.url, kind.name(), self.job.id);
        tracing::debug!(trace = %request.trace(), url, failure, %job, "a request failed");
        self.results.push(RequestResult { slot: request.slot, end: RequestEnd::Failure(kind) });
    }

    /// Does what can be done now. Returns whether the job is over.
    pub(crate) fn advance(&mut self, now: Timestamp, around: &mut Surroundings, out: &mut Output<Effect>) -> bool {
        while matches!(self.phase, Phase::Unconnected | Phase::Open) && self.in_hand.len() < self.streams {
            self.skip_forbidden(around);
            if self.is_finished(now, around) {
                if self.in_hand.is_empty() {
                    self.close(out);
                }
                break;
            }
            if !self.may_request(now) {
                break;
            }
            self.request(now, around, out);
        }
        if self.phase == Phase::Closed && self.unstored.is_empty() && self.report_tag.is_none() {
            self.report_last(around, out);
            return true;
        }
        if self.renew_at().is_some_and(|at| at <= now) {
            self.renew(now, around, out);
        }
        false
    }

    /// When to advance the job although nothing came.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        let renewal = self.renew_at();
        let waiting = match self.phase {
            Phase::Unconnected => true,
            Phase::Open => self.in_hand.is_empty(),
            Phase::Closing | Phase::Closed => false,
        };
        let deadline = self.lease.deadline();
        let next =
            waiting.then(|| if self.unstored.len() <= UNSTORED_MAX { self.not_before.min(deadline) } else { deadline });
        [renewal, next].into_iter().flatten().min()
    }

    /// Tag of the report on its way, if one is.
    pub(crate) fn report_tag(&self) -> Option<u64> {
        self.report_tag
    }

    /// Requests that the job may not make end here, without a contact (P7).
    fn skip_forbidden(&mut self, around: &mut Surroundings) {
        while let Some(request) = self.job.requests.get(self.next)
            && !self.may_contact(request)
        {
            self.fail(self.next, FailureKind::Forbidden, around);
            self.next += 1;
        }
    }

    fn may_contact(&self, request: &Request) -> bool {
        let server = url::server_of(&request.url);
        let literal: Option<IpAddr> = url::address_literal(url::host_of(server));
        server == self.target.server
            && !self.target.addresses.is_empty()
            && literal.is_none_or(|literal| self.target.addresses.contains(&literal))
    }

    fn is_finished(&mut self, now: Timestamp, around: &mut Surroundings) -> bool {
        if self.stopped || around.draining || self.next >= self.job.requests.len() {
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
        now >= self.not_before && self.unstored.len() <= UNSTORED_MAX
    }

    fn request(&mut self, now: Timestamp, around: &mut Surroundings, out: &mut Output<Effect>) {
        debug_assert!(now < self.lease.deadline(), "P1: no request past the deadline");
        debug_assert!(now >= self.not_before, "P2: no request before the gap is over");
        let body_bytes_max = match self.job.kind {
            JobKind::Pages => around.settings.body_bytes_max,
            JobKind::Robots => ROBOTS_BYTES_MAX,
        };
        let first_answer = self.job.first_answer_ms.filter(|_| self.answered == 0);
        around.tally.requests += 1;
        around.tally.connections += u64::from(self.phase == Phase::Unconnected);
        out.effect(Effect::Request(Fetch {
            job: self.job.id,
            index: self.next,
            url: self.job.requests[self.next].url.clone(),
            validators: self.job.requests[self.next].validators.clone(),
            is_page: self.job.kind == JobKind::Pages,
            target: self.target.clone(),
            lease_left: self.lease.deadline().since(now),
            body_bytes_max,
            head_timeout: first_answer.map(Duration::from_millis),
        }));
        if self.in_hand.is_empty() {
            self.busy_since = now;
        }
        self.in_hand.push(self.next);
        around.asked += 1;
        self.next += 1;
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

    /// When to send the next renewal, if one is needed. One report at a time, so that they reach their stream in order.
    fn renew_at(&self) -> Option<Timestamp> {
        let in_use = matches!(self.phase, Phase::Unconnected | Phase::Open);
        // A full stream keeps pages waiting after the close: without a lease they would all be fetched again.
        // What is in hand when no more is requested takes its time, too.
        let needed = (in_use && (!self.stopped || !self.in_hand.is_empty())) || !self.unstored.is_empty();
        if needed && self.report_tag.is_none() { self.lease.renew_at() } else { None }
    }

    fn renew(&mut self, now: Timestamp, around: &mut Surroundings, out: &mut Output<Effect>) {
        let tag = around.tag();
        let report = self.report(false, around);
        self.lease.sent(report.sequence, now, around.settings.renew_every);
        self.report_tag = Some(tag);
        out.publish_tagged(Token::Partition(self.job.partition), &report, Vec::new(), tag);
    }

    fn report_last(&mut self, around: &mut Surroundings, out: &mut Output<Effect>) {
        self.unreached.sort_unstable();
        for index in self.unreached.drain(..).chain(self.next..self.job.requests.len()) {
            around.tally.untried += 1;
            let slot = self.job.requests[index].slot;
            self.results.push(RequestResult { slot, end: RequestEnd::Untried });
        }
        let report = self.report(true, around);
        out.publish(Token::Partition(self.job.partition), &report, Vec::new());
    }

    fn report(&mut self, last: bool, around: &mut Surroundings) -> Report {
        around.tally.reports += 1;
        self.sequence += 1;
        Report {
            job: self.job.id,
            fetcher: around.settings.instance.clone(),
            partition: self.job.partition,
            server: self.target.server.clone(),
            sequence: self.sequence,
            last,
            results: std::mem::take(&mut self.results),
            connect_us: self.connect_us,
            requests: self.answered,
            busy_us: micros(self.busy),
            elapsed_us: micros(self.elapsed),
            closed_by_server: self.closed_by_server,
            robots: self.robots.take(),
        }
    }
}

/// The only report of a job that is not carried out: nothing was contacted for it.
pub(crate) fn refuse(job: Job, around: &mut Surroundings, out: &mut Output<Effect>) {
    Running::new(job, Timestamp::ZERO, Timestamp::ZERO, around).report_last(around, out);
}

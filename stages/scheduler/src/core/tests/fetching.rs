//! The fetcher of the world: it holds jobs, makes their requests, and reports. P1 and P2 are
//! checked as it goes.

use super::web::Web;
use super::world::{FETCHER, World};
use crate::core::dispatcher::Input;
use rhumb_stage::Core as _;
use rhumb_url::server_of;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{
    FailureKind, Job, JobKind, ReadyUrls, Report, RequestEnd, RequestResult, ResponseSummary,
    RobotsResponse, ServerResolution, ToFetcher,
};
use std::time::Duration;

const RENEW_EVERY: Duration = Duration::from_secs(5);

/// A job as the fetcher holds it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) job: Job,
    pub(crate) next: usize,
    /// The earliest time of its next request.
    pub(crate) at: Timestamp,
    pub(super) reported_at: Timestamp,
    pub(crate) sequence: u32,
    pub(crate) results: Vec<RequestResult>,
    pub(crate) robots: Option<RobotsResponse>,
    /// The time after which it makes no request.
    pub(crate) lease_end: Timestamp,
    pub(crate) served: u32,
    pub(crate) connected: bool,
}

impl Held {
    /// The next report. The last one names all URLs that remain.
    pub(crate) fn report(&mut self, last: bool, closed_by_server: bool) -> Report {
        if last {
            for request in &self.job.requests[self.next..] {
                self.results.push(RequestResult {
                    slot: request.slot,
                    end: RequestEnd::Untried,
                });
            }
            self.next = self.job.requests.len();
        }
        self.sequence += 1;
        Report {
            job: self.job.id,
            fetcher: FETCHER.into(),
            partition: self.job.partition,
            server: self.job.server.clone(),
            sequence: self.sequence,
            last,
            results: std::mem::take(&mut self.results),
            connect_us: self.connected.then_some(30_000),
            requests: self.served,
            closed_by_server,
            robots: self.robots.take(),
            ..Report::default()
        }
    }
}

impl World {
    /// The fetcher takes its messages. P1: a job is for a server that nobody holds.
    pub(crate) fn receive(&mut self) {
        while let Some(message) = self.inbox.pop_front() {
            match message {
                ToFetcher::Job(job) => {
                    self.received += 1;
                    for held in &self.held {
                        assert!(
                            held.job.server != job.server || held.lease_end < self.now,
                            "P1: {} is granted twice",
                            job.server
                        );
                    }
                    self.held.retain(|held| held.job.server != job.server);
                    assert!(!job.addresses.is_empty() && !job.requests.is_empty());
                    assert!(
                        job.requests
                            .iter()
                            .all(|request| server_of(&request.url) == job.server)
                    );
                    // Counted from the ask, which was sent at most its lifetime ago.
                    let lease_end = self.now + Duration::from_millis(job.lease_ms);
                    self.held.push(Held {
                        job,
                        next: 0,
                        at: self.now,
                        reported_at: self.now,
                        sequence: 0,
                        results: Vec::new(),
                        robots: None,
                        lease_end,
                        served: 0,
                        connected: false,
                    });
                }
                ToFetcher::Renewed { job, sequence } => {
                    if let Some(held) = self
                        .held
                        .iter_mut()
                        .find(|held| held.job.id == job && held.sequence == sequence)
                    {
                        held.lease_end =
                            held.reported_at + Duration::from_millis(held.job.lease_ms);
                    }
                }
                // It makes no more requests, and says so with its last report.
                ToFetcher::Revoked { job } => self
                    .revoked
                    .extend(self.held.extract_if(.., |held| held.job.id == job)),
            }
        }
    }

    /// P2: notes a contact, and checks that it is not too early.
    pub(crate) fn contact(&mut self, server: &str, url: &str, gap: Duration) {
        if let Some(&last) = self.last_contact.get(server) {
            assert!(
                self.now >= last + gap,
                "P2: {server} is contacted {:?} after {last:?}",
                self.now
            );
        }
        if let Some(&until) = self.not_before.get(server) {
            assert!(
                self.now >= until,
                "P2: {server} is to be left alone until {until:?}, contacted {:?}",
                self.now
            );
        }
        self.last_contact.insert(server.to_owned(), self.now);
        self.contacts.push((self.now, url.to_owned()));
    }

    /// The fetcher makes the next request of a job it holds. False when the job ended with it.
    pub(crate) fn request(&mut self, index: usize, web: &mut dyn Web) -> bool {
        let held = self.held[index].clone();
        let request = &held.job.requests[held.next];
        let gap = Duration::from_millis(held.job.gap_ms);
        assert!(gap >= self.settings.politeness.delay);
        self.contact(&held.job.server, &request.url, gap);
        let end = match held.job.kind {
            JobKind::Pages => web.page(self.now, &request.url),
            JobKind::Robots => match web.robots(self.now, &request.url) {
                Ok(response) => {
                    let end = RequestEnd::Response(ResponseSummary {
                        status: response.status,
                        elapsed_us: 1,
                        ..ResponseSummary::default()
                    });
                    self.held[index].robots = Some(response);
                    end
                }
                Err(kind) => RequestEnd::Failure(kind),
            },
        };
        if let RequestEnd::Response(ResponseSummary {
            status: 429 | 503,
            retry_after_s: Some(seconds),
            ..
        }) = end
        {
            let until = self.now
                + Duration::from_secs(u64::from(seconds))
                    .min(self.settings.politeness.retry_after_max);
            self.leave_alone(&held.job.server, until);
        }
        let slot = request.slot;
        let held = &mut self.held[index];
        let took = match end {
            RequestEnd::Response(ResponseSummary { elapsed_us, .. }) => {
                Duration::from_micros(elapsed_us.into())
            }
            _ => Duration::ZERO,
        };
        // Answers take no time here, whatever they say.
        let pause = self.settings.download_pause().after(took);
        held.at = self.now + gap.max(pause);
        held.next += 1;
        held.connected = !matches!(
            end,
            RequestEnd::Failure(FailureKind::Connect | FailureKind::Tls | FailureKind::Certificate)
        );
        held.served += u32::from(matches!(end, RequestEnd::Response(_)));
        let broken = !matches!(
            end,
            RequestEnd::Response(ResponseSummary {
                status: 0..=428 | 430..=502 | 504..,
                ..
            })
        );
        held.results.push(RequestResult { slot, end });
        let more = held.next < held.job.requests.len()
            && (held.served as usize) < web.requests_per_connection();
        let server = held.job.server.clone();
        self.leave_alone(&server, self.now + pause);
        !broken && more
    }

    /// Notes that the server must not be contacted before that time.
    fn leave_alone(&mut self, server: &str, until: Timestamp) {
        let not_before = self.not_before.entry(server.to_owned()).or_insert(until);
        *not_before = until.max(*not_before);
    }

    /// What the fetcher has to do now: requests, reports every five seconds and at the end.
    fn work(&mut self, web: &mut dyn Web) {
        while let Some(mut held) = self.revoked.pop() {
            let report = held.report(true, false);
            self.step(Some(Input::Report(report)));
            self.receive();
        }
        let mut index = 0;
        while index < self.held.len() {
            let now = self.now;
            if self.held[index].lease_end <= now {
                self.held.remove(index);
                continue;
            }
            let goes_on = self.held[index].at > now || self.request(index, web);
            if !goes_on {
                let mut held = self.held.remove(index);
                let closed = held.served as usize >= web.requests_per_connection();
                let report = held.report(true, closed);
                self.step(Some(Input::Report(report)));
                self.receive();
                index = 0;
            } else {
                if now.since(self.held[index].reported_at) >= RENEW_EVERY {
                    self.held[index].reported_at = now;
                    let report = self.held[index].report(false, false);
                    self.step(Some(Input::Report(report)));
                    self.receive();
                }
                index += 1;
            }
        }
    }

    fn resolve(&mut self, web: &mut dyn Web) {
        while let Some(refresh) = self.refreshes.pop_front() {
            let mut answer = ReadyUrls {
                partition: refresh.partition,
                refresh: refresh.number,
                ..ReadyUrls::default()
            };
            for server in refresh.servers {
                if let resolution @ Some(_) = web.resolve(&server) {
                    answer.servers.push(ServerResolution { server, resolution });
                }
            }
            self.step(Some(Input::Ready(answer)));
        }
    }

    /// Runs until all URLs have ended but those of traps; fails when that takes longer than
    /// `longest`.
    pub(crate) fn finish(&mut self, web: &mut dyn Web, longest: Duration) {
        let start = self.now;
        while self.count("waiting") - self.count("waiting_trapped") + self.count("in_flight") > 0 {
            let idle = || {
                self.core.servers.all().map(|server| {
                    self.core
                        .why_idle(self.now, &server.name)
                        .unwrap()
                        .to_string()
                })
            };
            let has_time = self.now.since(start) < longest;
            assert!(
                has_time,
                "the crawl does not end: {:?}, {:?}",
                self.core.counts(),
                idle().collect::<Vec<_>>()
            );
            self.advance(web, 64, start + longest);
        }
    }

    /// Runs for `wait`.
    pub(crate) fn run(&mut self, web: &mut dyn Web, wait: Duration) {
        self.run_with(web, 64, wait);
    }

    /// Runs for `wait`, with so many connections.
    pub(crate) fn run_with(&mut self, web: &mut dyn Web, connections: u32, wait: Duration) {
        let end = self.now + wait;
        while self.now < end {
            self.advance(web, connections, end);
        }
    }

    /// One round of all, then time goes on to the next thing to do, or to `end`.
    fn advance(&mut self, web: &mut dyn Web, connections: u32, end: Timestamp) {
        for _ in 0..10_000 {
            if self.core.wake_at().is_none_or(|at| at > self.now) {
                break;
            }
            self.step(None);
            self.receive();
        }
        assert!(
            self.core.wake_at().is_none_or(|at| at > self.now),
            "wakes without end"
        );
        self.resolve(web);
        self.ask(connections.saturating_sub(self.held.len() as u32));
        self.work(web);
        let work = self.held.iter().map(|held| {
            held.at
                .min(held.reported_at + RENEW_EVERY)
                .min(held.lease_end)
        });
        let next = work.chain(self.core.wake_at()).min();
        self.now = next.unwrap_or(end).max(self.now).min(end).max(self.now);
    }
}

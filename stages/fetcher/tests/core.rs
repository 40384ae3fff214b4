//! The core alone, on a simulated clock.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use fetcher::core::Fetcher;
use fetcher::effect::{Answer, Asked, Effect, End, Response};
use fetcher::settings::Settings;
use shared::config::DownloadPause;
use shared::message::{
    AskReply, Edge, FailureKind, HttpVersion, Job, JobId, JobKind, Origin, Page, Report, Request, RequestEnd,
    ToFetcher, Validators, decode,
};
use shared::stage::{Core as _, Event, Output, Ticket, Token};
use shared::time::Timestamp;
use std::time::Duration;

const SERVER: &str = "http://example.org";

/// A core with what came out of it.
struct Bench {
    core: Fetcher,
    now_ms: u64,
    effects: Vec<Effect>,
    pages: Vec<(u64, Page)>,
    reports: Vec<(Option<u64>, Report)>,
    finished: Vec<Ticket>,
}

impl Bench {
    fn new(connections: u32) -> Bench {
        let core = Fetcher::new(Settings {
            instance: "f0".into(),
            life: 9,
            schedulers: 1,
            connections,
            ask_lifetime: Duration::from_secs(1),
            renew_every: Duration::from_secs(5),
            download_pause: DownloadPause { factor: 2, max: Duration::from_secs(30) },
            allow_private_addresses: false,
            body_bytes_max: 1000,
            streams: 4,
        });
        let mut bench = Bench {
            core,
            now_ms: 0,
            effects: Vec::new(),
            pages: Vec::new(),
            reports: Vec::new(),
            finished: Vec::new(),
        };
        bench.step(Event::Wake);
        bench
    }

    fn step(&mut self, event: Event<ToFetcher, Answer>) {
        let mut out = Output::default();
        self.core.step(Timestamp::from_micros(self.now_ms * 1000), event, &mut out).unwrap();
        for publish in out.publishes {
            match publish.edge {
                Edge::Pages => {
                    assert_eq!(publish.token, Token::None);
                    self.pages.push((publish.tag.expect("tag"), decode(&publish.payload).unwrap()));
                }
                Edge::FetchReports => {
                    assert_eq!(publish.token, Token::Partition(3));
                    self.reports.push((publish.tag, decode(&publish.payload).unwrap()));
                }
                other => panic!("{other:?}"),
            }
        }
        self.effects.extend(out.effects);
        self.finished.extend(out.finished);
    }

    /// Moves the clock on, waking the core whenever it wants to be.
    fn until(&mut self, ms: u64) {
        while let Some(at) = self.core.wake_at().map(|at| at.as_micros().div_ceil(1000))
            && at <= ms
        {
            self.now_ms = self.now_ms.max(at);
            let before = self.core.wake_at();
            self.step(Event::Wake);
            assert_ne!(self.core.wake_at(), before, "the core wants to be woken for nothing");
        }
        self.now_ms = ms;
    }

    /// The ask that is on its way; it is answered.
    fn answer_ask(&mut self) -> u64 {
        let index = self.effects.iter().position(|effect| matches!(effect, Effect::Ask { .. })).expect("an ask");
        let Effect::Ask { scheduler, ask } = self.effects.remove(index) else { unreachable!() };
        let result = Asked::Reply(AskReply { granted: 1 });
        self.step(Event::Answer(Answer::Asked { scheduler, ask: ask.ask, result }));
        ask.ask
    }

    fn tell(&mut self, input: ToFetcher) {
        self.step(Event::Message { ticket: Ticket(1), input });
    }

    /// Grants a job for the ask on its way.
    fn grant(&mut self, change: impl FnOnce(&mut Job)) -> JobId {
        let ask = self.answer_ask();
        let mut job = job(ask);
        change(&mut job);
        let id = job.id;
        self.tell(ToFetcher::Job(job));
        id
    }

    /// Indices of the requests made, taken.
    fn requests(&mut self) -> Vec<usize> {
        let index = |effect: &Effect| match effect {
            Effect::Request(request) => Some(request.index),
            _ => None,
        };
        let indices = self.effects.iter().filter_map(index).collect();
        self.effects.retain(|effect| index(effect).is_none());
        indices
    }

    fn closes(&self) -> usize {
        self.effects.iter().filter(|effect| matches!(effect, Effect::Close { .. })).count()
    }

    fn end(&mut self, job: JobId, index: usize, end: End) {
        self.step(Event::Answer(Answer::Response { job, index, connect_us: Some(77), end }));
    }

    fn respond(&mut self, job: JobId, index: usize) {
        self.end(job, index, End::Response(Box::new(response())));
    }

    fn store_pages(&mut self) {
        for (tag, _) in std::mem::take(&mut self.pages) {
            self.step(Event::Stored(tag));
        }
    }

    fn store_reports(&mut self) {
        for tag in self.reports.iter().filter_map(|(tag, _)| *tag).collect::<Vec<_>>() {
            self.step(Event::Stored(tag));
        }
    }

    fn last(&self) -> &Report {
        let (_, report) = self.reports.last().expect("a report");
        assert!(report.last);
        report
    }

    fn count(&self, name: &str) -> u64 {
        self.core.counts().into_iter().find(|(other, _)| *other == name).expect("a count").1
    }
}

fn job(ask: u64) -> Job {
    let origin = Origin::seed("t");
    let request = |slot: u64| Request {
        slot: slot + 100,
        url: format!("{SERVER}/{slot}"),
        origin: origin.clone(),
        attempts: 0,
        validators: Validators::default(),
    };
    Job {
        id: JobId { scheduler: 0, epoch: 2, number: 1 },
        life: 9,
        ask,
        partition: 3,
        lease_ms: 20_000,
        kind: JobKind::Pages,
        server: SERVER.into(),
        addresses: vec!["93.184.216.34".parse().unwrap()],
        gap_ms: 1000,
        first_answer_ms: None,
        requests: (0..5).map(request).collect(),
    }
}

fn response() -> Response {
    Response {
        status: 200,
        headers: Vec::new(),
        body: b"page".to_vec(),
        truncated: false,
        keeps_open: true,
        http_version: HttpVersion::Http11,
        request_headers: Vec::new(),
        fetched_at_ms: 1_000_000,
        elapsed_us: 0,
        address: None,
    }
}

#[test]
fn a_job_goes_through_its_requests_closes_and_reports_last() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|_| {});
    assert_eq!(bench.finished, [Ticket(1)]);
    for index in 0..5 {
        assert_eq!(bench.requests(), [index]);
        bench.respond(job, index);
        bench.store_pages();
        if index < 4 {
            bench.until(bench.now_ms + 999);
            assert_eq!(bench.requests(), [0; 0], "the gap is not over");
            bench.until(bench.now_ms + 1);
        }
    }
    assert_eq!(bench.closes(), 1);
    assert!(bench.reports.is_empty(), "the last report follows the close");
    bench.step(Event::Answer(Answer::Closed { job }));
    let report = bench.last().clone();
    assert_eq!(report.results.len(), 5);
    assert_eq!(report.results[0].slot, 100);
    assert_eq!((report.sequence, report.requests, report.connect_us), (1, 5, Some(77)));
    assert_eq!((report.server.as_str(), report.fetcher.as_str()), (SERVER, "f0"));
    assert!(bench.core.is_idle());
}

#[test]
fn the_gap_counts_from_the_end_of_the_response() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|_| {});
    assert_eq!(bench.requests(), [0]);
    bench.until(3000);
    bench.respond(job, 0);
    bench.store_pages();
    bench.until(3999);
    assert_eq!(bench.requests(), [0; 0]);
    bench.until(4000);
    assert_eq!(bench.requests(), [1]);
}

#[test]
fn a_slow_answer_stretches_the_gap() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|_| {});
    assert_eq!(bench.requests(), [0]);
    bench.end(job, 0, End::Response(Box::new(Response { elapsed_us: 2_000_000, ..response() })));
    bench.store_pages();
    bench.until(3999);
    assert_eq!(bench.requests(), [0; 0]);
    bench.until(4000);
    assert_eq!(bench.requests(), [1]);
    bench.respond(job, 1);
    bench.store_pages();
    bench.until(5000);
    assert_eq!(bench.requests(), [2]);
}

#[test]
fn a_server_that_refuses_is_asked_nothing_more() {
    for status in [429, 503] {
        let mut bench = Bench::new(4);
        let job = bench.grant(|_| {});
        bench.end(job, 0, End::Response(Box::new(Response { status, ..response() })));
        bench.store_pages();
        bench.step(Event::Answer(Answer::Closed { job }));
        let untried = bench.last().results.iter().filter(|result| result.end == RequestEnd::Untried).count();
        assert_eq!(untried, 4);
    }
}

#[test]
fn at_most_two_pages_wait_for_their_stream_when_a_request_is_made() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 0);
    for index in 0..3 {
        assert_eq!(bench.requests(), [index]);
        bench.respond(job, index);
    }
    assert_eq!(bench.requests(), [0; 0], "three pages wait");
    let (tag, _) = bench.pages.remove(1);
    bench.step(Event::Stored(tag));
    assert_eq!(bench.requests(), [3]);
}

#[test]
fn a_url_is_reported_only_when_its_page_is_stored() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| {
        job.gap_ms = 0;
        job.requests.truncate(2);
    });
    bench.respond(job, 0);
    let first = bench.pages.remove(0);
    bench.until(5000);
    assert_eq!(bench.reports.len(), 1);
    assert!(bench.reports[0].1.results.is_empty());
    bench.step(Event::Stored(first.0));
    bench.store_reports();
    bench.respond(job, 1);
    bench.step(Event::Answer(Answer::Closed { job }));
    assert_eq!(bench.reports.len(), 1, "one page is not stored yet");
    bench.store_pages();
    assert_eq!(bench.last().results.len(), 2);
}

#[test]
fn a_confirmed_renewal_counts_from_when_its_report_was_sent() {
    let mut bench = Bench::new(4);
    // A wait longer than the lease.
    let job = bench.grant(|job| job.gap_ms = 30_000);
    bench.requests();
    bench.respond(job, 0);
    bench.store_pages();
    for (sent, confirmed) in [(5000, 5900), (10_000, 10_900), (15_000, 15_900)] {
        bench.until(sent);
        let sequence = bench.reports.len() as u32;
        assert_eq!(bench.reports.last().unwrap().1.sequence, sequence);
        bench.store_reports();
        bench.until(confirmed);
        bench.tell(ToFetcher::Renewed { job, sequence });
    }
    assert_eq!(bench.reports[0].1.results.len(), 1, "a renewal carries what ended since");
    assert!(bench.reports[1].1.results.is_empty());
    // No more confirmations: the lease ends 20 s after the report of 15 s was sent.
    bench.until(29_999);
    assert_eq!(bench.requests(), [0; 0]);
    bench.until(30_000);
    assert_eq!(bench.requests(), [1]);
    bench.respond(job, 1);
    bench.store_pages();
    bench.store_reports();
    bench.until(34_999);
    assert_eq!(bench.closes(), 0);
    bench.until(35_000);
    assert_eq!(bench.closes(), 1);
}

#[test]
fn a_renewal_waits_until_the_report_before_is_stored() {
    let mut bench = Bench::new(4);
    bench.grant(|job| job.gap_ms = 60_000);
    bench.until(12_000);
    assert_eq!(bench.reports.len(), 1);
    bench.store_reports();
    assert_eq!(bench.reports.len(), 2);
    assert_eq!(bench.reports[1].1.sequence, 2);
}

#[test]
fn an_unknown_confirmation_changes_nothing() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 15_000);
    bench.respond(job, 0);
    bench.store_pages();
    bench.tell(ToFetcher::Renewed { job, sequence: 7 });
    bench.requests();
    bench.until(19_000);
    assert_eq!(bench.requests(), [1]);
    bench.respond(job, 1);
    bench.store_pages();
    bench.until(20_000);
    assert_eq!(bench.closes(), 1);
}

#[test]
fn the_lease_counts_from_when_the_ask_was_sent_not_from_when_the_job_came() {
    let mut bench = Bench::new(4);
    bench.now_ms = 900;
    bench.grant(|job| job.lease_ms = 1000);
    let Some(Effect::Request(request)) = bench.effects.iter().find(|effect| matches!(effect, Effect::Request(_)))
    else {
        panic!("no request")
    };
    assert_eq!(request.lease_left, Duration::from_millis(100));
}

#[test]
fn a_job_that_comes_after_its_lease_is_not_begun() {
    let mut bench = Bench::new(4);
    bench.now_ms = 1000;
    bench.grant(|job| job.lease_ms = 1000);
    assert_eq!(bench.requests(), [0; 0]);
    assert_eq!(bench.closes(), 0, "there is nothing to close");
    assert!(bench.last().results.iter().all(|result| result.end == RequestEnd::Untried));
    assert_eq!(bench.last().results.len(), 5);
}

#[test]
fn a_job_past_its_deadline_closes_and_reports_the_rest_untried() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 25_000);
    bench.requests();
    bench.respond(job, 0);
    bench.store_pages();
    bench.until(19_999);
    assert_eq!(bench.closes(), 0);
    bench.until(20_000);
    assert_eq!((bench.closes(), bench.requests()), (1, vec![]));
    bench.store_reports();
    bench.step(Event::Answer(Answer::Closed { job }));
    let untried = bench.last().results.iter().filter(|result| result.end == RequestEnd::Untried);
    assert_eq!(untried.count(), 4);
    assert_eq!(bench.count("jobs_expired_total"), 1);
}

#[test]
fn a_request_in_hand_at_the_deadline_is_finished() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 0);
    bench.requests();
    bench.until(25_000);
    assert_eq!(bench.closes(), 0);
    bench.respond(job, 0);
    assert_eq!((bench.closes(), bench.requests()), (1, vec![]));
}

#[test]
fn a_revoked_job_stops_before_its_next_request() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 0);
    bench.requests();
    bench.tell(ToFetcher::Revoked { job });
    assert_eq!(bench.closes(), 0, "the request in hand may be finished");
    bench.respond(job, 0);
    assert_eq!((bench.closes(), bench.requests()), (1, vec![]));
    bench.store_pages();
    bench.step(Event::Answer(Answer::Closed { job }));
    assert_eq!(bench.last().results.len(), 5);
    assert_eq!(bench.last().results.iter().filter(|result| result.end == RequestEnd::Untried).count(), 4);
    assert_eq!(bench.count("jobs_revoked_total"), 1);
    bench.tell(ToFetcher::Revoked { job });
    assert_eq!(bench.count("jobs_revoked_total"), 1);
}

#[test]
fn a_job_revoked_between_two_requests_closes_at_once() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|_| {});
    bench.respond(job, 0);
    bench.tell(ToFetcher::Revoked { job });
    assert_eq!(bench.closes(), 1);
}

#[test]
fn a_job_for_an_unknown_ask_is_refused() {
    let mut bench = Bench::new(4);
    bench.tell(ToFetcher::Job(job(12_345)));
    assert_eq!(bench.requests(), [0; 0]);
    assert_eq!(bench.last().results.len(), 5);
    assert!(bench.last().results.iter().all(|result| result.end == RequestEnd::Untried));
    assert_eq!((bench.last().sequence, bench.last().requests), (1, 0));
    assert!(bench.core.is_idle());
    assert_eq!(bench.count("jobs_refused_total"), 1);
}

#[test]
fn a_job_of_another_life_is_anothers_to_carry_out_or_to_refuse() {
    let mut bench = Bench::new(4);
    let ask = bench.answer_ask();
    bench.tell(ToFetcher::Job(Job { life: 8, ..job(ask) }));
    assert_eq!(bench.requests(), [0; 0]);
    assert!(bench.reports.is_empty(), "a report would end the lease of the fetcher that carries it out (P1)");
    assert_eq!((bench.count("jobs_total"), bench.count("jobs_refused_total")), (0, 0));
}

#[test]
fn a_job_over_capacity_is_refused() {
    let mut bench = Bench::new(1);
    let ask = bench.answer_ask();
    for number in 1..=2 {
        let mut job = job(ask);
        job.id.number = number;
        bench.tell(ToFetcher::Job(job));
    }
    assert_eq!(bench.requests(), [0]);
    assert_eq!(bench.last().job.number, 2);
    assert_eq!((bench.count("jobs"), bench.count("jobs_refused_total")), (1, 1));
}

#[test]
fn a_job_that_comes_twice_is_begun_once() {
    let mut bench = Bench::new(4);
    let ask = bench.answer_ask();
    bench.tell(ToFetcher::Job(job(ask)));
    bench.tell(ToFetcher::Job(job(ask)));
    assert_eq!(bench.requests(), [0]);
    assert!(bench.reports.is_empty());
}

#[test]
fn the_next_ask_names_the_jobs_received_and_the_connections_left() {
    let mut bench = Bench::new(4);
    bench.grant(|job| job.gap_ms = 60_000);
    bench.until(500);
    let Some(Effect::Ask { ask, .. }) = bench.effects.iter().find(|effect| matches!(effect, Effect::Ask { .. })) else {
        panic!("no ask")
    };
    assert_eq!((ask.free, ask.received), (3, 1));
}

#[test]
fn a_failure_ends_the_job_and_leaves_the_rest_untried() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|_| {});
    bench.requests();
    bench.end(job, 0, End::Failure(FailureKind::Reset));
    bench.step(Event::Answer(Answer::Closed { job }));
    let ends: Vec<_> = bench.last().results.iter().map(|result| result.end.clone()).collect();
    assert_eq!(ends[0], RequestEnd::Failure(FailureKind::Reset));
    assert!(ends[1..].iter().all(|end| *end == RequestEnd::Untried));
    assert!(!bench.last().closed_by_server);
    assert_eq!(bench.count("failures_reset_total"), 1);
}

#[test]
fn a_connection_that_is_reset_after_an_answer_has_shown_how_many_requests_it_serves() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 0);
    bench.respond(job, 0);
    bench.store_pages();
    bench.end(job, 1, End::Failure(FailureKind::Reset));
    bench.step(Event::Answer(Answer::Closed { job }));
    let report = bench.last();
    assert_eq!((report.closed_by_server, report.requests), (true, 1));
    assert!(report.results.iter().any(|result| result.end == RequestEnd::Failure(FailureKind::Reset)));
}

#[test]
fn a_connection_that_is_gone_costs_no_attempt() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 0);
    bench.respond(job, 0);
    bench.store_pages();
    bench.end(job, 1, End::Gone);
    bench.step(Event::Answer(Answer::Closed { job }));
    let report = bench.last();
    assert!(report.closed_by_server);
    assert_eq!(report.requests, 1);
    assert_eq!(report.results.iter().filter(|result| result.end == RequestEnd::Untried).count(), 4);
    assert_eq!(report.results.len(), 5);
}

#[test]
fn an_answer_to_another_request_changes_nothing() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 0);
    bench.respond(job, 0);
    bench.respond(job, 0);
    bench.respond(JobId { number: 99, ..job }, 0);
    bench.step(Event::Stored(4711));
    assert_eq!(bench.pages.len(), 1);
}

#[test]
fn forbidden_requests_are_not_made() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| {
        job.gap_ms = 0;
        job.requests[0].url = "http://other.example.org/".into();
        job.requests[4].url = format!("{SERVER}:8080/");
    });
    for index in 1..4 {
        assert_eq!(bench.requests(), [index]);
        bench.respond(job, index);
        bench.store_pages();
    }
    bench.step(Event::Answer(Answer::Closed { job }));
    let mut results = bench.last().results.clone();
    results.sort_by_key(|result| result.slot);
    let forbidden = RequestEnd::Failure(FailureKind::Forbidden);
    assert!(results[0].end == forbidden && results[4].end == forbidden);
}

#[test]
fn a_job_with_private_addresses_alone_is_forbidden_without_a_connection() {
    let mut bench = Bench::new(4);
    bench.grant(|job| job.addresses = vec!["10.0.0.1".parse().unwrap(), "::1".parse().unwrap()]);
    assert!(bench.effects.is_empty());
    let forbidden = RequestEnd::Failure(FailureKind::Forbidden);
    assert!(bench.last().results.iter().all(|result| result.end == forbidden));
}

#[test]
fn private_addresses_among_others_are_left_out() {
    let mut bench = Bench::new(4);
    bench.grant(|job| job.addresses.insert(0, "10.0.0.1".parse().unwrap()));
    let Some(Effect::Request(request)) = bench.effects.last() else { panic!("no request") };
    assert_eq!(request.target.addresses, ["93.184.216.34".parse::<std::net::IpAddr>().unwrap()]);
}

#[test]
fn a_draining_fetcher_takes_its_ask_back_and_refuses_what_was_granted_before() {
    let mut bench = Bench::new(4);
    let ask = bench.answer_ask();
    bench.step(Event::Drain);
    assert!(!bench.core.is_idle(), "its ask still holds");
    let withdrawal = bench.answer_ask();
    assert!(withdrawal > ask);
    assert!(!bench.core.is_idle(), "a job may be on its way");
    bench.tell(ToFetcher::Job(job(ask)));
    assert_eq!(bench.count("jobs_refused_total"), 1);
    assert_eq!(bench.last().results.len(), 5);
    bench.until(10_000);
    assert!(bench.effects.is_empty(), "it asks for nothing more");
    assert!(bench.core.is_idle());
}

#[test]
fn retry_after_is_read_as_seconds_or_as_a_date() {
    let with = |value: &str| {
        let mut response = response();
        // 1994-11-15 08:12:31 UTC.
        response.fetched_at_ms = 784_887_151_000;
        response.headers = vec![("retry-after".into(), value.as_bytes().to_vec())];
        response.retry_after_s()
    };
    assert_eq!(with(" 120 "), Some(120));
    assert_eq!(with("99999999999999999999"), Some(u32::MAX));
    assert_eq!(with("Tue, 15 Nov 1994 08:13:31 GMT"), Some(60));
    assert_eq!(with("Tue, 15 Nov 1994 08:00:00 GMT"), Some(0));
    assert_eq!(with("soon"), None);
    assert_eq!(with(""), None);
    assert_eq!(with("-5"), None);
}

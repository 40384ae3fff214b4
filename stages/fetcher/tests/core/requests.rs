//! The way of a job through its requests: gaps (P2), failures, what may be contacted (P7), what is
//! reported (P3).

use super::bench::{Bench, SERVER, response};
use fetcher::effect::{Answer, Effect, End, Response};
use rhumb_stage::Core as _;
use rhumb_stage::{Event, Ticket};
use rhumb_usage::Signals;
use rhumb_wire::message::{FailureKind, JobId, Origin, RequestEnd};

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
    assert!(
        bench.reports.is_empty(),
        "the last report follows the close"
    );
    bench.step(Event::Answer(Answer::Closed { job }));
    let report = bench.last().clone();
    assert_eq!(report.results.len(), 5);
    assert_eq!(report.results[0].slot, 100);
    assert_eq!(
        (report.sequence, report.requests, report.connect_us),
        (1, 5, Some(77))
    );
    assert_eq!(
        (report.server.as_str(), report.fetcher.as_str()),
        (SERVER, "f0")
    );
    assert!(bench.core.is_idle());
}

/// Goal: what robots.txt says of use goes on with its page, and the report says that a document
/// follows when robots.txt or a header says something.
#[test]
fn what_is_said_of_use_goes_on_with_the_page() {
    let mut bench = Bench::new(4);
    let said = Signals::of_robots_txt("content-signal: ai-train=no\n");
    let job = bench.grant(|job| {
        job.gap_ms = 0;
        job.requests.truncate(3);
        job.requests[1].usage = said.clone();
    });
    let header = ("x-robots-tag".to_owned(), b"rhumb: noindex".to_vec());
    for (index, headers) in [(0, vec![]), (1, vec![]), (2, vec![header])] {
        let response = Response {
            headers,
            ..response()
        };
        bench.end(job, index, End::Response(Box::new(response)));
    }
    let usages: Vec<_> = bench
        .pages
        .iter()
        .map(|(_, page)| page.usage.clone())
        .collect();
    assert_eq!(usages, [Signals::default(), said, Signals::default()]);
    bench.store_pages();
    bench.step(Event::Answer(Answer::Closed { job }));
    let results = &bench.last().results;
    let says = results.iter().map(|result| match &result.end {
        RequestEnd::Response(summary) => summary.says_usage,
        _ => false,
    });
    assert_eq!(says.collect::<Vec<_>>(), [false, true, true]);
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
    bench.end(
        job,
        0,
        End::Response(Box::new(Response {
            elapsed_us: 2_000_000,
            ..response()
        })),
    );
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
        bench.end(
            job,
            0,
            End::Response(Box::new(Response {
                status,
                ..response()
            })),
        );
        bench.store_pages();
        bench.step(Event::Answer(Answer::Closed { job }));
        let untried = bench
            .last()
            .results
            .iter()
            .filter(|result| result.end == RequestEnd::Untried)
            .count();
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
fn a_failure_ends_the_job_and_leaves_the_rest_untried() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|_| {});
    bench.requests();
    bench.end(job, 0, End::Failure(FailureKind::Reset));
    bench.step(Event::Answer(Answer::Closed { job }));
    let ends: Vec<_> = bench
        .last()
        .results
        .iter()
        .map(|result| result.end.clone())
        .collect();
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
    assert!(
        report
            .results
            .iter()
            .any(|result| result.end == RequestEnd::Failure(FailureKind::Reset))
    );
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
    assert_eq!(
        report
            .results
            .iter()
            .filter(|result| result.end == RequestEnd::Untried)
            .count(),
        4
    );
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
    assert!(
        bench
            .last()
            .results
            .iter()
            .all(|result| result.end == forbidden)
    );
}

#[test]
fn private_addresses_among_others_are_left_out() {
    let mut bench = Bench::new(4);
    bench.grant(|job| job.addresses.insert(0, "10.0.0.1".parse().unwrap()));
    let Some(Effect::Request(request)) = bench.effects.last() else {
        panic!("no request")
    };
    assert_eq!(
        request.target.addresses,
        ["93.184.216.34".parse::<std::net::IpAddr>().unwrap()]
    );
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

#[test]
fn a_named_sitemap_may_be_longer_than_a_page() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| {
        job.gap_ms = 0;
        job.requests.truncate(2);
        job.requests[1].origin.page =
            Origin::page_of_sitemaps("http://a.test/robots.txt", "http://a.test");
    });
    let mut bytes_max = Vec::new();
    for index in 0..2 {
        let request = bench.effects.iter().find_map(|effect| match effect {
            Effect::Request(request) if request.index == index => Some(request.body_bytes_max),
            _ => None,
        });
        bytes_max.extend(request);
        bench.respond(job, index);
        bench.store_pages();
    }
    assert_eq!(bytes_max, [1000, 5000]);
}

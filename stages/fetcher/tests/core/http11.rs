//! Jobs whose server fails over HTTP/2.

use crate::bench::{Bench, SERVER, response};
use fetcher::effect::{Answer, Effect, End, Response};
use fetcher::settings::Settings;
use rhumb_config::DownloadPause;
use rhumb_stage::Event;
use rhumb_wire::message::{FailureKind, HttpVersion, JobId, JobKind, RequestEnd, ToFetcher};

/// Whether the request on its way is over HTTP/1.1 alone, and its index.
fn request(bench: &mut Bench) -> Option<(usize, bool)> {
    let place = bench
        .effects
        .iter()
        .position(|effect| matches!(effect, Effect::Request(_)))?;
    let Effect::Request(request) = bench.effects.remove(place) else {
        unreachable!()
    };
    Some((request.index, request.http11))
}

fn closed(bench: &mut Bench, job: JobId) {
    bench
        .effects
        .retain(|effect| !matches!(effect, Effect::Close { .. }));
    bench.step(Event::Answer(Answer::Closed { job }));
}

/// A job of one request, granted about a second later.
fn grant_later(bench: &mut Bench, number: u64, server: &str) -> JobId {
    while bench
        .effects
        .iter()
        .any(|effect| matches!(effect, Effect::Ask { .. }))
    {
        bench.answer_ask();
    }
    bench.until(bench.now_ms + 1_000);
    bench.grant(|job| {
        job.id.number = number;
        job.server = server.into();
        job.requests.truncate(1);
        job.requests[0].url = format!("{server}/");
    })
}

const FAILED: End = End::Http2Failed(FailureKind::Reset);

fn answer(status: u16) -> End {
    End::Response(Box::new(Response {
        status,
        ..response()
    }))
}

/// A job of one request, whose request ends so over HTTP/1.1. Returns whether the job began with
/// it; where it did not, HTTP/2 fails.
fn ends_over_http11(bench: &mut Bench, number: u64, end: End) -> bool {
    let job = grant_later(bench, number, SERVER);
    let (_, began_so) = request(bench).expect("a request");
    if !began_so {
        bench.end(job, 0, FAILED);
        closed(bench, job);
        bench.until(bench.now_ms + 1_000);
        assert_eq!(request(bench), Some((0, true)));
    }
    bench.end(job, 0, end);
    bench.store_pages();
    closed(bench, job);
    began_so
}

/// A job over HTTP/2 whose first request was answered, and so many others are in hand, as far as
/// there are.
fn several(streams: usize) -> (Bench, JobId) {
    let pause = DownloadPause::default();
    let mut bench = Bench::with(4, |settings| Settings {
        download_pause: pause,
        streams,
        ..settings
    });
    let job = bench.grant(|job| job.gap_ms = 0);
    bench.end(
        job,
        0,
        End::Response(Box::new(Response {
            http_version: HttpVersion::Http2,
            ..response()
        })),
    );
    bench.store_pages();
    assert_eq!(bench.requests().len(), 1 + streams);
    (bench, job)
}

/// Slots of the requests that were answered, and of those that are untried.
fn slots(bench: &Bench) -> (Vec<u64>, Vec<u64>) {
    let results = &bench.last().results;
    let of = |wanted: fn(&RequestEnd) -> bool| {
        let mut slots: Vec<u64> = results
            .iter()
            .filter(|one| wanted(&one.end))
            .map(|one| one.slot)
            .collect();
        slots.sort_unstable();
        slots
    };
    let answered = of(|end| matches!(end, RequestEnd::Response(_)));
    let untried = of(|end| *end == RequestEnd::Untried);
    assert_eq!(answered.len() + untried.len(), results.len());
    (answered, untried)
}

#[test]
fn a_request_on_which_http2_failed_is_made_once_more_over_http11_when_the_connection_is_closed_and_the_gap_over()
 {
    let mut bench = Bench::new(4);
    let job = bench.grant(|_| {});
    assert_eq!(request(&mut bench), Some((0, false)));
    bench.now_ms = 300;
    bench.end(job, 0, FAILED);
    assert_eq!((bench.closes(), request(&mut bench)), (1, None));
    bench.until(5_000);
    assert_eq!(
        request(&mut bench),
        None,
        "P1: the first connection may be open"
    );
    bench.now_ms = 5_100;
    closed(&mut bench, job);
    assert_eq!(request(&mut bench), Some((0, true)));
    bench.respond(job, 0);
    bench.until(6_099);
    assert_eq!(request(&mut bench), None);
    bench.until(6_100);
    assert_eq!(
        request(&mut bench),
        Some((1, true)),
        "the others follow on that connection"
    );
    assert_eq!(
        (
            bench.count("http11_fallbacks_total"),
            bench.count("connections_total")
        ),
        (1, 2)
    );
    assert_eq!(bench.count("connections"), 1);
}

#[test]
fn the_gap_is_kept_between_the_connections() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|_| {});
    request(&mut bench);
    bench.now_ms = 300;
    bench.end(job, 0, FAILED);
    closed(&mut bench, job);
    bench.until(1_299);
    assert_eq!(request(&mut bench), None, "P2");
    bench.until(1_300);
    assert_eq!(request(&mut bench), Some((0, true)));
}

#[test]
fn a_request_that_fails_over_http11_too_has_failed() {
    let ends = [
        (End::Failure(FailureKind::Timeout), FailureKind::Timeout),
        (End::Refused, FailureKind::Connect),
        // Where HTTP/1.1 cannot be had at all, what HTTP/2 failed with stands.
        (End::Failure(FailureKind::Tls), FailureKind::Reset),
        // No third time, whatever the shell says.
        (
            End::Http2Failed(FailureKind::Protocol),
            FailureKind::Protocol,
        ),
    ];
    for (end, kind) in ends {
        let mut bench = Bench::new(4);
        let job = bench.grant(|job| job.gap_ms = 0);
        request(&mut bench);
        bench.end(job, 0, FAILED);
        closed(&mut bench, job);
        assert_eq!(request(&mut bench), Some((0, true)));
        bench.end(job, 0, end);
        closed(&mut bench, job);
        let results = &bench.last().results;
        assert_eq!(results[0].end, RequestEnd::Failure(kind));
        assert!(
            results[1..]
                .iter()
                .all(|result| result.end == RequestEnd::Untried)
        );
        assert_eq!(results.len(), 5);
        grant_later(&mut bench, 2, SERVER);
        assert_eq!(
            request(&mut bench),
            Some((0, false)),
            "it did not answer over HTTP/1.1 either"
        );
    }
}

#[test]
fn a_job_that_may_not_go_on_leaves_the_request_untried() {
    type Stop = fn(&mut Bench, JobId);
    let stops: [Stop; 3] = [
        |bench, job| bench.tell(ToFetcher::Revoked { job }),
        |bench, _| bench.step(Event::Drain),
        // The lease.
        |bench, _| bench.until(20_001),
    ];
    for stop in stops {
        let mut bench = Bench::new(4);
        let job = bench.grant(|_| {});
        request(&mut bench);
        bench.end(job, 0, FAILED);
        stop(&mut bench, job);
        closed(&mut bench, job);
        bench.store_reports();
        assert_eq!(request(&mut bench), None);
        let results = &bench.last().results;
        assert_eq!(results.len(), 5);
        assert!(
            results
                .iter()
                .all(|result| result.end == RequestEnd::Untried)
        );
    }
}

#[test]
fn a_lease_is_renewed_while_the_connection_is_replaced() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|_| {});
    request(&mut bench);
    bench.end(job, 0, FAILED);
    bench.until(5_000);
    assert_eq!(bench.reports.len(), 1);
}

#[test]
fn what_is_in_hand_beside_it_ends_before_the_connection_is_replaced() {
    let mut bench = Bench::with(4, |settings| Settings {
        download_pause: DownloadPause::default(),
        ..settings
    });
    let job = bench.grant(|job| job.gap_ms = 0);
    bench.end(
        job,
        0,
        End::Response(Box::new(Response {
            http_version: HttpVersion::Http2,
            ..response()
        })),
    );
    bench.store_pages();
    assert_eq!(bench.requests(), [0, 1, 2, 3, 4]);
    bench.end(job, 2, FAILED);
    bench.end(job, 4, FAILED);
    bench.respond(job, 1);
    assert_eq!(bench.closes(), 0);
    bench.respond(job, 3);
    bench.store_pages();
    assert_eq!(bench.closes(), 1);
    closed(&mut bench, job);
    assert_eq!(request(&mut bench), Some((2, true)));
    assert_eq!(
        request(&mut bench),
        None,
        "over HTTP/1.1 one goes after the other"
    );
    bench.respond(job, 2);
    bench.store_pages();
    assert_eq!(request(&mut bench), Some((4, true)));
}

/// Streams of a connection end in any order when its server goes away.
#[test]
fn what_the_server_did_not_look_at_beside_it_is_made_over_http11_too() {
    for ends in [
        [FAILED, End::Gone, End::Gone, End::Gone],
        [End::Gone, FAILED, End::Gone, FAILED],
        [End::Gone, End::Gone, End::Gone, FAILED],
        [FAILED, FAILED, End::Gone, FAILED],
    ] {
        let order = format!("{ends:?}");
        let (mut bench, job) = several(4);
        for (index, end) in (1..).zip(ends) {
            assert_eq!(bench.closes(), 0, "{order}");
            bench.end(job, index, end);
            assert_eq!(request(&mut bench), None, "{order}: P1");
        }
        assert_eq!((bench.closes(), bench.reports.len()), (1, 0), "{order}");
        closed(&mut bench, job);
        for index in 1..5 {
            assert_eq!(request(&mut bench), Some((index, true)), "{order}");
            assert_eq!(request(&mut bench), None, "{order}");
            bench.respond(job, index);
            bench.store_pages();
        }
        closed(&mut bench, job);
        assert_eq!(
            slots(&bench),
            (vec![100, 101, 102, 103, 104], Vec::new()),
            "{order}"
        );
        assert!(!bench.last().closed_by_server, "{order}");
        assert_eq!(
            (
                bench.count("http11_fallbacks_total"),
                bench.count("connections_total")
            ),
            (1, 2),
            "{order}"
        );
    }
}

#[test]
fn where_http2_does_not_fail_a_connection_that_is_gone_ends_the_job_behind_what_is_in_hand() {
    let (mut bench, job) = several(2);
    bench.end(job, 1, End::Gone);
    assert_eq!(
        (request(&mut bench), bench.closes()),
        (None, 0),
        "nothing more goes over it"
    );
    bench.respond(job, 2);
    bench.store_pages();
    assert_eq!((request(&mut bench), bench.closes()), (None, 1));
    closed(&mut bench, job);
    assert_eq!(slots(&bench), (vec![100, 102], vec![101, 103, 104]));
    assert!(bench.last().closed_by_server);
    assert_eq!(bench.count("http11_fallbacks_total"), 0);
}

#[test]
fn a_job_that_is_taken_back_does_not_go_on_over_http11_for_what_was_not_looked_at() {
    let (mut bench, job) = several(2);
    bench.end(job, 1, End::Gone);
    bench.tell(ToFetcher::Revoked { job });
    bench.end(job, 2, FAILED);
    assert_eq!((request(&mut bench), bench.closes()), (None, 1));
    closed(&mut bench, job);
    assert_eq!(slots(&bench), (vec![100], vec![101, 102, 103, 104]));
}

/// The server goes away once more, over HTTP/1.1: there is no third connection.
#[test]
fn a_second_connection_that_is_gone_ends_the_job() {
    let (mut bench, job) = several(2);
    bench.end(job, 1, End::Gone);
    bench.end(job, 2, FAILED);
    closed(&mut bench, job);
    assert_eq!(request(&mut bench), Some((1, true)));
    bench.end(job, 1, End::Gone);
    assert_eq!((request(&mut bench), bench.closes()), (None, 1));
    closed(&mut bench, job);
    assert_eq!(slots(&bench), (vec![100], vec![101, 102, 103, 104]));
}

#[test]
fn a_robots_txt_is_asked_for_over_http11_too() {
    let mut bench = Bench::new(4);
    let robots = |job: &mut rhumb_wire::message::Job| {
        job.kind = JobKind::Robots;
        job.requests.truncate(1);
    };
    let job = bench.grant(robots);
    request(&mut bench);
    bench.end(job, 0, FAILED);
    closed(&mut bench, job);
    bench.until(1_000);
    assert_eq!(request(&mut bench), Some((0, true)));
    bench.respond(job, 0);
    closed(&mut bench, job);
    assert!(bench.last().robots.is_some());
}

#[test]
fn later_jobs_for_a_server_that_answered_over_http11_begin_with_it_for_a_day() {
    let mut bench = Bench::new(8);
    let job = bench.grant(|job| job.requests.truncate(1));
    request(&mut bench);
    bench.end(job, 0, FAILED);
    closed(&mut bench, job);
    bench.until(1_000);
    assert_eq!(request(&mut bench), Some((0, true)));
    bench.respond(job, 0);
    for (hours, server, http11) in [
        (1, SERVER, true),
        (2, "http://other.example.org", false),
        (25, SERVER, false),
    ] {
        bench.until(bench.now_ms + hours * 3_600_000);
        request(&mut bench);
        grant_later(&mut bench, hours + 1, server);
        assert_eq!(request(&mut bench), Some((0, http11)), "{hours} {server}");
    }
}

#[test]
fn a_server_that_wants_another_version_over_http11_is_not_remembered_for_it() {
    for status in [421, 426, 505] {
        let mut bench = Bench::new(8);
        assert!(!ends_over_http11(&mut bench, 1, answer(status)));
        assert!(
            !ends_over_http11(&mut bench, 2, answer(200)),
            "{status} was no reason to begin so"
        );
        assert!(ends_over_http11(&mut bench, 3, answer(status)), "{status}");
        assert!(
            !ends_over_http11(&mut bench, 4, answer(200)),
            "{status} ended that"
        );
    }
}

#[test]
fn an_error_over_http11_is_an_answer_over_it() {
    for status in [301, 400, 403, 404, 500, 503] {
        let mut bench = Bench::new(8);
        assert!(!ends_over_http11(&mut bench, 1, answer(status)));
        assert!(ends_over_http11(&mut bench, 2, answer(status)), "{status}");
        assert!(ends_over_http11(&mut bench, 3, answer(200)), "{status}");
    }
}

#[test]
fn a_server_whose_connection_breaks_over_http11_before_any_head_is_asked_over_http2_again() {
    for (end, is_forgotten) in [
        (End::Failure(FailureKind::Tls), true),
        (End::Failure(FailureKind::Reset), true),
        (End::Failure(FailureKind::Protocol), true),
        (End::BodyFailed(FailureKind::Reset), false),
        (End::BodyFailed(FailureKind::Protocol), false),
        (End::Failure(FailureKind::Timeout), false),
        (End::Failure(FailureKind::Connect), false),
        (End::Refused, false),
        (End::Gone, false),
    ] {
        let mut bench = Bench::new(8);
        assert!(!ends_over_http11(&mut bench, 1, answer(200)));
        assert!(ends_over_http11(&mut bench, 2, end.clone()));
        assert_eq!(
            ends_over_http11(&mut bench, 3, answer(200)),
            !is_forgotten,
            "{end:?}"
        );
    }
}

#[test]
fn what_breaks_behind_an_answer_over_http11_says_nothing_of_the_version() {
    let mut bench = Bench::new(8);
    assert!(!ends_over_http11(&mut bench, 1, answer(200)));
    bench.until(bench.now_ms + 1_000);
    let job = bench.grant(|job| job.id.number = 2);
    assert_eq!(request(&mut bench), Some((0, true)));
    bench.respond(job, 0);
    bench.store_pages();
    bench.until(bench.now_ms + 1_000);
    assert_eq!(request(&mut bench), Some((1, true)));
    bench.end(job, 1, End::Failure(FailureKind::Reset));
    closed(&mut bench, job);
    assert!(ends_over_http11(&mut bench, 3, answer(200)));
}

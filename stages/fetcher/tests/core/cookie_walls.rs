//! Cookie walls: a URL that redirects to itself with a cookie is asked for once more, and ends once
//! (P3).

use super::bench::{Bench, response};
use fetcher::effect::{Answer, End, Response};
use rhumb_stage::{Core as _, Event};
use rhumb_wire::message::{FailureKind, JobId, JobKind, RequestEnd, ResponseSummary, ToFetcher};

fn wall() -> Response {
    let headers = vec![("location".to_owned(), b"/0".to_vec())];
    Response {
        status: 302,
        headers,
        leads_back: true,
        ..response()
    }
}

fn meet(bench: &mut Bench, job: JobId, index: usize) {
    bench.end(job, index, End::Response(Box::new(wall())));
}

/// The statuses of the pages, and how the first URL ended, after the job has closed its connection.
fn outcome(bench: &mut Bench, job: JobId) -> (Vec<u16>, Vec<RequestEnd>) {
    let statuses = bench.pages.iter().map(|(_, page)| page.status).collect();
    bench.store_pages();
    bench.step(Event::Answer(Answer::Closed { job }));
    bench.store_reports();
    let ends = bench
        .last()
        .results
        .iter()
        .filter(|result| result.slot == 100)
        .map(|result| result.end.clone());
    let ends = ends.collect();
    assert!(bench.core.is_idle());
    (statuses, ends)
}

fn status(ends: &[RequestEnd]) -> u16 {
    match ends {
        [RequestEnd::Response(ResponseSummary { status, .. })] => *status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_page_behind_a_wall_is_what_its_url_brought() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.requests.truncate(2));
    assert_eq!(bench.requests(), [0]);
    meet(&mut bench, job, 0);
    assert!(
        bench.pages.is_empty(),
        "the answer at the wall is no page yet"
    );
    bench.until(999);
    assert_eq!(
        bench.requests(),
        [0; 0],
        "P2: the gap lies between these two contacts, too"
    );
    bench.until(1000);
    assert_eq!(bench.requests(), [0], "before the next URL");
    bench.respond(job, 0);
    bench.until(2000);
    assert_eq!(bench.requests(), [1]);
    bench.respond(job, 1);
    let (statuses, ends) = outcome(&mut bench, job);
    assert_eq!((statuses, status(&ends)), (vec![200, 200], 200));
    assert_eq!((bench.last().results.len(), bench.last().requests), (2, 3));
}

#[test]
fn behind_a_wall_there_may_be_another_and_that_is_what_the_url_is() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.requests.truncate(1));
    for at_ms in [0, 1000] {
        bench.until(at_ms);
        assert_eq!(bench.requests(), [0]);
        meet(&mut bench, job, 0);
    }
    assert_eq!(bench.closes(), 1);
    let (statuses, ends) = outcome(&mut bench, job);
    assert_eq!((statuses, status(&ends)), (vec![302], 302));
}

#[test]
fn when_nothing_comes_behind_a_wall_the_answer_at_the_wall_counts() {
    for end in [
        End::Failure(FailureKind::Reset),
        End::Failure(FailureKind::Timeout),
        End::Failure(FailureKind::Protocol),
        End::Gone,
        End::Withheld,
    ] {
        let mut bench = Bench::new(4);
        let job = bench.grant(|_| {});
        meet(&mut bench, job, 0);
        bench.until(1000);
        assert_eq!(bench.requests(), [0, 0]);
        bench.end(job, 0, end.clone());
        let (statuses, ends) = outcome(&mut bench, job);
        assert_eq!((statuses, status(&ends)), (vec![302], 302), "{end:?}");
        let untried = bench
            .last()
            .results
            .iter()
            .filter(|result| result.end == RequestEnd::Untried)
            .count();
        assert_eq!(untried, 4, "{end:?}");
    }
}

/// The cookies are gone with the first connection, so the URL may meet the wall anew over HTTP/1.1.
#[test]
fn where_http2_fails_behind_a_wall_its_url_is_asked_for_over_http11() {
    let met = || End::Response(Box::new(wall()));
    let cases = [
        (vec![End::Response(Box::new(response()))], 200),
        (vec![met(), End::Response(Box::new(response()))], 200),
        (vec![met(), met()], 302),
        (vec![End::Failure(FailureKind::Timeout)], 302),
        (vec![End::Refused], 302),
        (vec![End::Http2Failed(FailureKind::Reset)], 302),
    ];
    for (over_http11, expected) in cases {
        let mut bench = Bench::new(4);
        let job = bench.grant(|job| job.requests.truncate(1));
        meet(&mut bench, job, 0);
        bench.until(1000);
        assert_eq!(bench.requests(), [0, 0]);
        bench.end(job, 0, End::Http2Failed(FailureKind::Reset));
        bench.step(Event::Answer(Answer::Closed { job }));
        assert!(bench.pages.is_empty());
        for (at_ms, end) in (2000..).step_by(1000).zip(over_http11.clone()) {
            bench.until(at_ms);
            assert_eq!(bench.requests(), [0], "{over_http11:?}");
            bench.end(job, 0, end);
        }
        assert_eq!(bench.requests(), [0; 0], "{over_http11:?}");
        let (statuses, ends) = outcome(&mut bench, job);
        assert_eq!(
            (statuses, status(&ends)),
            (vec![expected], expected),
            "{over_http11:?}"
        );
    }
}

#[test]
fn a_job_that_may_not_go_on_over_http11_passes_on_what_came_at_the_wall() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|_| {});
    meet(&mut bench, job, 0);
    bench.until(1000);
    bench.end(job, 0, End::Http2Failed(FailureKind::Reset));
    bench.tell(ToFetcher::Revoked { job });
    bench.step(Event::Answer(Answer::Closed { job }));
    assert_eq!(bench.pages.len(), 1);
    let (statuses, ends) = outcome(&mut bench, job);
    assert_eq!((statuses, status(&ends)), (vec![302], 302));
}

#[test]
fn a_job_that_ends_at_a_wall_reports_its_url_all_the_same() {
    // The server closes the connection, on which alone the cookie lives.
    let mut bench = Bench::new(4);
    let job = bench.grant(|_| {});
    bench.requests();
    bench.end(
        job,
        0,
        End::Response(Box::new(Response {
            keeps_open: false,
            ..wall()
        })),
    );
    assert_eq!((bench.requests(), bench.closes()), (vec![], 1));
    let (statuses, ends) = outcome(&mut bench, job);
    assert_eq!((statuses, status(&ends)), (vec![302], 302));

    // P1: the lease ends before the gap does.
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 60_000);
    bench.requests();
    meet(&mut bench, job, 0);
    bench.until(30_000);
    assert_eq!((bench.requests(), bench.closes()), (vec![], 1));
    let (statuses, ends) = outcome(&mut bench, job);
    assert_eq!((statuses, status(&ends)), (vec![302], 302));

    // The fetcher ends: another one begins anew.
    let mut bench = Bench::new(4);
    let job = bench.grant(|_| {});
    bench.requests();
    meet(&mut bench, job, 0);
    bench.step(Event::Drain);
    assert_eq!((bench.requests(), bench.closes()), (vec![], 1));
    assert!(bench.pages.is_empty());
    bench.step(Event::Answer(Answer::Closed { job }));
    assert_eq!(
        bench
            .last()
            .results
            .iter()
            .filter(|result| result.end == RequestEnd::Untried)
            .count(),
        5
    );
}

#[test]
fn what_leads_back_with_a_large_body_is_not_kept() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.requests.truncate(1));
    bench.requests();
    bench.end(
        job,
        0,
        End::Response(Box::new(Response {
            body: vec![b'x'; (64 << 10) + 1],
            ..wall()
        })),
    );
    let (statuses, ends) = outcome(&mut bench, job);
    assert_eq!((statuses, status(&ends)), (vec![302], 302));
}

#[test]
fn a_robots_txt_may_be_behind_a_wall() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| {
        job.kind = JobKind::Robots;
        job.requests.truncate(1);
    });
    meet(&mut bench, job, 0);
    bench.until(1000);
    assert_eq!(bench.requests(), [0, 0]);
    bench.respond(job, 0);
    bench.step(Event::Answer(Answer::Closed { job }));
    let robots = bench.last().robots.as_ref().unwrap();
    assert_eq!(
        (robots.status, robots.body.as_slice()),
        (200, b"page".as_slice())
    );
    assert_eq!(bench.last().results.len(), 1);
}

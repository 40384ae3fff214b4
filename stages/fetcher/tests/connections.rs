//! One connection for each job, and what becomes of it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of what waits"
)]
#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod common;

use common::server::{Server, ok};
use common::{Driver, failure, fetch, http_settings, is_response, job, run, run_with, settings};
use fetcher::effect::{Answer, Effect, End};
use rhumb_stage::{Core as _, Event};
use rhumb_wire::message::{FailureKind, JobId, RequestEnd};
use std::io::Read as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[tokio::test]
async fn two_hundred_jobs_of_fifty_requests_are_two_hundred_connections() {
    let server = Server::answering(ok(&[b'x'; 2000])).await;
    let mut driver = Driver::new(settings(), http_settings());
    driver.counts_only = true;
    for _ in 0..200 {
        driver.grant(job(&server.name(), 50));
    }
    driver.run().await;

    assert_eq!(driver.n_pages, 10_000);
    assert_eq!(
        driver.ends().iter().filter(|end| is_response(end)).count(),
        10_000
    );
    let seen = server.seen.lock().unwrap();
    assert_eq!((seen.accepted, seen.n_requests), (200, 10_000));
    assert!(seen.open_max <= 64, "{} connections at once", seen.open_max);
    assert_eq!(driver.count("connections_total"), 200);
    assert!(driver.core.is_idle());
    assert!(
        driver
            .reports
            .iter()
            .all(|report| report.requests == 50 && !report.closed_by_server)
    );
    assert!(
        driver
            .reports
            .iter()
            .all(|report| report.connect_us.is_some())
    );
}

#[tokio::test]
async fn a_chunked_body_leaves_the_connection_usable_too() {
    let body = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let server = Server::answering(body.to_vec()).await;
    let driver = run(job(&server.name(), 50)).await;
    assert_eq!(driver.pages.len(), 50);
    assert!(driver.pages.iter().all(|page| page.body == b"hello"));
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_body_that_arrives_in_pieces_leaves_the_connection_usable_too() {
    let server = Server::start(|mut peer| async move {
        while peer.request().await.is_some() {
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                .await;
            for _ in 0..3 {
                peer.send("5\r\nhello\r\n").await;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            peer.send("0\r\n\r\n").await;
        }
    })
    .await;
    let driver = run(job(&server.name(), 20)).await;
    assert_eq!(driver.pages.len(), 20);
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_server_that_closes_between_requests_costs_no_attempt_and_shows_its_limit() {
    let server = Server::start(|mut peer| async move {
        for _ in 0..3 {
            peer.request().await;
            peer.send(ok(b"page")).await;
        }
    })
    .await;
    let mut five = job(&server.name(), 5);
    five.gap_ms = 30;
    let driver = run(five).await;

    let ends = driver.ends();
    assert!(ends[..3].iter().all(is_response));
    assert_eq!(ends[3..], [RequestEnd::Untried, RequestEnd::Untried]);
    let report = driver.last_report();
    assert!(report.closed_by_server);
    assert_eq!(report.requests, 3);
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn an_announced_close_ends_the_job_without_another_request() {
    let responses = [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\npage",
        "HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\npage",
        "HTTP/1.1 200 OK\r\n\r\npage",
    ];
    for response in responses {
        let server = Server::once(response.into()).await;
        let driver = run(job(&server.name(), 3)).await;
        assert_eq!(driver.pages[0].body, b"page", "{response}");
        assert_eq!(driver.pages[0].truncated, None);
        assert_eq!(
            driver.ends()[1..],
            [RequestEnd::Untried, RequestEnd::Untried],
            "{response}"
        );
        assert!(driver.last_report().closed_by_server);
        assert_eq!(driver.last_report().requests, 1);
        assert_eq!(
            (server.accepted(), driver.count("requests_total")),
            (1, 1),
            "{response}"
        );
    }
}

#[tokio::test]
async fn the_gap_lies_between_any_two_requests() {
    let server = Server::answering(ok(b"page")).await;
    let mut four = job(&server.name(), 4);
    four.gap_ms = 60;
    run(four).await;
    let seen = server.seen.lock().unwrap();
    assert_eq!(seen.requested_at.len(), 4);
    for pair in seen.requested_at.windows(2) {
        assert!(
            pair[1] - pair[0] >= Duration::from_millis(60),
            "{:?}",
            pair[1] - pair[0]
        );
    }
}

#[tokio::test]
async fn no_request_is_made_past_the_deadline() {
    let server = Server::answering(ok(b"page")).await;
    let mut hundred = job(&server.name(), 100);
    hundred.gap_ms = 40;
    hundred.lease_ms = 300;
    let mut quick = settings();
    quick.renew_every = Duration::from_millis(100);
    let mut driver = Driver::new(quick, http_settings());
    let begun = Instant::now();
    driver.confirms_renewals = false;
    driver.grant(hundred);
    driver.run().await;

    let seen = server.seen.lock().unwrap();
    assert!(
        seen.requested_at
            .iter()
            .all(|at| *at < begun + Duration::from_millis(500))
    );
    assert!(
        (1..=8).contains(&seen.n_requests),
        "{} requests",
        seen.n_requests
    );
    let answered = driver.ends().iter().filter(|end| is_response(end)).count();
    assert_eq!(answered, seen.n_requests);
    assert_eq!(driver.ends().len(), 100);
    assert_eq!(driver.count("jobs_expired_total"), 1);
}

#[tokio::test]
async fn confirmed_renewals_carry_a_job_past_its_first_lease() {
    let server = Server::answering(ok(b"page")).await;
    let mut twenty = job(&server.name(), 20);
    // Three leases in all, each long enough for a machine that is busy elsewhere.
    twenty.gap_ms = 150;
    twenty.lease_ms = 1000;
    let mut quick = settings();
    quick.renew_every = Duration::from_millis(200);
    let driver = run_with(twenty, quick, http_settings()).await;
    assert!(driver.ends().iter().all(is_response));
    assert!(driver.reports.len() > 4, "{} reports", driver.reports.len());
    let sequences: Vec<u32> = driver
        .reports
        .iter()
        .map(|report| report.sequence)
        .collect();
    assert_eq!(
        sequences,
        (1..=driver.reports.len() as u32).collect::<Vec<_>>()
    );
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_connection_that_comes_about_only_after_the_lease_is_not_used() {
    // TLS waits for an answer until after the lease.
    let server = Server::start(|mut peer| async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        peer.send("no TLS").await;
        peer.hang().await;
    })
    .await;
    let mut one = job(&server.name().replace("http", "https"), 2);
    one.lease_ms = 100;
    let driver = run(one).await;
    assert!(matches!(driver.ends()[0], RequestEnd::Failure(_)));
    assert_eq!(driver.ends()[1], RequestEnd::Untried);
    assert_eq!(server.n_requests(), 0);
}

#[tokio::test]
async fn a_drain_finishes_the_request_in_hand_and_reports_the_rest() {
    let server = Server::start(|mut peer| async move {
        while peer.request().await.is_some() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            peer.send(ok(b"page")).await;
        }
    })
    .await;
    let mut driver = Driver::new(settings(), http_settings());
    for _ in 0..3 {
        driver.grant(job(&server.name(), 10));
    }
    driver.step(Event::Wake);
    while server.n_requests() < 3 {
        driver.turn().await;
    }
    driver.step(Event::Drain);
    assert!(!driver.core.is_idle());
    driver.run().await;
    assert!(driver.core.is_idle());
    assert_eq!(driver.core.wake_at(), None, "nothing is asked for any more");
    assert_eq!((driver.pages.len(), server.n_requests()), (3, 3));
    assert_eq!(
        driver
            .ends()
            .iter()
            .filter(|end| **end == RequestEnd::Untried)
            .count(),
        27
    );
}

#[tokio::test]
async fn a_refused_connection_fails_one_request_and_leaves_the_rest_untried() {
    let server = Server::answering(ok(b"")).await;
    let name = server.name();
    drop(server);
    tokio::task::yield_now().await;
    let driver = run(job(&name, 3)).await;
    assert_eq!(
        driver.ends(),
        [
            failure(FailureKind::Connect),
            RequestEnd::Untried,
            RequestEnd::Untried
        ]
    );
    assert_eq!(driver.last_report().connect_us, None);
}

/// Tasks enough that the runtime polls the test itself, like the stage loop, between two turns of a
/// task.
fn crowd() -> tokio::task::JoinSet<()> {
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..300 {
        crowd.spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
    }
    crowd
}

#[tokio::test]
async fn requests_without_a_gap_find_the_connection_again_in_a_crowded_runtime() {
    let server = Server::answering(ok(&[b'x'; 50_000])).await;
    let _crowd = crowd();
    let driver = Driver::new(settings(), http_settings());
    let name = server.name();
    for index in 0..50 {
        let answer = driver
            .http
            .perform(fetch(1, index, &name, &format!("{name}/{index}")))
            .await;
        assert!(
            matches!(
                answer,
                Answer::Response {
                    end: End::Response(_),
                    ..
                }
            ),
            "{index}: {answer:?}"
        );
    }
    assert_eq!(server.accepted(), 1);
}

/// The peer is a blocking socket that no runtime has to look after: what it reads right after the
/// answer was sent before it.
#[tokio::test]
async fn the_socket_is_closed_when_the_close_is_answered() {
    let whole = ok(b"page");
    let endless = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    let announced = b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\nsome".to_vec();
    let _crowd = crowd();
    for (response, settles) in [(whole, true), (announced, true), (endless, false)] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).unwrap();
            assert!(read > 0);
            std::io::Write::write_all(&mut stream, &response).unwrap();
            stream
        });
        let mut limits = http_settings();
        limits.request_timeout = Duration::from_millis(200);
        let driver = Driver::new(settings(), limits);
        let answer = driver
            .http
            .perform(fetch(1, 0, &server, &format!("{server}/")))
            .await;
        let Answer::Response { end, .. } = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(matches!(end, End::Response(_)), settles, "{end:?}");
        let stream: TcpStream = peer.join().unwrap();
        stream.set_nonblocking(true).unwrap();
        let job = JobId {
            scheduler: 0,
            epoch: 1,
            number: 1,
        };
        driver.http.perform(Effect::Close { job }).await;
        let mut left = [0; 16];
        assert_eq!(
            (&stream)
                .read(&mut left)
                .expect("end of stream, not a wait"),
            0
        );
    }
}

/// The same through the core: whoever gets the last report may open the next connection.
#[tokio::test]
async fn jobs_that_follow_one_another_never_have_two_connections_open() {
    let server = Server::answering(ok(b"page")).await;
    let mut one_at_a_time = settings();
    one_at_a_time.connections = 1;
    let mut driver = Driver::new(one_at_a_time, http_settings());
    for _ in 0..30 {
        driver.grant(job(&server.name(), 3));
    }
    driver.run().await;
    let seen = server.seen.lock().unwrap();
    assert_eq!((seen.accepted, seen.n_requests), (30, 90));
    assert_eq!(seen.open_max, 1);
}

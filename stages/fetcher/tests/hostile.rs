//! Servers that misbehave: each costs a request or a job, never more (P9).

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of what waits"
)]
#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod common;

use common::server::{Server, ok};
use common::{Driver, failure, http_settings, is_response, job, run, run_with, settings};
use fetcher::http::HttpSettings;
use rhumb_wire::message::{FailureKind, Job, RequestEnd, ResponseSummary, Truncation};
use std::time::{Duration, Instant};

fn impatient() -> HttpSettings {
    let mut settings = http_settings();
    settings.request_timeout = Duration::from_millis(200);
    settings
}

async fn fails_with(server: &Server, settings_of_http: HttpSettings, kind: FailureKind) {
    let driver = run_with(job(&server.name(), 2), settings(), settings_of_http).await;
    assert_eq!(driver.ends(), [failure(kind), RequestEnd::Untried]);
    assert!(driver.pages.is_empty());
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn an_endless_body_is_cut_to_size_and_ends_the_job() {
    let server = Server::start(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\n\r\n").await;
        while peer.send([b'x'; 10_000]).await.is_some() {}
    })
    .await;
    let mut small = settings();
    small.body_bytes_max = 123_456;
    let driver = run_with(job(&server.name(), 2), small, http_settings()).await;
    assert_eq!(driver.pages[0].body.len(), 123_456);
    assert_eq!(driver.pages[0].truncated, Some(Truncation::Length));
    let ends = driver.ends();
    assert!(matches!(
        ends[0],
        RequestEnd::Response(ResponseSummary {
            bytes: 123_456,
            truncated: true,
            ..
        })
    ));
    assert_eq!(ends[1], RequestEnd::Untried);
    assert!(!driver.last_report().closed_by_server);
    assert_eq!(driver.last_report().requests, 1);
}

#[tokio::test]
async fn a_body_of_just_the_largest_size_is_whole() {
    let server = Server::answering(ok(&[b'x'; 5000])).await;
    let mut small = settings();
    small.body_bytes_max = 5000;
    let driver = run_with(job(&server.name(), 2), small, http_settings()).await;
    assert!(
        driver
            .pages
            .iter()
            .all(|page| page.truncated.is_none() && page.body.len() == 5000)
    );
    assert_eq!(driver.pages.len(), 2);
}

#[tokio::test]
async fn a_page_never_becomes_larger_than_a_message_may_be() {
    let head = format!("HTTP/1.1 200 OK\r\nX: {}\r\n", "h".repeat(50_000));
    let response = format!(
        "{head}Content-Length: 100000\r\n\r\n{}",
        "b".repeat(100_000)
    );
    let server = Server::answering(response.into_bytes()).await;
    let mut limits = http_settings();
    limits.message_bytes_max = 100_000;
    let driver = run_with(job(&server.name(), 1), settings(), limits).await;
    assert_eq!(driver.pages[0].truncated, Some(Truncation::Length));
    assert!(rhumb_wire::message::encode(&driver.pages[0]).len() <= 100_000);
}

#[tokio::test]
async fn a_body_that_ends_early_is_kept_and_marked() {
    for response in [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\nno length\r\n",
    ] {
        let server = Server::once(response.into()).await;
        let driver = run(job(&server.name(), 2)).await;
        assert_eq!(driver.pages[0].body, b"some", "{response}");
        assert_eq!(driver.pages[0].truncated, Some(Truncation::Disconnect));
        assert_eq!(driver.ends()[1], RequestEnd::Untried);
    }
}

#[tokio::test]
async fn a_connection_lost_after_the_request_is_a_reset() {
    for response in [
        "",
        "HTTP/1.1 20",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
    ] {
        let server = Server::once(response.into()).await;
        fails_with(&server, http_settings(), FailureKind::Reset).await;
    }
    let abrupt = Server::start(|mut peer| async move {
        peer.request().await;
        socket2::SockRef::from(&peer.stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    })
    .await;
    fails_with(&abrupt, http_settings(), FailureKind::Reset).await;
}

#[tokio::test]
async fn a_connection_closed_before_the_request_is_a_reset_too() {
    let server = Server::start(|_| async {}).await;
    fails_with(&server, http_settings(), FailureKind::Reset).await;
}

#[tokio::test]
async fn a_slow_head_or_body_is_a_timeout() {
    let silent = Server::start(|mut peer| async move { peer.hang().await }).await;
    fails_with(&silent, impatient(), FailureKind::Timeout).await;
    for (first, drip) in [
        ("HTTP/1.1 200 OK\r\n", "X: y\r\n"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", "x"),
        ("", "HTTP/1.1 103 Early Hints\r\n\r\n"),
    ] {
        let server = Server::start(move |mut peer| async move {
            peer.request().await;
            peer.send(first).await;
            while peer.send(drip).await.is_some() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        let begun = Instant::now();
        fails_with(&server, impatient(), FailureKind::Timeout).await;
        assert!(
            (200..1500).contains(&begun.elapsed().as_millis()),
            "{:?}",
            begun.elapsed()
        );
    }
}

#[tokio::test]
async fn the_first_answer_may_have_less_time_than_the_others() {
    let silent = Server::start(|mut peer| async move { peer.hang().await }).await;
    let begun = Instant::now();
    let driver = run(Job {
        first_answer_ms: Some(200),
        ..job(&silent.name(), 2)
    })
    .await;
    assert_eq!(
        driver.ends(),
        [failure(FailureKind::Timeout), RequestEnd::Untried]
    );
    assert!(
        (200..1500).contains(&begun.elapsed().as_millis()),
        "{:?}",
        begun.elapsed()
    );

    let slow_later = Server::start(|mut peer| async move {
        for wait_ms in [0, 600] {
            peer.request().await;
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            peer.send(ok(b"page")).await;
        }
    })
    .await;
    let driver = run(Job {
        first_answer_ms: Some(200),
        ..job(&slow_later.name(), 2)
    })
    .await;
    assert!(driver.ends().iter().all(is_response), "{:?}", driver.ends());

    // A body is none of a server that does not answer.
    let slow_body = Server::start(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
            .await;
        tokio::time::sleep(Duration::from_millis(600)).await;
        peer.send("page").await;
    })
    .await;
    let driver = run(Job {
        first_answer_ms: Some(200),
        ..job(&slow_body.name(), 1)
    })
    .await;
    assert!(
        driver.pages[0].body == b"page" && driver.pages[0].truncated.is_none(),
        "{:?}",
        driver.ends()
    );
}

#[tokio::test]
async fn the_time_to_connect_does_not_count_as_time_of_the_request() {
    // TLS hangs for longer than a request may take, but not for longer than a connection may.
    let server = Server::start(|mut peer| async move { peer.hang().await }).await;
    let mut limits = impatient();
    limits.connect_timeout = Duration::from_millis(500);
    let begun = Instant::now();
    let driver = run_with(
        job(&server.name().replace("http", "https"), 2),
        settings(),
        limits,
    )
    .await;
    assert_eq!(
        driver.ends(),
        [failure(FailureKind::Connect), RequestEnd::Untried]
    );
    assert!(
        (500..1800).contains(&begun.elapsed().as_millis()),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn what_is_not_http_is_a_protocol_failure() {
    for response in [
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
        "\0\0\0\u{12}\u{4}\0\0\0\0\0\0\0\0\0",
        "<html>\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    ] {
        let server = Server::once(response.into()).await;
        let driver = run(job(&server.name(), 2)).await;
        assert_eq!(
            driver.ends()[0],
            failure(FailureKind::Protocol),
            "{response:?}"
        );
    }
}

#[tokio::test]
async fn a_head_larger_than_allowed_is_refused() {
    for headers in [
        format!("X: {}\r\n", "y".repeat(70 << 10)),
        format!("X: {}\r\n", "y".repeat(2 << 20)),
        "X: y\r\n".repeat(1000),
    ] {
        let response = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: 0\r\n\r\n");
        let server = Server::once(response.into_bytes()).await;
        fails_with(&server, http_settings(), FailureKind::HeaderTooLarge).await;
    }
}

#[tokio::test]
async fn many_headers_and_bytes_that_are_not_text_pass() {
    let headers = "X: y\r\n".repeat(200);
    let mut response =
        format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: 0\r\nX-Latin: ").into_bytes();
    response.extend_from_slice(b"caf\xe9\r\n\r\n");
    let server = Server::answering(response).await;
    let driver = run(job(&server.name(), 1)).await;
    let headers = &driver.pages[0].headers;
    assert_eq!(headers.len(), 202);
    assert!(headers.contains(&("x-latin".into(), b"caf\xe9".to_vec())));
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_a_tls_failure() {
    let garbage = Server::start(|mut peer| async move {
        peer.send("HTTP/1.1 400 Bad Request\r\n\r\n").await;
        peer.hang().await;
    })
    .await;
    let closing = Server::start(|mut peer| async move {
        let mut byte = [0];
        let _ = tokio::io::AsyncReadExt::read(&mut peer.stream, &mut byte).await;
    })
    .await;
    for server in [garbage, closing] {
        let driver = run(job(&server.name().replace("http", "https"), 2)).await;
        assert_eq!(
            driver.ends(),
            [failure(FailureKind::Tls), RequestEnd::Untried]
        );
        assert_eq!(server.accepted(), 1);
    }
}

#[tokio::test]
async fn a_second_response_that_nobody_asked_for_is_not_taken_for_the_next_page() {
    let mut two = ok(b"page");
    two.extend(ok(b"smuggled"));
    let server = Server::answering(two).await;
    let mut pair = job(&server.name(), 2);
    pair.gap_ms = 20;
    let driver = run(pair).await;
    assert!(driver.pages.iter().all(|page| page.body == b"page"));
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn one_hostile_server_does_not_disturb_the_others() {
    let good = Server::answering(ok(b"page")).await;
    let bad = Server::once(b"\xff\xfe garbage".to_vec()).await;
    let mut driver = Driver::new(settings(), http_settings());
    for index in 0..40 {
        driver.grant(job(
            &if index % 2 == 0 {
                good.name()
            } else {
                bad.name()
            },
            5,
        ));
    }
    driver.run().await;
    assert_eq!(driver.pages.len(), 100);
    assert_eq!(
        driver.ends().iter().filter(|end| is_response(end)).count(),
        100
    );
    assert_eq!(driver.ends().len(), 200);
}

//! How heads of responses are read: as browsers read them, by the client's lenient switches, and
//! what is lost with a field that is left out.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of what waits"
)]
#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod common;

use common::server::Server;
use common::{Driver, failure, http_settings, job, run, run_with, settings};
use fetcher::http::HttpSettings;
use rhumb_wire::message::{FailureKind, Job, JobKind, Lack, RequestEnd, ResponseSummary};
use std::time::Duration;

/// A job of one request to a server that answers with these bytes.
async fn answered(response: &[u8]) -> Driver {
    let server = Server::answering(response.to_vec()).await;
    run(job(&server.name(), 1)).await
}

fn head(lines: &[u8]) -> Vec<u8> {
    [
        b"HTTP/1.1 200 OK\r\n",
        lines,
        b"Content-Length: 4\r\n\r\npage",
    ]
    .concat()
}

/// What a page with these lines in its head is passed on with, beside the length.
async fn fields(lines: &[u8]) -> Vec<(String, Vec<u8>)> {
    let driver = answered(&head(lines)).await;
    assert_eq!(
        driver.pages.len(),
        1,
        "{:?} {}",
        driver.ends(),
        String::from_utf8_lossy(lines)
    );
    let page = &driver.pages[0];
    assert_eq!(
        (page.body.as_slice(), page.truncated),
        (b"page".as_slice(), None)
    );
    page.headers
        .iter()
        .filter(|(name, _)| name != "content-length")
        .cloned()
        .collect()
}

#[tokio::test]
async fn folds_become_spaces_before_anybody_sees_them() {
    // RFC 9112, section 5.2.
    for (lines, value) in [
        ("X: a\r\n b\r\n", "a b"),
        ("X: a \r\n\t \tb\r\n c\r\n", "a b c"),
        ("X:\r\n a\r\n", "a"),
        ("X: \r\n\t\r\n  a;\r\n\tb\r\n", "a; b"),
        ("X: a\n b\n", "a b"),
        ("X: a\r\n \r\n", "a"),
        ("X: a\r\n Y: b\r\n", "a Y: b"),
        ("X:\r\n \r\n", ""),
        ("X: a\r\n \u{e9}\r\n", "a \u{e9}"),
    ] {
        assert_eq!(
            fields(lines.as_bytes()).await,
            [("x".to_owned(), value.as_bytes().to_vec())],
            "{lines:?}"
        );
    }
}

#[tokio::test]
async fn a_line_that_is_no_field_costs_no_other() {
    let kept = ("y".to_owned(), b"1".to_vec());
    for lines in [
        "no field\r\nY: 1\r\n",
        "Y: 1\r\nno-field\r\n",
        "no field\r\n with a fold\r\nY: 1\r\n",
        ": nameless\r\nY: 1\r\n",
        "X Powered: b\r\nY: 1\r\n",
        "X(a): b\r\nY: 1\r\n",
        "\u{e9}: b\r\nY: 1\r\n",
        // A fold of nothing (RFC 9112, section 2.2).
        " X: b\r\nY: 1\r\n",
    ] {
        assert_eq!(
            fields(lines.as_bytes()).await,
            std::slice::from_ref(&kept),
            "{lines:?}"
        );
    }
}

#[tokio::test]
async fn spaces_before_a_colon_are_dropped() {
    // RFC 9112, section 5.1.
    for lines in ["Y : 1\r\n", "Y \t:1\r\n", "Y\t: 1\r\n"] {
        assert_eq!(
            fields(lines.as_bytes()).await,
            [("y".to_owned(), b"1".to_vec())],
            "{lines:?}"
        );
    }
    let driver = answered(b"HTTP/1.1 200 OK\r\nContent-Length : 4\r\n\r\npage and more").await;
    assert_eq!(driver.pages[0].body, b"page");
}

#[tokio::test]
async fn a_field_with_a_control_character_is_lost_with_all_its_folds() {
    let kept = ("y".to_owned(), b"1".to_vec());
    for control in (1..=0x1F)
        .filter(|byte| !b"\t\n\r".contains(byte))
        .chain([0x7F])
    {
        for lines in [
            [b"X: a", [control].as_slice(), b"b\r\nY: 1\r\n"].concat(),
            [b"X: ", [control].as_slice(), b"\r\nY: 1\r\n"].concat(),
            [b"X", [control].as_slice(), b": a\r\nY: 1\r\n"].concat(),
            [b"X: a\r\n b", [control].as_slice(), b"\r\n c\r\nY: 1\r\n"].concat(),
            [b"X: ", [control].as_slice(), b"a\r\n b\r\nY: 1\r\n"].concat(),
        ] {
            assert_eq!(
                fields(&lines).await,
                std::slice::from_ref(&kept),
                "{:?}",
                String::from_utf8_lossy(&lines)
            );
        }
    }
    // A tab is none, nor are bytes outside ASCII.
    assert_eq!(
        fields(b"Y: 1\t\xFF\x80\r\n").await,
        [("y".to_owned(), b"1\t\xFF\x80".to_vec())]
    );
}

#[tokio::test]
async fn what_no_two_browsers_read_alike_is_no_http() {
    for response in [
        head(b"X: a\0b\r\n").as_slice(),
        &head(b"X\0: a\r\n"),
        &head(b"X: a\rb\r\n"),
        &head(b"X: a\r\r\n"),
        &head(b"no field\0\r\n"),
        b"HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 O\x7FK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    ] {
        let driver = answered(response).await;
        assert_eq!(
            driver.ends(),
            [failure(FailureKind::Protocol)],
            "{:?}",
            String::from_utf8_lossy(response)
        );
    }
}

#[tokio::test]
async fn the_rules_of_a_server_with_a_faulty_head_are_read() {
    let rules = b"User-agent: *\nDisallow: /no\n";
    for lines in [
        "X: a\r\n b\r\n",
        "X : a\r\n",
        "no field\r\n",
        "X: a\u{1}b\r\n",
        "X Y: a\r\n",
    ] {
        let head = format!(
            "HTTP/1.1 200 OK\r\n{lines}Content-Length: {}\r\n\r\n",
            rules.len()
        );
        let server = Server::answering([head.as_bytes(), rules].concat()).await;
        let driver = run(Job {
            kind: JobKind::Robots,
            ..job(&server.name(), 1)
        })
        .await;
        assert_eq!(
            driver.last_report().robots.as_ref().unwrap().body,
            rules,
            "{lines:?}"
        );
    }
    // The Location of a robots.txt that is elsewhere, on two lines and beside an empty one.
    let server = Server::answering(
        b"HTTP/1.1 301 Moved\r\nLocation:\r\nLocation:\r\n /r\xE9.txt\r\nContent-Length: 0\r\n\r\n"
            .to_vec(),
    )
    .await;
    let driver = run(Job {
        kind: JobKind::Robots,
        ..job(&server.name(), 1)
    })
    .await;
    assert_eq!(
        driver
            .last_report()
            .robots
            .as_ref()
            .unwrap()
            .location
            .as_deref(),
        Some("/r%E9.txt")
    );
}

fn lacks(end: &RequestEnd) -> Option<Lack> {
    match end {
        RequestEnd::Response(ResponseSummary { lacks, .. }) => *lacks,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_redirect_that_leads_nowhere_says_so() {
    for (status, lines, lack) in [
        (301, "", Some(Lack::Target)),
        (308, "Location: \r\n", Some(Lack::Target)),
        (302, "Location: /a\u{1}b\r\n", Some(Lack::Target)),
        (303, "Location: mailto:a@a.test\r\n", Some(Lack::Target)),
        (307, "Location: http://[\r\n", Some(Lack::Target)),
        (300, "", Some(Lack::Target)),
        (300, "Location: /a\r\n", None),
        (302, "Location:\r\nLocation: /a\r\n", None),
        (301, "Location : /a\r\n", None),
        (301, "Location:\r\n /a\r\n", None),
        (304, "", None),
        (200, "", None),
        (404, "", None),
    ] {
        let response = format!("HTTP/1.1 {status} X\r\n{lines}Content-Length: 0\r\n\r\n");
        let driver = answered(response.as_bytes()).await;
        assert_eq!(lacks(&driver.ends()[0]), lack, "{status} {lines:?}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_end_because_its_length_was_lost_says_so() {
    let impatient = HttpSettings {
        request_timeout: Duration::from_millis(300),
        ..http_settings()
    };
    let stalled = |head: &'static str, body: Vec<u8>| {
        let response = [head.as_bytes(), &body].concat();
        let impatient = impatient.clone();
        async move {
            let server = Server::answering(response).await;
            run_with(job(&server.name(), 2), settings(), impatient)
                .await
                .ends()
        }
    };
    let lost = "HTTP/1.1 200 OK\r\nContent-Length: 20000\u{1}\r\n\r\n";
    let said = "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n";
    assert_eq!(
        stalled(lost, Vec::new()).await[0],
        failure(FailureKind::NoLength)
    );
    assert_eq!(
        stalled(said, Vec::new()).await[0],
        failure(FailureKind::Timeout)
    );
    assert_eq!(
        lacks(&stalled(lost, vec![b'x'; 20_000]).await[0]),
        Some(Lack::Length)
    );
    assert_eq!(lacks(&stalled(said, vec![b'x'; 20_000]).await[0]), None);
    // It is cut by us.
    let mut small = settings();
    small.body_bytes_max = 1000;
    let server = Server::answering([lost.as_bytes(), &[b'x'; 2000]].concat()).await;
    let driver = run_with(job(&server.name(), 1), small, http_settings()).await;
    assert_eq!(lacks(&driver.ends()[0]), None);
}

//! Bodies whose end does not come, or that are not what their heads say: what is kept of them, why
//! it is not all, and what they cost.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of what waits"
)]
#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod common;

use common::server::Server;
use common::{Driver, failure, http_settings, is_response, job, run, run_with, settings};
use fetcher::http::{HttpSettings, Rate};
use fetcher::settings::Settings;
use flate2::Compression;
use flate2::write::GzEncoder;
use rhumb_stage::doubt::Past;
use rhumb_wire::message::{FailureKind, Job, JobKind, RequestEnd, RobotsResponse, Truncation};
use std::io::Write as _;
use std::time::{Duration, Instant};

const PAGE: &str = "<a href=/next>n</a>";

/// Sends pieces, each after so many milliseconds, and then leaves the connection open.
async fn in_pieces(pieces: &[(u64, &str)]) -> Server {
    let pieces: Vec<(u64, String)> = pieces
        .iter()
        .map(|(wait_ms, piece)| (*wait_ms, (*piece).to_owned()))
        .collect();
    Server::start(move |mut peer| {
        let pieces = pieces.clone();
        async move {
            peer.request().await;
            for (wait_ms, piece) in pieces {
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                peer.send(piece).await;
            }
            peer.hang().await;
        }
    })
    .await
}

/// A head with further lines, and a body.
fn answer(lines: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{lines}\r\n\r\n{body}")
}

/// Windows of the rate are so long that the time for the request is over first, or the other way
/// round.
fn limits(window_ms: u64, timeout_ms: u64) -> HttpSettings {
    let transfer_rate = Rate {
        bytes_min: 1024,
        window: Duration::from_millis(window_ms),
    };
    HttpSettings {
        transfer_rate,
        request_timeout: Duration::from_millis(timeout_ms),
        ..http_settings()
    }
}

/// The body and why it is not whole, of a job of two whose first one came.
fn first(driver: &Driver) -> (&str, Option<Truncation>) {
    assert!(is_response(&driver.ends()[0]), "{:?}", driver.ends());
    let page = &driver.pages[0];
    (std::str::from_utf8(&page.body).unwrap(), page.truncated)
}

#[tokio::test]
async fn a_document_whose_announced_end_never_comes_is_kept_and_ends_the_job() {
    let chunk = format!("{:x}\r\n{PAGE}\r\n", PAGE.len());
    for (lines, body) in [
        ("Content-Length: 31", PAGE),
        ("Content-Length: 99999999", PAGE),
        ("Transfer-Encoding: chunked", &chunk),
        ("Transfer-Encoding: chunked", &format!("{chunk}ff\r\n")),
        ("Transfer-Encoding: chunked", &format!("{chunk}0\r\n")),
        ("Connection: close", PAGE),
    ] {
        for (window_ms, timeout_ms) in [(300, 5000), (5000, 300)] {
            let server = in_pieces(&[(0, &answer(lines, body))]).await;
            let begun = Instant::now();
            let driver = run_with(
                job(&server.name(), 2),
                settings(),
                limits(window_ms, timeout_ms),
            )
            .await;
            assert_eq!(first(&driver), (PAGE, Some(Truncation::Time)), "{lines}");
            assert_eq!(driver.ends()[1], RequestEnd::Untried);
            assert!(
                (300..2000).contains(&begun.elapsed().as_millis()),
                "{lines}: {:?}",
                begun.elapsed()
            );
        }
    }
}

/// It is not cut as long as it may come, and what stood still for longer than it moved is kept,
/// however slowly it moved.
#[tokio::test]
async fn a_slow_server_has_all_the_time_that_there_is() {
    let pauses = [
        (0, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
        (300, "def"),
    ];
    let whole = in_pieces(&[pauses[0], pauses[1], (300, "ghi")]).await;
    let driver = run_with(job(&whole.name(), 1), settings(), limits(1000, 5000)).await;
    assert_eq!(first(&driver), ("abcdefghi", None));
    let stalled = in_pieces(&pauses).await;
    let driver = run_with(job(&stalled.name(), 2), settings(), limits(1000, 5000)).await;
    assert_eq!(first(&driver), ("abcdef", Some(Truncation::Time)));
}

#[tokio::test]
async fn a_body_that_drips_until_its_time_is_over_has_failed_and_so_has_one_of_which_nothing_came()
{
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";
    let drip: Vec<(u64, &str)> = std::iter::once((0, head))
        .chain(std::iter::repeat_n((20, "x"), 100))
        .collect();
    for (pieces, window_ms, timeout_ms, kind) in [
        (&drip, 300, 5000, FailureKind::Slow),
        (&drip, 5000, 300, FailureKind::Timeout),
        (&vec![(0, head)], 300, 5000, FailureKind::Slow),
        (&vec![(0, head)], 5000, 300, FailureKind::Timeout),
    ] {
        let server = in_pieces(pieces).await;
        let driver = run_with(
            job(&server.name(), 2),
            settings(),
            limits(window_ms, timeout_ms),
        )
        .await;
        assert_eq!(driver.ends(), [failure(kind), RequestEnd::Untried]);
    }
}

/// A head shows that servers can be reached: the silence behind it is the server's own.
#[tokio::test]
async fn a_body_that_does_not_come_has_failed_although_nothing_was_ever_answered() {
    let server = in_pieces(&[(0, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")]).await;
    let young = Settings {
        past: Past::Unknown,
        ..settings()
    };
    let driver = run_with(job(&server.name(), 2), young, limits(5000, 300)).await;
    assert_eq!(
        driver.ends(),
        [failure(FailureKind::Timeout), RequestEnd::Untried]
    );
    assert_eq!(driver.count("doubts_total"), 0);
}

#[tokio::test]
async fn an_answer_that_has_no_content_is_whole_at_once_whatever_its_head_says_of_a_length() {
    for status in [204, 205, 304] {
        for lines in [
            "Content-Type: text/html",
            "Content-Length: 0",
            "Content-Length: 99",
        ] {
            let server =
                in_pieces(&[(0, &format!("HTTP/1.1 {status} Status\r\n{lines}\r\n\r\n"))]).await;
            let begun = Instant::now();
            let driver = run(job(&server.name(), 1)).await;
            assert_eq!(
                (driver.pages[0].status, first(&driver)),
                (status, ("", None)),
                "{lines}"
            );
            assert!(
                begun.elapsed() < Duration::from_secs(1),
                "{status} {lines}: {:?}",
                begun.elapsed()
            );
        }
    }
    let kept =
        Server::answering(b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n".to_vec())
            .await;
    let driver = run(job(&kept.name(), 3)).await;
    assert_eq!((driver.pages.len(), kept.accepted()), (3, 1));
}

/// Status and Location say all: nobody waits for long for what comes besides, and it decides
/// nothing.
#[tokio::test]
async fn a_redirect_or_an_error_is_an_answer_whatever_becomes_of_its_body() {
    for (status, lines) in [
        (301, "Location: /x"),
        (302, "Location: /x\r\nContent-Length: 200"),
        (307, "Location: /x\r\nTransfer-Encoding: chunked"),
        (404, "Content-Type: text/html"),
        (410, "Content-Length: 200"),
        (403, "Transfer-Encoding: chunked"),
        (500, "Content-Length: 200"),
    ] {
        let server =
            in_pieces(&[(0, &format!("HTTP/1.1 {status} Status\r\n{lines}\r\n\r\n"))]).await;
        let begun = Instant::now();
        let patient = HttpSettings {
            request_timeout: Duration::from_secs(30),
            ..http_settings()
        };
        let driver = run_with(job(&server.name(), 2), settings(), patient).await;
        assert_eq!(first(&driver), ("", Some(Truncation::Time)), "{status}");
        assert_eq!((driver.pages[0].status, driver.ends().len()), (status, 2));
        assert_eq!(
            driver.ends()[1],
            RequestEnd::Untried,
            "the connection cannot go on"
        );
        assert!(
            (1900..3500).contains(&begun.elapsed().as_millis()),
            "{status}: {:?}",
            begun.elapsed()
        );
    }
}

#[tokio::test]
async fn a_redirect_whose_body_drips_or_is_lost_is_one_all_the_same() {
    let head = "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 100\r\n\r\n";
    let drip: Vec<(u64, &str)> = std::iter::once((0, head))
        .chain(std::iter::repeat_n((20, "x"), 100))
        .collect();
    let server = in_pieces(&drip).await;
    let driver = run_with(job(&server.name(), 1), settings(), limits(300, 5000)).await;
    assert_eq!(
        (driver.pages[0].status, driver.pages[0].truncated),
        (302, Some(Truncation::Time))
    );
    for rest in ["", "some", "HTTP/1.1 302 Found"] {
        let server = Server::once(format!("{head}{rest}").into()).await;
        let driver = run(job(&server.name(), 1)).await;
        assert_eq!(
            (driver.pages[0].status, first(&driver)),
            (302, (rest, Some(Truncation::Disconnect)))
        );
    }
    let broken =
        Server::once(b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\nnot found".to_vec())
            .await;
    let driver = run(job(&broken.name(), 1)).await;
    assert_eq!(
        (driver.pages[0].status, first(&driver)),
        (404, ("", Some(Truncation::Disconnect)))
    );
}

/// A redirect that leads nowhere is a page to whoever sees it.
#[tokio::test]
async fn the_body_of_a_redirect_without_target_is_waited_for() {
    let late = [
        (0, "HTTP/1.1 300 Choices\r\nContent-Length: 2\r\n\r\n"),
        (2500, "ab"),
    ];
    let driver = run_with(
        job(&in_pieces(&late).await.name(), 1),
        settings(),
        limits(10_000, 10_000),
    )
    .await;
    assert_eq!(first(&driver), ("ab", None));
}

#[tokio::test]
async fn a_length_counts_beside_a_transfer_coding_that_says_no_chunks() {
    for coding in ["identity", "Identity", "none", "gzip"] {
        let lines = format!(
            "Transfer-Encoding: {coding}\r\nContent-Length: {}",
            PAGE.len()
        );
        for body in [PAGE.to_owned(), format!("{PAGE}and more")] {
            let server = in_pieces(&[(0, &answer(&lines, &body))]).await;
            let begun = Instant::now();
            let driver = run(job(&server.name(), 2)).await;
            assert_eq!(first(&driver), (PAGE, None), "{coding}");
            assert!(begun.elapsed() < Duration::from_secs(1));
            // The client waits for the end of the connection, which serves no other request.
            assert_eq!(
                (server.accepted(), &driver.ends()[1]),
                (1, &RequestEnd::Untried)
            );
        }
    }
    let empty = in_pieces(&[(
        0,
        &answer("Transfer-Encoding: identity\r\nContent-Length: 0", ""),
    )])
    .await;
    assert_eq!(first(&run(job(&empty.name(), 1)).await), ("", None));
    let short =
        Server::once(answer("Transfer-Encoding: identity\r\nContent-Length: 99", PAGE).into())
            .await;
    assert_eq!(
        first(&run(job(&short.name(), 1)).await),
        (PAGE, Some(Truncation::Disconnect))
    );
}

/// What the client takes for chunks, and what it does not: lines that end with LF alone, and what
/// is no size.
#[tokio::test]
async fn chunks_are_undone_and_what_came_before_a_broken_one_is_kept() {
    let chunked = "Transfer-Encoding: chunked";
    let size = format!("{:x}", PAGE.len());
    let good = format!("{size}\r\n{PAGE}\r\n");
    let end = "0\r\n\r\n";
    for (lines, body) in [
        (chunked, format!("{good}{end}")),
        (
            "Transfer-Encoding: chunked, chunked",
            format!("{good}{end}"),
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            format!("{good}{end}"),
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 3",
            format!("{good}{end}"),
        ),
        (chunked, format!("{size};a=b;c=\"d\"\r\n{PAGE}\r\n{end}")),
        (
            chunked,
            format!("{size}  \r\n{PAGE}\r\n0;x\r\nTrailer: y\r\n\r\n"),
        ),
        (chunked, format!("000{size}\r\n{PAGE}\r\n{end}")),
        (chunked, format!("{good}{end}garbage behind the last chunk")),
    ] {
        let server = in_pieces(&[(0, &answer(lines, &body))]).await;
        let driver = run(job(&server.name(), 1)).await;
        assert_eq!(first(&driver), (PAGE, None), "{body}");
    }
    for rest in [
        "5\nabcde\n0\n\n",
        "0\n\n",
        "xyz\r\n",
        "-1\r\n",
        "ffffffffffffffffff\r\n",
        "\r\n",
        "5 5\r\nabcde\r\n",
    ] {
        let server = in_pieces(&[(0, &answer(chunked, &format!("{good}{rest}")))]).await;
        let driver = run(job(&server.name(), 2)).await;
        assert_eq!(
            first(&driver),
            (PAGE, Some(Truncation::Disconnect)),
            "{rest}"
        );
        assert_eq!(driver.ends()[1], RequestEnd::Untried);
        // Of a body that begins so nothing came.
        let server = in_pieces(&[(0, &answer(chunked, rest))]).await;
        let driver = run(job(&server.name(), 2)).await;
        assert_eq!(
            driver.ends(),
            [failure(FailureKind::Protocol), RequestEnd::Untried],
            "{rest}"
        );
    }
}

async fn rules(lines: &str, body: &[u8]) -> Result<RobotsResponse, RequestEnd> {
    let head = format!(
        "HTTP/1.1 200 OK\r\n{lines}Content-Length: {}\r\n\r\n",
        body.len()
    );
    let server = Server::answering([head.as_bytes(), body].concat()).await;
    let driver = run(Job {
        kind: JobKind::Robots,
        ..job(&server.name(), 1)
    })
    .await;
    driver
        .last_report()
        .robots
        .clone()
        .ok_or_else(|| driver.ends().remove(0))
}

#[tokio::test]
async fn a_robots_txt_is_read_whatever_its_server_calls_its_coding() {
    let text = b"# rules\nUser-agent: *\nDisallow: /no\n";
    for codings in [
        "gzip",
        "x-gzip",
        "deflate",
        "br",
        "zstd",
        "gzip, br",
        "gzip, gzip, gzip, gzip, gzip",
        "utf-8",
    ] {
        let read = rules(&format!("Content-Encoding: {codings}\r\n"), text).await;
        assert_eq!(read.unwrap().body, text, "{codings}");
    }
    let latin = b"# K\xe4fer\nUser-agent: *\nDisallow: /no\n";
    assert_eq!(
        rules("Content-Encoding: gzip\r\n", latin)
            .await
            .unwrap()
            .body,
        latin
    );
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    let packed = encoder.finish().unwrap();
    for codings in [
        "Content-Encoding: gzip\r\n",
        "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n",
    ] {
        assert_eq!(rules(codings, &packed).await.unwrap().body, text);
    }
    // Rules that are lacking would be taken for leave.
    let half = rules("Content-Encoding: gzip\r\n", &packed[..packed.len() / 2]).await;
    assert_eq!(half, Err(failure(FailureKind::Protocol)));
}

#[tokio::test]
async fn a_robots_txt_that_is_not_whole_is_no_rules_and_one_that_is_not_there_needs_no_body() {
    for (answer, expected) in [
        (
            "200 OK\r\nContent-Length: 99\r\n\r\nUser-agent: *",
            Err(failure(FailureKind::Timeout)),
        ),
        ("404 Not Found\r\n\r\n", Ok(404)),
        (
            "301 Moved\r\nLocation: /r\r\nContent-Length: 9\r\n\r\n",
            Ok(301),
        ),
    ] {
        let server = in_pieces(&[(0, &format!("HTTP/1.1 {answer}"))]).await;
        let robots = Job {
            kind: JobKind::Robots,
            ..job(&server.name(), 1)
        };
        let driver = run_with(robots, settings(), limits(300, 5000)).await;
        let status = driver
            .last_report()
            .robots
            .as_ref()
            .map(|robots| robots.status);
        assert_eq!(
            status.ok_or_else(|| driver.ends().remove(0)),
            expected,
            "{answer}"
        );
    }
}

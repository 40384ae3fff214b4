//! Servers that choose HTTP/2 and do not speak it, or not for every request.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of what waits"
)]
#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod common;

use common::{Driver, failure, http_settings, is_response, job, run_with, settings};
use fetcher::http::HttpSettings;
use fetcher::settings::Settings;
use rhumb_stage::doubt::Past;
use rhumb_wire::message::{FailureKind, HttpVersion, JobKind, RequestEnd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What a server does over HTTP/2.
#[derive(Clone, Copy, Debug)]
enum Http2 {
    /// Resets every request after so many on a connection.
    Reset(h2::Reason, usize),
    /// Goes away at the first request after so many, which it says that it did not look at.
    GoesAway(h2::Reason, usize),
    /// Goes away at once.
    IsAway(h2::Reason),
    /// Answers what is no HTTP/2.
    Garbage(&'static [u8]),
    /// Ends the connection: at once, or after the first request.
    Closes { at_once: bool },
    /// Says nothing.
    Silent,
    /// Answers with these headers, and leaves the stream open behind them.
    LeavesOpen(&'static [u8]),
}

/// What a server does over HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Http11 {
    Answers,
    Closes,
    /// It has none.
    Missing,
}

#[derive(Debug, Default)]
struct Seen {
    open: usize,
    open_max: usize,
    /// Protocols of the connections, and when they were there.
    connections: Vec<(&'static str, Instant)>,
    /// When requests came, over HTTP/2 and over HTTP/1.1.
    requests: Vec<(&'static str, Instant)>,
}

struct Server {
    name: String,
    seen: Arc<Mutex<Seen>>,
}

const H2: &str = "h2";
const H1: &str = "http/1.1";

impl Server {
    async fn start(over_http2: Http2, over_http11: Http11) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let name = format!(
            "https://crawl.invalid:{}",
            listener.local_addr().unwrap().port()
        );
        let acceptor = acceptor(over_http11);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let noted = seen.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                {
                    let mut seen = noted.lock().unwrap();
                    seen.open += 1;
                    seen.open_max = seen.open_max.max(seen.open);
                }
                let acceptor = acceptor.clone();
                let seen = noted.clone();
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(H2.as_bytes());
                        let protocol = if is_http2 { H2 } else { H1 };
                        seen.lock()
                            .unwrap()
                            .connections
                            .push((protocol, Instant::now()));
                        match is_http2 {
                            true => drop(serve_http2(stream, over_http2, &seen).await),
                            false => drop(serve_http11(stream, over_http11, &seen).await),
                        }
                    }
                    seen.lock().unwrap().open -= 1;
                });
            }
        });
        Server { name, seen }
    }

    fn protocols(&self) -> Vec<&'static str> {
        self.seen
            .lock()
            .unwrap()
            .connections
            .iter()
            .map(|(protocol, _)| *protocol)
            .collect()
    }

    fn requests(&self) -> Vec<&'static str> {
        self.seen
            .lock()
            .unwrap()
            .requests
            .iter()
            .map(|(protocol, _)| *protocol)
            .collect()
    }
}

fn acceptor(over_http11: Http11) -> TlsAcceptor {
    let certificate = include_bytes!("../../../shared/bus/tests/certificate/certificate.der");
    let key = include_bytes!("../../../shared/bus/tests/certificate/key.der");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(certificate.as_slice())],
            PrivateKeyDer::try_from(key.as_slice()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![H2.into()];
    if over_http11 != Http11::Missing {
        config.alpn_protocols.push(H1.into());
    }
    TlsAcceptor::from(Arc::new(config))
}

async fn serve_http11(
    mut stream: TlsStream<TcpStream>,
    does: Http11,
    seen: &Mutex<Seen>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    loop {
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        head.clear();
        seen.lock().unwrap().requests.push((H1, Instant::now()));
        if does == Http11::Closes {
            return Ok(());
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nolder")
            .await?;
    }
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// A frame (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn go_away(last_stream: u32, reason: h2::Reason) -> Vec<u8> {
    frame(
        GOAWAY,
        0,
        0,
        &[last_stream.to_be_bytes(), u32::from(reason).to_be_bytes()].concat(),
    )
}

/// Answers requests by a bare 200, until it does what it is told. Frames by hand, as a server's
/// library takes every request.
async fn serve_http2(
    mut stream: TlsStream<TcpStream>,
    does: Http2,
    seen: &Mutex<Seen>,
) -> std::io::Result<()> {
    match does {
        Http2::Closes { at_once: true } => return Ok(()),
        Http2::Garbage(bytes) => stream.write_all(bytes).await?,
        _ => {}
    }
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    if !matches!(does, Http2::Garbage(_) | Http2::Silent) {
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    }
    if let Http2::IsAway(reason) = does {
        stream.write_all(&go_away(0, reason)).await?;
        return Ok(());
    }
    let mut answered = 0;
    let mut last_stream = 0;
    let mut head = [0; 9];
    loop {
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await?;
        if head[3] != HEADERS {
            continue;
        }
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        seen.lock().unwrap().requests.push((H2, Instant::now()));
        match does {
            Http2::Reset(reason, after) if answered >= after => {
                stream
                    .write_all(&frame(RST_STREAM, 0, id, &u32::from(reason).to_be_bytes()))
                    .await?;
            }
            Http2::GoesAway(reason, after) if answered >= after => {
                stream.write_all(&go_away(last_stream, reason)).await?;
                stream.shutdown().await?;
                return Ok(());
            }
            Http2::Closes { .. } => return Ok(()),
            Http2::Garbage(_) | Http2::Silent => {}
            // The end of its headers.
            Http2::LeavesOpen(headers) => stream.write_all(&frame(HEADERS, 4, id, headers)).await?,
            // Its end, and that of its headers; `:status: 200` is number 8 of the static table.
            _ => stream.write_all(&frame(HEADERS, 5, id, &[0x88])).await?,
        }
        answered += 1;
        last_stream = id;
    }
}

fn trusting() -> HttpSettings {
    HttpSettings {
        accept_invalid_certificates: true,
        ..http_settings()
    }
}

const GAP: Duration = Duration::from_millis(100);

/// Goal: what HTTP/2 cannot bring, HTTP/1.1 does, by one connection after the other (P1), with the
/// gap between any two contacts (P2), and the rest of the job follows there.
#[tokio::test]
async fn what_fails_over_http2_is_fetched_over_http11() {
    let required = h2::Reason::HTTP_1_1_REQUIRED;
    let faults = [
        Http2::Reset(required, 0),
        Http2::GoesAway(required, 0),
        Http2::IsAway(required),
        Http2::Reset(h2::Reason::INTERNAL_ERROR, 0),
        Http2::GoesAway(h2::Reason::PROTOCOL_ERROR, 0),
        Http2::GoesAway(h2::Reason::INADEQUATE_SECURITY, 0),
        Http2::IsAway(h2::Reason::INTERNAL_ERROR),
        Http2::Garbage(
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        ),
        Http2::Garbage(&[0xff; 64]),
        Http2::Closes { at_once: true },
        Http2::Closes { at_once: false },
    ];
    for fault in faults {
        let server = Server::start(fault, Http11::Answers).await;
        let mut three = job(&server.name, 3);
        three.gap_ms = GAP.as_millis() as u64;
        let driver = run_with(three, settings(), trusting()).await;
        assert_eq!(driver.pages.len(), 3, "{fault:?}: {:?}", driver.ends());
        assert!(
            driver
                .pages
                .iter()
                .all(|page| page.body == b"older" && page.http_version == HttpVersion::Http11)
        );
        assert_eq!(server.protocols(), [H2, H1], "{fault:?}");
        let seen = server.seen.lock().unwrap();
        assert_eq!(seen.open_max, 1, "{fault:?}: P1");
        let contacts: Vec<Instant> = seen.requests.iter().map(|(_, at)| *at).collect();
        assert!(
            contacts.windows(2).all(|pair| pair[1] - pair[0] >= GAP),
            "{fault:?}: P2"
        );
        assert!(
            seen.connections[1].1 - seen.connections[0].1 >= GAP,
            "{fault:?}: P2"
        );
        assert_eq!(driver.count("http11_fallbacks_total"), 1);
        assert_eq!(
            driver.reports.iter().filter(|report| report.last).count(),
            1
        );
    }
}

#[tokio::test]
async fn a_server_that_wants_http11_for_a_later_request_gets_it() {
    for fault in [
        Http2::Reset(h2::Reason::HTTP_1_1_REQUIRED, 1),
        Http2::GoesAway(h2::Reason::HTTP_1_1_REQUIRED, 1),
    ] {
        let server = Server::start(fault, Http11::Answers).await;
        let driver = run_with(job(&server.name, 4), settings(), trusting()).await;
        let versions: Vec<HttpVersion> =
            driver.pages.iter().map(|page| page.http_version).collect();
        let older = HttpVersion::Http11;
        assert_eq!(
            versions,
            [HttpVersion::Http2, older, older, older],
            "{fault:?}: {:?}",
            driver.ends()
        );
        assert_eq!(server.requests(), [H2, H2, H1, H1, H1], "{fault:?}");
        assert_eq!(server.seen.lock().unwrap().open_max, 1);
        assert_eq!(driver.last_report().requests, 4);
    }
}

#[tokio::test]
async fn a_connection_that_breaks_after_it_brought_something_says_nothing_of_http2() {
    for fault in [
        Http2::Reset(h2::Reason::INTERNAL_ERROR, 1),
        Http2::GoesAway(h2::Reason::PROTOCOL_ERROR, 1),
    ] {
        let server = Server::start(fault, Http11::Answers).await;
        let driver = run_with(job(&server.name, 3), settings(), trusting()).await;
        assert!(is_response(&driver.ends()[0]));
        assert_eq!(
            driver.ends()[1..],
            [failure(FailureKind::Reset), RequestEnd::Untried],
            "{fault:?}"
        );
        assert_eq!(server.protocols(), [H2]);
    }
}

/// A server that is slow, one that is asked too much, and one that did not look at the request: to
/// ask again at once would be the wrong answer to each.
#[tokio::test]
async fn what_is_no_fault_of_http2_is_not_tried_over_http11() {
    let cases = [
        (Http2::Silent, failure(FailureKind::Timeout)),
        (
            Http2::Reset(h2::Reason::ENHANCE_YOUR_CALM, 0),
            failure(FailureKind::Reset),
        ),
        (
            Http2::GoesAway(h2::Reason::ENHANCE_YOUR_CALM, 0),
            failure(FailureKind::Reset),
        ),
        (
            Http2::Reset(h2::Reason::REFUSED_STREAM, 0),
            RequestEnd::Untried,
        ),
        (
            Http2::GoesAway(h2::Reason::NO_ERROR, 0),
            RequestEnd::Untried,
        ),
    ];
    for (behaviour, end) in cases {
        let server = Server::start(behaviour, Http11::Answers).await;
        let hasty = HttpSettings {
            first_byte_timeout: Duration::from_millis(300),
            ..trusting()
        };
        let settings = Settings {
            past: Past::Successful,
            ..settings()
        };
        let driver = run_with(job(&server.name, 2), settings, hasty).await;
        assert_eq!(driver.ends(), [end, RequestEnd::Untried], "{behaviour:?}");
        assert_eq!(server.protocols(), [H2], "{behaviour:?}");
    }
}

#[tokio::test]
async fn an_answer_that_has_no_content_is_whole_although_its_stream_is_left_open() {
    // Numbers 9 and 11 of the static table; beside number 8, `:status`, a value of three bytes (RFC
    // 7541, section 6.2.2).
    let answers: [(u16, &'static [u8]); 3] =
        [(204, b"\x89"), (304, b"\x8b"), (205, b"\x08\x03205")];
    for (status, headers) in answers {
        let server = Server::start(Http2::LeavesOpen(headers), Http11::Answers).await;
        let begun = Instant::now();
        let driver = run_with(job(&server.name, 3), settings(), trusting()).await;
        assert!(
            driver.ends().iter().all(is_response),
            "{status}: {:?}",
            driver.ends()
        );
        assert_eq!(driver.pages.len(), 3);
        assert!(
            driver
                .pages
                .iter()
                .all(|page| page.status == status && page.body.is_empty())
        );
        assert!(driver.pages.iter().all(|page| page.truncated.is_none()));
        assert_eq!(
            (server.protocols(), server.requests()),
            (vec![H2], vec![H2; 3]),
            "{status}"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "{status}: {:?}",
            begun.elapsed()
        );
    }
}

#[tokio::test]
async fn a_server_that_is_broken_over_http11_too_ends_as_failed_and_is_tried_over_http2_again() {
    let required = Http2::Reset(h2::Reason::HTTP_1_1_REQUIRED, 0);
    for (over_http11, protocols) in [(Http11::Closes, vec![H2, H1]), (Http11::Missing, vec![H2])] {
        let server = Server::start(required, over_http11).await;
        let mut driver = Driver::new(settings(), trusting());
        driver.grant(job(&server.name, 2));
        driver.run().await;
        assert_eq!(
            driver.ends(),
            [failure(FailureKind::Reset), RequestEnd::Untried],
            "{over_http11:?}"
        );
        assert_eq!(server.protocols(), protocols);
        driver.grant(job(&server.name, 2));
        driver.run().await;
        assert_eq!(server.protocols(), protocols.repeat(2));
        assert_eq!(server.seen.lock().unwrap().open_max, 1);
    }
}

#[tokio::test]
async fn later_jobs_begin_over_http11() {
    let server = Server::start(Http2::Closes { at_once: false }, Http11::Answers).await;
    let mut driver = Driver::new(settings(), trusting());
    let mut robots = job(&server.name, 1);
    robots.kind = JobKind::Robots;
    for next in [robots, job(&server.name, 2), job(&server.name, 2)] {
        driver.grant(next);
        driver.run().await;
    }
    assert_eq!(driver.pages.len(), 4, "{:?}", driver.ends());
    assert_eq!(server.protocols(), [H2, H1, H1, H1]);
    assert_eq!(server.requests(), [H2, H1, H1, H1, H1, H1]);
    assert_eq!(driver.count("http11_fallbacks_total"), 1);
}

#[tokio::test]
async fn a_lease_that_ends_before_the_second_connection_leaves_the_request_untried() {
    let server = Server::start(Http2::Closes { at_once: false }, Http11::Answers).await;
    let mut short = job(&server.name, 2);
    short.gap_ms = 2_000;
    short.lease_ms = 500;
    let driver = run_with(short, settings(), trusting()).await;
    assert_eq!(driver.ends(), [RequestEnd::Untried, RequestEnd::Untried]);
    assert_eq!(server.protocols(), [H2]);
}

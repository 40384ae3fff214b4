//! TLS and HTTP/2.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of what waits"
)]
#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod common;

use bytes::Bytes;
use common::{
    Driver, failure, fetch, http_settings, is_response, job, job_for, run_with, settings,
};
use fetcher::effect::{Answer, Effect, End};
use fetcher::http::HttpSettings;
use rhumb_wire::message::{FailureKind, JobId, RequestEnd, Truncation};
use rustls::HandshakeKind;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::future::poll_fn;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A server on a thread of its own. Its certificate, for `crawl.invalid` until 2126, is signed by
/// itself.
struct Secure {
    name: String,
    accepted: Arc<AtomicUsize>,
    /// Connections whose handshake resumed the session of an earlier one.
    resumed: Arc<AtomicUsize>,
    /// Requests of `/slow` in hand at once, at most.
    at_once: Arc<AtomicUsize>,
    /// What came of each connection when its client had closed: whether the TCP stream ended.
    ended: mpsc::Receiver<bool>,
}

impl Secure {
    fn start(protocol: &'static str) -> Secure {
        Secure::start_with(protocol, None)
    }

    /// `goes_away`: answers one request, and to the next says for that reason that it did not look
    /// at it.
    fn start_with(protocol: &'static str, goes_away: Option<h2::Reason>) -> Secure {
        let certificate = CertificateDer::from(
            include_bytes!("../../../shared/bus/tests/certificate/certificate.der").as_slice(),
        );
        let key = PrivateKeyDer::try_from(
            include_bytes!("../../../shared/bus/tests/certificate/key.der").as_slice(),
        )
        .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = vec![protocol.into()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let accepted = Arc::new(AtomicUsize::new(0));
        let (tell_name, name) = mpsc::channel();
        let (tell_end, ended) = mpsc::channel();
        let count = accepted.clone();
        let resumed = Arc::new(AtomicUsize::new(0));
        let count_resumed = resumed.clone();
        let at_once = Arc::new(AtomicUsize::new(0));
        let most = at_once.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let port = listener.local_addr().unwrap().port();
                tell_name
                    .send(format!("https://crawl.invalid:{port}"))
                    .unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    count.fetch_add(1, Ordering::SeqCst);
                    let Ok(stream) = acceptor.accept(stream).await else {
                        continue;
                    };
                    if stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed) {
                        count_resumed.fetch_add(1, Ordering::SeqCst);
                    }
                    let tell_end = tell_end.clone();
                    let most = most.clone();
                    tokio::spawn(async move {
                        match (protocol, goes_away) {
                            ("h2", None) => serve_h2(stream, &most).await,
                            ("h2", Some(reason)) => serve_one_and_go_away(stream, reason).await,
                            _ => serve_h1(stream).await,
                        }
                        let _ = tell_end.send(true);
                    });
                }
            });
        });
        Secure {
            name: name.recv().unwrap(),
            accepted,
            resumed,
            at_once,
            ended,
        }
    }
}

async fn serve_h1(mut stream: TlsStream<TcpStream>) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
        let response = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage";
        stream.write_all(response.as_bytes()).await.unwrap();
    }
}

/// How long `/slow` takes.
const SLOW: std::time::Duration = std::time::Duration::from_millis(50);

async fn serve_h2(stream: TlsStream<TcpStream>, most_at_once: &Arc<AtomicUsize>) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let in_hand = Arc::new(AtomicUsize::new(0));
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let endless = request.uri().path() == "/endless";
        match request.uri().path() {
            "/refused" => respond.send_reset(h2::Reason::REFUSED_STREAM),
            "/reset" => respond.send_reset(h2::Reason::INTERNAL_ERROR),
            "/slow" => {
                most_at_once
                    .fetch_max(in_hand.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let in_hand = in_hand.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(SLOW).await;
                    in_hand.fetch_sub(1, Ordering::SeqCst);
                    respond
                        .send_response(http::Response::new(()), true)
                        .unwrap();
                });
                continue;
            }
            "/cut" | "/void" => {
                let page = http::Response::builder()
                    .header("content-length", "100")
                    .body(())
                    .unwrap();
                let mut body = respond.send_response(page, false).unwrap();
                if request.uri().path() == "/cut" {
                    body.send_data(Bytes::from_static(b"page"), false).unwrap();
                }
                tokio::spawn(async move {
                    tokio::time::sleep(SLOW).await;
                    body.send_reset(h2::Reason::NO_ERROR);
                });
                continue;
            }
            _ => {}
        }
        if matches!(request.uri().path(), "/refused" | "/reset") {
            continue;
        }
        let mut page = http::Response::new(());
        if let Some(bytes) = request.uri().path().strip_prefix("/wordy/") {
            let words = "x".repeat(bytes.parse().unwrap());
            page.headers_mut().insert("x", words.parse().unwrap());
        }
        let mut body = respond.send_response(page, false).unwrap();
        tokio::spawn(async move {
            let _ = body.send_data(Bytes::from_static(b"page"), !endless);
            if !endless {
                return;
            }
            loop {
                body.reserve_capacity(10_000);
                match poll_fn(|context| body.poll_capacity(context)).await {
                    Some(Ok(room)) if body.send_data(vec![b'x'; room].into(), false).is_ok() => {}
                    _ => break,
                }
            }
        });
    }
}

/// Answers the first request by a bare 200, to the second says that the first was the last one.
/// Frames by hand (RFC 9113, section 4.1), as the server's library takes every request.
async fn serve_one_and_go_away(mut stream: TlsStream<TcpStream>, reason: h2::Reason) {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await.unwrap();
    stream
        .write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])
        .await
        .unwrap();
    let mut requests = 0;
    let mut head = [0; 9];
    while stream.read_exact(&mut head).await.is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await.unwrap();
        match head[3] {
            SETTINGS if head[4] == 0 => stream
                .write_all(&[0, 0, 0, SETTINGS, 1, 0, 0, 0, 0])
                .await
                .unwrap(),
            HEADERS if requests == 0 => {
                requests += 1;
                // Its end, and that of its headers; `:status: 200` is number 8 of the static table.
                stream
                    .write_all(&[0, 0, 1, HEADERS, 5, 0, 0, 0, 1, 0x88])
                    .await
                    .unwrap();
            }
            HEADERS => {
                let mut go_away = vec![0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1];
                go_away.extend(u32::from(reason).to_be_bytes());
                stream.write_all(&go_away).await.unwrap();
            }
            _ => {}
        }
    }
}

fn trusting() -> HttpSettings {
    HttpSettings {
        accept_invalid_certificates: true,
        ..http_settings()
    }
}

#[tokio::test]
async fn fifty_requests_are_one_connection_with_tls_and_with_http_2() {
    for protocol in ["http/1.1", "h2"] {
        let server = Secure::start(protocol);
        let driver = run_with(job(&server.name, 50), settings(), trusting()).await;
        assert_eq!(driver.pages.len(), 50, "{protocol}: {:?}", driver.ends());
        assert!(
            driver
                .pages
                .iter()
                .all(|page| page.body == b"page" && page.status == 200)
        );
        assert_eq!(server.accepted.load(Ordering::SeqCst), 1, "{protocol}");
        assert!(!driver.last_report().closed_by_server);
        assert!(driver.last_report().connect_us.is_some_and(|us| us > 0));
        assert!(
            server
                .ended
                .recv_timeout(std::time::Duration::from_secs(2))
                .unwrap()
        );
    }
}

#[tokio::test]
async fn the_next_connection_to_a_server_resumes_its_session_if_that_was_kept() {
    for (tls_sessions, resumed) in [(100, 2), (1, 1), (0, 0)] {
        let [server, another] = ["h2", "http/1.1"].map(Secure::start);
        let mut driver = Driver::new(
            settings(),
            HttpSettings {
                tls_sessions,
                ..trusting()
            },
        );
        for server in [&server, &another, &server, &server] {
            // The cache goes by names.
            let name = if std::ptr::eq(server, &another) {
                "https://another.invalid"
            } else {
                "https://crawl.invalid"
            };
            let port = server.name.rsplit(':').next().unwrap();
            driver.grant(job(&format!("{name}:{port}"), 2));
            driver.run().await;
        }
        assert_eq!(driver.pages.len(), 8, "{:?}", driver.ends());
        assert_eq!(server.accepted.load(Ordering::SeqCst), 3);
        // Where there is room for one, the other server's takes it between the first two
        // connections.
        assert_eq!(
            server.resumed.load(Ordering::SeqCst),
            resumed,
            "{tls_sessions}"
        );
        assert_eq!(another.resumed.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_a_failure_of_its_own() {
    for protocol in ["http/1.1", "h2"] {
        let server = Secure::start(protocol);
        let driver = run_with(job(&server.name, 2), settings(), http_settings()).await;
        assert_eq!(
            driver.ends(),
            [failure(FailureKind::Certificate), RequestEnd::Untried]
        );
    }
}

#[tokio::test]
async fn a_request_that_a_server_did_not_look_at_costs_no_attempt() {
    let server = Secure::start("h2");
    for (path, end) in [
        ("refused", RequestEnd::Untried),
        ("reset", failure(FailureKind::Reset)),
    ] {
        let mut three = job(&server.name, 3);
        three.requests[1].url = format!("{}/{path}", server.name);
        let driver = run_with(three, settings(), trusting()).await;
        assert!(is_response(&driver.ends()[0]));
        assert_eq!(driver.ends()[1..], [end, RequestEnd::Untried], "{path}");
    }
}

#[tokio::test]
async fn a_body_that_ends_before_its_announced_length_is_no_whole_one() {
    let server = Secure::start("h2");
    let urls = ["cut", "void"].map(|path| format!("{}/{path}", server.name));
    for (url, kept) in urls.iter().zip([Some(&b"page"[..]), None]) {
        let driver = run_with(
            job_for(&server.name, std::slice::from_ref(url)),
            settings(),
            trusting(),
        )
        .await;
        match kept {
            Some(body) => {
                assert_eq!(driver.pages[0].truncated, Some(Truncation::Disconnect));
                assert!(is_response(&driver.ends()[0]));
                assert_eq!(driver.pages[0].body, body);
            }
            None => assert_eq!(driver.ends(), [failure(FailureKind::Reset)]),
        }
    }
}

#[tokio::test]
async fn a_server_that_goes_away_in_good_order_says_what_it_did_not_look_at() {
    for (reason, end) in [
        (h2::Reason::NO_ERROR, RequestEnd::Untried),
        (h2::Reason::INTERNAL_ERROR, failure(FailureKind::Reset)),
    ] {
        let server = Secure::start_with("h2", Some(reason));
        let driver = run_with(job(&server.name, 3), settings(), trusting()).await;
        assert!(is_response(&driver.ends()[0]), "{:?}", driver.ends());
        assert_eq!(driver.ends()[1..], [end, RequestEnd::Untried], "{reason}");
        assert!(driver.last_report().closed_by_server);
        assert_eq!(driver.last_report().requests, 1);
        assert_eq!(server.accepted.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn requests_overlap_on_http_2_where_nobody_asks_for_a_pause_and_that_is_measured() {
    for (streams, gap_ms, pauses, at_once) in
        [(8, 0, 0, 8), (1, 0, 0, 1), (8, 1, 0, 1), (8, 0, 1, 1)]
    {
        let server = Secure::start("h2");
        let mut slow = job(&server.name, 17);
        slow.gap_ms = gap_ms;
        for request in &mut slow.requests {
            request.url = format!("{}/slow", server.name);
        }
        let mut several = settings();
        several.streams = streams;
        several.download_pause = rhumb_config::DownloadPause {
            factor: pauses,
            max: std::time::Duration::from_millis(u64::from(pauses)),
        };
        let driver = run_with(slow, several, trusting()).await;
        assert_eq!(
            driver.ends().iter().filter(|end| is_response(end)).count(),
            17,
            "{:?}",
            driver.ends()
        );
        assert_eq!(
            server.at_once.load(Ordering::SeqCst),
            at_once,
            "{streams} {gap_ms} {pauses}"
        );
        assert_eq!(server.accepted.load(Ordering::SeqCst), 1);
        let report = driver.last_report();
        // The first goes alone, to show the protocol: 17 take the time of three, or less with luck
        // in the ordering.
        let overlap = report.elapsed_us as f64 / report.busy_us as f64;
        let expected = if at_once > 1 { 3.0..8.0 } else { 0.8..1.05 };
        assert!(
            expected.contains(&overlap),
            "{streams} {gap_ms} {pauses}: {overlap}"
        );
        assert!(report.busy_us >= SLOW.as_micros() as u64);
    }
}

#[tokio::test]
async fn one_of_several_requests_at_once_that_is_refused_takes_no_other_with_it() {
    let server = Secure::start("h2");
    let mut mixed = job(&server.name, 8);
    for request in &mut mixed.requests[1..] {
        request.url = format!("{}/slow", server.name);
    }
    mixed.requests[3].url = format!("{}/refused", server.name);
    let mut several = settings();
    several.streams = 4;
    let driver = run_with(mixed, several, trusting()).await;
    let ends = driver.ends();
    // Requests 1, 2 and 4 were in hand with it; the others had not begun.
    let answered: Vec<usize> = (0..8).filter(|&index| is_response(&ends[index])).collect();
    assert_eq!(answered, [0, 1, 2, 4], "{ends:?}");
    assert!(
        ends.iter()
            .filter(|end| !is_response(end))
            .all(|end| *end == RequestEnd::Untried)
    );
    assert_eq!(ends.len(), 8);
}

#[tokio::test]
async fn a_head_too_large_over_http_2_ends_its_request() {
    for (kib, kind) in [
        (70, FailureKind::HeaderTooLarge),
        // Where the client itself stops reading.
        (140, FailureKind::Protocol),
        (4 << 10, FailureKind::Protocol),
    ] {
        let server = Secure::start("h2");
        let mut wordy = job(&server.name, 2);
        wordy.requests[0].url = format!("{}/wordy/{}", server.name, kib << 10);
        let driver = run_with(wordy, settings(), trusting()).await;
        assert_eq!(
            driver.ends(),
            [failure(kind), RequestEnd::Untried],
            "{kib} KiB"
        );
        assert!(driver.pages.is_empty());
    }
}

#[tokio::test]
async fn an_endless_body_over_http_2_is_cut_and_ends_the_connection() {
    let server = Secure::start("h2");
    let mut endless = job(&server.name, 2);
    endless.requests[0].url = format!("{}/endless", server.name);
    let driver = run_with(endless, settings(), trusting()).await;
    assert_eq!(driver.pages[0].body.len(), 1 << 20);
    assert_eq!(driver.pages[0].truncated, Some(Truncation::Length));
    assert_eq!(driver.ends()[1], RequestEnd::Untried);
    assert!(
        server
            .ended
            .recv_timeout(std::time::Duration::from_secs(2))
            .unwrap()
    );
}

/// A relay of blocking sockets stands between: it sees the end of the stream without a runtime's
/// help.
#[tokio::test]
async fn the_socket_is_closed_when_the_close_is_answered_with_tls_too() {
    for protocol in ["http/1.1", "h2"] {
        let server = Secure::start(protocol);
        let port: u16 = server.name.rsplit(':').next().unwrap().parse().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!(
            "https://crawl.invalid:{}",
            listener.local_addr().unwrap().port()
        );
        let (tell_end, ended) = mpsc::channel();
        std::thread::spawn(move || relay(&listener, port, &tell_end));
        let crowd = crowd();
        let driver = Driver::new(settings(), trusting());
        let answer = driver
            .http
            .perform(fetch(1, 0, &name, &format!("{name}/")))
            .await;
        assert!(
            matches!(
                answer,
                Answer::Response {
                    end: End::Response(_),
                    ..
                }
            ),
            "{answer:?}"
        );
        assert!(ended.try_recv().is_err());
        let job = JobId {
            scheduler: 0,
            epoch: 1,
            number: 1,
        };
        driver.http.perform(Effect::Close { job }).await;
        // Nothing runs on this runtime from here on.
        let closed = ended.recv_timeout(std::time::Duration::from_millis(500));
        assert!(closed.is_ok(), "{protocol}: the socket is still open");
        drop(crowd);
    }
}

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

fn relay(listener: &std::net::TcpListener, port: u16, tell_end: &mpsc::Sender<()>) {
    let (mut client, _) = listener.accept().unwrap();
    let mut server = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut back = server.try_clone().unwrap();
    let mut to_client = client.try_clone().unwrap();
    std::thread::spawn(move || std::io::copy(&mut back, &mut to_client));
    let mut buffer = [0; 16_384];
    while let Ok(read) = client.read(&mut buffer)
        && read > 0
    {
        std::io::Write::write_all(&mut server, &buffer[..read]).unwrap();
    }
    tell_end.send(()).unwrap();
}

//! TLS and HTTP/2.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod common;

use bytes::Bytes;
use common::{Driver, failure, fetch, http_settings, job, run_with, settings};
use fetcher::effect::{Answer, Effect, End};
use fetcher::http::HttpSettings;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use shared::message::{FailureKind, JobId, RequestEnd};
use std::future::poll_fn;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A server on a thread of its own. Its certificate, for `crawl.invalid` until 2126, is signed by itself.
struct Secure {
    name: String,
    accepted: Arc<AtomicUsize>,
    /// What came of each connection when its client had closed: whether the TCP stream ended.
    ended: mpsc::Receiver<bool>,
}

impl Secure {
    fn start(protocol: &'static str) -> Secure {
        let certificate =
            CertificateDer::from(include_bytes!("../../../shared/tests/certificate/certificate.der").as_slice());
        let key =
            PrivateKeyDer::try_from(include_bytes!("../../../shared/tests/certificate/key.der").as_slice()).unwrap();
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
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let port = listener.local_addr().unwrap().port();
                tell_name.send(format!("https://crawl.invalid:{port}")).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    count.fetch_add(1, Ordering::SeqCst);
                    let Ok(stream) = acceptor.accept(stream).await else { continue };
                    let tell_end = tell_end.clone();
                    tokio::spawn(async move {
                        if protocol == "h2" {
                            serve_h2(stream).await
                        } else {
                            serve_h1(stream).await
                        }
                        let _ = tell_end.send(true);
                    });
                }
            });
        });
        Secure { name: name.recv().unwrap(), accepted, ended }
    }
}

async fn serve_h1(mut stream: TlsStream<TcpStream>) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
        let response = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage";
        stream.write_all(response.as_bytes()).await.unwrap();
    }
}

async fn serve_h2(stream: TlsStream<TcpStream>) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let endless = request.uri().path() == "/endless";
        let mut body = respond.send_response(http::Response::new(()), false).unwrap();
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

fn trusting() -> HttpSettings {
    HttpSettings { accept_invalid_certificates: true, ..http_settings() }
}

#[tokio::test]
async fn fifty_requests_are_one_connection_with_tls_and_with_http_2() {
    for protocol in ["http/1.1", "h2"] {
        let server = Secure::start(protocol);
        let driver = run_with(job(&server.name, 50), settings(), trusting()).await;
        assert_eq!(driver.pages.len(), 50, "{protocol}: {:?}", driver.ends());
        assert!(driver.pages.iter().all(|page| page.body == b"page" && page.status == 200));
        assert_eq!(server.accepted.load(Ordering::SeqCst), 1, "{protocol}");
        assert!(!driver.last_report().closed_by_server);
        assert!(driver.last_report().connect_us.is_some_and(|us| us > 0));
        assert!(server.ended.recv_timeout(std::time::Duration::from_secs(2)).unwrap());
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_a_tls_failure() {
    let server = Secure::start("http/1.1");
    let driver = run_with(job(&server.name, 2), settings(), http_settings()).await;
    assert_eq!(driver.ends(), [failure(FailureKind::Tls), RequestEnd::Untried]);
}

#[tokio::test]
async fn an_endless_body_over_http_2_is_cut_and_ends_the_connection() {
    let server = Secure::start("h2");
    let mut endless = job(&server.name, 2);
    endless.requests[0].url = format!("{}/endless", server.name);
    let driver = run_with(endless, settings(), trusting()).await;
    assert_eq!(driver.pages[0].body.len(), 1 << 20);
    assert!(driver.pages[0].truncated);
    assert_eq!(driver.ends()[1], RequestEnd::Untried);
    assert!(server.ended.recv_timeout(std::time::Duration::from_secs(2)).unwrap());
}

/// A relay of blocking sockets stands between: it sees the end of the stream without a runtime's help.
#[tokio::test]
async fn the_socket_is_closed_when_the_close_is_answered_with_tls_too() {
    for protocol in ["http/1.1", "h2"] {
        let server = Secure::start(protocol);
        let port: u16 = server.name.rsplit(':').next().unwrap().parse().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!("https://crawl.invalid:{}", listener.local_addr().unwrap().port());
        let (tell_end, ended) = mpsc::channel();
        std::thread::spawn(move || relay(&listener, port, &tell_end));
        let crowd = crowd();
        let driver = Driver::new(settings(), trusting());
        let answer = driver.http.perform(fetch(1, 0, &name, &format!("{name}/"))).await;
        assert!(matches!(answer, Answer::Response { end: End::Response(_), .. }), "{answer:?}");
        assert!(ended.try_recv().is_err());
        let job = JobId { scheduler: 0, epoch: 1, number: 1 };
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
    let (mut back, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || std::io::copy(&mut back, &mut to_client));
    let mut buffer = [0; 16_384];
    while let Ok(read) = client.read(&mut buffer)
        && read > 0
    {
        std::io::Write::write_all(&mut server, &buffer[..read]).unwrap();
    }
    tell_end.send(()).unwrap();
}

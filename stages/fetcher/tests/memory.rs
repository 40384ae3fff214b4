//! What open connections take of memory. A file of its own: what is measured is the process.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of what waits"
)]
#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod common;

use common::server::Server;
use common::{Driver, http_settings, job, settings};
use fetcher::http::HttpSettings;
use rhumb_stage::Core as _;
use std::time::{Duration, Instant};

/// As in the stage.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CONNECTIONS: usize = 2000;
/// Of all connections, both ends of each and the test itself included.
const RESIDENT_BYTES_MAX: u64 = 250 << 20;

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Each connection has begun a page and waits for the rest of it.
#[tokio::test]
async fn two_thousand_connections_take_less_than_250_megabytes() {
    // Both ends are here.
    let room = fetcher::files::allow(2 * CONNECTIONS as u32);
    assert_eq!(
        room,
        2 * CONNECTIONS as u32,
        "the test needs 4,200 open files"
    );
    let server = Server::start(|mut peer| async move {
        peer.request().await;
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            .await;
        peer.send(vec![b'x'; 17_000]).await;
        peer.hang().await;
    })
    .await;
    server.seen.lock().unwrap().counts_only = true;
    let mut many = settings();
    many.connections = CONNECTIONS as u32;
    let minute = Duration::from_secs(60);
    let patient = HttpSettings {
        connect_timeout: minute,
        request_timeout: minute,
        ..http_settings()
    };
    let patient = HttpSettings {
        first_byte_timeout: minute,
        ..patient
    };
    let before = resident_bytes();
    let mut driver = Driver::new(many, patient);
    for _ in 0..CONNECTIONS {
        driver.grant(job(&server.name(), 50));
    }
    driver.step(rhumb_stage::Event::Wake);
    let deadline = Instant::now() + minute;
    // A second longer, so that what was sent has come.
    let mut all_since = None;
    while all_since.is_none_or(|since: Instant| since.elapsed() < Duration::from_secs(1)) {
        assert!(Instant::now() < deadline, "{:?}", driver.core.counts());
        driver.turn().await;
        if server.n_requests() == CONNECTIONS {
            all_since.get_or_insert_with(Instant::now);
        }
    }
    assert_eq!(driver.count("connections"), CONNECTIONS as u64);
    assert_eq!(server.seen.lock().unwrap().open, CONNECTIONS);
    let taken = resident_bytes();
    println!(
        "{CONNECTIONS} connections: {} MB resident, {} kB each (both ends)",
        taken >> 20,
        (taken - before) / CONNECTIONS as u64 / 1000
    );
    assert!(taken < RESIDENT_BYTES_MAX, "{} MB", taken >> 20);
}

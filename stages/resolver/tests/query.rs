//! Queries against a small name server on loopback that answers as it is told by the name.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use resolver::query::{Queries, Settings};
use resolver::resolver::{Answer, Found};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const NXDOMAIN: u8 = 3;
const SERVFAIL: u8 = 2;

/// A name server, and what it was asked.
struct NameServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<(String, u16)>>>,
}

impl NameServer {
    async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        tokio::spawn(async move {
            let mut packet = [0; 1500];
            loop {
                let (length, from) = socket.recv_from(&mut packet).await.unwrap();
                let (name, kind) = question(&packet[..length]);
                log.lock().unwrap().push((name.clone(), kind));
                if let Some(answer) = answer(&packet[..length], &name, kind) {
                    socket.send_to(&answer, from).await.unwrap();
                }
            }
        });
        NameServer { address, asked }
    }

    fn queries(&self) -> Queries {
        let settings = Settings { nameservers: vec![self.address], timeout: Duration::from_millis(300), attempts: 2 };
        Queries::new(&settings).unwrap()
    }

    fn asked_for(&self, name: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|(asked, _)| asked == name).count()
    }
}

/// Name and type of the question.
fn question(packet: &[u8]) -> (String, u16) {
    let (mut at, mut labels) = (12, Vec::new());
    while packet[at] != 0 {
        let length = usize::from(packet[at]);
        labels.push(String::from_utf8_lossy(&packet[at + 1..at + 1 + length]).into_owned());
        at += 1 + length;
    }
    (labels.join("."), u16::from_be_bytes([packet[at + 1], packet[at + 2]]))
}

/// The answer to a query; none is silence.
fn answer(query: &[u8], name: &str, kind: u16) -> Option<Vec<u8>> {
    let four = |last: u8, ttl| (A, ttl, vec![192, 0, 2, last]);
    let six = |ttl| {
        let IpAddr::V6(address) = "2001:db8::1".parse().unwrap() else { unreachable!() };
        (AAAA, ttl, address.octets().to_vec())
    };
    match (name, kind) {
        ("both.test", A) => Some(response(query, 0, &[four(1, 300), four(2, 200)])),
        ("both.test", AAAA) => Some(response(query, 0, &[six(100)])),
        ("four.test", A) | ("half.test", A) => Some(response(query, 0, &[four(1, 300)])),
        ("four.test", AAAA) | ("empty.test", _) => Some(response(query, 0, &[])),
        ("half.test", AAAA) | ("broken.test", _) => Some(response(query, SERVFAIL, &[])),
        // An alias of `four.test`, which the server leaves to be asked for.
        ("alias.test", _) => Some(response(query, 0, &[(CNAME, 50, b"\x04four\x04test\x00".to_vec())])),
        ("loop.test", _) => Some(response(query, 0, &[(CNAME, 50, b"\x04loop\x04test\x00".to_vec())])),
        ("garbage.test", _) => Some([&query[..2], &[0xff; 40]].concat()),
        ("short.test", _) => Some(query[..5].to_vec()),
        ("silent.test", _) => None,
        _ => Some(response(query, NXDOMAIN, &[])),
    }
}

fn response(query: &[u8], code: u8, records: &[(u16, u32, Vec<u8>)]) -> Vec<u8> {
    let mut end = 12;
    while query[end] != 0 {
        end += 1 + usize::from(query[end]);
    }
    let mut packet = query[..end + 5].to_vec();
    packet[2] |= 0x80;
    packet[3] = 0x80 | code;
    packet[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    packet[8..12].fill(0);
    for (kind, ttl, data) in records {
        packet.extend_from_slice(&[0xc0, 12]);
        packet.extend_from_slice(&kind.to_be_bytes());
        packet.extend_from_slice(&[0, 1]);
        packet.extend_from_slice(&ttl.to_be_bytes());
        packet.extend_from_slice(&(data.len() as u16).to_be_bytes());
        packet.extend_from_slice(data);
    }
    packet
}

async fn find(queries: &Queries, name: &str) -> Found {
    let Answer::Found { name: asked, found } = queries.resolve(name.to_owned()).await else { unreachable!() };
    assert_eq!(asked, name);
    found
}

const NONE: Found = Found::NoAddress { ttl_s: None };

fn addresses(addresses: &[&str], ttl_s: u32) -> Found {
    Found::Addresses { addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(), ttl_s }
}

#[tokio::test]
async fn addresses_of_both_versions_come_with_the_shortest_lifetime() {
    let server = NameServer::start().await;
    let queries = server.queries();
    assert_eq!(find(&queries, "both.test").await, addresses(&["192.0.2.1", "192.0.2.2", "2001:db8::1"], 100));
    assert_eq!(find(&queries, "four.test").await, addresses(&["192.0.2.1"], 300));
    assert_eq!(find(&queries, "half.test").await, addresses(&["192.0.2.1"], 300));
    assert_eq!(find(&queries, "alias.test").await, addresses(&["192.0.2.1"], 50));
}

#[tokio::test]
async fn names_without_an_address_are_told_from_failures() {
    let server = NameServer::start().await;
    let queries = server.queries();
    for name in ["missing.test", "empty.test", "loop.test", "bad..name", &"x".repeat(64), "-", "x.invalid"] {
        assert_eq!(find(&queries, name).await, NONE, "{name}");
    }
    for name in ["broken.test", "garbage.test", "short.test"] {
        assert_eq!(find(&queries, name).await, Found::Temporary, "{name}");
    }
}

#[tokio::test]
async fn silence_is_a_failure_in_bounded_time() {
    let server = NameServer::start().await;
    let queries = server.queries();
    let begun = Instant::now();
    assert_eq!(find(&queries, "silent.test").await, Found::Temporary);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let asked = server.asked_for("silent.test");
    assert!((4..=16).contains(&asked), "two attempts for two versions, asked {asked} times");
}

#[tokio::test]
async fn a_name_is_asked_for_as_it_is_and_once_for_each_version() {
    let server = NameServer::start().await;
    let queries = server.queries();
    assert_eq!(find(&queries, "missing").await, NONE);
    assert_eq!(find(&queries, "both.test").await, find(&queries, "both.test.").await);
    let mut asked = server.asked.lock().unwrap().clone();
    asked.sort();
    asked.dedup();
    let both = |name: &str| [(name.to_owned(), A), (name.to_owned(), AAAA)];
    assert_eq!(asked, [both("both.test"), both("missing")].concat());
}

#[tokio::test]
async fn names_of_this_machine_cost_no_query() {
    let server = NameServer::start().await;
    let queries = server.queries();
    let Found::Addresses { addresses, .. } = find(&queries, "localhost").await else { panic!("no address") };
    assert!(addresses.iter().all(IpAddr::is_loopback));
    assert!(server.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn many_queries_run_at_once() {
    let server = NameServer::start().await;
    let queries = server.queries();
    let begun = Instant::now();
    let silent = (0..200).map(|_| find(&queries, "silent.test"));
    let found = (0..200).map(|_| find(&queries, "four.test"));
    let (silent, found) = tokio::join!(futures::future::join_all(silent), futures::future::join_all(found));
    assert!(silent.iter().all(|found| *found == Found::Temporary));
    assert!(found.iter().all(|found| *found == addresses(&["192.0.2.1"], 300)));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

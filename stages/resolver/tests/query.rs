//! Queries against small name servers on loopback that answer as they are told by the name.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of what waits"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod name_server;

use name_server::{
    A, AAAA, CNAME, NXDOMAIN, NameServer, Query, REFUSED, Record, Reply, SERVFAIL, at_once,
    nothing, response, wire,
};
use resolver::effect::{Answer, Found};
use resolver::query::{Queries, Settings};
use std::net::IpAddr;
use std::time::{Duration, Instant};

const MILLISECOND: Duration = Duration::from_millis(1);

fn queries(servers: &[&NameServer], timeout: Duration) -> Queries {
    let nameservers = servers.iter().map(|server| server.address.into()).collect();
    Queries::new(&Settings {
        nameservers,
        timeout,
        attempts: 2,
        hedge_after: 20 * MILLISECOND,
    })
    .unwrap()
}

/// A server that knows some names, and what to ask it with.
async fn one_server() -> (NameServer, Queries) {
    let server = NameServer::start(answer).await;
    let queries = queries(&[&server], 300 * MILLISECOND);
    (server, queries)
}

/// The answer to a query; none is silence.
fn answer(query: &Query) -> Vec<Reply> {
    let four = |last: u8, ttl| Record::new(A, ttl, &[192, 0, 2, last]);
    let six = |ttl| {
        let IpAddr::V6(address) = "2001:db8::1".parse().unwrap() else {
            unreachable!()
        };
        Record::new(AAAA, ttl, &address.octets())
    };
    at_once(match (query.name.as_str(), query.kind) {
        ("both.test", A) => response(query, 0, &[four(1, 300), four(2, 200)]),
        ("both.test", AAAA) => response(query, 0, &[six(100)]),
        ("four.test", A) | ("half.test", A) => response(query, 0, &[four(1, 300)]),
        ("four.test", AAAA) | ("empty.test", _) => response(query, 0, &[]),
        ("half.test", AAAA) | ("broken.test", _) => response(query, SERVFAIL, &[]),
        ("away.test", A) => nothing(query, NXDOMAIN, 90),
        ("away.test", _) => nothing(query, 0, 80),
        // An alias of `four.test`, which the server leaves to be asked for.
        ("alias.test", _) => response(query, 0, &[Record::new(CNAME, 50, &wire("four.test"))]),
        ("loop.test", _) => response(query, 0, &[Record::new(CNAME, 50, &wire("loop.test"))]),
        ("garbage.test", _) => [&query.packet[..2], &[0xff; 40]].concat(),
        ("short.test", _) => query.packet[..5].to_vec(),
        ("silent.test", _) => return Vec::new(),
        _ => response(query, NXDOMAIN, &[]),
    })
}

async fn find(queries: &Queries, name: &str) -> Found {
    let Answer::Found { name: asked, found } = queries.resolve(name.to_owned()).await else {
        unreachable!()
    };
    assert_eq!(asked, name);
    found
}

const NONE: Found = Found::NoAddress { ttl_s: None };

fn addresses(addresses: &[&str], ttl_s: u32) -> Found {
    Found::Addresses {
        addresses: addresses
            .iter()
            .map(|address| address.parse().unwrap())
            .collect(),
        ttl_s,
    }
}

#[tokio::test]
async fn addresses_of_both_versions_come_with_the_shortest_lifetime() {
    let (_server, queries) = one_server().await;
    assert_eq!(
        find(&queries, "both.test").await,
        addresses(&["192.0.2.1", "192.0.2.2", "2001:db8::1"], 100)
    );
    assert_eq!(
        find(&queries, "four.test").await,
        addresses(&["192.0.2.1"], 300)
    );
    assert_eq!(
        find(&queries, "half.test").await,
        addresses(&["192.0.2.1"], 300)
    );
    assert_eq!(
        find(&queries, "alias.test").await,
        addresses(&["192.0.2.1"], 50)
    );
}

#[tokio::test]
async fn names_without_an_address_are_told_from_failures() {
    let (_server, queries) = one_server().await;
    for name in [
        "missing.test",
        "empty.test",
        "loop.test",
        "bad..name",
        &"x".repeat(64),
        "-",
        "x.invalid",
    ] {
        assert_eq!(find(&queries, name).await, NONE, "{name}");
    }
    assert_eq!(
        find(&queries, "away.test").await,
        Found::NoAddress { ttl_s: Some(80) }
    );
    assert_eq!(find(&queries, "broken.test").await, Found::ServerFailure);
    for name in ["garbage.test", "short.test"] {
        assert_eq!(find(&queries, name).await, Found::Temporary, "{name}");
    }
}

#[tokio::test]
async fn silence_is_a_failure_in_bounded_time() {
    let (server, queries) = one_server().await;
    let begun = Instant::now();
    assert_eq!(find(&queries, "silent.test").await, Found::Silence);
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    let asked = server.asked_for("silent.test");
    assert!(
        (4..=16).contains(&asked),
        "two attempts for two versions, asked {asked} times"
    );
}

#[tokio::test]
async fn a_name_is_asked_for_as_it_is_and_once_for_each_version() {
    let (server, queries) = one_server().await;
    assert_eq!(find(&queries, "missing").await, NONE);
    assert_eq!(
        find(&queries, "both.test").await,
        find(&queries, "both.test.").await
    );
    let asked = server.asked();
    let both = |name: &str| [(name.to_owned(), A), (name.to_owned(), AAAA)];
    assert_eq!(asked, [both("both.test"), both("missing")].concat());
}

#[tokio::test]
async fn names_of_this_machine_cost_no_query() {
    let (server, queries) = one_server().await;
    let Found::Addresses { addresses, .. } = find(&queries, "localhost").await else {
        panic!("no address")
    };
    assert!(addresses.iter().all(IpAddr::is_loopback));
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn many_queries_run_at_once() {
    let (_server, queries) = one_server().await;
    let begun = Instant::now();
    let silent = (0..200).map(|_| find(&queries, "silent.test"));
    let found = (0..200).map(|_| find(&queries, "four.test"));
    let (silent, found) = tokio::join!(
        futures::future::join_all(silent),
        futures::future::join_all(found)
    );
    assert!(silent.iter().all(|found| *found == Found::Silence));
    assert!(
        found
            .iter()
            .all(|found| *found == addresses(&["192.0.2.1"], 300))
    );
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
}

/// A server that answers every question for an address, or in some other way.
async fn like(answer: impl Fn(&Query) -> Vec<Reply> + Send + Sync + 'static) -> NameServer {
    NameServer::start(answer).await
}

fn good(query: &Query) -> Vec<u8> {
    match query.kind {
        A => response(query, 0, &[Record::new(A, 300, &[192, 0, 2, 1])]),
        _ => response(query, 0, &[]),
    }
}

/// Goal: a server that is away costs a wait once, not always. Method: it stays silent, the other
/// one answers; the time-out is longer than the whole test may take.
#[tokio::test]
async fn another_server_is_asked_when_one_is_late() {
    let silent = like(|_| Vec::new()).await;
    let sound = like(|query| at_once(good(query))).await;
    let queries = queries(&[&silent, &sound], 20_000 * MILLISECOND);
    let begun = Instant::now();
    for number in 0..50 {
        assert_eq!(
            find(&queries, &format!("h{number}.test")).await,
            addresses(&["192.0.2.1"], 300)
        );
    }
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    assert!(
        silent.asked().len() <= 50,
        "asked {} times",
        silent.asked().len()
    );
}

#[tokio::test]
async fn another_server_is_asked_when_one_refuses_or_fails() {
    for code in [REFUSED, SERVFAIL] {
        let bad = like(move |query| at_once(response(query, code, &[]))).await;
        let sound = like(|query| at_once(good(query))).await;
        let queries = queries(&[&bad, &sound], 5_000 * MILLISECOND);
        let begun = Instant::now();
        for number in 0..20 {
            assert_eq!(
                find(&queries, &format!("h{number}.test")).await,
                addresses(&["192.0.2.1"], 300),
                "{code}"
            );
        }
        assert!(
            begun.elapsed() < Duration::from_secs(4),
            "{:?}",
            begun.elapsed()
        );
        if code == REFUSED {
            assert!(bad.asked().len() <= 10, "asked {} times", bad.asked().len());
        }
    }
}

#[tokio::test]
async fn servers_that_answer_alike_share_the_load() {
    let slow = |query: &Query| vec![Reply(30 * MILLISECOND, good(query))];
    let one = like(slow).await;
    let other = like(slow).await;
    let queries = queries(&[&one, &other], 5_000 * MILLISECOND);
    for round in 0..5 {
        let names: Vec<String> = (0..40)
            .map(|number| format!("h{number}.r{round}.test"))
            .collect();
        let found = futures::future::join_all(names.iter().map(|name| find(&queries, name))).await;
        assert!(
            found
                .iter()
                .all(|found| *found == addresses(&["192.0.2.1"], 300))
        );
    }
    let asked = [one.asked().len(), other.asked().len()];
    assert!(
        asked.iter().all(|&asked| asked >= 60),
        "of 400 questions {asked:?}"
    );
}

/// Goal: name servers are asked over TLS and over HTTPS when they are written so, and not when
/// their certificate is not one to be trusted. Method: the test's own certificate, which the system
/// does not know.
#[tokio::test]
async fn name_servers_are_asked_over_tls_and_over_https() {
    for (scheme, path) in [("tls", None), ("https", Some("/ask"))] {
        let server = NameServer::start_encrypted(path, answer).await;
        let text = format!(
            "{scheme}://{}{}#dns.test",
            server.address,
            path.unwrap_or_default()
        );
        let settings = Settings {
            nameservers: vec![text.parse().unwrap()],
            timeout: 2000 * MILLISECOND,
            attempts: 2,
            hedge_after: 20 * MILLISECOND,
        };
        let queries = Queries::with_tls(
            &settings,
            Some(rhumb_bus::tls::client_config(true).unwrap()),
        )
        .unwrap();
        let names = ["both.test", "away.test", "broken.test", "four.test"];
        let found = futures::future::join_all(names.map(|name| find(&queries, name))).await;
        assert!(
            matches!(&found[0], Found::Addresses { addresses, .. } if addresses.len() == 3),
            "{scheme}: {found:?}"
        );
        assert_eq!(
            found[1..3],
            [Found::NoAddress { ttl_s: Some(80) }, Found::ServerFailure],
            "{scheme}"
        );
        assert!(matches!(found[3], Found::Addresses { .. }));
        assert_eq!(server.asked_for("both.test"), 2);

        let wary = Queries::new(&settings).unwrap();
        assert_eq!(find(&wary, "both.test").await, Found::Silence, "{scheme}");
        assert_eq!(server.asked_for("both.test"), 2);
    }
}

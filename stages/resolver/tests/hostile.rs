//! Name servers that lie, stammer or say nothing (P9): whatever comes, a query ends in bounded
//! time, nothing panics, and no address is found that is not in a valid answer to the question.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of what waits"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod name_server;

use name_server::{
    A, AAAA, CNAME, NXDOMAIN, NameServer, QUESTION_AT, Query, Record, Reply, at_once, question_end,
    response, wire,
};
use proptest::prelude::*;
use resolver::effect::{Answer, Found};
use resolver::query::{Queries, Settings};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_millis(400);
const ATTEMPTS: usize = 2;
/// When a query must have ended, whatever it met: all attempts, what the stage adds, and a busy
/// machine.
const END: Duration = Duration::from_secs(10);
/// What the names have in truth.
const TRUE: [u8; 4] = [192, 0, 2, 1];
/// What nobody may ever find.
const FALSE: [u8; 4] = [203, 0, 113, 66];
const NONE: Found = Found::NoAddress { ttl_s: None };

fn queries(server: &NameServer, timeout: Duration, attempts: usize) -> Queries {
    let nameservers = vec![server.address.into()];
    Queries::new(&Settings {
        nameservers,
        timeout,
        attempts,
        hedge_after: timeout,
    })
    .unwrap()
}

async fn find(queries: &Queries, name: &str) -> Found {
    let begun = Instant::now();
    let Answer::Found { name: asked, found } = queries.resolve(name.to_owned()).await else {
        unreachable!()
    };
    assert_eq!(asked, name);
    assert!(begun.elapsed() < END, "{name}: {:?}", begun.elapsed());
    if let Found::Addresses { addresses, .. } = &found {
        assert!(!addresses.contains(&FALSE.into()), "{name}");
    }
    found
}

fn truth(ttl_s: u32) -> Found {
    Found::Addresses {
        addresses: vec![TRUE.into()],
        ttl_s,
    }
}

/// The valid answer.
fn valid(query: &Query) -> Vec<u8> {
    match query.kind {
        A => response(query, 0, &[Record::new(A, 300, &TRUE)]),
        _ => response(query, 0, &[]),
    }
}

/// A forged answer, valid but for what is done to it.
fn forged(query: &Query) -> Vec<u8> {
    response(
        query,
        0,
        &[Record::new(
            query.kind,
            300,
            if query.kind == AAAA {
                &[0x26; 16]
            } else {
                &FALSE
            },
        )],
    )
}

/// A forged answer with another id.
fn wrong_id(query: &Query) -> Vec<u8> {
    let mut packet = forged(query);
    packet[0] ^= 0x55;
    packet
}

/// A forged answer to another question; its records are for the right name.
fn wrong_question(query: &Query) -> Vec<u8> {
    let other = [
        &query.packet[..QUESTION_AT],
        &wire("other.test"),
        &query.kind.to_be_bytes(),
        &[0, 1],
    ]
    .concat();
    let other = Query {
        packet: other,
        ..query.clone()
    };
    response(&other, 0, &[Record::of(&query.name, A, 300, &FALSE)])
}

/// A forged answer to no question; its records are for the right name.
fn without_question(query: &Query) -> Vec<u8> {
    let other = Query {
        packet: [&query.packet[..QUESTION_AT], &[0; 5][..]].concat(),
        ..query.clone()
    };
    let mut packet = response(&other, 0, &[Record::of(&query.name, A, 300, &FALSE)]);
    packet.drain(QUESTION_AT..QUESTION_AT + 5);
    packet[5] = 0;
    packet
}

fn truncated(query: &Query) -> Vec<u8> {
    let mut packet = response(query, 0, &[]);
    packet[2] |= 0x02;
    packet
}

fn alias(from: &str, to: &str) -> Record {
    Record::of(from, CNAME, 50, &wire(to))
}

/// The replies of the hostile server. The first label of a name says what is wrong with them.
fn answer(query: &Query) -> Vec<Reply> {
    let ms = Duration::from_millis;
    let soon = |packets: Vec<Vec<u8>>| {
        (0..)
            .zip(packets)
            .map(|(n, packet)| Reply(ms(n * 10), packet))
            .collect()
    };
    let kind = query.name.split('.').next().unwrap();
    at_once(match kind {
        "never" => return Vec::new(),
        "late" => return vec![Reply(TIMEOUT * 4, valid(query))],
        "twice" => return soon(vec![valid(query), forged(query), valid(query)]),
        "wrong-id" => wrong_id(query),
        "wrong-id-first" => return soon(vec![wrong_id(query), valid(query)]),
        "wrong-question" => wrong_question(query),
        "wrong-question-first" => return soon(vec![wrong_question(query), valid(query)]),
        "no-question" => without_question(query),
        "empty" => Vec::new(),
        "empty-first" => return soon(vec![Vec::new(), valid(query)]),
        "query" => query.packet.clone(),
        "truncated" if query.over_tcp => valid(query),
        "truncated" | "always-truncated" => truncated(query),
        "truncated-lie" if query.over_tcp => wrong_question(query),
        "truncated-silence" if query.over_tcp => return Vec::new(),
        "truncated-bare" if query.over_tcp => without_question(query),
        "truncated-lie" | "truncated-silence" | "truncated-bare" => truncated(query),
        "noise" => (0..64)
            .map(|n| query.packet[0].wrapping_mul(n) ^ n)
            .collect(),
        "victim" | "good" | "with_underscore" | "_x" | "xn--mnchen-3ya" => valid(query),
        _ => odd_records(query, kind),
    })
}

/// A well-formed reply whose records are odd; without a kind of oddity, the name does not exist.
fn odd_records(query: &Query, kind: &str) -> Vec<u8> {
    let a = |records: &[Record]| {
        if query.kind == A {
            response(query, 0, records)
        } else {
            response(query, 0, &[])
        }
    };
    match kind {
        "other-name" => a(&[Record::of("victim.test", A, 300, &FALSE)]),
        "and-other-name" => a(&[
            Record::of("victim.test", A, 300, &FALSE),
            Record::new(A, 300, &TRUE),
            Record::of("x.and-other-name.test", A, 300, &FALSE),
        ]),
        "other-alias" => a(&[
            alias("victim.test", "x.test"),
            Record::of("x.test", A, 300, &FALSE),
        ]),
        "beside-alias" => a(&[
            alias("beside-alias.test", "x.test"),
            Record::new(A, 300, &FALSE),
            Record::of("x.test", A, 300, &TRUE),
        ]),
        "other-kind" if query.kind == A => {
            response(query, 0, &[Record::new(AAAA, 300, &[0x26; 16])])
        }
        "other-kind" => response(query, 0, &[Record::new(A, 300, &FALSE)]),
        "loop" => a(&[
            alias("loop.test", "x.test"),
            alias("x.test", "loop.test"),
            Record::of("y.test", A, 9, &FALSE),
        ]),
        "ask-loop" => response(query, 0, &[alias(&query.name, "ask-loop2.test")]),
        "ask-loop2" => response(query, 0, &[alias(&query.name, "ask-loop.test")]),
        "endless" => response(
            query,
            0,
            &[alias(
                &query.name,
                &format!("endless.x{}", query.name.replace("endless.", "")),
            )],
        ),
        "many" if query.over_tcp => a(&(0..4_000u16)
            .map(|n| Record::new(A, 300, &[192, 0, (n >> 8) as u8, n as u8]))
            .collect::<Vec<_>>()),
        "many" | "claims-many" | "long-alias" if !query.over_tcp => truncated(query),
        "long-alias" => {
            let mut records: Vec<Record> = (1..40)
                .map(|n| alias(&format!("n{n}.test"), &format!("n{}.test", n + 1)))
                .collect();
            records.insert(0, alias("long-alias.test", "n1.test"));
            records.push(Record::of("n40.test", A, 9, &FALSE));
            a(&records)
        }
        "claims-many" => {
            let mut packet = valid(query);
            packet[6..8].copy_from_slice(&10_000u16.to_be_bytes());
            packet
        }
        "no-ttl" => a(&[Record::new(A, 0, &TRUE)]),
        "large-ttl" => a(&[Record::new(A, 1 << 31, &TRUE)]),
        "largest-ttl" => a(&[Record::new(A, u32::MAX, &TRUE)]),
        "short-data" => a(&[Record::new(A, 300, &FALSE[..3])]),
        "long-data" => a(&[Record::new(A, 300, &[FALSE, FALSE].concat())]),
        "self-pointer" => a(&[Record {
            owner: vec![0xc0, question_end(&query.packet) as u8],
            ..Record::new(A, 300, &FALSE)
        }]),
        _ => response(query, NXDOMAIN, &[]),
    }
}

/// Goal: the "Bad input" list. Method: a name for each kind of wrong answer; all are asked for
/// together, so that they may disturb each other, then names that the lies were about.
#[tokio::test]
async fn no_answer_does_harm() {
    let server = NameServer::start(answer).await;
    let queries = queries(&server, TIMEOUT, ATTEMPTS);
    let table: Vec<(&str, Found)> = vec![
        ("never.test", Found::Silence),
        ("late.test", Found::Silence),
        ("twice.test", truth(300)),
        ("wrong-id.test", Found::Silence),
        ("wrong-id-first.test", truth(300)),
        ("wrong-question.test", Found::Silence),
        ("wrong-question-first.test", truth(300)),
        ("no-question.test", Found::Silence),
        ("empty.test", Found::Silence),
        ("empty-first.test", truth(300)),
        ("truncated.test", truth(300)),
        ("always-truncated.test", Found::Temporary),
        ("truncated-lie.test", Found::Temporary),
        ("truncated-silence.test", Found::Silence),
        ("truncated-bare.test", Found::Temporary),
        ("other-name.test", NONE),
        ("and-other-name.test", truth(300)),
        ("other-alias.test", NONE),
        ("beside-alias.test", truth(50)),
        ("other-kind.test", NONE),
        ("loop.test", NONE),
        ("ask-loop.test", NONE),
        ("endless.test", NONE),
        ("long-alias.test", NONE),
        ("claims-many.test", Found::Silence),
        ("no-ttl.test", truth(0)),
        ("large-ttl.test", truth(86_400)),
        ("largest-ttl.test", truth(86_400)),
        ("short-data.test", Found::Temporary),
        ("long-data.test", Found::Temporary),
        ("self-pointer.test", Found::Temporary),
        ("noise.test", Found::Silence),
        ("with_underscore.test", truth(300)),
        ("_x._y.test", truth(300)),
        ("xn--mnchen-3ya.test", truth(300)),
    ];
    let found = futures::future::join_all(table.iter().map(|(name, _)| find(&queries, name))).await;
    let wrong: Vec<_> = table
        .iter()
        .zip(&found)
        .filter(|((_, expected), found)| expected != *found)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for name in ["victim.test", "good.test", "victim.test"] {
        assert_eq!(find(&queries, name).await, truth(300));
    }
}

#[tokio::test]
async fn as_many_addresses_as_fit_a_message_are_found() {
    let server = NameServer::start(answer).await;
    let Found::Addresses { addresses, ttl_s } = find(&queries(&server, END, 1), "many.test").await
    else {
        panic!("none")
    };
    assert_eq!((addresses.len(), ttl_s), (4_000, 300));
}

/// Names that no URL should have; what cannot be written in a query has no address.
#[tokio::test]
async fn names_that_are_none_have_no_address() {
    let server = NameServer::start(answer).await;
    let queries = queries(&server, TIMEOUT, ATTEMPTS);
    let long = |label: &str, count: usize| vec![label; count].join(".");
    let label = "x".repeat(60);
    for name in [
        &long(&label, 5),
        &"x".repeat(300),
        &long("x", 150),
        "",
        ".",
        "..",
        "a..test",
        ".test",
        "nul\0.test",
        "\0",
        "a b.test",
        "münchen.test",
        "例え.test",
        "\u{202e}.test",
        "*.test",
        "a\\.test",
        "\\000.test",
        "\\",
        "a\\25.test",
        "-.test",
        "1.2.3.4.5",
        "%00.test",
    ] {
        assert_eq!(find(&queries, name).await, NONE, "{name:?}");
    }
}

/// What a server says that is told by the test what to say.
type Script = Arc<Mutex<Box<dyn Fn(&Query) -> Vec<u8> + Send>>>;

/// A server that follows a script, for as many cases as a property has.
struct Scripted {
    runtime: tokio::runtime::Runtime,
    script: Script,
    queries: Queries,
}

impl Scripted {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let script: Script = Arc::new(Mutex::new(Box::new(valid)));
        let said = script.clone();
        let queries = runtime.block_on(async move {
            let server = NameServer::start(move |query| at_once(said.lock().unwrap()(query))).await;
            queries(&server, Duration::from_millis(40), 1)
        });
        let server = Scripted {
            runtime,
            script,
            queries,
        };
        // A busy machine may be late, but not always.
        assert!(
            (0..50).any(|_| server.find(valid) == truth(300)),
            "what is valid is found"
        );
        server
    }

    fn find(&self, script: impl Fn(&Query) -> Vec<u8> + Send + 'static) -> Found {
        *self.script.lock().unwrap() = Box::new(script);
        self.runtime.block_on(find(&self.queries, "name.test"))
    }
}

thread_local! {
    static SCRIPTED: Scripted = Scripted::new();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Goal: random bytes never panic and never give an address. Method: the id of the query in
    /// front, so that they are looked at; none of them repeats the question.
    #[test]
    fn random_bytes_give_no_address(noise in proptest::collection::vec(any::<u8>(), 0..600), header in any::<bool>()) {
        let found = SCRIPTED.with(|server| server.find(move |query| {
            let kept = if header { QUESTION_AT } else { 2 };
            [&query.packet[..kept], &noise].concat()
        }));
        let has_address = matches!(found, Found::Addresses { .. });
        prop_assert!(!has_address, "{found:?}");
    }

    /// Goal: an address is only taken from an answer that is valid for the question. Method: a
    /// valid answer with some bytes changed, but for the address itself, or with random bytes
    /// behind the question: what is found is the true address or none.
    #[test]
    fn changed_answers_give_the_true_address_or_none(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        noise in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60)),
    ) {
        let has_noise = noise.is_some();
        let found = SCRIPTED.with(|server| server.find(move |query| {
            let mut packet = valid(query);
            if let Some(noise) = &noise {
                packet.truncate(question_end(&packet));
                packet.extend_from_slice(noise);
                return packet;
            }
            let end = packet.len() - if query.kind == A { TRUE.len() } else { 0 };
            for (place, byte) in &changes {
                packet[place.index(end)] = *byte;
            }
            packet
        }));
        if let Found::Addresses { addresses, .. } = &found {
            // Noise would have to be a whole record of the name.
            prop_assert!(!has_noise && addresses.iter().all(|&ip| ip == IpAddr::V4(Ipv4Addr::from(TRUE))), "{addresses:?}");
        }
    }
}

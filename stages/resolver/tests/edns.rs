//! Name servers that do not know EDNS, or know it badly.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of what waits"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod name_server;

use name_server::{
    A, FORMERR, NOTIMP, NameServer, Query, Record, Reply, SERVFAIL, at_once, bad_version, bare,
    response,
};
use resolver::effect::{Answer, Found};
use resolver::query::{Queries, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const MILLISECOND: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_millis(400);

/// A server, and how many questions with EDNS and without it got, repeats of a datagram included.
struct Counted {
    server: NameServer,
    with: Arc<AtomicUsize>,
    without: Arc<AtomicUsize>,
}

impl Counted {
    /// Questions with EDNS are answered as the test says, others by an address.
    async fn start(rejects: impl Fn(&Query) -> Vec<Reply> + Send + Sync + 'static) -> Counted {
        Counted::answering(move |query| {
            if query.has_edns() {
                rejects(query)
            } else {
                at_once(address(query))
            }
        })
        .await
    }

    async fn answering(answer: impl Fn(&Query) -> Vec<Reply> + Send + Sync + 'static) -> Counted {
        let with = Arc::new(AtomicUsize::new(0));
        let without = Arc::new(AtomicUsize::new(0));
        let counts = [with.clone(), without.clone()];
        let server = NameServer::start(move |query| {
            counts[usize::from(!query.has_edns())].fetch_add(1, Ordering::SeqCst);
            answer(query)
        });
        Counted {
            server: server.await,
            with,
            without,
        }
    }

    fn with(&self) -> usize {
        self.with.load(Ordering::SeqCst)
    }

    fn without(&self) -> usize {
        self.without.load(Ordering::SeqCst)
    }
}

fn address(query: &Query) -> Vec<u8> {
    match query.kind {
        A => response(query, 0, &[Record::new(A, 300, &[192, 0, 2, 1])]),
        _ => response(query, 0, &[]),
    }
}

fn queries(servers: &[&Counted]) -> Queries {
    let nameservers = servers
        .iter()
        .map(|counted| counted.server.address.into())
        .collect();
    Queries::new(&Settings {
        nameservers,
        timeout: TIMEOUT,
        attempts: 2,
        hedge_after: 20 * MILLISECOND,
    })
    .unwrap()
}

async fn find(queries: &Queries, name: &str) -> Found {
    let Answer::Found { found, .. } = queries.resolve(name.to_owned()).await else {
        unreachable!()
    };
    found
}

fn is_found(found: &Found) -> bool {
    *found
        == Found::Addresses {
            addresses: vec!["192.0.2.1".parse().unwrap()],
            ttl_s: 300,
        }
}

type Rejection = fn(&Query) -> Vec<u8>;
type Silence = fn(&Query) -> Vec<Reply>;

#[tokio::test]
async fn a_server_that_rejects_edns_is_asked_without_it_at_once_and_from_then_on() {
    let rejections: [(&str, Rejection); 3] = [
        ("FORMERR", |query| response(query, FORMERR, &[])),
        ("NOTIMP", |query| response(query, NOTIMP, &[])),
        ("BADVERS", bad_version),
    ];
    for (rejection, reject) in rejections {
        let counted = Counted::start(move |query| at_once(reject(query))).await;
        let queries = queries(&[&counted]);
        let begun = Instant::now();
        for number in 0..5 {
            assert!(
                is_found(&find(&queries, &format!("h{number}.test")).await),
                "{rejection}"
            );
        }
        assert!(
            begun.elapsed() < TIMEOUT,
            "{rejection}: {:?}",
            begun.elapsed()
        );
        // The first name's two questions went out together.
        assert_eq!((counted.with(), counted.without()), (2, 10), "{rejection}");
    }
}

/// Goal: servers and firewalls that drop what they do not understand, and servers whose rejection
/// cannot be told from a forged one since it has no question, cost a time-out once.
#[tokio::test]
async fn a_server_that_never_answered_with_edns_and_is_silent_is_asked_without_and_from_then_on() {
    let silences: [(&str, Silence); 3] = [
        ("nothing", |_| Vec::new()),
        ("FORMERR without a question", |query| {
            at_once(bare(query, FORMERR))
        }),
        ("NOTIMP without a question", |query| {
            at_once(bare(query, NOTIMP))
        }),
    ];
    for (silence, reply) in silences {
        let counted = Counted::start(reply).await;
        let queries = queries(&[&counted]);
        let begun = Instant::now();
        let names: Vec<String> = (0..20).map(|number| format!("h{number}.test")).collect();
        let found = futures::future::join_all(names.iter().map(|name| find(&queries, name))).await;
        assert!(found.iter().all(is_found), "{silence}: {found:?}");
        assert!(
            begun.elapsed() < 2 * TIMEOUT,
            "{silence}: {:?}",
            begun.elapsed()
        );
        let begun = Instant::now();
        let with = counted.with();
        assert!(is_found(&find(&queries, "later.test").await), "{silence}");
        assert!(
            begun.elapsed() < TIMEOUT / 2,
            "{silence}: {:?}",
            begun.elapsed()
        );
        assert_eq!(counted.with(), with, "{silence}");
    }
}

#[tokio::test]
async fn a_server_that_has_answered_with_edns_is_not_asked_without_when_it_is_silent() {
    let is_away = Arc::new(AtomicBool::new(false));
    let away = is_away.clone();
    let counted = Counted::answering(move |query| match away.load(Ordering::SeqCst) {
        true => Vec::new(),
        false => at_once(address(query)),
    })
    .await;
    let queries = queries(&[&counted]);
    assert!(is_found(&find(&queries, "h0.test").await));
    is_away.store(true, Ordering::SeqCst);
    assert_eq!(find(&queries, "h1.test").await, Found::Silence);
    assert_eq!(counted.without(), 0);
}

#[tokio::test]
async fn a_server_that_is_away_is_silent_and_asked_both_ways_once() {
    let counted = Counted::answering(|_| Vec::new()).await;
    let queries = queries(&[&counted]);
    let begun = Instant::now();
    assert_eq!(find(&queries, "h0.test").await, Found::Silence);
    // The second attempt has EDNS alone.
    assert!(begun.elapsed() < 7 * TIMEOUT / 2, "{:?}", begun.elapsed());
    let without = counted.without();
    assert!(without >= 2);
    let begun = Instant::now();
    assert_eq!(find(&queries, "h1.test").await, Found::Silence);
    assert!(begun.elapsed() < 5 * TIMEOUT / 2, "{:?}", begun.elapsed());
    assert_eq!(counted.without(), without);
}

#[tokio::test]
async fn a_server_that_rejects_everything_has_failed_and_was_not_silent() {
    let codes = [[FORMERR; 2], [NOTIMP; 2], [FORMERR, SERVFAIL]];
    for [with, without] in codes {
        let code = move |query: &Query| if query.has_edns() { with } else { without };
        let counted =
            Counted::answering(move |query| at_once(response(query, code(query), &[]))).await;
        let found = if without == SERVFAIL {
            Found::ServerFailure
        } else {
            Found::Temporary
        };
        assert_eq!(
            find(&queries(&[&counted]), "h.test").await,
            found,
            "{with} {without}"
        );
    }
    let counted = Counted::answering(|query| match query.has_edns() {
        true => at_once(response(query, FORMERR, &[])),
        false => Vec::new(),
    })
    .await;
    assert_eq!(
        find(&queries(&[&counted]), "h.test").await,
        Found::Temporary
    );
}

/// An answer without EDNS that does not fit 512 bytes is asked for over TCP without EDNS, too.
#[tokio::test]
async fn a_large_answer_of_a_server_without_edns_comes_over_tcp() {
    let counted = Counted::start(|query| at_once(response(query, FORMERR, &[]))).await;
    let many = Counted::answering(|query| {
        if query.has_edns() {
            return at_once(response(query, FORMERR, &[]));
        }
        let records: Vec<Record> = (0..100)
            .map(|last| Record::new(A, 300, &[192, 0, 2, last]))
            .collect();
        let mut answer = response(
            query,
            0,
            if query.over_tcp && query.kind == A {
                &records
            } else {
                &[]
            },
        );
        answer[2] |= if query.over_tcp || query.kind != A {
            0
        } else {
            0x02
        };
        at_once(answer)
    })
    .await;
    assert!(is_found(&find(&queries(&[&counted]), "small.test").await));
    let found = find(&queries(&[&many]), "large.test").await;
    assert!(
        matches!(&found, Found::Addresses { addresses, .. } if addresses.len() == 100),
        "{found:?}"
    );
}

#[tokio::test]
async fn what_is_known_of_edns_is_known_of_each_server_by_itself() {
    let sound = Counted::answering(|query| at_once(address(query))).await;
    let old = Counted::start(|query| at_once(response(query, NOTIMP, &[]))).await;
    let mute = Counted::start(|_| Vec::new()).await;
    let queries = queries(&[&sound, &old, &mute]);
    for number in 0..60 {
        assert!(is_found(&find(&queries, &format!("h{number}.test")).await));
    }
    assert_eq!(sound.without(), 0);
    assert!(
        sound.with() > 0 && old.with() <= 2,
        "{} {}",
        sound.with(),
        old.with()
    );
}

//! Doubt: no server can be reached; what is reported, asked for and told meanwhile.

use super::bench::Bench;
use fetcher::effect::{Answer, Effect, End};
use fetcher::settings::Settings;
use rhumb_stage::doubt::Past;
use rhumb_stage::{Core as _, Event};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{FailureKind, RequestEnd, RequestEnd::Failure};

const DOUBT_MAX_MS: u64 = 600_000;

/// A job for a server of its own, granted within a second or so.
fn grant(bench: &mut Bench, server: u64) -> rhumb_wire::message::JobId {
    answer_asks(bench);
    bench.until(bench.now_ms + 1_000);
    let id = bench.grant(|job| {
        job.id.number = server;
        job.server = format!("http://s{server}.test");
        job.requests.truncate(1);
        job.requests[0].url = format!("http://s{server}.test/");
    });
    assert_eq!(bench.requests(), [0]);
    id
}

/// A job whose request fails, to its last report: how the URL ended by that.
fn fail(bench: &mut Bench, server: u64, kind: FailureKind) -> RequestEnd {
    end(bench, server, End::Failure(kind))
}

fn end(bench: &mut Bench, server: u64, end: End) -> RequestEnd {
    let job = grant(bench, server);
    bench.end(job, 0, end);
    bench
        .effects
        .retain(|effect| !matches!(effect, Effect::Close { .. }));
    bench.step(Event::Answer(Answer::Closed { job }));
    bench.last().results[0].end.clone()
}

/// Eight servers cannot be reached.
fn in_doubt() -> Bench {
    let mut bench = Bench::new(4);
    for server in 1..8 {
        assert_eq!(
            fail(&mut bench, server, FailureKind::Connect),
            Failure(FailureKind::Connect)
        );
        assert_eq!(hindrance(&bench), None);
    }
    assert_eq!(
        fail(&mut bench, 8, FailureKind::Connect),
        RequestEnd::Untried
    );
    bench
}

fn hindrance(bench: &Bench) -> Option<String> {
    bench
        .core
        .hindrance(Timestamp::from_micros(bench.now_ms * 1000))
}

/// Connections asked for by each ask that is not answered yet.
fn asked(bench: &Bench) -> Vec<u32> {
    let free = |effect: &Effect| {
        if let Effect::Ask { ask, .. } = effect {
            Some(ask.free)
        } else {
            None
        }
    };
    bench.effects.iter().filter_map(free).collect()
}

fn answer_asks(bench: &mut Bench) {
    while !asked(bench).is_empty() {
        bench.answer_ask();
    }
}

#[test]
fn when_no_server_can_be_reached_none_is_blamed_and_one_job_at_a_time_is_asked_for() {
    let mut bench = in_doubt();
    let why = hindrance(&bench).expect("it is not ready");
    assert!(
        why.contains("no server can be reached from here for 0 s; for 600 s more"),
        "{why}"
    );
    assert_eq!(bench.count("in_doubt"), 1);
    assert_eq!(
        asked(&bench).last(),
        Some(&0),
        "what was offered is taken back"
    );
    answer_asks(&mut bench);
    bench.until(bench.now_ms + 999);
    assert_eq!(asked(&bench), [0; 0]);
    bench.until(bench.now_ms + 1);
    assert_eq!(asked(&bench), [1]);
    for server in 9..40 {
        assert_eq!(
            fail(&mut bench, server, FailureKind::Connect),
            RequestEnd::Untried
        );
    }
    assert_eq!(
        (bench.count("doubts_total"), bench.count("withheld_total")),
        (1, 32)
    );
}

#[test]
fn the_first_answer_ends_the_doubt() {
    let mut bench = in_doubt();
    let job = grant(&mut bench, 9);
    bench.respond(job, 0);
    bench.store_pages();
    bench.step(Event::Answer(Answer::Closed { job }));
    assert_eq!((hindrance(&bench), bench.count("in_doubt")), (None, 0));
    answer_asks(&mut bench);
    bench.until(bench.now_ms + 500);
    assert_eq!(asked(&bench).last(), Some(&4));
    assert_eq!(
        fail(&mut bench, 10, FailureKind::Connect),
        Failure(FailureKind::Connect)
    );
}

#[test]
fn doubt_ends_when_it_has_lasted_long_enough_and_failures_count() {
    let mut bench = in_doubt();
    answer_asks(&mut bench);
    bench.until(bench.now_ms + DOUBT_MAX_MS);
    assert_eq!((hindrance(&bench), bench.count("in_doubt")), (None, 0));
    for server in 9..40 {
        assert_eq!(
            fail(&mut bench, server, FailureKind::Connect),
            Failure(FailureKind::Connect)
        );
    }
    assert_eq!(bench.count("doubts_total"), 1);
}

/// A server that was connected to and did not answer is not taken for one that hung up.
#[test]
fn a_time_out_in_doubt_is_reported_as_if_nothing_had_been_connected_to() {
    let mut bench = in_doubt();
    assert_eq!(
        fail(&mut bench, 9, FailureKind::Timeout),
        RequestEnd::Untried
    );
    assert_eq!((bench.last().connect_us, bench.last().requests), (None, 0));
    // What says nothing of the network counts as ever.
    assert_eq!(
        fail(&mut bench, 10, FailureKind::Forbidden),
        Failure(FailureKind::Forbidden)
    );
    assert!(hindrance(&bench).is_some());
}

/// Some networks that are broken take connections and end them.
#[test]
fn connections_that_end_before_they_bring_anything_raise_doubt() {
    let mut bench = Bench::new(4);
    let ends = |n: u64| match n % 3 {
        0 => End::Gone,
        1 => End::Failure(FailureKind::Reset),
        _ => End::Failure(FailureKind::Tls),
    };
    for server in 1..8 {
        end(&mut bench, server, ends(server));
        assert_eq!(hindrance(&bench), None);
    }
    assert_eq!(end(&mut bench, 8, ends(8)), RequestEnd::Untried);
    assert!(hindrance(&bench).is_some());
    assert_eq!(
        (bench.last().connect_us, bench.count("withheld_total")),
        (None, 1)
    );
}

/// A fetcher of a crawl that nothing has answered yet.
fn young() -> Bench {
    Bench::with(4, |settings| Settings {
        past: Past::Unknown,
        ..settings
    })
}

#[test]
fn while_nothing_has_ever_answered_the_first_silence_is_held_against_nobody() {
    for kind in [FailureKind::Timeout, FailureKind::Connect] {
        let mut bench = young();
        assert_eq!(fail(&mut bench, 1, kind), RequestEnd::Untried, "{kind:?}");
        assert!(hindrance(&bench).is_some_and(|why| why.contains("no server can be reached")));
        bench.until(bench.now_ms + 45_000);
        let job = grant(&mut bench, 1);
        bench.respond(job, 0);
        bench.store_pages();
        bench.step(Event::Answer(Answer::Closed { job }));
        assert_eq!((hindrance(&bench), bench.count("doubts_total")), (None, 1));
        assert_eq!(
            fail(&mut bench, 2, kind),
            Failure(kind),
            "from now on it is the server's own fault"
        );
    }
}

#[test]
fn whatever_comes_is_an_answer_and_counts() {
    let answers = [
        (End::Refused, Failure(FailureKind::Connect)),
        (
            End::Failure(FailureKind::Reset),
            Failure(FailureKind::Reset),
        ),
        (End::Failure(FailureKind::Tls), Failure(FailureKind::Tls)),
        (
            End::Failure(FailureKind::Certificate),
            Failure(FailureKind::Certificate),
        ),
        (
            End::Failure(FailureKind::Protocol),
            Failure(FailureKind::Protocol),
        ),
        (
            End::BodyFailed(FailureKind::Timeout),
            Failure(FailureKind::Timeout),
        ),
        (
            End::BodyFailed(FailureKind::Reset),
            Failure(FailureKind::Reset),
        ),
        (End::Gone, RequestEnd::Untried),
    ];
    for (comes, counts) in answers {
        let mut bench = young();
        assert_eq!(
            fail(&mut bench, 1, FailureKind::Timeout),
            RequestEnd::Untried
        );
        bench.until(bench.now_ms + 2_000);
        assert_eq!(end(&mut bench, 2, comes.clone()), counts, "{comes:?}");
        assert_eq!(
            (hindrance(&bench), bench.count("withheld_total")),
            (None, 1),
            "{comes:?}"
        );
        // Many wrong ports are many wrong ports.
        (3..20).for_each(|server| {
            assert_eq!(end(&mut bench, server, comes.clone()), counts, "{comes:?}")
        });
    }
}

#[test]
fn a_head_is_an_answer_whatever_becomes_of_its_body() {
    for kind in [
        FailureKind::Timeout,
        FailureKind::Slow,
        FailureKind::NoLength,
        FailureKind::Reset,
    ] {
        let mut bench = young();
        assert_eq!(end(&mut bench, 1, End::BodyFailed(kind)), Failure(kind));
        assert_eq!(
            (hindrance(&bench), bench.count("doubts_total")),
            (None, 0),
            "{kind:?}"
        );
        assert_eq!(
            fail(&mut bench, 2, FailureKind::Timeout),
            Failure(FailureKind::Timeout),
            "{kind:?}"
        );
    }
}

/// A server that chose HTTP/2 was reached, and is judged by what it does over HTTP/1.1.
#[test]
fn http2_that_fails_ends_the_doubt_of_a_crawl_that_nothing_has_answered() {
    let mut bench = young();
    assert_eq!(
        fail(&mut bench, 1, FailureKind::Timeout),
        RequestEnd::Untried
    );
    bench.until(bench.now_ms + 2_000);
    let job = grant(&mut bench, 2);
    bench.end(job, 0, End::Http2Failed(FailureKind::Reset));
    assert_eq!(hindrance(&bench), None);
    bench.step(Event::Answer(Answer::Closed { job }));
    bench.until(bench.now_ms + 1_000);
    assert_eq!(bench.requests(), [0]);
    bench.end(job, 0, End::Failure(FailureKind::Timeout));
    bench.step(Event::Answer(Answer::Closed { job }));
    assert_eq!(bench.last().results[0].end, Failure(FailureKind::Timeout));
    assert_eq!(
        (hindrance(&bench), bench.count("withheld_total")),
        (None, 1)
    );
}

/// Once servers have answered, a network that refuses for all is in doubt, as one that is silent.
#[test]
fn refusals_raise_doubt_in_a_crawl_that_was_answered() {
    let mut bench = Bench::new(4);
    (1..8).for_each(|server| {
        assert_eq!(
            end(&mut bench, server, End::Refused),
            Failure(FailureKind::Connect)
        )
    });
    assert_eq!(end(&mut bench, 8, End::Refused), RequestEnd::Untried);
    assert!(hindrance(&bench).is_some());
}

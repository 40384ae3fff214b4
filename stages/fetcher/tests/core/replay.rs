//! Answers from an archive: what is waited for, what is not there, and robots.txt for the archives
//! of replays to come.

use super::bench::{Bench, SERVER, response};
use fetcher::effect::{Answer, Effect, End};
use fetcher::settings::Settings;
use rhumb_stage::{Core as _, Event};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{FailureKind, JobKind, RequestEnd, ResponseSummary};

fn is_ask(effect: &Effect) -> bool {
    matches!(effect, Effect::Ask { .. })
}

/// A fetcher whose archive is known.
fn replay() -> Bench {
    let mut bench = Bench::with(4, |settings| Settings {
        replays: true,
        ..settings
    });
    bench.effects.clear();
    bench.step(Event::Answer(Answer::Indexed {
        recordings: 5,
        damaged: 2,
    }));
    bench
}

#[test]
fn no_job_is_asked_for_before_it_is_known_what_the_archive_has() {
    let mut bench = Bench::with(4, |settings| Settings {
        replays: true,
        ..settings
    });
    assert!(matches!(bench.effects[..], [Effect::Index]));
    assert!(
        bench
            .core
            .hindrance(Timestamp::ZERO)
            .unwrap()
            .contains("archive")
    );
    bench.until(5000);
    assert!(!bench.effects.iter().any(is_ask));
    bench.step(Event::Answer(Answer::Indexed {
        recordings: 5,
        damaged: 2,
    }));
    assert!(bench.effects.iter().any(is_ask) && bench.core.hindrance(Timestamp::ZERO).is_none());
    assert_eq!(
        (
            bench.count("archive_recordings"),
            bench.count("archive_damaged_total")
        ),
        (5, 2)
    );
}

#[test]
fn what_is_not_archived_is_reported_and_the_job_goes_on() {
    let mut bench = replay();
    let job = bench.grant(|job| {
        job.gap_ms = 0;
        job.requests.truncate(2);
    });
    assert_eq!(bench.requests(), [0]);
    let end = End::Failure(FailureKind::NotArchived);
    bench.step(Event::Answer(Answer::Response {
        job,
        index: 0,
        connect_us: None,
        damaged: 1,
        end,
    }));
    assert_eq!(bench.requests(), [1]);
    bench.respond(job, 1);
    bench.store_pages();
    bench.step(Event::Answer(Answer::Closed { job }));
    let ends: Vec<_> = bench
        .last()
        .results
        .iter()
        .map(|result| result.end.clone())
        .collect();
    assert_eq!(ends[0], RequestEnd::Failure(FailureKind::NotArchived));
    assert!(matches!(
        ends[1],
        RequestEnd::Response(ResponseSummary { status: 200, .. })
    ));
    assert_eq!(
        (
            bench.count("archive_damaged_total"),
            bench.count("failures_not_archived_total")
        ),
        (3, 1)
    );
    let why = |url: &str| bench.core.why(Timestamp::ZERO, url).unwrap();
    assert_eq!(
        why(&format!("{SERVER}/0")).as_deref(),
        Some("gone: not in the archive")
    );
    assert_eq!(why(&format!("{SERVER}/1")), None);
}

#[test]
fn a_robots_txt_that_is_not_archived_allows_all() {
    let mut bench = replay();
    let job = bench.grant(|job| {
        job.kind = JobKind::Robots;
        job.requests.truncate(1);
    });
    bench.end(job, 0, End::Failure(FailureKind::NotArchived));
    bench.step(Event::Answer(Answer::Closed { job }));
    assert_eq!(
        bench.last().robots.as_ref().map(|robots| robots.status),
        Some(404)
    );
}

/// P3: an archive that lacked a robots.txt would be replayed in another way.
#[test]
fn with_an_archiver_rules_are_reported_when_their_robots_txt_is_stored() {
    let mut bench = Bench::with(4, |settings| Settings {
        keeps_robots: true,
        recrawls: false,
        ..settings
    });
    let job = bench.grant(|job| {
        job.kind = JobKind::Robots;
        job.requests.truncate(1);
    });
    bench.respond(job, 0);
    bench.step(Event::Answer(Answer::Closed { job }));
    assert!(bench.reports.is_empty());
    assert!(bench.pages[0].1.is_robots && bench.pages[0].1.url == format!("{SERVER}/0"));
    bench.store_pages();
    let report = bench.last();
    assert_eq!(
        (
            report.results.len(),
            report.robots.as_ref().map(|robots| robots.status)
        ),
        (1, Some(200))
    );

    let mut without = Bench::new(4);
    let job = without.grant(|job| job.kind = JobKind::Robots);
    without.end(job, 0, End::Response(Box::new(response())));
    assert!(without.pages.is_empty(), "nobody keeps it");
}

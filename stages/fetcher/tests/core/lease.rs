//! A job and its lease: renewals, deadlines, revocations (P1).

use super::bench::{Bench, SERVER};
use fetcher::effect::{Answer, Effect};
use rhumb_config::Layers;
use rhumb_config::orders::{Author, Orders, Pause, Target};
use rhumb_stage::{Core as _, Event};
use rhumb_url::host_of;
use rhumb_wire::message::{RequestEnd, ToFetcher};
use std::time::Duration;

#[test]
fn a_confirmed_renewal_counts_from_when_its_report_was_sent() {
    let mut bench = Bench::new(4);
    // A wait longer than the lease.
    let job = bench.grant(|job| job.gap_ms = 30_000);
    bench.requests();
    bench.respond(job, 0);
    bench.store_pages();
    for (sent, confirmed) in [(5000, 5900), (10_000, 10_900), (15_000, 15_900)] {
        bench.until(sent);
        let sequence = bench.reports.len() as u32;
        assert_eq!(bench.reports.last().unwrap().1.sequence, sequence);
        bench.store_reports();
        bench.until(confirmed);
        bench.tell(ToFetcher::Renewed { job, sequence });
    }
    assert_eq!(
        bench.reports[0].1.results.len(),
        1,
        "a renewal carries what ended since"
    );
    assert!(bench.reports[1].1.results.is_empty());
    // No more confirmations: the lease ends 20 s after the report of 15 s was sent.
    bench.until(29_999);
    assert_eq!(bench.requests(), [0; 0]);
    bench.until(30_000);
    assert_eq!(bench.requests(), [1]);
    bench.respond(job, 1);
    bench.store_pages();
    bench.store_reports();
    bench.until(34_999);
    assert_eq!(bench.closes(), 0);
    bench.until(35_000);
    assert_eq!(bench.closes(), 1);
}

#[test]
fn a_renewal_waits_until_the_report_before_is_stored() {
    let mut bench = Bench::new(4);
    bench.grant(|job| job.gap_ms = 60_000);
    bench.until(12_000);
    assert_eq!(bench.reports.len(), 1);
    bench.store_reports();
    assert_eq!(bench.reports.len(), 2);
    assert_eq!(bench.reports[1].1.sequence, 2);
}

#[test]
fn an_unknown_confirmation_changes_nothing() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 15_000);
    bench.respond(job, 0);
    bench.store_pages();
    bench.tell(ToFetcher::Renewed { job, sequence: 7 });
    bench.requests();
    bench.until(19_000);
    assert_eq!(bench.requests(), [1]);
    bench.respond(job, 1);
    bench.store_pages();
    bench.until(20_000);
    assert_eq!(bench.closes(), 1);
}

#[test]
fn the_lease_counts_from_when_the_ask_was_sent_not_from_when_the_job_came() {
    let mut bench = Bench::new(4);
    bench.now_ms = 900;
    bench.grant(|job| job.lease_ms = 1000);
    let Some(Effect::Request(request)) = bench
        .effects
        .iter()
        .find(|effect| matches!(effect, Effect::Request(_)))
    else {
        panic!("no request")
    };
    assert_eq!(request.lease_left, Duration::from_millis(100));
}

#[test]
fn a_job_that_comes_after_its_lease_is_not_begun() {
    let mut bench = Bench::new(4);
    bench.now_ms = 1000;
    bench.grant(|job| job.lease_ms = 1000);
    assert_eq!(bench.requests(), [0; 0]);
    assert_eq!(bench.closes(), 0, "there is nothing to close");
    assert!(
        bench
            .last()
            .results
            .iter()
            .all(|result| result.end == RequestEnd::Untried)
    );
    assert_eq!(bench.last().results.len(), 5);
}

#[test]
fn a_job_past_its_deadline_closes_and_reports_the_rest_untried() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 25_000);
    bench.requests();
    bench.respond(job, 0);
    bench.store_pages();
    bench.until(19_999);
    assert_eq!(bench.closes(), 0);
    bench.until(20_000);
    assert_eq!((bench.closes(), bench.requests()), (1, vec![]));
    bench.store_reports();
    bench.step(Event::Answer(Answer::Closed { job }));
    let untried = bench
        .last()
        .results
        .iter()
        .filter(|result| result.end == RequestEnd::Untried);
    assert_eq!(untried.count(), 4);
    assert_eq!(bench.count("jobs_expired_total"), 1);
}

#[test]
fn a_request_in_hand_at_the_deadline_is_finished() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 0);
    bench.requests();
    bench.until(25_000);
    assert_eq!(bench.closes(), 0);
    bench.respond(job, 0);
    assert_eq!((bench.closes(), bench.requests()), (1, vec![]));
}

#[test]
fn a_revoked_job_stops_before_its_next_request() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 0);
    bench.requests();
    bench.tell(ToFetcher::Revoked { job });
    assert_eq!(bench.closes(), 0, "the request in hand may be finished");
    bench.respond(job, 0);
    assert_eq!((bench.closes(), bench.requests()), (1, vec![]));
    bench.store_pages();
    bench.step(Event::Answer(Answer::Closed { job }));
    assert_eq!(bench.last().results.len(), 5);
    assert_eq!(
        bench
            .last()
            .results
            .iter()
            .filter(|result| result.end == RequestEnd::Untried)
            .count(),
        4
    );
    assert_eq!(bench.count("jobs_revoked_total"), 1);
    bench.tell(ToFetcher::Revoked { job });
    assert_eq!(bench.count("jobs_revoked_total"), 1);
}

/// Goal: what is paused is left alone although its scheduler does not say so. Method: the order
/// comes while a job is in hand, and then a job for the same server comes that was on its way.
#[test]
fn a_job_for_a_server_that_is_paused_stops_and_one_that_comes_makes_no_request() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 0);
    bench.requests();
    let mut orders = Orders::default();
    orders.pause(Pause {
        what: Target::Host(host_of(SERVER).to_owned()),
        author: Author::default(),
    });
    bench.order(&orders);
    bench.respond(job, 0);
    assert_eq!(
        (bench.closes(), bench.requests()),
        (1, vec![]),
        "it ends after the request in hand"
    );
    bench.store_pages();
    bench.step(Event::Answer(Answer::Closed { job }));
    let untried = |bench: &Bench| {
        bench
            .last()
            .results
            .iter()
            .filter(|of| of.end == RequestEnd::Untried)
            .count()
    };
    assert_eq!(untried(&bench), 4);
    bench.store_reports();

    bench.until(bench.now_ms + 1000);
    bench.grant(|job| job.id.number += 1);
    assert_eq!((bench.requests(), untried(&bench)), (vec![], 5));
    bench.store_reports();
    bench.order(&Orders::default());
    bench.until(bench.now_ms + 1000);
    bench.grant(|job| job.id.number += 2);
    assert_eq!(bench.requests(), [0], "it is no longer paused");
}

/// Goal: a longer delay holds for jobs of a time when less was asked for: those in hand and those
/// on their way (P2).
#[test]
fn a_longer_delay_holds_for_jobs_that_were_granted_before() {
    let set = [
        "network.allow_private_addresses=true",
        "politeness.delay=3s",
        "politeness.download_factor=0",
    ];
    let layers = Layers {
        file: None,
        set: set.map(str::to_owned).to_vec(),
    };
    let pipeline = layers
        .load_with(std::iter::empty())
        .expect("a configuration");
    let mut bench = Bench::new(4);
    let job = bench.grant(|job| job.gap_ms = 200);
    bench.respond(job, 0);
    bench.requests();
    bench.store_pages();
    let answered = bench.now_ms;
    assert!(bench.core.configure(&pipeline));
    bench.until(answered + 2999);
    assert!(bench.requests().is_empty());
    bench.until(answered + 3001);
    assert_eq!(bench.requests(), [1]);
    bench.respond(job, 1);
    bench.store_pages();
    let answered = bench.now_ms;
    bench.until(answered + 2999);
    assert!(bench.requests().is_empty());
    bench.until(answered + 3001);
    assert_eq!(bench.requests(), [2]);
}

#[test]
fn a_job_revoked_between_two_requests_closes_at_once() {
    let mut bench = Bench::new(4);
    let job = bench.grant(|_| {});
    bench.respond(job, 0);
    bench.tell(ToFetcher::Revoked { job });
    assert_eq!(bench.closes(), 1);
}

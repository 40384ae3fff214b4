//! Which jobs are taken, and what is asked of schedulers.

use super::bench::{Bench, job};
use fetcher::effect::Effect;
use rhumb_stage::Core as _;
use rhumb_stage::Event;
use rhumb_wire::message::{Job, RequestEnd, ToFetcher};

#[test]
fn a_job_for_an_unknown_ask_is_refused() {
    let mut bench = Bench::new(4);
    bench.tell(ToFetcher::Job(job(12_345)));
    assert_eq!(bench.requests(), [0; 0]);
    assert_eq!(bench.last().results.len(), 5);
    assert!(
        bench
            .last()
            .results
            .iter()
            .all(|result| result.end == RequestEnd::Untried)
    );
    assert_eq!((bench.last().sequence, bench.last().requests), (1, 0));
    assert!(bench.core.is_idle());
    assert_eq!(bench.count("jobs_refused_total"), 1);
}

#[test]
fn a_job_of_another_life_is_anothers_to_carry_out_or_to_refuse() {
    let mut bench = Bench::new(4);
    let ask = bench.answer_ask();
    bench.tell(ToFetcher::Job(Job {
        life: 8,
        ..job(ask)
    }));
    assert_eq!(bench.requests(), [0; 0]);
    assert!(
        bench.reports.is_empty(),
        "a report would end the lease of the fetcher that carries it out (P1)"
    );
    assert_eq!(
        (bench.count("jobs_total"), bench.count("jobs_refused_total")),
        (0, 0)
    );
}

#[test]
fn a_job_over_capacity_is_refused() {
    let mut bench = Bench::new(1);
    let ask = bench.answer_ask();
    for number in 1..=2 {
        let mut job = job(ask);
        job.id.number = number;
        bench.tell(ToFetcher::Job(job));
    }
    assert_eq!(bench.requests(), [0]);
    assert_eq!(bench.last().job.number, 2);
    assert_eq!(
        (bench.count("jobs"), bench.count("jobs_refused_total")),
        (1, 1)
    );
}

#[test]
fn a_job_that_comes_twice_is_begun_once() {
    let mut bench = Bench::new(4);
    let ask = bench.answer_ask();
    bench.tell(ToFetcher::Job(job(ask)));
    bench.tell(ToFetcher::Job(job(ask)));
    assert_eq!(bench.requests(), [0]);
    assert!(bench.reports.is_empty());
}

#[test]
fn the_next_ask_names_the_jobs_received_and_the_connections_left() {
    let mut bench = Bench::new(4);
    bench.grant(|job| job.gap_ms = 60_000);
    bench.until(500);
    let Some(Effect::Ask { ask, .. }) = bench
        .effects
        .iter()
        .find(|effect| matches!(effect, Effect::Ask { .. }))
    else {
        panic!("no ask")
    };
    assert_eq!((ask.free, ask.received), (3, 1));
}

#[test]
fn a_draining_fetcher_takes_its_ask_back_and_refuses_what_was_granted_before() {
    let mut bench = Bench::new(4);
    let ask = bench.answer_ask();
    bench.step(Event::Drain);
    assert!(!bench.core.is_idle(), "its ask still holds");
    let withdrawal = bench.answer_ask();
    assert!(withdrawal > ask);
    assert!(!bench.core.is_idle(), "a job may be on its way");
    bench.tell(ToFetcher::Job(job(ask)));
    assert_eq!(bench.count("jobs_refused_total"), 1);
    assert_eq!(bench.last().results.len(), 5);
    bench.until(10_000);
    assert!(bench.effects.is_empty(), "it asks for nothing more");
    assert!(bench.core.is_idle());
}

#[test]
fn the_table_of_metrics_has_a_row_for_each_number_and_no_other() {
    let core = Bench::new(4).core;
    let labelled = core.labelled_counts().into_iter();
    let labelled = labelled.map(|one| (one.count, one.value));
    let counts: Vec<_> = core.counts().into_iter().chain(labelled).collect();
    assert_eq!(
        rhumb_telemetry::metrics::unlike(fetcher::metrics::METRICS, &counts, &core.histograms()),
        [""; 0]
    );
}

//! Jobs: leases, renewals and reports that are lost, late and repeated; one situation a test.

use super::web::{Fine, Web, pages, response, robots, robots_txt};
use super::world::World;
use crate::core::dispatcher::Input;
use crate::settings::tests::with;
use rhumb_stage::{Core as _, Event, Output};
use rhumb_wire::message::{
    JobId, JobKind, Outcome, Report, RequestEnd, ResponseSummary, ToFetcher,
};
use std::time::Duration;

const A: &str = "http://a.test";
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_scheduler_that_is_told_to_end_grants_nothing_more_but_still_hears_reports() {
    let mut world = World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.scheduler.requests_per_connection = 2;
    }));
    world.tell_pages(A, 4);
    world.ask(1);
    assert_eq!(world.held.len(), 1);
    let mut out = Output::default();
    world.core.step(world.now, Event::Drain, &mut out).unwrap();
    world.tell_pages("http://b.test", 3);
    world.ask(4);
    assert_eq!(world.held.len(), 1);
    let report = world.held[0].report(true, false);
    world.step(Some(Input::Report(report)));
    assert_eq!((world.count("in_flight"), world.count("waiting")), (0, 7));
    world.ask(4);
    assert_eq!(world.count("jobs_granted_total"), 1);
}

#[test]
fn an_expired_lease_is_granted_again_once_and_costs_the_first_url_an_attempt() {
    let mut world = World::new(with(|set| set.politeness.respect_robots = false));
    world.tell_pages(A, 5);
    world.ask(1);
    let lost = world.held.remove(0);
    world.pass(Duration::from_secs(21));
    world.step(None);
    world.ask(1);
    assert!(world.held.is_empty(), "the lease holds");
    world.pass(Duration::from_secs(2));
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.count("leases_expired_total"), 1);
    assert_eq!(world.count("refetched_total"), 5);
    assert_eq!(world.outcomes[&lost.job.requests[0].url].attempts, 2);
    assert_eq!(world.outcomes[&lost.job.requests[1].url].attempts, 1);
    let urls: Vec<_> = (0..5).map(|page| format!("{A}/{page}")).collect();
    assert_eq!(world.contacted(), urls, "in their old order");
}

#[test]
fn a_lease_that_ran_out_while_nothing_was_heard_waits_for_the_reports_and_costs_no_attempt() {
    let mut world = World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.scheduler.attempts = 1;
    }));
    world.tell_pages(A, 3);
    world.ask(1);
    for _ in 0..3 {
        let at = world.now;
        world.request(0, &mut Fine);
        world.now = at + Duration::from_secs(2);
    }
    let report = world.held[0].report(true, false);
    // The scheduler stands still for far longer than the lease, and the report lies in its stream.
    world.pass(HOUR);
    world.hear_again();
    assert_eq!(
        (
            world.count("in_flight"),
            world.count("leases_expired_total")
        ),
        (3, 0)
    );
    world.pass(Duration::from_secs(21));
    world.step(None);
    world.step(Some(Input::Report(report)));
    assert_eq!(
        (
            world.count("outcome_fetched_total"),
            world.count("refetched_total")
        ),
        (3, 0)
    );

    // The fetcher is gone, too: the job is lost after one lease, and its first URL has its one
    // attempt still.
    world.tell_pages("http://b.test", 2);
    world.ask(1);
    world.pass(HOUR);
    world.hear_again();
    world.held.clear();
    world.pass(Duration::from_secs(23));
    world.finish(&mut Fine, HOUR);
    assert_eq!(
        (
            world.count("leases_expired_total"),
            world.count("outcome_fetched_total")
        ),
        (1, 5)
    );
}

#[test]
fn a_url_that_kills_its_fetchers_fails() {
    let mut world = World::new(with(|set| set.politeness.respect_robots = false));
    world.tell_pages(A, 1);
    for _ in 0..4 {
        world.ask(1);
        assert_eq!(world.held.len(), 1);
        world.held.clear();
        world.pass(Duration::from_secs(23));
        world.step(None);
        world.pass(Duration::from_secs(2));
        world.step(None);
    }
    assert_eq!(
        world.outcome("http://a.test/0"),
        (Outcome::Failed, "lease expired")
    );
    assert_eq!(world.count("refetched_total"), 3);
}

/// Goal: a URL whose page waits for a full stream is not taken for one that kills fetchers. Method:
/// jobs outlast their robots.txt and are told to stop, more often than a URL may be tried; nothing
/// is heard of them again.
#[test]
fn a_job_that_is_told_to_stop_costs_its_url_no_attempt() {
    let lifetime = Duration::from_secs(70);
    let mut world = World::new(with(|set| set.politeness.robots_lifetime = lifetime));
    world.tell_pages(A, 1);
    let mut seconds = 0;
    for _ in 0..2 * world.settings.scheduler.attempts {
        while world
            .held
            .iter()
            .all(|held| held.job.kind != JobKind::Pages)
        {
            seconds += 1;
            assert!(seconds < 10_000, "no job for its page");
            world.pass(Duration::from_secs(1));
            world.ask(1);
            if world
                .held
                .iter()
                .any(|held| held.job.kind == JobKind::Robots)
            {
                world.request(0, &mut Fine);
                let report = world.held.remove(0).report(true, false);
                world.step(Some(Input::Report(report)));
            }
        }
        while !world.held.is_empty() {
            seconds += 5;
            assert!(seconds < 10_000, "no job is told to stop");
            world.pass(Duration::from_secs(5));
            let report = world.held[0].report(false, false);
            world.step(Some(Input::Report(report)));
            world.receive();
        }
        world.pass(Duration::from_secs(30));
        world.step(None);
    }
    assert_eq!(
        world.count("leases_expired_total"),
        u64::from(2 * world.settings.scheduler.attempts)
    );
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.outcome("http://a.test/0").0, Outcome::Fetched);
}

#[test]
fn renewals_keep_a_long_job_and_its_partial_reports_count() {
    let mut world = World::new(with(|set| set.politeness.respect_robots = false));
    world.tell_pages(A, 40);
    world.run(&mut Fine, Duration::from_secs(38));
    assert_eq!(world.count("jobs_granted_total"), 1);
    let settled = world.count("outcome_fetched_total");
    assert!(settled >= 33, "{settled}");
    // The fetcher dies: only what it did since its last report is fetched twice.
    world.held.clear();
    world.pass(Duration::from_secs(30));
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.count("refetched_total"), 40 - settled);
}

#[test]
fn reports_of_unknown_jobs_are_revoked_and_change_nothing() {
    let mut world = World::new(with(|set| set.politeness.respect_robots = false));
    world.tell_pages(A, 3);
    world.ask(1);
    let report = Report {
        job: JobId {
            scheduler: 3,
            epoch: 1,
            number: 77,
        },
        ..world.held[0].clone().report(false, false)
    };
    world.step(Some(Input::Report(Report {
        last: true,
        ..report.clone()
    })));
    assert!(world.inbox.is_empty());
    world.step(Some(Input::Report(report.clone())));
    assert_eq!(
        world.inbox.pop_front(),
        Some(ToFetcher::Revoked { job: report.job })
    );
    world.step(Some(Input::Report(Report {
        server: "http://unknown.test".into(),
        ..report.clone()
    })));
    assert_eq!(
        world.inbox.pop_front(),
        Some(ToFetcher::Revoked { job: report.job })
    );
    world.step(Some(Input::Report(Report {
        partition: 99,
        ..report
    })));
    assert!(world.inbox.is_empty());
    assert_eq!(world.count("in_flight"), 3);
}

#[test]
fn reports_may_come_twice_and_out_of_order() {
    let mut world = World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.politeness.delay = Duration::ZERO;
    }));
    world.tell_pages(A, 4);
    world.ask(1);
    let mut reports = Vec::new();
    for _ in 0..3 {
        world.request(0, &mut Fine);
        reports.push(world.held[0].report(false, false));
    }
    world.request(0, &mut Fine);
    let last = world.held[0].report(true, false);
    for report in [&reports[1], &last, &reports[1], &reports[2], &last] {
        world.step(Some(Input::Report(report.clone())));
    }
    assert_eq!(
        (
            world.count("outcome_fetched_total"),
            world.count("in_flight")
        ),
        (3, 1)
    );
    world.crash();
    world.step(Some(Input::Report(reports[1].clone())));
    assert_eq!(
        world.count("in_flight"),
        1,
        "the job waits for the report that is missing"
    );
    world.step(Some(Input::Report(reports[0].clone())));
    assert_eq!(
        (
            world.count("outcome_fetched_total"),
            world.count("in_flight")
        ),
        (4, 0)
    );
    assert_eq!(world.count("contacts_total"), 4);
}

#[test]
fn a_servers_limit_of_requests_is_learned() {
    struct Short;
    impl Web for Short {
        fn requests_per_connection(&self) -> usize {
            5
        }
    }
    let mut world = World::new(with(|set| set.politeness.respect_robots = false));
    world.tell_pages(A, 60);
    world.finish(&mut Short, HOUR);
    assert_eq!(world.count("jobs_granted_total"), 12);
    assert_eq!(world.count("outcome_fetched_total"), 60);
    let mut job_sizes = world.held.iter().map(|held| held.job.requests.len());
    assert_eq!(job_sizes.next(), None);
}

#[test]
fn a_job_survives_a_crash_and_its_reports_are_taken() {
    let mut world = World::polite();
    world.tell_pages(A, 3);
    world.run(&mut Fine, Duration::from_millis(1500));
    assert_eq!(world.count("in_flight"), 3);
    world.crash();
    assert_eq!(world.count("in_flight"), 3);
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.contacted().len(), 4);
    assert_eq!(world.count("leases_expired_total"), 0);
}

#[test]
fn a_fetcher_that_sends_jobs_back_untouched_does_not_get_them_as_fast_as_messages_go() {
    let mut world = World::new(with(|set| set.politeness.respect_robots = false));
    world.tell_pages(A, 3);
    for _ in 0..5 {
        world.ask(1);
        assert_eq!(world.held.len(), 1);
        let report = world.held.remove(0).report(true, false);
        world.step(Some(Input::Report(report)));
        world.ask(1);
        assert!(world.held.is_empty());
        world.pass(Duration::from_secs(1));
        world.step(None);
    }
    world.finish(&mut Fine, HOUR);
    assert!(world.outcomes.values().all(|entry| entry.attempts == 1));
}

/// What a fetcher in doubt reports as untried lifts no wait: neither Crawl-delay nor Retry-After,
/// nor the pause after the last contact.
#[test]
fn a_job_that_comes_back_untried_lifts_no_wait() {
    let mut world = World::polite();
    world.tell_pages(A, 3);
    world.run(
        &mut robots_txt(|_, _| robots(200, "User-agent: *\nCrawl-delay: 7\n")),
        Duration::from_secs(1),
    );
    let untried_and_left_alone = |world: &mut World, wait: Duration| {
        world.pass(wait - Duration::from_secs(1));
        world.ask(1);
        assert!(
            world.held.is_empty(),
            "{:?} after the last one",
            wait - Duration::from_secs(1)
        );
        world.pass(Duration::from_secs(1));
        world.ask(1);
        let report = world.held[0].report(false, false);
        world.step(Some(Input::Report(report)));
    };
    untried_and_left_alone(&mut world, Duration::from_secs(6));
    let report = world.held.remove(0).report(true, false);
    world.step(Some(Input::Report(report)));
    untried_and_left_alone(&mut world, Duration::from_secs(7));
    let mut refusal = response(429);
    if let RequestEnd::Response(ResponseSummary { retry_after_s, .. }) = &mut refusal {
        *retry_after_s = Some(600);
    }
    world.request(0, &mut pages(|_, _| refusal.clone()));
    let report = world.held.remove(0).report(true, false);
    world.step(Some(Input::Report(report)));
    untried_and_left_alone(&mut world, Duration::from_secs(600));
    world.finish(&mut Fine, HOUR);
}

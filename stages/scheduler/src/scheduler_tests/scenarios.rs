//! What happens to servers and their URLs, one situation a test.

use super::settings;
use super::world::{Fine, Web, World, addresses, elsewhere, pages, response, robots_txt};
use crate::scheduler::{Input, Scheduler};
use crate::settings::Settings;
use shared::config::DownloadPause;
use shared::message::{
    Errand, FailureKind, JobId, Outcome, ReadyUrls, Report, RequestEnd, Resolution, ToFetcher, Validators,
};
use shared::stage::store::Store as _;
use shared::stage::{Core as _, Event, Output};
use shared::time::Timestamp;
use shared::url::{partition, server_of};
use std::time::Duration;

const A: &str = "http://a.test";
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn urls_of_a_server_are_fetched_in_order_after_its_robots_txt_with_the_delay_between() {
    let mut world = World::polite();
    world.tell_pages(A, 120);
    let start = world.now;
    world.finish(&mut Fine, HOUR);
    let expected: Vec<_> =
        std::iter::once(format!("{A}/robots.txt")).chain((0..120).map(|page| format!("{A}/{page}"))).collect();
    assert_eq!(world.contacted(), expected);
    assert!(world.outcomes.values().all(|entry| entry.outcome == Outcome::Fetched && entry.attempts == 1));
    // P2 lets no contact come earlier; none comes later either.
    assert_eq!(world.contacts[120].0.since(start), Duration::from_secs(120));
    assert_eq!(world.count("jobs_granted_total"), 4);
    assert_eq!(world.count("bytes_total"), 12_000);
    assert_eq!(world.count("contacts_total"), 121);
    world.run(&mut Fine, Duration::from_secs(2));
    assert_eq!(world.count("servers"), 0, "a server without URLs leaves memory");
}

#[test]
fn a_server_that_left_memory_is_remembered() {
    let mut world = World::polite();
    world.tell_pages(A, 1);
    world.finish(&mut Fine, HOUR);
    world.run(&mut Fine, Duration::from_secs(10));
    assert!(!world.core.servers.contains_key(&world.core.key_of(A)));
    world.tell(&[format!("{A}/later")], &addresses());
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.count("robots_fetched_total"), 1);
}

#[test]
fn a_scheduler_that_is_told_to_end_grants_nothing_more_but_still_hears_reports() {
    let mut world = World::new(Settings { respect_robots: false, requests_per_connection: 2, ..settings() });
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
fn servers_take_turns_in_the_order_in_which_they_became_ready() {
    let mut world = World::new(Settings { respect_robots: false, requests_per_connection: 2, ..settings() });
    for server in ["http://c.test", "http://a.test", "http://b.test"] {
        world.tell_pages(server, 3);
    }
    for _ in 0..3 {
        world.ask(1);
    }
    let order: Vec<_> = world.held.iter().map(|held| held.job.server.clone()).collect();
    assert_eq!(order, ["http://c.test", "http://a.test", "http://b.test"]);
    world.ask(1);
    assert_eq!(world.held.len(), 3, "each server has its connection");
}

#[test]
fn statuses_and_failures_end_or_are_tried_again() {
    let mut world = World::polite();
    let paths = ["ok", "gone", "moved", "forbidden", "broken", "busy", "reset", "flaky", "private"];
    world.tell(&paths.map(|path| format!("{A}/{path}")), &addresses());
    let mut flaky = 0;
    let mut web = pages(|_, url| match url.rsplit('/').next().unwrap() {
        "ok" => response(200),
        "gone" => response(404),
        "moved" => response(302),
        "forbidden" => response(403),
        "broken" => response(500),
        "busy" => response(429),
        "reset" => RequestEnd::Failure(FailureKind::Reset),
        "private" => RequestEnd::Failure(FailureKind::Forbidden),
        _ => {
            flaky += 1;
            if flaky < 4 { RequestEnd::Failure(FailureKind::Timeout) } else { response(200) }
        }
    });
    world.finish(&mut web, 2 * HOUR);
    for (path, outcome, attempts) in [
        ("ok", Outcome::Fetched, 1),
        ("gone", Outcome::Gone, 1),
        ("moved", Outcome::Redirected, 1),
        ("forbidden", Outcome::Refused, 1),
        ("broken", Outcome::Failed, 4),
        ("busy", Outcome::Refused, 4),
        ("reset", Outcome::Failed, 4),
        ("private", Outcome::Failed, 0),
        ("flaky", Outcome::Fetched, 4),
    ] {
        let entry = &world.outcomes[&format!("{A}/{path}")];
        assert_eq!((entry.outcome, entry.attempts), (outcome, attempts), "{path}");
    }
    assert_eq!(world.count("retried_total"), 12);
}

#[test]
fn a_url_that_fails_does_not_hold_up_the_others() {
    let mut world = World::polite();
    world.tell_pages(A, 100);
    let mut web = pages(|_, url| if url.ends_with("/0") { response(500) } else { response(200) });
    let start = world.now;
    world.finish(&mut web, HOUR);
    let last_good = world.contacts.iter().rev().find(|(_, url)| !url.ends_with("/0")).unwrap().0;
    assert!(last_good.since(start) <= Duration::from_secs(104));
}

#[test]
fn a_slow_server_is_left_alone_for_as_long_as_it_took() {
    for (factor, longest, pause) in [(0, 60, 1), (1, 60, 4), (10, 60, 40), (100, 60, 60), (10, 20, 20)] {
        let download_pause = DownloadPause { factor, max: Duration::from_secs(longest) };
        let mut world = World::new(Settings { download_pause, requests_per_connection: 2, ..settings() });
        world.tell_pages(A, 4);
        let slow = RequestEnd::Response {
            status: 200,
            bytes: 1,
            truncated: false,
            elapsed_us: 4_000_000,
            retry_after_s: None,
            fetched_at_ms: 0,
            media_type: String::new(),
            validators: Validators::default(),
        };
        world.finish(&mut pages(|_, _| slow.clone()), HOUR);
        let waits: Vec<_> = world.contacts.windows(2).map(|pair| pair[1].0.since(pair[0].0).as_secs()).collect();
        assert_eq!(waits, [1, pause, pause, pause], "inside a job and between two");
    }
}

#[test]
fn servers_on_one_address_share_its_connections_and_others_do_not_wait() {
    let mut world = World::new(Settings { connections_per_address: 2, respect_robots: false, ..settings() });
    let servers: Vec<_> = (0..6).map(|n| format!("http://s{n}.test")).collect();
    for server in &servers {
        world.tell_pages(server, 3);
    }
    let alone = Resolution::Addresses { addresses: vec!["192.0.2.77".parse().unwrap()], ttl_s: 3600 };
    world.tell(&["http://alone.test/".to_owned()], &alone);
    world.ask(10);
    let mut held: Vec<_> = world.held.iter().map(|held| held.job.server.clone()).collect();
    assert_eq!(held, ["http://s0.test", "http://s1.test", "http://alone.test"]);
    // A connection ends: the server that has waited for longest goes on.
    world.request(0, &mut Fine);
    let report = world.held.remove(0).report(true, false);
    world.step(Some(Input::Report(report)));
    world.receive();
    held = world.held.iter().map(|held| held.job.server.clone()).collect();
    assert_eq!(held, ["http://s1.test", "http://alone.test", "http://s2.test"]);
    // Leases, and what they count for, survive a crash, and the end of a lease makes room.
    world.crash();
    world.ask(10);
    assert_eq!(world.held.len(), 3);
    world.held.clear();
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.count("outcome_fetched_total"), 19);
}

#[test]
fn retry_after_holds_for_the_server() {
    let mut world = World::polite();
    world.tell_pages(A, 3);
    let mut first = true;
    let mut web = pages(|_, _| match std::mem::take(&mut first) {
        true => RequestEnd::Response {
            status: 503,
            bytes: 0,
            truncated: false,
            elapsed_us: 1,
            retry_after_s: Some(600),
            fetched_at_ms: 0,
            media_type: String::new(),
            validators: Validators::default(),
        },
        false => response(200),
    });
    world.finish(&mut web, HOUR);
    assert_eq!(world.contacts[2].0.since(world.contacts[1].0), Duration::from_secs(600));
    assert_eq!(world.count("outcome_fetched_total"), 3);
}

#[test]
fn retry_after_survives_a_crash() {
    let mut world = World::polite();
    world.tell_pages(A, 2);
    let answer = RequestEnd::Response {
        status: 429,
        bytes: 0,
        truncated: false,
        elapsed_us: 1,
        retry_after_s: Some(600),
        fetched_at_ms: 0,
        media_type: String::new(),
        validators: Validators::default(),
    };
    world.run(&mut pages(|_, _| answer.clone()), Duration::from_secs(5));
    world.crash();
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.count("outcome_fetched_total"), 2);
}

#[test]
fn a_dead_server_ends_its_urls() {
    for kind in [FailureKind::Connect, FailureKind::Tls] {
        let mut world = World::polite();
        world.tell_pages(A, 2500);
        world.finish(&mut robots_txt(|_, _| Err(kind)), HOUR);
        assert_eq!(world.contacted().len(), 6);
        assert_eq!(world.outcome("http://a.test/7"), (Outcome::Failed, kind.name()));
        // A later URL gets one more connection.
        world.tell(&[format!("{A}/later")], &addresses());
        world.finish(&mut robots_txt(|_, _| Err(kind)), 2 * HOUR);
        assert!(world.contacted().len() <= 7);
    }
}

#[test]
fn a_server_that_never_answers_or_always_refuses_costs_few_contacts_and_no_other_server_anything() {
    for (end, outcome) in [
        (RequestEnd::Failure(FailureKind::Timeout), (Outcome::Failed, "timeout")),
        (RequestEnd::Failure(FailureKind::Reset), (Outcome::Failed, "reset")),
        (RequestEnd::Failure(FailureKind::Protocol), (Outcome::Failed, "protocol")),
        (response(429), (Outcome::Refused, "too many requests")),
        (response(503), (Outcome::Failed, "service unavailable")),
    ] {
        let mut world = World::polite();
        world.tell_pages(A, 2500);
        world.tell_pages("http://b.test", 200);
        let start = world.now;
        world.finish(&mut pages(|_, url| if server_of(url) == A { end.clone() } else { response(200) }), HOUR);
        let contacts = |server| world.contacts.iter().filter(move |(_, url)| server_of(url) == server);
        let waits: Vec<_> = contacts(A).map(|(at, _)| at.since(start).as_secs()).collect();
        assert_eq!(waits, [0, 1, 31, 91, 211, 451, 931], "robots.txt, then waits that double");
        assert_eq!(world.outcome("http://a.test/2499"), outcome);
        assert!(contacts("http://b.test").all(|(at, _)| at.since(start) <= Duration::from_secs(200)));
        assert_eq!(world.count("outcome_fetched_total"), 200);
    }
}

#[test]
fn servers_in_trouble_hold_few_connections_while_others_need_them_and_half_of_them_otherwise() {
    let retry_wait = Duration::from_secs(1);
    let mut world = World::new(Settings { respect_robots: false, retry_wait, ..settings() });
    (0..40).for_each(|n| world.tell_pages(&format!("http://silent{n}.test"), 2));
    world.ask(40);
    assert_eq!(world.held.len(), 40, "nobody knows yet");
    let mut silent = pages(|_, _| RequestEnd::Failure(FailureKind::Timeout));
    while !world.held.is_empty() {
        world.request(0, &mut silent);
        let report = world.held.remove(0).report(true, false);
        world.step(Some(Input::Report(report)));
    }
    (0..30).for_each(|n| world.tell_pages(&format!("http://good{n}.test"), 2));
    world.ask(30);
    assert!(world.held.iter().all(|held| held.job.server.contains("good")), "the others are set aside");
    world.pass(retry_wait);
    world.step(None);
    assert_eq!(world.count("servers_ready"), 40);
    world.ask(2);
    world.ask(1);
    assert_eq!(world.held.len(), 32, "two of 32 connections");
    for _ in 0..30 {
        let report = world.held.remove(0).report(true, false);
        world.step(Some(Input::Report(report)));
    }
    world.pass(Duration::from_millis(50));
    world.ask(30);
    assert_eq!(world.held.len(), 16, "half of 32");
    assert!(world.held.iter().all(|held| held.job.server.contains("silent")));
}

#[test]
fn a_server_that_has_not_sent_a_page_yet_has_little_time_once() {
    let mut world = World::new(settings());
    world.tell_pages(A, 3);
    let mut times = Vec::new();
    let mut asked = 0;
    // The first page and, later, another are too late.
    let mut web = pages(|_, _| {
        asked += 1;
        if asked == 1 || asked == 3 { RequestEnd::Failure(FailureKind::Timeout) } else { response(200) }
    });
    while world.count("outcome_fetched_total") < 3 {
        world.ask(1);
        for index in (0..world.held.len()).rev() {
            times.push(world.held[index].job.first_answer_ms);
            while world.request(index, &mut web) {
                world.pass(Duration::from_secs(1));
            }
            let report = world.held.remove(index).report(true, false);
            world.step(Some(Input::Report(report)));
        }
        world.pass(Duration::from_secs(1));
    }
    // robots.txt; the page that comes too late; then it was tried in vain, and then it is known.
    assert_eq!(times[..2], [Some(15_000); 2]);
    assert!(times.len() > 3 && times[2..].iter().all(Option::is_none), "{times:?}");
}

#[test]
fn a_few_bad_pages_do_not_set_a_server_aside_for_long_nor_end_the_others() {
    for end in [RequestEnd::Failure(FailureKind::Timeout), response(503)] {
        let mut world = World::polite();
        world.tell_pages(A, 100);
        let bad = |url: &str| ["/0", "/1", "/60"].iter().any(|path| url.ends_with(path) && url.len() <= 16);
        world.finish(&mut pages(|_, url| if bad(url) { end.clone() } else { response(200) }), HOUR);
        assert_eq!(world.count("outcome_fetched_total"), 97);
        assert_eq!(world.count("outcome_failed_total"), 3);
        assert!(world.outcomes.values().all(|entry| entry.attempts <= if bad(&entry.url) { 4 } else { 1 }));
    }
}

#[test]
fn a_refusal_sets_the_server_aside_and_an_answer_ends_that() {
    let mut world = World::polite();
    world.tell_pages(A, 3);
    let mut asked = 0;
    let mut web = pages(|_, _| {
        asked += 1;
        response(if asked % 2 == 1 { 429 } else { 200 })
    });
    world.finish(&mut web, HOUR);
    let waits: Vec<_> = world.contacts.windows(2).map(|pair| pair[1].0.since(pair[0].0).as_secs()).collect();
    // /0 is refused, /1 answered, /2 refused; both wait for longer than the server; then /0 is answered, and /2 refused
    // once more.
    assert_eq!(waits, [1, 30, 1, 30, 30, 90], "{:?}", world.contacted());
}

#[test]
fn failures_to_connect_cost_no_attempt() {
    let mut world = World::polite();
    world.tell_pages(A, 3);
    let mut tries = 0;
    let mut web = pages(|_, _| {
        tries += 1;
        if tries % 6 == 0 { response(200) } else { RequestEnd::Failure(FailureKind::Connect) }
    });
    world.finish(&mut web, 3 * HOUR);
    assert!(world.outcomes.values().all(|entry| (entry.outcome, entry.attempts) == (Outcome::Fetched, 1)));
}

#[test]
fn urls_without_an_address_end() {
    for (resolution, reason) in [(Resolution::NoAddress, "no such name"), (Resolution::Private, "private address")] {
        let mut world = World::polite();
        let urls: Vec<_> = (0..2500).map(|page| format!("{A}/{page}")).collect();
        world.tell(&urls, &resolution);
        world.run(&mut Fine, Duration::from_secs(1));
        assert_eq!(world.outcome("http://a.test/2499"), (Outcome::Unresolvable, reason));
        assert!(world.contacts.is_empty() && world.refreshes.is_empty());
        world.tell(&[format!("{A}/later")], &resolution);
        assert_eq!(world.outcome("http://a.test/later").0, Outcome::Unresolvable);
        world.tell(&[format!("{A}/resolved")], &addresses());
        world.finish(&mut Fine, HOUR);
        assert_eq!(world.outcome("http://a.test/resolved").0, Outcome::Fetched);
    }
}

/// A resolver that answers so often that it cannot, or not at all.
struct Resolver(Vec<Option<Resolution>>, usize);
impl Web for Resolver {
    fn resolve(&mut self, _: &str) -> Option<Resolution> {
        self.1 += 1;
        if self.0.is_empty() { None } else { self.0.remove(0) }
    }
}

#[test]
fn a_temporary_failure_to_resolve_is_tried_again() {
    let mut world = World::polite();
    world.tell(&[format!("{A}/x")], &Resolution::Temporary);
    world.finish(&mut Resolver(vec![Some(Resolution::Temporary), Some(addresses())], 0), HOUR);
    assert_eq!(world.outcome("http://a.test/x").0, Outcome::Fetched);
}

#[test]
fn name_servers_that_fail_are_given_up() {
    let mut world = World::polite();
    world.tell(&[format!("{A}/x")], &Resolution::Temporary);
    let mut resolver = Resolver(vec![Some(Resolution::Temporary); 9], 0);
    world.finish(&mut resolver, HOUR);
    assert_eq!(world.outcome("http://a.test/x"), (Outcome::Unresolvable, "name servers do not answer"));
    assert_eq!(resolver.1, 2);
}

#[test]
fn a_resolver_that_is_away_is_waited_for() {
    let mut world = World::polite();
    world.tell(&[format!("{A}/x")], &Resolution::Temporary);
    let mut resolver = Resolver(vec![None, None, None, None, None, Some(addresses())], 0);
    world.finish(&mut resolver, HOUR);
    assert_eq!((world.outcome("http://a.test/x").0, resolver.1), (Outcome::Fetched, 6));
}

#[test]
fn a_stale_address_is_refreshed_before_the_next_job() {
    let mut world = World::new(Settings { delay: Duration::from_secs(10), ..settings() });
    let stale = Resolution::Addresses { addresses: vec!["192.0.2.1".parse().unwrap()], ttl_s: 60 };
    let urls: Vec<_> = (0..30).map(|page| format!("{A}/{page}")).collect();
    world.tell(&urls, &stale);
    let mut resolver = Resolver(vec![None, Some(addresses())], 0);
    world.finish(&mut resolver, HOUR);
    assert_eq!(resolver.1, 2);
    assert_eq!(world.count("outcome_fetched_total"), 30);
}

#[test]
fn an_expired_lease_is_granted_again_once_and_costs_the_first_url_an_attempt() {
    let mut world = World::new(Settings { respect_robots: false, ..settings() });
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
fn a_url_that_kills_its_fetchers_fails() {
    let mut world = World::new(Settings { respect_robots: false, ..settings() });
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
    assert_eq!(world.outcome("http://a.test/0"), (Outcome::Failed, "lease expired"));
    assert_eq!(world.count("refetched_total"), 3);
}

#[test]
fn renewals_keep_a_long_job_and_its_partial_reports_count() {
    let mut world = World::new(Settings { respect_robots: false, ..settings() });
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
    let mut world = World::new(Settings { respect_robots: false, ..settings() });
    world.tell_pages(A, 3);
    world.ask(1);
    let report =
        Report { job: JobId { scheduler: 3, epoch: 1, number: 77 }, ..world.held[0].clone().report(false, false) };
    world.step(Some(Input::Report(Report { last: true, ..report.clone() })));
    assert!(world.inbox.is_empty());
    world.step(Some(Input::Report(report.clone())));
    assert_eq!(world.inbox.pop_front(), Some(ToFetcher::Revoked { job: report.job }));
    world.step(Some(Input::Report(Report { server: "http://unknown.test".into(), ..report.clone() })));
    assert_eq!(world.inbox.pop_front(), Some(ToFetcher::Revoked { job: report.job }));
    world.step(Some(Input::Report(Report { partition: 99, ..report })));
    assert!(world.inbox.is_empty());
    assert_eq!(world.count("in_flight"), 3);
}

#[test]
fn reports_may_come_twice_and_out_of_order() {
    let (delay, download_pause) = (Duration::ZERO, DownloadPause::default());
    let mut world = World::new(Settings { respect_robots: false, delay, download_pause, ..settings() });
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
    assert_eq!((world.count("outcome_fetched_total"), world.count("in_flight")), (3, 1));
    world.crash();
    world.step(Some(Input::Report(reports[1].clone())));
    assert_eq!(world.count("in_flight"), 1, "the job waits for the report that is missing");
    world.step(Some(Input::Report(reports[0].clone())));
    assert_eq!((world.count("outcome_fetched_total"), world.count("in_flight")), (4, 0));
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
    let mut world = World::new(Settings { respect_robots: false, ..settings() });
    world.tell_pages(A, 60);
    world.finish(&mut Short, HOUR);
    assert_eq!(world.count("jobs_granted_total"), 12);
    assert_eq!(world.count("outcome_fetched_total"), 60);
    let mut job_sizes = world.held.iter().map(|held| held.job.requests.len());
    assert_eq!(job_sizes.next(), None);
}

#[test]
fn a_request_lost_on_a_connection_that_has_served_costs_nothing_and_goes_first_on_the_next() {
    let mut world = World::new(Settings { respect_robots: false, ..settings() });
    world.tell_pages(A, 3);
    let mut reset = pages(|_, _| RequestEnd::Failure(FailureKind::Reset));
    world.ask(1);
    world.request(0, &mut Fine);
    world.pass(Duration::from_secs(1));
    world.request(0, &mut reset);
    let mut report = world.held.remove(0).report(true, true);
    // A page is reported when it is stored, which may be after the next request failed.
    report.results.swap(0, 1);
    world.step(Some(Input::Report(report)));
    assert_eq!((world.count("outcome_fetched_total"), world.count("retried_total")), (1, 0));

    world.pass(Duration::from_secs(1));
    world.ask(1);
    let requests = &world.held[0].job.requests;
    assert_eq!(requests.len(), 1, "what a connection serves");
    assert_eq!((requests[0].url.as_str(), requests[0].attempts), ("http://a.test/1", 0));
    world.request(0, &mut reset);
    let report = world.held.remove(0).report(true, false);
    world.step(Some(Input::Report(report)));
    assert_eq!(world.count("retried_total"), 1, "alone on its connection it counts");
}

#[test]
fn no_more_pages_are_asked_for_than_allowed() {
    let mut world = World::new(Settings { pages_max: 30, ..settings() });
    for server in ["http://a.test", "http://b.test", "http://c.test"] {
        world.tell_pages(server, 40);
    }
    let mut even = 0;
    let mut web = pages(|_, _| {
        even += 1;
        if even % 2 == 0 { response(200) } else { response(404) }
    });
    world.run(&mut web, HOUR);
    assert_eq!(world.count("outcome_fetched_total"), 30);
    assert_eq!(world.count("in_flight"), 0);
    assert!(world.count("waiting") > 0);
}

#[test]
fn repeated_batches_change_nothing() {
    let mut world = World::polite();
    let urls: Vec<_> = (0..20).map(|page| format!("{A}/{page}")).collect();
    let batch = world.batch(&urls, Some(&addresses()));
    let half = ReadyUrls { urls: urls[..10].iter().collect(), serials: batch.serials[..10].to_vec(), ..batch.clone() };
    for ready in [&half, &batch, &half, &batch] {
        world.step(Some(Input::Ready(ready.clone())));
        world.crash();
    }
    assert_eq!((world.count("new_total"), world.count("serials_repeated_total")), (20, 40));
    world.finish(&mut Fine, HOUR);
    world.step(Some(Input::Ready(batch)));
    assert_eq!(world.count("new_total"), 20);
}

#[test]
fn messages_that_make_no_sense_are_counted_and_ignored() {
    let mut world = World::owning(settings(), &[partition("a.test", 4)]);
    let batch = world.batch(&[format!("{A}/0"), format!("{A}/1"), format!("{A}/2")], Some(&addresses()));
    let odd = ReadyUrls { server_of: vec![0, 9], origin_of: vec![7, 0, 0], serials: vec![1], ..batch.clone() };
    world.step(Some(Input::Ready(odd)));
    assert_eq!((world.count("malformed_total"), world.count("new_total")), (3, 0));
    world.step(Some(Input::Ready(ReadyUrls { partition: 77, ..batch })));
    world.step(Some(Input::Errand(Errand::Wanted { url: "nonsense".into(), server: "x".into() })));
    world.step(Some(Input::Errand(Errand::Found { server: elsewhere(A), response: None })));
    assert_eq!((world.count("malformed_total"), world.count("foreign_total")), (4, 2));
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
    let mut world = World::new(Settings { respect_robots: false, ..settings() });
    world.tell_pages(A, 3);
    for _ in 0..5 {
        world.ask(1);
        assert_eq!(world.held.len(), 1);
        let report = world.held.remove(0).report(true, false);
        world.step(Some(Input::Report(report)));
        world.ask(1);
        assert!(world.held.is_empty());
        world.pass(Duration::from_millis(100));
        world.step(None);
    }
    world.finish(&mut Fine, HOUR);
    assert!(world.outcomes.values().all(|entry| entry.attempts == 1));
}

#[test]
fn a_server_that_hangs_up_before_every_request_is_dead_in_the_end() {
    let mut world = World::new(Settings { respect_robots: false, ..settings() });
    world.tell_pages(A, 3);
    for _ in 0..6 {
        world.ask(1);
        let mut held = world.held.remove(0);
        held.connected = true;
        world.step(Some(Input::Report(held.report(true, true))));
        world.pass(HOUR);
        if world.count("waiting") > 0 {
            world.step(None);
        }
    }
    assert_eq!(world.outcome("http://a.test/0"), (Outcome::Failed, "connection ended before a request"));
}

#[test]
fn state_of_partitions_that_are_not_owned_is_left_alone() {
    let mut world = World::polite();
    world.tell_pages(A, 3);
    let others: Vec<u16> = (0..4).filter(|&p| p != partition("a.test", 4)).collect();
    let core = Scheduler::open(settings(), 0, 9, &others, world.store.clone(), world.now).unwrap();
    assert_eq!(core.partitions.keys().copied().collect::<Vec<_>>(), others);
    assert_eq!(core.wake_at(), Some(Timestamp::ZERO));
    assert!(world.store.contains(crate::server::SERVERS, &world.core.key_of(server_of(A)).to_bytes()).unwrap());
}

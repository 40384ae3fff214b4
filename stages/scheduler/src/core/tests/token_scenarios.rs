//! Budgets that several schedulers share: of a registered domain, and of the crawl.

use super::two::Two;
use super::web::{Fine, pages, redirect, response, robots, robots_txt};
use super::world::World;
use crate::core::idle::Idle;
use crate::core::scheduler::Scheduler;
use crate::politeness::trouble::Trouble;
use crate::quota::Quota;
use crate::quota::ledger::{Claim, Holder, Ledger, Takes};
use crate::servers::server::Server;
use crate::settings::tests::{settings, with};
use proptest::prelude::*;
use rhumb_config::OverBudget;
use rhumb_stage::Core as _;
use rhumb_url::partition;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Outcome;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A server of example.test in a partition of that scheduler of two.
fn server(scheduler: u16, number: usize) -> String {
    let hosts = (0..).map(|n| format!("h{n}.example.test"));
    let host = hosts
        .filter(|host| partition(host, 4) % 2 == scheduler)
        .nth(number)
        .expect("there are enough");
    format!("http://{host}")
}

#[test]
fn a_domain_gives_as_many_pages_as_its_budget_over_all_its_hosts() {
    let mut world = World::new(with(|set| {
        set.limits.pages_per_domain = 10;
        set.politeness.respect_robots = false;
    }));
    for number in 0..4 {
        world.tell_pages(&server(0, number), 5);
        world.tell_pages(&server(1, number), 5);
    }
    world.tell_pages("http://elsewhere.test", 7);
    world.finish(&mut Fine, HOUR);
    assert_eq!(
        (
            world.count("outcome_fetched_total"),
            world.count("outcome_over_budget_total")
        ),
        (10 + 7, 30)
    );
    assert!(
        world
            .outcomes
            .values()
            .all(|entry| entry.outcome == Outcome::Fetched || entry.reason == "pages per domain")
    );
    assert_eq!(
        world.ledgers.entries, 3,
        "one that is alone takes all tokens of a domain at once"
    );
    // A domain that is not in play is still over its budget, after a crash too.
    world.crash();
    world.tell_pages("http://late.example.test", 2);
    assert_eq!(
        world.outcome("http://late.example.test/0"),
        (Outcome::OverBudget, "pages per domain")
    );
}

#[test]
fn what_is_in_flight_of_a_domain_is_reserved_and_comes_back_to_its_other_hosts() {
    let mut world = World::new(with(|set| {
        set.limits.pages_per_domain = 2;
        set.politeness.respect_robots = false;
    }));
    let first = server(0, 0);
    let second = server(1, 0);
    world.tell_pages(&first, 2);
    world.ask(2);
    world.tell_pages(&second, 2);
    world.ask(2);
    assert_eq!(
        world.held.len(),
        1,
        "two pages are in flight, no more are to be"
    );
    assert_eq!(
        world.core.why_idle(world.now, &second).unwrap(),
        Idle::BudgetReserved
    );
    world.run(
        &mut pages(|_, url| response(if url.starts_with(&first) { 404 } else { 200 })),
        20 * SECOND,
    );
    assert_eq!(
        (
            world.count("outcome_gone_total"),
            world.count("outcome_fetched_total")
        ),
        (2, 2)
    );
}

#[test]
fn urls_over_budget_wait_for_a_larger_one_when_they_are_to() {
    for per_host in [true, false] {
        let budget = |pages| match per_host {
            true => with(|set| {
                set.limits.pages_per_host = pages;
                set.limits.over_budget = OverBudget::Wait;
            }),
            false => with(|set| {
                set.limits.pages_per_domain = pages;
                set.limits.over_budget = OverBudget::Wait;
            }),
        };
        let mut world = World::new(budget(4));
        let server = server(0, 0);
        world.tell_pages(&server, 10);
        world.run(&mut Fine, HOUR);
        assert_eq!(
            (world.count("outcome_fetched_total"), world.count("waiting")),
            (4, 6)
        );
        assert_eq!(world.count("waiting_over_budget"), 6);
        let limit = if per_host {
            "pages per host"
        } else {
            "pages per domain"
        };
        assert_eq!(
            world.core.why_idle(world.now, &server).unwrap(),
            Idle::OverBudget(limit)
        );
        world.settings = budget(9);
        world.crash();
        world.run(&mut Fine, HOUR);
        assert_eq!(
            (
                world.count("outcome_fetched_total"),
                world.count("waiting_over_budget")
            ),
            (9, 1)
        );
        assert_eq!(world.count("outcome_over_budget_total"), 0);
    }
}

#[test]
fn two_schedulers_use_up_a_domain_s_budget_together() {
    let mut two = Two::new(with(|set| set.limits.pages_per_domain = 100));
    for number in 0..3 {
        two.worlds[0].tell_pages(&server(0, number), 30);
        two.worlds[1].tell_pages(&server(1, number), 30);
    }
    two.run(&mut Fine, 300);
    assert_eq!(
        (
            two.count("outcome_fetched_total"),
            two.count("outcome_over_budget_total")
        ),
        (100, 80)
    );
}

#[test]
fn tokens_go_from_one_that_does_not_need_them_to_one_that_does() {
    for crawl in [false, true] {
        let budget = match crawl {
            true => with(|set| set.limits.max_pages = 90),
            false => with(|set| set.limits.pages_per_domain = 90),
        };
        let mut two = Two::new(budget);
        two.run(&mut Fine, 2);
        // It takes more than it needs, and forgets it.
        two.worlds[1].tell_pages(&server(1, 0), 2);
        two.run(&mut Fine, 10);
        let tokens = |two: &Two| {
            let key = if crawl {
                "crawl"
            } else {
                "domain.example.test"
            };
            Ledger::parse(&two.ledgers.texts[key])
                .unwrap()
                .held(Holder {
                    instance: 1,
                    birth: 1,
                })
        };
        assert!(tokens(&two) > 2, "{:?}", two.ledgers);
        two.worlds[1].crash();
        two.worlds[0].tell_pages(&server(0, 0), 200);
        two.run(&mut Fine, 300);
        assert_eq!(two.count("outcome_fetched_total"), 90, "{:?}", two.ledgers);
        assert_eq!(tokens(&two), 2);
        assert!(
            crawl
                || two
                    .worlds
                    .iter()
                    .all(|world| world.core.servers.shares().is_empty()),
            "nothing is in play"
        );
        assert_eq!(two.count("waiting"), if crawl { 112 } else { 0 });
    }
}

#[test]
fn a_crash_between_a_question_and_its_answer_loses_no_token() {
    let mut two = Two::new(with(|set| set.limits.pages_per_domain = 20));
    for _ in 0..10 {
        let n = two.worlds[0].told.len();
        for number in [0, 1] {
            two.worlds[0].tell(
                &[format!("{}/more{n}", server(0, number))],
                &super::web::addresses(),
            );
        }
        two.worlds[0].ask(3);
        for claim in std::mem::take(&mut two.worlds[0].claims) {
            two.ledgers.enter(&claim);
        }
        two.worlds[0].crash();
        two.run(&mut Fine, 3);
    }
    two.worlds[1].tell_pages(&server(1, 0), 40);
    two.run(&mut Fine, 100);
    assert_eq!(
        (
            two.count("outcome_fetched_total"),
            two.count("outcome_over_budget_total")
        ),
        (20, 40)
    );
}

/// Goal: an owner that takes its lapsed lease again is not ignored by a ledger that another process
/// entered in between.
#[test]
fn an_owner_that_takes_its_lease_again_asks_the_ledgers_and_grants_under_its_new_epoch() {
    let mut two = Two::new(with(|set| set.limits.pages_per_domain = 10));
    let quota = Quota::Domain("example.test".to_owned());
    let between = Claim {
        quota: quota.clone(),
        max: 10,
        holder: Holder {
            instance: 0,
            birth: 1,
        },
        epoch: 7,
        number: 0,
        spent: 1,
        in_use: 0,
        counts_on: 0,
        wanted: 0,
        keeps: 0,
        takes: Takes::Missing,
        may_change: true,
        known: Vec::new(),
        since: 0,
        gone: Vec::new(),
    };
    two.ledgers.enter(&between);
    two.worlds[0].core.owned_since(8);
    two.worlds[0].tell_pages(&server(0, 0), 3);
    assert!(
        two.worlds[0].claims.iter().all(|claim| claim.epoch == 8)
            && !two.worlds[0].claims.is_empty()
    );
    for _ in 0..2 {
        two.exchange();
        two.worlds.iter_mut().for_each(|world| world.pass(SECOND));
        two.worlds.iter_mut().for_each(|world| world.step(None));
    }
    two.worlds[0].ask(1);
    assert_eq!(
        two.worlds[0]
            .held
            .iter()
            .map(|held| held.job.id.epoch)
            .collect::<Vec<_>>(),
        [8]
    );
}

#[test]
fn without_an_answer_the_ledger_is_asked_again() {
    let mut two = Two::new(with(|set| set.limits.pages_per_domain = 20));
    two.worlds[0].tell_pages(&server(0, 0), 2);
    for _ in 0..3 {
        let claim = two.worlds[0].claims.pop().expect("a question");
        two.worlds[0].answer(claim.unanswered());
        assert!(two.worlds[0].claims.is_empty(), "not at once");
        two.worlds[0].run(&mut Fine, 2 * SECOND);
    }
    two.run(&mut Fine, 10);
    assert_eq!(two.count("outcome_fetched_total"), 2);
}

#[test]
fn an_errand_for_another_scheduler_needs_no_token() {
    let mut two = Two::new(with(|set| set.limits.max_pages = 100));
    for world in &mut two.worlds {
        world.settings.politeness.respect_robots = true;
        world.crash();
    }
    let a = server(0, 0);
    let b = server(1, 0);
    let mut web = robots_txt(|_, url: &str| {
        if url.starts_with(&a) {
            redirect(&format!("{b}/robots.txt"))
        } else {
            robots(404, "")
        }
    });
    two.worlds[0].tell_pages(&a, 3);
    two.run(&mut web, 4 * 3600);
    assert_eq!(
        two.count("outcome_fetched_total"),
        3,
        "{:?}",
        two.worlds[1].contacted()
    );
}

#[test]
fn tokens_are_not_kept_for_urls_over_the_budget_of_their_host() {
    for crawl in [false, true] {
        let budget = with(|set| {
            set.limits.pages_per_host = 2;
            set.limits.over_budget = OverBudget::Wait;
        });
        let mut two = Two::new(match crawl {
            false => {
                let mut set = budget;
                set.limits.pages_per_domain = 20;
                set
            }
            true => {
                let mut set = budget;
                set.limits.max_pages = 20;
                set
            }
        });
        two.worlds[0].tell_pages(&server(0, 0), 50);
        two.run(&mut Fine, 30);
        for number in 0..12 {
            two.worlds[1].tell_pages(&server(1, number), 5);
        }
        two.run(&mut Fine, 600);
        let left = two.count("waiting") - two.count("waiting_over_budget");
        assert_eq!(
            (
                two.count("outcome_fetched_total"),
                if crawl { 0 } else { left }
            ),
            (20, 0),
            "crawl {crawl} {:?}",
            two.ledgers
        );
    }
}

#[test]
fn a_budget_of_the_crawl_that_a_resumed_run_brings_is_kept() {
    let mut two = Two::new(settings());
    two.worlds[0].tell_pages(&server(0, 0), 30);
    two.worlds[1].tell_pages(&server(1, 0), 30);
    two.run(&mut Fine, 200);
    assert_eq!(two.count("outcome_fetched_total"), 60);
    for world in &mut two.worlds {
        world.settings.limits.max_pages = 70;
        world.crash();
    }
    two.worlds[0].tell_pages(&server(0, 1), 200);
    two.run(&mut Fine, 600);
    assert_eq!(two.count("outcome_fetched_total"), 70, "{:?}", two.ledgers);
}

#[test]
fn a_budget_that_was_lowered_under_what_was_in_flight_is_kept() {
    let mut two = Two::new(with(|set| set.limits.pages_per_domain = 200));
    two.worlds[0].tell_pages(&server(0, 0), 60);
    two.run(&mut Fine, 8);
    two.worlds[0].tell_pages(&server(0, 1), 5);
    let world = &mut two.worlds[0];
    assert!(world.count("outcome_fetched_total") < 10 && world.count("in_flight") > 30);
    world.held.clear();
    let lower = {
        let mut set = world.settings.clone();
        set.limits.pages_per_domain = 10;
        set
    };
    world.core =
        Scheduler::open(lower, 0, 1000, &world.owned, world.store.clone(), world.now).unwrap();
    world.claims.clear();
    two.run(&mut Fine, 300);
    assert!(
        two.count("outcome_fetched_total") <= 10,
        "{} {:?}",
        two.count("outcome_fetched_total"),
        two.ledgers
    );
}

#[test]
fn a_held_server_gets_a_token_when_the_one_that_used_the_others_up_has_no_more_urls() {
    let mut two = Two::new(with(|set| set.limits.pages_per_domain = 3));
    two.worlds[1].tell_pages(&server(1, 0), 2);
    two.run(&mut Fine, 1);
    two.worlds[1].tell_pages(&server(1, 1), 1);
    two.run(&mut Fine, 600);
    assert_eq!(
        (two.count("outcome_fetched_total"), two.count("waiting")),
        (3, 0),
        "{:?}",
        two.ledgers
    );
}

#[test]
fn schedulers_that_both_lack_tokens_do_not_call_each_other_without_a_pause() {
    let mut two = Two::new(with(|set| set.limits.max_pages = 4));
    for me in [0u16, 1] {
        for number in 0..4 {
            two.worlds[usize::from(me)].tell_pages(&server(me, number), 5);
        }
    }
    for _ in 0..10 {
        // Jobs are granted, and nobody works on them.
        for world in &mut two.worlds {
            world.pass(SECOND);
            world.step(None);
            world.ask(9);
        }
        two.exchange();
    }
}

/// Scheduler 0 has the token of the domain, scheduler 1 the last one of the crawl; both have URLs
/// of the domain.
#[test]
fn two_budgets_do_not_wait_for_each_other() {
    let mut two = Two::new(with(|set| {
        set.limits.max_pages = 8;
        set.limits.pages_per_domain = 1;
    }));
    two.worlds[1].tell_pages(&server_of_domain(1, 0, 0), 1);
    two.run(&mut Fine, 5);
    for domain in 1..=6 {
        two.worlds[0].tell_pages(&server_of_domain(0, domain, 0), 1);
    }
    two.run(&mut Fine, 30);
    assert_eq!(two.count("outcome_fetched_total"), 7);
    two.worlds[0].tell_pages(&server_of_domain(0, 7, 0), 1);
    two.worlds[1].tell_pages(&server_of_domain(1, 7, 0), 1);
    two.run(&mut Fine, 600);
    assert_eq!(two.count("outcome_fetched_total"), 8, "{:?}", two.ledgers);
}

#[test]
fn questions_out_at_once_are_few() {
    let mut two = Two::new(with(|set| set.limits.pages_per_domain = 3));
    for domain in 0..500 {
        two.worlds[0].tell_pages(&server_of_domain(0, domain, 0), 1);
    }
    assert!(
        two.worlds[0].claims.len() < 300,
        "{} questions are out",
        two.worlds[0].claims.len()
    );
}

#[test]
fn a_server_that_was_tried_in_vain_is_no_stranger() {
    let now = Timestamp::from_micros(1_000_000);
    let settings = with(|set| set.scheduler.server_failures_max = 1);
    let mut server = Server::new("http://a.test");
    server.set_aside(now, Trouble::Timeout, None, &settings);
    let by_failure = server.is_stranger();
    let settings = {
        let mut set = settings;
        set.scheduler.attempts = 1;
        set
    };
    let mut server = Server::new("http://a.test");
    server.robots.failed(now, &settings);
    assert_eq!((by_failure, server.is_stranger()), (false, false));
}

/// The server of domain d that belongs to a scheduler.
fn server_of_domain(scheduler: u16, domain: usize, number: usize) -> String {
    let hosts = (0..).map(|n| format!("h{n}.d{domain}.test"));
    let host = hosts
        .filter(|host| partition(host, 4) % 2 == scheduler)
        .nth(number)
        .expect("there are enough");
    format!("http://{host}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]
    #[test]
    fn two_schedulers_never_stall(
        loads in proptest::collection::vec((0u16..2, 0usize..3, 0usize..3, 1usize..8), 1..12),
        pages_max in 1u64..20,
        pages_per_domain in 1u64..10,
        wait: bool,
    ) {
        let mut two = Two::new(with(|set| {
            set.limits.max_pages = pages_max;
            set.limits.pages_per_domain = pages_per_domain;
            set.politeness.delay = Duration::from_millis(100);
            set.limits.over_budget = if wait { OverBudget::Wait } else { OverBudget::End };
        }));
        for (n, (scheduler, domain, number, urls)) in loads.into_iter().enumerate() {
            let server = server_of_domain(scheduler, domain, number);
            let urls: Vec<_> = (0..urls).map(|page| format!("{server}/{n}/{page}")).collect();
            two.worlds[usize::from(scheduler)].tell(&urls, &super::web::addresses());
            two.run(&mut Fine, 1);
        }
        two.run(&mut Fine, 60);
        let fetched = two.count("outcome_fetched_total");
        let left = two.count("waiting") - two.count("waiting_over_budget");
        prop_assert!(fetched <= pages_max);
        prop_assert!(fetched == pages_max || left == 0 && two.count("in_flight") == 0,
            "fetched {fetched} of {pages_max}, {left} wait: {:?}", two.ledgers);
    }
}

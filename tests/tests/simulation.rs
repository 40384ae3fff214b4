//! Ring 2: all cores but the archiver's over a broker in memory, in simulated time, under checks of
//! P1 to P5 and P7 in every step. In a good third of the runs with faults partitions of dedup and
//! scheduler move from instance to instance; in a third name servers die for a while, in half the
//! wall clocks of machines jump.
//!
//! `RHUMB_SIMULATION_SEEDS` is how many seeds run with faults; `RHUMB_SIMULATION_FIRST` the first
//! of them. `RHUMB_SIMULATION_SEED=n` replays seed n, of runs with faults or
//! (`RHUMB_SIMULATION_FAULTS=0`) of those without, and writes every step to standard error;
//! `RHUMB_SIMULATION_BUDGET=1` those with a budget of pages, `RHUMB_SIMULATION_GROUPS=1` those with
//! groups of hosts, `RHUMB_SIMULATION_VISITS=1` those in which pages are visited again,
//! `RHUMB_SIMULATION_DEAFNESS=1` those in which schedulers cannot hear, `RHUMB_SIMULATION_COPIES=1`
//! those in which the broker is restored from an earlier copy of its store,
//! `RHUMB_SIMULATION_FAULTS=2` those in which no server can be reached for a while. With this last
//! one, with a budget, with groups, and with visits, the first two say which of these seeds are
//! run.

use rhumb_tests::simulation::{Ended, Plan, run};

/// Seeds of runs without faults.
const SEEDS: u64 = 20;
/// Seeds of runs with faults.
const SEEDS_WITH_FAULTS: u64 = 1500;
/// Seeds of runs with faults and a budget of pages per host, or per domain.
const SEEDS_WITH_BUDGET: u64 = 200;
/// Seeds of runs with faults and groups of hosts.
const SEEDS_WITH_GROUPS: u64 = 300;
/// Seeds of runs with faults in which pages are visited again.
const SEEDS_WITH_VISITS: u64 = 150;
/// Seeds of runs in which no server can be reached for a while.
const SEEDS_WITH_A_CUT_WEB: u64 = 40;
/// Seeds of runs in which schedulers cannot hear for a while.
const SEEDS_WITH_DEAFNESS: u64 = 100;

/// Seeds of runs in which the broker is restored from an earlier copy of its store.
const SEEDS_WITH_COPIES: u64 = 200;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|error| panic!("{variable}={text}: {error}")),
    )
}

/// Runs the seeds on all processors; panics with every run that failed.
fn run_all(seeds: std::ops::Range<u64>, plan: fn(u64) -> Plan) -> Vec<Ended> {
    let next = std::sync::atomic::AtomicU64::new(seeds.start);
    // They keep all processors busy, and give way to crawls that wait for their peers.
    let _ = rustix::process::nice(19);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let worker = || {
        let mut ended = Vec::new();
        loop {
            let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if seed >= seeds.end {
                return ended;
            }
            // A core that panics breaks P9; the seed must be known.
            let outcome = std::panic::catch_unwind(|| run(&plan(seed), false));
            ended.push(outcome.unwrap_or_else(|_| panic!("seed {seed} panicked")));
        }
    };
    let ended: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a seed panicked; it is named above"))
            .collect()
    });
    let failures: Vec<String> = ended
        .iter()
        .filter_map(|run| Some(run.as_ref().err()?.to_string()))
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {} runs failed\n{}",
        failures.len(),
        ended.len(),
        failures.join("\n")
    );
    let ended: Vec<Ended> = ended.into_iter().flatten().collect();
    let sum = |of: fn(&Ended) -> u64| ended.iter().map(of).sum::<u64>();
    println!(
        "{} runs: {} steps, {} simulated s, {} URLs, {} pages fetched, {} requests, {} pages \
         served again, {} visits, {} URLs over budget, {} crashes, {} partitions moved, {} split, \
         {} commits of \
         several steps, {} such batches lost in a crash, {} entries into ledgers",
        ended.len(),
        sum(|e| e.steps),
        sum(|e| e.seconds),
        sum(|e| e.urls as u64),
        sum(|e| e.fetched as u64),
        sum(|e| e.contacts),
        sum(|e| e.refetched),
        sum(|e| e.visits),
        sum(|e| e.over_budget as u64),
        sum(|e| e.crashes),
        sum(|e| e.moved),
        sum(|e| e.halved),
        sum(|e| e.batches),
        sum(|e| e.batches_lost),
        sum(|e| e.entries),
    );
    ended
}

#[test]
fn a_crawl_without_faults_fetches_each_page_once_and_politely() {
    let ended = run_all(0..SEEDS, Plan::without_faults);
    assert!(
        ended
            .iter()
            .all(|run| run.refetched == 0 && run.crashes == 0)
    );
    assert!(ended.iter().any(|run| run.fetched > 100));
}

#[test]
fn the_promises_hold_under_losses_repeats_delays_and_crashes() {
    let first = number("RHUMB_SIMULATION_FIRST").unwrap_or(0);
    let seeds = number("RHUMB_SIMULATION_SEEDS").unwrap_or(SEEDS_WITH_FAULTS);
    let ended = run_all(first..first + seeds, Plan::with_faults);
    assert!(seeds < 30 || ended.iter().any(|run| run.not_modified > 0));
    // The faults were there: a simulation in which nothing goes wrong shows nothing.
    assert!(ended.iter().any(|run| run.crashes > 3));
    assert!(seeds < 30 || ended.iter().any(|run| run.unanswered > 10));
    // Several inputs were one batch, and processes died before they had committed it.
    assert!(ended.iter().map(|run| run.batches).sum::<u64>() > 10 * seeds);
    assert!(seeds < 30 || ended.iter().any(|run| run.batches_lost > 0));
    // Partitions moved, in some runs there and back, and were split.
    assert!(seeds < 30 || ended.iter().any(|run| run.moved > 8 && run.halved > 2));
}

/// Goal: time in which a scheduler cannot hear does not count against the jobs that are out.
/// Method: it stands still, or has no connection, or the broker is away, for up to ten times as
/// long as a job's lease; next to nothing is served twice.
#[test]
fn what_was_fetched_while_a_scheduler_could_not_hear_is_not_fetched_again() {
    let ended = run_all(0..SEEDS_WITH_DEAFNESS, Plan::with_deafness);
    let repeats: u64 = ended.iter().map(|run| run.refetched).sum();
    assert_eq!(repeats, 0);
    // They were deaf for longer than a lease.
    assert!(ended.iter().filter(|run| run.seconds > 60).count() > 50);
}

/// Goal: a network that is cut is not held against servers. Method: all of them are out of reach
/// for longer than it takes to give up each; every URL ends as the web has it.
#[test]
fn a_web_that_is_out_of_reach_for_a_while_comes_to_the_same() {
    let chosen =
        |variable| number(variable).filter(|_| number("RHUMB_SIMULATION_FAULTS") == Some(2));
    let first = chosen("RHUMB_SIMULATION_FIRST").unwrap_or(0);
    let seeds = chosen("RHUMB_SIMULATION_SEEDS").unwrap_or(SEEDS_WITH_A_CUT_WEB);
    let ended = run_all(first..first + seeds, Plan::with_a_cut_web);
    assert!(ended.iter().all(|run| run.seconds > 300));
}

#[test]
fn no_host_or_domain_gives_more_pages_than_its_budget_and_none_gives_fewer_than_it_can() {
    let ended = run_all(0..SEEDS, |seed| Plan::without_faults(seed).with_budget());
    assert!(ended.iter().all(|run| run.refetched == 0));
    assert!(ended.iter().any(|run| run.over_budget > 20));
    let chosen =
        |variable| number(variable).filter(|_| number("RHUMB_SIMULATION_BUDGET") == Some(1));
    let first = chosen("RHUMB_SIMULATION_FIRST").unwrap_or(0);
    let seeds = chosen("RHUMB_SIMULATION_SEEDS").unwrap_or(SEEDS_WITH_BUDGET);
    let ended = run_all(first..first + seeds, |seed| {
        Plan::with_faults(seed).with_budget()
    });
    assert!(
        ended
            .iter()
            .any(|run| run.over_budget > 20 && run.crashes > 3)
    );
}

/// Goal: the limits and delays of groups and addresses hold over all schedulers, while partitions
/// move between them and processes die. Method: every grant and every contact is compared with all
/// others, whoever granted them.
#[test]
fn groups_are_left_in_peace_by_all_schedulers_together() {
    let ended = run_all(0..SEEDS, |seed| Plan::without_faults(seed).with_groups());
    assert!(ended.iter().all(|run| run.refetched == 0));
    assert!(ended.iter().any(|run| run.entries == 0) && ended.iter().any(|run| run.entries > 20));
    let chosen =
        |variable| number(variable).filter(|_| number("RHUMB_SIMULATION_GROUPS") == Some(1));
    let first = chosen("RHUMB_SIMULATION_FIRST").unwrap_or(0);
    let seeds = chosen("RHUMB_SIMULATION_SEEDS").unwrap_or(SEEDS_WITH_GROUPS);
    let ended = run_all(first..first + seeds, |seed| {
        Plan::with_faults(seed).with_groups()
    });
    assert!(
        ended
            .iter()
            .any(|run| run.moved > 8 && run.entries > 50 && run.crashes > 3)
    );
}

/// Goal: pages are visited again as often as was asked for, under all promises, while partitions
/// move and split and processes die. Method: each page has two to four visits, by any policy; a
/// third of the pages change with each look.
#[test]
fn pages_are_visited_again_under_the_same_promises() {
    let ended = run_all(0..SEEDS, |seed| Plan::without_faults(seed).with_visits());
    assert!(ended.iter().all(|run| run.visits > 0));
    let chosen =
        |variable| number(variable).filter(|_| number("RHUMB_SIMULATION_VISITS") == Some(1));
    let first = chosen("RHUMB_SIMULATION_FIRST").unwrap_or(0);
    let seeds = chosen("RHUMB_SIMULATION_SEEDS").unwrap_or(SEEDS_WITH_VISITS);
    let ended = run_all(first..first + seeds, |seed| {
        Plan::with_faults(seed).with_visits()
    });
    assert!(
        ended
            .iter()
            .any(|run| run.moved > 8 && run.halved > 2 && run.visits > 50 && run.crashes > 3)
    );
}

#[test]
fn a_broker_that_lost_its_tail_ends_in_a_refusal_or_in_a_whole_crawl() {
    let first = number("RHUMB_SIMULATION_FIRST").unwrap_or(0);
    let ended = run_all(first..first + SEEDS_WITH_COPIES, |seed| {
        Plan::with_faults(seed).with_copies()
    });
    let refused = ended.iter().filter(|run| run.refusal.is_some()).count();
    println!("{refused} runs refused");
    assert!(
        refused > 0 && refused < ended.len(),
        "{refused} of {} runs refused",
        ended.len()
    );
}

#[test]
fn a_seed_replays_its_run_step_for_step() {
    let runs = [0, 1]
        .map(|_| run(&Plan::with_faults(3), false).map(|ended| (ended.steps, ended.contacts)));
    let [first, second] = runs.map(|run| run.map_err(|failure| failure.to_string()));
    assert_eq!(first, second);
}

#[test]
fn the_seed_that_is_asked_for_is_replayed_with_a_trace() {
    let Some(seed) = number("RHUMB_SIMULATION_SEED") else {
        return;
    };
    let plan = match (
        number("RHUMB_SIMULATION_FAULTS"),
        number("RHUMB_SIMULATION_DEAFNESS"),
    ) {
        (Some(0), _) => Plan::without_faults,
        (_, Some(1)) => Plan::with_deafness,
        (Some(2), _) => Plan::with_a_cut_web,
        _ => Plan::with_faults,
    };
    let plan = if number("RHUMB_SIMULATION_BUDGET") == Some(1) {
        plan(seed).with_budget()
    } else {
        plan(seed)
    };
    let plan = if number("RHUMB_SIMULATION_GROUPS") == Some(1) {
        plan.with_groups()
    } else {
        plan
    };
    let plan = if number("RHUMB_SIMULATION_VISITS") == Some(1) {
        plan.with_visits()
    } else {
        plan
    };
    let plan = if number("RHUMB_SIMULATION_COPIES") == Some(1) {
        plan.with_copies()
    } else {
        plan
    };
    match run(&plan, true) {
        Ok(ended) => println!("seed {seed}: {ended:?}"),
        Err(failure) => panic!("{failure}"),
    }
}

//! Every stage is scaled while a crawl runs: partitions of dedup and scheduler move with their
//! state, and the crawl ends with exactly the web's truth.

use rhumb_tests::harness::{Running, World, assert_conserved, assert_manners, signal};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use synthetic_web::{Hostility, Latency, PagesPerHost, Profile, RobotsShares};

const MINUTE: Duration = Duration::from_secs(60);

/// How many partitions each instance of a stage has, by the table of owners.
fn partitions(crawl: &Running, stage: &str) -> Vec<usize> {
    let said = crawl.rhumb(&["partitions", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for line in said.out.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        if line["stage"] == stage {
            *counts
                .entry(line["owner"].as_u64().expect("an owner"))
                .or_default() += 1;
        }
    }
    counts.into_values().collect()
}

fn scale(crawl: &Running, to: &[&str]) -> String {
    let said = crawl.rhumb(&[&["scale"], to].concat());
    assert_eq!(said.code, 0, "{}{}\n{}", said.out, said.err, crawl.log());
    said.out
}

/// Asserts that all owners tell what their partitions have and do.
fn assert_figures(crawl: &Running) {
    let tried_until = Instant::now() + MINUTE / 2;
    let sums = loop {
        // Stage by stage: URLs, bytes, URLs a second; none while a partition's owner does not
        // answer, or has just begun.
        let mut sums = Some(BTreeMap::<String, [f64; 3]>::new());
        for line in crawl.rhumb(&["partitions", "--json"]).out.lines() {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let figures = ["urls", "bytes", "urls_per_s"].map(|figure| line[figure].as_f64());
            let [Some(urls), Some(bytes), Some(rate)] = figures else {
                sums = None;
                break;
            };
            let stage = line["stage"].as_str().expect("a stage").to_owned();
            if let Some(sums) = &mut sums {
                let sum = sums.entry(stage).or_default();
                *sum = [sum[0] + urls, sum[1] + bytes, sum[2] + rate];
            }
        }
        match sums {
            Some(sums) => break sums,
            None => assert!(
                Instant::now() < tried_until,
                "{}",
                crawl.rhumb(&["partitions"]).out
            ),
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    for stage in ["dedup", "scheduler"] {
        let [urls, bytes, rate] = sums[stage];
        assert!(
            (1500.0..6001.0).contains(&urls) && bytes > 0.0 && rate > 0.0,
            "{stage}: {sums:?}"
        );
    }
}

fn slow(hosts: u32, pages: u32) -> World {
    World::new(Profile {
        hosts,
        pages_per_host: PagesPerHost::Exactly(pages),
        latency: Latency::Fixed { ms: 60 },
        ..Profile::raw()
    })
}

#[test]
fn every_stage_is_scaled_to_three_and_back_and_nothing_is_lost() {
    let world = slow(60, 100);
    let mut crawl = world.crawl().set("stages.fetcher.connections=6").start();
    crawl.until(MINUTE, |summary| summary.pages > 200);
    let all = [
        "host-splitter=3",
        "dedup=3",
        "resolver=3",
        "scheduler=3",
        "fetcher=3",
        "parser=3",
    ];
    let said = scale(&crawl, &all);
    assert!(said.contains("dedup 1 → 3: 42 partitions move"), "{said}");
    for stage in ["dedup", "scheduler"] {
        assert_eq!(partitions(&crawl, stage), [22, 21, 21], "{stage}");
        assert_eq!(crawl.pids(stage).len(), 3);
    }
    assert!(!crawl.has_ended(), "the crawl was too short to be scaled");
    crawl.until(MINUTE, |summary| summary.pages > 1500);
    assert_eq!(crawl.violations(), [""; 0]);
    assert_figures(&crawl);
    let back = [
        "host-splitter=1",
        "dedup=1",
        "resolver=1",
        "scheduler=1",
        "fetcher=1",
        "parser=1",
    ];
    scale(&crawl, &back);
    assert!(
        !crawl.has_ended(),
        "the crawl was too short to be scaled back"
    );
    for stage in ["dedup", "scheduler"] {
        assert_eq!(partitions(&crawl, stage), [64], "{stage}");
    }
    let finished = crawl.finish(3 * MINUTE);
    world.assert_whole(&finished);
    assert_conserved(&finished.summary);
    assert_manners(&world.web.report());
}

/// Goal: a group of hosts is left in peace by all schedulers together while they become three and
/// one again. Method: all hosts of the web are of one registered domain; the web counts
/// connections, and measures the time between requests.
#[test]
fn a_group_is_left_in_peace_while_its_schedulers_are_scaled() {
    let world = slow(12, 25);
    let group = "politeness.groups=[{by: registered-domain, delay: 100ms}]";
    let lease = [
        "stages.scheduler.job_lease=6s",
        "stages.fetcher.renew_every=2s",
    ];
    let set = [
        group,
        "politeness.delay=0s",
        "stages.fetcher.connections=6",
        lease[0],
        lease[1],
    ];
    let mut crawl = set
        .iter()
        .fold(world.crawl(), |crawl, set| crawl.set(set))
        .start();
    crawl.until(MINUTE, |summary| summary.pages > 30);
    scale(&crawl, &["scheduler=3"]);
    crawl.until(2 * MINUTE, |summary| summary.pages > 100);
    assert_eq!(partitions(&crawl, "scheduler"), [22, 21, 21]);
    scale(&crawl, &["scheduler=1"]);
    assert!(
        !crawl.has_ended(),
        "the crawl was too short to be scaled back"
    );
    let finished = crawl.finish(4 * MINUTE);
    world.assert_whole(&finished);
    let report = world.web.report();
    assert_manners(&report);
    assert_eq!(report.connections_at_once, 1);
    let closest = report.closest_of_all_ms.expect("requests");
    assert!(
        closest >= 95.0,
        "two requests to the group came {closest} ms one after the other"
    );
}

/// Goal: a robots.txt that expires while its server's partition moves is asked for anew and obeyed
/// (P5), and errands between schedulers reach whoever has the partition. Method: rules lapse after
/// ten seconds; every second host has those of the first one, which its scheduler asks the other
/// scheduler for; partitions go to and fro all the time.
#[test]
fn rules_lapse_and_errands_are_on_their_way_while_partitions_move() {
    const LIFETIME: Duration = Duration::from_secs(10);
    let world = World::new(Profile {
        hosts: 40,
        pages_per_host: PagesPerHost::Exactly(60),
        latency: Latency::Fixed { ms: 150 },
        robots: RobotsShares {
            rules: 1.0,
            missing: 0.0,
            disallowed_pages: 0.2,
            crawl_delay: 0.0,
            crawl_delay_ms: 0,
        },
        hostile: 0.5,
        hostilities: vec![Hostility::RobotsElsewhere],
        ..Profile::raw()
    });
    let lease = [
        "stages.scheduler.job_lease=6s",
        "stages.fetcher.renew_every=1s",
    ];
    let set = [
        "politeness.robots_lifetime=10s",
        "stages.fetcher.connections=14",
        lease[0],
        lease[1],
    ];
    let mut crawl = set
        .iter()
        .fold(world.crawl(), |crawl, set| crawl.set(set))
        .start();
    crawl.until(MINUTE, |summary| summary.pages > 30);
    let tap = crawl.tap("errands");
    let mut moves = 0;
    let mut moves_with_errands = 0;
    while !crawl.has_ended() && moves < 6 {
        let before = tap.bytes();
        let to = ["scheduler=2", "scheduler=1"][moves % 2];
        let said = crawl.rhumb(&["scale", to]);
        moves += usize::from(said.code == 0);
        moves_with_errands += usize::from(said.code == 0 && tap.bytes() > before);
        assert!(
            said.code == 0 || crawl.has_ended(),
            "{}{}",
            said.out,
            said.err
        );
    }
    let finished = crawl.finish(2 * MINUTE);
    world.assert_whole(&finished);
    assert!(
        moves >= 3 && moves_with_errands >= 2,
        "{moves} moves, {moves_with_errands} with errands"
    );
    let errands = tap.lines();
    assert!(
        errands.iter().any(|line| line.contains("robots.txt")),
        "{errands:?}"
    );
    let oldest = oldest_rules(&world);
    assert!(
        oldest <= LIFETIME + RULES_LATE_MAX,
        "a page was fetched under rules of {oldest:?} before"
    );
    let report = world.web.report();
    assert!(
        report.robots_requests > 3 * 40,
        "{} requests for robots.txt",
        report.robots_requests
    );
    assert_eq!(report.hosts_without_robots_first, 0);
}

/// What a fetcher may take longer to hear that rules have lapsed: until its next renewal, and a
/// request in hand.
const RULES_LATE_MAX: Duration = Duration::from_secs(2);

/// The longest time between a request for a page and the last one for the robots.txt of its host
/// before.
fn oldest_rules(world: &World) -> Duration {
    let mut contacts = world.web.contacts();
    contacts.sort_by_key(|contact| (contact.host, contact.at));
    let mut oldest = Duration::ZERO;
    let mut asked = BTreeMap::new();
    for contact in contacts {
        if contact.url.ends_with("/robots.txt") {
            asked.insert(contact.host, contact.at);
        } else {
            oldest = oldest.max(contact.at - asked.get(&contact.host).copied().unwrap_or_default());
        }
    }
    oldest
}

#[test]
fn kills_in_the_middle_of_moves_lose_nothing() {
    let world = slow(40, 100);
    let mut crawl = world
        .crawl()
        .set("stages.fetcher.connections=6")
        .set("ownership_lease=2s")
        .start();
    crawl.until(MINUTE, |summary| summary.pages > 200);
    for (round, to) in [3, 2, 3, 1].into_iter().enumerate() {
        if crawl.has_ended() {
            break;
        }
        // Nobody waits for it: the kills come while it is under way.
        let stages = [format!("dedup={to}"), format!("scheduler={to}")];
        let scaling = std::thread::scope(|scope| {
            let scaling = scope.spawn(|| crawl.rhumb(&["scale", &stages[0], &stages[1]]));
            for pause in [300, 700, 900] {
                std::thread::sleep(Duration::from_millis(pause + 100 * round as u64));
                let stage = if pause == 700 { "scheduler" } else { "dedup" };
                crawl.pids(stage).iter().for_each(|pid| kill(*pid));
            }
            scaling.join().expect("a command")
        });
        assert!(
            scaling.code == 0 || crawl.log().contains("stopped"),
            "{}{}",
            scaling.out,
            scaling.err
        );
    }
    let finished = crawl.finish(4 * MINUTE);
    world.assert_counted(&finished);
    assert_conserved(&finished.summary);
}

#[test]
fn a_crawl_goes_on_with_other_replicas_and_an_operator_moves_a_partition() {
    let world = slow(20, 60);
    let mut crawl = world.crawl().set("stages.fetcher.connections=6").start();
    crawl.until(MINUTE, |summary| summary.pages > 200);
    crawl.signal(Signal::TERM);
    assert_eq!(crawl.exit_code(MINUTE), 130);

    let replicas = ["stages.dedup.replicas=2", "stages.scheduler.replicas=3"];
    let mut crawl = replicas
        .iter()
        .fold(world.resume(), |crawl, set| crawl.set(set))
        .start();
    crawl.until(MINUTE, |summary| summary.pages > 400);
    let refused = crawl.rhumb(&["move", "3", "--to", "dedup.2"]);
    assert!(
        refused.code == 2 && refused.err.contains("dedup has 2 instances"),
        "{}",
        refused.err
    );
    let moved = crawl.rhumb(&["move", "3", "--to", "dedup.1"]);
    assert_eq!(moved.code, 0, "{}{}", moved.out, moved.err);
    let even = || {
        (partitions(&crawl, "dedup"), partitions(&crawl, "scheduler"))
            == (vec![32, 32], vec![22, 21, 21])
    };
    let tried_until = Instant::now() + MINUTE;
    while !even() {
        assert!(Instant::now() < tried_until, "{}", crawl.log());
        std::thread::sleep(Duration::from_millis(200));
    }
    let finished = crawl.finish(2 * MINUTE);
    world.assert_counted(&finished);
}

/// Goal: partitions split while URLs wait in `urls.new`, are in flight, and are found; their halves
/// move afterwards; nothing is lost and nothing is fetched twice. Method: resolvers stand still for
/// a while before and after the split.
#[test]
fn partitions_are_split_under_load_and_their_halves_move_and_nothing_is_lost() {
    let world = slow(60, 100);
    let mut crawl = world.crawl().set("stages.fetcher.connections=6").start();
    crawl.until(MINUTE, |summary| summary.pages > 200);
    let resolvers = crawl.pids("resolver");
    resolvers.iter().for_each(|pid| signal(*pid, Signal::STOP));
    std::thread::sleep(Duration::from_secs(1));
    let numbers: Vec<String> = (0..24).map(|partition| partition.to_string()).collect();
    let arguments: Vec<&str> = ["split"]
        .into_iter()
        .chain(numbers.iter().map(String::as_str))
        .collect();
    let said = std::thread::scope(|scope| {
        let split = scope.spawn(|| crawl.rhumb(&arguments));
        std::thread::sleep(Duration::from_secs(3));
        resolvers.iter().for_each(|pid| signal(*pid, Signal::CONT));
        split.join().expect("a command")
    });
    assert_eq!(said.code, 0, "{}{}\n{}", said.out, said.err, crawl.log());
    assert!(
        said.out.contains("partition 0 into 64 and 65: is split"),
        "{}",
        said.out
    );
    assert_eq!(
        (partitions(&crawl, "dedup"), partitions(&crawl, "scheduler")),
        (vec![64 + 48], vec![64 + 48])
    );
    let refused = crawl.rhumb(&["split", "3"]);
    assert!(
        refused.code == 2 && refused.err.contains("partition 3 is not split"),
        "{}",
        refused.err
    );
    assert!(!crawl.has_ended(), "the crawl was too short to be scaled");
    scale(&crawl, &["dedup=2", "scheduler=2"]);
    // Those that were split stay where they are.
    assert_eq!(
        (partitions(&crawl, "dedup"), partitions(&crawl, "scheduler")),
        (vec![68, 44], vec![68, 44])
    );
    assert_eq!(crawl.violations(), [""; 0]);
    scale(&crawl, &["dedup=1", "scheduler=1"]);
    let finished = crawl.finish(3 * MINUTE);
    world.assert_whole(&finished);
    assert_conserved(&finished.summary);
    assert_manners(&world.web.report());
}

#[test]
fn partitions_that_grow_too_large_split_by_themselves_and_a_crawl_goes_on_with_them() {
    let world = slow(40, 100);
    let sets = [
        "partitions=2",
        "stages.dedup.partition_urls_max=1000",
        "stages.fetcher.connections=8",
    ];
    let mut crawl = sets
        .iter()
        .fold(world.crawl(), |crawl, set| crawl.set(set))
        .start();
    crawl.until(MINUTE, |summary| summary.pages > 100);
    let until = Instant::now() + MINUTE;
    while partitions(&crawl, "dedup")[0] < 4 {
        assert!(
            Instant::now() < until && !crawl.has_ended(),
            "no partition was split\n{}",
            crawl.log()
        );
        std::thread::sleep(Duration::from_millis(500));
    }
    crawl.signal(Signal::TERM);
    assert_eq!(crawl.exit_code(MINUTE), 130);
    let crawl = world.resume().set("stages.dedup.replicas=2").start();
    let finished = crawl.finish(3 * MINUTE);
    world.assert_counted(&finished);
    assert_conserved(&finished.summary);
}

#[test]
fn a_partition_that_one_host_fills_is_not_split_and_is_named() {
    let world = World::new(Profile {
        hosts: 1,
        pages_per_host: PagesPerHost::Exactly(2000),
        latency: Latency::Fixed { ms: 20 },
        ..Profile::raw()
    });
    let sets = ["partitions=2", "stages.dedup.partition_urls_max=1000"];
    let mut crawl = sets
        .iter()
        .fold(world.crawl(), |crawl, set| crawl.set(set))
        .start();
    let summary = crawl.until(MINUTE, |summary| !summary.unsplittable.is_empty());
    let [named] = &summary.unsplittable[..] else {
        panic!("{:?}", summary.unsplittable)
    };
    assert!(
        named.starts_with("partition ") && named.contains("of dedup.0 knows "),
        "{named}"
    );
    let text = crawl.rhumb(&["status"]).out;
    assert!(
        text.contains("too large partition ") && text.contains("most of them of one host"),
        "{text}"
    );
    assert_eq!(partitions(&crawl, "dedup"), [2]);
}

/// Goal: budgets of the crawl and of its domains are kept to the page while schedulers come and go.
/// Method: all hosts of the web are of one registered domain, which has more pages than its budget;
/// schedulers become three and one again meanwhile.
#[test]
fn budgets_are_used_up_exactly_while_schedulers_come_and_go() {
    for limit in ["limits.max_pages=800", "limits.pages_per_domain=800"] {
        let world = slow(20, 60);
        let mut crawl = world
            .crawl()
            .set(limit)
            .set("stages.fetcher.connections=3")
            .start();
        crawl.until(MINUTE, |summary| summary.pages > 60);
        assert!(scale(&crawl, &["scheduler=3"]).contains("scheduler 1 → 3: 42 partitions move"));
        let pages = crawl.until(MINUTE, |_| true).pages;
        scale(&crawl, &["scheduler=1"]);
        let finished = crawl.finish(2 * MINUTE);
        assert_eq!(
            (finished.code, finished.summary.pages, pages < 800),
            (0, 800, true),
            "{limit}: {pages} pages before"
        );
    }
}

fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

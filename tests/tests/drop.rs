//! Drops: what an operator wants to be rid of ends once, as dropped, whatever happens to the crawl
//! meanwhile.

use rhumb::status::Summary;
use rhumb_tests::harness::{Running, World, assert_conserved, assert_manners, json, signal};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use synthetic_web::{Latency, PagesPerHost, Profile};

const HOSTS: u32 = 20;
const PAGES: u32 = 250;
const MINUTE: Duration = Duration::from_secs(60);

fn world() -> World {
    world_of(PAGES)
}

fn world_of(pages_of_a_host: u32) -> World {
    World::new(Profile {
        hosts: HOSTS,
        pages_per_host: PagesPerHost::Exactly(pages_of_a_host),
        latency: Latency::Fixed { ms: 200 },
        ..Profile::raw()
    })
}

/// Runs a command, whose end it checks. Returns what it printed.
fn says(crawl: &Running, code: i32, arguments: &[&str], words: &str) -> String {
    let said = crawl.rhumb(arguments);
    let text = format!("{}{}", said.out, said.err);
    assert!(
        said.code == code && text.contains(words),
        "{arguments:?} ends with {}: {text}",
        said.code
    );
    text
}

fn dropped(summary: &Summary) -> u64 {
    summary.outcomes.get("dropped").copied().unwrap_or_default()
}

/// What a tap of outcomes has shown: how often each URL ended so.
fn ends(lines: &[String]) -> BTreeMap<(String, String), u32> {
    let mut ends = BTreeMap::new();
    for line in lines {
        let message: serde_json::Value = serde_json::from_str(line).expect("a tap shows JSON");
        for entry in message["message"]["entries"].as_array().expect("outcomes") {
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_lowercase();
            *ends.entry((text("url"), text("outcome"))).or_default() += 1;
        }
    }
    ends
}

/// Goal: what waits at a host ends as dropped and nothing else does; what is found there later is
/// fetched. Method: a tap counts how each URL ended.
#[test]
fn what_waits_at_a_host_ends_once_and_the_rest_of_the_web_is_crawled() {
    let world = world();
    let name = world.web.host_name(3);
    let mut crawl = world.crawl().start();
    crawl.handle();
    let tap = crawl.tap("outcomes");
    crawl.until(MINUTE, |summary| {
        summary.pages > u64::from(HOSTS * PAGES / 8)
    });
    let drop = ["drop", "--host", &name];
    let asks = says(
        &crawl,
        2,
        &drop,
        &format!("URLs that wait are of host {name}; to have them dropped, say so: --yes"),
    );
    let counted: u64 = asks
        .split_once(" of ")
        .and_then(|(n, _)| n.rsplit(' ').next()?.parse().ok())
        .expect("a number");
    assert!(counted > 20, "{asks}");
    let done = says(
        &crawl,
        0,
        &[&drop[..], &["--yes", "--json", "--note", "by mistake"]].concat(),
        "\"silent\":[]",
    );
    let done: serde_json::Value = serde_json::from_str(&done).expect("JSON");
    let ended = done["dropped"].as_u64().expect("a number");
    assert!(ended > 20 && ended <= u64::from(PAGES), "{done}");
    says(&crawl, 0, &["drop", "--list"], "nothing is dropped");
    says(
        &crawl,
        0,
        &["status", "--check"],
        "every URL is accounted for",
    );

    let finished = crawl.finish(2 * MINUTE);
    assert_eq!(
        (finished.code, dropped(&finished.summary)),
        (0, ended),
        "{}",
        json(&finished.summary)
    );
    assert_conserved(&finished.summary);
    assert_manners(&world.web.report());
    let ends = ends(&tap.lines());
    let of_host = |(url, outcome): &(String, String)| {
        (url.contains(&format!("//{name}")), outcome == "dropped")
    };
    assert!(
        ends.keys()
            .map(of_host)
            .all(|(is_there, is_dropped)| is_there || !is_dropped)
    );
    assert_eq!(
        ends.keys()
            .map(of_host)
            .filter(|of| *of == (true, true))
            .count() as u64,
        ended
    );
    assert!(ends.values().all(|times| *times == 1), "P3");
    let others = u64::from((HOSTS - 1) * PAGES);
    assert!(
        finished.summary.pages >= others,
        "the others are whole: {}",
        json(&finished.summary)
    );
}

/// Stops the fetcher while it has a job of a host. Returns its process.
fn stop_with_a_job_at(crawl: &Running, host: &str) -> u32 {
    let fetcher = crawl.pid("fetcher");
    let end = Instant::now() + MINUTE;
    loop {
        signal(fetcher, Signal::STOP);
        let queue = crawl.rhumb(&["queue", "--host", host, "--json"]).out;
        if queue.contains("\"in_flight\":") && !queue.contains("\"in_flight\":0") {
            return fetcher;
        }
        assert!(Instant::now() < end, "no job: {queue}");
        signal(fetcher, Signal::CONT);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until an order about a host is listed. Returns the line.
fn until_listed(crawl: &Running, host: &str) -> String {
    let end = Instant::now() + MINUTE;
    loop {
        let list = crawl.rhumb(&["drop", "--list"]).out;
        if let Some(line) = list
            .lines()
            .find(|line| line.contains(&format!("host {host}")))
        {
            return line.to_owned();
        }
        assert!(Instant::now() < end, "not listed: {list}");
    }
}

/// Goal: a command does not wait for an order that is given no more. Method: the order waits for a
/// job, and is taken back by its number meanwhile.
#[test]
fn a_drop_ends_when_its_order_is_taken_back() {
    let world = world();
    let host = world.web.host_name(3);
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| {
        summary.pages > u64::from(HOSTS * PAGES / 8)
    });
    let fetcher = stop_with_a_job_at(&crawl, &host);
    std::thread::scope(|scope| {
        let crawl = &crawl;
        let host = &host;
        let why = format!("the order to drop host {host} is given no more: it was taken back");
        let dropping =
            scope.spawn(move || says(crawl, 1, &["drop", "--host", host, "--yes"], &why));
        let line = until_listed(crawl, host);
        let id = line.split(' ').next().expect("a number");
        // The fetcher stands still: that it has not heard is told, too.
        let back = ["drop", "--take-back", "--id", id];
        says(crawl, 1, &back, &format!("no longer dropped: host {host}"));
        dropping.join().expect("the command ends");
        signal(fetcher, Signal::CONT);
    });
    says(&crawl, 0, &["drop", "--list"], "nothing is dropped");
    let finished = crawl.finish(3 * MINUTE);
    assert_eq!(finished.code, 0, "{}", json(&finished.summary));
    assert_conserved(&finished.summary);
}

/// Goal: an order that nobody hears is kept and carried out once, by whoever has the partitions.
/// Method: the scheduler stands still while it is given, and is killed; the partitions move while
/// the next one waits for a job.
#[test]
fn an_order_is_carried_out_once_over_kills_and_moves() {
    let world = world();
    let [one, two] = [3, 5].map(|host| world.web.host_name(host));
    let mut crawl = world.crawl().start();
    crawl.handle();
    let tap = crawl.tap("outcomes");
    crawl.until(MINUTE, |summary| {
        summary.pages > u64::from(HOSTS * PAGES / 8)
    });
    let scheduler = crawl.pid("scheduler");
    signal(scheduler, Signal::STOP);
    let silent =
        "not carried out yet by scheduler.0 (partitions 0-63): no answer. The order is kept";
    let once = ["drop", "--host", &one, "--yes"];
    says(
        &crawl,
        2,
        &once,
        "not counted: scheduler.0 (partitions 0-63) (no answer); to have them dropped, say so, \
         which may be",
    );
    says(&crawl, 1, &[&once[..], &["--yes"]].concat(), silent);
    signal(scheduler, Signal::KILL);
    signal(scheduler, Signal::CONT);
    crawl.until_replaced("scheduler", scheduler, MINUTE);
    crawl.until(MINUTE, |summary| dropped(summary) > 0);

    // A rule stays over kills and moves.
    let fetcher = stop_with_a_job_at(&crawl, &two);
    std::thread::scope(|scope| {
        let crawl = &crawl;
        let two = &two;
        let drop = [
            "drop",
            "--host",
            two,
            "--and-later",
            "--yes",
            "--by",
            "anna",
        ];
        let dropping = scope.spawn(move || says(crawl, 0, &drop, "found later is dropped, too"));
        until_listed(crawl, two);
        says(crawl, 0, &["scale", "scheduler=2"], "");
        assert!(!dropping.is_finished(), "it waits for the job");
        signal(fetcher, Signal::CONT);
    });
    says(
        &crawl,
        0,
        &["drop", "--list"],
        &format!("host {two}, found now or later, is dropped by anna since 20"),
    );
    says(
        &crawl,
        0,
        &["status"],
        &format!("dropped   host {two}, found now or later, is dropped by anna"),
    );
    for stage in ["dedup", "parser"] {
        let pid = crawl.pid(stage);
        signal(pid, Signal::KILL);
        crawl.until_replaced(stage, pid, MINUTE);
    }
    let finished = crawl.finish(3 * MINUTE);
    assert_eq!(finished.code, 0, "{}", json(&finished.summary));
    assert_conserved(&finished.summary);
    assert_manners(&world.web.report());
    let others = u64::from((HOSTS - 2) * PAGES);
    assert!(
        finished.summary.pages >= others,
        "the others are whole: {}",
        json(&finished.summary)
    );
    let ends = ends(&tap.lines());
    let dropped_at = |name: &str| {
        ends.keys()
            .filter(|(url, outcome)| outcome == "dropped" && url.contains(&format!("//{name}")))
            .count() as u64
    };
    assert!(dropped_at(&one) > 20 && dropped_at(&two) > 20);
    assert_eq!(
        dropped_at(&one) + dropped_at(&two),
        dropped(&finished.summary)
    );
    let mut urls: Vec<&str> = ends.keys().map(|(url, _)| url.as_str()).collect();
    urls.dedup();
    assert_eq!(urls.len(), ends.len(), "P3: no URL has two outcomes");
}

/// Kills the scheduler as soon as URLs have been dropped. Returns its process id.
fn kill_in_the_middle_of_a_drop(crawl: &Running) -> u32 {
    let drop = [
        "drop",
        "--match",
        "/calendar/[0-9]*[0-8]$",
        "--yes",
        "--json",
    ];
    std::thread::scope(|scope| {
        // It waits half a minute for each scheduler that dies: the one that is killed here, and one
        // that lost its lease before on a machine that stood still.
        let said = scope.spawn(|| crawl.rhumb_within(2 * MINUTE, &drop));
        let end = Instant::now() + MINUTE;
        while crawl.status().is_none_or(|summary| dropped(&summary) == 0) && Instant::now() < end {
            std::thread::yield_now();
        }
        // On a machine that is too busy it may have lost its lease, and begins anew just now.
        let scheduler = loop {
            match crawl.pids("scheduler").first() {
                Some(scheduler) => break *scheduler,
                None => assert!(Instant::now() < end, "{}", crawl.log()),
            }
        };
        signal(scheduler, Signal::KILL);
        let said = said.join().expect("the command ends");
        // Where the next scheduler is not there in time, the command says that it will do it later.
        let is_kept = said.code == 1 && said.err.contains("The order is kept");
        assert!(said.code == 0 || is_kept, "{}{}", said.out, said.err);
        scheduler
    })
}

/// Goal: much is dropped fast, a kill in the middle ends nothing twice, and a rule is taken back.
/// Method: as many seeds as wait for a while, of one host that is paused.
#[test]
fn much_that_waits_is_dropped_fast_and_a_kill_in_the_middle_ends_nothing_twice() {
    const SEEDS: u64 = 200_000;
    let world = world_of(50);
    let host = world.web.seed_urls()[0].clone();
    let seeds: String = (0..SEEDS)
        .map(|n| format!("{host}calendar/{n}\n"))
        .collect();
    let file = world.data().with_extension("seeds");
    std::fs::write(&file, seeds).expect("a file");
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| summary.pages > 0);
    says(&crawl, 0, &["pause"], "");
    says(
        &crawl,
        0,
        &["inject", "--seeds", &file.display().to_string()],
        "",
    );
    crawl.until(3 * MINUTE, |summary| summary.waiting >= SEEDS);
    let killed = kill_in_the_middle_of_a_drop(&crawl);
    crawl.until_replaced("scheduler", killed, MINUTE);
    let nine_tenths = SEEDS / 10 * 9;
    let summary = crawl.until(MINUTE, |summary| dropped(summary) == nine_tenths);
    assert!(summary.waiting >= SEEDS / 10, "{}", json(&summary));

    let begun = Instant::now();
    says(
        &crawl,
        0,
        &[
            "drop",
            "--match",
            "/calendar/",
            "--and-later",
            "--yes",
            "--yes",
        ],
        "dropped 20000 URLs of match",
    );
    eprintln!("20,000 URLs: {:.1?}", begun.elapsed());
    says(
        &crawl,
        0,
        &["drop", "--match", "/calendar/", "--take-back"],
        "no longer dropped: match /calendar/",
    );
    // What the kill left of the first order went with the second.
    says(&crawl, 0, &["drop", "--list"], "nothing is dropped");
    says(&crawl, 0, &["unpause"], "");
    let finished = crawl.finish(2 * MINUTE);
    assert_conserved(&finished.summary);
    assert_eq!(
        dropped(&finished.summary),
        SEEDS,
        "{}",
        json(&finished.summary)
    );
}

#[test]
fn drops_that_make_no_sense_or_would_drop_everything_are_refused() {
    let world = world();
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| summary.pages > 40);
    for (arguments, words) in [
        (["drop"].as_slice(), "which URLs?"),
        (&["drop", "--match", "("], "this is no regular expression"),
        (
            &["drop", "--prefix", "example.org"],
            "this is no SURT of a URL",
        ),
        (
            &["drop", "--host", "a.test", "--match", "x"],
            "cannot be used with",
        ),
        (
            &["drop", "--match", r"(\w{1000}){1000}"],
            "this regular expression is too large",
        ),
        (
            &["drop", "--list", "--host", "a.test"],
            "cannot be used with",
        ),
        (
            &["drop", "--count", "--host", "a.test", "--yes"],
            "cannot be used with",
        ),
        (&["drop", "--take-back"], "required arguments"),
        (
            &["drop", "--take-back", "--id", "7"],
            "what order 7 names is not dropped; dropped: nothing",
        ),
        (
            &["drop", "--match", "^http", "--and-later", "--yes"],
            "--yes --yes",
        ),
        (
            &["drop", "--match", "^http", "--yes"],
            "which is all that waits: --yes --yes",
        ),
        (
            &["drop", "--host", "nowhere.test", "--take-back"],
            "host nowhere.test is not dropped; dropped: nothing",
        ),
    ] {
        says(&crawl, 2, arguments, words);
    }
    says(
        &crawl,
        0,
        &["drop", "--host", "nowhere.test"],
        "nothing to drop: none of the ",
    );
    says(
        &crawl,
        0,
        &["drop", "--host", "nowhere.test", "--json"],
        "{\"counted\":0,\"of\":",
    );
    says(
        &crawl,
        0,
        &["drop", "--match", "^http", "--count"],
        "URLs that wait are of match ^http\n  http",
    );
    assert_eq!(dropped(&crawl.status().expect("a summary")), 0);
}

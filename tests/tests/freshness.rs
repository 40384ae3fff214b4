//! A crawl that never ends: a web that changes is kept fresh while its owners of partitions come,
//! go, split and die, and what was learned of it goes on in another crawl.

use rhumb_tests::harness::{Running, World, assert_manners, json, recrawled, signal, visits};
use rustix::process::Signal;
use serde_json::Value;
use std::time::{Duration, Instant};
use synthetic_web::{
    Change, Freshness, PagesPerHost, Profile, RobotsShares, SitemapShares, ValidatorShares,
};

const MINUTE: Duration = Duration::from_secs(60);
/// So many that each scheduler has about as many of them.
const HOSTS: u32 = 100;
const PAGES_OF_HOST: u32 = 3;
/// Visits a second: a page has one every five seconds, when all are visited alike.
const RATE: u32 = HOSTS * PAGES_OF_HOST / 5;
/// So much more than the budget is planned, at most: tokens gather for a while.
const ABOVE_PERCENT: f64 = 5.0;

/// Pages that change at very different rates, some never: the median once in five seconds. Half of
/// the hosts say when a page changed last.
fn changing() -> World {
    World::new(Profile {
        hosts: HOSTS,
        pages_per_host: PagesPerHost::Exactly(PAGES_OF_HOST),
        change: Some(Change {
            validators: ValidatorShares {
                dates: 0.5,
                ..ValidatorShares::RIGHT
            },
            ..Change::new(Duration::from_secs(5))
        }),
        ..Profile::raw()
    })
}

/// Waits for so many more visits.
fn goes_on(crawl: &mut Running, more: u64) {
    let first = visits(&crawl.until(MINUTE, |_| true));
    crawl.until(MINUTE, |summary| visits(summary) >= first + more);
}

fn ok(crawl: &Running, arguments: &[&str]) -> String {
    let said = crawl.rhumb(arguments);
    assert_eq!(
        said.code,
        0,
        "{arguments:?}: {}{}\n{}",
        said.out,
        said.err,
        crawl.log()
    );
    said.out
}

/// Asserts that the accounts are right, once all processes answer.
fn check(crawl: &Running) {
    let tried_until = Instant::now() + MINUTE;
    loop {
        let said = crawl.rhumb(&["status", "--check"]);
        if said.code == 0 {
            return;
        }
        assert!(Instant::now() < tried_until, "{}{}", said.out, said.err);
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn start(world: &World) -> Running {
    world
        .crawl()
        .set("recrawl.policy=fresh")
        .set(&format!("recrawl.requests_per_second={RATE}"))
        .set("recrawl.interval_min=1s")
        .set("stages.scheduler.replicas=2")
        .start()
}

/// Visits that were planned so far, as all processes tell together, and when that was asked for.
fn planned(crawl: &mut Running) -> (u64, Instant) {
    let summary = crawl.until(MINUTE, |summary| summary.silent.is_empty());
    (recrawled(&summary).planned, Instant::now())
}

/// Goal: two schedulers share one budget. Pages are visited as often as it pays, with manners, and
/// every visit is counted, whatever moves, splits or dies; while partitions move, no more often
/// than the budget allows. Method: all of that happens to a crawl of a web whose pages change every
/// few seconds: a second of it is an hour of a real one.
#[test]
fn a_web_that_changes_is_kept_fresh_whatever_moves_or_dies() {
    let world = changing();
    let mut crawl = start(&world);
    crawl.until(MINUTE, |summary| recrawled(summary).first_visits_done);
    let asked = Instant::now();
    let (before, _) = planned(&mut crawl);
    goes_on(&mut crawl, 400);
    for to in [["scheduler=3", "dedup=2"], ["scheduler=2", "dedup=1"]] {
        ok(&crawl, &["scale", to[0], to[1]]);
        goes_on(&mut crawl, 200);
    }
    ok(&crawl, &["split", "3", "4", "5", "6"]);
    goes_on(&mut crawl, 200);
    let (after, told) = planned(&mut crawl);
    let most = f64::from(RATE) * told.duration_since(asked).as_secs_f64();
    let most = most * (1.0 + ABOVE_PERCENT / 100.0);
    assert!((after - before) as f64 <= most, "{before} {after} {most}");
    for stage in ["scheduler", "fetcher", "host-splitter", "dedup"] {
        signal(crawl.pid(stage), Signal::KILL);
        goes_on(&mut crawl, 100);
        check(&crawl);
    }
    signal(crawl.pids("scheduler")[1], Signal::KILL);
    ok(&crawl, &["scale", "scheduler=3", "dedup=2"]);
    goes_on(&mut crawl, 100);
    check(&crawl);
    ok(&crawl, &["scale", "scheduler=2"]);
    // So long the schedulers may take to find back to their plan; then it is judged for as long.
    let settled = world.web.began().elapsed() + MINUTE / 2;
    while world.web.began().elapsed() < settled + MINUTE / 2 {
        goes_on(&mut crawl, 100);
    }
    let ended = world.web.began().elapsed();
    check(&crawl);
    let summary = crawl.until(MINUTE, |summary| recrawled(summary).copies.is_some());
    let fresh = |from, to| world.web.freshness(from, to).expect("a web that changes");
    let calm = fresh(settled, ended);
    println!("{:?} of {ended:?}: {calm:?}", ended - settled);
    crawl.signal(Signal::TERM);
    assert_eq!(crawl.exit_code(MINUTE), 130);
    assert_manners(&world.web.report());
    // How far on the way is measured where nothing else runs (`recrawl.rs`).
    assert!(calm.way.is_some_and(|way| way > 0.0), "{calm:?}");
    let copies = recrawled(&summary).copies.expect("it has them");
    let expected = copies.fresh_expected as f64 / copies.pages as f64;
    println!("{copies}");
    assert!((expected - calm.share).abs() < 0.15, "{copies} {calm:?}");
}

/// The page of a URL as `rhumb why` tells it.
fn known(crawl: &Running, url: &str) -> Value {
    let told: Value = serde_json::from_str(&ok(crawl, &["why", url, "--json"])).expect("JSON");
    let reasons = told["reasons"].as_array().expect("reasons");
    let known = reasons.iter().find_map(|reason| reason.get("known"));
    known
        .unwrap_or_else(|| panic!("{url} is not known: {told}"))
        .clone()
}

/// Goal: what is known of pages is in a checkpoint: a crawl that begins with one goes on with the
/// visits and the estimates of the crawl before.
#[test]
fn a_crawl_that_begins_with_a_checkpoint_goes_on_with_what_was_learned() {
    let world = changing();
    let mut crawl = start(&world);
    crawl.until(MINUTE, |summary| visits(summary) > 2_000);
    let contacts = world.web.contacts();
    let url = contacts
        .iter()
        .map(|contact| contact.url.as_str())
        .find(|url| !url.ends_with("/robots.txt"))
        .expect("a page")
        .to_owned();
    let before = known(&crawl, &url);
    let dir = world.folder().join("checkpoint");
    ok(&crawl, &["checkpoint", &dir.display().to_string()]);
    crawl.signal(Signal::TERM);
    assert_eq!(crawl.exit_code(MINUTE), 130);

    let mut restored = world.restored("again", &dir).set("crawl=again").start();
    restored.until(MINUTE, |summary| visits(summary) > 2_500);
    let summary = restored.until(MINUTE, |summary| {
        recrawled(summary).known == u64::from(HOSTS * PAGES_OF_HOST)
    });
    check(&restored);
    let after = known(&restored, &url);
    let number = |known: &Value, key: &str| known[key].as_f64().expect("a number");
    assert!(
        number(&after, "visits") >= 2.0 && number(&after, "change_s") > 0.0,
        "{before} {after} {}",
        json(&summary)
    );
    let ratio = number(&after, "change_s") / number(&before, "change_s");
    assert!((0.2..5.0).contains(&ratio), "{before} {after}");
    restored.signal(Signal::TERM);
    assert_eq!(restored.exit_code(MINUTE), 130);
}

/// Visits a second of the pages of a few hosts, each of which would have one every ten seconds.
const RATE_BESIDE_SITEMAPS: u32 = 10;

/// Crawls a web whose hosts all have such sitemaps. Returns how fresh the copies were of which it
/// had learned, and how many servers are believed.
fn beside_sitemaps(sitemaps: SitemapShares) -> (Freshness, u64) {
    let world = World::new(Profile {
        hosts: 4,
        pages_per_host: PagesPerHost::Exactly(25),
        robots: RobotsShares {
            missing: 0.0,
            ..Profile::raw().robots
        },
        change: Some(Change {
            sigma: 0.5,
            never: 0.0,
            validators: ValidatorShares {
                dates: 0.0,
                ..ValidatorShares::RIGHT
            },
            sitemaps,
            ..Change::new(Duration::from_secs(20))
        }),
        ..Profile::raw()
    });
    let mut crawl = world
        .crawl()
        .set("recrawl.policy=fresh")
        .set(&format!(
            "recrawl.requests_per_second={RATE_BESIDE_SITEMAPS}"
        ))
        .set("recrawl.interval_min=1s")
        .start();
    crawl.until(MINUTE, |summary| recrawled(summary).first_visits_done);
    let begun = world.web.began().elapsed();
    std::thread::sleep(Duration::from_secs(60));
    let judged = begun + Duration::from_secs(35)..begun + Duration::from_secs(60);
    let believed = "rhumb_scheduler_servers_signals_believed{kind=\"sitemap\"}";
    let believed = crawl.count("scheduler", believed);
    check(&crawl);
    crawl.signal(Signal::TERM);
    assert_eq!(crawl.exit_code(MINUTE), 130);
    assert_manners(&world.web.report());
    let fresh = world.web.freshness(judged.start, judged.end);
    (fresh.expect("a web whose pages change"), believed)
}

/// Goal: the dates of a sitemap bring visits in time where they are true, and do no harm where they
/// are those of now at each look. Method: the same web twice, whose servers answer the same, but for
/// the dates.
#[test]
fn signals_that_are_true_keep_copies_fresh_and_others_do_no_harm() {
    let [(told, of_true), (untold, of_wrong)] = [(1.0, 0.0), (0.0, 1.0)].map(|(right, wrong)| {
        let undated = 0.0;
        beside_sitemaps(SitemapShares {
            right,
            wrong,
            undated,
        })
    });
    println!("{of_true} {told:?}\n{of_wrong} {untold:?}");
    assert!(of_true >= 3 && of_wrong < of_true);
    // No plan that knows how often pages change, but not when, comes to that.
    assert!(told.share > told.optimum + 0.1, "{told:?}");
    assert!(untold.share > untold.uniform - 0.08, "{untold:?}");
}

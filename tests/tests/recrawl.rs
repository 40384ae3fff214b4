//! Known pages that are visited again, through all processes.

use rhumb_stage::KnownTold;
use rhumb_tests::harness::{
    Answer, Crawl, Record, Running, Site, World, assert_conserved, json, logged, records,
    recrawled, signal, visits,
};
use rhumb_wire::message::PageState;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use synthetic_web::{Change, CrawlLimits, Hostility, PagesPerHost, Profile, ValidatorShares};

const MINUTE: Duration = Duration::from_secs(60);
const PAGES: u64 = 100;
/// Of the web whose pages change.
const HOSTS: u32 = 20;
const PAGES_OF_HOST: u32 = 10;

fn small() -> World {
    World::new(Profile {
        hosts: 10,
        pages_per_host: PagesPerHost::Exactly(10),
        ..Profile::raw()
    })
}

/// `rhumb why` tells what is known of a page that is visited again and again.
fn tells_of_a_page(crawl: &Running, url: &str) {
    let said = crawl.rhumb(&["why", url, "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let told: Value = serde_json::from_str(&said.out).expect("JSON");
    let reasons = told["reasons"].as_array().expect("reasons");
    let known = reasons.iter().find_map(|reason| reason.get("known"));
    let known: KnownTold = serde_json::from_value(known.expect("a known page").clone())
        .expect("what is told of a page");
    assert_eq!(known.state, PageState::Page);
    assert!(known.visits > 5 && known.age_s < 60.0, "{known:?}");
    let text = crawl.rhumb(&["why", url]).out;
    let of_page = text.lines().find(|line| line.contains("next visit: "));
    let of_page = of_page.unwrap_or_else(|| panic!("no line of the page: {text}"));
    assert!(
        of_page.contains(", a page as before; changes about every "),
        "{of_page}"
    );
}

/// Goal: pages are visited again at the rate that was asked for, each about as often as the others,
/// whatever dies, and every visit is told once. Method: a web that never changes; scheduler, fetcher
/// and archiver are killed while visits are under way.
#[test]
fn pages_are_visited_again_at_the_rate_that_was_asked_for_whatever_dies() {
    let world = small();
    let mut crawl = world
        .crawl()
        .set("recrawl.policy=uniform")
        .set("recrawl.requests_per_second=40")
        .set("recrawl.interval_min=1s")
        .set("stages.archiver.replicas=1")
        .start();
    let summary = crawl.until(MINUTE, |summary| {
        recrawled(summary).first_visits_done && visits(summary) > 50
    });
    assert_eq!(summary.pages, PAGES, "first visits alone");
    assert!(!summary.complete, "{}", json(&summary));
    let begun = (Instant::now(), recrawled(&summary).planned);
    let mut summary = crawl.until(MINUTE, |_| begun.0.elapsed() > Duration::from_secs(8));
    let planned = recrawled(&summary).planned - begun.1;
    let rate = planned as f64 / begun.0.elapsed().as_secs_f64();
    assert!(rate < 42.0, "{rate} visits a second");
    for stage in ["scheduler", "fetcher", "archiver"] {
        signal(crawl.pid(stage), Signal::KILL);
        let before = visits(&summary);
        summary = crawl.until(MINUTE, |summary| visits(summary) > before + 400);
    }
    let said = crawl.rhumb(&["status", "--check"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    tells_of_a_page(&crawl, &world.web.seed_urls()[0]);
    assert_eq!(
        crawl.count("scheduler", "rhumb_scheduler_visits_budget_per_hour"),
        40 * 3600
    );
    crawl.signal(Signal::TERM);
    assert_eq!(crawl.exit_code(MINUTE), 130);
    let lines = logged(&world.archive());
    assert_eq!(lines.len() as u64, PAGES);
    for (url, lines) in &lines {
        let numbers: Vec<u64> = lines
            .iter()
            .map(|line| line["visit"].as_u64().expect("a number"))
            .collect();
        let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected, "{url}");
        let changes = lines.iter().map(|line| line["change"].as_str());
        let others = changes.filter(|change| *change != Some("unchanged"));
        assert_eq!(others.count(), 1, "{url}: {lines:?}");
    }
}

/// Goal: a crawl whose pages are visited again ends when each of them has the visits that were
/// asked for, and what is kept back in traps ends before. Method: one host of four has a calendar
/// without end.
#[test]
fn a_crawl_ends_when_each_page_has_the_visits_that_were_asked_for() {
    const VISITS: u64 = 3;
    let world = World::new(Profile {
        hosts: 4,
        pages_per_host: PagesPerHost::Exactly(20),
        hostile: 0.25,
        hostilities: vec![Hostility::Calendar],
        crawl_limits: CrawlLimits {
            pages_per_host: 1_000_000,
            ..CrawlLimits::default()
        },
        ..Profile::raw()
    });
    let finished = world
        .crawl()
        .set("recrawl.policy=uniform")
        .set("recrawl.requests_per_second=400")
        .set("recrawl.interval_min=1s")
        .set("limits.shape_pages=100")
        .set("stages.archiver.replicas=1")
        .arguments(&["--visits", "3"])
        // The trap is found after some 1,100 pages, each of which leads to the next.
        .run(4 * MINUTE);
    let summary = &finished.summary;
    assert_eq!(finished.code, 0, "{}", json(summary));
    assert_conserved(summary);
    let known = recrawled(summary).known;
    assert!(
        !summary.complete && summary.waiting == 0 && summary.outcomes["trapped"] > 0,
        "{}",
        json(summary)
    );
    assert_eq!(recrawled(summary).resting, known);
    assert_eq!(visits(summary), (VISITS - 1) * known);
    let lines = logged(&world.archive());
    let visited = lines
        .values()
        .filter(|lines| lines[0]["outcome"] == "fetched");
    let numbers: Vec<usize> = visited.map(Vec::len).collect();
    assert!(numbers.len() > 80, "{}", numbers.len());
    assert!(
        numbers.iter().all(|lines| *lines as u64 == VISITS),
        "{numbers:?}"
    );
}

/// Goal: a policy can be given to a crawl that runs, and taken away. Method: `rhumb set`.
#[test]
fn a_policy_is_given_to_a_crawl_that_runs_and_taken_away() {
    let world = small();
    let mut up = world.up().set("recrawl.interval_min=1s").start();
    up.until(MINUTE, |summary| summary.complete);
    let set = |value: &str| {
        let said = up.rhumb(&["set", value]);
        assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    };
    set("recrawl.policy=fresh");
    set("recrawl.requests_per_second=20");
    let said = up.rhumb(&["inject", &world.web.seed_urls()[0]]);
    assert_eq!(said.code, 0, "{}", said.err);
    up.until(MINUTE, |summary| visits(summary) > 100);
    let said = up.rhumb(&["set", "recrawl.policy=none"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    let summary = up.until(MINUTE, |summary| recrawled(summary).out == 0);
    assert_eq!(summary.pages, PAGES);
}

/// Topics that are crawled beside each other.
const TOPICS: [&str; 3] = ["news", "papers", "default"];

/// Later visits by topic, as the archive's log has them so far.
fn visits_by_topic(world: &World) -> BTreeMap<String, u64> {
    let mut visits = BTreeMap::new();
    for line in logged(&world.archive()).values().flatten() {
        let topic = line["topic"].as_str().unwrap_or("default");
        let is_later = line["visit"].as_u64() > Some(1);
        *visits.entry(topic.to_owned()).or_default() += u64::from(is_later);
    }
    visits
}

/// Runs a command that ends well.
fn rhumb(up: &Running, arguments: &[&str]) -> String {
    let said = up.rhumb(arguments);
    assert_eq!(said.code, 0, "{arguments:?}: {}{}", said.out, said.err);
    said.out
}

/// Visits a second of each topic in the next ten seconds.
fn rates(world: &World, up: &mut Running) -> [f64; 3] {
    let before = visits_by_topic(world);
    let begun = Instant::now();
    up.until(MINUTE, |_| begun.elapsed() > Duration::from_secs(10));
    let after = visits_by_topic(world);
    let seconds = begun.elapsed().as_secs_f64();
    TOPICS.map(|topic| {
        let count = |visits: &BTreeMap<String, u64>| visits.get(topic).copied().unwrap_or(0);
        (count(&after) - count(&before)) as f64 / seconds
    })
}

/// Goal: pages of a topic are visited by its rules and within its budget, which may change while
/// the crawl runs, whatever dies. Method: a topic with a budget of its own, one without a policy,
/// and pages of the crawl, each on two hosts; visits are counted in the archive's log for a while
/// before and after the topics change places and the scheduler dies.
#[test]
fn topics_are_visited_again_by_rules_and_budgets_of_their_own() {
    let world = small();
    let mut up = world
        .up()
        .set("recrawl={policy: uniform, requests_per_second: 10, interval_min: 1s}")
        .set("topics.news={scope: {follow: host}, recrawl: {requests_per_second: 20}}")
        .set("topics.papers={scope: {follow: host}, recrawl: {policy: none}}")
        .set("scope.follow=host")
        .set("stages.archiver.replicas=1")
        .start();
    up.handle();
    let seeds = world.web.seed_urls();
    for (number, topic) in TOPICS.iter().cycle().take(6).enumerate() {
        rhumb(&up, &["inject", &seeds[number], "--topic", topic]);
    }
    up.until(MINUTE, |summary| {
        summary.pages == 60 && recrawled(summary).first_visits_done && visits(summary) > 100
    });
    let [news, papers, default] = rates(&world, &mut up);
    assert!((17.0..22.0).contains(&news), "{news} visits a second");
    assert!((8.5..11.0).contains(&default), "{default} visits a second");
    assert_eq!(papers, 0.0);
    let status = rhumb(&up, &["status"]);
    assert!(status.contains("visits 72000 an hour, each"), "{status}");

    rhumb(
        &up,
        &[
            "topic",
            "set",
            "papers",
            "recrawl.policy=uniform",
            "recrawl.requests_per_second=5",
        ],
    );
    rhumb(&up, &["topic", "set", "news", "recrawl.policy=none"]);
    // Its pages were not known: they are from their next first visit on.
    rhumb(&up, &["inject", "--again", &seeds[1], "--topic", "papers"]);
    signal(up.pid("scheduler"), Signal::KILL);
    let before = visits(&up.until(MINUTE, |summary| recrawled(summary).resting >= 20));
    up.until(MINUTE, |summary| visits(summary) > before + 30);
    let [news, papers, default] = rates(&world, &mut up);
    assert_eq!(news, 0.0);
    assert!(
        (0.5..1.1).contains(&papers),
        "{papers} visits a second of one page"
    );
    assert!((8.5..11.0).contains(&default), "{default} visits a second");
    let refused = up.rhumb(&["set", "topics.news.recrawl.interval_min=0s"]);
    let said = format!("{}{}", refused.out, refused.err);
    assert!(
        refused.code == 2 && said.contains("topics.news.recrawl.interval_min"),
        "{said}"
    );
    rhumb(&up, &["status", "--check"]);
}

/// Goal: a crawl that had no policy goes on with its pages when its log is given to it: without a
/// fetch for that, from the visit that the log has, and no link is new again. Method: a crawl ends;
/// it is resumed with a policy, and given its log twice.
#[test]
fn a_crawl_log_makes_the_pages_of_its_crawl_known() {
    let world = small();
    let archived = |crawl: Crawl| crawl.set("stages.archiver.replicas=1");
    let ended = archived(world.crawl()).run(MINUTE);
    assert_eq!((ended.code, ended.summary.pages), (0, PAGES));
    // That of the archive grows with each visit.
    let log = world.folder().join("crawl.jsonl");
    std::fs::copy(world.archive().join("crawl.jsonl"), &log).expect("a log");
    let mut up = archived(world.up())
        .set("recrawl.policy=uniform")
        .set("recrawl.requests_per_second=40")
        .set("recrawl.interval_min=1s")
        .start();
    for known in [0, PAGES] {
        up.until(MINUTE, |summary| {
            summary.urls_new == PAGES + known && recrawled(summary).known == known
        });
        let said = up.rhumb(&["inject", "--known", log.to_str().expect("UTF-8")]);
        assert_eq!(said.code, 0, "{}{}", said.out, said.err);
        let given = "100 of 100 lines are given as known pages";
        assert!(said.out.contains(given), "{}", said.out);
    }
    let summary = up.until(MINUTE, |summary| visits(summary) > 4 * PAGES);
    assert_eq!((summary.urls_new, summary.pages), (2 * PAGES, PAGES));
    let of_pages = recrawled(&summary);
    assert_eq!((of_pages.known, of_pages.given), (PAGES, PAGES));
    assert_eq!(of_pages.visits["changed"], PAGES, "{}", json(&summary));
    let said = up.rhumb(&["status", "--check"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    up.signal(Signal::TERM);
    assert_eq!(up.exit_code(MINUTE), 130);
    for (url, lines) in &logged(&world.archive()) {
        let mut numbers: Vec<u64> = lines
            .iter()
            .map(|line| line["visit"].as_u64().expect("a number"))
            .collect();
        numbers.sort_unstable();
        let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
        assert_eq!(numbers, expected, "{url}");
    }
}

/// Goal: a crawl takes over the list of another crawler, as far as it is one, and finds the rest by
/// itself. Method: the list has `/` of each host, and is given while pages are visited; hosts come
/// into the scope by it alone.
#[test]
fn a_list_of_another_crawler_is_gone_on_with() {
    let world = small();
    let seeds = world.web.seed_urls();
    let line = |url: &String| {
        format!(r#"{{"time":"2024-02-29T12:00:00Z","url":"{url}","outcome":"fetched"}}"#)
    };
    let mut list: Vec<String> = seeds.iter().map(line).collect();
    list.push(r#"{"url":"http://a.test/","outcome":"fetched"}"#.to_owned());
    let file = world.folder().join("list.jsonl");
    std::fs::write(&file, list.join("\n")).expect("room for a list");
    let mut up = world
        .up()
        .set("scope.follow=host")
        .set("recrawl.policy=fresh")
        .set("recrawl.requests_per_second=40")
        .set("recrawl.interval_min=1s")
        .start();
    up.until(MINUTE, |summary| summary.complete);
    let said = up.rhumb(&["inject", "--known", file.to_str().expect("UTF-8")]);
    assert_eq!(said.code, 2, "{}{}", said.out, said.err);
    let bad = format!("list.jsonl:{}: missing field `time`", list.len());
    assert!(said.err.contains(&bad), "{}", said.err);
    let given = seeds.len() as u64;
    let summary = up.until(MINUTE, |summary| recrawled(summary).known == PAGES);
    assert_eq!(summary.pages, PAGES - given, "{}", json(&summary));
    assert_eq!(recrawled(&summary).given, given);
    let said = up.rhumb(&["status", "--check"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
}

/// Goal: the policy `fresh` keeps a copy fresher than visits in turn would, on the way to the best
/// that this many visits could do. Method: pages that change at very different rates, some never; the
/// web knows which version it served last, and what each plan of as many visits would come to.
#[test]
fn pages_that_change_are_visited_as_often_as_it_pays() {
    let world = World::alone(Profile {
        hosts: HOSTS,
        pages_per_host: PagesPerHost::Exactly(PAGES_OF_HOST),
        change: Some(Change {
            validators: ValidatorShares {
                dates: 0.0,
                ..ValidatorShares::RIGHT
            },
            ..Change::new(Duration::from_secs(5))
        }),
        ..Profile::raw()
    });
    let mut crawl = world
        .crawl()
        .set("recrawl.policy=fresh")
        .set(&format!(
            "recrawl.requests_per_second={}",
            HOSTS * PAGES_OF_HOST / 5
        ))
        .set("recrawl.interval_min=1s")
        .start();
    crawl.until(MINUTE, |summary| recrawled(summary).first_visits_done);
    let begun = world.web.began().elapsed();
    std::thread::sleep(Duration::from_secs(70));
    let judged = begun + Duration::from_secs(30)..begun + Duration::from_secs(70);
    let fresh = world.web.freshness(judged.start, judged.end);
    let fresh = fresh.expect("a web whose pages change");
    crawl.signal(Signal::TERM);
    assert_eq!(crawl.exit_code(MINUTE), 130);
    assert!(fresh.way.is_some_and(|way| way > 0.3), "{fresh:?}");
}

/// Mean visits of the pages of a group, and how many pages it has.
fn mean(visits: &[usize]) -> f64 {
    assert!(visits.len() > 20, "{visits:?}");
    visits.iter().sum::<usize>() as f64 / visits.len() as f64
}

/// Goal: what counts is the text of a page: one with a counter, which sends another body each time,
/// is visited no more often than one without, and a copy of all pages is kept as fresh as
/// elsewhere. Method: a web without validators whose pages change at very different rates, half of
/// them never; half of its hosts count their visitors. Visits are told by the archive's log, which
/// says what each found of the text.
#[test]
fn pages_that_differ_by_noise_alone_are_visited_no_more_often_than_others() {
    let world = World::alone(Profile {
        hosts: HOSTS,
        pages_per_host: PagesPerHost::Exactly(PAGES_OF_HOST),
        change: Some(Change {
            never: 0.5,
            noise: 0.5,
            validators: ValidatorShares {
                tags: 0.0,
                dates: 0.0,
                ..ValidatorShares::RIGHT
            },
            ..Change::new(Duration::from_secs(5))
        }),
        ..Profile::raw()
    });
    let mut crawl = world
        .crawl()
        .set("recrawl.policy=fresh")
        .set(&format!(
            "recrawl.requests_per_second={}",
            HOSTS * PAGES_OF_HOST / 5
        ))
        .set("recrawl.interval_min=1s")
        .set("stages.archiver.replicas=1")
        .start();
    crawl.until(MINUTE, |summary| recrawled(summary).first_visits_done);
    let begun = world.web.began().elapsed();
    let waited = Instant::now();
    let summary = crawl.until(2 * MINUTE, |_| waited.elapsed() > Duration::from_secs(70));
    let judged = begun + Duration::from_secs(30)..begun + Duration::from_secs(70);
    let fresh = world.web.freshness(judged.start, judged.end);
    let fresh = fresh.expect("a web whose pages change");
    crawl.signal(Signal::TERM);
    assert_eq!(crawl.exit_code(MINUTE), 130);
    assert!(fresh.way.is_some_and(|way| way > 0.3), "{fresh:?}");

    let found = recrawled(&summary);
    let told = found.texts_changed + found.texts_unchanged;
    assert!(found.texts_unchanged > 100, "{}", json(&summary));
    // Some are on their way, and a few were told too late.
    assert!(
        10 * told > 9 * found.visits["changed"],
        "{}",
        json(&summary)
    );
    let lines = logged(&world.archive());
    let has = |lines: &[Value], is_changed: bool| {
        lines.iter().any(|line| line["text_changed"] == is_changed)
    };
    let still = lines.values().filter(|lines| !has(lines, true));
    let (noisy, quiet): (Vec<_>, Vec<_>) = still.partition(|lines| has(lines, false));
    let count =
        |pages: Vec<&Vec<Value>>| -> Vec<usize> { pages.into_iter().map(Vec::len).collect() };
    let of_noisy = mean(&count(noisy));
    let of_quiet = mean(&count(quiet));
    let of_moving = lines.values().filter(|lines| has(lines, true));
    let of_moving = mean(&of_moving.map(Vec::len).collect::<Vec<_>>());
    assert!(of_noisy < 1.25 * of_quiet, "{of_noisy} {of_quiet}");
    assert!(of_noisy < 0.7 * of_moving, "{of_noisy} {of_moving}");
}

/// A site whose pages are asked for again. Pages without a tag are sent each time.
fn site_of_visits() -> Site {
    let asked: Mutex<BTreeMap<String, u32>> = Mutex::default();
    Site::serve(move |path, head| {
        let times = {
            let mut asked = asked.lock().expect("no test has failed");
            let times = asked.entry(path.to_owned()).or_default();
            *times += 1;
            *times
        };
        let has = |tag: &str| {
            let mut lines = head.iter().map(|line| line.to_ascii_lowercase());
            lines.any(|line| line.starts_with("if-none-match:") && line.contains(tag))
        };
        let tagged = |tag: &str| Answer {
            status: if has(tag) { 304 } else { 200 },
            fields: format!("ETag: \"{tag}\"\r\n"),
            ..Answer::html(if has(tag) {
                String::new()
            } else {
                body(path, tag)
            })
        };
        match (path, times) {
            ("/", _) => Answer::html(
                "<a href=/same><a href=/tagged><a href=/changed><a href=/moved>".into(),
            ),
            ("/same", _) => Answer::html(body(path, "first")),
            ("/tagged", _) | ("/changed" | "/moved", 1) => tagged("first"),
            ("/changed", _) => tagged("second"),
            // It was elsewhere once.
            ("/moved", 2) => Answer {
                status: 302,
                fields: "Location: /\r\n".to_owned(),
                ..Answer::html(String::new())
            },
            ("/moved", _) => tagged("first"),
            _ => Answer::missing(),
        }
    })
}

fn body(path: &str, version: &str) -> String {
    format!("<p>{path} in its {version} version")
}

/// Status and body of a recorded response.
fn response(record: &Record) -> (&str, &str) {
    let block = std::str::from_utf8(&record.block).expect("text");
    let (head, body) = block.split_once("\r\n\r\n").expect("a response");
    (head.split(' ').nth(1).expect("a status"), body)
}

/// Goal: an archive keeps each version of a page once; a later visit that brings no other names the
/// page's own record, also after a kill; and the archive answers with the version of the last
/// visit. Method: pages that answer 304, that are sent again, that change, and that are elsewhere
/// for a visit; the archive is read as the standard has it, and replayed.
#[test]
fn later_visits_name_the_pages_own_record_in_the_archive() {
    let world = World::new(Profile {
        hosts: 1,
        pages_per_host: PagesPerHost::Exactly(1),
        ..Profile::raw()
    });
    let site = site_of_visits();
    let seed = format!("{}/", site.name);
    let mut crawl = world
        .bare("crawl")
        .arguments(&[&seed])
        .set("recrawl.policy=uniform")
        .set("recrawl.requests_per_second=20")
        .set("recrawl.interval_min=1s")
        .set("stages.archiver.replicas=1")
        .start();
    crawl.until(MINUTE, |summary| visits(summary) > 20);
    signal(crawl.pid("archiver"), Signal::KILL);
    crawl.until(MINUTE, |summary| visits(summary) > 40);
    crawl.signal(Signal::TERM);
    assert_eq!(crawl.exit_code(MINUTE), 130);

    let kept = records(&world.archive());
    let of_pages = |kind: &'static str| {
        kept.iter()
            .filter(move |record| record.kind() == kind && !record.url().ends_with("/robots.txt"))
    };
    let key = |record: &Record, fields: [&str; 4]| fields.map(|name| record.field(name).to_owned());
    let own = [
        "WARC-Target-URI",
        "WARC-Record-ID",
        "WARC-Date",
        "WARC-Payload-Digest",
    ];
    let named = [
        "WARC-Refers-To-Target-URI",
        "WARC-Refers-To",
        "WARC-Refers-To-Date",
        "WARC-Payload-Digest",
    ];
    let originals: BTreeSet<_> = of_pages("response")
        .map(|record| key(record, own))
        .collect();
    let mut profiles: BTreeMap<&str, u32> = BTreeMap::new();
    for revisit in of_pages("revisit") {
        assert!(originals.contains(&key(revisit, named)), "{revisit:?}");
        assert_eq!(revisit.field(named[0]), revisit.url());
        let profile = revisit.field("WARC-Profile").rsplit('/').next();
        *profiles.entry(profile.expect("a profile")).or_default() += 1;
    }
    let times = |profile| profiles.get(profile).is_some_and(|&times| times > 4);
    assert!(
        times("server-not-modified") && times("identical-payload-digest"),
        "{profiles:?}"
    );
    let mut versions: Vec<(&str, &str)> = of_pages("response")
        .filter(|record| response(record).0 == "200")
        .map(|record| (&record.url()[site.name.len()..], response(record).1))
        .collect();
    versions.sort_unstable();
    let paths: Vec<&str> = versions.iter().map(|(path, _)| *path).collect();
    let expected = ["/", "/changed", "/changed", "/moved", "/same", "/tagged"];
    assert_eq!(paths, expected, "each version is kept once: {versions:?}");

    let replay = world
        .replay("crawl", "again", &world.archive())
        .arguments(&[&seed])
        .set("stages.archiver.replicas=1")
        .run(MINUTE);
    assert_eq!(replay.code, 0, "{}", json(&replay.summary));
    let replayed = records(&world.replay_data("again").join("archive"));
    for (path, version) in [
        ("/same", "first"),
        ("/tagged", "first"),
        ("/changed", "second"),
        ("/moved", "first"),
    ] {
        let url = format!("{}{path}", site.name);
        let found = replayed
            .iter()
            .find(|record| record.kind() == "response" && record.url() == url);
        let found = found.unwrap_or_else(|| panic!("a response of {path}"));
        assert_eq!(response(found), ("200", body(path, version).as_str()));
    }
}

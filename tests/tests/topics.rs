//! Topics: crawl goals with scopes of their own, on one pipeline.

use rhumb::status::Summary;
use rhumb_tests::harness::{Running, World, assert_conserved, assert_manners, json, signal};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use synthetic_web::{Latency, PagesPerHost, Profile};

const HOSTS: u32 = 6;
const PAGES: u32 = 40;
const MINUTE: Duration = Duration::from_secs(60);

fn world(latency_ms: u64) -> World {
    let pages_per_host = PagesPerHost::Exactly(PAGES);
    let latency = Latency::Fixed { ms: latency_ms };
    World::new(Profile {
        hosts: HOSTS,
        pages_per_host,
        latency,
        ..Profile::raw()
    })
}

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

/// Fetched pages by topic and host, as the archive's log has them.
fn fetched(world: &World) -> BTreeMap<(String, String), usize> {
    let mut fetched = BTreeMap::new();
    for line in fs::read_to_string(world.archive().join("crawl.jsonl"))
        .expect("a log")
        .lines()
    {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        if text("outcome") == "fetched" && !text("url").ends_with("/robots.txt") {
            *fetched
                .entry((text("topic"), rhumb_url::host_of(&text("url")).to_owned()))
                .or_default() += 1;
        }
    }
    fetched
}

/// Goal: each topic has the pages that its scope lets pass, those too that are added while the
/// crawl runs, and what is set of one holds for it alone; links inherit the topic; a topic that is
/// removed follows nothing more. Method: topics on hosts of their own, the log of the archive, and
/// what the web was asked for.
#[test]
fn topics_that_come_and_go_while_the_crawl_runs_have_scopes_of_their_own() {
    let world = world(5);
    let [first, second, third] = [0, 1, 2].map(|host| world.web.host_name(host));
    let seeds = world.web.seed_urls();
    let up = world
        .up()
        .set("stages.archiver.replicas=1")
        .set("politeness.delay=0s");
    let mut crawl = up.set("topics.configured={scope: {follow: host}}").start();
    crawl.handle();
    says(
        &crawl,
        0,
        &["inject", &seeds[0], "--topic", "configured"],
        "",
    );
    says(
        &crawl,
        2,
        &["inject", &seeds[1], "--topic", "strange"],
        "there is no topic strange; there are: configured.",
    );
    crawl.until(MINUTE, |summary| summary.pages == u64::from(PAGES));

    // One that follows any host, but only to where its seed leads.
    let add = [
        "topic",
        "add",
        "shallow",
        "scope.follow=any",
        "scope.max_depth=0",
        "--seed",
        &seeds[1],
    ];
    says(&crawl, 0, &add, "topics.shallow.scope.max_depth = 0");
    says(&crawl, 2, &add, "there is a topic shallow already");
    crawl.until(MINUTE, |summary| summary.pages == u64::from(PAGES + 1));
    // Its scope as it is now holds for it alone, also after a death of who goes by it.
    says(
        &crawl,
        0,
        &[
            "topic",
            "set",
            "shallow",
            "scope.max_depth=65535",
            &format!("scope.accept=['//{third}[:/]']"),
        ],
        "",
    );
    let splitter = crawl.pid("host-splitter");
    signal(splitter, Signal::KILL);
    crawl.until_replaced("host-splitter", splitter, MINUTE);
    says(&crawl, 0, &["inject", &seeds[2], "--topic", "shallow"], "");
    crawl.until(MINUTE, |summary| summary.pages == u64::from(2 * PAGES + 1));
    says(
        &crawl,
        2,
        &["topic", "set", "shallow", "scope.follow=host"],
        "scope.follow is fixed for the life of a topic",
    );
    says(
        &crawl,
        2,
        &["set", "topics.shallow.scope.follow=host"],
        "scope.follow is fixed for the life of a topic",
    );
    says(
        &crawl,
        2,
        &["topic", "set", "strange", "scope.max_depth=1"],
        "there is no topic strange",
    );
    says(
        &crawl,
        2,
        &["topic", "set", "shallow", "scope.depth=1"],
        "there is no such key",
    );
    says(
        &crawl,
        2,
        &["topic", "set", "shallow", "priority=10"],
        "topics.shallow.priority = 10: accepted are 0 to 9",
    );
    says(
        &crawl,
        2,
        &["topic", "set", "shallow", "priority"],
        "it is KEY=VALUE",
    );
    says(
        &crawl,
        2,
        &["topic", "add", "a.b"],
        "'a.b' is no name of a topic",
    );
    says(
        &crawl,
        2,
        &["topic", "add", "default"],
        "URLs of no other topic are of it",
    );
    let listed = crawl.rhumb(&["topic", "list", "--json"]).out;
    let listed: Vec<serde_json::Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let named: Vec<_> = listed
        .iter()
        .map(|topic| (topic["name"].as_str(), topic["scope"]["follow"].as_str()))
        .collect();
    assert_eq!(
        named,
        [
            (Some("configured"), Some("host")),
            (Some("shallow"), Some("any"))
        ]
    );

    says(
        &crawl,
        0,
        &["topic", "remove", "shallow"],
        "topics.shallow.removed = true",
    );
    says(
        &crawl,
        2,
        &["inject", &seeds[3], "--topic", "shallow"],
        "topic shallow was removed",
    );
    says(
        &crawl,
        2,
        &["topic", "remove", "shallow"],
        "topic shallow was removed",
    );
    says(
        &crawl,
        0,
        &["topic", "remove", "shallow", "--drop"],
        "nothing to drop",
    );
    let expected = [
        ("configured", &first, PAGES),
        ("shallow", &second, 1),
        ("shallow", &third, PAGES),
    ];
    let expected: BTreeMap<_, _> = expected
        .map(|(topic, host, pages)| ((topic.to_owned(), host.clone()), pages as usize))
        .into();
    crawl.signal(Signal::INT);
    assert_eq!(crawl.exit_code(MINUTE), 130, "{}", crawl.log());
    assert_eq!(fetched(&world), expected);
    let requests = world
        .web
        .contacts()
        .iter()
        .filter(|contact| !contact.url.ends_with("/robots.txt"))
        .count();
    assert_eq!(requests, (2 * PAGES + 1) as usize, "each page once");
}

/// Goal: a topic has as many pages as its budget, over all schedulers, whatever dies; the rest
/// waits, is no work left to do, and is fetched when the budget is made larger. Method: one topic
/// on all hosts, and another that has none.
#[test]
fn a_topic_s_budget_is_used_up_exactly_and_the_rest_waits_for_a_larger_one() {
    let world = world(5);
    let seeds = world.web.seed_urls();
    let up = world
        .up()
        .set("stages.archiver.replicas=1")
        .set("stages.scheduler.replicas=2")
        .set("politeness.delay=0s");
    let wide = "topics.wide={scope: {follow: any}, pages_max: 50, quality: flow}";
    let mut crawl = up
        .set(wide)
        .set("topics.other={scope: {follow: host}}")
        .start();
    crawl.handle();
    says(
        &crawl,
        2,
        &["topic", "set", "other", "recrawl=true"],
        "name one of its keys",
    );
    says(&crawl, 0, &["inject", &seeds[0], "--topic", "wide"], "");
    crawl.until(MINUTE, |summary| summary.pages > 20);
    let scheduler = crawl.pid("scheduler");
    signal(scheduler, Signal::KILL);
    crawl.until_replaced("scheduler", scheduler, MINUTE);
    let rests = |pages: u64| {
        move |summary: &Summary| {
            summary.pages == pages
                && summary.in_flight == 0
                && summary.waiting == summary.waiting_over_budget
        }
    };
    let over = crawl.until(MINUTE, rests(50));
    assert!(over.waiting > 20, "{}", json(&over));
    says(
        &crawl,
        0,
        &[
            "why",
            &format!("{}/nowhere", seeds[0].trim_end_matches('/')),
        ],
        "",
    );
    says(
        &crawl,
        0,
        &["topic", "set", "wide", "pages_max=70"],
        "topics.wide.pages_max = 70",
    );
    crawl.until(MINUTE, rests(70));
    says(
        &crawl,
        2,
        &["topic", "set", "wide", "pages_max=-1"],
        "topics.wide.pages_max",
    );
    says(
        &crawl,
        2,
        &["set", "limits.pages_per_domain=9"],
        "topics.wide.pages_max: it does not go with limits.pages_per_domain",
    );
    says(&crawl, 0, &["topic", "set", "wide", "pages_max=0"], "");
    let ended = crawl.until(MINUTE, |summary| summary.complete);
    assert_eq!(
        ended.topics["wide"].fetched,
        u64::from(HOSTS * PAGES),
        "{}",
        json(&ended)
    );
    assert_conserved(&ended);
    crawl.signal(Signal::INT);
    assert_eq!(crawl.exit_code(MINUTE), 130, "{}", crawl.log());
}

/// Goal: a topic that is removed with `--drop` leaves nothing that waits, and nothing of the other
/// topics is touched. Method: two topics with the same hosts in scope, each from a seed of its own,
/// while the crawl is paused.
#[test]
fn what_waits_of_a_topic_is_dropped_with_it_and_nothing_of_the_others() {
    let world = world(200);
    let seeds = world.web.seed_urls();
    let up = world
        .up()
        .set("stages.archiver.replicas=1")
        .set("stages.archiver.by_topic=true")
        .set("politeness.delay=0s");
    let mut crawl = up.set("scope.follow=host").start();
    crawl.handle();
    // Before there are topics, seeds may be called by any name, and their hosts join by the scope
    // of the crawl.
    says(
        &crawl,
        0,
        &["inject", "http://absent.test/", "--topic", "loose"],
        "",
    );
    says(
        &crawl,
        2,
        &["topic", "add", "loose", "scope.follow=domain"],
        "topic loose was in use before",
    );
    says(
        &crawl,
        0,
        &[
            "topic",
            "add",
            "kept",
            "scope.follow=host",
            "--seed",
            &seeds[0],
        ],
        "",
    );
    says(
        &crawl,
        0,
        &[
            "topic",
            "add",
            "gone",
            "scope.follow=host",
            "--seed",
            &seeds[1],
        ],
        "",
    );
    crawl.until(MINUTE, |summary| summary.pages > 4);
    says(&crawl, 0, &["pause"], "the crawl is paused");
    crawl.until(MINUTE, |summary| summary.in_flight == 0);
    let counted = crawl.rhumb(&["drop", "--topic", "gone", "--count", "--json"]);
    assert_eq!(counted.code, 0, "{}", counted.err);
    says(
        &crawl,
        0,
        &["topic", "remove", "gone", "--drop", "--yes", "--yes"],
        "topics.gone.removed = true",
    );
    says(&crawl, 0, &["unpause"], "");
    let ended = crawl.until(MINUTE, |summary| summary.complete && summary.urls_new > 2);
    assert_conserved(&ended);
    let counted: serde_json::Value = serde_json::from_str(&counted.out).expect("JSON");
    let dropped = ended.outcomes["dropped"];
    assert!(
        dropped > 0 && counted.to_string().contains(&dropped.to_string()),
        "{counted} and {}",
        json(&ended)
    );
    crawl.signal(Signal::INT);
    assert_eq!(crawl.exit_code(MINUTE), 130, "{}", crawl.log());
    let of = |topic: &str| -> usize {
        fetched(&world)
            .iter()
            .filter(|((of, _), _)| of == topic)
            .map(|(_, pages)| pages)
            .sum()
    };
    assert_eq!(of("kept"), PAGES as usize);
    assert!(of("gone") < PAGES as usize, "{:?}", fetched(&world));
    assert_manners(&world.web.report());
    // Each topic has files of its own, with its host alone.
    for (topic, host) in [
        ("kept", world.web.host_name(0)),
        ("gone", world.web.host_name(1)),
    ] {
        let files = fs::read_dir(world.archive())
            .expect("an archive")
            .map(|file| file.expect("a file").path());
        let is_of = |path: &PathBuf| {
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            name.starts_with(&format!("default-{topic}-")) && name.ends_with(".cdxj")
        };
        let lines: Vec<String> = files
            .filter(is_of)
            .flat_map(|path| {
                fs::read_to_string(path)
                    .expect("an index")
                    .lines()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .collect();
        let pages = lines
            .iter()
            .filter(|line| !line.contains("/robots.txt"))
            .count();
        assert!(
            pages >= of(topic) && pages > 0,
            "{topic}: {pages} of {}",
            of(topic)
        );
        assert!(
            lines.iter().all(|line| line.contains(&format!("//{host}"))),
            "{lines:?}"
        );
    }
    let topics: BTreeSet<_> = fetched(&world)
        .into_keys()
        .map(|(topic, _)| topic)
        .collect();
    assert_eq!(
        topics,
        BTreeSet::from(["gone".to_owned(), "kept".to_owned()])
    );
}

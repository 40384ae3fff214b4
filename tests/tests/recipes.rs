//! Recipes: the commands of docs/operating.md do what the text around them says.

use rhumb_tests::harness::{Running, World, assert_conserved, assert_manners, cook, json, recipe};
use std::time::{Duration, Instant};
use synthetic_web::{Hostility, Latency, PagesPerHost, Profile};

const HOSTS: u32 = 12;
const PAGES: u32 = 200;
const MINUTE: Duration = Duration::from_secs(60);
/// From the end of a command until nothing contradicts it, what was under way included.
const HEEDED_WITHIN: Duration = Duration::from_secs(2);

/// A web whose last host has each page twice, the second time with a parameter that says nothing.
fn world() -> World {
    World::new(Profile {
        hosts: HOSTS,
        pages_per_host: PagesPerHost::Exactly(PAGES),
        latency: Latency::Fixed { ms: 100 },
        hostile: 1.0 / f64::from(HOSTS),
        hostilities: vec![Hostility::Copies],
        ..Profile::raw()
    })
}

/// Starts a crawl and waits until a part of it is done.
fn under_way(world: &World) -> Running {
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| {
        summary.pages > u64::from(HOSTS * PAGES / 10)
    });
    crawl
}

/// Runs the commands of a recipe for a host, in a folder where the crawl has its usual place; all
/// but those whose number is in `asking` end with exit code 0, and those with 2. Returns what each
/// said.
fn cooked(world: &World, heading: &str, host: &str, asking: &[usize]) -> Vec<String> {
    std::os::unix::fs::symlink(world.data(), world.folder().join("rhumb-data")).expect("a link");
    let block = recipe(heading).concat();
    let block = block
        .replace("www.example.org", host)
        .replace(r"www\.example\.org", &host.replace('.', r"\."));
    let block = block.replace("sessionid=", "copy=");
    let run = |(number, line): (usize, &str)| {
        let said = cook(line, world.folder());
        let code = if asking.contains(&number) { 2 } else { 0 };
        assert_eq!(said.code, code, "{line}\n{}{}", said.out, said.err);
        format!("{}{}", said.out, said.err)
    };
    block.lines().enumerate().map(run).collect()
}

/// The requests for URLs with these words that came after a time.
fn requests_after(world: &World, words: &str, time: Instant) -> Vec<String> {
    let began = world.web.began();
    let late = world
        .web
        .contacts()
        .into_iter()
        .filter(|contact| began + contact.at > time);
    late.map(|contact| contact.url)
        .filter(|url| url.contains(words))
        .collect()
}

#[test]
fn a_site_that_complains_is_left_alone_for_good() {
    let world = world();
    let host = world.web.host_name(3);
    let crawl = under_way(&world);
    let said = cooked(&world, "A site complains", &host, &[]);
    let done = Instant::now() + HEEDED_WITHIN;
    assert!(
        said[1].contains("ticket 4711"),
        "the queue names the order: {}",
        said[1]
    );
    let dropped = format!("dropped   host {host}, found now or later, is dropped by ");
    let status = said.last().expect("the last command is `rhumb status`");
    assert!(
        status.contains(&dropped) && status.contains("ticket 4711") && !status.contains("paused  "),
        "{status}"
    );
    let finished = crawl.finish(2 * MINUTE);
    assert_eq!(finished.code, 0, "{}", json(&finished.summary));
    assert_conserved(&finished.summary);
    assert_manners(&world.web.report());
    assert!(
        finished.summary.outcomes["dropped"] > 20,
        "{}",
        json(&finished.summary)
    );
    assert!(
        finished.summary.pages >= u64::from((HOSTS - 1) * PAGES),
        "the others are whole"
    );
    let later = requests_after(&world, &format!("//{host}:"), done);
    assert!(later.is_empty(), "{later:?}");
}

#[test]
fn a_trap_that_was_found_catches_nothing_more() {
    let world = world();
    let host = world.web.host_name(HOSTS - 1);
    let crawl = under_way(&world);
    let said = cooked(&world, "A trap was found", &host, &[]);
    let done = Instant::now() + HEEDED_WITHIN;
    assert!(
        said[1].contains("copy=1"),
        "the queue shows what waits: {}",
        said[1]
    );
    assert!(said[2].contains("URLs that wait are of"), "{}", said[2]);
    let finished = crawl.finish(2 * MINUTE);
    assert_eq!(finished.code, 0, "{}", json(&finished.summary));
    assert_conserved(&finished.summary);
    assert_manners(&world.web.report());
    assert!(finished.summary.outcomes["dropped"] > 5 && finished.summary.urls_filtered > 0);
    assert!(
        finished.summary.pages >= u64::from(HOSTS * PAGES),
        "pages without that parameter are whole"
    );
    let later = requests_after(&world, "copy=1", done);
    assert!(later.is_empty(), "{later:?}");
}

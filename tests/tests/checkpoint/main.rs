//! Checkpoints: a crawl is written down while it runs, and another one begins with it elsewhere,
//! whatever dies meanwhile.

mod habits;
mod restoring;
mod taking;

use rhumb::status::Summary;
use rhumb_tests::harness::{Running, Said, World, assert_conserved, binaries, json};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use synthetic_web::{Latency, PagesPerHost, Profile};

const HOSTS: u32 = 20;
const PAGES: u32 = 60;
const MINUTE: Duration = Duration::from_secs(60);
/// `HOLD_LASTS`, and what processes take to notice that it is over.
const HOLD_OVER: Duration = Duration::from_secs(20);

fn world(ms: u64) -> World {
    let pages_per_host = PagesPerHost::Exactly(PAGES);
    World::new(Profile {
        hosts: HOSTS,
        pages_per_host,
        latency: Latency::Fixed { ms },
        ..Profile::raw()
    })
}

/// A crawl in the middle, with few connections: it does not end by itself soon.
fn in_the_middle(world: &World, settings: &[&str]) -> Running {
    let slow = world.crawl().set("stages.fetcher.connections=4");
    let mut crawl = settings
        .iter()
        .fold(slow, |crawl, setting| crawl.set(setting))
        .start();
    crawl.until(MINUTE, |summary| {
        summary.pages > u64::from(HOSTS * PAGES / 10)
    });
    crawl
}

/// Lets a crawl end soon.
fn hurry(crawl: &Running) {
    let said = crawl.rhumb(&["scale", "fetcher=5"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Takes a checkpoint of a running crawl. Returns what the command told.
fn checkpoint(crawl: &Running, dir: &Path) -> Value {
    let Said { code, out, err } = crawl.rhumb(&["checkpoint", &text(dir), "--json"]);
    assert_eq!(code, 0, "{out}{err}\n{}", crawl.log());
    serde_json::from_str(&out).expect("JSON")
}

/// What a checkpoint says of itself.
fn manifest(dir: &Path) -> Value {
    let bytes = std::fs::read(dir.join("checkpoint.json")).expect("a manifest");
    let sealed: Value = serde_json::from_slice(&bytes).expect("JSON");
    sealed["checkpoint"].clone()
}

/// A command on a crawl that goes on beside the test.
fn begin(crawl: &Running, arguments: &[&str]) -> Child {
    begin_heard(crawl, arguments, Stdio::null())
}

/// The same, with what it says going there.
fn begin_heard(crawl: &Running, arguments: &[&str], says: Stdio) -> Child {
    let mut command = Command::new(binaries().join("rhumb"));
    command
        .args(arguments)
        .args(["--data", &text(&crawl.data())]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(says);
    command.spawn().expect("rhumb can be started")
}

/// URLs that were requested, but for robots.txt, in the order of the requests.
fn requested(world: &World) -> Vec<String> {
    let mut contacts = world.web.contacts();
    contacts.sort_by_key(|contact| contact.at);
    contacts
        .into_iter()
        .map(|contact| contact.url)
        .filter(|url| !url.ends_with("/robots.txt"))
        .collect()
}

/// Asserts that a crawl which began with a checkpoint is complete, and that both have fetched each
/// page once. `first`: what was requested until all of the first crawl had ended; `ended`: how many
/// URLs had ended in the checkpoint.
fn assert_goes_on(world: &World, first: &[String], ended: usize, summary: &Summary) {
    let truth = world.web.truth();
    assert!(summary.complete, "{}", json(summary));
    assert_eq!(
        (summary.pages, &summary.outcomes),
        (truth.pages.len() as u64, &truth.outcomes)
    );
    assert_conserved(summary);
    let before = first.iter().take(ended).collect::<BTreeSet<_>>();
    let second = requested(world);
    let after: BTreeSet<&String> = second.iter().collect();
    let again: Vec<_> = before.intersection(&after).collect();
    assert!(
        again.is_empty(),
        "fetched before the checkpoint, and after it: {again:?}"
    );
    assert_eq!(
        (before.len(), after.len()),
        (ended, second.len()),
        "each URL is requested once"
    );
    assert_eq!(
        before.len() + after.len(),
        truth.pages.len(),
        "and all of them"
    );
    let report = world.web.report();
    assert_eq!(
        report.hosts_without_robots_first,
        0,
        "robots.txt lapses: {}",
        json(&report)
    );
}

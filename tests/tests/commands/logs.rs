//! Logs: JSON lines, levels of modules, and the trace of a page from a tap through the logs to
//! `rhumb why`.

use super::{MINUTE, slow_web, slower_web};
use rhumb_tests::harness::{Running, World, rhumb, signal};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Longer than between two lines about the progress of a crawl.
const UNTIL_PROGRESS_S: f64 = 6.0;
/// Until a tap that was started listens, with much to spare.
const TAP_LISTENS: Duration = Duration::from_secs(2);

/// The lines of a log, each of which is one JSON object. What `rhumb crawl` ends with goes to
/// standard output.
fn lines(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).expect("a log");
    // What `rhumb` prints at the end, on standard output, is for people.
    let is_log = |line: &&str| !line.starts_with("complete in ");
    let read = |line| {
        serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{}: {error}: {line}", log.display()))
    };
    text.lines().filter(is_log).map(read).collect()
}

fn message(line: &str) -> Value {
    serde_json::from_str::<Value>(line).expect("JSON")["message"].take()
}

/// Pages that pass the tap, with trace and URL.
fn pages(crawl: &Running) -> Vec<(String, String)> {
    let said = crawl.rhumb(&[
        "tap",
        "pages",
        "--headers",
        "--limit",
        "5",
        "--format",
        "json",
    ]);
    let of = |page: Value| {
        (
            page["trace"].as_str().expect("a trace").to_owned(),
            page["url"].as_str().expect("a URL").to_owned(),
        )
    };
    said.out.lines().map(|line| of(message(line))).collect()
}

/// Goal: what is seen of a page at one place is found at all others by its trace. Method: while the
/// parser stands still, pages wait in their stream; one is found there by its trace, its links pass
/// a tap when the parser goes on, and its lines are in the logs of the stages that met it.
#[test]
fn the_trace_of_a_page_leads_from_a_tap_to_its_links_its_log_lines_and_its_url() {
    let world = World::new(slower_web());
    let levels = "log.level=info,dedup=warn,fetcher=debug,parser=debug";
    let mut crawl = world.crawl().set("log.format=json").set(levels).start();
    crawl.until(MINUTE, |summary| summary.pages > 20);
    let found = crawl.tap("urls.found");
    let parser = crawl.pid("parser");
    signal(parser, Signal::STOP);
    let pages = pages(&crawl);
    let (trace, url) = &pages[0];

    let why = crawl.rhumb(&["why", url, "--json"]);
    let why: Value = serde_json::from_str(&why.out).expect("JSON");
    assert_eq!(&why["trace"], trace.as_str(), "of a URL");
    let why = crawl.rhumb(&["why", "--trace", trace, "--for", "15s", "--json"]);
    assert_eq!(why.code, 0, "{}", why.err);
    let why: Value = serde_json::from_str(&why.out).expect("JSON");
    assert_eq!(
        (&why["url"], &why["trace"]),
        (&url.as_str().into(), &trace.as_str().into()),
        "{why}"
    );
    let waits = |sighting: &Value| {
        sighting["subject"] == "rhumb.default.pages" && sighting["sequence"].is_u64()
    };
    assert!(
        why["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .any(waits),
        "{why}"
    );

    let links = [
        "tap",
        "urls.found",
        "--trace",
        trace,
        "--limit",
        "1",
        "--format",
        "json",
    ];
    let tapped = std::thread::scope(|scope| {
        let tapped = scope.spawn(|| crawl.rhumb(&links));
        std::thread::sleep(TAP_LISTENS);
        signal(parser, Signal::CONT);
        tapped.join().expect("the tap ends")
    });
    let shown = message(&tapped.out);
    let is_link = shown["urls"]
        .as_array()
        .is_some_and(|urls| urls.contains(&url.as_str().into()));
    assert!(
        shown["origin"]["trace"] == trace.as_str() || is_link,
        "{} {}",
        tapped.out,
        tapped.err
    );

    crawl.until(MINUTE, |summary| summary.elapsed_s > UNTIL_PROGRESS_S);
    world.assert_whole(&crawl.finish(MINUTE));
    let found: BTreeSet<String> = found
        .lines()
        .iter()
        .filter_map(|line| Some(message(line)["origin"]["trace"].as_str()?.to_owned()))
        .collect();
    assert!(found.contains(trace), "its links passed with its trace");
    for (stage, what) in [
        ("fetcher", "a page is fetched"),
        ("parser", "a page is parsed"),
    ] {
        let lines = lines(&world.data().join(format!("logs/{stage}-0.log")));
        for (trace, url) in &pages {
            let is_meant =
                |line: &Value| line["trace"] == trace.as_str() && line["message"] == what;
            let line = lines
                .iter()
                .find(|line| is_meant(line))
                .unwrap_or_else(|| panic!("{stage}: {trace} {url}"));
            assert_eq!(
                (&line["url"], &line["level"]),
                (&url.as_str().into(), &"DEBUG".into()),
                "{line}"
            );
        }
    }
    assert_logs(&world);
}

/// Every line of every log says when, how bad, what, and of which process; levels are those of the
/// modules.
fn assert_logs(world: &World) {
    let logs = std::fs::read_dir(world.data().join("logs"))
        .expect("logs")
        .map(|log| log.expect("a log").path());
    for log in logs {
        let (stage, instance) = log
            .file_stem()
            .and_then(|name| name.to_str()?.rsplit_once('-'))
            .expect("its name");
        for line in lines(&log) {
            assert_eq!(
                (&line["stage"], &line["instance"]),
                (
                    &stage.into(),
                    &instance.parse::<u16>().expect("a number").into()
                )
            );
            assert!(
                line["time"]
                    .as_str()
                    .is_some_and(|time| time.ends_with('Z')),
                "{line}"
            );
            assert!(
                line["target"].is_string() && line["message"].is_string(),
                "{line}"
            );
            let is_shown = line["level"] != "DEBUG" || ["fetcher", "parser"].contains(&stage);
            assert!(is_shown, "{line}");
        }
    }
    let own = lines(&world.data().join("../rhumb.log"));
    let progress = own
        .iter()
        .find(|line| line["message"] == "progress")
        .expect("a line about the progress");
    assert_eq!(
        (&progress["stage"], &progress["level"]),
        (&"rhumb".into(), &"INFO".into())
    );
    assert!(
        progress["pages"].is_u64() && progress["elapsed_s"].is_number(),
        "{progress}"
    );
}

#[test]
fn a_level_that_is_none_a_trace_that_is_none_and_one_that_nobody_knows_are_named() {
    let world = World::new(slow_web());
    let data = world.data().display().to_string();
    let said = rhumb(&[
        "crawl",
        "http://127.0.0.1:1/",
        "--data",
        &data,
        "--set",
        "log.level=info,fetcher=loud",
    ]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(
        said.err.contains("log.level") && said.err.contains("'fetcher=loud' is neither a level"),
        "{}",
        said.err
    );
    for command in [
        &["why", "--trace", "5"][..],
        &["tap", "pages", "--trace", "no-trace-at-all"],
    ] {
        let said = rhumb(command);
        assert!(
            said.code == 2 && said.err.contains("16 hexadecimal digits"),
            "{}",
            said.err
        );
    }
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| summary.pages > 0);
    let said = crawl.rhumb(&["why", "--trace", "0123456789abcdef", "--for", "1s"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.err.contains("0123456789abcdef") && said.err.contains("within 1s"),
        "{}",
        said.err
    );
    world.assert_whole(&crawl.finish(MINUTE));
}

//! Usage: what owners say of their pages is recorded as an independent reader understands it, and
//! obeyed. Through real processes, on the sites of a test; the reader is `reader.py`, which shares
//! nothing with the programs.

mod sites;

use rhumb_tests::harness::{Finished, Running, World, assert_conserved, json, rhumb, signal};
use rustix::process::Signal;
use serde_json::Value;
use sites::{PAGES, author, owners};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use synthetic_web::{PagesPerHost, Profile};

const AT_MOST: Duration = Duration::from_secs(120);
const FOR_TRAINING: &str = "usage.purposes=[ai-train]";

fn world() -> World {
    World::new(Profile {
        hosts: 1,
        pages_per_host: PagesPerHost::Exactly(1),
        ..Profile::raw()
    })
}

fn assert_complete(finished: &Finished) {
    let told = json(&finished.summary);
    assert_eq!(
        (finished.code, finished.summary.complete),
        (0, true),
        "{told}"
    );
    assert_conserved(&finished.summary);
}

/// The lines of the log of an archive, by URL.
fn log(archive: &Path) -> BTreeMap<String, Value> {
    let log = fs::read_to_string(archive.join("crawl.jsonl")).expect("a log");
    let lines = log.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        (line["url"].as_str().unwrap_or_default().to_owned(), line)
    });
    lines.collect()
}

fn python(arguments: &[&str]) -> String {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/usage/reader.py");
    let output = Command::new("python3")
        .arg(reader)
        .args(arguments)
        .output()
        .expect("python3 is there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// What the independent reader says of each response, by URL.
fn judged(archive: &Path) -> BTreeMap<String, Value> {
    let said = python(&["judge", &archive.display().to_string()]);
    let lines = said.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        (line["url"].as_str().unwrap_or_default().to_owned(), line)
    });
    lines
        .filter(|(url, _)| !url.ends_with("/robots.txt"))
        .collect()
}

/// The numbers of the pages of whose texts something stands below these paths, as the independent
/// reader finds them.
fn texts_in(paths: &[&Path]) -> BTreeSet<usize> {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let mut arguments = vec!["find", "SECRET-([0-9]+)-"];
    arguments.extend(paths.iter().map(String::as_str));
    let found: Vec<String> = serde_json::from_str(&python(&arguments)).expect("JSON");
    found
        .iter()
        .map(|number| number.parse().expect("a number"))
        .collect()
}

fn number_of(url: &str) -> Option<usize> {
    url.rsplit_once("/p/")?.1.parse().ok()
}

fn refuses_training(line: &Value) -> bool {
    line["judged"]["ai-train"] == "refused"
}

/// Ends a process, and waits for the next.
fn kill(crawl: &mut Running, name: &str) {
    let pid = crawl.pid(name);
    signal(pid, Signal::KILL);
    let end = Instant::now() + Duration::from_secs(20);
    while !crawl.pids(name).iter().any(|now| *now != pid) {
        assert!(
            Instant::now() < end && !crawl.has_ended(),
            "{}",
            crawl.log()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Goal: what is recorded of 2,000 pages, with signals in every place, is what an independent
/// reader of the archive understands; an unwilling owner leaves no body in WARC files, crawl.jsonl
/// and logs, after kills, and after a replay of an archive that has them.
#[test]
fn two_thousand_pages_are_judged_as_an_independent_reader_judges_them_and_their_owners_obeyed() {
    let site = owners();
    let marking = world();
    let seed = [format!("{}/", site.name)];
    let crawl = marking
        .bare("crawl")
        .arguments(&seed)
        .set("stages.archiver.replicas=1")
        .set(FOR_TRAINING)
        .set("usage.unwanted=mark");
    assert_complete(&crawl.run(AT_MOST));
    let archive = marking.archive();
    let judgements = judged(&archive);
    let lines = log(&archive);
    let mut unwilling = BTreeSet::new();
    let mut willing = BTreeSet::new();
    for (url, line) in &judgements {
        let told = format!("{line}\n{}", lines[url]);
        let usage = &lines[url]["usage"];
        if line["recorded"].is_null() {
            let is_unsaid = |said: &Value| said == "unsaid";
            let judged = line["judged"].as_object().expect("stances");
            assert!(judged.values().all(is_unsaid) && usage.is_null(), "{told}");
        } else {
            assert_eq!(line["recorded"], line["judged"], "{told}");
            assert_eq!(usage["stances"], line["judged"], "{told}");
            assert_eq!(
                (&line["version"], &usage["version"]),
                (&"1".into(), &1.into())
            );
            assert!(!usage["statements"].as_array().expect("a list").is_empty());
        }
        let verdict = if refuses_training(line) { "marked" } else { "" };
        assert_eq!(line["verdict"], verdict, "{told}");
        if refuses_training(line) {
            assert_eq!(usage["verdict"], "marked", "{told}");
            assert_eq!(line["refused"], "ai-train", "{told}");
        }
        if let Some(number) = number_of(url) {
            assert_ne!(line["body"], 0, "{told}");
            let side = if refuses_training(line) {
                &mut unwilling
            } else {
                &mut willing
            };
            side.insert(number);
        }
    }
    assert_eq!(unwilling.len() + willing.len(), PAGES);
    assert!(unwilling.len() > PAGES / 4 && willing.len() > PAGES / 4);
    assert_eq!(texts_in(&[&archive]), &unwilling | &willing);

    let replay = marking
        .replay("crawl", "again", &archive)
        .arguments(&seed)
        .set("stages.archiver.replicas=1")
        .set("log.level=debug")
        .set(FOR_TRAINING)
        .set("usage.unwanted=withhold");
    assert_complete(&replay.run(AT_MOST));
    let data = marking.replay_data("again");
    let unsaid = assert_nothing_kept_of(&unwilling, &willing, &data, &data.join("archive"));
    assert_eq!(unsaid, 0);
    drop(marking);

    let withholding = world();
    let mut crawl = withholding
        .bare("crawl")
        .arguments(&seed)
        .set("stages.archiver.replicas=1")
        .set("politeness.delay=4ms")
        .set("log.level=debug")
        .set(FOR_TRAINING)
        .set("usage.unwanted=withhold")
        .start();
    for (pages, name) in [
        (300, "archiver"),
        (700, "parser"),
        (1000, "fetcher"),
        (1300, "broker"),
    ] {
        crawl.until(AT_MOST, |summary| summary.pages >= pages);
        kill(&mut crawl, name);
    }
    assert_complete(&crawl.finish(AT_MOST));
    let data = withholding.data();
    let unsaid = assert_nothing_kept_of(&unwilling, &willing, &data, &withholding.archive());
    assert!(unsaid < PAGES / 4, "{unsaid}");
}

/// Lines that do not say what became of their pages are returned.
fn assert_nothing_kept_of(
    unwilling: &BTreeSet<usize>,
    willing: &BTreeSet<usize>,
    data: &Path,
    archive: &Path,
) -> usize {
    let files = texts_in(&[archive]);
    let of_unwilling: Vec<_> = files.intersection(unwilling).collect();
    assert!(of_unwilling.is_empty(), "{of_unwilling:?}");
    assert_eq!(&files, willing);
    let logs = data.join("logs");
    assert!(fs::read_dir(&logs).expect("logs").count() > 0);
    assert_eq!(texts_in(&[&logs]), BTreeSet::new());
    let lines = log(archive);
    let mut unsaid = 0;
    for (url, line) in judged(archive) {
        let Some(number) = number_of(&url) else {
            continue;
        };
        let usage = &lines[&url]["usage"];
        if unwilling.contains(&number) {
            assert_eq!(
                (&line["body"], &line["truncated"]),
                (&0.into(), &"unspecified".into())
            );
            assert_eq!(line["verdict"], "withheld", "{line}");
            // Whose document was lost with a process, or came too late, has neither title nor usage.
            let is_said = usage["verdict"] == "withheld";
            unsaid += usize::from(!is_said);
            assert!(is_said || usage.is_null(), "{line}");
            assert_eq!(lines[&url]["title"], "");
        } else {
            assert_eq!(line["verdict"], "", "{line}");
            assert_ne!(line["body"], 0, "{line}");
        }
    }
    unsaid
}

/// Goal: where robots.txt alone refuses what the crawl is for, nothing is asked for; the outcome,
/// the line and `rhumb why` say so. Headers are too late for that.
#[test]
fn what_robots_txt_refuses_is_not_fetched() {
    let world = world();
    let rules = "User-agent: *\nContent-Usage: / train-ai=y\nContent-Usage: /mine train-ai=n\n";
    let site = author("owner", rules);
    let mut crawl = world
        .up()
        .set("stages.archiver.replicas=1")
        .set(FOR_TRAINING)
        .set("usage.unwanted=skip")
        .start();
    crawl.handle();
    let injected = crawl.rhumb(&["inject", &format!("{}/", site.name)]);
    assert_eq!(injected.code, 0, "{}", injected.err);
    crawl.until(AT_MOST, |summary| {
        summary.outcomes.values().sum::<u64>() == 4
    });
    let mine = format!("{}/mine", site.name);
    let end = Instant::now() + Duration::from_secs(20);
    let why = loop {
        let why = crawl.rhumb(&["why", &mine]).out;
        if why.contains("so it is withheld") || Instant::now() > end {
            break why;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let said = "of its use is said: ai-train refused (robots.txt content-usage: train-ai=n), so it \
                is withheld";
    assert!(
        why.contains("ended disallowed, usage") && why.contains(said),
        "{why}"
    );
    let asked: Vec<String> = site.sent().into_keys().collect();
    assert_eq!(asked, ["/", "/header", "/robots.txt", "/yours"]);
    crawl.signal(Signal::TERM);
    crawl.exit_code(AT_MOST);
    let lines = log(&world.archive());
    let mine = &lines[&mine];
    assert_eq!(
        (&mine["outcome"], &mine["reason"]),
        (&"disallowed".into(), &"usage".into())
    );
    assert_eq!(mine["usage"]["refused"], Value::from(vec!["ai-train"]));
    let header = format!("{}/header", site.name);
    assert_eq!(lines[&header]["outcome"], "fetched");
    assert_eq!(lines[&header]["usage"]["verdict"], "withheld");
    assert_eq!(judged(&world.archive())[&header]["body"], 0);
}

/// Goal: a topic says what differs, and an owner who refuses one topic's purpose is obeyed there.
#[test]
fn each_topic_has_purposes_of_its_own() {
    let world = world();
    let sites: Vec<_> = ["keeps", "marks", "skips", "other"]
        .into_iter()
        .map(|topic| {
            (
                topic,
                author(topic, "User-agent: *\nContent-Signal: ai-train=no\n"),
            )
        })
        .collect();
    let mut crawl = world
        .up()
        .set("stages.archiver.replicas=1")
        .set("scope.follow=host")
        .set(FOR_TRAINING)
        .set("usage.unwanted=withhold")
        .set("topics.keeps={usage: {purposes: [search]}}")
        .set("topics.marks={usage: {unwanted: mark}}")
        .set("topics.skips={usage: {unwanted: skip}}")
        .start();
    crawl.handle();
    for (topic, site) in &sites {
        let url = format!("{}/yours", site.name);
        let topic: &[&str] = if *topic == "other" {
            &[]
        } else {
            &["--topic", topic]
        };
        let injected = crawl.rhumb(&[&["inject", url.as_str()], topic].concat());
        assert_eq!(injected.code, 0, "{}", injected.err);
    }
    crawl.until(AT_MOST, |summary| {
        summary.outcomes.values().sum::<u64>() == 4
    });
    crawl.signal(Signal::TERM);
    crawl.exit_code(AT_MOST);
    let lines = log(&world.archive());
    let judgements = judged(&world.archive());
    for ((topic, site), (outcome, verdict, has_body)) in sites.iter().zip([
        ("fetched", "kept", true),
        ("fetched", "marked", true),
        ("disallowed", "withheld", false),
        ("fetched", "withheld", false),
    ]) {
        let url = format!("{}/yours", site.name);
        let line = &lines[&url];
        assert_eq!(line["outcome"], outcome, "{topic}: {line}");
        assert_eq!(line["usage"]["verdict"], verdict, "{topic}: {line}");
        let body = judgements.get(&url).is_some_and(|line| line["body"] != 0);
        assert_eq!(body, has_body, "{topic}");
    }
}

/// Goal: bad input costs no page and no process: 10,000 lines and longer ones, values that are no
/// tokens, a header of 8 KiB, a robots.txt on another host, names that contain ours.
#[test]
fn bad_input_is_bounded_and_what_can_be_understood_counts() {
    let world = world();
    let lines = "Content-Signal: ai-input=no, x=\"\u{1}\n".repeat(10_000);
    let rules = format!("User-agent: *\n{lines}Content-Signal: ai-train=no\n");
    let elsewhere = author("elsewhere", &rules);
    let moved = sites::with_robots_at(format!("{}/robots.txt", elsewhere.name));
    let crawl = world
        .bare("crawl")
        .arguments(&[format!("{}/", moved.name)])
        .set("scope.follow=host")
        .set("stages.archiver.replicas=1")
        .set(FOR_TRAINING)
        .set("usage.unwanted=mark");
    assert_complete(&crawl.run(AT_MOST));
    let lines = log(&world.archive());
    for path in ["/", "/long", "/odd", "/theirs"] {
        let usage = &lines[&format!("{}{path}", moved.name)]["usage"];
        assert_eq!(usage["stances"]["ai-train"], "refused", "{path}: {usage}");
        assert_eq!(usage["verdict"], "marked");
    }
    let of = |path: &str| lines[&format!("{}{path}", moved.name)]["usage"].clone();
    let long = of("/long");
    assert_eq!(long["stances"]["search"], "refused");
    let values = long["statements"].as_array().expect("a list").iter();
    let longest = values
        .map(|said| said["value"].as_str().map_or(0, str::len))
        .max();
    assert_eq!(
        longest,
        Some(512),
        "what is kept of a value is bounded, and it counts whole"
    );
    assert_eq!(of("/odd")["stances"]["search"], "unsaid");
    assert_eq!(
        of("/theirs")["stances"]["archive"],
        "unsaid",
        "a name that contains ours"
    );
}

/// `rhumb robots --signals` says what a robots.txt says of a URL, for people and as JSON.
#[test]
fn the_command_says_what_a_robots_txt_says_of_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("robots.txt").display().to_string();
    let rules = "User-agent: *\nDisallow: /x\nContent-Signal: search=yes, ai-train=no\n\
                 Content-Usage: /y ai-use=n\n\nUser-agent: other\nAllow: /\n";
    fs::write(&file, rules).expect("a file");
    let said = |more: &[&str]| rhumb(&[&["robots", file.as_str()], more].concat());
    let people = said(&["http://a.test/y", "--signals"]);
    let expected = "allowed\nsearch: allowed\nai-input: refused\nai-train: refused\narchive: unsaid\n\
                    robots.txt content-signal: search=yes, ai-train=no\n\
                    robots.txt content-usage: ai-use=n\n";
    assert_eq!((people.code, people.out.as_str()), (0, expected));
    let machine = said(&["http://a.test/x", "--signals", "--json"]);
    let told: Value = serde_json::from_str(&machine.out).expect("JSON");
    assert_eq!((machine.code, &told["allowed"]), (1, &false.into()));
    assert_eq!(told["signals"]["stances"]["ai-train"], "refused");
    assert_eq!(told["signals"]["statements"][0]["place"], "robots.txt");
    let other = said(&["http://a.test/y", "--agent", "other", "--json"]);
    let told: Value = serde_json::from_str(&other.out).expect("JSON");
    assert_eq!(
        (told["allowed"].clone(), told.get("signals")),
        (true.into(), None)
    );
}

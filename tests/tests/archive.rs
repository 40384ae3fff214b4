//! The archive of a crawl: every page and every outcome once, whatever becomes of the archiver; and
//! how a further stage takes part.

use rhumb::status::Summary;
use rhumb_tests::harness::{
    Answer, Finished, Further, Record, Running, Site, World, json, records, rhumb, signal,
};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use synthetic_web::{Latency, PagesPerHost, Profile};

const CRAWL_AT_MOST: Duration = Duration::from_secs(90);

fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir)
        .expect("what was kept can be read")
        .map(|entry| entry.expect("what was kept can be read").path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| {
            path.to_str()
                .expect("what was kept can be read")
                .ends_with(suffix)
        })
        .collect();
    paths.sort();
    paths
}

/// Asserts that the archive has each response and each outcome of a whole crawl once.
fn assert_archived(dir: &Path, finished: &Finished) {
    assert!(files(dir, ".open").is_empty(), "all files are finished");
    let mut responses: BTreeMap<String, u32> = BTreeMap::new();
    // What is fetched for its rules is no URL of the crawl.
    let is_page = |url: &str| !url.ends_with("/robots.txt");
    let records: Vec<Record> = records(dir)
        .into_iter()
        .filter(|record| is_page(record.url()))
        .collect();
    for record in &records {
        if matches!(record.kind(), "response" | "revisit") {
            let url = record.url();
            assert!(record.block.starts_with(b"HTTP/1.1 "), "{url}");
            *responses.entry(url.to_owned()).or_default() += 1;
        }
    }
    let outcome = |name: &str| finished.summary.outcomes.get(name).copied().unwrap_or(0);
    let answered = outcome("fetched") + outcome("redirected") + outcome("gone");
    assert_eq!(
        responses.len() as u64,
        answered,
        "{}",
        json(&finished.summary)
    );
    assert!(responses.values().all(|&times| times == 1), "{responses:?}");
    for kind in ["request", "metadata"] {
        let of_kind = records.iter().filter(|record| record.kind() == kind);
        let n = of_kind.count();
        assert_eq!(n as u64, answered, "one {kind} for each");
    }
    let indexed: usize = files(dir, ".cdxj")
        .iter()
        .map(|path| {
            let index = fs::read_to_string(path).expect("what was kept can be read");
            index
                .lines()
                .filter(|line| !line.contains("/robots.txt\","))
                .count()
        })
        .sum();
    assert_eq!(indexed as u64, answered);

    let mut outcomes: BTreeMap<String, u64> = BTreeMap::new();
    let mut urls: BTreeMap<String, u32> = BTreeMap::new();
    for line in fs::read_to_string(dir.join("crawl.jsonl"))
        .expect("what was kept can be read")
        .lines()
    {
        let line: Value = serde_json::from_str(line).expect("a line is an object");
        *outcomes
            .entry(
                line["outcome"]
                    .as_str()
                    .expect("what was kept can be read")
                    .to_owned(),
            )
            .or_default() += 1;
        *urls
            .entry(
                line["url"]
                    .as_str()
                    .expect("what was kept can be read")
                    .to_owned(),
            )
            .or_default() += 1;
    }
    let expected: BTreeMap<String, u64> = finished
        .summary
        .outcomes
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(name, n)| (name.clone(), *n))
        .collect();
    assert_eq!(outcomes, expected);
    assert!(urls.values().all(|&times| times == 1), "a line for each");
}

fn world() -> World {
    World::new(Profile {
        hosts: 20,
        pages_per_host: PagesPerHost::Exactly(60),
        latency: Latency::Fixed { ms: 100 },
        ..Profile::raw()
    })
}

/// Goal: the archive is whole although the archiver is killed again and again. Method: small files,
/// so that kills hit their ends, too; every response and every outcome must be there once.
#[test]
fn an_archiver_that_is_killed_loses_and_repeats_nothing() {
    let world = world();
    let mut crawl = world
        .crawl()
        .set("stages.archiver.replicas=1")
        .set("stages.archiver.file_bytes_max=1MiB")
        .set("stages.archiver.linger=50ms")
        .start();
    for part in 1..=4 {
        crawl.until(CRAWL_AT_MOST, |summary| summary.pages >= part * 200);
        let archiver = crawl.pid("archiver");
        signal(archiver, Signal::KILL);
        crawl.until_replaced("archiver", archiver, Duration::from_secs(15));
    }
    let finished = crawl.finish(CRAWL_AT_MOST);
    world.assert_whole(&finished);
    assert_eq!(finished.summary.restarts, 4, "{}", json(&finished.summary));
    assert_archived(&world.data().join("archive"), &finished);
}

/// Goal: what the archiver could not keep before the end, it keeps when the crawl goes on, and
/// another folder than the usual is used when one is named.
#[test]
fn a_crawl_that_is_resumed_goes_on_with_its_archive() {
    let world = world();
    let dir = world.data().with_file_name("kept");
    let set = format!("stages.archiver.dir={}", dir.display());
    let mut crawl = world
        .crawl()
        .set("stages.archiver.replicas=1")
        .set(&set)
        .start();
    crawl.until(CRAWL_AT_MOST, |summary| summary.pages >= 300);
    crawl.signal(Signal::INT);
    assert_eq!(crawl.exit_code(CRAWL_AT_MOST), 130);
    let finished = world.resume().run(CRAWL_AT_MOST);
    world.assert_whole(&finished);
    assert_archived(&dir, &finished);
    assert_eq!(files(&dir, ".warc.gz").len(), 2, "a file for each run");
}

/// Goal: what was fetched last is kept, too, when a crawl ends before it is complete. Method: one
/// that ends at a number of pages; a second crawl in the same folder, whose URLs have the same
/// numbers, has all its lines. The archiver is killed on the way, so that the end has to wait for
/// what it had.
#[test]
fn a_crawl_that_ends_at_a_limit_is_archived_to_its_end_and_another_adds_to_it() {
    let world = world();
    let dir = world.data().with_file_name("kept");
    let set = format!("stages.archiver.dir={}", dir.display());
    let mut lines = 0;
    for _ in 0..2 {
        let mut crawl = world
            .crawl()
            .arguments(&["--max-pages", "600"])
            .set("stages.archiver.replicas=1")
            .set(&set);
        for edge in ["pages", "documents", "outcomes"] {
            crawl = crawl.set(&format!("edges.{edge}.ack_wait=5s"));
        }
        let mut crawl = crawl.start();
        crawl.until(CRAWL_AT_MOST, |summary| summary.pages >= 60);
        signal(crawl.pid("archiver"), Signal::KILL);
        let finished = crawl.finish(CRAWL_AT_MOST);
        assert_eq!((finished.code, finished.summary.complete), (0, false));
        lines += finished.summary.outcomes.values().sum::<u64>();
        let text = fs::read_to_string(dir.join("crawl.jsonl")).expect("a log");
        assert_eq!(
            text.lines().count() as u64,
            lines,
            "{}",
            json(&finished.summary)
        );
        assert!(files(&dir, ".open").is_empty());
        let deleted = rhumb(&[
            "delete",
            "--yes",
            "--data",
            world.data().to_str().expect("a path"),
        ]);
        assert_eq!(deleted.code, 0, "{}", deleted.err);
    }
    let answers = records(&dir)
        .iter()
        .filter(|record| matches!(record.kind(), "response" | "revisit"))
        .count();
    assert!(
        answers as u64 >= lines,
        "{answers} responses, {lines} outcomes"
    );
}

/// Headers of a request, in order, names in lower case.
fn headers<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<(String, String)> {
    let headers = lines.filter_map(|line| line.split_once(':'));
    let mut headers: Vec<_> = headers
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    headers.sort();
    headers
}

/// Goal: an archive has requests as they were sent, and says why a body is not whole; what came of
/// one whose end does not come is read, and status and Location count without a body. Method: a
/// site of a test whose chunks do not end, with cookies.
#[test]
fn an_archive_has_what_was_sent_and_says_why_a_body_is_not_whole() {
    let world = World::new(Profile {
        hosts: 1,
        pages_per_host: PagesPerHost::Exactly(1),
        ..Profile::raw()
    });
    let asked: Arc<Mutex<BTreeMap<String, Vec<String>>>> = Arc::default();
    let noted = Arc::clone(&asked);
    let site = Site::serve(move |path, head| {
        noted
            .lock()
            .expect("no test has failed")
            .insert(path.to_owned(), head.to_vec());
        let chunks = |status: u16, fields: &str, body: &str| Answer {
            status,
            fields: format!("{fields}Transfer-Encoding: chunked\r\n"),
            ..Answer::html(body.to_owned())
        };
        let link = "10\r\n<a href=/stalled\r\n";
        match path {
            "/" => Answer {
                fields: "Set-Cookie: a=1\r\n".to_owned(),
                ..Answer::html(
                    "<a href=/long><a href=/broken><a href=/away><a href=/missing>".to_owned(),
                )
            },
            "/long" => Answer::html("<p>long ".repeat(10_000)),
            "/broken" => chunks(200, "", &format!("{link}2\r\n> \r\nnone\r\n")),
            "/stalled" => chunks(200, "", "11\r\n<a href=/there>x \r\n"),
            "/away" => chunks(302, "Location: /target\r\n", ""),
            "/missing" => chunks(404, "", ""),
            "/there" | "/target" => Answer::html(format!("<p>{path}")),
            _ => Answer::missing(),
        }
    });
    let crawl = world
        .bare("crawl")
        .arguments(&[format!("{}/", site.name)])
        .set("stages.archiver.replicas=1");
    let crawl = crawl
        .set("network.cookies=true")
        .set("limits.body_bytes_max=32KiB")
        .set("limits.transfer_rate_window=3s");
    let finished = crawl.run(CRAWL_AT_MOST);
    assert_eq!(
        (finished.code, finished.summary.complete),
        (0, true),
        "{}",
        json(&finished.summary)
    );
    let outcome = |name: &str| finished.summary.outcomes.get(name).copied().unwrap_or(0);
    assert_eq!(
        (outcome("fetched"), outcome("redirected"), outcome("gone")),
        (6, 1, 1),
        "{}",
        json(&finished.summary)
    );

    let records = records(&world.data().join("archive"));
    let of = |kind: &str, path: &str| {
        let url = format!("{}{path}", site.name);
        let found = records
            .iter()
            .find(|record| record.kind() == kind && record.url() == url);
        found.unwrap_or_else(|| panic!("a {kind} of {path}"))
    };
    for (path, truncated) in [
        ("/", ""),
        ("/long", "length"),
        ("/broken", "disconnect"),
        ("/stalled", "time"),
        ("/away", "time"),
        ("/missing", "time"),
        ("/there", ""),
    ] {
        let response = of("response", path);
        assert_eq!(response.field("WARC-Truncated"), truncated, "{path}");
    }
    let asked = asked.lock().expect("no test has failed");
    assert_eq!(asked.len(), 9, "{asked:?}");
    for (path, head) in asked.iter() {
        let kept = std::str::from_utf8(&of("request", path).block).expect("a request is text");
        assert_eq!(kept.lines().next(), head.first().map(String::as_str));
        assert_eq!(
            headers(kept.lines().skip(1)),
            headers(head.iter().skip(1).map(String::as_str)),
            "{path}"
        );
    }
}

/// Goal: a stage that is no part of the pipeline gets every page, and what it puts on an edge of
/// its own arrives. Method: one example finds the titles of a crawl's pages, another reads them
/// from that edge and counts them.
#[test]
fn a_further_stage_gets_every_page_and_produces_on_an_edge_of_its_own() {
    let world = world();
    let mut up = world.up().start();
    // The consumer first: a stream that is kept by interest drops what nobody is interested in.
    let mut count = Further::start("count-titles", &up);
    let mut find = Further::start("find-titles", &up);
    inject(&up, &world);
    let finished = up.until(CRAWL_AT_MOST, |summary| {
        summary.pages == world.web.truth().pages.len() as u64
            && summary.waiting + summary.in_flight == 0
    });
    assert!(finished.pages > 0);
    let pages = finished.outcomes.values().sum::<u64>();
    let end = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        let found = (
            find.count("rhumb_find_titles_pages_total"),
            find.count("rhumb_find_titles_titles_total"),
        );
        let counted = count.count("rhumb_count_titles_titles_total");
        if (found, counted) == ((pages, finished.pages), finished.pages) {
            break;
        }
        let wanted = ((pages, finished.pages), finished.pages);
        assert!(
            std::time::Instant::now() < end,
            "found and counted {:?}, wanted {wanted:?}",
            (found, counted)
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!((find.stop(), count.stop()), (0, 0));
    up.signal(Signal::INT);
    up.exit_code(CRAWL_AT_MOST);
}

/// Goal: a further stage that stands still never holds a crawl back (P8). Method: one is stopped as
/// soon as it takes part in a crawl whose pages need several times the room that their stream has;
/// it must be removed, with a line.
#[test]
fn a_further_stage_that_stands_still_is_removed_and_the_crawl_completes() {
    let world = world();
    let mut crawl = world
        .crawl()
        .set("broker.max_payload=1MiB")
        .set("limits.body_bytes_max=512KiB")
        .set("edges.pages.bytes_max=2MiB")
        .start();
    let find = Further::start("find-titles", &crawl);
    signal(find.pid(), Signal::STOP);
    let said = crawl.rhumb(&["consumers"]);
    let is_listed = |name: &str, need: &str| {
        said.out
            .lines()
            .any(|line| line.contains(name) && line.contains(need))
    };
    assert!(
        is_listed("parser", "required") && is_listed("find-titles", "optional"),
        "{}{}",
        said.out,
        said.err
    );
    crawl.until(CRAWL_AT_MOST, |summary| {
        summary.consumers_removed.len() == 1
    });
    let shown = crawl.rhumb(&["status"]).out;
    assert!(
        shown
            .lines()
            .any(|line| line.starts_with("removed   find-titles from pages: ")),
        "{shown}"
    );
    let log = crawl.data().with_file_name("rhumb.log");
    let finished = crawl.finish(CRAWL_AT_MOST);
    world.assert_whole(&finished);
    let log = std::fs::read_to_string(log).expect("the log");
    assert!(
        log.contains("the optional consumer find-titles of pages is removed: it is about"),
        "{log}"
    );
}

/// Goal: a further stage that left leaves no consumer behind. Method: one is killed that would be
/// missed for five minutes, and for two seconds here.
#[test]
fn a_further_consumer_that_left_expires() {
    let world = world();
    let mut up = world.up().set("broker.consumer_expiry=2s").start();
    let mut find = Further::start("find-titles", &up);
    let is_there = |summary: &Summary| {
        summary
            .consumers
            .iter()
            .any(|consumer| consumer.name == "find-titles")
    };
    up.until(CRAWL_AT_MOST, is_there);
    find.kill();
    up.until(CRAWL_AT_MOST, |summary| !is_there(summary));
    inject(&up, &world);
    let pages = world.web.truth().pages.len() as u64;
    up.until(CRAWL_AT_MOST, |summary| {
        summary.pages == pages && summary.consumers_removed.is_empty()
    });
}

#[test]
fn a_further_consumer_is_removed_by_name_and_one_of_the_pipeline_is_not() {
    let world = world();
    let up = world.up().start();
    let mut count = Further::start("count-titles", &up);
    let mut find = Further::start("find-titles", &up);
    for (name, code, says) in [
        ("parser", 2, "belongs to the crawl"),
        ("nobody", 2, "there is no consumer 'nobody'"),
        ("find-titles", 0, "find-titles gets no more of pages"),
    ] {
        let said = up.rhumb(&["consumers", "--remove", name]);
        let text = said.out + &said.err;
        assert!(
            said.code == code && text.contains(says),
            "{name}: {} {text}",
            said.code
        );
    }
    assert_eq!(find.ended(), 1, "it notices");
    assert_eq!(count.stop(), 0);
}

fn inject(up: &Running, world: &World) {
    let said = up.rhumb(&["inject", &world.web.seed_urls()[0]]);
    assert_eq!(said.code, 0, "{}", said.err);
}

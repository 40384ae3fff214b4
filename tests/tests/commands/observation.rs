//! Observation: taps, exports, `why` and `status` show a crawl under way and change nothing of it.

use super::{MINUTE, slow_web};
use rhumb_tests::harness::{Running, World, assert_conserved, assert_manners, json, signal};
use rhumb_tests::stages::STAGES;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

#[test]
fn a_tap_shows_decoded_messages_and_changes_nothing() {
    let world = World::new(slow_web());
    let crawl = world.crawl().start();
    crawl.handle();
    let said = crawl.rhumb(&["tap", "urls.new", "--limit", "5", "--format", "json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let lines: Vec<Value> = said
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 5, "{}", said.out);
    for line in &lines {
        assert!(
            line["subject"]
                .as_str()
                .is_some_and(|s| s.starts_with("rhumb.default.urls.new.")),
            "{line}"
        );
        let urls = line["message"]["urls"].as_array().expect("URLs");
        assert!(
            urls.iter()
                .all(|url| url.as_str().is_some_and(|url| url.starts_with("http://h"))),
            "{line}"
        );
        assert!(
            !urls.is_empty() && line["message"]["first_serial"].as_u64() >= Some(1),
            "{line}"
        );
    }
    world.assert_whole(&crawl.finish(MINUTE));
}

#[test]
fn a_tap_on_pages_shows_headers_and_leaves_out_bodies_when_asked() {
    let world = World::new(slow_web());
    let crawl = world.crawl().start();
    crawl.handle();
    let host = world.web.host_name(0);
    let said = crawl.rhumb(&[
        "tap",
        "pages",
        "--host",
        &host,
        "--headers",
        "--limit",
        "2",
        "--format",
        "json",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.out.lines().count(), 2, "{}", said.out);
    for line in said.out.lines() {
        let message: Value = serde_json::from_str::<Value>(line).expect("JSON")["message"].take();
        assert!(
            message["url"]
                .as_str()
                .is_some_and(|url| url.contains(&host)),
            "{message}"
        );
        assert!(
            message["headers"]
                .as_array()
                .is_some_and(|headers| !headers.is_empty()),
            "{message}"
        );
        assert!(message.get("body").is_none(), "{message}");
    }
    world.assert_whole(&crawl.finish(MINUTE));
}

#[test]
fn what_the_filters_reject_is_counted_and_shown_at_a_tap() {
    let world = World::new(slow_web());
    let crawl = world
        .crawl()
        .set("scope.reject=['/p/', '/item']")
        .set("url.sort_query=true")
        .start();
    crawl.handle();
    let said = crawl.rhumb(&["tap", "urls.filtered", "--limit", "3", "--format", "json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    for line in said.out.lines() {
        let message: Value = serde_json::from_str::<Value>(line).expect("JSON")["message"].take();
        assert_eq!(message["reasons"][0], "pattern", "{message}");
        let url = message["urls"][0].as_str().expect("a URL");
        assert!(url.contains("/p/") || url.contains("/item"), "{message}");
    }
    let finished = crawl.finish(MINUTE);
    assert!(
        finished.summary.complete && finished.summary.urls_filtered > 0,
        "{}",
        json(&finished.summary)
    );
    assert_conserved(&finished.summary);
    assert_manners(&world.web.report());
}

#[test]
fn what_a_crawl_finds_is_exported_for_a_later_one() {
    let world = World::new(slow_web());
    let mut crawl = world.crawl().set("stages.fetcher.connections=4").start();
    crawl.until(MINUTE, |summary| summary.pages > 20);
    let links = crawl.rhumb(&["export", "links", "--for", "4s"]);
    assert_eq!(links.code, 0, "{}", links.err);
    let is_link = |line: &str| {
        line.split_once('\t')
            .is_some_and(|(host, url)| !host.is_empty() && url.starts_with("http://"))
    };
    assert!(
        links.out.lines().count() > 100 && links.out.lines().all(is_link),
        "{}",
        links.out
    );
    let frequent = crawl.rhumb(&["export", "frequent-urls", "--entries", "20", "--for", "1s"]);
    assert_eq!(frequent.code, 0, "{}", frequent.err);
    assert_eq!(frequent.out.lines().count(), 20, "{}", frequent.out);
    world.assert_whole(&crawl.finish(MINUTE));
}

#[test]
fn why_tells_where_a_url_is() {
    let world = World::new(slow_web());
    let mut crawl = world
        .crawl()
        .set("scope.follow=host")
        .set("politeness.delay=2s")
        .set("stages.archiver.replicas=1")
        .start();
    crawl.until(MINUTE, |summary| summary.urls_new > 0);
    let seed = &world.web.seed_urls()[0];
    let other = &world.web.seed_urls()[1];
    let name = world.web.host_name(0);
    let end = Instant::now() + MINUTE;
    let reasons = |url: &str| -> BTreeMap<String, String> {
        let said = crawl.rhumb(&["why", url, "--json"]);
        assert_eq!(said.code, 0, "{}", said.err);
        let said: Value = serde_json::from_str(&said.out).expect("JSON");
        assert_eq!(said["url"], url);
        let reasons = said["reasons"].as_array().expect("reasons").iter();
        reasons
            .map(|of| {
                (
                    of["stage"].as_str().unwrap().into(),
                    of["reason"].as_str().unwrap().into(),
                )
            })
            .collect()
    };
    while !reasons(seed)
        .get("dedup")
        .is_some_and(|reason| reason.starts_with("seen"))
    {
        assert!(
            Instant::now() < end,
            "the seed is not seen: {:?}",
            reasons(seed)
        );
    }
    // All that is found waits for the delay, on whatever page.
    let (page, found_on, depth) = loop {
        let tapped = crawl.rhumb(&["tap", "urls.new", "--limit", "1", "--format", "json"]);
        let line: Value = serde_json::from_str(&tapped.out).expect("JSON");
        let message = &line["message"];
        let url = message["urls"]
            .as_array()
            .and_then(|urls| urls.last())
            .and_then(Value::as_str)
            .expect("a URL");
        let origin_of = message["origin_of"]
            .as_array()
            .and_then(|of| of.last())
            .and_then(Value::as_u64);
        let origin = &message["origins"][origin_of.expect("an origin of each") as usize];
        let found_on = origin["page"].as_str().expect("a page");
        if !found_on.is_empty() {
            break (url.to_owned(), found_on.to_owned(), origin["depth"].clone());
        }
    };
    let of = loop {
        let of = reasons(&page);
        if of
            .get("scheduler")
            .is_some_and(|reason| reason.starts_with("waits; "))
        {
            break of;
        }
        assert!(Instant::now() < end, "{of:?}");
    };
    let found =
        format!("waits; found on {found_on} (depth {depth}, topic default); http://{name}:");
    assert!(of["scheduler"].starts_with(&found), "{of:?}");
    let ended = reasons(seed).remove("archiver").unwrap_or_default();
    assert!(
        ended.starts_with("ended fetched, status 200, at 2")
            && ended.ends_with("; a seed of topic default"),
        "{ended}"
    );
    assert!(
        of["resolver"].starts_with(&format!("{name} has 127.")),
        "{of:?}"
    );
    assert_eq!(of["dedup"], "seen: it passed the URL-seen test");
    let of = reasons(other);
    assert_eq!(of["host-splitter"], "a link to it is filtered: scope");
    assert_eq!(of["dedup"], "not seen yet");
    let said = crawl.rhumb(&["why", seed]);
    assert!(
        said.out.starts_with(&format!("{seed} (partition ")) && said.out.lines().count() >= 3,
        "{}",
        said.out
    );
    assert_eq!(crawl.rhumb(&["why", "ftp://a.test/"]).code, 2);
}

/// What `rhumb status` tells of a crawl once a process of each stage answers: on a machine that is
/// too busy one may be silent for a moment.
fn status_of_all(crawl: &Running) -> Value {
    let end = Instant::now() + MINUTE;
    loop {
        let said = crawl.rhumb(&["status", "--json"]);
        assert_eq!(said.code, 0, "{}", said.err);
        let status: Value = serde_json::from_str(&said.out).expect("JSON");
        let processes = status["processes"].as_array().expect("processes");
        let stages: BTreeSet<&str> = processes
            .iter()
            .filter_map(|process| process["stage"].as_str())
            .collect();
        if STAGES.iter().all(|stage| stages.contains(stage)) {
            return status;
        }
        assert!(Instant::now() < end, "{status}");
    }
}

/// Method: the parser stands still for longer than answers are waited for of which nobody knows.
#[test]
fn a_process_that_is_busy_is_waited_for_by_status() {
    let world = World::new(slow_web());
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| summary.pages > 10);
    let parser = crawl.pid("parser");
    signal(parser, Signal::STOP);
    let wakes = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(800));
        signal(parser, Signal::CONT);
    });
    let status = crawl.status().expect("a status");
    wakes.join().expect("it went on");
    let is_told = status.processes.iter().any(|told| told.pid == parser);
    assert!(is_told, "{}", json(&status));
}

#[test]
fn status_tells_all_that_the_summary_tells() {
    let world = World::new(slow_web());
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| summary.pages > 100);
    let status = status_of_all(&crawl);
    for key in [
        "pages",
        "bytes",
        "urls_found",
        "urls_filtered",
        "urls_repeated",
        "urls_new",
        "waiting",
        "in_flight",
        "dead",
    ] {
        assert!(status[key].is_u64(), "{key}: {status}");
    }
    assert!(
        status["elapsed_s"].as_f64() > Some(0.0),
        "elapsed_s: {status}"
    );
    assert_eq!(status["complete"], false);
    assert!(
        status["outcomes"]["fetched"].as_u64() > Some(100),
        "{status}"
    );
    assert!(status["bytes"].as_u64() > Some(100 * 1_000), "{status}");
    let processes = status["processes"].as_array().expect("processes");
    for process in processes {
        assert!(process["pid"].as_u64() > Some(1), "{process}");
        assert!(process["cpu_s"].as_f64() >= Some(0.0), "{process}");
        assert!(
            process["peak_rss_bytes"].as_u64() > Some(1 << 20),
            "{process}"
        );
    }
    let said = crawl.rhumb(&["status", "--check"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.out.contains("every URL is accounted for"),
        "{}",
        said.out
    );
    world.assert_whole(&crawl.finish(MINUTE));
}

/// Goal: logs do not grow without end, and nothing is started again for it. Method: stages that say
/// everything, and the smallest bound.
#[test]
fn logs_of_stages_are_put_aside_while_the_crawl_goes_on() {
    let world = World::new(slow_web());
    let crawl = world
        .crawl()
        .environment("RUST_LOG", "trace")
        .set("logs.bytes_max=64KiB")
        .set("logs.kept=3");
    let finished = crawl.run(MINUTE);
    world.assert_whole(&finished);
    assert_eq!(finished.summary.restarts, 0, "{}", json(&finished.summary));
    let logs = std::fs::read_dir(world.data().join("logs")).expect("logs");
    let sizes: BTreeMap<String, u64> = logs
        .map(|entry| entry.expect("an entry"))
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                entry.metadata().expect("a file").len(),
            )
        })
        .collect();
    // A line may be as long as a message of which every byte is shown.
    assert!(sizes.values().all(|bytes| *bytes < 256 << 10), "{sizes:?}");
    assert!(
        sizes.contains_key("fetcher-0.log.3") && !sizes.contains_key("fetcher-0.log.4"),
        "{sizes:?}"
    );
    let last = std::fs::read_to_string(world.data().join("logs/fetcher-0.log")).expect("a log");
    let before = std::fs::read_to_string(world.data().join("logs/fetcher-0.log.1")).expect("a log");
    assert!(
        last.contains("ended") || before.contains("ended"),
        "the last words are there"
    );
}

/// The first URLs of the server at which most URLs wait, when there are some, and its address and
/// its robots.txt are known.
fn until_known(crawl: &Running) -> Value {
    let end = Instant::now() + MINUTE / 4;
    loop {
        let top = crawl.rhumb(&["queue", "--top", "1", "--json"]);
        let top: Value = serde_json::from_str(&top.out).expect("JSON");
        let host = rhumb_url::host_of(top["server"].as_str().expect("a server"));
        let said = crawl.rhumb(&["queue", "--host", host, "--limit", "12", "--json"]);
        assert_eq!(said.code, 0, "{}", said.err);
        let queue: Value = serde_json::from_str(&said.out).expect("JSON");
        assert_eq!(queue["server"], top["server"], "{queue}");
        let has_address = queue["addresses"]
            .as_array()
            .is_some_and(|addresses| !addresses.is_empty());
        let wait = queue["urls"].as_array().map_or(0, Vec::len) > 3;
        if has_address && wait && queue["robots"]["is"] == "none: all is allowed" {
            return queue;
        }
        assert!(Instant::now() < end, "{queue}");
    }
}

/// Goal: what is listed is what is fetched next, in its order, and looking changes nothing. Method:
/// the web says in which order it was asked.
#[test]
fn the_queue_of_a_host_is_listed_in_the_order_in_which_it_is_fetched() {
    let world = World::new(slow_web());
    let mut crawl = world
        .crawl()
        .set("stages.fetcher.connections=8")
        .set("stages.scheduler.requests_per_connection=5")
        .start();
    crawl.until(MINUTE, |summary| summary.pages > 50);
    let queue = until_known(&crawl);
    let server = queue["server"].as_str().expect("a server");
    let host = rhumb_url::host_of(server);
    let listed: Vec<&str> = queue["urls"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|url| url["url"].as_str())
        .collect();
    let text = crawl.rhumb(&["queue", "--host", host]);
    assert!(
        text.out.contains("robots.txt none: all is allowed")
            && text.out.contains("estimates  connect "),
        "{}{}",
        text.out,
        text.err
    );
    let unknown = crawl.rhumb(&["queue", "--host", "nobody.test"]);
    assert!(
        unknown.code == 1 && unknown.err.contains("no server of nobody.test is known"),
        "{}",
        unknown.err
    );

    world.assert_whole(&crawl.finish(MINUTE));
    let mut contacts = world.web.contacts();
    contacts.sort_by_key(|contact| contact.at);
    let fetched: Vec<String> = contacts.into_iter().map(|contact| contact.url).collect();
    let in_order: Vec<&str> = fetched
        .iter()
        .map(String::as_str)
        .filter(|url| listed.contains(url))
        .collect();
    // Those that were sent to a fetcher between the two looks were asked for in that order, too.
    let shared: Vec<&str> = listed
        .iter()
        .copied()
        .filter(|url| in_order.contains(url))
        .collect();
    assert_eq!(in_order, shared);
    assert!(shared.len() > 3, "{listed:?}");
}

//! The commands beside `crawl`: a look, a push, a turn of the wheel, while a crawl runs and without one.

use rhumb::broker::{Broker, BrokerOptions};
use rhumb_tests::harness::{Running, World, assert_conserved, assert_manners, json, rhumb};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};
use synthetic_web::{Hostility, Latency, PagesPerHost, Profile};

const MINUTE: Duration = Duration::from_secs(60);
const ENDS_WITHIN: Duration = Duration::from_secs(45);

/// A crawl of some five seconds.
fn slow_web() -> Profile {
    Profile {
        hosts: 20,
        pages_per_host: PagesPerHost::Exactly(60),
        latency: Latency::Fixed { ms: 50 },
        ..Profile::raw()
    }
}

#[test]
fn a_tap_shows_decoded_messages_and_changes_nothing() {
    let world = World::new(slow_web());
    let crawl = world.crawl().start();
    crawl.handle();
    let said = crawl.rhumb(&["tap", "urls.new", "--limit", "5", "--format", "json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let lines: Vec<Value> = said.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 5, "{}", said.out);
    for line in &lines {
        assert!(line["subject"].as_str().is_some_and(|s| s.starts_with("rhumb.default.urls.new.")), "{line}");
        let urls = line["message"]["urls"].as_array().expect("URLs");
        assert!(urls.iter().all(|url| url.as_str().is_some_and(|url| url.starts_with("http://h"))), "{line}");
        assert!(!urls.is_empty() && line["message"]["first_serial"].as_u64() >= Some(1), "{line}");
    }
    world.assert_whole(&crawl.finish(MINUTE));
}

#[test]
fn a_tap_on_pages_shows_headers_and_leaves_out_bodies_when_asked() {
    let world = World::new(slow_web());
    let crawl = world.crawl().start();
    crawl.handle();
    let host = world.web.host_name(0);
    let said = crawl.rhumb(&["tap", "pages", "--host", &host, "--headers", "--limit", "2", "--format", "json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.out.lines().count(), 2, "{}", said.out);
    for line in said.out.lines() {
        let message: Value = serde_json::from_str::<Value>(line).expect("JSON")["message"].take();
        assert!(message["url"].as_str().is_some_and(|url| url.contains(&host)), "{message}");
        assert!(message["headers"].as_array().is_some_and(|headers| !headers.is_empty()), "{message}");
        assert!(message.get("body").is_none(), "{message}");
    }
    world.assert_whole(&crawl.finish(MINUTE));
}

#[test]
fn what_the_filters_reject_is_counted_and_shown_at_a_tap() {
    let world = World::new(slow_web());
    let crawl = world.crawl().set("scope.reject=['/p/', '/item']").set("url.sort_query=true").start();
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
    assert!(finished.summary.complete && finished.summary.urls_filtered > 0, "{}", json(&finished.summary));
    assert_conserved(&finished.summary);
    assert_manners(&world.web.report());
}

#[test]
fn what_a_crawl_finds_is_exported_for_a_later_one() {
    let world = World::new(slow_web());
    let crawl = world.crawl().set("stages.fetcher.connections=8").start();
    crawl.handle();
    let links = crawl.rhumb(&["export", "links", "--for", "2s"]);
    assert_eq!(links.code, 0, "{}", links.err);
    let is_link =
        |line: &str| line.split_once('\t').is_some_and(|(host, url)| !host.is_empty() && url.starts_with("http://"));
    assert!(links.out.lines().count() > 100 && links.out.lines().all(is_link), "{}", links.out);
    let frequent = crawl.rhumb(&["export", "frequent-urls", "--entries", "20", "--for", "1s"]);
    assert_eq!(frequent.code, 0, "{}", frequent.err);
    assert_eq!(frequent.out.lines().count(), 20, "{}", frequent.out);
    world.assert_whole(&crawl.finish(MINUTE));
}

#[test]
fn why_tells_where_a_url_is() {
    let world = World::new(slow_web());
    let mut crawl = world.crawl().set("scope.follow=host").set("politeness.delay=2s").start();
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
        reasons.map(|of| (of["stage"].as_str().unwrap().into(), of["reason"].as_str().unwrap().into())).collect()
    };
    while !reasons(seed).get("dedup").is_some_and(|reason| reason.starts_with("seen")) {
        assert!(Instant::now() < end, "the seed is not seen: {:?}", reasons(seed));
    }
    // All that is found waits for the delay.
    let page = loop {
        let tapped = crawl.rhumb(&["tap", "urls.new", "--limit", "1", "--format", "json"]);
        let line: Value = serde_json::from_str(&tapped.out).expect("JSON");
        let urls = line["message"]["urls"].as_array().expect("URLs").clone();
        if let Some(url) = urls.last() {
            break url.as_str().expect("a URL").to_owned();
        }
    };
    let of = loop {
        let of = reasons(&page);
        if of.get("scheduler").is_some_and(|reason| reason.starts_with("waits; ")) {
            break of;
        }
        assert!(Instant::now() < end, "{of:?}");
    };
    assert!(of["scheduler"].contains(&format!("http://{name}:")), "{of:?}");
    assert!(of["resolver"].starts_with(&format!("{name} has 127.")), "{of:?}");
    assert_eq!(of["dedup"], "seen: it passed the URL-seen test");
    let of = reasons(other);
    assert_eq!(of["host-splitter"], "a link to it is filtered: scope");
    assert_eq!(of["dedup"], "not seen yet");
    let said = crawl.rhumb(&["why", seed]);
    assert!(said.out.starts_with(&format!("{seed} (partition ")) && said.out.lines().count() >= 3, "{}", said.out);
    assert_eq!(crawl.rhumb(&["why", "ftp://a.test/"]).code, 2);
}

#[test]
fn status_tells_all_that_the_summary_tells() {
    let world = World::new(slow_web());
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| summary.pages > 100);
    let said = crawl.rhumb(&["status", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let status: Value = serde_json::from_str(&said.out).expect("JSON");
    for key in
        ["pages", "bytes", "urls_found", "urls_filtered", "urls_repeated", "urls_new", "waiting", "in_flight", "dead"]
    {
        assert!(status[key].is_u64(), "{key}: {status}");
    }
    assert!(status["elapsed_s"].as_f64() > Some(0.0), "elapsed_s: {status}");
    assert_eq!(status["complete"], false);
    assert!(status["outcomes"]["fetched"].as_u64() > Some(100), "{status}");
    assert!(status["bytes"].as_u64() > Some(100 * 1_000), "{status}");
    let processes = status["processes"].as_array().expect("processes");
    let stages: BTreeSet<&str> = processes.iter().filter_map(|process| process["stage"].as_str()).collect();
    for stage in ["host-splitter", "dedup", "resolver", "scheduler", "fetcher", "parser"] {
        assert!(stages.contains(stage), "{stage}: {status}");
    }
    for process in processes {
        assert!(process["pid"].as_u64() > Some(1), "{process}");
        assert!(process["cpu_s"].as_f64() >= Some(0.0), "{process}");
        assert!(process["peak_rss_bytes"].as_u64() > Some(1 << 20), "{process}");
    }
    let said = crawl.rhumb(&["status", "--check"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("every URL is accounted for"), "{}", said.out);
    world.assert_whole(&crawl.finish(MINUTE));
}

#[test]
fn an_idle_pipeline_takes_injected_urls_and_is_complete_when_they_are_done() {
    let world = World::new(Profile { hosts: 5, pages_per_host: PagesPerHost::Exactly(20), ..Profile::raw() });
    let mut up = world.up().start();
    up.until(MINUTE, |summary| summary.complete);
    let said = up.rhumb(&["inject", "not a url"]);
    assert_eq!(said.code, 2, "{}", said.err);
    let said = up.rhumb(&["inject", &world.web.seed_urls()[0]]);
    assert_eq!(said.code, 0, "{}", said.err);
    let summary = up.until(MINUTE, |summary| summary.pages == 100 && summary.complete);
    assert_eq!(summary.urls_new, 100, "{}", json(&summary));
    assert!(world.web.report().ok, "{}", json(&world.web.report()));
    up.signal(Signal::TERM);
    assert_eq!(up.exit_code(ENDS_WITHIN), 130);
    assert!(!world.data().join("control.json").exists());
}

#[test]
fn fetchers_come_and_go_within_two_seconds() {
    let world = World::new(Profile {
        hosts: 60,
        pages_per_host: PagesPerHost::Exactly(60),
        latency: Latency::Fixed { ms: 100 },
        ..Profile::raw()
    });
    let mut crawl = world.crawl().start();
    crawl.until(MINUTE, |summary| summary.pages > 100);
    let refused = crawl.rhumb(&["scale", "dedup=2"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("dedup") && refused.err.contains("fixed"), "{}", refused.err);
    assert_eq!(crawl.rhumb(&["scale", "fetcher=0"]).code, 2);
    assert_eq!(crawl.rhumb(&["scale", "fetch=2"]).code, 2);

    assert_eq!(crawl.rhumb(&["scale", "fetcher=4"]).code, 0);
    until_fetchers(&mut crawl, 4);
    crawl.until(MINUTE, |summary| summary.pages > 1_000);
    assert_eq!(crawl.rhumb(&["scale", "fetcher=1"]).code, 0);
    until_fetchers(&mut crawl, 1);
    let finished = crawl.finish(MINUTE);
    world.assert_whole(&finished);
    assert_eq!((finished.summary.restarts, finished.summary.refetched), (0, 0));
}

fn until_fetchers(crawl: &mut Running, wanted: usize) {
    let since = Instant::now();
    crawl.until(Duration::from_secs(10), |summary| {
        summary.processes.iter().filter(|process| process.stage == "fetcher").count() == wanted
    });
    assert!(since.elapsed() < Duration::from_secs(2), "{wanted} fetchers took {:?}", since.elapsed());
}

#[test]
fn fetchers_that_come_and_go_all_the_time_do_not_take_each_others_jobs() {
    let world = World::new(Profile {
        hosts: 40,
        pages_per_host: PagesPerHost::Exactly(25),
        latency: Latency::Fixed { ms: 600 },
        ..Profile::raw()
    });
    let mut crawl = world.crawl().set("stages.fetcher.connections=20").start();
    crawl.until(MINUTE, |summary| summary.pages > 60);
    for _ in 0..5 {
        assert_eq!(crawl.rhumb(&["scale", "fetcher=2"]).code, 0);
        std::thread::sleep(Duration::from_millis(900));
        assert_eq!(crawl.rhumb(&["scale", "fetcher=1"]).code, 0);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(crawl.rhumb(&["scale", "fetcher=3"]).code, 0);
    let finished = crawl.finish(MINUTE);
    world.assert_whole(&finished);
    assert_eq!(finished.summary.restarts, 0);
}

#[test]
fn a_crawl_is_run_by_one_rhumb_alone() {
    let world = World::new(slow_web());
    let crawl = world.crawl().set("ownership_lease=2s").start();
    let handle = crawl.handle();
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().display().to_string();
    let (broker, seed) = (format!("broker.url={}", handle.broker), &world.web.seed_urls()[0]);
    let local = "network.allow_private_addresses=true";
    let common = ["--set", local, "--set", &broker, "--set", "ownership_lease=2s", "--data", &data];
    let second = rhumb(&[["crawl", seed].as_slice(), &common].concat());
    assert_eq!(second.code, 1, "{}", second.err);
    assert!(second.err.contains("another rhumb") && second.err.contains("'default'"), "{}", second.err);
    world.assert_whole(&crawl.finish(MINUTE));
}

#[test]
fn arguments_come_before_the_environment_in_every_process() {
    let world = World::new(Profile { hosts: 5, pages_per_host: PagesPerHost::Exactly(20), ..Profile::raw() });
    // By the environment no link would be followed, and no address of the web be contacted.
    let crawl = world
        .crawl()
        .environment("RHUMB__SCOPE__MAX_DEPTH", "0")
        .environment("RHUMB__NETWORK__ALLOW_PRIVATE_ADDRESSES", "false")
        .set("scope.max_depth=1000");
    world.assert_whole(&crawl.run(MINUTE));
}

#[test]
fn seeds_of_a_start_that_was_cut_short_are_crawled_by_the_next() {
    let world = World::new(Profile { hosts: 5, pages_per_host: PagesPerHost::Exactly(5), ..Profile::raw() });
    let [first, second] = [0, 1].map(|host| world.web.seed_urls()[host].clone());
    std::fs::create_dir_all(world.data()).expect("a data directory");
    let unstored = world.data().join("seeds.unstored");
    std::fs::write(&unstored, second).expect("a file");
    let finished = world.bare("crawl").arguments(&[first]).set("scope.max_depth=0").run(MINUTE);
    assert_eq!((finished.code, finished.summary.complete, finished.summary.pages), (0, true, 2));
    assert!(!unstored.exists());
}

#[test]
fn a_broker_of_small_messages_is_enough_and_longer_pages_are_cut() {
    let hostilities = vec![Hostility::BodyEndless];
    let pages_per_host = PagesPerHost::Exactly(5);
    let world = World::new(Profile { hosts: 4, hostile: 0.5, hostilities, pages_per_host, ..Profile::raw() });
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    // A nats-server's own default.
    let options = BrokerOptions { max_payload: 1 << 20, ..BrokerOptions::new(folder.path()) };
    let mut broker = runtime.block_on(Broker::start(options)).expect("a broker");
    let crawl = world.crawl().set(&format!("broker.url={}", broker.url())).start();
    let log = crawl.data().with_file_name("rhumb.log");
    let finished = crawl.finish(MINUTE);
    world.assert_counted(&finished);
    assert!(finished.summary.bytes > 10 * 900_000 && finished.summary.bytes < 11 << 20, "{}", json(&finished.summary));
    let log = std::fs::read_to_string(log).expect("the log");
    assert!(log.contains("messages of at most 1MiB"), "{log}");
    runtime.block_on(broker.stop()).expect("a broker that stops");
}

#[test]
fn a_corrupt_message_goes_to_the_dead_letters_and_the_crawl_goes_on() {
    let world = World::new(slow_web());
    let mut crawl = world.crawl().start();
    let handle = crawl.handle();
    let subject = format!("rhumb.{}.urls.found", handle.crawl);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = async_nats::connect(&handle.broker).await.expect("the broker answers");
        client.publish(subject.clone(), "garbage".into()).await.expect("a published message");
        client.flush().await.expect("a flushed connection");
    });
    crawl.until(MINUTE, |summary| summary.dead == 1);
    let said = crawl.rhumb(&["dead", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let letter: Value = serde_json::from_str(said.out.trim()).expect("one line of JSON");
    assert_eq!(letter["subject"], subject.as_str());
    assert_eq!(letter["bytes"], 7);
    assert!(letter["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{letter}");
    let said = crawl.rhumb(&["dead"]);
    assert!(said.out.contains(&subject), "{}", said.out);
    let finished = crawl.finish(MINUTE);
    world.assert_whole(&finished);
    assert_eq!(finished.summary.dead, 1);
}

#[test]
fn what_is_fixed_for_the_life_of_a_crawl_is_not_changed_by_resuming_it() {
    let world = World::new(slow_web());
    let limited = world.crawl().arguments(&["--max-pages", "50"]).run(MINUTE);
    assert_eq!((limited.code, limited.summary.complete, limited.summary.pages), (0, false, 50));
    for (change, key) in [
        ("partitions=8", "partitions"),
        ("crawl=other", "crawl"),
        ("ownership_lease=9s", "ownership_lease"),
        ("stages.dedup.replicas=2", "stages.dedup"),
    ] {
        let data = world.data().display().to_string();
        let said = rhumb(&["crawl", "--resume", "--data", &data, "--set", change]);
        assert_eq!(said.code, 2, "{change}: {}", said.err);
        assert!(said.err.contains(key) && said.err.contains("fixed"), "{change}: {}", said.err);
    }
    world.assert_whole(&world.resume().run(MINUTE));
}

#[test]
fn bad_input_is_named_before_anything_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data").display().to_string();
    let long = format!("http://a.test/{}", "x".repeat(3_000));
    let seeds = folder.path().join("seeds.txt");
    std::fs::write(&seeds, "\u{feff}http://a.test/\nno url\n").expect("a file");
    let seeds = seeds.display().to_string();
    let local = "network.allow_private_addresses=true";
    for (arguments, named) in [
        (vec!["no url"], "'no url'"),
        (vec!["no url", "--set", local], "'no url'"),
        (vec![long.as_str(), "--set", local], "3014 bytes"),
        (vec!["--seeds", &seeds, "--set", local], "seeds.txt:2"),
        (vec!["http://a.test/", "--set", local, "--summary", "/no/such/folder/s.json"], "/no/such/folder/s.json"),
        (vec!["http://a.test/"], "network.user_agent"),
        (vec!["http://a.test/", "--set", local, "--set", "broker.url=foo bar"], "broker.url"),
    ] {
        let said = rhumb(&[["crawl", "--data", &data].as_slice(), &arguments].concat());
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        assert!(said.err.contains(named), "{arguments:?}: {}", said.err);
    }
    assert!(!folder.path().join("data").exists());
}

#[test]
fn ctrl_c_drains_and_the_crawl_goes_on_where_it_stopped() {
    let world = World::new(slow_web());
    let mut crawl = world.crawl().set("stages.fetcher.connections=8").start();
    crawl.until(MINUTE, |summary| summary.pages > 200);
    let second = crawl.rhumb(&["crawl", "--resume", "--set", "network.allow_private_addresses=true"]);
    assert_eq!(second.code, 1, "{}", second.err);
    assert!(second.err.contains("already runs"), "{}", second.err);
    let deleted = crawl.rhumb(&["delete"]);
    assert_eq!(deleted.code, 1, "{}", deleted.err);
    assert!(deleted.err.contains("already runs"), "{}", deleted.err);
    crawl.signal(Signal::INT);
    let stopped = crawl.finish(ENDS_WITHIN);
    assert_eq!((stopped.code, stopped.summary.complete, stopped.summary.in_flight), (130, false, 0));
    let report = world.web.report();
    assert_eq!((report.open_connections, report.pages.requested), (0, stopped.summary.pages));

    let data = world.data().display().to_string();
    let local = "network.allow_private_addresses=true";
    let afresh = rhumb(&["crawl", &world.web.seed_urls()[0], "--set", local, "--data", &data]);
    assert_eq!(afresh.code, 2, "{}", afresh.err);
    assert!(afresh.err.contains("--resume"), "{}", afresh.err);

    let finished = world.resume().run(MINUTE);
    world.assert_whole(&finished);
    assert_eq!(finished.summary.refetched, 0);

    let mine = world.data().join("mine.txt");
    std::fs::write(&mine, "not the crawl's").expect("a file");
    let deleted = rhumb(&["delete", "--data", &data]);
    assert_eq!(deleted.code, 0, "{}", deleted.err);
    let left: Vec<_> =
        std::fs::read_dir(world.data()).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(left, [mine]);
    let again = rhumb(&["delete", "--data", &data]);
    assert_eq!(again.code, 1, "{}", again.err);
    assert!(again.err.contains("no crawl"), "{}", again.err);
}

#[test]
fn canonical_gives_the_one_spelling_of_a_url() {
    let said = rhumb(&["canonical", "--json", "HTTP://Example.ORG:80/a/../b?y=2#part"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let told: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(told["canonical"], "http://example.org/b?y=2");
    assert!(told["surt"].as_str().is_some_and(|surt| surt.contains("org,example")), "{told}");
    assert!(told["partition"].as_u64() < Some(64), "{told}");
    let again = rhumb(&["canonical", "--json", "http://example.org/b?y=2"]);
    assert_eq!(again.out, said.out);

    let refused = rhumb(&["canonical", "mailto:a@example.org"]);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    assert!(refused.err.contains("not crawlable"), "{}", refused.err);
    assert_eq!(rhumb(&["canonical"]).code, 2);
}

#[test]
fn hostile_urls_are_refused_as_arguments_with_a_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let long = format!("http://a.test/{}", "x".repeat(100_000));
    let parameters = format!("http://a.test/?{}", "a=1&".repeat(10_000));
    let not_utf8 = OsStr::from_bytes(b"http://a.test/\xFF");
    for (url, code, reason) in [
        (OsStr::new(&long), 1, "longer than"),
        (OsStr::new(&parameters), 1, "longer than"),
        (OsStr::new("http://a%00.test/"), 1, "neither a valid name nor an address"),
        (not_utf8, 2, "UTF-8"),
    ] {
        let said = rhumb(&[OsStr::new("canonical"), url]);
        assert_eq!((said.code, said.out.as_str()), (code, ""), "{}", said.err);
        assert!(said.err.contains(reason) && said.err.len() < 2_000, "{}", said.err);
        // No crawl runs: a bad URL is named before one is looked for.
        let said = rhumb(&[OsStr::new("inject"), OsStr::new("--data"), data.as_os_str(), url]);
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains(reason) && said.err.len() < 2_000, "{}", said.err);
    }
    for (line, reason) in [(long.as_bytes(), "seeds:2"), (b"http://a\0b/", "seeds:2"), (b"http://a.test/\xFF", "UTF-8")]
    {
        let seeds = folder.path().join("seeds");
        std::fs::write(&seeds, [b"http://a.test/\n", line].concat()).expect("a file");
        let arguments = ["--set", "network.allow_private_addresses=true", "--seeds"].map(OsStr::new);
        let crawl =
            [&[OsStr::new("crawl"), OsStr::new("--data"), data.as_os_str()], &arguments[..], &[seeds.as_os_str()]];
        let said = rhumb(&crawl.concat());
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains(reason) && said.err.len() < 2_000, "{}", said.err);
    }
    assert!(!data.exists());
}

#[test]
fn robots_tells_by_its_exit_code_whether_a_url_is_allowed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("robots.txt");
    std::fs::write(
        &path,
        "User-agent: *\nDisallow: /private/\nAllow: /private/open\n\nUser-agent: other\nDisallow: /\n",
    )
    .expect("a file");
    let file = path.display().to_string();
    let ask = |url: &str, agent: &str| rhumb(&["robots", &file, url, "--agent", agent]).code;
    assert_eq!(ask("http://a.test/", "rhumb"), 0);
    assert_eq!(ask("http://a.test/private/x", "rhumb"), 1);
    assert_eq!(ask("http://a.test/private/open/x", "rhumb"), 0);
    assert_eq!(ask("http://a.test/", "other"), 1);
    assert_eq!(ask("nonsense", "rhumb"), 2);
    assert_eq!(rhumb(&["robots", "/nowhere/robots.txt", "http://a.test/"]).code, 2);
}

#[test]
fn links_lists_the_links_of_a_document() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("page.html");
    std::fs::write(&path, "<base href='/dir/'><a href='x#top'>x</a> <a href='//other.test/?a=1&amp;b=2'>o</a>")
        .expect("a file");
    let file = path.display().to_string();
    let said = rhumb(&["links", &file, "--base", "http://a.test/page"]);
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, "http://a.test/dir/x\nhttp://other.test/?a=1&b=2\n"),
        "{}",
        said.err
    );
    std::fs::write(&path, "no document: <a href='x'>").expect("a file");
    let plain = rhumb(&["links", &file, "--base", "http://a.test/page", "--content-type", "text/plain"]);
    assert_eq!((plain.code, plain.out.as_str()), (0, ""), "{}", plain.err);
    assert_eq!(rhumb(&["links", &file, "--base", "nonsense"]).code, 2);
    assert_eq!(rhumb(&["links", &file, "--base", "http://a.test/", "--header", "nonsense"]).code, 2);
    assert_eq!(rhumb(&["links", &file, "--base", "http://a.test/", "--set", "stages.parser.nofollow=no"]).code, 2);
}

#[test]
fn links_finds_every_source_of_links() {
    // Each line: the document, more arguments, and the sources and URLs that are found.
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("<a href=/x>", &[], &["a http://a.test/x"]),
        ("<area href=/x>", &[], &["area http://a.test/x"]),
        (
            "<link rel=next href=/x><link rel=canonical href=/y>",
            &[],
            &["link http://a.test/x", "canonical http://a.test/y"],
        ),
        ("<iframe src=/x></iframe><frame src=/y>", &[], &["frame http://a.test/x", "frame http://a.test/y"]),
        ("<meta http-equiv=refresh content='0;url=/x'>", &[], &["meta-refresh http://a.test/x"]),
        ("<form action=/x>", &[], &[]),
        ("<form action=/x>", &["--set", "stages.parser.forms=true"], &["form http://a.test/x"]),
        ("<link rel=amphtml href=/x>", &["--set", "stages.parser.amphtml=true"], &["link http://a.test/x"]),
        ("<img src=/x srcset='/y 2x'>", &[], &[]),
        (
            "<img src=/x srcset='/y 2x'>",
            &["--set", "stages.parser.embedded=true"],
            &["image http://a.test/x", "srcset http://a.test/y"],
        ),
        (
            "<script src=/x></script><video poster=/y>",
            &["--set", "stages.parser.embedded=true"],
            &["script http://a.test/x", "media http://a.test/y"],
        ),
        ("<a rel=nofollow href=/x>", &["--set", "stages.parser.nofollow=ignore"], &["a http://a.test/x"]),
        ("<a href=/x>", &["--header", "X-Robots-Tag: nofollow"], &[]),
        ("", &["--header", "Link: </x>; rel=next"], &["link-header http://a.test/x"]),
        ("", &["--header", "Refresh: 0; url=/x"], &["refresh-header http://a.test/x"]),
        ("", &["--header", "Content-Location: /x"], &["content-location http://a.test/x"]),
        ("", &["--header", "Location: /x", "--status", "302"], &["location http://a.test/x"]),
        (
            "<urlset><url><loc>http://a.test/x</loc></url></urlset>",
            &["--content-type", "text/xml"],
            &["sitemap http://a.test/x"],
        ),
        ("<rss><channel><item><link>/x</link></item></channel></rss>", &[], &["feed http://a.test/x"]),
        ("<feed><entry><link href='/x'/></entry></feed>", &[], &["feed http://a.test/x"]),
        ("http://a.test/x\n", &["--content-type", "text/plain"], &["text http://a.test/x"]),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("document");
    let file = path.display().to_string();
    for (document, more, expected) in cases {
        std::fs::write(&path, document).expect("a file");
        let said =
            rhumb(&[["links", &file, "--base", "http://a.test/sitemap.txt", "--json"].as_slice(), *more].concat());
        assert_eq!(said.code, 0, "{document} {more:?}: {}", said.err);
        let found: Value = serde_json::from_str(&said.out).expect("JSON");
        let links: Vec<String> = found["links"].as_array().expect("links").iter().map(source_and_url).collect();
        assert_eq!(links, *expected, "{document} {more:?}");
    }
    std::fs::write(&path, "<html lang=de><title>A &amp; B</title>see <a href=/x>the page</a>").expect("a file");
    let said = rhumb(&["links", &file, "--base", "http://a.test/", "--json", "--set", "stages.parser.anchors=true"]);
    let found: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!((&found["title"], &found["language"]), (&"A & B".into(), &"de".into()), "{found}");
    assert_eq!((&found["charset"], &found["nofollow"]), (&"UTF-8".into(), &false.into()), "{found}");
    let anchor = &found["links"][0]["anchor"];
    assert_eq!((&anchor["text"], &anchor["context"]), (&"the page".into(), &"see the page".into()), "{found}");
}

fn source_and_url(link: &Value) -> String {
    format!("{} {}", link["source"].as_str().unwrap_or("?"), link["url"].as_str().unwrap_or("?"))
}

#[test]
fn a_command_without_a_crawl_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().display().to_string();
    for command in [["status"].as_slice(), &["tap", "pages"], &["dead"], &["scale", "fetcher=2"]] {
        let mut arguments = command.to_vec();
        arguments.extend(["--set", "network.allow_private_addresses=true", "--data", &data]);
        let said = rhumb(&arguments);
        assert_eq!(said.code, 1, "{command:?}: {}", said.err);
        assert!(said.err.contains(&data) && said.err.contains("--data"), "{command:?}: {}", said.err);
    }
}

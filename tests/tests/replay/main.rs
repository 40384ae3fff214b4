//! Replays: what a crawl has kept is read again in the place of the web, and comes to the same.

use rhumb_tests::harness::{
    Crawl, Finished, World, assert_conserved, cook, honest_hosts, hurried, json, recipe, rhumb,
    signal,
};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use synthetic_web::{Hostility, Latency, Outage, PagesPerHost, Profile};

mod foreign;

const CRAWL_AT_MOST: Duration = Duration::from_secs(120);

/// What `rhumb compare` says of two crawls: exit code and object.
fn compare(a: &Path, b: &Path) -> (i32, Value) {
    let said = rhumb(&[
        "compare".as_ref(),
        a.as_os_str(),
        b.as_os_str(),
        "--json".as_ref(),
    ]);
    (
        said.code,
        serde_json::from_str(&said.out)
            .unwrap_or_else(|error| panic!("{error}: {} {}", said.out, said.err)),
    )
}

/// Asserts that two crawls found the same URLs, with the same outcomes and titles.
fn assert_same(a: &Path, b: &Path) {
    let (code, comparison) = compare(a, b);
    assert_eq!(code, 0, "{comparison:#}");
    assert!(comparison["urls_a"].as_u64() > Some(0), "{comparison:#}");
}

/// Hosts whose answers are odd, and are answers.
const ODD: [Hostility; 16] = [
    Hostility::RobotsBinary,
    Hostility::RobotsUtf16,
    Hostility::RobotsElsewhere,
    Hostility::RobotsPacked,
    Hostility::RobotsRefused,
    Hostility::RobotsWalled,
    Hostility::Walled,
    Hostility::ServerErrors,
    Hostility::Vanished,
    Hostility::Busy,
    Hostility::BodyShort,
    Hostility::BodyChunks,
    Hostility::Copies,
    Hostility::RedirectLoop,
    Hostility::Mapped,
    Hostility::Cyrillic,
];

/// Redirects, dead links, disallowed pages, and one host of each odd kind.
fn odd_web() -> Profile {
    let honest = honest_hosts(25);
    let hosts = honest.hosts + ODD.len() as u32;
    Profile {
        hosts,
        hostile: ODD.len() as f64 / f64::from(hosts),
        hostilities: ODD.to_vec(),
        ..honest
    }
}

fn plain_web(pages: u32) -> Profile {
    Profile {
        hosts: 20,
        pages_per_host: PagesPerHost::Exactly(pages),
        latency: Latency::None,
        ..Profile::raw()
    }
}

/// Crawls the web into an archive; then nothing of the web can be reached any more.
fn record(world: &World, set: impl FnOnce(Crawl) -> Crawl) -> Finished {
    let finished = set(world.crawl())
        .set("stages.archiver.replicas=1")
        .run(CRAWL_AT_MOST);
    assert_eq!(finished.code, 0);
    assert!(finished.summary.complete, "{}", json(&finished.summary));
    world.web.reset();
    world.web.cut(Some(Outage::Broken));
    world.web.silence_names(true);
    finished
}

fn seed(world: &World) -> [String; 1] {
    [world.web.seed_urls()[0].clone()]
}

/// Goal: a replay comes to the URLs, outcomes, statuses and titles of the crawl that made the
/// archive, and contacts nobody. Method: a web with all that has an answer, which is down during
/// the replay; the replay is kept in the other format, and replayed once more.
#[test]
fn a_replay_comes_to_what_the_crawl_came_to_and_contacts_nobody() {
    let world = World::new(odd_web());
    // A server that is given up leaves URLs that nobody asked for: which ones, time decides.
    let patient = |crawl| hurried(crawl).set("stages.scheduler.server_failures_max=100");
    let recorded = record(&world, patient);
    let mut archive = world.archive();
    for (name, format) in [("again", "warc.zst"), ("once-more", "warc.gz")] {
        let replay = patient(world.replay("crawl", name, &archive)).arguments(&seed(&world));
        let replay = replay.set(&format!("stages.archiver.format={format}"));
        let finished = replay
            .set("stages.archiver.replicas=1")
            .set("politeness.delay=1s")
            .run(CRAWL_AT_MOST);
        assert_eq!(
            (finished.code, finished.summary.complete),
            (0, true),
            "{}",
            json(&finished.summary)
        );
        assert_conserved(&finished.summary);
        assert_eq!(
            finished.summary.outcomes, recorded.summary.outcomes,
            "{name}"
        );
        assert_same(&world.data(), &world.replay_data(name));
        archive = world.replay_data(name).join("archive");
        let files: Vec<PathBuf> = rhumb_warc::warc_files::in_folder(&archive).expect("an archive");
        assert!(
            !files.is_empty()
                && files
                    .iter()
                    .all(|file| file.to_string_lossy().ends_with(format)),
            "{files:?}"
        );
    }
    let report = world.web.report();
    assert_eq!(
        (report.connections, report.requests),
        (0, 0),
        "{}",
        json(&report)
    );
    for outcome in ["fetched", "redirected", "gone", "failed", "disallowed"] {
        assert!(
            recorded
                .summary
                .outcomes
                .get(outcome)
                .is_some_and(|&count| count > 0),
            "no {outcome}"
        );
    }
}

/// Goal: nothing is lost and nothing ends in another way, whoever is killed in the middle of a
/// replay.
#[test]
fn a_replay_whose_processes_are_killed_comes_to_the_same() {
    let world = World::new(plain_web(400));
    let recorded = record(&world, |crawl| crawl);
    let mut replay = world
        .replay("crawl", "again", &world.archive())
        .arguments(&seed(&world))
        .set("stages.archiver.replicas=1")
        .set("stages.fetcher.connections=4")
        .start();
    for (part, stage) in (1..).zip([
        "fetcher",
        "scheduler",
        "fetcher",
        "parser",
        "resolver",
        "archiver",
    ]) {
        replay.until(CRAWL_AT_MOST, |summary| summary.pages >= part * 300);
        let pid = replay.pid(stage);
        signal(pid, Signal::KILL);
        replay.until_replaced(stage, pid, Duration::from_secs(20));
    }
    let finished = replay.finish(CRAWL_AT_MOST);
    assert_eq!(
        (finished.code, finished.summary.restarts),
        (0, 6),
        "{}",
        json(&finished.summary)
    );
    assert_conserved(&finished.summary);
    assert_eq!(finished.summary.outcomes, recorded.summary.outcomes);
    let (_, comparison) = compare(&world.data(), &world.replay_data("again"));
    // A killed archiver may not have had a title.
    for kind in ["only_a", "only_b", "outcomes", "statuses"] {
        assert_eq!(comparison[kind], 0, "{comparison:#}");
    }
}

/// Goal: what began with an archive never asks the web, and the other way round.
#[test]
fn a_crawl_stays_with_what_it_began_with() {
    let world = World::new(plain_web(5));
    record(&world, |crawl| crawl);
    let archive = world.archive();
    let replay = world
        .replay("crawl", "again", &archive)
        .arguments(&seed(&world));
    assert_eq!(
        replay
            .set("stages.archiver.replicas=1")
            .run(CRAWL_AT_MOST)
            .code,
        0
    );
    // Its own archive is refused for another reason.
    let from = format!(
        "stages.fetcher.archive={}",
        world.replay_data("again").join("archive").display()
    );
    for (data, set, reason) in [
        (
            world.replay_data("again"),
            "stages.fetcher.archive=",
            "reads an archive in the place of the web",
        ),
        (world.data(), from.as_str(), "fetches from the web"),
    ] {
        let data = data.display().to_string();
        let agent = "network.user_agent=test (test@example.org)";
        let said = rhumb(&[
            "crawl", "--resume", "--data", &data, "--set", set, "--set", agent,
        ]);
        assert!(
            said.code == 2 && said.err.contains(reason),
            "{} {}",
            said.code,
            said.err
        );
    }
    assert_eq!(world.web.report().requests, 0);
}

/// A page that was fetched, with the file and the place of its record.
struct Kept {
    url: String,
    file: PathBuf,
    offset: u64,
    length: u64,
}

/// A page of the archive whose body is in its own record, and is no other's.
fn kept_page(archive: &Path) -> Kept {
    let files = fs::read_dir(archive)
        .expect("an archive")
        .map(|file| file.expect("a file").path());
    let index = files
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "cdxj"))
        .expect("an index");
    let text = fs::read_to_string(index).expect("an index");
    let lines = text.lines().map(|line| {
        serde_json::from_str::<Value>(line.splitn(3, ' ').nth(2).expect("an object"))
            .expect("an object")
    });
    let is_page = |line: &Value| line["mime"] == "text/html" && line["status"] == "200";
    let line = lines.filter(is_page).nth(20).expect("a page");
    let number = |key: &str| {
        line[key]
            .as_str()
            .and_then(|text| text.parse().ok())
            .expect("a number")
    };
    Kept {
        url: line["url"].as_str().expect("a URL").to_owned(),
        file: archive.join(line["filename"].as_str().expect("a file")),
        offset: number("offset"),
        length: number("length"),
    }
}

/// Goal: a damaged record is named, counted and skipped: its URL ends gone, `why` says so, and the
/// replay goes on. Method: a page that was fetched is damaged, once where the archiver's index says
/// where it is, once where the file has to be read.
#[test]
fn a_damaged_record_is_named_counted_and_skipped() {
    let world = World::new(plain_web(20));
    let recorded = record(&world, |crawl| crawl);
    let archive = world.archive();
    let page = kept_page(&archive);
    let mut bytes = fs::read(&page.file).expect("the file");
    bytes[(page.offset + page.length / 2) as usize] ^= 0x55;
    fs::write(&page.file, bytes).expect("the file");
    for has_index in [true, false] {
        if !has_index {
            fs::remove_file(page.file.with_extension("").with_extension("cdxj"))
                .expect("the index");
        }
        let name = if has_index { "with-index" } else { "without" };
        let mut replay = world
            .replay("up", name, &archive)
            .set("stages.archiver.replicas=1")
            .start();
        replay.until(CRAWL_AT_MOST, |summary| !summary.processes.is_empty());
        let said = replay.rhumb(&["inject", &seed(&world)[0], &page.url]);
        assert_eq!(said.code, 0, "{}", said.err);
        let pages = recorded.summary.pages;
        replay.until(CRAWL_AT_MOST, |summary| {
            summary.outcomes.get("gone").is_some_and(|&gone| gone > 0)
                && summary.waiting + summary.in_flight == 0
                && summary.pages > pages / 2
        });
        assert_eq!(
            replay.count("fetcher", "rhumb_fetcher_archive_damaged_total"),
            1,
            "{name}"
        );
        let why = replay.rhumb(&["why", &page.url]);
        assert!(
            why.out.contains("gone: not in the archive"),
            "{}{}",
            why.out,
            why.err
        );
        let log = fs::read_to_string(replay.data().join("logs/fetcher-0.log")).expect("a log");
        let named: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("is damaged and is skipped"))
            .collect();
        let place = format!("offset={}", page.offset);
        let file = page.file.file_name().expect("a name").to_string_lossy();
        assert!(
            matches!(named[..], [line] if line.contains(&place) && line.contains(&*file)),
            "{named:?}"
        );
        replay.signal(Signal::INT);
        assert_eq!(replay.exit_code(CRAWL_AT_MOST), 130);
        let (code, comparison) = compare(&world.data(), &world.replay_data(name));
        assert_eq!(
            (code, &comparison["only_b"]),
            (1, &0.into()),
            "{comparison:#}"
        );
        let differences = comparison["differences"].as_array().expect("a list");
        let of_page = differences
            .iter()
            .find(|difference| difference["url"] == page.url.as_str())
            .expect("the page");
        assert_eq!(
            (&of_page["a"]["outcome"], &of_page["b"]["outcome"]),
            (&"fetched".into(), &"gone".into())
        );
    }
}

/// Goal: a folder without an archive is refused before anything starts, by the command and by the
/// fetcher.
#[test]
fn an_archive_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let nothing = folder.path().join("nothing");
    let refused = |archive: &Path| {
        let said = rhumb(&[
            "crawl".as_ref(),
            "http://a.test/".as_ref(),
            "--data".as_ref(),
            data.as_os_str(),
            "--from".as_ref(),
            archive.as_os_str(),
        ]);
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(!data.exists(), "a data directory was made");
        said.err
    };
    let missing = refused(&nothing);
    assert!(
        missing.contains("cannot be read") && missing.contains("nothing"),
        "{missing}"
    );
    fs::create_dir(&nothing).expect("a folder");
    let empty = refused(&nothing);
    assert!(
        empty.contains("there is no WARC file") && empty.contains(".warc.gz"),
        "{empty}"
    );
    let said = rhumb(&["compare".as_ref(), nothing.as_os_str(), nothing.as_os_str()]);
    assert!(
        said.code == 2 && said.err.contains("there is no crawl log"),
        "{} {}",
        said.code,
        said.err
    );
}

/// Goal: archives of wget, Heritrix and pywb are read as well. Method: files in their forms, by
/// hand, which lead from one to the other; nothing else is there.
#[test]
fn archives_of_others_are_read() {
    let world = World::new(plain_web(1));
    let folder = tempfile::tempdir().expect("a folder");
    foreign::write(folder.path());
    let replay = world
        .replay("crawl", "foreign", folder.path())
        .arguments(&[foreign::SEED]);
    let finished = replay.set("stages.archiver.replicas=1").run(CRAWL_AT_MOST);
    assert_eq!(finished.code, 0);
    let log = fs::read_to_string(world.replay_data("foreign").join("archive/crawl.jsonl"))
        .expect("a log");
    let mut found: Vec<(String, String, u64, String)> = log
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).expect("a line");
            let text = |key: &str| line[key].as_str().expect("text").to_owned();
            (
                text("url"),
                text("outcome"),
                line["status"].as_u64().expect("a number"),
                text("title"),
            )
        })
        .collect();
    found.sort();
    let expected = foreign::EXPECTED.map(|(url, outcome, status, title)| {
        (url.to_owned(), outcome.to_owned(), status, title.to_owned())
    });
    assert_eq!(found, expected);
    assert!(log.contains("\"reason\":\"not in the archive\""), "{log}");
}

/// Goal: the recipe works as it stands in the manual. Method: its commands, one after the other, on
/// a web whose seeds and configuration are in the files that it names. The web is down after the
/// first.
#[test]
fn the_commands_of_the_recipe_do_what_it_says() {
    let world = World::new(plain_web(20));
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("seeds.txt"), &seed(&world)[0]).expect("a file");
    let configuration = format!(
        "network: {{allow_private_addresses: true, nameservers: ['{}']}}\nscope: {{follow: \
         any}}\npoliteness: {{delay: 0s}}\n",
        world.web.dns()
    );
    fs::write(folder.path().join("mycrawl.yaml"), configuration).expect("a file");
    let commands = recipe("Read last month again").concat();
    let mut codes = Vec::new();
    for (number, command) in commands.lines().enumerate() {
        let said = cook(command, folder.path());
        assert!(
            said.code < 2,
            "{command}: {} {}{}",
            said.code,
            said.out,
            said.err
        );
        codes.push(said.code);
        if number == 0 {
            world.web.reset();
            world.web.cut(Some(Outage::Broken));
            world.web.silence_names(true);
        }
        if command.starts_with("rhumb compare april nearer") {
            assert!(said.out.contains("only in A  http://"), "{}", said.out);
            assert!(
                said.out.contains("only in B 0, other outcome 0"),
                "{}",
                said.out
            );
        }
    }
    assert_eq!(codes, [0, 0, 0, 0, 1], "{commands}");
    assert_eq!(world.web.report().connections, 0);
}

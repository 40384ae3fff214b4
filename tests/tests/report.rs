//! Reports: what a crawl says of itself when it ends, and while it runs.

use rhumb::report::{Report, State};
use rhumb::status::Summary;
use rhumb_tests::harness::{Running, Said, World, rhumb, signal};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;
use synthetic_web::{Latency, PagesPerHost, Profile};

const HOSTS: u32 = 12;
const PAGES: u32 = 120;
const MINUTE: Duration = Duration::from_secs(60);

fn world() -> World {
    World::new(Profile {
        hosts: HOSTS,
        pages_per_host: PagesPerHost::Exactly(PAGES),
        latency: Latency::Fixed { ms: 60 },
        redirects: 0.05,
        not_found: 0.05,
        ..Profile::raw()
    })
}

/// The model that lies in the data directory.
fn written(world: &World) -> Report {
    let bytes = fs::read(world.data().join("report.json")).expect("a model");
    serde_json::from_slice(&bytes).expect("a model")
}

/// `rhumb report` of the crawl's data directory.
fn report(world: &World, arguments: &[&str]) -> Said {
    let data = world.data().display().to_string();
    rhumb(&[&["report", data.as_str()], arguments].concat())
}

/// What is counted in several ways comes to the same, and to what the summary says.
fn assert_adds_up(report: &Report, summary: &Summary) {
    assert_eq!((report.pages, report.bytes), (summary.pages, summary.bytes));
    assert_eq!(report.outcomes, summary.outcomes);
    let urls = [
        report.urls.found,
        report.urls.filtered,
        report.urls.repeated,
        report.urls.new,
    ];
    assert_eq!(
        urls,
        [
            summary.urls_found,
            summary.urls_filtered,
            summary.urls_repeated,
            summary.urls_new
        ]
    );
    for (outcome, urls) in &summary.outcomes {
        let counted: u64 = report
            .ended
            .ends
            .get(outcome)
            .map_or(0, |reasons| reasons.values().sum());
        assert_eq!(counted, *urls, "{outcome}");
    }
    let slots = &report.ended.pace.slots;
    let in_slots = (
        slots.iter().map(|slot| slot.pages).sum(),
        slots.iter().map(|slot| slot.bytes).sum(),
    );
    assert_eq!(in_slots, (summary.pages, summary.bytes));
    assert_eq!(
        slots
            .iter()
            .map(|slot| slot.pages + slot.others)
            .sum::<u64>(),
        report.ended.counted()
    );
    for places in [&report.ended.sizes, &report.ended.times] {
        assert_eq!(places.iter().sum::<u64>(), summary.pages);
    }
    assert_eq!(
        report.ended.depths.iter().sum::<u64>(),
        report.ended.counted()
    );
    assert_eq!(report.missing, [""; 0]);
}

/// The last line of what the command said.
fn last_line(world: &World) -> String {
    let log = fs::read_to_string(world.folder().join("rhumb.log")).expect("a log");
    log.lines().last().unwrap_or_default().to_owned()
}

/// Goal: a restart counts nothing twice and loses nothing, and a report says what the web says.
/// Method: the scheduler is killed in the middle, twice.
#[test]
fn the_report_of_a_crawl_whose_scheduler_was_killed_says_what_the_web_says() {
    let world = world();
    let mut crawl = world.crawl().set("politeness.delay=1ms").start();
    for share in [4, 3] {
        crawl.until(MINUTE, |summary| {
            summary.pages > u64::from(HOSTS * PAGES / share)
        });
        let scheduler = crawl.pid("scheduler");
        signal(scheduler, Signal::KILL);
        crawl.until_replaced("scheduler", scheduler, MINUTE);
    }
    assert_tells_while_it_runs(&crawl);
    let finished = crawl.finish(2 * MINUTE);
    world.assert_counted(&finished);
    let told = written(&world);
    assert_adds_up(&told, &finished.summary);
    assert_eq!(
        (told.state, told.crawl.as_str(), told.restarts),
        (State::Complete, "default", 2)
    );

    let truth = world.web.truth();
    assert_eq!(told.ended.statuses[&200], truth.pages.len() as u64);
    let mut pages: BTreeMap<&str, u64> = BTreeMap::new();
    for url in &truth.pages {
        *pages.entry(rhumb_url::host_of(url)).or_default() += 1;
    }
    let hosts = told
        .leaders
        .by_pages
        .iter()
        .map(|host| (host.host.as_str(), host.pages));
    assert_eq!(hosts.collect::<BTreeMap<_, _>>(), pages);
    assert_eq!(
        told.leaders
            .by_bytes
            .iter()
            .map(|host| host.bytes)
            .sum::<u64>(),
        finished.summary.bytes
    );
    assert!(
        told.leaders.slowest.len() == HOSTS as usize
            && told.leaders.slowest[0].response_us >= 60_000
    );
    let keys: Vec<&str> = told
        .configuration
        .iter()
        .map(|of| of.key.as_str())
        .collect();
    assert!(
        keys.contains(&"politeness.delay") && !keys.iter().any(|key| key.starts_with("broker")),
        "{keys:?}"
    );

    let html = fs::read_to_string(world.data().join("report.html")).expect("a page");
    assert!(
        pages.keys().all(|host| html.contains(host))
            && !html.contains("<script")
            && html.len() < 150_000
    );
    let line = last_line(&world);
    assert!(
        line.starts_with("complete in ")
            && line.ends_with(&format!("; report {}/report.html", world.data().display()))
    );

    let said = report(&world, &["--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(
        serde_json::from_str::<Report>(&said.out).expect("a model"),
        told
    );
    let copy = world.folder().join("copy.html");
    let said = report(&world, &["--out", &copy.display().to_string()]);
    assert_eq!(
        (said.code, said.out.trim()),
        (0, copy.display().to_string().as_str())
    );
    assert_eq!(fs::read_to_string(copy).expect("a page"), html);
}

/// A running crawl is asked, and tells as much as its status.
fn assert_tells_while_it_runs(crawl: &Running) {
    let said = crawl.rhumb(&["report", "--json", "--hosts", "3"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let told: Report = serde_json::from_str(&said.out).expect("a model");
    assert_eq!(
        (told.state, told.leaders.by_pages.len()),
        (State::Running, 3)
    );
    assert!(told.pages > 0 && told.ended.counted() > 0 && told.ran_s > 0.0);
    assert!(
        told.configuration
            .iter()
            .any(|of| of.key == "politeness.delay")
    );
}

/// The streams of which a stage may have something in hand.
const STREAMS: [&str; 7] = [
    "urls.found",
    "urls.split",
    "urls.new",
    "urls.ready",
    "fetch.reports",
    "pages",
    "pages.signals",
];

/// Goal: a crawl that was stopped has a report, one that was killed has none, and the command says
/// how it gets one.
#[test]
fn a_stopped_crawl_has_a_report_and_a_killed_one_gets_it_when_it_has_gone_on() {
    let world = world();
    // What the killed processes had in hand comes again when their leases are over.
    let mut crawl = world
        .crawl()
        .set("ownership_lease=2s")
        .set("stages.scheduler.job_lease=4s");
    for edge in STREAMS {
        crawl = crawl.set(&format!("edges.{edge}.ack_wait=3s"));
    }
    let mut crawl = crawl.set("stages.fetcher.renew_every=1s").start();
    crawl.until(MINUTE, |summary| summary.pages > 50);
    signal(crawl.pids("rhumb")[0], Signal::KILL);
    assert_eq!(crawl.exit_code(MINUTE), -1);
    let said = report(&world, &[]);
    assert!(
        said.code == 1 && said.err.contains("rhumb crawl --resume --data"),
        "{}",
        said.err
    );
    assert!(!world.data().join("report.json").exists());

    let mut crawl = world.resume().start();
    crawl.until(MINUTE, |summary| summary.pages > 150);
    crawl.signal(Signal::INT);
    let stopped = crawl.finish(MINUTE);
    assert_eq!(stopped.code, 130);
    let told = written(&world);
    assert_eq!(told.state, State::Stopped);
    assert_adds_up(&told, &stopped.summary);
    assert!(
        last_line(&world).starts_with("stopped in ") && last_line(&world).contains("; report ")
    );

    let finished = world.resume().run(2 * MINUTE);
    world.assert_counted(&finished);
    let told = written(&world);
    assert_adds_up(&told, &finished.summary);
    assert!(
        told.ran_s > told.elapsed_s,
        "{} and {}",
        told.ran_s,
        told.elapsed_s
    );

    let nowhere = world.folder().join("nowhere").display().to_string();
    let said = rhumb(&["report", nowhere.as_str()]);
    assert!(
        said.code == 2 && said.err.contains("holds no crawl"),
        "{}",
        said.err
    );
}

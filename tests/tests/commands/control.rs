//! Control: a crawl is started, fed, scaled, stopped, resumed and deleted.

use super::{ENDS_WITHIN, MINUTE, slow_web, slower_web};
use rhumb::status::Summary;
use rhumb_bus::Access;
use rhumb_tests::harness::{
    Cluster, Running, World, binaries, ended_within, json, rhumb, signal, within,
};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use synthetic_web::{Latency, PagesPerHost, Profile};

#[test]
fn an_idle_pipeline_takes_injected_urls_and_is_complete_when_they_are_done() {
    let world = World::new(Profile {
        hosts: 5,
        pages_per_host: PagesPerHost::Exactly(20),
        ..Profile::raw()
    });
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
    within(Duration::from_secs(2), || {
        let world = World::alone(Profile {
            hosts: 60,
            pages_per_host: PagesPerHost::Exactly(160),
            latency: Latency::Fixed { ms: 100 },
            ..Profile::raw()
        });
        let mut crawl = world.crawl().start();
        crawl.until(MINUTE, |summary| summary.pages > 100);
        assert_eq!(crawl.rhumb(&["scale", "fetcher=0"]).code, 2);
        assert_eq!(crawl.rhumb(&["scale", "fetch=2"]).code, 2);

        let more = scaled(&mut crawl, 4);
        let fewer = scaled(&mut crawl, 1);
        let finished = crawl.finish(2 * MINUTE);
        world.assert_whole(&finished);
        assert_eq!(
            (finished.summary.restarts, finished.summary.refetched),
            (0, 0)
        );
        more.max(fewer)
    });
}

/// Scales the fetchers. Returns how long it took from the command's end until there were as many.
fn scaled(crawl: &mut Running, wanted: usize) -> Duration {
    assert_eq!(
        crawl.rhumb(&["scale", &format!("fetcher={wanted}")]).code,
        0
    );
    let since = Instant::now();
    let has_as_many = |summary: Summary| {
        let fetchers = summary.processes.iter();
        fetchers
            .filter(|process| process.stage == "fetcher")
            .count()
            == wanted
    };
    // What is measured is looked at without a pause.
    while !crawl.status().is_some_and(has_as_many) {
        assert!(since.elapsed() < Duration::from_secs(10), "{}", crawl.log());
    }
    let took = since.elapsed();
    let pages = crawl.status().expect("the crawl answers").pages;
    crawl.until(MINUTE, |summary| summary.pages > pages + 100);
    took
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

/// Goal: who waits for a lease says so, and who holds it. Method: a second scheduler of the same
/// instance.
#[test]
fn a_stage_that_waits_for_its_lease_says_who_holds_it() {
    let world = World::new(slow_web());
    let mut up = world.up().start();
    up.until(MINUTE, |summary| {
        summary
            .processes
            .iter()
            .any(|process| process.stage == "scheduler")
    });
    let holder = up.pid("scheduler");
    let mut second = Command::new(binaries().join("scheduler"))
        .env("RHUMB__BROKER__URL", up.handle().broker)
        .arg("--config")
        .arg(up.data().join("configuration.json"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("a scheduler can be started");
    let mut log = BufReader::new(second.stderr.take().expect("a pipe"))
        .lines()
        .map_while(Result::ok);
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(log.find(|line| line.contains("waiting for the lease"))));
    let said = told.recv_timeout(ENDS_WITHIN);
    signal(second.id(), Signal::TERM);
    assert_eq!(
        ended_within(&mut second, ENDS_WITHIN).and_then(|status| status.code()),
        Some(0)
    );
    let said = said
        .expect("it says something in time")
        .expect("it says that it waits");
    assert!(
        said.contains("scheduler.0") && said.contains(&format!("pid {holder} ")),
        "{said}"
    );
}

#[test]
fn a_crawl_is_run_by_one_rhumb_alone() {
    let world = World::new(slow_web());
    let crawl = world.crawl().set("ownership_lease=2s").start();
    let handle = crawl.handle();
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().display().to_string();
    let broker = format!("broker.url={}", handle.broker);
    let seed = &world.web.seed_urls()[0];
    let local = "network.allow_private_addresses=true";
    let common = [
        "--set",
        local,
        "--set",
        &broker,
        "--set",
        "ownership_lease=2s",
        "--data",
        &data,
    ];
    let second = rhumb(&[["crawl", seed].as_slice(), &common].concat());
    assert_eq!(second.code, 1, "{}", second.err);
    assert!(
        second.err.contains("another rhumb") && second.err.contains("'default'"),
        "{}",
        second.err
    );
    world.assert_whole(&crawl.finish(MINUTE));
}

#[test]
fn arguments_come_before_the_environment_in_every_process() {
    let world = World::new(Profile {
        hosts: 5,
        pages_per_host: PagesPerHost::Exactly(20),
        ..Profile::raw()
    });
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
    let world = World::new(Profile {
        hosts: 5,
        pages_per_host: PagesPerHost::Exactly(5),
        ..Profile::raw()
    });
    let [first, second] = [0, 1].map(|host| world.web.seed_urls()[host].clone());
    std::fs::create_dir_all(world.data()).expect("a data directory");
    let unstored = world.data().join("seeds.unstored");
    std::fs::write(&unstored, second).expect("a file");
    let finished = world
        .bare("crawl")
        .arguments(&[first])
        .set("scope.max_depth=0")
        .run(MINUTE);
    assert_eq!(
        (
            finished.code,
            finished.summary.complete,
            finished.summary.pages
        ),
        (0, true, 2)
    );
    assert!(!unstored.exists());
}

#[test]
fn what_is_fixed_for_the_life_of_a_crawl_is_not_changed_by_resuming_it() {
    let world = World::new(slow_web());
    let limited = world.crawl().arguments(&["--max-pages", "50"]).run(MINUTE);
    assert_eq!(
        (
            limited.code,
            limited.summary.complete,
            limited.summary.pages
        ),
        (0, false, 50)
    );
    for (change, key) in [
        ("partitions=8", "partitions"),
        ("crawl=other", "crawl"),
        ("ownership_lease=9s", "ownership_lease"),
    ] {
        let data = world.data().display().to_string();
        let said = rhumb(&["crawl", "--resume", "--data", &data, "--set", change]);
        assert_eq!(said.code, 2, "{change}: {}", said.err);
        assert!(
            said.err.contains(key) && said.err.contains("fixed"),
            "{change}: {}",
            said.err
        );
    }
    world.assert_whole(&world.resume().run(MINUTE));
}

#[test]
fn ctrl_c_drains_and_the_crawl_goes_on_where_it_stopped() {
    let world = World::new(slow_web());
    let mut crawl = world.crawl().set("stages.fetcher.connections=8").start();
    crawl.until(MINUTE, |summary| summary.pages > 200);
    let second = crawl.rhumb(&[
        "crawl",
        "--resume",
        "--set",
        "network.allow_private_addresses=true",
    ]);
    assert_eq!(second.code, 1, "{}", second.err);
    assert!(second.err.contains("already runs"), "{}", second.err);
    let deleted = crawl.rhumb(&["delete"]);
    assert_eq!(deleted.code, 1, "{}", deleted.err);
    assert!(deleted.err.contains("already runs"), "{}", deleted.err);
    crawl.signal(Signal::INT);
    let stopped = crawl.finish(ENDS_WITHIN);
    assert_eq!(
        (
            stopped.code,
            stopped.summary.complete,
            stopped.summary.in_flight
        ),
        (130, false, 0)
    );
    let report = world.web.report();
    assert_eq!(
        (report.open_connections, report.pages.requested),
        (0, stopped.summary.pages)
    );

    let data = world.data().display().to_string();
    let local = "network.allow_private_addresses=true";
    let afresh = rhumb(&[
        "crawl",
        &world.web.seed_urls()[0],
        "--set",
        local,
        "--data",
        &data,
    ]);
    assert_eq!(afresh.code, 2, "{}", afresh.err);
    assert!(afresh.err.contains("--resume"), "{}", afresh.err);

    let finished = world.resume().run(MINUTE);
    world.assert_whole(&finished);
    assert_eq!(finished.summary.refetched, 0);

    let mine = world.data().join("mine.txt");
    std::fs::write(&mine, "not the crawl's").expect("a file");
    let deleted = rhumb(&["delete", "--data", &data]);
    assert_eq!(deleted.code, 0, "{}", deleted.err);
    let left: Vec<_> = std::fs::read_dir(world.data())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(left, [mine]);
    let again = rhumb(&["delete", "--data", &data]);
    assert_eq!(again.code, 1, "{}", again.err);
    assert!(again.err.contains("no crawl"), "{}", again.err);
}

/// Goal: nobody deletes the streams of a crawl that runs elsewhere. Method: two data directories
/// and one broker; first a crawl runs in the other one, then a stage of it alone, with nobody who
/// supervises it.
#[test]
fn a_crawl_that_runs_elsewhere_is_not_deleted() {
    let world = World::new(slow_web());
    let broker = Cluster::start(1, None);
    let url = format!("broker.url={}", broker.url());
    let crawl = world.crawl().set("ownership_lease=2s").set(&url).start();
    crawl.handle();
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path().join("here").display().to_string();
    let delete = || rhumb(&["delete", "--yes", "--data", &here, "--set", &url]);
    let refused = delete();
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(
        refused.err.contains("the crawl 'default' runs") && refused.err.contains(" has the lease "),
        "{}",
        refused.err
    );
    world.assert_whole(&crawl.finish(MINUTE));

    let mut stage = Command::new(binaries().join("dedup"))
        .arg("--config")
        .arg(world.data().join("configuration.json"))
        .args(["--set", &url])
        .args(["--supervisor", &std::process::id().to_string()])
        .stderr(Stdio::null())
        .spawn()
        .expect("a stage");
    let end = Instant::now() + Duration::from_secs(10);
    while !broker.leases().contains_key("dedup.0") {
        assert!(Instant::now() < end, "the stage takes no lease");
        std::thread::sleep(Duration::from_millis(50));
    }
    let refused = delete();
    let holder = format!("pid {} on ", stage.id());
    kill_process(Pid::from_child(&stage), Signal::TERM).expect("it runs");
    assert!(
        ended_within(&mut stage, ENDS_WITHIN).is_some(),
        "the stage does not end"
    );
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(
        refused.err.contains(&holder) && refused.err.contains("dedup.0"),
        "{}",
        refused.err
    );

    let deleted = delete();
    assert_eq!((deleted.code, broker.streams()), (0, 0), "{}", deleted.err);
}

/// Goal: nobody else on this machine reads or commands a crawl. Method: what a stranger sees
/// (command lines, logs, the port) has no token in it and answers to none; the commands, which read
/// it, work.
#[test]
fn a_private_broker_answers_to_nobody_without_its_token() {
    let world = World::new(slower_web());
    let crawl = world.crawl().start();
    let handle = crawl.handle();
    let (token, address) = handle
        .broker
        .strip_prefix("nats://")
        .and_then(|url| url.split_once('@'))
        .expect("a token");
    for file in [
        "broker.token",
        "broker.conf",
        "control.json",
        "configuration.json",
    ] {
        let mode = world
            .data()
            .join(file)
            .metadata()
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    for stranger in [
        format!("nats://{address}"),
        format!("nats://{}@{address}", "0".repeat(64)),
    ] {
        let access = Access::by_address(&stranger).expect("an address");
        let refused = runtime
            .block_on(access.options().connect(access.addresses()))
            .expect_err("nobody knows it");
        assert_eq!(
            refused.kind(),
            async_nats::ConnectErrorKind::AuthorizationViolation,
            "{refused}"
        );
    }
    let seed = &world.web.seed_urls()[0];
    // Right after the start nobody answers yet, and the seed is on its way.
    let end = Instant::now() + MINUTE;
    loop {
        let said = crawl.rhumb(&["why", seed]);
        if said.code == 0 && said.out.contains("scheduler") {
            break;
        }
        assert!(
            Instant::now() < end,
            "the seed does not come to the scheduler: {}{}",
            said.out,
            said.err
        );
    }
    for (command, shows) in [
        (["status"].as_slice(), "running"),
        (&["tap", "urls.new", "--limit", "1"], "urls.new"),
    ] {
        let said = crawl.rhumb(command);
        assert!(
            said.code == 0 && said.out.contains(shows),
            "{command:?}: {}{}",
            said.out,
            said.err
        );
    }
    assert_eq!(crawl.rhumb(&["inject", seed]).code, 0);

    let lines = std::fs::read_dir("/proc").expect("processes").flatten();
    let lines = lines.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    assert!(
        !lines
            .map(|line| String::from_utf8_lossy(&line).into_owned())
            .any(|line| line.contains(token))
    );
    let mut texts = crawl.log();
    for log in std::fs::read_dir(world.data().join("logs")).expect("logs") {
        texts.push_str(&std::fs::read_to_string(log.expect("a log").path()).expect("a log"));
    }
    texts.push_str(&std::fs::read_to_string(world.data().join("broker.log")).expect("a log"));
    assert!(!texts.contains(token), "a token in a log");
    let finished = crawl.finish(MINUTE);
    world.assert_whole(&finished);
}

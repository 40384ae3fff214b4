//! Identity: state and streams that do not belong together are refused by name, and an operator who
//! accepts the loss hears what is missing (P3).

use rhumb::broker::{Broker, BrokerOptions};
use rhumb_bus::{Access, Bus, LEASES};
use rhumb_config::Pipeline;
use rhumb_node::{Ownership, keeper};
use rhumb_tests::harness::{Running, World, assert_manners, json, rhumb, signal};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use synthetic_web::{Latency, PagesPerHost, Profile};

const HOSTS: u64 = 10;
const PAGES_PER_HOST: u64 = 40;
const MINUTE: Duration = Duration::from_secs(60);
const REFUSED_WITHIN: Duration = Duration::from_secs(30);

fn world() -> World {
    World::new(Profile {
        hosts: HOSTS as u32,
        pages_per_host: PagesPerHost::Exactly(PAGES_PER_HOST as u32),
        latency: Latency::Fixed { ms: 150 },
        ..Profile::raw()
    })
}

/// A crawl whose leases are short.
fn start(world: &World) -> Running {
    let mut crawl = world
        .crawl()
        .set("ownership_lease=2s")
        .set("stages.scheduler.job_lease=4s");
    // What a copy of the broker's store has as delivered comes again after that.
    for edge in [
        "urls.found",
        "urls.split",
        "urls.new",
        "urls.ready",
        "pages",
        "pages.signals",
        "fetch.reports",
    ] {
        crawl = crawl.set(&format!("edges.{edge}.ack_wait=5s"));
    }
    crawl.set("stages.fetcher.renew_every=500ms").start()
}

fn until_pages(crawl: &mut Running, pages: u64) {
    let summary = crawl.until(MINUTE, |summary| summary.pages >= pages);
    assert!(
        !summary.complete,
        "too late to be a test: {}",
        json(&summary)
    );
}

fn stop(mut crawl: Running) {
    crawl.signal(Signal::INT);
    assert_eq!(crawl.exit_code(MINUTE), 130, "{}", crawl.log());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from)
        .expect("a folder")
        .map(|entry| entry.expect("an entry"))
    {
        let to = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).expect("a copy")),
        }
    }
}

/// Puts a copy of the broker's store in its place.
fn put_back(copy_of_store: &Path, store: &Path) {
    fs::remove_dir_all(store).expect("a store");
    fs::rename(copy_of_store, store).expect("a copy of the store");
}

/// Kills the broker of a running crawl and changes its store before it comes back. Returns what the
/// crawl says when it ends because of that.
fn ends_after(mut crawl: Running, change: impl FnOnce()) -> String {
    let broker = crawl.pid("broker");
    // Or it would start the broker before the change.
    crawl.signal(Signal::STOP);
    signal(broker, Signal::KILL);
    change();
    crawl.signal(Signal::CONT);
    assert_eq!(crawl.exit_code(MINUTE), 2, "{}", crawl.log());
    crawl.log()
}

/// The crawl is refused until the loss is accepted; then it completes, and every URL that was ever
/// new ended or is counted as lost.
fn goes_on_after_the_loss_is_accepted(world: &World) {
    let mut refused = world.resume().start();
    assert_eq!(refused.exit_code(REFUSED_WITHIN), 2, "{}", refused.log());
    let mut crawl = world.resume().arguments(&["--accept-loss"]).start();
    while !crawl.has_ended() {
        assert_eq!(crawl.violations(), [""; 0], "{}", crawl.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    let log = crawl.log();
    let finished = crawl.finish(MINUTE);
    let summary = &finished.summary;
    assert_eq!(
        (finished.code, summary.complete),
        (0, true),
        "{}\n{log}",
        json(summary)
    );
    let ended: u64 = summary.outcomes.values().sum();
    assert_eq!(summary.urls_new, ended + summary.lost, "{}", json(summary));
    assert!(!summary.lost_messages.is_empty(), "{}", json(summary));
    assert!(
        log.contains("generation 2 of the crawl begins; messages lost: "),
        "{log}"
    );
    assert!(
        log.contains(&format!(
            "accepted as lost: {} URLs; messages: ",
            summary.lost
        )),
        "{log}"
    );
    assert_manners(&world.web.report());
    // What was accepted is accepted: the crawl can be resumed again, and still says it.
    let again = world.resume().run(MINUTE);
    assert_eq!(
        (again.code, again.summary.lost),
        (0, summary.lost),
        "{}",
        json(&again.summary)
    );
}

#[test]
fn a_broker_restored_from_a_copy_while_the_crawl_was_stopped_is_refused_until_the_loss_is_accepted()
{
    let world = world();
    let mut crawl = start(&world);
    until_pages(&mut crawl, HOSTS * PAGES_PER_HOST / 5);
    stop(crawl);
    let store = world.data().join("jetstream");
    let earlier = world.data().join("earlier");
    copy(&store, &earlier);
    let mut crawl = world.resume().start();
    until_pages(&mut crawl, HOSTS * PAGES_PER_HOST * 3 / 5);
    stop(crawl);
    put_back(&earlier, &store);
    let mut refused = world.resume().start();
    assert_eq!(refused.exit_code(REFUSED_WITHIN), 2, "{}", refused.log());
    let log = refused.log();
    assert!(
        log.contains("is shorter than it was")
            && log.contains("rhumb crawl --resume --accept-loss"),
        "{log}"
    );
    goes_on_after_the_loss_is_accepted(&world);
}

#[test]
fn a_broker_restored_from_a_copy_under_a_running_crawl_is_refused_until_the_loss_is_accepted() {
    let world = world();
    let mut crawl = start(&world);
    let store = world.data().join("jetstream");
    let earlier = world.data().join("earlier");
    until_pages(&mut crawl, HOSTS * PAGES_PER_HOST / 5);
    let broker = crawl.pid("broker");
    signal(broker, Signal::STOP);
    copy(&store, &earlier);
    signal(broker, Signal::CONT);
    until_pages(&mut crawl, HOSTS * PAGES_PER_HOST * 3 / 5);
    let log = ends_after(crawl, || put_back(&earlier, &store));
    assert!(
        log.contains("is shorter than it was")
            && log.contains("rhumb crawl --resume --accept-loss"),
        "{log}"
    );
    goes_on_after_the_loss_is_accepted(&world);
}

#[test]
fn a_broker_that_comes_back_empty_under_a_running_crawl_begins_no_other_crawl() {
    let world = world();
    let mut crawl = start(&world);
    until_pages(&mut crawl, HOSTS * PAGES_PER_HOST / 3);
    let log = ends_after(crawl, || {
        fs::remove_dir_all(world.data().join("jetstream")).expect("a store")
    });
    assert!(
        log.contains("the broker does not know crawl ") && log.contains("--accept-loss"),
        "{log}"
    );
    goes_on_after_the_loss_is_accepted(&world);
}

#[test]
fn state_that_is_gone_is_refused_until_its_loss_is_accepted() {
    let world = world();
    let mut crawl = start(&world);
    until_pages(&mut crawl, HOSTS * PAGES_PER_HOST / 2);
    stop(crawl);
    fs::remove_dir_all(world.data().join("dedup")).expect("the state of dedup");
    let mut refused = world.resume().start();
    assert_eq!(refused.exit_code(REFUSED_WITHIN), 2, "{}", refused.log());
    let log = refused.log();
    assert!(
        log.contains("dedup.0 cannot go on") && log.contains("dedup/0 is gone, and crawl "),
        "{log}"
    );

    let finished = world.resume().arguments(&["--accept-loss"]).run(MINUTE);
    assert_eq!(
        (finished.code, finished.summary.complete),
        (0, true),
        "{}",
        json(&finished.summary)
    );
    let report = world.web.report();
    assert_eq!(report.missing.count, 0, "{}", json(&report));
    assert_manners(&report);
    let log = fs::read_to_string(world.data().with_file_name("rhumb.log")).expect("a log");
    assert!(
        log.contains("URLs that it had seen are new again when they are found"),
        "{log}"
    );
}

/// Resumes the crawl, with and without accepting a loss, and asserts that both are refused with
/// these words.
fn assert_refused_for_good(world: &World, parts: &[&str]) {
    for arguments in [[].as_slice(), &["--accept-loss"]] {
        let mut refused = world.resume().arguments(arguments).start();
        assert_eq!(refused.exit_code(REFUSED_WITHIN), 2, "{}", refused.log());
        let log = refused.log();
        for part in parts {
            assert!(log.contains(part), "{arguments:?} {part}: {log}");
        }
    }
}

/// Goal: a crawl of format 1 is never gone on with. Method: the marks of a crawl are changed to
/// what format 1 wrote, each in its place; what is refused changes nothing, so that the crawl goes
/// on when the mark is put back.
#[test]
fn a_crawl_of_another_format_is_refused_wherever_it_is_met() {
    let world = world();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let mut broker = runtime
        .block_on(Broker::start(BrokerOptions::new(folder.path())))
        .expect("a broker");
    let mut crawl = world
        .crawl()
        .set("ownership_lease=2s")
        .set(&format!("broker.url={}", broker.url()))
        .start();
    until_pages(&mut crawl, HOSTS * PAGES_PER_HOST / 4);
    let jetstream = runtime.block_on(async { async_nats::jetstream::new(crawl.client().await) });
    stop(crawl);

    // In the data directory.
    let file = world.data().join("identity.json");
    let kept = fs::read_to_string(&file).expect("an identity");
    let mut of_format_1: Value = serde_json::from_str(&kept).expect("an identity");
    assert_eq!(
        of_format_1
            .as_object_mut()
            .expect("an object")
            .remove("format"),
        Some(3.into())
    );
    fs::write(&file, of_format_1.to_string()).expect("an identity");
    let named = [
        "was begun in format 1, this program writes format 3",
        "rhumb delete",
    ];
    assert_refused_for_good(&world, &[&["data directory"], &named[..]].concat());
    fs::write(&file, &kept).expect("an identity");

    // At the broker.
    let bucket = runtime
        .block_on(jetstream.get_key_value("rhumb_default_identity"))
        .expect("a bucket");
    let identity = runtime
        .block_on(bucket.get("crawl"))
        .expect("an answer")
        .expect("an identity");
    let mut first: Value = serde_json::from_slice(&identity).expect("an identity");
    first["format"] = 1.into();
    runtime
        .block_on(bucket.put("crawl", first.to_string().into()))
        .expect("a bucket");
    assert_refused_for_good(
        &world,
        &[&["the crawl 'default' at the broker"], &named[..]].concat(),
    );
    runtime
        .block_on(bucket.put("crawl", identity.clone()))
        .expect("a bucket");

    // In the marks of streams, also when the broker has lost the identity.
    let mark = |change: &dyn Fn(&mut HashMap<String, String>)| {
        let stream = runtime
            .block_on(jetstream.get_stream("rhumb_default_outcomes"))
            .expect("a stream");
        let mut config = stream.cached_info().config.clone();
        let before = config.metadata.clone();
        change(&mut config.metadata);
        runtime
            .block_on(jetstream.update_stream(config))
            .expect("a stream that changes");
        before
    };
    let metadata = mark(&|metadata| drop(metadata.remove("rhumb_format")));
    assert_refused_for_good(
        &world,
        &[&["stream rhumb_default_outcomes"], &named[..]].concat(),
    );
    runtime.block_on(bucket.delete("crawl")).expect("a bucket");
    let mut refused = world.resume().arguments(&["--accept-loss"]).start();
    assert_eq!(refused.exit_code(REFUSED_WITHIN), 2, "{}", refused.log());
    assert!(refused.log().contains(named[0]), "{}", refused.log());
    assert_eq!(
        runtime.block_on(bucket.get("crawl")).expect("an answer"),
        None,
        "no crawl was begun"
    );
    runtime
        .block_on(bucket.put("crawl", identity))
        .expect("a bucket");
    mark(&|metadata| metadata.clear());
    assert_refused_for_good(
        &world,
        &[
            "stream rhumb_default_outcomes",
            "names no crawl",
            "rhumb delete",
        ],
    );
    mark(&|all| all.clone_from(&metadata));

    let finished = world.resume().run(MINUTE);
    assert_eq!(
        (finished.code, finished.summary.complete),
        (0, true),
        "{}",
        json(&finished.summary)
    );
    runtime
        .block_on(broker.stop())
        .expect("a broker that stops");
}

#[test]
fn a_stream_keeps_the_number_of_consumers_that_it_was_made_for() {
    let world = world();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let mut broker = runtime
        .block_on(Broker::start(BrokerOptions::new(folder.path())))
        .expect("a broker");
    let mut crawl = world
        .crawl()
        .set(&format!("broker.url={}", broker.url()))
        .set("broker.consumers_max=1000")
        .start();
    until_pages(&mut crawl, HOSTS * PAGES_PER_HOST / 4);
    let jetstream = runtime.block_on(async { async_nats::jetstream::new(crawl.client().await) });
    stop(crawl);
    // Another size makes the stream be updated, and a broker refuses updates that change the number
    // of consumers.
    let resumed = world
        .resume()
        .set("broker.consumers_max=2000")
        .set("edges.outcomes.bytes_max=32MiB");
    let finished = resumed.run(MINUTE);
    assert_eq!(
        (finished.code, finished.summary.complete),
        (0, true),
        "{}",
        json(&finished.summary)
    );
    let stream = runtime
        .block_on(jetstream.get_stream("rhumb_default_outcomes"))
        .expect("a stream");
    let config = &stream.cached_info().config;
    assert_eq!((config.max_consumers, config.max_bytes), (1000, 32 << 20));
    runtime
        .block_on(broker.stop())
        .expect("a broker that stops");
}

#[test]
fn state_of_a_crawl_that_nothing_names_is_refused_before_another_begins() {
    let world = world();
    let mut crawl = start(&world);
    until_pages(&mut crawl, HOSTS * PAGES_PER_HOST / 4);
    stop(crawl);
    let file = world.data().join("identity.json");
    fs::remove_file(&file).expect("an identity");
    fs::remove_dir_all(world.data().join("jetstream")).expect("a store");
    assert_refused_for_good(
        &world,
        &[
            "that it does not name",
            "identity.json is gone",
            "format before 3",
        ],
    );
    assert!(!file.exists(), "no crawl was begun");
}

#[test]
fn a_crawl_of_the_same_name_does_not_go_on_with_the_streams_of_another() {
    let world = world();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let mut broker = runtime
        .block_on(Broker::start(BrokerOptions::new(folder.path())))
        .expect("a broker");
    let on_broker = format!("broker.url={}", broker.url());
    let start = || {
        world
            .crawl()
            .set("ownership_lease=2s")
            .set(&on_broker)
            .start()
    };
    let mut crawl = start();
    until_pages(&mut crawl, HOSTS * PAGES_PER_HOST / 4);
    stop(crawl);
    fs::remove_dir_all(world.data()).expect("a data directory");
    let mut refused = start();
    assert_eq!(refused.exit_code(REFUSED_WITHIN), 2, "{}", refused.log());
    let log = refused.log();
    for part in [
        "the broker holds crawl ",
        "under the name 'default'",
        "--data DIR",
        "--set crawl=NAME",
        "rhumb delete",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    let data = world.data().display().to_string();
    let local = "network.allow_private_addresses=true";
    let deleted = rhumb(&[
        "delete", "--yes", "--data", &data, "--set", &on_broker, "--set", local,
    ]);
    assert_eq!(deleted.code, 0, "{}", deleted.err);

    // A stream that goes is missed within seconds, and nothing takes its place.
    let mut crawl = start();
    until_pages(&mut crawl, HOSTS * PAGES_PER_HOST / 4);
    runtime.block_on(async {
        async_nats::jetstream::new(crawl.client().await)
            .delete_stream("rhumb_default_outcomes")
            .await
            .expect("a stream");
    });
    assert_eq!(crawl.exit_code(MINUTE), 2, "{}", crawl.log());
    assert!(
        crawl.log().contains("stream rhumb_default_outcomes"),
        "{}",
        crawl.log()
    );
    runtime
        .block_on(broker.stop())
        .expect("a broker that stops");
}

/// Goal: a broker that answers too late costs no lease. Method: what holds a lease asks for it once
/// more, as who did not hear that it was given.
#[test]
fn a_lease_that_was_given_unheard_is_taken_up_by_its_holder_alone() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    runtime.block_on(async {
        let mut broker = Broker::start(BrokerOptions::new(folder.path()))
            .await
            .expect("a broker");
        let access = Access::by_address(broker.url()).expect("an address");
        let connecting = access.options().connect(access.addresses());
        let client = connecting.await.expect("a client");
        let bucket = async_nats::jetstream::new(client)
            .create_key_value(async_nats::jetstream::kv::Config {
                bucket: "leases".to_owned(),
                max_age: MINUTE,
                ..Default::default()
            })
            .await
            .expect("a bucket");
        let take = |life| Ownership::try_take(bucket.clone(), "scheduler", 0, life, MINUTE);
        let unheard = take(1).await.expect("a free lease");
        let taken_up = take(1).await.expect("the own lease");
        assert!(taken_up.taken() > unheard.taken());
        let refused = take(2).await.err().expect("a lease of another");
        assert!(refused.contains("holds it"), "{refused}");
        taken_up.release().await;
        take(2).await.expect("a lease that was given back");
        broker.stop().await.expect("a broker that stops");
    });
}

/// Goal: a stage that waits for its disk for longer than its lease lasts has it on and on. Method:
/// the only thread of a runtime stands still.
#[test]
fn who_stands_still_has_the_lease_while_its_thread_lives() {
    const LASTS: Duration = Duration::from_secs(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    runtime.block_on(async {
        let mut broker = Broker::start(BrokerOptions::new(folder.path()))
            .await
            .expect("a broker");
        let mut pipeline = Pipeline::default();
        pipeline.broker.url = broker.url().to_owned();
        let bus = Bus::connect(broker.url(), &pipeline, "test").await;
        let jetstream = bus.expect("a connection").jetstream;
        jetstream
            .create_key_value(async_nats::jetstream::kv::Config {
                bucket: pipeline.subjects().bucket(LEASES),
                max_age: LASTS,
                ..Default::default()
            })
            .await
            .expect("a bucket");
        let lease = keeper::take(&pipeline, "scheduler", 0, 1, LASTS).await;
        let lease = lease.expect("a free lease");
        let taken = lease.taken();
        std::thread::sleep(4 * LASTS);
        let until = lease.held_until().expect("it is held");
        assert!(until > Instant::now());
        assert_eq!(lease.taken(), taken, "it never lapsed");
        lease.release().await;
        broker.stop().await.expect("a broker that stops");
    });
}

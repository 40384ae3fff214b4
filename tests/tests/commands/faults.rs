//! Faults: a broker with a small limit, or with a server that is away, and a message that cannot be
//! read do not stop a crawl; what is lost on its way is told.

use super::{MINUTE, slow_web};
use rhumb::broker::{Broker, BrokerOptions};
use rhumb::status::Summary;
use rhumb_bus::Bus;
use rhumb_config::Layers;
use rhumb_tests::harness::{Cluster, Running, World, json, rhumb, signal};
use rhumb_url::partition;
use rhumb_wire::message::{Origin, SplitUrls, encode};
use rhumb_wire::topology::{Edge, Token};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};
use synthetic_web::{Hostility, PagesPerHost, Profile};

#[test]
fn a_broker_of_small_messages_is_enough_and_longer_pages_are_cut() {
    let hostilities = vec![Hostility::BodyEndless];
    let pages_per_host = PagesPerHost::Exactly(5);
    let world = World::new(Profile {
        hosts: 4,
        hostile: 0.5,
        hostilities,
        pages_per_host,
        ..Profile::raw()
    });
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    // A nats-server's own default.
    let options = BrokerOptions {
        max_payload: 1 << 20,
        ..BrokerOptions::new(folder.path())
    };
    let mut broker = runtime.block_on(Broker::start(options)).expect("a broker");
    let crawl = world
        .crawl()
        .set(&format!("broker.url={}", broker.url()))
        .start();
    let log = crawl.data().with_file_name("rhumb.log");
    let finished = crawl.finish(MINUTE);
    world.assert_counted(&finished);
    assert!(
        finished.summary.bytes > 10 * 900_000 && finished.summary.bytes < 11 << 20,
        "{}",
        json(&finished.summary)
    );
    let log = std::fs::read_to_string(log).expect("the log");
    assert!(log.contains("messages of at most 1MiB"), "{log}");
    runtime
        .block_on(broker.stop())
        .expect("a broker that stops");
}

#[test]
fn a_corrupt_message_goes_to_the_dead_letters_and_the_crawl_goes_on() {
    let world = World::new(slow_web());
    let mut crawl = world.crawl().start();
    let handle = crawl.handle();
    let subject = format!("rhumb.{}.urls.found", handle.crawl);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let client = crawl.client().await;
        client
            .publish(subject.clone(), "garbage".into())
            .await
            .expect("a published message");
        client.flush().await.expect("a flushed connection");
    });
    crawl.until(MINUTE, |summary| summary.dead == 1);
    let said = crawl.rhumb(&["dead", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let letter: Value = serde_json::from_str(said.out.trim()).expect("one line of JSON");
    assert_eq!(letter["subject"], subject.as_str());
    assert_eq!(letter["bytes"], 7);
    assert!(
        letter["reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty()),
        "{letter}"
    );
    let said = crawl.rhumb(&["dead"]);
    assert!(said.out.contains(&subject), "{}", said.out);
    let finished = crawl.finish(MINUTE);
    world.assert_whole(&finished);
    assert_eq!(finished.summary.dead, 1);
}

/// Goal: a list of servers is tried until one answers, and a password is given to it and to nobody
/// else. Method: the first server of the list is not there, the second lets in only who knows the
/// password.
#[test]
fn a_broker_is_found_behind_a_server_that_is_away_and_is_told_the_password() {
    let world = World::new(Profile {
        hosts: 3,
        pages_per_host: PagesPerHost::Exactly(5),
        ..Profile::raw()
    });
    let broker = Cluster::start(1, Some(("crawler", "geheim@,")));
    // Nobody is given that port, as one that was free a moment ago may be.
    let away = "127.0.0.1:1";
    let url = format!(
        "nats://{away},{}",
        broker
            .url()
            .replace("nats://", "nats://crawler:geheim%40%2C@")
    );
    let mut up = world.up().environment("RHUMB__BROKER__URL", &url).start();
    up.until(MINUTE, |summary| summary.complete);
    let said = up.rhumb(&["inject", &world.web.seed_urls()[0]]);
    assert_eq!(said.code, 0, "{}", said.err);
    up.until(MINUTE, |summary| summary.pages == 15 && summary.complete);
    let lines = processes_of(&up.data());
    assert!(lines.len() >= 6, "{lines:?}");
    assert!(
        !lines.iter().any(|line| line.contains("geheim")),
        "a password on a command line"
    );
    let mut logs = up.log();
    for entry in std::fs::read_dir(up.data().join("logs")).expect("logs") {
        logs.push_str(&std::fs::read_to_string(entry.expect("an entry").path()).expect("a log"));
    }
    assert!(!logs.contains("geheim"), "a password in a log");
    // With another password the same servers let nobody in, and the message does not show it.
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = url.replace("geheim", "falsch");
    let said = rhumb(&[
        "status",
        "--data",
        &folder.path().display().to_string(),
        "--set",
        &format!("broker.url={wrong}"),
    ]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.err.contains("refuses the credentials of crawler") && !said.err.contains("falsch"),
        "{}",
        said.err
    );
}

/// The command lines of the processes that are told this data directory.
fn processes_of(data: &Path) -> Vec<String> {
    let data = std::fs::canonicalize(data)
        .expect("a data directory")
        .display()
        .to_string();
    let lines = std::fs::read_dir("/proc").expect("processes").flatten();
    let lines = lines.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&data)).collect()
}

/// Goal: a message that leaves its stream without being taken is told with its numbers. Method:
/// between two lives of dedup the last message for it is deleted from the stream.
#[test]
fn a_message_that_is_lost_on_its_way_is_told_with_its_numbers() {
    let world = World::new(slow_web());
    let mut crawl = world.up().set("edges.urls.split.ack_wait=2s").start();
    crawl.handle();
    assert_eq!(crawl.rhumb(&["inject", &world.web.seed_urls()[0]]).code, 0);
    crawl.until(MINUTE, |summary| summary.pages > 0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    signal(crawl.pid("dedup"), Signal::KILL);
    runtime.block_on(async {
        let bus = bus(&crawl).await;
        let mut stream = bus
            .jetstream
            .get_stream(bus.subjects.stream("urls.split"))
            .await
            .expect("the stream");
        let before = stream.info().await.expect("the stream").state.last_sequence;
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let last = stream.info().await.expect("the stream").state.last_sequence;
            if last > before + 1 {
                assert!(stream.delete_message(last).await.expect("an answer"));
                return;
            }
            assert!(Instant::now() < end, "nothing comes for dedup");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let told = until_told(&mut crawl);
    assert!(
        told.contains("have left the stream of urls.split, dedup settled")
            && told.contains(": 1 are lost"),
        "{told}"
    );
}

#[test]
fn a_misrouted_url_is_counted_and_told() {
    let world = World::new(slow_web());
    let mut crawl = world.crawl().set("stages.dedup.replicas=2").start();
    crawl.until(MINUTE, |summary| summary.pages > 0);
    let of = partition("misrouted.test", 64);
    let message = SplitUrls {
        urls: ["http://misrouted.test/"].into_iter().collect(),
        origin_of: vec![0],
        origins: vec![Origin::default()],
        ..SplitUrls::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let bus = bus(&crawl).await;
        let subject = bus.subjects.of(Edge::UrlsSplit, &Token::Partition(of ^ 1));
        bus.jetstream
            .publish(subject, encode(&message))
            .await
            .expect("a connection")
            .await
            .expect("a stored message");
    });
    let told = until_told(&mut crawl);
    assert!(told.contains(": 1 URLs were misrouted"), "{told}");
    let log = crawl.data().with_file_name("rhumb.log");
    let finished = crawl.finish(MINUTE);
    assert!(
        finished.code == 1 && !finished.summary.complete,
        "{}",
        json(&finished.summary)
    );
    let log = std::fs::read_to_string(log).expect("the log");
    assert!(
        log.contains("URLs are unaccounted for: ") && log.contains(": 1 URLs were misrouted"),
        "{log}"
    );
    let Summary {
        urls_found,
        urls_filtered,
        urls_repeated,
        urls_new,
        ..
    } = finished.summary;
    assert_eq!(urls_found, urls_filtered + urls_repeated + urls_new + 1);
}

/// A connection to the broker of a crawl.
async fn bus(crawl: &Running) -> Bus {
    let layers = Layers {
        file: Some(crawl.data().join("configuration.json")),
        set: Vec::new(),
    };
    let pipeline = layers
        .load_with(std::iter::empty())
        .expect("the crawl's configuration");
    Bus::connect(&crawl.handle().broker, &pipeline, "test")
        .await
        .expect("the broker answers")
}

/// Waits until `status --check` finds something wrong.
fn until_told(crawl: &mut Running) -> String {
    let end = Instant::now() + MINUTE;
    loop {
        let told = crawl.violations().join("; ");
        if !told.is_empty() {
            return told;
        }
        assert!(
            Instant::now() < end && !crawl.has_ended(),
            "nothing is told:\n{}",
            crawl.log()
        );
    }
}

//! Faults: a broker with a small limit and a message that cannot be read do not stop a crawl.

use super::{MINUTE, slow_web};
use rhumb::broker::{Broker, BrokerOptions};
use rhumb_tests::harness::{World, json};
use serde_json::Value;
use synthetic_web::{Hostility, PagesPerHost, Profile};

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

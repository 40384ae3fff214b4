//! Whole logs of a process: a flood of one event is bounded and counted, others pass, and a panic
//! is a line as well.

#![allow(clippy::disallowed_methods, reason = "a process is watched that waits")]

use rhumb_config::{Log, LogFormat};
use rhumb_node::log;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Set for the copy of this program that logs.
const LOGS: &str = "RHUMB_TEST_LOGS";
const FLOOD: u64 = 50_000;
const REPEATS_MAX: u64 = 7;

/// Not a test by itself: run by the next one as the process that logs.
#[test]
fn a_process_that_floods_its_log() {
    if std::env::var_os(LOGS).is_none() {
        return;
    }
    let level = "info,logs=debug".to_owned();
    let repeats_interval = Duration::from_secs(1);
    log::begin(
        &Log {
            format: LogFormat::Json,
            level,
            repeats_max: 7,
            repeats_interval,
        },
        "fetcher",
    );
    log::instance_is(3);
    let flood = |n| tracing::warn!(n, "the same again");
    (0..FLOOD).for_each(flood);
    tracing::error!(server = "http://a.test", "something else");
    (0..100).for_each(|n| tracing::debug!(n, "asked for"));
    // Nothing more is logged: what was left out is told all the same.
    std::thread::sleep(Duration::from_secs(3));
    let panicked =
        std::thread::spawn(|| assert!(std::hint::black_box(1) > 1, "on \"purpose\"")).join();
    assert!(panicked.is_err());
    (0..FLOOD).for_each(flood);
    log::end();
}

#[test]
fn a_flood_is_bounded_and_counted_while_other_lines_and_the_words_of_a_panic_pass() {
    let told = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "a_process_that_floods_its_log", "--nocapture"])
        .env(LOGS, "1")
        .env_remove("RUST_LOG")
        .output()
        .expect("it can be run");
    assert!(told.status.success(), "{told:?}");
    let text = String::from_utf8(told.stderr).expect("text");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    let of = |message: &str| {
        lines
            .iter()
            .filter(|line| line["message"] == message)
            .count() as u64
    };
    // Each flood may last longer than an interval on a slow machine.
    assert!(
        (2 * REPEATS_MAX..20 * REPEATS_MAX).contains(&of("the same again")),
        "{}",
        of("the same again")
    );
    let left_out = lines.iter().filter(|line| line["suppressed"].is_u64());
    let suppressed: u64 = left_out
        .clone()
        .filter_map(|line| line["suppressed"].as_u64())
        .sum();
    assert_eq!(suppressed + of("the same again"), 2 * FLOOD);
    assert!(
        left_out
            .clone()
            .all(|line| line["level"] == "WARN" && line["of"] == "logs"),
        "{text}"
    );
    assert!(left_out.count() >= 2, "one line an interval");
    assert_eq!((of("something else"), of("asked for")), (1, 100));
    let panic = lines
        .iter()
        .find(|line| line["message"] == "panicked: on \"purpose\"")
        .expect("its words");
    assert!(
        panic["place"]
            .as_str()
            .is_some_and(|place| place.contains("logs.rs")),
        "{panic}"
    );
    assert!(
        lines
            .iter()
            .all(|line| line["stage"] == "fetcher" && line["instance"] == 3),
        "{text}"
    );
}

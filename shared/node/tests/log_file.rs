//! The log of a process has a bound and loses no line, written to by several threads and past the
//! log.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use rhumb_config::Log;
use rhumb_node::log;
use rhumb_node::log_file;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set for the copy of this program that writes a log.
const FILE: &str = "RHUMB_TEST_LOG_FILE";
const THREADS: usize = 4;
const LINES: usize = 1_500;
const BYTES_MAX: u64 = 64 << 10;
const KEPT: u32 = 50;

/// Not a test by itself: run by the next one as the process that writes.
#[test]
fn a_process_that_writes_a_log() {
    let Some(path) = std::env::var_os(FILE).map(PathBuf::from) else {
        return;
    };
    log::begin(
        &Log {
            repeats_max: 0,
            ..Log::default()
        },
        "fetcher",
    );
    log_file::bound(&path, BYTES_MAX, KEPT);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for line in 0..LINES {
                    tracing::info!("line {thread}-{line} {}", "x".repeat(line % 100));
                    if line % 500 == 250 {
                        eprintln!("past {thread}-{line}");
                    }
                }
            });
        }
    });
}

fn write_log(path: &Path) {
    let log = File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_that_writes_a_log", "--nocapture"])
        .env(FILE, path)
        .env("RUST_LOG", "info")
        .stdout(std::process::Stdio::null())
        .stderr(log)
        .status()
        .unwrap();
    assert!(status.success());
}

/// Method: every line has a number, and each is looked for in all files; the order within a thread
/// holds from the oldest file to the youngest.
#[test]
fn a_log_that_is_put_aside_again_and_again_loses_no_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fetcher-0.log");
    write_log(&path);
    let older = (1..=KEPT)
        .map(|n| log_file::older(&path, n))
        .take_while(|path| path.exists());
    let mut files: Vec<PathBuf> = std::iter::once(path.clone()).chain(older).collect();
    files.reverse();
    assert!(files.len() > 5, "{files:?}");
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        files.len(),
        "nothing else is there"
    );
    let texts: Vec<String> = files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    for text in &texts {
        assert!(text.len() as u64 <= BYTES_MAX + 1_000, "{}", text.len());
        assert!(text.is_empty() || text.ends_with('\n'), "lines are whole");
    }
    let text = texts.concat();
    let mut found = BTreeSet::new();
    let mut last = [None; THREADS];
    for (thread, line) in text.lines().filter_map(|line| {
        line.split_once(" line ")?
            .1
            .split(' ')
            .next()?
            .split_once('-')
    }) {
        let (thread, line): (usize, usize) = (thread.parse().unwrap(), line.parse().unwrap());
        assert!(
            last[thread] < Some(line),
            "{thread}-{line} after {:?}",
            last[thread]
        );
        last[thread] = Some(line);
        found.insert((thread, line));
    }
    assert_eq!(found.len(), THREADS * LINES);
    assert_eq!(
        text.lines().filter(|line| line.contains("past ")).count(),
        THREADS * 3,
        "what is written past the log"
    );
}

#[test]
fn a_log_that_cannot_be_put_aside_goes_on_growing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parser-0.log");
    std::fs::write(&path, "of an earlier life\n").unwrap();
    // A link to nowhere: no file can be made beside the log.
    std::os::unix::fs::symlink("/nowhere/file", folder.path().join("parser-0.log.new")).unwrap();
    write_log(&path);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("of an earlier life\n"));
    assert_eq!(
        text.lines().filter(|line| line.contains(" line ")).count(),
        THREADS * LINES
    );
}

//! The sieve by its parts: order of answers, filters after a start, damaged runs, bounds of memory.

mod runs;

use super::*;
use crate::seen::tests::{PARTITIONS, Url, WAIT, are_new, at, files, settings};
use rhumb_config::DedupStore;
use std::path::Path;

fn open(settings: &Settings, folder: &Path, committed: Option<&[u8]>) -> Result<Sieve, SeenError> {
    let folder = Folder::open(folder.into(), false)?;
    let state = committed
        .map(|bytes| State::from_bytes(bytes, &folder))
        .transpose()?;
    Sieve::open(settings.clone(), folder, &PARTITIONS, state)
}

/// A committed sieve with runs and a log, and the URLs it knows: some in old runs, some in young
/// ones, some in the log only.
fn filled() -> (tempfile::TempDir, Settings, Vec<u8>, Vec<Url>) {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(DedupStore::Disk, 4 << 10);
    let mut sieve = open(&settings, folder.path(), None).unwrap();
    let mut urls: Vec<Url> = Vec::new();
    let mut bytes = None;
    loop {
        let next: Vec<Url> = (urls.len()..urls.len() + 50)
            .map(|n| ([0, 3, 7][n % 3], n as u64 % 40, n as u64))
            .collect();
        are_new(&mut sieve, &next);
        urls.extend(next);
        bytes = sieve.stage().unwrap().or(bytes);
        sieve.committed().unwrap();
        let young = sieve
            .partitions
            .iter()
            .any(|partition| partition.entry().young.is_some());
        let logged = sieve
            .partitions
            .iter()
            .any(|partition| !partition.delta.is_empty());
        if urls.len() > 1_000 && young && logged {
            break;
        }
        assert!(urls.len() < 10_000);
    }
    (folder, settings, bytes.unwrap(), urls)
}

#[test]
fn questions_are_answered_in_the_order_asked_and_of_equal_ones_the_first_decides() {
    let (folder, settings, bytes, urls) = filled();
    // Filters of one byte, so that they say "perhaps" to everything.
    let settings = Settings {
        filter_bytes_max: 1,
        ..settings
    };
    let mut sieve = open(&settings, folder.path(), Some(&bytes)).unwrap();
    while sieve.flush_at() == Some(Timestamp::ZERO) {
        sieve.flush(at(0), false, &mut Vec::new()).unwrap();
    }
    let old = urls.iter().find(|url| url.0 == 3).unwrap();
    let asked = [
        (5, 9_001),
        (5, 9_000),
        (old.1, old.2),
        (5, 9_001),
        (4, 9_000),
        (5, 9_000),
        (u64::MAX, u64::MAX),
    ];
    for (token, (host, url)) in (0..).zip(asked) {
        assert_eq!(
            sieve.ask(at(token), 3, host, url, token).unwrap(),
            Novelty::Later
        );
    }
    assert_eq!(sieve.flush_at(), Some(at(0) + WAIT));
    let mut answers = Vec::new();
    sieve.flush(at(2), false, &mut answers).unwrap();
    assert!(answers.is_empty(), "it is not time yet");
    sieve.flush(at(3), false, &mut answers).unwrap();
    // The same URL fingerprint at two hosts are two URLs.
    let new = [true, true, false, false, true, false, true];
    assert_eq!(answers, (0..).zip(new).collect::<Vec<_>>());
    assert_eq!(sieve.ask(at(9), 3, 5, 9_001, 0).unwrap(), Novelty::Repeated);
}

#[test]
fn the_extreme_fingerprints_are_fingerprints() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(DedupStore::Disk, 0);
    let mut sieve = open(&settings, folder.path(), None).unwrap();
    let urls: Vec<Url> = [(0, 0), (0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX)]
        .map(|(h, u)| (3, h, u))
        .into();
    assert_eq!(are_new(&mut sieve, &urls), [true; 4]);
    assert_eq!(are_new(&mut sieve, &urls), [false; 4]);
    let bytes = sieve.stage().unwrap();
    drop(sieve);
    let mut sieve = open(&settings, folder.path(), bytes.as_deref()).unwrap();
    assert_eq!(are_new(&mut sieve, &urls), [false; 4]);
    assert_eq!(sieve.known(3), 4);
}

#[test]
fn a_damaged_run_is_named_and_answers_nothing() {
    let (folder, settings, bytes, urls) = filled();
    for path in files(folder.path(), "run") {
        let sound = std::fs::read(&path).unwrap();
        for at in [0, 9, sound.len() / 2, sound.len() - 1] {
            let mut damaged = sound.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            let found = open(&settings, folder.path(), Some(&bytes)).and_then(|mut sieve| {
                for &(partition, host, url) in &urls {
                    sieve.ask(Timestamp::ZERO, partition, host, url, 0)?;
                }
                let mut answers = Vec::new();
                let flushed = sieve.flush(Timestamp::ZERO, true, &mut answers);
                assert!(answers.iter().all(|(_, new)| !new));
                assert!(flushed.is_ok() || matches!(sieve.stage(), Err(SeenError::Stopped)));
                flushed
            });
            let text = found.unwrap_err().to_string();
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(
                text.contains(name) && text.contains("from a copy, or delete the crawl"),
                "{text}"
            );
        }
        std::fs::remove_file(&path).unwrap();
        assert!(
            open(&settings, folder.path(), Some(&bytes))
                .err()
                .unwrap()
                .to_string()
                .contains("missing")
        );
        std::fs::write(&path, sound).unwrap();
    }
    let mut sieve = open(&settings, folder.path(), Some(&bytes)).unwrap();
    assert!(!are_new(&mut sieve, &urls).contains(&true));
}

#[test]
fn a_damaged_log_or_manifest_is_named() {
    let (folder, settings, bytes, _) = filled();
    for kind in ["log", "manifest"] {
        let path = files(folder.path(), kind).pop().unwrap();
        let sound = std::fs::read(&path).unwrap();
        for at in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            let text = open(&settings, folder.path(), Some(&bytes))
                .err()
                .unwrap()
                .to_string();
            assert!(
                text.contains(kind) && text.contains("delete the crawl"),
                "{text}"
            );
        }
        std::fs::write(&path, &sound[..sound.len() - 1]).unwrap();
        assert!(open(&settings, folder.path(), Some(&bytes)).is_err());
        std::fs::write(&path, &sound).unwrap();
    }
}

/// P6: whatever is asked, the buffer is not much larger than it may be, and the log neither.
#[test]
fn memory_and_log_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        filter_bytes_max: 10_000,
        ..settings(DedupStore::Disk, 8 << 10)
    };
    let mut sieve = open(&settings, folder.path(), None).unwrap();
    let mut answers = Vec::new();
    for n in 0..40_000u64 {
        let url = if n % 3 == 0 { n } else { n / 2 };
        sieve
            .ask(at(0), [0, 3, 7][url as usize % 3], url / 50, url, n)
            .unwrap();
        if n % 16 == 0 {
            sieve.stage().unwrap();
            sieve.committed().unwrap();
        }
        if sieve.flush_at() == Some(Timestamp::ZERO) {
            sieve.flush(at(0), false, &mut answers).unwrap();
        }
        assert!(
            sieve.buffered_bytes() < 12 << 10,
            "{}",
            sieve.buffered_bytes()
        );
        let logs = sieve.log.length() + sieve.last_log.as_ref().map_or(0, Log::length);
        assert!(logs < 20 << 10, "{logs}");
        assert!(sieve.allowance.used <= 10_000 + 10_000 / 8);
    }
}

#[test]
fn after_a_start_the_filters_are_filled_piece_by_piece_and_until_then_questions_wait_for_the_runs()
{
    let (folder, settings, bytes, urls) = filled();
    let settings = Settings {
        filter_bytes_max: 10_000,
        ..settings
    };
    let mut sieve = open(&settings, folder.path(), Some(&bytes)).unwrap();
    assert!(
        sieve
            .partitions
            .iter()
            .all(|partition| !partition.is_filtered())
    );
    let news = |from: u64| (0..30).map(move |n| (PARTITIONS[n as usize % 3], 77, from + n));
    let mut waiting = Vec::new();
    for (token, (partition, host, url)) in (0..).zip(news(50_000)) {
        assert_eq!(
            sieve.ask(at(0), partition, host, url, token).unwrap(),
            Novelty::Later
        );
        waiting.push((token, true));
    }
    let mut answers = Vec::new();
    let mut calls = 0;
    while sieve.flush_at() == Some(Timestamp::ZERO) {
        sieve.flush(at(0), false, &mut answers).unwrap();
        calls += 1;
    }
    assert!(calls > 10 && sieve.partitions.iter().all(Partition::is_filtered));
    // With the last block of a partition its questions are answered.
    answers.sort_unstable();
    assert_eq!(answers, waiting);
    let at_once = news(60_000)
        .filter(|&(p, h, u)| sieve.ask(at(1), p, h, u, 0).unwrap() == Novelty::New)
        .count();
    assert!(at_once > 20, "{at_once} of 30");
    assert!(!are_new(&mut sieve, &urls).contains(&true));
}

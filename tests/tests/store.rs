//! The store of an instance after a crash: open again within seconds, with all that was committed,
//! and never larger in memory than configured (P6).

use rhumb_config::{Bytes, Durability};
use rhumb_node::disk::{DiskStore, StoreOptions};
use rhumb_stage::store::{Changes, Store as _, Table};
use rhumb_tests::harness::{alone, within};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// As in the stages: how much of what was freed stays resident is the allocator's choice.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TABLES: [Table; 2] = ["seen", "queue"];
const MEMTABLE_BYTES: u64 = 8 << 20;
const CACHE_BYTES: u64 = 32 << 20;
/// A memtable being filled and one being flushed for each table, the block cache, and 64 MiB for
/// the program, its allocator, the journal's buffers, and the filters and indices of the tables on
/// disk.
const RESIDENT_BYTES_MAX: u64 = 2 * TABLES.len() as u64 * MEMTABLE_BYTES + CACHE_BYTES + (64 << 20);
const KEYS: u64 = 2_000_000;
const KEYS_PER_COMMIT: u64 = 256;
/// Of so many keys one is queued, too.
const QUEUED_OF: u64 = 16;
const OPEN_AT_MOST: Duration = Duration::from_secs(5);
/// Set for the process that writes: the folder of its store.
const WRITER: &str = "RHUMB_TEST_STORE_WRITER";
const THIS_TEST: &str =
    "a_killed_store_opens_within_seconds_holds_all_commits_and_keeps_to_its_memory";

#[test]
fn a_killed_store_opens_within_seconds_holds_all_commits_and_keeps_to_its_memory() {
    if let Some(folder) = std::env::var_os(WRITER) {
        return write_until_killed(Path::new(&folder));
    }
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let (committed, resident) = kill_a_writer(folder.path());
    assert!(
        resident < RESIDENT_BYTES_MAX,
        "{resident} bytes resident after {committed} keys"
    );

    // Each time as the killed writer left it: a store that was opened once has less to do.
    let mut store = None;
    within(OPEN_AT_MOST, || {
        let copy = copied(folder.path());
        let started = Instant::now();
        let opened = open(copy.path());
        let took = started.elapsed();
        store = Some((opened, copy));
        took
    });
    let (store, _folder) = store.expect("it was opened");
    // The writer dies anywhere: also between a commit and the line that tells of it.
    let is_one_more = store
        .contains("seen", &key(committed))
        .expect("a store that can be read");
    let committed = if is_one_more {
        committed + KEYS_PER_COMMIT
    } else {
        committed
    };
    for number in (0..committed)
        .step_by(997)
        .chain(committed.saturating_sub(2 * KEYS_PER_COMMIT)..committed)
    {
        let value = store
            .get("seen", &key(number))
            .expect("a store that can be read");
        assert_eq!(
            value.as_deref(),
            Some(value_of(number).as_slice()),
            "key {number} of {committed}"
        );
        // Of the queue each commit removes what the one before put there.
        let is_last = number >= committed - KEYS_PER_COMMIT && number % QUEUED_OF == 0;
        let is_queued = store
            .contains("queue", &key(number))
            .expect("a store that can be read");
        assert!(
            is_queued || !is_last,
            "key {number} of {committed} is queued: {is_queued}"
        );
        assert!(
            !is_queued || number + KEYS_PER_COMMIT >= committed,
            "key {number} of {committed} is queued"
        );
    }
}

/// Runs the writer until it has written `KEYS` and kills it in the middle of the next commits;
/// gives how many keys it had surely committed and its largest resident memory.
fn kill_a_writer(folder: &Path) -> (u64, u64) {
    let mut writer = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", THIS_TEST, "--nocapture", "--test-threads=1"])
        .env(WRITER, folder)
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .expect("a writer");
    let status = PathBuf::from(format!("/proc/{}/status", writer.id()));
    let lines = BufReader::new(writer.stdout.take().expect("a pipe")).lines();
    let mut committed = 0;
    let mut resident = 0;
    for line in lines.map_while(Result::ok) {
        let Some(number) = line
            .strip_prefix("committed ")
            .and_then(|number| number.parse::<u64>().ok())
        else {
            continue;
        };
        let was_running = committed < KEYS;
        committed = number;
        if committed >= KEYS && was_running {
            resident = peak_resident(&status);
            writer.kill().expect("the writer runs");
        }
    }
    writer.wait().expect("the writer has ended");
    assert!(committed >= KEYS, "the writer ended after {committed} keys");
    (committed, resident)
}

/// A copy of the folder.
fn copied(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    let status = Command::new("cp")
        .arg("-r")
        .arg(folder.join("store"))
        .arg(copy.path())
        .status();
    assert!(status.expect("cp runs").success());
    copy
}

/// Writes for ever, telling after each commit what is committed.
fn write_until_killed(folder: &Path) {
    let store = open(folder);
    let mut out = std::io::stdout().lock();
    for first in (0..).step_by(KEYS_PER_COMMIT as usize) {
        let mut changes = Changes::default();
        for number in first..first + KEYS_PER_COMMIT {
            changes.put("seen", key(number), value_of(number));
        }
        for number in (first..first + KEYS_PER_COMMIT).step_by(QUEUED_OF as usize) {
            changes.put("queue", key(number), value_of(number));
            if let Some(old) = number.checked_sub(KEYS_PER_COMMIT) {
                changes.remove("queue", key(old));
            }
        }
        store.commit(&changes).expect("a commit");
        if writeln!(out, "committed {}", first + KEYS_PER_COMMIT)
            .and_then(|()| out.flush())
            .is_err()
        {
            return;
        }
    }
}

fn open(folder: &Path) -> DiskStore {
    let options = StoreOptions {
        memtable_bytes: Bytes(MEMTABLE_BYTES),
        cache_bytes: Bytes(CACHE_BYTES),
        durability: Durability::Process,
    };
    DiskStore::open(&folder.join("store"), &TABLES, options).expect("a store that can be opened")
}

/// What looks like a fingerprint: keys come in no order.
fn key(number: u64) -> Vec<u8> {
    (number + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_be_bytes()
        .to_vec()
}

fn value_of(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(4)
}

/// The line `VmHWM:` of a process's status.
fn peak_resident(status: &Path) -> u64 {
    let text = std::fs::read_to_string(status).expect("the writer's status");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("a peak");
    let kib: u64 = line
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .expect("a number");
    kib * 1024
}

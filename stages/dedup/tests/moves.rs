//! How long it takes to move a large partition from one URL-seen store to another, and to split it.

#![expect(clippy::disallowed_methods, reason = "it measures: it needs a clock")]

use dedup::seen::{Key, SeenError, SeenStore, Settings, open};
use rhumb_config::DedupStore;
use rhumb_partition::Split;
use std::time::{Duration, Instant};

const KEYS: u64 = 10_000_000;
const KEYS_OF_HOST: u64 = 50;
/// Half of the hosts have hashes up to this one.
const MIDDLE: u64 = u64::MAX / KEYS_OF_HOST / 2;
/// Keys that come at once.
const TOGETHER: usize = 1 << 16;

fn settings(store: DedupStore) -> Settings {
    Settings {
        store,
        buffer_bytes: 64 << 20,
        flush_after: Duration::from_secs(1),
        filter_urls: 1 << 20,
        filter_bytes_max: 64 << 20,
        sync: false,
    }
}

fn key(n: u64) -> Key {
    (n / KEYS_OF_HOST * (u64::MAX / KEYS), n * (u64::MAX / KEYS))
}

fn commit(store: &mut dyn SeenStore) -> Result<(), SeenError> {
    store.stage()?;
    store.committed()
}

#[test]
#[ignore = "takes seconds and prints them; add --release, --nocapture"]
fn ten_million_keys_of_a_partition_are_copied_imported_split_and_forgotten() {
    for kind in [DedupStore::Disk, DedupStore::Memory] {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(&settings(kind), folder.path().into(), &[3], None).unwrap();
        let started = Instant::now();
        let mut import = store.importer(3).unwrap();
        let mut next = 0..KEYS;
        let mut keys = Vec::with_capacity(TOGETHER);
        while !next.is_empty() {
            keys.clear();
            keys.extend(next.by_ref().take(TOGETHER).map(key));
            import.push(&keys).unwrap();
        }
        store.import(import).unwrap();
        commit(store.as_mut()).unwrap();
        let imported_s = started.elapsed().as_secs_f64();
        let disk_bytes = store.disk_bytes();
        let started = Instant::now();
        let mut visited = 0;
        let copy = store.copy(3).unwrap();
        let copied = copy.visit(&mut |found| {
            visited += 1;
            if found == key(visited - 1) {
                Ok(())
            } else {
                Err(SeenError::Unordered(3))
            }
        });
        copied.unwrap();
        let copied_s = started.elapsed().as_secs_f64();
        assert_eq!(visited, KEYS);
        let started = Instant::now();
        let split = Split {
            partition: 3,
            halves: [(4, 0..=MIDDLE), (5, MIDDLE + 1..=u64::MAX)],
        };
        store.halve(&split).unwrap();
        commit(store.as_mut()).unwrap();
        let halved_s = started.elapsed().as_secs_f64();
        assert_eq!(store.known(4) + store.known(5), KEYS);
        assert!(store.known(3) == 0 && store.known(4).abs_diff(store.known(5)) <= 2 * KEYS_OF_HOST);
        let started = Instant::now();
        store.forget(4).unwrap();
        store.forget(5).unwrap();
        commit(store.as_mut()).unwrap();
        let forgotten_s = started.elapsed().as_secs_f64();
        assert!(store.disk_bytes() < 1 << 10);
        println!(
            "{kind:?}: {KEYS} keys, {disk_bytes} bytes on disk: copied in {copied_s:.2} s, \
             imported in {imported_s:.2} s, split in {halved_s:.2} s, forgotten in \
             {forgotten_s:.2} s"
        );
    }
}

//! Partitions that move from store to store, with deaths before any change to a file.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What a process that dies throws.
struct Death;

/// Does something, and dies before the change to a file of this number. Returns whether it lived.
pub(super) fn lives(changes: usize, act: impl FnOnce()) -> bool {
    let mut left = changes;
    WATCH.set(Some(Box::new(move |_| match left.checked_sub(1) {
        Some(fewer) => left = fewer,
        None => resume_unwind(Box::new(Death)),
    })));
    let result = catch_unwind(AssertUnwindSafe(act));
    WATCH.set(None);
    result
        .map_err(|thrown| {
            if thrown.is::<Death>() {
                false
            } else {
                resume_unwind(thrown)
            }
        })
        .is_ok()
}

/// A store with what is committed of it, and the partitions that it is opened for.
pub(super) struct Instance {
    folder: tempfile::TempDir,
    settings: Settings,
    pub(super) partitions: Vec<u16>,
    committed: Option<Vec<u8>>,
    store: Option<Box<dyn SeenStore>>,
}

impl Instance {
    pub(super) fn new(settings: Settings, partitions: &[u16]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut instance = Instance {
            folder,
            settings,
            partitions: partitions.into(),
            committed: None,
            store: None,
        };
        instance.open();
        instance
    }

    /// Another one with a copy of the folder, as it was committed.
    pub(super) fn copied(&self) -> Self {
        let settings = self.settings.clone();
        let partitions = self.partitions.clone();
        let folder = copy(self.folder.path());
        let committed = self.committed.clone();
        let mut instance = Instance {
            folder,
            settings,
            partitions,
            committed,
            store: None,
        };
        instance.open();
        instance
    }

    pub(super) fn open(&mut self) {
        self.store = None;
        let committed = self.committed.as_deref();
        let folder = self.folder.path().into();
        self.store =
            Some(crate::seen::open(&self.settings, folder, &self.partitions, committed).unwrap());
        self.check_files();
    }

    /// There are the files in use and no others.
    pub(super) fn check_files(&mut self) {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let bytes: u64 = entries
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert_eq!(bytes, self.store().disk_bytes());
    }

    pub(super) fn store(&mut self) -> &mut dyn SeenStore {
        self.store.as_mut().unwrap().as_mut()
    }

    fn commit(&mut self) {
        if let Some(bytes) = self.store().stage().unwrap() {
            self.committed = Some(bytes);
        }
        self.store().committed().unwrap();
    }

    /// All new, and committed in several steps.
    pub(super) fn learn(&mut self, urls: &[Url]) {
        for urls in urls.chunks(50) {
            assert!(!are_new(self.store(), urls).contains(&false));
            self.commit();
        }
    }

    pub(super) fn keys(&mut self, partition: u16) -> Vec<Key> {
        let mut keys = Vec::new();
        if let Ok(copy) = self.store().copy(partition) {
            copy.visit(&mut |key| {
                keys.push(key);
                Ok(())
            })
            .unwrap();
        }
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert_eq!(self.store().known(partition), keys.len() as u64);
        keys
    }

    fn import(&mut self, partition: u16, keys: &[Key]) {
        self.import_with(partition, keys, &[]);
    }

    /// The first keys as a copy has them, the others as they became known later.
    fn import_with(&mut self, partition: u16, keys: &[Key], later: &[Key]) {
        let mut import = self.store().importer(partition).unwrap();
        keys.chunks(30).for_each(|keys| import.push(keys).unwrap());
        later.chunks(30).for_each(|keys| import.push_later(keys));
        self.store().import(import).unwrap();
        self.commit();
    }

    pub(super) fn halve(&mut self, split: &Split) {
        self.store().halve(split).unwrap();
        self.commit();
    }

    fn forget(&mut self, partition: u16) {
        self.store().forget(partition).unwrap();
        self.commit();
    }
}

pub(super) fn keys_of(urls: &[Url], partition: u16) -> Vec<Key> {
    let keys: BTreeSet<Key> = urls
        .iter()
        .filter(|url| url.0 == partition)
        .map(|url| (url.1, url.2))
        .collect();
    keys.into_iter().collect()
}

/// Both stores; the sieve with all in runs but little, and with all in its log.
pub(super) fn kinds() -> [Settings; 3] {
    [
        (DedupStore::Disk, 2_000),
        (DedupStore::Disk, 1 << 20),
        (DedupStore::Memory, 0),
    ]
    .map(|(store, bytes)| settings(store, bytes))
}

#[test]
fn an_export_gives_all_in_order_and_of_an_unknown_partition_nothing() {
    for settings in kinds() {
        let mut instance = Instance::new(settings, &PARTITIONS);
        let urls = urls(600);
        instance.learn(&urls[..500]);
        // Some of it is not committed.
        are_new(instance.store(), &urls[500..]);
        for partition in PARTITIONS {
            assert_eq!(instance.keys(partition), keys_of(&urls, partition));
        }
        assert!(instance.keys(5).is_empty());
        let mut visited = 0;
        let copy = instance.store().copy(3).unwrap();
        let ended = copy.visit(&mut |_| {
            visited += 1;
            if visited < 9 {
                Ok(())
            } else {
                Err(SeenError::Stopped)
            }
        });
        assert!(matches!(ended, Err(SeenError::Stopped)) && visited == 9);
    }
}

/// Goal: a copy has what was known when it began, and what follows is what came later, whatever the
/// store does with its files meanwhile. Method: more is learned, merged and committed before the
/// copy is read.
#[test]
fn a_copy_and_what_came_later_are_all_keys() {
    for settings in kinds() {
        let mut instance = Instance::new(settings.clone(), &PARTITIONS);
        let urls = urls(900);
        instance.learn(&urls[..500]);
        let copy = instance.store().copy(3).unwrap();
        instance.learn(&urls[500..]);
        while instance.store().flush_at() == Some(Timestamp::ZERO) {
            instance
                .store()
                .flush(at(0), false, &mut Vec::new())
                .unwrap();
            instance.commit();
        }
        let mut keys = Vec::new();
        copy.visit(&mut |key| {
            keys.push(key);
            Ok(())
        })
        .unwrap();
        assert_eq!(keys, keys_of(&urls[..500], 3));
        let later = instance.store().take_later(3);
        assert_eq!(
            later.iter().copied().collect::<BTreeSet<_>>(),
            keys_of(&urls[500..], 3).into_iter().collect()
        );
        assert!(
            instance.store().take_later(3).is_empty(),
            "it is remembered once"
        );
        let mut other = Instance::new(settings, &[5]);
        other.import_with(3, &keys, &later);
        for _ in 0..2 {
            assert_eq!(other.keys(3), keys_of(&urls, 3));
            other.open();
        }
    }
}

#[test]
fn questions_that_are_given_up_are_answered_when_they_are_asked_again() {
    for settings in kinds() {
        let mut instance = Instance::new(settings, &PARTITIONS);
        let urls = urls(600);
        instance.learn(&urls[..300]);
        for (token, url) in (0..).zip(&urls[..400]) {
            instance
                .store()
                .ask(at(0), url.0, url.1, url.2, token)
                .unwrap();
        }
        instance.store().give_up_questions();
        assert!(instance.store().is_idle());
        instance.commit();
        assert!(!are_new(instance.store(), &urls[..300]).contains(&true));
        assert!(!are_new(instance.store(), &urls[400..]).contains(&false));
    }
}

/// Goal: an import happens with its commit or not at all. Method: the process dies before each
/// change to a file in turn; the partition was unknown, or an earlier import left other keys.
#[test]
fn whenever_the_process_dies_an_import_is_whole_or_was_never_made() {
    let urls = urls(900);
    let (urls, more) = urls.split_at(600);
    let (leftover, others): (Vec<Url>, Vec<Url>) = more.iter().partition(|url| url.0 == 3);
    let moved: Vec<Url> = urls.iter().copied().filter(|url| url.0 == 3).collect();
    let imported = keys_of(urls, 3);
    for (settings, leftover) in kinds()
        .into_iter()
        .flat_map(|kind| [(kind.clone(), vec![]), (kind, leftover.clone())])
    {
        let mut before = Instance::new(settings, &PARTITIONS);
        before.learn(&others);
        before.learn(&leftover);
        let mut changes = 0;
        loop {
            let mut instance = before.copied();
            let lived = lives(changes, || instance.import(3, &imported));
            instance.open();
            let keys = instance.keys(3);
            assert!(keys == imported || !lived && keys == keys_of(&leftover, 3));
            instance.import(3, &imported);
            instance.check_files();
            assert_eq!(instance.keys(3), imported);
            assert!(
                [0, 7]
                    .into_iter()
                    .all(|partition| instance.keys(partition) == keys_of(&others, partition))
            );
            assert!(!are_new(instance.store(), &moved).contains(&true));
            assert!(
                !are_new(instance.store(), &leftover).contains(&false),
                "what was replaced is not known"
            );
            if lived {
                break;
            }
            changes += 1;
        }
        assert!(changes >= 2);
    }
}

/// The same for what is forgotten.
#[test]
fn whenever_the_process_dies_a_partition_is_forgotten_or_whole() {
    let urls = urls(600);
    let moved: Vec<Url> = urls.iter().copied().filter(|url| url.0 == 3).collect();
    for settings in kinds() {
        let mut before = Instance::new(settings, &PARTITIONS);
        before.learn(&urls);
        let mut changes = 0;
        loop {
            let mut instance = before.copied();
            let lived = lives(changes, || instance.forget(3));
            instance.open();
            let keys = instance.keys(3);
            assert!(keys.is_empty() || !lived && keys == keys_of(&urls, 3));
            instance.forget(3);
            instance.check_files();
            assert!(matches!(
                instance.store().ask(at(0), 3, 1, 1, 1),
                Err(SeenError::Partition(3))
            ));
            assert!(
                [0, 7]
                    .into_iter()
                    .all(|partition| instance.keys(partition) == keys_of(&urls, partition))
            );
            instance.open();
            assert!(instance.keys(3).is_empty());
            assert!(!are_new(instance.store(), &moved).contains(&false));
            if lived {
                break;
            }
            changes += 1;
        }
        assert!(changes > 2);
    }
}

#[test]
fn what_is_forgotten_takes_no_room_and_the_rest_is_kept_for_partitions_that_are_not_asked_for() {
    for settings in kinds() {
        let mut instance = Instance::new(settings, &PARTITIONS);
        let urls = urls(600);
        instance.learn(&urls);
        let disk_bytes = instance.store().disk_bytes();
        instance.forget(0);
        instance.forget(3);
        instance.check_files();
        assert!(
            instance.store().disk_bytes() < disk_bytes / 2,
            "{}",
            instance.store().disk_bytes()
        );
        instance.partitions = vec![9];
        instance.open();
        assert_eq!(instance.keys(7), keys_of(&urls, 7));
        instance.learn(&[(9, 1, 1)]);
        instance.forget(7);
        instance.open();
        assert!(
            PARTITIONS
                .iter()
                .all(|&partition| instance.store().known(partition) == 0)
        );
        assert_eq!(instance.keys(9), [(1, 1)]);
        assert!(
            instance.store().disk_bytes() < 300,
            "{}",
            instance.store().disk_bytes()
        );
    }
}

#[test]
fn keys_out_of_order_and_an_import_that_is_given_up_change_nothing() {
    for settings in kinds() {
        let mut instance = Instance::new(settings, &PARTITIONS);
        let urls = urls(600);
        instance.learn(&urls);
        let one: [[Key; 2]; 2] = [[(1, 1), (1, 1)], [(2, 0), (1, 5)]];
        let wrong = one
            .iter()
            .flat_map(|keys| [vec![&keys[..]], keys.chunks(1).collect()]);
        for chunks in wrong {
            let mut import = instance.store().importer(3).unwrap();
            let (last, first) = chunks.split_last().unwrap();
            first.iter().for_each(|keys| import.push(keys).unwrap());
            let error = import.push(last).unwrap_err();
            assert!(
                matches!(error, SeenError::Unordered(3))
                    && error.to_string().contains("partition 3"),
                "{error}"
            );
            assert!(matches!(
                import.push(&[(9, 9)]),
                Err(SeenError::Unordered(3))
            ));
            assert!(matches!(
                instance.store().import(import),
                Err(SeenError::Unordered(3))
            ));
        }
        // Two at a time, and one that is dropped.
        let mut dropped = instance.store().importer(7).unwrap();
        dropped.push(&[(1, 1)]).unwrap();
        instance.import(5, &[(0, 0), (u64::MAX, u64::MAX)]);
        drop(dropped);
        instance.check_files();
        for _ in 0..2 {
            for partition in PARTITIONS {
                assert_eq!(instance.keys(partition), keys_of(&urls, partition));
            }
            assert_eq!(instance.keys(5), [(0, 0), (u64::MAX, u64::MAX)]);
            instance.open();
        }
    }
}

#[test]
fn a_partition_without_keys_is_imported_too() {
    for settings in kinds() {
        let mut instance = Instance::new(settings, &PARTITIONS);
        instance.learn(&urls(600));
        instance.import(3, &[]);
        instance.import(4, &[]);
        for _ in 0..2 {
            assert!(
                instance.keys(3).is_empty()
                    && instance.keys(4).is_empty()
                    && !instance.keys(7).is_empty()
            );
            instance.open();
        }
        assert_eq!(are_new(instance.store(), &[(3, 1, 1)]), [true]);
    }
}

#[derive(Clone, Debug)]
enum Move {
    Ask(Vec<Url>),
    /// Merges, fills filters, commits.
    Settle,
    /// An instance is opened anew from what was committed, from now on as a sieve or as it was.
    Open {
        instance: usize,
        as_sieve: bool,
    },
    /// A partition goes to the other instance, which dies before one of its changes, or the one
    /// that forgets does.
    Partition {
        partition: u16,
        import_dies: usize,
        forget_dies: usize,
        opens: bool,
    },
}

fn step() -> impl Strategy<Value = Move> {
    let dies = || prop_oneof![2 => 0usize..30, 3 => Just(usize::MAX)];
    prop_oneof![
        6 => prop::collection::vec(url(), 1..80).prop_map(Move::Ask),
        2 => Just(Move::Settle),
        1 => (0usize..2, any::<bool>()).prop_map(|(instance, as_sieve)| Move::Open { instance, as_sieve }),
        4 => (0usize..3, dies(), dies(), any::<bool>()).prop_map(|(place, import_dies, forget_dies, opens)| {
            Move::Partition { partition: PARTITIONS[place], import_dies, forget_dies, opens }
        }),
    ]
}

/// Two instances, and what each should know.
struct Pair {
    instances: [Instance; 2],
    owner_of: BTreeMap<u16, usize>,
    known: BTreeSet<Url>,
}

impl Pair {
    fn ask(&mut self, urls: &[Url]) {
        for (instance, store) in (0..).zip(&mut self.instances) {
            let own: Vec<Url> = urls
                .iter()
                .copied()
                .filter(|url| self.owner_of[&url.0] == instance)
                .collect();
            let new = are_new(store.store(), &own);
            for (url, new) in own.iter().zip(new) {
                assert_eq!(new, self.known.insert(*url), "{url:?}");
            }
            store.commit();
        }
    }

    fn settle(&mut self) {
        for instance in &mut self.instances {
            while instance.store().flush_at() == Some(Timestamp::ZERO) {
                instance
                    .store()
                    .flush(at(0), false, &mut Vec::new())
                    .unwrap();
                instance.commit();
            }
        }
    }

    fn open(&mut self, instance: usize) {
        let own = self
            .owner_of
            .iter()
            .filter(|(_, owner)| **owner == instance)
            .map(|(partition, _)| *partition);
        self.instances[instance].partitions = own.collect();
        self.instances[instance].open();
    }

    fn move_partition(
        &mut self,
        partition: u16,
        import_dies: usize,
        forget_dies: usize,
        opens: bool,
    ) {
        let from = self.owner_of[&partition];
        let keys = self.instances[from].keys(partition);
        let to = &mut self.instances[1 - from];
        if !lives(import_dies, || to.import(partition, &keys)) {
            // The owner has not changed, although the other may know all already.
            self.open(1 - from);
            return;
        }
        self.owner_of.insert(partition, 1 - from);
        let giver = &mut self.instances[from];
        if !lives(forget_dies, || giver.forget(partition)) || opens {
            self.open(from);
        }
        if opens {
            self.open(1 - from);
        }
    }

    fn check_owners(&mut self) {
        for partition in PARTITIONS {
            let known: Vec<Url> = self.known.iter().copied().collect();
            assert_eq!(
                self.instances[self.owner_of[&partition]].keys(partition),
                keys_of(&known, partition)
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// P4: whatever moves, and whoever dies, the owner of a partition knows exactly what was asked
    /// about. In the end each key is in one store.
    #[test]
    fn partitions_move_whole_whenever_a_process_dies(
        stores in (store(), store()),
        buffer_bytes in (200usize..20_000, 200usize..20_000),
        steps in prop::collection::vec(step(), 1..30),
    ) {
        let instance = |store, bytes, partitions: &[u16]| Instance::new(settings(store, bytes), partitions);
        let mut pair = Pair {
            instances: [instance(stores.0, buffer_bytes.0, &[0, 3]), instance(stores.1, buffer_bytes.1, &[7])],
            owner_of: [(0, 0), (3, 0), (7, 1)].into(),
            known: BTreeSet::new(),
        };
        for step in steps {
            match step {
                Move::Ask(urls) => pair.ask(&urls),
                Move::Settle => pair.settle(),
                Move::Open { instance, as_sieve } => {
                    if as_sieve {
                        pair.instances[instance].settings.store = DedupStore::Disk;
                    }
                    pair.open(instance);
                }
                Move::Partition { partition, import_dies, forget_dies, opens } => {
                    pair.move_partition(partition, import_dies, forget_dies, opens);
                }
            }
            pair.check_owners();
        }
        // What a death left with the one that does not own it goes.
        for (partition, owner) in pair.owner_of.clone() {
            pair.instances[1 - owner].forget(partition);
        }
        for instance in 0..2 {
            pair.open(instance);
        }
        pair.check_owners();
        for (partition, owner) in pair.owner_of.clone() {
            assert!(pair.instances[1 - owner].keys(partition).is_empty());
        }
        let known: Vec<Url> = pair.known.iter().copied().collect();
        pair.ask(&known);
        let never: Vec<Url> = PARTITIONS.iter().map(|&partition| (partition, 9, u64::MAX / 3 - u64::from(partition))).collect();
        pair.ask(&never);
        prop_assert_eq!(pair.known.len(), known.len() + 3);
    }
}

//! Both stores against a set in memory, with crashes between any two writes, and against damaged
//! files.

mod halves;
mod moves;

use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::rc::Rc;

pub(super) type Url = (u16, u64, u64);
type Watch = Box<dyn FnMut(&Path)>;

thread_local! {
    /// Called before each change to a file.
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

pub(super) fn before_change(folder: &Path) {
    WATCH.with_borrow_mut(|watch| watch.iter_mut().for_each(|watch| watch(folder)));
}

pub(super) const WAIT: Duration = Duration::from_secs(3);

/// The partitions that are asked for.
pub(super) const PARTITIONS: [u16; 3] = [0, 3, 7];

pub(super) fn settings(store: DedupStore, buffer_bytes: usize) -> Settings {
    Settings {
        store,
        buffer_bytes,
        flush_after: WAIT,
        filter_urls: 30,
        // Too little for what the tests insert, so that filters often say "perhaps".
        filter_bytes_max: 200,
        sync: false,
    }
}

pub(super) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

pub(super) fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}

pub(super) fn open(
    settings: &Settings,
    folder: &Path,
    committed: Option<&[u8]>,
) -> Box<dyn SeenStore> {
    super::open(settings, folder.into(), &PARTITIONS, committed).unwrap()
}

/// All files of a kind.
pub(super) fn files(folder: &Path, kind: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.extension().is_some_and(|found| found == kind))
        .collect()
}

/// Asks and flushes: whether each URL is new.
pub(super) fn are_new(store: &mut dyn SeenStore, urls: &[Url]) -> Vec<bool> {
    let mut new = vec![None; urls.len()];
    for (token, &(partition, host, url)) in (0..).zip(urls) {
        new[token as usize] = match store.ask(at(0), partition, host, url, token).unwrap() {
            Novelty::New => Some(true),
            Novelty::Repeated => Some(false),
            Novelty::Later => None,
        };
    }
    let mut answers = Vec::new();
    store.flush(at(0), true, &mut answers).unwrap();
    assert!(store.is_idle());
    for (token, is_new) in answers {
        assert_eq!(new[token as usize].replace(is_new), None, "answered twice");
    }
    new.into_iter()
        .map(|new| new.expect("never answered"))
        .collect()
}

/// A store and what it should say.
struct Model {
    folder: tempfile::TempDir,
    settings: Settings,
    store: Option<Box<dyn SeenStore>>,
    now: u64,
    known: BTreeSet<Url>,
    /// The questions that wait, by partition: token and URL, in the order asked.
    waiting: BTreeMap<u16, VecDeque<(u64, Url)>>,
    token: u64,
    committed: Rc<RefCell<Committed>>,
}

/// The bytes, and what was known by then.
#[derive(Clone, Default)]
struct Committed {
    bytes: Option<Vec<u8>>,
    known: BTreeSet<Url>,
}

#[derive(Clone, Debug)]
enum Step {
    Ask(Vec<Url>),
    Flush {
        after_s: u64,
        all: bool,
    },
    Commit,
    /// Dies after writing what it would commit.
    StageAndCrash,
    Crash,
}

impl Model {
    fn new(settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Some(open(&settings, folder.path(), None));
        let (known, waiting, committed) = Default::default();
        Model {
            folder,
            settings,
            store,
            now: 0,
            known,
            waiting,
            token: 0,
            committed,
        }
    }

    fn store(&mut self) -> &mut dyn SeenStore {
        self.store.as_mut().unwrap().as_mut()
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Ask(urls) => urls.iter().for_each(|&url| {
                self.ask(url);
                let known = self.known.contains(&url);
                assert_eq!(
                    self.store().knows(url.0, url.1, url.2).unwrap(),
                    known,
                    "{url:?}"
                );
            }),
            Step::Flush { after_s, all } => self.flush(*after_s, *all),
            Step::Commit => {
                if let Some(bytes) = self.store().stage().unwrap() {
                    *self.committed.borrow_mut() = Committed {
                        bytes: Some(bytes),
                        known: self.known.clone(),
                    };
                }
                assert_eq!(
                    self.known,
                    self.committed.borrow().known,
                    "what became known is staged"
                );
                self.store().committed().unwrap();
                self.check_files();
            }
            Step::StageAndCrash => {
                self.store().stage().unwrap();
                self.crash();
            }
            Step::Crash => self.crash(),
        }
        for partition in PARTITIONS {
            let known = self.known.iter().filter(|url| url.0 == partition).count();
            assert_eq!(self.store().known(partition), known as u64);
        }
        let idle = self.waiting.values().all(VecDeque::is_empty);
        assert_eq!(self.store().is_idle(), idle);
    }

    fn ask(&mut self, url: Url) {
        self.token += 1;
        let now = at(self.now);
        let token = self.token;
        let waits = self
            .waiting
            .entry(url.0)
            .or_default()
            .iter()
            .any(|(_, waiting)| *waiting == url);
        match self.store().ask(now, url.0, url.1, url.2, token).unwrap() {
            Novelty::New => assert!(!waits && self.known.insert(url), "{url:?} is not new"),
            Novelty::Repeated => assert!(self.known.contains(&url), "{url:?} is new"),
            Novelty::Later => self
                .waiting
                .entry(url.0)
                .or_default()
                .push_back((token, url)),
        }
    }

    fn flush(&mut self, after_s: u64, all: bool) {
        self.now += after_s;
        self.flush_once(all);
        // At last there is nothing to be done at once.
        let mut calls = 0;
        while after_s > 2
            && self
                .store()
                .flush_at()
                .is_some_and(|flush_at| flush_at <= at(self.now))
        {
            self.flush_once(false);
            calls += 1;
            assert!(calls < 200);
        }
    }

    fn flush_once(&mut self, all: bool) {
        let now = at(self.now);
        let flush_at = self.store().flush_at();
        let mut answers = Vec::new();
        self.store().flush(now, all, &mut answers).unwrap();
        if flush_at.is_none_or(|flush_at| now < flush_at) && !all {
            assert!(answers.is_empty());
        }
        let due = self
            .store()
            .flush_at()
            .is_some_and(|at| Timestamp::ZERO < at && at <= now);
        assert!(!due, "all that is due is answered");
        for (token, new) in answers {
            let waiting = self
                .waiting
                .values_mut()
                .find(|waiting| waiting.front().is_some_and(|(t, _)| *t == token));
            let (_, url) = waiting.expect("in the order asked").pop_front().unwrap();
            assert_eq!(new, self.known.insert(url), "{url:?}");
        }
    }

    fn crash(&mut self) {
        self.store = None;
        self.waiting.clear();
        let Committed { bytes, known } = self.committed.borrow().clone();
        self.known = known;
        self.store = Some(open(&self.settings, self.folder.path(), bytes.as_deref()));
        self.check_files();
    }

    /// After a commit or a start there are the files in use and no others.
    fn check_files(&mut self) {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let bytes: u64 = entries
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert_eq!(bytes, self.store().disk_bytes());
    }
}

/// Opens a copy of the folder and compares what it knows with what was committed when it was made.
fn check_copy(copy: &Path, settings: &Settings, committed: &Committed, ever: &BTreeSet<Url>) {
    let mut store = open(settings, copy, committed.bytes.as_deref());
    let urls: Vec<Url> = ever.iter().copied().collect();
    let new = are_new(store.as_mut(), &urls);
    for (url, new) in urls.iter().zip(new) {
        assert_eq!(new, !committed.known.contains(url), "{url:?}");
    }
    // It goes on from there, and is opened again.
    let bytes = store.stage().unwrap();
    store.committed().unwrap();
    drop(store);
    let mut store = open(
        settings,
        copy,
        bytes.as_deref().or(committed.bytes.as_deref()),
    );
    assert!(!are_new(store.as_mut(), &urls).contains(&true));
}

/// A fingerprint belongs to one URL, so to one host and one partition.
fn url() -> impl Strategy<Value = Url> {
    let url = prop_oneof![1 => Just(0u64), 1 => Just(u64::MAX), 10 => 1u64..1_000, 10 => (1u64..1_000).prop_map(|n| n << 40)];
    url.prop_map(|url| {
        (
            PARTITIONS[(url % 3) as usize],
            [0, u64::MAX, 1, 2, 3][(url % 5) as usize],
            url,
        )
    })
}

fn store() -> impl Strategy<Value = DedupStore> {
    prop_oneof![3 => Just(DedupStore::Disk), 1 => Just(DedupStore::Memory)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => prop::collection::vec(url(), 1..60).prop_map(Step::Ask),
        6 => (0u64..5, prop::bool::weighted(0.3)).prop_map(|(after_s, all)| Step::Flush { after_s, all }),
        6 => Just(Step::Commit),
        1 => Just(Step::StageAndCrash),
        1 => Just(Step::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// P4. At some of the writes the folder is copied, as if the process had died there: the copy,
    /// opened with what was committed at that moment, knows what was committed and nothing else.
    #[test]
    fn it_says_what_a_set_says_whenever_the_process_dies(
        store in store(),
        buffer_bytes in prop_oneof![Just(0usize), 200usize..4_000, 4_000usize..20_000, Just(1 << 20)],
        steps in prop::collection::vec(step(), 1..60),
        every in 1usize..100,
    ) {
        let mut model = Model::new(settings(store, buffer_bytes));
        let copies: Rc<RefCell<Vec<(tempfile::TempDir, Committed)>>> = Default::default();
        let mut ever = BTreeSet::new();
        let taken = copies.clone();
        let committed = model.committed.clone();
        let mut writes = 0;
        WATCH.set(Some(Box::new(move |folder| {
            writes += 1;
            // Copies take most of the time; of a case's many writes these are spread by `every`.
            if writes % every == 0 && writes < every * 16 {
                taken.borrow_mut().push((copy(folder), committed.borrow().clone()));
            }
        })));
        for step in &steps {
            if let Step::Ask(urls) = step {
                ever.extend(urls.iter().copied());
            }
            model.take(step);
            let watch = WATCH.take();
            for (copy, committed) in copies.take() {
                check_copy(copy.path(), &model.settings, &committed, &ever);
            }
            WATCH.set(watch);
        }
        WATCH.set(None);
        model.take(&Step::Commit);
        model.take(&Step::Crash);
        let committed = model.committed.borrow().clone();
        check_copy(copy(model.folder.path()).path(), &model.settings, &committed, &ever);
    }
}

const BOTH: [DedupStore; 2] = [DedupStore::Disk, DedupStore::Memory];

/// So many URLs, spread over the partitions.
fn urls(count: u64) -> Vec<Url> {
    (0..count)
        .map(|n| {
            (
                PARTITIONS[n as usize % 3],
                n % 40,
                n.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            )
        })
        .collect()
}

/// A store that knows some URLs, committed after each 50 of them and closed.
fn filled(settings: &Settings) -> (tempfile::TempDir, Vec<u8>, Vec<Url>) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(settings, folder.path(), None);
    let urls = urls(600);
    let mut bytes = None;
    for some in urls.chunks(50) {
        assert!(!are_new(store.as_mut(), some).contains(&false));
        bytes = store.stage().unwrap();
        store.committed().unwrap();
    }
    (folder, bytes.unwrap(), urls)
}

#[test]
fn an_empty_store_commits_nothing_and_knows_nothing() {
    for settings in BOTH.map(|store| settings(store, 1_000)) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(&settings, folder.path(), None);
        assert!(store.stage().unwrap().is_none() && store.flush_at().is_none() && store.is_idle());
        let mut answers = Vec::new();
        store.flush(at(9), true, &mut answers).unwrap();
        assert!(answers.is_empty() && store.known(0) == 0 && store.known(9) == 0);
        assert!(matches!(
            store.ask(at(9), 9, 1, 1, 1),
            Err(SeenError::Partition(9))
        ));
        assert_eq!(store.ask(at(9), 7, 1, 1, 1).unwrap(), Novelty::New);
        assert!(store.stage().unwrap().is_some() && store.stage().unwrap().is_none());
        // It was never committed.
        drop(store);
        let mut store = open(&settings, folder.path(), None);
        assert_eq!(store.ask(at(9), 7, 1, 1, 1).unwrap(), Novelty::New);
    }
}

#[test]
fn a_damaged_log_is_named_and_a_tail_that_was_not_committed_is_cut_off() {
    // With a large buffer the sieve, too, has a log alone.
    for settings in BOTH.map(|store| settings(store, 1 << 20)) {
        let (folder, bytes, urls) = filled(&settings);
        let path = files(folder.path(), "log").pop().unwrap();
        let sound = std::fs::read(&path).unwrap();
        let opened = || super::open(&settings, folder.path().into(), &PARTITIONS, Some(&bytes));
        for at in (0..sound.len()).step_by(7) {
            let mut damaged = sound.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            let text = opened().err().unwrap().to_string();
            assert!(
                text.contains(".log is damaged") && text.contains("delete the crawl"),
                "{text}"
            );
        }
        std::fs::write(&path, &sound[..sound.len() - 1]).unwrap();
        assert!(opened().is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(opened().err().unwrap().to_string().contains("missing"));
        std::fs::write(&path, [sound.as_slice(), &[7; 100]].concat()).unwrap();
        std::fs::write(folder.path().join("00003.99999999.run"), "cut short").unwrap();
        std::fs::write(folder.path().join("notes.txt"), "none of the store's").unwrap();
        let mut store = opened().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), sound);
        assert!(
            !folder.path().join("00003.99999999.run").exists()
                && folder.path().join("notes.txt").exists()
        );
        assert!(!are_new(store.as_mut(), &urls).contains(&true));
    }
}

#[test]
fn a_state_of_an_unknown_version_is_refused() {
    for settings in BOTH.map(|store| settings(store, 1_000)) {
        let (folder, mut bytes, _) = filled(&settings);
        bytes[0] += 1;
        let text = super::open(&settings, folder.path().into(), &PARTITIONS, Some(&bytes))
            .err()
            .unwrap()
            .to_string();
        assert!(text.contains("version"), "{text}");
    }
}

#[test]
fn partitions_that_are_not_asked_for_any_more_are_kept() {
    for settings in BOTH.map(|store| settings(store, 4_000)) {
        let (folder, bytes, urls) = filled(&settings);
        let mut store =
            super::open(&settings, folder.path().into(), &[7, 9], Some(&bytes)).unwrap();
        assert_eq!(are_new(store.as_mut(), &[(9, 1, 1)]), [true]);
        let bytes = store.stage().unwrap().unwrap();
        store.committed().unwrap();
        drop(store);
        let mut store = open(&settings, folder.path(), Some(&bytes));
        assert!(!are_new(store.as_mut(), &urls).contains(&true));
        assert_eq!(
            are_new(store.as_mut(), &[(9, 1, 1), (9, 1, 2)]),
            [false, true]
        );
    }
}

#[test]
fn the_sieve_goes_on_from_what_the_memory_store_knew() {
    let (folder, bytes, urls) = filled(&settings(DedupStore::Memory, 0));
    let settings = settings(DedupStore::Disk, 4_000);
    let mut store = open(&settings, folder.path(), Some(&bytes));
    let by = |partition| urls.iter().filter(|url| url.0 == partition).count() as u64;
    assert!(
        PARTITIONS
            .iter()
            .all(|&partition| store.known(partition) == by(partition))
    );
    // The log is longer than the buffer is large: piece by piece it becomes runs.
    let mut bytes = None;
    for calls in 0.. {
        if store.flush_at().is_none() {
            break;
        }
        store.flush(at(0), false, &mut Vec::new()).unwrap();
        bytes = store.stage().unwrap().or(bytes);
        store.committed().unwrap();
        assert!(calls < 50);
    }
    assert!(!files(folder.path(), "run").is_empty());
    assert_eq!(files(folder.path(), "log").len(), 1);
    assert!(
        store.disk_bytes() < 16 * urls.len() as u64,
        "{}",
        store.disk_bytes()
    );
    assert!(!are_new(store.as_mut(), &urls).contains(&true));
    drop(store);
    let mut store = open(&settings, folder.path(), bytes.as_deref());
    assert!(!are_new(store.as_mut(), &urls).contains(&true));
    assert_eq!(are_new(store.as_mut(), &[(3, 1, 1)]), [true]);
}

#[test]
fn the_memory_store_refuses_what_the_sieve_has_in_runs() {
    let (folder, bytes, _) = filled(&settings(DedupStore::Disk, 4_000));
    assert!(!files(folder.path(), "run").is_empty());
    let memory = settings(DedupStore::Memory, 4_000);
    let text = super::open(&memory, folder.path().into(), &PARTITIONS, Some(&bytes))
        .err()
        .unwrap()
        .to_string();
    assert!(
        text.contains("stages.dedup.store") && text.contains("set it to 'disk'"),
        "{text}"
    );
    // It changed nothing.
    open(
        &settings(DedupStore::Disk, 4_000),
        folder.path(),
        Some(&bytes),
    );
}

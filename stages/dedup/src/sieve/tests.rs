//! The sieve against a set in memory, with crashes between any two writes, and against damaged files.

use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::rc::Rc;

type Url = (u16, u64, u64);
type Watch = Box<dyn FnMut(&Path)>;

thread_local! {
    /// Called before each change to a file.
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

pub(super) fn before_change(folder: &Path) {
    WATCH.with_borrow_mut(|watch| watch.iter_mut().for_each(|watch| watch(folder)));
}

const WAIT: Duration = Duration::from_secs(3);

fn settings(folder: &Path, buffer_bytes: usize) -> Settings {
    Settings {
        folder: folder.into(),
        partitions: vec![0, 3, 7],
        buffer_bytes,
        flush_after: WAIT,
        filter_urls: 30,
        // Too little for what the tests insert, so that filters often say "perhaps".
        filter_bytes_max: 200,
        sync: false,
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}

/// All files of a kind.
fn files(folder: &Path, kind: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|found| found == kind)).collect()
}

/// Asks and flushes: whether each URL is new.
fn are_new(sieve: &mut Sieve, urls: &[Url]) -> Vec<bool> {
    let mut new = vec![None; urls.len()];
    for (token, &(partition, host, url)) in (0..).zip(urls) {
        new[token as usize] = match sieve.ask(at(0), partition, host, url, token).unwrap() {
            Verdict::New => Some(true),
            Verdict::Repeated => Some(false),
            Verdict::Later => None,
        };
    }
    let mut answers = Vec::new();
    sieve.flush(at(0), true, &mut answers).unwrap();
    assert!(sieve.is_idle());
    for (token, is_new) in answers {
        assert_eq!(new[token as usize].replace(is_new), None, "answered twice");
    }
    new.into_iter().map(|new| new.expect("never answered")).collect()
}

/// A sieve and what it should say.
struct Model {
    folder: tempfile::TempDir,
    settings: Settings,
    sieve: Option<Sieve>,
    now: u64,
    known: BTreeSet<Url>,
    /// By partition, those that wait: token and URL, in the order asked.
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
    fn new(buffer_bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path(), buffer_bytes);
        let sieve = Some(Sieve::open(settings.clone(), None).unwrap());
        let (known, waiting, committed) = Default::default();
        Model { folder, settings, sieve, now: 0, known, waiting, token: 0, committed }
    }

    fn sieve(&mut self) -> &mut Sieve {
        self.sieve.as_mut().unwrap()
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Ask(urls) => urls.iter().for_each(|&url| self.ask(url)),
            Step::Flush { after_s, all } => self.flush(*after_s, *all),
            Step::Commit => {
                if let Some(bytes) = self.sieve().stage().unwrap() {
                    *self.committed.borrow_mut() = Committed { bytes: Some(bytes), known: self.known.clone() };
                }
                assert_eq!(self.known, self.committed.borrow().known, "what became known is staged");
                self.sieve().committed().unwrap();
                self.check_files();
            }
            Step::StageAndCrash => {
                self.sieve().stage().unwrap();
                self.crash();
            }
            Step::Crash => self.crash(),
        }
        for partition in self.settings.partitions.clone() {
            let known = self.known.iter().filter(|url| url.0 == partition).count();
            assert_eq!(self.sieve().known(partition), known as u64);
        }
        let idle = self.waiting.values().all(VecDeque::is_empty);
        assert_eq!(self.sieve().is_idle(), idle);
    }

    fn ask(&mut self, url: Url) {
        self.token += 1;
        let (now, token) = (at(self.now), self.token);
        let waits = self.waiting.entry(url.0).or_default().iter().any(|(_, waiting)| *waiting == url);
        match self.sieve().ask(now, url.0, url.1, url.2, token).unwrap() {
            Verdict::New => assert!(!waits && self.known.insert(url), "{url:?} is not new"),
            Verdict::Repeated => assert!(self.known.contains(&url), "{url:?} is new"),
            Verdict::Later => self.waiting.entry(url.0).or_default().push_back((token, url)),
        }
    }

    fn flush(&mut self, after_s: u64, all: bool) {
        self.now += after_s;
        self.flush_once(all);
        // At last there is nothing to be done at once.
        let mut calls = 0;
        while after_s > 2 && self.sieve().flush_at().is_some_and(|flush_at| flush_at <= at(self.now)) {
            self.flush_once(false);
            calls += 1;
            assert!(calls < 50);
        }
    }

    fn flush_once(&mut self, all: bool) {
        let (now, flush_at) = (at(self.now), self.sieve().flush_at());
        let mut answers = Vec::new();
        self.sieve().flush(now, all, &mut answers).unwrap();
        if flush_at.is_none_or(|flush_at| now < flush_at) && !all {
            assert!(answers.is_empty());
        }
        let due = self.sieve().flush_at().is_some_and(|at| Timestamp::ZERO < at && at <= now);
        assert!(!due, "all that is due is answered");
        for (token, new) in answers {
            let waiting = self.waiting.values_mut().find(|waiting| waiting.front().is_some_and(|(t, _)| *t == token));
            let (_, url) = waiting.expect("in the order asked").pop_front().unwrap();
            assert_eq!(new, self.known.insert(url), "{url:?}");
        }
    }

    fn crash(&mut self) {
        self.sieve = None;
        self.waiting.clear();
        let Committed { bytes, known } = self.committed.borrow().clone();
        self.known = known;
        self.sieve = Some(Sieve::open(self.settings.clone(), bytes.as_deref()).unwrap());
        self.check_files();
    }

    /// After a commit or a start there are the files in use and no others.
    fn check_files(&mut self) {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let bytes: u64 = entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        assert_eq!(bytes, self.sieve().disk_bytes());
    }
}

/// Opens a copy of the folder and compares what it knows with what was committed when it was made.
fn check_copy(copy: &Path, settings: &Settings, committed: &Committed, ever: &BTreeSet<Url>) {
    let settings = Settings { folder: copy.into(), ..settings.clone() };
    let mut sieve = Sieve::open(settings.clone(), committed.bytes.as_deref()).unwrap();
    let urls: Vec<Url> = ever.iter().copied().collect();
    let new = are_new(&mut sieve, &urls);
    for (url, new) in urls.iter().zip(new) {
        assert_eq!(new, !committed.known.contains(url), "{url:?}");
    }
    // It goes on from there, and is opened again.
    let bytes = sieve.stage().unwrap();
    sieve.committed().unwrap();
    drop(sieve);
    let mut sieve = Sieve::open(settings, bytes.as_deref().or(committed.bytes.as_deref())).unwrap();
    assert!(!are_new(&mut sieve, &urls).contains(&true));
}

fn url() -> impl Strategy<Value = Url> {
    let partition = prop_oneof![Just(0u16), Just(3), Just(7)];
    let host = prop_oneof![Just(0u64), Just(u64::MAX), 1u64..4];
    let url = prop_oneof![1 => Just(0u64), 1 => Just(u64::MAX), 20 => 1u64..150];
    (partition, host, url)
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

    /// P4. At some of the writes the folder is copied, as if the process had died there: the copy, opened with what
    /// was committed at that moment, knows what was committed and nothing else.
    #[test]
    fn it_says_what_a_set_says_whenever_the_process_dies(
        buffer_bytes in prop_oneof![Just(0usize), 200usize..4_000, 4_000usize..20_000, Just(1 << 20)],
        steps in prop::collection::vec(step(), 1..60),
        every in 1usize..100,
    ) {
        let mut model = Model::new(buffer_bytes);
        let copies: Rc<RefCell<Vec<(tempfile::TempDir, Committed)>>> = Default::default();
        let mut ever = BTreeSet::new();
        let (taken, committed, mut writes) = (copies.clone(), model.committed.clone(), 0);
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

/// A committed sieve with runs, filters and a log, and the URLs it knows: some in old runs, some in young ones, some
/// in the log only.
fn filled() -> (tempfile::TempDir, Settings, Vec<u8>, Vec<Url>) {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), 4 << 10);
    let mut sieve = Sieve::open(settings.clone(), None).unwrap();
    let mut urls: Vec<Url> = Vec::new();
    let mut bytes = None;
    loop {
        let next: Vec<Url> =
            (urls.len()..urls.len() + 50).map(|n| ([0, 3, 7][n % 3], n as u64 % 40, n as u64)).collect();
        are_new(&mut sieve, &next);
        urls.extend(next);
        bytes = sieve.stage().unwrap().or(bytes);
        sieve.committed().unwrap();
        let young = sieve.partitions.iter().any(|partition| partition.entry().young.is_some());
        let logged = sieve.partitions.iter().any(|partition| !partition.delta.is_empty());
        if urls.len() > 1_000 && young && logged {
            break;
        }
        assert!(urls.len() < 10_000);
    }
    (folder, settings, bytes.unwrap(), urls)
}

#[test]
fn an_empty_sieve_commits_nothing_and_knows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut sieve = Sieve::open(settings(folder.path(), 1_000), None).unwrap();
    assert!(sieve.stage().unwrap().is_none() && sieve.flush_at().is_none() && sieve.is_idle());
    let mut answers = Vec::new();
    sieve.flush(at(9), true, &mut answers).unwrap();
    assert!(answers.is_empty() && sieve.known(0) == 0 && sieve.known(9) == 0);
    assert!(matches!(sieve.ask(at(9), 9, 1, 1, 1), Err(SieveError::Partition(9))));
    assert_eq!(sieve.ask(at(9), 7, 1, 1, 1).unwrap(), Verdict::New);
    assert!(sieve.stage().unwrap().is_some() && sieve.stage().unwrap().is_none());
    // It was never committed.
    drop(sieve);
    let mut sieve = Sieve::open(settings(folder.path(), 1_000), None).unwrap();
    assert_eq!(sieve.ask(at(9), 7, 1, 1, 1).unwrap(), Verdict::New);
}

#[test]
fn questions_are_answered_in_the_order_asked_and_of_equal_ones_the_first_decides() {
    let (_folder, settings, bytes, urls) = filled();
    // Filters of one byte, so that they say "perhaps" to everything.
    let settings = Settings { filter_bytes_max: 1, ..settings };
    let mut sieve = Sieve::open(settings, Some(&bytes)).unwrap();
    let old = urls.iter().find(|url| url.0 == 3).unwrap();
    let asked = [(5, 9_001), (5, 9_000), (old.1, old.2), (5, 9_001), (4, 9_000), (5, 9_000), (u64::MAX, u64::MAX)];
    for (token, (host, url)) in (0..).zip(asked) {
        assert_eq!(sieve.ask(at(token), 3, host, url, token).unwrap(), Verdict::Later);
    }
    assert_eq!(sieve.flush_at(), Some(at(0) + WAIT));
    let mut answers = Vec::new();
    sieve.flush(at(2), false, &mut answers).unwrap();
    assert!(answers.is_empty(), "it is not time yet");
    sieve.flush(at(3), false, &mut answers).unwrap();
    // The same URL fingerprint at two hosts are two URLs.
    let new = [true, true, false, false, true, false, true];
    assert_eq!(answers, (0..).zip(new).collect::<Vec<_>>());
    assert_eq!(sieve.ask(at(9), 3, 5, 9_001, 0).unwrap(), Verdict::Repeated);
}

#[test]
fn the_extreme_fingerprints_are_fingerprints() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), 0);
    let mut sieve = Sieve::open(settings.clone(), None).unwrap();
    let urls: Vec<Url> = [(0, 0), (0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX)].map(|(h, u)| (3, h, u)).into();
    assert_eq!(are_new(&mut sieve, &urls), [true; 4]);
    assert_eq!(are_new(&mut sieve, &urls), [false; 4]);
    let bytes = sieve.stage().unwrap();
    drop(sieve);
    let mut sieve = Sieve::open(settings, bytes.as_deref()).unwrap();
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
            let found = Sieve::open(settings.clone(), Some(&bytes)).and_then(|mut sieve| {
                for &(partition, host, url) in &urls {
                    sieve.ask(Timestamp::ZERO, partition, host, url, 0)?;
                }
                let mut answers = Vec::new();
                let flushed = sieve.flush(Timestamp::ZERO, true, &mut answers);
                assert!(answers.iter().all(|(_, new)| !new));
                assert!(flushed.is_ok() || matches!(sieve.stage(), Err(SieveError::Stopped)));
                flushed
            });
            let text = found.unwrap_err().to_string();
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(text.contains(name) && text.contains("from a copy, or delete the crawl"), "{text}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(Sieve::open(settings.clone(), Some(&bytes)).err().unwrap().to_string().contains("missing"));
        std::fs::write(&path, sound).unwrap();
    }
    let mut sieve = Sieve::open(settings, Some(&bytes)).unwrap();
    assert!(!are_new(&mut sieve, &urls).contains(&true));
}

#[test]
fn a_damaged_log_or_manifest_is_named_and_a_tail_that_was_not_committed_is_cut_off() {
    let (folder, settings, bytes, urls) = filled();
    for kind in ["log", "manifest"] {
        let path = files(folder.path(), kind).pop().unwrap();
        let sound = std::fs::read(&path).unwrap();
        for at in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            let text = Sieve::open(settings.clone(), Some(&bytes)).err().unwrap().to_string();
            assert!(text.contains(kind) && text.contains("delete the crawl"), "{text}");
        }
        std::fs::write(&path, &sound[..sound.len() - 1]).unwrap();
        assert!(Sieve::open(settings.clone(), Some(&bytes)).is_err());
        std::fs::write(&path, &sound).unwrap();
    }
    let path = files(folder.path(), "log").pop().unwrap();
    let sound = std::fs::read(&path).unwrap();
    std::fs::write(&path, [sound.as_slice(), &[7; 100]].concat()).unwrap();
    std::fs::write(folder.path().join("00003.99999999.run"), "cut short").unwrap();
    std::fs::write(folder.path().join("notes.txt"), "not the sieve's").unwrap();
    let mut sieve = Sieve::open(settings, Some(&bytes)).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), sound);
    assert!(!folder.path().join("00003.99999999.run").exists() && folder.path().join("notes.txt").exists());
    assert!(!are_new(&mut sieve, &urls).contains(&true));
}

#[test]
fn damaged_and_missing_filters_are_made_anew_from_the_runs() {
    let (folder, settings, bytes, urls) = filled();
    let paths = files(folder.path(), "filters");
    assert_eq!(paths.len(), 3);
    for at in [Some(0), Some(12), Some(50), None] {
        for path in &paths {
            match at {
                Some(at) => {
                    let mut damaged = std::fs::read(path).unwrap();
                    damaged[at] ^= 1;
                    std::fs::write(path, damaged).unwrap();
                }
                None => std::fs::remove_file(path).unwrap(),
            }
        }
        let mut sieve = Sieve::open(settings.clone(), Some(&bytes)).unwrap();
        assert!(!are_new(&mut sieve, &urls).contains(&true));
        // They were written again, and are read this time.
        let written: Vec<_> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
        Sieve::open(settings.clone(), Some(&bytes)).unwrap();
        assert_eq!(written, paths.iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>());
    }
}

#[test]
fn a_state_of_an_unknown_version_is_refused() {
    let (_folder, settings, mut bytes, _) = filled();
    bytes[0] += 1;
    let text = Sieve::open(settings, Some(&bytes)).err().unwrap().to_string();
    assert!(text.contains("version"), "{text}");
}

#[test]
fn partitions_that_are_not_asked_for_any_more_are_kept() {
    let (_folder, settings, bytes, urls) = filled();
    let fewer = Settings { partitions: vec![7, 9], ..settings.clone() };
    let mut sieve = Sieve::open(fewer, Some(&bytes)).unwrap();
    assert_eq!(are_new(&mut sieve, &[(9, 1, 1)]), [true]);
    let bytes = sieve.stage().unwrap().unwrap();
    sieve.committed().unwrap();
    drop(sieve);
    let mut sieve = Sieve::open(settings, Some(&bytes)).unwrap();
    assert!(!are_new(&mut sieve, &urls).contains(&true));
    assert_eq!(are_new(&mut sieve, &[(9, 1, 1), (9, 1, 2)]), [false, true]);
}

/// P6: whatever is asked, the buffer is not much larger than it may be, and the log neither.
#[test]
fn memory_and_log_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { filter_bytes_max: 10_000, ..settings(folder.path(), 8 << 10) };
    let mut sieve = Sieve::open(settings, None).unwrap();
    let mut answers = Vec::new();
    for n in 0..40_000u64 {
        let url = if n % 3 == 0 { n } else { n / 2 };
        sieve.ask(at(0), [0, 3, 7][url as usize % 3], url / 50, url, n).unwrap();
        if n % 16 == 0 {
            sieve.stage().unwrap();
            sieve.committed().unwrap();
        }
        if sieve.flush_at() == Some(Timestamp::ZERO) {
            sieve.flush(at(0), false, &mut answers).unwrap();
        }
        assert!(sieve.buffered_bytes() < 12 << 10, "{}", sieve.buffered_bytes());
        let logs = sieve.log.length() + sieve.last_log.as_ref().map_or(0, Log::length);
        assert!(logs < 20 << 10, "{logs}");
        assert!(sieve.filter_bytes() <= 10_000 + 10_000 / 8);
    }
}

//! A partition of the sieve: its runs, its filters, what became known since, and its questions.
//!
//! Known are the keys of the old run, of the young run and of the delta; no key is in two of them.
//! The filters hold them all; after a start they are filled from the runs, block by block, and
//! until they hold all they are not asked. The delta is merged into the young run, and all three
//! into a new old run when the other two have grown to a quarter of it: so a key is written about
//! as often as a partition's deltas fit into a quarter of its old run, and then a few times more
//! while the partition doubles.
//!
//! Sources: Najork and Heydon 2001 (the questions are sorted, answered by one pass, and given back
//! in the order asked); O'Neil, Cheng, Gawlick and O'Neil 1996 (runs of growing size).

use super::delta::Delta;
use super::filters::{Allowance, Filters, bytes_for};
use super::layout::BLOCKS_AT_ONCE;
use super::manifest::Entry;
use super::merge::merge;
use super::questions::{Asked, Questions};
use super::run::{Run, Window};
use super::run_writer::RunWriter;
use crate::seen::error::SeenError;
use crate::seen::folder::{Folder, Name};
use crate::seen::log::LogPosition;
use crate::seen::{Answer, CopiedKeys, Key, VisitKey};
use std::sync::Arc;

/// An old run is made anew when the keys outside of it are at least the keys in it divided by this
/// number.
const OLD_PER_YOUNG: u64 = 4;

/// Sizes of the filters of a partition.
#[derive(Clone, Copy)]
pub(super) struct FilterSizes {
    /// URLs that the first is made for.
    urls_min: u64,
    /// Memory, in bytes, that is granted even when the allowance is used up.
    bytes_min: usize,
}

impl FilterSizes {
    /// An equal share for each partition; together never more than the allowance at first.
    pub(super) fn of(filter_urls: u64, filter_bytes_max: usize, partitions: usize) -> Self {
        let partitions = partitions.max(1);
        let share = filter_bytes_max / partitions;
        let urls = (filter_urls / partitions as u64).max(1);
        let fits = urls as f64 * (share as f64 / bytes_for(urls) as f64).min(1.0);
        // An eighth: what is granted over the allowance is little, and no partition is left without
        // a filter.
        FilterSizes {
            urls_min: (fits as u64).max(1),
            bytes_min: share / 8,
        }
    }

    /// Returns empty filters for a partition that knows `known` URLs and for those that come before
    /// its filters are made anew.
    fn filters(self, known: u64, allowance: &mut Allowance) -> Filters {
        Filters::within(
            (known + known / 5 * 2).max(self.urls_min),
            self.bytes_min,
            allowance,
        )
    }
}

/// A partition.
pub(super) struct Partition {
    pub(super) number: u16,
    filters: Filters,
    /// The first block that the filters may not hold, counted over the blocks of all runs. None
    /// when they hold all.
    unfiltered: Option<usize>,
    pub(super) delta: Delta,
    pub(super) questions: Questions,
    old: Option<Arc<Run>>,
    young: Option<Arc<Run>>,
    /// What became known since a copy of the partition began.
    later: Option<Vec<Key>>,
    /// The first place whose records are not in the runs.
    pub(super) log_from: LogPosition,
}

impl Partition {
    /// One that knows nothing.
    pub(super) fn new(number: u16, sizes: FilterSizes, allowance: &mut Allowance) -> Self {
        Partition {
            number,
            filters: sizes.filters(0, allowance),
            unfiltered: None,
            delta: Delta::default(),
            questions: Questions::default(),
            old: None,
            young: None,
            later: None,
            log_from: (0, 0),
        }
    }

    /// One as it was committed; what the log adds is not in it yet, and its filters are empty.
    pub(super) fn open(
        folder: &Folder,
        entry: &Entry,
        sizes: FilterSizes,
        allowance: &mut Allowance,
    ) -> Result<Self, SeenError> {
        let number = entry.partition;
        let open = |run| Run::open(folder, number, run).map(Arc::new);
        let old = entry.old.map(open).transpose()?;
        let young = entry.young.map(open).transpose()?;
        // As large as when the old run was made.
        let filters = sizes.filters(entry.old.map_or(0, |old| old.urls), allowance);
        let unfiltered = old.is_some().then_some(0);
        let (delta, questions, later) = Default::default();
        Ok(Partition {
            number,
            filters,
            unfiltered,
            delta,
            questions,
            old,
            young,
            later,
            log_from: entry.log_from,
        })
    }

    /// One that was imported: all that it knows is in the run, and no record before `log_from`
    /// counts.
    pub(super) fn imported(
        run: Run,
        log_from: LogPosition,
        sizes: FilterSizes,
        allowance: &mut Allowance,
    ) -> Self {
        let filters = sizes.filters(run.entry().urls, allowance);
        let number = run.partition;
        let unfiltered = Some(0);
        let old = Some(Arc::new(run));
        let (delta, questions, young, later) = Default::default();
        Partition {
            number,
            filters,
            unfiltered,
            delta,
            questions,
            old,
            young,
            later,
            log_from,
        }
    }

    /// It is forgotten: its files are appended to `unused`.
    pub(super) fn release(self, allowance: &mut Allowance, unused: &mut Vec<Name>) {
        unused.extend(self.names());
        self.filters.release(allowance);
    }

    /// What it knows now. What becomes known from now on is remembered, until that is taken.
    pub(super) fn copy(&mut self) -> CopyOf {
        self.later = Some(Vec::new());
        self.now()
    }

    /// What it knows now.
    pub(super) fn now(&self) -> CopyOf {
        let mut keys = self.delta.keys().to_vec();
        keys.sort_unstable();
        let runs = [&self.old, &self.young]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        CopyOf {
            runs,
            keys,
            known: self.known(),
        }
    }

    /// What became known since the copy; it is not remembered any more.
    pub(super) fn take_later(&mut self) -> Vec<Key> {
        self.later.take().unwrap_or_default()
    }

    /// How the manifest names it.
    pub(super) fn entry(&self) -> Entry {
        let of = |run: &Option<Arc<Run>>| run.as_ref().map(|run| run.entry());
        Entry {
            partition: self.number,
            log_from: self.log_from,
            old: of(&self.old),
            young: of(&self.young),
        }
    }

    /// Files in use.
    pub(super) fn names(&self) -> impl Iterator<Item = Name> {
        self.runs().map(|run| run.name())
    }

    /// URLs known.
    pub(super) fn known(&self) -> u64 {
        self.delta.len() + self.merged()
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        [&self.old, &self.young]
            .into_iter()
            .flatten()
            .map(AsRef::as_ref)
    }

    /// URLs in its runs.
    pub(super) fn merged(&self) -> u64 {
        self.runs().map(|run| run.entry().urls).sum()
    }

    /// Length of its runs, in bytes.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.runs().map(|run| run.entry().bytes).sum()
    }

    /// Memory of the indexes of the runs, in bytes.
    pub(super) fn index_bytes(&self) -> usize {
        self.runs().map(Run::bytes).sum()
    }

    /// False when the URL is certainly not known.
    pub(super) fn may_know(&self, (_, url): Key) -> bool {
        self.unfiltered.is_some() || self.filters.may_contain(url)
    }

    /// Returns whether the URL is known; questions are not.
    pub(super) fn knows(&self, key: Key) -> Result<bool, SeenError> {
        if !self.may_know(key) {
            return Ok(false);
        }
        let mut asked = [Asked {
            key,
            place: 0,
            found: self.delta.contains(key),
        }];
        let mut window = Window::default();
        for run in self.runs() {
            if !asked[0].found {
                run.find(&mut asked, &mut window)?;
            }
        }
        Ok(asked[0].found)
    }

    /// Returns whether the filters hold all that the runs hold.
    pub(super) fn is_filtered(&self) -> bool {
        self.unfiltered.is_none()
    }

    /// Puts the next few blocks of the runs into the filters. When those were the last, the caller
    /// answers the questions that wait before it asks anew: a URL that one of them is about would
    /// now be new at once.
    pub(super) fn fill_filters(
        &mut self,
        window: &mut Window,
        allowance: &mut Allowance,
    ) -> Result<(), SeenError> {
        let Partition {
            filters,
            unfiltered,
            old,
            young,
            ..
        } = self;
        let Some(next) = unfiltered else {
            return Ok(());
        };
        let mut first = *next;
        for run in [old, young].into_iter().flatten() {
            if first < run.blocks() {
                let blocks = first..run.blocks().min(first + BLOCKS_AT_ONCE);
                *next += blocks.len();
                return run.visit_blocks(blocks, window, &mut |(_, url)| {
                    filters.insert(url, allowance)
                });
            }
            first -= run.blocks();
        }
        *unfiltered = None;
        Ok(())
    }

    /// A URL is known from now on. It was not.
    pub(super) fn learn(&mut self, key: Key, allowance: &mut Allowance) {
        let inserted = self.delta.insert(key);
        debug_assert!(inserted, "P4: a URL is new once");
        self.later.iter_mut().for_each(|later| later.push(key));
        self.filters.insert(key.1, allowance);
    }

    /// Answers all questions, in the order asked; what is new is known from now on.
    pub(super) fn answer(
        &mut self,
        asked: &mut Vec<Asked>,
        window: &mut Window,
        allowance: &mut Allowance,
        answers: &mut Vec<Answer>,
    ) -> Result<(), SeenError> {
        self.questions.sorted_into(asked);
        for run in self.runs() {
            run.find(asked, window)?;
        }
        let first = answers.len();
        answers.extend(
            self.questions
                .take()
                .iter()
                .map(|question| (question.token, false)),
        );
        for asked in asked {
            // The first of several equal questions decides: after it the delta holds the key.
            if !asked.found && !self.delta.contains(asked.key) {
                self.learn(asked.key, allowance);
                answers[first + asked.place as usize].1 = true;
            }
        }
        Ok(())
    }

    /// Moves the delta into a run of this generation; no question waits. Files that are not used
    /// any more are appended to `unused`. Gives the number of URLs in the run.
    pub(super) fn merge(
        &mut self,
        folder: &Folder,
        generation: u64,
        sizes: FilterSizes,
        allowance: &mut Allowance,
        unused: &mut Vec<Name>,
    ) -> Result<u64, SeenError> {
        let known = self.known();
        let old_urls = self.old.as_ref().map_or(0, |run| run.entry().urls);
        // Half-filled filters would not know where the blocks of a new young run begin.
        let all =
            (known - old_urls).saturating_mul(OLD_PER_YOUNG) >= old_urls || !self.is_filtered();
        if all {
            unused.extend(self.names());
        } else {
            unused.extend(self.young.as_ref().map(|run| run.name()));
        }
        let keys = self.delta.take_sorted();
        let mut writer = RunWriter::create(folder, self.number, generation)?;
        if all {
            // The old filters go first, so that both are never in memory.
            let empty = Filters::within(1, 1, &mut Allowance { used: 0, max: 1 });
            std::mem::replace(&mut self.filters, empty).release(allowance);
            let mut filters = sizes.filters(known, allowance);
            let runs: Vec<&Run> = self.runs().collect();
            merge(&runs, &keys, &mut |key| {
                filters.insert(key.1, allowance);
                writer.push(key)
            })?;
            self.old = Some(Arc::new(writer.finish()?));
            self.young = None;
            self.filters = filters;
            self.unfiltered = None;
        } else {
            let runs: Vec<&Run> = self.young.iter().map(AsRef::as_ref).collect();
            merge(&runs, &keys, &mut |key| writer.push(key))?;
            self.young = Some(Arc::new(writer.finish()?));
        }
        if self.known() != known {
            let path = folder.path_of(Name::Run {
                partition: self.number,
                generation,
            });
            return Err(SeenError::damaged(
                &path,
                "the runs it was merged from do not hold what they should",
            ));
        }
        Ok(if all { known } else { known - old_urls })
    }
}

/// What a partition knew when a copy of it began. Its runs stay readable when the partition has
/// others.
pub(super) struct CopyOf {
    runs: Vec<Arc<Run>>,
    keys: Vec<Key>,
    known: u64,
}

impl CopiedKeys for CopyOf {
    fn visit(&self, visit: &mut VisitKey<'_>) -> Result<(), SeenError> {
        let runs: Vec<&Run> = self.runs.iter().map(AsRef::as_ref).collect();
        let mut visited = 0;
        merge(&runs, &self.keys, &mut |key| {
            visited += 1;
            visit(key)
        })?;
        match runs.first() {
            Some(run) if visited != self.known => {
                Err(run.damaged("it does not hold as many keys as it should"))
            }
            _ => Ok(()),
        }
    }
}

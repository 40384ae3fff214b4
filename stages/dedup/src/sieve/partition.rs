//! A partition of the sieve: its runs, its filters, what became known since, and its questions.
//!
//! Known are the keys of the old run, of the young run and of the delta; no key is in two of them. The filters hold
//! them all. The delta is merged into the young run, and all three into a new old run when the other two have grown
//! to a quarter of it: so a key is written about as often as a partition's deltas fit into a quarter of its old
//! run, and then a few times more while the partition doubles.
//!
//! Sources: Najork and Heydon 2001 (the questions are sorted, answered by one pass, and given back in the order
//! asked); O'Neil, Cheng, Gawlick and O'Neil 1996 (runs of growing size).

use super::error::SieveError;
use super::folder::{Folder, Name};
use super::log::Place;
use super::manifest::Entry;
use super::questions::{Asked, Questions};
use super::run::{self, Run, RunWriter, Window};
use super::{Answer, Key, delta::Delta, filter_file};
use crate::filters::{Allowance, Filters, bytes_for};

/// An old run is made anew when the keys not in it are more than one in so many of those in it.
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
        // An eighth: what is granted over the allowance is little, and no partition is left without a filter.
        FilterSizes { urls_min: (fits as u64).max(1), bytes_min: share / 8 }
    }

    /// Empty filters for a partition that knows so many URLs and for those that come before its filters are made
    /// anew.
    fn filters(self, known: u64, allowance: &mut Allowance) -> Filters {
        Filters::within((known + known / 5 * 2).max(self.urls_min), self.bytes_min, allowance)
    }
}

/// A partition.
pub(super) struct Partition {
    pub(super) number: u16,
    filters: Filters,
    /// Length of the file of filters; 0 when there is none.
    filter_file_bytes: u64,
    pub(super) delta: Delta,
    pub(super) questions: Questions,
    old: Option<Run>,
    young: Option<Run>,
    /// The first place whose records are not in the runs.
    pub(super) log_from: Place,
}

impl Partition {
    /// One that knows nothing.
    pub(super) fn new(number: u16, sizes: FilterSizes, allowance: &mut Allowance) -> Self {
        Partition {
            number,
            filters: sizes.filters(0, allowance),
            filter_file_bytes: 0,
            delta: Delta::default(),
            questions: Questions::default(),
            old: None,
            young: None,
            log_from: (0, 0),
        }
    }

    /// One as it was committed; what the log adds is not in it yet. Reads the file of filters, or, without a sound
    /// one, the runs, and writes it anew.
    pub(super) fn open(
        folder: &Folder,
        entry: &Entry,
        sizes: FilterSizes,
        allowance: &mut Allowance,
    ) -> Result<Self, SieveError> {
        let number = entry.partition;
        let open = |run| Run::open(folder, number, run);
        let (old, young) = (entry.old.map(open).transpose()?, entry.young.map(open).transpose()?);
        let saved = entry.old.and_then(|old| filter_file::read(folder, number, old.generation, allowance));
        let (mut filters, filter_file_bytes) = match (saved, &old) {
            (Some(saved), _) => saved,
            (None, Some(old)) => {
                let mut filters = sizes.filters(old.entry().urls, allowance);
                insert_all(&mut filters, old, allowance)?;
                let bytes = filter_file::write(folder, number, old.entry().generation, &filters)?;
                (filters, bytes)
            }
            (None, None) => (sizes.filters(0, allowance), 0),
        };
        if let Some(young) = &young {
            insert_all(&mut filters, young, allowance)?;
        }
        let (delta, questions) = Default::default();
        Ok(Partition { number, filters, filter_file_bytes, delta, questions, old, young, log_from: entry.log_from })
    }

    /// How the manifest names it.
    pub(super) fn entry(&self) -> Entry {
        let of = |run: &Option<Run>| run.as_ref().map(Run::entry);
        Entry { partition: self.number, log_from: self.log_from, old: of(&self.old), young: of(&self.young) }
    }

    /// Files in use.
    pub(super) fn names(&self) -> impl Iterator<Item = Name> {
        let runs = [&self.old, &self.young].into_iter().flatten().map(Run::name);
        runs.chain(self.filter_file())
    }

    fn filter_file(&self) -> Option<Name> {
        let old = self.old.as_ref().filter(|_| self.filter_file_bytes > 0)?;
        Some(Name::Filters { partition: self.number, generation: old.entry().generation })
    }

    /// URLs known.
    pub(super) fn known(&self) -> u64 {
        self.delta.len() + self.merged()
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        [&self.old, &self.young].into_iter().flatten()
    }

    /// URLs in its runs.
    pub(super) fn merged(&self) -> u64 {
        self.runs().map(|run| run.entry().urls).sum()
    }

    /// Bytes of its files: runs, filters.
    pub(super) fn disk_bytes(&self) -> (u64, u64) {
        (self.runs().map(|run| run.entry().bytes).sum(), self.filter_file_bytes)
    }

    /// Memory of the indexes of the runs, in bytes.
    pub(super) fn index_bytes(&self) -> usize {
        self.runs().map(Run::bytes).sum()
    }

    /// False when the URL is certainly not known.
    pub(super) fn may_know(&self, (_, url): Key) -> bool {
        self.filters.may_contain(url)
    }

    /// A URL is known from now on. It was not.
    pub(super) fn learn(&mut self, key: Key, allowance: &mut Allowance) {
        let inserted = self.delta.insert(key);
        debug_assert!(inserted, "P4: a URL is new once");
        self.filters.insert(key.1, allowance);
    }

    /// Answers all questions, in the order asked; what is new is known from now on.
    pub(super) fn answer(
        &mut self,
        asked: &mut Vec<Asked>,
        window: &mut Window,
        allowance: &mut Allowance,
        answers: &mut Vec<Answer>,
    ) -> Result<(), SieveError> {
        self.questions.sorted_into(asked);
        for run in self.runs() {
            run.find(asked, window)?;
        }
        let first = answers.len();
        answers.extend(self.questions.take().iter().map(|question| (question.token, false)));
        for asked in asked {
            // Of equal questions the first decides: then the delta holds it.
            if !asked.found && !self.delta.contains(asked.key) {
                self.learn(asked.key, allowance);
                answers[first + asked.place as usize].1 = true;
            }
        }
        Ok(())
    }

    /// Moves the delta into a run of this generation; no question waits. Files that are not used any more are
    /// appended to `unused`. Gives the number of URLs in the run.
    pub(super) fn merge(
        &mut self,
        folder: &Folder,
        generation: u64,
        sizes: FilterSizes,
        allowance: &mut Allowance,
        unused: &mut Vec<Name>,
    ) -> Result<u64, SieveError> {
        let known = self.known();
        let old_urls = self.old.as_ref().map_or(0, |run| run.entry().urls);
        let all = (known - old_urls).saturating_mul(OLD_PER_YOUNG) >= old_urls;
        if all {
            unused.extend(self.names());
        } else {
            unused.extend(self.young.as_ref().map(Run::name));
        }
        let keys = self.delta.take_sorted();
        let mut writer = RunWriter::create(folder, self.number, generation)?;
        if all {
            // The old filters go first, so that both are never in memory.
            let empty = Filters::within(1, 1, &mut Allowance { used: 0, max: 1 });
            std::mem::replace(&mut self.filters, empty).release(allowance);
            let mut filters = sizes.filters(known, allowance);
            let runs: Vec<&Run> = self.runs().collect();
            run::merge(&runs, &keys, &mut |key| {
                filters.insert(key.1, allowance);
                writer.push(key)
            })?;
            self.old = Some(writer.finish()?);
            self.young = None;
            self.filters = filters;
            self.filter_file_bytes = filter_file::write(folder, self.number, generation, &self.filters)?;
        } else {
            let runs: Vec<&Run> = self.young.iter().collect();
            run::merge(&runs, &keys, &mut |key| writer.push(key))?;
            self.young = Some(writer.finish()?);
        }
        if self.known() != known {
            let path = folder.path_of(Name::Run { partition: self.number, generation });
            return Err(SieveError::damaged(&path, "the runs it was merged from do not hold what they should"));
        }
        Ok(if all { known } else { known - old_urls })
    }
}

fn insert_all(filters: &mut Filters, run: &Run, allowance: &mut Allowance) -> Result<(), SieveError> {
    run::merge(&[run], &[], &mut |(_, url)| {
        filters.insert(url, allowance);
        Ok(())
    })
}

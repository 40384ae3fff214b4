//! The sieve: the URL-seen store on disk. Its memory is bounded, however many URLs are known.
//!
//! A question is answered at the first of these places that can:
//! 1. The partition's Bloom filters, in memory: "no" is certain, so the URL is new.
//! 2. The delta, in memory: what became known since the partition's last merge. A URL found there
//!    is a repeat.
//! 3. The partition's runs, on disk: sorted fingerprints, a host's together. Questions that come
//!    this far wait until [`SeenStore::flush`] sorts them and answers them all by one sequential
//!    pass.
//!
//! Invariants: host and URL fingerprints together tell URLs apart (P4); memory is bounded by the
//! settings but for 16 bytes for each 64 KiB of runs (P6).
//!
//! The state names logs and, by the manifest that lists them, runs. A log that is long is followed
//! by a new one, and goes when the partitions with keys in it are merged. This, the emptying of a
//! full buffer and, after a start, the filling of the filters are done piece by piece, so that no
//! call takes long: a call ends with the partition that makes it a million URLs written. As long as
//! the filters of a partition are not filled, all that its delta does not hold waits for the runs.
//!
//! A partition that is imported is a run of its own. What the logs have of a partition that was
//! forgotten goes with them: they are replaced by one of what the deltas hold.
//!
//! Not promised: an order among the answers of different partitions; less than twice the disk space
//! between a merge and the commit after it.
//!
//! Sources: Heydon and Najork 1999, section 3.2 (fingerprints on disk, a host's together); Najork
//! and Heydon 2001 (questions buffered, sorted and merged with the file in one pass, answered in
//! the order asked); Lee, Leonard, Wang and Loguinov 2008 (DRUM: the same by partition, checked and
//! updated together); Bloom 1970.

mod delta;
mod filters;
mod layout;
mod manifest;
mod merge;
mod moves;
mod opened;
mod partition;
mod questions;
mod relief;
mod run;
pub(super) mod run_writer;

#[cfg(test)]
mod tests;

use self::filters::Allowance;
use self::opened::{Opened, Places};
use self::partition::{FilterSizes, Partition};
use self::questions::{Asked, Question};
use self::relief::Relief;
use self::run::Window;
use self::run_writer::RunWriter;
use super::error::SeenError;
use super::folder::{Folder, Name};
use super::import::{Base, Import};
use super::log::Log;
use super::state::State;
use super::{Answer, CopiedKeys, Key, Novelty, SeenStore, Settings, VisitKey};
use rhumb_partition::Split;
use rhumb_url::time::Timestamp;

/// The log is not merged for its length below this, in bytes; small in tests, so that it happens.
const LOG_BYTES_MIN: u64 = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// A flush answers the questions that are due. Its other work ends when it has written this many
/// URLs to runs, after about a tenth of a second; small in tests, so that it happens.
const FLUSH_URLS_MAX: u64 = if cfg!(test) { 100 } else { 1 << 20 };
/// How many URLs of a run can be searched for questions in the time that writing one URL takes.
const FIND_PER_WRITE: u64 = 16;

/// The URL-seen store on disk.
pub(super) struct Sieve {
    settings: Settings,
    filter_sizes: FilterSizes,
    folder: Folder,
    partitions: Vec<Partition>,
    /// The place of each partition in `partitions`.
    places: Places,
    allowance: Allowance,
    log: Log,
    /// The log before it, while deltas have keys in it.
    last_log: Option<Log>,
    /// Returns whether the logs have records of a forgotten partition. The manifest says nothing of
    /// it, so the next start would learn them again.
    log_has_forgotten: bool,
    relief: Relief,
    /// Generation of the next file.
    next_generation: u64,
    /// Generation, checksum and length of the manifest; none before the first merge.
    manifest: Option<(u64, u64, u64)>,
    /// Returns whether the manifest does not name the runs as they are.
    runs_changed: bool,
    /// Places of the partitions whose filters are being filled.
    unfiltered: Vec<u16>,
    /// Places of the partitions with keys that are not in the log.
    unlogged: Vec<u16>,
    /// Memory of all questions and deltas, in bytes, and how many questions the largest partition
    /// has.
    question_bytes: usize,
    delta_bytes: usize,
    questions_max: usize,
    /// When the oldest question was asked.
    oldest: Option<Timestamp>,
    window: Window,
    /// Files that the state does not name any more, but what is committed may.
    unused: Vec<Name>,
    /// Those of them that what is staged does not name either.
    removable: Vec<Name>,
    /// A call failed.
    stopped: bool,
}

impl Sieve {
    /// Opens a sieve: reads the indexes of the runs and the log. The log is at most about twice as
    /// long as the buffer is large, but for one that the memory store wrote: that is merged from
    /// memory after the start.
    pub(super) fn open(
        settings: Settings,
        folder: Folder,
        asked_for: &[u16],
        state: Option<State>,
    ) -> Result<Sieve, SeenError> {
        let opened = Opened::read(&settings, &folder, asked_for, state)?;
        let Opened {
            partitions,
            places,
            allowance,
            filter_sizes,
            manifest,
            log,
            last_log,
        } = opened;
        let generations = folder.names()?.into_iter().map(|name| match name {
            Name::Run { generation, .. }
            | Name::Log { generation }
            | Name::Manifest { generation } => generation,
        });
        let unfiltered = (0..)
            .zip(&partitions)
            .filter(|(_, partition)| !partition.is_filtered());
        Ok(Sieve {
            unfiltered: unfiltered.map(|(place, _)| place).collect(),
            filter_sizes,
            next_generation: generations.max().unwrap_or(0) + 1,
            delta_bytes: partitions
                .iter()
                .map(|partition| partition.delta.bytes())
                .sum(),
            settings,
            folder,
            partitions,
            places,
            allowance,
            log,
            last_log,
            log_has_forgotten: false,
            relief: Relief::None,
            manifest,
            runs_changed: false,
            unlogged: Vec::new(),
            question_bytes: 0,
            questions_max: 0,
            oldest: None,
            window: Window::default(),
            unused: Vec::new(),
            removable: Vec::new(),
            stopped: false,
        })
    }

    /// After a failure nothing is certain but what was committed.
    fn guarded<R>(
        &mut self,
        call: impl FnOnce(&mut Sieve) -> Result<R, SeenError>,
    ) -> Result<R, SeenError> {
        if self.stopped {
            return Err(SeenError::Stopped);
        }
        // Also when the call panics.
        self.stopped = true;
        let result = call(self);
        self.stopped = result.is_err();
        result
    }

    fn is_full(&self) -> bool {
        self.buffered_bytes() > self.settings.buffer_bytes
    }

    /// Memory of questions and deltas, and that which the largest partition's questions need to be
    /// sorted.
    fn buffered_bytes(&self) -> usize {
        self.question_bytes + self.delta_bytes + self.questions_max * size_of::<Asked>()
    }

    /// The log holds what is in the deltas and, longer and longer, what was merged long ago.
    fn log_is_long(&self) -> bool {
        self.log.length() > (self.settings.buffer_bytes as u64).max(LOG_BYTES_MIN)
    }

    fn flush_due(
        &mut self,
        now: Timestamp,
        all: bool,
        answers: &mut Vec<Answer>,
    ) -> Result<(), SeenError> {
        let mut asked = Vec::new();
        let due = |asked_at| asked_at + self.settings.flush_after <= now;
        let due: Vec<usize> = (0..self.partitions.len())
            .filter(|&place| {
                self.partitions[place]
                    .questions
                    .oldest()
                    .is_some_and(|asked_at| all || due(asked_at))
            })
            .collect();
        for place in due {
            self.answer(place, &mut asked, answers)?;
        }
        if self.relief == Relief::None && self.is_full() {
            self.relief = Relief::Answering;
        }
        let mut urls = 0;
        while self.relief != Relief::None && urls < FLUSH_URLS_MAX {
            urls += self.relieve(&mut asked, answers)?;
        }
        if self.last_log.is_none() && self.log_is_long() {
            self.start_log()?;
        }
        while urls < FLUSH_URLS_MAX
            && let Some(place) = self.place_in_last_log()
        {
            urls += self.merge(place, &mut asked, answers)?;
        }
        if self.last_log.is_some() && self.place_in_last_log().is_none() {
            self.unused
                .extend(self.last_log.take().map(|log| log.name()));
            self.runs_changed = true;
        }
        self.fill_filters(&mut asked, answers)?;
        self.oldest = self
            .partitions
            .iter()
            .filter_map(|partition| partition.questions.oldest())
            .min();
        Ok(())
    }

    /// Goes on with the filters of one partition.
    fn fill_filters(
        &mut self,
        asked: &mut Vec<Asked>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), SeenError> {
        let Some(&place) = self.unfiltered.last() else {
            return Ok(());
        };
        let partition = &mut self.partitions[usize::from(place)];
        partition.fill_filters(&mut self.window, &mut self.allowance)?;
        if partition.is_filtered() {
            self.unfiltered.pop();
            self.answer(usize::from(place), asked, answers)?;
        }
        Ok(())
    }

    /// One partition's part of [`Relief`]. Gives how many URLs were written, or might have been in
    /// that time.
    fn relieve(
        &mut self,
        asked: &mut Vec<Asked>,
        answers: &mut Vec<Answer>,
    ) -> Result<u64, SeenError> {
        let buffer_bytes = self.settings.buffer_bytes;
        let largest = |bytes: fn(&Partition) -> usize| {
            (0..self.partitions.len()).max_by_key(|&place| bytes(&self.partitions[place]))
        };
        match self.relief {
            Relief::Answering
                if self.question_bytes > 0 && self.buffered_bytes() > buffer_bytes / 2 =>
            {
                let Some(place) = largest(|partition| partition.questions.len()) else {
                    return Ok(0);
                };
                self.answer(place, asked, answers)?;
                Ok(self.partitions[place].merged() / FIND_PER_WRITE)
            }
            Relief::Merging if self.delta_bytes > buffer_bytes / 8 => {
                let Some(place) = largest(|partition| partition.delta.bytes()) else {
                    return Ok(0);
                };
                self.merge(place, asked, answers)
            }
            Relief::Answering if self.delta_bytes > buffer_bytes / 4 => {
                self.relief = Relief::Merging;
                Ok(0)
            }
            _ => {
                self.relief = Relief::None;
                Ok(0)
            }
        }
    }

    /// A partition that does not let the last log go.
    fn place_in_last_log(&self) -> Option<usize> {
        let (generation, _) = self.log.end();
        let holds = |partition: &Partition| {
            !partition.delta.is_empty() && partition.log_from.0 < generation
        };
        self.last_log
            .as_ref()
            .and_then(|_| self.partitions.iter().position(holds))
    }

    fn answer(
        &mut self,
        place: usize,
        asked: &mut Vec<Asked>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), SeenError> {
        let partition = &mut self.partitions[place];
        if partition.questions.is_empty() {
            return Ok(());
        }
        let questions = partition.questions.bytes();
        let delta = partition.delta.bytes();
        let logged = partition.delta.unlogged().is_empty();
        partition.answer(asked, &mut self.window, &mut self.allowance, answers)?;
        if logged && !partition.delta.unlogged().is_empty() {
            self.unlogged.push(place as u16);
        }
        self.question_bytes -= questions;
        self.delta_bytes += partition.delta.bytes() - delta;
        self.questions_max = self
            .partitions
            .iter()
            .map(|partition| partition.questions.len())
            .max()
            .unwrap_or(0);
        Ok(())
    }

    /// Merges what became known in a partition into its runs; gives how many URLs were written. Its
    /// questions are answered first, so that no filter is made anew while a question waits.
    fn merge(
        &mut self,
        place: usize,
        asked: &mut Vec<Asked>,
        answers: &mut Vec<Answer>,
    ) -> Result<u64, SeenError> {
        self.answer(place, asked, answers)?;
        let partition = &mut self.partitions[place];
        if partition.delta.is_empty() {
            return Ok(0);
        }
        let before = partition.delta.bytes();
        let generation = self.next_generation;
        let sizes = self.filter_sizes;
        let allowance = &mut self.allowance;
        let urls = partition.merge(&self.folder, generation, sizes, allowance, &mut self.unused)?;
        partition.log_from = self.log.end();
        self.next_generation += 1;
        self.delta_bytes -= before;
        self.runs_changed = true;
        Ok(urls)
    }

    /// What is logged from now on goes to a new log; the last one is kept while deltas have keys in
    /// it.
    fn start_log(&mut self) -> Result<(), SeenError> {
        let log = Log::create(&self.folder, self.next_generation)?;
        self.next_generation += 1;
        for partition in self
            .partitions
            .iter_mut()
            .filter(|partition| partition.delta.is_empty())
        {
            partition.log_from = log.end();
        }
        self.last_log = Some(std::mem::replace(&mut self.log, log));
        self.runs_changed = true;
        Ok(())
    }

    /// A log of what the deltas hold takes the place of the logs. It is no longer than the buffer
    /// is large.
    fn start_log_anew(&mut self) -> Result<(), SeenError> {
        let last = self.last_log.take();
        self.start_log()?;
        self.unused.extend(
            last.into_iter()
                .chain(self.last_log.take())
                .map(|log| log.name()),
        );
        let end = self.log.end();
        for partition in &mut self.partitions {
            partition.log_from = end;
            partition.delta.set_unlogged();
        }
        self.unlogged = (0..).take(self.partitions.len()).collect();
        self.log_has_forgotten = false;
        Ok(())
    }

    fn write_state(&mut self) -> Result<Option<Vec<u8>>, SeenError> {
        if self.log_has_forgotten {
            self.start_log_anew()?;
        }
        let before = self.log.length();
        for place in self.unlogged.drain(..) {
            let partition = &mut self.partitions[usize::from(place)];
            // None are left when they were merged meanwhile.
            if !partition.delta.unlogged().is_empty() {
                self.log.add(partition.number, partition.delta.unlogged());
                partition.delta.set_logged();
                self.log.write_long(&self.folder)?;
            }
        }
        self.log.write(&self.folder)?;
        if self.log.length() == before && !self.runs_changed {
            return Ok(None);
        }
        if self.runs_changed {
            let entries: Vec<_> = self.partitions.iter().map(Partition::entry).collect();
            let (sum, bytes) = manifest::write(&self.folder, self.next_generation, &entries)?;
            let last = self.manifest.replace((self.next_generation, sum, bytes));
            self.unused
                .extend(last.map(|(generation, ..)| Name::Manifest { generation }));
            self.next_generation += 1;
            self.runs_changed = false;
        }
        self.removable.append(&mut self.unused);
        let manifest = self.manifest.map(|(generation, sum, _)| (generation, sum));
        let state = State {
            manifest,
            log: self.log.end(),
            last_log: self.last_log.as_ref().map(Log::end),
        };
        Ok(Some(state.to_bytes()))
    }
}

impl SeenStore for Sieve {
    fn ask(
        &mut self,
        now: Timestamp,
        partition: u16,
        host: u64,
        url: u64,
        token: u64,
    ) -> Result<Novelty, SeenError> {
        if self.stopped {
            return Err(SeenError::Stopped);
        }
        let place = self
            .places
            .of(partition)
            .ok_or(SeenError::Partition(partition))?;
        let partition = &mut self.partitions[place];
        let key = (host, url);
        if !partition.may_know(key) {
            let before = partition.delta.bytes();
            if partition.delta.unlogged().is_empty() {
                self.unlogged.push(place as u16);
            }
            partition.learn(key, &mut self.allowance);
            self.delta_bytes += partition.delta.bytes() - before;
            return Ok(Novelty::New);
        }
        if partition.delta.contains(key) {
            return Ok(Novelty::Repeated);
        }
        let before = partition.questions.bytes();
        partition.questions.push(now, Question { key, token });
        self.question_bytes += partition.questions.bytes() - before;
        self.questions_max = self.questions_max.max(partition.questions.len());
        self.oldest.get_or_insert(now);
        Ok(Novelty::Later)
    }

    fn knows(&self, partition: u16, host: u64, url: u64) -> Result<bool, SeenError> {
        let place = self
            .places
            .of(partition)
            .ok_or(SeenError::Partition(partition))?;
        self.partitions[place].knows((host, url))
    }

    /// At once when the buffer is full or the log too long, and as long as either is being dealt
    /// with or filters are being filled.
    fn flush_at(&self) -> Option<Timestamp> {
        let busy =
            self.relief != Relief::None || self.last_log.is_some() || !self.unfiltered.is_empty();
        if busy || self.is_full() || self.log_is_long() {
            return Some(Timestamp::ZERO);
        }
        self.oldest.map(|oldest| oldest + self.settings.flush_after)
    }

    /// When the buffer is full, also questions of other partitions are answered, those with the
    /// most first, and, if what became known takes much of it, that is merged into the runs.
    fn flush(
        &mut self,
        now: Timestamp,
        all: bool,
        answers: &mut Vec<Answer>,
    ) -> Result<(), SeenError> {
        self.guarded(|sieve| sieve.flush_due(now, all, answers))
    }

    fn stage(&mut self) -> Result<Option<Vec<u8>>, SeenError> {
        self.guarded(Sieve::write_state)
    }

    fn committed(&mut self) -> Result<(), SeenError> {
        self.guarded(|sieve| {
            sieve
                .removable
                .drain(..)
                .try_for_each(|name| sieve.folder.remove(name))
        })
    }

    fn is_idle(&self) -> bool {
        self.oldest.is_none()
    }

    /// Memory for the partition's delta, sorted.
    fn copy(&mut self, partition: u16) -> Result<Box<dyn CopiedKeys>, SeenError> {
        Ok(match self.places.of(partition) {
            Some(place) => Box::new(self.partitions[place].copy()),
            None => Box::new(Vec::new()),
        })
    }

    fn visit(&self, partition: u16, visit: &mut VisitKey<'_>) -> Result<(), SeenError> {
        self.places
            .of(partition)
            .map_or(Ok(()), |place| self.partitions[place].now().visit(visit))
    }

    fn take_later(&mut self, partition: u16) -> Vec<Key> {
        self.places
            .of(partition)
            .map(|place| self.partitions[place].take_later())
            .unwrap_or_default()
    }

    fn importer(&mut self, partition: u16) -> Result<Import, SeenError> {
        self.guarded(|sieve| {
            let generation = sieve.next_generation;
            sieve.next_generation += 1;
            Ok(Import::begin(
                partition,
                Base::Run(RunWriter::create(&sieve.folder, partition, generation)?),
            ))
        })
    }

    /// The filters of the partition are filled as after a start; until then questions wait for the
    /// run.
    fn import(&mut self, import: Import) -> Result<(), SeenError> {
        let (partition, base, later) = import.end()?;
        let Base::Run(writer) = base else {
            return Err(SeenError::Unordered(partition));
        };
        self.guarded(|sieve| writer.finish().map(|run| sieve.take_over(run, &later)))
    }

    fn serve(&mut self, partitions: &[u16]) {
        let Settings {
            filter_urls,
            filter_bytes_max,
            ..
        } = self.settings;
        self.filter_sizes = FilterSizes::of(filter_urls, filter_bytes_max, partitions.len());
        for &number in partitions {
            if self.places.of(number).is_none() {
                self.places.add(number);
                self.partitions.push(Partition::new(
                    number,
                    self.filter_sizes,
                    &mut self.allowance,
                ));
            }
        }
    }

    fn give_up_questions(&mut self) {
        self.partitions
            .iter_mut()
            .for_each(|partition| _ = partition.questions.take());
        (self.question_bytes, self.questions_max, self.oldest) = (0, 0, None);
    }

    fn forget(&mut self, partition: u16) -> Result<(), SeenError> {
        if let Some(place) = self.places.of(partition) {
            self.take_out(place);
            self.log_has_forgotten = true;
        }
        Ok(())
    }

    fn halve(&mut self, split: &Split) -> Result<(), SeenError> {
        let place = self.places.of(split.partition);
        place.map_or(Ok(()), |place| {
            self.guarded(|sieve| sieve.take_apart(place, split))
        })
    }

    fn known(&self, partition: u16) -> u64 {
        self.places
            .of(partition)
            .map_or(0, |place| self.partitions[place].known())
    }

    fn bytes(&self, partition: u16) -> u64 {
        self.places
            .of(partition)
            .map_or(0, |place| self.partitions[place].disk_bytes())
    }

    /// Filters, buffer, indexes of the runs. While a flush merges, up to 1 MiB more, and 24 bytes
    /// for each question of the largest partition; the latter count as part of the buffer.
    fn memory_bytes(&self) -> usize {
        let indexes: usize = self.partitions.iter().map(Partition::index_bytes).sum();
        self.allowance.used + self.question_bytes + self.delta_bytes + indexes + self.window.bytes()
    }

    fn disk_bytes(&self) -> u64 {
        let runs: u64 = self.partitions.iter().map(Partition::disk_bytes).sum();
        let logs = self.log.length() + self.last_log.as_ref().map_or(0, Log::length);
        runs + logs + self.manifest.map_or(0, |(_, _, bytes)| bytes)
    }
}

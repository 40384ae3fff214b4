//! The memory store: all fingerprints in memory, every question answered at once.
//!
//! A URL is known by its fingerprint alone: that covers the whole canonical URL, the host too. All
//! partitions share one table; the log alone tells them apart, so that the sieve can go on from it
//! and a partition can be taken out of it.
//!
//! Invariant: the table holds what the log holds and what is not logged yet; until the store is
//! opened anew also what was forgotten, which no question is about. The log grows with the crawl,
//! by 16 bytes a URL and 16 for each partition in a commit, and is replayed at the start. It is
//! written anew when a partition is forgotten.
//!
//! Source: Broder, Najork and Wiener 2003 (a crawl whose URL-seen test is in memory).

mod table;

use self::table::Table;
use super::error::SeenError;
use super::folder::{Folder, Name};
use super::import::{Base, Import};
use super::log::Log;
use super::state::State;
use super::{Answer, CopiedKeys, Key, Novelty, SeenStore, VisitKey};
use rhumb_partition::Split;
use rhumb_url::time::Timestamp;
use std::collections::HashSet;

/// URLs that are put into the table together when it is filled: 32 MiB of fingerprints, some in
/// each region.
const FILLED_TOGETHER: usize = if cfg!(test) { 100 } else { 1 << 22 };

/// Room for so many URLs of a partition is kept from commit to commit.
const UNLOGGED_KEPT: usize = 1 << 12;

/// Returns the memory of a memory store that knows `urls` URLs, in bytes: on average, when there
/// are many.
pub fn memory_store_bytes(urls: u64) -> u64 {
    table::bytes_of(urls)
}

/// A partition of the store.
#[derive(Default)]
struct Partition {
    known: u64,
    /// What became known and is not in the log.
    unlogged: Vec<Key>,
    /// What became known since a copy of the partition began.
    later: Option<Vec<Key>>,
}

/// The URL-seen store in memory.
pub(super) struct Memory {
    table: Table,
    /// The partitions, by number; none for a partition without questions.
    partitions: Vec<Option<Partition>>,
    /// Numbers of the partitions with keys that are not in the log.
    unlogged: Vec<u16>,
    folder: Folder,
    log: Log,
    /// Partitions whose records in the log count no more.
    forgotten: HashSet<u16>,
    /// Logs that the state does not name any more, but what is committed may.
    unused: Vec<Name>,
    /// Those of them that what is staged does not name either.
    removable: Vec<Name>,
}

impl Memory {
    /// Opens a store: reads the log.
    pub(super) fn open(
        folder: Folder,
        asked_for: &[u16],
        state: Option<State>,
    ) -> Result<Memory, SeenError> {
        if state.is_some_and(|state| state.manifest.is_some()) {
            return Err(SeenError::Runs {
                folder: folder.path().display().to_string(),
            });
        }
        let mut table = Filling::new();
        let mut partitions: Vec<Option<Partition>> = Vec::new();
        for &number in asked_for {
            partition_of(&mut partitions, number);
        }
        let mut replay = |_, number, keys: &[Key]| {
            partition_of(&mut partitions, number).known += keys.len() as u64;
            table.add(keys);
            Ok(())
        };
        let log = match state {
            None => {
                folder.remove_all_but(&HashSet::new())?;
                Log::create(&folder, 1)?
            }
            Some(state) => {
                let (generation, length) = state.log;
                let log = Log::open(&folder, generation, length, &mut replay)?;
                folder.remove_all_but(&HashSet::from([log.name()]))?;
                log
            }
        };
        let table = table.finish();
        let unlogged = Vec::new();
        let (forgotten, unused, removable) = Default::default();
        Ok(Memory {
            table,
            partitions,
            unlogged,
            folder,
            log,
            forgotten,
            unused,
            removable,
        })
    }

    /// A log without the forgotten partitions, and with the halves of one that was split in its
    /// place, takes the place of the log.
    fn start_log_anew(&mut self, split: Option<&Split>) -> Result<(), SeenError> {
        let Memory {
            folder,
            log,
            forgotten,
            ..
        } = self;
        let mut anew = Log::create(folder, log.end().0 + 1)?;
        log.visit(folder, &mut |_, number, keys| {
            if let Some(split) = split.filter(|split| split.partition == number) {
                for (half, keys) in halves(split, keys)
                    .into_iter()
                    .filter(|(_, keys)| !keys.is_empty())
                {
                    partition_of(&mut self.partitions, half).known += keys.len() as u64;
                    anew.add(half, &keys);
                }
            } else if !forgotten.contains(&number) {
                anew.add(number, keys);
            }
            anew.write_long(folder)
        })?;
        anew.write(folder)?;
        self.unused.push(std::mem::replace(log, anew).name());
        self.forgotten.clear();
        Ok(())
    }

    /// What is known in a partition, in order.
    fn keys(&self, partition: u16) -> Result<Vec<Key>, SeenError> {
        let of = self
            .partitions
            .get(usize::from(partition))
            .and_then(Option::as_ref);
        let mut keys = of.map(|of| of.unlogged.clone()).unwrap_or_default();
        self.log.visit(&self.folder, &mut |_, number, some| {
            keys.extend(some.iter().filter(|_| number == partition && of.is_some()));
            Ok(())
        })?;
        keys.sort_unstable();
        debug_assert!(keys.is_sorted_by(|a, b| a < b), "P4: a URL is new once");
        Ok(keys)
    }

    /// The table of all that is known: nothing can be taken out of one.
    fn table_anew(&self) -> Result<Table, SeenError> {
        let mut table = Filling::new();
        self.partitions
            .iter()
            .flatten()
            .for_each(|partition| table.add(&partition.unlogged));
        self.log.visit(&self.folder, &mut |_, _, keys| {
            table.add(keys);
            Ok(())
        })?;
        Ok(table.finish())
    }
}

/// A table that is being filled.
struct Filling {
    table: Table,
    /// Not put into it yet.
    urls: Vec<u64>,
}

impl Filling {
    fn new() -> Self {
        Filling {
            table: Table::new(),
            urls: Vec::new(),
        }
    }

    fn add(&mut self, keys: &[Key]) {
        self.urls.extend(keys.iter().map(|(_, url)| *url));
        if self.urls.len() >= FILLED_TOGETHER {
            self.table.insert_all(&mut self.urls);
        }
    }

    fn finish(mut self) -> Table {
        self.table.insert_all(&mut self.urls);
        self.table
    }
}

/// Keys of a partition that was split, by its halves.
fn halves(split: &Split, keys: &[Key]) -> [(u16, Vec<Key>); 2] {
    let [(lower, hashes), (upper, _)] = &split.halves;
    let (of_lower, of_upper) = keys.iter().partition(|(host, _)| host <= hashes.end());
    [(*lower, of_lower), (*upper, of_upper)]
}

/// The partition of that number, made if there is none.
fn partition_of(partitions: &mut Vec<Option<Partition>>, number: u16) -> &mut Partition {
    if partitions.len() <= usize::from(number) {
        partitions.resize_with(usize::from(number) + 1, || None);
    }
    partitions[usize::from(number)].get_or_insert_default()
}

impl SeenStore for Memory {
    fn ask(
        &mut self,
        _: Timestamp,
        partition: u16,
        host: u64,
        url: u64,
        _: u64,
    ) -> Result<Novelty, SeenError> {
        let of = self
            .partitions
            .get_mut(usize::from(partition))
            .and_then(Option::as_mut);
        let of = of.ok_or(SeenError::Partition(partition))?;
        if !self.table.insert(url) {
            return Ok(Novelty::Repeated);
        }
        of.known += 1;
        if of.unlogged.is_empty() {
            self.unlogged.push(partition);
        }
        of.unlogged.push((host, url));
        of.later
            .iter_mut()
            .for_each(|later| later.push((host, url)));
        Ok(Novelty::New)
    }

    fn knows(&self, partition: u16, _: u64, url: u64) -> Result<bool, SeenError> {
        let of = self
            .partitions
            .get(usize::from(partition))
            .and_then(Option::as_ref);
        of.map(|_| self.table.knows(url))
            .ok_or(SeenError::Partition(partition))
    }

    fn flush_at(&self) -> Option<Timestamp> {
        None
    }

    fn flush(&mut self, _: Timestamp, _: bool, _: &mut Vec<Answer>) -> Result<(), SeenError> {
        Ok(())
    }

    fn stage(&mut self) -> Result<Option<Vec<u8>>, SeenError> {
        if !self.forgotten.is_empty() {
            self.start_log_anew(None)?;
        }
        if self.unlogged.is_empty() && self.unused.is_empty() {
            return Ok(None);
        }
        self.removable.append(&mut self.unused);
        for number in self.unlogged.drain(..) {
            if let Some(partition) = &mut self.partitions[usize::from(number)] {
                self.log.add(number, &partition.unlogged);
                partition.unlogged.clear();
                // Many are rare: those of an import.
                partition.unlogged.shrink_to(UNLOGGED_KEPT);
                self.log.write_long(&self.folder)?;
            }
        }
        self.log.write(&self.folder)?;
        Ok(Some(
            State {
                manifest: None,
                log: self.log.end(),
                last_log: None,
            }
            .to_bytes(),
        ))
    }

    fn committed(&mut self) -> Result<(), SeenError> {
        self.removable
            .drain(..)
            .try_for_each(|name| self.folder.remove(name))
    }

    fn is_idle(&self) -> bool {
        true
    }

    /// A pass over the log; memory for the keys of the partition.
    fn copy(&mut self, partition: u16) -> Result<Box<dyn CopiedKeys>, SeenError> {
        let of = self
            .partitions
            .get_mut(usize::from(partition))
            .and_then(Option::as_mut);
        let Some(of) = of else {
            return Ok(Box::new(Vec::new()));
        };
        of.later = Some(Vec::new());
        Ok(Box::new(self.keys(partition)?))
    }

    fn visit(&self, partition: u16, visit: &mut VisitKey<'_>) -> Result<(), SeenError> {
        self.keys(partition)?.visit(visit)
    }

    fn take_later(&mut self, partition: u16) -> Vec<Key> {
        let of = self
            .partitions
            .get_mut(usize::from(partition))
            .and_then(Option::as_mut);
        of.and_then(|of| of.later.take()).unwrap_or_default()
    }

    fn importer(&mut self, partition: u16) -> Result<Import, SeenError> {
        Ok(Import::begin(partition, Base::Keys(Vec::new())))
    }

    /// The keys are logged with the next commit.
    fn import(&mut self, import: Import) -> Result<(), SeenError> {
        let (partition, base, later) = import.end()?;
        let Base::Keys(mut keys) = base else {
            return Err(SeenError::Unordered(partition));
        };
        keys.extend(later);
        if self.known(partition) > 0 {
            self.forget(partition)?;
        }
        if self.forgotten.contains(&partition) {
            self.start_log_anew(None)?;
            self.table = self.table_anew()?;
        }
        self.table
            .insert_all(&mut keys.iter().map(|(_, url)| *url).collect());
        self.unlogged.push(partition);
        let of = Partition {
            known: keys.len() as u64,
            unlogged: keys,
            later: None,
        };
        *partition_of(&mut self.partitions, partition) = of;
        Ok(())
    }

    fn serve(&mut self, partitions: &[u16]) {
        partitions
            .iter()
            .for_each(|&number| _ = partition_of(&mut self.partitions, number));
    }

    fn give_up_questions(&mut self) {}

    /// What is in the table stays there until the store is opened anew.
    fn forget(&mut self, partition: u16) -> Result<(), SeenError> {
        let of = self
            .partitions
            .get_mut(usize::from(partition))
            .and_then(Option::take);
        if of.is_some() {
            self.forgotten.insert(partition);
        }
        Ok(())
    }

    /// The table knows URLs by themselves: only the log is written anew.
    fn halve(&mut self, split: &Split) -> Result<(), SeenError> {
        let of = self
            .partitions
            .get_mut(usize::from(split.partition))
            .and_then(Option::take);
        let Some(of) = of else { return Ok(()) };
        self.unlogged.retain(|number| *number != split.partition);
        for (half, keys) in halves(split, &of.unlogged) {
            if !keys.is_empty() {
                self.unlogged.push(half);
            }
            *partition_of(&mut self.partitions, half) = Partition {
                known: keys.len() as u64,
                unlogged: keys,
                later: None,
            };
        }
        self.start_log_anew(Some(split))
    }

    fn known(&self, partition: u16) -> u64 {
        self.partitions
            .get(usize::from(partition))
            .and_then(Option::as_ref)
            .map_or(0, |partition| partition.known)
    }

    fn bytes(&self, partition: u16) -> u64 {
        self.known(partition) * size_of::<Key>() as u64
    }

    fn memory_bytes(&self) -> usize {
        let unlogged: usize = self
            .partitions
            .iter()
            .flatten()
            .map(|partition| partition.unlogged.capacity())
            .sum();
        self.table.bytes() + unlogged * size_of::<Key>()
    }

    fn disk_bytes(&self) -> u64 {
        self.log.length()
    }
}

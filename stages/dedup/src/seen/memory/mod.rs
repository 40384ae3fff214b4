//! The memory store: all fingerprints in memory, every question answered at once.
//!
//! A URL is known by its fingerprint alone: that covers the whole canonical URL, the host too. All partitions share
//! one table; the log alone tells them apart, so that the sieve can go on from it and a partition can be taken out
//! of it.
//!
//! Invariant: the table holds what the log holds and what is not logged yet. The log grows with the crawl, by 16
//! bytes a URL and 16 for each partition in a commit, and is replayed at the start.
//!
//! Source: Broder, Najork and Wiener 2003 (a crawl whose URL-seen test is in memory).

mod table;

use self::table::Table;
use super::error::SeenError;
use super::folder::Folder;
use super::log::Log;
use super::state::State;
use super::{Answer, Key, Novelty, SeenStore};
use shared::time::Timestamp;
use std::collections::HashSet;

/// URLs that are put into the table together when the log is replayed: 32 MiB of fingerprints, some in each region.
const REPLAYED_TOGETHER: usize = if cfg!(test) { 100 } else { 1 << 22 };

/// Returns the memory of a memory store that knows `urls` URLs, in bytes: on average, when there are many.
pub fn memory_store_bytes(urls: u64) -> u64 {
    table::bytes_of(urls)
}

/// A partition of the store.
#[derive(Default)]
struct Partition {
    known: u64,
    /// What became known and is not in the log.
    unlogged: Vec<Key>,
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
}

impl Memory {
    /// Opens a store: reads the log.
    pub(super) fn open(folder: Folder, asked_for: &[u16], state: Option<State>) -> Result<Memory, SeenError> {
        if state.is_some_and(|state| state.manifest.is_some()) {
            return Err(SeenError::Runs { folder: folder.path().display().to_string() });
        }
        let mut table = Table::new();
        let mut partitions: Vec<Option<Partition>> = Vec::new();
        for &number in asked_for {
            partition_of(&mut partitions, number);
        }
        let mut urls = Vec::new();
        let mut replay = |_, number, keys: &[Key]| {
            partition_of(&mut partitions, number).known += keys.len() as u64;
            urls.extend(keys.iter().map(|(_, url)| *url));
            if urls.len() >= REPLAYED_TOGETHER {
                table.insert_all(&mut urls);
            }
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
        table.insert_all(&mut urls);
        Ok(Memory { table, partitions, unlogged: Vec::new(), folder, log })
    }
}

/// The partition of that number, made if there is none.
fn partition_of(partitions: &mut Vec<Option<Partition>>, number: u16) -> &mut Partition {
    if partitions.len() <= usize::from(number) {
        partitions.resize_with(usize::from(number) + 1, || None);
    }
    partitions[usize::from(number)].get_or_insert_default()
}

impl SeenStore for Memory {
    fn ask(&mut self, _: Timestamp, partition: u16, host: u64, url: u64, _: u64) -> Result<Novelty, SeenError> {
        let of = self.partitions.get_mut(usize::from(partition)).and_then(Option::as_mut);
        let of = of.ok_or(SeenError::Partition(partition))?;
        if !self.table.insert(url) {
            return Ok(Novelty::Repeated);
        }
        of.known += 1;
        if of.unlogged.is_empty() {
            self.unlogged.push(partition);
        }
        of.unlogged.push((host, url));
        Ok(Novelty::New)
    }

    fn knows(&self, partition: u16, _: u64, url: u64) -> Result<bool, SeenError> {
        let of = self.partitions.get(usize::from(partition)).and_then(Option::as_ref);
        of.map(|_| self.table.knows(url)).ok_or(SeenError::Partition(partition))
    }

    fn flush_at(&self) -> Option<Timestamp> {
        None
    }

    fn flush(&mut self, _: Timestamp, _: bool, _: &mut Vec<Answer>) -> Result<(), SeenError> {
        Ok(())
    }

    fn stage(&mut self) -> Result<Option<Vec<u8>>, SeenError> {
        if self.unlogged.is_empty() {
            return Ok(None);
        }
        for number in self.unlogged.drain(..) {
            if let Some(partition) = &mut self.partitions[usize::from(number)] {
                self.log.add(number, &partition.unlogged);
                partition.unlogged.clear();
            }
        }
        self.log.write(&self.folder)?;
        Ok(Some(State { manifest: None, log: self.log.end(), last_log: None }.to_bytes()))
    }

    fn committed(&mut self) -> Result<(), SeenError> {
        Ok(())
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn known(&self, partition: u16) -> u64 {
        self.partitions.get(usize::from(partition)).and_then(Option::as_ref).map_or(0, |partition| partition.known)
    }

    fn memory_bytes(&self) -> usize {
        let unlogged: usize = self.partitions.iter().flatten().map(|partition| partition.unlogged.capacity()).sum();
        self.table.bytes() + unlogged * size_of::<Key>()
    }

    fn disk_bytes(&self) -> u64 {
        self.log.length()
    }
}

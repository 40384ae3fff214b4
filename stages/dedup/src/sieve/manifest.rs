//! What is committed: a few bytes that name a manifest and a log, and the manifest, which names the runs.
//!
//! ```text
//! state     = version (4)  0 (4)  manifest's generation or 0 (8)  manifest's checksum (8)
//!             log's generation (8)  log's length (8)  last log's generation or 0 (8)  last log's length (8)
//!             checksum of all before it (8)
//! manifest  = version (4)  partitions (4)
//!             (partition (2)  0 (6)  log's generation (8)  place in the log (8)  old run  young run)*
//!             checksum of all before it (8)
//! run       = generation or 0 (8)  URLs (8)  bytes (8)
//! ```
//! The state is committed with every step and the runs change rarely, so they are named in a file of their own. A
//! manifest is written anew, under a new name, when a run changes.
//!
//! A partition's log and the place in it: the first whose records are not in the partition's runs.

use super::error::SieveError;
use super::folder::{Folder, Name, number};
use super::log::Place;
use super::run::RunRef;
use xxhash_rust::xxh3::xxh3_64;

const VERSION: u32 = 1;
const STATE_BYTES: usize = 64;
const HEADER_BYTES: usize = 8;
const ENTRY_BYTES: usize = 72;
const CHECKSUM_BYTES: usize = 8;
/// A manifest of all partitions there can be.
const BYTES_MAX: u64 = (HEADER_BYTES + CHECKSUM_BYTES + ENTRY_BYTES * (1 << 16)) as u64;

/// What the caller commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Generation and checksum of the manifest; none before the first merge.
    pub(super) manifest: Option<(u64, u64)>,
    /// End of the log that is appended to.
    pub(super) log: Place,
    /// End of the one before it, as long as not all that it holds is in runs.
    pub(super) last_log: Option<Place>,
}

impl State {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let (generation, sum) = self.manifest.unwrap_or((0, 0));
        let (log, last) = (self.log, self.last_log.unwrap_or((0, 0)));
        let numbers = [u64::from(VERSION), generation, sum, log.0, log.1, last.0, last.1];
        with_checksum(numbers.into_iter().flat_map(u64::to_le_bytes).collect())
    }

    /// Says what is wrong with the bytes, if they are none that were made here.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, &'static str> {
        let numbers: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let version = numbers.first().copied();
        if version.is_some_and(|version| version != u64::from(VERSION)) {
            return Err("its version is unknown");
        }
        if bytes.len() != STATE_BYTES || !checksum_fits(bytes) {
            return Err("its checksum is wrong");
        }
        let &[_, generation, sum, log, log_length, last, last_length, _] = numbers.as_slice() else {
            return Err("its length is wrong");
        };
        let some = |generation, number| (generation != 0).then_some((generation, number));
        Ok(State { manifest: some(generation, sum), log: (log, log_length), last_log: some(last, last_length) })
    }
}

/// What the manifest says of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) partition: u16,
    pub(super) log_from: Place,
    pub(super) old: Option<RunRef>,
    pub(super) young: Option<RunRef>,
}

/// Writes a manifest; gives its checksum and its length.
pub(super) fn write(folder: &Folder, generation: u64, entries: &[Entry]) -> Result<(u64, u64), SieveError> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES + CHECKSUM_BYTES);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for entry in entries {
        let numbers = [u64::from(entry.partition), entry.log_from.0, entry.log_from.1];
        let runs = [entry.old, entry.young]
            .into_iter()
            .flat_map(|run| run.map_or([0; 3], |RunRef { generation, urls, bytes }| [generation, urls, bytes]));
        bytes.extend(numbers.into_iter().chain(runs).flat_map(u64::to_le_bytes));
    }
    let bytes = with_checksum(bytes);
    let file = folder.create(Name::Manifest { generation })?;
    folder.write(&file, 0, &bytes)?;
    folder.finish(&file)?;
    Ok((xxh3_64(&bytes), bytes.len() as u64))
}

/// Reads a manifest; gives its entries and its length.
pub(super) fn read(folder: &Folder, generation: u64, sum: u64) -> Result<(Vec<Entry>, u64), SieveError> {
    let name = Name::Manifest { generation };
    let bytes = folder.read_all(name, BYTES_MAX)?;
    let wrong = || SieveError::damaged(&folder.path_of(name), "it is not as it was written");
    if xxh3_64(&bytes) != sum || number(&bytes, 0).map(u32::from_le_bytes) != Some(VERSION) {
        return Err(wrong());
    }
    let entries = bytes.get(HEADER_BYTES..bytes.len() - CHECKSUM_BYTES).ok_or_else(wrong)?;
    let entries = entries.as_chunks::<ENTRY_BYTES>().0.iter().map(|entry| {
        let at = |place: usize| number(entry, place * 8).map_or(0, u64::from_le_bytes);
        let run = |place: usize| {
            let run = RunRef { generation: at(place), urls: at(place + 1), bytes: at(place + 2) };
            (run.generation != 0).then_some(run)
        };
        Entry { partition: at(0) as u16, log_from: (at(1), at(2)), old: run(3), young: run(6) }
    });
    Ok((entries.collect(), bytes.len() as u64))
}

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = xxh3_64(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

fn checksum_fits(bytes: &[u8]) -> bool {
    bytes.split_last_chunk::<CHECKSUM_BYTES>().is_some_and(|(rest, sum)| xxh3_64(rest).to_le_bytes() == *sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_and_every_changed_byte_is_noticed() {
        for manifest in [None, Some((7, u64::MAX))] {
            let state = State { manifest, log: (3, u64::MAX), last_log: manifest };
            let bytes = state.to_bytes();
            assert_eq!(State::from_bytes(&bytes), Ok(state));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert!(State::from_bytes(&damaged).is_err());
                assert!(State::from_bytes(&bytes[..at]).is_err());
            }
        }
    }
}

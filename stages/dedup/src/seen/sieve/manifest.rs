//! The manifest: which runs there are.
//!
//! ```text
//! manifest  = version (4)  partitions (4)
//!             (partition (2)  0 (6)  log's generation (8)  place in the log (8)  old run  young run)*
//!             checksum of all before it (8)
//! run       = generation or 0 (8)  URLs (8)  bytes (8)
//! ```
//! It is written anew, under a new name, when a run changes; the committed state names it.
//!
//! A partition's log and the place in it: the first whose records are not in the partition's runs.

use super::run::RunRef;
use crate::seen::error::SeenError;
use crate::seen::folder::{Folder, Name, number};
use crate::seen::log::LogPosition;
use crate::seen::state::with_checksum;
use xxhash_rust::xxh3::xxh3_64;

const VERSION: u32 = 1;
const HEADER_BYTES: usize = 8;
const ENTRY_BYTES: usize = 72;
const CHECKSUM_BYTES: usize = 8;
/// A manifest of all partitions there can be.
const BYTES_MAX: u64 = (HEADER_BYTES + CHECKSUM_BYTES + ENTRY_BYTES * (1 << 16)) as u64;

/// What the manifest says of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) partition: u16,
    pub(super) log_from: LogPosition,
    pub(super) old: Option<RunRef>,
    pub(super) young: Option<RunRef>,
}

/// Writes a manifest; gives its checksum and its length.
pub(super) fn write(
    folder: &Folder,
    generation: u64,
    entries: &[Entry],
) -> Result<(u64, u64), SeenError> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES + CHECKSUM_BYTES);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for entry in entries {
        let numbers = [
            u64::from(entry.partition),
            entry.log_from.0,
            entry.log_from.1,
        ];
        let runs = [entry.old, entry.young].into_iter().flat_map(|run| {
            run.map_or(
                [0; 3],
                |RunRef {
                     generation,
                     urls,
                     bytes,
                 }| [generation, urls, bytes],
            )
        });
        bytes.extend(numbers.into_iter().chain(runs).flat_map(u64::to_le_bytes));
    }
    let bytes = with_checksum(bytes);
    let file = folder.create(Name::Manifest { generation })?;
    folder.write(&file, 0, &bytes)?;
    folder.finish(&file)?;
    Ok((xxh3_64(&bytes), bytes.len() as u64))
}

/// Reads a manifest; gives its entries and its length.
pub(super) fn read(
    folder: &Folder,
    generation: u64,
    sum: u64,
) -> Result<(Vec<Entry>, u64), SeenError> {
    let name = Name::Manifest { generation };
    let bytes = folder.read_all(name, BYTES_MAX)?;
    let wrong = || SeenError::damaged(&folder.path_of(name), "it is not as it was written");
    if xxh3_64(&bytes) != sum || number(&bytes, 0).map(u32::from_le_bytes) != Some(VERSION) {
        return Err(wrong());
    }
    let entries = bytes
        .get(HEADER_BYTES..bytes.len() - CHECKSUM_BYTES)
        .ok_or_else(wrong)?;
    let entries = entries.as_chunks::<ENTRY_BYTES>().0.iter().map(|entry| {
        let at = |place: usize| number(entry, place * 8).map_or(0, u64::from_le_bytes);
        let run = |place: usize| {
            let run = RunRef {
                generation: at(place),
                urls: at(place + 1),
                bytes: at(place + 2),
            };
            (run.generation != 0).then_some(run)
        };
        Entry {
            partition: at(0) as u16,
            log_from: (at(1), at(2)),
            old: run(3),
            young: run(6),
        }
    });
    Ok((entries.collect(), bytes.len() as u64))
}

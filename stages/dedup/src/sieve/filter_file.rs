//! The filter of a partition in a file, so that a start need not make it from the runs.
//!
//! ```text
//! filters = checksum of the rest (8)  partition (8)  generation (8)  capacity (8)  held (8)  filter
//! ```
//! The file holds what the old run of the same generation holds. It is a copy of what the run says: when it is
//! missing or not as it was written, the filter is made from the run.

use super::error::SieveError;
use super::folder::{Folder, Name, number};
use crate::filters::{Allowance, Filters};
use xxhash_rust::xxh3::Xxh3;

const HEADER_BYTES: usize = 40;

/// Writes the filter; gives the length of the file.
pub(super) fn write(folder: &Folder, partition: u16, generation: u64, filters: &Filters) -> Result<u64, SieveError> {
    let Some((capacity, held, filter)) = filters.saved() else { return Ok(0) };
    let file = folder.create(Name::Filters { partition, generation })?;
    let numbers = [u64::from(partition), generation, capacity, held];
    let mut header: Vec<u8> = [0].into_iter().chain(numbers).flat_map(u64::to_le_bytes).collect();
    // The filter is large: it is written from where it is. Nothing waits for it to reach the disk.
    let sum = checksum(&header[8..], filter);
    header[..8].copy_from_slice(&sum.to_le_bytes());
    folder.write(&file, HEADER_BYTES as u64, filter)?;
    folder.write(&file, 0, &header)?;
    Ok((HEADER_BYTES + filter.len()) as u64)
}

/// Reads the filter, and the length of the file; none when there is no such file, or not as it was written, or
/// its filter is more than the allowance has left.
pub(super) fn read(
    folder: &Folder,
    partition: u16,
    generation: u64,
    allowance: &mut Allowance,
) -> Option<(Filters, u64)> {
    let left = allowance.max.saturating_sub(allowance.used) as u64;
    let mut bytes = folder.read_all(Name::Filters { partition, generation }, left.saturating_add(4096)).ok()?;
    let length = bytes.len() as u64;
    let filter = bytes.get(HEADER_BYTES..)?;
    let at = |place: usize| number(&bytes, place * 8).map(u64::from_le_bytes);
    let (partition_found, generation_found, capacity, held) = (at(1)?, at(2)?, at(3)?, at(4)?);
    if at(0)? != checksum(&bytes[8..HEADER_BYTES], filter) {
        return None;
    }
    if (partition_found, generation_found) != (u64::from(partition), generation) {
        return None;
    }
    bytes.drain(..HEADER_BYTES);
    Some((Filters::from_saved(capacity, held, bytes, allowance)?, length))
}

fn checksum(header: &[u8], filter: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(header);
    sum.update(filter);
    sum.digest()
}

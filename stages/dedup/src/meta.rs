//! The table of numbers, and its keys.
//!
//! Invariant: what belongs to a partition is a row of its own that begins with the partition, so
//! that it moves with it.

use rhumb_partition::Split;
use rhumb_stage::store::{Changes, Store, StoreError, Table};

/// Partition and kind of row → row; [`SEEN`] → the state of the URL-seen store of the instance.
pub(crate) const META: Table = "meta";
/// The serial number of the next new URL of a partition.
pub(crate) const SERIALS: u8 = b's';
/// The counts of a partition.
pub(crate) const COUNTS: u8 = b'c';
/// Longer than the key of a partition's row.
pub(crate) const SEEN: &[u8] = b"seen";
/// Earlier versions had one row of counts for the instance, and serial numbers under the partition
/// alone.
const COUNTS_EARLIER: &[u8] = b"counters";
const SERIALS_EARLIER_BYTES: usize = 2;

/// The key of a row of a partition: the partition, big-endian, and the kind.
pub(crate) fn key(partition: u16, kind: u8) -> [u8; 3] {
    let [high, low] = partition.to_be_bytes();
    [high, low, kind]
}

/// Gives the last serial number of a partition that was split: its halves count from 1, and it
/// keeps its counts. Nothing has to be changed.
///
/// # Errors
/// The store cannot be read, or the row is not understood.
pub fn last_serial(store: &dyn Store, split: &Split, _: &mut Changes) -> Result<u64, StoreError> {
    Ok(next_serial(store, split.partition)? - 1)
}

/// The serial number of the next new URL of a partition.
pub(crate) fn next_serial(store: &dyn Store, partition: u16) -> Result<u64, StoreError> {
    let next = match store.get(META, &key(partition, SERIALS))? {
        Some(row) => row.try_into().map(u64::from_le_bytes).ok(),
        None => Some(1),
    };
    next.filter(|&next| next > 0)
        .ok_or_else(|| of_another_version("its serials"))
}

/// An error when the table is one of an earlier version.
pub(crate) fn refuse_earlier(store: &dyn Store) -> Result<(), StoreError> {
    let mut is_earlier = false;
    store.scan(
        META,
        &[],
        &[u8::MAX; SERIALS_EARLIER_BYTES + 1],
        &mut |key, _| {
            is_earlier |= key == COUNTS_EARLIER || key.len() == SERIALS_EARLIER_BYTES;
            !is_earlier
        },
    )?;
    if is_earlier {
        Err(of_another_version("what was counted in each partition"))
    } else {
        Ok(())
    }
}

/// The state is one that this version of the program cannot go on from.
pub(crate) fn of_another_version(what: &str) -> StoreError {
    StoreError::Unusable(format!(
        "the state of the URL-seen test does not say {what} in a way that is understood; use the \
         version of the program that began the crawl, or delete the crawl"
    ))
}

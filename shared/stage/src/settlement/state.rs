//! The tables that the loop keeps in the store of every stateful stage, beside the stage's own.

use crate::store::{Changes, Store, StoreError, Table};

/// Epoch, positions in streams, and what is fixed for the life of the state.
pub const LOOP: Table = "loop";
/// The outbox: epoch and number → message.
pub const OUTBOX: Table = "outbox";

/// The keys of positions begin with this; the edge follows, and after a slash the partition of one
/// that has its own.
pub(super) const POSITION: &str = "position ";
/// Follows all of them.
pub(super) const POSITIONS_END: &str = "position!";
/// The keys of the versions under which partitions were used begin with this; the partition
/// follows.
pub const USED: &str = "used ";
/// Follows all of them.
const USED_END: &str = "used!";
/// The keys of how far streams stored what the stage published begin with this; the stream follows.
pub(super) const STORED: &str = "stored ";
/// Follows all of them.
pub(super) const STORED_END: &str = "stored!";
/// The key that says that messages of the streams were settled and are not counted.
pub(super) const UNCOUNTED: &str = "uncounted";

/// The epoch of the latest owner that began; 0 when none did.
///
/// # Errors
/// The store cannot be read.
pub fn stored_epoch(store: &dyn Store) -> Result<u64, StoreError> {
    Ok(store
        .get(LOOP, b"epoch")?
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_le_bytes))
}

/// The epoch of an owner that begins: 1 + the larger of the epoch stored with the state and
/// `others`, which is at least the lease's revision. It is stored before it is used.
///
/// # Errors
/// The store cannot be read or written.
pub fn next_epoch(store: &dyn Store, others: u64) -> Result<u64, StoreError> {
    let epoch = 1 + stored_epoch(store)?.max(others);
    let mut changes = Changes::default();
    changes.put(LOOP, *b"epoch", epoch.to_le_bytes());
    store.commit(&changes)?;
    Ok(epoch)
}

/// Adds to a commit that no message of any stream counts as applied, settled or stored, and no
/// partition as used: sequence numbers of a stream and versions of an ownership mean something
/// within one generation of the crawl.
///
/// # Errors
/// The store cannot be read.
pub fn forget_positions(store: &dyn Store, changes: &mut Changes) -> Result<(), StoreError> {
    changes.put(LOOP, UNCOUNTED, []);
    for (from, to) in [
        (POSITION, POSITIONS_END),
        (STORED, STORED_END),
        (USED, USED_END),
    ] {
        store.scan(LOOP, from.as_bytes(), to.as_bytes(), &mut |key, _| {
            changes.remove(LOOP, key);
            true
        })?;
    }
    Ok(())
}

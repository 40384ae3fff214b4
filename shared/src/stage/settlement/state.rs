//! The tables that the loop keeps in the store of every stateful stage, beside the stage's own.

use crate::stage::store::{Changes, Store, StoreError, Table};

/// Epoch, positions in streams, and what is fixed for the life of the state.
pub const LOOP: Table = "loop";
/// The outbox: epoch and number → message.
pub const OUTBOX: Table = "outbox";

/// The epoch of an owner that begins: 1 + the larger of the lease's revision and the epoch stored with the state. It is
/// stored before it is used.
///
/// # Errors
/// The store cannot be read or written.
pub fn next_epoch(store: &dyn Store, revision: u64) -> Result<u64, StoreError> {
    let stored = store.get(LOOP, b"epoch")?.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    let epoch = 1 + stored.max(revision);
    let mut changes = Changes::default();
    changes.put(LOOP, *b"epoch", epoch.to_le_bytes());
    store.commit(&changes)?;
    Ok(epoch)
}

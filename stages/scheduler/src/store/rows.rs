//! The store's rows as one step sees them: what those before it left, and its own changes.
//!
//! In: reads and changes of the step. Out: one list of changes, committed together with the step's
//! messages.
//!
//! Invariant: a read sees the step's own changes; a row that changes several times in a step is
//! written once.

use rhumb_stage::Output;
use rhumb_stage::store::{ChangedRows, Store, StoreError, Table, Visit};

/// The store, and what a step changes in it.
pub(crate) struct Rows<'a> {
    store: &'a dyn Store,
    changed: ChangedRows,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(store: &'a dyn Store) -> Self {
        Rows {
            store,
            changed: ChangedRows::default(),
        }
    }

    /// Writes a row.
    pub(crate) fn put(&mut self, table: Table, key: Vec<u8>, row: Vec<u8>) {
        self.changed.put(table, key, row);
    }

    /// Takes a row away.
    pub(crate) fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.changed.remove(table, key);
    }

    /// Reads a row as this step left it; none when there is none.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.changed.get(self.store, table, key)
    }

    /// Visits the rows from `from` (included) to `to` (not included) in order until `visit` returns
    /// false.
    pub(crate) fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        self.changed.scan(self.store, table, from, to, visit)
    }

    /// Hands the changes over.
    pub(crate) fn flush<E>(self, out: &mut Output<E>) {
        out.changes
            .entries
            .extend(self.changed.into_changes().entries);
    }
}

/// The error for a row that this program did not write, or that is gone. To go on would lose URLs
/// without a trace.
pub(crate) fn corrupt(table: Table, what: &str) -> StoreError {
    StoreError::Unusable(format!(
        "the scheduler's table '{table}' cannot be understood: {what}; use the version of the \
         program that wrote it, restore the stage's folder from a copy, or delete the crawl"
    ))
}

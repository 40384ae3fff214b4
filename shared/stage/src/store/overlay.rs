//! The store as the steps of a core read it: what is committed, and over it what the steps of the
//! batch under way have changed.
//!
//! ```text
//!  core ── reads ─▶ Overlay ─┬─▶ Uncommitted ◀─ adds a step's changes, takes all for a commit ── settlement
//!                            └─▶ the store, where that says nothing
//! ```
//! Invariants: whoever is no step of the core reads the store itself, and so what is committed;
//! nothing is committed through an overlay, and its snapshot is of what is committed.

use super::{ChangedRows, Changes, Store, StoreError, Table, Visit};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What the steps of the batch under way have changed.
#[derive(Debug, Default)]
pub struct Uncommitted {
    rows: RwLock<ChangedRows>,
}

impl Uncommitted {
    fn read(&self) -> RwLockReadGuard<'_, ChangedRows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, ChangedRows> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step changed these rows.
    pub fn add(&self, changes: Changes) {
        self.write().extend(changes);
    }

    /// All that the steps have changed, to be committed before the next one.
    pub fn take(&self) -> Changes {
        std::mem::take(&mut *self.write()).into_changes()
    }
}

/// The store that a core is opened with.
pub struct Overlay {
    store: Arc<dyn Store>,
    uncommitted: Arc<Uncommitted>,
}

impl Overlay {
    /// A store, and what is changed in it and not committed.
    pub fn new(store: Arc<dyn Store>, uncommitted: Arc<Uncommitted>) -> Self {
        Overlay { store, uncommitted }
    }
}

impl Store for Overlay {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let rows = self.uncommitted.read();
        rows.get(self.store.as_ref(), table, key)
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, StoreError> {
        let rows = self.uncommitted.read();
        rows.contains(self.store.as_ref(), table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        let rows = self.uncommitted.read();
        rows.scan(self.store.as_ref(), table, from, to, visit)
    }

    fn commit(&self, _: &Changes) -> Result<(), StoreError> {
        Err(StoreError::Unusable(
            "a core commits nothing: what its steps change is committed for it".to_owned(),
        ))
    }

    fn snapshot(&self) -> Arc<dyn Store> {
        self.store.snapshot()
    }
}

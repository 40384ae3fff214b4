//! State of a stage: ordered tables with atomic commits.
//!
//! `DiskStore` keeps it in one embedded database per instance, [`MemoryStore`] in a map for the
//! simulation. Keys start with the hash of the host that they belong to, or of the body, so that a
//! partition and each half of it is one sorted range of a table. What belongs to none has keys of
//! its own kind. A core reads it through an [`Overlay`]: its steps see what those before them
//! changed, committed or not.

mod changed_rows;
mod overlay;

pub use changed_rows::ChangedRows;
pub use overlay::{Overlay, Uncommitted};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A table's name.
pub type Table = &'static str;

/// The stage stops and says why.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot read or write. The stage goes on from its last commit when it is started
    /// again.
    #[error(
        "the store in {path} cannot {action}: {error}; free space or repair the disk, then start \
         the stage again: nothing that was committed is lost"
    )]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: String,
        /// Why it failed.
        error: String,
    },
    /// What is stored cannot be gone on from, however often the stage is started: what it is, and
    /// the way out.
    #[error("{0}")]
    Unusable(String),
}

/// Writes that are committed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Table, key, and the new value or none for a removal; later entries win.
    pub entries: Vec<(Table, Vec<u8>, Option<Vec<u8>>)>,
}

impl Changes {
    /// Sets a key.
    pub fn put(&mut self, table: Table, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.entries.push((table, key.into(), Some(value.into())));
    }

    /// Removes a key.
    pub fn remove(&mut self, table: Table, key: impl Into<Vec<u8>>) {
        self.entries.push((table, key.into(), None));
    }

    /// Returns whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Called with each key and value of a scan; false ends it.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> bool + 'a;

/// Ordered tables with atomic commits. Reads see what was committed.
pub trait Store: Send + Sync {
    /// The value of a key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    /// Returns whether a key is there.
    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, StoreError>;
    /// Visits the keys from `from` (included) to `to` (not included), in order.
    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError>;
    /// Writes all changes, or none.
    fn commit(&self, changes: &Changes) -> Result<(), StoreError>;
    /// All tables as they are now, to be read while others commit. Nothing can be committed there.
    fn snapshot(&self) -> Arc<dyn Store>;
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store in memory, for the simulation.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Mutex<BTreeMap<Table, Rows>>,
}

impl MemoryStore {
    fn with<R>(&self, use_tables: impl FnOnce(&mut BTreeMap<Table, Rows>) -> R) -> R {
        use_tables(
            &mut self
                .tables
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        )
    }
}

impl Store for MemoryStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.with(|tables| tables.get(table).and_then(|table| table.get(key).cloned())))
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, StoreError> {
        Ok(self.with(|tables| {
            tables
                .get(table)
                .is_some_and(|table| table.contains_key(key))
        }))
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        self.with(|tables| {
            if let Some(table) = tables.get(table) {
                for (key, value) in table.range(from.to_vec()..to.to_vec()) {
                    if !visit(key, value) {
                        break;
                    }
                }
            }
        });
        Ok(())
    }

    fn commit(&self, changes: &Changes) -> Result<(), StoreError> {
        self.with(|tables| {
            for (table, key, value) in &changes.entries {
                // As the store on disk does.
                assert!(!key.is_empty(), "an empty key for the table {table}");
                let table = tables.entry(table).or_default();
                match value {
                    Some(value) => table.insert(key.clone(), value.clone()),
                    None => table.remove(key),
                };
            }
        });
        Ok(())
    }

    fn snapshot(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore {
            tables: Mutex::new(self.with(|tables| tables.clone())),
        })
    }
}

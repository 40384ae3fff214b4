//! The store of an instance on disk: one fjall database, a keyspace per table.
//!
//! Memory is what is configured: `memtable_bytes` for each table (and as much again while one is flushed), the
//! block cache, and little more; fjall's own `max_write_buffer_size` has no effect. A commit is in the kernel's
//! hands when it returns, so it survives the death of the process; with `durability: power` it is on the disk.

use super::store::{Changes, Store, StoreError, Table, Visit};
use crate::config::{Bytes, Durability};
use fjall::config::PartitioningPolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// How much memory a store may use, and what its commits survive.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Write buffer of each table.
    pub memtable_bytes: Bytes,
    /// Block cache.
    pub cache_bytes: Bytes,
    /// What a commit survives.
    pub durability: Durability,
}

/// A store in a folder; only one process can have it open.
pub struct DiskStore {
    database: Database,
    tables: HashMap<Table, Keyspace>,
    path: PathBuf,
    durability: Durability,
}

/// Journals are kept until their memtables are flushed; more than this forces flushes. fjall's least value.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;

impl DiskStore {
    /// Opens the store in `path`, or makes a new one.
    pub fn open(path: &Path, tables: &[Table], options: StoreOptions) -> Result<Self, StoreError> {
        let failed = |error: &dyn std::fmt::Display| StoreError::Io {
            action: "be opened",
            path: path.display().to_string(),
            error: error.to_string(),
        };
        std::fs::create_dir_all(path).map_err(|error| failed(&error))?;
        let database = Database::builder(path)
            .cache_size(options.cache_bytes.0)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .worker_threads(2)
            .open()
            .map_err(|error| failed(&error))?;
        let mut opened = HashMap::new();
        for &table in tables {
            let keyspace = database.keyspace(table, || table_options(options)).map_err(|error| failed(&error))?;
            opened.insert(table, keyspace);
        }
        Ok(DiskStore { database, tables: opened, path: path.to_owned(), durability: options.durability })
    }

    fn failed(&self, action: &'static str, error: &fjall::Error) -> StoreError {
        StoreError::Io { action, path: self.path.display().to_string(), error: error.to_string() }
    }

    fn table(&self, table: Table) -> Result<&Keyspace, StoreError> {
        self.tables.get(table).ok_or_else(|| StoreError::Io {
            action: "find a table",
            path: self.path.display().to_string(),
            error: format!("no table '{table}' was opened"),
        })
    }
}

/// Filters and indexes in parts: whole ones are megabytes, and each read of a point would load one.
fn table_options(options: StoreOptions) -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(options.memtable_bytes.0)
        .filter_block_partitioning_policy(PartitioningPolicy::all(true))
        .index_block_partitioning_policy(PartitioningPolicy::all(true))
}

impl Store for DiskStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.table(table)?.get(key).map_err(|error| self.failed("read", &error))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, StoreError> {
        self.table(table)?.contains_key(key).map_err(|error| self.failed("read", &error))
    }

    fn scan(&self, table: Table, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        for entry in self.table(table)?.range(from..to) {
            let (key, value) = entry.into_inner().map_err(|error| self.failed("read", &error))?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn commit(&self, changes: &Changes) -> Result<(), StoreError> {
        let mut batch = self.database.batch().durability(match self.durability {
            // Without a mode a batch may stay in a buffer of this process, which a kill takes along.
            Durability::Process => Some(PersistMode::Buffer),
            Durability::Power => Some(PersistMode::SyncData),
        });
        for (table, key, value) in &changes.entries {
            let keyspace = self.table(table)?;
            match value {
                Some(value) => batch.insert(keyspace, key.as_slice(), value.as_slice()),
                None => batch.remove(keyspace, key.as_slice()),
            }
        }
        batch.commit().map_err(|error| self.failed("commit", &error))
    }
}

//! The store of an instance on disk: one fjall database, a keyspace per table.
//!
//! Memory is what is configured: `memtable_bytes` for each table (and as much again while one is
//! flushed), the block cache, and little more; fjall's own `max_write_buffer_size` has no effect. A
//! commit is in the kernel's hands when it returns, so it survives the death of the process; with
//! `durability: power` it is on the disk.

use fjall::config::PartitioningPolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable as _, Snapshot};
use rhumb_config::{Bytes, Durability};
use rhumb_stage::store::{Changes, Store, StoreError, Table, Visit};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// Journals are kept until their memtables are flushed; more than this forces flushes. fjall's
/// least value.
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
            let keyspace = database
                .keyspace(table, || table_options(options))
                .map_err(|error| failed(&error))?;
            opened.insert(table, keyspace);
        }
        Ok(DiskStore {
            database,
            tables: opened,
            path: path.to_owned(),
            durability: options.durability,
        })
    }

    fn failed(&self, action: &'static str, error: &fjall::Error) -> StoreError {
        failed(&self.path, action, error)
    }

    fn table(&self, table: Table) -> Result<&Keyspace, StoreError> {
        find(&self.tables, &self.path, table)
    }
}

fn failed(path: &Path, action: &'static str, error: &fjall::Error) -> StoreError {
    StoreError::Io {
        action,
        path: path.display().to_string(),
        error: error.to_string(),
    }
}

fn find<'a>(
    tables: &'a HashMap<Table, Keyspace>,
    path: &Path,
    table: Table,
) -> Result<&'a Keyspace, StoreError> {
    tables.get(table).ok_or_else(|| StoreError::Io {
        action: "find a table",
        path: path.display().to_string(),
        error: format!("no table '{table}' was opened"),
    })
}

/// A [`DiskStore`] as it was at one moment.
struct DiskSnapshot {
    snapshot: Snapshot,
    tables: HashMap<Table, Keyspace>,
    path: PathBuf,
}

impl Store for DiskSnapshot {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self
            .snapshot
            .get(find(&self.tables, &self.path, table)?, key);
        Ok(value
            .map_err(|error| failed(&self.path, "read", &error))?
            .map(|value| value.to_vec()))
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, StoreError> {
        let contains = self
            .snapshot
            .contains_key(find(&self.tables, &self.path, table)?, key);
        contains.map_err(|error| failed(&self.path, "read", &error))
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        for entry in self
            .snapshot
            .range(find(&self.tables, &self.path, table)?, from..to)
        {
            let (key, value) = entry
                .into_inner()
                .map_err(|error| failed(&self.path, "read", &error))?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn commit(&self, _: &Changes) -> Result<(), StoreError> {
        Err(StoreError::Unusable(format!(
            "what the store in {} was cannot be changed",
            self.path.display()
        )))
    }

    fn snapshot(&self) -> Arc<dyn Store> {
        let DiskSnapshot {
            snapshot,
            tables,
            path,
        } = self;
        Arc::new(DiskSnapshot {
            snapshot: snapshot.clone(),
            tables: tables.clone(),
            path: path.clone(),
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
        let value = self
            .table(table)?
            .get(key)
            .map_err(|error| self.failed("read", &error))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, StoreError> {
        self.table(table)?
            .contains_key(key)
            .map_err(|error| self.failed("read", &error))
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        for entry in self.table(table)?.range(from..to) {
            let (key, value) = entry
                .into_inner()
                .map_err(|error| self.failed("read", &error))?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn commit(&self, changes: &Changes) -> Result<(), StoreError> {
        let mut batch = self.database.batch().durability(match self.durability {
            // Without a mode a batch may stay in a buffer of this process, which a kill takes
            // along.
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
        batch
            .commit()
            .map_err(|error| self.failed("commit", &error))
    }

    fn snapshot(&self) -> Arc<dyn Store> {
        let DiskStore {
            database,
            tables,
            path,
            ..
        } = self;
        Arc::new(DiskSnapshot {
            snapshot: database.snapshot(),
            tables: tables.clone(),
            path: path.clone(),
        })
    }
}

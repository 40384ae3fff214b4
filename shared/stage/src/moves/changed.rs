//! Rows that changed since the copies of their partitions began.
//!
//! In: commits. Out: for each partition that is being copied, the keys that they wrote or removed.
//! Invariant: a row that differs from what a copy read of it is among them, however the copy was
//! read.

use super::rows::Rows;
use crate::store::{Changes, Table};
use std::collections::{BTreeMap, BTreeSet};

/// The keys of the rows that changed, by partition.
#[derive(Debug, Default)]
pub struct Changed {
    keys: BTreeMap<u16, BTreeSet<(Table, Vec<u8>)>>,
}

impl Changed {
    /// A copy of a partition begins.
    pub fn watch(&mut self, partition: u16) {
        self.keys.insert(partition, BTreeSet::new());
    }

    /// Notes what is about to be committed.
    pub fn note(&mut self, rows: &Rows, changes: &Changes) {
        if self.keys.is_empty() {
            return;
        }
        for (table, key, _) in &changes.entries {
            let partition = rows.partition_of(table, key);
            if let Some(keys) = partition.and_then(|partition| self.keys.get_mut(&partition)) {
                keys.insert((*table, key.clone()));
            }
        }
    }

    /// What changed in a partition; it is not watched any more.
    pub fn take(&mut self, partition: u16) -> BTreeSet<(Table, Vec<u8>)> {
        self.keys.remove(&partition).unwrap_or_default()
    }
}

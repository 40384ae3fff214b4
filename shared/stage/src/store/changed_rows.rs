//! Rows that are changed and not committed yet, over a store.
//!
//! In: changes, in their order. Out: reads that see them over what the store has; one list of them,
//! for a commit.
//!
//! Invariant: a read sees the last change of a row; a row that changes several times is written
//! once.

use super::{Changes, Store, StoreError, Table, Visit};
use std::collections::BTreeMap;

/// Rows of a table; none for a removed one.
type RowsOfTable = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Rows that are changed and not committed yet.
#[derive(Debug, Default)]
pub struct ChangedRows {
    tables: BTreeMap<Table, RowsOfTable>,
}

impl ChangedRows {
    /// Writes a row.
    pub fn put(&mut self, table: Table, key: Vec<u8>, row: Vec<u8>) {
        self.change(table, key, Some(row));
    }

    /// Takes a row away.
    pub fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.change(table, key, None);
    }

    fn change(&mut self, table: Table, key: Vec<u8>, row: Option<Vec<u8>>) {
        self.tables.entry(table).or_default().insert(key, row);
    }

    /// Makes changes, one after the other.
    pub fn extend(&mut self, changes: Changes) {
        for (table, key, row) in changes.entries {
            self.change(table, key, row);
        }
    }

    /// Returns whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// A changed row, none when it is removed; `None` when it is not changed.
    fn changed(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        let row = self.tables.get(table)?.get(key)?;
        Some(row.as_deref())
    }

    /// Reads a row as the changes leave it; none when there is none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get(
        &self,
        store: &dyn Store,
        table: Table,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        match self.changed(table, key) {
            Some(row) => Ok(row.map(<[u8]>::to_vec)),
            None => store.get(table, key),
        }
    }

    /// Returns whether there is a row, as the changes leave it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn contains(
        &self,
        store: &dyn Store,
        table: Table,
        key: &[u8],
    ) -> Result<bool, StoreError> {
        match self.changed(table, key) {
            Some(row) => Ok(row.is_some()),
            None => store.contains(table, key),
        }
    }

    /// Visits the rows from `from` (included) to `to` (not included), as the changes leave them, in
    /// order until `visit` returns false.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn scan(
        &self,
        store: &dyn Store,
        table: Table,
        from: &[u8],
        to: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        let Some(rows) = self.tables.get(table) else {
            return store.scan(table, from, to, visit);
        };
        let mut changed = rows.range(from.to_vec()..to.to_vec()).peekable();
        let mut more = true;
        store.scan(table, from, to, &mut |key, row| {
            while let Some((changed_key, changed_row)) =
                changed.next_if(|(changed_key, _)| changed_key.as_slice() <= key)
            {
                if let Some(changed_row) = changed_row {
                    more = visit(changed_key, changed_row);
                }
                if !more || changed_key.as_slice() == key {
                    return more;
                }
            }
            more = visit(key, row);
            more
        })?;
        while more && let Some((key, row)) = changed.next() {
            if let Some(row) = row {
                more = visit(key, row);
            }
        }
        Ok(())
    }

    /// All changes, each row once.
    pub fn into_changes(self) -> Changes {
        let mut changes = Changes::default();
        for (table, rows) in self.tables {
            let entries = rows.into_iter().map(|(key, row)| (table, key, row));
            changes.entries.extend(entries);
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;
    use proptest::prelude::*;

    const TABLE: Table = "table";

    proptest! {
        /// Goal: reads see committed rows and what is changed of them. Method: against a map.
        #[test]
        fn a_read_sees_what_is_changed(
            committed in proptest::collection::btree_map(0u8..30, any::<u8>(), 0..20),
            changes in proptest::collection::vec((0u8..30, proptest::option::of(any::<u8>())), 0..20),
            from in 0u8..30,
            to in 0u8..32,
            limit in 1usize..40,
        ) {
            let store = MemoryStore::default();
            let mut first = Changes::default();
            for (key, row) in &committed {
                first.put(TABLE, vec![*key], vec![*row]);
            }
            store.commit(&first).unwrap();
            let mut model = committed;
            let mut changed = ChangedRows::default();
            for (key, row) in changes {
                match row {
                    Some(row) => {
                        changed.put(TABLE, vec![key], vec![row]);
                        model.insert(key, row);
                    }
                    None => {
                        changed.remove(TABLE, vec![key]);
                        model.remove(&key);
                    }
                }
            }
            let mut seen = Vec::new();
            changed.scan(&store, TABLE, &[from], &[to], &mut |key, row| {
                seen.push((key[0], row[0]));
                seen.len() < limit
            }).unwrap();
            let expected: Vec<_> =
                model.iter().filter(|(key, _)| (from..to).contains(key)).map(|(k, r)| (*k, *r)).take(limit).collect();
            prop_assert_eq!(seen, expected);
            for key in 0..30 {
                let row = model.get(&key).map(|row| vec![*row]);
                prop_assert_eq!(changed.contains(&store, TABLE, &[key]).unwrap(), row.is_some());
                prop_assert_eq!(changed.get(&store, TABLE, &[key]).unwrap(), row);
            }
            store.commit(&changed.into_changes()).unwrap();
            for key in 0..30 {
                prop_assert_eq!(store.get(TABLE, &[key]).unwrap(), model.get(&key).map(|row| vec![*row]));
            }
        }
    }
}

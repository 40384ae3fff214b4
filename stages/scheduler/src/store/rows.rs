//! The store's rows as one step sees them: what was committed before it, and its own changes.
//!
//! In: reads and changes of the step. Out: one list of changes, committed together with the step's
//! messages.
//!
//! Invariant: a read sees the step's own changes; a row that changes several times in a step is
//! written once.

use rhumb_stage::Output;
use rhumb_stage::store::{Store, StoreError, Table, Visit};
use std::collections::BTreeMap;

/// Rows changed in a table; none for a removed one.
type ChangedRows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The store, and what a step changes in it.
pub(crate) struct Rows<'a> {
    store: &'a dyn Store,
    changes: BTreeMap<Table, ChangedRows>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(store: &'a dyn Store) -> Self {
        Rows {
            store,
            changes: BTreeMap::new(),
        }
    }

    /// Writes a row.
    pub(crate) fn put(&mut self, table: Table, key: Vec<u8>, row: Vec<u8>) {
        self.changes
            .entry(table)
            .or_default()
            .insert(key, Some(row));
    }

    /// Takes a row away.
    pub(crate) fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.changes.entry(table).or_default().insert(key, None);
    }

    /// Reads a row as this step left it; none when there is none.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.changes.get(table).and_then(|rows| rows.get(key)) {
            Some(row) => Ok(row.clone()),
            None => self.store.get(table, key),
        }
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
        let empty = ChangedRows::new();
        let rows = self.changes.get(table).unwrap_or(&empty);
        if from >= to {
            return Ok(());
        }
        let mut staged = rows.range(from.to_vec()..to.to_vec()).peekable();
        let mut more = true;
        self.store.scan(table, from, to, &mut |key, row| {
            while let Some((staged_key, staged_row)) =
                staged.next_if(|(staged_key, _)| staged_key.as_slice() <= key)
            {
                if let Some(staged_row) = staged_row {
                    more = visit(staged_key, staged_row);
                }
                if !more || staged_key.as_slice() == key {
                    return more;
                }
            }
            more = visit(key, row);
            more
        })?;
        while more && let Some((key, row)) = staged.next() {
            if let Some(row) = row {
                more = visit(key, row);
            }
        }
        Ok(())
    }

    /// Hands the changes over.
    pub(crate) fn flush<E>(self, out: &mut Output<E>) {
        for (table, rows) in self.changes {
            for (key, row) in rows {
                out.changes.entries.push((table, key, row));
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rhumb_stage::store::{Changes, MemoryStore};

    const TABLE: Table = "table";

    proptest! {
        /// Goal: reads through a step see committed rows and the step's own changes. Method:
        /// against a map.
        #[test]
        fn a_step_sees_its_own_changes(
            committed in proptest::collection::btree_map(0u8..30, any::<u8>(), 0..20),
            staged in proptest::collection::vec((0u8..30, proptest::option::of(any::<u8>())), 0..20),
            from in 0u8..30,
            to in 0u8..32,
            limit in 1usize..40,
        ) {
            let store = MemoryStore::default();
            let mut changes = Changes::default();
            for (key, row) in &committed {
                changes.put(TABLE, vec![*key], vec![*row]);
            }
            store.commit(&changes).unwrap();
            let mut model = committed;
            let mut step = Rows::new(&store);
            for (key, row) in staged {
                match row {
                    Some(row) => {
                        step.put(TABLE, vec![key], vec![row]);
                        model.insert(key, row);
                    }
                    None => {
                        step.remove(TABLE, vec![key]);
                        model.remove(&key);
                    }
                }
            }
            let mut seen = Vec::new();
            step.scan(TABLE, &[from], &[to], &mut |key, row| {
                seen.push((key[0], row[0]));
                seen.len() < limit
            }).unwrap();
            let expected: Vec<_> =
                model.iter().filter(|(key, _)| (from..to).contains(key)).map(|(k, r)| (*k, *r)).take(limit).collect();
            prop_assert_eq!(seen, expected);
            for key in 0..30 {
                prop_assert_eq!(step.get(TABLE, &[key]).unwrap(), model.get(&key).map(|row| vec![*row]));
            }
            let mut out = Output::<()>::default();
            step.flush(&mut out);
            store.commit(&out.changes).unwrap();
            for key in 0..30 {
                prop_assert_eq!(store.get(TABLE, &[key]).unwrap(), model.get(&key).map(|row| vec![*row]));
            }
        }
    }
}

//! The rows of a partition: which they are, how they are read, written and removed.
//!
//! In: a store, and the tables of a stage with how their keys begin. Out: rows in the order of
//! tables and keys; commits of a bounded size. Invariant: rows of other partitions, and those of
//! the instance, are never touched.

use crate::settlement::{LOOP, positions_of};
use crate::store::{Changes, Store, StoreError, Table};
use rhumb_partition::{Directory, Owners, Split};
use rhumb_wire::message::Edge;
use std::sync::Arc;

/// What the keys of a table begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyed {
    /// With a hash, 8 bytes big-endian: the partition is a range of hashes.
    ByHash,
    /// With the number of the partition, 2 bytes big-endian.
    ByPartition,
    /// With neither: the rows are the instance's, and stay with it.
    OfInstance,
}

/// Called with the table, the key and the value of a row.
pub type RowVisit<'a> = dyn FnMut(&str, &[u8], &[u8]) -> Result<(), StoreError> + 'a;

/// Adds to a commit what a stage keeps under the numbers of the halves of a partition that was
/// split; rows that begin with a hash are theirs already. Gives the serial number of the last new
/// URL that the partition was given; 0 when the stage numbers none.
pub type HalveRows = fn(&dyn Store, &Split, &mut Changes) -> Result<u64, StoreError>;

/// How far the removal of a partition's rows has come. What was removed is not read again: a store
/// on disk takes its time to forget it.
#[derive(Debug, Default)]
pub struct Removal(Option<(u16, Table, Vec<u8>)>);

/// The rows of a store.
#[derive(Clone)]
pub struct Rows {
    /// Where they are.
    pub store: Arc<dyn Store>,
    /// The stage's tables, with how their keys begin.
    pub tables: Vec<(Table, Keyed)>,
    /// The edges whose partitions the stage owns: their positions move, too.
    pub edges: Vec<Edge>,
    /// Which partition each hash belongs to.
    pub directory: Directory,
    /// What the stage does when a partition is split.
    pub halve: HalveRows,
}

impl Rows {
    /// Learns of partitions that were split since. A table that knows of fewer is an older one.
    pub fn learn(&mut self, owners: &Owners) {
        if usize::from(self.directory.ids()) < owners.partitions.len() {
            self.directory = owners.directory();
        }
    }

    /// Visits the rows of a partition in the stage's tables.
    ///
    /// # Errors
    /// One cannot be read, or `visit` has failed.
    pub fn visit(&self, partition: u16, visit: &mut RowVisit<'_>) -> Result<(), StoreError> {
        for (table, from, to) in self.ranges(partition) {
            let mut visited = Ok(());
            self.store.scan(table, &from, &to, &mut |key, value| {
                visited = visit(table, key, value);
                visited.is_ok()
            })?;
            visited?;
        }
        Ok(())
    }

    /// Visits the positions of a partition, which change with every commit.
    ///
    /// # Errors
    /// One cannot be read, or `visit` has failed.
    pub fn visit_positions(
        &self,
        partition: u16,
        visit: &mut RowVisit<'_>,
    ) -> Result<(), StoreError> {
        for key in positions_of(self.edges.iter().copied(), partition) {
            if let Some(value) = self.store.get(LOOP, key.as_bytes())? {
                visit(LOOP, key.as_bytes(), &value)?;
            }
        }
        Ok(())
    }

    /// Visits the rows that stay with the instance.
    ///
    /// # Errors
    /// One cannot be read, or `visit` has failed.
    pub fn visit_own(&self, visit: &mut RowVisit<'_>) -> Result<(), StoreError> {
        for (table, _) in self
            .tables
            .iter()
            .filter(|(_, keyed)| *keyed == Keyed::OfInstance)
        {
            let mut visited = Ok(());
            self.store
                .scan(table, &[], &after(Vec::new()), &mut |key, value| {
                    visited = visit(table, key, value);
                    visited.is_ok()
                })?;
            visited?;
        }
        Ok(())
    }

    /// The partition of a row in one of the stage's tables; none of a row that stays with the
    /// instance.
    pub fn partition_of(&self, table: &str, key: &[u8]) -> Option<u16> {
        let (_, keyed) = self.tables.iter().find(|(name, _)| *name == table)?;
        match keyed {
            Keyed::ByHash => Some(
                self.directory
                    .partition_of(u64::from_be_bytes(*key.first_chunk()?)),
            ),
            // Longer keys that begin otherwise are the instance's.
            Keyed::ByPartition => Some(u16::from_be_bytes(*key.first_chunk()?))
                .filter(|partition| *partition < self.directory.ids()),
            Keyed::OfInstance => None,
        }
    }

    /// Adds a row that came, or the removal of one, to a commit.
    ///
    /// # Errors
    /// The row is none of the partition's.
    pub fn apply(
        &self,
        changes: &mut Changes,
        partition: u16,
        (table, key, value): (&str, &[u8], Option<&[u8]>),
    ) -> Result<(), String> {
        let is_position = || {
            positions_of(self.edges.iter().copied(), partition)
                .iter()
                .any(|of| of.as_bytes() == key)
        };
        if table == LOOP && is_position() {
            changes
                .entries
                .push((LOOP, key.into(), value.map(Into::into)));
            return Ok(());
        }
        let mut ranges = self.ranges(partition);
        let Some((table, ..)) = ranges.find(|(name, from, to)| {
            *name == table && from.as_slice() <= key && key < to.as_slice()
        }) else {
            return Err(format!(
                "a row of table '{table}' is none of the partition's"
            ));
        };
        changes
            .entries
            .push((table, key.into(), value.map(Into::into)));
        Ok(())
    }

    /// Adds the removal of rows of a partition to a commit, at most `rows_max` of them, and goes on
    /// from the last time. Returns how many; with none left the partition is forgotten.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn remove(
        &self,
        changes: &mut Changes,
        partition: u16,
        removal: &mut Removal,
        rows_max: usize,
    ) -> Result<usize, StoreError> {
        let mut removed = 0;
        for key in positions_of(self.edges.iter().copied(), partition) {
            if self.store.contains(LOOP, key.as_bytes())? {
                changes.remove(LOOP, key);
                removed += 1;
            }
        }
        let last = removal.0.take().filter(|(of, ..)| *of == partition);
        let is_over = |table: Table| last.as_ref().is_some_and(|(_, at, _)| *at != table);
        for (table, mut from, to) in self
            .ranges(partition)
            .skip_while(|(table, ..)| is_over(table))
        {
            if let Some((.., last)) = last.as_ref().filter(|(_, at, _)| *at == table) {
                from.clone_from(last);
            }
            self.store.scan(table, &from, &to, &mut |key, _| {
                if removed < rows_max {
                    changes.remove(table, key);
                    removal.0 = Some((partition, table, key.into()));
                    removed += 1;
                }
                removed < rows_max
            })?;
        }
        Ok(removed)
    }

    /// Where the rows of a partition are. One that was split has none by hash: they are its
    /// halves'.
    fn ranges(&self, partition: u16) -> impl Iterator<Item = (Table, Vec<u8>, Vec<u8>)> {
        let hashes = self.directory.hashes_of(partition);
        self.tables.iter().filter_map(move |&(table, keyed)| {
            let (from, last) = match keyed {
                Keyed::ByHash => {
                    let hashes = hashes.as_ref()?;
                    (
                        hashes.start().to_be_bytes().to_vec(),
                        hashes.end().to_be_bytes().to_vec(),
                    )
                }
                Keyed::ByPartition => (
                    partition.to_be_bytes().to_vec(),
                    partition.to_be_bytes().to_vec(),
                ),
                Keyed::OfInstance => return None,
            };
            Some((table, from, after(last)))
        })
    }
}

/// Follows all keys that begin so.
fn after(mut prefix: Vec<u8>) -> Vec<u8> {
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return prefix;
        }
    }
    // Longer than any key.
    vec![u8::MAX; 256]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    const TABLES: [(Table, Keyed); 3] = [
        ("urls", Keyed::ByHash),
        ("meta", Keyed::ByPartition),
        ("domains", Keyed::OfInstance),
    ];

    fn rows(store: &Arc<MemoryStore>) -> Rows {
        let store = store.clone();
        let tables = TABLES.to_vec();
        let edges = vec![Edge::UrlsSplit];
        Rows {
            store,
            tables,
            edges,
            directory: Directory::new(4),
            halve: |_, _, _| Ok(0),
        }
    }

    fn filled() -> Arc<MemoryStore> {
        let store = Arc::<MemoryStore>::default();
        let mut changes = Changes::default();
        for hash in [0, 1 << 62, (1 << 62) + 7, u64::MAX] {
            changes.put(
                "urls",
                [hash.to_be_bytes().as_slice(), &[1, 2]].concat(),
                *b"url",
            );
        }
        for partition in 0..4u16 {
            changes.put(
                "meta",
                [partition.to_be_bytes().as_slice(), b"c"].concat(),
                *b"counts",
            );
            changes.put(
                LOOP,
                format!("position urls.split/{partition:05}"),
                *b"position",
            );
        }
        changes.put("domains", (1u64 << 62).to_be_bytes(), *b"domain");
        changes.put(LOOP, *b"epoch", *b"8");
        store.commit(&changes).unwrap();
        store
    }

    fn of(store: &Arc<MemoryStore>, partition: u16) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        let mut push = |table: &str, key: &[u8], _: &[u8]| {
            all.push((table.to_owned(), key.to_vec()));
            Ok(())
        };
        rows(store).visit_positions(partition, &mut push).unwrap();
        rows(store).visit(partition, &mut push).unwrap();
        all
    }

    #[test]
    fn a_partition_has_the_rows_of_its_hashes_its_number_and_its_positions() {
        let store = filled();
        let tables = |partition| {
            of(&store, partition)
                .into_iter()
                .map(|(table, _)| table)
                .collect::<Vec<_>>()
        };
        assert_eq!(tables(0), ["loop", "urls", "meta"]);
        assert_eq!(tables(1), ["loop", "urls", "urls", "meta"]);
        assert_eq!(tables(2), ["loop", "meta"]);
        assert_eq!(tables(3), ["loop", "urls", "meta"]);
    }

    #[test]
    fn what_one_store_gives_another_takes_and_the_first_forgets() {
        let from = filled();
        let to = Arc::<MemoryStore>::default();
        let mut changes = Changes::default();
        let mut give = |table: &str, key: &[u8], value: &[u8]| {
            rows(&to)
                .apply(&mut changes, 1, (table, key, Some(value)))
                .unwrap();
            Ok(())
        };
        rows(&from).visit(1, &mut give).unwrap();
        rows(&from).visit_positions(1, &mut give).unwrap();
        to.commit(&changes).unwrap();
        assert_eq!(of(&to, 1), of(&from, 1));
        assert!(
            (0..4)
                .filter(|&other| other != 1)
                .all(|other| of(&to, other).is_empty())
        );
        let mut own = Vec::new();
        let mut push = |table: &str, key: &[u8], _: &[u8]| {
            own.push((table.to_owned(), key.to_vec()));
            Ok(())
        };
        rows(&from).visit_own(&mut push).unwrap();
        assert_eq!(
            own,
            [("domains".to_owned(), (1u64 << 62).to_be_bytes().to_vec())]
        );

        let mut commits = 0;
        let mut removal = Removal::default();
        loop {
            let mut changes = Changes::default();
            if rows(&from)
                .remove(&mut changes, 1, &mut removal, 2)
                .unwrap()
                == 0
            {
                break;
            }
            from.commit(&changes).unwrap();
            commits += 1;
        }
        assert_eq!((commits, of(&from, 1).len(), of(&from, 0).len()), (2, 0, 3));
        assert!(
            from.get("domains", &(1u64 << 62).to_be_bytes())
                .unwrap()
                .is_some()
        );
        assert!(from.get(LOOP, b"epoch").unwrap().is_some());
    }

    #[test]
    fn the_rows_by_hash_of_a_partition_that_was_split_are_its_halves() {
        let store = filled();
        let mut rows = rows(&store);
        rows.directory.split(1).unwrap();
        let of = |partition| {
            let mut all = Vec::new();
            let mut visit = |table: &str, _: &[u8], _: &[u8]| {
                all.push(table.to_owned());
                Ok(())
            };
            rows.visit(partition, &mut visit).unwrap();
            all
        };
        assert_eq!(
            (of(1), of(4), of(5)),
            (vec!["meta".into()], vec!["urls".into(); 2], vec![])
        );
    }

    #[test]
    fn a_row_of_another_partition_or_of_the_instance_is_refused() {
        let store = Arc::<MemoryStore>::default();
        let mut changes = Changes::default();
        let hash = (1u64 << 62).to_be_bytes();
        for row in [
            ("urls", hash.as_slice()),
            ("domains", &hash),
            ("loop", b"epoch"),
            ("other", &hash),
        ] {
            assert!(
                rows(&store)
                    .apply(&mut changes, 2, (row.0, row.1, Some(b"")))
                    .is_err(),
                "{}",
                row.0
            );
        }
        assert!(changes.is_empty());
    }

    #[test]
    fn every_row_that_moves_tells_its_partition() {
        let store = filled();
        for partition in 0..4 {
            for (table, key) in of(&store, partition)
                .into_iter()
                .filter(|(table, _)| table != LOOP)
            {
                assert_eq!(
                    rows(&store).partition_of(&table, &key),
                    Some(partition),
                    "{table} {key:?}"
                );
            }
        }
        let hash = (1u64 << 62).to_be_bytes();
        for (table, key) in [
            ("domains", hash.as_slice()),
            ("loop", b"epoch"),
            ("meta", b"seen"),
            ("urls", b"short"),
        ] {
            assert_eq!(rows(&store).partition_of(table, key), None, "{table}");
        }
    }
}

//! A partition that is copied while its owner writes, and what changed after it.

use super::*;
use crate::beside::{Beside, Copied, Importing, VisitBlock};
use crate::settlement::LOOP;
use crate::store::{Changes, MemoryStore, StoreError, Table};
use bytes::Bytes;
use proptest::prelude::*;
use rhumb_partition::{Directory, Split};
use rhumb_wire::message::Edge;
use std::collections::BTreeSet;
use std::sync::Arc;

const TABLES: [(Table, Keyed); 3] = [
    ("urls", Keyed::ByHash),
    ("meta", Keyed::ByPartition),
    ("domains", Keyed::OfInstance),
];
const COPY: u64 = 9;

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

/// Keys of a stage beside its tables: numbers, of which none goes.
#[derive(Default)]
struct Numbers {
    known: BTreeSet<u8>,
    later: Option<Vec<u8>>,
}

impl Numbers {
    fn learn(&mut self, number: u8) {
        if self.known.insert(number) {
            self.later.iter_mut().for_each(|later| later.push(number));
        }
    }
}

struct Block(Vec<u8>);

impl Copied for Block {
    fn visit(&mut self, visit: &mut VisitBlock<'_>) -> Result<(), StoreError> {
        self.0.chunks(2).try_for_each(visit)
    }
}

impl Importing for Block {
    fn take(&mut self, block: &[u8], is_later: bool) -> Result<(), StoreError> {
        if !is_later && self.0.last() >= block.first() {
            return Err(StoreError::Unusable("out of order".into()));
        }
        self.0.extend(block);
        Ok(())
    }
}

impl Beside for Numbers {
    fn name(&self) -> Table {
        "numbers"
    }

    fn copy(&mut self, _: u16) -> Result<Box<dyn Copied>, StoreError> {
        self.later = Some(Vec::new());
        Ok(Box::new(Block(self.known.iter().copied().collect())))
    }

    fn take_later(&mut self, _: u16, visit: &mut VisitBlock<'_>) -> Result<(), StoreError> {
        self.later
            .take()
            .unwrap_or_default()
            .chunks(2)
            .try_for_each(visit)
    }

    fn importer(&mut self, _: u16) -> Result<Box<dyn Importing>, StoreError> {
        Ok(Box::new(Block(Vec::new())))
    }

    fn import(&mut self, importing: Box<dyn Importing>) -> Result<(), StoreError> {
        let importing: Box<dyn std::any::Any> = importing;
        self.known = importing
            .downcast::<Block>()
            .unwrap()
            .0
            .iter()
            .copied()
            .collect();
        Ok(())
    }

    fn forget(&mut self, _: u16) -> Result<(), StoreError> {
        self.known.clear();
        Ok(())
    }

    fn halve(&mut self, _: &Split) -> Result<(), StoreError> {
        Ok(())
    }

    fn stage(&mut self, _: &mut Changes) -> Result<(), StoreError> {
        Ok(())
    }

    fn committed(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The owner of a partition.
struct Owner {
    rows: Rows,
    changed: Changed,
    numbers: Numbers,
}

impl Owner {
    /// A commit: what it writes and removes in partition 1, and what it does elsewhere.
    fn commit(&mut self, (key, value): (u8, u8)) {
        let mut changes = Changes::default();
        let hash = [0x40 | (key & 0x3f), 0, 0, 0, 0, 0, 0, 0];
        match value {
            0 => changes.remove("urls", hash),
            _ => changes.put("urls", hash, [value]),
        }
        changes.put("urls", [0xc0 | key, 0, 0, 0, 0, 0, 0, 0], [value]);
        changes.put("meta", [0, 1, key % 3], [value]);
        changes.put("domains", hash, [value]);
        changes.put(LOOP, *b"position urls.split/00001", [key, value]);
        self.changed.note(&self.rows, &changes);
        self.rows.store.commit(&changes).unwrap();
        self.numbers.learn(key);
    }
}

fn all(rows: &Rows) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    let mut push = |table: &str, key: &[u8], value: &[u8]| {
        all.push((table.to_owned(), key.to_vec(), value.to_vec()));
        Ok(())
    };
    rows.visit_positions(1, &mut push).unwrap();
    rows.visit(1, &mut push).unwrap();
    all
}

/// Takes all parts in.
fn take(rows: &Rows, parts: &[Bytes]) -> (Numbers, Vec<Follows>) {
    let mut numbers = Numbers::default();
    let mut copy = None;
    let mut follow = Vec::new();
    let mut importing = numbers.importer(1).unwrap();
    for (number, part) in (0..).zip(parts) {
        let bill = Bill::new("a", "dedup", 1, 3);
        let taken = rows
            .of_part(
                Some(("numbers", importing.as_mut())),
                1,
                (&bill, copy, number),
                part,
            )
            .unwrap();
        rows.store.commit(&taken.0).unwrap();
        copy = Some(taken.1);
        follow.push(taken.2);
    }
    assert!(!rows.has_whole(1, 3, COPY).unwrap());
    let whole = steps::whole(Some((&mut numbers, importing)), 1, 3, COPY).unwrap();
    rows.store.commit(&whole).unwrap();
    assert!(rows.has_whole(1, 3, COPY).unwrap() && !rows.has_whole(1, 3, COPY + 1).unwrap());
    (numbers, follow)
}

proptest! {
    /// Goal: the receiver has what the owner had in the end, whatever the owner wrote between the
    /// beginning of the copy, the reading of it, and the end.
    #[test]
    fn a_copy_and_what_changed_are_all_there_is(
        before in prop::collection::vec((any::<u8>(), 0u8..3), 0..40),
        unread in prop::collection::vec((any::<u8>(), 0u8..3), 0..20),
        after in prop::collection::vec((any::<u8>(), 0u8..3), 0..40),
        full in prop_oneof![Just(50usize), Just(1 << 19)],
    ) {
        let rows_of_owner = rows(&Arc::default());
        let mut owner = Owner { rows: rows_of_owner, changed: Changed::default(), numbers: Numbers::default() };
        before.into_iter().for_each(|commit| owner.commit(commit));
        owner.changed.watch(1);
        let mut copied = owner.numbers.copy(1).unwrap();
        unread.into_iter().for_each(|commit| owner.commit(commit));
        let mut loading = Loading::of_parts(Bill::new("a", "dedup", 1, 3), COPY, full);
        let mut parts = Vec::new();
        let mut full = |part| {
            parts.push(part);
            Ok(())
        };
        owner.rows.copy(Some(("numbers", copied.as_mut())), 1, &mut loading, &mut full).unwrap();
        let copied_parts = parts.len();
        after.into_iter().for_each(|commit| owner.commit(commit));
        let changed = owner.changed.take(1);
        parts.extend(owner.rows.copy_changes(Some(&mut owner.numbers), 1, &changed, &mut loading).unwrap());

        let receiver = rows(&Arc::default());
        let (numbers, follow) = take(&receiver, &parts);
        prop_assert_eq!(all(&receiver), all(&owner.rows));
        prop_assert_eq!(numbers.known, owner.numbers.known);
        prop_assert_eq!(follow.iter().position(|follows| *follows == Follows::Changes), Some(copied_parts - 1));
        prop_assert_eq!(follow.iter().position(|follows| *follows == Follows::Nothing), Some(parts.len() - 1));
    }
}

#[test]
fn what_is_not_watched_is_not_noted() {
    let mut owner = Owner {
        rows: rows(&Arc::default()),
        changed: Changed::default(),
        numbers: Numbers::default(),
    };
    owner.commit((1, 1));
    owner.changed.watch(1);
    assert!(owner.changed.take(1).is_empty());
    owner.commit((2, 1));
    assert!(owner.changed.take(1).is_empty());
}

//! Partitions that go from one instance to another, over a table and a stream in memory; processes
//! die between any two actions.

mod lives;

use super::*;
use crate::moves::{Keyed, PART_BYTES, Rows};
use crate::settlement::LOOP;
use crate::store::{Changes, MemoryStore, Store, StoreError, Table};
use bytes::Bytes;
use rhumb_partition::{Directory, Owners, OwnersTable, Whereabouts};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Edge;
use std::collections::BTreeMap;
use std::sync::Arc;

const TABLES: [(Table, Keyed); 1] = [("urls", Keyed::ByHash)];
const MOVED: u16 = 1;

/// What lies at the broker: the table, and the parts of partitions under versions, by their places
/// in the stream.
struct Broker {
    table: OwnersTable,
    parts: BTreeMap<(u16, u64), BTreeMap<u64, Bytes>>,
    published: u64,
}

impl Broker {
    fn change(&mut self, change: &Change, instance: u16) -> OwnersTable {
        self.table.revision += u64::from(change.apply(&mut self.table.owners, instance));
        self.table.clone()
    }

    fn publish(&mut self, partition: u16, version: u64, parts: Vec<Bytes>) {
        let stream = self.parts.entry((partition, version)).or_default();
        for part in parts {
            self.published += 1;
            stream.insert(self.published, part);
        }
    }

    fn next(&self, coming: &Coming) -> Option<(u64, Bytes)> {
        let stream = self.parts.get(&(coming.partition, coming.version))?;
        let (sequence, part) = stream.range(coming.sequence()..).next()?;
        Some((*sequence, part.clone()))
    }
}

fn of(instance: u16) -> InstanceId {
    InstanceId {
        crawl: "a-1".into(),
        stage: "dedup",
        instance,
    }
}

fn rows(store: &Arc<MemoryStore>) -> Rows {
    Rows {
        store: store.clone(),
        tables: TABLES.to_vec(),
        edges: vec![Edge::UrlsSplit],
        directory: Directory::new(4),
        halve: |_, _, _| Ok(0),
    }
}

/// A row of a partition.
fn key(partition: u16, number: u64) -> [u8; 8] {
    ((u64::from(partition) << 62) + number).to_be_bytes()
}

fn write(store: &MemoryStore, partition: u16, number: u64) -> Changes {
    let mut changes = Changes::default();
    changes.put("urls", key(partition, number), *b"url");
    store.commit(&changes).unwrap();
    changes
}

fn count(store: &Arc<MemoryStore>, partition: u16) -> usize {
    let mut count = 0;
    let visited = rows(store).visit(partition, &mut |_, _, _| {
        count += 1;
        Ok(())
    });
    visited.unwrap();
    count
}

/// Carries a handover out, up to so many actions; none when the process died before its end.
fn carry_out(
    mut handover: Handover,
    store: &MemoryStore,
    broker: &mut Broker,
    instance: u16,
    actions: usize,
) -> Option<Settled> {
    for _ in 0..actions {
        match handover.next_action(Timestamp::ZERO).unwrap() {
            Action::Open => panic!("nothing lies beside the tables"),
            Action::Commit(changes) => handover.committed(store.commit(&changes)).unwrap(),
            Action::Change(change) => {
                let table = broker.change(&change, instance);
                handover.changed(table).unwrap();
            }
            Action::Publish(partition, version, parts) => {
                broker.publish(partition, version, parts);
                handover.published(Timestamp::ZERO, Ok(()));
            }
            Action::Purge(taken) => taken
                .iter()
                .for_each(|taken| _ = broker.parts.remove(taken)),
            Action::End(settled) => return Some(*settled),
        }
    }
    None
}

/// The handover between two lives, to its end.
fn settle(
    store: &Arc<MemoryStore>,
    broker: &mut Broker,
    instance: u16,
    brought: Option<Brought>,
) -> Settled {
    let handover = match brought {
        Some(brought) => Handover::between(of(instance), rows(store), BesideTables::None, brought),
        None => Handover::at_start(of(instance), rows(store), BesideTables::None),
    };
    carry_out(handover, store, broker, instance, usize::MAX).unwrap()
}

/// Does what a migration asks for, as far as it goes now. `coming`: what is being taken in.
fn work(
    migration: &mut Migration,
    coming: &mut BTreeMap<u16, Box<Coming>>,
    store: &MemoryStore,
    broker: &mut Broker,
    instance: u16,
) {
    let table = broker.table.clone();
    migration.look(&table.owners, None).unwrap();
    while let Some(work) = migration.next_background() {
        match work {
            Background::Copy(copying) => {
                let partition = copying.partition;
                let version = copying.version;
                broker.parts.retain(|(of, _), _| *of != partition);
                let mut parts = Vec::new();
                let sent = copying.read(PART_BYTES, &mut |part| {
                    parts.push(part);
                    Ok(())
                });
                broker.publish(partition, version, parts);
                migration.sent(partition, sent.unwrap());
            }
            Background::Load(load) => _ = coming.insert(load.partition, load),
            Background::GiveUp(partition) => _ = coming.remove(&partition),
        }
    }
    coming.retain(|&partition, coming| {
        take_in(migration, coming, store, broker, instance)
            .inspect_err(|()| migration.ended(partition))
            .is_ok()
    });
}

/// Takes in what there is of a partition; an error when its sender has begun anew.
fn take_in(
    migration: &mut Migration,
    coming: &mut Coming,
    store: &MemoryStore,
    broker: &mut Broker,
    instance: u16,
) -> Result<(), ()> {
    loop {
        if let Some(told) = coming.to_tell() {
            broker.change(&told, instance);
            coming.told();
        }
        let Some((sequence, part)) = broker.next(coming) else {
            return Ok(());
        };
        let mut commit = |changes: &Changes| Ok(store.commit(changes)?);
        match coming.take(sequence, &part, &mut commit) {
            Taken::More => {}
            Taken::Whole => migration.loaded(coming.partition, coming.loaded()),
            Taken::Ended => return Err(()),
            Taken::Refused(why) => panic!("{why}"),
        }
    }
}

/// Two instances, of which the first is to give a partition to the second; it has ten rows.
struct Pair {
    broker: Broker,
    stores: [Arc<MemoryStore>; 2],
}

impl Pair {
    fn new() -> Self {
        let mut owners = Owners::new(4, 1);
        owners.wanted = 2;
        assert!(owners.send(MOVED, 1));
        let stores: [Arc<MemoryStore>; 2] = Default::default();
        (0..10).for_each(|number| _ = write(&stores[0], MOVED, number));
        write(&stores[0], 0, 0);
        Pair {
            broker: Broker {
                table: OwnersTable {
                    owners,
                    revision: 1,
                },
                parts: BTreeMap::new(),
                published: 0,
            },
            stores,
        }
    }

    /// A life of each instance copies what it can, and the owner writes one row more.
    fn copy(&mut self, brought: [Option<Brought>; 2]) -> [Brought; 2] {
        let Pair { broker, stores } = self;
        let mut instance = 0;
        let mut migrations = brought.map(|brought| {
            let of = of(instance);
            let rows = rows(&stores[usize::from(instance)]);
            instance += 1;
            let epoch = 7 + broker.table.revision;
            Migration::begin(of, rows, epoch, brought.unwrap_or_default())
        });
        let mut coming = BTreeMap::new();
        let [gives, takes] = &mut migrations;
        work(gives, &mut BTreeMap::new(), &stores[0], broker, 0);
        if broker.table.owners.used_by(0).contains(&MOVED) {
            gives.note(&write(&stores[0], MOVED, 10));
        }
        // One that finds that its sender has begun anew does so, too.
        for _ in 0..2 {
            work(takes, &mut coming, &stores[1], broker, 1);
        }
        let [gives, takes] = migrations;
        [
            gives.end([]),
            takes.end(coming.into_values().map(|coming| *coming)),
        ]
    }

    fn owner(&self) -> u16 {
        self.broker.table.owners.partitions[usize::from(MOVED)].owner
    }

    /// Lives follow each other until the partition is where it is to be; then the table and both
    /// stores say so.
    fn goes_on(mut self, mut brought: [Option<Brought>; 2]) -> Self {
        for _ in 0..5 {
            let [gives, takes] = self.copy(brought);
            let gave = settle(&self.stores[0], &mut self.broker, 0, Some(gives));
            let again = [Some(gave.brought), Some(takes)];
            let [_, takes] = self.copy(again);
            let took = settle(&self.stores[1], &mut self.broker, 1, Some(takes));
            brought = [None, Some(took.brought)];
            if self.owner() == 1 {
                break;
            }
        }
        assert_eq!(self.owner(), 1);
        assert_eq!(count(&self.stores[1], MOVED), 11);
        let left = settle(&self.stores[0], &mut self.broker, 0, None);
        assert_eq!(left.left_over, [MOVED]);
        assert_eq!(count(&self.stores[0], 0), 1);
        let state = self.broker.table.owners.partitions[usize::from(MOVED)];
        assert_eq!((state.is, state.version), (Whereabouts::Owned, 2));
        self
    }
}

#[test]
fn a_partition_goes_to_another_instance_with_what_changed_meanwhile() {
    let Pair { broker, stores } = Pair::new().goes_on([None, None]);
    assert!(broker.parts.is_empty(), "they were purged");
    let taking = format!("taking {MOVED:05}");
    assert_eq!(stores[1].get(LOOP, taking.as_bytes()).unwrap(), None);
}

#[test]
fn an_owner_that_dies_between_any_two_actions_has_given_all_or_nothing() {
    let mut ended = false;
    for actions in 0..20 {
        let mut pair = Pair::new();
        let [gives, takes] = pair.copy([None, None]);
        let rows = rows(&pair.stores[0]);
        let handover = Handover::between(of(0), rows, BesideTables::None, gives);
        let store = pair.stores[0].clone();
        ended = carry_out(handover, &store, &mut pair.broker, 0, actions).is_some();
        // The next process.
        settle(&pair.stores[0], &mut pair.broker, 0, None);
        assert_eq!(pair.owner(), 0, "nobody has taken it");
        pair.goes_on([None, Some(takes)]);
    }
    assert!(ended, "the last one has died of nothing");
}

#[test]
fn a_receiver_that_dies_between_any_two_actions_takes_it_in_a_later_life() {
    let mut ended = false;
    for actions in 0..20 {
        let mut pair = Pair::new();
        let [gives, takes] = pair.copy([None, None]);
        settle(&pair.stores[0], &mut pair.broker, 0, Some(gives));
        let [_, takes] = pair.copy([None, Some(takes)]);
        let rows = rows(&pair.stores[1]);
        let handover = Handover::between(of(1), rows, BesideTables::None, takes);
        let store = pair.stores[1].clone();
        ended = carry_out(handover, &store, &mut pair.broker, 1, actions).is_some();
        // The next process.
        let begun = settle(&pair.stores[1], &mut pair.broker, 1, None);
        pair.goes_on([None, Some(begun.brought)]);
    }
    assert!(ended, "the last one has died of nothing");
}

/// Goal: what is left of a partition that came and was given up is removed without its halves, which
/// come as well. Method: it is split in the life in which it is given up; then rows of a half come.
#[test]
fn what_is_left_of_a_partition_that_was_split_is_not_its_halves() {
    let mut pair = Pair::new();
    pair.broker.table.owners.wanted = 1;
    assert!(pair.broker.table.owners.keep(MOVED, 0));
    let store = pair.stores[1].clone();
    write(&store, MOVED, 0);
    let settled = settle(&store, &mut pair.broker, 1, None);
    assert_eq!(settled.left_over, [MOVED]);
    let lease = Lease { taken: 1, epoch: 0 };
    let mut tenure = Tenure::begin(of(1), lease, settled, true).unwrap();
    let table = &mut pair.broker.table;
    table.owners.partitions[usize::from(MOVED)].version = 1;
    let [lower, _] = table.owners.split(MOVED).unwrap();
    table.revision += 1;
    tenure.look(Timestamp::ZERO, table, None).unwrap();
    (0..10).for_each(|number| _ = write(&store, MOVED, number));
    while let Some(changes) = tenure.remove_left_over(3).unwrap() {
        store.commit(&changes).unwrap();
    }
    let mut rows = rows(&store);
    rows.learn(&table.owners);
    let mut left = 0;
    let visited = rows.visit(lower, &mut |_, _, _| {
        left += 1;
        Ok(())
    });
    visited.unwrap();
    assert_eq!(left, 10);
}

#[test]
fn a_table_that_is_older_than_what_an_instance_has_used_is_not_believed() {
    let mut pair = Pair::new();
    let before = pair.broker.table.clone();
    let [gives, takes] = pair.copy([None, None]);
    settle(&pair.stores[0], &mut pair.broker, 0, Some(gives));
    let [_, takes] = pair.copy([None, Some(takes)]);
    settle(&pair.stores[1], &mut pair.broker, 1, Some(takes));
    assert_eq!(pair.owner(), 1);
    pair.broker.table = before;
    let rows = rows(&pair.stores[1]);
    let mut handover = Handover::at_start(of(1), rows, BesideTables::None);
    let refused = loop {
        match handover.next_action(Timestamp::ZERO).unwrap() {
            Action::Change(change) => {
                let table = pair.broker.change(&change, 1);
                if let Err(refused) = handover.changed(table) {
                    break refused;
                }
            }
            _ => panic!("it writes although the table is older"),
        }
    };
    assert!(matches!(refused, NotSettled::Misfit(_)), "{refused}");
}

/// What lies beside the tables is opened anew when an import fails, and knows no other import then.
#[test]
fn a_partition_that_cannot_be_taken_makes_the_others_begin_anew() {
    let mut pair = Pair::new();
    assert!(pair.broker.table.owners.send(2, 1));
    write(&pair.stores[0], 2, 0);
    let [gives, takes] = pair.copy([None, None]);
    settle(&pair.stores[0], &mut pair.broker, 0, Some(gives));
    let [_, takes] = pair.copy([None, Some(takes)]);
    assert!(takes.loaded.keys().eq(&[MOVED, 2]));

    let rows = rows(&pair.stores[1]);
    let mut handover = Handover::between(of(1), rows, BesideTables::None, takes);
    let mut is_full = true;
    let settled = loop {
        match handover.next_action(Timestamp::ZERO).unwrap() {
            Action::Commit(changes) => {
                let committed = match std::mem::take(&mut is_full) {
                    true => Err(StoreError::Unusable("the disk is full".to_owned())),
                    false => pair.stores[1].commit(&changes),
                };
                handover.committed(committed).unwrap();
            }
            Action::Change(change) => {
                let table = pair.broker.change(&change, 1);
                handover.changed(table).unwrap();
            }
            Action::End(settled) => break settled,
            Action::Open | Action::Publish(..) | Action::Purge(_) => panic!("nothing of that"),
        }
    };
    assert!(settled.brought.loaded.is_empty() && settled.brought.coming.is_empty());
    assert_eq!(pair.broker.table.owners.partitions[2].owner, 0);
    // The next life loads what is still to come, and takes it.
    let [_, takes] = pair.copy([None, Some(settled.brought)]);
    settle(&pair.stores[1], &mut pair.broker, 1, Some(takes));
    assert_eq!(pair.broker.table.owners.partitions[2].owner, 1);
    assert_eq!(count(&pair.stores[1], 2), 1);
}

#[test]
fn a_life_that_ends_before_it_works_in_the_background_hands_on_what_was_coming() {
    let mut pair = Pair::new();
    let [_, takes] = pair.copy([None, None]);
    let [_, takes] = pair.copy([None, Some(takes)]);
    let had: Vec<u16> = takes.coming.keys().copied().collect();
    assert_eq!(had, [MOVED]);
    let ended = Migration::begin(of(1), rows(&pair.stores[1]), 9, takes).end([]);
    assert!(ended.coming.keys().eq(&had));
}

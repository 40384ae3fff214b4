//! How a life begins, goes on and ends.

use super::{Brought, Change, MOVED, Pair, of, settle};
use crate::Signal;
use crate::node::{Background, Drawn, Lease, Node, Tenure};
use crate::settlement::LOOP;
use crate::settlement::tests::open_without_inputs;
use crate::store::{Changes, Store as _};
use rhumb_url::time::Timestamp;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

/// A life of an instance that has settled; its lease was taken under revision 3.
fn life(pair: &mut Pair, instance: u16, is_first: bool) -> Node<u64> {
    let store = pair.stores[usize::from(instance)].clone();
    let brought = (!is_first).then(Brought::default);
    let settled = settle(&store, &mut pair.broker, instance, brought);
    let lease = Lease { taken: 3, epoch: 0 };
    let tenure = Tenure::begin(of(instance), lease, settled, is_first).unwrap();
    let settlement = open_without_inputs(Some(store.as_ref()), tenure.epoch());
    Node::new(settlement, Some(tenure))
}

#[test]
fn a_life_that_is_to_have_other_partitions_drains_for_five_seconds_and_a_last_one_for_longer() {
    let mut node = life(&mut Pair::new(), 0, true);
    node.leased(at(100), 3).unwrap();
    assert!(node.takes_input(at(1)) && node.next_signal(at(1)).is_none());
    node.reassign(at(1));
    assert!(!node.takes_input(at(1)));
    assert!(
        node.gives_inputs_back() && !node.gives_inputs_back(),
        "once"
    );
    assert_eq!(node.next_signal(at(1)), Some(Signal::Drain));
    assert_eq!(node.next_signal(at(1)), None, "once");
    assert!(node.is_over(at(2), true), "it holds nothing");
    assert!(!node.is_over(at(6), false) && node.is_over(at(7), false));
    assert_eq!(node.reassigned_at(), Some(at(1)));

    node.end(at(4));
    assert_eq!(node.reassigned_at(), None, "no life follows");
    assert!(!node.gives_inputs_back() && node.next_signal(at(4)).is_none());
    assert!(!node.is_over(at(29), false) && node.is_over(at(30), false));
}

#[test]
fn a_core_is_told_that_its_life_ends_when_the_lease_is_held_again() {
    let mut node = life(&mut Pair::new(), 0, true);
    node.end(at(1));
    assert_eq!(node.next_signal(at(1)), None, "no lease is held");
    node.leased(at(100), 3).unwrap();
    assert_eq!(node.next_signal(at(2)), Some(Signal::Drain));
}

#[test]
fn a_lease_that_was_taken_again_begins_an_epoch() {
    let mut node = life(&mut Pair::new(), 0, true);
    let begun = node.tenure().unwrap().epoch();
    assert_eq!(begun, 4, "above the revision of the lease");
    assert_eq!(node.leased(at(10), 3).unwrap(), None);
    assert_eq!(node.leased(at(20), 3).unwrap(), None, "it is renewed");
    assert_eq!(node.leased(at(30), 8).unwrap(), Some(9));
    assert_eq!(node.leased(at(40), 8).unwrap(), None);
}

#[test]
fn consumers_are_made_anew_by_the_next_life_of_a_process_and_not_by_the_next_process() {
    let mut pair = Pair::new();
    let node = life(&mut pair, 0, true);
    assert_eq!(*node.tenure().unwrap().drawn(), Drawn::All);
    // From the first move on each partition has its own.
    let mut divided = Changes::default();
    divided.put(LOOP, *b"position urls.split/00000", *b"how far it came");
    pair.stores[0].commit(&divided).unwrap();
    let mut since = |is_first| match life(&mut pair, 0, is_first).tenure().unwrap().drawn() {
        Drawn::Each { owned, since } => {
            assert_eq!(owned.len(), 4);
            *since
        }
        Drawn::All => panic!("one consumer of all"),
    };
    let first = since(true);
    assert_eq!(since(true), first);
    let second = since(false);
    assert!(second > first);
    assert_eq!(since(true), second);
}

#[test]
fn what_is_ready_to_go_ends_a_life_and_a_table_from_before_it_does_not() {
    let mut pair = Pair::new();
    let mut node = life(&mut pair, 0, true);
    let before = pair.broker.table.clone();
    node.look(at(1), &before, None).unwrap();
    assert!(node.is_moving() && !node.is_draining(), "nobody has a copy");
    let migration = node.migration().unwrap();
    let Some(Background::Copy(copying)) = migration.next_background() else {
        panic!("the partition is to be copied");
    };
    let version = copying.version;
    let sent = copying.read(1 << 16, &mut |_| Ok(())).unwrap();
    let copied = Change::Copied {
        partition: MOVED,
        version,
        copy: node.tenure().unwrap().epoch(),
    };
    node.migration().unwrap().sent(MOVED, sent);
    let table = pair.broker.change(&copied, 1);
    let mut older = table.clone();
    older.revision = 0;
    node.look(at(2), &older, None).unwrap();
    assert!(!node.is_draining());
    node.look(at(2), &table, None).unwrap();
    assert_eq!(node.reassigned_at(), Some(at(2)));
}

//! Positions of partitions that come and go.

use super::*;
use crate::{Keyed, Removal, Rows};
use rhumb_partition::Directory;

/// The tables of the loop alone move here.
fn rows(store: &Arc<MemoryStore>) -> Rows {
    let tables = vec![("urls", Keyed::ByHash)];
    Rows {
        store: store.clone(),
        tables,
        edges: vec![Edge::UrlsSplit],
        directory: Directory::new(2),
        halve: |_, _, _| Ok(0),
    }
}

fn of_partition(partition: Option<u16>, sequence: u64) -> InputAt {
    InputAt {
        edge: Edge::UrlsSplit,
        partition,
        sequence,
    }
}

/// A life that draws by these consumers.
fn drawing(store: &Arc<MemoryStore>, epoch: u64, consumers: &[Option<u16>]) -> Settled {
    let mut settlement = open_without_inputs(Some(store.as_ref()), epoch);
    assert!(
        !settlement
            .adopt(Some(store.as_ref()), Edge::UrlsSplit, consumers, 1)
            .unwrap()
    );
    settlement.leased(at(10));
    settlement
}

/// Gives the core a message and has it applied; false when it was taken for a repeat, and acked.
fn applies(
    settlement: &mut Settled,
    store: &MemoryStore,
    partition: Option<u16>,
    sequence: u64,
) -> bool {
    let tickets = settlement
        .message(
            at(1),
            of_partition(partition, sequence),
            sequence as i64,
            1,
            sequence,
        )
        .unwrap();
    if let Some(tickets) = &tickets {
        settlement.settles(at(1), step(tickets, tickets)).unwrap();
    }
    assert!(carry_out(settlement, store).contains(&format!("ack {sequence}")));
    tickets.is_some()
}

fn moves(from: &Arc<MemoryStore>, to: &Arc<MemoryStore>, partition: u16) {
    let mut changes = Changes::default();
    let mut give = |table: &str, key: &[u8], value: &[u8]| {
        rows(to)
            .apply(&mut changes, partition, (table, key, Some(value)))
            .unwrap();
        Ok(())
    };
    rows(from).visit(partition, &mut give).unwrap();
    rows(from).visit_positions(partition, &mut give).unwrap();
    to.commit(&changes).unwrap();
}

/// Goal: a message that waits in a stream when its partition moves is given to the core of the
/// receiver, however far that one has come with its own partition; what the giver has applied is a
/// repeat. Method: the broker has all acks of the receiver's own consumer up to 90; messages 3 and
/// 8 of the other partition wait, 5 was applied by the giver.
#[test]
fn a_waiting_message_of_a_partition_that_was_taken_is_no_repeat() {
    let [giver, receiver] = [(); 2].map(|()| Arc::<MemoryStore>::default());
    let mut settlement = drawing(&giver, 4, &[Some(0)]);
    assert!(applies(&mut settlement, &giver, Some(0), 5));
    let mut settlement = drawing(&receiver, 7, &[Some(1)]);
    assert!(applies(&mut settlement, &receiver, Some(1), 90));
    settlement.acked_up_to((Edge::UrlsSplit, Some(1)), 90);
    assert!(applies(&mut settlement, &receiver, Some(1), 91));

    moves(&giver, &receiver, 0);
    let mut settlement = drawing(&receiver, 8, &[Some(0), Some(1)]);
    for (sequence, is_given) in [(3, true), (5, false), (8, true), (3, false)] {
        assert_eq!(
            applies(&mut settlement, &receiver, Some(0), sequence),
            is_given,
            "{sequence}"
        );
    }
    // Its own position still says what it has applied.
    assert!(
        !applies(&mut settlement, &receiver, Some(1), 90)
            && applies(&mut settlement, &receiver, Some(1), 92)
    );
    // And the floor of the one is none of the other.
    settlement.acked_up_to((Edge::UrlsSplit, Some(1)), 92);
    assert!(applies(&mut settlement, &receiver, Some(0), 6));
}

/// The same where one instance had all partitions, and so one position, which its floor had raised:
/// its partitions know what it has applied, and the receiver of one knows that of this one alone.
#[test]
fn the_floor_of_an_instance_that_had_all_stays_with_its_partitions() {
    let [giver, receiver] = [(); 2].map(|()| Arc::<MemoryStore>::default());
    let mut settlement = drawing(&giver, 4, &[None]);
    assert!(applies(&mut settlement, &giver, None, 40));
    settlement.acked_up_to((Edge::UrlsSplit, None), 39);
    assert!(applies(&mut settlement, &giver, None, 42));

    giver
        .commit(&rows(&giver).divide().unwrap().unwrap())
        .unwrap();
    moves(&giver, &receiver, 1);
    let mut settlement = drawing(&receiver, 5, &[Some(1)]);
    for (sequence, is_given) in [(7, false), (40, false), (41, true), (42, false), (43, true)] {
        assert_eq!(
            applies(&mut settlement, &receiver, Some(1), sequence),
            is_given,
            "{sequence}"
        );
    }
    // What comes back to the giver is what the receiver has made of it.
    let mut changes = Changes::default();
    rows(&giver)
        .remove(&mut changes, 1, &mut Removal::default(), 100)
        .unwrap();
    giver.commit(&changes).unwrap();
    moves(&receiver, &giver, 1);
    let mut settlement = drawing(&giver, 6, &[Some(0), Some(1)]);
    assert!(
        !applies(&mut settlement, &giver, Some(1), 43)
            && applies(&mut settlement, &giver, Some(1), 44)
    );
    assert!(
        applies(&mut settlement, &giver, Some(0), 41),
        "the receiver's messages are none of this partition"
    );
    // 40 and 42, 41 and 43 of the partition that was away, 44 of it and 41 of the other: each
    // counts once.
    assert!(
        settlement
            .counts()
            .contains(&("loop_settled_urls_split_total", 6))
    );
}

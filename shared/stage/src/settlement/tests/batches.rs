//! Batches: steps that one commit settles.

use super::*;
use crate::store::{Overlay, Visit};
use proptest::prelude::*;
use std::collections::BTreeMap;

const TABLE: &str = "table";

#[test]
fn what_follows_a_commit_comes_in_the_order_of_the_steps_and_nothing_before_it() {
    let store = MemoryStore::default();
    let mut settlement = open(Some(&store), 4);
    assert!(!settlement.has_room(at(1)), "none is begun");
    for sequence in [7, 8] {
        let ticket = given(&mut settlement, at(1), sequence, sequence * 10).unwrap();
        settlement.stepped(at(1), step(&[ticket], &[ticket]));
        assert!(settlement.has_room(at(1)));
        assert!(carry_out(&mut settlement, &store).is_empty());
    }
    // It comes again before the commit that applies it: its ack waits for that, too.
    assert_eq!(given(&mut settlement, at(1), 7, 71), None);
    assert!(carry_out(&mut settlement, &store).is_empty());
    settlement.settle(at(1)).unwrap();
    assert_eq!(
        carry_out(&mut settlement, &store),
        [
            "commit",
            "publish 0 as dedup-0-4-1",
            "ack 70",
            "publish 1 as dedup-0-4-2",
            "ack 80",
            "ack 71"
        ]
    );
    assert!(!settlement.has_room(at(1)));
    settlement.settle(at(1)).unwrap();
    assert!(carry_out(&mut settlement, &store).is_empty());
}

#[test]
fn a_batch_ends_with_its_steps_its_time_its_bytes_and_the_lease() {
    let store = MemoryStore::default();
    let millis = |millis: u64| Timestamp::from_micros(1000 * millis);
    let begun = || {
        let mut settlement = open(Some(&store), 4);
        settlement.stepped(millis(1000), step(&[], &[]));
        settlement
    };
    let mut settlement = begun();
    assert!(settlement.has_room(millis(1004)) && !settlement.has_room(millis(1005)));
    for _ in 1..63 {
        settlement.stepped(millis(1000), step(&[], &[]));
    }
    assert!(settlement.has_room(millis(1000)));
    settlement.stepped(millis(1000), step(&[], &[]));
    assert!(!settlement.has_room(millis(1000)));

    let mut settlement = begun();
    let mut large = Step::default();
    large.changes.put(TABLE, *b"row", vec![0; 1 << 20]);
    settlement.stepped(millis(1000), large);
    assert!(!settlement.has_room(millis(1000)));

    let mut settlement = begun();
    settlement.leased(millis(1002));
    assert!(settlement.has_room(millis(1001)) && !settlement.has_room(millis(1002)));
    assert!(settlement.settle(millis(1002)).is_err());
    assert!(carry_out(&mut settlement, &store).is_empty());
    assert!(carry_out(&mut open(Some(&store), 5), &store).is_empty());

    let mut without_state = open(NO_STORE, 0);
    without_state.stepped(millis(1000), step(&[], &[]));
    assert!(!without_state.has_room(millis(1000)));
}

#[test]
fn what_cannot_be_read_is_put_aside_while_its_batch_waits() {
    let store = MemoryStore::default();
    let mut settlement = open(Some(&store), 4);
    let [before, corrupt, after] =
        [7, 8, 9].map(|sequence| given(&mut settlement, at(1), sequence, sequence * 10).unwrap());
    settlement.stepped(at(1), step(&[before], &[before]));
    let error = Undecodable::Corrupt("checksum".into());
    settlement.unreadable(at(1), corrupt, "a.b", Bytes::from_static(b"bad"), &error);
    assert_eq!(
        carry_out(&mut settlement, &store),
        ["publish 0 as dead-0000000000000009-1"]
    );
    settlement.stepped(at(1), step(&[after], &[after]));
    settlement.settle(at(1)).unwrap();
    assert_eq!(
        carry_out(&mut settlement, &store),
        [
            "commit",
            "publish 1 as dedup-0-4-1",
            "ack 70",
            "publish 2 as dedup-0-4-2",
            "ack 90"
        ]
    );
    assert!(settlement.stored(at(2), 0).is_empty());
    settlement.upkeep(at(2));
    assert_eq!(carry_out(&mut settlement, &store), ["commit", "ack 80"]);
}

/// An input of a made-up stage, whose steps read what those before them changed.
#[derive(Clone, Copy, Debug)]
struct Input {
    /// Its place in the stream: two inputs with the same one are a message that came again.
    sequence: u64,
    /// Which row it is about.
    key: u8,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// Counts in the row, and tells the new number.
    Count,
    Remove,
    /// Tells all rows from this one on.
    Tell,
    /// Is finished with the next input that is not held.
    Hold,
    Unreadable,
}

/// What came of inputs: publishes and dead letters, acks, the rows of all tables.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    published: Vec<(String, Bytes)>,
    aside: Vec<Bytes>,
    acked: BTreeMap<u64, usize>,
    rows: Vec<(&'static str, Vec<u8>, Vec<u8>)>,
}

impl Outcome {
    fn carry_out(&mut self, settlement: &mut Settled, store: &MemoryStore) {
        while let Some(action) = settlement.next_action() {
            match action {
                Action::Commit(changes) => {
                    store.commit(&changes).unwrap();
                    settlement.committed(at(1));
                }
                Action::Publish(token) => {
                    let message = settlement.outgoing(token).unwrap();
                    if message.id.starts_with("dead") {
                        self.aside.push(message.payload.clone());
                        assert!(settlement.stored(at(1), token).is_empty());
                    } else {
                        let id = message.id.clone();
                        self.published.push((id, message.payload.clone()));
                    }
                }
                Action::Ack(input) => *self.acked.entry(input).or_default() += 1,
                other => panic!("{other:?}"),
            }
        }
    }
}

/// The step of the made-up stage for an input.
fn step_of(store: &dyn Store, held: &mut Vec<Ticket>, ticket: Ticket, input: Input) -> Step {
    let mut step = Step::default();
    let key = [input.key];
    let told = match input.what {
        What::Hold => {
            held.push(ticket);
            return step;
        }
        What::Count => {
            let row = store.get(TABLE, &key).unwrap();
            let number = row.map_or(0, |row| row[0]).wrapping_add(1);
            step.changes.put(TABLE, key, [number]);
            vec![number]
        }
        What::Remove => {
            let was_there = store.contains(TABLE, &key).unwrap();
            step.changes.remove(TABLE, key);
            vec![u8::from(was_there)]
        }
        What::Tell => {
            let mut told = Vec::new();
            let visit: &mut Visit<'_> = &mut |key, row| {
                told.extend([key[0], row[0]]);
                true
            };
            store.scan(TABLE, &key, &[u8::MAX], visit).unwrap();
            told
        }
        What::Unreadable => unreachable!("the core is not stepped with it"),
    };
    step.publishes.push(Publish {
        edge: Edge::UrlsNew,
        token: Token::Partition(0),
        payload: told.into(),
        causes: vec![ticket],
        tag: None,
    });
    step.finished.append(held);
    step.finished.push(ticket);
    step
}

/// What comes of inputs, with a commit after each that has a cut.
fn outcome(inputs: &[(Input, bool)]) -> Outcome {
    let store = Arc::new(MemoryStore::default());
    let uncommitted = Arc::<Uncommitted>::default();
    let overlay = Overlay::new(store.clone(), uncommitted.clone());
    let mut settlement = open_sharing(Some(store.as_ref()), uncommitted, 4);
    settlement
        .adopt(Some(store.as_ref()), Edge::UrlsSplit, &[None], 1)
        .unwrap();
    settlement.leased(at(10));
    let mut held = Vec::new();
    let mut outcome = Outcome::default();
    for &(input, is_cut) in inputs {
        let answer_to = input.sequence;
        if let Some(ticket) = given(&mut settlement, at(1), input.sequence, answer_to) {
            if let What::Unreadable = input.what {
                let error = Undecodable::Corrupt("checksum".into());
                let payload = Bytes::copy_from_slice(&[input.key]);
                settlement.unreadable(at(1), ticket, "a.b", payload, &error);
            } else {
                let step = step_of(&overlay, &mut held, ticket, input);
                settlement.stepped(at(1), step);
            }
        }
        outcome.carry_out(&mut settlement, &store);
        if is_cut {
            settlement.settle(at(1)).unwrap();
            outcome.carry_out(&mut settlement, &store);
        }
    }
    settlement.settle(at(1)).unwrap();
    outcome.carry_out(&mut settlement, &store);
    settlement.upkeep(at(1));
    outcome.carry_out(&mut settlement, &store);
    for table in [TABLE, LOOP, OUTBOX] {
        let visit: &mut Visit<'_> = &mut |key, row| {
            outcome.rows.push((table, key.to_vec(), row.to_vec()));
            true
        };
        store.scan(table, &[], &[u8::MAX; 17], visit).unwrap();
    }
    outcome
}

fn inputs() -> impl Strategy<Value = Vec<(Input, bool)>> {
    let what = prop_oneof![
        6 => Just(What::Count),
        2 => Just(What::Remove),
        2 => Just(What::Tell),
        1 => Just(What::Hold),
        1 => Just(What::Unreadable),
    ];
    let input = (1u64..40, 0u8..6, what).prop_map(|(sequence, key, what)| Input {
        sequence,
        key,
        what,
    });
    proptest::collection::vec((input, proptest::bool::weighted(0.2)), 1..60)
}

proptest! {
    /// Goal: how inputs are cut into batches changes neither the store nor what is published, put
    /// aside and acked. Method: messages in any order, some of which come again; steps that read
    /// single rows and ranges of what those before them wrote and removed; the same once with a
    /// commit after each.
    #[test]
    fn batches_come_to_the_same_as_single_steps(mut inputs in inputs()) {
        // What was given by then is in the last position, applied or held.
        let last = Input { sequence: 40, key: 0, what: What::Count };
        inputs.push((last, true));
        let singly: Vec<_> = inputs.iter().map(|&(input, _)| (input, true)).collect();
        prop_assert_eq!(outcome(&inputs), outcome(&singly));
    }
}

//! The delivery rule, event by event.

use super::*;
use crate::config::Layers;
use crate::stage::store::MemoryStore;
use crate::stage::{Output, Token};

type Settled = Settlement<u64>;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn open(store: Option<&dyn Store>, epoch: u64) -> Settled {
    let set = vec!["network.user_agent='rhumb/0 (+https://example.org/test)'".to_owned()];
    let pipeline = Layers { file: None, set }.load_with(std::iter::empty()).unwrap();
    let life = Life { stage: "dedup", instance: 0, life: 9, epoch };
    let subjects = Arc::new(Subjects::new(&pipeline));
    let mut settlement = Settlement::open(life, subjects, &pipeline, store, at(0)).unwrap();
    assert!(!settlement.adopt(store, Edge::UrlsSplit, 1).unwrap());
    settlement.leased(at(10));
    settlement
}

/// A message of the stream of `urls.split`, stored at the second of its sequence.
fn given(settlement: &mut Settled, now: Timestamp, sequence: u64, answer_to: u64) -> Option<Ticket> {
    settlement.message(now, Edge::UrlsSplit, (sequence, sequence as i64), answer_to).unwrap()
}

/// A step that finishes `finished` and publishes one message made from `causes`.
fn step(finished: &[Ticket], causes: &[Ticket]) -> Step {
    let mut out: Output<()> = Output::default();
    for &ticket in finished {
        out.finish(ticket);
    }
    let publish = Publish {
        edge: Edge::UrlsNew,
        token: Token::Partition(3),
        payload: Bytes::from_static(b"made"),
        causes: causes.to_vec(),
        tag: Some(5),
    };
    out.publishes.push(publish);
    out.split().0
}

/// Carries out what is to be done, commits included; what was done, in words.
fn carry_out(settlement: &mut Settled, store: &dyn Store) -> Vec<String> {
    let mut done = Vec::new();
    while let Some(action) = settlement.next_action() {
        done.push(match action {
            Action::Commit(changes) => {
                store.commit(&changes).unwrap();
                settlement.committed(at(1));
                "commit".to_owned()
            }
            Action::Publish(token) => format!("publish {token} as {}", settlement.outgoing(token).unwrap().id),
            Action::Ack(input) => format!("ack {input}"),
            Action::Nak(input, wait) => format!("nak {input} for {wait:?}"),
            Action::Extend(input) => format!("extend {input}"),
            Action::Send(_) | Action::Reply(..) => "core message".to_owned(),
        });
    }
    done
}

const NO_STORE: Option<&dyn Store> = None;

#[test]
fn without_state_an_input_is_acked_when_it_is_finished_and_all_its_outputs_are_stored() {
    let (mut settlement, store) = (open(NO_STORE, 0), MemoryStore::default());
    let ticket = given(&mut settlement, at(1), 7, 70).unwrap();
    settlement.stepped(at(1), step(&[], &[ticket])).unwrap();
    let done = carry_out(&mut settlement, &store);
    assert!(done.len() == 1 && done[0].starts_with("publish 0 as "), "{done:?}");
    assert_eq!(settlement.stored(0), Some(5));
    assert_eq!((carry_out(&mut settlement, &store).len(), settlement.is_settled()), (0, false));
    settlement.stepped(at(2), step(&[ticket], &[ticket])).unwrap();
    assert_eq!(carry_out(&mut settlement, &store), [done[0].replace("publish 0", "publish 1")]);
    settlement.stored(1);
    assert_eq!(carry_out(&mut settlement, &store), ["ack 70"]);
    assert!(settlement.is_settled());
}

#[test]
fn with_state_the_commit_comes_first_and_then_outputs_and_acks() {
    let store = MemoryStore::default();
    let mut settlement = open(Some(&store), 4);
    let ticket = given(&mut settlement, at(1), 7, 70).unwrap();
    settlement.stepped(at(1), step(&[ticket], &[ticket])).unwrap();
    assert_eq!(carry_out(&mut settlement, &store), ["commit", "publish 0 as dedup-0-4-1", "ack 70"]);
    // It is applied: another delivery is acked and goes no further, in this life and in the next.
    assert_eq!(given(&mut settlement, at(2), 7, 71), None);
    assert_eq!(carry_out(&mut settlement, &store), ["ack 71"]);
    let mut next = open(Some(&store), 5);
    assert_eq!(carry_out(&mut next, &store), ["publish 0 as dedup-0-4-1"]);
    assert_eq!(given(&mut next, at(3), 7, 72), None);
    // In another stream the same sequence is another message.
    assert!(next.adopt(Some(&store), Edge::UrlsSplit, 2).unwrap());
    assert!(given(&mut next, at(3), 7, 73).is_some());
}

#[test]
fn a_stored_output_leaves_the_outbox_with_the_next_commit() {
    let store = MemoryStore::default();
    let mut settlement = open(Some(&store), 4);
    settlement.stepped(at(1), step(&[], &[])).unwrap();
    carry_out(&mut settlement, &store);
    assert!(!settlement.needs_upkeep());
    settlement.stored(0);
    assert!(settlement.needs_upkeep());
    settlement.upkeep(at(2));
    assert_eq!(carry_out(&mut settlement, &store), ["commit"]);
    assert!(carry_out(&mut open(Some(&store), 5), &store).is_empty());
}

#[test]
fn nothing_is_committed_after_the_end_of_the_lease() {
    let store = MemoryStore::default();
    let mut settlement = open(Some(&store), 4);
    let ticket = given(&mut settlement, at(9), 7, 70).unwrap();
    assert!(settlement.may_step(at(9)) && !settlement.may_step(at(10)) && !settlement.takes_input(at(10)));
    assert!(settlement.stepped(at(10), step(&[ticket], &[ticket])).is_err());
    assert!(carry_out(&mut settlement, &store).is_empty());
    settlement.upkeep(at(11));
    assert!(carry_out(&mut settlement, &store).is_empty());
    assert!(given(&mut open(Some(&store), 5), at(1), 7, 71).is_some());
}

#[test]
fn a_corrupt_input_is_acked_when_it_lies_with_the_dead_letters() {
    let (mut settlement, store) = (open(NO_STORE, 0), MemoryStore::default());
    let ticket = given(&mut settlement, at(1), 7, 70).unwrap();
    let error = Undecodable::Corrupt("checksum\r\n".into());
    settlement.unreadable(at(1), ticket, "a.b", Bytes::from_static(b"bad"), &error);
    let letter = settlement.outgoing(0).unwrap();
    assert_eq!(letter.headers, [("Rhumb-Subject", "a.b".to_owned()), ("Rhumb-Reason", "checksum  ".to_owned())]);
    assert_eq!(carry_out(&mut settlement, &store), ["publish 0 as dead-0000000000000009-1"]);
    settlement.stored(0);
    assert_eq!(carry_out(&mut settlement, &store), ["ack 70"]);
}

#[test]
fn an_input_of_an_unknown_version_waits_for_a_program_that_knows_it() {
    let (mut settlement, store) = (open(NO_STORE, 0), MemoryStore::default());
    let ticket = given(&mut settlement, at(1), 7, 70).unwrap();
    let error = Undecodable::UnknownVersion { edge: Edge::UrlsSplit, found: 99, known: 1 };
    settlement.unreadable(at(1), ticket, "a.b", Bytes::new(), &error);
    assert_eq!(carry_out(&mut settlement, &store), ["nak 70 for 5s"]);
    assert!(settlement.is_settled() && settlement.readiness(at(2)).is_err());
    settlement.upkeep(at(12));
    assert!(settlement.readiness(at(12)).is_ok());
}

#[test]
fn an_input_that_is_in_hand_for_long_is_extended_and_an_old_publish_repeated() {
    let (mut settlement, store) = (open(NO_STORE, 0), MemoryStore::default());
    let tickets = [7, 8].map(|n| given(&mut settlement, at(0), n, n * 10).unwrap());
    settlement.stepped(at(0), step(&[], &tickets)).unwrap();
    let published = carry_out(&mut settlement, &store);
    settlement.upkeep(at(9));
    assert!(carry_out(&mut settlement, &store).is_empty());
    settlement.upkeep(at(11));
    assert_eq!(carry_out(&mut settlement, &store), ["extend 70", "extend 80"]);
    settlement.due(at(2));
    assert_eq!(carry_out(&mut settlement, &store), published);
    settlement.disconnected();
    assert_eq!((settlement.outgoing(0).is_none(), settlement.outgoing(1).is_none()), (true, true));
    settlement.reconnected(at(3));
    assert_eq!(carry_out(&mut settlement, &store), published);
    assert_eq!(settlement.readiness(at(10)), Ok(()));
    assert_eq!(settlement.readiness(at(11)).unwrap_err(), "what is published is not stored: no answer");
}

fn looked(expected: Vec<Expected>, last: u64, at_given: Option<i64>) -> Vec<StreamLook> {
    expected.into_iter().map(|expected| StreamLook { expected, created: 1, last, at_given }).collect()
}

fn ack(sequence: u64, is_repeat: bool) -> PubAck {
    PubAck { stream: "rhumb_default_urls_new".into(), sequence, is_repeat }
}

/// A stage with state that was given messages 1 to 7 and has applied the last.
fn that_was_given_seven(store: &MemoryStore) -> Settled {
    let mut settlement = open(Some(store), 4);
    for sequence in 1..7 {
        given(&mut settlement, at(1), sequence, sequence);
    }
    let ticket = given(&mut settlement, at(1), 7, 70).unwrap();
    settlement.stepped(at(1), step(&[ticket], &[ticket])).unwrap();
    assert_eq!(carry_out(&mut settlement, store).len(), 3);
    settlement
}

#[test]
fn a_message_that_is_newer_than_a_higher_one_shows_that_the_stream_is_rewound() {
    // In the same life and in the next, whether its sequence number is applied or not.
    for sequence in [5, 7] {
        let store = MemoryStore::default();
        for mut settlement in [that_was_given_seven(&store), open(Some(&store), 5)] {
            carry_out(&mut settlement, &store);
            assert!(settlement.message(at(2), Edge::UrlsSplit, (5, 5), 50).is_ok(), "an old message comes again");
            let rewound = settlement.message(at(2), Edge::UrlsSplit, (sequence, 8), 71).unwrap_err();
            assert_eq!(rewound.stream, "rhumb_default_urls_split");
            assert!(rewound.to_string().contains("--accept-loss"), "{rewound}");
            settlement.due(at(30));
            settlement.upkeep(at(30));
            assert!(carry_out(&mut settlement, &store).is_empty(), "nothing takes effect any more");
        }
    }
}

#[test]
fn messages_after_a_reconnect_are_compared_with_what_was_given_before_it() {
    let store = MemoryStore::default();
    let mut settlement = that_was_given_seven(&store);
    settlement.disconnected();
    assert!(settlement.look(&looked(settlement.expected(), 9, None)).is_ok());
    settlement.reconnected(at(3));
    // The tail has grown again, and one of its messages comes after a higher one.
    assert!(settlement.message(at(3), Edge::UrlsSplit, (9, 20), 90).is_ok());
    assert!(settlement.message(at(3), Edge::UrlsSplit, (6, 19), 60).is_err());
}

#[test]
fn a_look_shows_a_stream_that_is_shorter_or_has_other_messages() {
    let store = MemoryStore::default();
    that_was_given_seven(&store);
    let mut next = open(Some(&store), 5);
    let expected = next.expected();
    assert_eq!((expected.len(), expected[0].last, expected[0].given), (1, 7, 7));
    next.look(&looked(expected.clone(), 7, Some(7))).unwrap();
    next.look(&looked(expected.clone(), 9, None)).unwrap();
    assert!(next.look(&looked(expected.clone(), 6, None)).unwrap_err().how.contains("had given out 7"));
    assert!(open(Some(&store), 6).look(&looked(expected, 7, Some(8))).unwrap_err().how.contains("newer"));
}

#[test]
fn a_message_of_ours_that_is_stored_below_an_earlier_one_shows_that_the_stream_is_rewound() {
    let mut settlement = open(NO_STORE, 0);
    assert_eq!(settlement.stored_at(0, &ack(8, false)), Ok(None));
    assert_eq!(settlement.stored_at(0, &ack(3, true)), Ok(None));
    assert!(!settlement.wants_look());
    // Answers that overtake each other are a reason to look.
    assert_eq!(settlement.stored_at(0, &ack(7, false)), Ok(None));
    assert!(settlement.wants_look());
    assert_eq!(settlement.expected(), [Expected { stream: "rhumb_default_urls_new".into(), last: 8, given: 0 }]);
    settlement.look(&looked(settlement.expected(), 8, None)).unwrap();
    assert!(!settlement.wants_look());
    settlement.disconnected();
    settlement.look(&looked(settlement.expected(), 8, None)).unwrap();
    settlement.reconnected(at(3));
    assert_eq!(settlement.stored_at(0, &ack(9, false)), Ok(None));
    assert!(settlement.stored_at(0, &ack(8, false)).unwrap_err().how.contains("stored at 8"));
}

//! The delivery rule, event by event.

use super::*;
use crate::store::MemoryStore;
use crate::{Output, Publish};
use rhumb_config::Layers;
use rhumb_wire::message::Undecodable;
use rhumb_wire::topology::Token;

mod batches;
mod frames;
mod moves;
mod ways;

type Settled = Settlement<u64>;

impl Settled {
    /// A batch of one step.
    fn settles(&mut self, now: Timestamp, step: Step) -> Result<(), LeaseOver> {
        self.stepped(now, step);
        self.settle(now)
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

pub(crate) fn open_without_inputs(store: Option<&dyn Store>, epoch: u64) -> Settled {
    open_sharing(store, Arc::default(), epoch)
}

fn open_sharing(store: Option<&dyn Store>, uncommitted: Arc<Uncommitted>, epoch: u64) -> Settled {
    let set = vec!["network.user_agent='rhumb/0 (+https://example.org/test)'".to_owned()];
    let pipeline = Layers { file: None, set }
        .load_with(std::iter::empty())
        .unwrap();
    let life = Life {
        stage: "dedup",
        instance: 0,
        life: 9,
        epoch,
    };
    let subjects = Arc::new(pipeline.subjects());
    Settlement::open(life, subjects, &pipeline, store, uncommitted, at(0)).unwrap()
}

fn open(store: Option<&dyn Store>, epoch: u64) -> Settled {
    let mut settlement = open_without_inputs(store, epoch);
    assert!(
        !settlement
            .adopt(store, Edge::UrlsSplit, &[None], 1)
            .unwrap()
    );
    settlement.leased(at(10));
    settlement
}

/// A place in the stream of `urls.split`.
fn split(sequence: u64) -> InputAt {
    InputAt {
        edge: Edge::UrlsSplit,
        partition: None,
        sequence,
    }
}

/// A message of the stream of `urls.split`, stored at the second of its sequence.
fn given(
    settlement: &mut Settled,
    now: Timestamp,
    sequence: u64,
    answer_to: u64,
) -> Option<Ticket> {
    settlement
        .message(now, split(sequence), sequence as i64, 1, answer_to)
        .unwrap()
        .map(|tickets| tickets[0])
}

/// A step that finishes `finished` and publishes one message made from `causes`.
fn step(finished: &[Ticket], causes: &[Ticket]) -> Step {
    let mut out: Output<()> = Output::default();
    for &ticket in finished {
        out.finish(ticket);
    }
    let publish = Publish {
        edge: Edge::UrlsNew,
        token: Token::InLane {
            partition: 3,
            lane: 0,
        },
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
            Action::Publish(token) => format!(
                "publish {token} as {}",
                settlement.outgoing(token).unwrap().id
            ),
            Action::Ack(input) => format!("ack {input}"),
            Action::Nak(input) => format!("nak {input}"),
            Action::Extend(input) => format!("extend {input}"),
            Action::Send(_) | Action::Reply(..) => "core message".to_owned(),
        });
    }
    done
}

const NO_STORE: Option<&dyn Store> = None;

#[test]
fn without_state_an_input_is_acked_when_it_is_finished_and_all_its_outputs_are_stored() {
    let mut settlement = open(NO_STORE, 0);
    let store = MemoryStore::default();
    let ticket = given(&mut settlement, at(1), 7, 70).unwrap();
    settlement.settles(at(1), step(&[], &[ticket])).unwrap();
    let done = carry_out(&mut settlement, &store);
    assert!(
        done.len() == 1 && done[0].starts_with("publish 0 as "),
        "{done:?}"
    );
    assert_eq!(settlement.stored(at(2), 0), [5]);
    assert_eq!(
        (
            carry_out(&mut settlement, &store).len(),
            settlement.is_settled()
        ),
        (0, false)
    );
    settlement
        .settles(at(2), step(&[ticket], &[ticket]))
        .unwrap();
    assert_eq!(
        carry_out(&mut settlement, &store),
        [done[0].replace("publish 0", "publish 1")]
    );
    settlement.stored(at(2), 1);
    assert_eq!(carry_out(&mut settlement, &store), ["ack 70"]);
    assert!(settlement.is_settled());
}

#[test]
fn with_state_the_commit_comes_first_and_then_outputs_and_acks() {
    let store = MemoryStore::default();
    let mut settlement = open(Some(&store), 4);
    let ticket = given(&mut settlement, at(1), 7, 70).unwrap();
    settlement
        .settles(at(1), step(&[ticket], &[ticket]))
        .unwrap();
    assert_eq!(
        carry_out(&mut settlement, &store),
        ["commit", "publish 0 as dedup-0-4-1", "ack 70"]
    );
    // It is applied: another delivery is acked and goes no further, in this life and in the next.
    assert_eq!(given(&mut settlement, at(2), 7, 71), None);
    assert_eq!(carry_out(&mut settlement, &store), ["ack 71"]);
    let mut next = open(Some(&store), 5);
    assert_eq!(carry_out(&mut next, &store), ["publish 0 as dedup-0-4-1"]);
    assert_eq!(given(&mut next, at(3), 7, 72), None);
    // In another stream the same sequence is another message.
    assert!(
        next.adopt(Some(&store), Edge::UrlsSplit, &[None], 2)
            .unwrap()
    );
    assert!(given(&mut next, at(3), 7, 73).is_some());
}

#[test]
fn a_stored_output_leaves_the_outbox_with_the_next_commit() {
    let store = MemoryStore::default();
    let mut settlement = open(Some(&store), 4);
    settlement.settles(at(1), step(&[], &[])).unwrap();
    carry_out(&mut settlement, &store);
    assert!(!settlement.needs_upkeep());
    settlement.stored(at(2), 0);
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
    assert!(
        settlement.may_step(at(9))
            && !settlement.may_step(at(10))
            && !settlement.takes_input(at(10))
    );
    assert!(
        settlement
            .settles(at(10), step(&[ticket], &[ticket]))
            .is_err()
    );
    assert!(carry_out(&mut settlement, &store).is_empty());
    settlement.upkeep(at(11));
    assert!(carry_out(&mut settlement, &store).is_empty());
    assert!(given(&mut open(Some(&store), 5), at(1), 7, 71).is_some());
}

#[test]
fn a_corrupt_input_is_acked_when_it_lies_with_the_dead_letters() {
    let mut settlement = open(NO_STORE, 0);
    let store = MemoryStore::default();
    let ticket = given(&mut settlement, at(1), 7, 70).unwrap();
    let error = Undecodable::Corrupt("checksum\r\n".into());
    settlement.unreadable(at(1), ticket, "a.b", Bytes::from_static(b"bad"), &error);
    let letter = settlement.outgoing(0).unwrap();
    assert_eq!(
        letter.headers,
        [
            ("Rhumb-Subject", "a.b".to_owned()),
            ("Rhumb-Reason", "checksum  ".to_owned())
        ]
    );
    assert_eq!(
        carry_out(&mut settlement, &store),
        ["publish 0 as dead-0000000000000009-1"]
    );
    settlement.stored(at(2), 0);
    assert_eq!(carry_out(&mut settlement, &store), ["ack 70"]);
}

#[test]
fn an_input_of_an_unknown_version_is_acked_when_it_is_parked() {
    let mut settlement = open(NO_STORE, 0);
    let store = MemoryStore::default();
    let error = Undecodable::UnknownVersion {
        edge: Edge::UrlsSplit,
        found: 99,
        known: 1,
    };
    let mut park = |sequence: u64, token: u64| {
        let ticket = given(&mut settlement, at(1), sequence, 70).unwrap();
        settlement.unreadable(at(1), ticket, "a.b", Bytes::from_static(b"new"), &error);
        let parked = settlement.outgoing(token).unwrap().clone();
        assert_eq!(
            carry_out(&mut settlement, &store),
            [format!("publish {token} as {}", parked.id)]
        );
        settlement.refused(at(2), token, Refused::Full);
        assert_eq!(
            (
                carry_out(&mut settlement, &store).len(),
                settlement.held_back()
            ),
            (0, Some("parked"))
        );
        assert_eq!(settlement.readiness(at(12)), Ok(()));
        settlement.stored(at(2), token);
        assert_eq!(carry_out(&mut settlement, &store), ["ack 70"]);
        parked
    };
    let first = park(7, 0);
    let again = park(7, 1);
    let put_back = park(8, 2);
    assert_eq!(first.subject, "rhumb.default.parked.dedup.urls.split.99");
    assert_eq!(first.headers, [("Rhumb-Subject", "a.b".to_owned())]);
    assert_eq!(first.id, again.id, "a repeat is dropped by the broker");
    assert_ne!(
        first.id, put_back.id,
        "the same message, put back and parked again, is not"
    );
    let request = settlement.request(None, at(3));
    settlement.unreadable(at(3), request, "a.b", Bytes::new(), &error);
    assert!(
        carry_out(&mut settlement, &store).is_empty(),
        "who sent it sends another"
    );
    assert!(
        settlement.is_settled() && settlement.counts().contains(&("loop_passed_over_total", 1))
    );
}

#[test]
fn a_deadly_input_is_acked_when_it_lies_with_the_dead_letters() {
    let mut settlement = open(NO_STORE, 0);
    let store = MemoryStore::default();
    let ticket = given(&mut settlement, at(1), 7, 70).unwrap();
    settlement.deadly(at(1), ticket, "a.b", Bytes::from_static(b"deadly"));
    assert!(
        settlement
            .outgoing(0)
            .unwrap()
            .id
            .starts_with("dead-dedup-urls.split-7-"),
        "a repeat is dropped"
    );
    let reason = ("Rhumb-Reason", "three processes died of it".to_owned());
    assert_eq!(
        settlement.outgoing(0).unwrap().headers,
        [("Rhumb-Subject", "a.b".to_owned()), reason]
    );
    carry_out(&mut settlement, &store);
    settlement.stored(at(2), 0);
    assert_eq!(carry_out(&mut settlement, &store), ["ack 70"]);
}

#[test]
fn what_is_in_hand_is_given_back_when_the_process_cannot_go_on() {
    let mut settlement = open(NO_STORE, 0);
    let store = MemoryStore::default();
    for sequence in [7, 8] {
        given(&mut settlement, at(0), sequence, sequence * 10).unwrap();
    }
    settlement.request(Some(9), at(0));
    settlement.give_back();
    assert_eq!(carry_out(&mut settlement, &store), ["nak 70", "nak 80"]);
}

#[test]
fn an_input_that_is_in_hand_for_long_is_extended_and_an_old_publish_repeated() {
    let mut settlement = open(NO_STORE, 0);
    let store = MemoryStore::default();
    let tickets = [7, 8].map(|n| given(&mut settlement, at(0), n, n * 10).unwrap());
    settlement.settles(at(0), step(&[], &tickets)).unwrap();
    let published = carry_out(&mut settlement, &store);
    settlement.upkeep(at(9));
    assert!(carry_out(&mut settlement, &store).is_empty());
    settlement.upkeep(at(11));
    assert_eq!(
        carry_out(&mut settlement, &store),
        ["extend 70", "extend 80"]
    );
    settlement.due(at(2));
    assert_eq!(carry_out(&mut settlement, &store), published);
    settlement.disconnected();
    assert_eq!(
        (
            settlement.outgoing(0).is_none(),
            settlement.outgoing(1).is_none()
        ),
        (true, true)
    );
    settlement.reconnected(at(3));
    assert_eq!(carry_out(&mut settlement, &store), published);
    assert_eq!(settlement.readiness(at(10)), Ok(()));
    assert_eq!(
        settlement.readiness(at(11)).unwrap_err(),
        "what is published is not stored: no answer"
    );
}

#[test]
fn an_input_in_hand_from_a_stream_that_was_made_anew_has_no_place_in_the_new_one() {
    let store = MemoryStore::default();
    let mut settlement = open(Some(&store), 4);
    let held = given(&mut settlement, at(1), 7, 70).unwrap();
    settlement
        .adopt(Some(&store), Edge::UrlsSplit, &[None], 2)
        .unwrap();
    settlement.settles(at(1), step(&[held], &[held])).unwrap();
    assert_eq!(
        carry_out(&mut settlement, &store),
        ["commit", "publish 0 as dedup-0-4-1"],
        "no ack"
    );
    assert!(
        given(&mut settlement, at(2), 7, 71).is_some(),
        "another message of the same sequence"
    );
}

/// Goal: nothing that two owners publish has the same id, even when one of them comes back. Method:
/// the lease is taken again, under a revision that begins anew; the epoch grows all the same.
#[test]
fn what_is_published_after_the_lease_was_taken_again_has_ids_of_a_later_epoch() {
    let store = MemoryStore::default();
    let epoch = next_epoch(&store, 40).unwrap();
    let mut settlement = open(Some(&store), epoch);
    settlement.settles(at(1), step(&[], &[])).unwrap();
    assert_eq!(
        carry_out(&mut settlement, &store),
        ["commit", "publish 0 as dedup-0-41-1"]
    );
    settlement.owned_since(next_epoch(&store, 3).unwrap());
    settlement.settles(at(2), step(&[], &[])).unwrap();
    assert_eq!(
        carry_out(&mut settlement, &store),
        ["commit", "publish 1 as dedup-0-42-2"]
    );
    // Both rows leave the outbox, under the keys that they have there.
    settlement.stored(at(2), 0);
    settlement.stored(at(2), 1);
    settlement.upkeep(at(3));
    carry_out(&mut settlement, &store);
    assert!(
        carry_out(
            &mut open(Some(&store), next_epoch(&store, 3).unwrap()),
            &store
        )
        .is_empty()
    );
}

#[test]
fn a_full_stream_holds_back_and_leaves_the_process_ready() {
    let mut settlement = open(NO_STORE, 0);
    let store = MemoryStore::default();
    let ticket = given(&mut settlement, at(1), 7, 70).unwrap();
    settlement
        .settles(at(1), step(&[ticket], &[ticket]))
        .unwrap();
    carry_out(&mut settlement, &store);
    assert_eq!(settlement.held_back(), None);
    for second in 1..60 {
        settlement.refused(at(second), 0, Refused::Full);
    }
    assert_eq!(
        (settlement.held_back(), settlement.readiness(at(60))),
        (Some("urls.new"), Ok(()))
    );
    settlement.refused(at(60), 0, Refused::Failed("no space left on device".into()));
    assert_eq!(settlement.held_back(), None);
    assert_eq!(
        settlement.readiness(at(70)).unwrap_err(),
        "what is published is not stored: no space left on device"
    );
    settlement.stored(at(70), 0);
    assert_eq!(
        (settlement.held_back(), settlement.readiness(at(70))),
        (None, Ok(()))
    );
}

#[test]
fn too_much_on_its_way_holds_back() {
    let mut settlement = open(NO_STORE, 0);
    let store = MemoryStore::default();
    for number in 0..PUBLISHES_MAX as u64 {
        assert_eq!(
            (settlement.held_back(), settlement.takes_input(at(1))),
            (None, true),
            "{number}"
        );
        settlement.settles(at(1), step(&[], &[])).unwrap();
        carry_out(&mut settlement, &store);
    }
    assert_eq!(
        (settlement.held_back(), settlement.takes_input(at(1))),
        (Some("urls.new"), false)
    );
}

fn looked(expected: Vec<Expected>, last: u64, at_given: Option<i64>) -> Vec<StreamLook> {
    expected
        .into_iter()
        .map(|expected| StreamLook {
            expected,
            created: 1,
            last,
            at_given,
        })
        .collect()
}

fn ack(sequence: u64, is_repeat: bool) -> PubAck {
    PubAck {
        stream: "rhumb_default_urls_new".into(),
        sequence,
        is_repeat,
    }
}

/// A stage with state that was given messages 1 to 7 and has applied the last.
fn that_was_given_seven(store: &MemoryStore) -> Settled {
    let mut settlement = open(Some(store), 4);
    for sequence in 1..7 {
        given(&mut settlement, at(1), sequence, sequence);
    }
    let ticket = given(&mut settlement, at(1), 7, 70).unwrap();
    settlement
        .settles(at(1), step(&[ticket], &[ticket]))
        .unwrap();
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
            assert!(
                settlement.message(at(2), split(5), 5, 1, 50).is_ok(),
                "an old message comes again"
            );
            let rewound = settlement
                .message(at(2), split(sequence), 8, 1, 71)
                .unwrap_err();
            assert_eq!(rewound.stream, "rhumb_default_urls_split");
            assert!(rewound.to_string().contains("--accept-loss"), "{rewound}");
            settlement.due(at(30));
            settlement.upkeep(at(30));
            assert!(
                carry_out(&mut settlement, &store).is_empty(),
                "nothing takes effect any more"
            );
        }
    }
}

#[test]
fn messages_after_a_reconnect_are_compared_with_what_was_given_before_it() {
    let store = MemoryStore::default();
    let mut settlement = that_was_given_seven(&store);
    settlement.disconnected();
    assert!(
        settlement
            .look(&looked(settlement.expected(), 9, None))
            .is_ok()
    );
    settlement.reconnected(at(3));
    // The tail has grown again, and one of its messages comes after a higher one.
    assert!(settlement.message(at(3), split(9), 20, 1, 90).is_ok());
    assert!(settlement.message(at(3), split(6), 19, 1, 60).is_err());
}

#[test]
fn a_look_shows_a_stream_that_is_shorter_or_has_other_messages() {
    let store = MemoryStore::default();
    that_was_given_seven(&store);
    let mut next = open(Some(&store), 5);
    let expected = next.expected();
    assert_eq!(
        (expected.len(), expected[0].last, expected[0].given),
        (1, 7, 7)
    );
    next.look(&looked(expected.clone(), 7, Some(7))).unwrap();
    next.look(&looked(expected.clone(), 9, None)).unwrap();
    assert!(
        next.look(&looked(expected.clone(), 6, None))
            .unwrap_err()
            .how
            .contains("had given out 7")
    );
    assert!(
        open(Some(&store), 6)
            .look(&looked(expected, 7, Some(8)))
            .unwrap_err()
            .how
            .contains("newer")
    );
}

#[test]
fn a_message_of_ours_that_is_stored_below_an_earlier_one_shows_that_the_stream_is_rewound() {
    let mut settlement = open(NO_STORE, 0);
    assert_eq!(settlement.stored_at(at(2), 0, &ack(8, false)), Ok(vec![]));
    assert_eq!(settlement.stored_at(at(2), 0, &ack(3, true)), Ok(vec![]));
    assert!(!settlement.wants_look());
    // Answers that overtake each other are a reason to look.
    assert_eq!(settlement.stored_at(at(2), 0, &ack(7, false)), Ok(vec![]));
    assert!(settlement.wants_look());
    assert_eq!(
        settlement.expected(),
        [Expected {
            stream: "rhumb_default_urls_new".into(),
            last: 8,
            given: 0
        }]
    );
    settlement
        .look(&looked(settlement.expected(), 8, None))
        .unwrap();
    assert!(!settlement.wants_look());
    settlement.disconnected();
    settlement
        .look(&looked(settlement.expected(), 8, None))
        .unwrap();
    settlement.reconnected(at(3));
    assert_eq!(settlement.stored_at(at(2), 0, &ack(9, false)), Ok(vec![]));
    assert!(
        settlement
            .stored_at(at(2), 0, &ack(8, false))
            .unwrap_err()
            .how
            .contains("stored at 8")
    );
}

//! The way of a message: when it began goes on from inputs to outputs.

use super::*;

fn publish(edge: Edge, token: Token, causes: &[Ticket]) -> Publish {
    Publish {
        edge,
        token,
        payload: Bytes::from_static(b"made"),
        causes: causes.to_vec(),
        tag: None,
    }
}

/// When the way of the only message that is to be published began.
fn begun(settlement: &mut Settled) -> Option<i64> {
    while let Some(action) = settlement.next_action() {
        match action {
            Action::Commit(_) => settlement.committed(at(1)),
            Action::Publish(token) => {
                let headers = &settlement.outgoing(token).unwrap().headers;
                return headers
                    .iter()
                    .find(|(name, _)| *name == BEGUN)
                    .map(|(_, value)| value.parse().unwrap());
            }
            _ => {}
        }
    }
    panic!("nothing is published")
}

#[test]
fn what_is_made_from_nothing_begins_when_it_is_made_and_a_frame_with_its_first_message() {
    let mut settlement = open_without_inputs(NO_STORE, 0);
    let page = || Step {
        publishes: vec![publish(Edge::Pages, Token::None, &[])],
        more_soon: true,
        ..Step::default()
    };
    settlement.settles(at(2), page()).unwrap();
    settlement.due(at(3));
    assert_eq!(
        begun(&mut settlement),
        None,
        "nobody has told what time it is"
    );
    settlement.is_now(at(0), 1_000_000_000_000);
    settlement.settles(at(4), page()).unwrap();
    settlement.settles(at(5), page()).unwrap();
    settlement.due(at(6));
    assert_eq!(begun(&mut settlement), Some(1_004_000_000_000));
}

#[test]
fn what_is_made_from_inputs_began_with_the_first_of_them() {
    let mut settlement = open_without_inputs(NO_STORE, 0);
    let place = |sequence| InputAt {
        edge: Edge::UrlsNew,
        partition: None,
        sequence,
    };
    let mut input = |sequence, stamps: Stamps| {
        settlement
            .message(at(1), place(sequence), stamps, 1, 0)
            .unwrap()
            .unwrap()[0]
    };
    let told = input(
        1,
        Stamps {
            stored: 70,
            begun: 50,
        },
    );
    let silent = input(2, 60.into());
    for (causes, expected) in [(vec![silent], 60), (vec![silent, told], 50)] {
        let made = publish(Edge::UrlsReady, Token::Partition(1), &causes);
        settlement
            .settles(
                at(1),
                Step {
                    publishes: vec![made],
                    ..Step::default()
                },
            )
            .unwrap();
        assert_eq!(begun(&mut settlement), Some(expected));
    }
}

#[test]
fn with_state_it_is_that_of_the_inputs_that_are_finished_with_it() {
    let store = MemoryStore::default();
    let mut settlement = open(Some(&store), 4);
    let mut input = |sequence, begun| {
        let stamps = Stamps {
            stored: sequence as i64,
            begun,
        };
        settlement
            .message(at(1), split(sequence), stamps, 1, 0)
            .unwrap()
            .unwrap()[0]
    };
    let early = input(50, 3);
    let late = input(51, 40);
    settlement.settles(at(1), step(&[late], &[late])).unwrap();
    assert_eq!(
        begun(&mut settlement),
        Some(40),
        "the other one is still in hand"
    );
    settlement.settles(at(1), step(&[early], &[early])).unwrap();
    assert_eq!(begun(&mut settlement), Some(3));
    settlement.settles(at(1), step(&[], &[])).unwrap();
    assert_eq!(begun(&mut settlement), None);
}

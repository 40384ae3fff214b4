//! Frames: what shares one, what waits for it, and what is acked with it.

use super::*;
use rhumb_wire::message::payloads;
use rhumb_wire::topology::Token;

const PAGES: InputAt = InputAt {
    edge: Edge::Pages,
    partition: None,
    sequence: 7,
};

/// A stage without state that was given a frame of pages, and the tickets of its pages.
fn given_a_frame(pages: usize) -> (Settled, Vec<Ticket>) {
    let mut settlement = open_without_inputs(NO_STORE, 0);
    let tickets = settlement
        .message(at(1), PAGES, 1, pages, 70)
        .unwrap()
        .unwrap();
    assert_eq!(tickets.len(), pages);
    (settlement, tickets)
}

/// What is made from a page, and what is made from none.
fn made(edge: Edge, token: Token, payload: &str, causes: &[Ticket], tag: Option<u64>) -> Publish {
    Publish {
        edge,
        token,
        payload: payload.to_owned().into(),
        causes: causes.to_vec(),
        tag,
    }
}

fn links(of: Ticket, lane: u16, payload: &str) -> Publish {
    made(Edge::UrlsFound, Token::Lane(lane), payload, &[of], None)
}

fn page(tag: u64, bytes: usize) -> Publish {
    made(Edge::Pages, Token::None, &"p".repeat(bytes), &[], Some(tag))
}

/// A step that makes these and finishes with those.
fn making(publishes: Vec<Publish>, finished: &[Ticket], more_soon: bool) -> Step {
    Step {
        publishes,
        finished: finished.to_vec(),
        more_soon,
        ..Step::default()
    }
}

/// The messages that are published: subject and payloads, under their tokens.
fn published(settlement: &mut Settled) -> Vec<(u64, String, Vec<String>)> {
    let mut published = Vec::new();
    while let Some(action) = settlement.next_action() {
        let Action::Publish(token) = action else {
            panic!("{action:?}")
        };
        let Outgoing {
            subject, payload, ..
        } = settlement.outgoing(token).unwrap();
        let edge = settlement.subjects.edge_of(subject).unwrap();
        let texts = payloads(edge, payload.clone()).unwrap();
        let texts = texts
            .iter()
            .map(|payload| String::from_utf8(payload.to_vec()).unwrap())
            .collect();
        published.push((
            token,
            subject.strip_prefix("rhumb.default.").unwrap().to_owned(),
            texts,
        ));
    }
    published
}

#[test]
fn what_is_made_from_a_frame_goes_on_together_and_the_frame_is_acked_when_all_of_it_is_stored() {
    let (mut settlement, pages) = given_a_frame(3);
    settlement.lanes_are_shared_by(2);
    // The second page is finished first: the order is that of the pages all the same.
    settlement
        .settles(
            at(1),
            making(vec![links(pages[1], 0, "b")], &[pages[1]], false),
        )
        .unwrap();
    settlement
        .settles(
            at(1),
            making(vec![links(pages[2], 1, "c")], &[pages[2]], false),
        )
        .unwrap();
    assert!(
        settlement.next_action().is_none(),
        "one page is not finished"
    );
    settlement
        .settles(
            at(1),
            making(
                vec![links(pages[0], 2, "a1"), links(pages[0], 3, "a2")],
                &[],
                false,
            ),
        )
        .unwrap();
    settlement
        .settles(at(1), making(Vec::new(), &[pages[0]], false))
        .unwrap();
    let published = published(&mut settlement);
    let texts = |texts: &[&str]| {
        texts
            .iter()
            .map(|&text| text.to_owned())
            .collect::<Vec<_>>()
    };
    // Of the lanes that an instance prefers there is one.
    let expected = [
        (0, "urls.found.0", texts(&["a1", "b"])),
        (1, "urls.found.1", texts(&["a2", "c"])),
    ];
    assert_eq!(
        published,
        expected.map(|(token, subject, texts)| (token, subject.to_owned(), texts))
    );
    settlement.stored(at(1), 0);
    assert!(settlement.next_action().is_none() && !settlement.is_settled());
    settlement.stored(at(1), 1);
    assert_eq!(
        carry_out(&mut settlement, &MemoryStore::default()),
        ["ack 70"]
    );
    assert!(settlement.is_settled());
}

#[test]
fn the_same_frame_makes_the_same_frames_whatever_was_finished_first() {
    let ids = [[0, 1, 2], [2, 0, 1]].map(|order| {
        let (mut settlement, pages) = given_a_frame(3);
        for at_page in order {
            let made = vec![links(pages[at_page], 0, &format!("links of {at_page}"))];
            settlement
                .settles(at(1), making(made, &[pages[at_page]], false))
                .unwrap();
        }
        carry_out(&mut settlement, &MemoryStore::default())
    });
    assert_eq!((ids[0].len(), &ids[0]), (1, &ids[1]));
}

#[test]
fn a_corrupt_page_goes_to_the_dead_letters_alone_and_the_others_do_not_wait_for_it() {
    let (mut settlement, pages) = given_a_frame(2);
    let error = Undecodable::Corrupt("checksum".into());
    settlement
        .settles(
            at(1),
            making(vec![links(pages[0], 0, "a")], &[pages[0]], false),
        )
        .unwrap();
    settlement.unreadable(at(1), pages[1], "a.b", Bytes::from_static(b"bad"), &error);
    let done = carry_out(&mut settlement, &MemoryStore::default());
    assert_eq!(
        (done.len(), &done[0]),
        (2, &"publish 0 as dead-0000000000000009-1".to_owned())
    );
    settlement.stored(at(1), 1);
    assert!(
        settlement.next_action().is_none(),
        "the letter is not stored"
    );
    settlement.stored(at(1), 0);
    assert_eq!(
        carry_out(&mut settlement, &MemoryStore::default()),
        ["ack 70"]
    );
}

#[test]
fn pages_wait_for_each_other_while_more_are_under_way_and_not_for_long() {
    let mut settlement = open_without_inputs(NO_STORE, 0);
    let millis = |millis: u64| Timestamp::from_micros(millis * 1000);
    settlement
        .settles(millis(0), making(vec![page(1, 3)], &[], true))
        .unwrap();
    settlement
        .settles(millis(2), making(vec![page(2, 4)], &[], true))
        .unwrap();
    assert_eq!(
        (
            published(&mut settlement),
            settlement.due_at(),
            settlement.is_settled()
        ),
        (vec![], Some(millis(5)), false)
    );
    settlement.due(millis(5));
    let together = vec!["ppp".to_owned(), "pppp".to_owned()];
    assert_eq!(
        published(&mut settlement),
        [(0, "pages".to_owned(), together)]
    );
    assert_eq!(settlement.stored(millis(6), 0), [1, 2]);
    settlement
        .settles(millis(7), making(vec![page(3, 1)], &[], true))
        .unwrap();
    assert_eq!(published(&mut settlement), []);
    settlement
        .settles(millis(8), making(Vec::new(), &[], false))
        .unwrap();
    assert_eq!(
        published(&mut settlement),
        [(1, "pages".to_owned(), vec!["p".to_owned()])],
        "no more is under way"
    );
    assert_eq!(settlement.stored(millis(8), 1), [3]);
    assert!(settlement.is_settled());
}

#[test]
fn a_frame_that_is_full_waits_for_nothing() {
    let mut settlement = open_without_inputs(NO_STORE, 0);
    let kib = |kib: usize| kib << 10;
    let pages = vec![
        page(1, kib(200)),
        page(2, kib(100)),
        page(3, kib(156)),
        page(4, kib(300)),
    ];
    settlement.settles(at(0), making(pages, &[], true)).unwrap();
    let lengths: Vec<Vec<usize>> = published(&mut settlement)
        .iter()
        .map(|(_, _, payloads)| payloads.iter().map(String::len).collect())
        .collect();
    assert_eq!(
        lengths,
        [vec![kib(200)], vec![kib(100), kib(156)], vec![kib(300)]]
    );
}

#[test]
fn so_many_bytes_on_their_way_hold_back() {
    let mut settlement = open_without_inputs(NO_STORE, 0);
    let mut tag = 0;
    while settlement.takes_input(at(0)) {
        tag += 1;
        settlement
            .settles(at(0), making(vec![page(tag, 4 << 20)], &[], false))
            .unwrap();
    }
    assert_eq!(
        (tag, settlement.held_back()),
        ((PUBLISH_BYTES_MAX >> 22) as u64, Some("pages"))
    );
    settlement.stored(at(0), 0);
    assert!(settlement.takes_input(at(0)));
}

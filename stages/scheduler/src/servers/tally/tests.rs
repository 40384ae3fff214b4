use super::*;
use proptest::prelude::*;
use rhumb_stage::report::SLOT_S;
use std::collections::BTreeMap;

const SLOT_US: u64 = SLOT_S * 1_000_000;

fn fetched(media_type: &str, bytes: u64, elapsed_us: u32) -> UrlEnd {
    let media_type = media_type.to_owned();
    let end = UrlEnd::without_response(Outcome::Fetched, "");
    UrlEnd {
        status: 200,
        bytes,
        elapsed_us,
        media_type,
        ..end
    }
}

/// Its rows as they are stored, with those that changed on top.
fn save(tally: &mut Tally, rows: &mut BTreeMap<u8, Vec<u8>>) -> Vec<u8> {
    let changed: Vec<_> = tally.changed_rows().collect();
    let kinds = changed.iter().map(|(kind, _)| *kind).collect();
    rows.extend(changed);
    kinds
}

fn read(rows: &BTreeMap<u8, Vec<u8>>) -> Option<Tally> {
    let row = |kind| rows.get(&kind).map(Vec::as_slice);
    Tally::read(row(kind::NUMBERS), row(kind::NAMES), row(kind::SLOTS))
}

fn sum(tally: &Tally) -> Tallied {
    let mut sum = Tallied::default();
    tally.add_to(&mut sum);
    sum
}

/// A tally of a bit of everything.
fn example() -> Tally {
    let mut tally = Tally::default();
    tally.count(0, 0, &fetched("text/html", 4096, 20_000));
    tally.count(
        3,
        1,
        &UrlEnd {
            truncated: true,
            ..fetched("", 0, 900)
        },
    );
    let gone = UrlEnd {
        status: 404,
        ..UrlEnd::without_response(Outcome::Gone, "404")
    };
    tally.count(SLOT_US, 900, &gone);
    tally.count(
        7 * SLOT_US,
        31,
        &UrlEnd::without_response(Outcome::Failed, "timeout"),
    );
    tally
}

#[test]
fn what_ends_is_counted_by_all_that_is_told_of_it() {
    let sum = sum(&example());
    assert_eq!((sum.counted(), sum.truncated), (4, 1));
    assert_eq!(sum.ends["fetched"][""], 2);
    assert_eq!(
        (sum.ends["gone"]["404"], sum.ends["failed"]["timeout"]),
        (1, 1)
    );
    assert_eq!(
        sum.statuses,
        BTreeMap::from([(200, 2), (404, 1)]),
        "one that ended without a response has none"
    );
    assert_eq!(
        sum.media_types,
        BTreeMap::from([(String::new(), 1), ("text/html".to_owned(), 1)])
    );
    let depth = |at: usize| sum.depths[at];
    assert_eq!([depth(0), depth(1), depth(31), depth(DEPTHS)], [1, 1, 1, 1]);
    assert_eq!((sum.sizes[0], sum.sizes[13], sum.sizes.len()), (1, 1, 14));
    assert_eq!((sum.times[0], sum.times[5], sum.times.len()), (1, 1, 6));
    assert_eq!(sum.pace.slots.len(), 8);
    assert_eq!(
        sum.pace.slots[0],
        Slot {
            pages: 2,
            bytes: 4096,
            others: 0
        }
    );
    assert_eq!((sum.pace.slots[1].others, sum.pace.slots[7].others), (1, 1));
}

#[test]
fn rows_come_back_as_they_were() {
    assert_eq!(read(&BTreeMap::new()), Some(Tally::default()));
    let mut tally = example();
    let mut rows = BTreeMap::new();
    assert_eq!(
        save(&mut tally, &mut rows),
        [kind::NUMBERS, kind::NAMES, kind::SLOTS]
    );
    assert_eq!(read(&rows), Some(tally.clone()));
    tally.count(7 * SLOT_US + 5, 1, &fetched("text/html", 1, 1));
    assert_eq!(
        save(&mut tally, &mut rows),
        [kind::NUMBERS],
        "a URL that brings nothing new changes one row"
    );
    assert_eq!(read(&rows), Some(tally.clone()));
    tally.count(8 * SLOT_US, 1, &fetched("text/css", 1, 1));
    assert_eq!(
        save(&mut tally, &mut rows),
        [kind::NUMBERS, kind::NAMES, kind::SLOTS]
    );
    assert_eq!(read(&rows), Some(tally.clone()));
    assert!(save(&mut tally, &mut rows).is_empty());
}

#[test]
fn damaged_rows_are_refused_and_so_are_some_that_do_not_belong_together() {
    let mut tally = example();
    let mut rows = BTreeMap::new();
    save(&mut tally, &mut rows);
    for kind in [kind::NUMBERS, kind::NAMES, kind::SLOTS] {
        let mut damaged = rows.clone();
        for length in 0..rows[&kind].len() {
            damaged.insert(kind, rows[&kind][..length].to_vec());
            assert_eq!(
                read(&damaged),
                None,
                "{} cut to {length} bytes",
                char::from(kind)
            );
        }
        damaged.remove(&kind);
        assert_eq!(read(&damaged), None, "without {}", char::from(kind));
    }
    let mut later = rows.clone();
    tally.count(9 * SLOT_US, 0, &fetched("a/b", 1, 1));
    save(&mut tally, &mut later);
    for kind in [kind::NUMBERS, kind::NAMES, kind::SLOTS] {
        let mut mixed = later.clone();
        mixed.insert(kind, rows[&kind].clone());
        assert_eq!(
            read(&mixed),
            None,
            "{} of an earlier commit",
            char::from(kind)
        );
    }
}

#[test]
fn slots_double_when_they_are_full_and_lose_nothing() {
    let mut tally = Tally::default();
    let mut rows = BTreeMap::new();
    for slot in 0..1000 {
        tally.count(slot * SLOT_US, 0, &fetched("", 3, 1));
        save(&mut tally, &mut rows);
        assert!(tally.pace.slots.len() <= SLOTS_MAX);
    }
    assert_eq!(read(&rows), Some(tally.clone()));
    let pace = sum(&tally).pace;
    assert_eq!((pace.slot_s(), pace.slots.len()), (80, 125));
    assert!(pace.slots.iter().all(|slot| *slot
        == Slot {
            pages: 8,
            bytes: 24,
            others: 0
        }));
    tally.count(u64::MAX, 0, &fetched("", 3, 1));
    assert!(tally.pace.slots.len() <= SLOTS_MAX);
    assert_eq!(
        sum(&tally)
            .pace
            .slots
            .iter()
            .map(|slot| slot.pages)
            .sum::<u64>(),
        1001
    );
}

#[test]
fn what_is_reported_late_counts_for_the_slot_in_which_it_ended() {
    let mut tally = Tally::default();
    let mut rows = BTreeMap::new();
    tally.count(5 * SLOT_US, 0, &fetched("", 1, 1));
    save(&mut tally, &mut rows);
    tally.count(3 * SLOT_US - 1, 0, &fetched("", 1, 1));
    assert_eq!(
        (tally.pace.slots[5].pages, tally.pace.slots[2].pages),
        (1, 1)
    );
    assert_eq!(save(&mut tally, &mut rows), [kind::NUMBERS, kind::SLOTS]);
    assert_eq!(read(&rows), Some(tally));
}

/// Goal: whatever servers send, the rows stay small and outcomes exact. Method: more of each than
/// there are places.
#[test]
fn lists_are_bounded_and_outcomes_stay_exact() {
    let mut tally = Tally::default();
    let mut rows = BTreeMap::new();
    let reasons: Vec<&'static str> = (0..200).map(|n| &*format!("reason {n}").leak()).collect();
    for (n, reason) in reasons.iter().enumerate() {
        for outcome in [Outcome::Failed, Outcome::Refused] {
            let end = UrlEnd {
                status: 400 + n as u16,
                ..UrlEnd::without_response(outcome, reason)
            };
            tally.count(0, 0, &end);
        }
        tally.count(
            0,
            0,
            &fetched(
                &format!("hostile/{n:0>70}"),
                u64::from(u32::MAX) >> n.min(31),
                u32::MAX,
            ),
        );
        tally.count(0, 0, &fetched(&format!("a/{n}"), 0, 0));
    }
    save(&mut tally, &mut rows);
    assert_eq!(read(&rows), Some(tally.clone()));
    let of = sum(&tally);
    for outcome in ["failed", "refused"] {
        assert_eq!(of.ends[outcome].values().sum::<u64>(), 200);
        assert!(of.ends[outcome][OTHER] > 100);
    }
    assert_eq!(
        (of.media_types.len(), of.media_types[OTHER]),
        (NAMES_MAX, 200 + 200 - NAMES_MAX as u64 + 1)
    );
    assert_eq!(of.statuses.len(), NAMES_MAX + 1);
    assert!(of.statuses[&OTHER_STATUS] > 200);
    assert!(
        rows[&kind::NUMBERS].len() < 1000,
        "{} bytes",
        rows[&kind::NUMBERS].len()
    );
}

proptest! {
    #[test]
    fn no_rows_make_it_panic(rows in proptest::collection::vec(proptest::collection::vec(0u8..20, 0..60), 3)) {
        let row = |at: usize| [&[8], rows[at].as_slice()].concat();
        let _ = Tally::read(Some(&row(0)), Some(&row(1)), Some(&row(2)));
    }
}

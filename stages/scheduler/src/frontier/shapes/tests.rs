//! Shapes of made-up sites.

use super::*;

const STATIC: u64 = 1;
const PAGES: u64 = 2;
const CALENDAR: u64 = 3;
const DAYS: u64 = 4;

fn name(hash: u64) -> String {
    format!("/{hash}/0")
}

/// So many URLs of a shape are found there.
fn find(shapes: &mut Shapes, hash: u64, source: Source, urls: usize) -> Lane {
    (0..urls)
        .map(|_| shapes.found(hash, source, || hash != STATIC, || name(hash)))
        .last()
        .unwrap()
}

/// A calendar without end, whose months repeat themselves.
fn calendar() -> Shapes {
    let mut shapes = Shapes::default();
    find(&mut shapes, CALENDAR, Source::Shape(STATIC), 1);
    // Long enough that the way in is forgotten.
    assert_eq!(
        find(&mut shapes, CALENDAR, Source::Shape(CALENDAR), 600),
        Lane::Behind
    );
    shapes
}

/// So many pages come, of which one of so many has a text of its own.
fn turn(shapes: &mut Shapes, hash: u64, pages: u64, unlike: u64, pages_max: u64) -> bool {
    (0..pages).any(|page| {
        shapes.fetched(|| hash);
        let text = if page % unlike == 0 {
            page.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        } else {
            7
        };
        shapes.sketched(hash, text, pages_max)
    })
}

#[test]
fn a_shape_that_brings_only_itself_falls_behind_and_comes_back_in_company() {
    let mut shapes = Shapes::default();
    assert_eq!(
        find(&mut shapes, CALENDAR, Source::Shape(STATIC), 1),
        Lane::Ahead
    );
    assert_eq!(
        find(&mut shapes, CALENDAR, Source::Shape(CALENDAR), 62),
        Lane::Ahead
    );
    assert_eq!(
        find(&mut shapes, CALENDAR, Source::Shape(CALENDAR), 1),
        Lane::Behind
    );
    assert_eq!(
        shapes.verdict(CALENDAR).unwrap().to_string(),
        "the shape /3/0 brings only itself"
    );
    // Pages of it bring others.
    for _ in 0..40 {
        find(&mut shapes, STATIC, Source::Shape(CALENDAR), 1);
        find(&mut shapes, CALENDAR, Source::Shape(CALENDAR), 4);
    }
    assert_eq!(
        (shapes.lane(CALENDAR), shapes.verdict(CALENDAR)),
        (Lane::Ahead, None)
    );
}

#[test]
fn pages_that_others_link_to_or_that_bring_others_stay_ahead() {
    for (elsewhere, others) in [(1, 0), (0, 1)] {
        let mut shapes = Shapes::default();
        for _ in 0..100 {
            find(&mut shapes, PAGES, Source::Shape(PAGES), 20);
            for _ in 0..elsewhere {
                find(&mut shapes, PAGES, Source::Elsewhere, 1);
            }
            for _ in 0..others {
                find(&mut shapes, STATIC, Source::Shape(PAGES), 1);
            }
            assert_eq!(shapes.lane(PAGES), Lane::Ahead);
        }
    }
}

#[test]
fn shapes_that_bring_each_other_fall_behind_together_and_the_rest_of_the_site_does_not() {
    let mut shapes = Shapes::default();
    find(&mut shapes, CALENDAR, Source::Shape(PAGES), 1);
    for _ in 0..100 {
        find(&mut shapes, PAGES, Source::Shape(PAGES), 2);
        find(&mut shapes, PAGES, Source::Elsewhere, 1);
        find(&mut shapes, DAYS, Source::Shape(CALENDAR), 3);
        find(&mut shapes, CALENDAR, Source::Shape(DAYS), 1);
    }
    assert_eq!(
        [PAGES, CALENDAR, DAYS].map(|shape| shapes.lane(shape)),
        [Lane::Ahead, Lane::Behind, Lane::Behind]
    );
}

#[test]
fn only_what_repeats_itself_for_very_long_is_a_trap_and_operators_release_it() {
    let mut shapes = calendar();
    assert!(
        !turn(&mut shapes, CALENDAR, 3000, 5, 2000),
        "one of five pages is like no other"
    );
    let mut shapes = calendar();
    assert!(!turn(&mut shapes, CALENDAR, 3000, 100, 0), "never");
    assert!(
        !turn(&mut shapes, CALENDAR, 1990, 100, 5000),
        "not yet so many pages"
    );
    assert!(turn(&mut shapes, CALENDAR, 20, 100, 5000));
    assert_eq!(shapes.lane(CALENDAR), Lane::Trapped);
    let said = shapes.verdict(CALENDAR).unwrap().to_string();
    assert_eq!(
        said,
        "the shape /3/0 brings only itself: 5000 pages, and 98 % of the last ones repeat others"
    );
    assert!({
        shapes.release(DAYS);
        shapes.lane(CALENDAR) == Lane::Trapped
    });
    shapes.release(CALENDAR);
    assert_eq!(shapes.lane(CALENDAR), Lane::Behind);
    assert!(
        !turn(&mut shapes, CALENDAR, 4999, 100, 5000) && turn(&mut shapes, CALENDAR, 1, 100, 5000)
    );
}

#[test]
fn a_shape_that_others_link_to_is_no_trap() {
    let mut shapes = calendar();
    find(&mut shapes, CALENDAR, Source::Elsewhere, 1);
    assert!(!turn(&mut shapes, CALENDAR, 3000, 100, 2000));
    // Long after it is forgotten.
    find(&mut shapes, CALENDAR, Source::Shape(CALENDAR), 600);
    assert!(turn(&mut shapes, CALENDAR, 1, 100, 2000));
}

#[test]
fn shapes_are_bounded_and_those_that_are_behind_are_kept() {
    let mut shapes = calendar();
    for hash in 100..10_000 {
        find(&mut shapes, hash, Source::Shape(hash), 2);
    }
    assert_eq!(
        (shapes.known.len(), shapes.lane(CALENDAR)),
        (SHAPES_MAX, Lane::Behind)
    );
}

#[test]
fn they_come_back_as_they_were() {
    let mut shapes = calendar();
    turn(&mut shapes, CALENDAR, 1500, 100, 0);
    find(&mut shapes, PAGES, Source::Elsewhere, 1);
    let mut row = Writer::with_capacity(0);
    shapes.write(&mut row);
    let row = row.finish();
    let mut again = Writer::with_capacity(0);
    Shapes::read(&mut Reader::new(&row).unwrap())
        .unwrap()
        .write(&mut again);
    assert_eq!(again.finish(), row);
    for length in 0..row.len() {
        assert!(Shapes::read(&mut Reader::new(&row[..length.max(1)]).unwrap()).is_none());
    }
}

/// Goal: pages that bring many others, each of a shape of its own, are in company, however many
/// shapes there are.
#[test]
fn what_brings_ever_new_shapes_stays_ahead_and_a_calendar_among_them_is_known() {
    let mut shapes = Shapes::default();
    let mut one_off = 1000;
    for _ in 0..200 {
        find(&mut shapes, PAGES, Source::Shape(PAGES), 1);
        for _ in 0..10 {
            one_off += 1;
            find(&mut shapes, one_off, Source::Shape(PAGES), 1);
        }
        find(&mut shapes, CALENDAR, Source::Shape(CALENDAR), 4);
    }
    assert_eq!(
        [PAGES, CALENDAR].map(|shape| shapes.lane(shape)),
        [Lane::Ahead, Lane::Behind]
    );
}

#[test]
fn shapes_that_were_busy_once_give_way() {
    let mut shapes = Shapes::default();
    for decoy in 100..116 {
        find(&mut shapes, decoy, Source::Shape(decoy), 60);
    }
    assert_eq!(shapes.get(CALENDAR), None);
    for _ in 0..20_000 {
        find(&mut shapes, STATIC, Source::Elsewhere, 1);
        find(&mut shapes, CALENDAR, Source::Shape(CALENDAR), 1);
    }
    assert_eq!(shapes.lane(CALENDAR), Lane::Behind);
}

//! Lifetimes: how long each kind of answer is remembered.

use super::*;

#[test]
fn each_kind_of_answer_is_remembered_for_its_time() {
    for (found, resolution, lifetime_s) in [
        (some("8.8.8.1", 1), resolved("8.8.8.1", 1800), 1800),
        (some("8.8.8.1", 7200), resolved("8.8.8.1", 7200), 7200),
        (
            some("8.8.8.1", u32::MAX),
            resolved("8.8.8.1", 86_400),
            86_400,
        ),
        (none(), Resolution::NoAddress, 60),
        (
            Found::NoAddress { ttl_s: Some(0) },
            Resolution::NoAddress,
            60,
        ),
        (
            Found::NoAddress { ttl_s: Some(200) },
            Resolution::NoAddress,
            200,
        ),
        (
            Found::NoAddress {
                ttl_s: Some(u32::MAX),
            },
            Resolution::NoAddress,
            300,
        ),
        (some("8.8.8.1", 0), resolved("8.8.8.1", 1800), 1800),
        (
            some("8.8.8.1", 1 << 31),
            resolved("8.8.8.1", 86_400),
            86_400,
        ),
        (Found::Temporary, Resolution::Temporary, 30),
        (some("10.0.0.1", 7200), Resolution::Private, 7200),
    ] {
        let mut t = Harness::new(settings());
        t.input(new(1, &["http://a.test/1"]));
        // Addresses in use are asked for ahead of time.
        let ahead = usize::from(matches!(resolution, Resolution::Addresses { .. }));
        t.answer("a.test", found);
        assert_eq!(t.last(), Some(resolution));
        t.now = at(lifetime_s - 1);
        t.input(new(2, &["http://a.test/2"]));
        assert!(t.last().is_some());
        assert_eq!(t.asked.len(), 1 + ahead);
        t.now = at(lifetime_s);
        t.input(new(3, &["http://a.test/3"]));
        assert_eq!((t.last(), t.asked.len()), (None, 2));
    }
}

#[test]
fn failures_are_remembered_longer_each_time() {
    let mut t = Harness::new(settings());
    let mut now_s = 0;
    for (round, lifetime_s) in [30, 60, 100, 100].into_iter().enumerate() {
        t.input(new(1, &["http://a.test/"]));
        assert_eq!(t.asked.len(), round + 1);
        t.answer("a.test", Found::Temporary);
        t.now = at(now_s + lifetime_s - 1);
        t.input(new(1, &["http://a.test/"]));
        assert_eq!(t.asked.len(), round + 1);
        now_s += lifetime_s;
        t.now = at(now_s);
    }
    t.input(new(1, &["http://a.test/"]));
    t.answer("a.test", some("8.8.8.1", 3600));
    t.now = t.now + Duration::from_secs(3600);
    t.input(new(1, &["http://a.test/"]));
    t.answer("a.test", Found::Temporary);
    t.now = t.now + Duration::from_secs(30);
    t.input(new(1, &["http://a.test/"]));
    assert_eq!(t.asked.len(), 7, "an answer ends the row");
}

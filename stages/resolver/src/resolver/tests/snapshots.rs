//! Snapshots: when one is taken, and what a life takes from it.

use super::*;

#[test]
fn a_snapshot_is_taken_when_something_is_new_and_at_the_end() {
    let mut t = Harness::new(settings());
    assert_eq!(t.core.wake_at(), None);
    t.input(new(
        1,
        &["http://a.test/", "http://b.test/", "http://c.test/"],
    ));
    t.answer("a.test", some("8.8.8.1", 3600));
    t.now = at(100);
    t.answer("b.test", Found::NoAddress { ttl_s: Some(250) });
    t.answer("c.test", Found::Temporary);
    assert_eq!(t.core.wake_at(), Some(at(300)));
    t.now = at(300);
    t.step(Event::Wake);
    assert_eq!((t.kept.len(), t.core.is_idle()), (1, false));
    t.step(Event::Wake);
    assert_eq!(t.kept.len(), 1, "one at a time, and nothing is new");
    t.step(Event::Answer(Answer::Kept));
    t.step(Event::Drain);
    assert_eq!((t.kept.len(), t.core.is_idle()), (1, true));

    let mut next = Harness::new(settings());
    assert_eq!(
        next.core
            .restore(&t.kept[0], Duration::from_secs(40), Timestamp::ZERO),
        Ok(2)
    );
    next.input(new(5, &["http://a.test/", "http://b.test/"]));
    let resolutions: Vec<_> = next.take()[0]
        .servers
        .iter()
        .map(|server| server.resolution.clone())
        .collect();
    assert_eq!(
        resolutions,
        [resolved("8.8.8.1", 3600 - 340), Resolution::NoAddress].map(Some)
    );
    next.now = at(10);
    next.input(new(7, &["http://b.test/", "http://c.test/"]));
    assert_eq!(
        next.asked,
        ["b.test", "c.test"],
        "250 s are over; failures are forgotten"
    );
    next.answer("c.test", none());
    next.step(Event::Drain);
    assert_eq!((next.kept.len(), next.core.is_idle()), (1, false));
    next.answer("b.test", none());
    next.step(Event::Answer(Answer::Kept));
    assert_eq!(next.kept.len(), 2, "something was new by then");
    next.step(Event::Answer(Answer::Kept));
    assert!(next.core.is_idle());
}

#[test]
fn what_the_settings_forbid_now_is_not_taken_from_a_snapshot() {
    let mut t = Harness::new(Settings {
        reach: Reach::All,
        ..settings()
    });
    t.input(new(1, &["http://inner.test/", "http://outer.test/"]));
    t.answer("inner.test", some("10.0.0.1", 3600));
    t.answer("outer.test", some("8.8.8.1", 3600));
    t.step(Event::Drain);
    let mut strict = Harness::new(settings());
    assert_eq!(
        strict
            .core
            .restore(&t.kept[0], Duration::ZERO, Timestamp::ZERO),
        Ok(1)
    );
    strict.input(new(1, &["http://inner.test/"]));
    assert_eq!(strict.asked, ["inner.test"]);
    strict.answer("inner.test", some("10.0.0.1", 3600));
    strict.step(Event::Drain);
    let mut open = Harness::new(Settings {
        reach: Reach::All,
        ..settings()
    });
    assert_eq!(
        open.core
            .restore(&strict.kept[0], Duration::ZERO, Timestamp::ZERO),
        Ok(1)
    );
    open.input(new(1, &["http://inner.test/"]));
    assert_eq!(
        open.asked,
        ["inner.test"],
        "that it is refused holds no more"
    );
    let mut short = Harness::new(Settings {
        lifetime_max: Duration::from_secs(1800),
        ..settings()
    });
    assert_eq!(
        short
            .core
            .restore(&t.kept[0], Duration::ZERO, Timestamp::ZERO),
        Ok(0)
    );
}

//! Refreshes: names that are asked for again, by schedulers and ahead of time.

use super::*;

#[test]
fn a_refresh_asks_anew_when_what_is_known_is_about_to_expire() {
    let mut t = Harness::new(settings());
    t.input(new(1, &["http://a.test/"]));
    t.answer("a.test", some("8.8.8.1", 3600));
    t.take();
    t.now = at(3239);
    let ticket = t.input(refresh(9, &["http://a.test", "https://a.test"]));
    let message = t.take().remove(0);
    assert_eq!(
        (
            message.refresh,
            message.urls.len(),
            message.servers.len(),
            message.partition
        ),
        (9, 0, 2, 7)
    );
    assert_eq!(
        message.servers[1].resolution,
        Some(resolved("8.8.8.1", 361))
    );
    assert_eq!(t.finished.last(), Some(&ticket));
    t.now = at(3240);
    t.input(refresh(10, &["http://a.test:81", "http://8.8.8.9"]));
    assert_eq!(
        servers(&t.take()[0]),
        [("http://8.8.8.9", Some(resolved("8.8.8.9", 86_400)))]
    );
    assert_eq!(t.asked, ["a.test", "a.test"]);
    // What is known still serves new URLs meanwhile.
    t.input(new(2, &["http://a.test/2"]));
    assert_eq!(t.last(), Some(resolved("8.8.8.1", 360)));
    // Nobody has answered yet, and is asked once more: one query none the less.
    t.input(refresh(11, &["http://a.test:81"]));
    assert_eq!((t.take().len(), t.asked.len()), (0, 2));
    t.answer("a.test", some("8.8.8.2", 3600));
    let message = t.take().remove(0);
    assert_eq!(
        (message.refresh, servers(&message)),
        (
            0,
            vec![("http://a.test:81", Some(resolved("8.8.8.2", 3600)))]
        )
    );
}

#[test]
fn a_refresh_asks_anew_after_a_failure_unless_that_was_just_now() {
    let mut t = Harness::new(settings());
    t.input(new(1, &["http://a.test/"]));
    t.answer("a.test", Found::Temporary);
    t.take();
    t.now = at(5);
    t.input(refresh(1, &["http://a.test"]));
    assert_eq!((t.last(), t.asked.len()), (Some(Resolution::Temporary), 1));
    t.now = at(6);
    t.input(refresh(2, &["http://a.test"]));
    assert_eq!((t.take().len(), t.asked.len()), (0, 2));
}

#[test]
fn names_in_use_are_asked_for_before_they_expire() {
    let mut t = Harness::new(Settings {
        snapshot_every: Duration::ZERO,
        ..settings()
    });
    t.input(new(1, &["http://used.test/", "http://unused.test/"]));
    t.answer("used.test", some("8.8.8.1", 3600));
    t.answer("unused.test", some("8.8.8.2", 3600));
    t.now = at(10);
    t.input(new(2, &["http://used.test/"]));
    t.take();
    assert_eq!(t.wake_at_but_for_snapshots(), Some(at(3240)));
    t.now = at(3240);
    t.step(Event::Wake);
    assert_eq!(t.asked[2..], ["used.test"]);
    assert!(t.core.is_idle(), "nobody waits for it");
    // Somebody does now: there is one query none the less.
    t.now = at(3601);
    t.input(new(3, &["http://used.test/x"]));
    assert_eq!(
        (t.last(), t.asked.len(), t.core.is_idle()),
        (None, 3, false)
    );
    t.answer("used.test", some("8.8.8.3", 3600));
    assert_eq!(t.last(), Some(resolved("8.8.8.3", 3600)));
    // It was not used since.
    t.now = at(7200);
    t.step(Event::Wake);
    assert_eq!(t.asked.len(), 3);
    assert_eq!(
        (t.count("queries_ahead_total"), t.count("names_in_flight")),
        (1, 0)
    );
}

#[test]
fn a_query_ahead_of_time_that_failed_is_repeated_while_there_is_time() {
    let mut t = Harness::new(settings());
    t.input(new(1, &["http://a.test/"]));
    t.answer("a.test", some("8.8.8.1", 1800));
    t.input(new(2, &["http://a.test/"]));
    let mut wakes = Vec::new();
    while let Some(wake) = t.wake_at_but_for_snapshots() {
        t.now = wake;
        t.step(Event::Wake);
        wakes.push(wake.since(Timestamp::ZERO).as_secs());
        t.answer("a.test", Found::Temporary);
    }
    assert_eq!(wakes, [1620, 1650, 1710], "and 1810 is too late");
    t.now = at(1799);
    t.input(new(3, &["http://a.test/3"]));
    assert_eq!(t.last(), Some(resolved("8.8.8.1", 1)));
}

#[test]
fn what_is_asked_ahead_of_time_leaves_half_of_the_window_and_none_at_the_end() {
    let mut t = Harness::new(Settings {
        window: 4,
        ..settings()
    });
    let urls: Vec<String> = (0..6).map(|n| format!("http://h{n}.test/")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    t.input(new(1, &urls));
    for n in 0..6 {
        t.answer(&format!("h{n}.test"), some("8.8.8.1", 3600));
    }
    t.input(new(9, &urls));
    t.now = at(3300);
    t.step(Event::Wake);
    assert_eq!(t.asked.len(), 8);
    assert_eq!(
        t.wake_at_but_for_snapshots(),
        None,
        "the next answer will do"
    );
    let name = t.asked[7].clone();
    t.answer(&name, some("8.8.8.1", 3600));
    assert_eq!(t.asked.len(), 9);
    t.step(Event::Drain);
    let name = t.asked[8].clone();
    t.answer(&name, some("8.8.8.1", 3600));
    assert_eq!((t.asked.len(), t.core.wake_at()), (9, None));
}

#[test]
fn a_failed_refresh_leaves_what_still_holds() {
    let mut t = Harness::new(settings());
    t.input(new(1, &["http://a.test/"]));
    t.answer("a.test", some("8.8.8.1", 3600));
    t.now = at(3300);
    t.input(refresh(1, &["http://a.test"]));
    t.answer("a.test", Found::Temporary);
    assert_eq!(t.last(), Some(resolved("8.8.8.1", 300)));
}

//! Silence: no name server answers; what is said and asked for meanwhile.

use super::*;

/// Names are asked for and nobody answers: how many servers were told that theirs failed.
fn fall_silent(t: &mut Harness, names: std::ops::Range<u64>) -> usize {
    let mut failed = 0;
    for n in names {
        let url = format!("http://n{n}.test/");
        t.input(new(n + 1, &[&url]));
        t.take();
        if t.asked.contains(&format!("n{n}.test")) {
            t.answer(&format!("n{n}.test"), Found::Silence);
        }
        failed += t.take().iter().flat_map(|message| &message.servers).count();
    }
    failed
}

fn wide() -> Harness {
    Harness::new(Settings { window: 100, snapshot_every: Duration::ZERO, ..settings() })
}

#[test]
fn when_no_name_server_answers_names_are_held_back_and_asked_for_again_with_the_first_answer() {
    let mut t = wide();
    assert_eq!(fall_silent(&mut t, 0..7), 7, "these may be the names' own fault");
    assert_eq!(fall_silent(&mut t, 7..30), 0);
    assert_eq!(t.asked.len(), 8, "the others wait");
    let why = t.core.hindrance(t.now).expect("it is not ready");
    assert!(why.contains("no name server answers"), "{why}");
    assert!(t.core.why(t.now, "http://n20.test/").unwrap().unwrap().contains("no name server answers"));
    assert!(!t.core.is_idle());

    // One name a second, each in its turn.
    for second in 1..30 {
        t.now = at(second);
        assert_eq!(t.core.wake_at(), Some(t.now));
        t.asked.clear();
        t.step(Event::Wake);
        assert_eq!(t.asked.len(), 1, "{:?}", t.asked);
        let name = t.asked[0].clone();
        t.answer(&name, Found::Silence);
    }
    assert!(t.take().is_empty());
    t.now = at(30);
    t.asked.clear();
    t.step(Event::Wake);
    let name = t.asked[0].clone();
    t.answer(&name, none());
    assert_eq!(t.core.hindrance(t.now), None);
    assert_eq!(t.asked.len(), 23, "all that were held back, and the one that was answered");
    for name in t.asked[1..].to_vec() {
        t.answer(&name, some("8.8.8.8", 300));
    }
    let told: usize = t.take().iter().map(|message| message.servers.len()).sum();
    assert_eq!(told, 23);
    assert!(t.core.is_idle());
}

#[test]
fn names_fail_when_nobody_has_answered_for_long_enough() {
    let mut t = wide();
    fall_silent(&mut t, 0..20);
    t.now = at(600);
    t.step(Event::Wake);
    let messages = t.take();
    let failed = messages.iter().flat_map(|message| &message.servers);
    assert!(failed.clone().all(|found| found.resolution == Some(Resolution::Temporary)));
    // The eighth was asked for; the others wait for their query no longer.
    assert_eq!((failed.count(), t.core.hindrance(t.now)), (1, None));
    let waiting: Vec<String> = (8..20).map(|n| format!("n{n}.test")).collect();
    assert_eq!(t.asked[8..], waiting);
    for name in waiting {
        t.answer(&name, Found::Silence);
        assert_eq!(t.last(), Some(Resolution::Temporary));
    }
    assert!(t.core.is_idle());
}

#[test]
fn a_name_server_that_fails_has_answered() {
    let mut t = wide();
    assert_eq!(fall_silent(&mut t, 0..7), 7);
    t.input(new(100, &["http://servfail.test/"]));
    t.answer("servfail.test", Found::Temporary);
    t.take();
    assert_eq!(fall_silent(&mut t, 7..14), 7);
    assert_eq!(t.core.hindrance(t.now), None);
}

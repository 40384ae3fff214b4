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
    Harness::new(Settings {
        window: 100,
        snapshot_every: Duration::ZERO,
        ..settings()
    })
}

#[test]
fn when_no_name_server_answers_names_are_held_back_and_asked_for_again_with_the_first_answer() {
    let mut t = wide();
    assert_eq!(
        fall_silent(&mut t, 0..7),
        7,
        "these may be the names' own fault"
    );
    assert_eq!(fall_silent(&mut t, 7..30), 0);
    assert_eq!(t.asked.len(), 8, "the others wait");
    let why = t.core.hindrance(t.now).expect("it is not ready");
    assert!(why.contains("no name server answers"), "{why}");
    assert!(
        t.core
            .why(t.now, "http://n20.test/")
            .unwrap()
            .unwrap()
            .contains("no name server answers")
    );
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
    assert_eq!(
        t.asked.len(),
        23,
        "all that were held back, and the one that was answered"
    );
    let asked = std::mem::take(&mut t.asked);
    for name in &asked[1..] {
        t.answer(name, some("8.8.8.8", 300));
    }
    let told: usize = t.take().iter().map(|message| message.servers.len()).sum();
    assert_eq!(told, 23);
    assert!(t.core.is_idle());
}

/// Goal: names that are held back are asked for whatever else happens. Method: at the moment when the
/// next one may be tried, something comes that asks for nothing new.
#[test]
fn what_comes_when_a_name_may_be_tried_does_not_keep_it_from_being_tried() {
    let known = || Event::Message {
        ticket: Ticket(1000),
        input: Input::Refresh(DnsRefresh {
            servers: vec!["http://n20.test".into()],
            number: 7,
            ..DnsRefresh::default()
        }),
    };
    for event in [Event::HearsAgain, Event::Stored(7), known()] {
        let mut t = wide();
        fall_silent(&mut t, 0..30);
        t.now = at(1);
        t.asked.clear();
        t.step(event);
        assert_eq!(t.asked.len(), 1, "{:?}", t.core.wake_at());
    }
}

#[test]
fn names_fail_when_nobody_has_answered_for_long_enough() {
    let mut t = wide();
    fall_silent(&mut t, 0..20);
    t.now = at(600);
    t.step(Event::Wake);
    let messages = t.take();
    let failed = messages.iter().flat_map(|message| &message.servers);
    assert!(
        failed
            .clone()
            .all(|found| found.resolution == Some(Resolution::Temporary))
    );
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

/// Goal: a forwarder whose network is cut fails for every name, and no name is given up for that. A
/// zone that is broken while other names are answered is another matter.
#[test]
fn a_name_server_that_fails_for_every_name_has_not_answered() {
    let mut t = wide();
    let fails = |t: &mut Harness, n: u64| {
        t.input(new(n + 1, &[&format!("http://n{n}.test/")]));
        t.take();
        t.answer(&format!("n{n}.test"), Found::Temporary);
        t.take().iter().flat_map(|message| &message.servers).count()
    };
    assert_eq!((0..7).map(|n| fails(&mut t, n)).sum::<usize>(), 7);
    t.input(new(100, &["http://answered.test/"]));
    t.answer("answered.test", none());
    t.take();
    assert_eq!((10..17).map(|n| fails(&mut t, n)).sum::<usize>(), 7);
    assert_eq!(t.core.hindrance(t.now), None);
    assert_eq!(fails(&mut t, 17), 0);
    assert!(t.core.hindrance(t.now).is_some());
}

fn young() -> Harness {
    Harness::new(Settings {
        window: 100,
        snapshot_every: Duration::ZERO,
        past: Past::Unknown,
        ..settings()
    })
}

/// Asks for a name, and answers. Says how many servers were told of their names.
fn ask(t: &mut Harness, n: u64, found: Found) -> usize {
    t.input(new(n, &[&format!("http://n{n}.test/")]));
    t.take();
    t.answer(&format!("n{n}.test"), found);
    t.take().iter().map(|message| message.servers.len()).sum()
}

#[test]
fn while_no_name_server_has_ever_answered_the_first_name_is_held_back() {
    for found in [Found::Silence, Found::ServerFailure] {
        let mut t = young();
        assert_eq!(ask(&mut t, 1, found.clone()), 0, "{found:?}");
        assert!(
            t.core
                .hindrance(t.now)
                .is_some_and(|why| why.contains("no name server answers"))
        );
        t.now = at(45);
        t.asked.clear();
        t.step(Event::Wake);
        assert_eq!(t.asked, ["n1.test"]);
        t.answer("n1.test", some("8.8.8.8", 300));
        assert!(matches!(t.last(), Some(Resolution::Addresses { .. })));
        assert_eq!(t.core.hindrance(t.now), None);
        assert_eq!(
            ask(&mut t, 2, found),
            1,
            "from now on it is the name's own fault"
        );
    }
}

#[test]
fn any_other_answer_ends_the_doubt_and_counts() {
    for found in [Found::Temporary, none()] {
        let mut t = young();
        assert_eq!(ask(&mut t, 1, Found::Silence), 0);
        t.now = at(1);
        t.step(Event::Wake);
        t.answer("n1.test", found);
        let told: usize = t.take().iter().map(|message| message.servers.len()).sum();
        assert_eq!((told, t.core.hindrance(t.now)), (1, None));
    }
    // A list of names on which the name servers refuse to answer is no silence.
    let mut t = young();
    assert_eq!(
        (1..=20)
            .map(|n| ask(&mut t, n, Found::Temporary))
            .sum::<usize>(),
        20
    );
    assert_eq!(t.core.hindrance(t.now), None);
}

/// Goal: a resolver in doubt waits. Method: a name that is due to be asked for ahead of time.
#[test]
fn in_doubt_a_name_that_is_due_wakes_nobody_before_it_may_be_asked_for() {
    let mut t = wide();
    t.input(new(1, &["http://old.test/"]));
    t.answer("old.test", some("8.8.8.8", 300));
    t.take();
    t.now = at(1_790);
    assert_eq!(fall_silent(&mut t, 0..8), 7);
    t.now = at(1_791);
    t.step(Event::Wake);
    assert_eq!(
        t.asked.last().unwrap(),
        "n7.test",
        "the one that is held back; until it is answered, no other is"
    );
    t.now = at(1_801);
    t.step(Event::Wake);
    assert!(
        t.core.wake_at().is_some_and(|at| at > t.now),
        "{:?}",
        t.core.wake_at()
    );
}

/// The failures that raised the doubt are remembered. Told once more they would end what waits for
/// these names.
#[test]
fn in_doubt_no_failure_is_told_from_memory() {
    let mut t = wide();
    assert_eq!(fall_silent(&mut t, 0..8), 7);
    t.now = at(1);
    t.input(refresh(1, &["http://n0.test"]));
    assert_eq!(t.asked.last().unwrap(), "n0.test");
    t.input(new(100, &["http://n1.test/x"]));
    assert_eq!(t.last(), None);
    t.answer("n0.test", Found::Silence);
    assert!(t.take().is_empty());
}

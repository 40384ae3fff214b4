use super::*;
use proptest::prelude::*;

const MAX: Duration = Duration::from_secs(600);

const fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

/// A contact fails that took no time. Returns whether doubt begins.
fn fails(doubt: &mut Doubt, second: u64, party: &str) -> bool {
    doubt.failed(at(second), at(second), party, Failure::Silence)
        == Verdict::Withheld { begins: true }
}

/// So many parties fail, one a second, from `from` on; each contact takes no time. Says when doubt
/// began.
fn fail(doubt: &mut Doubt, from: u64, parties: std::ops::Range<u64>) -> Option<u64> {
    let mut began = None;
    for (second, party) in (from..).zip(parties) {
        if fails(doubt, second, &format!("http://h{party}.test")) {
            began = Some(second);
        }
    }
    began
}

#[test]
fn many_parties_that_fail_in_a_row_raise_doubt_and_a_success_ends_it() {
    let mut doubt = Doubt::new(MAX, Past::Successful);
    assert_eq!(fail(&mut doubt, 1, 0..7), None);
    assert!(!doubt.is_on(at(7)));
    assert_eq!(fail(&mut doubt, 8, 7..30), Some(8));
    assert!(doubt.is_on(at(40)));
    assert_eq!(doubt.since(at(40)), Some(at(8)));
    assert_eq!(
        doubt.counts(),
        [("in_doubt", 1), ("doubts_total", 1), ("withheld_total", 23)]
    );
    assert_eq!(
        doubt.succeeded(at(68), at(68), "http://live.test"),
        Some(Duration::from_secs(60))
    );
    assert!(!doubt.is_on(at(68)));
    assert_eq!(doubt.succeeded(at(69), at(69), "http://live.test"), None);
}

#[test]
fn the_same_few_parties_never_raise_it() {
    let mut doubt = Doubt::new(MAX, Past::Successful);
    for round in 0..100 {
        assert_eq!(fail(&mut doubt, 10 * round + 1, 0..7), None);
    }
}

#[test]
fn it_lasts_so_long_and_no_longer_and_comes_back_only_after_a_success() {
    let mut doubt = Doubt::new(MAX, Past::Successful);
    fail(&mut doubt, 1, 0..8);
    assert_eq!(doubt.until(), Some(at(608)));
    assert!(doubt.is_on(at(607)) && !doubt.is_on(at(608)));
    assert_eq!(fail(&mut doubt, 700, 100..200), None);
    assert!(!doubt.is_on(at(800)));
    assert_eq!(
        doubt.succeeded(at(801), at(801), "http://live.test"),
        None,
        "it had ended before"
    );
    assert_eq!(fail(&mut doubt, 802, 200..208), Some(809));
    let mut never = Doubt::new(Duration::ZERO, Past::Successful);
    assert_eq!(fail(&mut never, 1, 0..100), None);
}

#[test]
fn dead_hosts_among_live_ones_raise_none_not_even_when_they_are_all_that_is_left() {
    let mut doubt = Doubt::new(MAX, Past::Successful);
    // All are contacted at once; the live ones answer first.
    doubt.succeeded(at(2), at(2), "http://live.test");
    for party in 0..50 {
        assert_eq!(
            doubt.failed(
                at(12),
                at(1),
                &format!("http://slow{party}.test"),
                Failure::Silence
            ),
            Verdict::Counts
        );
    }
    // Some fail in between.
    for second in 20..60 {
        doubt.failed(
            at(second),
            at(second),
            &format!("http://dead{second}.test"),
            Failure::Silence,
        );
        doubt.succeeded(at(second), at(second), "http://live.test");
    }
    for second in 100..200 {
        for party in (0..50).map(|n| format!("http://slow{n}.test")) {
            assert_eq!(
                doubt.failed(at(second), at(second), &party, Failure::Silence),
                Verdict::Counts
            );
        }
        for party in (20..60).map(|n| format!("http://dead{n}.test")) {
            assert_eq!(
                doubt.failed(at(second), at(second), &party, Failure::Silence),
                Verdict::Counts
            );
        }
    }
    // One that answers again is evidence again.
    for n in 0..8 {
        doubt.succeeded(at(300), at(300), &format!("http://slow{n}.test"));
    }
    let begins = (0..8).map(|n| fails(&mut doubt, 301, &format!("http://slow{n}.test")));
    assert_eq!(begins.filter(|begins| *begins).count(), 1);
}

/// Goal: what is under way when the network breaks does not hide that it does. Method: ten parties
/// answer. Then those fail that were under way, though others began later and were answered, and
/// then each twice while answers come that were on their way.
#[test]
fn what_is_under_way_when_the_network_breaks_hides_nothing() {
    let mut doubt = Doubt::new(MAX, Past::Successful);
    let party = |n: u64| format!("http://h{n}.test");
    (0..10).for_each(|n| assert_eq!(doubt.succeeded(at(1), at(1), &party(n)), None));
    doubt.succeeded(at(3), at(2), "http://slow.test");
    (0..10).for_each(|n| {
        assert_eq!(
            doubt.failed(at(12), at(1), &party(n), Failure::Silence),
            Verdict::Counts
        )
    });
    for second in [13, 14] {
        for n in 0..10 {
            assert_eq!(
                doubt.failed(at(second), at(second), &party(n), Failure::Silence),
                Verdict::Counts
            );
            assert_eq!(doubt.succeeded(at(second), at(2), "http://slow.test"), None);
        }
    }
    assert_eq!(fail(&mut doubt, 30, 0..10), Some(37));
    assert_eq!(
        doubt.succeeded(at(40), at(2), "http://slow.test"),
        None,
        "it was on its way"
    );
    assert!(doubt.is_on(at(41)));
    assert_eq!(
        doubt.succeeded(at(50), at(49), "http://slow.test"),
        Some(Duration::from_secs(13))
    );
    // Those that failed twice while others could be reached are known to fail.
    assert_eq!(fail(&mut doubt, 60, 0..10), None);
}

#[test]
fn while_it_lasts_contacts_are_tried_one_a_second_and_nobody_is_woken_for_nothing() {
    let mut doubt = Doubt::new(MAX, Past::Successful);
    assert_eq!((doubt.may_try(at(0)), doubt.wake_at(true)), (true, None));
    fail(&mut doubt, 1, 0..8);
    assert!(!doubt.look(at(8)));
    assert_eq!(
        (
            doubt.may_try(at(8)),
            doubt.wake_at(true),
            doubt.wake_at(false)
        ),
        (false, Some(at(9)), Some(at(608)))
    );
    assert!(!doubt.look(at(9)));
    assert_eq!(
        (doubt.may_try(at(9)), doubt.wake_at(true)),
        (true, Some(at(608)))
    );
    assert!(doubt.look(at(608)), "it is over");
    assert!(!doubt.look(at(609)));
    assert_eq!((doubt.may_try(at(609)), doubt.wake_at(true)), (true, None));
}

#[test]
fn the_first_silence_raises_doubt_while_nothing_has_ever_been_heard() {
    let mut young = Doubt::new(MAX, Past::Unknown);
    assert!(fails(&mut young, 1, "http://a.test"), "one party is enough");
    assert!(!fails(&mut young, 3, "http://a.test") && young.is_on(at(3)));
    // It was on its way when doubt began: no matter, it is the first that ever came.
    assert_eq!(
        young.succeeded(at(46), at(0), "http://a.test"),
        Some(Duration::from_secs(45))
    );
    assert_eq!(
        young.failed(at(50), at(50), "http://b.test", Failure::Silence),
        Verdict::Counts
    );
    assert_eq!(
        fail(&mut young, 60, 0..8),
        Some(66),
        "from now on eight parties raise it, the last one among them"
    );
    let mut never = Doubt::new(Duration::ZERO, Past::Unknown);
    assert!(!fails(&mut never, 1, "http://a.test"));
}

#[test]
fn a_refusal_is_an_answer_that_ends_the_doubt_of_a_young_crawl_and_raises_none() {
    let refused = |doubt: &mut Doubt, second: u64, party: &str| {
        let lasted = doubt.heard(at(second));
        (
            lasted,
            doubt.failed(at(second), at(second), party, Failure::Refusal),
        )
    };
    let mut young = Doubt::new(MAX, Past::Unknown);
    assert!(fails(&mut young, 1, "http://away.test"));
    assert_eq!(
        refused(&mut young, 5, "http://a.test:9"),
        (Some(Duration::from_secs(4)), Verdict::Counts)
    );
    for n in 0..100 {
        assert_eq!(
            refused(&mut young, 6 + n, &format!("http://h{n}.test:9")),
            (None, Verdict::Counts)
        );
    }
    assert_eq!(
        young.failed(at(200), at(200), "http://away.test", Failure::Silence),
        Verdict::Counts
    );
    // Once something has succeeded, a network that refuses for all is in doubt, too.
    assert_eq!(young.succeeded(at(300), at(300), "http://live.test"), None);
    let begins = (0..8).map(|n| refused(&mut young, 301, &format!("http://h{n}.test:9")).1);
    assert_eq!(
        begins
            .filter(|verdict| *verdict == Verdict::Withheld { begins: true })
            .count(),
        1
    );
    assert_eq!(
        refused(&mut young, 302, "http://h9.test:9").0,
        None,
        "a refusal does not end that one"
    );
}

#[test]
fn the_doubt_of_a_young_crawl_lasts_so_long_and_does_not_come_back_before_an_answer() {
    let mut young = Doubt::new(MAX, Past::Unknown);
    assert!(fails(&mut young, 1, "http://a.test"));
    assert!(young.is_on(at(600)) && !young.is_on(at(601)) && young.look(at(601)));
    for second in 602..2000 {
        let failed = young.failed(
            at(second),
            at(second),
            &format!("http://h{second}.test"),
            Failure::Silence,
        );
        assert_eq!(failed, Verdict::Counts);
    }
    assert_eq!(
        young.counts(),
        [("in_doubt", 0), ("doubts_total", 1), ("withheld_total", 1)]
    );
}

proptest! {
    /// Goal: doubt is bounded in time, never without enough different failures since the last
    /// success, and what is remembered is bounded. Method: random contacts against a list of what
    /// happened.
    #[test]
    fn it_is_never_raised_without_evidence_and_never_lasts_too_long(
        is_young: bool,
        contacts in proptest::collection::vec((0u64..40, any::<bool>(), 0u64..30), 0..300),
    ) {
        let past = if is_young { Past::Unknown } else { Past::Successful };
        let mut doubt = Doubt::new(Duration::from_secs(60), past);
        let mut has_heard = !is_young;
        let mut now = 1;
        let mut failing = HashSet::new();
        let mut on_since = None;
        for (party, is_failure, wait) in contacts {
            now += wait;
            let name = format!("http://h{party}.test");
            if is_failure {
                failing.insert(party);
                if fails(&mut doubt, now, &name) {
                    prop_assert!((failing.len() >= PARTIES || !has_heard) && on_since.is_none());
                    on_since = Some(now);
                }
            } else {
                failing.clear();
                has_heard = true;
                doubt.succeeded(at(now), at(now), &name);
                on_since = None;
            }
            let is_on = on_since.is_some_and(|since| now < since + 60);
            prop_assert_eq!(doubt.is_on(at(now)), is_on);
            prop_assert!(doubt.failing.len() <= PARTIES && doubt.unsettled.len() <= REMEMBERED_MAX);
            for parties in [&doubt.known, &doubt.answering] {
                prop_assert!(parties.order.len() <= REMEMBERED_MAX);
                prop_assert_eq!(parties.all.len(), parties.order.len());
            }
        }
    }
}

use super::*;
use proptest::prelude::*;

const fn of(instance: u16) -> Holder {
    Holder { instance, birth: 1 }
}

/// A claim of pages, in blocks.
fn pages(instance: u16, max: u64, spent: u64, in_use: u64, waiting: u64) -> Claim {
    let wanted = spent + in_use + waiting;
    Claim {
        quota: Quota::Domain("a.test".into()),
        max,
        holder: of(instance),
        epoch: 5,
        number: 0,
        spent,
        in_use,
        counts_on: 0,
        wanted,
        keeps: wanted,
        takes: Takes::Blocks { schedulers: 2 },
        may_change: true,
        known: Vec::new(),
        since: 0,
        gone: Vec::new(),
    }
}

/// A claim of jobs in a circle of three.
fn jobs(instance: u16, number: u64, in_use: u64, wanted: u64) -> Claim {
    Claim {
        quota: Quota::Circle("address.192.0.2.1".parse().unwrap()),
        max: 3,
        number,
        in_use,
        wanted,
        keeps: u64::MAX,
        takes: Takes::Missing,
        ..pages(instance, 3, 0, 0, 0)
    }
}

fn held<const N: usize>(ledger: &Ledger) -> [u64; N] {
    std::array::from_fn(|instance| ledger.held(of(instance as u16)))
}

/// A claim of a share of a thousand tokens, for so many pages.
fn share(instance: u16, number: u64, pages: u64) -> Claim {
    let value = 1.0;
    Claim {
        quota: Quota::Visits(String::new()),
        takes: Takes::Share(Stake { pages, value }),
        number,
        ..self::pages(instance, 1_000, 0, 0, 0)
    }
}

/// Goal: shares follow stakes, and never come to more than all. Method: one is alone; another comes,
/// and has nothing before the first has given back; one knows more pages by and by; one is gone.
#[test]
fn shares_follow_what_is_at_stake() {
    let mut ledger = Ledger::default();
    ledger.settle(&share(0, 1, 100));
    ledger.settle(&share(1, 1, 300));
    assert_eq!(held(&ledger), [1_000, 0]);
    let mut claims = 1;
    let mut rounds = |ledger: &mut Ledger, pages: [u64; 2]| {
        for _ in 0..40 {
            claims += 1;
            for instance in [0, 1] {
                ledger.settle(&share(instance, claims, pages[usize::from(instance)]));
                let held: u64 = held::<2>(ledger).iter().sum();
                assert!(held <= 1_000, "{held}");
            }
        }
        held(ledger).map(|tokens| (tokens + 5) / 10 * 10)
    };
    assert_eq!(rounds(&mut ledger, [100, 300]), [250, 750]);
    ledger = Ledger::parse(&ledger.text()).expect("it was written so");
    assert_eq!(rounds(&mut ledger, [300, 300]), [500, 500]);
    assert_eq!(rounds(&mut ledger, [300, 0]), [1_000, 0]);
    ledger.settle(&share(1, 100, 300));
    let gone = ledger.others(of(0)).collect();
    ledger.settle(&Claim {
        gone,
        ..share(0, 100, 300)
    });
    assert_eq!(ledger.others(of(0)).count(), 0);
}

#[test]
fn pages_are_taken_in_blocks_and_given_back() {
    let mut ledger = Ledger::default();
    assert!(ledger.settle(&pages(0, 1000, 0, 0, 3)));
    assert_eq!(ledger.held(of(0)), BLOCK_MIN, "more than it needs");
    assert!(ledger.settle(&pages(1, 1000, 0, 0, 5000)));
    assert_eq!(ledger.held(of(1)), 234, "a quarter of what is left");
    assert!(ledger.settle(&pages(0, 1000, 2, 1, 4)));
    assert_eq!(ledger.held(of(0)), 7, "but what its URLs need");
    assert!(!ledger.settle(&pages(0, 1000, 2, 1, 4)));
    assert_eq!(
        (
            ledger.spent_elsewhere(of(1)),
            ledger.holders_elsewhere(of(1)).collect::<Vec<_>>()
        ),
        (2, vec![0])
    );
    assert_eq!(Ledger::parse(&ledger.text()), Some(ledger));
}

#[test]
fn one_that_is_alone_takes_all_and_gives_it_back_to_the_next() {
    let mut ledger = Ledger::default();
    ledger.settle(&Claim {
        takes: Takes::Blocks { schedulers: 1 },
        ..pages(0, 1000, 0, 0, 3)
    });
    assert_eq!(ledger.held(of(0)), 1000);
    ledger.settle(&pages(1, 1000, 0, 0, 9));
    assert_eq!(
        (
            ledger.held(of(1)),
            ledger.holders_elsewhere(of(1)).collect::<Vec<_>>()
        ),
        (0, vec![0])
    );
    ledger.settle(&pages(0, 1000, 10, 2, 8));
    ledger.settle(&pages(1, 1000, 0, 0, 9));
    assert_eq!(held(&ledger), [20, BLOCK_MIN]);
}

#[test]
fn tokens_change_hands_when_all_have_said_what_they_have_in_use() {
    let mut ledger = Ledger::default();
    let says = |claim: Claim, since| Claim {
        known: vec![0, 1],
        since,
        ..claim
    };
    ledger.settle(&says(pages(0, 100, 30, 0, 200), 4));
    assert_eq!(
        (
            ledger.held(of(0)),
            ledger.silent(0, &[0, 1], 4).collect::<Vec<_>>()
        ),
        (30, vec![1])
    );
    ledger.settle(&says(pages(1, 100, 60, 0, 0), 4));
    ledger.settle(&says(pages(0, 100, 30, 0, 200), 4));
    assert_eq!(
        held(&ledger),
        [33, 60],
        "a quarter of the ten that are left"
    );
    // Two URLs in flight move to the other, which had none left: nobody takes or gives back
    // anything meanwhile.
    ledger.settle(&says(pages(0, 100, 31, 0, 0), 5));
    assert_eq!(held(&ledger), [33, 60]);
    ledger.settle(&says(pages(1, 100, 60, 2, 9), 5));
    assert_eq!(
        held(&ledger),
        [33, 64],
        "two for what came, a quarter of the five left"
    );
    ledger.settle(&says(pages(0, 100, 31, 0, 0), 5));
    assert_eq!(held(&ledger), [31, 64]);
}

/// Three schedulers hold all pages; URLs in flight move from the first to the second, which has to
/// hold more for them.
#[test]
fn what_one_counts_on_is_not_what_another_has_too_many() {
    let mut ledger = Ledger::default();
    for (instance, spent) in [(0, 4), (1, 3), (2, 3)] {
        ledger.settle(&pages(instance, 10, spent, 0, 0));
    }
    ledger.settle(&pages(1, 10, 3, 2, 0));
    ledger.settle(&Claim {
        counts_on: 3,
        ..pages(2, 10, 1, 0, 2)
    });
    assert_eq!(held(&ledger), [4, 5, 3]);
    ledger.settle(&pages(0, 10, 2, 0, 5));
    assert_eq!(held(&ledger), [2, 5, 3]);
}

#[test]
fn what_an_earlier_folder_spent_stays_and_what_it_held_goes_back() {
    let mut ledger = Ledger::default();
    ledger.settle(&pages(0, 10, 2, 0, 5));
    let reborn = Holder {
        instance: 0,
        birth: 7,
    };
    ledger.settle(&Claim {
        holder: reborn,
        epoch: 7,
        ..pages(0, 10, 0, 0, 100)
    });
    assert_eq!((ledger.held(of(0)), ledger.spent_elsewhere(reborn)), (2, 2));
    assert_eq!(
        ledger.held(reborn),
        2,
        "a quarter of the eight that are left"
    );
}

#[test]
fn what_was_spent_is_held_and_an_earlier_life_changes_nothing() {
    let mut ledger = Ledger::default();
    assert!(
        ledger.settle(&pages(0, 100, 40, 2, 0)),
        "the bucket was lost"
    );
    assert_eq!(ledger.held(of(0)), 42);
    assert!(!ledger.settle(&Claim {
        epoch: 4,
        ..pages(0, 100, 10, 0, 0)
    }));
    assert_eq!(ledger.held(of(0)), 42);
}

#[test]
fn jobs_are_taken_while_some_are_free_and_kept_until_they_are_called_for() {
    let mut ledger = Ledger::default();
    assert!(ledger.settle(&jobs(0, 1, 0, 2)) && ledger.settle(&jobs(1, 1, 0, 2)));
    assert_eq!(held(&ledger), [2, 1]);
    ledger.settle(&jobs(0, 2, 1, 1));
    assert_eq!(ledger.held(of(0)), 2, "nobody called for them");
    ledger.settle(&Claim {
        keeps: 0,
        ..jobs(0, 3, 1, 1)
    });
    ledger.settle(&jobs(1, 2, 1, 3));
    assert_eq!(held(&ledger), [1, 2], "a job is out");
    assert_eq!(Ledger::parse(&ledger.text()), Some(ledger.clone()));
    assert!(ledger.settle(&Claim {
        keeps: 0,
        ..jobs(0, 4, 0, 0)
    }));
    assert_eq!(ledger.others(of(1)).count(), 0);
    assert!(!ledger.settle(&Claim {
        keeps: 0,
        ..jobs(0, 5, 0, 0)
    }));
}

#[test]
fn jobs_that_moved_count_twice_until_their_earlier_owner_has_settled() {
    let mut ledger = Ledger::default();
    ledger.settle(&jobs(0, 1, 0, 3));
    // Two jobs move from 0, in its next life, to 1.
    let settling = |claim| Claim {
        may_change: false,
        ..claim
    };
    ledger.settle(&settling(Claim {
        epoch: 6,
        ..jobs(0, 1, 1, 3)
    }));
    assert_eq!(ledger.held(of(0)), 3);
    ledger.settle(&settling(jobs(1, 1, 2, 3)));
    assert_eq!(held(&ledger), [3, 2]);
    ledger.settle(&Claim {
        epoch: 6,
        ..jobs(0, 2, 1, 3)
    });
    assert_eq!(held(&ledger), [1, 2]);
    assert!(
        !ledger.settle(&jobs(0, 9, 0, 3)),
        "an earlier life changes nothing"
    );
}

/// Goal: a job that was given away is covered until its next owner has entered it, also when others
/// hold too much meanwhile. Method: two schedulers give away jobs, one after the other.
#[test]
fn who_has_not_settled_lowers_nothing_while_others_hold_too_much() {
    let mut ledger = Ledger::default();
    let of_four = |claim| Claim { max: 4, ..claim };
    ledger.settle(&of_four(jobs(0, 1, 2, 2)));
    ledger.settle(&of_four(jobs(3, 1, 2, 2)));
    // A job of 3 moves to 1, which enters it; the other one ends.
    ledger.settle(&of_four(Claim {
        may_change: false,
        ..jobs(1, 1, 1, 1)
    }));
    // A job of 0 moves to 2, which does not enter it yet.
    ledger.settle(&of_four(Claim {
        epoch: 6,
        may_change: false,
        ..jobs(0, 1, 1, 1)
    }));
    // 3 has settled, and wants more.
    ledger.settle(&of_four(jobs(3, 2, 0, 4)));
    assert_eq!(held(&ledger), [2, 1, 0, 1], "two jobs here, one there");
}

#[test]
fn a_holding_that_is_gone_leaves_its_tokens_to_others_and_one_that_changed_stays() {
    let mut ledger = Ledger::default();
    ledger.settle(&jobs(0, 1, 3, 3));
    let gone: Vec<_> = ledger.others(of(1)).collect();
    ledger.settle(&jobs(0, 2, 3, 3));
    ledger.settle(&Claim {
        gone,
        ..jobs(1, 1, 0, 1)
    });
    assert_eq!(held(&ledger), [3, 0]);
    let gone: Vec<_> = ledger.others(of(1)).collect();
    ledger.settle(&Claim {
        gone,
        ..jobs(1, 2, 0, 1)
    });
    assert_eq!(held(&ledger), [0, 1]);
}

#[test]
fn a_ledger_of_an_earlier_build_is_read_and_a_damaged_one_is_none() {
    let earlier = Ledger::parse("0 1 9 90 60 4\n3 2 9 30 30 4\n").expect("a ledger");
    assert_eq!(
        (
            earlier.held(of(0)),
            earlier.spent_elsewhere(of(0)),
            earlier.silent(0, &[3], 4).count()
        ),
        (90, 30, 0)
    );
    let circle = Ledger::parse("0 9 2 7\n").expect("a ledger");
    assert_eq!(
        circle.held(Holder {
            instance: 0,
            birth: 0
        }),
        2
    );
    for damaged in [
        "0 1 2 3 4",
        "x 1 1 2 3 4",
        "70000 1 1 2 3 4",
        "0 1 -1 2 3 4",
        "0 -1 2 3",
        "[",
        "[[1,2]]",
        r#"[[{"instance":0,"birth":1},{"epoch":1}]]"#,
        r#"[[{"instance":0,"birth":1},{"epoch":1,"held":-1}]]"#,
    ] {
        assert_eq!(Ledger::parse(damaged), None, "{damaged}");
    }
}

proptest! {
    /// Goal: as many pages are fetched as the quota has, or as there are URLs; never more. Method:
    /// schedulers with a random number of URLs each claim when they have no page left, and are
    /// called upon when another has none.
    #[test]
    fn a_quota_is_used_up_exactly(
        urls in proptest::collection::vec(0u64..300, 1..5),
        max in 1u64..500,
        turns in proptest::collection::vec(any::<u16>(), 200),
    ) {
        let schedulers = urls.len() as u16;
        let mut ledger = Ledger::default();
        let mut fetched = vec![0; urls.len()];
        let mut turns = turns.into_iter().cycle();
        let mut rounds = 0;
        while fetched.iter().sum::<u64>() < max.min(urls.iter().sum()) {
            rounds += 1;
            prop_assert!(rounds < 10_000, "nobody gets on");
            let who = turns.next().unwrap_or_default() % schedulers;
            let enter = |ledger: &mut Ledger, who: u16, fetched: &[u64]| {
                let place = usize::from(who);
                let waiting = urls[place] - fetched[place];
                ledger.settle(&Claim {
                    takes: Takes::Blocks { schedulers },
                    ..pages(who, max, fetched[place], 0, waiting)
                });
            };
            let place = usize::from(who);
            if fetched[place] == urls[place] {
                continue;
            }
            if ledger.held(of(who)) == fetched[place] {
                enter(&mut ledger, who, &fetched);
                for other in ledger.holders_elsewhere(of(who)).collect::<Vec<_>>() {
                    enter(&mut ledger, other, &fetched);
                }
            }
            if ledger.held(of(who)) > fetched[place] {
                fetched[place] += 1;
            }
            let held: u64 = (0..schedulers).map(|who| ledger.held(of(who))).sum();
            prop_assert!(held <= max, "{held} tokens of {max}");
        }
    }

    /// Goal: who claims within what it holds never makes all hold more than there is. Method:
    /// schedulers with random jobs and wants claim in random order; jobs are granted within what
    /// they hold alone.
    #[test]
    fn no_more_tokens_are_given_out_than_there_are(
        claims in proptest::collection::vec((0u16..4, any::<u64>(), 0u64..5, 0u64..5, any::<bool>()), 0..60),
        max in 1u64..5,
    ) {
        let mut ledger = Ledger::default();
        for (number, (instance, in_use, wanted, keeps, may_change)) in claims.into_iter().enumerate() {
            let before = ledger.held(of(instance));
            let in_use = in_use % (before + 1);
            ledger.settle(&Claim { max, keeps, may_change, ..jobs(instance, number as u64, in_use, wanted) });
            prop_assert!(ledger.0.values().map(|holding| holding.held).sum::<u64>() <= max);
            prop_assert!(ledger.held(of(instance)) >= in_use);
            prop_assert!(may_change || ledger.held(of(instance)) >= before);
        }
    }
}

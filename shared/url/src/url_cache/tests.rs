use super::*;
use proptest::prelude::*;
use std::collections::{HashSet, VecDeque};

fn all(entries: usize) -> Vec<(&'static str, UrlCache)> {
    vec![
        (
            "clock",
            UrlCache::replacing(entries, Box::new(Clock::new(entries))),
        ),
        (
            "lru",
            UrlCache::replacing(entries, Box::new(Lru::new(entries))),
        ),
        (
            "random",
            UrlCache::replacing(entries, Box::new(Random::new(entries))),
        ),
    ]
}

#[test]
fn an_empty_cache_has_nothing_not_even_zero() {
    for (name, mut cache) in all(4) {
        assert!(
            (0..100).all(|fingerprint| !cache.contains(fingerprint)),
            "{name}"
        );
    }
    assert!((0..100).all(|fingerprint| !UrlCache::fixed(&[]).contains(fingerprint)));
}

#[test]
fn a_fixed_cache_takes_in_what_it_was_made_for_and_no_more() {
    let mut cache = UrlCache::fixed(&[3, 1, 3, 0]);
    let held = |cache: &mut UrlCache| (0..10).filter(|&n| cache.contains(n)).collect::<Vec<_>>();
    assert_eq!(
        held(&mut cache),
        [0u64; 0],
        "what was not handed on in this crawl may not be dropped"
    );
    for fingerprint in [7, 3, 0] {
        cache.insert(fingerprint);
    }
    assert_eq!((held(&mut cache), cache.len()), (vec![0, 3], 2));
}

#[test]
fn clock_gives_an_entry_that_was_used_a_second_chance() {
    let mut cache = UrlCache::replacing(3, Box::new(Clock::new(3)));
    for fingerprint in [1, 2, 3] {
        cache.insert(fingerprint);
    }
    assert!(cache.contains(1));
    // The hand clears the mark of 1 and stops at 2, which was never used.
    cache.insert(4);
    assert!(!cache.contains(2) && cache.contains(3));
    // 3 was used just now, 1 not since the hand passed it.
    cache.insert(5);
    assert!(cache.contains(3) && cache.contains(4) && cache.contains(5) && !cache.contains(1));
}

proptest! {
    /// LRU against a list that is moved about.
    #[test]
    fn lru_drops_what_was_used_longest_ago(entries in 1usize..9, asked in proptest::collection::vec(0u64..24, 0..300)) {
        let mut cache = UrlCache::replacing(entries, Box::new(Lru::new(entries)));
        let mut model = VecDeque::new();
        for fingerprint in asked {
            let known = model.iter().position(|&other| other == fingerprint);
            prop_assert_eq!(cache.contains(fingerprint), known.is_some());
            if let Some(place) = known {
                model.remove(place);
            } else {
                cache.insert(fingerprint);
                if model.len() == entries {
                    model.pop_front();
                }
            }
            model.push_back(fingerprint);
        }
        for fingerprint in 0..24 {
            prop_assert_eq!(cache.contains(fingerprint), model.contains(&fingerprint));
        }
    }

    /// Every policy: a hit was inserted, what was inserted last is there, and no more than its
    /// entries are held.
    #[test]
    fn a_hit_is_certain_and_memory_is_bounded(
        entries in 1usize..40,
        spread in prop_oneof![Just(1u64), Just(1 << 40), Just(0x9e37_79b9_7f4a_7c15)],
        inserted in proptest::collection::vec(0u64..200, 0..400),
    ) {
        for (name, mut cache) in all(entries) {
            let mut model = HashSet::new();
            for &number in &inserted {
                let fingerprint = number.wrapping_mul(spread);
                cache.insert(fingerprint);
                model.insert(fingerprint);
                prop_assert!(cache.contains(fingerprint), "{}", name);
                prop_assert!(cache.len() <= entries, "{}", name);
            }
            let held = (0..200u64).filter(|number| cache.contains(number.wrapping_mul(spread))).collect::<Vec<_>>();
            prop_assert_eq!(held.len(), model.len().min(entries), "{}", name);
            prop_assert!(held.iter().all(|number| model.contains(&number.wrapping_mul(spread))), "{}", name);
        }
    }
}

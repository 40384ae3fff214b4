//! Partitions that are split within a store, with deaths before any change to a file.

use super::moves::{Instance, keys_of, kinds, lives};
use super::*;

const HALVES: [u16; 2] = [8, 9];

/// The split of partition 3 in the middle of these keys.
fn split(keys: &[Key]) -> Split {
    let middle = keys[keys.len() / 2].0;
    Split {
        partition: 3,
        halves: [(HALVES[0], 0..=middle), (HALVES[1], middle + 1..=u64::MAX)],
    }
}

/// Goal: a partition is split with the commit of it or not at all, and nothing is forgotten or
/// known besides. Method: the process dies before each change to a file in turn; some of what is
/// known is in runs, some in the log, some in neither.
#[test]
fn whenever_the_process_dies_a_partition_is_split_or_whole() {
    let urls = urls(900);
    let (known, more) = urls.split_at(600);
    let all = keys_of(known, 3);
    let split = split(&all);
    let end = *split.halves[0].1.end();
    let halves = [false, true].map(|is_upper| {
        all.iter()
            .copied()
            .filter(|key| (key.0 > end) == is_upper)
            .collect()
    });
    let [lower, upper]: [Vec<Key>; 2] = halves;
    assert!(!lower.is_empty() && !upper.is_empty());
    let of_half = |url: &Url| {
        (
            if url.1 <= end { HALVES[0] } else { HALVES[1] },
            url.1,
            url.2,
        )
    };
    for settings in kinds() {
        let mut before = Instance::new(settings, &PARTITIONS);
        before.learn(known);
        let mut changes = 0;
        loop {
            let mut instance = before.copied();
            let lived = lives(changes, || instance.halve(&split));
            instance.open();
            let keys = HALVES.map(|half| instance.keys(half));
            let is_split = keys == [lower.clone(), upper.clone()] && instance.keys(3).is_empty();
            let is_whole = keys == [vec![], vec![]] && instance.keys(3) == all;
            assert!(is_split || !lived && is_whole);
            if !is_split {
                instance.halve(&split);
            }
            instance.partitions.extend(HALVES);
            for _ in 0..2 {
                instance.check_files();
                assert_eq!(
                    HALVES.map(|half| instance.keys(half)),
                    [lower.clone(), upper.clone()]
                );
                assert!(
                    [0, 7]
                        .into_iter()
                        .all(|partition| instance.keys(partition) == keys_of(known, partition))
                );
                instance.open();
            }
            let of_three = |urls: &[Url]| {
                urls.iter()
                    .filter(|url| url.0 == 3)
                    .map(of_half)
                    .collect::<Vec<_>>()
            };
            assert!(
                !are_new(instance.store(), &of_three(known)).contains(&true),
                "nothing is new again"
            );
            assert!(
                !are_new(instance.store(), &of_three(more)).contains(&false),
                "nothing else is known"
            );
            if lived {
                break;
            }
            changes += 1;
        }
        assert!(changes > 2);
    }
}

#[test]
fn what_is_neither_merged_nor_logged_yet_is_split_too_and_an_unknown_partition_is_not() {
    for settings in kinds() {
        let mut instance = Instance::new(settings, &PARTITIONS);
        let urls = urls(600);
        instance.learn(&urls[..500]);
        are_new(instance.store(), &urls[500..]);
        let all = keys_of(&urls, 3);
        let split = split(&all);
        instance.halve(&split);
        assert_eq!(HALVES.map(|half| instance.keys(half)).concat(), all);
        instance.open();
        assert_eq!(HALVES.map(|half| instance.keys(half)).concat(), all);
        instance.halve(&Split {
            partition: 5,
            ..split
        });
        assert_eq!(HALVES.map(|half| instance.keys(half)).concat(), all);
    }
}

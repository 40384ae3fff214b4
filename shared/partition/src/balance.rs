//! Balance: which partitions have to move so that the wanted instances share them out, by number
//! and by weight.
//!
//! In: the table; what each owner says of how many URLs its partitions know. Out: what is to move.
//! All who look at the same table come to the same.
//!
//! Invariants: those of the [planner](super::planner). A weight stands in the table and is written
//! anew only when it has changed by a quarter, so plans are stable, and partitions that are nearly
//! empty weigh the same.

use super::owners::{OwnerOf, Owners, Whereabouts};
use super::planner::{Held, plan};

/// What any partition costs its owner, as a number of URLs.
const URLS_OF_AN_EMPTY_ONE: u64 = 1000;
/// A weight that has changed by this factor is written into the table.
const CHANGED: f64 = 1.25;

/// What a partition weighs that knows so many URLs.
pub(super) fn weight(urls: u64) -> f64 {
    (URLS_OF_AN_EMPTY_ONE + urls) as f64
}

impl Owners {
    /// An owner says how many URLs its partitions know. False, and nothing changes, when none of
    /// them has become much heavier or lighter.
    #[must_use]
    pub fn weigh(&mut self, by: u16, urls: &[(u16, u64)]) -> bool {
        let mut owned = self.clone();
        let mut has_changed = false;
        for &(partition, urls) in urls {
            let of = owned.partitions.get_mut(usize::from(partition));
            if let Some(of) = of.filter(|of| of.owner == by && of.retired.is_none()) {
                let before = weight(of.urls);
                let now = weight(urls);
                has_changed |= now > before * CHANGED || before > now * CHANGED;
                of.urls = urls;
            }
        }
        if has_changed {
            *self = owned;
        }
        has_changed
    }

    /// How many partitions are on their way, or have to move so that the wanted instances have all.
    pub fn to_move(&self) -> usize {
        let to = |of: &OwnerOf| match of.is {
            Whereabouts::Owned => of.owner,
            Whereabouts::LeavingTo(to) | Whereabouts::GivenTo(to) => to,
        };
        let arrived = self.partitions.iter().map(|of| OwnerOf {
            owner: to(of),
            is: Whereabouts::Owned,
            ..*of
        });
        self.moving()
            + Owners {
                partitions: arrived.collect(),
                ..self.clone()
            }
            .moves()
            .len()
    }

    /// Returns whether the wanted instances have all partitions, each as many as another or one
    /// more, and none too heavy a share.
    pub fn are_even(&self) -> bool {
        self.moving() == 0 && self.moves().is_empty()
    }

    /// Has partitions leave that the wanted instances are to have, in as few moves as possible:
    /// from instances that live to such that live. Nothing, while others are on their way. Returns
    /// how many leave.
    pub fn plan(&mut self, lives: impl Fn(u16) -> bool) -> usize {
        if self.moving() > 0 {
            return 0;
        }
        let moves: Vec<(u16, u16, u16)> = self
            .moves()
            .into_iter()
            .filter(|(_, from, to)| lives(*from) && lives(*to))
            .collect();
        for &(partition, _, to) in &moves {
            self.partitions[usize::from(partition)].is = Whereabouts::LeavingTo(to);
        }
        moves.len()
    }

    /// Partition, owner and receiver of what is to move.
    fn moves(&self) -> Vec<(u16, u16, u16)> {
        let live = self.all().filter(|(_, of)| of.retired.is_none());
        let held: Vec<Held> = live
            .map(|(partition, of)| Held {
                partition,
                weight: weight(of.urls),
                moved: of.version,
                owner: Some(of.owner),
            })
            .collect();
        let wanted: Vec<u16> = self.receivers().into_iter().collect();
        let moves = plan(&held, &wanted).into_iter();
        let moves = moves.map(|to| {
            (
                to.partition,
                self.partitions[usize::from(to.partition)].owner,
                to.to,
            )
        });
        // A partition that was split weighs nothing: it moves when its owner goes.
        let left = self
            .all()
            .filter(|(_, of)| of.retired.is_some() && !wanted.contains(&of.owner));
        let receiver = |partition: u16| {
            wanted
                .get(usize::from(partition) % wanted.len().max(1))
                .copied()
        };
        moves
            .chain(
                left.filter_map(|(partition, of)| {
                    Some((partition, of.owner, receiver(partition)?))
                }),
            )
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Has all that is to move arrive; returns how much that was.
    fn settle(owners: &mut Owners) -> usize {
        let moves = owners.plan(|_| true);
        for (partition, from, to) in (0..9)
            .flat_map(|from| {
                owners
                    .leaving(from)
                    .into_iter()
                    .map(move |(of, to)| (of, from, to))
            })
            .collect::<Vec<_>>()
        {
            let version = owners.version(partition);
            assert!(owners.copied(partition, version, 7, to) && owners.give(partition, 7, from));
            assert!(owners.take(partition, version, to));
        }
        moves
    }

    fn urls_of(owners: &Owners, instance: u16) -> u64 {
        owners
            .all()
            .filter(|(_, of)| of.owner == instance)
            .map(|(_, of)| of.urls)
            .sum()
    }

    #[test]
    fn small_differences_move_nothing_and_large_ones_are_evened_out_once() {
        let mut owners = Owners::new(8, 2);
        let of_first = owners.used_by(0);
        let small: Vec<(u16, u64)> = of_first.iter().map(|&partition| (partition, 200)).collect();
        assert!(
            !owners.weigh(0, &small)
                && !owners.weigh(1, &[(of_first[0], 1 << 40)])
                && owners.are_even()
        );
        let large: Vec<(u16, u64)> = of_first
            .iter()
            .map(|&partition| (partition, 1_000_000))
            .collect();
        assert!(owners.weigh(0, &large) && !owners.weigh(0, &large) && !owners.are_even());
        assert_eq!(
            (settle(&mut owners), owners.are_even()),
            (2, true),
            "one changes places with another"
        );
        assert_eq!(
            urls_of(&owners, 1),
            1_000_000,
            "weights move with partitions"
        );
        let grown = |of: u16| owners.partitions[usize::from(of)].urls.max(1500);
        let later: Vec<(u16, u64)> = owners
            .used_by(0)
            .into_iter()
            .map(|of| (of, grown(of)))
            .collect();
        assert!(owners.weigh(0, &later), "the light one has doubled");
        assert_eq!(
            (settle(&mut owners), owners.are_even()),
            (0, true),
            "still within the heaviest of a share"
        );
    }

    #[test]
    fn what_an_operator_moved_does_not_come_back_however_heavy_it_is() {
        let mut owners = Owners::new(8, 2);
        for instance in [0, 1] {
            let urls: Vec<(u16, u64)> = owners
                .used_by(instance)
                .into_iter()
                .map(|partition| (partition, 100_000 + u64::from(partition) * 9_000))
                .collect();
            assert!(owners.weigh(instance, &urls));
        }
        assert!(owners.are_even());
        let moved = owners.used_by(0)[2];
        assert!(
            owners.send(moved, 1)
                && owners.copied(moved, 1, 7, 1)
                && owners.give(moved, 7, 0)
                && owners.take(moved, 1, 1)
        );
        assert_eq!(owners.plan(|_| true), 1);
        assert_ne!(owners.leaving(1)[0].0, moved);
    }

    proptest! {
        /// Goal: whatever the partitions weigh, one plan is enough: then all have their share by
        /// number and by weight, and nothing moves any more.
        #[test]
        fn one_plan_is_enough(urls in prop::collection::vec(0u64..5_000_000, 1..70), wanted in 1u16..5, later in 1u16..5) {
            let mut owners = Owners::new(urls.len() as u16, wanted);
            for instance in 0..wanted {
                let known: Vec<(u16, u64)> = owners.used_by(instance).into_iter().map(|of| (of, urls[usize::from(of)])).collect();
                _ = owners.weigh(instance, &known);
            }
            owners.wanted = later;
            settle(&mut owners);
            prop_assert!(owners.are_even());
            prop_assert_eq!((settle(&mut owners), owners.to_move()), (0, 0));
        }
    }
}

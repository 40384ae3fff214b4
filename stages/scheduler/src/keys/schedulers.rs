//! The schedulers that share budgets and circles, as one of them knows them.

use rhumb_partition::{Owners, Whereabouts};
use std::collections::BTreeMap;

/// The schedulers of a crawl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedulers {
    /// How many have partitions, or are about to have some.
    pub(crate) count: u16,
    /// Grows when a partition has another owner.
    pub(crate) since: u64,
    /// The partitions that this one uses.
    uses: Vec<u16>,
    /// Partitions have moved: jobs that are out may have moved with them.
    have_moved: bool,
    /// This one has given partitions away that were not taken yet.
    pub(crate) gives: bool,
    /// A partition of each: errands to that one reach it.
    reached_by: BTreeMap<u16, u16>,
}

impl Schedulers {
    /// The schedulers that have these partitions, as the one of this ordinal knows them.
    pub fn of(owners: &Owners, instance: u16) -> Self {
        let mut reached_by = BTreeMap::new();
        let mut several: Vec<u16> = owners.instances();
        for (partition, of) in owners.all() {
            reached_by.entry(of.owner).or_insert(partition);
            if let Whereabouts::LeavingTo(to) | Whereabouts::GivenTo(to) = of.is {
                several.push(to);
            }
        }
        several.sort_unstable();
        several.dedup();
        Schedulers {
            count: several.len().max(1) as u16,
            since: owners.partitions.iter().map(|of| of.version).sum(),
            uses: owners.used_by(instance),
            have_moved: owners.partitions.iter().any(|of| of.version > 1),
            gives: !owners.given_by(instance).is_empty(),
            reached_by,
        }
    }

    /// Returns whether this scheduler has the same partitions now as then.
    pub(crate) fn uses_as(&self, then: &Schedulers) -> bool {
        self.uses == then.uses
    }

    /// Returns whether jobs may have moved with partitions.
    pub(crate) fn moved(&self) -> bool {
        self.have_moved || self.gives
    }

    /// Those that have partitions.
    pub(crate) fn all(&self) -> Vec<u16> {
        self.reached_by.keys().copied().collect()
    }

    /// A partition of a scheduler; none of one that has none.
    pub(crate) fn partition_of(&self, instance: u16) -> Option<u16> {
        self.reached_by.get(&instance).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_grow_older_with_each_partition_that_has_another_owner() {
        let mut owners = Owners::new(4, 1);
        let of = |owners: &Owners| Schedulers::of(owners, 0);
        let begun = of(&owners);
        assert_eq!(
            (begun.count, begun.since, begun.gives, begun.moved()),
            (1, 4, false, false)
        );
        owners.wanted = 2;
        owners.plan(|_| true);
        assert_eq!(
            (of(&owners).count, of(&owners).since, of(&owners).gives),
            (2, 4, false)
        );
        assert!(
            of(&owners).uses_as(&begun),
            "what is to leave is still used"
        );
        let (partition, _) = owners.leaving(0)[0];
        assert!(owners.copied(partition, 1, 7, 1) && owners.give(partition, 7, 0));
        assert_eq!(
            (
                of(&owners).gives,
                of(&owners).partition_of(1),
                of(&owners).since
            ),
            (true, None, 4)
        );
        assert!(!of(&owners).uses_as(&begun));
        assert!(owners.take(partition, 1, 1));
        assert_eq!(
            (
                of(&owners).gives,
                of(&owners).partition_of(1),
                of(&owners).since
            ),
            (false, Some(partition), 5)
        );
        let (left, _) = owners.leaving(0)[0];
        assert!(owners.keep(left, 0));
        owners.wanted = 1;
        owners.plan(|_| true);
        assert!(
            owners.copied(partition, 2, 7, 0)
                && owners.give(partition, 7, 1)
                && owners.take(partition, 2, 0)
        );
        assert_eq!(
            (
                of(&owners).count,
                of(&owners).all(),
                of(&owners).since,
                of(&owners).moved()
            ),
            (1, vec![0], 7, true)
        );
    }
}

//! The schedulers that share budgets and circles, as one of them knows them.

use shared::partitions::{Owners, Whereabouts};
use std::collections::BTreeMap;

/// The schedulers of a crawl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedulers {
    /// How many have partitions, or are about to have some.
    pub(crate) count: u16,
    /// Partitions have moved: others may have spent tokens, and be gone.
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
            have_moved: owners.partitions.iter().any(|of| of.version > 1),
            gives: !owners.given_by(instance).is_empty(),
            reached_by,
        }
    }

    /// Says whether budgets have to be shared, or were.
    pub(crate) fn share(&self) -> bool {
        self.count > 1 || self.have_moved
    }

    /// Says whether jobs may have moved with partitions.
    pub(crate) fn moved(&self) -> bool {
        self.have_moved || self.gives
    }

    /// Those that must say what they fetched before others take tokens: since partitions have moved, all that have some.
    pub(crate) fn known(&self) -> Vec<u16> {
        if self.have_moved { self.reached_by.keys().copied().collect() } else { Vec::new() }
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
    fn who_is_alone_from_the_beginning_shares_nothing() {
        let mut owners = Owners::new(4, 1);
        let of = |owners: &Owners| Schedulers::of(owners, 0);
        assert_eq!((of(&owners).count, of(&owners).share(), of(&owners).gives), (1, false, false));
        owners.wanted = 2;
        owners.plan(|_| true);
        assert_eq!((of(&owners).count, of(&owners).share(), of(&owners).gives), (2, true, false));
        let (partition, _) = owners.leaving(0)[0];
        assert!(owners.copied(partition, 1, 7, 1) && owners.give(partition, 7, 0));
        assert_eq!((of(&owners).gives, of(&owners).partition_of(1)), (true, None));
        assert!(owners.take(partition, 1, 1));
        assert_eq!((of(&owners).gives, of(&owners).partition_of(1)), (false, Some(partition)));
        // Once it is alone again, the other's pages still count.
        let (left, _) = owners.leaving(0)[0];
        assert!(owners.keep(left, 0));
        owners.wanted = 1;
        owners.plan(|_| true);
        assert!(owners.copied(partition, 2, 7, 0) && owners.give(partition, 7, 1) && owners.take(partition, 2, 0));
        assert_eq!((of(&owners).count, of(&owners).share()), (1, true));
    }
}

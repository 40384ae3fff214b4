//! Restored: the table of owners of a crawl that begins with a checkpoint.
//!
//! ```text
//!  restored ─▶ given to its own owner ─ all parts are there ─▶ its copy is named ─ take ─▶ owned, one version later
//! ```
//!
//! In: the table as it was in the checkpoint, and how many instances there are to be. Out: a table
//! with the same partitions, shared out among those by their weights. Invariant: nobody uses a
//! partition before its owner has taken all of it, and nobody takes any before the parts of all are
//! there: they get their copy in one change of the table.

use super::balance::weight;
use super::owners::{OwnerOf, Owners, Whereabouts};
use super::planner::{Held, plan};
use std::collections::BTreeSet;

impl Owners {
    /// The table of a crawl that begins with these partitions: `wanted` instances are to take them
    /// out of a checkpoint.
    pub fn restored(&self, wanted: u16) -> Owners {
        let live = self.all().filter(|(_, of)| of.retired.is_none());
        let homeless: Vec<Held> = live
            .map(|(partition, of)| Held {
                partition,
                weight: weight(of.urls),
                moved: 0,
                owner: None,
            })
            .collect();
        // One that was split weighs nothing.
        let mut to: Vec<u16> = self
            .all()
            .map(|(partition, _)| partition % wanted.max(1))
            .collect();
        for planned in plan(&homeless, &(0..wanted).collect::<Vec<_>>()) {
            to[usize::from(planned.partition)] = planned.to;
        }
        let come = |(of, to): (&OwnerOf, u16)| {
            let is = Whereabouts::GivenTo(to);
            OwnerOf {
                is,
                urls: of.urls,
                retired: of.retired,
                ..OwnerOf::owned(to, 1)
            }
        };
        let partitions = self.partitions.iter().zip(to).map(come).collect();
        Owners {
            wanted,
            without: BTreeSet::new(),
            configured: wanted,
            is_stopped: false,
            traps_end: false,
            partitions,
        }
    }

    /// The partitions that are to come from a checkpoint, each with its version.
    pub fn to_restore(&self) -> Vec<(u16, u64)> {
        self.all()
            .filter(|(_, of)| of.is_restored())
            .map(|(partition, of)| (partition, of.version))
            .collect()
    }

    /// The parts of all partitions that are to come from a checkpoint are there, under this copy:
    /// they may be taken. Returns whether that is news.
    pub fn are_sent(&mut self, copy: u64) -> bool {
        let restored = self
            .partitions
            .iter_mut()
            .filter(|of| of.is_restored() && of.copy != copy);
        restored.map(|of| of.copy = copy).count() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_of_a_checkpoint_is_used_by_nobody_until_its_owner_has_taken_it() {
        let mut before = Owners::new(8, 3);
        let halves = before.split(2).unwrap();
        assert!(before.halve(2, before.partitions[2].owner, 70) && before.finish(2));
        let mut owners = before.restored(2);
        assert_eq!(
            (
                owners.wanted,
                owners.partitions.len(),
                owners.to_restore().len()
            ),
            (2, 10, 10)
        );
        assert_eq!(
            (owners.splits(), owners.needed()),
            (before.splits(), [0, 1].into())
        );
        assert_eq!(owners.partitions[2].retired, before.partitions[2].retired);
        for instance in 0..2 {
            assert_eq!(owners.used_by(instance), [0; 0]);
            assert_eq!(
                owners.given_by(instance),
                [(0, 0); 0],
                "it has nothing to keep"
            );
            assert_eq!(
                owners.given_to(instance).len(),
                owners.coming_to(instance).len()
            );
        }
        let partition = halves[0];
        let owner = owners.partitions[usize::from(halves[0])].owner;
        assert!(
            !owners.keep(partition, owner)
                && !owners.refuse(partition, 1, owner)
                && owners.plan(|_| true) == 0
        );
        assert_eq!(owners.copy(partition), None);
        assert!(owners.are_sent(7) && !owners.are_sent(7));
        assert_eq!(owners.copy(partition), Some(7));
        for partition in 0..10 {
            let owner = owners.partitions[usize::from(partition)].owner;
            assert!(owners.take(partition, 1, owner) && !owners.take(partition, 1, owner));
        }
        assert_eq!(
            (owners.to_restore(), owners.moving(), owners.are_even()),
            (vec![], 0, true)
        );
        assert!(!owners.are_sent(8));
    }
}

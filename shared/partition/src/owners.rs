//! Owners: which instance of a stage has which partition, and which partitions are on their way to
//! another.
//!
//! ```text
//!  owned ─ leave ─▶ leaving ─ copied ─▶ copied ─ give ─▶ given ─ take ─▶ owned by the other, one version later
//!    ▲                 └────────────────────┬───────────────┘
//!    └───────────── keep, refuse ───────────┘  one version later, too
//! ```
//!
//! How partitions split is in [`super::splits`], which of them have to move in [`super::balance`].
//! One that comes from a checkpoint is given to its own owner ([`super::restored`]).
//!
//! In: instances that are wanted, and that live; what the owners and the receivers of partitions
//! have done. Out: the next table. It lies in a key-value bucket of the broker; every change of it
//! is a compare-and-swap of the whole.
//!
//! The receiver says when it has a copy of what the partition was; the owner, who uses it until
//! then, gives the rest.
//!
//! Invariants: every partition has one owner at any time. Until it is taken the owner is the old
//! one, who alone may give it or keep it; afterwards it is the new one. A version is an owner's
//! alone: what was sent under one that is over counts no more.

use super::planner::{Held, plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Where a partition is between two owners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Whereabouts {
    /// With its owner.
    #[default]
    Owned,
    /// Its owner is to give it to this instance.
    LeavingTo(u16),
    /// Its owner has sent its state to this instance, and uses it no more.
    GivenTo(u16),
}

/// A partition of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerOf {
    /// The instance that has it.
    pub owner: u16,
    /// Grows with each owner, from 1. 0: a half of a partition whose owner has not split its rows
    /// yet.
    pub version: u64,
    /// Where it is.
    #[serde(default, skip_serializing_if = "is_owned")]
    pub is: Whereabouts,
    /// Which copy of it the receiver has; 0 when it has none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub copy: u64,
    /// URLs that it knew when its owner said so last; plans weigh it by them.
    #[serde(default, skip_serializing_if = "is_none")]
    pub urls: u64,
    /// What became of it when it was split. Its id is never used again, but its owner still takes
    /// what comes addressed to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired: Option<Retired>,
}

impl OwnerOf {
    /// A partition that an instance has, under a version.
    pub(super) const fn owned(owner: u16, version: u64) -> Self {
        OwnerOf {
            owner,
            version,
            is: Whereabouts::Owned,
            copy: 0,
            urls: 0,
            retired: None,
        }
    }

    /// Returns whether it is to come from a checkpoint.
    pub fn is_restored(&self) -> bool {
        self.is == Whereabouts::GivenTo(self.owner)
    }

    /// Returns whether it is on its way to an instance.
    pub fn comes_to(&self, instance: u16) -> bool {
        matches!(self.is, Whereabouts::LeavingTo(to) | Whereabouts::GivenTo(to) if to == instance)
    }
}

/// What became of a partition that was split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retired {
    /// Its halves, the lower one first.
    pub into: [u16; 2],
    /// The serial number of the last new URL that it was given, as its owner found when it split
    /// the rows.
    #[serde(default)]
    pub last_serial: u64,
    /// Messages that belong to it alone may still come, so neither it nor its halves move.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_late: bool,
}

fn is_owned(is: &Whereabouts) -> bool {
    *is == Whereabouts::Owned
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

fn is_no_instance(number: &u16) -> bool {
    *number == 0
}

/// The owners of a stage's partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owners {
    /// How many instances there are to be: those from 0 on.
    pub wanted: u16,
    /// Instances among them that are to have no partition: they are emptied, so that their machines
    /// can go.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub without: BTreeSet<u16>,
    /// How many the configuration wanted when `rhumb init` read it last; 0 when it never did.
    #[serde(default, skip_serializing_if = "is_no_instance")]
    pub configured: u16,
    /// Of the scheduler: the crawl was stopped by its conductor, and no job is granted until it
    /// goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
    /// Of the scheduler: nothing waits in the crawl but what is kept back in traps, and that ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub traps_end: bool,
    /// By partition, those that were split among them.
    pub partitions: Vec<OwnerOf>,
}

impl Owners {
    /// The owners at the beginning of a crawl: `wanted` instances share the partitions out evenly.
    pub fn new(partitions: u16, wanted: u16) -> Self {
        let homeless: Vec<Held> = (0..partitions)
            .map(|partition| Held {
                partition,
                weight: 1.0,
                moved: 0,
                owner: None,
            })
            .collect();
        let mut owners: Vec<OwnerOf> = homeless.iter().map(|_| OwnerOf::owned(0, 1)).collect();
        for to in plan(&homeless, &(0..wanted).collect::<Vec<_>>()) {
            owners[usize::from(to.partition)].owner = to.to;
        }
        Owners {
            wanted,
            without: BTreeSet::new(),
            configured: 0,
            is_stopped: false,
            traps_end: false,
            partitions: owners,
        }
    }

    /// The instances that are to have the partitions.
    pub fn receivers(&self) -> BTreeSet<u16> {
        (0..self.wanted)
            .filter(|instance| !self.without.contains(instance))
            .collect()
    }

    /// From now on these are to have the partitions: `wanted` instances but for some. Returns
    /// whether that is another wish.
    pub fn want(&mut self, wanted: u16, without: &BTreeSet<u16>) -> bool {
        let is_news = (self.wanted, &self.without) != (wanted, without);
        (self.wanted, self.without) = (wanted, without.clone());
        is_news
    }

    /// Takes in how many instances the configuration wants: another number than it wanted before is
    /// wished. What was wished meanwhile stays otherwise. Returns whether anything has changed.
    pub fn configure(&mut self, configured: u16) -> bool {
        if std::mem::replace(&mut self.configured, configured) == configured {
            return false;
        }
        self.want(configured, &BTreeSet::new());
        true
    }

    /// The partitions with their numbers.
    pub fn all(&self) -> impl Iterator<Item = (u16, &OwnerOf)> {
        (0..).zip(&self.partitions)
    }

    /// The owner of each partition.
    pub fn by_partition(&self) -> Vec<u16> {
        self.partitions.iter().map(|of| of.owner).collect()
    }

    /// The partitions that an instance may use: those it owns and has not given away.
    pub fn used_by(&self, instance: u16) -> Vec<u16> {
        let uses = |of: &OwnerOf| of.owner == instance && !matches!(of.is, Whereabouts::GivenTo(_));
        self.all()
            .filter(|(_, of)| uses(of))
            .map(|(partition, _)| partition)
            .collect()
    }

    /// The partitions that an instance is to give away, each with its receiver.
    pub fn leaving(&self, instance: u16) -> Vec<(u16, u16)> {
        let to = |of: &OwnerOf| match of.is {
            Whereabouts::LeavingTo(to) if of.owner == instance => Some(to),
            _ => None,
        };
        self.all()
            .filter_map(|(partition, of)| Some((partition, to(of)?)))
            .collect()
    }

    /// The partitions that an instance has given away and that were not taken yet, each with its
    /// receiver.
    pub fn given_by(&self, instance: u16) -> Vec<(u16, u16)> {
        let to = |of: &OwnerOf| match of.is {
            Whereabouts::GivenTo(to) if of.owner == instance && to != instance => Some(to),
            _ => None,
        };
        self.all()
            .filter_map(|(partition, of)| Some((partition, to(of)?)))
            .collect()
    }

    /// The partitions that an instance may take.
    pub fn given_to(&self, instance: u16) -> Vec<u16> {
        let given = |of: &OwnerOf| of.is == Whereabouts::GivenTo(instance);
        self.all()
            .filter(|(_, of)| given(of))
            .map(|(partition, _)| partition)
            .collect()
    }

    /// The partitions that are on their way to an instance, given or not, each with its version.
    pub fn coming_to(&self, instance: u16) -> Vec<(u16, u64)> {
        self.all()
            .filter(|(_, of)| of.comes_to(instance))
            .map(|(partition, of)| (partition, of.version))
            .collect()
    }

    /// The copy of a partition that its receiver has; none when it has none.
    pub fn copy(&self, partition: u16) -> Option<u64> {
        self.partitions
            .get(usize::from(partition))
            .map(|of| of.copy)
            .filter(|&copy| copy > 0)
    }

    /// The version of a partition; 0 when there is no such partition.
    pub fn version(&self, partition: u16) -> u64 {
        self.partitions
            .get(usize::from(partition))
            .map_or(0, |of| of.version)
    }

    /// How many partitions are on their way, or are being split.
    pub fn moving(&self) -> usize {
        self.partitions
            .iter()
            .filter(|of| of.is != Whereabouts::Owned)
            .count()
            + self.splitting()
    }

    /// Instances that have partitions, in order.
    pub fn instances(&self) -> Vec<u16> {
        let mut instances: Vec<u16> = self.partitions.iter().map(|of| of.owner).collect();
        instances.sort_unstable();
        instances.dedup();
        instances
    }

    /// The instances that must run: those that are to have partitions, and those that still have
    /// some or are to take some.
    pub fn needed(&self) -> BTreeSet<u16> {
        let mut needed = self.receivers();
        for of in &self.partitions {
            needed.insert(of.owner);
            if let Whereabouts::LeavingTo(to) | Whereabouts::GivenTo(to) = of.is {
                needed.insert(to);
            }
        }
        needed
    }

    /// Has a partition leave for another instance. False, and nothing changes, when it is there, or
    /// on its way already, or while a partition is being split.
    #[must_use]
    pub fn send(&mut self, partition: u16, to: u16) -> bool {
        if self.splitting() > 0 {
            return false;
        }
        let Some(of) = self.partitions.get_mut(usize::from(partition)) else {
            return false;
        };
        let leaves = of.is == Whereabouts::Owned && of.owner != to;
        if leaves {
            of.is = Whereabouts::LeavingTo(to);
        }
        leaves
    }

    /// The receiver has a copy of a partition, but for what changes meanwhile. False, and nothing
    /// changes, when it is not to have it under this version.
    #[must_use]
    pub fn copied(&mut self, partition: u16, version: u64, copy: u64, by: u16) -> bool {
        let Some(of) = self.partitions.get_mut(usize::from(partition)) else {
            return false;
        };
        let is_news =
            of.is == Whereabouts::LeavingTo(by) && of.version == version && of.copy != copy;
        if is_news {
            of.copy = copy;
        }
        is_news
    }

    /// An owner that begins anew has no part in the copies of its partitions that an earlier
    /// process of it sent: nothing is given by them any more. Returns whether there were any.
    pub fn forget_copies(&mut self, by: u16) -> bool {
        let leaves = |of: &&mut OwnerOf| {
            of.owner == by && matches!(of.is, Whereabouts::LeavingTo(_)) && of.copy > 0
        };
        self.partitions
            .iter_mut()
            .filter(leaves)
            .map(|of| of.copy = 0)
            .count()
            > 0
    }

    /// The owner has sent what changed since this copy, and uses the partition no more. False, and
    /// nothing changes, when it is not to leave, or the receiver has another copy.
    #[must_use]
    pub fn give(&mut self, partition: u16, copy: u64, by: u16) -> bool {
        let Some(of) = self.partitions.get_mut(usize::from(partition)) else {
            return false;
        };
        match of.is {
            Whereabouts::LeavingTo(to) if of.owner == by && of.copy == copy && copy > 0 => {
                of.is = Whereabouts::GivenTo(to);
                true
            }
            _ => false,
        }
    }

    /// The receiver has a partition's state, and owns the partition from now on. False, and nothing
    /// changes, when it was not given to it under this version.
    #[must_use]
    pub fn take(&mut self, partition: u16, version: u64, by: u16) -> bool {
        let Some(of) = self.partitions.get_mut(usize::from(partition)) else {
            return false;
        };
        let is_given = of.is == Whereabouts::GivenTo(by) && of.version == version;
        if is_given {
            *of = OwnerOf {
                retired: of.retired,
                urls: of.urls,
                ..OwnerOf::owned(by, version + 1)
            };
        }
        is_given
    }

    /// The receiver cannot take a partition: the owner keeps it. False, and nothing changes, when
    /// it is not to have it under this version.
    #[must_use]
    pub fn refuse(&mut self, partition: u16, version: u64, by: u16) -> bool {
        let Some(of) = self.partitions.get(usize::from(partition)) else {
            return false;
        };
        of.comes_to(by) && of.version == version && self.keep(partition, of.owner)
    }

    /// The owner keeps a partition that was not taken. False, and nothing changes, when it has no
    /// such partition, or it is to come from a checkpoint: the owner has nothing of it.
    #[must_use]
    pub fn keep(&mut self, partition: u16, by: u16) -> bool {
        let Some(of) = self.partitions.get_mut(usize::from(partition)) else {
            return false;
        };
        let is_leaving = of.owner == by && of.is != Whereabouts::Owned && !of.is_restored();
        if is_leaving {
            *of = OwnerOf {
                retired: of.retired,
                urls: of.urls,
                ..OwnerOf::owned(by, of.version + 1)
            };
        }
        is_leaving
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(owners: &Owners) -> Vec<usize> {
        owners
            .needed()
            .into_iter()
            .map(|instance| owners.used_by(instance).len())
            .collect()
    }

    /// Has all that is to move arrive.
    fn settle(owners: &mut Owners) {
        for instance in 0..6 {
            for (partition, to) in owners.leaving(instance) {
                let version = owners.version(partition);
                assert!(
                    owners.copy(partition).is_some() || owners.copied(partition, version, 7, to)
                );
                assert!(owners.give(partition, 7, instance));
            }
        }
        for instance in 0..6 {
            for partition in owners.given_to(instance) {
                assert!(owners.take(partition, owners.version(partition), instance));
            }
        }
    }

    #[test]
    fn an_instance_is_emptied_and_is_needed_until_it_has_given_all() {
        let mut owners = Owners::new(8, 2);
        let none = BTreeSet::new();
        assert!(owners.want(2, &[0].into()) && !owners.want(2, &[0].into()));
        assert_eq!(
            (owners.to_move(), owners.are_even(), owners.needed()),
            (4, false, [0, 1].into())
        );
        assert_eq!(owners.plan(|_| true), 4);
        settle(&mut owners);
        assert_eq!(
            (owners.used_by(1).len(), owners.are_even(), owners.needed()),
            (8, true, [1].into())
        );
        let text = serde_json::to_string(&owners).unwrap();
        assert_eq!(
            serde_json::from_str::<Owners>(&text).unwrap(),
            owners,
            "{text}"
        );
        assert!(owners.want(1, &none));
        assert_eq!((owners.to_move(), owners.needed()), (8, [0, 1].into()));
    }

    #[test]
    fn a_partition_has_one_owner_on_its_way() {
        let mut owners = Owners::new(4, 1);
        assert_eq!((counts(&owners), owners.are_even()), (vec![4], true));
        owners.wanted = 2;
        assert_eq!(
            owners.plan(|instance| instance == 0),
            0,
            "nothing goes to one that does not live"
        );
        assert_eq!((owners.plan(|_| true), owners.plan(|_| true)), (2, 0));
        let (partition, to) = owners.leaving(0)[0];
        assert_eq!(
            (to, owners.used_by(0).len(), owners.coming_to(1).len()),
            (1, 4, 2)
        );
        assert!(!owners.take(partition, 1, 1), "it was not given yet");
        assert!(!owners.give(partition, 7, 0), "the other has no copy");
        assert!(!owners.copied(partition, 2, 7, 1) && !owners.copied(partition, 1, 7, 2));
        assert!(owners.copied(partition, 1, 7, 1) && !owners.copied(partition, 1, 7, 1));
        assert!(
            !owners.give(partition, 7, 1),
            "it is not the other's to give"
        );
        assert!(!owners.give(partition, 8, 0), "the other has another copy");
        assert!(
            owners.forget_copies(0) && !owners.forget_copies(0) && !owners.give(partition, 7, 0)
        );
        assert!(owners.copied(partition, 1, 7, 1));
        assert!(
            owners.give(partition, 7, 0)
                && !owners.give(partition, 7, 0)
                && !owners.forget_copies(0)
        );
        assert_eq!(
            (owners.given_to(1), owners.given_by(0)),
            (vec![partition], vec![(partition, 1)])
        );
        assert_eq!((owners.used_by(0).len(), owners.used_by(1).len()), (3, 0));
        assert!(
            !owners.take(partition, 2, 1)
                && !owners.take(partition, 1, 2)
                && owners.take(partition, 1, 1)
        );
        assert_eq!(
            (owners.version(partition), owners.used_by(1)),
            (2, vec![partition])
        );
        assert!(!owners.keep(partition, 0));
        let (kept, _) = owners.leaving(0)[0];
        assert!(owners.copied(kept, 1, 7, 1) && owners.give(kept, 7, 0) && owners.keep(kept, 0));
        assert!(!owners.take(kept, 1, 1) && owners.copy(kept).is_none());
        assert_eq!((owners.moving(), owners.are_even()), (0, false));
        assert!(owners.send(kept, 1));
        let version = owners.version(kept);
        assert!(!owners.refuse(kept, version, 2) && !owners.refuse(kept, version + 1, 1));
        assert!(owners.refuse(kept, version, 1), "before it was given");
        assert!(owners.send(kept, 1));
        assert!(
            owners.copied(kept, version + 1, 8, 1)
                && owners.give(kept, 8, 0)
                && owners.refuse(kept, version + 1, 1)
        );
        assert!(!owners.take(kept, version + 1, 1));
        assert_eq!(
            (owners.version(kept), owners.used_by(0).contains(&kept)),
            (version + 2, true)
        );
    }

    #[test]
    fn what_an_operator_moved_does_not_come_back() {
        let mut owners = Owners::new(8, 2);
        let moved = owners.used_by(0)[0];
        assert!(owners.send(moved, 1) && owners.copied(moved, 1, 7, 1) && owners.give(moved, 7, 0));
        assert!(owners.take(moved, 1, 1));
        assert_eq!(
            (owners.plan(|_| true), owners.leaving(0).len()),
            (1, 0),
            "another one goes to the first"
        );
        assert_ne!(owners.leaving(1)[0].0, moved);
    }

    #[test]
    fn the_table_is_read_as_it_was_written() {
        let mut owners = Owners::new(3, 1);
        owners.wanted = 3;
        owners.plan(|_| true);
        let (partition, to) = owners.leaving(0)[0];
        assert!(owners.copied(partition, 1, 7, to) && owners.give(partition, 7, 0));
        let text = serde_json::to_string(&owners).unwrap();
        assert!(
            text.starts_with(r#"{"wanted":3,"partitions":[{"owner":0,"version":1"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Owners>(&text).unwrap(), owners);
    }

    proptest! {
        /// Goal: whatever owners and receivers do and in whatever order, a partition is used by one
        /// instance at most, its version grows with each owner, and in the end the wanted ones have
        /// all. Method: random steps, then all of them.
        #[test]
        fn nothing_is_used_twice_and_all_arrives(
            partitions in 1u16..40,
            steps in proptest::collection::vec((0u8..9, 0u16..40, 0u16..6), 0..200),
            wanted in 1u16..6,
            emptied in 0u16..6,
        ) {
            let mut owners = Owners::new(partitions, 2);
            for (step, partition, instance) in steps {
                let before = owners.clone();
                let done = match step {
                    0 => owners.give(partition, 7, instance),
                    4 => owners.copied(partition, owners.version(partition), 7, instance),
                    6 => owners.forget_copies(instance),
                    5 => owners.refuse(partition, owners.version(partition), instance),
                    1 => owners.take(partition, owners.version(partition), instance),
                    2 => owners.keep(partition, instance),
                    3 => owners.plan(|lives| lives != instance) > 0,
                    7 => owners.want(owners.wanted, &[instance].into()),
                    _ => {
                        owners.wanted = instance + 1;
                        true
                    }
                };
                if !done {
                    prop_assert_eq!(&before, &owners);
                }
                for ((partition, was), (_, is)) in before.all().zip(owners.all()) {
                    prop_assert!(was.owner == is.owner || is.version == was.version + 1, "{}", partition);
                }
                let used: usize = (0..6).map(|instance| owners.used_by(instance).len()).sum();
                let given = owners.partitions.iter().filter(|of| matches!(of.is, Whereabouts::GivenTo(_))).count();
                prop_assert_eq!(used + given, usize::from(partitions));
            }
            // Somebody is left.
            let without = if wanted == 1 { BTreeSet::new() } else { [emptied].into() };
            owners.want(wanted, &without);
            for _ in 0..3 {
                settle(&mut owners);
                owners.plan(|_| true);
            }
            prop_assert!(owners.are_even());
            let counts = counts(&owners);
            let receivers = owners.receivers();
            let most = usize::from(partitions).div_ceil(receivers.len());
            prop_assert!(counts.iter().all(|&count| count == most || count + 1 == most || count == 0), "{:?}", counts);
            prop_assert!(owners.instances().iter().all(|instance| receivers.contains(instance)));
        }
    }
}

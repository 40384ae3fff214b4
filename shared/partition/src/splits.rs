//! Splits: what the table of owners says of partitions that were split, and how two tables come to
//! say the same.
//!
//! ```text
//!  owned ─ split ─▶ retired, late ─ halve ─▶ its halves have version 1 ─ finish ─▶ retired
//! ```
//! One compare-and-swap splits a partition: from then on everybody addresses its halves. Its owner
//! halves its rows between two lives of its core, and keeps both halves and what still comes
//! addressed to the partition itself. Nothing moves until all that belongs to that partition alone
//! has come.
//!
//! The scheduler's table leads, dedup's follows when the halves have rows there: no URL is numbered
//! within a half that the scheduler does not know. So both tables give the same ids.
//!
//! Invariants: a half has the owner of its partition until that is halved and all of it has come;
//! two rows are added with each split and none is removed, so the rows tell the directory.

use super::directory::{Directory, NotSplit};
use super::owners::{OwnerOf, Owners, Retired, Whereabouts};
use rhumb_wire::topology::StageName;
use std::ops::RangeInclusive;

/// The stage whose table says first that a partition was split.
pub const LEADER: StageName = StageName::Scheduler;

/// A partition that was split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Its id.
    pub partition: u16,
    /// Its halves with their hashes, the lower one first.
    pub halves: [(u16, RangeInclusive<u64>); 2],
}

impl Split {
    /// The half that has a hash of the partition.
    pub fn half_of(&self, hash: u64) -> u16 {
        let [(lower, hashes), (upper, _)] = &self.halves;
        if hash <= *hashes.end() {
            *lower
        } else {
            *upper
        }
    }
}

impl Owners {
    /// Which partition each hash belongs to.
    pub fn directory(&self) -> Directory {
        self.replay(|_, _| {})
    }

    /// All splits, in their order.
    pub fn splits(&self) -> Vec<Split> {
        let mut splits = Vec::new();
        self.replay(|directory, partition| {
            let next = directory.ids();
            let halves =
                [next - 2, next - 1].map(|half| (half, directory.hashes_of(half).unwrap_or(0..=0)));
            splits.push(Split { partition, halves });
        });
        splits
    }

    /// The directory, split by split; `split` sees it after each, with the partition that was
    /// split.
    fn replay(&self, mut split: impl FnMut(&Directory, u16)) -> Directory {
        let mut retired: Vec<(u16, u16)> = self
            .all()
            .filter_map(|(partition, of)| Some((of.retired?.into[0], partition)))
            .collect();
        retired.sort_unstable();
        let mut directory = Directory::new((self.partitions.len() - 2 * retired.len()) as u16);
        for (_, partition) in retired {
            let halves = directory.split(partition);
            debug_assert!(halves.is_ok(), "the table tells of splits that are none");
            split(&directory, partition);
        }
        directory
    }

    /// Splits a partition: its halves, which have new ids, are its owner's.
    ///
    /// # Errors
    /// It cannot be split, or not now: why.
    pub fn split(&mut self, partition: u16) -> Result<[u16; 2], NotSplit> {
        let halves = self
            .directory()
            .split(partition)?
            .map(|half| half.partition);
        let of = &mut self.partitions[usize::from(partition)];
        if of.is != Whereabouts::Owned || of.version == 0 {
            return Err(NotSplit::OnItsWay);
        }
        of.retired = Some(Retired {
            into: halves,
            last_serial: 0,
            is_late: true,
        });
        let owner = of.owner;
        let urls = of.urls / 2;
        self.partitions.extend(
            [OwnerOf {
                urls,
                ..OwnerOf::owned(owner, 0)
            }; 2],
        );
        Ok(halves)
    }

    /// The splits that an instance has to halve the rows of.
    pub fn to_halve(&self, instance: u16) -> Vec<Split> {
        let is_due = |half: u16| {
            let of = &self.partitions[usize::from(half)];
            of.version == 0 && of.owner == instance
        };
        self.splits()
            .into_iter()
            .filter(|split| is_due(split.halves[0].0))
            .collect()
    }

    /// The owner has halved a partition's rows, whose last new URL had this number. False, and
    /// nothing changes, when it was not to.
    #[must_use]
    pub fn halve(&mut self, partition: u16, by: u16, last_serial: u64) -> bool {
        let Some(of) = self
            .partitions
            .get_mut(usize::from(partition))
            .filter(|of| of.owner == by)
        else {
            return false;
        };
        let Some(retired) = &mut of.retired else {
            return false;
        };
        let halves = retired.into.map(usize::from);
        if halves.iter().any(|&half| self.partitions[half].version > 0) {
            return false;
        }
        if let Some(retired) = &mut self.partitions[usize::from(partition)].retired {
            retired.last_serial = last_serial;
        }
        halves
            .into_iter()
            .for_each(|half| self.partitions[half].version = 1);
        true
    }

    /// The partitions of an instance that were split and halved, and may still get messages that
    /// belong to them alone.
    pub fn late(&self, instance: u16) -> Vec<u16> {
        let is_late = |retired: Retired| retired.is_late && self.version(retired.into[0]) > 0;
        let late = self
            .all()
            .filter(|(_, of)| of.owner == instance && of.retired.is_some_and(is_late));
        late.map(|(partition, _)| partition).collect()
    }

    /// All that belongs to a partition that was split has come. False, and nothing changes, when
    /// that is known, or when the partition is not halved yet: its halves would move away from the
    /// rows that they still lack.
    #[must_use]
    pub fn finish(&mut self, partition: u16) -> bool {
        let is_halved = |retired: Retired| self.version(retired.into[0]) > 0;
        let retired = self
            .partitions
            .get(usize::from(partition))
            .and_then(|of| of.retired);
        if !retired.is_some_and(|retired| retired.is_late && is_halved(retired)) {
            return false;
        }
        self.partitions[usize::from(partition)].retired = retired.map(|of| Retired {
            is_late: false,
            ..of
        });
        true
    }

    /// How many partitions are being split.
    pub fn splitting(&self) -> usize {
        self.partitions
            .iter()
            .filter(|of| of.retired.is_some_and(|retired| retired.is_late))
            .count()
    }

    /// Splits what the leading table has split and halved. Returns whether anything changed.
    pub fn follow(&mut self, leader: &Owners) -> bool {
        let mut has_followed = false;
        for Split { partition, halves } in leader.splits() {
            let next = usize::from(halves[0].0);
            if next < self.partitions.len() {
                continue;
            }
            let is_halved = leader.version(halves[0].0) > 0;
            if !is_halved || self.split(partition).is_err() {
                break;
            }
            has_followed = true;
        }
        has_followed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_partition_splits_stays_with_its_owner_and_is_never_there_again() {
        let mut owners = Owners::new(4, 2);
        let owner = owners.partitions[2].owner;
        assert_eq!(owners.split(2), Ok([4, 5]));
        assert_eq!(
            (owners.split(2), owners.split(9)),
            (Err(NotSplit::Unknown), Err(NotSplit::Unknown))
        );
        assert_eq!(
            owners.split(4),
            Err(NotSplit::OnItsWay),
            "its rows are not there yet"
        );
        assert!(
            [2, 4, 5]
                .iter()
                .all(|of| owners.used_by(owner).contains(of))
        );
        assert_eq!(
            (
                owners.directory().partition_of(0b10 << 62),
                owners.splitting(),
                owners.moving()
            ),
            (4, 1, 1)
        );
        assert!(
            !owners.send(0, 1) && owners.plan(|_| true) == 0 && !owners.are_even(),
            "nothing moves meanwhile"
        );
        let split = owners.to_halve(owner).remove(0);
        assert_eq!(
            (
                split.partition,
                split.half_of(0b101 << 61),
                split.half_of(0b10 << 62)
            ),
            (2, 5, 4)
        );
        assert!(
            owners.late(owner).is_empty()
                && owners.to_halve(1 - owner).is_empty()
                && !owners.finish(2)
        );
        assert!(
            !owners.halve(2, 1 - owner, 7)
                && owners.halve(2, owner, 7)
                && !owners.halve(2, owner, 8)
        );
        assert_eq!((owners.version(4), owners.late(owner)), (1, vec![2]));
        assert_eq!(
            owners.partitions[2].retired,
            Some(Retired {
                into: [4, 5],
                last_serial: 7,
                is_late: true
            })
        );
        assert!(owners.finish(2) && !owners.finish(2) && !owners.finish(0));
        owners.wanted = 1;
        owners.plan(|_| true);
        assert!(
            owners
                .all()
                .all(|(_, of)| of.owner == 0 || of.is == Whereabouts::LeavingTo(0)),
            "the retired one too"
        );
    }

    #[test]
    fn a_table_with_splits_is_read_as_it_was_written_and_an_earlier_one_too() {
        let mut owners = Owners::new(2, 1);
        owners.split(0).unwrap();
        assert!(owners.halve(0, 0, 3));
        let text = serde_json::to_string(&owners).unwrap();
        assert!(
            text.contains(r#""retired":{"into":[2,3],"last_serial":3,"is_late":true}"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Owners>(&text).unwrap(), owners);
        let earlier =
            r#"{"wanted":1,"partitions":[{"owner":0,"version":1},{"owner":0,"version":4}]}"#;
        let earlier: Owners = serde_json::from_str(earlier).unwrap();
        assert_eq!(
            (earlier.directory(), earlier.version(1)),
            (Directory::new(2), 4)
        );
    }

    #[test]
    fn the_other_table_follows_in_the_same_order_when_the_halves_have_rows() {
        let mut leader = Owners::new(4, 1);
        let mut other = Owners::new(4, 2);
        leader.split(1).unwrap();
        leader.split(3).unwrap();
        assert!(
            leader.halve(3, 0, 0) && !other.follow(&leader),
            "the first is not halved yet"
        );
        assert!(leader.halve(1, 0, 0) && other.follow(&leader) && !other.follow(&leader));
        assert_eq!(other.directory(), leader.directory());
        // One that is on its way is waited for.
        leader.split(0).unwrap();
        assert!(leader.halve(0, 0, 0));
        other.partitions[0].is = Whereabouts::LeavingTo(1);
        assert!(!other.follow(&leader));
    }

    proptest! {
        /// Goal: whatever is split, moved and taken, and in whatever order, each hash has one
        /// partition, each partition one user at most, no id comes twice, a half has its
        /// partition's owner until it may leave, and both tables agree in the end.
        #[test]
        fn every_hash_has_one_user(
            bits in 0_u32..5, steps in prop::collection::vec((0_u8..8, 0_u16..60, 0_u16..4), 0..200),
        ) {
            let mut owners = Owners::new(1 << bits, 2);
            let mut other = Owners::new(1 << bits, 1);
            for (step, partition, instance) in steps {
                let before = owners.clone();
                match step {
                    0 => {
                        let version = owners.version(partition);
                        for to in 0..4 {
                            _ = owners.copied(partition, version, 7, to) && owners.give(partition, 7, instance);
                        }
                    }
                    1 => _ = owners.take(partition, owners.version(partition), instance),
                    2 => _ = owners.keep(partition, instance),
                    3 => _ = owners.plan(|lives| lives != instance),
                    4 => owners.wanted = instance + 1,
                    5 => _ = owners.split(partition),
                    6 => _ = owners.halve(partition, instance, 0),
                    _ => _ = owners.finish(partition),
                }
                other.follow(&owners);
                for Split { halves, partition } in other.splits() {
                    _ = other.halve(partition, 0, 0);
                    prop_assert!(owners.version(halves[0].0) > 0, "the other follows");
                }
                prop_assert!(before.partitions.len() <= owners.partitions.len());
                let splits = owners.splits();
                prop_assert_eq!(owners.directory().ids() as usize, owners.partitions.len());
                for Split { partition, halves } in splits {
                    let of = owners.partitions[usize::from(partition)];
                    let retired = of.retired.unwrap();
                    prop_assert_eq!(retired.into, halves.clone().map(|half| half.0));
                    for half in retired.into.map(usize::from).into_iter().filter(|_| retired.is_late) {
                        prop_assert_eq!(owners.partitions[half].owner, of.owner);
                    }
                }
                let used: usize = (0..5).map(|instance| owners.used_by(instance).len()).sum();
                let given = owners.partitions.iter().filter(|of| matches!(of.is, Whereabouts::GivenTo(_))).count();
                prop_assert_eq!(used + given, owners.partitions.len());
            }
            for partition in 0..owners.partitions.len() as u16 {
                let owner = owners.partitions[usize::from(partition)].owner;
                _ = owners.halve(partition, owner, 0);
            }
            // A half is split in the other table when it is halved there.
            while other.follow(&owners) {
                other.splits().into_iter().for_each(|split| _ = other.halve(split.partition, 0, 0));
            }
            prop_assert_eq!(other.directory(), owners.directory());
        }
    }
}

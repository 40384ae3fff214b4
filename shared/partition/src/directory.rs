//! The directory of partitions: extendible hashing by the upper bits of a hash.
//!
//! Invariant: the partitions cover all hashes, each hash once; an id is never used again after its
//! partition was split.
//!
//! Source: Fagin, Nievergelt, Pippenger and Strong 1979, with the upper bits in the place of the
//! lower ones, so that a partition is one range of hashes. Instead of 2^(global depth) pointers it
//! keeps one entry for each partition.

use rhumb_url::hashes_of;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A partition in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its id.
    pub partition: u16,
    /// Its local depth: how many upper bits its hashes have in common.
    pub depth: u32,
}

/// Why a partition is not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSplit {
    /// No partition has the id: there never was one, or it was split.
    #[error("there is no such partition: its id was never given, or it was split")]
    Unknown,
    /// It has one hash alone.
    #[error("the partition holds one host alone")]
    OneHash,
    /// No two ids are left.
    #[error("no two ids of partitions are left")]
    NoIds,
    /// It is on its way to another owner, or its owner has not split its parent's rows yet.
    #[error("the partition is on its way; try again when it has arrived")]
    OnItsWay,
}

/// An id that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Given {
    hashes: RangeInclusive<u64>,
    depth: u32,
    is_split: bool,
}

/// Which partition each hash belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The partitions by their first hash.
    by_first: BTreeMap<u64, u16>,
    /// By id, those that were split among them.
    given: Vec<Given>,
}

impl Directory {
    /// The directory of a crawl that begins, with its partitions; 0 counts as 1. Their number is a
    /// power of two; another one divides the hashes evenly, too.
    pub fn new(n_partitions: u16) -> Self {
        let n_partitions = n_partitions.max(1);
        let depth = n_partitions.ilog2();
        let new = |partition| Given {
            hashes: hashes_of(partition, n_partitions),
            depth,
            is_split: false,
        };
        let given: Vec<Given> = (0..n_partitions).map(new).collect();
        let by_first = (0..)
            .zip(&given)
            .map(|(partition, of)| (*of.hashes.start(), partition))
            .collect();
        Directory { by_first, given }
    }

    /// The partition of a hash.
    pub fn partition_of(&self, hash: u64) -> u16 {
        self.by_first
            .range(..=hash)
            .next_back()
            .map_or(0, |(_, partition)| *partition)
    }

    /// The hashes of a partition; none when it was split, or never given.
    pub fn hashes_of(&self, partition: u16) -> Option<RangeInclusive<u64>> {
        let given = self
            .given
            .get(usize::from(partition))
            .filter(|given| !given.is_split);
        given.map(|given| given.hashes.clone())
    }

    /// Returns whether a hash is, or was before a split, in a partition.
    pub fn covers(&self, partition: u16, hash: u64) -> bool {
        self.given
            .get(usize::from(partition))
            .is_some_and(|given| given.hashes.contains(&hash))
    }

    /// The local depth of a partition, also of one that was split; none when it was never given.
    pub fn depth_of(&self, partition: u16) -> Option<u32> {
        self.given
            .get(usize::from(partition))
            .map(|given| given.depth)
    }

    /// How many ids were given.
    pub fn ids(&self) -> u16 {
        // There are never more: `split` refuses.
        self.given.len() as u16
    }

    /// Splits a partition by the next bit. Returns its halves, the lower one first; both have new
    /// ids.
    ///
    /// # Errors
    /// It cannot be split: why.
    pub fn split(&mut self, partition: u16) -> Result<[Slice; 2], NotSplit> {
        let hashes = self.hashes_of(partition).ok_or(NotSplit::Unknown)?;
        let (first, last) = hashes.into_inner();
        if first == last {
            return Err(NotSplit::OneHash);
        }
        let next = u16::try_from(self.given.len()).map_err(|_| NotSplit::NoIds)?;
        if next > u16::MAX - 2 {
            return Err(NotSplit::NoIds);
        }
        let parent = &mut self.given[usize::from(partition)];
        parent.is_split = true;
        let depth = parent.depth + 1;
        let middle = first + (last - first) / 2;
        let halves = [first..=middle, middle + 1..=last];
        for (id, hashes) in (next..).zip(halves) {
            self.by_first.insert(*hashes.start(), id);
            self.given.push(Given {
                hashes,
                depth,
                is_split: false,
            });
        }
        Ok([next, next + 1].map(|partition| Slice { partition, depth }))
    }

    /// The partitions with their hashes, in the order of these.
    pub fn slices(&self) -> impl Iterator<Item = (Slice, RangeInclusive<u64>)> {
        self.by_first.values().map(|&partition| {
            let Given { hashes, depth, .. } = &self.given[usize::from(partition)];
            (
                Slice {
                    partition,
                    depth: *depth,
                },
                hashes.clone(),
            )
        })
    }

    /// The largest local depth.
    pub fn global_depth(&self) -> u32 {
        self.slices()
            .map(|(slice, _)| slice.depth)
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rhumb_url::partition_of;
    use rhumb_wire::lane_of_hash;

    fn check(directory: &Directory) {
        let mut next = Some(0);
        for (slice, range) in directory.slices() {
            assert_eq!(Some(*range.start()), next);
            assert_eq!(directory.hashes_of(slice.partition).as_ref(), Some(&range));
            next = range.end().checked_add(1);
        }
        assert_eq!(next, None, "the last partition ends with the last hash");
    }

    #[test]
    fn a_partition_splits_into_halves_with_new_ids_and_its_own_is_gone() {
        let mut directory = Directory::new(4);
        assert_eq!(
            (directory.partition_of(0), directory.partition_of(u64::MAX)),
            (0, 3)
        );
        let halves = directory.split(3).unwrap();
        assert_eq!(
            halves.map(|half| (half.partition, half.depth)),
            [(4, 3), (5, 3)]
        );
        assert_eq!(
            (
                directory.partition_of(0b110 << 61),
                directory.partition_of(u64::MAX)
            ),
            (4, 5)
        );
        assert_eq!(
            (directory.split(3), directory.split(9)),
            (Err(NotSplit::Unknown), Err(NotSplit::Unknown))
        );
        assert_eq!(
            (
                directory.global_depth(),
                directory.ids(),
                directory.depth_of(3)
            ),
            (3, 6, Some(2))
        );
        assert!(
            directory.covers(3, u64::MAX)
                && directory.covers(5, u64::MAX)
                && !directory.covers(4, u64::MAX)
        );
        assert!(
            directory.hashes_of(3).is_none()
                && directory.hashes_of(6).is_none()
                && !directory.covers(6, 0)
        );
        check(&directory);
    }

    #[test]
    fn one_hash_alone_is_not_split_and_ids_come_to_an_end() {
        let mut directory = Directory::new(1);
        let mut deepest = 0;
        for _ in 0..64 {
            deepest = directory.split(deepest).unwrap()[1].partition;
        }
        assert_eq!(directory.split(deepest), Err(NotSplit::OneHash));
        assert_eq!(directory.partition_of(u64::MAX), deepest);
        check(&directory);
        let mut directory = Directory::new(u16::MAX - 1);
        assert_eq!(directory.split(1), Err(NotSplit::NoIds));
        check(&directory);
    }

    proptest! {
        /// Goal: whatever is split, each hash is in the partition whose range has it, and no id
        /// comes twice.
        #[test]
        fn every_hash_has_one_partition(
            n in 1_u16..70, hashes in prop::collection::vec(any::<u64>(), 1..50), splits in prop::collection::vec(any::<u64>(), 0..60)
        ) {
            let mut directory = Directory::new(n);
            for &hash in &hashes {
                prop_assert_eq!(directory.partition_of(hash), partition_of(hash, n));
            }
            let mut ids: Vec<u16> = directory.slices().map(|(slice, _)| slice.partition).collect();
            for hash in splits {
                let parent = directory.partition_of(hash);
                ids.extend(directory.split(parent).unwrap().map(|half| half.partition));
                prop_assert!(directory.covers(parent, hash) && directory.covers(directory.partition_of(hash), hash));
            }
            check(&directory);
            let given = ids.len();
            prop_assert_eq!(given, usize::from(directory.ids()));
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(ids.len(), given);
            for hash in hashes {
                let of = directory.slices().find(|(_, range)| range.contains(&hash)).unwrap().0;
                prop_assert_eq!(directory.partition_of(hash), of.partition);
            }
        }
    }

    #[test]
    fn every_partition_and_each_of_its_halves_is_in_the_lane_of_its_upper_bits() {
        for partitions in [1, 2, 4, 8, 64, 4096] {
            let mut directory = Directory::new(partitions);
            directory.split(0).unwrap();
            for (_, hashes) in directory.slices() {
                assert_eq!(
                    u64::from(lane_of_hash(*hashes.start())),
                    hashes.start() >> 61
                );
            }
        }
    }
}

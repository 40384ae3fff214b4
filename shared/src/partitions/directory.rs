//! The directory of partitions: extendible hashing by the upper bits of a hash.
//!
//! Invariant: the partitions cover all hashes, each hash once; an id is never used again after its partition was split.
//!
//! Source: Fagin, Nievergelt, Pippenger and Strong 1979, with the upper bits in the place of the lower ones, so that a
//! partition is one range of hashes. Instead of 2^(global depth) pointers it keeps one entry for each partition.

use crate::url::hashes_of;
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
}

/// Which partition each hash belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The partitions by their first hash.
    by_first: BTreeMap<u64, Slice>,
    /// The next id.
    next: u16,
}

impl Directory {
    /// The directory of a crawl that begins, with its partitions; their number is a power of two, 0 counts as 1.
    pub fn new(n_partitions: u16) -> Self {
        let depth = n_partitions.max(1).ilog2();
        let slice = |partition: u16| (*hashes_of(partition, 1 << depth).start(), Slice { partition, depth });
        Directory { by_first: (0..1 << depth).map(slice).collect(), next: 1 << depth }
    }

    /// The partition of a hash.
    pub fn partition_of(&self, hash: u64) -> u16 {
        self.by_first.range(..=hash).next_back().map_or(0, |(_, slice)| slice.partition)
    }

    /// Splits a partition by the next bit. Returns its halves, the lower one first; both have new ids.
    ///
    /// # Errors
    /// It cannot be split: why.
    pub fn split(&mut self, partition: u16) -> Result<[Slice; 2], NotSplit> {
        let found = self.by_first.iter().find(|(_, slice)| slice.partition == partition);
        let (&first, &Slice { depth, .. }) = found.ok_or(NotSplit::Unknown)?;
        if depth == u64::BITS {
            return Err(NotSplit::OneHash);
        }
        let next = self.next.checked_add(2).ok_or(NotSplit::NoIds)?;
        let halves = [self.next, self.next + 1].map(|partition| Slice { partition, depth: depth + 1 });
        self.by_first.insert(first, halves[0]);
        self.by_first.insert(first | 1 << (u64::BITS - 1 - depth), halves[1]);
        self.next = next;
        Ok(halves)
    }

    /// The partitions with their hashes, in the order of these.
    pub fn slices(&self) -> impl Iterator<Item = (Slice, RangeInclusive<u64>)> {
        let last = |slice: &Slice| u64::MAX.checked_shr(slice.depth).unwrap_or(0);
        self.by_first.iter().map(move |(&first, slice)| (*slice, first..=first | last(slice)))
    }

    /// The largest local depth.
    pub fn global_depth(&self) -> u32 {
        self.by_first.values().map(|slice| slice.depth).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::partition_of;
    use proptest::prelude::*;

    fn check(directory: &Directory) {
        let mut next = Some(0);
        for (_, range) in directory.slices() {
            assert_eq!(Some(*range.start()), next);
            next = range.end().checked_add(1);
        }
        assert_eq!(next, None, "the last partition ends with the last hash");
    }

    #[test]
    fn a_partition_splits_into_halves_with_new_ids_and_its_own_is_gone() {
        let mut directory = Directory::new(4);
        assert_eq!((directory.partition_of(0), directory.partition_of(u64::MAX)), (0, 3));
        let halves = directory.split(3).unwrap();
        assert_eq!(halves.map(|half| (half.partition, half.depth)), [(4, 3), (5, 3)]);
        assert_eq!((directory.partition_of(0b110 << 61), directory.partition_of(u64::MAX)), (4, 5));
        assert_eq!((directory.split(3), directory.split(9)), (Err(NotSplit::Unknown), Err(NotSplit::Unknown)));
        assert_eq!(directory.global_depth(), 3);
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
        let mut directory = Directory { next: u16::MAX - 1, ..Directory::new(2) };
        assert_eq!(directory.split(1), Err(NotSplit::NoIds));
        check(&directory);
    }

    proptest! {
        /// Goal: whatever is split, each hash is in the partition whose range has it, and no id comes twice.
        #[test]
        fn every_hash_has_one_partition(
            bits in 0_u32..7, hashes in prop::collection::vec(any::<u64>(), 1..50), splits in prop::collection::vec(any::<u64>(), 0..60)
        ) {
            let mut directory = Directory::new(1 << bits);
            for &hash in &hashes {
                prop_assert_eq!(directory.partition_of(hash), partition_of(hash, 1 << bits));
            }
            let mut ids: Vec<u16> = directory.slices().map(|(slice, _)| slice.partition).collect();
            for hash in splits {
                ids.extend(directory.split(directory.partition_of(hash)).unwrap().map(|half| half.partition));
            }
            check(&directory);
            let given = ids.len();
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(ids.len(), given);
            for hash in hashes {
                let of = directory.slices().find(|(_, range)| range.contains(&hash)).unwrap().0;
                prop_assert_eq!(directory.partition_of(hash), of.partition);
            }
        }
    }
}

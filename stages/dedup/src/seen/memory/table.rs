//! The table: 64-bit fingerprints in little more than five bytes each.
//!
//! The first three bytes of a fingerprint are its bucket, the other five are stored. 64 buckets are
//! a region: its entries are one sequence, bucket after bucket, in no order within a bucket, cut
//! into blocks of 32 entries that lie in chunks common to all. An entry is added at the end of its
//! bucket; room is made by moving, in each bucket behind it, the first entry to the end. So a
//! fingerprint is looked for among some N / 2^24 neighbours and added with at most 63 moves, and
//! nothing is ever copied to a larger place.
//!
//! Memory of N fingerprints, in bytes:
//! ```text
//! entries              5 N
//! ends of buckets      4 x 2^24
//! half a block         80 x 2^18       what the regions have not filled yet
//! numbers of blocks    4 N / 32
//! half a row           16 x 2^18       of numbers
//!
//!                      at 10^8: 5 + 0.67 + 0.21 + 0.13 + 0.04 = 6.05 a fingerprint
//!                      at 10^9: 5 + 0.07 + 0.02 + 0.13 + 0.00 = 5.22
//! ```
//! An array for each bucket would take 5 + 12 x 2^24 / N, 7.0 and 5.2, and up to twice that where
//! arrays grow by doubling.
//!
//! Source: Broder, Najork and Wiener 2003 (8-byte checksums, the first 3 bytes an index).

/// What is stored of a fingerprint: all but its bucket.
type Entry = [u8; 5];
const ENTRY_BITS: u32 = 8 * size_of::<Entry>() as u32;
const BUCKETS: usize = 1 << (u64::BITS - ENTRY_BITS);
const BUCKETS_PER_REGION: usize = 64;
const ENTRIES_PER_BLOCK: usize = 32;
const BLOCK_BYTES: usize = ENTRIES_PER_BLOCK * size_of::<Entry>();
/// 20 MiB: with chunks of 640 KiB the process grew by a tenth more than they hold.
const BLOCKS_PER_CHUNK: usize = if cfg!(test) { 16 } else { 1 << 17 };
const REGIONS: usize = BUCKETS / BUCKETS_PER_REGION;
/// Numbers of blocks that lie together.
const BLOCKS_PER_ROW: usize = 8;

/// A set of fingerprints. It only grows.
pub(super) struct Table {
    /// Where each bucket ends in the sequence of its region. A bucket begins where the one before
    /// it ends.
    ends: Vec<u32>,
    /// The numbers of blocks, in rows: the first row of each region, then the second row of each,
    /// and so on. So no region has a list that is copied when it grows.
    rows: Vec<Box<[u32]>>,
    /// The entries of all blocks. What is not used yet of the last chunk takes no memory: nothing
    /// was written to it.
    chunks: Vec<Box<[Entry]>>,
    blocks: usize,
}

/// Returns the memory of a table of `fingerprints` fingerprints, in bytes, as calculated above: on
/// average, when there are many.
pub(super) fn bytes_of(fingerprints: u64) -> u64 {
    let per_region = BLOCK_BYTES / 2 + BLOCKS_PER_ROW * size_of::<u32>() / 2;
    let fixed = BUCKETS * size_of::<u32>() + REGIONS * per_region;
    let numbers = fingerprints / ENTRIES_PER_BLOCK as u64 * size_of::<u32>() as u64;
    fixed as u64 + fingerprints * size_of::<Entry>() as u64 + numbers
}

/// Where a fingerprint belongs.
struct Spot {
    bucket: usize,
    region: usize,
    entry: Entry,
}

impl Spot {
    fn of(fingerprint: u64) -> Self {
        let bucket = (fingerprint >> ENTRY_BITS) as usize;
        let [_, _, _, entry @ ..] = fingerprint.to_be_bytes();
        Spot {
            bucket,
            region: bucket / BUCKETS_PER_REGION,
            entry,
        }
    }
}

impl Table {
    /// An empty table. Its memory is taken as it is used.
    pub(super) fn new() -> Self {
        Table {
            ends: vec![0; BUCKETS],
            rows: Vec::new(),
            chunks: Vec::new(),
            blocks: 0,
        }
    }

    /// Adds a fingerprint; false when it was there.
    pub(super) fn insert(&mut self, fingerprint: u64) -> bool {
        let spot = Spot::of(fingerprint);
        if self.contains(&spot) {
            return false;
        }
        let buckets_end = (spot.region + 1) * BUCKETS_PER_REGION;
        self.make_room(spot.region, self.ends[buckets_end - 1]);
        for bucket in (spot.bucket + 1..buckets_end).rev() {
            let start = self.start(bucket);
            let end = self.ends[bucket];
            if start < end {
                *self.entry(spot.region, end) = *self.entry(spot.region, start);
            }
            self.ends[bucket] = end + 1;
        }
        let end = self.ends[spot.bucket];
        *self.entry(spot.region, end) = spot.entry;
        self.ends[spot.bucket] = end + 1;
        true
    }

    /// Adds all of the fingerprints and leaves none. They are sorted for that: neighbours in the
    /// table are found in the processor's caches.
    pub(super) fn insert_all(&mut self, fingerprints: &mut Vec<u64>) {
        fingerprints.sort_unstable();
        fingerprints.drain(..).for_each(|fingerprint| {
            self.insert(fingerprint);
        });
    }

    /// Returns whether a fingerprint is in it.
    pub(super) fn knows(&self, fingerprint: u64) -> bool {
        self.contains(&Spot::of(fingerprint))
    }

    /// Memory held, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let ends = self.ends.capacity() * size_of::<u32>();
        let rows = self.rows.len() * REGIONS * BLOCKS_PER_ROW * size_of::<u32>();
        ends + rows + self.blocks * BLOCK_BYTES
    }

    fn contains(&self, spot: &Spot) -> bool {
        let mut at = self.start(spot.bucket) as usize;
        let end = self.ends[spot.bucket] as usize;
        while at < end {
            let entries = (end - at).min(ENTRIES_PER_BLOCK - at % ENTRIES_PER_BLOCK);
            let (chunk, first) = self.locate(spot.region, at);
            if self.chunks[chunk][first..first + entries].contains(&spot.entry) {
                return true;
            }
            at += entries;
        }
        false
    }

    /// Where a bucket begins in the sequence of its region.
    fn start(&self, bucket: usize) -> u32 {
        if bucket.is_multiple_of(BUCKETS_PER_REGION) {
            0
        } else {
            self.ends[bucket - 1]
        }
    }

    /// Chunk of a place in the sequence of a region, and where it is in there.
    fn locate(&self, region: usize, place: usize) -> (usize, usize) {
        let nth = place / ENTRIES_PER_BLOCK;
        let block = self.rows[nth / BLOCKS_PER_ROW][region * BLOCKS_PER_ROW + nth % BLOCKS_PER_ROW]
            as usize;
        let first = block % BLOCKS_PER_CHUNK * ENTRIES_PER_BLOCK;
        (block / BLOCKS_PER_CHUNK, first + place % ENTRIES_PER_BLOCK)
    }

    fn entry(&mut self, region: usize, place: u32) -> &mut Entry {
        let (chunk, at) = self.locate(region, place as usize);
        &mut self.chunks[chunk][at]
    }

    /// Gives the region another block when `entries` entries fill the blocks that it has.
    fn make_room(&mut self, region: usize, entries: u32) {
        let nth = entries as usize / ENTRIES_PER_BLOCK;
        if !(entries as usize).is_multiple_of(ENTRIES_PER_BLOCK) {
            return;
        }
        if self.blocks.is_multiple_of(BLOCKS_PER_CHUNK) {
            self.chunks.push(
                vec![Entry::default(); BLOCKS_PER_CHUNK * ENTRIES_PER_BLOCK].into_boxed_slice(),
            );
        }
        if nth / BLOCKS_PER_ROW == self.rows.len() {
            self.rows
                .push(vec![0; REGIONS * BLOCKS_PER_ROW].into_boxed_slice());
        }
        // 2^32 of them would be 2^37 fingerprints.
        self.rows[nth / BLOCKS_PER_ROW][region * BLOCKS_PER_ROW + nth % BLOCKS_PER_ROW] =
            self.blocks as u32;
        self.blocks += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Many in few buckets, side by side and far apart, the extremes among them.
    fn fingerprint() -> impl Strategy<Value = u64> {
        let bucket = prop_oneof![Just(0u64), Just(0xff_ffff), 0u64..200, 0u64..1 << 24];
        let entry = prop_oneof![Just(0u64), Just(0xff_ffff_ffff), 0u64..50, 0u64..1 << 40];
        (bucket, entry).prop_map(|(bucket, entry)| (bucket << ENTRY_BITS) + entry)
    }

    proptest! {
        #[test]
        fn it_holds_what_a_set_holds(fingerprints in prop::collection::vec(fingerprint(), 0..3_000)) {
            let mut table = Table::new();
            let mut set = HashSet::new();
            for &fingerprint in &fingerprints {
                prop_assert_eq!(table.insert(fingerprint), set.insert(fingerprint), "{:x}", fingerprint);
            }
            for fingerprint in fingerprints {
                prop_assert!(!table.insert(fingerprint));
                let neighbour = fingerprint ^ 1;
                prop_assert_eq!(table.contains(&Spot::of(neighbour)), set.contains(&neighbour));
            }
        }
    }

    #[test]
    fn a_bucket_takes_as_many_as_come_and_its_neighbours_keep_theirs() {
        let mut table = Table::new();
        let of = |bucket: u64, n: u64| (bucket << ENTRY_BITS) + n * 7_919;
        for n in 0..2_000 {
            // The last of a region, one before it, the first of the next.
            for bucket in [63, 40, 64] {
                assert!(table.insert(of(bucket, n)));
            }
        }
        for n in 0..2_000 {
            assert!(
                [63, 40, 64]
                    .iter()
                    .all(|&bucket| table.contains(&Spot::of(of(bucket, n))))
            );
            assert!(
                [62, 41, 39, 65, 0]
                    .iter()
                    .all(|&bucket| !table.contains(&Spot::of(of(bucket, n))))
            );
        }
        assert!(!table.insert(of(40, 0)) && table.insert(of(0, 0)));
    }

    #[test]
    fn memory_is_what_the_blocks_in_use_take() {
        let mut table = Table::new();
        let empty = table.bytes();
        (0..33).for_each(|n| assert!(table.insert(n)));
        let row = REGIONS * BLOCKS_PER_ROW * 4;
        assert_eq!(table.bytes() - empty, row + 2 * BLOCK_BYTES);
        (1..16).for_each(|n| assert!(table.insert(n << 46)));
        assert_eq!(table.bytes() - empty, row + 17 * BLOCK_BYTES);
    }
}

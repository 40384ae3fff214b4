//! Partitions: ranges of hashes, each with its upper bits in common.
//!
//! A host belongs to the partition of the hash of its name, a body to that of its fingerprint. Keys
//! begin with that hash, so a partition is one sorted range of a table, and so is each half of it.
//!
//! Invariants: the partitions cover all hashes, each hash once, in the order of the hashes; with
//! twice as many partitions each falls into two.

use std::ops::RangeInclusive;

/// The hash of a host's name (XXH3), the same for every letter case.
pub fn host_hash(host: &str) -> u64 {
    if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        xxhash_rust::xxh3::xxh3_64(host.to_ascii_lowercase().as_bytes())
    } else {
        xxhash_rust::xxh3::xxh3_64(host.as_bytes())
    }
}

/// The partition of a host: 0 to `n_partitions - 1`. The same for every scheme, port and letter
/// case.
///
/// `n_partitions` is fixed for the life of a crawl; 0 counts as 1.
pub fn partition(host: &str, n_partitions: u16) -> u16 {
    partition_of(host_hash(host), n_partitions)
}

/// The partition of a hash: its upper bits, where `n_partitions` is a power of two. Another number
/// divides the hashes evenly, too.
pub fn partition_of(hash: u64, n_partitions: u16) -> u16 {
    // The product is below 2^64 times the number of partitions, so the cast keeps its upper part.
    ((u128::from(hash) * u128::from(n_partitions.max(1))) >> u64::BITS) as u16
}

/// The hashes of a partition below `n_partitions`.
pub fn hashes_of(partition: u16, n_partitions: u16) -> RangeInclusive<u64> {
    let first = |partition: u32| {
        (u128::from(partition) << u64::BITS).div_ceil(u128::from(n_partitions.max(1)))
    };
    let partition = u32::from(partition.min(n_partitions.saturating_sub(1)));
    // Below 2^64: the first hash of a partition, and the one before the first of the next.
    first(partition) as u64..=(first(partition + 1) - 1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn partitions_are_stable_and_spread_evenly() {
        // Fixed values: a change would strand the state of running crawls in the wrong partition.
        assert_eq!(host_hash("www.example.com"), 0x4128_4eb5_bfdf_32e5);
        assert_eq!(host_hash("WWW.Example.com"), 0x4128_4eb5_bfdf_32e5);
        assert_eq!(
            [1, 8, 64, 4096].map(|n| partition("www.example.com", n)),
            [0, 2, 16, 0x412]
        );
        let mut counts = [0_u32; 64];
        for i in 0..64_000 {
            counts[usize::from(partition(&format!("host-{i}.example"), 64))] += 1;
        }
        assert!(
            counts.iter().all(|&n| (850..1_150).contains(&n)),
            "{counts:?}"
        );
        assert_eq!(partition("a", 0), 0);
    }

    #[test]
    fn a_partition_is_what_has_its_upper_bits() {
        assert_eq!(hashes_of(0, 1), 0..=u64::MAX);
        assert_eq!(hashes_of(0, 0), 0..=u64::MAX);
        assert_eq!(hashes_of(1, 2), 1 << 63..=u64::MAX);
        assert_eq!(hashes_of(37, 64), 37 << 58..=(38 << 58) - 1);
        assert_eq!(hashes_of(4095, 4096), 4095 << 52..=u64::MAX);
    }

    proptest! {
        #[test]
        fn a_hash_is_in_its_partition_alone_and_in_one_half_of_it(hash: u64, bits in 0_u32..13) {
            let n_partitions = 1_u16 << bits;
            let of = partition_of(hash, n_partitions);
            prop_assert_eq!(u64::from(of), hash.checked_shr(u64::BITS - bits).unwrap_or(0));
            let whole = hashes_of(of, n_partitions);
            prop_assert!(whole.contains(&hash));
            let [lower, upper] = [2 * of, 2 * of + 1].map(|half| hashes_of(half, 2 * n_partitions));
            prop_assert_eq!((lower.start(), upper.end()), (whole.start(), whole.end()));
            prop_assert_eq!(lower.end() + 1, *upper.start());
            prop_assert_eq!(partition_of(hash, 2 * n_partitions) / 2, of);
        }

        #[test]
        fn any_number_of_partitions_divides_the_hashes(hash: u64, n in 1_u16.., host in ".{0,40}") {
            let of = partition_of(hash, n);
            prop_assert!(of < n && hashes_of(of, n).contains(&hash));
            prop_assert!(partition(&host, n) < n);
        }
    }
}

//! A set of numbers that grows mostly in order: a low-water mark and what lies above it.
//!
//! Positions in streams and serial numbers of URLs are such sets. All numbers up to the mark are in
//! the set; above it, ranges. While numbers come in order the set is one mark; each one missing
//! costs a range.

use std::collections::BTreeMap;

/// A set of numbers from 1 on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    low: u64,
    /// First and last of each range above `low + 1`; apart by at least one.
    above: BTreeMap<u64, u64>,
}

impl Applied {
    /// Returns whether a number is in the set.
    pub fn contains(&self, number: u64) -> bool {
        number <= self.low
            || self
                .above
                .range(..=number)
                .next_back()
                .is_some_and(|(_, &last)| number <= last)
    }

    /// Adds a number; false when it was there already.
    pub fn insert(&mut self, number: u64) -> bool {
        if self.contains(number) {
            return false;
        }
        let mut first = number;
        let mut last = number;
        if let Some((&before, &before_last)) = self.above.range(..number).next_back()
            && before_last + 1 == number
        {
            first = before;
        }
        if let Some(after_last) = self.above.remove(&(number + 1)) {
            last = after_last;
        }
        self.above.insert(first, last);
        self.close_gap();
        true
    }

    /// Raises the low-water mark: all up to it counts as in the set.
    pub fn raise(&mut self, low: u64) {
        if low <= self.low {
            return;
        }
        self.low = low;
        while let Some((&first, &last)) = self.above.first_key_value() {
            if first > low + 1 {
                break;
            }
            self.above.pop_first();
            self.low = self.low.max(last);
        }
        self.close_gap();
    }

    fn close_gap(&mut self) {
        while let Some(last) = self.above.remove(&(self.low + 1)) {
            self.low = last;
        }
    }

    /// The largest number up to which all are in the set.
    pub fn low(&self) -> u64 {
        self.low
    }

    /// The largest number in the set; 0 when there is none.
    pub fn highest(&self) -> u64 {
        self.above
            .last_key_value()
            .map_or(self.low, |(_, &last)| last)
    }

    /// How many numbers above this one are in the set.
    pub fn count_above(&self, number: u64) -> u64 {
        let of = |first: u64, last: u64| (last + 1).saturating_sub(first.max(number + 1));
        of(1, self.low)
            + self
                .above
                .iter()
                .map(|(&first, &last)| of(first, last))
                .sum::<u64>()
    }

    /// How many ranges lie above the low-water mark.
    pub fn ranges(&self) -> usize {
        self.above.len()
    }

    /// For storing: the mark, then first and last of each range, 8 bytes little-endian each.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 + 16 * self.above.len());
        bytes.extend_from_slice(&self.low.to_le_bytes());
        for (first, last) in &self.above {
            bytes.extend_from_slice(&first.to_le_bytes());
            bytes.extend_from_slice(&last.to_le_bytes());
        }
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote; none when it is not of that form.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut numbers = bytes
            .chunks_exact(8)
            .map(|b| b.try_into().map(u64::from_le_bytes));
        let low = numbers.next()?.ok()?;
        let mut above = BTreeMap::new();
        while let Some(first) = numbers.next() {
            above.insert(first.ok()?, numbers.next()?.ok()?);
        }
        Some(Applied { low, above })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_in_order_are_one_mark() {
        let mut set = Applied::default();
        for number in 1..1000 {
            assert!(set.insert(number));
        }
        assert_eq!((set.low(), set.ranges()), (999, 0));
    }

    #[test]
    fn raising_the_mark_swallows_what_is_below() {
        let mut set = Applied::default();
        for number in [5, 6, 9, 20] {
            set.insert(number);
        }
        set.raise(7);
        assert_eq!((set.low(), set.ranges()), (7, 2));
        set.raise(8);
        assert_eq!((set.low(), set.ranges()), (9, 1));
    }

    proptest! {
        #[test]
        fn it_is_a_set(numbers in proptest::collection::vec(1u64..60, 0..120)) {
            let mut set = Applied::default();
            let mut model = HashSet::new();
            for number in numbers {
                prop_assert_eq!(set.insert(number), model.insert(number));
                let stored = Applied::from_bytes(&set.to_bytes());
                prop_assert_eq!(stored.as_ref(), Some(&set));
                prop_assert_eq!(set.highest(), model.iter().copied().max().unwrap_or(0));
                for probe in 1..62 {
                    prop_assert_eq!(set.contains(probe), model.contains(&probe));
                    let above = model.iter().filter(|&&number| number > probe).count();
                    prop_assert_eq!(set.count_above(probe), above as u64);
                }
            }
        }
    }
}

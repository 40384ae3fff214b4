//! Dice: all randomness of a simulation, from its seed.
//!
//! Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"
//! (SplitMix64).

use std::ops::Range;

/// A stream of random numbers; the same seed gives the same stream.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice {
            state: seed ^ 0x5851_f42d_4c95_7f2d,
        }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Uniform in the range; its start when the range is empty.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        let width = range.end.saturating_sub(range.start).max(1);
        range.start + self.number() % width
    }

    /// Uniform in 0..`n`; 0 when `n` is 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.within(0..n as u64) as usize
    }

    /// True so many times in ten thousand.
    pub(crate) fn chance(&mut self, in_ten_thousand: u64) -> bool {
        self.within(0..10_000) < in_ten_thousand
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}

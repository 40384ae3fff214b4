//! Quality: the value of a page as the scheduler sees it. Later links may add to it.

use rkyv::{Archive, Deserialize, Serialize};

/// A number from 0, of any scale; the larger, the better. Kept as the bits of a 32-bit float, which
/// are in the order of the numbers.
#[derive(
    Archive,
    Serialize,
    Deserialize,
    serde::Serialize,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
)]
#[serde(into = "f32")]
pub struct Quality(u32);

impl Quality {
    /// The quality of a URL that is worth nothing.
    pub const NONE: Quality = Quality(0);
    /// The quality of a seed.
    pub const SEED: Quality = Quality(1.0f32.to_bits());

    /// None for a number that is negative, infinite or not a number at all.
    pub fn new(value: f32) -> Option<Self> {
        // Adding 0 makes of -0 the 0 that it is.
        (value >= 0.0 && value.is_finite()).then_some(Quality((value + 0.0).to_bits()))
    }

    /// The number.
    pub fn get(self) -> f32 {
        let value = f32::from_bits(self.0);
        // Bits that came from elsewhere may be those of no quality.
        if value >= 0.0 && value.is_finite() {
            value
        } else {
            0.0
        }
    }

    /// The part of each heir when it is shared equally among `heirs` of them.
    pub fn shared_among(self, heirs: usize) -> Self {
        Quality::new(self.get() / heirs.max(1) as f32).unwrap_or_default()
    }

    /// Both together; the largest number where that is more than a number holds.
    pub fn plus(self, more: Self) -> Self {
        Quality::new((self.get() + more.get()).min(f32::MAX)).unwrap_or_default()
    }

    /// Its bits: in the order of the numbers, the uppermost is 0.
    pub fn to_bits(self) -> u32 {
        self.get().to_bits()
    }

    /// The quality that has these bits.
    pub fn from_bits(bits: u32) -> Self {
        Quality(Quality(bits).to_bits())
    }
}

impl From<Quality> for f32 {
    fn from(quality: Quality) -> f32 {
        quality.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn qualities_are_in_the_order_of_their_numbers(a: f32, b: f32) {
            match (Quality::new(a), Quality::new(b)) {
                (Some(qa), Some(qb)) => {
                    prop_assert_eq!(qa.get(), a);
                    prop_assert_eq!(qa.cmp(&qb), a.partial_cmp(&b).unwrap());
                    prop_assert_eq!(qa.to_bits().cmp(&qb.to_bits()), qa.cmp(&qb));
                }
                (None, _) => prop_assert!(!(a.is_finite() && a >= 0.0)),
                (_, None) => prop_assert!(!(b.is_finite() && b >= 0.0)),
            }
        }

        #[test]
        fn any_bits_are_a_quality(bits: u32) {
            let quality = Quality::from_bits(bits);
            prop_assert!(quality.get().is_finite() && quality.get() >= 0.0);
            prop_assert_eq!(Quality::from_bits(quality.to_bits()), quality);
        }
    }

    #[test]
    fn what_is_shared_is_not_more_than_there_was() {
        assert_eq!(Quality::SEED.shared_among(4).get(), 0.25);
        assert_eq!(Quality::SEED.shared_among(0).get(), 1.0);
        assert_eq!(Quality::new(-0.0), Some(Quality::NONE));
    }
}

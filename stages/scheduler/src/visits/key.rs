//! The key of a known page among those of its server: its class, then its clock.
//!
//! The clock is the last visit less what signals have moved it by. So within a class the first row
//! is the page of the largest value.
//!
//! Invariant: keys sort as their bytes do.

use super::class::Class;

/// Bytes of a key.
const BYTES: usize = 10;

/// Where a known page lies among those of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VisitKey {
    /// Its class, as of its last visit.
    pub class: Class,
    /// Its last visit less what signals moved it by, in milliseconds of Unix time.
    pub clock_ms: u64,
}

impl VisitKey {
    /// The bytes for the key of a row.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[0] = self.class.importance;
        bytes[1] = self.class.rate;
        bytes[2..].copy_from_slice(&self.clock_ms.to_be_bytes());
        bytes
    }

    /// From the bytes of a row's key.
    pub fn from_bytes(bytes: [u8; BYTES]) -> Self {
        let [importance, rate, clock @ ..] = bytes;
        VisitKey {
            class: Class { importance, rate },
            clock_ms: u64::from_be_bytes(clock),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(importance: u8, rate: u8, clock_ms: u64) -> VisitKey {
        VisitKey {
            class: Class { importance, rate },
            clock_ms,
        }
    }

    proptest! {
        #[test]
        fn bytes_keep_the_key_and_its_order(
            one: (u8, u8, u64),
            other: (u8, u8, u64),
        ) {
            let one = key(one.0, one.1, one.2);
            let other = key(other.0, other.1, other.2);
            prop_assert_eq!(VisitKey::from_bytes(one.to_bytes()), one);
            prop_assert_eq!(one.cmp(&other), one.to_bytes().cmp(&other.to_bytes()));
        }
    }
}

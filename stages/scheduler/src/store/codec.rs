//! How rows of the scheduler's tables are written: a version, then numbers of variable length and
//! strings.
//!
//! Invariant: a row of another version, or one that ends early, is not read at all.
//!
//! No library writes these rows: crawls on disk have them, and every serializer would lay the same
//! values out otherwise. (postcard, the nearest, has the same numbers, but no version byte and
//! another layout of optional fields and addresses.)

use std::net::IpAddr;

/// Version of all rows; the first byte of each.
const VERSION: u8 = 8;

/// Writes a row.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Starts a row that is expected to take `bytes` bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let mut row = Vec::with_capacity(bytes + 1);
        row.push(VERSION);
        Writer(row)
    }

    /// One byte.
    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// A number, seven bits a byte, low bits first.
    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// Bytes of a number that the reader knows.
    pub(crate) fn array<const BYTES: usize>(&mut self, bytes: [u8; BYTES]) {
        self.0.extend_from_slice(&bytes);
    }

    /// The number of bytes, then the bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A string.
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// An IP address.
    pub(crate) fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.bytes(&address.octets()),
            IpAddr::V6(address) => self.bytes(&address.octets()),
        }
    }

    /// The row.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads a row.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// None when the row is of another version.
    pub(crate) fn new(row: &'a [u8]) -> Option<Self> {
        let (&version, rest) = row.split_first()?;
        (version == VERSION).then_some(Reader(rest))
    }

    /// Returns whether nothing is left.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// One byte.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    /// A number.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A number that fits 32 bits.
    pub(crate) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// Bytes of a number that is known.
    pub(crate) fn array<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// The bytes behind their number.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// An IP address.
    pub(crate) fn address(&mut self) -> Option<IpAddr> {
        let octets = self.bytes()?;
        match (<[u8; 4]>::try_from(octets), <[u8; 16]>::try_from(octets)) {
            (Ok(octets), _) => Some(octets.into()),
            (_, Ok(octets)) => Some(octets.into()),
            _ => None,
        }
    }

    /// A string.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            numbers in proptest::collection::vec(any::<u64>(), 0..20),
            text in ".{0,40}",
            byte: u8,
            address: IpAddr,
        ) {
            let mut writer = Writer::with_capacity(0);
            for &number in &numbers {
                writer.number(number);
            }
            writer.text(&text);
            writer.address(address);
            writer.byte(byte);
            let row = writer.finish();
            let mut reader = Reader::new(&row).unwrap();
            for &number in &numbers {
                prop_assert_eq!(reader.number(), Some(number));
            }
            prop_assert_eq!(reader.text(), Some(text.as_str()));
            prop_assert_eq!(reader.address(), Some(address));
            prop_assert_eq!(reader.byte(), Some(byte));
            prop_assert_eq!(reader.byte(), None);
        }

        #[test]
        fn no_row_makes_it_panic(row in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(mut reader) = Reader::new(&row) {
                let _ = (reader.number(), reader.text(), reader.bytes(), reader.small());
            }
        }
    }
}

//! References: a message that says in which file of a spool its payload lies, instead of having it.
//!
//! ```text
//! 0      4     5     6   8            16          24          28
//! | RHMB | edge | 254 | 0 | xxh3 64 LE | offset LE64 | length LE32 | name of the file |
//! ```
//!
//! Invariant: the checksum covers all that follows it. The payload has those of its envelopes. To a
//! program that knows no references it is a message of a schema version that it does not read.

use super::envelope::{HEADER_BYTES, MAGIC, Undecodable};
use crate::topology::Edge;
use bytes::{BufMut as _, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64;

/// The schema version that stands in a reference's envelope; no message has it, and no frame.
pub const REFERENCE_VERSION: u8 = u8::MAX - 1;
/// The longest name that file systems take.
const NAME_BYTES_MAX: usize = 255;
/// No file is longer.
const OFFSET_MAX: u64 = i64::MAX as u64 - u32::MAX as u64;
/// Bytes of the place, between the envelope and the name.
const PLACE_BYTES: usize = 12;

/// Where a payload lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Name of the file in the folder of its edge.
    pub file: String,
    /// Where the payload begins in it, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u32,
}

impl Reference {
    /// The message that travels in the place of the payload.
    pub fn message(&self, edge: Edge) -> Bytes {
        let mut place = Vec::with_capacity(PLACE_BYTES + self.file.len());
        place.put_u64_le(self.offset);
        place.put_u32_le(self.length);
        place.put_slice(self.file.as_bytes());
        let mut message = BytesMut::with_capacity(HEADER_BYTES + place.len());
        message.put_slice(&MAGIC);
        message.put_u8(edge.number());
        message.put_u8(REFERENCE_VERSION);
        message.put_u16_le(0);
        message.put_u64_le(xxh3_64(&place));
        message.put_slice(&place);
        message.freeze()
    }

    /// Reads a message; none when it has its payload itself.
    ///
    /// # Errors
    /// It is a damaged reference, or one of another edge.
    pub fn read(edge: Edge, message: &[u8]) -> Result<Option<Reference>, Undecodable> {
        let Some((header, place)) = message.split_at_checked(HEADER_BYTES) else {
            return Ok(None);
        };
        if header[..4] != MAGIC || header[5] != REFERENCE_VERSION {
            return Ok(None);
        }
        let corrupt = |what: &str| Err(Undecodable::Corrupt(what.to_owned()));
        if header[4] != edge.number() {
            return corrupt("a reference of another edge");
        }
        if header[6..8] != [0, 0] || header[8..16] != xxh3_64(place).to_le_bytes() {
            return corrupt("a reference whose checksum does not match");
        }
        let Some((numbers, name)) = place.split_first_chunk::<PLACE_BYTES>() else {
            return corrupt("a reference that ends within its place");
        };
        let (offset, length) = numbers.split_at(size_of::<u64>());
        let (Ok(offset), Ok(length), Ok(file)) = (
            offset.try_into(),
            length.try_into(),
            std::str::from_utf8(name),
        ) else {
            return corrupt("a reference to a file without a name");
        };
        if !is_name(file) {
            return corrupt("a reference to a file outside its folder");
        }
        let offset = u64::from_le_bytes(offset);
        let length = u32::from_le_bytes(length);
        if offset > OFFSET_MAX {
            return corrupt("a reference behind the end of any file");
        }
        Ok(Some(Reference {
            file: file.to_owned(),
            offset,
            length,
        }))
    }
}

/// Returns whether a name is that of a file in the folder itself.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && !name.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{FRAME_VERSION, MESSAGES, payloads};
    use proptest::prelude::*;

    const EDGE: Edge = Edge::Pages;

    fn reference() -> Reference {
        Reference {
            file: "fetcher-0-00000000000000ff-7".into(),
            offset: 1 << 33,
            length: 262_144,
        }
    }

    #[test]
    fn a_reference_is_read_as_it_was_written_and_a_message_is_none() {
        assert_eq!(
            Reference::read(EDGE, &reference().message(EDGE)).unwrap(),
            Some(reference())
        );
        for message in [&b""[..], b"RHMB", &[0; 64]] {
            assert_eq!(Reference::read(EDGE, message).unwrap(), None);
        }
        assert!(Reference::read(Edge::Documents, &reference().message(EDGE)).is_err());
    }

    #[test]
    fn what_no_file_system_could_hold_is_no_reference() {
        let longest = Reference {
            file: "x".repeat(255),
            offset: OFFSET_MAX,
            ..reference()
        };
        assert_eq!(
            Reference::read(EDGE, &longest.message(EDGE)).unwrap(),
            Some(longest.clone())
        );
        for reference in [
            Reference {
                file: "x".repeat(256),
                ..reference()
            },
            Reference {
                offset: OFFSET_MAX + 1,
                ..reference()
            },
        ] {
            assert!(
                Reference::read(EDGE, &reference.message(EDGE)).is_err(),
                "{reference:?}"
            );
        }
    }

    #[test]
    fn no_message_and_no_frame_has_the_version_of_a_reference() {
        assert_ne!(REFERENCE_VERSION, FRAME_VERSION);
        assert!(
            MESSAGES.iter().all(
                |row| row.version != REFERENCE_VERSION && row.before != Some(REFERENCE_VERSION)
            )
        );
        let message = reference().message(EDGE);
        assert_eq!(payloads(EDGE, message.clone()).unwrap(), [message]);
    }

    #[test]
    fn a_reference_that_is_damaged_or_leads_elsewhere_is_refused() {
        let message = reference().message(EDGE).to_vec();
        for bit in (4 * 8..5 * 8).chain(6 * 8..message.len() * 8) {
            let mut damaged = message.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Reference::read(EDGE, &damaged).is_err(), "bit {bit}");
        }
        for length in HEADER_BYTES..message.len() {
            assert!(
                Reference::read(EDGE, &message[..length]).is_err(),
                "{length}"
            );
        }
        for file in [
            "",
            ".",
            "..",
            "../../etc/passwd",
            "/etc/passwd",
            ".hidden",
            "a/b",
        ] {
            let leads_elsewhere = Reference {
                file: file.into(),
                ..reference()
            };
            assert!(
                Reference::read(EDGE, &leads_elsewhere.message(EDGE)).is_err(),
                "{file}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(place in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut message = vec![0; HEADER_BYTES];
            message[..4].copy_from_slice(&MAGIC);
            message[4..6].copy_from_slice(&[EDGE.number(), REFERENCE_VERSION]);
            message[8..16].copy_from_slice(&xxh3_64(&place).to_le_bytes());
            message.extend_from_slice(&place);
            let _ = Reference::read(EDGE, &message);
        }
    }
}

//! Pieces: how the parts of captured partitions come to a command, and lie in a checkpoint:
//! compressed.
//!
//! ```text
//! piece = kind (1)  partition (2, little-endian)  part, compressed; or words
//! ```
//! In: parts. Out: pieces, and parts again. A part has a checksum of its own, and says what it is
//! part of.

use bytes::Bytes;

/// Stands for the rows of an instance that are no partition's.
pub const OF_INSTANCE: u16 = u16::MAX;
/// Fast: what is written has to be read back soon.
const LEVEL: i32 = 1;
/// A part that is larger when it is unpacked is none.
const PART_BYTES_MAX: usize = 64 << 20;
const PART: u8 = 0;
const END: u8 = 1;
const FAILED: u8 = 2;
const HEADER_BYTES: usize = 3;

/// A message of an instance about what it has captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The next part of a partition, compressed.
    Part(u16, Bytes),
    /// That was all.
    End,
    /// It cannot be read, or is gone: why.
    Failed(String),
}

impl Piece {
    /// The piece of a part.
    ///
    /// # Errors
    /// It cannot be compressed.
    pub(super) fn of(partition: u16, part: &[u8]) -> std::io::Result<Self> {
        Ok(Piece::Part(
            partition,
            zstd::bulk::compress(part, LEVEL)?.into(),
        ))
    }

    /// As a message.
    pub fn to_bytes(&self) -> Bytes {
        let (kind, partition, rest) = match self {
            Piece::Part(partition, part) => (PART, *partition, part.as_ref()),
            Piece::End => (END, 0, [].as_slice()),
            Piece::Failed(why) => (FAILED, 0, why.as_bytes()),
        };
        let [low, high] = partition.to_le_bytes();
        [&[kind, low, high], rest].concat().into()
    }

    /// Reads a message; none when it is no piece.
    pub fn read(message: &Bytes) -> Option<Piece> {
        let (&[kind, low, high], rest) = message.split_first_chunk::<HEADER_BYTES>()?;
        match kind {
            PART => Some(Piece::Part(
                u16::from_le_bytes([low, high]),
                message.slice(HEADER_BYTES..),
            )),
            END => Some(Piece::End),
            FAILED => Some(Piece::Failed(String::from_utf8_lossy(rest).into_owned())),
            _ => None,
        }
    }
}

/// Unpacks a part of a piece.
///
/// # Errors
/// It is none.
pub(super) fn unpack(packed: &[u8]) -> std::io::Result<Vec<u8>> {
    zstd::bulk::decompress(packed, PART_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_as_they_went_in() {
        let part = vec![7; 100_000];
        let piece = Piece::of(4095, &part).unwrap();
        assert!(piece.to_bytes().len() < 1000);
        for piece in [piece.clone(), Piece::End, Piece::Failed("gone".into())] {
            assert_eq!(Piece::read(&piece.to_bytes()), Some(piece));
        }
        let Piece::Part(_, packed) = piece else {
            unreachable!()
        };
        assert_eq!(unpack(&packed).unwrap(), part);
        assert!(unpack(&packed[..packed.len() / 2]).is_err());
        assert_eq!(Piece::read(&Bytes::from_static(&[0, 1])), None);
        assert_eq!(Piece::read(&Bytes::from_static(&[9, 1, 2])), None);
    }
}

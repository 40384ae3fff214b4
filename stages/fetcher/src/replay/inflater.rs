//! An inflater: what inflates a small gzip member at once.
//!
//! In: a file and where a member begins. Out: all that is in it, its checksum compared; none of a
//! member that is large, or damaged: who reads it as a stream takes these, and says what is wrong.
//! Most members are small, and cost less than half of what a stream takes. Limit: [`PACKED_BYTES`]
//! and [`PLAIN_BYTES`], of [`KEPT_MAX`] inflaters.

use libdeflater::Decompressor;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, PoisonError};

/// What is read first: most members of pages are no longer.
const FIRST_BYTES: usize = 16 << 10;
/// A larger member is not small.
const PACKED_BYTES: usize = 64 << 10;
/// Nor is one of which more comes.
const PLAIN_BYTES: usize = 512 << 10;
/// Inflaters that are kept for the next records.
const KEPT_MAX: usize = 8;

/// An inflater with its buffers.
pub(crate) struct Inflater {
    decompressor: Decompressor,
    packed: Vec<u8>,
    plain: Vec<u8>,
}

/// Inflaters that wait for work.
#[derive(Default)]
pub(crate) struct Inflaters(Mutex<Vec<Inflater>>);

impl Inflaters {
    /// Does something with one of them.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Inflater) -> T) -> T {
        let waiting = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = waiting().pop();
        let mut inflater = kept.unwrap_or_else(Inflater::new);
        let done = work(&mut inflater);
        let mut waiting = waiting();
        if waiting.len() < KEPT_MAX {
            waiting.push(inflater);
        }
        done
    }
}

impl fmt::Debug for Inflaters {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Inflaters")
    }
}

impl Inflater {
    fn new() -> Inflater {
        let packed = vec![0; PACKED_BYTES];
        let plain = vec![0; PLAIN_BYTES];
        Inflater {
            decompressor: Decompressor::new(),
            packed,
            plain,
        }
    }

    /// What is in the member at an offset of a file.
    pub(crate) fn member(&mut self, file: &File, offset: u64) -> Option<&[u8]> {
        let mut bytes = 0;
        for wanted in [FIRST_BYTES, PACKED_BYTES] {
            while bytes < wanted {
                match file
                    .read_at(&mut self.packed[bytes..wanted], offset + bytes as u64)
                    .ok()?
                {
                    0 => break,
                    more => bytes += more,
                }
            }
            if let Ok(plain) = self
                .decompressor
                .gzip_decompress(&self.packed[..bytes], &mut self.plain)
            {
                return Some(&self.plain[..plain]);
            }
            if bytes < wanted {
                break;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_member_ends_where_the_next_begins_and_a_large_or_damaged_one_is_none() {
        let large = gzip(&vec![b'a'; PLAIN_BYTES + 1]);
        let mut damaged = gzip(b"damaged");
        let checksum = damaged.len() - 8;
        damaged[checksum] ^= 1;
        let mut random = 1_u32;
        let noise: Vec<u8> = (0..2 * FIRST_BYTES)
            .map(|_| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 24) as u8
            })
            .collect();
        let longer = gzip(&noise);
        assert!(longer.len() > FIRST_BYTES, "it is not read at once");
        let members = [gzip(b"first"), gzip(b"second"), longer, large, damaged];
        let mut file = tempfile::tempfile().unwrap();
        let mut offset = 0;
        let mut offsets = Vec::new();
        for member in &members {
            file.write_all(member).unwrap();
            offsets.push(offset);
            offset += member.len() as u64;
        }
        let inflaters = Inflaters::default();
        let read = |number: usize| {
            inflaters.with(|one| one.member(&file, offsets[number]).map(<[u8]>::to_vec))
        };
        assert_eq!(read(0).as_deref(), Some(&b"first"[..]));
        assert_eq!(read(1).as_deref(), Some(&b"second"[..]));
        assert_eq!(read(2), Some(noise));
        assert_eq!((read(3), read(4)), (None, None));
    }
}

//! The layout of a run's file.
//!
//! ```text
//! run     = block*  index  tail          every block but the last has BLOCK_BYTES, filled up with zeros
//! block   = checksum of the rest (8)  bytes of groups (4)  0 (4)  group*
//! group   = host (8)  number of URLs (4)  URL (8)*           a group that does not fit goes on in the next block
//! index   = first host (8)  first URL (8)                    of each block
//! tail    = URLs (8)  blocks (4)  version (4)  checksum of index and tail before it (8)
//! ```
//! Numbers are little-endian; checksums are 64-bit xxh3, seeded with partition, generation and the
//! number of the block, so that a block in the wrong place is damage too.

use crate::seen::Key;
use crate::seen::folder::number;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of a block: large enough for its header and its place in the index not to count. Small in
/// tests, so that little data makes many blocks.
pub(super) const BLOCK_BYTES: usize = if cfg!(test) { 256 } else { 64 << 10 };
/// Blocks read or written at once.
pub(super) const BLOCKS_AT_ONCE: usize = 4;
pub(super) const BLOCK_HEADER_BYTES: usize = 16;
pub(super) const GROUP_HEADER_BYTES: usize = 12;
pub(super) const TAIL_BYTES: usize = 24;
pub(super) const INDEX_ENTRY_BYTES: usize = 16;
pub(super) const VERSION: u32 = 1;

/// The groups of a block, or those after a place in it.
pub(super) struct Groups<'b> {
    pub(super) rest: &'b [u8],
}

/// A host and its URLs.
pub(super) type Group<'b> = (u64, &'b [[u8; 8]]);

impl<'b> Groups<'b> {
    pub(super) fn next(&mut self) -> Result<Option<Group<'b>>, &'static str> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let wrong = "a block's groups do not fit it";
        let (header, rest) = self
            .rest
            .split_first_chunk::<GROUP_HEADER_BYTES>()
            .ok_or(wrong)?;
        let host = number(header, 0).map(u64::from_le_bytes).ok_or(wrong)?;
        let urls = number(header, 8).map(u32::from_le_bytes).ok_or(wrong)?;
        let (urls, rest) = rest.split_at_checked(urls as usize * 8).ok_or(wrong)?;
        self.rest = rest;
        Ok(Some((host, urls.as_chunks::<8>().0)))
    }
}

/// Checksum of a part of a run; `part` is the number of the block.
pub(super) fn checksum(bytes: &[u8], partition: u16, generation: u64, part: u64) -> u64 {
    xxh3_64_with_seed(
        bytes,
        generation.rotate_left(32) ^ (u64::from(partition) << 48) ^ part,
    )
}

pub(super) fn key_of(bytes: &[u8; INDEX_ENTRY_BYTES]) -> Key {
    let host = number(bytes, 0).map_or(0, u64::from_le_bytes);
    (host, number(bytes, 8).map_or(0, u64::from_le_bytes))
}

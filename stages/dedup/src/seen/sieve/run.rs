//! A run: fingerprints of a partition, sorted by host and within a host by URL, in a file that
//! never changes.
//!
//! Its layout is in [`super::layout`].
//!
//! Invariants: keys ascend strictly; what is not as it was written is an error, never an answer.
//!
//! Sources: Heydon and Najork 1999, section 3.2 (a host's URLs lie together); Najork and Heydon
//! 2001 and Lee et al. 2008 (DRUM): questions are sorted and answered by one sequential pass.

use super::layout::{
    BLOCK_BYTES, BLOCK_HEADER_BYTES, BLOCKS_AT_ONCE, Groups, INDEX_ENTRY_BYTES, TAIL_BYTES,
    VERSION, checksum, key_of,
};
use super::questions::Asked;
use crate::seen::Key;
use crate::seen::error::SeenError;
use crate::seen::folder::{Folder, Name, Readable, number};
use std::ops::Range;

/// How a run is referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunRef {
    pub(super) generation: u64,
    pub(super) urls: u64,
    /// Length of the file.
    pub(super) bytes: u64,
}

/// A run, open for reading.
pub(super) struct Run {
    pub(super) file: Readable,
    pub(super) partition: u16,
    pub(super) entry: RunRef,
    /// First key of each block.
    pub(super) index: Vec<Key>,
}

/// Memory for reading: a few blocks.
#[derive(Default)]
pub(super) struct Window {
    pub(super) buffer: Vec<u8>,
    /// Number of the first block in it, and how many there are.
    pub(super) first: usize,
    pub(super) blocks: usize,
}

impl Window {
    pub(super) fn bytes(&self) -> usize {
        self.buffer.capacity()
    }
}

impl Run {
    /// Opens a run that was referred to; reads its index and checks that.
    pub(super) fn open(folder: &Folder, partition: u16, entry: RunRef) -> Result<Self, SeenError> {
        let file = folder.read(
            Name::Run {
                partition,
                generation: entry.generation,
            },
            entry.bytes,
        )?;
        let wrong = || SeenError::damaged(&file.path, "its index is not as it was written");
        let tail_at = entry
            .bytes
            .checked_sub(TAIL_BYTES as u64)
            .ok_or_else(wrong)?;
        let mut tail = [0; TAIL_BYTES];
        file.read_at(tail_at, &mut tail)?;
        let blocks = number(&tail, 8).map(u32::from_le_bytes).ok_or_else(wrong)? as usize;
        let index_bytes = blocks * INDEX_ENTRY_BYTES;
        let index_at = tail_at.checked_sub(index_bytes as u64).ok_or_else(wrong)?;
        if index_at.div_ceil(BLOCK_BYTES as u64) != blocks as u64 {
            return Err(wrong());
        }
        let mut bytes = vec![0; index_bytes + TAIL_BYTES];
        file.read_at(index_at, &mut bytes)?;
        let (summed, sum) = bytes.split_at(index_bytes + TAIL_BYTES - 8);
        let expected = [
            entry.urls.to_le_bytes().as_slice(),
            &tail[8..12],
            &VERSION.to_le_bytes(),
        ]
        .concat();
        let sound = sum == checksum(summed, partition, entry.generation, u64::MAX).to_le_bytes()
            && summed[index_bytes..] == expected;
        if !sound {
            return Err(wrong());
        }
        let index = summed[..index_bytes]
            .as_chunks::<INDEX_ENTRY_BYTES>()
            .0
            .iter()
            .map(key_of)
            .collect();
        Ok(Run {
            file,
            partition,
            entry,
            index,
        })
    }

    pub(super) fn entry(&self) -> RunRef {
        self.entry
    }

    pub(super) fn name(&self) -> Name {
        Name::Run {
            partition: self.partition,
            generation: self.entry.generation,
        }
    }

    /// Memory held, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.index.capacity() * size_of::<Key>()
    }

    /// How many blocks it has.
    pub(super) fn blocks(&self) -> usize {
        self.index.len()
    }

    /// Visits the keys of some of the blocks, in order.
    pub(super) fn visit_blocks(
        &self,
        blocks: Range<usize>,
        window: &mut Window,
        visit: &mut dyn FnMut(Key),
    ) -> Result<(), SeenError> {
        window.blocks = 0;
        for block in blocks.clone() {
            let mut groups = Groups {
                rest: self.block(block, blocks.end - block, window)?,
            };
            while let Some((host, urls)) = groups.next().map_err(|wrong| self.damaged(wrong))? {
                urls.iter()
                    .for_each(|url| visit((host, u64::from_le_bytes(*url))));
            }
        }
        Ok(())
    }

    /// Marks the questions whose keys are here, in one pass over the blocks that may hold one of
    /// them. Questions are sorted.
    pub(super) fn find(&self, asked: &mut [Asked], window: &mut Window) -> Result<(), SeenError> {
        window.blocks = 0;
        // With questions in most blocks, all are read, a few at a time; otherwise only those
        // needed.
        let at_once = if asked.len() >= self.index.len() {
            BLOCKS_AT_ONCE
        } else {
            1
        };
        let mut rest = asked;
        let mut block = 0;
        while let Some(next) = rest.first() {
            // The last block whose first key is not after the question's.
            let ahead = self.index[block..].partition_point(|first| *first <= next.key);
            let Some(ahead) = ahead.checked_sub(1) else {
                // Before the first block; later questions may not be.
                rest = &mut rest[1..];
                continue;
            };
            block += ahead;
            let here = match self.index.get(block + 1) {
                Some(end) => rest.partition_point(|asked| asked.key < *end),
                None => rest.len(),
            };
            let (here, later) = rest.split_at_mut(here);
            self.find_in_block(self.block(block, at_once, window)?, here)?;
            rest = later;
        }
        Ok(())
    }

    fn find_in_block(&self, block: &[u8], asked: &mut [Asked]) -> Result<(), SeenError> {
        let mut groups = Groups { rest: block };
        let Some((mut host, mut urls)) = groups.next().map_err(|wrong| self.damaged(wrong))? else {
            return Ok(());
        };
        for asked in asked {
            let (asked_host, asked_url) = asked.key;
            while host < asked_host {
                match groups.next().map_err(|wrong| self.damaged(wrong))? {
                    Some(group) => (host, urls) = group,
                    None => return Ok(()),
                }
            }
            if host == asked_host {
                let before = urls.partition_point(|url| u64::from_le_bytes(*url) < asked_url);
                urls = &urls[before..];
                asked.found |= urls
                    .first()
                    .is_some_and(|url| u64::from_le_bytes(*url) == asked_url);
            }
        }
        Ok(())
    }

    /// The groups of a block, checked. Reads a few blocks from it on when it is not in the window.
    pub(super) fn block<'w>(
        &self,
        block: usize,
        at_once: usize,
        window: &'w mut Window,
    ) -> Result<&'w [u8], SeenError> {
        let blocks_bytes = self.index_at();
        if block < window.first || block >= window.first + window.blocks {
            let at = block * BLOCK_BYTES;
            let bytes = (at_once * BLOCK_BYTES).min(blocks_bytes.saturating_sub(at));
            if window.buffer.len() < bytes {
                window.buffer.resize(bytes, 0);
            }
            // Nothing is in the window while it is being filled.
            window.blocks = 0;
            self.file.read_at(at as u64, &mut window.buffer[..bytes])?;
            (window.first, window.blocks) = (block, bytes.div_ceil(BLOCK_BYTES));
        }
        let at = (block - window.first) * BLOCK_BYTES;
        let bytes = BLOCK_BYTES.min(blocks_bytes - block * BLOCK_BYTES);
        let bytes = &window.buffer[at..at + bytes];
        let sound = number(bytes, 0).map(u64::from_le_bytes)
            == Some(checksum(
                &bytes[8..],
                self.partition,
                self.entry.generation,
                block as u64,
            ));
        let groups = number(bytes, 8).map(u32::from_le_bytes).filter(|_| sound);
        groups
            .and_then(|groups| bytes.get(BLOCK_HEADER_BYTES..)?.get(..groups as usize))
            .ok_or_else(|| self.damaged("a block is not as it was written"))
    }

    /// Where the blocks end.
    fn index_at(&self) -> usize {
        usize::try_from(self.entry.bytes).unwrap_or(usize::MAX)
            - TAIL_BYTES
            - self.index.len() * INDEX_ENTRY_BYTES
    }

    pub(super) fn damaged(&self, what: &'static str) -> SeenError {
        SeenError::damaged(&self.file.path, what)
    }
}

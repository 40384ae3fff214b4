//! Writes a run, key by key, into a file that is complete before it is named.

use super::layout::{
    BLOCK_BYTES, BLOCK_HEADER_BYTES, BLOCKS_AT_ONCE, GROUP_HEADER_BYTES, VERSION, checksum,
};
use super::run::{Run, RunRef};
use crate::seen::Key;
use crate::seen::error::SeenError;
use crate::seen::folder::{Folder, Name, Writable};

/// Writes a run, key by key.
pub(in crate::seen) struct RunWriter {
    folder: Folder,
    file: Writable,
    partition: u16,
    generation: u64,
    index: Vec<Key>,
    urls: u64,
    /// Bytes written to the file, and those to be written next: whole blocks and the open one.
    written: u64,
    buffer: Vec<u8>,
    /// Where in the buffer the open block and its open group begin.
    block_at: usize,
    group_at: usize,
    host: u64,
}

impl RunWriter {
    pub(super) fn create(
        folder: &Folder,
        partition: u16,
        generation: u64,
    ) -> Result<Self, SeenError> {
        let file = folder.create(Name::Run {
            partition,
            generation,
        })?;
        let buffer = Vec::with_capacity(BLOCKS_AT_ONCE * BLOCK_BYTES);
        let folder = folder.clone();
        let index = Vec::new();
        let urls = 0;
        let written = 0;
        let block_at = 0;
        let group_at = 0;
        let host = 0;
        Ok(RunWriter {
            folder,
            file,
            partition,
            generation,
            index,
            urls,
            written,
            buffer,
            block_at,
            group_at,
            host,
        })
    }

    /// Removes the file.
    pub(in crate::seen) fn give_up(self) -> Result<(), SeenError> {
        self.folder.remove(Name::Run {
            partition: self.partition,
            generation: self.generation,
        })
    }

    /// Appends a key, which is after the last one.
    pub(in crate::seen) fn push(&mut self, key: Key) -> Result<(), SeenError> {
        let (host, url) = key;
        let left = BLOCK_BYTES.saturating_sub(self.buffer.len() - self.block_at);
        let in_group = self.urls > 0 && host == self.host;
        if !in_group || left < 8 {
            if self.urls > 0 {
                self.close_group();
            }
            if self.urls == 0 || left < GROUP_HEADER_BYTES + 8 {
                if self.urls > 0 {
                    self.close_block(BLOCK_BYTES)?;
                }
                self.index.push(key);
                self.buffer.extend_from_slice(&[0; BLOCK_HEADER_BYTES]);
            }
            self.group_at = self.buffer.len();
            self.host = host;
            self.buffer.extend_from_slice(&host.to_le_bytes());
            self.buffer.extend_from_slice(&[0; 4]);
        }
        self.buffer.extend_from_slice(&url.to_le_bytes());
        self.urls += 1;
        Ok(())
    }

    fn close_group(&mut self) {
        // A block holds far fewer than 2^32.
        let urls = (self.buffer.len() - self.group_at - GROUP_HEADER_BYTES) / 8;
        self.buffer[self.group_at + 8..][..4].copy_from_slice(&(urls as u32).to_le_bytes());
    }

    /// Fills the open block up to at least `bytes_min` bytes and closes it.
    fn close_block(&mut self, bytes_min: usize) -> Result<(), SeenError> {
        let groups = self.buffer.len() - self.block_at - BLOCK_HEADER_BYTES;
        self.buffer
            .resize(self.buffer.len().max(self.block_at + bytes_min), 0);
        let block = &mut self.buffer[self.block_at..];
        block[8..12].copy_from_slice(&(groups as u32).to_le_bytes());
        let sum = checksum(
            &block[8..],
            self.partition,
            self.generation,
            self.index.len() as u64 - 1,
        );
        block[..8].copy_from_slice(&sum.to_le_bytes());
        self.block_at = self.buffer.len();
        if self.buffer.len() >= BLOCKS_AT_ONCE * BLOCK_BYTES {
            self.write()
        } else {
            Ok(())
        }
    }

    fn write(&mut self) -> Result<(), SeenError> {
        self.folder.write(&self.file, self.written, &self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        self.block_at = 0;
        Ok(())
    }

    /// The run, complete.
    pub(super) fn finish(mut self) -> Result<Run, SeenError> {
        if self.urls > 0 {
            self.close_group();
            self.close_block(0)?;
        }
        let summed_at = self.buffer.len();
        for (host, url) in &self.index {
            self.buffer.extend_from_slice(&host.to_le_bytes());
            self.buffer.extend_from_slice(&url.to_le_bytes());
        }
        self.buffer.extend_from_slice(&self.urls.to_le_bytes());
        self.buffer
            .extend_from_slice(&(self.index.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(&VERSION.to_le_bytes());
        let sum = checksum(
            &self.buffer[summed_at..],
            self.partition,
            self.generation,
            u64::MAX,
        );
        self.buffer.extend_from_slice(&sum.to_le_bytes());
        self.write()?;
        self.folder.finish(&self.file)?;
        let RunWriter {
            file,
            partition,
            generation,
            mut index,
            urls,
            written,
            ..
        } = self;
        index.shrink_to_fit();
        let entry = RunRef {
            generation,
            urls,
            bytes: written,
        };
        Ok(Run {
            file: file.into_readable(),
            partition,
            entry,
            index,
        })
    }
}

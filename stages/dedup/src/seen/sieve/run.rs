//! A run: fingerprints of a partition, sorted by host and within a host by URL, in a file that never changes.
//!
//! ```text
//! run     = block*  index  tail          every block but the last has BLOCK_BYTES, filled up with zeros
//! block   = checksum of the rest (8)  bytes of groups (4)  0 (4)  group*
//! group   = host (8)  number of URLs (4)  URL (8)*           a group that does not fit goes on in the next block
//! index   = first host (8)  first URL (8)                    of each block
//! tail    = URLs (8)  blocks (4)  version (4)  checksum of index and tail before it (8)
//! ```
//! Numbers are little-endian; checksums are 64-bit xxh3, seeded with partition, generation and the number of the
//! block, so that a block in the wrong place is damage too.
//!
//! Invariants: keys ascend strictly; what is not as it was written is an error, never an answer.
//!
//! Sources: Heydon and Najork 1999, section 3.2 (a host's URLs lie together); Najork and Heydon 2001 and Lee et al.
//! 2008 (DRUM): questions are sorted and answered by one sequential pass.

use super::questions::Asked;
use crate::seen::Key;
use crate::seen::error::SeenError;
use crate::seen::folder::{Folder, Name, Readable, Writable, number};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of a block: large enough for its header and its place in the index not to count. Small in tests, so that
/// little data makes many blocks.
pub(super) const BLOCK_BYTES: usize = if cfg!(test) { 256 } else { 64 << 10 };
/// Blocks read or written at once.
pub(super) const BLOCKS_AT_ONCE: usize = 4;
const BLOCK_HEADER_BYTES: usize = 16;
const GROUP_HEADER_BYTES: usize = 12;
const TAIL_BYTES: usize = 24;
const INDEX_ENTRY_BYTES: usize = 16;
const VERSION: u32 = 1;

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
    file: Readable,
    partition: u16,
    entry: RunRef,
    /// First key of each block.
    index: Vec<Key>,
}

/// Memory for reading: a few blocks.
#[derive(Default)]
pub(super) struct Window {
    buffer: Vec<u8>,
    /// Number of the first block in it, and how many there are.
    first: usize,
    blocks: usize,
}

impl Window {
    pub(super) fn bytes(&self) -> usize {
        self.buffer.capacity()
    }
}

impl Run {
    /// Opens a run that was referred to; reads its index and checks that.
    pub(super) fn open(folder: &Folder, partition: u16, entry: RunRef) -> Result<Self, SeenError> {
        let file = folder.read(Name::Run { partition, generation: entry.generation }, entry.bytes)?;
        let wrong = || SeenError::damaged(&file.path, "its index is not as it was written");
        let tail_at = entry.bytes.checked_sub(TAIL_BYTES as u64).ok_or_else(wrong)?;
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
        let expected = [entry.urls.to_le_bytes().as_slice(), &tail[8..12], &VERSION.to_le_bytes()].concat();
        let sound = sum == checksum(summed, partition, entry.generation, u64::MAX).to_le_bytes()
            && summed[index_bytes..] == expected;
        if !sound {
            return Err(wrong());
        }
        let index = summed[..index_bytes].as_chunks::<INDEX_ENTRY_BYTES>().0.iter().map(key_of).collect();
        Ok(Run { file, partition, entry, index })
    }

    pub(super) fn entry(&self) -> RunRef {
        self.entry
    }

    pub(super) fn name(&self) -> Name {
        Name::Run { partition: self.partition, generation: self.entry.generation }
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
            let mut groups = Groups { rest: self.block(block, blocks.end - block, window)? };
            while let Some((host, urls)) = groups.next().map_err(|wrong| self.damaged(wrong))? {
                urls.iter().for_each(|url| visit((host, u64::from_le_bytes(*url))));
            }
        }
        Ok(())
    }

    /// Marks the questions whose keys are here, in one pass over the blocks that may hold one of them. Questions
    /// are sorted.
    pub(super) fn find(&self, asked: &mut [Asked], window: &mut Window) -> Result<(), SeenError> {
        window.blocks = 0;
        // With questions in most blocks, all are read, a few at a time; otherwise only those needed.
        let at_once = if asked.len() >= self.index.len() { BLOCKS_AT_ONCE } else { 1 };
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
        let Some((mut host, mut urls)) = groups.next().map_err(|wrong| self.damaged(wrong))? else { return Ok(()) };
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
                asked.found |= urls.first().is_some_and(|url| u64::from_le_bytes(*url) == asked_url);
            }
        }
        Ok(())
    }

    /// The groups of a block, checked. Reads a few blocks from it on when it is not in the window.
    fn block<'w>(&self, block: usize, at_once: usize, window: &'w mut Window) -> Result<&'w [u8], SeenError> {
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
            == Some(checksum(&bytes[8..], self.partition, self.entry.generation, block as u64));
        let groups = number(bytes, 8).map(u32::from_le_bytes).filter(|_| sound);
        groups
            .and_then(|groups| bytes.get(BLOCK_HEADER_BYTES..)?.get(..groups as usize))
            .ok_or_else(|| self.damaged("a block is not as it was written"))
    }

    /// Where the blocks end.
    fn index_at(&self) -> usize {
        usize::try_from(self.entry.bytes).unwrap_or(usize::MAX) - TAIL_BYTES - self.index.len() * INDEX_ENTRY_BYTES
    }

    fn damaged(&self, what: &'static str) -> SeenError {
        SeenError::damaged(&self.file.path, what)
    }
}

/// The groups of a block, or those after a place in it.
struct Groups<'b> {
    rest: &'b [u8],
}

/// A host and its URLs.
type Group<'b> = (u64, &'b [[u8; 8]]);

impl<'b> Groups<'b> {
    fn next(&mut self) -> Result<Option<Group<'b>>, &'static str> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let wrong = "a block's groups do not fit it";
        let (header, rest) = self.rest.split_first_chunk::<GROUP_HEADER_BYTES>().ok_or(wrong)?;
        let host = number(header, 0).map(u64::from_le_bytes).ok_or(wrong)?;
        let urls = number(header, 8).map(u32::from_le_bytes).ok_or(wrong)?;
        let (urls, rest) = rest.split_at_checked(urls as usize * 8).ok_or(wrong)?;
        self.rest = rest;
        Ok(Some((host, urls.as_chunks::<8>().0)))
    }
}

/// All keys of a run, in order.
struct RunKeys<'r> {
    run: &'r Run,
    window: Window,
    /// Block that the group is in, and where in its groups the next one begins.
    block: usize,
    next_group_at: usize,
    host: u64,
    /// URLs of the group not given yet: where the next lies in the window, and how many there are.
    url_at: usize,
    left: usize,
}

impl<'r> RunKeys<'r> {
    fn new(run: &'r Run) -> Self {
        RunKeys { run, window: Window::default(), block: 0, next_group_at: 0, host: 0, url_at: 0, left: 0 }
    }

    fn next(&mut self) -> Result<Option<Key>, SeenError> {
        while self.left == 0 {
            if self.block >= self.run.index.len() {
                return Ok(None);
            }
            self.next_group()?;
        }
        let Some(url) = number(&self.window.buffer, self.url_at).map(u64::from_le_bytes) else { return Ok(None) };
        self.url_at += 8;
        self.left -= 1;
        Ok(Some((self.host, url)))
    }

    /// The next group of the block, or on to the next block.
    fn next_group(&mut self) -> Result<(), SeenError> {
        let at_once = BLOCKS_AT_ONCE.min(self.run.index.len() - self.block);
        let in_window = (self.window.first..self.window.first + self.window.blocks).contains(&self.block);
        let groups = if in_window && self.next_group_at > 0 {
            // Checked when its first group was read.
            let at = (self.block - self.window.first) * BLOCK_BYTES;
            let bytes = number(&self.window.buffer, at + 8).map_or(0, u32::from_le_bytes) as usize;
            &self.window.buffer[at + BLOCK_HEADER_BYTES..][..bytes]
        } else {
            self.run.block(self.block, at_once, &mut self.window)?
        };
        let mut rest = Groups { rest: &groups[self.next_group_at..] };
        match rest.next().map_err(|wrong| self.run.damaged(wrong))? {
            Some((host, urls)) => {
                let groups_bytes = groups.len();
                let (rest, left) = (rest.rest.len(), urls.len());
                let groups_at = (self.block - self.window.first) * BLOCK_BYTES + BLOCK_HEADER_BYTES;
                self.url_at = groups_at + self.next_group_at + GROUP_HEADER_BYTES;
                self.next_group_at = groups_bytes - rest;
                (self.host, self.left) = (host, left);
            }
            None => (self.block, self.next_group_at) = (self.block + 1, 0),
        }
        Ok(())
    }
}

/// Visits all keys of the runs and of the sorted keys, in order and each once.
pub(super) fn merge(
    runs: &[&Run],
    keys: &[Key],
    visit: &mut dyn FnMut(Key) -> Result<(), SeenError>,
) -> Result<(), SeenError> {
    let mut sources: Vec<RunKeys<'_>> = runs.iter().map(|run| RunKeys::new(run)).collect();
    let mut heads = Vec::with_capacity(sources.len());
    for source in &mut sources {
        heads.push(source.next()?);
    }
    let mut keys = keys.iter().copied();
    let mut head = keys.next();
    let mut last = None;
    loop {
        // At most two runs and the keys: nothing faster than looking at each.
        let least = heads.iter().copied().flatten().chain(head).min();
        let Some(key) = least else { return Ok(()) };
        if head == least {
            head = keys.next();
        }
        for (next, source) in heads.iter_mut().zip(&mut sources) {
            if *next == least {
                *next = source.next()?;
            }
        }
        if last.is_some_and(|last| last >= key) {
            return Err(SeenError::damaged(
                &runs.first().map(|run| run.file.path.clone()).unwrap_or_default(),
                "its keys do not ascend",
            ));
        }
        last = least;
        visit(key)?;
    }
}

/// Writes a run, key by key.
pub(super) struct RunWriter<'f> {
    folder: &'f Folder,
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

impl<'f> RunWriter<'f> {
    pub(super) fn create(folder: &'f Folder, partition: u16, generation: u64) -> Result<Self, SeenError> {
        let file = folder.create(Name::Run { partition, generation })?;
        let buffer = Vec::with_capacity(BLOCKS_AT_ONCE * BLOCK_BYTES);
        let index = Vec::new();
        let (urls, written, block_at, group_at, host) = (0, 0, 0, 0, 0);
        Ok(RunWriter { folder, file, partition, generation, index, urls, written, buffer, block_at, group_at, host })
    }

    /// Appends a key, which is after the last one.
    pub(super) fn push(&mut self, key: Key) -> Result<(), SeenError> {
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

    /// Fills the open block up to so many bytes at least.
    fn close_block(&mut self, bytes_min: usize) -> Result<(), SeenError> {
        let groups = self.buffer.len() - self.block_at - BLOCK_HEADER_BYTES;
        self.buffer.resize(self.buffer.len().max(self.block_at + bytes_min), 0);
        let block = &mut self.buffer[self.block_at..];
        block[8..12].copy_from_slice(&(groups as u32).to_le_bytes());
        let sum = checksum(&block[8..], self.partition, self.generation, self.index.len() as u64 - 1);
        block[..8].copy_from_slice(&sum.to_le_bytes());
        self.block_at = self.buffer.len();
        if self.buffer.len() >= BLOCKS_AT_ONCE * BLOCK_BYTES { self.write() } else { Ok(()) }
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
        self.buffer.extend_from_slice(&(self.index.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(&VERSION.to_le_bytes());
        let sum = checksum(&self.buffer[summed_at..], self.partition, self.generation, u64::MAX);
        self.buffer.extend_from_slice(&sum.to_le_bytes());
        self.write()?;
        self.folder.finish(&self.file)?;
        let RunWriter { file, partition, generation, mut index, urls, written, .. } = self;
        index.shrink_to_fit();
        let entry = RunRef { generation, urls, bytes: written };
        Ok(Run { file: file.into_readable(), partition, entry, index })
    }
}

/// Checksum of a part of a run; `part` is the number of the block.
fn checksum(bytes: &[u8], partition: u16, generation: u64, part: u64) -> u64 {
    xxh3_64_with_seed(bytes, generation.rotate_left(32) ^ (u64::from(partition) << 48) ^ part)
}

fn key_of(bytes: &[u8; INDEX_ENTRY_BYTES]) -> Key {
    let host = number(bytes, 0).map_or(0, u64::from_le_bytes);
    (host, number(bytes, 8).map_or(0, u64::from_le_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Folder, keys: &[Key]) -> Run {
        let mut writer = RunWriter::create(folder, 3, 7).unwrap();
        keys.iter().for_each(|&key| writer.push(key).unwrap());
        writer.finish().unwrap()
    }

    fn all(runs: &[&Run], keys: &[Key]) -> Vec<Key> {
        let mut found = Vec::new();
        let visited = merge(runs, keys, &mut |key| {
            found.push(key);
            Ok(())
        });
        visited.unwrap();
        found
    }

    #[test]
    fn keys_come_back_and_are_found_whatever_the_sizes_of_the_groups() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path().into(), false).unwrap();
        for urls_of_host in [1, 2, 3, 27, 28, 29, 100, 1_000] {
            for hosts in [0, 1, 2, 9, 40] {
                // Odd numbers are there, even ones are not.
                let keys: Vec<Key> =
                    (0..hosts).flat_map(|h| (0..urls_of_host).map(move |u| (h * 2 + 1, u * 2 + 1))).collect();
                let written = write(&folder, &keys);
                let run = Run::open(&folder, 3, written.entry()).unwrap();
                assert_eq!(run.index, written.index);
                assert_eq!(all(&[&run], &[]), keys);
                let mut asked: Vec<Asked> = (0..hosts * 2 + 2)
                    .flat_map(|h| (0..urls_of_host * 2 + 2).map(move |u| (h, u)))
                    .map(|key| Asked { key, place: 0, found: false })
                    .collect();
                let all = asked.len();
                for part in [1, 7, all] {
                    asked.iter_mut().for_each(|asked| asked.found = false);
                    for asked in asked.chunks_mut(part.max(all / 50)) {
                        run.find(asked, &mut Window::default()).unwrap();
                    }
                    for Asked { key, found, .. } in &asked {
                        assert_eq!(*found, keys.binary_search(key).is_ok(), "{key:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn merged_keys_are_in_order_and_each_there_once() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path().into(), false).unwrap();
        let a = write(&folder, &(0..300).map(|n| (n / 50, n * 3)).collect::<Vec<_>>());
        let extremes = [(0, 0), (0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX)];
        let mut writer = RunWriter::create(&folder, 3, 8).unwrap();
        extremes.iter().for_each(|&key| writer.push(key).unwrap());
        let b = writer.finish().unwrap();
        let keys = [(0, 0), (2, 301), (2, 302)];
        let merged = all(&[&a, &b], &keys);
        assert!(merged.is_sorted_by(|a, b| a < b));
        // (0, 0) is in all three.
        assert_eq!(merged.len(), 300 + 4 + 3 - 2);
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path().into(), false).unwrap();
        let keys: Vec<Key> = (0..60).map(|n| (n / 7, n)).collect();
        let entry = write(&folder, &keys).entry();
        let path = folder.path_of(Name::Run { partition: 3, generation: 7 });
        let sound = std::fs::read(&path).unwrap();
        for at in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&path, damaged).unwrap();
            let error = Run::open(&folder, 3, entry).and_then(|run| merge(&[&run], &[], &mut |_| Ok(())));
            let text = error.unwrap_err().to_string();
            assert!(text.contains("00003.00000007.run") && text.contains("from a copy"), "{text}");
        }
        std::fs::write(&path, &sound[1..]).unwrap();
        assert!(Run::open(&folder, 3, entry).is_err());
    }
}

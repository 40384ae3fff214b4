//! The log: what became known, in the order of the commits; for the sieve, since its runs were
//! made.
//!
//! ```text
//! log     = magic (4)  version (4)  generation (8)  record*
//! record  = checksum of the rest (8)  keys (4)  partition (2)  0 (2)  (host (8)  URL (8))*
//! ```
//! Numbers are little-endian; the checksum is 64-bit xxh3, seeded with the generation and the
//! record's place.
//!
//! Invariants: a record is written before the length that includes it is committed; what lies
//! beyond the committed length is cut off when the log is opened; what lies below it and is not as
//! it was written is an error.

use super::Key;
use super::error::SeenError;
use super::folder::{Folder, Name, Writable, failed, number};
use std::io::{BufReader, Read};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A place in the logs: a log's generation and an offset. Later places are greater.
pub(super) type LogPosition = (u64, u64);

/// Takes the records of a log: where each begins, its partition, its keys. Its error ends the
/// reading.
pub(super) type VisitRecord<'a> = dyn FnMut(LogPosition, u16, &[Key]) -> Result<(), SeenError> + 'a;

const MAGIC: [u8; 4] = *b"RHSL";
const VERSION: u32 = 1;
/// Length of a log without records.
const HEADER_BYTES: u64 = 16;
const RECORD_HEADER_BYTES: usize = 16;
const KEY_BYTES: usize = 16;
/// So much is long; small in tests, so that it happens.
const PENDING_BYTES: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// A log that is appended to.
pub(super) struct Log {
    file: Writable,
    generation: u64,
    length: u64,
    /// Records to be written.
    pending: Vec<u8>,
}

impl Log {
    /// A new log without records.
    pub(super) fn create(folder: &Folder, generation: u64) -> Result<Self, SeenError> {
        let file = folder.create(Name::Log { generation })?;
        folder.write(&file, 0, &header(generation))?;
        folder.finish(&file)?;
        Ok(Log {
            file,
            generation,
            length: HEADER_BYTES,
            pending: Vec::new(),
        })
    }

    /// Opens a log and visits its records: where each begins, its partition, its keys.
    pub(super) fn open(
        folder: &Folder,
        generation: u64,
        length: u64,
        visit: &mut VisitRecord<'_>,
    ) -> Result<Self, SeenError> {
        let file = Log::read(folder, generation, length, visit)?;
        folder.cut(&file, length)?;
        Ok(Log {
            file,
            generation,
            length,
            pending: Vec::new(),
        })
    }

    /// Visits the records that are written.
    pub(super) fn visit(
        &self,
        folder: &Folder,
        visit: &mut VisitRecord<'_>,
    ) -> Result<(), SeenError> {
        Log::read(folder, self.generation, self.length, visit).map(|_| ())
    }

    fn read(
        folder: &Folder,
        generation: u64,
        length: u64,
        visit: &mut VisitRecord<'_>,
    ) -> Result<Writable, SeenError> {
        let file = folder.reopen(Name::Log { generation }, length)?;
        let wrong = || SeenError::damaged(&file.path, "a record is not as it was written");
        let mut reader = BufReader::with_capacity(256 << 10, file.reader()).take(length);
        let mut read = |buffer: &mut [u8]| {
            reader
                .read_exact(buffer)
                .map_err(failed("read", &file.path))
        };
        let mut found = [0; HEADER_BYTES as usize];
        let mut at = HEADER_BYTES;
        if length < at {
            return Err(wrong());
        }
        read(&mut found)?;
        if found != header(generation) {
            return Err(wrong());
        }
        let mut record = Vec::new();
        let mut keys = Vec::new();
        while at < length {
            let left = usize::try_from(length - at).unwrap_or(usize::MAX);
            record.resize(RECORD_HEADER_BYTES, 0);
            if left < record.len() {
                return Err(wrong());
            }
            read(&mut record)?;
            let count = number(&record, 8).map_or(0, u32::from_le_bytes) as usize;
            let partition = number(&record, 12).map_or(0, u16::from_le_bytes);
            // Looked at before memory is taken for it.
            if count.saturating_mul(KEY_BYTES) > left - RECORD_HEADER_BYTES {
                return Err(wrong());
            }
            record.resize(RECORD_HEADER_BYTES + count * KEY_BYTES, 0);
            read(&mut record[RECORD_HEADER_BYTES..])?;
            if number(&record, 0).map(u64::from_le_bytes)
                != Some(checksum(&record[8..], generation, at))
            {
                return Err(wrong());
            }
            keys.clear();
            keys.extend(
                record[RECORD_HEADER_BYTES..]
                    .as_chunks::<KEY_BYTES>()
                    .0
                    .iter()
                    .map(key_of),
            );
            visit((generation, at), partition, &keys)?;
            at += record.len() as u64;
        }
        Ok(file)
    }

    pub(super) fn name(&self) -> Name {
        Name::Log {
            generation: self.generation,
        }
    }

    /// A record that is added next begins here or later.
    pub(super) fn end(&self) -> LogPosition {
        (self.generation, self.length)
    }

    /// Bytes written.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Adds a record, to be written by the next [`Log::write`].
    pub(super) fn add(&mut self, partition: u16, keys: &[Key]) {
        // A record of 2^32 keys would be one of 64 GB: they are in memory.
        for keys in keys.chunks(u32::MAX as usize) {
            let begin = self.pending.len();
            self.pending.extend_from_slice(&[0; 8]);
            self.pending
                .extend_from_slice(&(keys.len() as u32).to_le_bytes());
            self.pending.extend_from_slice(&partition.to_le_bytes());
            self.pending.extend_from_slice(&[0; 2]);
            for (host, url) in keys {
                self.pending.extend_from_slice(&host.to_le_bytes());
                self.pending.extend_from_slice(&url.to_le_bytes());
            }
            let sum = checksum(
                &self.pending[begin + 8..],
                self.generation,
                self.length + begin as u64,
            );
            self.pending[begin..begin + 8].copy_from_slice(&sum.to_le_bytes());
        }
    }

    /// Writes what was added, if it is long: so adding much takes little memory.
    pub(super) fn write_long(&mut self, folder: &Folder) -> Result<(), SeenError> {
        if self.pending.len() < PENDING_BYTES {
            Ok(())
        } else {
            self.write(folder)
        }
    }

    /// Writes what was added.
    pub(super) fn write(&mut self, folder: &Folder) -> Result<(), SeenError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        folder.write(&self.file, self.length, &self.pending)?;
        folder.sync(&self.file)?;
        self.length += self.pending.len() as u64;
        // A large one is rare: after a long time without a commit.
        self.pending.clear();
        self.pending.shrink_to(64 << 10);
        Ok(())
    }
}

fn header(generation: u64) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    header[..4].copy_from_slice(&MAGIC);
    header[4..8].copy_from_slice(&VERSION.to_le_bytes());
    header[8..].copy_from_slice(&generation.to_le_bytes());
    header
}

fn checksum(record: &[u8], generation: u64, at: u64) -> u64 {
    xxh3_64_with_seed(record, generation.rotate_left(40) ^ at)
}

fn key_of(bytes: &[u8; KEY_BYTES]) -> Key {
    let host = number(bytes, 0).map_or(0, u64::from_le_bytes);
    (host, number(bytes, 8).map_or(0, u64::from_le_bytes))
}

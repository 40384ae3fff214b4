//! What is committed: a few bytes that name what a store has on the disk.
//!
//! ```text
//! state     = version (4)  0 (4)  manifest's generation or 0 (8)  manifest's checksum (8)
//!             log's generation (8)  log's length (8)  last log's generation or 0 (8)  last log's length (8)
//!             checksum of all before it (8)
//! ```
//! It is committed with every step. The sieve's runs change rarely, so they are named in a file of
//! their own, the manifest; without one the logs hold all.

use super::error::SeenError;
use super::folder::Folder;
use super::log::LogPosition;
use xxhash_rust::xxh3::xxh3_64;

const VERSION: u32 = 1;
const STATE_BYTES: usize = 64;
const CHECKSUM_BYTES: usize = 8;

/// What the caller commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Generation and checksum of the manifest; none before the first merge.
    pub(super) manifest: Option<(u64, u64)>,
    /// End of the log that is appended to.
    pub(super) log: LogPosition,
    /// End of the one before it, as long as not all that it holds is in runs.
    pub(super) last_log: Option<LogPosition>,
}

impl State {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let (generation, sum) = self.manifest.unwrap_or((0, 0));
        let log = self.log;
        let last = self.last_log.unwrap_or((0, 0));
        let numbers = [
            u64::from(VERSION),
            generation,
            sum,
            log.0,
            log.1,
            last.0,
            last.1,
        ];
        with_checksum(numbers.into_iter().flat_map(u64::to_le_bytes).collect())
    }

    /// The state of the store in a folder.
    pub(super) fn from_bytes(bytes: &[u8], folder: &Folder) -> Result<Self, SeenError> {
        let refused = |what| SeenError::State {
            folder: folder.path().display().to_string(),
            what,
        };
        State::read(bytes).map_err(refused)
    }

    /// Says what is wrong with the bytes, if they are none that were made here.
    fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        let numbers: Vec<u64> = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|bytes| u64::from_le_bytes(*bytes))
            .collect();
        let version = numbers.first().copied();
        if version.is_some_and(|version| version != u64::from(VERSION)) {
            return Err("its version is unknown");
        }
        if bytes.len() != STATE_BYTES || !checksum_fits(bytes) {
            return Err("its checksum is wrong");
        }
        let &[_, generation, sum, log, log_length, last, last_length, _] = numbers.as_slice()
        else {
            return Err("its length is wrong");
        };
        let some = |generation, number| (generation != 0).then_some((generation, number));
        Ok(State {
            manifest: some(generation, sum),
            log: (log, log_length),
            last_log: some(last, last_length),
        })
    }
}

/// The bytes and their checksum.
pub(super) fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = xxh3_64(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

fn checksum_fits(bytes: &[u8]) -> bool {
    bytes
        .split_last_chunk::<CHECKSUM_BYTES>()
        .is_some_and(|(rest, sum)| xxh3_64(rest).to_le_bytes() == *sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_and_every_changed_byte_is_noticed() {
        for manifest in [None, Some((7, u64::MAX))] {
            let state = State {
                manifest,
                log: (3, u64::MAX),
                last_log: manifest,
            };
            let bytes = state.to_bytes();
            assert_eq!(State::read(&bytes), Ok(state));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert!(State::read(&damaged).is_err());
                assert!(State::read(&bytes[..at]).is_err());
            }
        }
    }
}

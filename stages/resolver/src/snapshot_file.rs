//! Where the names that are known wait for the next life of the process.
//!
//! In: a snapshot. Out: it, and how long ago it was written. A file is whole or absent: a new one
//! is written beside it and takes its place. What is damaged, or was written in the future, counts
//! as absent.
//!
//! The file: a mark, the time of writing in milliseconds since 1970, a checksum of all the rest,
//! the snapshot.

use rhumb_telemetry::whole_file;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const MARK: &[u8; 8] = b"rhumbdns";

/// The file.
#[derive(Clone, Debug)]
pub struct SnapshotFile(PathBuf);

impl SnapshotFile {
    /// The one in an instance's folder, which need not exist.
    pub fn new(folder: &Path) -> Self {
        SnapshotFile(folder.join("names"))
    }

    /// Puts a snapshot in the place of the last one.
    pub fn write(&self, snapshot: &[u8]) -> io::Result<()> {
        self.write_at(SystemTime::now(), snapshot)
    }

    /// The last snapshot and its age; if there is none that can be used although there is a file, a
    /// line in the log says why.
    pub fn read(&self) -> Option<(Vec<u8>, Duration)> {
        let reason = match std::fs::read(&self.0) {
            Ok(bytes) => match parse(&bytes, SystemTime::now()) {
                Ok((snapshot, age)) => return Some((snapshot.to_vec(), age)),
                Err(reason) => reason.to_owned(),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => error.to_string(),
        };
        tracing::warn!(file = %self.0.display(), reason, "begins without the names of an earlier life");
        None
    }

    fn write_at(&self, time: SystemTime, snapshot: &[u8]) -> io::Result<()> {
        let millis = u64::try_from(
            time.duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_millis(),
        )
        .unwrap_or(u64::MAX);
        let mut bytes = Vec::with_capacity(24 + snapshot.len());
        bytes.extend_from_slice(MARK);
        bytes.extend_from_slice(&millis.to_le_bytes());
        bytes.extend_from_slice(&xxh3_64_with_seed(snapshot, millis).to_le_bytes());
        bytes.extend_from_slice(snapshot);
        whole_file::replace(&self.0, &bytes)
    }
}

fn parse(bytes: &[u8], now: SystemTime) -> Result<(&[u8], Duration), &'static str> {
    let damaged = "it is damaged";
    let bytes = bytes.strip_prefix(MARK).ok_or(damaged)?;
    let (millis, bytes) = bytes.split_first_chunk().ok_or(damaged)?;
    let (checksum, snapshot) = bytes.split_first_chunk().ok_or(damaged)?;
    let millis = u64::from_le_bytes(*millis);
    if xxh3_64_with_seed(snapshot, millis) != u64::from_le_bytes(*checksum) {
        return Err(damaged);
    }
    let written = UNIX_EPOCH
        .checked_add(Duration::from_millis(millis))
        .ok_or(damaged)?;
    let age = now
        .duration_since(written)
        .map_err(|_| "the clock was set back since it was written")?;
    Ok((snapshot, age))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_snapshot_comes_back_with_its_age() {
        let folder = tempfile::tempdir().unwrap();
        let file = SnapshotFile::new(&folder.path().join("resolver/3"));
        assert_eq!(file.read(), None);
        file.write(b"first").unwrap();
        file.write_at(SystemTime::now() - Duration::from_secs(100), b"second")
            .unwrap();
        let (snapshot, age) = SnapshotFile::new(&folder.path().join("resolver/3"))
            .read()
            .unwrap();
        assert_eq!(snapshot, b"second");
        assert!((100..160).contains(&age.as_secs()), "{age:?}");
        let left = std::fs::read_dir(folder.path().join("resolver/3"))
            .unwrap()
            .count();
        assert_eq!(left, 1, "nothing is left beside it");
    }

    #[test]
    fn what_was_written_in_the_future_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = SnapshotFile::new(folder.path());
        file.write_at(SystemTime::now() + Duration::from_secs(100), b"x")
            .unwrap();
        assert_eq!(file.read(), None);
    }

    /// Method: every byte of a file changed, every length of it.
    #[test]
    fn a_damaged_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = SnapshotFile::new(folder.path());
        file.write(b"some names").unwrap();
        let whole = std::fs::read(&file.0).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            std::fs::write(&file.0, &changed).unwrap();
            assert_eq!(file.read(), None, "byte {at}");
            std::fs::write(&file.0, &whole[..at]).unwrap();
            assert_eq!(file.read(), None, "{at} bytes");
        }
        std::fs::write(&file.0, &whole).unwrap();
        assert!(file.read().is_some());
    }
}

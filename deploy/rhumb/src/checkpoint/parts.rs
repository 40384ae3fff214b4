//! The parts of a partition in a file: each compressed, after its length (4 bytes, little-endian).
//!
//! In: parts, in their order. Out: the file, with its checksum; the parts again.

use super::saved::{SavedFile, SavedPartition, hex};
use anyhow::Context as _;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// A part that is longer is none.
const PART_BYTES_MAX: u32 = 64 << 20;

/// A file that is being written.
pub(crate) struct PartsFile {
    path: PathBuf,
    name: String,
    file: BufWriter<File>,
    hash: Sha256,
    bytes: u64,
    /// Parts in it.
    pub(crate) parts: u32,
}

impl PartsFile {
    /// Begins the file of a partition in the folder of a checkpoint.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn begin(folder: &Path, stage: &str, partition: u16) -> anyhow::Result<PartsFile> {
        let name = format!("{stage}/{partition:05}.parts");
        let path = folder.join(&name);
        let failed = || format!("cannot make {}", path.display());
        std::fs::create_dir_all(folder.join(stage)).with_context(failed)?;
        let file = BufWriter::new(File::create(&path).with_context(failed)?);
        Ok(PartsFile {
            path,
            name,
            file,
            hash: Sha256::new(),
            bytes: 0,
            parts: 0,
        })
    }

    /// Appends a part.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn push(&mut self, part: &[u8]) -> anyhow::Result<()> {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes();
        for bytes in [length.as_slice(), part] {
            self.file
                .write_all(bytes)
                .with_context(|| format!("cannot write {}", self.path.display()))?;
            self.hash.update(bytes);
            self.bytes += bytes.len() as u64;
        }
        self.parts += 1;
        Ok(())
    }

    /// All parts are in it, and on the disk.
    ///
    /// # Errors
    /// They cannot be written.
    pub(crate) fn finish(self, of: SavedPartition) -> anyhow::Result<SavedFile> {
        let PartsFile {
            path,
            name,
            file,
            hash,
            bytes,
            ..
        } = self;
        let failed = || format!("cannot write {}", path.display());
        let file = file
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)
            .with_context(failed)?;
        file.sync_all().with_context(failed)?;
        Ok(SavedFile {
            path: name,
            bytes,
            sha256: hex(&hash.finalize()),
            of: Some(of),
        })
    }
}

/// A file that is read.
pub(crate) struct PartsReader {
    path: PathBuf,
    file: BufReader<File>,
}

impl PartsReader {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn open(path: &Path) -> anyhow::Result<PartsReader> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(PartsReader {
            path: path.to_owned(),
            file: BufReader::new(file),
        })
    }

    /// The next part; none after the last.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        let failed = || format!("cannot read {}", self.path.display());
        let mut length = [0; 4];
        match self.file.read_exact(&mut length) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read.with_context(failed)?,
        }
        let length = u32::from_le_bytes(length);
        anyhow::ensure!(
            length <= PART_BYTES_MAX,
            "{} has no parts: one would be {length} bytes long",
            self.path.display()
        );
        let mut part = vec![0; length as usize];
        self.file.read_exact(&mut part).with_context(failed)?;
        Ok(Some(part.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_out_as_they_went_in() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = PartsFile::begin(folder.path(), "dedup", 7).unwrap();
        for part in [b"one".as_slice(), b"", b"three"] {
            file.push(part).unwrap();
        }
        let saved = file
            .finish(SavedPartition {
                stage: "dedup".into(),
                partition: 7,
                version: 1,
            })
            .unwrap();
        assert_eq!(
            (saved.path.as_str(), saved.bytes),
            ("dedup/00007.parts", 20)
        );
        let path = folder.path().join(&saved.path);
        assert_eq!(
            saved.sha256,
            hex(&Sha256::digest(std::fs::read(&path).unwrap()))
        );
        let mut reader = PartsReader::open(&path).unwrap();
        let parts: Vec<Bytes> = std::iter::from_fn(|| reader.next().unwrap()).collect();
        assert_eq!(parts, [b"one".as_slice(), b"", b"three"]);
        std::fs::write(&path, [255; 8]).unwrap();
        let error = PartsReader::open(&path)
            .unwrap()
            .next()
            .unwrap_err()
            .to_string();
        assert!(error.contains("has no parts"), "{error}");
    }
}

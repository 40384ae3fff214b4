//! The files of a URL-seen store: every change to the disk is made here.
//!
//! A file is made under a name that was never referred to, and is complete (and, if asked for, on
//! the disk itself) before anything refers to it; the log alone grows after that. Files are told
//! apart by a generation, a number that grows with each file made.

use super::error::SeenError;
use std::collections::HashSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The name of a file of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Name {
    /// Sorted fingerprints of a partition.
    Run { partition: u16, generation: u64 },
    /// What became known since the runs were made.
    Log { generation: u64 },
    /// Which runs there are.
    Manifest { generation: u64 },
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Run {
                partition,
                generation,
            } => write!(f, "{partition:05}.{generation:08}.run"),
            Name::Log { generation } => write!(f, "{generation:08}.log"),
            Name::Manifest { generation } => write!(f, "{generation:08}.manifest"),
        }
    }
}

impl Name {
    /// None for a file that is none of a store's.
    fn parse(text: &str) -> Option<Name> {
        let parts: Vec<&str> = text.split('.').collect();
        let name = match *parts.as_slice() {
            [partition, generation, "run"] => Name::Run {
                partition: partition.parse().ok()?,
                generation: generation.parse().ok()?,
            },
            [generation, "log"] => Name::Log {
                generation: generation.parse().ok()?,
            },
            [generation, "manifest"] => Name::Manifest {
                generation: generation.parse().ok()?,
            },
            _ => return None,
        };
        (name.to_string() == text).then_some(name)
    }
}

/// The folder of a store.
#[derive(Clone)]
pub(super) struct Folder {
    path: PathBuf,
    /// Returns whether what is finished is on the disk itself, so that it survives a power cut.
    sync: bool,
}

impl Folder {
    /// Makes the folder if it is not there.
    pub(super) fn open(path: PathBuf, sync: bool) -> Result<Self, SeenError> {
        std::fs::create_dir_all(&path).map_err(failed("make the folder", &path))?;
        Ok(Folder { path, sync })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn path_of(&self, name: Name) -> PathBuf {
        self.path.join(name.to_string())
    }

    /// The store's files that are there, in no order.
    pub(super) fn names(&self) -> Result<Vec<Name>, SeenError> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(failed("list", &self.path))? {
            let entry = entry.map_err(failed("list", &self.path))?;
            names.extend(entry.file_name().to_str().and_then(Name::parse));
        }
        Ok(names)
    }

    /// A new, empty file.
    pub(super) fn create(&self, name: Name) -> Result<Writable, SeenError> {
        self.before_change();
        let path = self.path_of(name);
        let options = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path);
        Ok(Writable {
            file: options.map_err(failed("make", &path))?,
            path,
        })
    }

    /// Opens a file that grows. It must be there with at least `bytes_min` bytes.
    pub(super) fn reopen(&self, name: Name, bytes_min: u64) -> Result<Writable, SeenError> {
        let path = self.path_of(name);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(missing(&path))?;
        let found = file.metadata().map_err(failed("read", &path))?.len();
        if found < bytes_min {
            return Err(SeenError::damaged(&path, "it is shorter than it was"));
        }
        Ok(Writable { file, path })
    }

    /// Cuts a file to `bytes` bytes: nothing refers to what lies beyond them.
    pub(super) fn cut(&self, writable: &Writable, bytes: u64) -> Result<(), SeenError> {
        self.before_change();
        writable
            .file
            .set_len(bytes)
            .map_err(failed("cut", &writable.path))
    }

    /// Opens a file that must be there with exactly `bytes` bytes.
    pub(super) fn read(&self, name: Name, bytes: u64) -> Result<Readable, SeenError> {
        let path = self.path_of(name);
        let file = File::open(&path).map_err(missing(&path))?;
        let found = file.metadata().map_err(failed("read", &path))?.len();
        if found != bytes {
            return Err(SeenError::damaged(
                &path,
                "it has another length than it had",
            ));
        }
        Ok(Readable { file, path })
    }

    /// The whole of a file that must be there; never more than `bytes_max`.
    pub(super) fn read_all(&self, name: Name, bytes_max: u64) -> Result<Vec<u8>, SeenError> {
        let path = self.path_of(name);
        let found = std::fs::metadata(&path).map_err(missing(&path))?.len();
        if found > bytes_max {
            return Err(SeenError::damaged(&path, "it is longer than it was"));
        }
        std::fs::read(&path).map_err(failed("read", &path))
    }

    /// Appends at a place that was never referred to.
    pub(super) fn write(
        &self,
        writable: &Writable,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), SeenError> {
        // In tests a write is made in two, so that a crash between them is seen too.
        let (first, second) = bytes.split_at(if cfg!(test) { bytes.len() / 2 } else { 0 });
        for (offset, part) in [(offset, first), (offset + first.len() as u64, second)] {
            if !part.is_empty() {
                self.before_change();
                writable
                    .file
                    .write_all_at(part, offset)
                    .map_err(failed("write", &writable.path))?;
            }
        }
        Ok(())
    }

    /// After this the file survives what the settings ask for, under its name.
    pub(super) fn finish(&self, writable: &Writable) -> Result<(), SeenError> {
        if self.sync {
            writable
                .file
                .sync_all()
                .map_err(failed("sync", &writable.path))?;
            let folder = File::open(&self.path).map_err(failed("sync", &self.path))?;
            folder.sync_all().map_err(failed("sync", &self.path))?;
        }
        Ok(())
    }

    /// After this the bytes written survive what the settings ask for; for a file that was finished
    /// once.
    pub(super) fn sync(&self, writable: &Writable) -> Result<(), SeenError> {
        if self.sync {
            writable
                .file
                .sync_data()
                .map_err(failed("sync", &writable.path))?;
        }
        Ok(())
    }

    /// Removes a file; one that is gone already is no error.
    pub(super) fn remove(&self, name: Name) -> Result<(), SeenError> {
        self.before_change();
        let path = self.path_of(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes the store's files that were never named by what was committed, or are not any more.
    pub(super) fn remove_all_but(&self, named: &HashSet<Name>) -> Result<(), SeenError> {
        self.names()?
            .into_iter()
            .filter(|name| !named.contains(name))
            .try_for_each(|name| self.remove(name))
    }

    /// Here a process may die.
    fn before_change(&self) {
        #[cfg(test)]
        super::tests::before_change(&self.path);
    }
}

/// A file that is being written.
pub(super) struct Writable {
    file: File,
    pub(super) path: PathBuf,
}

impl Writable {
    /// The file, finished, to be read.
    pub(super) fn into_readable(self) -> Readable {
        Readable {
            file: self.file,
            path: self.path,
        }
    }

    /// Returns the file for sequential reading from the start.
    pub(super) fn reader(&self) -> &File {
        &self.file
    }
}

/// A file that is complete.
pub(super) struct Readable {
    file: File,
    pub(super) path: PathBuf,
}

impl Readable {
    /// Fills the buffer from the offset on.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SeenError> {
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    SeenError::damaged(&self.path, "it is shorter than it was")
                }
                _ => failed("read", &self.path)(error),
            })
    }
}

pub(super) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SeenError {
    move |error| SeenError::Io {
        action,
        path: path.display().to_string(),
        error,
    }
}

/// A file that is referred to and not there is damage, not a failure that goes away.
fn missing(path: &Path) -> impl FnOnce(io::Error) -> SeenError {
    move |error| match error.kind() {
        io::ErrorKind::NotFound => SeenError::damaged(path, "it is missing"),
        _ => failed("open", path)(error),
    }
}

/// The number at a place of a file's bytes; none when they end before it.
pub(super) fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

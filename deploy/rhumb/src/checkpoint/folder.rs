//! The folder of a checkpoint that is being written.
//!
//! In: a folder that is not there, or is empty, or has what an earlier try has left. Out: a
//! checkpoint, or nothing. Invariant: the file [`UNFINISHED`] lies there, and is locked, until the
//! checkpoint is whole; so what a try that was killed has left is known, and nothing of anybody
//! else is ever removed.

use super::manifest::{CONFIGURATION, MANIFEST, Manifest};
use super::parts::PartsFile;
use super::saved::{SavedFile, hex};
use crate::stages::WITH_STATE;
use anyhow::Context as _;
use rhumb_config::identity::Misfit;
use rhumb_telemetry::whole_file;
use rustix::fs::{FlockOperation, flock, statvfs};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The file that lies in the folder while the checkpoint is not whole.
pub(crate) const UNFINISHED: &str = "checkpoint.unfinished";
/// What is said of a folder that another command writes.
const TAKEN: &str = "is where another command is taking a checkpoint";
/// What is to be free beside what is written.
const SPARE_BYTES: u64 = 64 << 20;

/// The folder. When it is dropped before the checkpoint is whole, what was written goes.
pub(crate) struct Folder {
    path: PathBuf,
    /// Whether this has made the folder itself.
    is_new: bool,
    /// Held, not read.
    _lock: File,
    is_whole: bool,
}

impl Folder {
    /// Begins a checkpoint in a folder, which is made if there is none.
    ///
    /// # Errors
    /// It has a checkpoint, or anything else in it; another process writes one there; or it cannot
    /// be written.
    pub(crate) fn begin(path: &Path) -> anyhow::Result<Folder> {
        let place = path.display();
        let refused = |what: &str| {
            anyhow::Error::from(Misfit(format!(
                "{place} {what}: name another folder, or remove it"
            )))
        };
        let is_new = !path.exists();
        if path.join(MANIFEST).exists() {
            return Err(refused("holds a checkpoint already"));
        }
        fs::create_dir_all(path).with_context(|| format!("cannot make the folder {place}"))?;
        let is_empty = fs::read_dir(path)
            .with_context(|| format!("cannot read {place}"))?
            .next()
            .is_none();
        if !is_empty && !path.join(UNFINISHED).exists() {
            return Err(refused("is not empty, and what is in it is no checkpoint"));
        }
        let marker = path.join(UNFINISHED);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&marker);
        let lock = lock.with_context(|| format!("cannot write into {place}"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(refused(TAKEN)),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot lock {}", marker.display()));
            }
        }
        // Who had the lock before may have ended since: without the marker, and perhaps with a
        // checkpoint.
        if !is_of(&lock, &marker) {
            return Err(refused(TAKEN));
        }
        if path.join(MANIFEST).exists() {
            let _ = fs::remove_file(&marker);
            return Err(refused("holds a checkpoint already"));
        }
        let folder = Folder {
            path: path.to_owned(),
            is_new,
            _lock: lock,
            is_whole: false,
        };
        folder.remove_parts();
        Ok(folder)
    }

    /// Checks that there is room for so many bytes.
    ///
    /// # Errors
    /// There is not.
    pub(crate) fn check_room(&self, bytes: u64) -> anyhow::Result<()> {
        let place = self.path.display();
        let room = statvfs(&self.path)
            .with_context(|| format!("the file system of {place} does not tell what is free"))?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        anyhow::ensure!(
            free >= bytes + SPARE_BYTES,
            "{place} has {free} bytes free, the checkpoint needs about {bytes} and {SPARE_BYTES} \
             to spare: make room, or name another folder"
        );
        Ok(())
    }

    /// Begins the file of a partition.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn parts(&self, stage: &str, partition: u16) -> anyhow::Result<PartsFile> {
        PartsFile::begin(&self.path, stage, partition)
    }

    /// Writes the configuration.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn keep_configuration(&self, text: &str) -> anyhow::Result<SavedFile> {
        let path = self.path.join(CONFIGURATION);
        let written = whole_file::replace(&path, text.as_bytes());
        written.with_context(|| format!("cannot write {}", path.display()))?;
        let bytes = text.len() as u64;
        let sha256 = hex(&Sha256::digest(text));
        Ok(SavedFile {
            path: CONFIGURATION.to_owned(),
            bytes,
            sha256,
            of: None,
        })
    }

    /// The checkpoint is whole with its manifest.
    ///
    /// # Errors
    /// That cannot be written.
    pub(crate) fn finish(mut self, manifest: &Manifest) -> anyhow::Result<()> {
        for folder in WITH_STATE.iter().map(|stage| self.path.join(stage)) {
            sync(&folder)?;
        }
        manifest.write(&self.path)?;
        sync(&self.path)?;
        self.is_whole = true;
        // One that stays says nothing beside a manifest.
        let _ = fs::remove_file(self.path.join(UNFINISHED));
        Ok(())
    }

    fn remove_parts(&self) {
        for name in WITH_STATE {
            let _ = fs::remove_dir_all(self.path.join(name));
        }
        for name in [
            CONFIGURATION.to_owned(),
            format!("{CONFIGURATION}.new"),
            format!("{MANIFEST}.new"),
        ] {
            let _ = fs::remove_file(self.path.join(name));
        }
    }
}

/// Has the names in a folder outlast a power cut.
fn sync(folder: &Path) -> anyhow::Result<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.with_context(|| format!("cannot write {}", folder.display()))
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_whole {
            let _ = fs::remove_file(self.path.join(MANIFEST));
            self.remove_parts();
            let _ = fs::remove_file(self.path.join(UNFINISHED));
            if self.is_new {
                let _ = fs::remove_dir(&self.path);
            }
        }
    }
}

/// Returns whether an open file still lies at a path.
fn is_of(file: &File, path: &Path) -> bool {
    let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let opened = file.metadata().map(place);
    let found = fs::metadata(path).map(place);
    opened
        .ok()
        .zip(found.ok())
        .is_some_and(|(opened, found)| opened == found)
}

/// Returns whether a folder has what a command that was killed has left of a checkpoint.
pub(crate) fn is_left_over(path: &Path) -> bool {
    let marker = File::options().write(true).open(path.join(UNFINISHED));
    let is_free = |marker: &File| flock(marker, FlockOperation::NonBlockingLockExclusive).is_ok();
    // The lock comes first: who had it may have finished the checkpoint.
    marker.as_ref().is_ok_and(is_free) && !path.join(MANIFEST).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_anything_of_others_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("letters.txt"), "dear").unwrap();
        let error = Folder::begin(folder.path())
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(error.contains("what is in it is no checkpoint"), "{error}");
        fs::write(folder.path().join(MANIFEST), "{}").unwrap();
        let error = Folder::begin(folder.path())
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(error.contains("holds a checkpoint already"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_is_not_finished_goes_and_what_a_killed_command_has_left_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let begun = Folder::begin(&path).unwrap();
        begun.parts("dedup", 1).unwrap().push(b"part").unwrap();
        begun.keep_configuration("crawl: a").unwrap();
        let second = Folder::begin(&path).map(|_| ()).unwrap_err().to_string();
        assert!(
            second.contains("another command is taking a checkpoint") && !is_left_over(&path),
            "{second}"
        );
        drop(begun);
        assert!(!path.exists());

        fs::create_dir_all(path.join("dedup")).unwrap();
        fs::write(path.join("dedup/00009.parts"), "old").unwrap();
        fs::write(path.join(UNFINISHED), "").unwrap();
        assert!(is_left_over(&path));
        let begun = Folder::begin(&path).unwrap();
        assert!(!path.join("dedup").exists());
        let error = begun.check_room(u64::MAX / 2).unwrap_err().to_string();
        assert!(
            error.contains("bytes free, the checkpoint needs about"),
            "{error}"
        );
        begun.check_room(0).unwrap();
    }

    #[test]
    fn a_lock_on_a_marker_that_another_command_has_removed_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let marker = folder.path().join(UNFINISHED);
        let opened = File::create(&marker).unwrap();
        assert!(is_of(&opened, &marker));
        fs::remove_file(&marker).unwrap();
        assert!(!is_of(&opened, &marker));
        let _other = File::create(&marker).unwrap();
        assert!(!is_of(&opened, &marker));
    }
}

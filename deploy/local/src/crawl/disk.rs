//! Notices a full disk, and that it has room again.
//!
//! In: the folders that a crawl writes to, and whether the broker says that its disk is full. Out: what has changed.

use std::path::{Path, PathBuf};

/// A disk with less free is full, in bytes.
const NO_ROOM: u64 = 1 << 20;
/// A full disk has room again when this much is free, in bytes.
const ROOM: u64 = 32 << 20;
/// [`ROOM`] in messages.
pub(super) const ROOM_MIB: u64 = ROOM >> 20;

/// The disks of a crawl.
#[derive(Debug)]
pub(super) struct Disk {
    folders: Vec<PathBuf>,
    is_full: bool,
}

/// What a look at the disk found new.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DiskChange {
    /// The disk of this folder is full, or that of the broker.
    Full(PathBuf),
    /// There is room again.
    Room,
}

impl Disk {
    /// The disks of these folders, not full yet.
    pub(super) fn new(folders: Vec<PathBuf>) -> Self {
        Disk { folders, is_full: false }
    }

    /// Whether the disk was full at the latest look.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Looks at the disks. `broker_says_full`: the broker could not write. `broker_is_ours`: it is started again when
    /// there is room, so its word does not count then.
    pub(super) fn look(&mut self, broker_says_full: bool, broker_is_ours: bool) -> Option<DiskChange> {
        let rooms = self.folders.iter().map(|folder| (bytes_free(folder), folder));
        let (free, folder) = rooms.min_by_key(|(free, _)| *free)?;
        if !self.is_full && (free < NO_ROOM || broker_says_full) {
            self.is_full = true;
            return Some(DiskChange::Full(folder.clone()));
        }
        if self.is_full && free >= ROOM && (broker_is_ours || !broker_says_full) {
            self.is_full = false;
            return Some(DiskChange::Room);
        }
        None
    }
}

/// Room on the disk of a directory, in bytes; plenty when nobody can tell.
fn bytes_free(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

//! Notices a full disk, and that it has room again.
//!
//! In: the folders that a crawl writes to, how many processes have died, and whether the broker
//! says that its disk is full. Out: what has changed.
//!
//! A quota that is used up is a full disk which the file system still calls empty: after a death it
//! is tried whether a file finds room.

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A disk with less free is full, in bytes.
const NO_ROOM: u64 = 1 << 20;
/// A full disk has room again when this much is free, in bytes.
const ROOM: u64 = 32 << 20;
/// [`ROOM`] in messages.
pub(super) const ROOM_MIB: u64 = ROOM >> 20;
/// The file that is made to see whether there is room, and removed at once.
pub(crate) const PROBE: &str = ".room";
/// What a stage's reason not to be ready says when the broker's disk, or its quota, is full.
pub(super) const FULL: [&str; 2] = ["no space left on device", "disk quota exceeded"];

/// The disks of a crawl.
#[derive(Debug)]
pub(super) struct Disk {
    folders: Vec<PathBuf>,
    /// Bytes that the file system says are free.
    free: fn(&Path) -> u64,
    /// Returns whether a file of so many bytes finds room.
    holds: fn(&Path, u64) -> bool,
    deaths: u64,
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
        Disk {
            folders,
            free: bytes_free,
            holds,
            deaths: 0,
            is_full: false,
        }
    }

    /// Whether the disk was full at the latest look.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Looks at the disks. `deaths`: how many processes have died so far. `broker_says_full`: the
    /// broker could not write. `broker_is_ours`: it is started again when there is room, so its
    /// word does not count then.
    pub(super) fn look(
        &mut self,
        deaths: u64,
        broker_says_full: bool,
        broker_is_ours: bool,
    ) -> Option<DiskChange> {
        let has_died = std::mem::replace(&mut self.deaths, deaths) != deaths;
        let lacks = |bytes: u64, tried: bool| {
            let lacks = |folder: &&PathBuf| {
                (self.free)(folder) < bytes || tried && !(self.holds)(folder, bytes)
            };
            self.folders.iter().find(lacks)
        };
        if self.is_full {
            let has_room = (broker_is_ours || !broker_says_full) && lacks(ROOM, true).is_none();
            self.is_full = !has_room;
            return has_room.then_some(DiskChange::Room);
        }
        let full = lacks(NO_ROOM, has_died)
            .or_else(|| self.folders.first().filter(|_| broker_says_full))
            .cloned()?;
        self.is_full = true;
        Some(DiskChange::Full(full))
    }
}

/// Room on the disk of a directory, in bytes; plenty when nobody can tell.
fn bytes_free(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory)
        .map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Returns whether a file of so many bytes finds room in a directory, within its quota too; true
/// when nobody can tell.
fn holds(directory: &Path, bytes: u64) -> bool {
    let path = directory.join(PROBE);
    let tried = File::create(&path).and_then(|file| {
        // It has no name while it is there.
        std::fs::remove_file(&path)?;
        Ok(fallocate(&file, FallocateFlags::empty(), 0, bytes)?)
    });
    !tried.is_err_and(|error| is_full(&error))
}

fn is_full(error: &std::io::Error) -> bool {
    [Errno::NOSPC, Errno::DQUOT]
        .iter()
        .any(|full| error.raw_os_error() == Some(full.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(free: fn(&Path) -> u64, holds: fn(&Path, u64) -> bool) -> Disk {
        Disk {
            free,
            holds,
            ..Disk::new(vec!["/a".into(), "/b".into()])
        }
    }

    fn full(folder: &str) -> Option<DiskChange> {
        Some(DiskChange::Full(folder.into()))
    }

    #[test]
    fn a_disk_without_room_is_full_until_there_is_plenty() {
        let mut disk = disk(
            |folder| {
                if folder.ends_with("b") {
                    NO_ROOM - 1
                } else {
                    ROOM
                }
            },
            |_, _| true,
        );
        assert_eq!(disk.look(0, false, true), full("/b"));
        assert_eq!((disk.look(0, false, true), disk.is_full()), (None, true));
        disk.free = |_| ROOM - 1;
        assert_eq!(disk.look(0, false, true), None);
        disk.free = |_| ROOM;
        assert_eq!(
            disk.look(0, true, false),
            None,
            "the operator's broker cannot write yet"
        );
        assert_eq!(
            (disk.look(0, false, false), disk.is_full()),
            (Some(DiskChange::Room), false)
        );
    }

    /// Goal: a quota is used up on a disk that says it has room. Method: no file finds any, and a
    /// process has died of it.
    #[test]
    fn a_quota_that_is_used_up_is_noticed_when_a_process_dies_of_it_and_waited_for() {
        let mut disk = disk(|_| u64::MAX, |folder, _| !folder.ends_with("b"));
        assert_eq!(
            disk.look(0, false, true),
            None,
            "nothing is tried without a reason"
        );
        assert_eq!(disk.look(1, false, true), full("/b"));
        assert_eq!(disk.look(1, false, true), None);
        disk.holds = |_, bytes| bytes < ROOM;
        assert_eq!(
            (disk.look(1, false, true), disk.is_full()),
            (None, true),
            "less than plenty"
        );
        disk.holds = |_, _| true;
        assert_eq!(disk.look(1, false, true), Some(DiskChange::Room));
        assert_eq!(
            disk.look(2, false, true),
            None,
            "a death for another reason"
        );
    }

    #[test]
    fn a_broker_that_cannot_write_has_a_full_disk() {
        let mut disk = disk(|_| u64::MAX, |_, _| true);
        assert_eq!(disk.look(0, true, true), full("/a"));
        assert_eq!(
            disk.look(0, true, true),
            Some(DiskChange::Room),
            "ours is started again"
        );
    }

    #[test]
    fn a_file_that_finds_room_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        assert!(holds(folder.path(), NO_ROOM));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(
            holds(&folder.path().join("none"), NO_ROOM),
            "nobody can tell"
        );
        for (errno, expected) in [
            (Errno::NOSPC, true),
            (Errno::DQUOT, true),
            (Errno::FBIG, false),
        ] {
            assert_eq!(is_full(&errno.into()), expected);
        }
    }
}

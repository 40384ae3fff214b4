//! The sweeper of a crawl: removes files of which their stream holds nothing any more.
//!
//! In: the folders, what streams hold. Out: files that are gone. The `rhumb` that started the
//! private broker sweeps.
//!
//! Invariant: the file of a dead process goes only when its stream has passed what it held a while
//! after that death. What the process had sent is in the stream by then, or never will be.

use super::{Found, edges, folder, list, spool};
use crate::Bus;
use crate::info::stream_info;
use anyhow::Context as _;
use rhumb_config::Pipeline;
use rhumb_wire::topology::Edge;
use rustix::fs::{FlockOperation, flock};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// After the death of a process the broker has taken all that it sent within this time.
const SENT_AFTER: Duration = Duration::from_secs(60);

/// Who removes files.
#[derive(Debug)]
pub struct Sweeper {
    folders: Vec<Folder>,
}

/// The files of an edge.
#[derive(Debug)]
struct Folder {
    edge: Edge,
    path: PathBuf,
    /// Those that dead processes left.
    dead: HashMap<PathBuf, Dead>,
}

/// A file that a dead process left.
#[derive(Clone, Copy, Debug)]
struct Dead {
    since: Instant,
    /// The highest sequence that may refer to it, when that is known.
    stored_to: Option<u64>,
}

/// What a stream holds: sequences from the first to the last. Of an empty one the first is behind
/// the last.
#[derive(Clone, Copy, Debug)]
struct Held {
    first: u64,
    last: u64,
    /// When the stream began: sequences begin with it.
    since: SystemTime,
}

impl Sweeper {
    /// The sweeper of a crawl with a private broker, and its folders.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub fn open(pipeline: &Pipeline) -> anyhow::Result<Sweeper> {
        let folders =
            edges().filter_map(|edge| Some(Folder::new(edge, folder(pipeline, edge)?.into())));
        let folders: Vec<Folder> = folders.collect();
        for Folder { path, .. } in &folders {
            fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        }
        Ok(Sweeper { folders })
    }

    /// Removes what is due.
    ///
    /// # Errors
    /// A folder cannot be read, or the broker does not answer.
    pub async fn sweep(&mut self, bus: &Bus) -> anyhow::Result<()> {
        // Others are swept all the same.
        let mut unread = None;
        for folder in &mut self.folders {
            let files = match list(&folder.path) {
                Ok(files) => files,
                Err(error) => {
                    unread = Some(anyhow::anyhow!(
                        "cannot read {}: {error}",
                        folder.path.display()
                    ));
                    continue;
                }
            };
            folder.note_dead(&files, Instant::now());
            if files
                .iter()
                .all(|(path, file)| file.stored.is_none() && !folder.dead.contains_key(path))
            {
                continue;
            }
            let Some(info) = stream_info(bus, &bus.subjects.stream(folder.edge.name())).await?
            else {
                continue;
            };
            let first = info.state.first_sequence;
            let last = info.state.last_sequence;
            folder.remove(
                &files,
                Held {
                    first,
                    last,
                    since: info.created.into(),
                },
                Instant::now(),
            );
        }
        unread.map_or(Ok(()), Err)
    }

    /// The end of a crawl: removes what is due, and the folders when nothing is left in them.
    pub async fn end(mut self, bus: &Bus, pipeline: &Pipeline) {
        if let Err(error) = self.sweep(bus).await {
            tracing::debug!("the spools are left as they are: {error:#}");
        }
        // One that is not empty stays.
        let folders = self
            .folders
            .into_iter()
            .map(|folder| folder.path)
            .chain([spool(&pipeline.data)]);
        folders.for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

impl Folder {
    fn new(edge: Edge, path: PathBuf) -> Folder {
        Folder {
            edge,
            path,
            dead: HashMap::new(),
        }
    }

    /// Notes which files without a word of their writer nobody writes.
    fn note_dead(&mut self, files: &BTreeMap<PathBuf, Found>, now: Instant) {
        for (path, file) in files {
            let is_dead = file.is_there && file.stored.is_none() && is_unlocked(path);
            if is_dead {
                self.dead.entry(path.clone()).or_insert(Dead {
                    since: now,
                    stored_to: None,
                });
            } else {
                self.dead.remove(path);
            }
        }
        self.dead.retain(|path, _| files.contains_key(path));
    }

    /// Removes the files of which the stream holds nothing.
    fn remove(&mut self, files: &BTreeMap<PathBuf, Found>, held: Held, now: Instant) {
        for (path, file) in files {
            if let Some(dead) = self.dead.get_mut(path)
                && dead.stored_to.is_none()
                && now.duration_since(dead.since) >= SENT_AFTER
            {
                dead.stored_to = Some(held.last);
            }
            let of_dead = self.dead.get(path).and_then(|dead| dead.stored_to);
            let stored_to = file
                .stored
                .as_ref()
                .map(|(_, sequence)| *sequence)
                .or(of_dead);
            // What an earlier stream of the edge held, under numbers of its own.
            let is_of_earlier = file.modified.is_some_and(|at| at + SENT_AFTER < held.since)
                && (file.stored.is_some() || self.dead.contains_key(path));
            if !is_of_earlier && stored_to.is_none_or(|sequence| sequence >= held.first) {
                continue;
            }
            // The file first: what is beside it says that it may go.
            let beside = file.stored.as_ref().map(|(beside, _)| beside);
            for path in file.is_there.then_some(path).into_iter().chain(beside) {
                if let Err(error) = fs::remove_file(path) {
                    tracing::debug!(file = %path.display(), %error, "cannot be removed yet");
                    break;
                }
            }
            self.dead.remove(path);
        }
    }
}

/// Returns whether no process holds the lock of a file.
fn is_unlocked(path: &Path) -> bool {
    File::open(path)
        .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::writer::tests::{message, writer};

    fn sweeper(folder: &Path) -> Folder {
        Folder::new(Edge::Pages, folder.to_owned())
    }

    fn sweep(
        sweeper: &mut Folder,
        folder: &Path,
        (first, last): (u64, u64),
        now: Instant,
    ) -> usize {
        let files = list(folder).unwrap();
        sweeper.note_dead(&files, now);
        sweeper.remove(
            &files,
            Held {
                first,
                last,
                since: SystemTime::UNIX_EPOCH,
            },
            now,
        );
        folder.read_dir().unwrap().count()
    }

    #[test]
    fn a_file_goes_when_its_stream_has_passed_what_refers_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 80_000);
        for token in 1..=3 {
            writer
                .payload(token, &message("pages", vec![7; 10_000]))
                .unwrap();
            writer.stored(token, 10 + token);
        }
        let mut sweeper = sweeper(folder.path());
        let now = Instant::now();
        assert_eq!(sweep(&mut sweeper, folder.path(), (11, 13), now), 6);
        assert_eq!(sweep(&mut sweeper, folder.path(), (12, 13), now), 4);
        assert_eq!(sweep(&mut sweeper, folder.path(), (14, 13), now), 0);
    }

    #[test]
    fn the_file_of_a_living_process_stays_whatever_the_stream_holds() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 0);
        writer
            .payload(1, &message("pages", vec![7; 10_000]))
            .unwrap();
        let mut sweeper = sweeper(folder.path());
        let now = Instant::now();
        assert_eq!(sweep(&mut sweeper, folder.path(), (1, 0), now), 1);
        assert_eq!(
            sweep(&mut sweeper, folder.path(), (99, 98), now + 9 * SENT_AFTER),
            1
        );
    }

    #[test]
    fn the_file_of_a_dead_process_goes_when_its_stream_has_passed_what_it_held_a_while_later() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 0);
        writer
            .payload(1, &message("pages", vec![7; 10_000]))
            .unwrap();
        // Not all of it is known to be stored.
        drop(writer);
        let mut sweeper = sweeper(folder.path());
        let now = Instant::now();
        let mut files_after =
            |after: Duration, held| sweep(&mut sweeper, folder.path(), held, now + after);
        assert_eq!(files_after(Duration::ZERO, (9, 8)), 1);
        assert_eq!(files_after(SENT_AFTER - Duration::from_secs(1), (9, 8)), 1);
        assert_eq!(files_after(SENT_AFTER, (8, 9)), 1, "9 may refer to it");
        assert_eq!(files_after(2 * SENT_AFTER, (9, 20)), 1);
        assert_eq!(files_after(2 * SENT_AFTER, (10, 20)), 0);
    }

    #[test]
    fn files_of_an_earlier_stream_go_whatever_numbers_the_new_one_has() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 80_000);
        writer
            .payload(1, &message("pages", vec![7; 10_000]))
            .unwrap();
        writer.stored(1, 900);
        writer
            .payload(2, &message("pages", vec![7; 100_000]))
            .unwrap();
        drop(writer);
        let mut sweeper = sweeper(folder.path());
        let now = Instant::now();
        let files = list(folder.path()).unwrap();
        sweeper.note_dead(&files, now);
        let mut remove = |since| {
            sweeper.remove(
                &files,
                Held {
                    first: 1,
                    last: 0,
                    since,
                },
                now,
            );
            folder.path().read_dir().unwrap().count()
        };
        assert_eq!(remove(SystemTime::now()), 3);
        assert_eq!(remove(SystemTime::now() + 2 * SENT_AFTER), 0);
    }

    #[test]
    fn what_is_beside_a_file_that_is_gone_goes_too() {
        let folder = tempfile::tempdir().unwrap();
        File::create(folder.path().join("fetcher-0-ff-1.stored-5")).unwrap();
        let mut sweeper = sweeper(folder.path());
        assert_eq!(
            sweep(&mut sweeper, folder.path(), (5, 9), Instant::now()),
            1
        );
        assert_eq!(
            sweep(&mut sweeper, folder.path(), (6, 9), Instant::now()),
            0
        );
    }
}

//! The writer of a process: payloads into files, references in their place.
//!
//! In: messages on their way into streams, and what streams have. Out: what travels in their place.
//! A file takes no more when it has its size, and is given free when streams have all that refers
//! to it.
//!
//! Invariant: the file of a message that no stream is known to have stays locked. So a file that is
//! not locked, and was not given free, is one that a dead process left.

use super::{STORED, is_on, list, named_folder};
use crate::Bus;
use bytes::Bytes;
use rhumb_config::Pipeline;
use rhumb_stage::settlement::{Outgoing, Refused};
use rhumb_wire::message::Reference;
use rhumb_wire::topology::{EDGES, Edge, Party, StageName};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A smaller message costs the broker less than its reference would.
const BYTES_MIN: usize = 4 << 10;
/// A file with so many bytes takes no more.
const FILE_BYTES: u64 = 16 << 20;
/// Files of one process that its bound of bytes has room for, at least.
const FILES_MIN: u64 = 8;

/// Where a process writes payloads.
#[derive(Debug, Default)]
pub struct Writer {
    folders: Vec<Folder>,
    /// What names of files begin with.
    owner: String,
    next: u64,
}

#[derive(Debug)]
struct Folder {
    edge: Edge,
    subject: String,
    path: PathBuf,
    /// All files in it together; 0: no bound.
    bytes_max: u64,
    files: Vec<Open>,
}

/// A file that takes payloads, or that streams do not have wholly yet.
#[derive(Debug)]
struct Open {
    name: String,
    file: File,
    bytes: u64,
    is_full: bool,
    /// References that no stream is known to have, by the token of their message.
    unstored: BTreeMap<u64, Bytes>,
    /// The highest sequence of a message that refers to it.
    stored_to: u64,
}

impl Writer {
    /// The writer of a process, for what its stage publishes.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn open(
        bus: &Bus,
        pipeline: &Pipeline,
        stage: &str,
        instance: u16,
        life: u64,
    ) -> anyhow::Result<Writer> {
        let mut writer = Writer::of(format!("{stage}-{instance}-{life:016x}"));
        let Some(stage) = StageName::from_name(stage).filter(|_| is_on(pipeline)) else {
            return Ok(writer);
        };
        for row in EDGES
            .iter()
            .filter(|row| row.is_spooled && row.producers.contains(&Party::Stage(stage)))
        {
            let path = named_folder(bus, row.edge).await?;
            if let Some(path) = path.filter(|path| path.is_dir()) {
                let bytes_max = pipeline
                    .edges
                    .stream(row.edge)
                    .map_or(0, |stream| stream.bytes_max.0);
                writer.add(
                    row.edge,
                    bus.subjects.all(row.edge).concat(),
                    path,
                    bytes_max,
                );
            }
        }
        Ok(writer)
    }

    /// A writer without folders.
    fn of(owner: String) -> Writer {
        Writer {
            folders: Vec::new(),
            owner,
            next: 0,
        }
    }

    fn add(&mut self, edge: Edge, subject: String, path: PathBuf, bytes_max: u64) {
        self.folders.push(Folder {
            edge,
            subject,
            path,
            bytes_max,
            files: Vec::new(),
        });
    }

    /// What is published of a message: a reference, or its payload where that is small or its edge
    /// has no folder. The same again for a token that no stream is known to have.
    ///
    /// # Errors
    /// There is no room for it now, or it cannot be written.
    pub fn payload(&mut self, token: u64, message: &Outgoing) -> Result<Bytes, Refused> {
        let is_of = |folder: &&mut Folder| folder.subject == message.subject;
        let Some(folder) = self
            .folders
            .iter_mut()
            .find(is_of)
            .filter(|_| message.payload.len() >= BYTES_MIN)
        else {
            return Ok(message.payload.clone());
        };
        if let Some(reference) = folder
            .files
            .iter()
            .find_map(|file| file.unstored.get(&token))
        {
            return Ok(reference.clone());
        }
        if folder.files.last().is_none_or(|file| file.is_full) {
            // Another number for each try: an earlier life of the process may have left a file of
            // this one.
            self.next += 1;
            folder.begin(&self.owner, self.next)?;
        }
        folder.append(token, &message.payload)
    }

    /// A stream has the message of a token, at this sequence.
    pub fn stored(&mut self, token: u64, sequence: u64) {
        for folder in &mut self.folders {
            let Some(at) = folder
                .files
                .iter()
                .position(|file| file.unstored.contains_key(&token))
            else {
                continue;
            };
            let file = &mut folder.files[at];
            file.unstored.remove(&token);
            file.stored_to = file.stored_to.max(sequence);
            if file.is_full && file.unstored.is_empty() {
                let file = folder.files.remove(at);
                file.give_free(&folder.path);
            }
            return;
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        for folder in &mut self.folders {
            for file in folder
                .files
                .drain(..)
                .filter(|file| file.unstored.is_empty())
            {
                file.give_up(&folder.path);
            }
        }
    }
}

impl Folder {
    fn file_bytes(&self) -> u64 {
        if self.bytes_max == 0 {
            FILE_BYTES
        } else {
            FILE_BYTES.min(self.bytes_max / FILES_MIN)
        }
    }

    /// Begins a file. Each writer may have one whatever others have: theirs may stay as they are
    /// for long.
    fn begin(&mut self, owner: &str, number: u64) -> Result<(), Refused> {
        // A folder that cannot be read cannot be written either.
        let files = list(&self.path).unwrap_or_default();
        // One that its writer has not finished may get as long as any.
        let counts = |file: &super::Found| {
            if file.stored.is_some() {
                file.bytes
            } else {
                file.bytes.max(self.file_bytes())
            }
        };
        let bytes: u64 = files.values().map(counts).sum();
        let name = format!("{owner}-{number}");
        let is_own = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(owner))
        };
        if self.bytes_max > 0
            && bytes + self.file_bytes() > self.bytes_max
            && files.keys().any(is_own)
        {
            return Err(Refused::Full);
        }
        let path = self.path.join(&name);
        let file = File::create_new(&path).map_err(|error| cannot_write(&path, &error))?;
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            let _ = std::fs::remove_file(&path);
            return Err(cannot_write(&path, &error.into()));
        }
        let unstored = BTreeMap::new();
        self.files.push(Open {
            name,
            file,
            bytes: 0,
            is_full: false,
            unstored,
            stored_to: 0,
        });
        Ok(())
    }

    /// Appends a payload to the latest file. Returns the message that refers to it.
    fn append(&mut self, token: u64, payload: &[u8]) -> Result<Bytes, Refused> {
        let file_bytes = self.file_bytes();
        let Some(open) = self.files.last_mut() else {
            return Err(Refused::Full);
        };
        if let Err(error) = open.file.write_all(payload) {
            let path = self.path.join(&open.name);
            // Whatever came of it: nothing follows.
            open.is_full = true;
            if open.unstored.is_empty()
                && let Some(open) = self.files.pop()
            {
                open.give_up(&self.path);
            }
            return Err(cannot_write(&path, &error));
        }
        let length = u32::try_from(payload.len()).expect("no broker takes a message of 4 GiB");
        let reference = Reference {
            file: open.name.clone(),
            offset: open.bytes,
            length,
        }
        .message(self.edge);
        open.bytes += payload.len() as u64;
        open.is_full = open.bytes >= file_bytes;
        open.unstored.insert(token, reference.clone());
        Ok(reference)
    }
}

impl Open {
    /// Nothing follows in the file. One that no message refers to goes at once.
    fn give_up(self, folder: &Path) {
        if self.bytes == 0 {
            let _ = std::fs::remove_file(folder.join(&self.name));
        } else {
            self.give_free(folder);
        }
    }

    /// Says that streams have all that refers to the file. When that cannot be said, the file
    /// counts as one that a dead process left: it is there for longer.
    fn give_free(self, folder: &Path) {
        let beside = folder.join(format!("{}{STORED}{}", self.name, self.stored_to));
        if let Err(error) = File::create(&beside) {
            tracing::debug!(file = %beside.display(), %error, "cannot be written");
        }
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Refused {
    Refused::Failed(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::spool::Reader;

    const EDGE: Edge = Edge::Pages;

    /// A writer into a folder, as that of a fetcher.
    pub(in crate::spool) fn writer(path: &Path, bytes_max: u64) -> Writer {
        let mut writer = Writer::of("fetcher-0-00000000000000ff".into());
        writer.add(EDGE, "pages".into(), path.to_owned(), bytes_max);
        writer
    }

    pub(in crate::spool) fn message(subject: &str, payload: Vec<u8>) -> Outgoing {
        Outgoing {
            subject: subject.into(),
            id: "1".into(),
            headers: Vec::new(),
            payload: payload.into(),
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let files = folder.read_dir().unwrap();
        let mut names: Vec<String> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn large_messages_of_its_edge_are_references_and_are_read_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 0);
        let first = message("pages", vec![1; 9000]);
        let second = message("pages", vec![2; 5000]);
        let references = [
            writer.payload(1, &first).unwrap(),
            writer.payload(2, &second).unwrap(),
        ];
        assert!(references.iter().all(|reference| reference.len() < 100));
        let mut reader = Reader::of([(EDGE, folder.path().to_owned())]);
        for (reference, message) in references.iter().zip([&first, &second]) {
            assert_eq!(
                reader.payload(EDGE, reference.clone()).unwrap(),
                message.payload
            );
        }
        assert_eq!(
            writer.payload(1, &first).unwrap(),
            references[0],
            "published again"
        );
        for other in [
            message("pages", vec![0; BYTES_MIN - 1]),
            message("documents", vec![0; 9000]),
        ] {
            assert_eq!(writer.payload(3, &other).unwrap(), other.payload);
            assert_eq!(
                reader.payload(EDGE, other.payload.clone()).unwrap(),
                other.payload
            );
        }
    }

    #[test]
    fn a_file_is_given_free_when_streams_have_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 8 * 20_000);
        for token in 1..=4 {
            writer
                .payload(token, &message("pages", vec![7; 10_000]))
                .unwrap();
        }
        let files = [
            "fetcher-0-00000000000000ff-1",
            "fetcher-0-00000000000000ff-2",
        ];
        assert_eq!(names(folder.path()), files);
        writer.stored(2, 12);
        writer.stored(9, 99);
        assert_eq!(names(folder.path()), files);
        writer.stored(1, 11);
        assert_eq!(
            names(folder.path())[1],
            "fetcher-0-00000000000000ff-1.stored-12"
        );
        writer.stored(3, 13);
        writer
            .payload(5, &message("pages", vec![7; 10_000]))
            .unwrap();
        writer.stored(5, 15);
        drop(writer);
        let left: Vec<String> = names(folder.path())
            .into_iter()
            .filter(|name| name.contains(STORED))
            .collect();
        assert_eq!(
            left,
            [
                "fetcher-0-00000000000000ff-1.stored-12",
                "fetcher-0-00000000000000ff-3.stored-15"
            ]
        );
    }

    #[test]
    fn a_full_folder_takes_no_more_until_files_of_it_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 80_000);
        let page = message("pages", vec![7; 10_000]);
        let taken = (0..)
            .take_while(|token| writer.payload(*token, &page).is_ok())
            .count();
        assert_eq!(taken, 8);
        assert_eq!(writer.payload(100, &page), Err(Refused::Full));
        assert_eq!(
            writer
                .payload(100, &message("pages", vec![7; 100]))
                .unwrap()
                .len(),
            100
        );
        std::fs::remove_file(folder.path().join("fetcher-0-00000000000000ff-1")).unwrap();
        assert!(writer.payload(100, &page).is_ok());
        assert!(
            matches!(writer.payload(3, &page), Ok(reference) if reference.len() < 100),
            "it was written before"
        );
    }

    #[test]
    fn a_folder_that_others_have_filled_has_room_for_one_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("fetcher-1-00000000000000ee-1"),
            vec![0; 80_000],
        )
        .unwrap();
        let mut writer = writer(folder.path(), 80_000);
        let page = message("pages", vec![7; 10_000]);
        assert!(writer.payload(1, &page).is_ok());
        assert_eq!(writer.payload(2, &page), Err(Refused::Full));
    }

    #[test]
    fn a_writer_does_not_stumble_over_what_an_earlier_one_of_its_life_left() {
        let folder = tempfile::tempdir().unwrap();
        let page = message("pages", vec![7; 10_000]);
        let mut earlier = writer(folder.path(), 0);
        earlier.payload(1, &page).unwrap();
        drop(earlier);
        let mut writer = writer(folder.path(), 0);
        assert!(matches!(writer.payload(1, &page), Err(Refused::Failed(_))));
        assert!(writer.payload(1, &page).is_ok(), "tried again");
    }

    #[test]
    fn a_file_that_takes_no_more_stays_for_what_streams_have_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 0);
        let page = message("pages", vec![7; 10_000]);
        let reference = writer.payload(1, &page).unwrap();
        writer.stored(1, 41);
        let path = folder.path().join("fetcher-0-00000000000000ff-1");
        // As on a disk that is full.
        writer.folders[0].files[0].file = File::open(&path).unwrap();
        assert!(matches!(writer.payload(2, &page), Err(Refused::Failed(_))));
        let mut reader = Reader::of([(EDGE, folder.path().to_owned())]);
        assert_eq!(reader.payload(EDGE, reference).unwrap(), page.payload);
        assert_eq!(
            names(folder.path())[1],
            "fetcher-0-00000000000000ff-1.stored-41",
            "its stream says when it goes"
        );
        assert!(writer.payload(2, &page).is_ok(), "in another file");
        // One to which nothing refers goes at once.
        writer.stored(2, 42);
        drop(writer);
        let mut writer = self::writer(folder.path(), 0);
        writer.next = 7;
        writer.folders[0]
            .begin("fetcher-0-00000000000000ff", 7)
            .unwrap();
        drop(writer);
        assert!(!names(folder.path()).contains(&"fetcher-0-00000000000000ff-7".to_owned()));
    }

    #[test]
    fn one_message_larger_than_a_file_has_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 80_000);
        for token in 0..2 {
            writer
                .payload(token, &message("pages", vec![7; 30_000]))
                .unwrap();
        }
        assert_eq!(names(folder.path()).len(), 2);
    }

    #[test]
    fn what_cannot_be_written_is_refused_by_name_and_tried_again_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(&folder.path().join("absent"), 0);
        let refused = writer.payload(1, &message("pages", vec![7; 10_000]));
        assert!(
            matches!(&refused, Err(Refused::Failed(why)) if why.contains("absent/fetcher-0")),
            "{refused:?}"
        );
        std::fs::create_dir(folder.path().join("absent")).unwrap();
        assert!(
            writer
                .payload(1, &message("pages", vec![7; 10_000]))
                .is_ok()
        );
    }
}

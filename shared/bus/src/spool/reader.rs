//! The reader of a process: the payloads that references name.
//!
//! In: messages of streams. Out: their payloads, from a file or as they came.

use super::named_folder;
use crate::Bus;
use bytes::Bytes;
use rhumb_config::MAX_PAYLOAD_MAX;
use rhumb_wire::message::{Reference, Undecodable};
use rhumb_wire::topology::Edge;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Files that stay open, the latest: a few writers append to one each. What of one is removed still
/// takes its disk.
const OPEN_MAX: usize = 4;

/// Where a process reads payloads.
#[derive(Debug, Default)]
pub struct Reader {
    folders: Vec<(Edge, PathBuf)>,
    open: VecDeque<(PathBuf, File)>,
}

/// Why a payload cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The reference is damaged, or what it names is not there. Another try comes to the same.
    #[error(transparent)]
    Lost(#[from] Undecodable),
    /// What it names cannot be read now.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

impl Reader {
    /// A reader for some edges.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn open(bus: &Bus, edges: impl IntoIterator<Item = Edge>) -> anyhow::Result<Reader> {
        let mut folders = Vec::new();
        for edge in edges.into_iter().filter(|edge| edge.is_spooled()) {
            folders.extend(named_folder(bus, edge).await?.map(|folder| (edge, folder)));
        }
        Ok(Reader::of(folders))
    }

    /// A reader of these folders.
    pub(super) fn of(folders: impl IntoIterator<Item = (Edge, PathBuf)>) -> Reader {
        Reader {
            folders: folders.into_iter().collect(),
            open: VecDeque::new(),
        }
    }

    /// The payload of a message: what it refers to, or itself.
    ///
    /// # Errors
    /// It refers to something that is not there, or that cannot be read.
    pub fn payload(&mut self, edge: Edge, message: Bytes) -> Result<Bytes, Unread> {
        if !edge.is_spooled() {
            return Ok(message);
        }
        let Some(reference) = Reference::read(edge, &message)? else {
            return Ok(message);
        };
        let Some(folder) = self
            .folders
            .iter()
            .find(|(of, _)| *of == edge)
            .map(|(_, folder)| folder.clone())
        else {
            return Err(lost("a reference, and its stream names no folder".to_owned()).into());
        };
        if reference.length as usize > MAX_PAYLOAD_MAX.as_usize() {
            return Err(lost(format!(
                "a reference to {} bytes, more than any message has",
                reference.length
            ))
            .into());
        }
        let path = folder.join(&reference.file);
        match self.read(&path, &reference) {
            Ok(payload) => Ok(payload),
            Err(error) if !is_missing(&error) => Err(Unread::Failed(
                anyhow::Error::new(error).context(format!("cannot read {}", path.display())),
            )),
            Err(_) if !folder.is_dir() => Err(Unread::Failed(anyhow::anyhow!(
                "the folder {}, where messages of {} lie, is not there: the process has to run on \
                 the machine of the crawl, as its user; or run the crawl with broker.spool=false",
                folder.display(),
                edge.name()
            ))),
            Err(_) => Err(lost(format!("what it refers to is not in {}", path.display())).into()),
        }
    }

    fn read(
        &mut self,
        path: &Path,
        Reference { offset, length, .. }: &Reference,
    ) -> io::Result<Bytes> {
        let at = match self.open.iter().position(|(open, _)| open == path) {
            Some(at) => at,
            None => {
                let file = File::open(path)?;
                self.open.truncate(OPEN_MAX - 1);
                self.open.push_front((path.to_owned(), file));
                0
            }
        };
        let mut file = &self.open[at].1;
        file.seek(SeekFrom::Start(*offset))?;
        let mut payload = Vec::with_capacity(*length as usize);
        if file.take(u64::from(*length)).read_to_end(&mut payload)? < *length as usize {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(payload.into())
    }
}

/// Returns whether another try, or another process, would come to the same: the file is not there,
/// is too short, is none, or its disk cannot read it.
fn is_missing(error: &io::Error) -> bool {
    let is_damaged = error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
    is_damaged
        || matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::IsADirectory
        )
}

fn lost(what: String) -> Undecodable {
    Undecodable::Corrupt(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::writer::tests::{message, writer};

    #[test]
    fn what_a_reference_names_and_is_not_there_is_lost_and_the_rest_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 80_000);
        let page = message("pages", vec![7; 10_000]);
        let references: Vec<Bytes> = (0..3)
            .map(|token| writer.payload(token, &page).unwrap())
            .collect();
        let file = |n: usize| {
            folder
                .path()
                .join(format!("fetcher-0-00000000000000ff-{}", n + 1))
        };
        std::fs::remove_file(file(0)).unwrap();
        File::options()
            .write(true)
            .open(file(1))
            .unwrap()
            .set_len(9_999)
            .unwrap();
        let mut reader = Reader::of([(Edge::Pages, folder.path().to_owned())]);
        std::fs::create_dir(folder.path().join("fetcher-1")).unwrap();
        let folder_named = Reference {
            file: "fetcher-1".into(),
            offset: 0,
            length: 5,
        }
        .message(Edge::Pages);
        assert!(matches!(
            reader.payload(Edge::Pages, folder_named).unwrap_err(),
            Unread::Lost(_)
        ));
        for (n, reference) in references[..2].iter().enumerate() {
            let unread = reader.payload(Edge::Pages, reference.clone()).unwrap_err();
            let name = format!("ff-{}", n + 1);
            assert!(
                matches!(unread, Unread::Lost(_)) && unread.to_string().contains(&name),
                "{unread}"
            );
        }
        assert_eq!(
            reader.payload(Edge::Pages, references[2].clone()).unwrap(),
            page.payload
        );
    }

    #[test]
    fn a_folder_that_is_not_there_is_no_loss() {
        let folder = tempfile::tempdir().unwrap();
        let reference = writer(folder.path(), 0)
            .payload(1, &message("pages", vec![7; 10_000]))
            .unwrap();
        let elsewhere = folder.path().join("elsewhere");
        let unread = Reader::of([(Edge::Pages, elsewhere)])
            .payload(Edge::Pages, reference.clone())
            .unwrap_err();
        assert!(
            matches!(unread, Unread::Failed(_))
                && unread.to_string().contains("broker.spool=false"),
            "{unread}"
        );
        let unread = Reader::default()
            .payload(Edge::Pages, reference)
            .unwrap_err();
        assert!(matches!(unread, Unread::Lost(_)), "{unread}");
    }

    #[test]
    fn few_files_stay_open() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path(), 800_000);
        let mut reader = Reader::of([(Edge::Pages, folder.path().to_owned())]);
        for token in 0..7 {
            let reference = writer
                .payload(token, &message("pages", vec![7; 100_000]))
                .unwrap();
            reader.payload(Edge::Pages, reference).unwrap();
        }
        assert_eq!(reader.open.len(), OPEN_MAX);
    }
}

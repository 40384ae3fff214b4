//! Spools: where the large messages of a crawl lie whose processes are all on one machine. A page
//! need not go through the broker then, only a [reference](rhumb_wire::message::Reference) to it.
//!
//! ```text
//! fetcher ── Writer ── <data>/spool/pages/fetcher-0-<life>-<number> ── Reader ── parser, archiver
//!     └───────────────────── reference, in the stream of pages ────────────────────┘
//! ```
//!
//! `rhumb` names the folder of an edge in the metadata of its stream when it starts a private
//! broker. A [`Writer`] appends payloads to a file, publishes references, and says when streams
//! have all of them: by an empty file beside it, whose name has the highest sequence among them
//! (`<file>.stored-<sequence>`). While it writes it holds a lock on the file. The [`Sweeper`]
//! removes files of which their stream holds nothing any more.
//!
//! Invariants: a payload lies in its file before its reference is published. A file is removed only
//! when its stream holds no message that refers to it. What is read from a file is checked as what
//! comes from a stream is.

mod reader;
mod sweeper;
mod writer;

pub use reader::{Reader, Unread};
pub use sweeper::Sweeper;
pub use writer::Writer;

use super::Bus;
use super::info::stream_info;
use async_nats::jetstream::stream::Config;
use rhumb_config::{Durability, Pipeline};
use rhumb_wire::topology::{EDGES, Edge};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The key of a stream's metadata under which its folder stands.
pub(crate) const FOLDER: &str = "rhumb-spool";
/// What stands between the name of a file and the highest sequence of its references, in the name
/// of the file beside it.
const STORED: &str = ".stored-";

/// Edges whose large messages may lie in files.
fn edges() -> impl Iterator<Item = Edge> {
    EDGES
        .iter()
        .filter(|row| row.is_spooled)
        .map(|row| row.edge)
}

/// The folder of an edge, as it stands in the metadata of its stream; none where the crawl has a
/// broker that other machines may reach.
pub(super) fn folder(pipeline: &Pipeline, edge: Edge) -> Option<String> {
    let folder = (edge.is_spooled() && pipeline.broker.url.is_empty())
        .then(|| spool(&pipeline.data).join(edge.name()))?;
    std::path::absolute(folder)
        .ok()?
        .into_os_string()
        .into_string()
        .ok()
}

/// The folder of all edges.
fn spool(data: &Path) -> PathBuf {
    data.join("spool")
}

/// Returns whether large messages go into files from now on, where their streams have folders.
/// After a power cut a stream could have a reference to what a file has lost.
fn is_on(pipeline: &Pipeline) -> bool {
    pipeline.broker.spool && pipeline.durability == Durability::Process
}

/// Bytes that lie in files for a stream; 0 when it has no folder, or that is on another machine.
pub fn bytes(config: &Config) -> u64 {
    files_of(config).values().map(|file| file.bytes).sum()
}

/// Bytes of the files that streams have wholly and that a message behind this sequence refers to:
/// what waits for a consumer that has acked all up to it. What writers still append to is not among
/// them.
pub(super) fn bytes_behind(config: &Config, acked: u64) -> u64 {
    let waits = |file: &&Found| {
        file.stored
            .as_ref()
            .is_some_and(|(_, sequence)| *sequence > acked)
    };
    files_of(config)
        .values()
        .filter(waits)
        .map(|file| file.bytes)
        .sum()
}

/// A file of a folder.
#[derive(Debug, Default)]
struct Found {
    is_there: bool,
    bytes: u64,
    /// When something was appended to it last.
    modified: Option<SystemTime>,
    /// The file beside it, and the highest sequence that refers to it.
    stored: Option<(PathBuf, u64)>,
}

fn files_of(config: &Config) -> BTreeMap<PathBuf, Found> {
    config
        .metadata
        .get(FOLDER)
        .and_then(|folder| list(Path::new(folder)).ok())
        .unwrap_or_default()
}

/// The files of a folder, each with what is beside it.
fn list(folder: &Path) -> io::Result<BTreeMap<PathBuf, Found>> {
    let mut files: BTreeMap<PathBuf, Found> = BTreeMap::new();
    for entry in folder.read_dir()? {
        let entry = entry?;
        let path = entry.path();
        if let Some((of, sequence)) = stored(&path) {
            files.entry(of).or_default().stored = Some((path, sequence));
        } else if let Ok(metadata) = entry.metadata() {
            // One that is not there any more was removed meanwhile.
            let file = files.entry(path).or_default();
            (file.is_there, file.bytes, file.modified) =
                (true, metadata.len(), metadata.modified().ok());
        }
    }
    Ok(files)
}

/// The file that one says something about, and what it says; none when it is such a file itself.
fn stored(path: &Path) -> Option<(PathBuf, u64)> {
    let (of, sequence) = path.file_name()?.to_str()?.rsplit_once(STORED)?;
    Some((path.with_file_name(of), sequence.parse().ok()?))
}

/// The folder that the stream of an edge names.
async fn named_folder(bus: &Bus, edge: Edge) -> anyhow::Result<Option<PathBuf>> {
    let info = stream_info(bus, &bus.subjects.stream(edge.name())).await?;
    Ok(info.and_then(|info| info.config.metadata.get(FOLDER).map(PathBuf::from)))
}

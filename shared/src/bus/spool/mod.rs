//! Spools: where the large messages of a crawl lie whose processes are all on one machine. A page need not go through the
//! broker then, only a [reference](Reference) to it.
//!
//! ```text
//! fetcher ── Writer ── <data>/spool/pages/fetcher-0-<life>-<number> ── Reader ── parser, archiver
//!     └───────────────────── reference, in the stream of pages ────────────────────┘
//! ```
//!
//! `rhumb` names the folder of an edge in the metadata of its stream when it starts a private broker. A [`Writer`] appends
//! payloads to a file, publishes references, and says when streams have all of them: by an empty file beside it, whose name
//! has the highest sequence among them (`<file>.stored-<sequence>`). While it writes it holds a lock on the file. The
//! [`Sweeper`] removes files of which their stream holds nothing any more.
//!
//! Invariants: a payload lies in its file before its reference is published. A file is removed only when its stream holds no
//! message that refers to it. What is read from a file is checked as what comes from a stream is.

mod reader;
mod sweeper;
mod writer;

pub use crate::message::Reference;
pub use reader::{Reader, Unread};
pub use sweeper::Sweeper;
pub use writer::Writer;

use super::Bus;
use super::info::stream_info;
use crate::config::{Durability, Pipeline};
use crate::topology::{EDGES, Edge};
use async_nats::jetstream::stream::Config;
use std::path::{Path, PathBuf};

/// The key of a stream's metadata under which its folder stands.
pub(crate) const FOLDER: &str = "rhumb-spool";
/// What stands between the name of a file and the highest sequence of its references, in the name of the file beside it.
const STORED: &str = ".stored-";

/// Edges whose large messages may lie in files.
pub fn edges() -> impl Iterator<Item = Edge> {
    EDGES.iter().filter(|row| row.is_spooled).map(|row| row.edge)
}

/// Says whether large messages of an edge may lie in files.
fn is_spooled(edge: Edge) -> bool {
    edge.row().is_some_and(|row| row.is_spooled)
}

/// The folder of an edge, as it stands in the metadata of its stream; none where the crawl has a broker that other machines
/// may reach.
pub(super) fn folder(pipeline: &Pipeline, edge: Edge) -> Option<String> {
    let folder =
        (is_spooled(edge) && pipeline.broker.url.is_empty()).then(|| spool(&pipeline.data).join(edge.name()))?;
    std::path::absolute(folder).ok()?.into_os_string().into_string().ok()
}

/// The folder of all edges.
fn spool(data: &Path) -> PathBuf {
    data.join("spool")
}

/// Says whether large messages go into files from now on, where their streams have folders. After a power cut a stream
/// could have a reference to what a file has lost.
fn is_on(pipeline: &Pipeline) -> bool {
    pipeline.broker.spool && pipeline.durability == Durability::Process
}

/// Bytes that lie in files for a stream; 0 when it has no folder, or that is on another machine.
pub fn bytes(config: &Config) -> u64 {
    config.metadata.get(FOLDER).map_or(0, |folder| bytes_in(Path::new(folder)))
}

fn bytes_in(folder: &Path) -> u64 {
    let Ok(files) = folder.read_dir() else { return 0 };
    files.filter_map(|file| file.ok()?.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// The folder that the stream of an edge names.
async fn named_folder(bus: &Bus, edge: Edge) -> anyhow::Result<Option<PathBuf>> {
    let info = stream_info(bus, &bus.subjects.stream(edge.name())).await?;
    Ok(info.and_then(|info| info.config.metadata.get(FOLDER).map(PathBuf::from)))
}

//! Checkpoints: a crawl as it was at one moment, in a folder.
//!
//! ```text
//! DIR/checkpoint.json      what it is, with a checksum of itself: written last
//!     pipeline.yaml        the configuration, without secrets
//!     dedup/00000.parts    the parts of a partition, compressed
//!     scheduler/00000.parts ...
//! ```
//! In: what `rhumb checkpoint` collects from the processes of a crawl. Out: what `rhumb crawl
//! --restore` begins with. Invariant: a folder with `checkpoint.json` is whole; one without it has
//! nothing that is used.
//!
//! - [`Manifest`]: what `checkpoint.json` says;
//! - [`Folder`]: a checkpoint that is being written;
//! - `parts`: the parts of a partition in a file, `saved`: what the manifest says of it.

mod folder;
mod manifest;
mod parts;
mod saved;

pub(crate) use folder::{Folder, UNFINISHED, is_left_over};
#[cfg(test)]
pub(crate) use manifest::tests::manifest_of;
pub(crate) use manifest::{CONFIGURATION, FORMAT, MANIFEST, Manifest};
pub(crate) use parts::{PartsFile, PartsReader};
pub(crate) use saved::{SavedFile, SavedPartition};

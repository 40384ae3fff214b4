//! Archiver: keeps what was fetched, in the formats that archives read.
//!
//! In: responses as the servers sent them (fetcher), what documents say of themselves (parser),
//! outcomes (scheduler). Out: WARC files, a CDXJ index beside each, and `crawl.jsonl`, a line for
//! every outcome.
//!
//! Invariants: an input is acked only when what it became is on the disk and synced (P3), and
//! becomes that once, however often it is delivered to an instance; a file with its final name is
//! whole; memory is bounded by configuration (P6).
//!
//! [`core`] decides, without a clock or a file; [`folder`] does what it says.

pub mod core;
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a shell: it waits, and looks at the clock"
)]
pub mod folder;
pub mod metrics;
pub mod settings;

mod compressor;
mod crawl_log;
mod index;
mod originals;
mod page;
mod recent;
mod record;
mod remembered;
mod time;
mod usage;

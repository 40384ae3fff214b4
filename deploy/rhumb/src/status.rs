//! One picture of a crawl: what each process answers, and what lies in each stream.
//!
//! - `snapshot`: the picture; `summary`: its sums;
//! - `known`: what processes with state told last; `shares`: how it counts while they are silent;
//! - `backlog`: which consumers have to ack what lies in a stream;
//! - `rates`: what passes between two pictures; `words`: what each stage is doing, and which one is
//!   short;
//! - `equations`: what must add up when no URL is lost (P3).

pub(crate) mod backlog;
mod equations;
mod known;
pub(crate) mod rates;
mod recrawled;
mod shares;
mod snapshot;
mod summary;
pub(crate) mod words;

pub(crate) use backlog::unarchived;
pub use known::Silent;
pub(crate) use known::{Known, LastKnown};
pub use recrawled::{Copies, Recrawled, SignalsHeard};
pub(crate) use snapshot::{Snapshot, StreamUse};
pub use summary::{ConsumerUse, Parked, ProcessUse, ProcessWork, Summary, TopicUse};
pub(crate) use summary::{Supervision, walls_text};

//! The batch: what the folder writes and syncs in one go.

use crate::index::Line;
use std::ops::Range;

/// What is written in one go.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Records, a member each.
    pub(crate) members: Vec<u8>,
    /// The index lines of the records that have one, each with the record's place in `members`.
    pub(crate) entries: Vec<(Line, Range<usize>)>,
    /// Lines for the log.
    pub(crate) lines: String,
}

//! The batch: what the folder writes and syncs in one go.

use crate::index::Line;
use std::collections::BTreeMap;
use std::ops::Range;

/// Records of one series of files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    /// A member each.
    pub(crate) members: Vec<u8>,
    /// The index lines of the records that have one, each with the record's place in `members`.
    pub(crate) entries: Vec<(Line, Range<usize>)>,
}

/// What is written in one go.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// By series: a topic where each has one of its own, else none.
    pub(crate) records: BTreeMap<String, Records>,
    /// Lines for the log.
    pub(crate) lines: String,
}

impl Batch {
    /// Bytes of all of it.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len()
            + self
                .records
                .values()
                .map(|records| records.members.len())
                .sum::<usize>()
    }
}

//! A partition on its way into the sieve: its keys become a run.
//!
//! In: the keys in order, in chunks. Out: a run that is complete. Until then nothing refers to its file.

use super::run::Run;
use super::run_writer::RunWriter;
use crate::seen::Key;
use crate::seen::ascent::Ascent;
use crate::seen::error::SeenError;
use crate::seen::folder::{Folder, Name};

/// An import that has begun.
pub(super) struct Import {
    ascent: Ascent,
    writer: RunWriter,
}

impl Import {
    pub(super) fn begin(folder: &Folder, partition: u16, generation: u64) -> Result<Self, SeenError> {
        let writer = RunWriter::create(folder, partition, generation)?;
        Ok(Import { ascent: Ascent::new(partition), writer })
    }

    /// File that is being written.
    pub(super) fn name(&self) -> Name {
        self.writer.name()
    }

    /// An error when the keys are not the next in order.
    pub(super) fn check(&mut self, keys: &[Key]) -> Result<(), SeenError> {
        self.ascent.check(keys)
    }

    pub(super) fn push(&mut self, keys: &[Key]) -> Result<(), SeenError> {
        keys.iter().try_for_each(|&key| self.writer.push(key))
    }

    pub(super) fn end(self) -> Result<Run, SeenError> {
        self.writer.finish()
    }
}

//! The order of the keys that are imported: each is greater than the one before it.
//!
//! Invariant: after an error nothing more is let through.

use super::Key;
use super::error::SeenError;

/// Looks at the keys of a partition, chunk by chunk.
pub(super) struct Ascent {
    partition: u16,
    last: Option<Key>,
}

impl Ascent {
    pub(super) fn new(partition: u16) -> Self {
        Ascent {
            partition,
            last: None,
        }
    }

    pub(super) fn partition(&self) -> u16 {
        self.partition
    }

    /// An error when the keys do not ascend strictly, from the last chunk on.
    pub(super) fn check(&mut self, keys: &[Key]) -> Result<(), SeenError> {
        let Some(&first) = keys.first() else {
            return Ok(());
        };
        if self.last.is_some_and(|last| last >= first) || !keys.is_sorted_by(|a, b| a < b) {
            return Err(SeenError::Unordered(self.partition));
        }
        self.last = keys.last().copied();
        Ok(())
    }
}

//! A partition that leaves, copied while its owner's core works with it.
//!
//! In: the rows of a partition, and what the stage keeps beside its tables as it was when the copy
//! began. Out: parts; then what is needed to send the rest when the core works no more. Invariant:
//! nothing is written to the store.

use crate::beside::Copied;
use crate::moves::{Bill, Loading, Rows};
use crate::store::{StoreError, Table};
use bytes::Bytes;
use std::time::Duration;

/// A copy of a partition that is to be sent.
pub struct Copying {
    pub(super) rows: Rows,
    /// The partition.
    pub partition: u16,
    /// Of its ownership.
    pub version: u64,
    pub(super) copy: u64,
    pub(super) bill: Bill,
    /// What the stage keeps beside its tables, with its name.
    pub(super) copied: Option<(Table, Box<dyn Copied>)>,
}

/// A partition that was sent, but for what changes until it is given.
pub struct Sent {
    pub(super) version: u64,
    pub(super) copy: u64,
    /// The parts that follow.
    pub(super) loading: Loading,
    /// What it took, for the log.
    pub cost: Cost,
}

/// What a copy took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Bytes of its parts.
    pub bytes: u64,
    /// From its beginning to its end.
    pub took: Duration,
    /// Of the processor; the rest of the time it rested.
    pub worked: Duration,
}

impl Copying {
    /// Reads the partition into parts of about this many bytes; `full` takes each.
    ///
    /// # Errors
    /// It cannot be read, or `full` has failed.
    pub fn read(
        self,
        part_bytes: usize,
        full: &mut dyn FnMut(Bytes) -> Result<(), StoreError>,
    ) -> Result<Sent, StoreError> {
        let mut loading = Loading::of_parts(self.bill, self.copy, part_bytes);
        let mut copied = self.copied;
        let copied = copied
            .as_mut()
            .map(|(name, copied)| (*name, copied.as_mut()));
        self.rows.copy(copied, self.partition, &mut loading, full)?;
        Ok(Sent {
            version: self.version,
            copy: self.copy,
            loading,
            cost: Cost::default(),
        })
    }
}

//! What a stage keeps of its partitions beside its tables, as it moves: copied while the core
//! works, and what came later when it works no more.
//!
//! In: a partition; blocks of keys, in a form that the stage alone knows. Out: the same.

use crate::store::{Changes, StoreError, Table};
use rhumb_partition::Split;
use std::any::Any;

/// Called with a block of keys: at most 64 KiB.
pub type VisitBlock<'a> = dyn FnMut(&[u8]) -> Result<(), StoreError> + 'a;

/// What a stage keeps of its partitions beside its tables. All changes become true with the commit
/// of what [`stage`](Beside::stage) adds, none before.
pub trait Beside: Any + Send {
    /// The name under which its keys travel, unlike that of any table.
    fn name(&self) -> Table;

    /// The keys of a partition as they are now, to be read while the core works on. Keys that come
    /// from now on are remembered.
    ///
    /// # Errors
    /// They cannot be read.
    fn copy(&mut self, partition: u16) -> Result<Box<dyn Copied>, StoreError>;

    /// Visits the keys that came since the copy of a partition began; they are not remembered any
    /// more.
    ///
    /// # Errors
    /// `visit` has failed.
    fn take_later(&mut self, partition: u16, visit: &mut VisitBlock<'_>) -> Result<(), StoreError>;

    /// Begins to take a partition over. Nothing refers to its keys before they are imported.
    ///
    /// # Errors
    /// It cannot be written.
    fn importer(&mut self, partition: u16) -> Result<Box<dyn Importing>, StoreError>;

    /// All keys of a partition have come: they take the place of what there is of it.
    ///
    /// # Errors
    /// They cannot be written.
    fn import(&mut self, importing: Box<dyn Importing>) -> Result<(), StoreError>;

    /// Knows nothing of a partition any more.
    ///
    /// # Errors
    /// That cannot be written.
    fn forget(&mut self, partition: u16) -> Result<(), StoreError>;

    /// What a partition that was split has is its halves' from now on.
    ///
    /// # Errors
    /// It cannot be read or written.
    fn halve(&mut self, split: &Split) -> Result<(), StoreError>;

    /// Adds to a commit what makes the changes true.
    ///
    /// # Errors
    /// They cannot be written.
    fn stage(&mut self, changes: &mut Changes) -> Result<(), StoreError>;

    /// That was committed.
    ///
    /// # Errors
    /// What is not used any more cannot be removed.
    fn committed(&mut self) -> Result<(), StoreError>;
}

/// The keys of a partition, as they were when a copy of it began.
pub trait Copied: Send {
    /// Visits the blocks, in order.
    ///
    /// # Errors
    /// They cannot be read, or `visit` has failed.
    fn visit(&mut self, visit: &mut VisitBlock<'_>) -> Result<(), StoreError>;
}

/// The keys of a partition that comes. What is dropped leaves nothing.
pub trait Importing: Any + Send {
    /// Takes the next block: of the copy, in order; or of what came later.
    ///
    /// # Errors
    /// It is none, not in order, or cannot be written.
    fn take(&mut self, block: &[u8], is_later: bool) -> Result<(), StoreError>;
}

//! The table of owners as it is written: who has which partition, and how often that has changed.

use super::owners::Owners;

/// The owners of a stage's partitions as they lie at the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnersTable {
    /// Who has which partition.
    pub owners: Owners,
    /// Grows with each change.
    pub revision: u64,
}

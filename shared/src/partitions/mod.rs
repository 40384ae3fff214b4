//! Partitions: which hashes are whose, as partitions split and instances come and go.
//!
//! - [`Directory`]: from a hash to its partition, by extendible hashing;
//! - [`plan`]: from a partition to its instance, in as few moves as possible;
//! - [`Owners`]: from a partition to its instance as it is, and what is on its way;
//! - [`Oversight`]: what an instance does about that, as time goes by.
//!
//! In: hashes, weights, instances. Out: ids of partitions, moves, owners. Nothing here knows a broker or a store.
//!
//! The laboratory alone uses the directory so far: a crawl's partitions do not split. Those with which a directory begins
//! are those of a crawl ([`crate::url::partition_of`]).

mod directory;
mod oversight;
mod owners;
mod planner;

pub use directory::{Directory, NotSplit, Slice};
pub use oversight::{Due, Oversight, Ready, is_to_have_others};
pub use owners::{OwnerOf, Owners, Whereabouts};
pub use planner::{Held, Move, plan};

//! Partitions: which hashes are whose, as partitions split and instances come and go.
//!
//! - [`Directory`]: from a hash to its partition, by extendible hashing;
//! - [`plan`]: from a partition to its instance, in as few moves as possible.
//!
//! In: hashes, weights, instances. Out: ids of partitions, and moves. Nothing here knows a broker or a store.
//!
//! The laboratory alone uses them so far: a crawl's partitions neither split nor move. Those with which a directory begins
//! are those of a crawl ([`crate::url::partition_of`]).

mod directory;
mod planner;

pub use directory::{Directory, NotSplit, Slice};
pub use planner::{Held, Move, plan};

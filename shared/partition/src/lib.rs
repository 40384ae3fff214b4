//! Partitions: which hashes are whose, as partitions split and instances come and go.
//!
//! - [`Directory`]: from a hash to its partition, by extendible hashing;
//! - [`plan`]: from a partition to its instance, in as few moves as possible;
//! - [`Owners`]: from a partition to its instance as it is, what is on its way, and what has to
//!   move;
//! - [`OwnersTable`]: the same with its revision;
//! - [`Split`]: a partition that became two;
//! - [`Oversight`]: what an instance does about that, as time goes by.
//!
//! In: hashes, weights, instances. Out: ids of partitions, moves, owners. Nothing here knows a
//! broker or a store.
//!
//! The partitions with which a directory begins are those of a crawl that begins
//! ([`rhumb_url::partition_of`]).

mod balance;
mod directory;
mod oversight;
mod owners;
mod planner;
mod restored;
mod splits;
mod table;

pub use directory::{Directory, NotSplit, Slice};
pub use oversight::{Due, Oversight, Ready, is_to_have_others};
pub use owners::{OwnerOf, Owners, Retired, Whereabouts};
pub use planner::{Held, Move, plan};
pub use splits::{LEADER, Split};
pub use table::OwnersTable;

//! Moves: how a partition of a stage with state gets from one instance to another, without a shared disk.
//!
//! ```text
//!  owner: leaving ─▶ drained ─▶ rows ─▶ parts ─▶ moves.<stage>.<partition>.<version> ─▶ given
//!  receiver:                                          given ─▶ parts ─▶ rows ─▶ taken
//!  owner:                                                                        taken ─▶ rows removed
//! ```
//!
//! In: the table of [owners](crate::partitions::Owners), and the state of the instance between two lives of its core, when
//! nothing is in hand. Out: the table after what was to be given and taken, and the state that fits it.
//!
//! Invariants: an owner gives a partition only when all its parts are in their stream; a receiver takes it only when all its
//! rows are committed. Until then whoever dies leaves it with the owner, afterwards with the receiver. Nothing is written
//! after the end of the instance's lease.
//!
//! - [`rows`]: which rows are a partition's;
//! - [`parts`]: rows in messages, each with a checksum and what it is part of;
//! - [`steps`]: what is read, and what each commit holds;
//! - `mover`: gives, takes and forgets.

mod mover;
mod parts;
mod rows;
pub mod steps;

pub(super) use mover::Mover;
pub use parts::{Bill, Loading, Part, Unfit};
pub use rows::{Beside, Keyed, Rows};

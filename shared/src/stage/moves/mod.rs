//! Moves: how a partition of a stage with state gets from one instance to another, without a shared disk.
//!
//! ```text
//!  owner    works: rows ─▶ copy ─▶ parts ─┐        works no more: what changed ─▶ parts ─┐ ─▶ given
//!                                         ▼ moves.<stage>.<partition>.<version>          ▼
//!  receiver works:                      parts ─▶ rows ─▶ copied                        parts ─▶ rows;  works no more: taken
//! ```
//!
//! A partition that was split is halved in the same place: its owner keeps both halves, and nothing travels.
//!
//! In: the table of [owners](crate::partitions::Owners), and the state of the instance. Out: the table after what was to be
//! given and taken, and the state that fits it. Both instances work while the copy is made (`ahead`); each ends the life of
//! its core only to give and to take (`mover`), when nothing is in hand.
//!
//! Invariants: an owner gives a partition only when the receiver has the copy and all parts are in their stream; a receiver
//! takes it only when all its rows are committed. Until then whoever dies leaves it with the owner, afterwards with the
//! receiver. Nothing is written after the end of the instance's lease.
//!
//! - [`rows`]: which rows are a partition's; `beside`: what a stage keeps beside them;
//! - [`parts`]: rows in messages, each with a checksum and what it is part of;
//! - [`changed`]: which rows changed since a copy began;
//! - [`steps`]: what is read, and what each commit holds;
//! - `capture`: copies of all partitions for a checkpoint, in [`pieces`](Piece); `restored`: brings them to their next owners;
//! - `ahead`: `sending` and `loading`, with `parts_stream`, `desk` and `work`; `mover`: gives, takes and forgets.

mod ahead;
mod beside;
mod capture;
mod changed;
mod desk;
mod loading;
mod mover;
mod parts;
mod parts_stream;
mod piece;
mod restored;
mod rows;
mod sending;
pub mod steps;
mod work;

#[cfg(test)]
mod tests;

pub(super) use ahead::{Ahead, Brought};
pub use beside::{Beside, Copied, Importing, VisitBlock};
pub(super) use capture::Capture;
pub use changed::Changed;
pub(super) use desk::Desk;
pub(super) use mover::Mover;
pub use parts::{Bill, Follows, Loading, Part, Unfit};
pub(super) use parts_stream::PartsStream;
pub use piece::{OF_INSTANCE, Piece};
pub use restored::{Restoring, Saved};
pub use rows::{HalveRows, Keyed, Removal, Rows};

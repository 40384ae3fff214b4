//! Partitions in parts: what a partition of a stage with state is made of, so that it can get to
//! another instance.
//!
//! - [`Rows`]: which rows are a partition's;
//! - [`Part`]: rows in messages, each with a checksum and what it is part of;
//! - [`Changed`]: which rows changed since a copy began;
//! - [`steps`]: what is read, and what each commit holds.
//!
//! In: the store of an instance. Out: parts, and changes of a store. Nothing here knows a broker:
//! who sends the parts, and when, is the node's.

mod changed;
mod parts;
mod rows;
pub mod steps;

#[cfg(test)]
mod tests;

pub use changed::Changed;
pub use parts::{Bill, Follows, Loading, PART_BYTES, Part, Unfit};
pub use rows::{HalveRows, Keyed, Removal, RowVisit, Rows};

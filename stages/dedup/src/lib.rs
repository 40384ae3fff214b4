//! Seen before? The exact URL-seen test.

mod content;
pub mod dedup;
mod filters;
pub mod sieve;

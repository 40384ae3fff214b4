//! Seen before? The exact URL-seen test.

pub mod dedup;
mod filters;
mod recent;

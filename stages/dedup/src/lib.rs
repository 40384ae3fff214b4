//! Seen before? The exact URL-seen test.

mod content;
pub mod dedup;
pub mod seen;

//! Seen before? The exact URL-seen test.

mod content;
mod counters;
pub mod dedup;
mod held;
mod meta;
pub mod moving;
mod news;
mod owned;
pub mod seen;

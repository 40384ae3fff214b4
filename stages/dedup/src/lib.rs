//! Seen before? The exact URL-seen test.

mod content;
mod counters;
pub mod dedup;
mod held;
pub mod meta;
pub mod metrics;
pub mod moving;
mod news;
mod owned;
mod passed_on;
pub mod seen;
mod sizes;

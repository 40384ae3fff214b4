//! Which partition? Filters found URLs and groups them by partition.

mod batches;
mod boosts;
pub mod effect;
mod elsewhere;
mod followed;
mod form;
pub mod metrics;
pub mod splitter;
pub mod worths;

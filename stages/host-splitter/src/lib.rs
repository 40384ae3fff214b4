//! Which partition? Filters found URLs and groups them by partition.

mod batches;
pub mod effect;
mod followed;
mod form;
pub mod metrics;
pub mod splitter;

//! Which partition? Filters found URLs and groups them by partition.

mod batches;
pub mod effect;
pub mod filters;
mod followed;
mod form;
pub mod metrics;
pub mod splitter;

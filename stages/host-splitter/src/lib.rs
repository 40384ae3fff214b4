//! Which partition? Filters found URLs and groups them by partition.

pub mod filters;
pub mod splitter;

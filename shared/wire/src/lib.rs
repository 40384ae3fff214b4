//! What travels between processes, and where.
//!
//! - [`topology`]: every edge and every stage, in two constant tables;
//! - [`message`]: one type per edge of the pipeline, and the envelope that it travels in;
//! - [`Subjects`]: the subjects of a crawl;
//! - lanes: slices of a shared edge by host ([`LANES`]).

mod lanes;
pub mod message;
mod subjects;
pub mod topology;

pub use lanes::{LANES, LaneConsumer, lane_among, lane_consumers, lane_of, lane_of_hash, priority};
pub use subjects::{ParkedUnder, Subjects};

//! What a process tells of itself: metrics, CPU time and memory. Beside them, files that are
//! replaced whole.
//!
//! - [`metrics`]: what metrics mean, and the text that Prometheus reads;
//! - [`process`]: CPU time and memory of a process;
//! - [`whole_file`]: files that are there whole or not at all.

pub mod metrics;
pub mod process;
pub mod whole_file;

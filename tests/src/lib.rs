//! The tests of the whole.

pub mod bench;
pub mod faults;
pub mod harness;
pub mod simulation;
pub mod stages;

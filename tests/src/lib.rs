//! The tests of the whole.

pub mod bench;
pub mod harness;
pub mod simulation;

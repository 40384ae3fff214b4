//! The synthetic web and the tests of the whole.

pub mod bench;
pub mod harness;
pub mod simulation;
pub mod synthetic_web;

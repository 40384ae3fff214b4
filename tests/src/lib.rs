//! The synthetic web and the tests of the whole.

pub mod bench;
pub mod harness;
pub mod synthetic_web;

//! The core alone, on a simulated clock.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod bench;
mod cookie_walls;
mod doubt;
mod http11;
mod jobs;
mod lease;
mod replay;
mod requests;

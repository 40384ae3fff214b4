//! The one loop of all stages, and what it is made of.
//!
//! ```text
//!  streams ─┐                       ┌─▶ changes + outbox + position, one commit ─▶ ack ─▶ publish   (with state)
//!  core NATS ├─▶ decode ─▶ core.step ┤
//!  answers ─┘                       └─▶ publish ─▶ all outputs stored ─▶ ack                        (without)
//! ```

mod applied;
mod args;
mod control;
mod core;
pub mod disk;
mod inputs;
mod outbox;
mod ownership;
mod run;
mod start;
pub mod store;
mod tickets;

pub use crate::topology::{Source, Token};
pub use applied::Applied;
pub use args::Args;
pub use control::{ControlRequest, ProcessReason, ProcessStatus};
pub use core::{Core, Count, Event, Output, Publish, Send, Ticket};
pub use ownership::Ownership;
pub use start::{Context, NoShell, Shell, Stage, State, main, new_life};

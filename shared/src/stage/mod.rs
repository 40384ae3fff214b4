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
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the loop: it waits, and looks at the clock")]
mod ownership;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the loop: it waits, and looks at the clock")]
mod run;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the loop: it waits, and looks at the clock")]
mod start;
pub mod store;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the loop: it waits, and looks at the clock")]
mod tickets;

pub use applied::Applied;
pub use args::Args;
pub use control::{ControlRequest, ProcessReason, ProcessStatus};
pub use core::{Core, Count, Event, Output, Publish, Send, Ticket, Token};
pub use inputs::Source;
pub use ownership::Ownership;
pub use start::{Context, NoShell, Shell, Stage, State, main, new_life};

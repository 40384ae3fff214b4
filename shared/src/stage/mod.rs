//! The one loop of all stages, and what it is made of.
//!
//! ```text
//!  streams ──┐                       ┌─▶ changes + outbox + position, one commit ─▶ publish, ack   (with state)
//!  core NATS ├─▶ decode ─▶ core.step ┤                                                            settlement/
//!  answers ──┘                       └─▶ publish ─▶ all outputs stored ─▶ ack                      (without)
//! ```
//!
//! A stage's binary hands [`main`] a [`Stage`], plain data; everything from its command line to its drained end is here
//! and compiled once. `run` drives the [`settlement`] with a real broker; the simulation drives the same one with a
//! broker in memory.

mod any_core;
mod args;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "before the loop: it waits")]
mod arrival;
mod context;
mod control;
mod core;
pub mod disk;
mod dropping;
mod front;
mod in_hand;
mod incoming;
mod inputs;
mod instance_state;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a number of its own comes from the clock")]
mod life;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "between two lives of a core: it waits")]
mod lives;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the loop: it waits, and looks at the clock")]
mod lookout;
pub mod metrics;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "between two lives of a core: it waits")]
mod moves;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "beside the loop: it waits")]
mod number;
mod occupation;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the loop: it waits, and looks at the clock")]
mod orders_watch;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the loop: it waits, and looks at the clock")]
mod owners_watch;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the loop: it waits, and looks at the clock")]
mod ownership;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the loop: it waits, and looks at the clock")]
mod parked;
mod process;
mod queue;
mod rates;
pub mod report;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the loop: it waits, and looks at the clock")]
mod run;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the loop: it waits, and looks at the clock")]
mod saying;
pub mod settlement;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the loop: it waits, and looks at the clock")]
mod shutdown;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the loop: it waits, and looks at the clock")]
mod start;
pub mod store;
mod telling;

pub use crate::topology::{Source, Token};
pub use any_core::{AnyCore, NoShell, Refusal, Shell, Signal, assemble};
pub use args::{Args, Instance};
pub use arrival::crawl as wait_for_crawl;
pub use context::{Context, OpenBeside, Stage, State};
pub use control::{
    ControlRequest, PartitionFigures, ProcessCapture, ProcessHeeds, ProcessPartitions, ProcessReason, ProcessStatus,
};
pub use core::{Core, Count, CountOfTopic, Event, Figures, Output, Publish, Send, Step, Ticket};
pub use dropping::{CountQuestion, Counted, DropProgress, ProcessCount, ProcessDrop};
pub use life::new_life;
pub use moves::{
    Beside, Bill, Changed, Copied, Follows, HalveRows, Importing, Keyed, Loading, OF_INSTANCE, Part, Piece, Removal,
    Restoring, Rows, Saved, Unfit, VisitBlock, steps,
};
pub use occupation::{Shares, TimeSpent};
pub use ownership::{Holder, Ownership, holder_of, holders};
pub use queue::{Estimates, Measure, ProcessQueue, QueueQuestion, RobotsTold, ServerQueue, Trap, WaitingUrl};
pub use report::{HostTold, Leaders, Pace, ProcessReport, ReportQuestion, Reported, ServerTold, Slot, Tallied};
pub use settlement::{Applied, settled_count};
pub use start::main;

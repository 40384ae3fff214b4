//! What a stage is made of, without the process around it.
//!
//! ```text
//!  messages ─▶ settlement ─▶ core.step … ─▶ changes + outbox + positions, one commit ─▶ publish, ack   (with state)
//!                                   └──────▶ publish ─▶ all outputs stored ─▶ ack                       (without)
//! ```
//!
//! - [`Core`]: the logic of a stage, synchronous and deterministic;
//! - [`store`]: its state: tables, changes, one commit, and what a core reads before it;
//! - [`settlement`]: which message is applied, published, acked, and when;
//! - [`node`]: how an instance gives and takes partitions;
//! - [`moves`]: a partition in parts; [`Beside`]: what a stage keeps beside its tables;
//! - [`doubt`]: whether what fails is ours;
//! - what a stage answers to those who ask it: [`ControlRequest`], [`queue`](QueueQuestion),
//!   [`report`], [`Counted`].
//!
//! Invariant: nothing here waits, or looks at a clock or a network. The process drives it, and so
//! does the simulation.

mod beside;
mod control;
mod core;
pub mod doubt;
mod dropping;
mod known;
pub mod moves;
pub mod node;
mod occupation;
mod queue;
pub mod report;
pub mod settlement;
pub mod store;

pub use self::core::{
    Core, Count, Event, Figures, LabelledCount, Output, Publish, Send, Signal, Step, Ticket,
};
pub use beside::{Beside, Copied, Importing, VisitBlock};
pub use control::{
    ControlRequest, PartitionFigures, ProcessCapture, ProcessHeeds, ProcessPartitions,
    ProcessReason, ProcessStatus,
};
pub use dropping::{CountQuestion, Counted, DropProgress, ProcessCount, ProcessDrop};
pub use known::{Believed, Difference, KnownTold, NextVisit};
pub use moves::{Bill, Changed, Follows, HalveRows, Keyed, Loading, Part, Removal, Rows, Unfit};
pub use occupation::{Occupation, Shares, TimeSpent};
pub use queue::{
    Estimates, Measure, ProcessQueue, QueueQuestion, RobotsTold, ServerQueue, Trap, WaitingUrl,
};
pub use report::{
    HostTold, Leaders, Pace, ProcessReport, ReportQuestion, Reported, ServerTold, Slot, Tallied,
};
pub use settlement::{Applied, settled_count};

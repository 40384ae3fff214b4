//! The process around a core: the one loop of all stages, and what it is made of.
//!
//! ```text
//!  streams ──┐                       ┌─▶ changes + outbox + position, one commit ─▶ publish, ack   (with state)
//!  core NATS ├─▶ decode ─▶ core.step ┤                                                            settlement
//!  answers ──┘                       └─▶ publish ─▶ all outputs stored ─▶ ack                      (without)
//! ```
//!
//! A stage's program hands [`main`] a [`Stage`], plain data; everything from its command line to
//! its drained end is here and compiled once. `run` drives the
//! [settlement](rhumb_stage::settlement) with a real broker; the simulation drives the same one
//! with a broker in memory.
//!
//! Beside the loop: [`log`], log lines, their form, which there are, how often one comes again;
//! [`log_file`], the bound of a process's log; [`health`], health and metrics over HTTP, from a
//! thread of their own; [`exit_codes`], what programs end with.

mod any_core;
mod args;
mod arrival;
mod context;
pub mod disk;
pub mod exit_codes;
mod front;
pub mod health;
mod in_hand;
mod incoming;
mod inputs;
mod instance_state;
pub mod keeper;
mod life;
mod lives;
pub mod log;
pub mod log_file;
mod lookout;
pub mod metrics;
mod moves;
mod number;
mod orders_watch;
mod owners_watch;
mod ownership;
mod parked;
mod process;
mod rates;
mod run;
mod saying;
mod shutdown;
mod start;
mod telling;

pub use any_core::{AnyCore, NoShell, Refusal, Shell, assemble};
pub use args::{Args, Instance};
pub use arrival::crawl as wait_for_crawl;
pub use context::{Context, OpenBeside, Stage, State};
pub use life::new_life;
pub use moves::{OF_INSTANCE, Piece, Restoring, Saved};
pub use ownership::{Holder, Ownership, holder_of, holders};
pub use start::main;

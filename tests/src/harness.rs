//! Runs `rhumb` as its users do: as a command, on a data directory, against a web.
//!
//! In: a [`synthetic_web::Profile`], arguments, signals. Out: exit codes, summaries, and what the web saw.
//!
//! Invariants: one [`World`] at a time on this machine, so that no test disturbs another's timing; whatever was
//! started has ended when its value is dropped; the folder of a failed test is kept.

mod assertions;
mod command;
mod crawl;
mod further;
mod running;
mod world;

pub use assertions::{assert_conserved, assert_manners, json};
pub use command::{Said, binaries, ended_within, rhumb, run, signal};
pub use crawl::Crawl;
pub use further::Further;
pub use running::{Finished, Running, Tapped};
pub use world::{World, alone};

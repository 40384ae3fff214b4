//! The `rhumb` command: runs, watches and steers a crawl on one machine.
//!
//! In: the command line. Out: an exit code, and what the command prints.
//!
//! - `commands`: the command line, a file for each command;
//! - `crawl`: the life of a crawl from its seeds to its summary; `processes`: starts the stages,
//!   restarts those that die, scales them; [`broker`]: the private nats-server; `seeds`: how URLs
//!   enter;
//! - `checkpoint`: a crawl as it was at one moment, in a folder;
//! - [`status`]: one picture of all processes and streams; `control`: how commands ask the
//!   processes of a crawl;
//! - [`report`]: a page about a crawl;
//! - [`handle`]: how commands find a running crawl; `lock`: one crawl in a data directory;
//!   `secret`: what nobody can guess;
//! - `console`: a page that shows a running crawl;
//! - `inspect`: questions about a crawl that several commands ask;
//! - `stages`: what the command knows of the stages by name; [`binaries`]: where their programs
//!   lie;
//! - [`lab`]: the experiments, which a program of its own runs.
//!
//! Imports go one way: `commands` → `console`, `crawl` → `checkpoint`, `inspect`, `report` →
//! `status`, `processes`, `broker` → the rest.

pub mod binaries;
pub mod broker;
mod checkpoint;
mod commands;
mod comparison;
mod console;
mod control;
mod crawl;
mod crawl_log;
pub mod handle;
mod inspect;
pub mod lab;
mod lock;
pub mod output;
mod processes;
pub mod report;
pub mod rights;
mod secret;
mod seeds;
mod stages;
pub mod status;
mod users;

pub use crawl::tables_of_metrics;

use std::process::ExitCode;

/// Reads the command line and runs the command to its end.
///
/// The exit code is 0 when the command did what it was asked, 1 when it failed or found something
/// wrong, 2 for bad configuration or arguments, and 130 after Ctrl-C.
pub fn main() -> ExitCode {
    commands::main()
}

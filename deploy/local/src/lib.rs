//! The `rhumb` command: runs, watches and steers a crawl on one machine.
//!
//! - [`broker`]: the private nats-server;
//! - [`processes`]: starts the stages, restarts those that die, scales them;
//! - [`crawl`]: the life of a crawl from its seeds to its summary;
//! - [`handle`]: how other commands find a running crawl; [`lock`]: one crawl in a data directory;
//! - [`status`]: one picture of all processes and streams;
//! - [`inject`], [`tap`], [`dead`], [`delete`], [`export`], [`lab`], [`topology`], [`why`], [`windows`]: one command
//!   each.

pub mod broker;
pub mod crawl;
pub mod dead;
pub mod delete;
pub mod export;
pub mod handle;
pub mod inject;
pub mod lab;
pub mod lock;
pub mod output;
pub mod processes;
pub mod progress;
pub mod status;
pub mod tap;
pub mod topology;
pub mod why;
pub mod windows;

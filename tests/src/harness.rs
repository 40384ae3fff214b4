//! Runs `rhumb` as its users do: as a command, on a data directory, against a web.
//!
//! In: a [`synthetic_web::Profile`], arguments, signals. Out: exit codes, summaries, and what the
//! web saw.
//!
//! Invariants: few [`World`]s at a time on this machine, and one alone where time or memory is
//! measured; whatever was started has ended when its value is dropped; the folder of a failed test
//! is kept.

mod archive;
mod assertions;
mod cluster;
mod command;
mod crawl;
mod deployment;
mod further;
mod gate;
mod guarded;
mod hazards;
mod recipe;
mod running;
mod seats;
mod site;
mod within;
mod world;

pub use archive::{Record, logged, records};
pub use assertions::{assert_conserved, assert_manners, json, recrawled, visits};
pub use cluster::Cluster;
pub use command::{Said, binaries, ended_within, http_get, rhumb, run, signal};
pub use crawl::Crawl;
pub use deployment::Deployment;
pub use further::Further;
pub use gate::Gate;
pub use guarded::Guarded;
pub use hazards::{
    ATTEMPTS, CRAWL_LIMITS, HONEST_HOSTS, RETRY_WAIT, SERVER_FAILURES_MAX, honest_hosts, hurried,
};
pub use recipe::{cook, guide, recipe};
pub use running::{Finished, Running, Tapped};
pub use seats::alone;
pub use site::{Answer, Site};
pub use within::within;
pub use world::World;

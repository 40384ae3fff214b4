//! Fetcher: what is there? Carries out connection jobs, each one server, one connection and a list
//! of URLs.
//!
//! In:  connection jobs, confirmed renewals and revocations (scheduler).
//! Out: asks for jobs and reports (scheduler); responses as the servers sent them (`pages`).
//!
//! Invariants: one connection per job at a time, closed before the last report (P1); no request
//! after the lease's deadline (P1) or before the gap is over (P2); a URL counts as answered only
//! when its page is stored (P3); nothing but the job's server and addresses is contacted (P7).
//!
//! [`core`] decides, without a clock or a socket; [`http`] does what it says, or in a replay
//! [`replay`], from an archive.

pub mod core;
pub mod effect;
pub mod files;
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a shell: it waits, and looks at the clock"
)]
pub mod http;
pub mod metrics;
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a shell: it waits, and looks at the clock"
)]
pub mod replay;
pub mod room;
pub mod settings;

mod absent;
mod asks;
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a shell: it waits, and looks at the clock"
)]
mod body;
mod challenge;
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a shell: it waits, and looks at the clock"
)]
mod connection;
mod content;
mod cookie_walls;
mod cookies;
mod failure;
mod findings;
mod freshness;
mod head;
mod http11;
mod job;
mod lease;
mod request_headers;
mod surroundings;
mod tally;
mod times;
mod turns;
mod uplink;

//! The core: takes events, keeps servers in their places, grants jobs, and commits what changed.
//!
//! [`scheduler`] owns the parts and runs a step. Each kind of event has a file: `intake` (new
//! URLs), `reports` (what jobs brought), `errands` (robots.txt across servers), `fetchers` (asks).
//! `results` says what the end of a request means, `places` finds each server its place, `grants`
//! gives jobs, `idle` says why a server waits, `queues` what waits at it, `yields` which jobs make
//! way for a higher topic, `counting` how much of all, `topics` what each of these has, `reporting`
//! what is told for a report. `drops` ends what operators want to be rid of, `lifts` moves what
//! later links add to, `traps` what brings only itself.

pub(crate) mod counting;
pub(crate) mod drops;
pub(crate) mod errands;
pub(crate) mod fetchers;
pub(crate) mod grants;
pub(crate) mod idle;
pub(crate) mod intake;
pub(crate) mod lifts;
pub(crate) mod places;
pub(crate) mod queues;
pub(crate) mod reporting;
pub(crate) mod reports;
pub(crate) mod results;
pub(crate) mod scheduler;
pub(crate) mod topics;
pub(crate) mod traps;
pub(crate) mod yields;

#[cfg(test)]
mod tests;

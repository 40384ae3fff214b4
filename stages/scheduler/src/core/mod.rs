//! The core: takes events, keeps servers in their places, grants jobs, and commits what changed.
//!
//! [`scheduler`] owns the parts; [`dispatcher`] runs a step over them, which are then its [`work`].
//! The way of a URL: `intake` (it comes), `placement` and `places` (its server waits), `grants` and
//! `fetchers` (it goes out), `reports` and `results` (it ends); `errands` gets robots.txt across
//! servers. Features hang on the way at its [`doors`]: `drops` ends what operators want to be rid
//! of, `traps` keeps back what brings only itself, as `signals` of pages say, `lifts` moves what later
//! links add to, `yields` says which jobs make way for a higher topic, `recrawl` has known pages
//! visited again. Questions are answered by `idle` (why a server waits), `queues` (what waits),
//! `counting` (how much of all), `topics` (what each of these has) and `reporting` (what is told for
//! a report).

pub(crate) mod counting;
pub(crate) mod dispatcher;
pub(crate) mod doors;
pub(crate) mod drops;
pub(crate) mod errands;
pub(crate) mod fetchers;
pub(crate) mod grants;
pub(crate) mod idle;
pub(crate) mod intake;
pub(crate) mod lifts;
pub(crate) mod placement;
pub(crate) mod places;
pub(crate) mod queues;
pub(crate) mod recrawl;
pub(crate) mod reporting;
pub(crate) mod reports;
pub(crate) mod results;
pub(crate) mod scheduler;
pub(crate) mod signals;
pub(crate) mod topics;
pub(crate) mod traps;
pub(crate) mod work;
pub(crate) mod yields;

#[cfg(test)]
mod tests;

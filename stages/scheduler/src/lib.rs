//! Scheduler: which server next, and when? Frontier, politeness, robots.txt.
//!
//! In:  new URLs with addresses (resolver), asks and reports (fetcher), errands (schedulers of other partitions).
//! Out: connection jobs (fetcher), outcomes, sitemaps (host-splitter), refreshes of addresses (resolver), errands; needs of
//! tokens (a key-value bucket).
//!
//! Invariants: one lease on a server at any time (P1); no contact before its next-contact time (P2); new URLs =
//! outcomes + waiting + in flight in every commit (P3); robots.txt is obeyed (P5); of a host no more pages are fetched
//! than its budget.
//!
//! [`scheduler`] holds the core; what it does with each kind of event stands in `intake`, `places`, `grants`,
//! `reports` and `errands`; `idle` says why it does nothing; the rest are the nouns it works with.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests measure how long a core takes"))]

pub mod idle;
pub mod quality;
pub mod robots;
pub mod scheduler;
pub mod settings;
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a shell: it waits, and looks at the clock")]
pub mod tokens;

mod address;
mod budget;
mod clock;
mod codec;
mod connections;
mod counts;
mod errands;
mod fetchers;
mod fresh;
mod frontier;
mod grants;
mod hosts;
mod intake;
mod jobs;
mod partition;
mod places;
mod policy;
mod politeness;
mod ready_queue;
mod reports;
mod robots_policy;
mod rules_cache;
mod server;
mod shares;
mod sitemaps;
mod speeds;
mod staged;
mod trouble;
mod validators;

#[cfg(test)]
mod scheduler_tests;

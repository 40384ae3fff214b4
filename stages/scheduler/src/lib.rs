//! Scheduler: which server next, and when? Frontier, politeness, robots.txt.
//!
//! In: new URLs with addresses (resolver), asks and reports (fetcher), errands (schedulers of other
//! partitions). Out: connection jobs (fetcher), outcomes, sitemaps (host-splitter), refreshes of
//! addresses (resolver), errands; claims on quotas (a key-value bucket).
//!
//! Invariants: one lease on a server at any time (P1); no contact before its next-contact time
//! (P2); new URLs = outcomes + waiting + in flight in every commit (P3); robots.txt is obeyed (P5);
//! no more pages of a host are fetched than its budget allows.
//!
//! Rooms import one way, from an upper line to the ones below it:
//!
//! ```text
//! core                             steps, and what each kind of event does
//! servers                          servers in play, their leases and partitions
//! frontier  budget  robots         URLs, pages left, robots.txt
//! known                            pages that were visited
//! politeness  step                 pauses and troubles; what a step makes
//! settings
//! ranking                          policies, qualities, the queue of servers
//! quota                            what schedulers divide, its ledgers, and requests to them
//! store  keys                      rows, keys
//! visits                           which known page is visited next
//! ```

#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests measure how long a core takes"
    )
)]

mod budget;
mod core;
mod frontier;
pub mod keys;
mod known;
pub mod metrics;
mod politeness;
pub mod quota;
mod ranking;
mod robots;
mod servers;
mod settings;
pub mod spent;
mod step;
mod store;
pub mod visits;

pub use crate::core::dispatcher::Input;
pub use crate::core::idle::Idle;
pub use crate::core::scheduler::{Scheduler, TABLES};
pub use crate::keys::schedulers::Schedulers;
pub use crate::ranking::quality;
pub use crate::ranking::topics::{TopicLimits, Topics, TurnRules};
pub use crate::servers::halves::halve;
pub use crate::settings::Settings;

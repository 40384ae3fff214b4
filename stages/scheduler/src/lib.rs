//! Scheduler: which server next, and when? Frontier, politeness, robots.txt.
//!
//! In:  new URLs with addresses (resolver), asks and reports (fetcher), errands (schedulers of other partitions).
//! Out: connection jobs (fetcher), outcomes, sitemaps (host-splitter), refreshes of addresses (resolver), errands; needs of
//! tokens (a key-value bucket).
//!
//! Invariants: one lease on a server at any time (P1); no contact before its next-contact time (P2); new URLs =
//! outcomes + waiting + in flight in every commit (P3); robots.txt is obeyed (P5); no more pages of a host are fetched
//! than its budget allows.
//!
//! Imports go one way, from the left to the right:
//!
//! ```text
//! shell ─▶ core ─▶ servers ─▶ frontier, budget, robots ─▶ politeness, step ─▶ settings ─▶ ranking ─▶ keys
//!                                                                    └──────▶ store, tokens ─────────▶
//! ```

mod budget;
mod core;
mod frontier;
mod keys;
mod politeness;
mod ranking;
mod robots;
mod servers;
mod settings;
mod shell;
mod step;
mod store;
pub mod tokens;

pub use crate::core::idle::Idle;
pub use crate::core::scheduler::{Input, Scheduler, TABLES};
pub use crate::ranking::quality;
pub use crate::robots::robots_txt::Robots;
pub use crate::settings::Settings;
pub use crate::shell::TokenShell;

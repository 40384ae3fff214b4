//! Which address? The cached, concurrent DNS stage.

pub mod effect;
pub mod metrics;
pub mod name_cache;
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a shell: it waits, and looks at the clock"
)]
pub mod name_servers;
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a shell: it waits, and looks at the clock"
)]
pub mod query;
pub mod replay;
pub mod resolver;
pub mod settings;
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a shell: it waits, and looks at the clock"
)]
pub mod snapshot_file;

#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a shell: it waits, and looks at the clock"
)]
mod client;
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a shell: it looks at the clock"
)]
mod edns;
mod silence;
mod special;
mod tally;
mod told;

//! The node machine: what an instance of a stage does beside its core's work, without a broker and
//! without a clock.
//!
//! ```text
//!  lease ─▶ handover ─▶ life of a core: settlement, migration ─▶ drained ─┬─▶ told to end
//!              ▲                                                         │
//!              └──── partitions can come or go, or others' settings ─────┘
//! ```
//!
//! - [`Node`]: a life: its settlement, its lease, how it ends;
//! - [`Tenure`]: the partitions of a life: under which epoch, and what it draws from;
//! - [`Migration`]: while the core works, partitions that leave are copied ([`Copying`]) and those
//!   that come are taken in ([`Coming`]);
//! - [`Handover`]: between two lives of a core partitions are halved, given, taken and forgotten;
//! - [`Change`]: what an instance says of its partitions in the table of owners.
//!
//! In: what happens, as method calls with the time as an argument. Out: actions, which a driver
//! carries out in their order. A process does so with a real broker, the simulation with one in
//! memory: what is decided of all this is decided here alone.
//!
//! Invariants: an owner gives a partition only when the receiver has the copy and all parts are in
//! their stream; a receiver takes it only when all its rows are committed. Until then whoever dies
//! leaves it with the owner, afterwards with the receiver.

mod change;
mod coming;
mod copying;
mod handover;
mod machine;
mod migration;
mod tenure;

#[cfg(test)]
mod tests;

pub use change::{Change, InstanceId};
pub use coming::{Coming, Commit, Loaded, NotTaken, NotWritten, Taken};
pub use copying::{Copying, Cost, Sent};
pub use handover::{Action, BesideTables, Handover, NotSettled, Settled};
pub use machine::Node;
pub use migration::{Background, Brought, Migration};
pub use tenure::{Drawn, Lease, Tenure};

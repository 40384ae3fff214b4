//! Simulation: all cores but the archiver's in one process, over a broker in memory, in simulated
//! time, from a seed.
//!
//! In: a [`Plan`], which a seed stands for. Out: how the run ended, or which promise was broken,
//! where and when.
//!
//! Invariant: nothing here reads a clock, draws from anything but the seed, or depends on the order
//! of a hash table; so a seed replays its run step for step. P1 to P5 and P7 are looked after in
//! every step, and in the end the outcome of every URL is compared with what the web was made to
//! be.

mod agenda;
mod around;
mod background;
mod batches;
mod broker;
mod checks;
mod circles;
pub(crate) mod dice;
mod graph;
mod leases;
mod life;
mod moves;
mod names;
mod node;
mod nodes;
mod plan;
mod routes;
mod scaling;
mod scope;
mod tenure;
mod verdict;
mod web;
mod world;

pub use plan::{Faults, Plan};
pub use world::{Ended, Failure};

/// Runs a plan to its end; `trace` writes each step to standard error.
///
/// # Errors
///
/// The first promise that was broken, with the seed that replays it.
pub fn run(plan: &Plan, trace: bool) -> Result<Ended, Failure> {
    world::World::new(plan, trace).run()
}

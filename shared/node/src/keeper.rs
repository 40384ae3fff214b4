//! Who keeps the lease of a stage with state while its loop waits for a disk.
//!
//! A loop that waits for a commit for longer than its lease lasts would lose the lease, though it
//! is alive. So a thread with a connection of its own renews it. What the loop did not hear
//! meanwhile it learns from the time that has passed
//! ([`PartitionLease`](rhumb_stage::settlement)).
//!
//! Invariant: the thread lives as long as the process, so a process that stands still as a whole
//! loses its lease.

use super::ownership::Ownership;
use anyhow::Context as _;
use rhumb_bus::{Bus, LEASES};
use rhumb_config::Pipeline;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Takes a lease, as [`Ownership::take`] does; a thread renews it.
///
/// # Errors
/// The thread cannot be made, or the broker does not tell of the leases.
pub async fn take(
    pipeline: &Pipeline,
    stage: &'static str,
    instance: u16,
    life: u64,
    lasts: Duration,
) -> anyhow::Result<Ownership> {
    let pipeline = pipeline.clone();
    let taking = async move {
        let name = format!("{stage}-{instance}-lease");
        let bus = Bus::connect_again(&pipeline.broker.url, &pipeline, &name).await?;
        let bucket = bus.subjects.bucket(LEASES);
        let leases = bus.jetstream.get_key_value(&bucket).await;
        let leases = leases.with_context(|| {
            format!("the broker does not tell of the key-value bucket {bucket}")
        })?;
        anyhow::Ok(Ownership::take(leases, stage, instance, life, lasts).await)
    };
    let thread = thread().context("no thread can be made for the lease")?;
    // Dropped with this future: a process that stops waiting takes no lease.
    let mut taken = JoinSet::new();
    taken.spawn_on(taking, &thread);
    let taken = taken.join_next().await;
    taken.context("the lease was not taken")??
}

/// Starts a thread that does what its runtime is given.
fn thread() -> std::io::Result<Handle> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("lease".to_owned())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}

//! The number of an instance without state: a lease says that no other process has it.
//!
//! In: the lease, or the wish for it. Out: that another process has the number. An instance of a
//! number that it was given works before it has the lease: that of one that died may last for some
//! seconds more. Invariant: of two that live with one number, one ends, and says which the other
//! is.

use super::ownership::{Holder, Ownership};
use rhumb_bus::Buckets;
use tokio::task::JoinHandle;

/// The lease on a number.
pub(super) enum Number {
    /// It is held.
    Held(Box<Ownership>),
    /// It is waited for.
    Awaited(JoinHandle<Result<Ownership, Holder>>),
}

impl Number {
    /// Begins to take the lease on a number of a stage.
    pub(super) fn take(buckets: &Buckets, stage: &'static str, number: u16, life: u64) -> Self {
        let leases = buckets.leases.clone();
        let lasts = buckets.lease;
        let taking =
            async move { Ownership::take_from_the_dead(leases, stage, number, life, lasts).await };
        Number::Awaited(tokio::spawn(taking))
    }

    /// Looks whether the number is still this process's.
    ///
    /// # Errors
    /// Another process has it.
    pub(super) async fn look(&mut self, stage: &str, number: u16) -> anyhow::Result<()> {
        if let Number::Awaited(taking) = self
            && taking.is_finished()
        {
            match taking.await? {
                Ok(lease) => *self = Number::Held(Box::new(lease)),
                Err(Holder { whereabouts, .. }) => anyhow::bail!(
                    "{stage}.{number} runs already: {whereabouts}. Give this one another number \
                     (--instance N), or let it take a free one (--instance auto)"
                ),
            }
        }
        match self {
            Number::Held(lease) if lease.is_lost() => {
                anyhow::bail!(
                    "another process is {stage}.{number} now: the broker was away for long, or \
                     this process was"
                )
            }
            _ => Ok(()),
        }
    }

    /// Gives the number back.
    pub(super) async fn release(self) {
        match self {
            Number::Held(lease) => lease.release().await,
            Number::Awaited(taking) => taking.abort(),
        }
    }
}

//! The shell: enters needs of tokens into the ledgers, which lie in a key-value bucket of the broker.
//!
//! In: a [`Need`] of the core. Out: [`Settled`], with the ledger after the need was entered.
//!
//! Invariant: a ledger is written only over the revision that was read, so no change of another scheduler is lost.

use crate::core::scheduler::Scheduler;
use crate::tokens::{Ledger, Need, Settled};
use async_nats::jetstream::kv;
use futures::future::{BoxFuture, FutureExt as _};
use shared::stage::Shell;
use std::time::Duration;

/// How long the broker has to answer. After that the core asks again later.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Enters needs into the ledgers of the bucket.
#[derive(Debug)]
pub struct TokenShell {
    /// Key → ledger.
    pub bucket: kv::Store,
}

impl Shell<Scheduler> for TokenShell {
    fn perform(&mut self, need: Need) -> BoxFuture<'static, Settled> {
        let bucket = self.bucket.clone();
        async move {
            let ledger = match tokio::time::timeout(ANSWER_TIMEOUT, enter(&bucket, &need)).await {
                Ok(Ok(ledger)) => Some(ledger),
                Ok(Err(error)) => {
                    tracing::warn!("the tokens of '{}' cannot be asked for: {error:#}", need.budget.key());
                    None
                }
                Err(_) => None,
            };
            Settled { budget: need.budget, ledger }
        }
        .boxed()
    }
}

/// Reads, changes and writes the ledger until nobody else wrote it in between.
async fn enter(bucket: &kv::Store, need: &Need) -> anyhow::Result<Ledger> {
    let key = need.budget.key();
    loop {
        let entry = bucket.entry(&key).await?.filter(|entry| entry.operation == kv::Operation::Put);
        let mut ledger = match &entry {
            None => Ledger::default(),
            Some(entry) => std::str::from_utf8(&entry.value)
                .ok()
                .and_then(Ledger::parse)
                .ok_or_else(|| anyhow::anyhow!("the value of the key is no ledger: delete it, it is made anew"))?,
        };
        if !ledger.settle(need) {
            return Ok(ledger);
        }
        let value = ledger.to_string().into();
        let written = match entry {
            None => match bucket.create(&key, value).await {
                Err(error) if error.kind() != kv::CreateErrorKind::AlreadyExists => return Err(error.into()),
                created => created.is_ok(),
            },
            Some(entry) => match bucket.update(&key, value, entry.revision).await {
                Err(error) if error.kind() != kv::UpdateErrorKind::WrongLastRevision => return Err(error.into()),
                updated => updated.is_ok(),
            },
        };
        if written {
            return Ok(ledger);
        }
    }
}

//! Ledgers: enters claims into the ledgers of quotas, which lie in a key-value bucket of the broker.
//!
//! In: a [`Claim`] of the core. Out: a [`ClaimAnswer`], with the ledger that has the claim in it.
//!
//! Invariant: a ledger is written only over the revision that was read, so no change of another
//! scheduler is lost.

use async_nats::jetstream::kv;
use futures::future::{BoxFuture, FutureExt as _};
use rhumb_node::Shell;
use scheduler::Scheduler;
use scheduler::quota::ledger::{Claim, ClaimAnswer};
use std::time::Duration;

/// How long the broker has to answer. After that the core asks again later.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Enters claims into the ledgers of the bucket.
#[derive(Debug)]
pub(crate) struct LedgerShell {
    /// Key → ledger.
    pub(crate) bucket: kv::Store,
}

impl Shell<Scheduler> for LedgerShell {
    fn perform(&mut self, claim: Claim) -> BoxFuture<'static, ClaimAnswer> {
        let bucket = self.bucket.clone();
        async move {
            match tokio::time::timeout(ANSWER_TIMEOUT, enter(&bucket, &claim)).await {
                Ok(Ok(answer)) => return answer,
                Ok(Err(error)) => {
                    tracing::warn!(
                        "the ledger '{}' cannot be changed: {error:#}",
                        claim.quota.key()
                    )
                }
                Err(_) => {}
            }
            claim.unanswered()
        }
        .boxed()
    }
}

/// Reads, changes and writes the ledger until nobody else wrote it in between.
async fn enter(bucket: &kv::Store, claim: &Claim) -> anyhow::Result<ClaimAnswer> {
    let key = claim.quota.key();
    loop {
        let entry = bucket
            .entry(&key)
            .await?
            .filter(|entry| entry.operation == kv::Operation::Put);
        let text = entry
            .as_ref()
            .map_or(Ok(""), |entry| std::str::from_utf8(&entry.value));
        let entered = text
            .ok()
            .and_then(|text| claim.enter(text))
            .ok_or_else(|| {
                anyhow::anyhow!("its value is no ledger that this version reads: was a later version here? Then update this one")
            })?;
        let Some(value) = entered.text else {
            return Ok(entered.answer);
        };
        let written = match &entry {
            None => match bucket.create(&key, value.into()).await {
                Err(error) if error.kind() != kv::CreateErrorKind::AlreadyExists => {
                    return Err(error.into());
                }
                created => created.is_ok(),
            },
            Some(entry) => match bucket.update(&key, value.into(), entry.revision).await {
                Err(error) if error.kind() != kv::UpdateErrorKind::WrongLastRevision => {
                    return Err(error.into());
                }
                updated => updated.is_ok(),
            },
        };
        if written {
            return Ok(entered.answer);
        }
    }
}

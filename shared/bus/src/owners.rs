//! The table of owners at the broker: a key for each stage with state, in the key-value bucket
//! `owners`.
//!
//! In: changes of the table, as functions. Out: the table as it is. Invariant: a table is written
//! only over the revision that was read, so no change of another process is lost.

use super::Bus;
use anyhow::Context as _;
use async_nats::jetstream::kv;
use rhumb_partition::{Owners, OwnersTable};

/// The bucket's name.
pub(super) const OWNERS: &str = "owners";

/// The bucket. Its keys do not expire: only the table ends an ownership.
#[derive(Clone, Debug)]
pub struct OwnersBucket {
    bucket: kv::Store,
}

impl OwnersBucket {
    pub(super) fn new(bucket: kv::Store) -> Self {
        OwnersBucket { bucket }
    }

    /// The bucket of a crawl that runs.
    ///
    /// # Errors
    /// The broker does not answer, or has none.
    pub async fn find(bus: &Bus) -> anyhow::Result<Self> {
        let bucket = bus
            .jetstream
            .get_key_value(bus.subjects.bucket(OWNERS))
            .await;
        Ok(OwnersBucket {
            bucket: bucket.context("the broker does not tell who has the partitions")?,
        })
    }

    /// The owners of a stage's partitions; none before the crawl has any.
    ///
    /// # Errors
    /// The broker does not answer, or the table is not understood.
    pub async fn read(&self, stage: &str) -> anyhow::Result<Option<OwnersTable>> {
        let entry = self
            .bucket
            .entry(stage)
            .await
            .with_context(|| format!("the owners of {stage} cannot be read"))?;
        let Some(entry) = entry.filter(|entry| entry.operation == kv::Operation::Put) else {
            return Ok(None);
        };
        let owners = serde_json::from_slice(&entry.value)
            .with_context(|| format!("the owners of {stage} at the broker are not understood"))?;
        Ok(Some(OwnersTable {
            owners,
            revision: entry.revision,
        }))
    }

    /// The owners of a stage's partitions. When there are none yet, these are.
    ///
    /// # Errors
    /// The broker does not answer, or the table is not understood.
    pub async fn read_or_begin(&self, stage: &str, begun: Owners) -> anyhow::Result<OwnersTable> {
        loop {
            if let Some(table) = self.read(stage).await? {
                return Ok(table);
            }
            match self
                .bucket
                .create(stage, serde_json::to_vec(&begun)?.into())
                .await
            {
                Ok(revision) => {
                    return Ok(OwnersTable {
                        owners: begun,
                        revision,
                    });
                }
                Err(error) if error.kind() == kv::CreateErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("the owners of {stage} cannot be written"));
                }
            }
        }
    }

    /// Changes the owners of a stage's partitions. `change` says whether it changed anything; it is
    /// repeated when another process was faster. Returns the table, as it was written or found.
    ///
    /// # Errors
    /// There is no table, or the broker does not answer.
    pub async fn change(
        &self,
        stage: &str,
        mut change: impl FnMut(&mut Owners) -> bool,
    ) -> anyhow::Result<OwnersTable> {
        loop {
            let found = self.read(stage).await?;
            let mut table =
                found.with_context(|| format!("the broker knows no owners of {stage}"))?;
            if !change(&mut table.owners) {
                return Ok(table);
            }
            match self
                .bucket
                .update(
                    stage,
                    serde_json::to_vec(&table.owners)?.into(),
                    table.revision,
                )
                .await
            {
                Ok(revision) => return Ok(OwnersTable { revision, ..table }),
                Err(error) if error.kind() == kv::UpdateErrorKind::WrongLastRevision => {}
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("the owners of {stage} cannot be written"));
                }
            }
        }
    }
}

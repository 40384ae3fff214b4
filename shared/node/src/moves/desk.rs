//! The desk: what an instance moves partitions with, and what it says of them in the table of
//! owners.

use super::parts_stream::PartsStream;
use crate::ownership::Fence;
use rhumb_bus::OwnersBucket;
use rhumb_partition::Owners;
use rhumb_stage::store::{Changes, StoreError};
use rhumb_stage::{Removal, Rows};

/// What moves are made with.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) stream: PartsStream,
    pub(crate) owners: OwnersBucket,
    pub(crate) instance: u16,
    pub(crate) rows: Rows,
    pub(crate) fence: Fence,
}

/// Rows that one commit removes.
const ROWS_REMOVED_AT_ONCE: usize = 2000;

/// Why something is not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotWritten {
    /// There is no room, or the like.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the lease on the partitions of this instance is over")]
    LeaseOver,
}

impl Desk {
    /// Commits, unless the lease is over.
    pub(super) fn commit(&self, changes: &Changes) -> Result<(), NotWritten> {
        if !self.fence.is_held() {
            return Err(NotWritten::LeaseOver);
        }
        Ok(self.rows.store.commit(changes)?)
    }

    /// Removes all rows of a partition.
    pub(super) fn remove_rows(&self, rows: &Rows, partition: u16) -> Result<(), NotWritten> {
        let mut removal = Removal::default();
        loop {
            let mut changes = Changes::default();
            if rows.remove(&mut changes, partition, &mut removal, ROWS_REMOVED_AT_ONCE)? == 0 {
                return Ok(());
            }
            self.commit(&changes)?;
        }
    }

    /// The owner keeps a partition that it cannot send.
    pub(super) async fn keeps(&self, partition: u16, version: u64, why: &anyhow::Error) {
        let stage = self.stream.stage;
        let instance = self.instance;
        tracing::warn!(
            stage,
            instance,
            partition,
            "keeps a partition that cannot be sent: {why:#}"
        );
        let keep = |owners: &mut Owners| {
            owners.version(partition) == version && owners.keep(partition, instance)
        };
        // Else it is sent again by the next life.
        if let Err(error) = self.owners.change(stage, keep).await {
            tracing::warn!(
                stage,
                instance,
                partition,
                "the table of owners does not say so: {error:#}"
            );
        }
    }

    /// The receiver does not take a partition: its owner keeps it.
    pub(super) async fn refuses(
        &self,
        partition: u16,
        version: u64,
        why: &(dyn std::error::Error + Sync),
    ) {
        let stage = self.stream.stage;
        let instance = self.instance;
        tracing::error!(
            stage,
            instance,
            partition,
            version,
            "refuses a partition, its owner keeps it: {why}"
        );
        let refused = self
            .owners
            .change(stage, |owners| owners.refuse(partition, version, instance))
            .await;
        if let Err(error) = refused {
            tracing::warn!(
                stage,
                instance,
                partition,
                "the table of owners does not say so: {error:#}"
            );
        }
    }
}

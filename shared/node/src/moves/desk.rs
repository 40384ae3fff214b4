//! The desk: what an instance moves partitions with, and how it changes the table of owners.

use super::parts_stream::PartsStream;
use crate::ownership::Fence;
use rhumb_bus::OwnersBucket;
use rhumb_partition::OwnersTable;
use rhumb_stage::Rows;
use rhumb_stage::node::{Change, InstanceId, NotWritten};
use rhumb_stage::settlement::LeaseOver;
use rhumb_stage::store::Changes;

/// What moves are made with.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) of: InstanceId,
    pub(crate) stream: PartsStream,
    pub(crate) owners: OwnersBucket,
    pub(crate) rows: Rows,
    pub(crate) fence: Fence,
}

impl Desk {
    /// Commits, unless the lease is over.
    pub(super) fn commit(&self, changes: &Changes) -> Result<(), NotWritten> {
        if !self.fence.is_held() {
            return Err(LeaseOver.into());
        }
        Ok(self.rows.store.commit(changes)?)
    }

    /// Changes the table of owners.
    ///
    /// # Errors
    /// The broker does not answer.
    pub(super) async fn change(&self, change: &Change) -> anyhow::Result<OwnersTable> {
        let InstanceId {
            stage, instance, ..
        } = self.of;
        let apply = |owners: &mut _| change.apply(owners, instance);
        self.owners.change(stage, apply).await
    }

    /// The same with a change that may fail: a later look makes up for it.
    pub(super) async fn try_to_change(&self, change: &Change) -> Option<OwnersTable> {
        let changed = self.change(change).await;
        let InstanceId {
            stage, instance, ..
        } = self.of;
        changed
            .inspect_err(|error| {
                tracing::warn!(
                    stage,
                    instance,
                    ?change,
                    "the table of owners does not say so: {error:#}"
                );
            })
            .ok()
    }
}

//! Giving: partitions whose copies their receivers have.

use super::{Action, Handover, Leaving, Task, UnderWay};
use crate::node::copying::Sent;
use crate::settlement::OUTBOX;
use crate::store::StoreError;
use rhumb_partition::Owners;
use rhumb_url::time::Timestamp;

impl Handover {
    pub(super) fn plan_giving(&mut self, owners: &Owners) -> Result<(), StoreError> {
        // What was published under this instance must be in its streams before others go on: it may
        // never come back.
        if self.has_published_all()? {
            for (partition, to) in owners.leaving(self.of.instance) {
                let is_copied = |sent: &Sent| {
                    owners.version(partition) == sent.version
                        && owners.copy(partition) == Some(sent.copy)
                };
                if let Some(sent) = self.brought.sent.remove(&partition).filter(is_copied) {
                    self.tasks.push_back(Task::Divide);
                    self.tasks.push_back(Task::SendChanges(Leaving {
                        partition,
                        to,
                        sent,
                    }));
                }
            }
        }
        self.tasks.extend([Task::Give, Task::FindGiven]);
        Ok(())
    }

    /// Returns whether all that was committed to be published is in its stream.
    pub(super) fn has_published_all(&self) -> Result<bool, StoreError> {
        let mut is_empty = true;
        self.rows
            .store
            .scan(OUTBOX, &[], &[u8::MAX; 17], &mut |_, _| {
                is_empty = false;
                false
            })?;
        Ok(is_empty)
    }

    /// Sends what changed since the copy of a partition began.
    pub(super) fn send_changes(
        &mut self,
        began: Timestamp,
        mut leaving: Leaving,
    ) -> Option<Action> {
        let partition = leaving.partition;
        let version = leaving.sent.version;
        let changed = self.brought.changed.take(partition);
        let beside = self.beside.get();
        let loading = &mut leaving.sent.loading;
        match self.rows.copy_changes(beside, partition, &changed, loading) {
            Ok(parts) => {
                let bytes = parts.iter().map(|part| part.len() as u64).sum();
                self.under_way = Some(UnderWay::Publish {
                    leaving,
                    bytes,
                    began,
                });
                Some(Action::Publish(partition, version, parts))
            }
            // What lies beside the tables stays open: it was read alone, and knows what changed in the
            // other partitions that leave.
            Err(why) => {
                let keep = self.of.keeps(partition, version, &why);
                self.change(keep)
            }
        }
    }
}

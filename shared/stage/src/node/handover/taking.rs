//! Taking: partitions that were given, and have come to the last row.

use super::{Action, Handover, NotSettled, Task, UnderWay};
use crate::moves::{Removal, steps};
use crate::node::change::{Change, InstanceId};
use crate::node::coming::{Loaded, ROWS_REMOVED_AT_ONCE};
use crate::store::{Changes, StoreError};
use rhumb_partition::Owners;
use std::time::Duration;

impl Handover {
    pub(super) fn plan_taking(&mut self, owners: &Owners) -> Result<(), StoreError> {
        for partition in owners.given_to(self.of.instance) {
            let version = owners.version(partition);
            let Some(copy) = owners.copy(partition) else {
                continue;
            };
            let loaded = self.brought.loaded.remove(&partition);
            if self.rows.has_whole(partition, version, copy)? {
                let worked = loaded.map_or(Duration::ZERO, |loaded| loaded.worked);
                self.is_whole(partition, version, worked);
            } else if let Some(loaded) =
                loaded.filter(|loaded| loaded.version == version && loaded.copy == copy)
            {
                self.tasks.push_back(Task::Import(partition, loaded));
            }
        }
        self.tasks.extend([Task::Take, Task::Check]);
        Ok(())
    }

    /// All parts of a partition are committed: with this commit it is whole.
    pub(super) fn import(&mut self, partition: u16, loaded: Loaded) -> Option<Action> {
        let Loaded {
            version,
            copy,
            importing,
            worked,
        } = loaded;
        let beside = self.beside.get().zip(importing);
        match steps::whole(beside, partition, version, copy) {
            Ok(changes) => {
                self.under_way = Some(UnderWay::Import {
                    partition,
                    version,
                    worked,
                });
                Some(Action::Commit(changes))
            }
            Err(why) => {
                self.cannot_take(partition, version, why);
                None
            }
        }
    }

    pub(super) fn is_whole(&mut self, partition: u16, version: u64, worked: Duration) {
        self.brought.coming.remove(&partition);
        self.taken.push((partition, version, worked));
    }

    /// What cannot be taken its owner keeps; the instance forgets what it has of it.
    ///
    /// What lies beside the tables is opened anew for that, and then knows no import that is not
    /// committed: its files go. So nothing goes on with one, and the next life loads the other
    /// partitions from the beginning.
    pub(super) fn cannot_take(&mut self, partition: u16, version: u64, why: StoreError) {
        self.tasks.retain(|task| !matches!(task, Task::Import(..)));
        self.brought.loaded.clear();
        self.brought.coming.clear();
        self.beside.close();
        let forget = [
            Task::Refuse {
                partition,
                version,
                why,
            },
            Task::ForgetBeside(vec![partition]),
            Task::RemoveRows(partition, Removal::default()),
        ];
        for task in forget.into_iter().rev() {
            self.tasks.push_front(task);
        }
    }

    pub(super) fn remove_rows(
        &mut self,
        partition: u16,
        mut removal: Removal,
    ) -> Result<Option<Action>, NotSettled> {
        let mut changes = Changes::default();
        let rows_max = ROWS_REMOVED_AT_ONCE;
        if self
            .rows
            .remove(&mut changes, partition, &mut removal, rows_max)?
            == 0
        {
            return Ok(None);
        }
        self.tasks.push_front(Task::RemoveRows(partition, removal));
        Ok(self.commit(changes, false))
    }

    pub(super) fn take(&mut self) -> Option<Action> {
        if self.taken.is_empty() {
            return None;
        }
        let taken = self.taken.iter();
        let taken = taken.map(|&(partition, version, _)| (partition, version));
        self.under_way = Some(UnderWay::Take);
        Some(Action::Change(Change::Take(taken.collect())))
    }

    pub(super) fn took(&mut self, owners: &Owners) {
        let InstanceId {
            stage, instance, ..
        } = self.of;
        let used = owners.used_by(instance);
        let mut taken = Vec::with_capacity(self.taken.len());
        for (partition, version, worked) in self.taken.drain(..) {
            if used.contains(&partition) {
                let worked_ms = worked.as_millis();
                tracing::info!(
                    stage,
                    instance,
                    partition,
                    worked_ms,
                    "takes a partition over"
                );
            }
            taken.push((partition, version));
        }
        self.tasks.push_front(Task::ForgetTaken(taken));
    }

    /// Nobody asks any more whether the partitions are whole, and nobody for their parts.
    pub(super) fn forget_taken(&mut self, taken: Vec<(u16, u64)>) -> Option<Action> {
        let mut changes = Changes::default();
        for &(partition, _) in &taken {
            changes.entries.append(&mut steps::taken(partition).entries);
        }
        self.tasks.push_front(Task::Purge(taken));
        self.commit(changes, false)
    }
}

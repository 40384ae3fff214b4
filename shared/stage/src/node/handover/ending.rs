//! The end of a handover: whether the table is believed, what is forgotten, and what the next life
//! begins with.

use super::{Action, BesideTables, Handover, NotSettled, Settled, Task};
use crate::moves::steps;
use crate::node::change::InstanceId;
use crate::settlement::{LOOP, USED};
use crate::store::Changes;
use rhumb_config::identity::{Misfit, WAYS_OUT};
use rhumb_partition::{Owners, OwnersTable};

impl Handover {
    /// The next life begins with this table, unless a partition was split meanwhile: no life begins
    /// with halves that have nothing.
    pub(super) fn check(&mut self, table: OwnersTable) -> Result<(), NotSettled> {
        let owners = &table.owners;
        if !owners.to_halve(self.of.instance).is_empty() {
            self.plan_halving(owners);
            self.tasks.push_back(Task::Check);
            return Ok(());
        }
        self.check_versions(owners)?;
        self.check_known(owners)?;
        // The rows of partitions that were given away are many: they go while the instance works.
        let left_over = steps::left_over(&self.rows, owners, self.of.instance)?;
        if !left_over.is_empty() {
            self.tasks.push_back(Task::ForgetBeside(left_over.clone()));
        }
        self.tasks.push_back(Task::NoteUsed(owners.clone()));
        self.tasks.push_back(Task::End(table, left_over));
        Ok(())
    }

    /// Checks that others have their partitions under later versions than this instance had them.
    pub(super) fn check_versions(&self, owners: &Owners) -> Result<(), NotSettled> {
        let InstanceId {
            stage, instance, ..
        } = self.of;
        for (partition, of) in owners.all().filter(|(_, of)| of.owner != instance) {
            let used = self.rows.store.get(LOOP, used(partition).as_bytes())?;
            let used = used
                .and_then(|bytes| bytes.try_into().ok())
                .map(u64::from_le_bytes);
            // One that it never used may be a half in version 0.
            if let Some(used) = used.filter(|used| *used >= of.version) {
                return Err(Misfit(format!(
                    "instance {instance} of {stage} had partition {partition} under version \
                     {used}, the broker says that instance {} has it under version {}: the broker \
                     lost what it knew of the owners, or was restored from an earlier copy; \
                     {WAYS_OUT}",
                    of.owner, of.version
                ))
                .into());
            }
        }
        Ok(())
    }

    /// Checks that the table knows all splits whose halves this instance has used.
    pub(super) fn check_known(&self, owners: &Owners) -> Result<(), NotSettled> {
        let mut is_known = true;
        let ids = owners.partitions.len() as u16;
        self.rows.store.scan(
            LOOP,
            used(ids).as_bytes(),
            used(u16::MAX).as_bytes(),
            &mut |_, _| {
                is_known = false;
                false
            },
        )?;
        if is_known {
            return Ok(());
        }
        let InstanceId {
            stage, instance, ..
        } = self.of;
        Err(Misfit(format!(
            "instance {instance} of {stage} had a half of a partition of which the broker does not \
             know that it was split: the broker lost what it knew of the owners, or was restored \
             from an earlier copy; {WAYS_OUT}"
        ))
        .into())
    }

    /// Removes what lies beside the tables of partitions.
    pub(super) fn forget_beside(
        &mut self,
        partitions: &[u16],
    ) -> Result<Option<Action>, NotSettled> {
        let Some(beside) = self.beside.get() else {
            return Ok(None);
        };
        let mut changes = Changes::default();
        partitions
            .iter()
            .try_for_each(|&partition| beside.forget(partition))?;
        beside.stage(&mut changes)?;
        Ok(self.commit(changes, true))
    }

    /// Notes which partitions the next life uses, and under which versions: an older table at the
    /// broker is not believed.
    pub(super) fn note_used(&mut self, owners: &Owners) -> Option<Action> {
        let mut changes = Changes::default();
        for partition in owners.used_by(self.of.instance) {
            let version = owners.version(partition);
            changes.put(LOOP, used(partition), version.to_le_bytes());
        }
        self.commit(changes, false)
    }

    pub(super) fn end(&mut self, table: OwnersTable, left_over: Vec<u16>) -> Action {
        let beside = std::mem::replace(&mut self.beside, BesideTables::None);
        Action::End(Box::new(Settled {
            table,
            rows: self.rows.clone(),
            left_over,
            brought: std::mem::take(&mut self.brought),
            beside: match beside {
                BesideTables::Open(beside) => Some(beside),
                BesideTables::None | BesideTables::Closed => None,
            },
        }))
    }
}

/// The key of the version under which a partition was last used.
fn used(partition: u16) -> String {
    format!("{USED}{partition:05}")
}

//! Handover: gives, takes and forgets what the table of owners says, between two lives of an
//! instance's core.
//!
//! ```text
//!  copies forgotten ─▶ halve ─▶ give ─▶ take ─▶ halve what was split meanwhile ─▶ left-over rows, used versions ─▶ next life
//! ```
//!
//! In: the table of owners, what the [migration](super::Migration) brought, what became of each
//! action. Out: [`Action`]s, one at a time: the next comes when the driver has said what became of
//! the last. Invariants: the core does not work; whoever dies between any two actions leaves every
//! partition with one owner, and the next process goes on from what was committed.

mod ending;
mod giving;
mod taking;

use super::change::{Change, InstanceId};
use super::coming::Loaded;
use super::copying::{Cost, Sent};
use super::migration::Brought;
use crate::beside::Beside;
use crate::moves::{Removal, Rows};
use crate::store::{Changes, StoreError};
use bytes::Bytes;
use rhumb_config::identity::Misfit;
use rhumb_partition::{Owners, OwnersTable, Split};
use rhumb_url::time::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// What the driver has to do.
pub enum Action {
    /// Open what the stage keeps beside its tables; then call [`Handover::opened`].
    Open,
    /// Commit these changes, unless the lease is over: then the process ends. The result goes to
    /// [`Handover::committed`].
    Commit(Changes),
    /// Change the table of owners. What it is then goes to [`Handover::changed`]. When it cannot be
    /// changed, the process ends; for a change that [may fail](Change::may_fail)
    /// [`Handover::unchanged`] is called instead.
    Change(Change),
    /// Put parts into the stream of a partition that is given, under a version. The result goes to
    /// [`Handover::published`].
    Publish(u16, u64, Vec<Bytes>),
    /// Remove the parts of partitions that were taken, each with its version. Nobody waits for it.
    Purge(Vec<(u16, u64)>),
    /// All that was to be given and taken is.
    End(Box<Settled>),
}

/// What a handover leaves to the next life.
pub struct Settled {
    /// The owners as they are then.
    pub table: OwnersTable,
    /// Where the rows of the partitions are, by this table.
    pub rows: Rows,
    /// Partitions of others of which the store still has rows.
    pub left_over: Vec<u16>,
    /// What goes on coming.
    pub brought: Brought,
    /// What the stage keeps beside its tables, when it was opened.
    pub beside: Option<Box<dyn Beside>>,
}

/// Why the next life cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum NotSettled {
    /// The state cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The table of owners is older than what the instance has done.
    #[error(transparent)]
    Misfit(#[from] Misfit),
}

/// What a stage keeps beside its tables, while no core has it.
pub enum BesideTables {
    /// Nothing.
    None,
    /// Something, which is opened when it is needed.
    Closed,
    /// This.
    Open(Box<dyn Beside>),
}

impl BesideTables {
    fn get(&mut self) -> Option<&mut (dyn Beside + 'static)> {
        match self {
            BesideTables::Open(beside) => Some(beside.as_mut()),
            BesideTables::None | BesideTables::Closed => None,
        }
    }

    /// After an error nobody knows what it holds: it is opened again.
    fn close(&mut self) {
        if !matches!(self, BesideTables::None) {
            *self = BesideTables::Closed;
        }
    }
}

/// A thing to do.
enum Task {
    ForgetCopies,
    FindSplits,
    HalveRows(Split),
    SayHalved {
        split: Split,
        last_serial: u64,
        began: Timestamp,
    },
    FindLeaving,
    Divide,
    SendChanges(Leaving),
    Keep {
        partition: u16,
        version: u64,
        why: String,
    },
    Give,
    FindGiven,
    Import(u16, Loaded),
    Refuse {
        partition: u16,
        version: u64,
        why: StoreError,
    },
    RemoveRows(u16, Removal),
    Take,
    ForgetTaken(Vec<(u16, u64)>),
    Purge(Vec<(u16, u64)>),
    Check,
    ForgetBeside(Vec<u16>),
    NoteUsed(Owners),
    End(OwnersTable, Vec<u16>),
}

impl Task {
    /// Returns whether it changes what the stage keeps beside its tables.
    fn is_beside(&self) -> bool {
        matches!(
            self,
            Task::HalveRows(_) | Task::SendChanges(_) | Task::Import(..) | Task::ForgetBeside(_)
        )
    }
}

/// A partition whose receiver has the copy.
struct Leaving {
    partition: u16,
    to: u16,
    sent: Sent,
}

/// What was asked of the driver, until it says what became of it.
enum UnderWay {
    /// The table is read for this.
    Read(Task),
    /// Nothing depends on what the table is then.
    Change,
    Take,
    Commit {
        /// What the stage keeps beside its tables is committed with it.
        is_beside: bool,
    },
    Import {
        partition: u16,
        version: u64,
        worked: Duration,
    },
    Publish {
        leaving: Leaving,
        bytes: u64,
        began: Timestamp,
    },
}

/// The handover between two lives.
pub struct Handover {
    of: InstanceId,
    rows: Rows,
    brought: Brought,
    beside: BesideTables,
    tasks: VecDeque<Task>,
    under_way: Option<UnderWay>,
    /// Partitions whose last parts are in their streams, each with its copy.
    given: Vec<(u16, u64)>,
    /// Partitions that are whole, each with its version, and how long they took.
    taken: Vec<(u16, u64, Duration)>,
}

impl Handover {
    /// The handover at the start of a process: what an earlier process of the instance had sent of
    /// its partitions is given by nobody.
    pub fn at_start(of: InstanceId, rows: Rows, beside: BesideTables) -> Self {
        let mut this = Handover::between(of, rows, beside, Brought::default());
        this.tasks.push_front(Task::ForgetCopies);
        this
    }

    /// The handover between two lives; `brought`: what the last one leaves.
    pub fn between(of: InstanceId, rows: Rows, beside: BesideTables, brought: Brought) -> Self {
        Handover {
            of,
            rows,
            brought,
            beside,
            tasks: [Task::FindSplits, Task::FindLeaving].into(),
            under_way: None,
            given: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// The next thing to do. To be called when the driver has said what became of the last.
    ///
    /// # Errors
    /// The state cannot be read, or the table of owners is older than it.
    pub fn next_action(&mut self, now: Timestamp) -> Result<Action, NotSettled> {
        debug_assert!(self.under_way.is_none(), "an action is under way");
        loop {
            // The last task ends it.
            let task = self.tasks.pop_front().unwrap_or(Task::Check);
            if task.is_beside() && matches!(self.beside, BesideTables::Closed) {
                self.tasks.push_front(task);
                return Ok(Action::Open);
            }
            if let Some(action) = self.begin(now, task)? {
                return Ok(action);
            }
        }
    }

    /// What the stage keeps beside its tables is open.
    pub fn opened(&mut self, beside: Box<dyn Beside>) {
        self.beside = BesideTables::Open(beside);
    }

    fn begin(&mut self, now: Timestamp, task: Task) -> Result<Option<Action>, NotSettled> {
        match task {
            Task::ForgetCopies => Ok(self.change(Change::ForgetCopies)),
            Task::FindSplits | Task::FindLeaving | Task::FindGiven | Task::Check => {
                self.under_way = Some(UnderWay::Read(task));
                Ok(Some(Action::Change(Change::Read)))
            }
            Task::HalveRows(split) => self.halve_rows(now, split),
            Task::SayHalved {
                split,
                last_serial,
                began,
            } => Ok(self.say_halved(now, &split, last_serial, began)),
            Task::Divide => Ok(self
                .rows
                .divide()?
                .and_then(|changes| self.commit(changes, false))),
            Task::SendChanges(leaving) => Ok(self.send_changes(now, leaving)),
            Task::Keep {
                partition,
                version,
                why,
            } => {
                let keep = self.of.keeps(partition, version, &why);
                Ok(self.change(keep))
            }
            Task::Give if self.given.is_empty() => Ok(None),
            Task::Give => {
                let given = std::mem::take(&mut self.given);
                Ok(self.change(Change::Give(given)))
            }
            Task::Import(partition, loaded) => Ok(self.import(partition, loaded)),
            Task::Refuse {
                partition,
                version,
                why,
            } => {
                let refuse = self.of.refuses(partition, version, &why);
                Ok(self.change(refuse))
            }
            Task::RemoveRows(partition, removal) => self.remove_rows(partition, removal),
            Task::Take => Ok(self.take()),
            Task::ForgetTaken(taken) => Ok(self.forget_taken(taken)),
            Task::Purge(taken) => Ok(Some(Action::Purge(taken))),
            Task::ForgetBeside(partitions) => self.forget_beside(&partitions),
            Task::NoteUsed(owners) => Ok(self.note_used(&owners)),
            Task::End(table, left_over) => Ok(Some(self.end(table, left_over))),
        }
    }

    fn change(&mut self, change: Change) -> Option<Action> {
        self.under_way = Some(UnderWay::Change);
        Some(Action::Change(change))
    }

    fn commit(&mut self, changes: Changes, is_beside: bool) -> Option<Action> {
        self.under_way = Some(UnderWay::Commit { is_beside });
        Some(Action::Commit(changes))
    }

    // What the driver says.

    /// The table of owners is this, after a change by this instance or a look.
    ///
    /// # Errors
    /// The state cannot be read, or the table is older than it.
    pub fn changed(&mut self, table: OwnersTable) -> Result<(), NotSettled> {
        match self.under_way.take() {
            Some(UnderWay::Read(task)) => {
                // Which rows are a partition's follows from the table.
                self.rows.directory = table.owners.directory();
                match task {
                    Task::FindSplits => self.plan_halving(&table.owners),
                    Task::FindLeaving => self.plan_giving(&table.owners)?,
                    Task::FindGiven => self.plan_taking(&table.owners)?,
                    _ => self.check(table)?,
                }
            }
            Some(UnderWay::Take) => self.took(&table.owners),
            _ => {}
        }
        Ok(())
    }

    /// A change that may fail was not made.
    pub fn unchanged(&mut self) {
        self.under_way = None;
    }

    /// What became of a commit.
    ///
    /// # Errors
    /// It failed, and the instance cannot go on without it.
    pub fn committed(&mut self, written: Result<(), StoreError>) -> Result<(), NotSettled> {
        let under_way = self.under_way.take();
        let is_beside = !matches!(under_way, Some(UnderWay::Commit { is_beside: false }));
        let beside = self.beside.get().filter(|_| is_beside);
        let done = written.and_then(|()| beside.map_or(Ok(()), Beside::committed));
        match (under_way, done) {
            (
                Some(UnderWay::Import {
                    partition,
                    version,
                    worked,
                }),
                done,
            ) => match done {
                Ok(()) => self.is_whole(partition, version, worked),
                Err(why) => self.cannot_take(partition, version, why),
            },
            (_, done) => done?,
        }
        Ok(())
    }

    /// What became of the last parts of a partition: why they are not in their stream.
    pub fn published(&mut self, now: Timestamp, published: Result<(), String>) {
        let Some(UnderWay::Publish {
            leaving,
            bytes,
            began,
        }) = self.under_way.take()
        else {
            return;
        };
        let Leaving {
            partition,
            to,
            sent,
        } = leaving;
        if let Err(why) = published {
            self.tasks.push_front(Task::Keep {
                partition,
                version: sent.version,
                why,
            });
            return;
        }
        let Cost {
            bytes: copied_bytes,
            took,
            worked,
        } = sent.cost;
        let InstanceId {
            stage, instance, ..
        } = self.of;
        let copied_ms = took.as_millis() as u64;
        let worked_ms = worked.as_millis() as u64;
        let took_ms = now.since(began).as_millis() as u64;
        tracing::info!(
            stage,
            instance,
            partition,
            to,
            copied_bytes,
            copied_ms,
            worked_ms,
            bytes,
            took_ms,
            "gives a partition away"
        );
        self.given.push((partition, sent.copy));
    }

    // Halving: both halves stay.

    fn plan_halving(&mut self, owners: &Owners) {
        for split in owners.to_halve(self.of.instance).into_iter().rev() {
            self.tasks.push_front(Task::HalveRows(split));
        }
    }

    fn halve_rows(&mut self, began: Timestamp, split: Split) -> Result<Option<Action>, NotSettled> {
        let halved = self.rows.is_halved(split.partition)?;
        let (action, last_serial) = match halved {
            Some(last_serial) => (None, last_serial),
            None => {
                let (changes, last_serial) = self.rows.halve(self.beside.get(), &split)?;
                (self.commit(changes, true), last_serial)
            }
        };
        self.tasks.push_front(Task::SayHalved {
            split,
            last_serial,
            began,
        });
        Ok(action)
    }

    fn say_halved(
        &mut self,
        now: Timestamp,
        split: &Split,
        last_serial: u64,
        began: Timestamp,
    ) -> Option<Action> {
        let partition = split.partition;
        let [(lower, _), (upper, _)] = &split.halves;
        let took_ms = now.since(began).as_millis() as u64;
        let InstanceId {
            stage, instance, ..
        } = self.of;
        tracing::info!(
            stage,
            instance,
            partition,
            lower,
            upper,
            took_ms,
            "splits a partition"
        );
        self.change(Change::Halve {
            partition,
            last_serial,
        })
    }
}

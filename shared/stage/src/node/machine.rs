//! The machine of a life: from the first input to the last ack.
//!
//! ```text
//!  lives ─┬─ other partitions, other settings ─▶ drains for 5 s ─┬─▶ over
//!         └─ told to end ──────────────────────▶ drains for 25 s ┘
//! ```
//!
//! In: the lease, the table of owners, what operators ask, the time. Out: what the core is told,
//! whether inputs are taken, whether the life is over; the settlement's actions in their order.
//! Invariants: a stage with state steps its core and commits only while it holds the lease; what is
//! committed is noted by the migration before.

use super::change::Change;
use super::coming::Coming;
use super::migration::{Brought, Migration};
use super::tenure::Tenure;
use crate::beside::Beside;
use crate::core::Signal;
use crate::settlement::{Action, Settlement};
use crate::store::{Changes, StoreError};
use rhumb_partition::{Owners, OwnersTable};
use rhumb_url::time::Timestamp;
use std::time::Duration;

/// How long a drain may take before what is in hand is left to be delivered again.
const DRAIN_GRACE: Duration = Duration::from_secs(25);
/// The same when the instance is to have other partitions: what is in hand may be delivered again
/// to their next owner.
const REASSIGN_GRACE: Duration = Duration::from_secs(5);

/// A life that takes on nothing new.
#[derive(Clone, Copy, Debug)]
struct Drain {
    since: Timestamp,
    /// The process ends with the life.
    is_end: bool,
    is_core_told: bool,
}

/// An instance of a stage while its core works.
pub struct Node<H> {
    /// Its inputs and outputs.
    pub settlement: Settlement<H>,
    /// Of a stage with state.
    tenure: Option<Tenure>,
    drain: Option<Drain>,
    /// Inputs are still drawn.
    draws: bool,
}

impl<H: Clone> Node<H> {
    /// A life that begins. `tenure`: of a stage with state.
    pub fn new(settlement: Settlement<H>, tenure: Option<Tenure>) -> Self {
        Node {
            settlement,
            tenure,
            drain: None,
            draws: true,
        }
    }

    /// Of a stage with state: the partitions that its core works with.
    pub fn tenure(&self) -> Option<&Tenure> {
        self.tenure.as_ref()
    }

    /// The next thing to do, if there is one.
    pub fn next_action(&mut self) -> Option<Action<H>> {
        let action = self.settlement.next_action()?;
        if let (Action::Commit(changes), Some(tenure)) = (&action, &mut self.tenure) {
            tenure.note(changes);
        }
        Some(action)
    }

    // The lease.

    /// The lease on the partitions is held until then, and was taken under this revision. Returns
    /// the epoch that begins when it had lapsed and was taken again: the core is to be told.
    ///
    /// # Errors
    /// The epoch cannot be stored.
    pub fn leased(&mut self, until: Timestamp, taken: u64) -> Result<Option<u64>, StoreError> {
        self.settlement.leased(until);
        let Some(tenure) = &mut self.tenure else {
            return Ok(None);
        };
        let begun = tenure.leased(taken)?;
        if let Some(epoch) = begun {
            self.settlement.owned_since(epoch);
        }
        Ok(begun)
    }

    // How a life ends.

    /// The instance is to have other partitions, or its core other settings: another life follows.
    pub fn reassign(&mut self, now: Timestamp) {
        self.drain.get_or_insert(Drain {
            since: now,
            is_end: false,
            is_core_told: false,
        });
    }

    /// The process is told to end.
    pub fn end(&mut self, now: Timestamp) {
        self.drain = Some(Drain {
            since: now,
            is_end: true,
            is_core_told: self.is_core_told_to_drain(),
        });
    }

    /// Returns whether the life takes on nothing new.
    pub fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    /// Returns whether the core knows that its life ends.
    pub fn is_core_told_to_drain(&self) -> bool {
        self.drain.is_some_and(|drain| drain.is_core_told)
    }

    /// Since when another life is to follow this one; none when none is.
    pub fn reassigned_at(&self) -> Option<Timestamp> {
        self.drain
            .filter(|drain| !drain.is_end)
            .map(|drain| drain.since)
    }

    /// Returns whether the process is told to end.
    pub fn is_told_to_end(&self) -> bool {
        self.drain.is_some_and(|drain| drain.is_end)
    }

    /// Says, once, that inputs are not drawn any more: what was delivered and nobody has taken is
    /// for others.
    pub fn gives_inputs_back(&mut self) -> bool {
        let draws = !self.is_draining();
        std::mem::replace(&mut self.draws, draws) && !draws
    }

    /// Returns whether the life is over: it is drained, or that took too long. `is_idle`: the core
    /// holds nothing that a drain should wait for.
    pub fn is_over(&self, now: Timestamp, is_idle: bool) -> bool {
        self.drain.is_some_and(|drain| {
            let grace = if drain.is_end {
                DRAIN_GRACE
            } else {
                REASSIGN_GRACE
            };
            (is_idle && self.settlement.is_settled()) || now.since(drain.since) > grace
        })
    }

    // What the core is told and given.

    /// What the core is to be told before anything else: that the process hears again, and once
    /// that its life ends.
    pub fn next_signal(&mut self, now: Timestamp) -> Option<Signal> {
        if self.settlement.hears_again(now) {
            return Some(Signal::HearsAgain);
        }
        let may_step = self.settlement.may_step(now);
        let drain = self.drain.as_mut().filter(|_| may_step)?;
        let is_news = !std::mem::replace(&mut drain.is_core_told, true);
        is_news.then_some(Signal::Drain)
    }

    /// Returns whether the core may be given inputs of streams, when it wants some.
    pub fn takes_input(&self, now: Timestamp) -> bool {
        !self.is_draining() && self.settlement.takes_input(now)
    }

    // Partitions.

    /// Looks at the table of the owners of the stage's partitions: does what can be done of the
    /// instance's moves while the core works, and finds out whether it is to have others.
    ///
    /// # Errors
    /// The store cannot be read, or what the stage keeps beside it.
    pub fn look(
        &mut self,
        now: Timestamp,
        table: &OwnersTable,
        beside: Option<&mut dyn Beside>,
    ) -> Result<(), StoreError> {
        let Some(tenure) = self.tenure.as_mut().filter(|_| self.drain.is_none()) else {
            return Ok(());
        };
        if tenure.look(now, table, beside)? {
            self.reassign(now);
        }
        Ok(())
    }

    /// What is to be said of the instance's partitions that were split: all that belongs to them
    /// has come, as `has_all` says.
    pub fn finished(&self, owners: &Owners, has_all: impl Fn(u16) -> bool) -> Vec<Change> {
        let tenure = self.tenure.iter();
        let tenure = tenure.filter(|_| self.reassigned_at().is_none());
        let finished = tenure.flat_map(|tenure| tenure.finished(owners, &has_all));
        finished.map(Change::Finish).collect()
    }

    /// The commit that removes some of the rows that are left of partitions that are others', at
    /// most `rows_max`; none when there is nothing to remove now.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn remove_left_over(
        &mut self,
        now: Timestamp,
        rows_max: usize,
    ) -> Result<Option<Changes>, StoreError> {
        let may_step = self.settlement.may_step(now);
        match self.tenure.as_mut().filter(|_| may_step) {
            Some(tenure) => tenure.remove_left_over(rows_max),
            None => Ok(None),
        }
    }

    /// Returns whether partitions are on their way from the instance, or to it.
    pub fn is_moving(&self) -> bool {
        let migration = self.tenure.as_ref().map(Tenure::migration);
        migration.is_some_and(Migration::is_moving)
    }

    /// Of a stage with state: what is done of its moves while the core works, to be told what was
    /// done.
    pub fn migration(&mut self) -> Option<&mut Migration> {
        self.tenure.as_mut().map(Tenure::migration_mut)
    }

    /// The life is over. `coming`: the partitions that were being taken in.
    pub fn leave(self, coming: impl IntoIterator<Item = Coming>) -> Brought {
        self.tenure
            .map_or_else(Brought::default, |tenure| tenure.end(coming))
    }
}

//! What lies between two lives of the core of a stage with state, over a broker in memory: the
//! handover says what is done, as in a process.
//!
//! Between any two things time goes by, and the process may die, stand still or lose its lease.

use super::agenda::{Input, Process};
use super::around::Around;
use super::background::instance_id;
use super::plan::{MILLISECOND, Micros, SECOND};
use super::scaling::Asked;
use rhumb_stage::node::{Action, BesideTables, Brought, Change, Handover, Settled};
use rhumb_stage::store::{Changes, MemoryStore};
use rhumb_stage::{Beside, Rows};
use rhumb_url::time::Timestamp;
use std::sync::Arc;

/// Opens what a stage keeps beside its tables.
pub(crate) type OpenBeside = Box<dyn Fn(Arc<MemoryStore>) -> Box<dyn Beside>>;

/// The process ends: the broker does not answer, or the lease is over.
pub(crate) struct Ended;

/// What lies between two lives of a core.
pub(crate) struct Settling {
    pub(crate) process: Process,
    /// The revision under which the lease was taken, and until when it is held.
    pub(crate) taken: u64,
    pub(crate) held_until: Micros,
    pub(crate) next_renewal: Micros,
    store: Arc<MemoryStore>,
    handover: Handover,
    /// No core of the process has worked yet.
    pub(crate) is_first: bool,
    next_at: Micros,
}

impl Settling {
    /// Between two lives; `left`: what the last one leaves, none at the start of a process.
    pub(crate) fn begin(
        process: Process,
        (taken, held_until): (u64, Micros),
        (rows, store): (Rows, Arc<MemoryStore>),
        open: Option<&OpenBeside>,
        left: Option<(Brought, Option<Box<dyn Beside>>)>,
        around: &Around,
    ) -> Self {
        let next_renewal = around.now + around.leases.lasts / 4;
        let of = instance_id(process.place);
        let closed = || open.map_or(BesideTables::None, |_| BesideTables::Closed);
        let is_first = left.is_none();
        let handover = match left {
            Some((brought, beside)) => {
                let beside = beside.map_or_else(closed, BesideTables::Open);
                Handover::between(of, rows, beside, brought)
            }
            None => Handover::at_start(of, rows, closed()),
        };
        let next_at = around.now;
        Settling {
            process,
            taken,
            held_until,
            next_renewal,
            store,
            handover,
            is_first,
            next_at,
        }
    }

    pub(crate) fn wake_at(&self) -> Micros {
        self.next_at.min(self.next_renewal)
    }

    /// Takes what reaches a process between two lives of its core: nothing but the clock and its
    /// lease.
    pub(crate) fn take(
        &mut self,
        input: &Input,
        open: Option<&OpenBeside>,
        around: &mut Around,
    ) -> Result<Option<Settled>, Ended> {
        match *input {
            Input::Leased { asked, taken } => {
                self.held_until = asked + around.leases.lasts;
                self.taken = taken;
            }
            Input::LeaseLost => return Err(Ended),
            Input::Tick if self.next_renewal <= around.now => {
                self.next_renewal = around.now + around.leases.lasts / 4;
                around.renew(self.process);
            }
            _ => {}
        }
        if self.next_at > around.now {
            return Ok(None);
        }
        self.go_on(open, around)
    }

    fn go_on(
        &mut self,
        open: Option<&OpenBeside>,
        around: &mut Around,
    ) -> Result<Option<Settled>, Ended> {
        let now = Timestamp::from_micros(around.now);
        let next = self.handover.next_action(now);
        let action = match next.unwrap_or_else(|error| panic!("{:?}: {error}", self.process)) {
            Action::Open => {
                let open = open.expect("the stage keeps something");
                self.handover.opened(open(self.store.clone()));
                return Ok(None);
            }
            Action::End(settled) => return Ok(Some(*settled)),
            action => action,
        };
        let place = self.process.place;
        self.next_at = around.now + around.dice.within(MILLISECOND..150 * MILLISECOND);
        let dies = around.dies_in_step(place, true);
        let accident = if around.now < around.faults.until_s * SECOND {
            around.dice.within(0..20_000)
        } else {
            20_000
        };
        match accident {
            0..100 => return Err(Ended),
            // After what it does, or in the middle of it.
            100..200 => _ = around.dying.insert(place, 1),
            200..250 => around.stand_still(place, 2 * around.leases.lasts),
            250..300 => {
                around.leases.claim(place, around.leases.lasts);
                around.cut_off(place, 2 * around.leases.lasts);
            }
            _ => {}
        }
        if dies.is_some_and(|after| after % 2 == 0) {
            return Err(Ended);
        }
        self.carry_out(action, dies, around)?;
        if dies.is_some() { Err(Ended) } else { Ok(None) }
    }

    fn carry_out(
        &mut self,
        action: Action,
        dies: Option<usize>,
        around: &mut Around,
    ) -> Result<(), Ended> {
        let place = self.process.place;
        match action {
            Action::Commit(changes) => self.commit(&changes, around)?,
            Action::Change(change) => self.change(&change, around)?,
            Action::Publish(partition, version, mut parts) => {
                around.tell(|| format!("{place:?} sends the last parts of {partition}"));
                // The stream does not take all parts in time.
                if around.dice.chance(200) || around.is_cut_off(place) {
                    let now = Timestamp::from_micros(around.now);
                    self.handover.published(now, Err("no answer".to_owned()));
                    return Ok(());
                }
                parts.truncate(dies.unwrap_or(usize::MAX));
                around
                    .moves
                    .publish((place.stage, partition, version), parts);
                let now = Timestamp::from_micros(around.now);
                self.handover.published(now, Ok(()));
            }
            Action::Purge(taken) => {
                for (partition, version) in taken {
                    let of = (place.stage, partition, version);
                    around.moves.parts.remove(&of);
                }
            }
            Action::Open | Action::End(_) => {}
        }
        Ok(())
    }

    /// Nothing is written after the end of the lease.
    fn commit(&mut self, changes: &Changes, around: &Around) -> Result<(), Ended> {
        if self.held_until <= around.now {
            return Err(Ended);
        }
        let written = rhumb_stage::store::Store::commit(self.store.as_ref(), changes);
        let committed = self.handover.committed(written);
        committed.unwrap_or_else(|error| panic!("{:?}: {error}", self.process));
        Ok(())
    }

    fn change(&mut self, change: &Change, around: &mut Around) -> Result<(), Ended> {
        let place = self.process.place;
        around.tell(|| format!("{place:?} says of its partitions: {change:?}"));
        let asked = around.asks_broker(place);
        let table = (asked != Asked::Lost).then(|| around.make(place, change));
        match table.filter(|_| asked == Asked::Answered) {
            Some(table) => {
                let changed = self.handover.changed(table);
                changed.unwrap_or_else(|error| panic!("{:?}: {error}", self.process));
                Ok(())
            }
            None if change.may_fail() => {
                self.handover.unchanged();
                Ok(())
            }
            None => Err(Ended),
        }
    }
}

//! Moves: what an instance of a stage with state does between two lives of its core, one thing after the other, as the mover
//! of a process does it: the steps are the same, the broker is one in memory.
//!
//! Between any two things time goes by, and the process may die, stand still or lose its lease.

use super::agenda::{Input, Place, Process};
use super::around::Around;
use super::plan::{MILLISECOND, Micros, SECOND};
use super::scaling::Asked;
use bytes::Bytes;
use shared::bus::OwnersTable;
use shared::partitions::Owners;
use shared::stage::store::{Changes, MemoryStore};
use shared::stage::{Beside, Bill, Loading, Rows, steps};
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows that one commit removes.
const ROWS_REMOVED_AT_ONCE: usize = 7;

/// Opens what a stage keeps beside its tables.
pub(crate) type OpenBeside = Box<dyn Fn(Arc<MemoryStore>) -> Box<dyn Beside>>;

/// The next thing that a process does between two lives of its core.
#[derive(Debug)]
enum Next {
    WhatToGive,
    Send(u16, u64),
    Give(u16),
    Keep(u16),
    WhatToTake,
    Take(u16, u64),
    Part(u16, u64, u32),
    Whole(u16, u64),
    Refuse(u16, u64),
    TakeOver(u16, u64),
    Taken(u16, u64),
    End,
}

/// The process ends: the broker does not answer, or the lease is over.
pub(crate) struct Ended;

/// What lies between two lives of a core.
pub(crate) struct Settling {
    pub(crate) process: Process,
    /// The revision under which the lease was taken, and until when it is held.
    pub(crate) taken: u64,
    pub(crate) held_until: Micros,
    pub(crate) next_renewal: Micros,
    rows: Rows,
    opened: Option<Box<dyn Beside>>,
    next: VecDeque<Next>,
    next_at: Micros,
}

/// All that was to be given and taken is settled.
pub(crate) struct Settled {
    pub(crate) table: OwnersTable,
    pub(crate) left_over: Vec<u16>,
}

impl Settling {
    pub(crate) fn begin(process: Process, (taken, held_until): (u64, Micros), rows: Rows, around: &Around) -> Self {
        let next_renewal = around.now + around.leases.lasts / 4;
        let next = [Next::WhatToGive].into();
        Settling { process, taken, held_until, next_renewal, rows, opened: None, next, next_at: around.now }
    }

    pub(crate) fn wake_at(&self) -> Micros {
        self.next_at.min(self.next_renewal)
    }

    /// Takes what reaches a process between two lives of its core: nothing but the clock and its lease.
    pub(crate) fn take(
        &mut self,
        input: &Input,
        open: Option<&OpenBeside>,
        store: &Arc<MemoryStore>,
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
        self.opened = self.opened.take().or_else(|| open.map(|open| open(store.clone())));
        self.go_on(around)
    }

    fn go_on(&mut self, around: &mut Around) -> Result<Option<Settled>, Ended> {
        let Some(next) = self.next.pop_front() else { return Ok(None) };
        let place = self.process.place;
        around.tell(|| format!("{place:?} settles: {next:?}"));
        self.next_at = around.now + around.dice.within(MILLISECOND..300 * MILLISECOND);
        let dies = around.dies_in_step(place, true);
        let accident = if around.now < around.faults.until_s * SECOND { around.dice.within(0..10_000) } else { 10_000 };
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
        let settled = self.does(next, dies, around)?;
        if dies.is_some() { Err(Ended) } else { Ok(settled) }
    }

    fn does(&mut self, next: Next, dies: Option<usize>, around: &mut Around) -> Result<Option<Settled>, Ended> {
        let Place { stage, instance } = self.process.place;
        match next {
            Next::WhatToGive => {
                let OwnersTable { owners, .. } = self.read(around)?;
                let leaving = owners.leaving(instance).into_iter();
                self.next = leaving.map(|(partition, _)| Next::Send(partition, owners.version(partition))).collect();
                self.next.push_back(Next::WhatToTake);
            }
            Next::Send(partition, version) => self.send(partition, version, dies, around)?,
            Next::Give(partition) => _ = self.change(around, |owners| owners.give(partition, instance))?,
            Next::Keep(partition) => _ = self.change(around, |owners| owners.keep(partition, instance))?,
            Next::WhatToTake => {
                let OwnersTable { owners, .. } = self.read(around)?;
                let given = owners.given_to(instance).into_iter();
                self.next = given.map(|partition| Next::Take(partition, owners.version(partition))).collect();
                self.next.push_back(Next::End);
            }
            Next::Take(partition, version) => self.take_over(partition, version, around)?,
            Next::Part(partition, version, number) => self.part(partition, version, number, around)?,
            Next::Whole(partition, version) => {
                let whole = steps::whole(self.opened.as_deref_mut(), partition, version).expect("it can be written");
                self.commit(&whole, around)?;
                self.opened.as_deref_mut().map_or(Ok(()), Beside::committed).expect("it can be written");
                self.next.push_front(Next::TakeOver(partition, version));
            }
            Next::Refuse(partition, version) => {
                self.change(around, |owners| owners.refuse(partition, version, instance))?;
                self.forget_beside(&[partition], around)?;
                self.remove_rows(partition, around)?;
            }
            Next::TakeOver(partition, version) => {
                let mut is_taken = false;
                self.change(around, |owners| {
                    is_taken = owners.take(partition, version, instance);
                    is_taken
                })?;
                around.moves.taken += u64::from(is_taken);
                self.next.push_front(Next::Taken(partition, version));
            }
            Next::Taken(partition, version) => {
                self.commit(&steps::taken(partition), around)?;
                around.moves.parts.remove(&(stage, partition, version));
            }
            Next::End => {
                let table = self.read(around)?;
                let left_over = steps::left_over(&self.rows, &table.owners, instance).expect("the store is read");
                if !left_over.is_empty() {
                    self.forget_beside(&left_over, around)?;
                }
                return Ok(Some(Settled { table, left_over }));
            }
        }
        Ok(None)
    }

    fn send(&mut self, partition: u16, version: u64, dies: Option<usize>, around: &mut Around) -> Result<(), Ended> {
        if let Some(divided) = self.rows.divide().expect("the store is read") {
            self.commit(&divided, around)?;
        }
        // Else the stream does not take all parts in time.
        if around.dice.chance(200) || around.is_cut_off(self.process.place) {
            self.next.push_front(Next::Keep(partition));
            return Ok(());
        }
        let full = *around.dice.pick(&[64, 600, 1 << 19]).expect("three lengths");
        let loading = Loading::of_parts(self.bill(partition, version), full);
        let mut parts = Vec::new();
        let loaded = self.rows.load(self.opened.as_deref_mut(), partition, loading, |part| parts.push(part));
        loaded.expect("the store is read");
        parts.truncate(dies.unwrap_or(usize::MAX));
        // What an earlier try left is purged first.
        around.moves.parts.insert((self.process.place.stage, partition, version), parts);
        self.next.push_front(Next::Give(partition));
        Ok(())
    }

    fn take_over(&mut self, partition: u16, version: u64, around: &mut Around) -> Result<(), Ended> {
        let is_whole = self.rows.has_whole(partition, version).expect("the store is read");
        if !is_whole {
            self.remove_rows(partition, around)?;
            self.opened.as_deref_mut().map_or(Ok(()), |beside| beside.begin(partition)).expect("it can be written");
        }
        self.next.push_front(match is_whole {
            true => Next::TakeOver(partition, version),
            false => Next::Part(partition, version, 0),
        });
        Ok(())
    }

    fn part(&mut self, partition: u16, version: u64, number: u32, around: &mut Around) -> Result<(), Ended> {
        if around.asks_broker(self.process.place) != Asked::Answered {
            return Err(Ended);
        }
        let parts = around.moves.parts.get(&(self.process.place.stage, partition, version));
        let Some(mut part) = parts.and_then(|parts| parts.get(number as usize)).cloned() else {
            panic!("{:?}: no part {number} of {partition} under version {version}", self.process);
        };
        if around.dice.chance(50) {
            part = damaged(&part, around.dice.below(part.len()));
        }
        let bill = self.bill(partition, version);
        let part = self.rows.of_part(self.opened.as_deref_mut(), partition, (&bill, number), &part);
        let next = match part {
            Ok((changes, is_last)) => {
                self.commit(&changes, around)?;
                if is_last { Next::Whole(partition, version) } else { Next::Part(partition, version, number + 1) }
            }
            Err(unfit) => {
                around.tell(|| format!("{:?} refuses {partition}: {unfit}", self.process));
                self.opened = None;
                Next::Refuse(partition, version)
            }
        };
        self.next.push_front(next);
        Ok(())
    }

    fn forget_beside(&mut self, partitions: &[u16], around: &Around) -> Result<(), Ended> {
        let mut changes = Changes::default();
        if let Some(beside) = &mut self.opened {
            partitions.iter().try_for_each(|&partition| beside.forget(partition)).expect("it can be written");
            beside.stage(&mut changes).expect("it can be written");
        }
        self.commit(&changes, around)?;
        self.opened.as_deref_mut().map_or(Ok(()), Beside::committed).expect("it can be written");
        Ok(())
    }

    fn remove_rows(&self, partition: u16, around: &Around) -> Result<(), Ended> {
        loop {
            let mut changes = Changes::default();
            if self.rows.remove(&mut changes, partition, ROWS_REMOVED_AT_ONCE).expect("the store is read") == 0 {
                return Ok(());
            }
            self.commit(&changes, around)?;
        }
    }

    /// Nothing is written after the end of the lease.
    fn commit(&self, changes: &Changes, around: &Around) -> Result<(), Ended> {
        if self.held_until <= around.now {
            return Err(Ended);
        }
        self.rows.store.commit(changes).expect("a store in memory does not fail");
        Ok(())
    }

    fn read(&self, around: &mut Around) -> Result<OwnersTable, Ended> {
        self.change(around, |_| false)
    }

    fn change(&self, around: &mut Around, change: impl FnOnce(&mut Owners) -> bool) -> Result<OwnersTable, Ended> {
        match around.asks_broker(self.process.place) {
            Asked::Lost => Err(Ended),
            asked => {
                let table = around.change_owners(self.process.place.stage, change);
                if asked == Asked::Answered { Ok(table) } else { Err(Ended) }
            }
        }
    }

    fn bill(&self, partition: u16, version: u64) -> Bill {
        Bill::new("simulation", self.process.place.stage.name(), partition, version)
    }
}

fn damaged(part: &[u8], at: usize) -> Bytes {
    let mut bytes = part.to_vec();
    bytes[at] ^= 0x10;
    bytes.into()
}

//! Moves: what an instance of a stage with state does between two lives of its core, one thing
//! after the other, as the mover of a process does it: the steps are the same, the broker is one in
//! memory.
//!
//! Between any two things time goes by, and the process may die, stand still or lose its lease.

use super::agenda::{Input, Place, Process};
use super::ahead::Ahead;
use super::around::Around;
use super::plan::{MILLISECOND, Micros, SECOND};
use super::scaling::Asked;
use rhumb_bus::OwnersTable;
use rhumb_partition::{Owners, Split};
use rhumb_stage::store::{Changes, MemoryStore};
use rhumb_stage::{Beside, Rows, steps};
use std::collections::VecDeque;
use std::sync::Arc;

/// Opens what a stage keeps beside its tables.
pub(crate) type OpenBeside = Box<dyn Fn(Arc<MemoryStore>) -> Box<dyn Beside>>;

/// The next thing that a process does between two lives of its core.
#[derive(Debug)]
enum Next {
    /// At the start of a process.
    ForgetCopies,
    WhatToHalve,
    HalveRows(Split),
    Halve(u16, u64),
    WhatToGive,
    Send(u16),
    Give,
    WhatToTake,
    Import(u16, u64, u64),
    TakeOver(Vec<(u16, u64)>),
    Taken(Vec<(u16, u64)>),
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
    /// What the last life did of the moves, and left of what the stage keeps beside its tables.
    pub(crate) ahead: Ahead,
    pub(crate) opened: Option<Box<dyn Beside>>,
    given: Vec<(u16, u64)>,
    next: VecDeque<Next>,
    next_at: Micros,
}

/// All that was to be given and taken is settled.
pub(crate) struct Settled {
    pub(crate) table: OwnersTable,
    pub(crate) left_over: Vec<u16>,
}

impl Settling {
    /// Between two lives; `left`: what the last one leaves, none at the start of a process.
    pub(crate) fn begin(
        process: Process,
        (taken, held_until): (u64, Micros),
        rows: Rows,
        left: Option<(Ahead, Option<Box<dyn Beside>>)>,
        around: &Around,
    ) -> Self {
        let next_renewal = around.now + around.leases.lasts / 4;
        let next = if left.is_some() {
            Next::WhatToHalve
        } else {
            Next::ForgetCopies
        };
        let (ahead, opened) = left.unwrap_or_default();
        let given = Vec::new();
        let next = [next].into();
        let next_at = around.now;
        Settling {
            process,
            taken,
            held_until,
            next_renewal,
            rows,
            ahead,
            opened,
            given,
            next,
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
        self.opened = self
            .opened
            .take()
            .or_else(|| open.map(|open| open(store.clone())));
        self.go_on(around)
    }

    fn go_on(&mut self, around: &mut Around) -> Result<Option<Settled>, Ended> {
        let Some(next) = self.next.pop_front() else {
            return Ok(None);
        };
        let place = self.process.place;
        around.tell(|| format!("{place:?} settles: {next:?}"));
        self.next_at = around.now + around.dice.within(MILLISECOND..300 * MILLISECOND);
        let dies = around.dies_in_step(place, true);
        let accident = if around.now < around.faults.until_s * SECOND {
            around.dice.within(0..10_000)
        } else {
            10_000
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
        let settled = self.does(next, dies, around)?;
        if dies.is_some() {
            Err(Ended)
        } else {
            Ok(settled)
        }
    }

    fn does(
        &mut self,
        next: Next,
        dies: Option<usize>,
        around: &mut Around,
    ) -> Result<Option<Settled>, Ended> {
        let Place { stage, instance } = self.process.place;
        match next {
            Next::ForgetCopies => {
                self.change(around, |owners| owners.forget_copies(instance))?;
                self.next.push_back(Next::WhatToHalve);
            }
            Next::WhatToHalve => {
                let OwnersTable { owners, .. } = self.read(around)?;
                self.next = owners
                    .to_halve(instance)
                    .into_iter()
                    .map(Next::HalveRows)
                    .collect();
                self.next.push_back(Next::WhatToGive);
            }
            Next::HalveRows(split) => self.halve(&split, around)?,
            Next::Halve(partition, last) => {
                self.change(around, |owners| owners.halve(partition, instance, last))?;
            }
            Next::WhatToGive => {
                let OwnersTable { owners, .. } = self.read(around)?;
                self.plan_giving(&owners);
            }
            Next::Send(partition) => self.send(partition, dies, around)?,
            Next::Give => {
                let given = std::mem::take(&mut self.given);
                self.change(around, |owners| {
                    given.iter().fold(false, |any, &(partition, copy)| {
                        owners.give(partition, copy, instance) || any
                    })
                })?;
            }
            Next::WhatToTake => {
                let OwnersTable { owners, .. } = self.read(around)?;
                self.plan_taking(&owners);
            }
            Next::Import(partition, version, copy) => {
                self.import(partition, version, copy, around)?
            }
            Next::TakeOver(taken) => {
                let before = around.moves.taken;
                let mut count = 0;
                self.change(around, |owners| {
                    count = taken
                        .iter()
                        .filter(|(of, version)| owners.take(*of, *version, instance))
                        .count() as u64;
                    count > 0
                })?;
                around.moves.taken = before + count;
                taken
                    .iter()
                    .for_each(|(partition, _)| _ = self.ahead.coming.remove(partition));
                self.next.push_front(Next::Taken(taken));
            }
            Next::Taken(taken) => {
                for (partition, version) in taken {
                    self.commit(&steps::taken(partition), around)?;
                    around.moves.parts.remove(&(stage, partition, version));
                }
            }
            Next::End => return self.end(around),
        }
        Ok(None)
    }

    fn end(&mut self, around: &mut Around) -> Result<Option<Settled>, Ended> {
        let table = self.read(around)?;
        let to_halve = table.owners.to_halve(self.process.place.instance);
        if !to_halve.is_empty() {
            self.next = to_halve.into_iter().map(Next::HalveRows).collect();
            self.next.push_back(Next::End);
            return Ok(None);
        }
        let left_over = steps::left_over(&self.rows, &table.owners, self.process.place.instance);
        let left_over = left_over.expect("the store is read");
        if !left_over.is_empty() {
            self.forget_beside(&left_over, around)?;
        }
        Ok(Some(Settled { table, left_over }))
    }

    fn halve(&mut self, split: &Split, around: &mut Around) -> Result<(), Ended> {
        let partition = split.partition;
        let last = match self.rows.is_halved(partition).expect("the store is read") {
            Some(last) => last,
            None => {
                let halved = self.rows.halve(self.opened.as_deref_mut(), split);
                let (changes, last) = halved.expect("it can be written");
                self.commit(&changes, around)?;
                self.opened
                    .as_deref_mut()
                    .map_or(Ok(()), Beside::committed)
                    .expect("it can be written");
                around.moves.halved += 1;
                last
            }
        };
        self.next.push_front(Next::Halve(partition, last));
        Ok(())
    }

    /// What was sent, and its receiver has, is given.
    fn plan_giving(&mut self, owners: &Owners) {
        let leaving = owners
            .leaving(self.process.place.instance)
            .into_iter()
            .map(|(partition, _)| partition);
        let copied = leaving.filter(|partition| {
            self.ahead.leaving.get(partition).is_some_and(|of| {
                owners.version(*partition) == of.version && owners.copy(*partition) == Some(of.copy)
            })
        });
        self.next = copied.map(Next::Send).collect();
        self.next.extend([Next::Give, Next::WhatToTake]);
    }

    /// What was given and has come is imported and taken over.
    fn plan_taking(&mut self, owners: &Owners) {
        let mut taken = Vec::new();
        for partition in owners.given_to(self.process.place.instance) {
            let (version, Some(copy)) = (owners.version(partition), owners.copy(partition)) else {
                continue;
            };
            let is_whole = self
                .rows
                .has_whole(partition, version, copy)
                .expect("the store is read");
            let has_come = self
                .ahead
                .coming
                .get(&partition)
                .is_some_and(|of| of.is_all_of(version, copy));
            if is_whole || has_come {
                taken.push((partition, version));
            }
            if has_come && !is_whole {
                self.next.push_back(Next::Import(partition, version, copy));
            }
        }
        self.next.extend([Next::TakeOver(taken), Next::End]);
    }

    fn import(
        &mut self,
        partition: u16,
        version: u64,
        copy: u64,
        around: &Around,
    ) -> Result<(), Ended> {
        let coming = self.ahead.coming.remove(&partition).expect("it has come");
        let importing = coming.importing.map(|(_, importing)| importing);
        let beside = self.opened.as_deref_mut().zip(importing);
        let whole = steps::whole(beside, partition, version, copy).expect("it can be written");
        self.commit(&whole, around)?;
        self.opened
            .as_deref_mut()
            .map_or(Ok(()), Beside::committed)
            .expect("it can be written");
        Ok(())
    }

    /// Sends what changed since the copy of a partition began.
    fn send(
        &mut self,
        partition: u16,
        dies: Option<usize>,
        around: &mut Around,
    ) -> Result<(), Ended> {
        if let Some(divided) = self.rows.divide().expect("the store is read") {
            self.commit(&divided, around)?;
        }
        let place = self.process.place;
        let Some(mut leaving) = self.ahead.leaving.remove(&partition) else {
            return Ok(());
        };
        // Else the stream does not take all parts in time.
        if around.dice.chance(200) || around.is_cut_off(place) {
            self.change(around, |owners| owners.keep(partition, place.instance))?;
            return Ok(());
        }
        let changed = self.ahead.changed.take(partition);
        let loading = leaving.loading.as_mut().expect("it was sent");
        let parts =
            self.rows
                .copy_changes(self.opened.as_deref_mut(), partition, &changed, loading);
        let mut parts = parts.expect("the store is read");
        parts.truncate(dies.unwrap_or(usize::MAX));
        around
            .moves
            .publish((place.stage, partition, leaving.version), parts);
        self.given.push((partition, leaving.copy));
        Ok(())
    }

    fn forget_beside(&mut self, partitions: &[u16], around: &Around) -> Result<(), Ended> {
        let mut changes = Changes::default();
        if let Some(beside) = &mut self.opened {
            partitions
                .iter()
                .try_for_each(|&partition| beside.forget(partition))
                .expect("it can be written");
            beside.stage(&mut changes).expect("it can be written");
        }
        self.commit(&changes, around)?;
        self.opened
            .as_deref_mut()
            .map_or(Ok(()), Beside::committed)
            .expect("it can be written");
        Ok(())
    }

    /// Nothing is written after the end of the lease.
    fn commit(&self, changes: &Changes, around: &Around) -> Result<(), Ended> {
        if self.held_until <= around.now {
            return Err(Ended);
        }
        self.rows
            .store
            .commit(changes)
            .expect("a store in memory does not fail");
        Ok(())
    }

    fn read(&mut self, around: &mut Around) -> Result<OwnersTable, Ended> {
        let table = self.change(around, |_| false)?;
        self.rows.directory = table.owners.directory();
        Ok(table)
    }

    fn change(
        &self,
        around: &mut Around,
        change: impl FnOnce(&mut Owners) -> bool,
    ) -> Result<OwnersTable, Ended> {
        match around.asks_broker(self.process.place) {
            Asked::Lost => Err(Ended),
            asked => {
                let table = around.change_owners(self.process.place.stage, change);
                if asked == Asked::Answered {
                    Ok(table)
                } else {
                    Err(Ended)
                }
            }
        }
    }
}

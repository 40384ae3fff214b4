//! The partitions that a life of a core works with: when it is to have others, and what is done for
//! them meanwhile, as in the upkeep of a process.

use super::ahead::Ahead;
use super::around::Around;
use super::broker::{Delivery, Drawn};
use super::life::{Died, LifeOf, Tenure};
use super::node::Simulated;
use super::plan::{Micros, SECOND};
use super::scaling::{Asked, Watch};
use rhumb_partition::is_to_have_others;
use rhumb_stage::store::Changes;
use rhumb_stage::{Beside, Event, Removal};
use std::time::Duration;

/// How long a drain may take when the instance is to have other partitions, as in the stage loop.
const REASSIGN_GRACE: Micros = 5 * SECOND;
/// Rows of partitions that are others' which one upkeep removes.
const ROWS_AT_ONCE: usize = 3;

/// What a life leaves.
pub(crate) struct Left {
    /// The lease: the revision under which it was taken, and until when it is held.
    pub(crate) held: (u64, Micros),
    pub(crate) ahead: Ahead,
    pub(crate) beside: Option<Box<dyn Beside>>,
}

impl<C: Simulated> LifeOf<C> {
    /// Tells the core who has the partitions that it has to know of, and finds out whether the
    /// instance is to have others.
    pub(crate) fn hear_of_owners(&mut self, watch: &mut Watch, around: &mut Around) {
        if !self.scales || self.next_upkeep > around.now {
            return;
        }
        if std::mem::take(&mut watch.has_news) {
            watch
                .tables
                .iter()
                .for_each(|(stage, table)| self.core.owners(*stage, &table.owners));
        }
        let place = self.process.place;
        self.finish_splits(watch, around);
        let Some(tenure) = self
            .tenure
            .as_mut()
            .filter(|tenure| tenure.reassigned.is_none())
        else {
            return;
        };
        let table = &watch.tables[&place.stage];
        let now = Duration::from_micros(around.now);
        if table.revision < tenure.revision {
            return;
        }
        let Tenure {
            ahead,
            rows,
            epoch,
            left_over,
            ..
        } = tenure;
        rows.directory = table.owners.directory();
        let given_up = ahead.look(
            &table.owners,
            (place.instance, *epoch),
            rows,
            self.core.beside(),
        );
        left_over.extend(given_up);
        left_over.retain(|partition| !ahead.coming.contains_key(partition));
        let ready = ahead.ready();
        if is_to_have_others(
            now,
            &table.owners,
            place.instance,
            &tenure.partitions,
            &ready,
            &mut tenure.ready_since,
        ) {
            tenure.reassigned = Some(around.now);
            around.tell(|| format!("{place:?} is to have other partitions: {:?}", table.owners));
            tenure
                .rows
                .edges
                .iter()
                .for_each(|&edge| around.broker.withdraw(edge, place));
            for Delivery {
                edge,
                consumer,
                sequence,
                ..
            } in self.messages.drain(..)
            {
                around.nak(self.process, edge, consumer, sequence);
            }
        }
    }

    /// Says of partitions that were split when all that belongs to them has come.
    fn finish_splits(&self, watch: &Watch, around: &mut Around) {
        let place = self.process.place;
        if self
            .tenure
            .as_ref()
            .is_none_or(|tenure| tenure.reassigned.is_some())
        {
            return;
        }
        for partition in watch.tables[&place.stage].owners.late(place.instance) {
            if self.core.has_all(partition) && around.asks_broker(place) != Asked::Lost {
                around.change_owners(place.stage, |owners| owners.finish(partition));
            }
        }
    }

    /// Whether the life is over because the instance is to have other partitions.
    pub(crate) fn is_drained_for_others(&mut self, around: &mut Around) -> Result<bool, Died> {
        let may_step = self.settlement.may_step(self.now(around));
        let Some(tenure) = &mut self.tenure else {
            return Ok(false);
        };
        let Some(since) = tenure.reassigned else {
            return Ok(false);
        };
        if !tenure.is_told_to_drain && may_step {
            tenure.is_told_to_drain = true;
            self.step(Event::Drain, around)?;
        }
        let is_drained = self.core.is_idle() && self.settlement.is_settled();
        Ok(is_drained || around.now > since + REASSIGN_GRACE)
    }

    /// The life ends.
    pub(crate) fn end(mut self, around: &mut Around) -> Result<Left, Died> {
        self.settlement.upkeep(self.now(around));
        self.carry_out_all(around)?;
        self.settlement.give_back();
        self.carry_out_all(around)?;
        let ahead = self.tenure.map(|tenure| tenure.ahead).unwrap_or_default();
        Ok(Left {
            held: (self.taken, self.held_until),
            ahead,
            beside: self.core.into_beside(),
        })
    }

    /// Something is done of the moves, and some of the rows that are left of partitions that are
    /// others' go.
    pub(crate) fn look_after_partitions(&mut self, around: &mut Around) {
        let may_step = self.settlement.may_step(self.now(around));
        if let Some(tenure) = self
            .tenure
            .as_mut()
            .filter(|tenure| tenure.reassigned.is_none())
        {
            let may_write = around.now < self.held_until;
            tenure
                .ahead
                .work(self.process, &tenure.rows, may_write, around);
        }
        let Some(Tenure {
            rows, left_over, ..
        }) = &mut self.tenure
        else {
            return;
        };
        let Some(&partition) = left_over.last().filter(|_| may_step) else {
            return;
        };
        let mut changes = Changes::default();
        match rows
            .remove(
                &mut changes,
                partition,
                &mut Removal::default(),
                ROWS_AT_ONCE,
            )
            .expect("a store in memory does not fail")
        {
            0 => _ = left_over.pop(),
            _ => rows
                .store
                .commit(&changes)
                .expect("a store in memory does not fail"),
        }
    }

    /// Positions rise as far as the broker has all acks, as those with many gaps do in a process.
    pub(crate) fn raise_positions(&mut self, around: &Around) {
        let Some(Tenure { rows, drawn, .. }) = &self.tenure else {
            return;
        };
        let consumers: Vec<Option<u16>> = match drawn {
            Drawn::All => vec![None],
            Drawn::Each(owned) => owned
                .iter()
                .map(|(partition, _)| Some(*partition))
                .collect(),
        };
        for &edge in &rows.edges {
            for &partition in &consumers {
                self.settlement
                    .acked_up_to((edge, partition), around.broker.ack_floor(edge, partition));
            }
        }
    }
}

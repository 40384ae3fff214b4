//! What a life does of its partitions now and then, over a broker in memory: what that is the node
//! says, as in a process.

use super::around::Around;
use super::broker::Delivery;
use super::life::{Died, LifeOf};
use super::node::Simulated;
use super::plan::Micros;
use super::scaling::Watch;
use rhumb_stage::Beside;
use rhumb_stage::node::{Brought, Drawn, Tenure};
use rhumb_stage::store::Store as _;

/// Rows of partitions that are others' which one upkeep removes.
const ROWS_AT_ONCE: usize = 3;

/// What a life leaves.
pub(crate) struct Left {
    /// The lease: the revision under which it was taken, and until when it is held.
    pub(crate) held: (u64, Micros),
    pub(crate) brought: Brought,
    pub(crate) beside: Option<Box<dyn Beside>>,
}

impl<C: Simulated> LifeOf<C> {
    /// Tells the core who has the partitions that it has to know of, and the node who has those of
    /// its stage.
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
        let Some(table) = watch.tables.get(&place.stage) else {
            return;
        };
        let has_all = |partition| self.core.has_all(partition);
        for change in self.node.finished(&table.owners, has_all) {
            around.asks_to_make(place, &change);
        }
        let now = self.now(around);
        let looked = self.node.look(now, table, self.core.beside());
        looked.expect("the store is read");
        if self.node.gives_inputs_back() {
            around.tell(|| format!("{place:?} is to have other partitions: {:?}", table.owners));
            self.give_inputs_back(around);
        }
    }

    /// What was delivered and not taken is for others.
    fn give_inputs_back(&mut self, around: &mut Around) {
        let place = self.process.place;
        for edge in place.owned_edges() {
            around.broker.withdraw(edge, place);
        }
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

    /// Returns whether the life is over.
    pub(crate) fn is_over(&mut self, around: &mut Around) -> Result<bool, Died> {
        self.hear(around)?;
        Ok(self.node.is_over(self.now(around), self.core.is_idle()))
    }

    /// The life ends.
    pub(crate) fn end(mut self, around: &mut Around) -> Result<Left, Died> {
        self.node.settlement.upkeep(self.now(around));
        self.carry_out_all(around)?;
        self.node.settlement.give_back();
        self.carry_out_all(around)?;
        Ok(Left {
            held: (self.taken, self.held_until),
            brought: self.node.leave(self.workers.end()),
            beside: self.core.into_beside(),
        })
    }

    /// Something is done of the moves, and some of the rows that are left of partitions that are
    /// others' go.
    pub(crate) fn look_after_partitions(&mut self, around: &mut Around) {
        let Some(store) = &self.store else { return };
        let may_write = around.now < self.held_until;
        if let Some(migration) = self.node.migration() {
            self.workers
                .work(self.process, migration, store, may_write, around);
        }
        let now = self.at(around.now);
        let removed = self.node.remove_left_over(now, ROWS_AT_ONCE);
        if let Some(changes) = removed.expect("a store in memory does not fail") {
            store
                .commit(&changes)
                .expect("a store in memory does not fail");
        }
    }

    /// Positions rise as far as the broker has all acks, as those with many gaps do in a process.
    pub(crate) fn raise_positions(&mut self, around: &Around) {
        let drawn = self.node.tenure().map(Tenure::drawn);
        for partition in drawn.map(Drawn::partitions).unwrap_or_default() {
            for edge in self.process.place.owned_edges() {
                let floor = around.broker.ack_floor(edge, partition);
                self.node.settlement.acked_up_to((edge, partition), floor);
            }
        }
    }
}

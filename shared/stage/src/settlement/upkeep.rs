//! What a settlement does now and then: old inputs are kept alive, and what is over is cleared.
//!
//! Invariant: what is put aside is acked after the commit that holds its position, like any other
//! input.

use super::outbox::Outbox;
use super::{Action, Settlement};
use crate::store::Changes;
use rhumb_url::time::Timestamp;

impl<H: Clone> Settlement<H> {
    /// To be called twice a second while [`needs_upkeep`](Self::needs_upkeep): tells the broker of
    /// inputs that have been in hand for long, so that it does not deliver them again, and removes
    /// from the outbox what streams have.
    pub fn upkeep(&mut self, now: Timestamp) {
        debug_assert!(self.batch.is_empty(), "a batch is under way");
        let positions = &self.positions;
        let old = self
            .tickets
            .extend_old(now, |edge| positions.ack_wait(edge));
        self.actions.extend(old.into_iter().map(Action::Extend));
        if self.may_step(now) {
            self.clear_outbox();
            self.settle_put_aside();
        }
    }

    /// Commits the positions of inputs that lie in the dead letters, and acks them.
    fn settle_put_aside(&mut self) {
        let put_aside = std::mem::take(&mut self.put_aside);
        let mut changes = Changes::default();
        self.positions
            .apply(put_aside.iter().filter_map(|held| held.position));
        self.positions.write(&mut changes);
        if !changes.is_empty() {
            self.actions.push_back(Action::Commit(changes));
        }
        self.actions.extend(
            put_aside
                .into_iter()
                .filter_map(|held| held.answer_to)
                .map(Action::Ack),
        );
    }

    /// Returns whether [`upkeep`](Self::upkeep) may have something to do.
    pub fn needs_upkeep(&self) -> bool {
        !self.tickets.is_empty()
            || !self.put_aside.is_empty()
            || self.outbox.as_ref().is_some_and(Outbox::has_stored)
    }

    fn clear_outbox(&mut self) {
        let mut changes = Changes::default();
        if let Some(outbox) = &mut self.outbox {
            outbox.clear_stored(&mut changes);
            self.stored.keep(&mut changes);
        }
        if !changes.is_empty() {
            self.actions.push_back(Action::Commit(changes));
        }
    }
}

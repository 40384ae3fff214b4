//! The batch of a stage with state: steps that one commit settles.
//!
//! ```text
//!  step ─▶ step ─▶ step ─▶ settle ─▶ commit ─▶ of each step, in order: publish, send, reply, ack
//! ```
//! In: steps. Out: one commit of their changes, outputs and positions, and what follows it. A step
//! reads what those before it changed through the [overlay](crate::store::Overlay). An input that
//! comes alone is a batch of its own, and waits for no other: who takes inputs asks whether there
//! is [room](Settlement::has_room), and settles when nothing is there.
//!
//! Invariants: nothing of a batch is acked, published or answered before its commit. A batch that
//! is not committed never was: all its inputs come again.

use super::outbox::Key;
use super::{Action, LeaseOver, Outgoing, Settlement, Waits, subject};
use crate::core::{Publish, Step};
use crate::store::Changes;
use rhumb_url::time::Timestamp;
use std::time::Duration;

/// Steps of one batch. A commit costs about as much as a few steps: its share of a step is small by
/// then, and few inputs come again when a process dies.
const STEPS_MAX: usize = 64;
/// After this time a batch takes no more: what its first step made waits no longer, and the process
/// hears of everything else.
const TIME_MAX: Duration = Duration::from_millis(5);
/// With so many bytes of changes and outputs it takes no more: they are in memory until the commit.
/// One step may bring more.
const BYTES_MAX: usize = 1 << 20;

/// Steps that are not settled yet.
pub(super) struct Batch<H> {
    /// When the first of them ended.
    since: Timestamp,
    /// Without their changes.
    steps: Vec<Step>,
    publishes: usize,
    bytes: usize,
    /// Where the acks of inputs go that came again meanwhile. The commit may be the one that
    /// applies them.
    repeats: Vec<H>,
}

impl<H> Default for Batch<H> {
    fn default() -> Self {
        Batch {
            since: Timestamp::ZERO,
            steps: Vec::new(),
            publishes: 0,
            bytes: 0,
            repeats: Vec::new(),
        }
    }
}

impl<H> Batch<H> {
    /// Returns whether no step waits for a commit.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Messages for streams that follow its commit.
    pub(super) fn publishes(&self) -> usize {
        self.publishes
    }

    fn add(&mut self, now: Timestamp, step: Step, bytes_changed: usize) {
        if self.steps.is_empty() {
            self.since = now;
        }
        let payloads = step.publishes.iter().map(|publish| publish.payload.len());
        self.bytes += bytes_changed + payloads.sum::<usize>();
        self.publishes += step.publishes.len();
        self.steps.push(step);
    }

    /// Returns whether it is begun, and neither full nor old.
    fn has_room(&self, now: Timestamp) -> bool {
        let begun = !self.steps.is_empty();
        begun
            && self.steps.len() < STEPS_MAX
            && self.bytes < BYTES_MAX
            && now.since(self.since) < TIME_MAX
    }
}

/// What follows a commit.
pub(super) struct AfterCommit<H> {
    steps: Vec<Written>,
    repeats: Vec<H>,
}

/// A step whose outputs have rows in the outbox.
struct Written {
    outputs: Vec<(Key, Outgoing)>,
    rest: Step,
}

impl<H: Clone> Settlement<H> {
    /// A step of the core ended. Without state its outputs are published at once. With state it is
    /// of the batch under way, which is to be [settled](Self::settle).
    pub fn stepped(&mut self, now: Timestamp, mut step: Step) {
        debug_assert!(
            self.after_commit.is_none(),
            "a step while a commit is under way"
        );
        let commits = self
            .actions
            .iter()
            .any(|action| matches!(action, Action::Commit(_)));
        debug_assert!(
            !commits,
            "a step while a commit is asked for: its end would be taken for that of another"
        );
        if self.outbox.is_none() {
            self.publish_made(now, std::mem::take(&mut step.publishes), step.more_soon);
            self.carry_on(now, step);
            return;
        }
        let tickets = &self.tickets;
        let finished = step.finished.iter();
        self.positions
            .apply(finished.filter_map(|&ticket| tickets.position(ticket)));
        let changes = std::mem::take(&mut step.changes);
        self.batch.add(now, step, bytes_of(&changes));
        self.uncommitted.add(changes);
    }

    /// Returns whether another step may be of the batch under way: one is begun, it is neither full
    /// nor old, and the lease is held. Never without state.
    pub fn has_room(&self, now: Timestamp) -> bool {
        self.batch.has_room(now) && self.may_step(now) && !self.is_choked()
    }

    /// Settles the batch under way: the changes of its steps are committed, together with their
    /// outputs and with the positions of the inputs that they finished. Does nothing without state,
    /// or when no step waits.
    ///
    /// # Errors
    /// The batch changes state and the lease is over: nothing of it may take effect.
    pub fn settle(&mut self, now: Timestamp) -> Result<(), LeaseOver> {
        let Some(outbox) = &mut self.outbox else {
            return Ok(());
        };
        let Batch { steps, repeats, .. } = std::mem::take(&mut self.batch);
        let mut changes = self.uncommitted.take();
        let mut settled = Vec::with_capacity(steps.len());
        for mut rest in steps {
            let begun = self.tickets.begun(&rest.finished);
            let mut outputs = Vec::with_capacity(rest.publishes.len());
            for Publish {
                edge,
                token,
                payload,
                ..
            } in rest.publishes.drain(..)
            {
                let subject = subject(&self.subjects, self.takers, edge, &token);
                let (row, message) = outbox.add(&mut changes, subject, payload);
                outputs.push((row, message.begun(begun)));
            }
            settled.push(Written { outputs, rest });
        }
        self.positions.write(&mut changes);
        let after = AfterCommit {
            steps: settled,
            repeats,
        };
        if changes.is_empty() {
            self.follow(now, after);
            return Ok(());
        }
        if !self.lease.is_held(now) {
            return Err(LeaseOver);
        }
        outbox.clear_stored(&mut changes);
        self.stored.keep(&mut changes);
        self.after_commit = Some(after);
        self.actions.push_back(Action::Commit(changes));
        Ok(())
    }

    /// The changes of the last [`Action::Commit`] are committed: publishes, sends, replies and acks
    /// what waited for that.
    pub fn committed(&mut self, now: Timestamp) {
        if let Some(after) = self.after_commit.take() {
            self.commits += 1;
            self.follow(now, after);
        }
    }

    fn follow(&mut self, now: Timestamp, AfterCommit { steps, repeats }: AfterCommit<H>) {
        for Written { outputs, rest } in steps {
            for (row, message) in outputs {
                self.published += 1;
                self.publish(
                    now,
                    message,
                    Waits {
                        row: Some(row),
                        ..Waits::default()
                    },
                );
            }
            self.carry_on(now, rest);
        }
        self.actions.extend(repeats.into_iter().map(Action::Ack));
    }

    /// Acks an input that was applied before, perhaps by a step of the batch under way.
    pub(super) fn ack_repeat(&mut self, answer_to: H) {
        if self.batch.is_empty() {
            self.actions.push_back(Action::Ack(answer_to));
        } else {
            self.batch.repeats.push(answer_to);
        }
    }
}

fn bytes_of(changes: &Changes) -> usize {
    let rows = changes.entries.iter();
    rows.map(|(_, key, row)| key.len() + row.as_ref().map_or(0, Vec::len))
        .sum()
}

//! How a life takes what has come: in batches of any size, as far as the stage batches.
//!
//! In: what waits. Out: steps, settled together. While a process with state works on a batch,
//! others come; it may die before it has committed one, or after that, in the middle of what
//! follows.

use super::agenda::EffectId;
use super::around::{Around, since_1970_ns};
use super::broker::{Delivery, SoftMessage};
use super::life::{AnswerTo, Died, LifeOf, spend};
use super::node::Simulated;
use super::plan::{MILLISECOND, Micros};
use rhumb_stage::settlement::InputAt;
use rhumb_stage::{Event, Output};
use rhumb_wire::message::{Edge, Report, decode, payloads};

/// So long the work on a batch takes at most.
const BATCH_TAKES: Micros = 5 * MILLISECOND;

/// Steps that are not settled yet.
pub(crate) struct Batch<E> {
    /// They bring something about.
    acts: bool,
    steps: usize,
    /// How long they took.
    pub(super) took: Micros,
    /// What the process learns from them.
    reports: Vec<Report>,
    /// The work that they ask for.
    asked: Vec<E>,
}

impl<E> Default for Batch<E> {
    fn default() -> Self {
        Batch {
            acts: false,
            steps: 0,
            took: 0,
            reports: Vec::new(),
            asked: Vec::new(),
        }
    }
}

impl<C: Simulated> LifeOf<C> {
    /// Takes what has come, as far as the process may and wants: in batches of any size.
    pub(crate) fn take_what_waits(&mut self, around: &mut Around) -> Result<(), Died> {
        while self.busy_until <= around.now && self.take_next(around)? {
            if !self.node.settlement.has_room(self.now(around)) || around.batch_ends() {
                self.settle(around)?;
            }
        }
        self.settle(around)
    }

    /// Takes the next of what has come; false when there is none for now.
    fn take_next(&mut self, around: &mut Around) -> Result<bool, Died> {
        if !self.node.settlement.may_step(self.now(around)) {
            return Ok(false);
        }
        if let Some((number, answer)) = self.answers.pop_front() {
            if let Some(answer) = C::accept(answer).filter(|_| self.effects.remove(&number)) {
                self.settle(around)?;
                self.step(Event::Answer(answer), around)?;
            }
        } else if let Some(message) = self.requests.pop_front() {
            self.receive_soft(message, around)?;
        } else if self.node.takes_input(self.now(around))
            && self.core.wants_input()
            && let Some(delivery) = self.messages.pop_front()
        {
            self.receive(delivery, around)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn receive(&mut self, delivery: Delivery, around: &mut Around) -> Result<(), Died> {
        let Delivery {
            edge,
            consumer,
            partition,
            sequence,
            at,
            payload,
        } = delivery;
        let answer_to = AnswerTo::Consumer {
            edge,
            consumer,
            sequence,
        };
        let payloads =
            payloads(edge, payload).unwrap_or_else(|error| panic!("{edge:?} {sequence}: {error}"));
        let at = (
            InputAt {
                edge,
                partition,
                sequence,
            },
            since_1970_ns(at),
        );
        let given =
            self.node
                .settlement
                .message(self.now(around), at.0, at.1, payloads.len(), answer_to);
        let Some(tickets) = self.unless_rewound(given, around)? else {
            return self.carry_out_all(around);
        };
        for (ticket, payload) in tickets.into_iter().zip(payloads) {
            let input = C::decode(edge, &payload)
                .unwrap_or_else(|error| panic!("{edge:?} {sequence}: {error}"));
            if edge == Edge::FetchReports {
                self.batch.reports.extend(decode(&payload));
            }
            self.join(Event::Message { ticket, input }, around)?;
        }
        Ok(())
    }

    fn receive_soft(&mut self, message: SoftMessage, around: &mut Around) -> Result<(), Died> {
        let input = C::decode(message.edge, &message.payload)
            .unwrap_or_else(|error| panic!("{:?}: {error}", message.edge));
        let ticket = self
            .node
            .settlement
            .request(message.reply.map(AnswerTo::Asker), self.now(around));
        self.join(Event::Message { ticket, input }, around)
    }

    /// Steps the core by itself and carries out what it says, unless the process dies half-way.
    pub(crate) fn step(
        &mut self,
        event: Event<C::Input, C::Answer>,
        around: &mut Around,
    ) -> Result<(), Died> {
        self.stepped(event, around);
        self.settle(around)
    }

    /// Steps the core; the step is of the batch under way when there is one.
    fn join(&mut self, event: Event<C::Input, C::Answer>, around: &mut Around) -> Result<(), Died> {
        self.stepped(event, around);
        if self.node.settlement.has_room(self.now(around)) {
            Ok(())
        } else {
            self.settle(around)
        }
    }

    fn stepped(&mut self, event: Event<C::Input, C::Answer>, around: &mut Around) {
        let mut out = Output::default();
        let clock = self.node.settlement.clock(self.now(around));
        let stepped = self.core.step(clock, event, &mut out);
        stepped.expect("a store in memory does not fail");
        self.check_outputs(&out);
        self.batch.acts |= out.publishes.len() + out.sends.len() + out.effects.len() > 0
            || !out.finished.is_empty();
        self.batch.steps += 1;
        let (step, effects) = out.split();
        self.batch.asked.extend(effects);
        // A step that took long may end after the lease.
        self.batch.took += around.step_takes();
        self.node.settlement.stepped(self.now(around), step);
    }

    /// Settles the batch and carries out what follows, unless the process dies half-way.
    fn settle(&mut self, around: &mut Around) -> Result<(), Died> {
        let ended = self.now(around);
        let Batch {
            acts,
            steps,
            reports,
            asked,
            ..
        } = std::mem::take(&mut self.batch);
        let place = self.process.place;
        if self.store.is_some() && acts && around.dies_in_batch(place, steps) {
            return Err(Died);
        }
        let mut left = around.dies_in_step(place, acts).unwrap_or(usize::MAX);
        around.batches += u64::from(steps > 1);
        self.node.settlement.settle(ended).map_err(|_| Died)?;
        for report in reports {
            around.checks.learns(around.now, &report);
        }
        if self.store.is_some() && acts {
            self.busy_until = around.now + around.batch_dice.within(0..BATCH_TAKES);
        }
        self.carry_out(&mut left, around)?;
        for effect in asked {
            spend(&mut left)?;
            self.next_effect += 1;
            self.effects.insert(self.next_effect);
            C::perform(
                effect,
                EffectId {
                    process: self.process,
                    number: self.next_effect,
                },
                around,
            );
        }
        if left == usize::MAX {
            Ok(())
        } else {
            Err(Died)
        }
    }
}

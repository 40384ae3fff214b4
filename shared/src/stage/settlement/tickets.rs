//! Inputs in hand, and what still keeps each of them there.

use super::positions::InputAt;
use crate::message::Edge;
use crate::stage::core::Ticket;
use crate::time::Timestamp;
use std::collections::HashMap;
use std::time::Duration;

/// An input that has been received and not yet settled.
pub(super) struct Held<H> {
    /// Where an ack (input of a stream) or a reply (request) goes.
    pub(super) answer_to: Option<H>,
    /// Where it was in its stream: such an input must be acked, and kept alive while it is in hand.
    pub(super) position: Option<InputAt>,
    /// When its stream stored it, in nanoseconds since 1970; 0 of a request.
    pub(super) stamp: i64,
    /// Outputs not yet stored, and one until the core has finished with it.
    references: u32,
    /// When the broker was last told that it is in hand, or delivered it.
    kept_alive: Timestamp,
}

/// The inputs in hand.
pub(super) struct Tickets<H> {
    held: HashMap<Ticket, Held<H>>,
    next: u64,
}

impl<H> Default for Tickets<H> {
    fn default() -> Self {
        Tickets { held: HashMap::new(), next: 0 }
    }
}

impl<H: Clone> Tickets<H> {
    /// An input from a stream: to be acked.
    pub(super) fn take(&mut self, answer_to: H, position: InputAt, stamp: i64, now: Timestamp) -> Ticket {
        self.insert(Some(answer_to), Some(position), stamp, now)
    }

    /// A core NATS message.
    pub(super) fn take_soft(&mut self, reply_to: Option<H>, now: Timestamp) -> Ticket {
        self.insert(reply_to, None, 0, now)
    }

    fn insert(&mut self, answer_to: Option<H>, position: Option<InputAt>, stamp: i64, now: Timestamp) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.held.insert(ticket, Held { answer_to, position, stamp, references: 1, kept_alive: now });
        ticket
    }

    /// One more output keeps the input in hand.
    pub(super) fn reference(&mut self, ticket: Ticket) {
        if let Some(held) = self.held.get_mut(&ticket) {
            held.references += 1;
        }
    }

    /// Drops a reference; returns the input itself when it was the last.
    pub(super) fn release(&mut self, ticket: Ticket) -> Option<Held<H>> {
        let held = self.held.get_mut(&ticket)?;
        held.references -= 1;
        if held.references == 0 { self.held.remove(&ticket) } else { None }
    }

    /// Where an answer to an input goes.
    pub(super) fn answer_to(&self, ticket: Ticket) -> Option<H> {
        self.held.get(&ticket)?.answer_to.clone()
    }

    /// Where an input was in its stream.
    pub(super) fn position(&self, ticket: Ticket) -> Option<InputAt> {
        self.held.get(&ticket)?.position
    }

    /// The stream of an edge is another one: inputs from the earlier one have no place in it, and acks for them would be
    /// taken for those of other messages.
    pub(super) fn forget_stream(&mut self, edge: Edge) {
        for held in self.held.values_mut().filter(|held| held.position.is_some_and(|at| at.edge == edge)) {
            held.position = None;
            held.answer_to = None;
        }
    }

    /// Where acks of the inputs of streams go, in the order in which the inputs came.
    pub(super) fn of_streams(&self) -> Vec<H> {
        let of_streams = self.held.iter().filter(|(_, held)| held.position.is_some());
        let mut found: Vec<_> =
            of_streams.filter_map(|(ticket, held)| Some((*ticket, held.answer_to.clone()?))).collect();
        found.sort_unstable_by_key(|(ticket, _)| *ticket);
        found.into_iter().map(|(_, answer_to)| answer_to).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The inputs that have been in hand for a third of their edge's `ack_wait` since the broker last heard of them, in
    /// the order in which they came.
    pub(super) fn extend_old(&mut self, now: Timestamp, ack_wait: impl Fn(Edge) -> Duration) -> Vec<H> {
        let mut old = Vec::new();
        for (&ticket, held) in &mut self.held {
            let Some(InputAt { edge, .. }) = held.position else { continue };
            if now.since(held.kept_alive) > ack_wait(edge) / 3 {
                held.kept_alive = now;
                old.extend(held.answer_to.clone().map(|answer_to| (ticket, answer_to)));
            }
        }
        old.sort_unstable_by_key(|(ticket, _)| *ticket);
        old.into_iter().map(|(_, answer_to)| answer_to).collect()
    }
}

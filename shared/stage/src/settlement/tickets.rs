//! Inputs in hand, and what still keeps each of them there.
//!
//! An input is a message of a stream or a request. A frame of several payloads is one input: each
//! payload has a ticket of its own, and the input is settled when nothing keeps any of them.

use super::frames::Gathered;
use super::latencies::Stamps;
use super::positions::InputAt;
use crate::Ticket;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Edge;
use std::collections::BTreeMap;
use std::time::Duration;

/// An input that has been received and not yet settled.
pub(super) struct Held<H> {
    /// Where an ack (input of a stream) or a reply (request) goes.
    pub(super) answer_to: Option<H>,
    /// Where it was in its stream: such an input must be acked, and kept alive while it is in hand.
    pub(super) position: Option<InputAt>,
    /// When its stream stored it, and when its way began; of a request nobody asks.
    pub(super) stamps: Stamps,
    /// Its payloads: their tickets follow each other.
    payloads: u64,
    /// Payloads from which more may be made.
    unfinished: u64,
    /// What was made from them, and waits for the rest.
    gathered: Vec<Gathered>,
    /// Outputs not yet stored, and one for each payload that the core has not finished with.
    references: u64,
    /// When the broker was last told that it is in hand, or delivered it.
    kept_alive: Timestamp,
}

/// The inputs in hand.
pub(super) struct Tickets<H> {
    /// By the ticket of the first payload.
    held: BTreeMap<Ticket, Held<H>>,
    next: u64,
    gathered_bytes: usize,
}

impl<H> Default for Tickets<H> {
    fn default() -> Self {
        Tickets {
            held: BTreeMap::new(),
            next: 1,
            gathered_bytes: 0,
        }
    }
}

impl<H: Clone> Tickets<H> {
    /// An input of so many payloads from a stream: to be acked. Returns the ticket of the first
    /// payload.
    pub(super) fn take(
        &mut self,
        answer_to: H,
        position: InputAt,
        stamps: Stamps,
        payloads: usize,
        now: Timestamp,
    ) -> Ticket {
        self.insert(
            Some(answer_to),
            Some(position),
            stamps,
            payloads as u64,
            now,
        )
    }

    /// A core NATS message.
    pub(super) fn take_soft(&mut self, reply_to: Option<H>, now: Timestamp) -> Ticket {
        self.insert(reply_to, None, 0.into(), 1, now)
    }

    fn insert(
        &mut self,
        answer_to: Option<H>,
        position: Option<InputAt>,
        stamps: Stamps,
        payloads: u64,
        now: Timestamp,
    ) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += payloads;
        let unfinished = payloads;
        let references = payloads;
        let gathered = Vec::new();
        let held = Held {
            answer_to,
            position,
            stamps,
            payloads,
            unfinished,
            gathered,
            references,
            kept_alive: now,
        };
        self.held.insert(ticket, held);
        ticket
    }

    /// The input that a payload belongs to, under the ticket of its first one.
    fn of(&self, ticket: Ticket) -> Option<(Ticket, &Held<H>)> {
        let (&first, held) = self.held.range(..=ticket).next_back()?;
        (ticket.0 - first.0 < held.payloads).then_some((first, held))
    }

    fn of_mut(&mut self, ticket: Ticket) -> Option<&mut Held<H>> {
        let (first, held) = self.held.range_mut(..=ticket).next_back()?;
        (ticket.0 - first.0 < held.payloads).then_some(held)
    }

    /// One more output keeps the input in hand.
    pub(super) fn reference(&mut self, ticket: Ticket) {
        if let Some(held) = self.of_mut(ticket) {
            held.references += 1;
        }
    }

    /// What was made from a payload waits for what is made from the others of its input.
    pub(super) fn gather(&mut self, ticket: Ticket, made: Gathered) {
        let bytes = made.bytes();
        if let Some(held) = self.of_mut(ticket) {
            held.gathered.push(made);
            self.gathered_bytes += bytes;
        }
    }

    /// Nothing more is made from a payload. Returns what was made from all of its input when it was
    /// the last one.
    pub(super) fn finish(&mut self, ticket: Ticket) -> Vec<Gathered> {
        let Some(held) = self.of_mut(ticket) else {
            return Vec::new();
        };
        held.unfinished = held.unfinished.saturating_sub(1);
        let made = if held.unfinished == 0 {
            std::mem::take(&mut held.gathered)
        } else {
            Vec::new()
        };
        self.gathered_bytes -= made.iter().map(Gathered::bytes).sum::<usize>();
        made
    }

    /// Bytes of what was made, and waits for what is made from the other payloads of its input.
    pub(super) fn gathered_bytes(&self) -> usize {
        self.gathered_bytes
    }

    /// Drops a reference; returns the input itself when it was the last.
    pub(super) fn release(&mut self, ticket: Ticket) -> Option<Held<H>> {
        let held = self.of_mut(ticket)?;
        held.references -= 1;
        let is_last = held.references == 0;
        let (first, _) = self.of(ticket).filter(|_| is_last)?;
        self.held.remove(&first)
    }

    /// Where an answer to an input goes.
    pub(super) fn answer_to(&self, ticket: Ticket) -> Option<H> {
        self.of(ticket)?.1.answer_to.clone()
    }

    /// Where an input was in its stream.
    pub(super) fn position(&self, ticket: Ticket) -> Option<InputAt> {
        self.of(ticket)?.1.position
    }

    /// When the way of the first of some inputs of streams began, in nanoseconds since 1970.
    pub(super) fn begun<'a>(&self, tickets: impl IntoIterator<Item = &'a Ticket>) -> Option<i64> {
        let inputs = tickets
            .into_iter()
            .filter_map(|&ticket| Some(self.of(ticket)?.1));
        inputs
            .filter(|held| held.position.is_some())
            .map(|held| held.stamps.begun)
            .min()
    }

    /// The stream of an edge is another one: inputs from the earlier one have no place in it, and
    /// acks for them would be taken for those of other messages.
    pub(super) fn forget_stream(&mut self, edge: Edge) {
        for held in self
            .held
            .values_mut()
            .filter(|held| held.position.is_some_and(|at| at.edge == edge))
        {
            held.position = None;
            held.answer_to = None;
        }
    }

    /// Where acks of the inputs of streams go, in the order in which the inputs came.
    pub(super) fn of_streams(&self) -> Vec<H> {
        let of_streams = self.held.iter().filter(|(_, held)| held.position.is_some());
        of_streams
            .filter_map(|(_, held)| held.answer_to.clone())
            .collect()
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The inputs that have been in hand for a third of their edge's `ack_wait` since the broker
    /// last heard of them, in the order in which they came.
    pub(super) fn extend_old(
        &mut self,
        now: Timestamp,
        ack_wait: impl Fn(Edge) -> Duration,
    ) -> Vec<H> {
        let mut old = Vec::new();
        for held in self.held.values_mut() {
            let Some(InputAt { edge, .. }) = held.position else {
                continue;
            };
            if now.since(held.kept_alive) > ack_wait(edge) / 3 {
                held.kept_alive = now;
                old.extend(held.answer_to.clone());
            }
        }
        old
    }
}

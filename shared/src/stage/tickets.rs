//! Inputs in hand, and when each may be acked.

use super::Ticket;
use crate::bus::Bus;
use crate::message::Edge;
use async_nats::Subject;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// An input that has been received and not yet settled.
pub(super) struct Held {
    /// Where an ack (stream input) or a reply (request) goes.
    pub(super) reply: Option<Subject>,
    /// Where it was in its stream: such an input must be acked, and kept alive while it is in hand.
    pub(super) position: Option<(Edge, u64)>,
    /// Outputs not yet stored, and one until the core has finished with it.
    references: u32,
    kept_alive: Instant,
    ack_wait: Duration,
}

/// The inputs in hand.
#[derive(Default)]
pub(super) struct Tickets {
    held: HashMap<Ticket, Held>,
    next: u64,
}

impl Tickets {
    /// An input from a stream: to be acked.
    pub(super) fn take(&mut self, reply: Option<Subject>, position: (Edge, u64), ack_wait: Duration) -> Ticket {
        self.insert(reply, Some(position), ack_wait)
    }

    /// A core NATS message.
    pub(super) fn take_soft(&mut self, reply: Option<Subject>) -> Ticket {
        self.insert(reply, None, Duration::MAX)
    }

    fn insert(&mut self, reply: Option<Subject>, position: Option<(Edge, u64)>, ack_wait: Duration) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        let held = Held { reply, position, references: 1, kept_alive: Instant::now(), ack_wait };
        self.held.insert(ticket, held);
        ticket
    }

    pub(super) fn reference(&mut self, ticket: Ticket) {
        if let Some(held) = self.held.get_mut(&ticket) {
            held.references += 1;
        }
    }

    /// Drops a reference; the input itself when it was the last.
    pub(super) fn release(&mut self, ticket: Ticket) -> Option<Held> {
        let held = self.held.get_mut(&ticket)?;
        held.references -= 1;
        if held.references == 0 { self.held.remove(&ticket) } else { None }
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&Held> {
        self.held.get(&ticket)
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Tells the broker of inputs that have been in hand for long, so that it does not deliver them again.
    pub(super) async fn keep_alive(&mut self, bus: &Bus) {
        for held in self.held.values_mut() {
            if held.position.is_some() && held.kept_alive.elapsed() > held.ack_wait / 3 {
                held.kept_alive = Instant::now();
                if let Some(reply) = &held.reply {
                    let _ = bus.client.publish(reply.clone(), "+WPI".into()).await;
                }
            }
        }
    }
}

//! What documents say of themselves, on its way to those who keep it: several pages' in one message, so that the broker
//! stores a small part of a message for each.
//!
//! In: an entry a page, with what acks the page. Out: [`Documents`], when there are enough of them or the first has
//! waited long enough. Invariant: a page is finished when its entry is in a message that it is a cause of, not before.

use shared::message::{Document, Documents};
use shared::stage::{Output, Ticket, Token};
use shared::time::Timestamp;
use std::time::Duration;

/// Entries of one message.
pub const ENTRIES_MAX: usize = 64;
/// A page waits so long for others.
pub const GATHER_FOR: Duration = Duration::from_millis(100);

/// Entries that wait for others.
#[derive(Debug)]
pub(crate) struct Gathered {
    entries: Vec<Document>,
    tickets: Vec<Ticket>,
    entries_max: usize,
    publish_at: Option<Timestamp>,
    /// The process is to end: nothing waits.
    is_draining: bool,
}

impl Gathered {
    /// Creates a batch for a stage with `pages_in_hand` pages in hand: they must not all wait for one more.
    pub(crate) fn new(pages_in_hand: usize) -> Self {
        let entries_max = (pages_in_hand / 2).clamp(1, ENTRIES_MAX);
        Gathered { entries: Vec::new(), tickets: Vec::new(), entries_max, publish_at: None, is_draining: false }
    }

    /// The last entry of a page.
    pub(crate) fn add(&mut self, now: Timestamp, entry: Document, ticket: Ticket) {
        self.entries.push(entry);
        self.tickets.push(ticket);
        self.publish_at.get_or_insert(now + GATHER_FOR);
    }

    /// Nothing is waited for any more.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Publishes what has waited long enough.
    pub(crate) fn publish<E>(&mut self, now: Timestamp, out: &mut Output<E>) {
        let is_time = self.publish_at.is_some_and(|at| at <= now);
        if self.entries.is_empty() || !is_time && !self.is_draining && self.entries.len() < self.entries_max {
            return;
        }
        let message = Documents { entries: std::mem::take(&mut self.entries) };
        let tickets = std::mem::take(&mut self.tickets);
        self.publish_at = None;
        out.publish(Token::None, &message, tickets.clone());
        out.finished.extend(tickets);
    }

    /// When there is something to be published, if nothing comes before.
    pub(crate) fn publish_at(&self) -> Option<Timestamp> {
        self.publish_at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

//! Inputs that are held: the URL-seen store has not answered yet for all of their URLs.
//!
//! In: questions under way, each with a token; the tokens of those that were answered. Out: the URL
//! of each answer, and whether its input has no other that waits.

use foldhash::HashMap;
use rhumb_stage::Ticket;
use rhumb_wire::message::{Origin, SplitUrls};
use std::sync::Arc;

/// A URL that waits for the URL-seen store's answer.
pub(crate) struct Waiting {
    /// Slot of its partition, see [`crate::owned`].
    pub(crate) slot: u16,
    pub(crate) fingerprint: u64,
    /// Where it stands in its batch.
    pub(crate) index: usize,
    pub(crate) ticket: Ticket,
    /// Returns whether the answer says what becomes of the URL. Otherwise the question only made it
    /// known.
    pub(crate) decides: bool,
}

struct Held {
    /// URLs that wait.
    waiting: usize,
    batch: Arc<SplitUrls>,
}

/// An answered URL.
pub(crate) struct Answered {
    pub(crate) url: Waiting,
    pub(crate) batch: Arc<SplitUrls>,
    /// No other URL of the input waits.
    pub(crate) is_last: bool,
}

/// All inputs that are held.
#[derive(Default)]
pub(crate) struct HeldInputs {
    /// The URLs that wait, by the token of their question.
    waiting: HashMap<u64, Waiting>,
    inputs: HashMap<Ticket, Held>,
    /// Memory of their batches, in bytes.
    bytes: usize,
    next_token: u64,
}

impl HeldInputs {
    /// The token of the next question.
    pub(crate) fn next_token(&self) -> u64 {
        self.next_token
    }

    /// The URL waits for the answer to the question with the next token.
    pub(crate) fn wait(&mut self, url: Waiting) {
        self.waiting.insert(self.next_token, url);
        self.next_token += 1;
    }

    /// Holds an input. `waiting` of its URLs wait for an answer.
    pub(crate) fn hold(&mut self, ticket: Ticket, batch: SplitUrls, waiting: usize) {
        self.bytes += bytes_of(&batch);
        self.inputs.insert(
            ticket,
            Held {
                waiting,
                batch: Arc::new(batch),
            },
        );
    }

    /// Takes out the URL of an answered question, and its input when that was the last.
    pub(crate) fn answered(&mut self, token: u64) -> Option<Answered> {
        let url = self.waiting.remove(&token);
        debug_assert!(
            url.is_some(),
            "P3: the URL-seen store answers each question once"
        );
        let url = url?;
        let held = self.inputs.get_mut(&url.ticket);
        debug_assert!(
            held.is_some(),
            "P3: an input is held as long as one of its URLs waits"
        );
        let held = held?;
        held.waiting -= 1;
        let batch = Arc::clone(&held.batch);
        let is_last = held.waiting == 0;
        if is_last {
            self.inputs.remove(&url.ticket);
            self.bytes -= bytes_of(&batch);
        }
        Some(Answered {
            url,
            batch,
            is_last,
        })
    }

    /// URLs that wait.
    pub(crate) fn urls(&self) -> usize {
        self.waiting.len()
    }

    /// Memory of the batches, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
impl HeldInputs {
    /// Memory of the batches, counted anew.
    pub(crate) fn bytes_counted(&self) -> usize {
        self.inputs.values().map(|held| bytes_of(&held.batch)).sum()
    }
}

/// Memory of a batch, in bytes.
fn bytes_of(batch: &SplitUrls) -> usize {
    let origins = batch
        .origins
        .iter()
        .map(|origin| size_of::<Origin>() + origin.page.len() + origin.topic.len());
    batch.urls.bytes() + batch.urls.len() * 8 + origins.sum::<usize>()
}

//! Messages on their way into streams: at least once, pipelined, never awaited one by one.
//!
//! In: messages with an id, and what streams say of them. Out: which messages are due to be published again. A message
//! whose PubAck does not come within [`ACK_TIMEOUT`], or that its stream refused, is published again under the same id,
//! so that the broker drops the copy when the first one did arrive. After a reconnect all of them are: PubAcks in flight
//! when a connection breaks never come.
//!
//! A stream that is full is back-pressure, not a failure: its consumers are slower than its publishers. A stream that
//! does not answer, or cannot store, has failed.

use crate::time::Timestamp;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a PubAck may take.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);
/// First wait after a stream refused a message; doubles up to [`REFUSED_WAIT_MAX`].
const REFUSED_WAIT: Duration = Duration::from_millis(5);
/// Longest wait after a refusal, and wait for a connection that is gone.
const REFUSED_WAIT_MAX: Duration = Duration::from_millis(100);

/// A message for a stream.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Full subject.
    pub subject: String,
    /// `Nats-Msg-Id`.
    pub id: String,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// The payload.
    pub payload: Bytes,
}

/// Why a stream did not store a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is full: its consumers are slower than its publishers.
    Full,
    /// Anything else, such as a disk without room, in the broker's words.
    Failed(String),
}

struct Waiting<W> {
    message: Outgoing,
    waits: W,
    /// When its stream last said that it is full, or when the message was first published.
    answered: Timestamp,
    due: Timestamp,
    refusals: u32,
}

/// The messages of one process that are on their way into streams; `W` is what waits for each.
pub struct Unstored<W> {
    /// By token: the oldest first.
    waiting: BTreeMap<u64, Waiting<W>>,
    /// Next look at each waiting message, by its token.
    due: BTreeSet<(Timestamp, u64)>,
    /// The messages whose streams are full.
    full: BTreeSet<u64>,
    next: u64,
    is_disconnected: bool,
    /// Why a stream could not store a message, since the last time that nothing was on its way or the connection came
    /// back.
    failure: Option<String>,
}

impl<W> Default for Unstored<W> {
    fn default() -> Self {
        let (waiting, due, full) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Unstored { waiting, due, full, next: 0, is_disconnected: false, failure: None }
    }
}

impl<W> Unstored<W> {
    /// A message is being published. Returns the token under which its stream's answer is awaited.
    pub fn insert(&mut self, now: Timestamp, message: Outgoing, waits: W) -> u64 {
        let token = self.next;
        self.next += 1;
        let due = now + ACK_TIMEOUT;
        self.waiting.insert(token, Waiting { message, waits, answered: now, due, refusals: 0 });
        self.due.insert((due, token));
        token
    }

    /// The message with this token, unless its stream has it.
    pub fn message(&self, token: u64) -> Option<&Outgoing> {
        self.waiting.get(&token).map(|waiting| &waiting.message)
    }

    /// A stream has a message. Returns what waited for that; none when it was known.
    pub fn stored(&mut self, token: u64) -> Option<W> {
        let waiting = self.waiting.remove(&token)?;
        self.due.remove(&(waiting.due, token));
        self.full.remove(&token);
        if self.waiting.is_empty() {
            self.failure = None;
        }
        Some(waiting.waits)
    }

    /// A stream refused a message: it is due again after a wait that doubles with every refusal.
    pub fn refused(&mut self, now: Timestamp, token: u64, why: Refused) {
        let Some(waiting) = self.waiting.get_mut(&token) else { return };
        waiting.refusals += 1;
        let wait = REFUSED_WAIT.saturating_mul(1 << waiting.refusals.min(8)).min(REFUSED_WAIT_MAX);
        match why {
            Refused::Full => {
                waiting.answered = now;
                self.full.insert(token);
            }
            Refused::Failed(reason) => {
                if self.failure.is_none() {
                    tracing::debug!(subject = waiting.message.subject, reason, "a stream cannot store; trying on");
                }
                self.full.remove(&token);
                self.failure = Some(reason);
            }
        }
        self.postpone(token, now + wait);
    }

    /// The connection is gone: nothing can be published before it stands again.
    pub fn disconnected(&mut self) {
        self.is_disconnected = true;
    }

    /// The connection stands again. Returns the tokens of all messages, in the order of their first publication.
    pub fn reconnected(&mut self, now: Timestamp) -> Vec<u64> {
        self.is_disconnected = false;
        self.failure = None;
        let again: Vec<u64> = self.waiting.keys().copied().collect();
        for &token in &again {
            self.postpone(token, now + ACK_TIMEOUT);
        }
        again
    }

    /// When [`overdue`](Self::overdue) has something to do, if ever.
    pub fn due_at(&self) -> Option<Timestamp> {
        self.due.first().map(|&(due, _)| due)
    }

    /// The tokens of messages that are to be published again now.
    pub fn overdue(&mut self, now: Timestamp) -> Vec<u64> {
        let overdue: Vec<u64> = self.due.range(..=(now, u64::MAX)).map(|&(_, token)| token).collect();
        let wait = if self.is_disconnected { REFUSED_WAIT_MAX } else { ACK_TIMEOUT };
        for &token in &overdue {
            self.postpone(token, now + wait);
        }
        if self.is_disconnected { Vec::new() } else { overdue }
    }

    fn postpone(&mut self, token: u64, due: Timestamp) {
        if let Some(waiting) = self.waiting.get_mut(&token) {
            self.due.remove(&(waiting.due, token));
            waiting.due = due;
            self.due.insert((due, token));
        }
    }

    /// Messages on their way.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Says whether no message is on its way.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The oldest message on its way.
    pub fn oldest(&self) -> Option<&Outgoing> {
        self.waiting.values().next().map(|waiting| &waiting.message)
    }

    /// The oldest message whose stream is full.
    pub fn oldest_refused(&self) -> Option<&Outgoing> {
        self.message(*self.full.first()?)
    }

    /// Why a stream could not store a message last, while anything is on its way since.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// For how long a stream has neither stored a message nor said that it is full: of all messages, the longest time.
    pub fn unanswered(&self, now: Timestamp) -> Duration {
        self.waiting.values().map(|waiting| now.since(waiting.answered)).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str) -> Outgoing {
        Outgoing { subject: "a.b".into(), id: id.into(), headers: Vec::new(), payload: Bytes::new() }
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(millis * 1000)
    }

    #[test]
    fn what_no_stream_answers_is_published_again_until_one_does() {
        let mut unstored = Unstored::default();
        let token = unstored.insert(at(0), message("one"), "waits");
        assert!(unstored.overdue(at(1_999)).is_empty());
        assert_eq!(unstored.overdue(at(2_000)), [token]);
        assert!(unstored.overdue(at(3_999)).is_empty());
        assert_eq!(unstored.overdue(at(4_000)), [token]);
        assert_eq!(unstored.stored(token), Some("waits"));
        assert_eq!((unstored.stored(token), unstored.due_at(), unstored.is_empty()), (None, None, true));
    }

    #[test]
    fn a_refused_message_comes_again_soon_and_then_less_often() {
        let mut unstored = Unstored::default();
        let token = unstored.insert(at(0), message("one"), ());
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..6 {
            unstored.refused(now, token, Refused::Full);
            let due = unstored.due_at().unwrap();
            waits.push(due.since(now).as_millis());
            now = due;
        }
        assert_eq!(waits, [10, 20, 40, 80, 100, 100]);
    }

    #[test]
    fn a_full_stream_is_an_answer_and_a_stream_that_cannot_store_has_failed() {
        let mut unstored = Unstored::default();
        let (full, failed) = (unstored.insert(at(0), message("one"), ()), unstored.insert(at(0), message("two"), ()));
        unstored.refused(at(9_000), full, Refused::Full);
        unstored.refused(at(9_000), failed, Refused::Failed("no space".into()));
        assert_eq!((unstored.unanswered(at(10_000)), unstored.failure()), (Duration::from_secs(10), Some("no space")));
        assert_eq!(unstored.oldest_refused().map(|message| message.id.as_str()), Some("one"));
        unstored.stored(failed);
        assert_eq!(unstored.unanswered(at(10_000)), Duration::from_secs(1));
        unstored.refused(at(10_000), full, Refused::Failed("no space".into()));
        assert!(unstored.oldest_refused().is_none() && unstored.oldest().is_some());
        unstored.stored(full);
        assert_eq!((unstored.unanswered(at(11_000)), unstored.failure()), (Duration::ZERO, None));
    }

    #[test]
    fn without_a_connection_nothing_is_published_and_with_a_new_one_everything() {
        let mut unstored = Unstored::default();
        let tokens = [1, 2, 3].map(|n| unstored.insert(at(n), message(&n.to_string()), ()));
        unstored.disconnected();
        assert!(unstored.overdue(at(5_000)).is_empty());
        assert_eq!(unstored.due_at(), Some(at(5_100)));
        assert_eq!(unstored.reconnected(at(5_050)), tokens);
        assert!(unstored.overdue(at(5_100)).is_empty());
        assert_eq!(unstored.overdue(at(7_050)), tokens);
    }
}

//! Messages on their way into streams: at least once, pipelined, never awaited one by one.
//!
//! In: messages with an id, and what streams say of them. Out: which messages are due to be
//! published again. A message whose PubAck does not come in time ([`Patience`] says how long that
//! is), or that its stream refused, is published again under the same id, so that the broker drops
//! the copy when the first one did arrive. After a reconnect all of them are: PubAcks in flight
//! when a connection breaks never come.
//!
//! A stream that is full is back-pressure, not a failure: its consumers are slower than its
//! publishers. A stream that does not answer, or cannot store, has failed.

use super::latencies::BEGUN;
use super::patience::Patience;
use bytes::Bytes;
use rhumb_url::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// First wait after a stream refused a message; doubles up to [`REFUSED_WAIT_MAX`].
const REFUSED_WAIT: Duration = Duration::from_millis(10);
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

impl Outgoing {
    /// With the header that says when the way of the message began, if anybody knows, in
    /// nanoseconds since 1970.
    pub(super) fn begun(mut self, since_1970_ns: Option<i64>) -> Outgoing {
        self.headers
            .extend(since_1970_ns.map(|begun| (BEGUN, begun.to_string())));
        self
    }
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
    since: Timestamp,
    /// When its stream last said that it is full, or when the message was first published.
    answered: Timestamp,
    due: Timestamp,
    /// It was published once: how long its answer takes is known when that comes.
    once: bool,
    /// The time-out of its answer; none after a refusal, when it waits to be published again.
    timeout: Option<Duration>,
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
    /// Bytes of their payloads.
    bytes: usize,
    patience: Patience,
    is_disconnected: bool,
    /// Why a stream could not store a message, since the last time that nothing was on its way or
    /// the connection came back.
    failure: Option<String>,
}

impl<W> Default for Unstored<W> {
    fn default() -> Self {
        Unstored {
            waiting: BTreeMap::new(),
            due: BTreeSet::new(),
            full: BTreeSet::new(),
            next: 0,
            bytes: 0,
            patience: Patience::default(),
            is_disconnected: false,
            failure: None,
        }
    }
}

impl<W> Unstored<W> {
    /// A message is being published. Returns the token under which its stream's answer is awaited.
    pub fn insert(&mut self, now: Timestamp, message: Outgoing, waits: W) -> u64 {
        let token = self.next;
        self.next += 1;
        self.bytes += message.payload.len();
        let timeout = self.patience.timeout();
        let due = now + timeout;
        let timeout = Some(timeout);
        let once = true;
        let waiting = Waiting {
            message,
            waits,
            since: now,
            answered: now,
            due,
            once,
            timeout,
            refusals: 0,
        };
        self.waiting.insert(token, waiting);
        self.due.insert((due, token));
        token
    }

    /// The message with this token, unless its stream has it.
    pub fn message(&self, token: u64) -> Option<&Outgoing> {
        self.waiting.get(&token).map(|waiting| &waiting.message)
    }

    /// A stream has a message. Returns what waited for that; none when it was known.
    pub fn stored(&mut self, now: Timestamp, token: u64) -> Option<W> {
        let waiting = self.waiting.remove(&token)?;
        self.bytes -= waiting.message.payload.len();
        self.due.remove(&(waiting.due, token));
        self.full.remove(&token);
        if waiting.once {
            self.patience.answered(now.since(waiting.since));
        }
        if self.waiting.is_empty() {
            self.failure = None;
        }
        Some(waiting.waits)
    }

    /// A stream refused a message: it is due again after a wait that doubles with every refusal.
    pub fn refused(&mut self, now: Timestamp, token: u64, why: Refused) {
        let Some(waiting) = self.waiting.get_mut(&token) else {
            return;
        };
        waiting.once = false;
        let wait = REFUSED_WAIT
            .saturating_mul(1 << waiting.refusals.min(8))
            .min(REFUSED_WAIT_MAX);
        waiting.refusals += 1;
        match why {
            Refused::Full => {
                waiting.answered = now;
                self.full.insert(token);
            }
            Refused::Failed(reason) => {
                if self.failure.is_none() {
                    tracing::debug!(
                        subject = waiting.message.subject,
                        reason,
                        "a stream cannot store; trying on"
                    );
                }
                self.full.remove(&token);
                self.failure = Some(reason);
            }
        }
        self.postpone(token, now + wait, None);
    }

    /// The connection is gone: nothing can be published before it stands again.
    pub fn disconnected(&mut self) {
        self.is_disconnected = true;
    }

    /// Returns whether the connection is gone.
    pub fn is_disconnected(&self) -> bool {
        self.is_disconnected
    }

    /// The connection stands again. Returns the tokens of all messages, in the order of their first
    /// publication.
    pub fn reconnected(&mut self, now: Timestamp) -> Vec<u64> {
        self.is_disconnected = false;
        self.failure = None;
        let again: Vec<u64> = self.waiting.keys().copied().collect();
        self.publish_again(now, &again);
        again
    }

    /// When [`overdue`](Self::overdue) has something to do, if ever.
    pub fn due_at(&self) -> Option<Timestamp> {
        self.due.first().map(|&(due, _)| due)
    }

    /// The tokens of messages that are to be published again now.
    pub fn overdue(&mut self, now: Timestamp) -> Vec<u64> {
        let overdue: Vec<u64> = self
            .due
            .range(..=(now, u64::MAX))
            .map(|&(_, token)| token)
            .collect();
        if self.is_disconnected {
            overdue
                .iter()
                .for_each(|&token| self.postpone(token, now + REFUSED_WAIT_MAX, None));
            return Vec::new();
        }
        for timeout in overdue
            .iter()
            .filter_map(|token| self.waiting.get(token)?.timeout)
        {
            self.patience.expired(timeout);
        }
        self.publish_again(now, &overdue);
        overdue
    }

    fn publish_again(&mut self, now: Timestamp, tokens: &[u64]) {
        let timeout = self.patience.timeout();
        for &token in tokens {
            self.postpone(token, now + timeout, Some(timeout));
            if let Some(waiting) = self.waiting.get_mut(&token) {
                waiting.once = false;
            }
        }
    }

    fn postpone(&mut self, token: u64, due: Timestamp, timeout: Option<Duration>) {
        if let Some(waiting) = self.waiting.get_mut(&token) {
            self.due.remove(&(waiting.due, token));
            (waiting.due, waiting.timeout) = (due, timeout);
            self.due.insert((due, token));
        }
    }

    /// Messages on their way.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes of their payloads.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether no message is on its way.
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

    /// For how long a stream has neither stored a message nor said that it is full: of all
    /// messages, the longest time.
    pub fn unanswered(&self, now: Timestamp) -> Duration {
        self.waiting
            .values()
            .map(|waiting| now.since(waiting.answered))
            .max()
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str) -> Outgoing {
        Outgoing {
            subject: "a.b".into(),
            id: id.into(),
            headers: Vec::new(),
            payload: Bytes::new(),
        }
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
        assert!(unstored.overdue(at(5_999)).is_empty());
        assert_eq!(unstored.overdue(at(6_000)), [token]);
        assert_eq!(unstored.stored(at(6_001), token), Some("waits"));
        assert_eq!(
            (
                unstored.stored(at(6_001), token),
                unstored.due_at(),
                unstored.is_empty()
            ),
            (None, None, true)
        );
    }

    /// Goal: a disk on which every answer takes five seconds is not asked everything twice. Method:
    /// ten messages at once, five seconds long, time after time; only the first two times they are
    /// published again.
    #[test]
    fn a_slow_broker_is_sent_little_twice() {
        let mut unstored = Unstored::default();
        let mut again = Vec::new();
        for round in 0..10 {
            let start = round * 5_000;
            let tokens: Vec<u64> = (0..10)
                .map(|n| unstored.insert(at(start), message(&n.to_string()), ()))
                .collect();
            again.push(
                (0..50)
                    .map(|step| unstored.overdue(at(start + 100 * step)).len())
                    .sum::<usize>(),
            );
            tokens
                .iter()
                .for_each(|&token| assert_eq!(unstored.stored(at(start + 5_000), token), Some(())));
        }
        // Then four seconds are awaited, and eight; how long answers take is known from those that
        // were sent once.
        assert_eq!(again, [10, 10, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn the_answer_to_a_message_that_was_sent_twice_tells_nothing_of_the_time_that_answers_take() {
        let mut unstored = Unstored::default();
        let token = unstored.insert(at(0), message("one"), ());
        unstored.refused(at(0), token, Refused::Full);
        assert_eq!(
            unstored.overdue(at(10)),
            [token],
            "after a refusal: no answer was missed"
        );
        unstored.stored(at(60_000), token);
        unstored.insert(at(60_000), message("two"), ());
        assert_eq!(unstored.due_at(), Some(at(62_000)));
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
        let full = unstored.insert(at(0), message("one"), ());
        let failed = unstored.insert(at(0), message("two"), ());
        unstored.refused(at(9_000), full, Refused::Full);
        unstored.refused(at(9_000), failed, Refused::Failed("no space".into()));
        assert_eq!(
            (unstored.unanswered(at(10_000)), unstored.failure()),
            (Duration::from_secs(10), Some("no space"))
        );
        assert_eq!(
            unstored.oldest_refused().map(|message| message.id.as_str()),
            Some("one")
        );
        unstored.stored(at(10_000), failed);
        assert_eq!(unstored.unanswered(at(10_000)), Duration::from_secs(1));
        unstored.refused(at(10_000), full, Refused::Failed("no space".into()));
        assert!(unstored.oldest_refused().is_none() && unstored.oldest().is_some());
        unstored.stored(at(11_000), full);
        assert_eq!(
            (unstored.unanswered(at(11_000)), unstored.failure()),
            (Duration::ZERO, None)
        );
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

//! Publishing to streams: at least once, pipelined, never awaited one by one.
//!
//! In: messages with an id. Out: the token of each message that its stream has stored. A message whose PubAck
//! does not come within [`ACK_TIMEOUT`], or that the stream refused because it is full, is published again
//! under the same id, so that the broker drops the copy when the first one did arrive. After a reconnect all
//! that is outstanding is published again at once: PubAcks in flight when a connection breaks never come.

use super::Bus;
use async_nats::{HeaderMap, Message, Subscriber};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Longest time that a PubAck may take.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);
/// First wait after a stream refused a message; doubles up to [`REFUSED_WAIT_MAX`].
const REFUSED_WAIT: Duration = Duration::from_millis(5);
/// Longest wait after a refusal.
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

struct Waiting {
    message: Outgoing,
    since: Instant,
    due: Instant,
    refusals: u32,
}

/// The messages of one process that are on their way into streams.
pub struct Publisher {
    bus: Bus,
    inbox: String,
    acks: Subscriber,
    waiting: HashMap<u64, Waiting>,
    /// Next look at each waiting message.
    due: BTreeMap<(Instant, u64), ()>,
    next: u64,
    connected: u64,
    /// Why a stream refused a message, since the last time that nothing was on its way or the broker came back.
    refusal: Option<String>,
}

impl Publisher {
    /// A publisher with an inbox of its own.
    pub async fn new(bus: &Bus) -> anyhow::Result<Self> {
        let inbox = bus.client.new_inbox();
        let acks = bus.client.subscribe(format!("{inbox}.*")).await?;
        Ok(Publisher {
            bus: bus.clone(),
            inbox,
            acks,
            waiting: HashMap::new(),
            due: BTreeMap::new(),
            next: 0,
            connected: bus.connected.load(std::sync::atomic::Ordering::Relaxed),
            refusal: None,
        })
    }

    /// Publishes a message; its token comes out of [`acks`](Self::next_ack) when it is stored.
    pub async fn publish(&mut self, message: Outgoing) -> u64 {
        let token = self.next;
        self.next += 1;
        let now = Instant::now();
        let due = now + ACK_TIMEOUT;
        self.send(token, &message).await;
        self.waiting.insert(token, Waiting { message, since: now, due, refusals: 0 });
        self.due.insert((due, token), ());
        token
    }

    async fn send(&self, token: u64, message: &Outgoing) {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", message.id.as_str());
        for (name, value) in &message.headers {
            headers.insert(*name, value.as_str());
        }
        let reply = format!("{}.{token}", self.inbox);
        let sent = self
            .bus
            .client
            .publish_with_reply_and_headers(message.subject.clone(), reply, headers, message.payload.clone())
            .await;
        if let Err(error) = sent {
            // Published again when its PubAck is overdue.
            tracing::debug!(subject = message.subject, %error, "publish failed");
        }
    }

    /// The next reply of a stream; feed it to [`settle`](Self::settle).
    pub async fn next_ack(&mut self) -> Option<Message> {
        futures::StreamExt::next(&mut self.acks).await
    }

    /// Reads a reply: the token and the message that is now stored, if it is.
    pub fn settle(&mut self, reply: &Message) -> Option<(u64, Outgoing)> {
        let token: u64 = reply.subject.rsplit('.').next()?.parse().ok()?;
        let waiting = self.waiting.get_mut(&token)?;
        match refusal(reply) {
            None => {
                let waiting = self.waiting.remove(&token)?;
                self.due.remove(&(waiting.due, token));
                if self.waiting.is_empty() {
                    self.refusal = None;
                }
                Some((token, waiting.message))
            }
            Some(reason) => {
                waiting.refusals += 1;
                let wait = REFUSED_WAIT.saturating_mul(1 << waiting.refusals.min(8)).min(REFUSED_WAIT_MAX);
                let now = Instant::now();
                self.due.remove(&(waiting.due, token));
                waiting.due = now + wait;
                self.due.insert((waiting.due, token), ());
                if self.refusal.is_none() {
                    tracing::debug!(
                        subject = waiting.message.subject,
                        reason,
                        "the stream refused a message; trying on"
                    );
                }
                self.refusal = Some(reason);
                None
            }
        }
    }

    /// When [`republish`](Self::republish) has something to do, if ever.
    pub fn due_at(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((due, _), ())| *due)
    }

    /// Publishes again what is overdue, and after a reconnect all that waits.
    pub async fn republish(&mut self) {
        let connected = self.bus.connected.load(std::sync::atomic::Ordering::Relaxed);
        let now = Instant::now();
        let again: Vec<u64> = if connected != self.connected {
            self.connected = connected;
            self.refusal = None;
            self.waiting.keys().copied().collect()
        } else {
            self.due.range(..=(now, u64::MAX)).map(|((_, token), ())| *token).collect()
        };
        if !self.bus.is_connected() {
            // Nothing goes out before the connection stands again: look again a little later.
            for token in again {
                self.postpone(token, now + REFUSED_WAIT_MAX);
            }
            return;
        }
        for token in again {
            self.postpone(token, now + ACK_TIMEOUT);
            if let Some(waiting) = self.waiting.get(&token) {
                self.send(token, &waiting.message).await;
            }
        }
    }

    fn postpone(&mut self, token: u64, due: Instant) {
        if let Some(waiting) = self.waiting.get_mut(&token) {
            self.due.remove(&(waiting.due, token));
            waiting.due = due;
            self.due.insert((due, token), ());
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

    /// Why a stream refused a message last, while anything is on its way since.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Time that the oldest message has been on its way.
    pub fn oldest(&self) -> Duration {
        self.waiting.values().map(|waiting| waiting.since.elapsed()).max().unwrap_or_default()
    }
}

/// Why a stream did not store a message; none for a PubAck.
fn refusal(reply: &Message) -> Option<String> {
    if let Some(status) = reply.status {
        return Some(format!("status {status}: no stream for this subject"));
    }
    // A PubAck is small and regular: looked at as text first, parsed only when it is an error.
    let text = std::str::from_utf8(&reply.payload).ok()?;
    if !text.contains("\"error\"") {
        return None;
    }
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    value.get("error").map(|error| error["description"].as_str().unwrap_or("unknown error").to_owned())
}

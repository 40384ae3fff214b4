//! The driver of messages on their way into streams: sends them, and reads what streams answer.
//!
//! In: messages under tokens, from a [settlement](crate::stage::settlement) or an [`Unstored`]. Out: streams' answers
//! with the token that each is about.

use super::Bus;
use crate::stage::settlement::{Outgoing, Refused, Unstored};
use crate::time::Timestamp;
use async_nats::{HeaderMap, Message, Subscriber};
use futures::{FutureExt as _, StreamExt as _};
use std::time::{Duration, Instant};

/// How often [`Publisher::store_all`] looks for what has waited too long.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// What nats-server says of a stream that is full. The code of the error does not tell: it is that of a full disk, too.
const FULL: [&str; 2] = ["maximum bytes exceeded", "maximum messages exceeded"];

/// What a stream answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamAnswer {
    /// It has the message with this token.
    Stored(u64),
    /// It refused the message with this token, and why.
    Refused(u64, Refused),
}

/// Where streams answer what a process publishes.
pub struct Publisher {
    bus: Bus,
    inbox: String,
    answers: Subscriber,
}

impl Publisher {
    /// A publisher with an inbox of its own.
    ///
    /// # Errors
    /// The connection to the broker is closed.
    pub async fn new(bus: &Bus) -> anyhow::Result<Self> {
        let inbox = bus.client.new_inbox();
        let answers = bus.client.subscribe(format!("{inbox}.*")).await?;
        Ok(Publisher { bus: bus.clone(), inbox, answers })
    }

    /// Sends a message on its way; its stream's answer names the token.
    pub async fn send(&self, token: u64, message: &Outgoing) {
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

    /// Waits for the next answer.
    pub async fn next(&mut self) -> StreamAnswer {
        loop {
            match self.answers.next().await {
                Some(reply) => {
                    if let Some(answer) = read(&reply) {
                        return answer;
                    }
                }
                // The client is gone for good: its messages stay unstored.
                None => std::future::pending().await,
            }
        }
    }

    /// The next answer, if it is here.
    pub fn next_now(&mut self) -> Option<StreamAnswer> {
        self.next().now_or_never()
    }

    /// Publishes messages and waits until streams have all of them, however often one refuses.
    pub async fn store_all(mut self, messages: impl IntoIterator<Item = Outgoing>) {
        let origin = Instant::now();
        let now = || Timestamp::ZERO + origin.elapsed();
        let mut unstored = Unstored::default();
        for message in messages {
            let token = unstored.insert(now(), message, ());
            self.send_again(&unstored, &[token]).await;
        }
        let mut connections = self.bus.connections();
        while !unstored.is_empty() {
            tokio::select! {
                answer = self.next() => match answer {
                    StreamAnswer::Stored(token) => { unstored.stored(token); }
                    StreamAnswer::Refused(token, why) => unstored.refused(now(), token, why),
                },
                () = tokio::time::sleep(LOOK_AGAIN) => {
                    if connections != self.bus.connections() && self.bus.is_connected() {
                        connections = self.bus.connections();
                        let again = unstored.reconnected(now());
                        self.send_again(&unstored, &again).await;
                    }
                    let again = unstored.overdue(now());
                    self.send_again(&unstored, &again).await;
                }
            }
        }
    }

    async fn send_again(&self, unstored: &Unstored<()>, tokens: &[u64]) {
        for &token in tokens {
            if let Some(message) = unstored.message(token) {
                self.send(token, message).await;
            }
        }
    }
}

fn read(reply: &Message) -> Option<StreamAnswer> {
    let token: u64 = reply.subject.rsplit('.').next()?.parse().ok()?;
    Some(match refusal(reply) {
        None => StreamAnswer::Stored(token),
        Some(reason) if FULL.iter().any(|full| reason.contains(full)) => StreamAnswer::Refused(token, Refused::Full),
        Some(reason) => StreamAnswer::Refused(token, Refused::Failed(reason)),
    })
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

//! The driver of messages on their way into streams: sends them, and reads what streams answer.
//!
//! In: messages under tokens, from a [settlement](rhumb_stage::settlement) or an [`Unstored`]. Out:
//! streams' answers with the token that each is about. Large payloads go into the files of a
//! [spool](super::spool), where there is one; one that is full refuses as a stream does.

use super::Bus;
use super::spool::Writer;
use async_nats::{HeaderMap, Message, Subscriber};
use futures::{FutureExt as _, StreamExt as _};
use rhumb_stage::settlement::{Outgoing, PubAck, Refused, Unstored};
use rhumb_url::time::Timestamp;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often [`Publisher::store_all`] looks for what has waited too long.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// What nats-server says of a stream that is full. The code of the error does not tell: it is that
/// of a full disk, too.
const FULL: [&str; 2] = ["maximum bytes exceeded", "maximum messages exceeded"];

/// What a stream answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamAnswer {
    /// It has the message with this token, and where.
    Stored(u64, PubAck),
    /// It refused the message with this token, and why.
    Refused(u64, Refused),
}

/// Where streams answer what a process publishes.
pub struct Publisher {
    bus: Bus,
    inbox: String,
    answers: Subscriber,
    /// Names of streams that have answered: few, and each is kept once.
    streams: Vec<Arc<str>>,
    spool: Writer,
    /// What the spool had no room for.
    refused: VecDeque<StreamAnswer>,
}

impl Publisher {
    /// A publisher with an inbox of its own.
    ///
    /// # Errors
    /// The connection to the broker is closed.
    pub async fn new(bus: &Bus) -> anyhow::Result<Self> {
        let inbox = bus.client.new_inbox();
        let answers = bus.client.subscribe(format!("{inbox}.*")).await?;
        let streams = Vec::new();
        let spool = Writer::default();
        let refused = VecDeque::new();
        Ok(Publisher {
            bus: bus.clone(),
            inbox,
            answers,
            streams,
            spool,
            refused,
        })
    }

    /// The publisher with files for large payloads.
    pub fn with_spool(self, spool: Writer) -> Self {
        Publisher { spool, ..self }
    }

    /// Sends a message on its way; its stream's answer names the token.
    pub async fn send(&mut self, token: u64, message: &Outgoing) {
        let payload = match self.spool.payload(token, message) {
            Ok(payload) => payload,
            Err(why) => return self.refused.push_back(StreamAnswer::Refused(token, why)),
        };
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", message.id.as_str());
        for (name, value) in &message.headers {
            headers.insert(*name, value.as_str());
        }
        let reply = format!("{}.{token}", self.inbox);
        let sent = self
            .bus
            .client
            .publish_with_reply_and_headers(message.subject.clone(), reply, headers, payload)
            .await;
        if let Err(error) = sent {
            // Published again when its PubAck is overdue.
            tracing::debug!(subject = message.subject, %error, "publish failed");
        }
    }

    /// Waits for the next answer.
    pub async fn next(&mut self) -> StreamAnswer {
        if let Some(refused) = self.refused.pop_front() {
            return refused;
        }
        loop {
            match self.answers.next().await {
                Some(reply) => {
                    let Some(answer) = read(&reply, &mut self.streams) else {
                        continue;
                    };
                    if let StreamAnswer::Stored(token, ack) = &answer {
                        self.spool.stored(*token, ack.sequence);
                    }
                    return answer;
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
                    StreamAnswer::Stored(token, _) => { unstored.stored(now(), token); }
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

    async fn send_again(&mut self, unstored: &Unstored<()>, tokens: &[u64]) {
        for &token in tokens {
            if let Some(message) = unstored.message(token) {
                self.send(token, message).await;
            }
        }
    }
}

/// What a stream answers, in JSON.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    stream: Cow<'a, str>,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    description: String,
}

fn read(reply: &Message, streams: &mut Vec<Arc<str>>) -> Option<StreamAnswer> {
    let token: u64 = reply.subject.rsplit('.').next()?.parse().ok()?;
    Some(match pub_ack(reply, streams) {
        Ok(ack) => StreamAnswer::Stored(token, ack),
        Err(reason) if FULL.iter().any(|full| reason.contains(full)) => {
            StreamAnswer::Refused(token, Refused::Full)
        }
        Err(reason) => StreamAnswer::Refused(token, Refused::Failed(reason)),
    })
}

/// Reads a PubAck.
///
/// # Errors
/// It is none: why the stream did not store the message.
fn pub_ack(reply: &Message, streams: &mut Vec<Arc<str>>) -> Result<PubAck, String> {
    if let Some(status) = reply.status {
        return Err(format!("status {status}: no stream for this subject"));
    }
    match serde_json::from_slice(&reply.payload) {
        Ok(Answer {
            error: Some(Refusal { description }),
            ..
        }) => Err(description),
        Ok(Answer {
            stream,
            seq,
            duplicate,
            error: None,
        }) if !stream.is_empty() => Ok(PubAck {
            stream: known(stream, streams),
            sequence: seq,
            is_repeat: duplicate,
        }),
        _ => Err("an answer that is no PubAck".to_owned()),
    }
}

/// A stream's name, kept once.
fn known(stream: Cow<'_, str>, streams: &mut Vec<Arc<str>>) -> Arc<str> {
    if let Some(known) = streams.iter().find(|known| ***known == *stream) {
        return known.clone();
    }
    let name: Arc<str> = Arc::from(&*stream);
    streams.push(name.clone());
    name
}

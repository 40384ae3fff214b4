//! What comes to a process, on its way to the core: messages of streams, requests, and what streams
//! answer.
//!
//! In: messages. Out: steps of the core, settled one after the other. What cannot be read, or what
//! lives died of, is put aside.
//!
//! Invariant: the settlement knows of an input before the core does.

use super::{InputAt, Loop, Refusal, Signal, SoftMessage, StreamAnswer, StreamMessage};
use crate::in_hand::guarded;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use rhumb_bus::spool::Unread;
use rhumb_stage::Ticket;
use rhumb_stage::settlement::{BEGUN, Stamps};
use rhumb_wire::message::{Edge, payloads};

/// Answers of streams read in one go.
const ANSWERS_AT_ONCE: usize = 256;

impl Loop {
    /// Takes in a message of a stream: each of its payloads is an input of the core.
    pub(super) async fn receive(
        &mut self,
        StreamMessage {
            edge,
            partition,
            message,
        }: StreamMessage,
    ) -> anyhow::Result<()> {
        // Without its place in the stream nobody can tell whether it was applied: it comes again.
        let Ok(info) = message.info() else {
            return Ok(());
        };
        let stamp = i64::try_from(info.published.unix_timestamp_nanos()).unwrap_or(i64::MAX);
        let begun = message
            .headers
            .as_ref()
            .and_then(|headers| headers.get(BEGUN)?.as_str().parse().ok());
        let stamps = Stamps {
            stored: stamp,
            begun: begun.unwrap_or(stamp),
        };
        let at = InputAt {
            edge,
            partition,
            sequence: info.stream_sequence,
        };
        let is_repeat = info.delivered > 1;
        let mut message = message.message;
        let Some(answer_to) = message.reply.clone() else {
            return Ok(());
        };
        let mut payload = std::mem::take(&mut message.payload);
        let payloads = match self.spool.payload(edge, payload.clone()) {
            Ok(read) => {
                payload = read;
                if edge.is_framed() {
                    payloads(edge, payload.clone())
                } else {
                    Ok(vec![payload.clone()])
                }
            }
            Err(Unread::Lost(_)) if self.is_gone(at).await => return Ok(()),
            Err(Unread::Lost(error)) => Err(error),
            Err(Unread::Failed(error)) => return Err(error),
        };
        let count = payloads.as_ref().map_or(1, Vec::len);
        let Some(tickets) = self
            .settlement
            .message(self.now(), at, stamps, count, answer_to)?
        else {
            return self.carry_out().await;
        };
        match payloads {
            Ok(payloads) => {
                for (ticket, payload) in tickets.into_iter().zip(payloads) {
                    message.payload = payload;
                    self.take(ticket, edge, &message, is_repeat).await?;
                }
                Ok(())
            }
            Err(error) => {
                let now = self.now();
                for ticket in tickets {
                    self.settlement.unreadable(
                        now,
                        ticket,
                        &message.subject,
                        payload.clone(),
                        &error,
                    );
                }
                self.carry_out().await
            }
        }
    }

    /// Returns whether a stream has let go of a message: all who get it have acked it. It had come
    /// once more, to a process that stood still meanwhile, and the file that it refers to went with
    /// it.
    async fn is_gone(&self, InputAt { edge, sequence, .. }: InputAt) -> bool {
        let bus = &self.process.context.bus;
        let Ok(stream) = bus
            .jetstream
            .get_stream_no_info(bus.subjects.stream(edge.name()))
            .await
        else {
            return false;
        };
        let found = stream.get_raw_message(sequence).await;
        found.is_err_and(|error| error.kind() == LastRawMessageErrorKind::NoMessageFound)
    }

    /// Takes in a core NATS message.
    pub(super) async fn receive_soft(
        &mut self,
        SoftMessage { edge, mut message }: SoftMessage,
    ) -> anyhow::Result<()> {
        let ticket = self.settlement.request(message.reply.take(), self.now());
        // Nobody tells of a request whether it came before.
        let is_repeat = self.in_hand.suspects(edge, &message.payload);
        self.take(ticket, edge, &message, is_repeat).await
    }

    /// Steps the core with an input. One that came before (`is_repeat`) may be what an earlier life
    /// died of.
    async fn take(
        &mut self,
        ticket: Ticket,
        edge: Edge,
        message: &async_nats::Message,
        is_repeat: bool,
    ) -> anyhow::Result<()> {
        let now = self.now();
        let subject = message.subject.as_str();
        let step = || self.core.message(now, ticket, edge, &message.payload);
        match self.in_hand.step(edge, message, is_repeat, step)? {
            Some(Ok(step)) => {
                self.settlement.taken();
                return self.settle(step).await;
            }
            Some(Err(Refusal::Unreadable(error))) => {
                self.settlement
                    .unreadable(now, ticket, subject, message.payload.clone(), &error);
            }
            Some(Err(Refusal::Store(error))) => return Err(error.into()),
            None => self
                .settlement
                .deadly(now, ticket, subject, message.payload.clone()),
        }
        self.carry_out().await
    }

    /// Steps the core with a signal.
    pub(super) async fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        let now = self.now();
        let step = guarded(
            || format!("at the signal {signal:?}"),
            || self.core.signal(now, signal),
        )??;
        self.settle(step).await
    }

    /// Reads what streams say of messages published to them.
    pub(super) async fn streams_answer(&mut self, first: StreamAnswer) -> anyhow::Result<()> {
        let mut next = Some(first);
        for _ in 0..ANSWERS_AT_ONCE {
            match next {
                Some(StreamAnswer::Stored(token, ack)) => {
                    for tag in self.settlement.stored_at(self.now(), token, &ack)? {
                        self.signal(Signal::Stored(tag)).await?;
                    }
                }
                Some(StreamAnswer::Refused(token, why)) => {
                    self.settlement.refused(self.now(), token, why)
                }
                None => break,
            }
            next = self.publisher.next_now();
        }
        self.carry_out().await
    }
}

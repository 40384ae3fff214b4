//! What comes to a process, on its way to the core: messages of streams, requests, and what streams
//! answer.
//!
//! In: messages. Out: steps of the core: those of a batch are settled together, else each alone.
//! What cannot be read, or what lives died of, is put aside.
//!
//! Invariants: the settlement knows of an input before the core does; what lives may have died of
//! is the first of a batch.

use super::{
    Heard, InputAt, Inputs, Loop, Refusal, Signal, SoftMessage, StreamAnswer, StreamMessage,
};
use crate::in_hand::guarded;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use rhumb_bus::spool::Unread;
use rhumb_stage::settlement::{BEGUN, Stamps};
use rhumb_stage::{Step, Ticket};
use rhumb_wire::message::{Edge, payloads};

/// Answers of streams read in one go.
const ANSWERS_AT_ONCE: usize = 256;

impl Loop {
    /// Takes in what was heard. When that begins a batch, what else is there at the moment is of the
    /// same one, as long as it has room; then it is settled.
    pub(super) async fn take_batch(
        &mut self,
        first: Heard,
        inputs: &mut Inputs,
    ) -> anyhow::Result<()> {
        self.take_in(first).await?;
        while self.node.settlement.has_room(self.now()) {
            let takes_stream = self.takes_stream();
            let Some(heard) = inputs.next_now(takes_stream).await else {
                break;
            };
            self.take_in(heard).await?;
        }
        self.settle().await
    }

    /// Takes in what came from outside or from the shell. An input of a stage with state may leave
    /// a batch that is to be settled.
    async fn take_in(&mut self, heard: Heard) -> anyhow::Result<()> {
        match heard {
            Heard::StreamsAnswer(answer) => self.streams_answer(answer).await,
            Heard::WorkEnded => {
                let clock = self.node.settlement.clock(self.now());
                let step = guarded(
                    || "at an answer of its shell".into(),
                    || self.core.answer(clock),
                )??;
                self.settle_alone(step).await
            }
            Heard::Soft(message) => self.receive_soft(message).await,
            Heard::Message(Some(message)) => self.receive(message).await,
            Heard::Control(request) => {
                self.control(request).await;
                Ok(())
            }
            Heard::Message(None) | Heard::Shutdown | Heard::Time => Ok(()),
        }
    }

    /// Settles a step of the core that is no part of a batch.
    async fn settle_alone(&mut self, step: Step) -> anyhow::Result<()> {
        self.node.settlement.stepped(self.now(), step);
        self.settle().await
    }

    /// Settles the steps of the batch under way; the work that they asked for begins afterwards.
    async fn settle(&mut self) -> anyhow::Result<()> {
        self.hear_of_lease()?;
        self.node.settlement.settle(self.now())?;
        self.carry_out().await?;
        self.core.perform();
        Ok(())
    }

    /// Takes in a message of a stream: each of its payloads is an input of the core.
    async fn receive(
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
        let Some(tickets) =
            self.node
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
                    self.node.settlement.unreadable(
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
    async fn receive_soft(
        &mut self,
        SoftMessage { edge, mut message }: SoftMessage,
    ) -> anyhow::Result<()> {
        let ticket = self
            .node
            .settlement
            .request(message.reply.take(), self.now());
        // Nobody tells of a request whether it came before.
        let is_repeat = self.in_hand.suspects(edge, &message.payload);
        self.take(ticket, edge, &message, is_repeat).await
    }

    /// Steps the core with an input, and leaves the step to the batch as long as that has room. One
    /// that came before (`is_repeat`) may be what an earlier life died of: the batch before it is
    /// settled first.
    async fn take(
        &mut self,
        ticket: Ticket,
        edge: Edge,
        message: &async_nats::Message,
        is_repeat: bool,
    ) -> anyhow::Result<()> {
        if is_repeat {
            self.settle().await?;
        }
        let now = self.now();
        let subject = message.subject.as_str();
        let clock = self.node.settlement.clock(now);
        let step = || self.core.message(clock, ticket, edge, &message.payload);
        match self.in_hand.step(edge, message, is_repeat, step)? {
            Some(Ok(step)) => {
                self.node.settlement.taken();
                self.node.settlement.stepped(self.now(), step);
                if !self.node.settlement.has_room(self.now()) {
                    self.settle().await?;
                }
                return Ok(());
            }
            Some(Err(Refusal::Unreadable(error))) => {
                self.node.settlement.unreadable(
                    now,
                    ticket,
                    subject,
                    message.payload.clone(),
                    &error,
                );
            }
            Some(Err(Refusal::Store(error))) => return Err(error.into()),
            None => self
                .node
                .settlement
                .deadly(now, ticket, subject, message.payload.clone()),
        }
        self.carry_out().await
    }

    /// Steps the core with a signal.
    pub(super) async fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        let clock = self.node.settlement.clock(self.now());
        let step = guarded(
            || format!("at the signal {signal:?}"),
            || self.core.signal(clock, signal),
        )??;
        self.settle_alone(step).await
    }

    /// Reads what streams say of messages published to them.
    async fn streams_answer(&mut self, first: StreamAnswer) -> anyhow::Result<()> {
        let mut next = Some(first);
        for _ in 0..ANSWERS_AT_ONCE {
            match next {
                Some(StreamAnswer::Stored(token, ack)) => {
                    for tag in self.node.settlement.stored_at(self.now(), token, &ack)? {
                        self.signal(Signal::Stored(tag)).await?;
                    }
                }
                Some(StreamAnswer::Refused(token, why)) => {
                    self.node.settlement.refused(self.now(), token, why)
                }
                None => break,
            }
            next = self.publisher.next_now();
        }
        self.carry_out().await
    }
}

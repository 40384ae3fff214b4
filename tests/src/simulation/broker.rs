//! The broker in memory: streams with durable consumers, and the subjects of soft messages.
//!
//! A stream stores a message once per id within its duplicate window and delivers it at least once: what is not
//! acked within `ack_wait` comes again, to any member of the consumer. Restored from an earlier copy, all streams and
//! consumers are as they were then, and sequence numbers are given out a second time.

use super::agenda::{EffectId, Place, Process};
use super::plan::Micros;
use bytes::Bytes;
use shared::config::Pipeline;
use shared::message::Edge;
use shared::stage::Token;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A message for a stream.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) edge: Edge,
    pub(crate) token: Token,
    pub(crate) id: String,
    pub(crate) payload: Bytes,
}

/// A message of a stream on its way to a process.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) edge: Edge,
    pub(crate) consumer: usize,
    /// In its stream, from 1.
    pub(crate) sequence: u64,
    /// When it was stored.
    pub(crate) at: Micros,
    pub(crate) payload: Bytes,
}

/// A core NATS message on its way to a process.
#[derive(Clone, Debug)]
pub(crate) struct SoftMessage {
    pub(crate) edge: Edge,
    pub(crate) payload: Bytes,
    pub(crate) reply: Option<ReplyTo>,
}

/// Where the reply to a request goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTo {
    pub(crate) effect: EffectId,
    pub(crate) request: Request,
}

/// What was requested.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    /// Jobs, by a fetcher.
    Jobs { scheduler: u16, ask: u64 },
    /// Who had bodies first, by a parser.
    Content { dedup: u16 },
}

struct Unacked {
    delivery: u64,
    /// When the message comes again unless it is acked.
    until: Micros,
}

/// A durable consumer and its members.
struct Consumer {
    members: Vec<Place>,
    /// Of how many instances which one's partitions; none: all messages.
    filter: Option<(u16, u16)>,
    /// Index of the next message never delivered.
    next: usize,
    again: BTreeSet<u64>,
    unacked: BTreeMap<u64, Unacked>,
    /// By sequence, when it was acked.
    acked: BTreeMap<u64, Micros>,
    delivery: u64,
}

struct Stored {
    at: Micros,
    token: Token,
    payload: Bytes,
}

struct Stream {
    messages: Vec<Stored>,
    /// By id, when it was stored.
    ids: HashMap<String, Micros>,
    /// Messages not yet acked that it holds at most.
    capacity: usize,
    duplicate_window: Micros,
    ack_wait: Micros,
    consumers: Vec<Consumer>,
}

/// A message that the broker decided to deliver.
pub(crate) struct Dispatched {
    pub(crate) to: Process,
    pub(crate) number: u64,
    pub(crate) delivery: Delivery,
}

/// What became of a message that reached the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storing {
    /// Under this sequence number.
    Stored(u64),
    /// It was there already.
    Known,
    /// The stream is full.
    Refused,
}

/// All streams.
pub(crate) struct Broker {
    streams: BTreeMap<Edge, Stream>,
}

/// Unacked messages of a consumer at once.
const UNACKED_MAX: usize = 100;

impl Broker {
    /// `capacity`: messages that the bounded streams hold at most.
    pub(crate) fn new(pipeline: &Pipeline, capacity: usize) -> Self {
        let mut streams = BTreeMap::new();
        for edge in Edge::ALL {
            if let Some(config) = pipeline.edges.stream(edge) {
                let stream = Stream {
                    messages: Vec::new(),
                    ids: HashMap::new(),
                    capacity: if config.bytes_max.0 > 0 { capacity } else { usize::MAX },
                    duplicate_window: config.duplicate_window.as_micros() as Micros,
                    ack_wait: config.ack_wait.as_micros() as Micros,
                    consumers: Vec::new(),
                };
                streams.insert(edge, stream);
            }
        }
        Broker { streams }
    }

    /// Gives a stream a consumer: one of all instances, or of the partitions of one of `replicas`.
    pub(crate) fn consumer(&mut self, edge: Edge, members: Vec<Place>, filter: Option<(u16, u16)>) {
        let consumer = Consumer {
            members,
            filter,
            next: 0,
            again: BTreeSet::new(),
            unacked: BTreeMap::new(),
            acked: BTreeMap::new(),
            delivery: 0,
        };
        self.stream(edge).consumers.push(consumer);
    }

    fn stream(&mut self, edge: Edge) -> &mut Stream {
        self.streams.get_mut(&edge).unwrap_or_else(|| panic!("edge {} is no stream", edge.name()))
    }

    pub(crate) fn ack_wait(&self, edge: Edge) -> Micros {
        self.streams.get(&edge).map_or(Micros::MAX, |stream| stream.ack_wait)
    }

    /// Stores a message, unless its id is known or the stream is full.
    pub(crate) fn store(&mut self, now: Micros, message: &Outgoing) -> Storing {
        let stream = self.stream(message.edge);
        if stream.ids.get(&message.id).is_some_and(|at| at + stream.duplicate_window > now) {
            return Storing::Known;
        }
        let acked = stream.consumers.iter().map(|consumer| consumer.acked.len()).min();
        if acked.is_some_and(|acked| stream.messages.len() - acked >= stream.capacity) {
            return Storing::Refused;
        }
        stream.ids.insert(message.id.clone(), now);
        stream.messages.push(Stored { at: now, token: message.token.clone(), payload: message.payload.clone() });
        Storing::Stored(stream.messages.len() as u64)
    }

    /// What can be delivered now on an edge to the processes that are `up`; `choose` picks among members.
    pub(crate) fn dispatch(
        &mut self,
        now: Micros,
        edge: Edge,
        up: impl Fn(Place) -> Option<Process>,
        mut choose: impl FnMut(usize) -> usize,
    ) -> Vec<Dispatched> {
        let mut dispatched = Vec::new();
        let Some(stream) = self.streams.get_mut(&edge) else { return dispatched };
        for (index, consumer) in stream.consumers.iter_mut().enumerate() {
            let members: Vec<Process> = consumer.members.iter().filter_map(|&place| up(place)).collect();
            if members.is_empty() {
                continue;
            }
            while consumer.unacked.len() < UNACKED_MAX
                && let Some(sequence) = consumer.take_next(&stream.messages)
            {
                let to = members[choose(members.len())];
                consumer.delivery += 1;
                let until = now + stream.ack_wait;
                consumer.unacked.insert(sequence, Unacked { delivery: consumer.delivery, until });
                let Stored { at, payload, .. } = &stream.messages[sequence as usize - 1];
                let delivery = Delivery { edge, consumer: index, sequence, at: *at, payload: payload.clone() };
                dispatched.push(Dispatched { to, number: consumer.delivery, delivery });
            }
        }
        dispatched
    }

    pub(crate) fn ack(&mut self, now: Micros, edge: Edge, consumer: usize, sequence: u64) {
        if sequence > self.last(edge) {
            return;
        }
        let consumer = &mut self.stream(edge).consumers[consumer];
        consumer.unacked.remove(&sequence);
        consumer.again.remove(&sequence);
        consumer.acked.insert(sequence, now);
    }

    /// A process still has a message in hand: it comes again only after another `ack_wait`.
    pub(crate) fn extend(&mut self, now: Micros, edge: Edge, consumer: usize, sequence: u64) {
        let stream = self.stream(edge);
        let until = now + stream.ack_wait;
        if let Some(unacked) = stream.consumers[consumer].unacked.get_mut(&sequence) {
            unacked.until = until;
        }
    }

    /// Until when a delivery may be acked; none when it is, or when the message was delivered again.
    pub(crate) fn unacked_until(&self, edge: Edge, consumer: usize, sequence: u64, delivery: u64) -> Option<Micros> {
        let unacked = self.streams.get(&edge)?.consumers.get(consumer)?.unacked.get(&sequence)?;
        (unacked.delivery == delivery).then_some(unacked.until)
    }

    /// Forgets the acks since a moment: these messages come again, as if for the first time.
    pub(crate) fn forget_acks(&mut self, since: Micros) {
        for consumer in self.streams.values_mut().flat_map(|stream| &mut stream.consumers) {
            let forgotten: Vec<u64> =
                consumer.acked.iter().filter(|&(_, &at)| at >= since).map(|(&sequence, _)| sequence).collect();
            for sequence in forgotten {
                consumer.acked.remove(&sequence);
                consumer.again.insert(sequence);
            }
        }
    }

    /// Restores all streams and consumers as they were at a moment. Returns how many messages are lost.
    pub(crate) fn restore(&mut self, copied_at: Micros) -> usize {
        self.forget_acks(copied_at);
        let mut lost = 0;
        for stream in self.streams.values_mut() {
            let length = stream.messages.iter().take_while(|message| message.at < copied_at).count();
            lost += stream.messages.len() - length;
            stream.messages.truncate(length);
            stream.ids.retain(|_, at| *at < copied_at);
            for consumer in &mut stream.consumers {
                consumer.next = consumer.next.min(length);
                consumer.again.retain(|&sequence| sequence <= length as u64);
                consumer.unacked.retain(|&sequence, _| sequence <= length as u64);
            }
        }
        lost
    }

    /// The last sequence that a stream gave out.
    pub(crate) fn last(&self, edge: Edge) -> u64 {
        self.streams.get(&edge).map_or(0, |stream| stream.messages.len() as u64)
    }

    /// When a message was stored, unless all consumers have acked it.
    pub(crate) fn stored_at(&self, edge: Edge, sequence: u64) -> Option<Micros> {
        let stream = self.streams.get(&edge)?;
        let is_there = stream.consumers.iter().any(|consumer| !consumer.acked.contains_key(&sequence));
        stream
            .messages
            .get(usize::try_from(sequence).ok()?.checked_sub(1)?)
            .filter(|_| is_there)
            .map(|stored| stored.at)
    }

    /// A message is to be delivered once more.
    pub(crate) fn again(&mut self, edge: Edge, consumer: usize, sequence: u64) {
        let consumer = &mut self.stream(edge).consumers[consumer];
        consumer.unacked.remove(&sequence);
        consumer.again.insert(sequence);
    }

    /// Whether everything has been delivered and acked.
    pub(crate) fn is_quiet(&self) -> bool {
        self.streams.values().all(|stream| {
            stream.consumers.iter().all(|consumer| {
                consumer.unacked.is_empty() && consumer.again.is_empty() && !consumer.has_more(&stream.messages)
            })
        })
    }

    /// How many messages lie in each stream.
    pub(crate) fn sequences(&self) -> Vec<(Edge, usize)> {
        self.streams.iter().map(|(edge, stream)| (*edge, stream.messages.len())).collect()
    }

    /// What waits, for a report on a run that does not end.
    pub(crate) fn pending(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (edge, stream) in &self.streams {
            for (index, consumer) in stream.consumers.iter().enumerate() {
                let (unacked, again) = (consumer.unacked.len(), consumer.again.len());
                let more = consumer.has_more(&stream.messages);
                if unacked + again > 0 || more {
                    lines.push(format!(
                        "{} consumer {index}: {unacked} unacked, {again} again, more {more}",
                        edge.name()
                    ));
                }
            }
        }
        lines
    }
}

impl Consumer {
    fn wants(&self, message: &Stored) -> bool {
        match (self.filter, &message.token) {
            (Some((replicas, instance)), Token::Partition(partition)) => {
                Pipeline::owner(*partition, replicas) == instance
            }
            _ => true,
        }
    }

    fn take_next(&mut self, messages: &[Stored]) -> Option<u64> {
        if let Some(sequence) = self.again.pop_first() {
            return Some(sequence);
        }
        while let Some(message) = messages.get(self.next) {
            self.next += 1;
            if self.wants(message) {
                return Some(self.next as u64);
            }
        }
        None
    }

    fn has_more(&self, messages: &[Stored]) -> bool {
        messages.get(self.next..).unwrap_or_default().iter().any(|message| self.wants(message))
    }
}

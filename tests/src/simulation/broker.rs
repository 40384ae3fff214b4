//! The broker in memory: streams with durable consumers, and the subjects of soft messages.
//!
//! A stream stores a message once per id within its duplicate window and delivers it at least once:
//! what is not acked within `ack_wait` comes again, to any member of the consumer. What was acked
//! is gone, whichever consumer had it: the consumers of a later owner of a partition begin with
//! what is left, and acks to those of an earlier one count no more. Restored from an earlier copy,
//! all streams and consumers are as they were then, and sequence numbers are given out a second
//! time.

use super::agenda::{EffectId, Place, Process};
use super::plan::Micros;
use bytes::Bytes;
use rhumb_config::Pipeline;
use rhumb_stage::node::Drawn;
use rhumb_wire::message::Edge;
use rhumb_wire::topology::Token;
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
    /// The partition whose consumer it is; none: one of several.
    pub(crate) partition: Option<u16>,
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

/// Whose messages a consumer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slice {
    Shared,
    /// All partitions, of the instance that owns them.
    Instance(u16),
    /// A partition under a version of its ownership.
    Partition(u16, u64),
}

/// A durable consumer and its members.
struct Consumer {
    slice: Slice,
    members: Vec<Place>,
    /// Index of the next message never delivered.
    next: usize,
    again: BTreeSet<u64>,
    unacked: BTreeMap<u64, Unacked>,
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
    /// Some stage reads it.
    is_read: bool,
    /// By sequence, when it was acked.
    acked: BTreeMap<u64, Micros>,
    /// In the order in which they were made.
    consumers: BTreeMap<usize, Consumer>,
    made: usize,
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
                    capacity: if config.bytes_max.0 > 0 {
                        capacity
                    } else {
                        usize::MAX
                    },
                    duplicate_window: config.duplicate_window.as_micros() as Micros,
                    ack_wait: config.ack_wait.as_micros() as Micros,
                    is_read: false,
                    acked: BTreeMap::new(),
                    consumers: BTreeMap::new(),
                    made: 0,
                };
                streams.insert(edge, stream);
            }
        }
        Broker { streams }
    }

    /// Gives a stream a consumer of all messages.
    pub(crate) fn share(&mut self, edge: Edge, members: Vec<Place>) {
        self.stream(edge).make(Slice::Shared, members);
    }

    /// An instance draws its partitions of a stream: consumers of earlier owners are in the way,
    /// and go.
    pub(crate) fn draw(&mut self, edge: Edge, place: Place, drawn: &Drawn) {
        self.withdraw(edge, place);
        let slices: Vec<Slice> = match drawn {
            Drawn::All => vec![Slice::Instance(place.instance)],
            Drawn::Each { owned, .. } => owned
                .iter()
                .map(|&(of, version)| Slice::Partition(of, version))
                .collect(),
        };
        let is_own = |partition: u16| match drawn {
            Drawn::All => true,
            Drawn::Each { owned, .. } => owned.iter().any(|(of, _)| *of == partition),
        };
        let stream = self.stream(edge);
        stream.consumers.retain(|_, Consumer { slice, .. }| {
            let is_in_the_way = match *slice {
                Slice::Shared => false,
                Slice::Instance(_) => !slices.is_empty(),
                Slice::Partition(partition, _) => is_own(partition),
            };
            slices.contains(slice) || !is_in_the_way
        });
        for slice in slices {
            match stream
                .consumers
                .values_mut()
                .find(|consumer| consumer.slice == slice)
            {
                Some(consumer) => consumer.members = vec![place],
                None => stream.make(slice, vec![place]),
            }
        }
    }

    /// An instance draws its partitions of a stream no more.
    pub(crate) fn withdraw(&mut self, edge: Edge, place: Place) {
        let owned = self
            .stream(edge)
            .consumers
            .values_mut()
            .filter(|consumer| consumer.slice != Slice::Shared);
        owned
            .filter(|consumer| consumer.members == [place])
            .for_each(|consumer| consumer.members.clear());
    }

    /// Up to which sequence all messages are acked that a consumer has: of a partition, or of all.
    pub(crate) fn ack_floor(&self, edge: Edge, partition: Option<u16>) -> u64 {
        let Some(stream) = self.streams.get(&edge) else {
            return 0;
        };
        let is_of = |message: &Stored| match (partition, &message.token) {
            (Some(partition), Token::Partition(of)) => partition == *of,
            _ => true,
        };
        let own = (1..)
            .zip(&stream.messages)
            .filter(|(_, message)| is_of(message))
            .map(|(sequence, _)| sequence);
        own.take_while(|sequence| stream.acked.contains_key(sequence))
            .last()
            .unwrap_or(0)
    }

    fn stream(&mut self, edge: Edge) -> &mut Stream {
        self.streams
            .get_mut(&edge)
            .unwrap_or_else(|| panic!("edge {} is no stream", edge.name()))
    }

    pub(crate) fn ack_wait(&self, edge: Edge) -> Micros {
        self.streams
            .get(&edge)
            .map_or(Micros::MAX, |stream| stream.ack_wait)
    }

    /// Stores a message, unless its id is known or the stream is full.
    pub(crate) fn store(&mut self, now: Micros, message: &Outgoing) -> Storing {
        let stream = self.stream(message.edge);
        if stream
            .ids
            .get(&message.id)
            .is_some_and(|at| at + stream.duplicate_window > now)
        {
            return Storing::Known;
        }
        if stream.is_read && stream.messages.len() - stream.acked.len() >= stream.capacity {
            return Storing::Refused;
        }
        stream.ids.insert(message.id.clone(), now);
        stream.messages.push(Stored {
            at: now,
            token: message.token.clone(),
            payload: message.payload.clone(),
        });
        Storing::Stored(stream.messages.len() as u64)
    }

    /// What can be delivered now on an edge to the processes that are `up`; `choose` picks among
    /// members.
    pub(crate) fn dispatch(
        &mut self,
        now: Micros,
        edge: Edge,
        up: impl Fn(Place) -> Option<Process>,
        mut choose: impl FnMut(usize) -> usize,
    ) -> Vec<Dispatched> {
        let mut dispatched = Vec::new();
        let Some(stream) = self.streams.get_mut(&edge) else {
            return dispatched;
        };
        for (&index, consumer) in &mut stream.consumers {
            let members: Vec<Process> = consumer
                .members
                .iter()
                .filter_map(|&place| up(place))
                .collect();
            if members.is_empty() {
                continue;
            }
            while consumer.unacked.len() < UNACKED_MAX
                && let Some(sequence) = consumer.take_next(&stream.messages, &stream.acked)
            {
                let to = members[choose(members.len())];
                consumer.delivery += 1;
                let until = now + stream.ack_wait;
                consumer.unacked.insert(
                    sequence,
                    Unacked {
                        delivery: consumer.delivery,
                        until,
                    },
                );
                let Stored { at, payload, .. } = &stream.messages[sequence as usize - 1];
                let at = *at;
                let payload = payload.clone();
                let partition = consumer.slice.partition();
                let delivery = Delivery {
                    edge,
                    consumer: index,
                    partition,
                    sequence,
                    at,
                    payload,
                };
                dispatched.push(Dispatched {
                    to,
                    number: consumer.delivery,
                    delivery,
                });
            }
        }
        dispatched
    }

    /// Nothing, when the consumer is there no more.
    pub(crate) fn ack(&mut self, now: Micros, edge: Edge, consumer: usize, sequence: u64) {
        if sequence > self.last(edge) {
            return;
        }
        let stream = self.stream(edge);
        if let Some(consumer) = stream.consumers.get_mut(&consumer) {
            consumer.unacked.remove(&sequence);
            consumer.again.remove(&sequence);
            stream.acked.insert(sequence, now);
        }
    }

    /// A process still has a message in hand: it comes again only after another `ack_wait`.
    pub(crate) fn extend(&mut self, now: Micros, edge: Edge, consumer: usize, sequence: u64) {
        let stream = self.stream(edge);
        let until = now + stream.ack_wait;
        let consumer = stream.consumers.get_mut(&consumer);
        if let Some(unacked) = consumer.and_then(|consumer| consumer.unacked.get_mut(&sequence)) {
            unacked.until = until;
        }
    }

    /// Until when a delivery may be acked; none when it is, or when the message was delivered
    /// again.
    pub(crate) fn unacked_until(
        &self,
        edge: Edge,
        consumer: usize,
        sequence: u64,
        delivery: u64,
    ) -> Option<Micros> {
        let unacked = self
            .streams
            .get(&edge)?
            .consumers
            .get(&consumer)?
            .unacked
            .get(&sequence)?;
        (unacked.delivery == delivery).then_some(unacked.until)
    }

    /// Forgets the acks since a moment: these messages come again, as if for the first time.
    pub(crate) fn forget_acks(&mut self, since: Micros) {
        for Stream {
            messages,
            acked,
            consumers,
            ..
        } in self.streams.values_mut()
        {
            let forgotten = acked.extract_if(.., |_, at| *at >= since);
            for sequence in forgotten.map(|(sequence, _)| sequence).collect::<Vec<_>>() {
                let Some(message) = messages.get(sequence as usize - 1) else {
                    continue;
                };
                let owners = consumers
                    .values_mut()
                    .filter(|consumer| consumer.wants(message));
                // One that has not come so far comes there by itself.
                owners
                    .filter(|consumer| consumer.next >= sequence as usize)
                    .for_each(|consumer| {
                        consumer.again.insert(sequence);
                    });
            }
        }
    }

    /// Restores all streams and consumers as they were at a moment. Returns how many messages are
    /// lost.
    pub(crate) fn restore(&mut self, copied_at: Micros) -> usize {
        self.forget_acks(copied_at);
        let mut lost = 0;
        for stream in self.streams.values_mut() {
            let length = stream
                .messages
                .iter()
                .take_while(|message| message.at < copied_at)
                .count();
            lost += stream.messages.len() - length;
            stream.messages.truncate(length);
            stream.ids.retain(|_, at| *at < copied_at);
            for consumer in stream.consumers.values_mut() {
                consumer.next = consumer.next.min(length);
                consumer.again.retain(|&sequence| sequence <= length as u64);
                consumer
                    .unacked
                    .retain(|&sequence, _| sequence <= length as u64);
            }
        }
        lost
    }

    /// The last sequence that a stream gave out.
    pub(crate) fn last(&self, edge: Edge) -> u64 {
        self.streams
            .get(&edge)
            .map_or(0, |stream| stream.messages.len() as u64)
    }

    /// When a message was stored, unless all consumers have acked it.
    pub(crate) fn stored_at(&self, edge: Edge, sequence: u64) -> Option<Micros> {
        let stream = self.streams.get(&edge)?;
        let is_there = stream.is_read && !stream.acked.contains_key(&sequence);
        stream
            .messages
            .get(usize::try_from(sequence).ok()?.checked_sub(1)?)
            .filter(|_| is_there)
            .map(|stored| stored.at)
    }

    /// A message is to be delivered once more, if its consumer is still there.
    pub(crate) fn again(&mut self, edge: Edge, consumer: usize, sequence: u64) {
        let stream = self.stream(edge);
        if let Some(consumer) = stream.consumers.get_mut(&consumer)
            && consumer.unacked.remove(&sequence).is_some()
        {
            consumer.again.insert(sequence);
        }
    }

    /// Whether everything has been delivered and acked.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut read = self.streams.values().filter(|stream| stream.is_read);
        read.all(|stream| {
            let is_quiet =
                |consumer: &Consumer| consumer.unacked.is_empty() && consumer.again.is_empty();
            stream.acked.len() == stream.messages.len() && stream.consumers.values().all(is_quiet)
        })
    }

    /// How many messages lie in each stream.
    pub(crate) fn sequences(&self) -> Vec<(Edge, usize)> {
        self.streams
            .iter()
            .map(|(edge, stream)| (*edge, stream.messages.len()))
            .collect()
    }

    /// What waits, for a report on a run that does not end.
    pub(crate) fn pending(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (edge, stream) in &self.streams {
            if stream.is_read && stream.acked.len() < stream.messages.len() {
                let acked = stream.acked.len();
                let all = stream.messages.len();
                lines.push(format!("{}: {acked} of {all} are acked", edge.name()));
                for Consumer {
                    slice,
                    members,
                    next,
                    again,
                    unacked,
                    ..
                } in stream.consumers.values()
                {
                    let unacked = unacked.len();
                    let again = again.len();
                    lines.push(format!(
                        "  {slice:?} of {members:?}: next {next}, {unacked} unacked, {again} again"
                    ));
                }
            }
        }
        lines
    }
}

impl Slice {
    fn partition(self) -> Option<u16> {
        match self {
            Slice::Partition(partition, _) => Some(partition),
            Slice::Shared | Slice::Instance(_) => None,
        }
    }
}

impl Stream {
    fn make(&mut self, slice: Slice, members: Vec<Place>) {
        self.is_read = true;
        let consumer = Consumer {
            slice,
            members,
            next: 0,
            again: BTreeSet::new(),
            unacked: BTreeMap::new(),
            delivery: 0,
        };
        self.consumers.insert(self.made, consumer);
        self.made += 1;
    }
}

impl Consumer {
    fn wants(&self, message: &Stored) -> bool {
        match (self.slice.partition(), &message.token) {
            (Some(own), Token::Partition(partition)) => own == *partition,
            _ => true,
        }
    }

    fn take_next(&mut self, messages: &[Stored], acked: &BTreeMap<u64, Micros>) -> Option<u64> {
        if let Some(sequence) = self.again.pop_first() {
            return Some(sequence);
        }
        while let Some(message) = messages.get(self.next) {
            self.next += 1;
            let sequence = self.next as u64;
            if self.wants(message) && !acked.contains_key(&sequence) {
                return Some(sequence);
            }
        }
        None
    }
}

//! A node: one instance of a stage, driven as the stage loop drives it in a process.
//!
//! Without state an input is acked when all that was made from it is stored; with state position, changes and
//! outbox go into one commit, then the input is acked and the outbox published under its stored ids. A crash
//! takes the core and everything that was not committed; the next life starts from the store under the next
//! epoch, with a clock of its own, and publishes what the outbox held.
//!
//! Not modelled: two processes that both believe to own an instance (a lease in the broker's bucket excludes
//! them), and corrupt payloads.

use super::agenda::{Answer, EffectId, Happening, Input, Place, Process};
use super::around::Around;
use super::broker::{Delivery, Outgoing, ReplyTo, SoftMessage};
use super::plan::{Micros, SECOND};
use bytes::Bytes;
use shared::message::{Edge, decode};
use shared::stage::store::{Changes, MemoryStore, Store, Table};
use shared::stage::{Applied, Core, Count, Event, Output, Publish, Ticket, Token};
use shared::time::Timestamp;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// As in the stage loop.
const PUBLISHES_MAX: usize = 1000;
const ACK_TIMEOUT: Micros = 2 * SECOND;
const LOOP: Table = "loop";
const OUTBOX: Table = "outbox";

/// A core that the simulation can run: who does its work that waits.
pub(crate) trait Simulated: Core + 'static {
    /// Begins work; its answer comes through the agenda.
    fn perform(effect: Self::Effect, id: EffectId, around: &mut Around);
    /// The answer as the core takes it.
    fn accept(answer: Answer) -> Option<Self::Answer>;
    /// Why a server is not being fetched, if that is for the core to say.
    fn why_idle(&self, _now: Timestamp, _server: &str) -> Option<String> {
        None
    }
}

/// What a core is opened with.
pub(crate) struct Opening {
    pub(crate) instance: u16,
    pub(crate) epoch: u64,
    /// A number that no other life has.
    pub(crate) life: u64,
    pub(crate) store: Option<Arc<dyn Store>>,
}

/// A node of any stage.
pub(crate) trait AnyNode {
    /// Starts the next life.
    fn start(&mut self, around: &mut Around);
    /// Ends the life at once.
    fn crash(&mut self);
    fn process(&self) -> Option<Process>;
    /// Takes what reached it.
    fn take(&mut self, input: Input, around: &mut Around);
    /// When it wants to be woken.
    fn wake_at(&self) -> Option<Micros>;
    /// Whether the process has an input in hand: it tells the broker that it works on it.
    fn has_in_hand(&self, edge: Edge, sequence: u64) -> bool;
    /// Nothing in hand, nothing on its way into a stream.
    fn is_quiet(&self) -> bool;
    fn counts(&self) -> Vec<Count>;
    /// Why a server is not being fetched, if that is for the node to say.
    fn why_idle(&self, now: Micros, server: &str) -> Option<String>;
}

struct Held {
    /// Edge, consumer and sequence of a stream's message.
    source: Option<(Edge, usize, u64)>,
    reply: Option<ReplyTo>,
    references: u32,
}

/// The life of a process.
struct Life<C> {
    core: C,
    process: Process,
    born: Micros,
    inbox: VecDeque<Delivery>,
    tickets: HashMap<Ticket, Held>,
    next_ticket: u64,
    /// What is on its way into streams, and how often it was sent.
    publishing: HashMap<u64, (Outgoing, u32)>,
    next_token: u64,
    causes: HashMap<u64, Vec<Ticket>>,
    tags: HashMap<u64, u64>,
    effects: HashSet<u64>,
    next_effect: u64,
    epoch: u64,
    positions: HashMap<Edge, Applied>,
    next_output: u64,
    /// Keys in the outbox by the publisher's token.
    outbox: HashMap<u64, Vec<u8>>,
    stored: Vec<Vec<u8>>,
}

/// An instance of a stage.
pub(crate) struct Node<C: Simulated> {
    place: Place,
    open: Box<dyn Fn(&Opening) -> C>,
    store: Option<Arc<MemoryStore>>,
    lives: u64,
    life: Option<Life<C>>,
}

/// The process died in the middle of a step.
struct Died;

impl<C: Simulated> Node<C> {
    pub(crate) fn new(place: Place, stateful: bool, open: impl Fn(&Opening) -> C + 'static) -> Self {
        let store = stateful.then(Arc::<MemoryStore>::default);
        Node { place, open: Box::new(open), store, lives: 0, life: None }
    }
}

impl<C: Simulated> AnyNode for Node<C> {
    fn start(&mut self, around: &mut Around) {
        self.lives += 1;
        let process = Process { place: self.place, life: self.lives };
        let epoch = self.store.as_ref().map_or(0, |store| next_epoch(store));
        let store = self.store.clone().map(|store| store as Arc<dyn Store>);
        let opening = Opening { instance: self.place.instance, epoch, life: around.dice.number(), store };
        let mut life = Life {
            core: (self.open)(&opening),
            process,
            born: around.now,
            inbox: VecDeque::new(),
            tickets: HashMap::new(),
            next_ticket: 0,
            publishing: HashMap::new(),
            next_token: 0,
            causes: HashMap::new(),
            tags: HashMap::new(),
            effects: HashSet::new(),
            next_effect: 0,
            epoch,
            positions: HashMap::new(),
            next_output: 0,
            outbox: HashMap::new(),
            stored: Vec::new(),
        };
        if let Some(store) = &self.store {
            life.positions = positions(store);
            for (key, message) in outbox(store) {
                let token = life.publish(message, around);
                life.outbox.insert(token, key);
            }
        }
        self.life = Some(life);
    }

    fn crash(&mut self) {
        self.life = None;
    }

    fn process(&self) -> Option<Process> {
        self.life.as_ref().map(|life| life.process)
    }

    fn take(&mut self, input: Input, around: &mut Around) {
        let Some(life) = &mut self.life else { return };
        let store = self.store.as_deref();
        let mut taken = life.take(input, store, around);
        while taken.is_ok()
            && life.core.wants_input()
            && life.publishing.len() < PUBLISHES_MAX
            && let Some(delivery) = life.inbox.pop_front()
        {
            taken = life.receive(delivery, store, around);
        }
        if taken.is_err() {
            self.life = None;
        }
    }

    fn wake_at(&self) -> Option<Micros> {
        let life = self.life.as_ref()?;
        life.core.wake_at().map(|at| life.born.saturating_add(at.as_micros()))
    }

    fn has_in_hand(&self, edge: Edge, sequence: u64) -> bool {
        self.life.as_ref().is_some_and(|life| {
            life.tickets.values().any(|held| held.source.is_some_and(|(e, _, s)| (e, s) == (edge, sequence)))
        })
    }

    fn is_quiet(&self) -> bool {
        self.life.as_ref().is_some_and(|life| {
            life.core.is_idle() && life.tickets.is_empty() && life.publishing.is_empty() && life.inbox.is_empty()
        })
    }

    fn counts(&self) -> Vec<Count> {
        self.life.as_ref().map(|life| life.core.counts()).unwrap_or_default()
    }

    fn why_idle(&self, now: Micros, server: &str) -> Option<String> {
        let life = self.life.as_ref()?;
        life.core.why_idle(Timestamp::from_micros(now - life.born), server)
    }
}

impl<C: Simulated> Life<C> {
    fn now(&self, around: &Around) -> Timestamp {
        Timestamp::from_micros(around.now - self.born)
    }

    fn take(&mut self, input: Input, store: Option<&MemoryStore>, around: &mut Around) -> Result<(), Died> {
        match input {
            Input::Delivery(delivery) => {
                self.inbox.push_back(delivery);
                Ok(())
            }
            Input::Soft(message) => self.receive_soft(message, store, around),
            Input::Answer(number, answer) => match C::accept(answer).filter(|_| self.effects.remove(&number)) {
                Some(answer) => self.step(Event::Answer(answer), store, around),
                None => Ok(()),
            },
            Input::Stored(token) => self.settle(token, store, around),
            Input::Unstored { token, attempt } => {
                if self.publishing.get(&token).is_some_and(|(_, sent)| *sent == attempt) {
                    self.send_publish(token, around);
                }
                Ok(())
            }
            Input::Tick => {
                let due = self.core.wake_at().is_some_and(|at| at <= self.now(around));
                if due { self.step(Event::Wake, store, around) } else { Ok(()) }
            }
            Input::Connected(connection) => {
                super::web::connected(connection, around);
                Ok(())
            }
        }
    }

    fn ticket(&mut self, source: Option<(Edge, usize, u64)>, reply: Option<ReplyTo>) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.tickets.insert(ticket, Held { source, reply, references: 1 });
        ticket
    }

    fn receive(&mut self, delivery: Delivery, store: Option<&MemoryStore>, around: &mut Around) -> Result<(), Died> {
        let Delivery { edge, consumer, sequence, payload } = delivery;
        if self.positions.get(&edge).is_some_and(|applied| applied.contains(sequence)) {
            around.ack(self.process, edge, consumer, sequence);
            return Ok(());
        }
        let input = C::decode(edge, &payload).unwrap_or_else(|error| panic!("{edge:?} {sequence}: {error}"));
        if edge == Edge::FetchReports
            && let Ok(report) = decode(&payload)
        {
            around.checks.learns(around.now, &report);
        }
        let ticket = self.ticket(Some((edge, consumer, sequence)), None);
        self.step(Event::Message { ticket, input }, store, around)
    }

    fn receive_soft(
        &mut self,
        message: SoftMessage,
        store: Option<&MemoryStore>,
        around: &mut Around,
    ) -> Result<(), Died> {
        let input =
            C::decode(message.edge, &message.payload).unwrap_or_else(|error| panic!("{:?}: {error}", message.edge));
        let ticket = self.ticket(None, message.reply);
        self.step(Event::Message { ticket, input }, store, around)
    }

    /// Steps the core and carries out what it says, unless the process dies half-way.
    fn step(
        &mut self,
        event: Event<C::Input, C::Answer>,
        store: Option<&MemoryStore>,
        around: &mut Around,
    ) -> Result<(), Died> {
        let mut out = Output::default();
        let stepped = self.core.step(self.now(around), event, &mut out);
        stepped.expect("a store in memory does not fail");
        let acts = out.publishes.len() + out.sends.len() + out.effects.len() > 0 || !out.finished.is_empty();
        let mut left = match around.dies_in_step(self.process.place, acts) {
            Some(after) => after,
            None => usize::MAX,
        };
        match store {
            Some(store) => self.commit_and_publish(&mut out, store, &mut left, around)?,
            None => self.publish_all(&mut out, &mut left, around)?,
        }
        for send in out.sends {
            spend(&mut left)?;
            around.send(self.process, send.edge, &send.token, send.payload);
        }
        for (ticket, payload) in out.replies {
            spend(&mut left)?;
            if let Some(to) = self.tickets.get(&ticket).and_then(|held| held.reply) {
                around.reply(self.process, to, &payload);
            }
        }
        for ticket in out.finished {
            spend(&mut left)?;
            self.release(ticket, around);
        }
        for effect in out.effects {
            spend(&mut left)?;
            self.next_effect += 1;
            self.effects.insert(self.next_effect);
            C::perform(effect, EffectId { process: self.process, number: self.next_effect }, around);
        }
        if left == usize::MAX { Ok(()) } else { Err(Died) }
    }

    fn publish_all(&mut self, out: &mut Output<C::Effect>, left: &mut usize, around: &mut Around) -> Result<(), Died> {
        for Publish { edge, token, payload, causes, tag } in out.publishes.drain(..) {
            spend(left)?;
            self.next_output += 1;
            let id = match causes.is_empty() {
                true => format!("{:?}-{}", self.process, self.next_output),
                false => format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&payload)),
            };
            for cause in &causes {
                if let Some(held) = self.tickets.get_mut(cause) {
                    held.references += 1;
                }
            }
            let published = self.publish(Outgoing { edge, token, id, payload }, around);
            self.causes.insert(published, causes);
            if let Some(tag) = tag {
                self.tags.insert(published, tag);
            }
        }
        Ok(())
    }

    fn commit_and_publish(
        &mut self,
        out: &mut Output<C::Effect>,
        store: &MemoryStore,
        left: &mut usize,
        around: &mut Around,
    ) -> Result<(), Died> {
        let mut changes = std::mem::take(&mut out.changes);
        let mut outgoing = Vec::new();
        for Publish { edge, token, payload, .. } in out.publishes.drain(..) {
            self.next_output += 1;
            let Place { stage, instance } = self.process.place;
            let id = format!("{stage:?}-{instance}-{}-{}", self.epoch, self.next_output);
            let message = Outgoing { edge, token, id, payload };
            let mut key = self.epoch.to_be_bytes().to_vec();
            key.extend_from_slice(&self.next_output.to_be_bytes());
            changes.put(OUTBOX, key.clone(), write_outgoing(&message));
            outgoing.push((key, message));
        }
        for ticket in &out.finished {
            if let Some((edge, _, sequence)) = self.tickets.get(ticket).and_then(|held| held.source) {
                let applied = self.positions.entry(edge).or_default();
                applied.insert(sequence);
                changes.put(LOOP, format!("position {}", edge.name()), applied.to_bytes());
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        for key in self.stored.drain(..) {
            changes.remove(OUTBOX, key);
        }
        store.commit(&changes).expect("a store in memory does not fail");
        for (key, message) in outgoing {
            spend(left)?;
            let token = self.publish(message, around);
            self.outbox.insert(token, key);
        }
        Ok(())
    }

    fn publish(&mut self, message: Outgoing, around: &mut Around) -> u64 {
        self.next_token += 1;
        let token = self.next_token;
        around.checks.publishes(self.process, &message);
        self.publishing.insert(token, (message, 0));
        self.send_publish(token, around);
        token
    }

    fn send_publish(&mut self, token: u64, around: &mut Around) {
        let Some((message, attempt)) = self.publishing.get_mut(&token) else { return };
        *attempt += 1;
        let again = Happening::To(self.process, Input::Unstored { token, attempt: *attempt });
        around.publish(self.process, token, *attempt, message.clone());
        around.agenda.at(around.now + ACK_TIMEOUT, again);
    }

    fn settle(&mut self, token: u64, store: Option<&MemoryStore>, around: &mut Around) -> Result<(), Died> {
        if self.publishing.remove(&token).is_none() {
            return Ok(());
        }
        self.stored.extend(self.outbox.remove(&token));
        for ticket in self.causes.remove(&token).unwrap_or_default() {
            self.release(ticket, around);
        }
        match self.tags.remove(&token) {
            Some(tag) => self.step(Event::Stored(tag), store, around),
            None => Ok(()),
        }
    }

    fn release(&mut self, ticket: Ticket, around: &mut Around) {
        let Some(held) = self.tickets.get_mut(&ticket) else { return };
        held.references -= 1;
        if held.references > 0 {
            return;
        }
        if let Some(Held { source: Some((edge, consumer, sequence)), .. }) = self.tickets.remove(&ticket) {
            around.ack(self.process, edge, consumer, sequence);
        }
    }
}

/// One more act before the process dies.
fn spend(left: &mut usize) -> Result<(), Died> {
    match *left {
        usize::MAX => Ok(()),
        0 => Err(Died),
        _ => {
            *left -= 1;
            Ok(())
        }
    }
}

fn next_epoch(store: &MemoryStore) -> u64 {
    let stored = store.get(LOOP, b"epoch").expect("a store in memory does not fail");
    let epoch = 1 + stored.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    let mut changes = Changes::default();
    changes.put(LOOP, *b"epoch", epoch.to_le_bytes());
    store.commit(&changes).expect("a store in memory does not fail");
    epoch
}

fn positions(store: &MemoryStore) -> HashMap<Edge, Applied> {
    let read = |edge: Edge| {
        let bytes = store.get(LOOP, format!("position {}", edge.name()).as_bytes()).ok()??;
        Some((edge, Applied::from_bytes(&bytes)?))
    };
    Edge::ALL.into_iter().filter_map(read).collect()
}

fn outbox(store: &MemoryStore) -> Vec<(Vec<u8>, Outgoing)> {
    let mut left = Vec::new();
    let scanned = store.scan(OUTBOX, &[], &[0xff; 17], &mut |key, value| {
        left.push((key.to_vec(), read_outgoing(value)));
        true
    });
    scanned.expect("a store in memory does not fail");
    left
}

fn write_outgoing(message: &Outgoing) -> Vec<u8> {
    let partition = match message.token {
        Token::Partition(partition) => partition,
        Token::None | Token::Instance(_) | Token::Lane(_) => u16::MAX,
    };
    let mut bytes = vec![message.edge as u8, message.id.len() as u8];
    bytes.extend_from_slice(&partition.to_le_bytes());
    bytes.extend_from_slice(message.id.as_bytes());
    bytes.extend_from_slice(&message.payload);
    bytes
}

fn read_outgoing(bytes: &[u8]) -> Outgoing {
    let edge = Edge::ALL.into_iter().find(|&edge| edge as u8 == bytes[0]).expect("written by write_outgoing");
    let partition = u16::from_le_bytes([bytes[2], bytes[3]]);
    let (id, payload) = bytes[4..].split_at(usize::from(bytes[1]));
    Outgoing {
        edge,
        token: if partition == u16::MAX { Token::None } else { Token::Partition(partition) },
        id: String::from_utf8_lossy(id).into_owned(),
        payload: Bytes::copy_from_slice(payload),
    }
}

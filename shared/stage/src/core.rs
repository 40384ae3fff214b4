//! What a stage is: a synchronous, deterministic core. Same events at the same times in the same
//! order give the same output; a core knows no broker, no clock and no unseeded randomness.
//!
//! In: [`Event`]s. Out: an [`Output`] of messages, effects for the shell and changes of state,
//! which the stage loop (or the simulation) carries out: for a stage without state inputs are acked
//! once every output made from them is stored; for a stage with state input, changes and outputs
//! are committed together first, perhaps with those of the steps around it. A step finds its store
//! as the step before it left it.

use crate::beside::Beside;
use crate::report::Reported;
use crate::store::{Changes, StoreError, Table};
use crate::{Counted, DropProgress, KnownTold};
use crate::{QueueQuestion, ServerQueue, Trap};
use bytes::Bytes;
use rhumb_config::Pipeline;
use rhumb_config::orders::{Orders, Selector};
use rhumb_partition::Owners;
use rhumb_telemetry::metrics::Histogram;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{EdgeMessage, Undecodable, encode};
use rhumb_wire::topology::{Edge, StageName, Token};
use rkyv::api::high::HighSerializer;
use rkyv::rancor::Error as Rancor;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;

/// An input in hand: what acks it, and what a reply to it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What a core is told.
#[derive(Debug)]
pub enum Event<I, A> {
    /// A message came.
    Message {
        /// Stands for it until it is finished.
        ticket: Ticket,
        /// The message.
        input: I,
    },
    /// An effect brought this.
    Answer(A),
    /// A published message that asked for it ([`Publish::tag`]) is in its stream.
    Stored(u64),
    /// [`Core::wake_at`] has come.
    Wake,
    /// The process hears again. For a while nothing reached it: it stood still, or had no
    /// connection to the broker, or no lease on its partitions. What others sent meanwhile comes
    /// from now on. Only a stage with state is told.
    HearsAgain,
    /// The process is to end: take on nothing new, pass on what is held.
    Drain,
}

/// What a core is told beside messages and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A published message that asked for it is in its stream.
    Stored(u64),
    /// [`Core::wake_at`] has come.
    Wake,
    /// The process hears again after a while in which nothing reached it.
    HearsAgain,
    /// The process is to end.
    Drain,
}

impl<I, A> From<Signal> for Event<I, A> {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Stored(tag) => Event::Stored(tag),
            Signal::Wake => Event::Wake,
            Signal::HearsAgain => Event::HearsAgain,
            Signal::Drain => Event::Drain,
        }
    }
}

/// A message to be stored in the stream of its edge.
#[derive(Clone, Debug)]
pub struct Publish {
    /// The edge.
    pub edge: Edge,
    /// The last token of the subject.
    pub token: Token,
    /// The payload.
    pub payload: Bytes,
    /// Inputs that it was made from.
    pub causes: Vec<Ticket>,
    /// Comes back in [`Event::Stored`].
    pub tag: Option<u64>,
}

/// A core NATS message: soft state.
#[derive(Clone, Debug)]
pub struct Send {
    /// The edge.
    pub edge: Edge,
    /// The last token of the subject.
    pub token: Token,
    /// The payload.
    pub payload: Bytes,
}

/// What a step brings about.
#[derive(Debug)]
pub struct Output<E> {
    /// Messages for streams.
    pub publishes: Vec<Publish>,
    /// Core NATS messages, sent after the changes are committed.
    pub sends: Vec<Send>,
    /// Replies to inputs that were requests.
    pub replies: Vec<(Ticket, Bytes)>,
    /// Inputs from which nothing more will be made.
    pub finished: Vec<Ticket>,
    /// Work for the shell.
    pub effects: Vec<E>,
    /// Changes of state.
    pub changes: Changes,
    /// More messages for streams, made from no input, are under way: what is published may wait a
    /// moment for them. Else nothing waits any longer. Only a stage without state says so.
    pub more_soon: bool,
}

impl<E> Default for Output<E> {
    fn default() -> Self {
        Output {
            publishes: Vec::new(),
            sends: Vec::new(),
            replies: Vec::new(),
            finished: Vec::new(),
            effects: Vec::new(),
            changes: Changes::default(),
            more_soon: false,
        }
    }
}

/// What a step brings about, without its effects: what the settlement takes.
#[derive(Debug, Default)]
pub struct Step {
    /// Messages for streams.
    pub publishes: Vec<Publish>,
    /// Core NATS messages, sent after the changes are committed.
    pub sends: Vec<Send>,
    /// Replies to inputs that were requests.
    pub replies: Vec<(Ticket, Bytes)>,
    /// Inputs from which nothing more will be made.
    pub finished: Vec<Ticket>,
    /// Changes of state.
    pub changes: Changes,
    /// More of what is made from no input is under way.
    pub more_soon: bool,
}

impl<E> Output<E> {
    /// Divides what is settled from the work for the shell, which begins when the rest is settled.
    pub fn split(self) -> (Step, Vec<E>) {
        let Output {
            publishes,
            sends,
            replies,
            finished,
            effects,
            changes,
            more_soon,
        } = self;
        (
            Step {
                publishes,
                sends,
                replies,
                finished,
                changes,
                more_soon,
            },
            effects,
        )
    }

    /// Publishes a message made from the inputs in `causes`.
    pub fn publish<M>(&mut self, token: Token, message: &M, causes: Vec<Ticket>)
    where
        M: EdgeMessage
            + for<'a> rkyv::Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Rancor>>,
    {
        self.publishes.push(Publish {
            edge: M::EDGE,
            token,
            payload: encode(message),
            causes,
            tag: None,
        });
    }

    /// Publishes a message made from the inputs in `causes`, and asks for [`Event::Stored`] with
    /// `tag` when it is in its stream.
    pub fn publish_tagged<M>(&mut self, token: Token, message: &M, causes: Vec<Ticket>, tag: u64)
    where
        M: EdgeMessage
            + for<'a> rkyv::Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Rancor>>,
    {
        let payload = encode(message);
        self.publishes.push(Publish {
            edge: M::EDGE,
            token,
            payload,
            causes,
            tag: Some(tag),
        });
    }

    /// Sends a core NATS message.
    pub fn send<M>(&mut self, token: Token, message: &M)
    where
        M: EdgeMessage
            + for<'a> rkyv::Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Rancor>>,
    {
        self.sends.push(Send {
            edge: M::EDGE,
            token,
            payload: encode(message),
        });
    }

    /// Replies to an input that was a request.
    pub fn reply<M>(&mut self, ticket: Ticket, message: &M)
    where
        M: EdgeMessage
            + for<'a> rkyv::Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Rancor>>,
    {
        self.replies.push((ticket, encode(message)));
    }

    /// Nothing more will be made from this input.
    pub fn finish(&mut self, ticket: Ticket) {
        self.finished.push(ticket);
    }

    /// Asks the shell for work.
    pub fn effect(&mut self, effect: E) {
        self.effects.push(effect);
    }

    /// Sets a key of the state.
    pub fn put(&mut self, table: Table, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.changes.put(table, key, value);
    }

    /// Removes a key of the state.
    pub fn remove(&mut self, table: Table, key: impl Into<Vec<u8>>) {
        self.changes.remove(table, key);
    }
}

/// A number a core keeps, for status and metrics: a total when its name ends in `_total`, else a
/// level.
pub type Count = (&'static str, u64);

/// One of the numbers of a row that has a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledCount {
    /// A row of the table of the stage.
    pub count: &'static str,
    /// The label of that row.
    pub label: &'static str,
    /// The value of the label.
    pub label_value: String,
    /// The number.
    pub value: u64,
}

/// What a core tells of a partition of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Its id.
    pub partition: u16,
    /// URLs that it knows.
    pub urls: u64,
    /// What it has of them, in bytes: of what, each stage says.
    pub bytes: u64,
    /// URLs that it has dealt with since the crawl began.
    pub handled: u64,
    /// It is too large, and cannot be split: most of its URLs are of one host.
    pub is_of_one_host: bool,
}

/// The deterministic heart of a stage.
pub trait Core {
    /// Messages of its input edges.
    type Input;
    /// Work that waits, done by the shell.
    type Effect;
    /// What that work brings.
    type Answer;

    /// Reads a payload of an input edge.
    fn decode(edge: Edge, payload: &[u8]) -> Result<Self::Input, Undecodable>;

    /// Applies one event; never blocks on anything but its own store.
    fn step(
        &mut self,
        now: Timestamp,
        event: Event<Self::Input, Self::Answer>,
        out: &mut Output<Self::Effect>,
    ) -> Result<(), StoreError>;

    /// All that its steps have changed is committed. Several steps may be in one commit.
    ///
    /// # Errors
    /// What is not used any more since then cannot be removed.
    fn committed(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// When to wake it although nothing came, if ever.
    fn wake_at(&self) -> Option<Timestamp>;

    /// Returns whether it takes more input now; what waits in the stream is the back-pressure.
    fn wants_input(&self) -> bool {
        true
    }

    /// Returns whether it holds nothing that a drain should wait for.
    fn is_idle(&self) -> bool {
        true
    }

    /// The lease on its partitions had lapsed and was taken again: what it gives out from now on
    /// carries this epoch.
    fn owned_since(&mut self, _epoch: u64) {}

    /// Partitions of its stage, or of one that it asks, have other owners.
    fn owners(&mut self, _stage: StageName, _owners: &Owners) {}

    /// Operators ask this of the crawl from now on. The core acts by it with its next step, which
    /// follows at once.
    fn orders(&mut self, _orders: &Orders) {}

    /// The configuration is this from now on. Returns whether it goes by it: if not, it is opened
    /// anew.
    fn configure(&mut self, _pipeline: &Pipeline) -> bool {
        false
    }

    /// Returns whether all has come that belongs to a partition of its own that was split, and not
    /// to one of its halves.
    fn has_all(&self, _partition: u16) -> bool {
        true
    }

    /// A partition of its own that has grown too large, if there is one: it is to be split.
    ///
    /// # Errors
    /// Its store cannot be read.
    fn overfull(&mut self) -> Result<Option<u16>, StoreError> {
        Ok(None)
    }

    /// What it tells of each of its partitions.
    fn figures(&self) -> Vec<Figures> {
        Vec::new()
    }

    /// What it keeps of its partitions beside the store's tables: what moves, and is handed to the
    /// next core of the process.
    fn beside(&mut self) -> Option<&mut dyn Beside> {
        None
    }

    /// The same, when it works no more: nobody waits for what it has not finished.
    fn into_beside(self) -> Option<Box<dyn Beside>>
    where
        Self: Sized,
    {
        None
    }

    /// What it knows of a canonical URL, in a line for an operator; none when that is nothing.
    /// Changes nothing.
    ///
    /// # Errors
    /// Its store cannot be read.
    fn why(&self, _now: Timestamp, _url: &str) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// What it knows of the page of a canonical URL, if it plans visits of it. Changes nothing.
    ///
    /// # Errors
    /// Its store cannot be read.
    fn known(&self, _now: Timestamp, _url: &str) -> Result<Option<KnownTold>, StoreError> {
        Ok(None)
    }

    /// The servers that it has of those that an operator asks for, with what waits at them; none of
    /// a stage where nothing waits. Changes nothing.
    ///
    /// # Errors
    /// Its store cannot be read.
    fn queue(
        &self,
        _now: Timestamp,
        _question: &QueueQuestion,
    ) -> Result<Option<Vec<ServerQueue>>, StoreError> {
        Ok(None)
    }

    /// What it counted of the URLs that ended, and so many of the hosts and servers that stand out,
    /// on from a place that an earlier answer gave; none of a stage where no URL ends. Changes
    /// nothing, and costs a bounded time.
    ///
    /// # Errors
    /// Its store cannot be read.
    fn report(
        &self,
        _now: Timestamp,
        _hosts: usize,
        _after: Option<&[u8]>,
    ) -> Result<Option<Reported>, StoreError> {
        Ok(None)
    }

    /// Counts the URLs that wait and are selected, on from a place that an earlier answer gave;
    /// none of a stage where nothing waits. Changes nothing, and costs a bounded time.
    ///
    /// # Errors
    /// Its store cannot be read.
    fn count(
        &self,
        _selector: &Selector,
        _after: Option<&[u8]>,
    ) -> Result<Option<Counted>, StoreError> {
        Ok(None)
    }

    /// How far it has come with the drop of this id; none of a stage where nothing waits.
    fn drop_progress(&self, _id: u64) -> Option<DropProgress> {
        None
    }

    /// Why it does not do its work although it runs, if it does not: the process is not ready then.
    fn hindrance(&self, _now: Timestamp) -> Option<String> {
        None
    }

    /// Traps whose URLs it keeps back, those with most first.
    fn traps(&self) -> Vec<Trap> {
        Vec::new()
    }

    /// Its numbers. Each has a row in the table of its stage (`Stage::metrics`).
    fn counts(&self) -> Vec<Count>;

    /// Its numbers by a label, such as the topic; rows of the same table.
    fn labelled_counts(&self) -> Vec<LabelledCount> {
        Vec::new()
    }

    /// How long what it waits for took; rows of the same table.
    fn histograms(&self) -> Vec<(&'static str, &Histogram)> {
        Vec::new()
    }
}

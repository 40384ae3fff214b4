//! Settlement: the delivery rule, as one synchronous state machine.
//!
//! ```text
//!  message, request ─┐                    ┌─▶ commit ─▶ publish, send, reply, ack      (with state)
//!  stored, refused   ├─▶ Settlement ─────┤
//!  connection, lease │   actions, in order └─▶ publish ─▶ stored ─▶ ack               (without)
//!  time             ─┘
//! ```
//!
//! In: what happens to a process, as method calls with the time as an argument. Out: [`Action`]s,
//! which its driver carries out in their order, before it steps the core again; the stage loop does
//! so with a real broker, the simulation with one in memory. With state the steps for what is there
//! at the moment are a batch, settled by one commit. The machine knows no broker and no
//! clock. `H` is what an answer to an input is sent to: its reply subject, or whatever stands for
//! it in the simulation.
//!
//! Invariants:
//! - An input of a stream is acked only when what was made from it cannot be lost any more: without
//!   state, when all its outputs are in their streams; with state, when its position, the changes
//!   and the outputs are in one commit, with those of its whole batch.
//! - Nothing is committed after the end of the lease on the instance's partitions.
//! - What is published is published again, under the same id, until its stream has it.
//! - Nothing is published after a reconnect before the streams were looked at, and nothing takes
//!   effect when one of them is shorter than it was ([`Rewound`]).

mod applied;
mod aside;
mod batch;
mod deaths;
mod frames;
mod latencies;
mod outbox;
mod partition_lease;
mod patience;
mod positions;
mod rewind;
mod state;
mod tickets;
mod unstored;
mod upkeep;
mod vitals;

pub use applied::Applied;
pub use deaths::{Deaths, InputName};
pub use latencies::BEGUN;
pub use latencies::{Stamps, Took};
pub use positions::{InputAt, are_divided, divide_positions, positions_of, settled_count};
pub use rewind::{Expected, PubAck, Rewound, StreamLook};
pub use state::{LOOP, OUTBOX, USED, forget_positions, next_epoch, stored_epoch};
pub use unstored::{Outgoing, Refused, Unstored};

use super::core::{Send, Step, Ticket};
use super::store::{Changes, Store, StoreError, Uncommitted};
use batch::{AfterCommit, Batch};
use bytes::Bytes;
use foldhash::{HashMap, HashMapExt as _};
use frames::Frames;
use latencies::Latencies;
use outbox::{Key, Outbox};
use partition_lease::PartitionLease;
use positions::Positions;
use rhumb_config::Pipeline;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Edge;
use rhumb_wire::topology::Token;
use rhumb_wire::{LANES, Subjects, lane_among};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tickets::{Held, Tickets};

/// Messages on their way into streams above which no input is taken.
const PUBLISHES_MAX: usize = 1000;
/// The same for their bytes.
const PUBLISH_BYTES_MAX: usize = 64 << 20;
/// A stream that has neither stored what is published nor said that it is full for longer makes the
/// process not ready.
const PUBLISH_LATE: Duration = Duration::from_secs(10);

/// What the driver has to do, in the order in which the actions come.
#[derive(Debug)]
pub enum Action<H> {
    /// Commit these changes; then call [`Settlement::committed`], which gives what follows the
    /// commit.
    Commit(Changes),
    /// Publish the message with this token ([`Settlement::outgoing`]); its stream's answer goes to
    /// [`Settlement::stored_at`] or [`Settlement::refused`].
    Publish(u64),
    /// Send a core NATS message.
    Send(Send),
    /// Reply to a request.
    Reply(H, Bytes),
    /// Tell the broker that an input is settled.
    Ack(H),
    /// Ask the broker to deliver an input again.
    Nak(H),
    /// Tell the broker that an input is still in hand.
    Extend(H),
}

/// The lease on the instance's partitions is over; only a fresh start from the store is right now.
#[derive(Debug, thiserror::Error)]
#[error("the lease on the partitions of this instance is over; nothing was written after it")]
pub struct LeaseOver;

/// Whose inputs and outputs are settled.
#[derive(Clone, Debug)]
pub struct Life {
    /// The stage.
    pub stage: &'static str,
    /// Ordinal of the instance.
    pub instance: u16,
    /// A number that no other life of any process has.
    pub life: u64,
    /// Epoch of the ownership; 0 for a stage without state.
    pub epoch: u64,
}

/// What waits until a stream has a message.
#[derive(Debug, Default)]
struct Waits {
    /// Inputs that the message was made from.
    causes: Vec<Ticket>,
    /// What the core asked to be told: of a frame, of each of its messages that it asked for.
    tags: Vec<u64>,
    /// The message's row in the outbox.
    row: Option<Key>,
}

/// The inputs that a process has in hand, its outputs that no stream has yet, and what is due
/// between them.
pub struct Settlement<H> {
    life: Life,
    subjects: Arc<Subjects>,
    /// When the streams that inputs come from were created, in nanoseconds since 1970.
    streams: HashMap<Edge, i64>,
    positions: Positions,
    tickets: Tickets<H>,
    /// Of a stage without state: what waits to share a frame.
    frames: Frames,
    unstored: Unstored<Waits>,
    stored: rewind::Stored,
    /// A stream is rewound: nothing takes effect any more.
    has_stopped: bool,
    /// Of a stage with state.
    outbox: Option<Outbox>,
    /// Of a stage with state: as long as it is held, the stage may commit.
    lease: PartitionLease,
    actions: VecDeque<Action<H>>,
    /// Inputs of a stage with state that lie in the dead letters: acked when their positions are
    /// committed.
    put_aside: Vec<Held<H>>,
    latencies: Latencies,
    /// Of a stage with state: the steps that are settled by the next commit, and what they have
    /// changed.
    batch: Batch<H>,
    uncommitted: Arc<Uncommitted>,
    /// What follows the commit under way.
    after_commit: Option<AfterCommit<H>>,
    /// How many instances take what this process publishes into lanes.
    takers: u16,
    /// Messages that were made from no input.
    uncaused: u64,
    received: u64,
    /// Of batches.
    commits: u64,
    published: u64,
    repeated: u64,
    dead: u64,
    parked: u64,
    passed_over: u64,
}

impl<H: Clone> Settlement<H> {
    /// The settlement of a life that begins. What an earlier life committed and may not have
    /// published is published first. `uncommitted`: of the overlay that the core reads its store
    /// through.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(
        life: Life,
        subjects: Arc<Subjects>,
        pipeline: &Pipeline,
        store: Option<&dyn Store>,
        uncommitted: Arc<Uncommitted>,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let stored = rewind::Stored::open(pipeline, &subjects, store)?;
        let mut this = Settlement {
            subjects,
            streams: HashMap::new(),
            positions: Positions::new(pipeline),
            tickets: Tickets::default(),
            frames: Frames::default(),
            unstored: Unstored::default(),
            stored,
            has_stopped: false,
            outbox: None,
            lease: PartitionLease::new(pipeline.ownership_lease),
            actions: VecDeque::new(),
            put_aside: Vec::new(),
            latencies: Latencies::default(),
            batch: Batch::default(),
            uncommitted,
            after_commit: None,
            takers: LANES,
            uncaused: 0,
            received: 0,
            commits: 0,
            published: 0,
            repeated: 0,
            dead: 0,
            parked: 0,
            passed_over: 0,
            life,
        };
        if let Some(store) = store {
            let (outbox, left) =
                Outbox::open(store, this.life.stage, this.life.instance, this.life.epoch)?;
            this.outbox = Some(outbox);
            for (row, message) in left {
                this.publish(
                    now,
                    message,
                    Waits {
                        row: Some(row),
                        ..Waits::default()
                    },
                );
            }
        }
        Ok(this)
    }

    /// Reads how far earlier lives came in the stream of an edge, by the consumers of these
    /// partitions, or by the one of all (none). A stream that was created at another time than
    /// theirs is another one, of which nothing was read yet; inputs in hand from the earlier one
    /// have no place in it. Returns whether it is another one. A stage without state has no
    /// positions.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn adopt(
        &mut self,
        store: Option<&dyn Store>,
        edge: Edge,
        consumers: &[Option<u16>],
        created: i64,
    ) -> Result<bool, StoreError> {
        let is_made_anew = self
            .streams
            .insert(edge, created)
            .is_some_and(|before| before != created);
        if is_made_anew {
            self.tickets.forget_stream(edge);
            self.put_aside
                .retain(|held| held.position.is_none_or(|at| at.edge != edge));
        }
        let mut is_another = is_made_anew;
        for &partition in consumers {
            if let Some(store) = store {
                is_another |= self.positions.adopt(store, (edge, partition), created)?;
            }
        }
        Ok(is_another)
    }

    /// The next thing to do, if there is one.
    pub fn next_action(&mut self) -> Option<Action<H>> {
        self.actions.pop_front().filter(|_| !self.has_stopped)
    }

    /// The message of an [`Action::Publish`]; none when its stream has it meanwhile, or when the
    /// connection broke: then it is published again after the reconnect.
    pub fn outgoing(&self, token: u64) -> Option<&Outgoing> {
        self.unstored
            .message(token)
            .filter(|_| !self.unstored.is_disconnected())
    }

    // What happens to inputs.

    /// A message of a stream came, with its stamps, and so many payloads: more than one only to a
    /// stage without state. Returns the tickets that stand for them, or none when it was applied
    /// before: then it is acked again, after the commit of the batch under way.
    ///
    /// # Errors
    /// The stream is rewound.
    pub fn message(
        &mut self,
        now: Timestamp,
        at: InputAt,
        stamps: impl Into<Stamps>,
        payloads: usize,
        answer_to: H,
    ) -> Result<Option<Vec<Ticket>>, Rewound> {
        debug_assert!(
            payloads == 1 || self.outbox.is_none(),
            "a position counts messages, not payloads"
        );
        let stamps = stamps.into();
        match self.positions.given(at, stamps.stored) {
            Ok(false) => {
                let Ticket(first) = self.tickets.take(answer_to, at, stamps, payloads, now);
                Ok(Some((first..first + payloads as u64).map(Ticket).collect()))
            }
            Ok(true) => {
                self.repeated += 1;
                self.ack_repeat(answer_to);
                Ok(None)
            }
            Err(how) => Err(self.is_rewound(self.stream(at.edge), how)),
        }
    }

    /// A core NATS message came, with the place for a reply when it is a request. Returns the
    /// ticket that stands for it.
    pub fn request(&mut self, reply_to: Option<H>, now: Timestamp) -> Ticket {
        self.tickets.take_soft(reply_to, now)
    }

    /// The core has taken an input: counts it.
    pub fn taken(&mut self) {
        self.received += 1;
    }

    /// What a step brings beside outputs for streams.
    fn carry_on(&mut self, now: Timestamp, step: Step) {
        self.actions
            .extend(step.sends.into_iter().map(Action::Send));
        for (ticket, payload) in step.replies {
            if let Some(reply_to) = self.tickets.answer_to(ticket) {
                self.actions.push_back(Action::Reply(reply_to, payload));
            }
        }
        for ticket in step.finished {
            self.finish(now, ticket);
            self.release(now, ticket);
        }
    }

    /// One thing fewer keeps an input in hand; the last one settles it.
    fn release(&mut self, now: Timestamp, ticket: Ticket) {
        let Some(held) = self.tickets.release(ticket) else {
            return;
        };
        let Some(at) = held.position else { return };
        self.latencies.settled(now, at.edge, held.stamps);
        if self.outbox.is_some() && !self.positions.is_applied(at) {
            self.put_aside.push(held);
        } else {
            self.actions.extend(held.answer_to.map(Action::Ack));
        }
    }

    // What happens to outputs.

    /// So many instances take what this process publishes into lanes: they share the lanes, and a
    /// lane that nobody has alone would only divide frames.
    pub fn lanes_are_shared_by(&mut self, instances: u16) {
        self.takers = instances;
    }

    fn subject(&self, edge: Edge, token: &Token) -> String {
        subject(&self.subjects, self.takers, edge, token)
    }

    fn publish(&mut self, now: Timestamp, message: Outgoing, waits: Waits) {
        let token = self.unstored.insert(now, message, waits);
        self.actions.push_back(Action::Publish(token));
    }

    /// A stream has a message: the inputs that waited for it come closer to their acks, its row
    /// leaves the outbox with the next commit. Returns the tags that the core is to be told.
    fn stored(&mut self, now: Timestamp, token: u64) -> Vec<u64> {
        let Some(Waits { causes, tags, row }) = self.unstored.stored(now, token) else {
            return Vec::new();
        };
        if let (Some(outbox), Some(row)) = (&mut self.outbox, row) {
            outbox.stored(row);
        }
        for ticket in causes {
            self.release(now, ticket);
        }
        tags
    }

    /// A stream refused a message: it is published again a little later.
    pub fn refused(&mut self, now: Timestamp, token: u64, why: Refused) {
        self.unstored.refused(now, token, why);
    }

    /// The connection to the broker stands again: all that is on its way is published again, since
    /// answers that were on theirs when the old one broke never come.
    pub fn reconnected(&mut self, now: Timestamp) {
        self.actions.extend(
            self.unstored
                .reconnected(now)
                .into_iter()
                .map(Action::Publish),
        );
    }

    // Ownership and time.

    /// The lease had lapsed and was taken again: what is committed from now on belongs to this
    /// epoch, and its messages have other ids than those of whoever held the lease in between.
    pub fn owned_since(&mut self, epoch: u64) {
        self.life.epoch = epoch;
        if let Some(outbox) = &mut self.outbox {
            outbox.begin(epoch);
        }
    }

    /// The lease on the instance's partitions is held until then.
    pub fn leased(&mut self, until: Timestamp) {
        self.lease.leased(until);
    }

    /// Says, once, that the process hears again after a time in which nothing reached it, as the
    /// gap between two renewals of its lease shows. The core is to be told before anything else
    /// ([`Event::HearsAgain`]).
    ///
    /// [`Event::HearsAgain`]: super::core::Event::HearsAgain
    pub fn hears_again(&mut self, now: Timestamp) -> bool {
        self.lease.hears_again(now)
    }

    /// The time to step the core with. With state it is never later than the lease is held, as far
    /// as the core knows: time in which nothing could be heard begins with
    /// [`hears_again`](Self::hears_again).
    pub fn clock(&self, now: Timestamp) -> Timestamp {
        match &self.outbox {
            Some(_) => self.lease.clock(now),
            None => now,
        }
    }

    /// Returns whether the core may be stepped: always without state, else while the lease is held.
    pub fn may_step(&self, now: Timestamp) -> bool {
        self.outbox.is_none() || self.lease.is_held(now)
    }

    /// Returns whether more input may be taken: what waits in the stream is the back-pressure.
    pub fn takes_input(&self, now: Timestamp) -> bool {
        self.may_step(now) && !self.is_choked()
    }

    /// Returns whether too much is on its way into streams, or will be after the next commit.
    fn is_choked(&self) -> bool {
        let publishes = self.unstored.len() + self.batch.publishes();
        let bytes = self.unstored.bytes() + self.tickets.gathered_bytes();
        publishes >= PUBLISHES_MAX || bytes >= PUBLISH_BYTES_MAX
    }

    /// When [`due`](Self::due) has something to do, if ever.
    pub fn due_at(&self) -> Option<Timestamp> {
        self.unstored
            .due_at()
            .into_iter()
            .chain(self.frames.due_at())
            .min()
    }

    /// Publishes what has waited long enough for others, and again what has waited too long for its
    /// stream's answer.
    pub fn due(&mut self, now: Timestamp) {
        self.publish_due_frames(now);
        self.actions
            .extend(self.unstored.overdue(now).into_iter().map(Action::Publish));
    }

    /// The process ends and cannot settle what it has in hand: the broker is to deliver it again at
    /// once. Nothing else that was to be done is done: it may stand behind a commit that failed.
    pub fn give_back(&mut self) {
        self.actions.clear();
        self.actions
            .extend(self.tickets.of_streams().into_iter().map(Action::Nak));
    }

    /// Consumers whose positions have many gaps: an instance that owns some of a stream's
    /// partitions sees gaps between its messages, and how far the broker has all acks closes them
    /// ([`acked_up_to`](Self::acked_up_to)).
    pub fn gapped(&self) -> Vec<(Edge, Option<u16>)> {
        self.positions.gapped()
    }

    /// The broker has all acks of a consumer up to this sequence.
    pub fn acked_up_to(&mut self, consumer: (Edge, Option<u16>), sequence: u64) {
        self.positions.raise(consumer, sequence);
    }

    /// The creation time of the stream of an edge, if inputs come from there.
    pub fn stream_of(&self, edge: Edge) -> Option<i64> {
        self.streams.get(&edge).copied()
    }
}

/// The subject of a message, when so many instances share the lanes.
fn subject(subjects: &Subjects, takers: u16, edge: Edge, token: &Token) -> String {
    match *token {
        Token::Lane(lane) => subjects.of(edge, &Token::Lane(lane_among(takers, lane))),
        Token::InLane { partition, lane } => subjects.of(
            edge,
            &Token::InLane {
                partition,
                lane: lane_among(takers, lane),
            },
        ),
        _ => subjects.of(edge, token),
    }
}

#[cfg(test)]
pub(crate) mod tests;

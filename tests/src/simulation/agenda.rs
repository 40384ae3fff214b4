//! Agenda: what happens when. Simulated time goes from one entry to the next; entries of the same
//! time are taken in the order in which they were made.

use super::broker::{Delivery, Outgoing, SoftMessage};
use super::plan::Micros;
use super::web::ConnectionId;
use rhumb_config::scope_entry::ScopeEntry;
use rhumb_partition::OwnersTable;
use rhumb_stage::settlement::PubAck;
use rhumb_wire::message::Edge;
use rhumb_wire::topology::{Source, StageName};
use scheduler::quota::ledger::ClaimAnswer;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// An instance of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) stage: StageName,
    pub(crate) instance: u16,
}

impl Place {
    /// The edges whose partitions the stage owns.
    pub(crate) fn owned_edges(self) -> impl Iterator<Item = Edge> {
        let inputs = self.stage.row().inputs.iter();
        inputs.filter_map(|source| match source {
            Source::Owned(edge) => Some(*edge),
            _ => None,
        })
    }
}

/// A process: an instance and the number of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) place: Place,
    pub(crate) life: u64,
}

/// Work that a core asked for and waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EffectId {
    pub(crate) process: Process,
    pub(crate) number: u64,
}

/// What work brought.
#[derive(Debug)]
pub(crate) enum Answer {
    HostSplitter(host_splitter::effect::Answer),
    Resolver(resolver::effect::Answer),
    Fetcher(fetcher::effect::Answer),
    Parser(parser::content::Answer),
    Scheduler(ClaimAnswer),
}

/// What reaches a process.
#[derive(Debug)]
pub(crate) enum Input {
    Delivery(Delivery),
    Soft(SoftMessage),
    Answer(u64, Answer),
    /// The PubAck of a publish, by its token.
    Stored(u64, PubAck),
    /// The stream is full: it refused the publish with this token.
    Refused(u64),
    /// The process sees that its connection to the broker is gone.
    Disconnected,
    /// The connection to the broker stands again.
    Reconnected,
    /// The lease is renewed, counted from when that was asked for, and was taken under this
    /// revision.
    Leased {
        asked: Micros,
        taken: u64,
    },
    /// Another process holds the lease.
    LeaseLost,
    /// It may be time for something: the core's wish, a publish, upkeep, the lease.
    Tick,
    /// The owners of a stage's partitions, as they were a while ago.
    Owners(StageName, OwnersTable),
    /// A connect has ended.
    Connected(ConnectionId),
}

/// What happens to instances from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incident {
    /// Dies between two steps.
    Crash,
    /// Dies in its next step that brings something about: after the commit, and after so many of
    /// the messages.
    CrashInStep { after: usize },
    /// Stands still (a stopped process, a machine that sleeps).
    Pause { micros: Micros },
    /// Has no connection to the broker.
    Cut { micros: Micros },
    /// Is cut off until its lease has lapsed, and another process takes the lease for a while.
    Usurped { micros: Micros },
    /// Is started again.
    Restart,
    /// A pause or a cut is over.
    Resume,
}

/// An entry.
#[derive(Debug)]
pub(crate) enum Happening {
    /// Something reaches a process; nothing when that life is over.
    To(Process, Input),
    /// A publish reaches the broker.
    Publish {
        from: Process,
        token: u64,
        message: Outgoing,
    },
    /// An input is to be delivered again at once.
    Nak {
        edge: Edge,
        consumer: usize,
        sequence: u64,
    },
    /// An ack reaches the broker.
    Ack {
        edge: Edge,
        consumer: usize,
        sequence: u64,
    },
    /// A sign that a process still has an input in hand reaches the broker.
    Extend {
        edge: Edge,
        consumer: usize,
        sequence: u64,
    },
    /// A delivery has not been acked in time, unless it has.
    Overdue {
        edge: Edge,
        consumer: usize,
        sequence: u64,
        delivery: u64,
    },
    /// URLs are injected: a message from outside is stored.
    Injection(Outgoing),
    /// A fault, or its repair.
    Incident(Place, Incident),
    /// The broker is killed and comes back: every connection breaks, and the last acks are
    /// forgotten.
    BrokerRestart { micros: Micros },
    /// The broker is restored from a copy so old, and comes back: first to some processes, then to
    /// others.
    BrokerRestored { age: Micros },
    /// The wall clock of a place's machine jumps, by so many nanoseconds.
    ClockStep(Place, i64),
    /// Another number of instances of a stage is wanted.
    Scaling(StageName, u16),
    /// The partition of a hash is to be split.
    Split(u64),
    /// The scope bucket takes an entry.
    Join(EffectId, ScopeEntry),
}

struct Entry {
    at: Micros,
    order: u64,
    happening: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Who sends to whom over one connection: what goes over it arrives in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Line {
    ToBroker(Process),
    FromBroker(Process),
    Soft(Place, Place),
}

/// What happens when.
#[derive(Default)]
pub(crate) struct Agenda {
    entries: BinaryHeap<Reverse<Entry>>,
    order: u64,
    /// When the last message of each line arrives.
    lines: HashMap<Line, Micros>,
}

impl Agenda {
    pub(crate) fn at(&mut self, at: Micros, happening: Happening) {
        self.order += 1;
        self.entries.push(Reverse(Entry {
            at,
            order: self.order,
            happening,
        }));
    }

    /// Not before what went over the same line earlier.
    pub(crate) fn over(&mut self, line: Line, at: Micros, happening: Happening) {
        let last = self.lines.entry(line).or_insert(0);
        *last = at.max(*last);
        let at = *last;
        self.at(at, happening);
    }

    pub(crate) fn next(&mut self) -> Option<(Micros, Happening)> {
        self.entries
            .pop()
            .map(|Reverse(entry)| (entry.at, entry.happening))
    }
}

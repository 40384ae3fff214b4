//! How far a stage has come in its streams: which of their messages it has applied.
//!
//! Invariant: a sequence is in a position only when the commit that applied the message holds the position, too.

use super::Applied;
use super::rewind::{Reach, StreamLook};
use super::state::{LOOP, POSITION, SETTLED, UNCOUNTED};
use crate::config::Pipeline;
use crate::message::Edge;
use crate::stage::store::{Changes, Store, StoreError};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Ranges above a position's low-water mark from which the broker is asked how far acks reach.
const RANGES_MAX: usize = 256;

/// How far a stateful stage has come in a stream.
struct Position {
    /// The stream's creation, in nanoseconds since 1970: a position means nothing in another stream.
    created: i64,
    applied: Applied,
    /// How many of the stream's messages this instance applied or put aside. None where nobody counted from the beginning:
    /// in a state of an earlier build, and since a loss was accepted.
    settled: Option<u64>,
    /// How far the stage was given messages.
    reach: Reach,
    /// The same when the connection broke last, or when this life began.
    before: Reach,
}

/// First byte of a stored position that has a reach. One without it, of an earlier build, is a multiple of 16 bytes long.
const WITH_REACH: u8 = 1;

/// The positions of a stage with state (none without), and for how long its streams wait for acks.
pub(super) struct Positions {
    by_edge: HashMap<Edge, Position>,
    ack_waits: HashMap<Edge, Duration>,
}

impl Positions {
    pub(super) fn new(pipeline: &Pipeline) -> Self {
        let ack_wait = |edge| Some((edge, pipeline.edges.stream(edge)?.ack_wait));
        Positions { by_edge: HashMap::new(), ack_waits: Edge::ALL.into_iter().filter_map(ack_wait).collect() }
    }

    pub(super) fn ack_wait(&self, edge: Edge) -> Duration {
        // A further edge is kept as the documents are.
        let edge = if edge.row().is_none() { Edge::Documents } else { edge };
        self.ack_waits.get(&edge).copied().unwrap_or(Duration::MAX)
    }

    /// Reads the stored position; in a stream of another creation time nothing was read yet. Says whether it is such a one.
    pub(super) fn adopt(&mut self, store: &dyn Store, edge: Edge, created: i64) -> Result<bool, StoreError> {
        let stored = store.get(LOOP, key(edge).as_bytes())?.as_deref().and_then(read);
        let is_another = stored.as_ref().is_some_and(|position| position.created != created);
        let position = match stored.filter(|_| !is_another) {
            Some(position) => {
                let counted = store.get(LOOP, settled_key(edge).as_bytes())?;
                let counted = counted.as_deref().and_then(read_settled).filter(|(of, _)| *of == created);
                Position { settled: counted.map(|(_, settled)| settled), ..position }
            }
            None => {
                let counts = store.get(LOOP, UNCOUNTED.as_bytes())?.is_none();
                let (applied, reach, before) = Default::default();
                Position { created, applied, settled: counts.then_some(0), reach, before }
            }
        };
        self.by_edge.insert(edge, position);
        Ok(is_another)
    }

    /// Takes in that a message was given. Says whether it was applied before.
    ///
    /// # Errors
    /// It shows that the stream is rewound: how.
    pub(super) fn given(&mut self, edge: Edge, sequence: u64, stamp: i64) -> Result<bool, String> {
        let Some(position) = self.by_edge.get_mut(&edge) else { return Ok(false) };
        let Position { applied, reach, before, .. } = position;
        if let Some(reach) = [*before, *reach].iter().find(|reach| reach.is_before(sequence, stamp)) {
            return Err(format!("message {sequence} is newer than the one that was {}", reach.sequence));
        }
        reach.extend(sequence, stamp);
        Ok(applied.contains(sequence))
    }

    /// The connection is gone: what is given after it must not be newer than what lay below.
    pub(super) fn disconnected(&mut self) {
        self.by_edge.values_mut().for_each(|position| position.before = position.reach);
    }

    /// Says whether a message was applied, or put aside, in a commit.
    pub(super) fn is_applied(&self, edge: Edge, sequence: u64) -> bool {
        self.by_edge.get(&edge).is_some_and(|position| position.applied.contains(sequence))
    }

    /// How many messages of each edge were applied or put aside since the stream was created, where that is known.
    pub(super) fn settled(&self) -> impl Iterator<Item = (Edge, u64)> {
        self.by_edge.iter().filter_map(|(&edge, position)| Some((edge, position.settled?)))
    }

    /// The edges that have a position.
    pub(super) fn edges(&self) -> impl Iterator<Item = Edge> {
        self.by_edge.keys().copied()
    }

    /// For each edge the highest sequence that the stage was given, and the highest that its stream must have given out.
    pub(super) fn reaches(&self) -> impl Iterator<Item = (Edge, u64, u64)> {
        self.by_edge.iter().map(|(&edge, Position { applied, reach, .. })| {
            (edge, reach.sequence, reach.sequence.max(applied.highest()))
        })
    }

    /// Says how a look at a stream shows that it is another one, or has other messages.
    pub(super) fn look(&self, edge: Edge, look: &StreamLook) -> Result<(), String> {
        let Some(position) = self.by_edge.get(&edge) else { return Ok(()) };
        if position.created != look.created {
            return Err("it was deleted and made anew".to_owned());
        }
        let given = look.expected.given;
        match look.at_given {
            Some(stamp) if position.reach.is_before(given, stamp) => {
                Err(format!("message {given} is newer than the one that it was"))
            }
            _ => Ok(()),
        }
    }

    /// Adds messages to the positions, and the positions to the commit that applies the messages.
    pub(super) fn apply(&mut self, messages: impl Iterator<Item = (Edge, u64)>, changes: &mut Changes) {
        let mut moved = BTreeSet::new();
        for (edge, sequence) in messages {
            if let Some(position) = self.by_edge.get_mut(&edge) {
                if position.applied.insert(sequence) {
                    position.settled = position.settled.map(|settled| settled + 1);
                }
                moved.insert(edge);
            }
        }
        for edge in moved {
            let position = &self.by_edge[&edge];
            changes.put(LOOP, key(edge), write(position));
            if let Some(settled) = position.settled {
                changes.put(LOOP, settled_key(edge), [position.created.to_le_bytes(), settled.to_le_bytes()].concat());
            }
        }
    }

    /// Edges whose positions have more than [`RANGES_MAX`] ranges.
    pub(super) fn gapped(&self) -> Vec<Edge> {
        let gapped = self.by_edge.iter().filter(|(_, position)| position.applied.ranges() >= RANGES_MAX);
        gapped.map(|(&edge, _)| edge).collect()
    }

    /// All messages up to this one count as applied.
    pub(super) fn raise(&mut self, edge: Edge, sequence: u64) {
        if let Some(position) = self.by_edge.get_mut(&edge) {
            position.applied.raise(sequence);
        }
    }
}

/// The name under which a stage with state tells how many messages of an edge it has applied or put aside, since the stream
/// was created; none for an edge that no such stage reads.
pub const fn settled_count(edge: Edge) -> Option<&'static str> {
    match edge {
        Edge::UrlsSplit => Some("loop_settled_urls_split_total"),
        Edge::UrlsReady => Some("loop_settled_urls_ready_total"),
        Edge::FetchReports => Some("loop_settled_fetch_reports_total"),
        _ => None,
    }
}

fn key(edge: Edge) -> String {
    format!("{POSITION}{}", edge.name())
}

fn write(position: &Position) -> Vec<u8> {
    let Position { created, applied, reach, .. } = position;
    let mut bytes = vec![WITH_REACH];
    for number in [created.to_le_bytes(), reach.sequence.to_le_bytes(), reach.stamp.to_le_bytes()] {
        bytes.extend_from_slice(&number);
    }
    bytes.extend_from_slice(&applied.to_bytes());
    bytes
}

fn read(bytes: &[u8]) -> Option<Position> {
    let (reach, bytes) = match bytes.split_first()? {
        (&WITH_REACH, rest) if bytes.len() % 16 == 1 => {
            let (created, rest) = rest.split_at_checked(8)?;
            let (reach, applied) = rest.split_at_checked(16)?;
            let (sequence, stamp) = reach.split_at_checked(8)?;
            let sequence = u64::from_le_bytes(sequence.try_into().ok()?);
            let reach = Reach { sequence, stamp: i64::from_le_bytes(stamp.try_into().ok()?) };
            (reach, [created, applied].concat())
        }
        _ => (Reach::default(), bytes.to_vec()),
    };
    let (created, applied) = bytes.split_at_checked(8)?;
    let created = i64::from_le_bytes(created.try_into().ok()?);
    Some(Position { created, applied: Applied::from_bytes(applied)?, settled: None, reach, before: reach })
}

fn settled_key(edge: Edge) -> String {
    format!("{SETTLED}{}", edge.name())
}

fn read_settled(bytes: &[u8]) -> Option<(i64, u64)> {
    let (created, settled) = bytes.split_at_checked(8)?;
    Some((i64::from_le_bytes(created.try_into().ok()?), u64::from_le_bytes(settled.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_comes_back_as_it_was_and_one_of_an_earlier_build_without_a_reach() {
        let mut applied = Applied::default();
        for number in [1, 2, 5, 9] {
            applied.insert(number);
        }
        let reach = Reach { sequence: 11, stamp: -3 };
        let position = Position { created: 77, applied: applied.clone(), settled: None, reach, before: reach };
        let back = read(&write(&position)).unwrap();
        assert_eq!((back.created, &back.applied, back.reach, back.before), (77, &applied, reach, reach));
        let earlier = [77i64.to_le_bytes().to_vec(), applied.to_bytes()].concat();
        let back = read(&earlier).unwrap();
        assert_eq!((back.created, &back.applied, back.reach), (77, &applied, Reach::default()));
        for length in 0..8 {
            assert!(read(&write(&position)[..length]).is_none());
        }
    }
}

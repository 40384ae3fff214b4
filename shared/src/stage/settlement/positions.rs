//! How far a stage has come in its streams: which of their messages it has applied.
//!
//! Invariant: a sequence is in a position only when the commit that applied the message holds the position, too.

use super::Applied;
use super::state::LOOP;
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
    /// How many of the stream's messages this instance applied or put aside. None in a state that began without it.
    settled: Option<u64>,
}

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

    /// Reads the stored position; in a stream of another creation time nothing was read yet.
    pub(super) fn adopt(&mut self, store: &dyn Store, edge: Edge, created: i64) -> Result<(), StoreError> {
        let stored = store.get(LOOP, key(edge).as_bytes())?;
        let stored = stored.as_deref().and_then(read).filter(|(of, _)| *of == created);
        let counted = store.get(LOOP, settled_key(edge).as_bytes())?;
        let counted = counted.as_deref().and_then(read_settled).filter(|(of, _)| *of == created);
        let position = match stored {
            Some((_, applied)) => Position { created, applied, settled: counted.map(|(_, settled)| settled) },
            None => Position { created, applied: Applied::default(), settled: Some(0) },
        };
        self.by_edge.insert(edge, position);
        Ok(())
    }

    /// How many messages of each edge were applied or put aside since the stream was created, where that is known.
    pub(super) fn settled(&self) -> impl Iterator<Item = (Edge, u64)> {
        self.by_edge.iter().filter_map(|(&edge, position)| Some((edge, position.settled?)))
    }

    pub(super) fn is_applied(&self, edge: Edge, sequence: u64) -> bool {
        self.by_edge.get(&edge).is_some_and(|position| position.applied.contains(sequence))
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
    format!("position {}", edge.name())
}

fn write(position: &Position) -> Vec<u8> {
    let mut bytes = position.created.to_le_bytes().to_vec();
    bytes.extend_from_slice(&position.applied.to_bytes());
    bytes
}

fn read(bytes: &[u8]) -> Option<(i64, Applied)> {
    let (created, applied) = bytes.split_at_checked(8)?;
    Some((i64::from_le_bytes(created.try_into().ok()?), Applied::from_bytes(applied)?))
}

fn settled_key(edge: Edge) -> String {
    format!("settled {}", edge.name())
}

fn read_settled(bytes: &[u8]) -> Option<(i64, u64)> {
    let (created, settled) = bytes.split_at_checked(8)?;
    Some((i64::from_le_bytes(created.try_into().ok()?), u64::from_le_bytes(settled.try_into().ok()?)))
}

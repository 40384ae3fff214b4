//! How far a stage has come in its streams: which of their messages it has applied.
//!
//! An instance that owns all partitions of a stage draws from a stream by one consumer, another one
//! by a consumer for each partition. Each consumer has a position of its own: what the broker says
//! of one of them holds for its messages alone.
//!
//! Invariant: a sequence is in a position only when the commit that applied the message holds the
//! position, too.

use super::Applied;
use super::rewind::{Reach, StreamLook};
use super::state::{LOOP, POSITION, POSITIONS_END, UNCOUNTED};
use crate::store::{Changes, Store, StoreError};
use foldhash::HashMap;
use rhumb_config::Pipeline;
use rhumb_wire::message::Edge;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Ranges above a position's low-water mark from which the broker is asked how far acks reach.
const RANGES_MAX: usize = 256;
/// The same for the consumer of one partition. Other partitions' messages lie between any two of
/// its own, so nearly each is a range, and is written with every commit.
const RANGES_MAX_OF_ONE: usize = 64;

/// Where an input of a stream is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InputAt {
    /// The edge.
    pub edge: Edge,
    /// The partition whose consumer gave it; none: the one consumer of all.
    pub partition: Option<u16>,
    /// Its sequence in the stream.
    pub sequence: u64,
}

/// How far a stateful stage has come with a consumer.
#[derive(Clone, Debug)]
struct Position {
    /// The stream's creation, in nanoseconds since 1970: a position means nothing in another
    /// stream.
    created: i64,
    applied: Applied,
    /// How many messages this instance applied or put aside. None since a loss was accepted: nobody
    /// counted from the beginning.
    settled: Option<u64>,
    /// How far the stage was given messages.
    reach: Reach,
    /// The same when the connection broke last, or when this life began.
    before: Reach,
}

/// First byte of a stored position.
const VERSION: u8 = 2;
/// Stands for a number of settled messages that nobody knows.
const NOT_COUNTED: u64 = u64::MAX;

/// A consumer: its edge, and its partition unless it is the one of all.
type Consumer = (Edge, Option<u16>);

/// The positions of a stage with state (none without), and for how long its streams wait for acks.
pub(super) struct Positions {
    by_consumer: BTreeMap<Consumer, Position>,
    /// Those that the next commit writes.
    moved: BTreeSet<Consumer>,
    ack_waits: HashMap<Edge, Duration>,
}

impl Positions {
    pub(super) fn new(pipeline: &Pipeline) -> Self {
        let ack_wait = |edge| Some((edge, pipeline.edges.stream(edge)?.ack_wait));
        Positions {
            by_consumer: BTreeMap::new(),
            moved: BTreeSet::new(),
            ack_waits: Edge::ALL.into_iter().filter_map(ack_wait).collect(),
        }
    }

    pub(super) fn ack_wait(&self, edge: Edge) -> Duration {
        // A further edge is kept as the documents are.
        let edge = if edge.row().is_none() {
            Edge::Documents
        } else {
            edge
        };
        self.ack_waits.get(&edge).copied().unwrap_or(Duration::MAX)
    }

    /// Reads the stored position; in a stream of another creation time nothing was read yet. Says
    /// whether it is such a one.
    pub(super) fn adopt(
        &mut self,
        store: &dyn Store,
        (edge, partition): Consumer,
        created: i64,
    ) -> Result<bool, StoreError> {
        let stored = store
            .get(LOOP, key(edge, partition).as_bytes())?
            .as_deref()
            .and_then(read);
        let is_another = stored
            .as_ref()
            .is_some_and(|position| position.created != created);
        let position = match stored.filter(|_| !is_another) {
            Some(position) => position,
            None => {
                let counts = store.get(LOOP, UNCOUNTED.as_bytes())?.is_none();
                let (applied, reach, before) = Default::default();
                Position {
                    created,
                    applied,
                    settled: counts.then_some(0),
                    reach,
                    before,
                }
            }
        };
        self.by_consumer.insert((edge, partition), position);
        Ok(is_another)
    }

    /// Takes in that a message was given. Returns whether it was applied before.
    ///
    /// # Errors
    /// It shows that the stream is rewound: how.
    pub(super) fn given(&mut self, at: InputAt, stamp: i64) -> Result<bool, String> {
        let InputAt {
            edge,
            partition,
            sequence,
        } = at;
        let Some(position) = self.by_consumer.get_mut(&(edge, partition)) else {
            return Ok(false);
        };
        let Position {
            applied,
            reach,
            before,
            ..
        } = position;
        if let Some(reach) = [*before, *reach]
            .iter()
            .find(|reach| reach.is_before(sequence, stamp))
        {
            return Err(format!(
                "message {sequence} is newer than the one that was {}",
                reach.sequence
            ));
        }
        reach.extend(sequence, stamp);
        Ok(applied.contains(sequence))
    }

    /// The connection is gone: what is given after it must not be newer than what lay below.
    pub(super) fn disconnected(&mut self) {
        self.by_consumer
            .values_mut()
            .for_each(|position| position.before = position.reach);
    }

    /// Returns whether a message was applied, or put aside, in a commit or in the batch under way.
    pub(super) fn is_applied(&self, at: InputAt) -> bool {
        let position = self.by_consumer.get(&(at.edge, at.partition));
        position.is_some_and(|position| position.applied.contains(at.sequence))
    }

    /// How many messages of each edge were applied or put aside since the stream was created, where
    /// that is known.
    pub(super) fn settled(&self) -> impl Iterator<Item = (Edge, u64)> {
        let mut by_edge: BTreeMap<Edge, Option<u64>> = BTreeMap::new();
        for (&(edge, _), position) in &self.by_consumer {
            let sum = by_edge.entry(edge).or_insert(Some(0));
            *sum = sum
                .zip(position.settled)
                .map(|(sum, settled)| sum + settled);
        }
        by_edge
            .into_iter()
            .filter_map(|(edge, settled)| Some((edge, settled?)))
    }

    /// The edges that have a position.
    pub(super) fn edges(&self) -> impl Iterator<Item = Edge> {
        self.by_consumer
            .keys()
            .map(|&(edge, _)| edge)
            .collect::<BTreeSet<_>>()
            .into_iter()
    }

    /// For each consumer's edge the highest sequence that the stage was given, and the highest that
    /// its stream must have given out.
    pub(super) fn reaches(&self) -> impl Iterator<Item = (Edge, u64, u64)> {
        self.by_consumer
            .iter()
            .map(|(&(edge, _), Position { applied, reach, .. })| {
                (edge, reach.sequence, reach.sequence.max(applied.highest()))
            })
    }

    /// Says how a look at a stream shows that it is another one, or has other messages.
    pub(super) fn look(&self, edge: Edge, look: &StreamLook) -> Result<(), String> {
        let given = look.expected.given;
        for (_, position) in self.by_consumer.iter().filter(|((of, _), _)| *of == edge) {
            if position.created != look.created {
                return Err("it was deleted and made anew".to_owned());
            }
            if look
                .at_given
                .is_some_and(|stamp| position.reach.is_before(given, stamp))
            {
                return Err(format!("message {given} is newer than the one that it was"));
            }
        }
        Ok(())
    }

    /// Adds messages to the positions. They are in the next commit.
    pub(super) fn apply(&mut self, messages: impl Iterator<Item = InputAt>) {
        for InputAt {
            edge,
            partition,
            sequence,
        } in messages
        {
            if let Some(position) = self.by_consumer.get_mut(&(edge, partition)) {
                if position.applied.insert(sequence) {
                    position.settled = position.settled.map(|settled| settled + 1);
                }
                self.moved.insert((edge, partition));
            }
        }
    }

    /// Adds the positions that have moved to the commit that applies their messages.
    pub(super) fn write(&mut self, changes: &mut Changes) {
        for (edge, partition) in std::mem::take(&mut self.moved) {
            changes.put(
                LOOP,
                key(edge, partition),
                write(&self.by_consumer[&(edge, partition)]),
            );
        }
    }

    /// Consumers whose positions have many ranges.
    pub(super) fn gapped(&self) -> Vec<(Edge, Option<u16>)> {
        let most = |partition: Option<u16>| {
            if partition.is_some() {
                RANGES_MAX_OF_ONE
            } else {
                RANGES_MAX
            }
        };
        let gapped = self
            .by_consumer
            .iter()
            .filter(|((_, of), position)| position.applied.ranges() >= most(*of));
        gapped.map(|(&consumer, _)| consumer).collect()
    }

    /// All messages of the consumer up to this one count as applied.
    pub(super) fn raise(&mut self, consumer: Consumer, sequence: u64) {
        if let Some(position) = self.by_consumer.get_mut(&consumer) {
            position.applied.raise(sequence);
        }
    }
}

/// Divides the positions of an instance that drew by one consumer, so that each of `partitions` has
/// its own from now on. A message that was applied is in the position of its partition, since that
/// one knows all that the instance has applied.
///
/// # Errors
/// The store cannot be read.
pub fn divide_positions(
    store: &dyn Store,
    partitions: u16,
    changes: &mut Changes,
) -> Result<(), StoreError> {
    let mut of_all = Vec::new();
    store.scan(
        LOOP,
        POSITION.as_bytes(),
        POSITIONS_END.as_bytes(),
        &mut |key, value| {
            let edge = key
                .get(POSITION.len()..)
                .and_then(|name| std::str::from_utf8(name).ok())
                .and_then(Edge::from_name);
            of_all.extend(edge.zip(read(value)));
            true
        },
    )?;
    for (edge, mut position) in of_all {
        changes.remove(LOOP, key(edge, None));
        for partition in 0..partitions {
            changes.put(LOOP, key(edge, Some(partition)), write(&position));
            // Each message was settled once.
            position.settled = position.settled.map(|_| 0);
        }
    }
    Ok(())
}

/// Returns whether the positions were divided: then each partition has its own.
///
/// # Errors
/// The store cannot be read.
pub fn are_divided(store: &dyn Store) -> Result<bool, StoreError> {
    let mut divided = false;
    store.scan(
        LOOP,
        POSITION.as_bytes(),
        POSITIONS_END.as_bytes(),
        &mut |key, _| {
            divided = key.contains(&b'/');
            !divided
        },
    )?;
    Ok(divided)
}

/// The keys of a partition's positions on these edges.
pub fn positions_of(edges: impl IntoIterator<Item = Edge>, partition: u16) -> Vec<String> {
    edges
        .into_iter()
        .map(|edge| key(edge, Some(partition)))
        .collect()
}

/// The name under which a stage with state tells how many messages of an edge it has applied or put
/// aside, since the stream was created; none for an edge that no such stage reads, and for signals,
/// of which one that is lost costs an estimate and no count.
pub const fn settled_count(edge: Edge) -> Option<&'static str> {
    match edge {
        Edge::UrlsSplit => Some("loop_settled_urls_split_total"),
        Edge::UrlsReady => Some("loop_settled_urls_ready_total"),
        Edge::FetchReports => Some("loop_settled_fetch_reports_total"),
        _ => None,
    }
}

fn key(edge: Edge, partition: Option<u16>) -> String {
    match partition {
        None => format!("{POSITION}{}", edge.name()),
        Some(partition) => format!("{POSITION}{}/{partition:05}", edge.name()),
    }
}

fn write(position: &Position) -> Vec<u8> {
    let Position {
        created,
        applied,
        settled,
        reach,
        ..
    } = position;
    let settled = settled.unwrap_or(NOT_COUNTED);
    let mut bytes = vec![VERSION];
    let numbers = [
        created.to_le_bytes(),
        settled.to_le_bytes(),
        reach.sequence.to_le_bytes(),
        reach.stamp.to_le_bytes(),
    ];
    numbers
        .into_iter()
        .for_each(|number| bytes.extend_from_slice(&number));
    bytes.extend_from_slice(&applied.to_bytes());
    bytes
}

fn read(bytes: &[u8]) -> Option<Position> {
    let (&VERSION, bytes) = bytes.split_first()? else {
        return None;
    };
    let (numbers, applied) = bytes.split_at_checked(32)?;
    let numbers = numbers.as_chunks::<8>().0;
    let settled = Some(u64::from_le_bytes(numbers[1])).filter(|&settled| settled != NOT_COUNTED);
    let reach = Reach {
        sequence: u64::from_le_bytes(numbers[2]),
        stamp: i64::from_le_bytes(numbers[3]),
    };
    let created = i64::from_le_bytes(numbers[0]);
    Some(Position {
        created,
        applied: Applied::from_bytes(applied)?,
        settled,
        reach,
        before: reach,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;
    use foldhash::HashMapExt as _;

    fn position(settled: Option<u64>) -> Position {
        let mut applied = Applied::default();
        for number in [1, 2, 5, 9] {
            applied.insert(number);
        }
        let reach = Reach {
            sequence: 11,
            stamp: -3,
        };
        Position {
            created: 77,
            applied,
            settled,
            reach,
            before: reach,
        }
    }

    #[test]
    fn a_position_comes_back_as_it_was() {
        for settled in [None, Some(0), Some(4)] {
            let position = position(settled);
            let back = read(&write(&position)).unwrap();
            assert_eq!(
                (back.created, &back.applied, back.settled),
                (77, &position.applied, settled)
            );
            assert_eq!((back.reach, back.before), (position.reach, position.reach));
            for length in 0..33 {
                assert!(read(&write(&position)[..length]).is_none());
            }
        }
    }

    #[test]
    fn divided_positions_know_what_was_applied_and_count_it_once() {
        let store = MemoryStore::default();
        let mut changes = Changes::default();
        changes.put(LOOP, key(Edge::UrlsSplit, None), write(&position(Some(4))));
        store.commit(&changes).unwrap();
        assert!(!are_divided(&store).unwrap());

        let mut changes = Changes::default();
        divide_positions(&store, 4, &mut changes).unwrap();
        store.commit(&changes).unwrap();
        assert!(are_divided(&store).unwrap());
        assert_eq!(
            store
                .get(LOOP, key(Edge::UrlsSplit, None).as_bytes())
                .unwrap(),
            None
        );
        let mut positions = Positions {
            by_consumer: BTreeMap::new(),
            moved: BTreeSet::new(),
            ack_waits: HashMap::new(),
        };
        for partition in 0..4 {
            assert!(
                !positions
                    .adopt(&store, (Edge::UrlsSplit, Some(partition)), 77)
                    .unwrap()
            );
            let at = |sequence| InputAt {
                edge: Edge::UrlsSplit,
                partition: Some(partition),
                sequence,
            };
            assert!(positions.is_applied(at(5)) && !positions.is_applied(at(4)));
        }
        assert_eq!(
            positions.settled().collect::<Vec<_>>(),
            [(Edge::UrlsSplit, 4)]
        );
        // Divided once more, nothing changes.
        let mut changes = Changes::default();
        divide_positions(&store, 4, &mut changes).unwrap();
        assert!(changes.is_empty());
    }
}

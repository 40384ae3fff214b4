//! Rewinds: a stream that has become shorter than it was, because its broker lost its tail or was
//! restored from a copy.
//!
//! In: the messages that a stage is given, the PubAcks that it gets, and looks at its streams. Out:
//! [`Rewound`], once for ever: the sequence numbers above the cut are given out a second time, so
//! nothing may be told apart by them any more. Then nothing is acked and nothing published, and the
//! process ends.
//!
//! A stream is rewound when
//! - a message at or below the highest sequence that was given has a later time stamp than all up
//!   to that one;
//! - its last sequence lies below the highest that was given, or at which a message of ours was
//!   stored;
//! - a message of ours is stored, and not as a repeat, at or below a sequence from before the
//!   connection broke. Below a sequence from after that it is a reason to look: answers of a stream
//!   that changes its leader may overtake each other.
//!
//! Streams are looked at when a process starts, and after every reconnect before anything is
//! published: publishers that come back first would let the tail grow again, and hide that it is
//! gone.

use super::Settlement;
use super::state::{LOOP, STORED, STORED_END};
use crate::store::{Changes, Store, StoreError};
use rhumb_config::Pipeline;
use rhumb_config::identity::WAYS_OUT;
use rhumb_config::lasting_streams;
use rhumb_url::time::Timestamp;
use rhumb_wire::Subjects;
use rhumb_wire::message::Edge;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A stream of the crawl is not what it was; only an operator can say how to go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the stream {stream} of this crawl is shorter than it was: {how}. Its broker lost messages, or \
     was restored from an earlier copy: {WAYS_OUT}"
)]
pub struct Rewound {
    /// Its name.
    pub stream: String,
    /// What shows it.
    pub how: String,
}

/// The word of a stream that it has a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PubAck {
    /// The stream.
    pub stream: Arc<str>,
    /// Where it has the message.
    pub sequence: u64,
    /// The message was there already, by its id.
    pub is_repeat: bool,
}

/// What a process knows of a stream when it looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its name.
    pub stream: String,
    /// It has given out sequence numbers up to this one at least.
    pub last: u64,
    /// The highest sequence that the process was given; 0 when none counts.
    pub given: u64,
}

/// What the broker says of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamLook {
    /// What the process knew when it asked.
    pub expected: Expected,
    /// Its creation, in nanoseconds since 1970.
    pub created: i64,
    /// The last sequence that it gave out.
    pub last: u64,
    /// The time stamp of the message at `expected.given`, when it is still there.
    pub at_given: Option<i64>,
}

/// How far a stage was given messages of a stream: the highest sequence, and the latest time stamp
/// up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) sequence: u64,
    /// In nanoseconds since 1970.
    pub(super) stamp: i64,
}

impl Reach {
    /// Takes in a message.
    pub(super) fn extend(&mut self, sequence: u64, stamp: i64) {
        self.sequence = self.sequence.max(sequence);
        self.stamp = self.stamp.max(stamp);
    }

    /// Says that a message cannot have been here when the stage was given this far.
    pub(super) fn is_before(&self, sequence: u64, stamp: i64) -> bool {
        sequence <= self.sequence && stamp > self.stamp
    }
}

/// The highest sequences at which streams stored messages of a process. A stage with state keeps
/// them in its store.
#[derive(Default)]
pub(super) struct Stored {
    by_stream: BTreeMap<Arc<str>, StoredIn>,
    /// The streams in which a sequence number is given out once.
    lasting: BTreeSet<String>,
    /// A PubAck came below an earlier one: the streams are to be looked at.
    is_in_doubt: bool,
}

#[derive(Default)]
struct StoredIn {
    /// Else all that counts is that the stream is there.
    is_lasting: bool,
    highest: u64,
    /// `highest` when the connection broke last, or when this life began.
    before: u64,
    /// The last sequence of the stream at the latest look: others publish to it, too. PubAcks on
    /// their way may lie below.
    seen: u64,
    /// What the store has of `highest`.
    kept: u64,
}

impl Stored {
    pub(super) fn open(
        pipeline: &Pipeline,
        subjects: &Subjects,
        store: Option<&dyn Store>,
    ) -> Result<Self, StoreError> {
        let lasting = lasting_streams(pipeline)
            .into_iter()
            .map(|key| subjects.stream(key))
            .collect();
        let mut this = Stored {
            lasting,
            ..Stored::default()
        };
        let Some(store) = store else { return Ok(this) };
        store.scan(
            LOOP,
            STORED.as_bytes(),
            STORED_END.as_bytes(),
            &mut |key, value| {
                let stream = key
                    .get(STORED.len()..)
                    .and_then(|stream| std::str::from_utf8(stream).ok());
                if let (Some(stream), Ok(sequence)) =
                    (stream, value.try_into().map(u64::from_le_bytes))
                    && this.lasting.contains(stream)
                {
                    let stored = StoredIn {
                        is_lasting: true,
                        highest: sequence,
                        before: sequence,
                        seen: 0,
                        kept: sequence,
                    };
                    this.by_stream.insert(stream.into(), stored);
                }
                true
            },
        )?;
        Ok(this)
    }

    /// Adds what the store does not have yet to a commit.
    pub(super) fn keep(&mut self, changes: &mut Changes) {
        for (stream, stored) in &mut self.by_stream {
            if stored.kept < stored.highest {
                stored.kept = stored.highest;
                changes.put(
                    LOOP,
                    format!("{STORED}{stream}"),
                    stored.highest.to_le_bytes(),
                );
            }
        }
    }

    /// The connection is gone: what a stream stores after it lies above what it has stored.
    pub(super) fn disconnected(&mut self) {
        self.by_stream
            .values_mut()
            .for_each(|stored| stored.before = stored.highest);
    }

    /// A stream has a message; says how that shows that it is rewound.
    fn take(&mut self, ack: &PubAck) -> Result<(), String> {
        let stored = match self.by_stream.get_mut(&ack.stream) {
            Some(stored) => stored,
            None => {
                let is_lasting = self.lasting.contains(&*ack.stream);
                self.by_stream
                    .entry(ack.stream.clone())
                    .or_insert(StoredIn {
                        is_lasting,
                        ..StoredIn::default()
                    })
            }
        };
        if ack.is_repeat || !stored.is_lasting {
            return Ok(());
        }
        if ack.sequence <= stored.before {
            return Err(format!(
                "a message was stored at {} that had been given out up to {}",
                ack.sequence, stored.before
            ));
        }
        self.is_in_doubt |= ack.sequence <= stored.highest;
        stored.highest = stored.highest.max(ack.sequence);
        Ok(())
    }
}

impl<H: Clone> Settlement<H> {
    /// A stream has a message with a token, and says where. Returns the tags that the core is to be
    /// told.
    ///
    /// # Errors
    /// The stream is rewound.
    pub fn stored_at(
        &mut self,
        now: Timestamp,
        token: u64,
        ack: &PubAck,
    ) -> Result<Vec<u64>, Rewound> {
        match self.stored.take(ack) {
            Ok(()) => Ok(self.stored(now, token)),
            Err(how) => Err(self.is_rewound(ack.stream.to_string(), how)),
        }
    }

    /// The connection to the broker is gone: nothing is published until
    /// [`reconnected`](Self::reconnected), which comes after a [`look`](Self::look).
    pub fn disconnected(&mut self) {
        if !self.unstored.is_disconnected() {
            self.unstored.disconnected();
            self.stored.disconnected();
            self.positions.disconnected();
        }
    }

    /// Returns whether the streams are to be looked at now.
    pub fn wants_look(&self) -> bool {
        self.stored.is_in_doubt
    }

    /// The streams that are to be looked at, and what must be true of each.
    pub fn expected(&self) -> Vec<Expected> {
        let mut expected: BTreeMap<String, Expected> = BTreeMap::new();
        let of = |stream: String| Expected {
            stream,
            last: 0,
            given: 0,
        };
        for (stream, stored) in &self.stored.by_stream {
            let stream = stream.to_string();
            expected
                .entry(stream.clone())
                .or_insert_with(|| of(stream))
                .last = stored.highest.max(stored.seen);
        }
        for (edge, reach, highest) in self.positions.reaches() {
            let stream = self.stream(edge);
            let expected = expected.entry(stream.clone()).or_insert_with(|| of(stream));
            expected.last = expected.last.max(highest);
            expected.given = expected.given.max(reach);
        }
        expected.into_values().collect()
    }

    /// Takes in looks at the streams.
    ///
    /// # Errors
    /// One is rewound, or made anew.
    pub fn look(&mut self, looks: &[StreamLook]) -> Result<(), Rewound> {
        self.stored.is_in_doubt = false;
        for look in looks {
            let Expected { stream, last, .. } = &look.expected;
            let edge = self
                .positions
                .edges()
                .find(|&edge| self.stream(edge) == *stream);
            let how = if look.last < *last {
                Err(format!(
                    "its last message is {}, it had given out {last}",
                    look.last
                ))
            } else {
                edge.map_or(Ok(()), |edge| self.positions.look(edge, look))
            };
            if let Err(how) = how {
                return Err(self.is_rewound(stream.clone(), how));
            }
            if let Some(stored) = self
                .stored
                .by_stream
                .get_mut(stream.as_str())
                .filter(|stored| stored.is_lasting)
            {
                stored.seen = stored.seen.max(look.last);
            }
        }
        Ok(())
    }

    /// Nothing takes effect any more.
    pub(super) fn is_rewound(&mut self, stream: String, how: String) -> Rewound {
        self.actions.clear();
        self.has_stopped = true;
        Rewound { stream, how }
    }

    pub(super) fn stream(&self, edge: Edge) -> String {
        self.subjects.stream(edge.name())
    }
}

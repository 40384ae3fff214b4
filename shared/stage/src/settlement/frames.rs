//! Frames of a stage without state: its messages of an edge that has them are published several at
//! once.
//!
//! In: the messages of steps. Out: frames for streams. What was made from an input of several
//! payloads is published when the core has finished with all of them. What was made from no input
//! waits for more of its subject, for a moment, or not at all when the core knows that none is
//! under way.
//!
//! Invariant: no frame has messages that were made from different inputs. So whoever makes them
//! again, from an input that comes again, makes the same frames, and the broker knows them by their
//! ids.

use super::{Outgoing, Settlement, Waits};
use crate::{Publish, Ticket};
use bytes::Bytes;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Edge, FRAME_PAYLOADS_MAX, frame};
use std::time::Duration;

/// A frame with so many bytes waits for no more. One message may be longer.
const FRAME_BYTES_MAX: usize = 256 << 10;
/// What was made from no input waits so long for more of its subject.
const FRAME_WAIT: Duration = Duration::from_millis(5);

/// A message that may share a frame.
#[derive(Debug)]
pub(super) struct Gathered {
    /// The payload that it was made from, if it was made from one.
    cause: Option<Ticket>,
    edge: Edge,
    subject: String,
    payload: Bytes,
    tag: Option<u64>,
}

impl Gathered {
    pub(super) fn bytes(&self) -> usize {
        self.payload.len()
    }
}

/// Messages of one subject that will be one.
#[derive(Debug)]
struct Open {
    edge: Edge,
    subject: String,
    since: Timestamp,
    payloads: Vec<Bytes>,
    bytes: usize,
    tags: Vec<u64>,
}

/// Frames that may get more messages: one of each subject.
#[derive(Debug, Default)]
pub(super) struct Frames {
    open: Vec<Open>,
}

impl Frames {
    /// Adds a message. Returns the frames that are full by it.
    fn add(&mut self, now: Timestamp, made: Gathered) -> Vec<Open> {
        let Gathered {
            edge,
            subject,
            payload,
            tag,
            ..
        } = made;
        let mut full = Vec::new();
        let at = match self.open.iter().position(|open| open.subject == subject) {
            Some(at) if self.open[at].bytes + payload.len() <= FRAME_BYTES_MAX => at,
            found => {
                full.extend(found.map(|at| self.open.remove(at)));
                let payloads = Vec::new();
                let tags = Vec::new();
                self.open.push(Open {
                    edge,
                    subject,
                    since: now,
                    payloads,
                    bytes: 0,
                    tags,
                });
                self.open.len() - 1
            }
        };
        let open = &mut self.open[at];
        open.bytes += payload.len();
        open.payloads.push(payload);
        open.tags.extend(tag);
        if open.bytes >= FRAME_BYTES_MAX || open.payloads.len() >= FRAME_PAYLOADS_MAX {
            full.push(self.open.remove(at));
        }
        full
    }

    /// When the first of them waits no longer, if there is any.
    pub(super) fn due_at(&self) -> Option<Timestamp> {
        self.open.iter().map(|open| open.since + FRAME_WAIT).min()
    }

    /// Messages in them.
    pub(super) fn len(&self) -> usize {
        self.open.iter().map(|open| open.payloads.len()).sum()
    }

    fn take_due(&mut self, now: Timestamp) -> Vec<Open> {
        self.open
            .extract_if(.., |open| open.since + FRAME_WAIT <= now)
            .collect()
    }
}

impl<H: Clone> Settlement<H> {
    /// Publishes what a step made, or has it wait for what it can share a frame with. `more_soon`:
    /// the core knows that more of what is made from no input is under way.
    pub(super) fn publish_made(
        &mut self,
        now: Timestamp,
        publishes: Vec<Publish>,
        more_soon: bool,
    ) {
        for Publish {
            edge,
            token,
            payload,
            causes,
            tag,
        } in publishes
        {
            self.published += 1;
            let subject = self.subject(edge, &token);
            match causes[..] {
                [] if edge.is_framed() => {
                    let made = Gathered {
                        cause: None,
                        edge,
                        subject,
                        payload,
                        tag,
                    };
                    let full = self.frames.add(now, made);
                    self.publish_frames(now, full, &[]);
                }
                [cause] if edge.is_framed() => {
                    self.tickets.gather(
                        cause,
                        Gathered {
                            cause: Some(cause),
                            edge,
                            subject,
                            payload,
                            tag,
                        },
                    );
                }
                _ => self.publish_payload(
                    now,
                    now,
                    (subject, payload),
                    causes,
                    tag.into_iter().collect(),
                ),
            }
        }
        if !more_soon {
            let all = std::mem::take(&mut self.frames.open);
            self.publish_frames(now, all, &[]);
        }
    }

    /// Nothing more is made from a payload: with the last one of its input, what was made from all
    /// of them is published.
    pub(super) fn finish(&mut self, now: Timestamp, ticket: Ticket) {
        let mut made = self.tickets.finish(ticket);
        // In the order of the payloads, whenever each was finished.
        made.sort_by_key(|made| made.cause);
        let mut frames = Frames::default();
        for made in made {
            let full = frames.add(now, made);
            self.publish_frames(now, full, &[ticket]);
        }
        self.publish_frames(now, frames.open, &[ticket]);
    }

    /// Publishes the frames that have waited long enough.
    pub(super) fn publish_due_frames(&mut self, now: Timestamp) {
        let due = self.frames.take_due(now);
        self.publish_frames(now, due, &[]);
    }

    fn publish_frames(&mut self, now: Timestamp, frames: Vec<Open>, causes: &[Ticket]) {
        for Open {
            edge,
            subject,
            since,
            payloads,
            tags,
            ..
        } in frames
        {
            self.publish_payload(
                now,
                since,
                (subject, frame(edge, &payloads)),
                causes.to_vec(),
                tags,
            );
        }
    }

    /// Publishes a message whose way began at `since` when it was made from no input.
    fn publish_payload(
        &mut self,
        now: Timestamp,
        since: Timestamp,
        (subject, payload): (String, Bytes),
        causes: Vec<Ticket>,
        tags: Vec<u64>,
    ) {
        let id = self.id_without_state(&payload, &causes);
        for &cause in &causes {
            self.tickets.reference(cause);
        }
        let begun = if causes.is_empty() {
            self.latencies.since_1970_ns(since)
        } else {
            self.tickets.begun(&causes)
        };
        let message = Outgoing {
            subject,
            id,
            headers: Vec::new(),
            payload,
        }
        .begun(begun);
        self.publish(
            now,
            message,
            Waits {
                causes,
                tags,
                row: None,
            },
        );
    }

    /// The id of an output of a stage without state. The same message made again from the same
    /// input has the same id. Nothing makes a message without causes again, and one like it may be
    /// news.
    fn id_without_state(&mut self, payload: &[u8], causes: &[Ticket]) -> String {
        if !causes.is_empty() {
            return format!("{:016x}", xxhash_rust::xxh3::xxh3_64(payload));
        }
        self.uncaused += 1;
        format!("{:016x}-{}", self.life.life, self.uncaused)
    }
}

//! Inputs that the core is not stepped with: they are put aside, and the edge goes on.
//!
//! In: inputs that cannot be read, or that lives died of. Out: dead letters and parked messages, on
//! their way into their streams.
//!
//! Invariant: an input is acked only when its copy lies where it was put.

use super::{InputAt, Outgoing, Settlement, Waits};
use crate::Ticket;
use bytes::Bytes;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Edge, Undecodable};
use xxhash_rust::xxh3::xxh3_64;

impl<H: Clone> Settlement<H> {
    /// An input cannot be read. A corrupt one goes to the dead letters. One of a stream whose
    /// schema version is unknown is parked, for a program that reads it. Both are acked when they
    /// lie there. A core NATS message of an unknown version is passed over: it may be lost anyway,
    /// and whoever sent it sends another.
    pub fn unreadable(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        subject: &str,
        payload: Bytes,
        error: &Undecodable,
    ) {
        match (error, self.tickets.position(ticket)) {
            (&Undecodable::UnknownVersion { edge, found, .. }, Some(InputAt { sequence, .. })) => {
                self.park(now, ticket, (edge, found, sequence), subject, payload);
            }
            (Undecodable::Corrupt(reason), _) => {
                self.corrupt(now, ticket, subject, payload, reason)
            }
            (unknown, None) => {
                if self.passed_over == 0 {
                    tracing::warn!(
                        subject,
                        "a message is passed over, and all like it: {unknown}; finish the update"
                    );
                }
                self.passed_over += 1;
                self.finish(now, ticket);
                self.release(now, ticket);
            }
        }
    }

    /// Lives of this instance died of an input: it goes to the dead letters, and the process goes
    /// on (P9).
    pub fn deadly(&mut self, now: Timestamp, ticket: Ticket, subject: &str, payload: Bytes) {
        tracing::error!(
            subject,
            "a message that three processes died of goes to the dead letters (see `rhumb dead`)"
        );
        // It may come again; sent again by an operator, it has another sequence.
        let (edge, sequence) = self
            .tickets
            .position(ticket)
            .map_or(("", 0), |at| (at.edge.name(), at.sequence));
        let id = format!(
            "dead-{}-{edge}-{sequence}-{:016x}",
            self.life.stage,
            xxh3_64(&payload)
        );
        self.bury(
            now,
            ticket,
            (id, "three processes died of it"),
            subject,
            payload,
        );
    }

    /// A corrupt input goes to the dead letters.
    fn corrupt(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        subject: &str,
        payload: Bytes,
        reason: &str,
    ) {
        tracing::warn!(
            subject,
            reason,
            "a corrupt message goes to the dead letters (see `rhumb dead`)"
        );
        let id = format!("dead-{:016x}-{}", self.life.life, self.dead + 1);
        self.bury(now, ticket, (id, reason), subject, payload);
    }

    /// Moves an input to the stage's dead letters.
    fn bury(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        (id, reason): (String, &str),
        subject: &str,
        payload: Bytes,
    ) {
        self.dead += 1;
        let letter = Outgoing {
            subject: self.subjects.dead(self.life.stage),
            id,
            headers: vec![
                ("Rhumb-Subject", subject.to_owned()),
                ("Rhumb-Reason", reason.replace(['\r', '\n'], " ")),
            ],
            payload,
        };
        self.put_aside(now, letter, ticket);
    }

    /// Moves an input to the stage's parked messages.
    fn park(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        (edge, version, sequence): (Edge, u8, u64),
        subject: &str,
        payload: Bytes,
    ) {
        let stage = self.life.stage;
        let name = edge.name();
        self.parked += 1;
        if self.parked == 1 {
            let what = "messages of a schema version that this program does not read are parked";
            tracing::warn!(
                edge = name,
                version,
                "{what} (see `rhumb status`): finish the update"
            );
        }
        let message = Outgoing {
            subject: self.subjects.parked(stage, edge, version),
            // A message that was put back has another sequence: it may be parked once more.
            id: format!(
                "parked-{stage}-{name}-{sequence}-{:016x}",
                xxh3_64(&payload)
            ),
            headers: vec![("Rhumb-Subject", subject.to_owned())],
            payload,
        };
        self.put_aside(now, message, ticket);
    }

    /// Nothing is made from an input but a copy of it, which keeps it in hand in its place.
    fn put_aside(&mut self, now: Timestamp, copy: Outgoing, ticket: Ticket) {
        self.publish(
            now,
            copy,
            Waits {
                causes: vec![ticket],
                ..Waits::default()
            },
        );
        self.finish(now, ticket);
    }
}

//! The table of messages: every type that travels between processes, replies included.
//!
//! In: the types of this module. Out: [`MESSAGES`], by which a payload of any edge is read, and
//! written again, without knowing its type.
//!
//! Invariant: each edge has one type of message, and at most one that answers it; the table of
//! edges ([`crate::topology::EDGES`]) names the same ones. The tests at the end of this file hold
//! it.

use super::content::{ContentAsk, ContentReply, Documents};
use super::envelope::{EdgeMessage, Undecodable, decode, encode};
use super::fetch::{Ask, AskReply, Errand, Page, Report, ToFetcher};
use super::outcomes::Outcomes;
use super::signals::PageSignals;
use super::urls::{Boosts, DnsRefresh, FilteredUrls, FoundUrls, NewUrls, ReadyUrls, SplitUrls};
use crate::topology::Edge;
use bytes::Bytes;
use rkyv::api::high::{HighDeserializer, HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error as Rancor;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Deserialize, Serialize};
use serde_json::Value;

/// A row of the table of messages.
#[derive(Clone, Copy, Debug)]
pub struct MessageRow {
    /// The name of its type.
    pub name: &'static str,
    /// The edge that it travels on, or that it answers a request on.
    pub edge: Edge,
    /// Version of its schema, as in the envelope.
    pub version: u8,
    /// The version before, if it is read as well.
    pub before: Option<u8>,
    /// It answers a request: it goes to the asker's inbox, not to the edge's subject.
    pub is_reply: bool,
    /// Checks a payload, envelope and archive, and reads it as JSON.
    pub json: fn(&[u8]) -> Result<Value, Undecodable>,
    /// Checks a payload as that does, and writes the message in it again, in its present version.
    pub again: fn(&[u8]) -> Result<Bytes, Undecodable>,
}

impl MessageRow {
    /// The row of a type. An edge without a row of its own does not compile here.
    const fn of<M>(name: &'static str) -> MessageRow
    where
        M: EdgeMessage
            + serde::Serialize
            + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Rancor>>,
        M::Archived: for<'a> CheckBytes<HighValidator<'a, Rancor>>
            + Deserialize<M, HighDeserializer<Rancor>>,
    {
        let edge = M::EDGE.row().expect("an edge of the table").edge;
        let before = match M::BEFORE {
            Some(before) => Some(before.version),
            None => None,
        };
        MessageRow {
            name,
            edge,
            version: M::VERSION,
            before,
            is_reply: M::IS_REPLY,
            json: json::<M>,
            again: again::<M>,
        }
    }
}

/// All messages, one row each, in the order of the edges.
pub const MESSAGES: [MessageRow; 18] = [
    MessageRow::of::<FoundUrls>("FoundUrls"),
    MessageRow::of::<SplitUrls>("SplitUrls"),
    MessageRow::of::<NewUrls>("NewUrls"),
    MessageRow::of::<ReadyUrls>("ReadyUrls"),
    MessageRow::of::<Ask>("Ask"),
    MessageRow::of::<AskReply>("AskReply"),
    MessageRow::of::<ToFetcher>("ToFetcher"),
    MessageRow::of::<Report>("Report"),
    MessageRow::of::<Page>("Page"),
    MessageRow::of::<Outcomes>("Outcomes"),
    MessageRow::of::<DnsRefresh>("DnsRefresh"),
    MessageRow::of::<Errand>("Errand"),
    MessageRow::of::<FilteredUrls>("FilteredUrls"),
    MessageRow::of::<ContentAsk>("ContentAsk"),
    MessageRow::of::<ContentReply>("ContentReply"),
    MessageRow::of::<Documents>("Documents"),
    MessageRow::of::<Boosts>("Boosts"),
    MessageRow::of::<PageSignals>("PageSignals"),
];

fn json<M>(payload: &[u8]) -> Result<Value, Undecodable>
where
    M: EdgeMessage + serde::Serialize,
    M::Archived:
        for<'a> CheckBytes<HighValidator<'a, Rancor>> + Deserialize<M, HighDeserializer<Rancor>>,
{
    serde_json::to_value(decode::<M>(payload)?)
        .map_err(|error| Undecodable::Corrupt(error.to_string()))
}

fn again<M>(payload: &[u8]) -> Result<Bytes, Undecodable>
where
    M: EdgeMessage + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Rancor>>,
    M::Archived:
        for<'a> CheckBytes<HighValidator<'a, Rancor>> + Deserialize<M, HighDeserializer<Rancor>>,
{
    Ok(encode(&decode::<M>(payload)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_messages_of_an_edge_are_those_that_its_row_names() {
        for edge in Edge::ALL {
            let names = |is_reply| {
                let rows = MESSAGES
                    .iter()
                    .filter(move |row| row.edge == edge && row.is_reply == is_reply);
                rows.map(|row| row.name).collect::<Vec<_>>()
            };
            assert_eq!(
                names(false),
                [edge.row().unwrap().message],
                "{}",
                edge.name()
            );
            assert_eq!(
                names(true),
                edge.row().unwrap().reply.into_iter().collect::<Vec<_>>(),
                "{}",
                edge.name()
            );
        }
    }

    #[test]
    fn an_envelope_tells_every_two_messages_apart() {
        let versions = |row: &MessageRow| {
            [Some(row.version), row.before]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
        };
        let envelopes = MESSAGES
            .iter()
            .flat_map(|row| versions(row).into_iter().map(|it| (row.edge.number(), it)));
        let envelopes: Vec<(u8, u8)> = envelopes.collect();
        assert_eq!(
            envelopes.iter().collect::<BTreeSet<_>>().len(),
            envelopes.len()
        );
    }

    #[test]
    fn a_reply_is_read_by_its_own_row_alone() {
        let payload = encode(&AskReply {
            granted: 7,
            ready: 3,
        });
        let read: Vec<(&str, Value)> = MESSAGES
            .iter()
            .filter_map(|row| Some((row.name, (row.json)(&payload).ok()?)))
            .collect();
        assert_eq!(
            read,
            [("AskReply", serde_json::json!({ "granted": 7, "ready": 3 }))]
        );
    }
}

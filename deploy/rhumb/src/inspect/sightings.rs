//! Where messages of a page are, by the page's trace: those that lie in streams, and those that
//! pass.
//!
//! In: a trace. Out: the URL of the page, and the messages about it. Nothing is changed (P8):
//! streams are read without a consumer, and edges are tapped.

use super::edges::subscribe;
use crate::handle::Running;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use bytes::Bytes;
use futures::StreamExt as _;
use rhumb_bus::spool::Reader;
use rhumb_wire::message::{Edge, Trace, tap};
use serde::Serialize;
use std::time::Duration;

/// Messages of each stream that are read, the oldest first: a stream that is behind may have
/// millions.
const READ_MAX: usize = 2_000;

/// A message about the page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sighting {
    /// Where it was sent.
    subject: String,
    /// Its number in its stream, where it waits for its consumers; none of one that passed.
    sequence: Option<u64>,
}

impl Sighting {
    /// Where it was sent.
    pub(crate) fn subject(&self) -> &str {
        &self.subject
    }

    /// The name and what it tells, as `rhumb why` prints what processes tell.
    pub(crate) fn in_words(&self) -> (&str, String) {
        // Without the first tokens, which are the crawl's.
        let edge = self.subject.splitn(3, '.').last().unwrap_or(&self.subject);
        let words = match self.sequence {
            Some(sequence) => format!("has a message about it that waits, number {sequence}"),
            None => "had a message about it just now".to_owned(),
        };
        (edge, words)
    }
}

/// Finds the URL of a page, and messages about it: those that wait; if there are none, the first
/// that passes.
///
/// # Errors
/// None is met within this time, or the broker does not answer.
pub(crate) async fn find(
    running: &Running,
    trace: Trace,
    at_most: Duration,
) -> anyhow::Result<(String, Vec<Sighting>)> {
    let looking = async {
        // Both at once: what is taken from its stream meanwhile passes on the next edge.
        let waiting = waiting(running, trace);
        let passing = passing(running, trace);
        tokio::pin!(waiting, passing);
        let mut passed = None;
        loop {
            tokio::select! {
                found = &mut waiting => match (found?, passed) {
                    (Some(found), _) | (None, Some(found)) => return Ok(found),
                    (None, None) => return passing.await,
                },
                found = &mut passing, if passed.is_none() => passed = Some(found?),
            }
        }
    };
    tokio::time::timeout(at_most, looking).await.unwrap_or_else(|_| {
        let time = humantime::format_duration(at_most);
        anyhow::bail!(
            "no message of the page with trace {trace} waited in a stream or passed within {time}; \
             look further with --for, or look for the trace in the logs of the stages, which name \
             its URL (log.level: info,fetcher=debug)"
        )
    })
}

/// The messages that wait in streams; none when there are none.
///
/// # Errors
/// The broker does not answer.
pub(crate) async fn waiting(
    running: &Running,
    trace: Trace,
) -> anyhow::Result<Option<(String, Vec<Sighting>)>> {
    let bus = &running.bus;
    let mut page = None;
    let mut sightings = Vec::new();
    let mut spool = Reader::open(bus, Edge::ALL).await?;
    for edge in Edge::ALL
        .into_iter()
        .filter(|edge| running.pipeline.edges.stream(*edge).is_some())
    {
        let stream = bus
            .jetstream
            .get_stream_no_info(bus.subjects.stream(edge.name()))
            .await?;
        let mut next = 0;
        for _ in 0..READ_MAX {
            let message = match stream
                .raw_message_builder()
                .sequence(next)
                .next_by_subject(">")
                .send()
                .await
            {
                Ok(message) => message,
                Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => {
                    break;
                }
                Err(error) => {
                    tracing::warn!(edge = edge.name(), %error, "the stream of an edge cannot be read, and is left out");
                    break;
                }
            };
            next = message.sequence + 1;
            if let Some(url) = url_in(&mut spool, edge, message.payload, trace) {
                page = Some(url);
                let subject = message.subject.to_string();
                let sequence = Some(message.sequence);
                sightings.push(Sighting { subject, sequence });
            }
        }
    }
    Ok(page.map(|url| (url, sightings)))
}

/// The first message that passes on any edge.
async fn passing(running: &Running, trace: Trace) -> anyhow::Result<(String, Vec<Sighting>)> {
    let subjects = &running.bus.subjects;
    let all = Edge::ALL
        .into_iter()
        .flat_map(|edge| subjects.all(edge))
        .collect();
    let mut messages = subscribe(&running.bus.client, all).await?;
    let mut spool = Reader::open(&running.bus, Edge::ALL).await?;
    while let Some(message) = messages.next().await {
        let edge = subjects.edge_of(&message.subject);
        if let Some(url) = edge.and_then(|edge| url_in(&mut spool, edge, message.payload, trace)) {
            let subject = message.subject.to_string();
            return Ok((
                url,
                vec![Sighting {
                    subject,
                    sequence: None,
                }],
            ));
        }
    }
    anyhow::bail!("the connection to the broker has ended")
}

/// The URL of the page of a trace, if what a stream holds as one message is about that page.
fn url_in(spool: &mut Reader, edge: Edge, message: Bytes, trace: Trace) -> Option<String> {
    let payload = spool.payload(edge, message).ok()?;
    tap::all(edge, &payload)
        .iter()
        .find_map(|json| tap::url_of(json, trace))
        .map(str::to_owned)
}

//! Puts back the messages that a stage parked, once a program runs that reads them.
//!
//! In: the stage's parked messages, looked for at the start of a process and then now and again,
//! since a process of another version may park more at any time. Out: those that this program
//! reads, published again to where they came from.
//!
//! Invariant: a message is removed here only after its stream has it. Two processes that put the
//! same message back do so under the same id, and so does one that was interrupted.

use super::context::Stage;
use anyhow::Context as _;
use async_nats::HeaderMap;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream as JetStream};
use bytes::Bytes;
use futures::TryStreamExt as _;
use rhumb_bus::Bus;
use rhumb_wire::message::{Edge, Reference, payloads};
use rhumb_wire::topology::PARKED;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long the loop may be kept by one look. What is not put back by then is by the next one.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Looks for parked messages.
#[derive(Debug, Default)]
pub(super) struct Parked {
    looked: Option<Instant>,
}

impl Parked {
    /// Puts back what the stage parked and this program `reads`, if it is time to look.
    pub(super) async fn put_back(
        &mut self,
        bus: &Bus,
        stage: &Stage,
        reads: impl Fn(Edge, &[u8]) -> bool,
    ) {
        if !bus.is_connected() || self.looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return;
        }
        let mut put_back = 0;
        let look = put_all_back(bus, stage, reads, &mut put_back);
        let is_done = match tokio::time::timeout(LOOK_MAX, look).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::debug!(%error, "parked messages cannot be put back now; trying on");
                true
            }
            Err(_) => put_back == 0,
        };
        if put_back > 0 {
            tracing::info!(
                stage = stage.name,
                messages = put_back,
                "parked messages are put back"
            );
        }
        self.looked = is_done.then(Instant::now);
    }
}

async fn put_all_back(
    bus: &Bus,
    stage: &Stage,
    reads: impl Fn(Edge, &[u8]) -> bool,
    put_back: &mut u64,
) -> anyhow::Result<()> {
    let stream = bus
        .jetstream
        .get_stream(bus.subjects.stream(PARKED))
        .await?;
    if stream.cached_info().state.messages == 0 {
        return Ok(());
    }
    let subjects = stream
        .info_with_subjects(bus.subjects.all_parked(stage.name))
        .await?;
    let subjects: Vec<(String, usize)> = subjects.try_collect().await?;
    for (subject, _) in subjects {
        let parked = bus.subjects.parked_under(&subject);
        let edges = || stage.sources.iter().map(|source| source.edge());
        let Some(edge) = parked.and_then(|parked| edges().find(|edge| edge.name() == parked.edge))
        else {
            continue;
        };
        while let Some(message) = first_of(&stream, &subject).await? {
            // All of a subject are of one version.
            if !reads_all(edge, &message.payload, &reads) {
                break;
            }
            publish(bus, &message).await?;
            stream.delete_message(message.sequence).await?;
            *put_back += 1;
        }
    }
    Ok(())
}

/// Returns whether this program reads a message: each one of a frame, and what a reference names,
/// which shows when it is read.
fn reads_all(edge: Edge, message: &Bytes, reads: impl Fn(Edge, &[u8]) -> bool) -> bool {
    if edge.is_spooled() && matches!(Reference::read(edge, message), Ok(Some(_)) | Err(_)) {
        return true;
    }
    match payloads(edge, message.clone()) {
        Ok(payloads) if edge.is_framed() => payloads.iter().all(|payload| reads(edge, payload)),
        Ok(_) => reads(edge, message),
        // Where it came from it is found to be damaged.
        Err(_) => true,
    }
}

async fn first_of(stream: &JetStream, subject: &str) -> anyhow::Result<Option<StreamMessage>> {
    match stream.get_first_raw_message_by_subject(subject, 0).await {
        Ok(message) => Ok(Some(message)),
        Err(error) if matches!(error.kind(), RawMessageErrorKind::NoMessageFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Publishes a parked message to where it came from, and waits until its stream has it.
async fn publish(bus: &Bus, message: &StreamMessage) -> anyhow::Result<()> {
    let subject = message
        .headers
        .get("Rhumb-Subject")
        .context("a parked message without a subject")?;
    let mut headers = HeaderMap::new();
    let id = format!(
        "unparked-{}-{:016x}",
        message.sequence,
        xxh3_64(&message.payload)
    );
    headers.insert("Nats-Msg-Id", id.as_str());
    bus.jetstream
        .publish_with_headers(subject.to_string(), headers, message.payload.clone())
        .await?
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::message::{FoundUrls, Undecodable, decode, encode, frame};

    #[test]
    fn frames_and_references_are_read_by_what_is_in_them() {
        let reads = |_: Edge, payload: &[u8]| {
            !matches!(
                decode::<FoundUrls>(payload),
                Err(Undecodable::UnknownVersion { .. })
            )
        };
        let urls = ["http://a.test/"].into_iter().collect();
        let known = encode(&FoundUrls {
            urls,
            ..FoundUrls::default()
        });
        let mut unknown = known.to_vec();
        unknown[5] = 77;
        let unknown = Bytes::from(unknown);
        let all = |messages: &[Bytes]| {
            reads_all(Edge::UrlsFound, &frame(Edge::UrlsFound, messages), reads)
        };
        assert!(all(&[known.clone(), known.clone()]) && all(std::slice::from_ref(&known)));
        assert!(!all(&[known, unknown.clone()]) && !all(&[unknown]));
        let reference = Reference {
            file: "fetcher-0-1-1".into(),
            offset: 0,
            length: 9,
        }
        .message(Edge::Pages);
        assert!(reads_all(Edge::Pages, &reference, reads));
    }
}

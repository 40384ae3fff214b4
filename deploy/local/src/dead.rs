//! `rhumb dead`: the corrupt messages that stages put aside, and their replay.

use crate::handle::Running;
use crate::output::line;
use anyhow::Context as _;
use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::json;
use std::time::Duration;

/// Lists the dead letters, one a line; with `replay` publishes each to the subject it came from and deletes it.
pub async fn run(running: &Running, replay: bool, json: bool) -> anyhow::Result<()> {
    let bus = &running.bus;
    let mut stream =
        bus.jetstream.get_stream(bus.subjects.stream("dead")).await.context("the crawl has no dead letters' stream")?;
    let count = stream.info().await?.state.messages;
    if count == 0 {
        eprintln!("no dead letters");
        return Ok(());
    }
    let consumer = stream
        .create_consumer(pull::Config {
            ack_policy: AckPolicy::None,
            inactive_threshold: Duration::from_secs(60),
            ..Default::default()
        })
        .await?;
    let mut letters = consumer.fetch().max_messages(usize::try_from(count)?).messages().await?;
    while let Some(letter) = letters.next().await {
        let letter = letter.map_err(|error| anyhow::anyhow!("cannot read the dead letters: {error}"))?;
        let header = |name: &str| {
            letter.headers.as_ref().and_then(|headers| headers.get(name)).map(ToString::to_string).unwrap_or_default()
        };
        let (subject, reason) = (header("Rhumb-Subject"), header("Rhumb-Reason"));
        let sequence = letter.info().map_err(|error| anyhow::anyhow!("{error}"))?.stream_sequence;
        let bytes = letter.payload.len();
        if json {
            line(json!({ "sequence": sequence, "subject": subject, "reason": reason, "bytes": bytes }));
        } else {
            line(format_args!("{sequence}  {subject}  {bytes} bytes  {reason}"));
        }
        if replay && !subject.is_empty() {
            send_again(running, sequence, subject.clone(), letter.payload.clone())
                .await
                .with_context(|| format!("dead letter {sequence} could not be replayed to {subject}"))?;
            stream.delete_message(sequence).await?;
        }
    }
    Ok(())
}

/// To where it came from: a stream, which confirms it, or whoever listens now.
async fn send_again(running: &Running, sequence: u64, subject: String, payload: Bytes) -> anyhow::Result<()> {
    let bus = &running.bus;
    let edge = bus.subjects.edge_of(&subject);
    if edge.is_some_and(|edge| running.pipeline.edges.stream(edge).is_some()) {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("replay-{sequence}").as_str());
        bus.jetstream.publish_with_headers(subject, headers, payload).await?.await?;
    } else {
        bus.client.publish(subject, payload).await?;
        bus.client.flush().await?;
    }
    Ok(())
}

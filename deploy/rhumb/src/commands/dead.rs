//! `rhumb dead`: the messages that stages put aside, corrupt ones and those that processes died of,
//! and their replay.

use super::arguments::Which;
use crate::handle::{self, Running};
use crate::output::line;
use anyhow::Context as _;
use async_nats::HeaderMap;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use bytes::Bytes;
use clap::Args;
use futures::StreamExt as _;
use rhumb_wire::topology::DEAD;
use serde_json::json;
use std::time::Duration;

/// Lists the messages that stages put aside: corrupt ones, and those that processes died of
#[derive(Args)]
pub(super) struct Dead {
    /// Send each again to where it came from
    #[arg(long)]
    replay: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

impl Dead {
    /// Lists the dead letters, one a line. With `replay`, publishes each to the subject it came
    /// from and deletes it.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let running = handle::find(&self.which.layers()).await?;
        let bus = &running.bus;
        let stream = bus.jetstream.get_stream(bus.subjects.stream(DEAD)).await;
        let mut stream = stream.context("the crawl has no dead letters' stream")?;
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
        let mut letters = consumer
            .fetch()
            .max_messages(usize::try_from(count)?)
            .messages()
            .await?;
        while let Some(letter) = letters.next().await {
            let letter =
                letter.map_err(|error| anyhow::anyhow!("cannot read the dead letters: {error}"))?;
            let sequence = letter
                .info()
                .map_err(|error| anyhow::anyhow!("{error}"))?
                .stream_sequence;
            let subject = header(&letter, "Rhumb-Subject");
            self.print(&letter, sequence, &subject);
            if self.replay && !subject.is_empty() {
                send_again(&running, sequence, subject.clone(), letter.payload.clone())
                    .await
                    .with_context(|| {
                        format!("dead letter {sequence} could not be replayed to {subject}")
                    })?;
                stream.delete_message(sequence).await?;
            }
        }
        Ok(())
    }

    fn print(&self, letter: &Message, sequence: u64, subject: &str) {
        let reason = header(letter, "Rhumb-Reason");
        let bytes = letter.payload.len();
        if self.json {
            line(
                json!({ "sequence": sequence, "subject": subject, "reason": reason, "bytes": bytes }),
            );
        } else {
            line(format_args!(
                "{sequence}  {subject}  {bytes} bytes  {reason}"
            ));
        }
    }
}

/// The header of a letter; empty when it has none of this name.
fn header(letter: &Message, name: &str) -> String {
    letter
        .headers
        .as_ref()
        .and_then(|headers| headers.get(name))
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// Publishes a letter to where it came from: to a stream, which confirms it, or to whoever listens
/// now.
async fn send_again(
    running: &Running,
    sequence: u64,
    subject: String,
    payload: Bytes,
) -> anyhow::Result<()> {
    let bus = &running.bus;
    let edge = bus.subjects.edge_of(&subject);
    if edge.is_some_and(|edge| running.pipeline.edges.stream(edge).is_some()) {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("replay-{sequence}").as_str());
        bus.jetstream
            .publish_with_headers(subject, headers, payload)
            .await?
            .await?;
    } else {
        bus.client.publish(subject, payload).await?;
        bus.client.flush().await?;
    }
    Ok(())
}

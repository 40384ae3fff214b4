//! Where a stage's inputs come from: durable consumers of streams, and core NATS subscriptions.

use crate::bus::{Bus, Consumer, LaneConsumer, Need, PRIORITY_GROUP, consumer_name, lane_consumers, priority};
use crate::config::Pipeline;
use crate::topology::{Edge, Source, Token};
use anyhow::Context as _;
use async_nats::jetstream;
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use futures::StreamExt as _;
use futures::stream::{BoxStream, SelectAll};
use std::time::Duration;

/// A message from a stream.
pub(super) struct StreamMessage {
    pub(super) edge: Edge,
    pub(super) message: jetstream::Message,
}

/// A core NATS message.
pub(super) struct SoftMessage {
    pub(super) edge: Edge,
    pub(super) message: async_nats::Message,
}

pub(super) type StreamInputs = SelectAll<BoxStream<'static, Option<StreamMessage>>>;
pub(super) type SoftInputs = SelectAll<BoxStream<'static, SoftMessage>>;

/// A stream that is read: a position in it means nothing in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) edge: Edge,
    /// Creation, in nanoseconds since 1970.
    pub(super) created: i64,
}

/// A missing heartbeat shows that the broker is gone without a close.
const HEARTBEAT: Duration = Duration::from_secs(5);
const EXPIRES: Duration = Duration::from_secs(30);
/// Bytes of one pull; a page is at most the broker's largest payload.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// Creates the stage's consumers.
pub(super) struct Inputs<'a> {
    pub(super) bus: &'a Bus,
    pub(super) pipeline: &'a Pipeline,
    pub(super) stage: &'static str,
    pub(super) instance: u16,
    /// Partitions owned by the instance, of how many instances.
    pub(super) replicas: u16,
    /// Messages of one pull.
    pub(super) batch: usize,
    /// Whether the crawl waits for the stage.
    pub(super) need: Need,
}

impl Inputs<'_> {
    /// Opens the consumers of the stage's streams.
    pub(super) async fn streams(&self, sources: &[Source]) -> anyhow::Result<(StreamInputs, Vec<Opened>)> {
        let mut inputs = SelectAll::new();
        let mut opened = Vec::new();
        for source in sources {
            let (Source::Shared(edge) | Source::Owned(edge)) = *source else { continue };
            for (lane, consumer) in self.consumers(*source, edge) {
                inputs.push(self.pull(edge, lane, consumer).await?);
            }
            let stream = self.bus.jetstream.get_stream(self.bus.subjects.stream(edge.name())).await?;
            let created = stream.cached_info().created.unix_timestamp_nanos();
            opened.push(Opened { edge, created: i64::try_from(created).unwrap_or(i64::MAX) });
        }
        Ok((inputs, opened))
    }

    /// Of a stage that the crawl does not wait for: the edge whose consumer is not there any more, if there is one.
    pub(super) async fn removed(&self, sources: &[Source]) -> Option<Edge> {
        if self.need == Need::Required {
            return None;
        }
        for source in sources {
            let Source::Shared(edge) = *source else { continue };
            let Ok(stream) = self.bus.jetstream.get_stream(self.bus.subjects.stream(edge.name())).await else {
                continue;
            };
            let asked = stream.consumer_info(consumer_name(self.stage, None)).await;
            if asked.is_err_and(|error| error.kind() == ConsumerInfoErrorKind::NotFound) {
                return Some(edge);
            }
        }
        None
    }

    /// The consumers of a stream that the instance takes part in, each with its lane.
    fn consumers(&self, source: Source, edge: Edge) -> Vec<(Option<u16>, Consumer)> {
        let subjects = &self.bus.subjects;
        let consumer = |name, filters| Consumer { name, filters, has_lanes: false, need: self.need };
        match source {
            Source::Owned(_) => {
                let name = consumer_name(self.stage, Some(self.instance));
                vec![(None, consumer(name, self.owned_subjects(edge)))]
            }
            _ if edge.has_lanes() => lane_consumers(self.stage, edge, self.pipeline.partitions)
                .into_iter()
                .map(|LaneConsumer { name, lane, tokens }| {
                    let filters = tokens.iter().map(|token| subjects.of(edge, token)).collect();
                    (lane, Consumer { name, filters, has_lanes: lane.is_some(), need: self.need })
                })
                .collect(),
            _ => vec![(None, consumer(consumer_name(self.stage, None), subjects.all(edge)))],
        }
    }

    /// What a consumer has for the instance.
    async fn pull(
        &self,
        edge: Edge,
        lane: Option<u16>,
        consumer: Consumer,
    ) -> anyhow::Result<BoxStream<'static, Option<StreamMessage>>> {
        let stream = self.pipeline.edges.stream(edge).with_context(|| format!("edge {} is no stream", edge.name()))?;
        let consumer = consumer.ensure(self.bus, edge.name(), stream).await?;
        let pull = consumer
            .stream()
            .max_messages_per_batch(self.batch)
            .max_bytes_per_batch(BATCH_BYTES_MAX)
            .heartbeat(HEARTBEAT)
            .expires(EXPIRES);
        let pull = match lane {
            None => pull,
            Some(lane) => pull.group(PRIORITY_GROUP).priority(priority(self.instance, lane)),
        };
        let messages = pull.messages().await?.map(move |message| match message {
            Ok(message) => Some(StreamMessage { edge, message }),
            Err(error) => {
                // The pull goes on by itself when the broker is back.
                tracing::debug!(edge = edge.name(), %error, "no input for now");
                None
            }
        });
        Ok(messages.boxed())
    }

    /// Subscribes to the stage's core NATS edges.
    pub(super) async fn soft(&self, sources: &[Source]) -> anyhow::Result<SoftInputs> {
        let mut inputs = SelectAll::new();
        for source in sources {
            let (edge, subjects, group) = match *source {
                Source::Addressed(edge) => {
                    (edge, vec![self.bus.subjects.of(edge, &Token::Instance(self.instance.to_string()))], None)
                }
                Source::Any(edge) => (edge, self.bus.subjects.all(edge), Some(self.stage)),
                Source::OwnedSoft(edge) => (edge, self.owned_subjects(edge), None),
                Source::Shared(_) | Source::Owned(_) => continue,
            };
            for subject in subjects {
                let subscriber = match group {
                    None => self.bus.client.subscribe(subject).await?,
                    Some(group) => self.bus.client.queue_subscribe(subject, group.to_owned()).await?,
                };
                inputs.push(subscriber.map(move |message| SoftMessage { edge, message }).boxed());
            }
        }
        Ok(inputs)
    }

    fn owned_subjects(&self, edge: Edge) -> Vec<String> {
        if self.replicas == 1 {
            return self.bus.subjects.all(edge);
        }
        (0..self.pipeline.partitions)
            .filter(|&partition| Pipeline::owner(partition, self.replicas) == self.instance)
            .map(|partition| self.bus.subjects.of(edge, &Token::Partition(partition)))
            .collect()
    }
}

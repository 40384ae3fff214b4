//! Where a stage's inputs come from: durable consumers of streams, and core NATS subscriptions.

use anyhow::Context as _;
use async_nats::jetstream;
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use futures::stream::{BoxStream, SelectAll};
use futures::{StreamExt as _, TryStreamExt as _};
use rhumb_bus::{Bus, Consumer, Need, Owner, PRIORITY_GROUP, consumer_name, owner_in, owner_name};
use rhumb_config::Pipeline;
use rhumb_stage::node::Drawn;
use rhumb_wire::topology::{Edge, Retention, Source, StageName, Token};
use rhumb_wire::{LaneConsumer, lane_consumers, priority};
use std::collections::BTreeSet;
use std::time::Duration;

/// A message from a stream.
pub(super) struct StreamMessage {
    pub(super) edge: Edge,
    /// The partition whose consumer gave it; none: a consumer of several.
    pub(super) partition: Option<u16>,
    pub(super) message: jetstream::Message,
}

/// A core NATS message.
pub(super) struct SoftMessage {
    pub(super) edge: Edge,
    pub(super) message: async_nats::Message,
}

pub(super) type StreamInputs = SelectAll<BoxStream<'static, Option<StreamMessage>>>;
pub(super) type SoftInputs = SelectAll<BoxStream<'static, SoftMessage>>;

/// The part of a stream that a consumer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slice {
    All,
    Lane(u16),
    Partition(u16),
}

impl Slice {
    fn partition(self) -> Option<u16> {
        match self {
            Slice::Partition(partition) => Some(partition),
            Slice::All | Slice::Lane(_) => None,
        }
    }
}

/// A stream that is read: a position in it means nothing in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) edge: Edge,
    /// Creation, in nanoseconds since 1970.
    pub(super) created: i64,
    /// The consumers: their partitions, none for one of several.
    pub(super) consumers: Vec<Option<u16>>,
}

/// A missing heartbeat shows that the broker is gone without a close.
const HEARTBEAT: Duration = Duration::from_secs(5);
const EXPIRES: Duration = Duration::from_secs(30);
/// Messages of one pull of a consumer of one partition, at least.
const BATCH_MIN: usize = 8;
/// Bytes of one pull; a page is at most the broker's largest payload.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// Creates the stage's consumers of work queues, and finds the others.
pub(super) struct Inputs<'a> {
    pub(super) bus: &'a Bus,
    pub(super) pipeline: &'a Pipeline,
    pub(super) stage: &'static str,
    pub(super) instance: u16,
    /// Where the partitions come from that the instance owns.
    pub(super) drawn: &'a Drawn,
    /// Messages of one pull.
    pub(super) batch: usize,
    /// Whether the crawl waits for the stage.
    pub(super) need: Need,
}

impl Inputs<'_> {
    /// Opens the consumers of the stage's streams.
    pub(super) async fn streams(
        &self,
        sources: &[Source],
    ) -> anyhow::Result<(StreamInputs, Vec<Opened>)> {
        let mut inputs = SelectAll::new();
        let mut opened = Vec::new();
        for source in sources {
            let (Source::Shared(edge) | Source::Owned(edge)) = *source else {
                continue;
            };
            if let Source::Owned(_) = source {
                self.remove_earlier(edge).await?;
            }
            let mut consumers = Vec::new();
            for (slice, consumer) in self.consumers(*source, edge) {
                consumers.push(slice.partition());
                inputs.push(self.pull(edge, slice, consumer).await?);
            }
            let stream = self
                .bus
                .jetstream
                .get_stream(self.bus.subjects.stream(edge.name()))
                .await?;
            let created = stream.cached_info().created.unix_timestamp_nanos();
            opened.push(Opened {
                edge,
                created: i64::try_from(created).unwrap_or(i64::MAX),
                consumers,
            });
        }
        Ok((inputs, opened))
    }

    /// Returns whether the broker has forgotten a consumer of a stream that the instance takes part
    /// in. One that the crawl does not wait for may have been removed for good reason, unless there
    /// are no others either.
    pub(super) async fn are_forgotten(&self, source: Source, edge: Edge) -> anyhow::Result<bool> {
        let stream = self
            .bus
            .jetstream
            .get_stream(self.bus.subjects.stream(edge.name()))
            .await?;
        let known: BTreeSet<String> = stream.consumer_names().try_collect().await?;
        let misses = |(_, consumer): &(Slice, Consumer)| !known.contains(&consumer.name);
        let is_required = self.need == Need::Required;
        Ok(known.is_empty() || is_required && self.consumers(source, edge).iter().any(misses))
    }

    /// Of a stage that the crawl does not wait for: the edge whose consumer is not there any more,
    /// if there is one.
    pub(super) async fn removed(&self, sources: &[Source]) -> Option<Edge> {
        if self.need == Need::Required {
            return None;
        }
        for source in sources {
            let Source::Shared(edge) = *source else {
                continue;
            };
            let Ok(stream) = self
                .bus
                .jetstream
                .get_stream(self.bus.subjects.stream(edge.name()))
                .await
            else {
                continue;
            };
            let asked = stream.consumer_info(consumer_name(self.stage, None)).await;
            if asked.is_err_and(|error| error.kind() == ConsumerInfoErrorKind::NotFound) {
                return Some(edge);
            }
        }
        None
    }

    /// The name of the consumer of a partition that the instance owns, or of all.
    pub(super) fn owner(&self, partition: Option<u16>) -> String {
        let version = |partition: u16| match self.drawn {
            Drawn::All => 0,
            Drawn::Each { owned, .. } => owned
                .iter()
                .find(|(of, _)| *of == partition)
                .map_or(0, |of| of.1),
        };
        let since = if let Drawn::Each { since, .. } = self.drawn {
            *since
        } else {
            0
        };
        match partition {
            None => consumer_name(self.stage, Some(self.instance)),
            Some(partition) => owner_name(self.stage, partition, version(partition), since),
        }
    }

    /// Removes the consumers of earlier owners of the instance's partitions. The broker lets only
    /// one consumer have a message, so theirs would be in the way.
    async fn remove_earlier(&self, edge: Edge) -> anyhow::Result<()> {
        let stream = self
            .bus
            .jetstream
            .get_stream(self.bus.subjects.stream(edge.name()))
            .await?;
        let own: Vec<String> = self
            .consumers(Source::Owned(edge), edge)
            .into_iter()
            .map(|(_, of)| of.name)
            .collect();
        let is_own_partition = |partition: u16| match self.drawn {
            Drawn::All => true,
            Drawn::Each { owned, .. } => owned.iter().any(|(of, _)| *of == partition),
        };
        let names: Vec<String> = stream.consumer_names().try_collect().await?;
        for name in names.into_iter().filter(|name| !own.contains(name)) {
            let is_in_the_way = match owner_in(&name, self.stage) {
                Some(Owner::Instance) => !own.is_empty(),
                Some(Owner::OfPartition(partition)) => is_own_partition(partition),
                None => false,
            };
            if is_in_the_way {
                tracing::debug!(
                    stream = edge.name(),
                    name,
                    "removes the consumer of an earlier owner"
                );
                // One that is gone already is not in the way.
                let _ = stream.delete_consumer(&name).await;
            }
        }
        Ok(())
    }

    /// The consumers of a stream that the instance takes part in, each with its slice of the
    /// stream.
    fn consumers(&self, source: Source, edge: Edge) -> Vec<(Slice, Consumer)> {
        let subjects = &self.bus.subjects;
        let consumer = |name, filters| Consumer {
            name,
            filters,
            has_lanes: false,
            need: self.need,
            in_memory: false,
        };
        match source {
            Source::Owned(_) => match self.drawn {
                Drawn::All => {
                    vec![(Slice::All, consumer(self.owner(None), subjects.all(edge)))]
                }
                Drawn::Each { owned, .. } => {
                    let of = |&(partition, _): &(u16, u64)| {
                        let subject = subjects.of(edge, &Token::Partition(partition));
                        // With many consumers the files of their state cost the broker as much as
                        // all else. What one of them forgets still lies in its work queue.
                        let consumer = consumer(self.owner(Some(partition)), vec![subject]);
                        (
                            Slice::Partition(partition),
                            Consumer {
                                in_memory: true,
                                ..consumer
                            },
                        )
                    };
                    owned.iter().map(of).collect()
                }
            },
            _ if edge.has_lanes() => lane_consumers(self.stage, edge, subjects)
                .into_iter()
                .map(
                    |LaneConsumer {
                         name,
                         lane,
                         subjects: filters,
                     }| {
                        let consumer = Consumer {
                            has_lanes: lane.is_some(),
                            ..consumer(name, filters)
                        };
                        (lane.map_or(Slice::All, Slice::Lane), consumer)
                    },
                )
                .collect(),
            _ => vec![(
                Slice::All,
                consumer(consumer_name(self.stage, None), subjects.all(edge)),
            )],
        }
    }

    /// What a consumer has for the instance.
    async fn pull(
        &self,
        edge: Edge,
        slice: Slice,
        consumer: Consumer,
    ) -> anyhow::Result<BoxStream<'static, Option<StreamMessage>>> {
        let stream = self
            .pipeline
            .edges
            .stream(edge)
            .with_context(|| format!("edge {} is no stream", edge.name()))?;
        // Those of streams that are kept by interest are there before anything is published: no
        // stage of the pipeline makes its own.
        let consumer = match edge.retention() == Some(Retention::Interest)
            && StageName::from_name(self.stage).is_some()
        {
            true => consumer.find(self.bus, edge.name()).await?,
            false => consumer.ensure(self.bus, edge.name(), stream).await?,
        };
        let pull = consumer
            .stream()
            .max_messages_per_batch(self.batch_of(slice))
            .max_bytes_per_batch(BATCH_BYTES_MAX)
            .heartbeat(HEARTBEAT)
            .expires(EXPIRES);
        let pull = match slice {
            Slice::All | Slice::Partition(_) => pull,
            Slice::Lane(lane) => pull
                .group(PRIORITY_GROUP)
                .priority(priority(self.instance, lane)),
        };
        let partition = slice.partition();
        let messages = pull.messages().await?.map(move |message| match message {
            Ok(message) => Some(StreamMessage {
                edge,
                partition,
                message,
            }),
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
                Source::Addressed(edge) => (
                    edge,
                    vec![
                        self.bus
                            .subjects
                            .of(edge, &Token::Instance(self.instance.to_string())),
                    ],
                    None,
                ),
                Source::Any(edge) => (edge, self.bus.subjects.all(edge), Some(self.stage)),
                Source::OwnedSoft(edge) => (edge, self.owned_subjects(edge), None),
                Source::Shared(_) | Source::Owned(_) => continue,
            };
            for subject in subjects {
                let subscriber = match group {
                    None => self.bus.client.subscribe(subject).await?,
                    Some(group) => {
                        self.bus
                            .client
                            .queue_subscribe(subject, group.to_owned())
                            .await?
                    }
                };
                inputs.push(
                    subscriber
                        .map(move |message| SoftMessage { edge, message })
                        .boxed(),
                );
            }
        }
        Ok(inputs)
    }

    /// Messages of one pull: many consumers together ask for about as many as one.
    fn batch_of(&self, slice: Slice) -> usize {
        match (slice, self.drawn) {
            (Slice::Partition(_), Drawn::Each { owned, .. }) => {
                (2 * self.batch / owned.len().max(1)).clamp(BATCH_MIN, self.batch)
            }
            _ => self.batch,
        }
    }

    fn owned_subjects(&self, edge: Edge) -> Vec<String> {
        let subject = |partition| self.bus.subjects.of(edge, &Token::Partition(partition));
        match self.drawn {
            Drawn::All => self.bus.subjects.all(edge),
            Drawn::Each { owned, .. } => owned
                .iter()
                .map(|&(partition, _)| subject(partition))
                .collect(),
        }
    }
}

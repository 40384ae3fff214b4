//! Streams, consumers and buckets: created from the configuration, idempotently.

use super::Bus;
use super::lanes::{LANES, lane_consumers};
use crate::config::{Pipeline, Retention, Storage, StreamEdge};
use crate::topology::{self, DEAD, EDGES, Edge, Kind, Source, StageName};
use anyhow::Context as _;
use async_nats::jetstream::consumer::{AckPolicy, PriorityPolicy, PullConsumer, pull};
use async_nats::jetstream::kv;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use std::time::Duration;

/// Creates the streams that are not there yet and adapts those that differ: those of the pipeline, and those of the further
/// edges of a stage.
pub async fn ensure_streams(bus: &Bus, pipeline: &Pipeline, further: &[Edge]) -> anyhow::Result<()> {
    let mut streams: Vec<_> = pipeline.edges.streams().into_iter().map(|(key, edge)| (key, key, edge)).collect();
    for edge in further {
        let name = edge.name();
        anyhow::ensure!(
            streams.iter().all(|(known, _, _)| *known != name),
            "a further edge cannot be named {name}: there is a stream of that name; give it another"
        );
        // It is kept as the documents are.
        streams.push((name, Edge::Documents.name(), &pipeline.edges.documents));
    }
    for (name, key, edge) in streams {
        let config = stream_config(bus, name, edge);
        // Asked first: an update of a stream that is as it should be would still cost the broker a write.
        if let Ok(stream) = bus.jetstream.get_stream(&config.name).await
            && same(&stream.cached_info().config, &config)
        {
            continue;
        }
        bus.jetstream.create_or_update_stream(config).await.with_context(|| {
            format!(
                "stream {} cannot be made to fit edges.{key}: what it holds was created with other settings; \
                 set edges.{key} back, or end the crawl and delete it with `rhumb delete`",
                bus.subjects.stream(name)
            )
        })?;
    }
    // A stream that is kept by interest drops what is published while nobody is interested: its required consumers exist
    // before anything can be published.
    for (edge, stage) in required_by_interest(pipeline) {
        let Some(stream) = pipeline.edges.stream(edge) else { continue };
        let filters = bus.subjects.all(edge);
        let consumer = Consumer { name: consumer_name(stage.name(), None), filters, has_lanes: false };
        consumer.ensure(bus, edge.name(), stream).await?;
    }
    Ok(())
}

/// The streams that are kept by interest, each with a stage that must get all that is in it: its consumers that have
/// instances in this crawl.
pub fn required_by_interest(pipeline: &Pipeline) -> Vec<(Edge, StageName)> {
    let kept = EDGES.iter().filter(|row| row.kind == Kind::Stream(Retention::Interest)).map(|row| row.edge);
    let required = kept.flat_map(|edge| topology::consumers(edge).map(move |(stage, _)| (edge, stage)));
    required.filter(|(_, stage)| pipeline.stages.of(*stage).replicas > 0).collect()
}

/// The names of the consumers that must get all that is in an edge's stream; none for an edge that is no stream.
pub fn required_consumers(edge: Edge, pipeline: &Pipeline) -> Vec<String> {
    let names = |(stage, source): (StageName, Source)| -> Vec<String> {
        let replicas = pipeline.stages.of(stage).replicas;
        match source {
            Source::Owned(_) => (0..replicas).map(|instance| consumer_name(stage.name(), Some(instance))).collect(),
            Source::Shared(_) if edge.has_lanes() => {
                lane_consumers(stage.name(), edge, pipeline.partitions).into_iter().map(|lane| lane.name).collect()
            }
            Source::Shared(_) if replicas > 0 => vec![consumer_name(stage.name(), None)],
            Source::Shared(_) | Source::Addressed(_) | Source::Any(_) | Source::OwnedSoft(_) => Vec::new(),
        }
    };
    topology::consumers(edge).flat_map(names).collect()
}

/// Removes the archiver's consumers from a crawl that has no archiver any more: messages that nobody takes would fill the
/// streams. The process that starts a whole crawl calls this; nothing happens while there is an archiver, or if there was
/// none.
///
/// # Errors
/// The broker does not answer.
pub async fn leave_unarchived(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<()> {
    let absent = StageName::ALL.into_iter().filter(|stage| pipeline.stages.of(*stage).replicas == 0);
    for (stage, source) in absent.flat_map(|stage| topology::sources(stage).iter().map(move |source| (stage, *source)))
    {
        let stream = bus.jetstream.get_stream(bus.subjects.stream(source.edge().name())).await?;
        let _ = stream.delete_consumer(&consumer_name(stage.name(), None)).await;
    }
    Ok(())
}

fn stream_config(bus: &Bus, name: &str, edge: &StreamEdge) -> Config {
    Config {
        name: bus.subjects.stream(name),
        subjects: bus.subjects.held_by(name, edge),
        storage: match edge.storage {
            Storage::File => StorageType::File,
            Storage::Memory => StorageType::Memory,
        },
        retention: match edge.retention {
            Retention::WorkQueue => RetentionPolicy::WorkQueue,
            Retention::Interest => RetentionPolicy::Interest,
            Retention::Limits => RetentionPolicy::Limits,
        },
        // A full stream refuses, and its publishers wait; only dead letters give way to newer ones.
        discard: if name == DEAD { DiscardPolicy::Old } else { DiscardPolicy::New },
        max_bytes: if edge.bytes_max.0 == 0 { -1 } else { i64::try_from(edge.bytes_max.0).unwrap_or(i64::MAX) },
        max_messages: -1,
        max_messages_per_subject: -1,
        max_consumers: -1,
        duplicate_window: edge.duplicate_window,
        num_replicas: edge.replicas,
        ..Config::default()
    }
}

fn same(have: &Config, want: &Config) -> bool {
    have.subjects == want.subjects
        && have.storage == want.storage
        && have.retention == want.retention
        && have.discard == want.discard
        && have.max_bytes == want.max_bytes
        && have.duplicate_window == want.duplicate_window
        && have.num_replicas == want.num_replicas
}

/// Name of a durable consumer: the stage, and the instance for edges that instances own by partition.
pub fn consumer_name(stage: &str, instance: Option<u16>) -> String {
    match instance {
        None => stage.to_owned(),
        Some(instance) => format!("{stage}-{instance}"),
    }
}

/// A durable pull consumer of an edge's stream.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// Its name.
    pub name: String,
    /// The subjects it takes.
    pub filters: Vec<String>,
    /// It is one of several for the edge's lanes: instances say how much they prefer it.
    pub has_lanes: bool,
}

/// The one priority group of a consumer that has lanes.
pub(crate) const PRIORITY_GROUP: &str = "lane";

impl Consumer {
    /// Creates the consumer, or adapts it.
    pub async fn ensure(self, bus: &Bus, key: &str, edge: &StreamEdge) -> anyhow::Result<PullConsumer> {
        let Consumer { name, filters, has_lanes } = self;
        let stream_name = bus.subjects.stream(key);
        let stream =
            bus.jetstream.get_stream(&stream_name).await.with_context(|| format!("no stream {stream_name}"))?;
        let (filter_subject, filter_subjects) = match filters.as_slice() {
            [one] => (one.clone(), Vec::new()),
            _ => (String::new(), filters),
        };
        let (priority_policy, priority_groups, consumers) = match has_lanes {
            true => (PriorityPolicy::Prioritized, vec![PRIORITY_GROUP.to_owned()], u32::from(LANES)),
            false => (PriorityPolicy::None, Vec::new(), 1),
        };
        let config = pull::Config {
            durable_name: Some(name.clone()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: edge.ack_wait,
            max_ack_pending: i64::from(edge.unacked_max.div_ceil(consumers)),
            max_deliver: -1,
            filter_subject,
            filter_subjects,
            priority_policy,
            priority_groups,
            ..pull::Config::default()
        };
        stream
            .create_consumer(config)
            .await
            .with_context(|| format!("consumer {name} of stream {stream_name} cannot be made to fit edges.{key}"))
    }
}

/// The crawl's key-value buckets.
pub const BUCKETS: [&str; 3] = ["leases", "scope", "tokens"];

/// Handles of the buckets.
#[derive(Clone, Debug)]
pub struct Buckets {
    /// The owner of each instance's partitions; a key vanishes when it is not renewed.
    pub leases: kv::Store,
    /// The scopes of the topics.
    pub scope: kv::Store,
    /// Each scheduler's tokens of the budgets that they share.
    pub tokens: kv::Store,
    /// Lifetime of a key of `leases`. The configured one holds for a new bucket only.
    pub lease: Duration,
}

/// Creates the crawl's key-value buckets, those that are not there.
pub async fn ensure_buckets(bus: &Bus, lease: Duration) -> anyhow::Result<Buckets> {
    let create = |name: &str, max_age: Duration| {
        let bucket = bus.subjects.bucket(name);
        async move {
            if let Ok(store) = bus.jetstream.get_key_value(&bucket).await {
                return Ok(store);
            }
            bus.jetstream
                .create_key_value(kv::Config {
                    bucket: bucket.clone(),
                    history: 1,
                    max_age,
                    storage: StorageType::File,
                    ..kv::Config::default()
                })
                .await
                .with_context(|| format!("key-value bucket {bucket} cannot be created"))
        }
    };
    let [leases, scope, tokens] = BUCKETS;
    let leases = create(leases, lease).await?;
    Ok(Buckets {
        lease: leases.stream.cached_info().config.max_age,
        leases,
        scope: create(scope, Duration::ZERO).await?,
        tokens: create(tokens, Duration::ZERO).await?,
    })
}

//! Streams, consumers and buckets: created from the configuration, idempotently.

use super::Bus;
use super::consumers::{Need, consumer_name, required_by_interest};
use super::lanes::LANES;
use crate::config::{Pipeline, Retention, Storage, StreamEdge};
use crate::topology::{self, Edge, StageName};
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
        let config = stream_config(bus, name, edge, pipeline.replicas(edge));
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
        let consumer =
            Consumer { name: consumer_name(stage.name(), None), filters, has_lanes: false, need: Need::Required };
        consumer.ensure(bus, edge.name(), stream).await?;
    }
    Ok(())
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

fn stream_config(bus: &Bus, name: &str, edge: &StreamEdge, replicas: usize) -> Config {
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
        discard: match edge.retention {
            Retention::Limits => DiscardPolicy::Old,
            Retention::WorkQueue | Retention::Interest => DiscardPolicy::New,
        },
        max_bytes: if edge.bytes_max.0 == 0 { -1 } else { i64::try_from(edge.bytes_max.0).unwrap_or(i64::MAX) },
        max_messages: -1,
        max_messages_per_subject: -1,
        max_consumers: -1,
        duplicate_window: edge.duplicate_window,
        num_replicas: replicas,
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

/// A durable pull consumer of an edge's stream.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// Its name.
    pub name: String,
    /// The subjects it takes.
    pub filters: Vec<String>,
    /// It is one of several for the edge's lanes: instances say how much they prefer it.
    pub has_lanes: bool,
    /// Whether the crawl waits for it.
    pub need: Need,
}

/// The one priority group of a consumer that has lanes.
pub(crate) const PRIORITY_GROUP: &str = "lane";

impl Consumer {
    /// Creates the consumer, or adapts it.
    pub async fn ensure(self, bus: &Bus, key: &str, edge: &StreamEdge) -> anyhow::Result<PullConsumer> {
        let Consumer { name, filters, has_lanes, need } = self;
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
            inactive_threshold: need.inactive_threshold(),
            metadata: need.metadata(),
            ..pull::Config::default()
        };
        stream
            .create_consumer(config)
            .await
            .with_context(|| format!("consumer {name} of stream {stream_name} cannot be made to fit edges.{key}"))
    }
}

/// The crawl's key-value buckets.
pub const BUCKETS: [&str; 3] = [LEASES, SCOPE, "tokens"];
/// The bucket of the leases.
pub const LEASES: &str = "leases";
/// The bucket of the topics' scopes.
pub const SCOPE: &str = "scope";

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

/// Creates the crawl's key-value buckets that are not there, and adapts those that have another number of copies.
pub async fn ensure_buckets(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<Buckets> {
    let replicas = pipeline.broker.replicas;
    let [leases, scope, tokens] = BUCKETS;
    let leases = ensure_bucket(bus, leases, pipeline.ownership_lease, replicas).await?;
    Ok(Buckets {
        lease: leases.stream.cached_info().config.max_age,
        leases,
        scope: ensure_bucket(bus, scope, Duration::ZERO, replicas).await?,
        tokens: ensure_bucket(bus, tokens, Duration::ZERO, replicas).await?,
    })
}

async fn ensure_bucket(bus: &Bus, name: &str, max_age: Duration, num_replicas: usize) -> anyhow::Result<kv::Store> {
    let bucket = bus.subjects.bucket(name);
    let Ok(store) = bus.jetstream.get_key_value(&bucket).await else {
        let storage = StorageType::File;
        let config =
            kv::Config { bucket: bucket.clone(), history: 1, max_age, storage, num_replicas, ..Default::default() };
        return bus.jetstream.create_key_value(config).await.with_context(|| {
            format!("key-value bucket {bucket} cannot be created with {num_replicas} copies (broker.replicas)")
        });
    };
    let config = &store.stream.cached_info().config;
    if config.num_replicas != num_replicas {
        let adapted = Config { num_replicas, ..config.clone() };
        bus.jetstream.update_stream(adapted).await.with_context(|| {
            format!("key-value bucket {bucket} cannot be kept in {num_replicas} copies (broker.replicas)")
        })?;
    }
    Ok(store)
}

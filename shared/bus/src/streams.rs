//! Streams, consumers and buckets: made from the configuration by those who begin a crawl,
//! idempotently; found by its stages, which make none of them.

use super::Bus;
use super::consumers::{Need, consumer_name};
use super::info::stream_info;
use super::orders::{ORDERS, OrdersBucket};
use super::owners::{OWNERS, OwnersBucket};
use super::register::Register;
use super::spool;
use anyhow::Context as _;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{AckPolicy, PriorityPolicy, PullConsumer, pull};
use async_nats::jetstream::context::{
    ConsumerInfoErrorKind, CreateStreamError, CreateStreamErrorKind,
};
use async_nats::jetstream::kv;
use async_nats::jetstream::stream::{Config, DiscardPolicy, Info, RetentionPolicy, StorageType};
use futures::TryStreamExt as _;
use rhumb_config::identity::{Identity, Mark, Misfit, WAYS_OUT};
use rhumb_config::required_by_interest;
use rhumb_config::{Pipeline, Storage, StreamEdge};
use rhumb_wire::LANES;
use rhumb_wire::topology::{self, DEAD, Edge, Retention, StageName};
use std::collections::HashMap;
use std::time::Duration;

/// How often the broker is asked for a stream that it should have, before the stream counts as
/// gone, and the wait between. A broker that has just started may not know all of its streams yet.
const LOOKS_FOR_LOST: u32 = 4;
const LOOK_FOR_LOST_AGAIN: Duration = Duration::from_millis(500);

/// The configurations of all streams that have the mark of a crawl, those of further edges among
/// them.
///
/// # Errors
/// The broker does not answer.
pub async fn marked_streams(bus: &Bus, id: &str) -> anyhow::Result<Vec<Config>> {
    let infos: Vec<Info> = bus
        .jetstream
        .streams()
        .try_collect()
        .await
        .context("the broker does not list its streams")?;
    let is_marked =
        |config: &Config| Mark::of_stream(&config.metadata).is_some_and(|mark| mark.id == id);
    Ok(infos
        .into_iter()
        .map(|info| info.config)
        .filter(is_marked)
        .collect())
}

/// A stream: its name below `edges` or that of a further edge, the key of its settings, and these.
type StreamOf<'a> = (&'static str, &'static str, &'a StreamEdge);

/// The streams of a crawl, those of the pipeline first.
fn streams<'a>(pipeline: &'a Pipeline, further: &[Edge]) -> anyhow::Result<Vec<StreamOf<'a>>> {
    let mut streams: Vec<_> = pipeline
        .edges
        .streams()
        .into_iter()
        .map(|(key, edge)| (key, key, edge))
        .collect();
    for edge in further {
        let name = edge.name();
        anyhow::ensure!(
            streams.iter().all(|(known, _, _)| *known != name),
            "a further edge cannot be named {name}: there is a stream of that name; give it another"
        );
        // It is kept as the documents are.
        streams.push((name, Edge::Documents.name(), &pipeline.edges.documents));
    }
    Ok(streams)
}

/// Makes the streams of the pipeline that are not there yet, and adapts those that differ; then the
/// consumers that a stream kept by interest must have.
///
/// # Errors
/// The broker refuses; a stream belongs to another crawl, or one of this crawl is gone
/// ([`Misfit`]).
pub async fn make_streams(
    bus: &Bus,
    pipeline: &Pipeline,
    register: &Register,
    identity: &Identity,
) -> anyhow::Result<()> {
    make(bus, pipeline, streams(pipeline, &[])?, register, identity).await?;
    // A stream that is kept by interest drops what is published while nobody is interested: its
    // required consumers exist before anything can be published.
    for (edge, stage) in required_by_interest(pipeline) {
        let Some(stream) = pipeline.edges.stream(edge) else {
            continue;
        };
        let filters = bus.subjects.all(edge);
        let consumer = Consumer {
            name: consumer_name(stage.name(), None),
            filters,
            has_lanes: false,
            need: Need::Required,
            in_memory: false,
        };
        consumer.ensure(bus, edge.name(), stream).await?;
    }
    Ok(())
}

/// Makes the streams of the edges that a stage beside the pipeline brings, as [`make_streams`] does
/// those of the pipeline.
///
/// # Errors
/// As there; or an edge has the name of a stream of the pipeline.
pub async fn make_further_streams(
    bus: &Bus,
    pipeline: &Pipeline,
    further: &[Edge],
    register: &Register,
    identity: &Identity,
) -> anyhow::Result<()> {
    let of_pipeline = pipeline.edges.streams().len();
    make(
        bus,
        pipeline,
        streams(pipeline, further)?.split_off(of_pipeline),
        register,
        identity,
    )
    .await
}

async fn make(
    bus: &Bus,
    pipeline: &Pipeline,
    streams: Vec<StreamOf<'_>>,
    register: &Register,
    identity: &Identity,
) -> anyhow::Result<()> {
    for (name, key, edge) in streams {
        let mut config = stream_config(bus, name, edge, pipeline, identity);
        // Asked first: an update of a stream that is as it should be would still cost the broker a
        // write.
        let found = find_stream(bus, &config.name, edge.storage, register, identity).await?;
        if let Some(found) = &found {
            identity.check_stream(&config.name, &found.config.metadata)?;
            // A broker changes it of no stream that is there.
            config.max_consumers = found.config.max_consumers;
        }
        if found
            .as_ref()
            .is_some_and(|found| same(&found.config, &config))
        {
            continue;
        }
        let stream = config.name.clone();
        if let Err(error) = bus.jetstream.create_or_update_stream(config).await {
            let why = why_not_made(&stream, key, edge, &error);
            return Err(error).context(why);
        }
        if found.is_none() {
            register.note_made(&stream, identity).await?;
        }
    }
    Ok(())
}

/// What an operator does about a stream that the broker does not make, or does not change.
fn why_not_made(stream: &str, key: &str, edge: &StreamEdge, error: &CreateStreamError) -> String {
    match error.kind() {
        CreateStreamErrorKind::JetStream(answer)
            if answer.error_code() == ErrorCode::STORAGE_RESOURCES_EXCEEDED =>
        {
            format!(
                "the broker has too little storage for stream {stream}, which reserves \
                 edges.{key}.bytes_max = {}: give it more (the chart's: nats.storage.size), or \
                 lower edges.*.bytes_max",
                edge.bytes_max
            )
        }
        _ => format!(
            "stream {stream} cannot be made to fit edges.{key}: what it holds was created with \
             other settings; set edges.{key} back, or end the crawl and delete it with `rhumb \
             delete`"
        ),
    }
}

/// Looks whether all streams of the pipeline are there, and the consumers that those kept by
/// interest must have. Says in words what is missing and was not made yet, or went with the
/// broker's memory; nothing when nothing is.
///
/// # Errors
/// A stream belongs to another crawl, or one of this crawl is gone ([`Misfit`]); or the broker does
/// not answer.
pub async fn missing(
    bus: &Bus,
    pipeline: &Pipeline,
    register: &Register,
    identity: &Identity,
) -> anyhow::Result<Option<String>> {
    for (name, _, edge) in streams(pipeline, &[])? {
        let stream = bus.subjects.stream(name);
        let Some(found) = find_stream(bus, &stream, edge.storage, register, identity).await? else {
            return Ok(Some(format!("the stream {stream}")));
        };
        identity.check_stream(&stream, &found.config.metadata)?;
    }
    for (edge, stage) in required_by_interest(pipeline) {
        let stream = bus.subjects.stream(edge.name());
        let name = consumer_name(stage.name(), None);
        let asked = bus
            .jetstream
            .get_stream_no_info(&stream)
            .await?
            .consumer_info(&name)
            .await;
        match asked {
            Ok(_) => {}
            Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => {
                return Ok(Some(format!("the consumer {name} of the stream {stream}")));
            }
            Err(error) => {
                return Err(error).with_context(|| {
                    format!("the broker does not tell of the consumer {name} of {stream}")
                });
            }
        }
    }
    Ok(None)
}

/// Looks for a stream; none when this generation of the crawl has not made it yet, or keeps it in
/// memory alone.
async fn find_stream(
    bus: &Bus,
    name: &str,
    storage: Storage,
    register: &Register,
    identity: &Identity,
) -> anyhow::Result<Option<Info>> {
    for look in 1.. {
        if let Some(info) = stream_info(bus, name).await? {
            return Ok(Some(info));
        }
        if storage == Storage::Memory || !register.has_made(name, identity).await? {
            return Ok(None);
        }
        if look == LOOKS_FOR_LOST {
            break;
        }
        tokio::time::sleep(LOOK_FOR_LOST_AGAIN).await;
    }
    Err(Misfit(format!(
        "the stream {name} of {} is gone from the broker: {WAYS_OUT}",
        identity.mark
    ))
    .into())
}

/// The names of all streams that a crawl of this configuration has.
pub fn stream_names(bus: &Bus, pipeline: &Pipeline) -> Vec<String> {
    pipeline
        .edges
        .streams()
        .into_iter()
        .map(|(name, _)| bus.subjects.stream(name))
        .collect()
}

/// Removes the archiver's consumers from a crawl that has no archiver any more: messages that
/// nobody takes would fill the streams. The process that starts a whole crawl calls this; nothing
/// happens while there is an archiver, or if there was none.
///
/// # Errors
/// The broker does not answer.
pub async fn leave_unarchived(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<()> {
    let absent = StageName::ALL
        .into_iter()
        .filter(|stage| pipeline.stages.of(*stage).replicas == 0);
    for (stage, source) in absent.flat_map(|stage| {
        topology::sources(stage)
            .iter()
            .map(move |source| (stage, *source))
    }) {
        let stream = bus
            .jetstream
            .get_stream(bus.subjects.stream(source.edge().name()))
            .await?;
        let _ = stream
            .delete_consumer(&consumer_name(stage.name(), None))
            .await;
    }
    Ok(())
}

fn stream_config(
    bus: &Bus,
    name: &str,
    edge: &StreamEdge,
    pipeline: &Pipeline,
    identity: &Identity,
) -> Config {
    Config {
        name: bus.subjects.stream(name),
        subjects: bus.subjects.held_by(name),
        storage: match edge.storage {
            Storage::File => StorageType::File,
            Storage::Memory => StorageType::Memory,
        },
        retention: match topology::retention(name) {
            Retention::WorkQueue => RetentionPolicy::WorkQueue,
            Retention::Interest => RetentionPolicy::Interest,
            Retention::Limits => RetentionPolicy::Limits,
        },
        // A full stream refuses, and its publishers wait; only dead letters give way to newer ones.
        discard: if name == DEAD {
            DiscardPolicy::Old
        } else {
            DiscardPolicy::New
        },
        max_bytes: if edge.bytes_max.0 == 0 {
            -1
        } else {
            i64::try_from(edge.bytes_max.0).unwrap_or(i64::MAX)
        },
        max_messages: -1,
        max_messages_per_subject: -1,
        max_consumers: i32::try_from(pipeline.broker.consumers_max).unwrap_or(i32::MAX),
        duplicate_window: edge.duplicate_window,
        num_replicas: pipeline.replicas(edge),
        metadata: metadata(name, pipeline, identity),
        ..Config::default()
    }
}

/// Whose stream it is, and the folder where its large messages may lie.
fn metadata(name: &str, pipeline: &Pipeline, identity: &Identity) -> HashMap<String, String> {
    let mut metadata = identity.mark.metadata();
    let folder = Edge::from_name(name).and_then(|edge| spool::folder(pipeline, edge));
    metadata.extend(folder.map(|folder| (spool::FOLDER.to_owned(), folder)));
    metadata
}

fn same(have: &Config, want: &Config) -> bool {
    have.subjects == want.subjects
        && have.storage == want.storage
        && have.retention == want.retention
        && have.discard == want.discard
        && have.max_bytes == want.max_bytes
        && have.duplicate_window == want.duplicate_window
        && have.num_replicas == want.num_replicas
        && have.metadata.get(spool::FOLDER) == want.metadata.get(spool::FOLDER)
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
    /// The broker keeps its state in memory alone. A broker that is started anew does not know it
    /// any more.
    pub in_memory: bool,
}

/// The one priority group of a consumer that has lanes.
pub const PRIORITY_GROUP: &str = "lane";

impl Consumer {
    /// Finds the consumer, which is not this process's to make.
    ///
    /// # Errors
    /// It is not there, or the broker does not answer.
    pub async fn find(self, bus: &Bus, key: &str) -> anyhow::Result<PullConsumer> {
        let stream = bus.subjects.stream(key);
        bus.jetstream
            .get_consumer_from_stream(&self.name, &stream)
            .await
            .with_context(|| {
                format!(
                    "the consumer {} of the stream {stream} is not there; `rhumb init` makes it",
                    self.name
                )
            })
    }

    /// Creates the consumer, or adapts it.
    pub async fn ensure(
        self,
        bus: &Bus,
        key: &str,
        edge: &StreamEdge,
    ) -> anyhow::Result<PullConsumer> {
        let Consumer {
            name,
            filters,
            has_lanes,
            need,
            in_memory,
        } = self;
        let stream_name = bus.subjects.stream(key);
        let stream = bus
            .jetstream
            .get_stream(&stream_name)
            .await
            .with_context(|| format!("no stream {stream_name}"))?;
        let (filter_subject, filter_subjects) = match filters.as_slice() {
            [one] => (one.clone(), Vec::new()),
            _ => (String::new(), filters),
        };
        let (priority_policy, priority_groups, consumers) = match has_lanes {
            true => (
                PriorityPolicy::Prioritized,
                vec![PRIORITY_GROUP.to_owned()],
                u32::from(LANES),
            ),
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
            memory_storage: in_memory,
            ..pull::Config::default()
        };
        stream.create_consumer(config).await.with_context(|| {
            format!(
                "consumer {name} of stream {stream_name} cannot be made to fit edges.{key} (a \
                 stream may have broker.consumers_max of them)"
            )
        })
    }
}

/// The crawl's key-value buckets.
pub const BUCKETS: [&str; 6] = [LEASES, SCOPE, "tokens", IDENTITY, OWNERS, ORDERS];
/// The bucket of the leases.
pub const LEASES: &str = "leases";
/// The bucket of the topics' scopes.
pub const SCOPE: &str = "scope";
/// The bucket of the [`Register`].
const IDENTITY: &str = "identity";

/// Handles of the buckets.
#[derive(Clone, Debug)]
pub struct Buckets {
    /// The owner of each instance's partitions; a key vanishes when it is not renewed.
    pub leases: kv::Store,
    /// The scopes of the topics.
    pub scope: kv::Store,
    /// Each scheduler's tokens of the budgets that they share.
    pub tokens: kv::Store,
    /// Which crawl it is, and what it has begun.
    pub register: Register,
    /// Which instance has which partition.
    pub owners: OwnersBucket,
    /// What operators have asked of the crawl.
    pub orders: OrdersBucket,
    /// Lifetime of a key of `leases`. The configured one holds for a new bucket only.
    pub lease: Duration,
}

/// Creates the crawl's key-value buckets that are not there, and adapts those that have another
/// number of copies.
pub async fn ensure_buckets(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<Buckets> {
    let replicas = pipeline.broker.replicas;
    let mut stores = Vec::new();
    for name in BUCKETS {
        let max_age = if name == LEASES {
            pipeline.ownership_lease
        } else {
            Duration::ZERO
        };
        stores.push(ensure_bucket(bus, name, max_age, replicas).await?);
    }
    Buckets::of(stores).context("a bucket is missing")
}

/// Finds the crawl's key-value buckets; none while one of them is missing.
///
/// # Errors
/// The broker does not answer.
pub async fn find_buckets(bus: &Bus) -> anyhow::Result<Option<Buckets>> {
    let mut stores = Vec::new();
    for name in BUCKETS {
        let bucket = bus.subjects.bucket(name);
        if stream_info(bus, &format!("KV_{bucket}")).await?.is_none() {
            return Ok(None);
        }
        let store = bus.jetstream.get_key_value(&bucket).await;
        stores.push(store.with_context(|| {
            format!("the broker does not tell of the key-value bucket {bucket}")
        })?);
    }
    Ok(Buckets::of(stores))
}

impl Buckets {
    /// From the stores, in the order of [`BUCKETS`].
    fn of(stores: Vec<kv::Store>) -> Option<Buckets> {
        let [leases, scope, tokens, identity, owners, orders] =
            <[kv::Store; BUCKETS.len()]>::try_from(stores).ok()?;
        Some(Buckets {
            // An earlier start may have made the bucket with another one.
            lease: leases.stream.cached_info().config.max_age,
            leases,
            scope,
            tokens,
            register: Register::new(identity),
            owners: OwnersBucket::new(owners),
            orders: OrdersBucket::new(orders),
        })
    }
}

async fn ensure_bucket(
    bus: &Bus,
    name: &str,
    max_age: Duration,
    num_replicas: usize,
) -> anyhow::Result<kv::Store> {
    let bucket = bus.subjects.bucket(name);
    let Ok(store) = bus.jetstream.get_key_value(&bucket).await else {
        let storage = StorageType::File;
        let config = kv::Config {
            bucket: bucket.clone(),
            history: 1,
            max_age,
            storage,
            num_replicas,
            ..Default::default()
        };
        return bus
            .jetstream
            .create_key_value(config)
            .await
            .with_context(|| {
                format!(
                    "key-value bucket {bucket} cannot be created with {num_replicas} copies \
                     (broker.replicas)"
                )
            });
    };
    let config = &store.stream.cached_info().config;
    if config.num_replicas != num_replicas {
        let adapted = Config {
            num_replicas,
            ..config.clone()
        };
        bus.jetstream
            .update_stream(adapted)
            .await
            .with_context(|| {
                format!(
                    "key-value bucket {bucket} cannot be kept in {num_replicas} copies \
                     (broker.replicas)"
                )
            })?;
    }
    Ok(store)
}

/// The register of the crawl; none when the broker has none.
pub(super) async fn find_register(bus: &Bus) -> anyhow::Result<Option<Register>> {
    let bucket = bus.subjects.bucket(IDENTITY);
    if stream_info(bus, &format!("KV_{bucket}")).await?.is_none() {
        return Ok(None);
    }
    let store = bus
        .jetstream
        .get_key_value(&bucket)
        .await
        .context("the broker does not tell of the crawl's identity")?;
    Ok(Some(Register::new(store)))
}

/// The orders of a crawl that runs; none of one that an earlier version has begun, before its init
/// has run again.
///
/// # Errors
/// The broker does not answer.
pub async fn find_orders(bus: &Bus) -> anyhow::Result<Option<OrdersBucket>> {
    let bucket = bus.subjects.bucket(ORDERS);
    if stream_info(bus, &format!("KV_{bucket}")).await?.is_none() {
        return Ok(None);
    }
    let store = bus.jetstream.get_key_value(&bucket).await;
    Ok(Some(OrdersBucket::new(store.context(
        "the broker does not tell what was asked of the crawl",
    )?)))
}

//! Consumers of streams that are kept by interest: who they are, which of them the crawl waits for,
//! and how far behind each is.
//!
//! Invariant: a consumer is optional unless the table of stages, or the consumer itself, says that
//! it is required (P8).

use super::Bus;
use super::spool;
use async_nats::jetstream::consumer::Info;
use async_nats::jetstream::stream::Stream;
use futures::TryStreamExt as _;
use rhumb_config::{Pipeline, edges_by_interest};
use rhumb_wire::lane_consumers;
use rhumb_wire::topology::{self, Edge, Source, StageName};
use std::collections::HashMap;
use std::time::Duration;

/// Name of a durable consumer: the stage, and the instance for edges that instances own by
/// partition.
pub fn consumer_name(stage: &str, instance: Option<u16>) -> String {
    match instance {
        None => stage.to_owned(),
        Some(instance) => format!("{stage}-{instance}"),
    }
}

/// Name of the durable consumer of one partition: with the version of its ownership and the epoch
/// in which the owner began to draw from it, so that acks for an earlier consumer are none for this
/// one.
pub fn owner_name(stage: &str, partition: u16, version: u64, since: u64) -> String {
    format!("{stage}-p{partition}-v{version}-{since}")
}

/// Whose a consumer of an edge is that instances own by partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// An instance's that had all partitions.
    Instance,
    /// The owner's of one partition.
    OfPartition(u16),
}

/// Whose consumer it is, by its name; none when it is none of the stage's.
pub fn owner_in(name: &str, stage: &str) -> Option<Owner> {
    let of = name.strip_prefix(stage)?.strip_prefix('-')?;
    match of.strip_prefix('p') {
        Some(of) => of
            .split_once("-v")
            .and_then(|(partition, _)| partition.parse().ok())
            .map(Owner::OfPartition),
        None => of.parse::<u16>().ok().map(|_| Owner::Instance),
    }
}

/// Whether a crawl waits for a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It gets every message: a full stream waits for it.
    Required,
    /// It never holds the crawl back. The broker removes it when nobody has pulled for this time.
    Optional {
        /// `broker.consumer_expiry`
        expires_after: Duration,
    },
}

/// What a required consumer says of itself, in its metadata at the broker.
const NEED: (&str, &str) = ("rhumb-need", "required");

impl Need {
    /// What is said of it in the consumer's metadata.
    pub(super) fn metadata(self) -> HashMap<String, String> {
        let says = (self == Need::Required).then(|| (NEED.0.to_owned(), NEED.1.to_owned()));
        says.into_iter().collect()
    }

    /// How long it may be without a pull; zero: for ever.
    pub(super) fn inactive_threshold(self) -> Duration {
        match self {
            Need::Required => Duration::ZERO,
            Need::Optional { expires_after } => expires_after,
        }
    }
}

/// A consumer of a stream that is kept by interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interested {
    /// The edge of the stream.
    pub edge: Edge,
    /// Its name.
    pub name: String,
    /// The crawl waits for it.
    pub is_required: bool,
    /// Messages that were not given to it yet.
    pub waiting: u64,
    /// Messages that it was given and has not acked.
    pub unacked: u64,
    /// Messages of these that it was given more than once.
    pub redelivered: u64,
    /// Bytes of both: by the average size of a message of the stream, and in files of its spool.
    pub bytes: u64,
    /// When it acked last, by the broker's clock, in nanoseconds since 1970.
    pub acked_at: Option<i128>,
}

impl Interested {
    /// Messages that the stream keeps for it.
    pub fn messages(&self) -> u64 {
        self.waiting + self.unacked
    }
}

/// The names of the consumers that must get all that is in an edge's stream; none for an edge that
/// is no stream.
pub fn required_consumers(edge: Edge, pipeline: &Pipeline) -> Vec<String> {
    let names = |(stage, source): (StageName, Source)| -> Vec<String> {
        let replicas = pipeline.stages.of(stage).replicas;
        match source {
            // A work queue: only streams that are kept by interest have to be asked who is
            // interested.
            Source::Owned(_) => Vec::new(),
            Source::Shared(_) if edge.has_lanes() => {
                let subjects = pipeline.subjects();
                lane_consumers(stage.name(), edge, &subjects)
                    .into_iter()
                    .map(|lane| lane.name)
                    .collect()
            }
            Source::Shared(_) if replicas > 0 => vec![consumer_name(stage.name(), None)],
            Source::Shared(_) | Source::Addressed(_) | Source::Any(_) | Source::OwnedSoft(_) => {
                Vec::new()
            }
        }
    };
    topology::consumers(edge).flat_map(names).collect()
}

/// Lists the consumers of an edge's stream, which is kept by interest, by name.
///
/// # Errors
/// The broker does not answer.
pub async fn interested(
    stream: &Stream,
    edge: Edge,
    pipeline: &Pipeline,
) -> anyhow::Result<Vec<Interested>> {
    let required = required_consumers(edge, pipeline);
    let state = &stream.cached_info().state;
    let infos: Vec<Info> = stream.consumers().try_collect().await?;
    let mut consumers: Vec<Interested> = infos
        .into_iter()
        .map(|info| {
            let messages = info.num_pending + info.num_ack_pending as u64;
            Interested {
                edge,
                is_required: required.contains(&info.name)
                    || info
                        .config
                        .metadata
                        .get(NEED.0)
                        .is_some_and(|need| need == NEED.1),
                waiting: info.num_pending,
                unacked: info.num_ack_pending as u64,
                redelivered: info.num_redelivered as u64,
                bytes: state.bytes.checked_div(state.messages).unwrap_or(0) * messages
                    + spool::bytes_behind(
                        &stream.cached_info().config,
                        info.ack_floor.stream_sequence,
                    ),
                acked_at: info
                    .ack_floor
                    .last_active
                    .map(|at| at.unix_timestamp_nanos()),
                name: info.name,
            }
        })
        .collect();
    consumers.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(consumers)
}

/// Lists the consumers of all edges whose streams are kept by interest.
///
/// # Errors
/// The broker does not answer.
pub async fn all_interested(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<Vec<Interested>> {
    let mut all = Vec::new();
    for edge in edges_by_interest() {
        let stream = bus
            .jetstream
            .get_stream(bus.subjects.stream(edge.name()))
            .await?;
        all.extend(interested(&stream, edge, pipeline).await?);
    }
    Ok(all)
}

/// Removes a consumer. What its stream keeps for it alone goes.
///
/// # Errors
/// The broker does not answer, or there is none of that name.
pub async fn remove_consumer(bus: &Bus, edge: Edge, name: &str) -> anyhow::Result<()> {
    bus.jetstream
        .delete_consumer_from_stream(name, bus.subjects.stream(edge.name()))
        .await?;
    Ok(())
}

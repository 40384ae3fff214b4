//! The section `edges` of `pipeline.yaml`: how the streams of all edges are kept.
//!
//! Invariant: subjects and retention are the table's ([`rhumb_wire::topology`]) and no
//! configuration.

use super::units::{Bytes, duration};
use rhumb_wire::topology::{DEAD, Edge, MOVES, PARKED};
use serde::Deserialize;
use std::time::Duration;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Edges {
    pub defaults: StreamEdge,
    pub urls: UrlEdges,
    pub pages: StreamEdge,
    pub outcomes: StreamEdge,
    pub fetch: FetchEdges,
    pub documents: StreamEdge,
    pub dead: StreamEdge,
    pub parked: StreamEdge,
    pub moves: StreamEdge,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct UrlEdges {
    pub found: StreamEdge,
    pub split: StreamEdge,
    pub new: StreamEdge,
    pub ready: StreamEdge,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct FetchEdges {
    pub reports: StreamEdge,
}

/// An edge that is a JetStream stream.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct StreamEdge {
    pub storage: Storage,
    pub replicas: usize,
    pub bytes_max: Bytes,
    #[serde(deserialize_with = "duration")]
    pub duplicate_window: Duration,
    #[serde(deserialize_with = "duration")]
    pub ack_wait: Duration,
    pub unacked_max: u32,
}

/// Where the broker keeps a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "pipeline.yaml documents every value")]
pub enum Storage {
    File,
    Memory,
}

impl Edges {
    /// The stream of an edge; none for an edge of core NATS messages.
    pub fn stream(&self, edge: Edge) -> Option<&StreamEdge> {
        match edge {
            Edge::UrlsFound => Some(&self.urls.found),
            Edge::UrlsSplit => Some(&self.urls.split),
            Edge::UrlsNew => Some(&self.urls.new),
            Edge::UrlsReady => Some(&self.urls.ready),
            Edge::FetchReports => Some(&self.fetch.reports),
            Edge::Pages => Some(&self.pages),
            Edge::Outcomes => Some(&self.outcomes),
            // A further edge is kept as the documents are.
            Edge::Documents | Edge::Further { .. } => Some(&self.documents),
            Edge::FetchAsks
            | Edge::FetchJobs
            | Edge::DnsRefresh
            | Edge::Errands
            | Edge::UrlsFiltered
            | Edge::UrlsBoosts
            | Edge::ContentAsks => None,
        }
    }

    /// All streams with their keys below `edges`: those of the edges, then the dead letters, the
    /// parked messages and the partitions on their way.
    pub fn streams(&self) -> Vec<(&'static str, &StreamEdge)> {
        let of_edges = Edge::ALL
            .into_iter()
            .filter_map(|edge| Some((edge.name(), self.stream(edge)?)));
        of_edges
            .chain([
                (DEAD, &self.dead),
                (PARKED, &self.parked),
                (MOVES, &self.moves),
            ])
            .collect()
    }
}

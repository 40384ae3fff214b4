//! Streams by what may become of their messages: kept by interest, lost with the broker's memory,
//! lasting.

use super::edges::{Storage, StreamEdge};
use super::pipeline::Pipeline;
use rhumb_wire::topology::{self, EDGES, Edge, Kind, Retention, StageName};

/// Edges whose streams are kept by interest.
pub fn edges_by_interest() -> impl Iterator<Item = Edge> {
    EDGES
        .iter()
        .filter(|row| row.kind == Kind::Stream(Retention::Interest))
        .map(|row| row.edge)
}

/// The streams that are kept by interest, each with a stage that must get all that is in it: its
/// consumers that have instances in this crawl.
pub fn required_by_interest(pipeline: &Pipeline) -> Vec<(Edge, StageName)> {
    let required = edges_by_interest()
        .flat_map(|edge| topology::consumers(edge).map(move |(stage, _)| (edge, stage)));
    required
        .filter(|(_, stage)| pipeline.stages.of(*stage).replicas > 0)
        .collect()
}

/// The streams, by their keys below `edges`, whose last sequence falls only when their broker loses
/// something: not those in its memory, and not those kept by interest in which no stage takes an
/// interest, where all is dropped.
pub fn lasting_streams(pipeline: &Pipeline) -> Vec<&'static str> {
    let required: Vec<&str> = required_by_interest(pipeline)
        .into_iter()
        .map(|(edge, _)| edge.name())
        .collect();
    let lasts = |key: &str, edge: &StreamEdge| {
        edge.storage == Storage::File
            && (topology::retention(key) != Retention::Interest || required.contains(&key))
    };
    pipeline
        .edges
        .streams()
        .into_iter()
        .filter(|(key, edge)| lasts(key, edge))
        .map(|(key, _)| key)
        .collect()
}

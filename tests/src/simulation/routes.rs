//! Routes: which edge, and where on it, a subject means; the broker in memory knows edges, the
//! settlement subjects.

use rhumb_config::Pipeline;
use rhumb_wire::message::Edge;
use rhumb_wire::topology::Division;
use rhumb_wire::topology::Token;
use rhumb_wire::{LANES, Subjects};
use std::collections::HashMap;
use std::sync::Arc;

/// Ids that splits add at most.
const IDS_MORE_MAX: u16 = 64;

/// The subjects of a crawl, both ways.
pub(crate) struct Routes {
    pub(crate) subjects: Arc<Subjects>,
    by_subject: HashMap<String, (Edge, Token)>,
}

impl Routes {
    pub(crate) fn new(pipeline: &Pipeline) -> Self {
        let subjects = pipeline.subjects();
        let mut by_subject = HashMap::new();
        for edge in Edge::ALL {
            let lanes = (0..LANES).map(Token::Lane);
            let partitions = (0..pipeline.partitions + IDS_MORE_MAX).map(Token::Partition);
            let is_in_lanes = edge.division() == Division::PartitionInLane;
            let ids = (0..pipeline.partitions + IDS_MORE_MAX).filter(|_| is_in_lanes);
            let in_lanes = ids.flat_map(|partition| {
                (0..LANES).map(move |lane| Token::InLane { partition, lane })
            });
            // The last one wins: where an edge is not divided, its one subject means no token.
            for token in lanes.chain(partitions).chain(in_lanes).chain([Token::None]) {
                by_subject.insert(subjects.of(edge, &token), (edge, token));
            }
        }
        Routes {
            subjects: Arc::new(subjects),
            by_subject,
        }
    }

    /// The edge whose stream has this name.
    pub(crate) fn edge_of_stream(&self, stream: &str) -> Edge {
        let edge = Edge::ALL
            .into_iter()
            .find(|edge| self.subjects.stream(edge.name()) == stream);
        edge.unwrap_or_else(|| panic!("{stream} is no stream of an edge"))
    }

    /// Where a message with this subject goes.
    pub(crate) fn of(&self, subject: &str) -> (Edge, Token) {
        let route = self
            .by_subject
            .get(subject)
            .unwrap_or_else(|| panic!("{subject} is no subject of an edge"));
        route.clone()
    }
}

//! The topology: every edge and every stage of the pipeline, in two constant tables.
//!
//! In: nothing; the tables are written by hand. Out: [`EDGES`] and [`STAGES`], from which streams,
//! consumers, subjects, validation, the list of the tap, `rhumb status`, `rhumb why` and `rhumb
//! topology` are derived, and the words in which code names a place in the pipeline: [`Edge`],
//! [`StageName`], [`Source`], [`Token`]. [`User`], [`BUCKETS`] and [`BESIDE`] say who uses what at
//! the broker beside the edges.
//!
//! Stages beside the pipeline stand in no table; they bring their own edges ([`Edge::further`]).
//!
//! Invariant: each edge and each stage of the pipeline has one row. Who produces and who consumes is
//! said once, in the table of edges.

mod edges;
mod picture;
mod stages;
mod users;
mod words;

pub use edges::{DEAD, EDGES, Edge, EdgeRow, MOVES, PARKED};
pub use picture::{PICTURE, dot, text};
pub use stages::{STAGES, Source, StageRow};
pub use users::{BESIDE, BUCKETS, BesideRow, BucketRow, TakenOut, User, Who};
pub use words::{Division, Kind, Party, Retention, StageName, Token};

/// The input edges of a stage, each with how the stage takes part in it.
pub const fn sources(stage: StageName) -> &'static [Source] {
    stage.row().inputs
}

/// The stages that consume an edge, each with how it takes part.
pub fn consumers(edge: Edge) -> impl Iterator<Item = (StageName, Source)> {
    let of_stage = move |row: &'static StageRow| {
        row.inputs
            .iter()
            .filter(move |source| source.edge() == edge)
            .map(|source| (row.stage, *source))
    };
    STAGES.iter().flat_map(of_stage)
}

/// When the broker deletes a message of a stream: of an edge, or of one of the streams beside them.
pub fn retention(key: &str) -> Retention {
    match Edge::from_name(key) {
        Some(edge) => edge.retention().unwrap_or(Retention::Limits),
        None if [DEAD, PARKED, MOVES].contains(&key) => Retention::Limits,
        // A further edge.
        None => Retention::Interest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(parties: &[Party]) -> Vec<StageName> {
        let stage = |party: &Party| {
            if let Party::Stage(stage) = party {
                Some(*stage)
            } else {
                None
            }
        };
        parties.iter().filter_map(stage).collect()
    }

    #[test]
    fn a_row_is_found_by_its_edge_or_stage_and_by_its_name() {
        for edge in Edge::ALL {
            assert_eq!(
                (edge.row().unwrap().edge, Edge::from_name(edge.name())),
                (edge, Some(edge))
            );
        }
        for stage in StageName::ALL {
            assert_eq!(
                (stage.row().stage, StageName::from_name(stage.name())),
                (stage, Some(stage))
            );
        }
        assert_eq!(
            (
                Edge::from_name("urls"),
                StageName::from_name("count-titles")
            ),
            (None, None)
        );
    }

    #[test]
    fn a_further_edge_has_a_name_and_a_number_and_stands_in_no_table() {
        let further = Edge::further(128, "titles");
        assert_eq!(
            (further.name(), further.number(), further.division()),
            ("titles", 128, Division::Whole)
        );
        assert!(further.row().is_none() && Edge::from_name("titles").is_none());
        assert!(Edge::ALL.iter().all(|edge| edge.number() < 128));
    }

    #[test]
    #[should_panic(expected = "below 128 are kept")]
    fn a_further_edge_does_not_take_a_number_of_the_table() {
        Edge::further(127, "titles");
    }

    #[test]
    fn a_stage_takes_and_puts_what_the_table_of_edges_says() {
        for edge in Edge::ALL {
            let row = edge.row().unwrap();
            let producing: Vec<StageName> = STAGES
                .iter()
                .filter(|stage| stage.outputs.contains(&edge))
                .map(|stage| stage.stage)
                .collect();
            let mut producers = stages(row.producers);
            producers.sort();
            assert_eq!(producers, producing, "producers of {}", row.name);
            let consuming: Vec<StageName> = consumers(edge).map(|(stage, _)| stage).collect();
            let mut consumers = stages(row.consumers);
            consumers.sort();
            assert_eq!(consumers, consuming, "consumers of {}", row.name);
        }
        assert_eq!(
            sources(StageName::Scheduler),
            [
                Source::Owned(Edge::UrlsReady),
                Source::Addressed(Edge::FetchAsks),
                Source::Owned(Edge::FetchReports),
                Source::OwnedSoft(Edge::Errands),
                Source::OwnedSoft(Edge::UrlsBoosts),
                Source::Owned(Edge::PagesSignals),
            ]
        );
        assert_eq!(
            sources(StageName::Resolver),
            [Source::Shared(Edge::UrlsNew), Source::Any(Edge::DnsRefresh)]
        );
    }

    #[test]
    fn a_work_queue_has_one_consuming_stage_and_a_request_is_core_nats() {
        for row in &EDGES {
            if row.kind == Kind::Stream(Retention::WorkQueue) {
                assert_eq!(row.consumers.len(), 1, "{}", row.name);
            }
            assert!(
                row.reply.is_none() || row.kind == Kind::Core,
                "{}",
                row.name
            );
        }
    }
}

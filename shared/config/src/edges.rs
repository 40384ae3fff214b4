//! The section `edges` of `pipeline.yaml`: subjects of all edges, and how their streams are kept.

use super::units::{Bytes, duration};
use rhumb_wire::SubjectTemplates;
use rhumb_wire::topology::{DEAD, Edge, MOVES, PARKED, Retention};
use serde::Deserialize;
use std::time::Duration;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Edges {
    pub urls: UrlEdges,
    pub pages: StreamEdge,
    pub outcomes: StreamEdge,
    pub fetch: FetchEdges,
    pub dns: DnsEdges,
    pub content: ContentEdges,
    pub documents: StreamEdge,
    pub errands: CoreEdge,
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
    pub filtered: CoreEdge,
    pub boosts: CoreEdge,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct ContentEdges {
    pub asks: CoreEdge,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct FetchEdges {
    pub reports: StreamEdge,
    pub asks: CoreEdge,
    pub jobs: CoreEdge,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct DnsEdges {
    pub refresh: CoreEdge,
}

/// An edge that is a JetStream stream.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct StreamEdge {
    pub subject: String,
    pub storage: Storage,
    pub retention: Retention,
    pub replicas: usize,
    pub bytes_max: Bytes,
    #[serde(deserialize_with = "duration")]
    pub duplicate_window: Duration,
    #[serde(deserialize_with = "duration")]
    pub ack_wait: Duration,
    pub unacked_max: u32,
}

/// An edge of core NATS messages, which nobody keeps.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct CoreEdge {
    pub subject: String,
}

/// Where the broker keeps a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "pipeline.yaml documents every value")]
pub enum Storage {
    File,
    Memory,
}

/// The settings of an edge, by its kind.
#[derive(Clone, Copy, Debug)]
pub enum EdgeSettings<'a> {
    /// The settings of a JetStream stream.
    Stream(&'a StreamEdge),
    /// The settings of core NATS messages.
    Core(&'a CoreEdge),
}

impl Edges {
    /// The settings of an edge.
    pub fn of(&self, edge: Edge) -> EdgeSettings<'_> {
        use EdgeSettings::{Core, Stream};
        match edge {
            Edge::UrlsFound => Stream(&self.urls.found),
            Edge::UrlsSplit => Stream(&self.urls.split),
            Edge::UrlsNew => Stream(&self.urls.new),
            Edge::UrlsReady => Stream(&self.urls.ready),
            Edge::FetchAsks => Core(&self.fetch.asks),
            Edge::FetchJobs => Core(&self.fetch.jobs),
            Edge::FetchReports => Stream(&self.fetch.reports),
            Edge::Pages => Stream(&self.pages),
            Edge::Outcomes => Stream(&self.outcomes),
            Edge::DnsRefresh => Core(&self.dns.refresh),
            Edge::Errands => Core(&self.errands),
            Edge::UrlsFiltered => Core(&self.urls.filtered),
            Edge::UrlsBoosts => Core(&self.urls.boosts),
            Edge::ContentAsks => Core(&self.content.asks),
            // A further edge is kept as the documents are.
            Edge::Documents | Edge::Further { .. } => Stream(&self.documents),
        }
    }

    /// The template of an edge's subjects, without the prefix that all subjects of a crawl have.
    pub fn subject(&self, edge: Edge) -> &str {
        match (edge, self.of(edge)) {
            (Edge::Further { name, .. }, _) => name,
            (_, EdgeSettings::Stream(stream)) => &stream.subject,
            (_, EdgeSettings::Core(core)) => &core.subject,
        }
    }

    /// The templates of all subjects.
    pub fn subjects(&self) -> SubjectTemplates {
        SubjectTemplates {
            edges: Edge::ALL.map(|edge| self.subject(edge).to_owned()),
            dead: self.dead.subject.clone(),
            parked: self.parked.subject.clone(),
            moves: self.moves.subject.clone(),
        }
    }

    /// The stream of an edge; none for an edge of core NATS messages.
    pub fn stream(&self, edge: Edge) -> Option<&StreamEdge> {
        match self.of(edge) {
            EdgeSettings::Stream(stream) => Some(stream),
            EdgeSettings::Core(_) => None,
        }
    }

    /// All streams with their keys below `edges`: those of the edges, then the dead letters, the parked messages and the
    /// partitions on their way.
    pub fn streams(&self) -> Vec<(&'static str, &StreamEdge)> {
        let of_edges = Edge::ALL.into_iter().filter_map(|edge| Some((edge.name(), self.stream(edge)?)));
        of_edges.chain([(DEAD, &self.dead), (PARKED, &self.parked), (MOVES, &self.moves)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::shipped;
    use rhumb_wire::topology::{Division, Kind};

    #[test]
    fn every_edge_has_settings_of_its_kind_under_its_name() {
        let (tree, pipeline) = shipped();
        for edge in Edge::ALL {
            let key = format!("/edges/{}", edge.name().replace('.', "/"));
            let settings = tree.pointer(&key).and_then(serde_json::Value::as_object).unwrap();
            assert_eq!(settings["subject"], pipeline.edges.subject(edge), "{}", edge.name());
            assert_eq!(settings.len() > 1, pipeline.edges.stream(edge).is_some(), "{}", edge.name());
            match edge.row().unwrap().kind {
                Kind::Stream(retention) => assert_eq!(pipeline.edges.stream(edge).unwrap().retention, retention),
                Kind::Core => assert!(pipeline.edges.stream(edge).is_none(), "{}", edge.name()),
            }
        }
    }

    #[test]
    fn the_shipped_subjects_are_divided_as_the_table_says() {
        let (_, pipeline) = shipped();
        for edge in Edge::ALL {
            let last = match edge.division() {
                Division::Whole | Division::Lane => "",
                Division::Partition | Division::PartitionInLane => ".{partition}",
                Division::Instance => ".{instance}",
            };
            assert_eq!(pipeline.edges.subject(edge), format!("{}{last}", edge.name()));
        }
    }

    #[test]
    fn a_further_edge_is_kept_as_the_documents_are_under_its_own_subject() {
        let (_, pipeline) = shipped();
        let further = Edge::further(128, "titles");
        assert_eq!(pipeline.edges.subject(further), "titles");
        let (kept, documents) = (pipeline.edges.stream(further).unwrap(), &pipeline.edges.documents);
        assert!(std::ptr::eq(kept, documents));
        assert!(pipeline.edges.streams().iter().all(|(key, _)| *key != further.name()));
        let subjects = pipeline.subjects();
        assert_eq!(subjects.all(further), ["rhumb.default.titles"]);
    }

    #[test]
    fn the_file_has_no_edge_beside_those_of_the_table() {
        fn subjects(value: &serde_json::Value) -> usize {
            let Some(fields) = value.as_object() else { return 0 };
            usize::from(fields.contains_key("subject")) + fields.values().map(subjects).sum::<usize>()
        }
        let (tree, pipeline) = shipped();
        assert_eq!(
            subjects(&tree["edges"]),
            Edge::ALL.len() + 3,
            "the edges, the dead letters, the parked messages and the moves"
        );
        let streams: Vec<&str> = pipeline.edges.streams().into_iter().map(|(key, _)| key).collect();
        assert!(streams.ends_with(&[DEAD, PARKED, MOVES]), "{streams:?}");
    }
}

//! The section `edges` of `pipeline.yaml`: how the streams of all edges are kept.
//!
//! Invariant: subjects and retention are the table's ([`rhumb_wire::topology`]) and no
//! configuration.

use super::keys::{Form, Value, choice, section};
use super::units::Bytes;
use rhumb_wire::topology::{DEAD, Edge, MOVES, PARKED};
use serde::Deserialize;
use std::time::Duration;

section! {
    /// The streams of all edges, and those beside them.
    pub struct Edges {
        /// Settings of every stream below, where it says nothing else.
        pub defaults: StreamEdge,
        /// URLs on their way to the frontier.
        pub urls: UrlEdges,
        /// Pages that were fetched; signals: what parsers learn of pages that schedulers should know,
        /// such as how alike they are.
        #[key(default = "{bytes_max: 256MiB, ack_wait: 60s, unacked_max: 200, signals: {bytes_max: 0}}")]
        pub pages: PageEdges,
        /// How URLs ended.
        #[key(default = "{}")]
        pub outcomes: StreamEdge,
        /// What fetchers tell schedulers.
        pub fetch: FetchEdges,
        /// Titles, languages and the like of parsed documents, while there is an archiver. Further
        /// edges, which stages beside the pipeline bring, are kept alike.
        #[key(default = "{}")]
        pub documents: StreamEdge,
        /// Corrupt messages, and those that three processes died of; when it is full, the oldest
        /// letters go.
        #[key(default = "{bytes_max: 256MiB, unacked_max: 1000}")]
        pub dead: StreamEdge,
        /// Messages of a schema version that a stage does not read, until a program that reads them
        /// puts them back; when it is full, further ones stay unacked on their edges.
        #[key(default = "{bytes_max: 256MiB, unacked_max: 1000}")]
        pub parked: StreamEdge,
        /// Partitions of dedup and scheduler on their way to another instance, until that one has
        /// them. What does not fit stays with its owner, and is tried again: one partition must
        /// fit.
        #[key(default = "{bytes_max: 4GiB, unacked_max: 1000}")]
        pub moves: StreamEdge,
    }
}

section! {
    /// The streams of URLs on their way to the frontier.
    pub struct UrlEdges {
        /// Links, seeds and sitemaps that were found.
        #[key(default = "{bytes_max: 512MiB}")]
        pub found: StreamEdge,
        /// URLs of one partition, for dedup.
        #[key(default = "{bytes_max: 0}")]
        pub split: StreamEdge,
        /// URLs that were not seen before, for resolvers.
        #[key(default = "{bytes_max: 0}")]
        pub new: StreamEdge,
        /// URLs whose servers have addresses, for schedulers.
        #[key(default = "{bytes_max: 0}")]
        pub ready: StreamEdge,
    }
}

section! {
    /// The stream of what fetchers report.
    pub struct FetchEdges {
        /// What became of connection jobs.
        #[key(default = "{ack_wait: 15s}")]
        pub reports: StreamEdge,
    }
}

/// The settings of a stream, and what further keys stand beside them.
macro_rules! stream {
    ($(#[doc = $about:literal])+ $name:ident { $($further:tt)* }) => {
        section! {
            $(#[doc = $about])+
            pub struct $name {
                /// Where the broker keeps the stream.
                #[key(default = "file")]
                pub storage: Storage,
                /// Copies of the stream in a broker cluster; 0: as broker.replicas.
                #[key(default = "0", range = "0..5")]
                pub replicas: usize,
                /// A full stream makes its publishers wait; 0: no bound; else at least 2MiB, for
                /// pages at least twice broker.max_payload. For split, new, ready and signals 0
                /// alone: the scheduler publishes there, or to found, and would wait for itself.
                #[key(default = "0")]
                pub bytes_max: Bytes,
                /// The broker remembers message ids for this time.
                #[key(default = "60s", range = "1s..1h")]
                pub duplicate_window: Duration,
                /// An input not acked by then is delivered again.
                #[key(default = "30s", range = "1s..1h")]
                pub ack_wait: Duration,
                /// Inputs delivered and not yet acked, over all instances.
                #[key(default = "2000", range = "1..1000000")]
                pub unacked_max: u32,
                $($further)*
            }
        }
    };
}

stream! {
    /// An edge that is a JetStream stream.
    StreamEdge {}
}

stream! {
    /// The stream of pages, and below it that of their signals, as they stand in a file.
    PageKeys {
        /// What parsers learn of pages that schedulers should know, such as how alike they are.
        #[key(default = "{bytes_max: 0}")]
        pub signals: StreamEdge,
    }
}

/// The stream of pages, and that of the signals.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "PageKeys")]
pub struct PageEdges {
    /// The stream of pages.
    pub stream: StreamEdge,
    /// The stream of what parsers learn of them.
    pub signals: StreamEdge,
}

impl Value for PageEdges {
    const FORM: Form = PageKeys::FORM;
}

impl From<PageKeys> for PageEdges {
    fn from(keys: PageKeys) -> PageEdges {
        PageEdges {
            stream: StreamEdge {
                storage: keys.storage,
                replicas: keys.replicas,
                bytes_max: keys.bytes_max,
                duplicate_window: keys.duplicate_window,
                ack_wait: keys.ack_wait,
                unacked_max: keys.unacked_max,
            },
            signals: keys.signals,
        }
    }
}

choice! {
    /// Where the broker keeps a stream.
    pub enum Storage {
        /// In files.
        #[serde(rename = "file")]
        File,
        /// In memory: what the broker loses with it is not missed.
        #[serde(rename = "memory")]
        Memory,
    }
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
            Edge::Pages => Some(&self.pages.stream),
            Edge::PagesSignals => Some(&self.pages.signals),
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

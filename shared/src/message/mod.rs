//! The messages of the pipeline: one Rust type per edge, archived with rkyv, in one envelope.
//!
//! | edge | type | from → to |
//! | --- | --- | --- |
//! | `urls.found` | [`FoundUrls`] | parser, scheduler, `inject` → host-splitter |
//! | `urls.split.<p>` | [`SplitUrls`] | host-splitter → dedup |
//! | `urls.new.<p>` | [`NewUrls`] | dedup → resolver |
//! | `urls.ready.<p>` | [`ReadyUrls`] | resolver → scheduler |
//! | `fetch.asks.<s>` | [`Ask`] | fetcher → scheduler |
//! | `fetch.jobs.<f>` | [`ToFetcher`] | scheduler → fetcher |
//! | `fetch.reports.<p>` | [`Report`] | fetcher → scheduler |
//! | `pages` | [`Page`] | fetcher → parser (and any other consumer) |
//! | `outcomes.<p>` | [`Outcomes`] | scheduler → archiver (and any other consumer) |
//! | `dns.refresh.<p>` | [`DnsRefresh`] | scheduler → resolver |
//! | `content.asks.<d>` | [`ContentAsk`] | parser → dedup |
//! | `documents` | [`Documents`] | parser → archiver (and any other consumer) |
//! | `urls.filtered` | [`FilteredUrls`] | host-splitter → taps |
//! | `errands.<p>` | [`Errand`] | scheduler → scheduler of another partition |
//!
//! Invariant: nothing is read from a payload before its magic, edge, schema version, checksum and
//! archive have been checked ([`envelope`]).

#[allow(missing_docs, reason = "rkyv's derive makes archived twins without docs")]
mod content;
pub mod envelope;
#[allow(missing_docs, reason = "rkyv's derive makes archived twins without docs")]
mod fetch;
#[allow(missing_docs, reason = "rkyv's derive makes archived twins without docs")]
mod quality;
pub mod tap;
mod text;
#[allow(missing_docs, reason = "rkyv's derive makes archived twins without docs")]
mod urls;

pub use content::*;
pub use envelope::{EdgeMessage, Undecodable, decode, encode};
pub use fetch::*;
pub use quality::Quality;
pub use text::UrlList;
pub use urls::*;

/// An edge of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Edge {
    /// Links, redirect targets and seeds.
    UrlsFound = 1,
    /// Found URLs that passed the filters, by partition.
    UrlsSplit = 2,
    /// URLs that passed the URL-seen test.
    UrlsNew = 3,
    /// New URLs with the addresses of their servers.
    UrlsReady = 4,
    /// A fetcher asks a scheduler instance for connection jobs.
    FetchAsks = 5,
    /// Connection jobs and confirmed renewals, to one fetcher instance.
    FetchJobs = 6,
    /// What a job measured and how its URLs ended so far.
    FetchReports = 7,
    /// Responses as the server sent them.
    Pages = 8,
    /// How new URLs ended.
    Outcomes = 9,
    /// A server whose address has gone stale.
    DnsRefresh = 10,
    /// A robots.txt that was redirected to a server of another partition.
    Errands = 11,
    /// Found URLs that the filters rejected: for taps alone.
    UrlsFiltered = 12,
    /// Bodies: were they met before?
    ContentAsks = 13,
    /// What parsed documents say of themselves.
    Documents = 14,
}

impl Edge {
    /// All edges, in the order of the picture.
    pub const ALL: [Edge; 14] = [
        Edge::UrlsFound,
        Edge::UrlsSplit,
        Edge::UrlsNew,
        Edge::UrlsReady,
        Edge::FetchAsks,
        Edge::FetchJobs,
        Edge::FetchReports,
        Edge::Pages,
        Edge::Outcomes,
        Edge::DnsRefresh,
        Edge::Errands,
        Edge::UrlsFiltered,
        Edge::ContentAsks,
        Edge::Documents,
    ];

    /// The edge's name, as operators write it (`rhumb tap urls.new`).
    pub const fn name(self) -> &'static str {
        match self {
            Edge::UrlsFound => "urls.found",
            Edge::UrlsSplit => "urls.split",
            Edge::UrlsNew => "urls.new",
            Edge::UrlsReady => "urls.ready",
            Edge::FetchAsks => "fetch.asks",
            Edge::FetchJobs => "fetch.jobs",
            Edge::FetchReports => "fetch.reports",
            Edge::Pages => "pages",
            Edge::Outcomes => "outcomes",
            Edge::DnsRefresh => "dns.refresh",
            Edge::Errands => "errands",
            Edge::UrlsFiltered => "urls.filtered",
            Edge::ContentAsks => "content.asks",
            Edge::Documents => "documents",
        }
    }

    /// The edge of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Edge> {
        Edge::ALL.into_iter().find(|edge| edge.name() == name)
    }
}

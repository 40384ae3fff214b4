//! Signals: what a parser learns of a page that the scheduler should know beside its links.

use super::known_text::SeenText;
use rhumb_usage::Stances;
use rkyv::{Archive, Deserialize, Serialize};

/// `pages.signals.<p>`: what parsers learned of pages of one partition, from many pages. One that is
/// lost, or comes twice, costs an estimate and never a count.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct PageSignals {
    /// Partition of the hosts of all of them.
    pub partition: u16,
    /// At most 200.
    pub pages: Vec<PageSignal>,
    /// Dates of changes of pages of the same partition, at most 200.
    pub dated: Vec<DatedPage>,
}

/// The entry of a sitemap or feed says when a page changed last, later than the visit before of
/// that sitemap or feed.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, Default, PartialEq, Eq,
)]
pub struct DatedPage {
    /// The fingerprint of the page's URL.
    pub url: u64,
    /// The hash of its host.
    pub host: u64,
    /// Its scheme is `https`.
    pub is_https: bool,
    /// The port of its server.
    pub port: u16,
    /// When it changed, in milliseconds of Unix time.
    pub at_ms: u64,
    /// The kind of document that says so.
    pub kind: SignalKind,
    /// The fingerprint of its URL, where it lies on the same server; 0 elsewhere.
    pub by: u64,
    /// Time between the last two visits of that document, in milliseconds.
    pub waited_ms: u64,
}

/// The kind of document that says that pages change.
#[derive(
    Archive,
    Serialize,
    Deserialize,
    serde::Serialize,
    serde::Deserialize,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
)]
#[serde(rename_all = "kebab-case")]
pub enum SignalKind {
    /// A sitemap: `lastmod`.
    #[default]
    Sitemap,
    /// A feed: `updated`, `published`, `pubDate`, `dc:date`.
    Feed,
}

impl SignalKind {
    /// All of them, in their order.
    pub const ALL: [SignalKind; 2] = [SignalKind::Sitemap, SignalKind::Feed];

    /// Its name in metrics and answers.
    pub const fn name(self) -> &'static str {
        match self {
            SignalKind::Sitemap => "sitemap",
            SignalKind::Feed => "feed",
        }
    }
}

/// What was learned of one page.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, Default, PartialEq, Eq,
)]
pub struct PageSignal {
    /// The fingerprint of the page's URL: its trace. 0 where an earlier build did not say it.
    pub url: u64,
    /// The hash of the page's host ([`rhumb_url::host_hash`]): its upper bits are the partition,
    /// also after that was split.
    pub host: u64,
    /// The hash of its server and shape ([`rhumb_url::shape_hash`]).
    pub shape: u64,
    /// Sketch of its text ([`rhumb_url::sketch`]), of a page that leads on to others.
    pub sketch: Option<u64>,
    /// What its owner says of its use.
    pub usage: Stances,
    /// What a visit found of its text, of a page that is visited again.
    pub text: Option<SeenText>,
}

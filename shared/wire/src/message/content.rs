//! Messages of the parser: it asks whether bodies were met before, gets an answer, and passes on
//! what documents say of themselves.

use super::envelope::EdgeMessage;
use crate::topology::Edge;
use rhumb_usage::{Signals, Verdict};
use rkyv::{Archive, Deserialize, Serialize};

/// `content.asks.<d>`: a parser asks whether bodies were met before. It asks the dedup instance
/// that owns their partitions.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct ContentAsk {
    /// The bodies, each once.
    pub bodies: Vec<Body>,
}

/// A body and where it is.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    /// 64-bit hash of the decoded body. Its upper bits give the body's partition.
    pub fingerprint: u64,
    /// Where it was met.
    pub at: Place,
}

/// A page, by fingerprints.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Fingerprint of its canonical URL.
    pub url: u64,
    /// Fingerprint of its server and of the links that were taken from it, with topic and depth.
    /// Two pages with the same one lead to the same URLs.
    pub links: u64,
}

/// The answer to a [`ContentAsk`].
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct ContentReply {
    /// For each body of the ask, the other page that had it first; none when the asked page is the
    /// first.
    pub first: Vec<Option<Place>>,
}

/// `documents`: what parsed documents say of themselves. Kept while an archiver takes part.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct Documents {
    /// One entry per document.
    pub entries: Vec<Document>,
}

/// What a document says of itself.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct Document {
    /// Its URL.
    pub url: String,
    /// [`Page::fetched_at_ms`](super::Page::fetched_at_ms) of the response that it came in.
    pub fetched_at_ms: u64,
    /// Its title, white space collapsed, at most 256 bytes; empty without one.
    pub title: String,
    /// Its language as a tag of BCP 47, as `html lang` or Content-Language say it, at most 35
    /// bytes; empty without one.
    pub language: String,
    /// Number of its links that can be crawled.
    pub links: u32,
    /// The limit beyond which links of it were left out; none when all were taken.
    pub cut: Option<Cut>,
    /// What its owner says of its use, in robots.txt, headers and metas.
    #[serde(skip_serializing_if = "Signals::are_silent")]
    pub usage: Signals,
    /// What becomes of it by that. Nothing of a text that is withheld is told here.
    pub verdict: Verdict,
    /// Its text is another one than at the visit before; none at a first visit, and where nobody can
    /// tell, or no page is visited again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_changed: Option<bool>,
    /// About how much of the text is as in the version it was compared with, in percent; none
    /// without texts to compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similarity: Option<u8>,
}

/// A limit that ended the reading of a document: what is beyond it was left out.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[rkyv(derive(Debug, PartialEq))]
pub enum Cut {
    /// Links of a page.
    PageLinks,
    /// Links of a sitemap.
    SitemapLinks,
    /// Bytes of a page, without its content codings.
    PageBytes,
    /// Bytes of a sitemap, without its content codings.
    SitemapBytes,
}

impl Cut {
    /// The key of `pipeline.yaml` that has the limit.
    pub const fn key(self) -> &'static str {
        match self {
            Cut::PageLinks => "limits.links_per_page",
            Cut::SitemapLinks => "limits.links_per_sitemap",
            Cut::PageBytes => "limits.decoded_bytes_max",
            Cut::SitemapBytes => "limits.sitemap_bytes_max",
        }
    }
}

impl EdgeMessage for ContentAsk {
    const EDGE: Edge = Edge::ContentAsks;
    const VERSION: u8 = 2;
}
impl EdgeMessage for ContentReply {
    const EDGE: Edge = Edge::ContentAsks;
    /// Far from the versions of [`ContentAsk`], so that the number tells the two apart.
    const VERSION: u8 = 102;
    const IS_REPLY: bool = true;
}

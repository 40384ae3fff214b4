//! The question whether a body was met before, and its answer.

use super::{Edge, EdgeMessage};
use rkyv::{Archive, Deserialize, Serialize};

/// `content.asks.<d>`: bodies that somebody has before him; asked of the dedup instance that owns their partitions.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentAsk {
    /// Each once.
    pub bodies: Vec<Body>,
}

/// A body and where it is.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    /// 64-bit hash of the decoded body; modulo the partitions it gives the body's.
    pub fingerprint: u64,
    /// Where it was met.
    pub at: Place,
}

/// A page, by fingerprints.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Of its canonical URL.
    pub url: u64,
    /// Of its server and of the links that were taken from it, with topic and depth: two pages with the same one have
    /// nothing to find that the other has not.
    pub links: u64,
}

/// The answer.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentReply {
    /// For each body of the ask the other page that had it first; none: the page that was asked for is the first.
    pub first: Vec<Option<Place>>,
}

impl EdgeMessage for ContentAsk {
    const EDGE: Edge = Edge::ContentAsks;
    const VERSION: u8 = 2;
}
impl EdgeMessage for ContentReply {
    const EDGE: Edge = Edge::ContentAsks;
    /// Told apart from [`ContentAsk`] on the same edge by its number.
    const VERSION: u8 = 102;
}

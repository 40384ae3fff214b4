//! How to add stages that no table of the pipeline names: one that produces, one that only reads,
//! and the edge between them.
//!
//! ```text
//! pages ──▶ find-titles ──titles──▶ count-titles
//! ```
//!
//! This file has what both need: the edge and its message. `docs/adding-a-stage.md` explains all
//! three files.

use rhumb_wire::message::{Edge, EdgeMessage};
use rkyv::{Archive, Deserialize, Serialize};

/// From `find-titles` to whoever is interested. The number is in the envelope of each message and
/// never changes.
pub const TITLES: Edge = Edge::further(128, "titles");

/// `titles`: the title of a page.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Title {
    /// The page.
    pub url: String,
    /// Its title, with bytes that are not UTF-8 replaced.
    pub title: String,
}

impl EdgeMessage for Title {
    const EDGE: Edge = TITLES;
    const VERSION: u8 = 1;
}

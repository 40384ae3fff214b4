//! The edge `titles` and its message: what the two example stages at its ends share.

use rhumb_wire::message::{Edge, EdgeMessage};
use rkyv::{Archive, Deserialize, Serialize};

/// From `find-titles` to whoever is interested. The number is in the envelope of each message and never changes.
pub(crate) const TITLES: Edge = Edge::further(128, "titles");

/// `titles`: the title of a page.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Title {
    /// The page.
    pub(crate) url: String,
    /// Its title, with bytes that are not UTF-8 replaced.
    pub(crate) title: String,
}

impl EdgeMessage for Title {
    const EDGE: Edge = TITLES;
    const VERSION: u8 = 1;
}

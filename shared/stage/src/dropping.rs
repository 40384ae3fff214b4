//! What processes tell of drops: how much one would end, and how far one has come. The basis of
//! `rhumb drop`.

use rhumb_config::orders::Selection;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A question how many URLs are selected.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct CountQuestion {
    /// Which are meant.
    pub what: Selection,
    /// The instances that are to go on, each from where its answer before ended
    /// ([`Counted::next`]); all of them from the beginning when it is empty.
    pub after: BTreeMap<u16, Vec<u8>>,
}

/// What a scheduler counted of its URLs that wait or are in flight.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Counted {
    /// URLs that it looked at: it passes over servers that have no such URLs, if it knows them.
    pub rows: u64,
    /// Those among them that are selected.
    pub found: u64,
    /// All its URLs that wait or are in flight.
    pub waiting: u64,
    /// Some of these.
    pub examples: Vec<String>,
    /// Where it is to go on; none at the end.
    pub next: Option<Vec<u8>>,
}

/// A scheduler's answer to the question how many URLs are selected.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ProcessCount {
    /// The stage.
    pub stage: String,
    /// Ordinal of the instance.
    pub instance: u16,
    /// What it counted, or why it cannot.
    pub counted: Result<Counted, String>,
}

/// How far a scheduler has come with a drop.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct DropProgress {
    /// URLs of its partitions that ended so far.
    pub dropped: u64,
    /// It has heard of the order, and looked at all that waited.
    pub is_done: bool,
}

/// A scheduler's answer to the question how far it has come with a drop.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ProcessDrop {
    /// The stage.
    pub stage: String,
    /// Ordinal of the instance.
    pub instance: u16,
    /// How far.
    pub progress: DropProgress,
}

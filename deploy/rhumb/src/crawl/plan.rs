//! What to crawl and for how long, and why a crawl ended.

use super::restoring::Restore;
use rhumb_config::{Layers, Pipeline};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What to crawl and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Where its stages run.
    pub(crate) runs: Runs,
    /// The configuration in layers, as it is kept for the stage processes and for those who resume
    /// the crawl.
    pub(crate) layers: Layers,
    /// The same, read and checked, with the limits of this run.
    pub(crate) pipeline: Pipeline,
    /// Canonical seeds.
    pub(crate) seeds: Vec<String>,
    /// Their topic.
    pub(crate) topic: String,
    /// The checkpoint that it begins with.
    pub(crate) restore: Option<Restore>,
    /// What is missing of the crawl is accepted as lost.
    pub(crate) accept_loss: bool,
    /// End when nothing is left to do or a limit is reached (`crawl`), or only when told to (`up`).
    pub(crate) ends: bool,
    /// End after this time.
    pub(crate) at_most: Option<Duration>,
    /// Where the summary goes.
    pub(crate) summary: Option<PathBuf>,
}

/// Where the stages of a crawl run.
#[derive(Clone, Debug)]
pub(crate) enum Runs {
    /// On this machine, started here.
    Here,
    /// Wherever others deployed them.
    Deployed {
        /// The StatefulSets of Kubernetes that run stages with state, by stage: their number of
        /// replicas is how many instances are wanted.
        statefulsets: BTreeMap<String, String>,
    },
}

/// Why a crawl ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// By itself: nothing is left to do.
    Complete,
    /// At a limit.
    AtLimit,
    /// Ctrl-C or SIGTERM.
    Interrupted,
}

//! What a process answers when it is asked how it is, or what it knows of a URL: the basis of `rhumb status` and
//! `rhumb why`.

use super::occupation::Shares;
use crate::identity::Mark;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A process's answer to a status request on the crawl's control subject.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ProcessStatus {
    /// The stage.
    pub stage: String,
    /// Ordinal of the instance.
    pub instance: u16,
    /// The crawl and the generation of it that it takes part in; nothing from a process of an earlier build.
    #[serde(default)]
    pub crawl: Option<Mark>,
    /// Process id.
    pub pid: u32,
    /// Changes with every life of the instance.
    pub life: u64,
    /// Where health and metrics are served.
    pub listen: String,
    /// CPU seconds used so far, user and system.
    pub cpu_s: f64,
    /// Largest resident memory so far, in bytes.
    pub peak_rss_bytes: u64,
    /// Connected, owner of its partitions, and what it publishes arrives.
    pub ready: bool,
    /// Why it is not ready; empty when it is.
    #[serde(default)]
    pub reason: String,
    /// What it spent the last 10 to 20 seconds on.
    #[serde(default)]
    pub shares: Shares,
    /// Holds no input, no output and no work.
    pub idle: bool,
    /// Numbers of the core (totals end in `_total`) and of the loop (`loop_` in front).
    pub counts: BTreeMap<String, u64>,
}

/// A process's answer to the question about a URL.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ProcessReason {
    /// The stage.
    pub stage: String,
    /// Ordinal of the instance.
    pub instance: u16,
    /// What it knows, in a line; none when that is nothing.
    pub reason: Option<String>,
}

/// The request on a control subject.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ControlRequest {
    /// Answer with a [`ProcessStatus`].
    Status,
    /// Answer with a [`ProcessReason`] about this canonical URL.
    Why(String),
}

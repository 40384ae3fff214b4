//! What a process answers when it is asked how it is, or what it knows of a URL: the basis of
//! `rhumb status` and `rhumb why`.

use super::dropping::CountQuestion;
use super::known::KnownTold;
use super::occupation::Shares;
use super::queue::{QueueQuestion, Trap};
use super::report::ReportQuestion;
use rhumb_config::identity::Mark;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A process's answer to a status request on the crawl's control subject.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ProcessStatus {
    /// The stage.
    pub stage: String,
    /// Ordinal of the instance.
    pub instance: u16,
    /// The crawl and the generation of it that it takes part in; nothing from a process of an
    /// earlier build.
    #[serde(default)]
    pub crawl: Option<Mark>,
    /// Process id.
    pub pid: u32,
    /// The host that it runs on, in Kubernetes the pod; none when the system does not tell.
    #[serde(default)]
    pub host: Option<String>,
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
    /// Heeds that the crawl is held.
    #[serde(default)]
    pub held: bool,
    /// Partitions that are too large and cannot be split, since most of their URLs are of one host;
    /// with their URLs.
    #[serde(default)]
    pub unsplittable: BTreeMap<u16, u64>,
    /// Traps whose URLs it keeps back, those with most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traps: Vec<Trap>,
    /// Numbers of the core (totals end in `_total`) and of the loop (`loop_` in front).
    pub counts: BTreeMap<String, u64>,
    /// Numbers of the core by topic.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub topics: BTreeMap<String, BTreeMap<String, u64>>,
}

/// A process's answer to the question about a URL.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ProcessReason {
    /// The stage.
    pub stage: String,
    /// Ordinal of the instance.
    pub instance: u16,
    /// What it knows, in a line; none when that is nothing.
    pub reason: Option<String>,
    /// Its page, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<KnownTold>,
}

/// Which orders a process heeds.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ProcessHeeds {
    /// The stage.
    pub stage: String,
    /// Ordinal of the instance.
    pub instance: u16,
    /// The revision of the orders at the broker that it acts by.
    pub revision: u64,
}

/// The answer of a process with partitions that was told to capture them.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ProcessCapture {
    /// The stage.
    pub stage: String,
    /// Ordinal of the instance.
    pub instance: u16,
    /// The partitions, each with the version of its ownership; or why it has captured none.
    pub captured: Result<Vec<(u16, u64)>, String>,
}

/// The answer of a process with partitions to the question about them.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ProcessPartitions {
    /// The stage.
    pub stage: String,
    /// Ordinal of the instance.
    pub instance: u16,
    /// What it tells of each.
    pub partitions: Vec<PartitionFigures>,
}

/// What a process tells of one of its partitions.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
pub struct PartitionFigures {
    /// Its id.
    pub partition: u16,
    /// URLs that it knows.
    pub urls: u64,
    /// Of dedup: bytes of the files with its known URLs. Of the scheduler: bytes of the bodies that
    /// were fetched.
    pub bytes: u64,
    /// URLs a second in the last 10 to 20 seconds: that dedup was asked about, that ended in the
    /// scheduler. None before that is known.
    pub urls_per_s: Option<f64>,
}

/// The request on a control subject.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ControlRequest {
    /// Answer with a [`ProcessStatus`].
    Status,
    /// Answer with a [`ProcessPartitions`], if there are any.
    Partitions,
    /// Answer with a [`ProcessReason`] about this canonical URL.
    Why(String),
    /// Answer with a [`ProcessQueue`](super::queue::ProcessQueue), if there is any such server.
    Queue(QueueQuestion),
    /// Answer with a [`ProcessReport`](super::ProcessReport), if URLs end in this stage.
    Report(ReportQuestion),
    /// Answer with a [`ProcessCount`](super::ProcessCount), if URLs wait in this stage.
    Count(CountQuestion),
    /// Answer with a [`ProcessDrop`](super::ProcessDrop) about the order of this id, if URLs wait
    /// in this stage.
    Dropped(u64),
    /// There may be other orders: read them. Answer with a [`ProcessHeeds`].
    Heed,
    /// Keep all partitions as they are now, for the checkpoint of this number. Answer with a
    /// [`ProcessCapture`], if there are any.
    Capture(u64),
    /// Answer with the next piece of the capture for the checkpoint of this number.
    Piece(u64),
    /// Forget the capture for the checkpoint of this number. There is no answer.
    Forget(u64),
}

//! The numbers of a crawl, with the keys of `--summary` and `status --json`.

use serde::{Deserialize, Serialize};
use shared::stage::Shares;
use std::collections::BTreeMap;

/// What a process has used.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ProcessUse {
    /// Stage, or `broker`.
    pub stage: String,
    /// Ordinal of the instance.
    #[serde(default)]
    pub instance: u16,
    /// Process id.
    pub pid: u32,
    /// CPU seconds, user and system.
    pub cpu_s: f64,
    /// Largest resident memory, in bytes.
    pub peak_rss_bytes: u64,
    /// What it is spending its time on, and whether it is ready; none for the broker.
    #[serde(flatten)]
    pub work: Option<ProcessWork>,
}

/// What a process is doing.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ProcessWork {
    /// Connected, owner of its partitions, and what it publishes arrives.
    pub ready: bool,
    /// Shares of the last 10 to 20 seconds.
    #[serde(flatten)]
    pub shares: Shares,
}

/// Messages that a stage parked.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Parked {
    /// The stage that could not read them.
    pub stage: String,
    /// The edge that they came on.
    pub edge: String,
    /// Version of their schema.
    pub version: u8,
    /// How many.
    pub messages: u64,
}

/// The state of a crawl, as `--summary` and `status --json` tell it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Summary {
    /// URLs with outcome fetched.
    pub pages: u64,
    /// Bytes of their bodies, as sent.
    pub bytes: u64,
    /// URLs found.
    pub urls_found: u64,
    /// Found URLs rejected before the URL-seen test.
    pub urls_filtered: u64,
    /// Found URLs that were known already.
    pub urls_repeated: u64,
    /// Found URLs that were new.
    pub urls_new: u64,
    /// URLs by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// URLs in the frontier.
    pub waiting: u64,
    /// Waiting URLs whose budget is used up (`limits.over_budget: wait`).
    #[serde(default)]
    pub waiting_over_budget: u64,
    /// URLs in connection jobs.
    pub in_flight: u64,
    /// Messages put aside: corrupt ones, and those that processes died of.
    pub dead: u64,
    /// Messages that wait for a program that reads their schema version.
    #[serde(default)]
    pub parked: Vec<Parked>,
    /// Requests made again because the job that made them was lost.
    pub refetched: u64,
    /// Processes that died and were started again.
    pub restarts: u64,
    /// Seconds since the crawl was started (in this run).
    pub elapsed_s: f64,
    /// Nothing is left to do.
    pub complete: bool,
    /// What each process used.
    pub processes: Vec<ProcessUse>,
}

/// What only the supervising process knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Supervision {
    /// Processes that died and were started again.
    pub(crate) restarts: u64,
    /// Seconds since the crawl was started (in this run).
    pub(crate) elapsed_s: f64,
    /// The private broker.
    pub(crate) broker: Option<ProcessUse>,
}

impl Summary {
    /// Lists the outcomes that some URL has had, each with its number of URLs, and `between` two of them.
    pub(crate) fn outcomes_text(&self, between: &str) -> String {
        let had = self.outcomes.iter().filter(|(_, n)| **n > 0);
        had.map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(between)
    }
}

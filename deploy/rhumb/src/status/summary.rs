//! The numbers of a crawl, with the keys of `--summary` and `status --json`.

use super::known::{LastKnown, Silent};
use super::recrawled::Recrawled;
use rhumb_bus::Interested;
use rhumb_config::orders::{DropOrder, Hold, Pause, Release, Setting, Target};
use rhumb_stage::{Shares, Trap};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

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
    /// The host that it runs on, in Kubernetes the pod; none where that is this machine's broker,
    /// or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
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
    /// Where it serves health and metrics.
    #[serde(default)]
    pub listen: String,
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

/// How far behind a consumer of a stream is that is kept by interest.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ConsumerUse {
    /// The edge.
    pub edge: String,
    /// Its name.
    pub name: String,
    /// The crawl waits for it.
    pub required: bool,
    /// Messages that were not given to it yet.
    pub waiting: u64,
    /// Messages that it was given and has not acked.
    pub unacked: u64,
    /// About how many bytes both are.
    pub bytes: u64,
}

impl ConsumerUse {
    /// Of what the broker says.
    pub(crate) fn of(consumer: &Interested) -> ConsumerUse {
        let Interested {
            edge,
            name,
            is_required,
            waiting,
            unacked,
            bytes,
            ..
        } = consumer;
        let edge = edge.name().to_owned();
        let name = name.clone();
        ConsumerUse {
            edge,
            name,
            required: *is_required,
            waiting: *waiting,
            unacked: *unacked,
            bytes: *bytes,
        }
    }

    /// In a line, for a person.
    pub(crate) fn text(&self) -> String {
        let ConsumerUse {
            edge,
            name,
            required,
            waiting,
            unacked,
            bytes,
        } = self;
        let need = if *required { "required" } else { "optional" };
        format!(
            "{edge:<10} {name:<20} {need}  waiting {waiting}  unacked {unacked}  about {bytes} \
             bytes"
        )
    }
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
    /// URLs among those refused whose page was hidden by a challenge.
    #[serde(default)]
    pub walls: u64,
    /// Pages that are visited again; none where no page is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recrawl: Option<Recrawled>,
    /// URLs in the frontier, with planned visits.
    pub waiting: u64,
    /// Waiting URLs whose budget is used up (`limits.over_budget: wait`, `topics.*.pages_max`).
    #[serde(default)]
    pub waiting_over_budget: u64,
    /// Waiting URLs whose host or domain an operator has paused.
    #[serde(default)]
    pub waiting_paused: u64,
    /// Waiting URLs that are kept back because their shapes are traps (`limits.shape_pages`).
    #[serde(default)]
    pub waiting_trapped: u64,
    /// URLs in connection jobs.
    pub in_flight: u64,
    /// What each topic has; none where no topic is configured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub topics: BTreeMap<String, TopicUse>,
    /// Messages put aside: corrupt ones, and those that processes died of.
    pub dead: u64,
    /// Messages that wait for a program that reads their schema version.
    #[serde(default)]
    pub parked: Vec<Parked>,
    /// New URLs that were lost before they were taken on, and whose loss was accepted
    /// (`--accept-loss`).
    #[serde(default)]
    pub lost: u64,
    /// Messages that were lost at most, and whose loss was accepted, by edge.
    #[serde(default)]
    pub lost_messages: BTreeMap<String, u64>,
    /// Requests made again because the job that made them was lost.
    pub refetched: u64,
    /// Processes that died and were started again.
    pub restarts: u64,
    /// Seconds since the crawl was started (in this run).
    pub elapsed_s: f64,
    /// Nothing is left to do.
    pub complete: bool,
    /// What the crawl waits for while nothing moves, in words; empty while it moves.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits: String,
    /// By which name robots.txt, X-Robots-Tag and robots `meta` address the crawl.
    #[serde(default)]
    pub product_token: String,
    /// What each process that answers used.
    pub processes: Vec<ProcessUse>,
    /// Processes with state that do not answer: what is known of them counts in the sums.
    #[serde(default)]
    pub silent: Vec<Silent>,
    /// Who reads the streams that are kept by interest.
    #[serde(default)]
    pub consumers: Vec<ConsumerUse>,
    /// Its stages are deployed one by one, such as on Kubernetes; told by `status`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deployed: bool,
    /// Where the conductor serves health, metrics and what autoscalers ask; empty when none
    /// answers.
    #[serde(default)]
    pub conductor: String,
    /// Optional consumers that were removed, each with the reason (in this run).
    #[serde(default)]
    pub consumers_removed: Vec<String>,
    /// Instances with state that run on other machines, or that ran there and are missing; each in
    /// words.
    #[serde(default)]
    pub elsewhere: Vec<String>,
    /// Partitions that are too large, and cannot be split since most of their URLs are of one host;
    /// each in words.
    #[serde(default)]
    pub unsplittable: Vec<String>,
    /// Traps whose URLs are kept back; of each scheduler the first twenty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traps: Vec<Trap>,
    /// What operators have released from traps; told by `status`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<Release>,
    /// What operators have paused; told by `status`.
    #[serde(default)]
    pub paused: Vec<Pause>,
    /// What operators have dropped, with what is found later; told by `status`.
    #[serde(default)]
    pub dropped: Vec<DropOrder>,
    /// Keys of the configuration that operators have set; told by `status`.
    #[serde(default)]
    pub set: Vec<Setting>,
    /// For which command the crawl stands still for a moment; told by `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Hold>,
}

/// What only the supervising process knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Supervision {
    /// Processes that died and were started again.
    pub(crate) restarts: u64,
    /// Where health, metrics and what autoscalers ask are served.
    #[serde(default)]
    pub(crate) listen: String,
    /// Processes that answered its latest look and have not died since; 0 from an earlier version.
    #[serde(default)]
    pub(crate) answering: usize,
    /// Seconds since the crawl was started (in this run).
    pub(crate) elapsed_s: f64,
    /// Its stages are deployed one by one.
    #[serde(default)]
    pub(crate) deployed: bool,
    /// The private broker.
    pub(crate) broker: Option<ProcessUse>,
    /// Optional consumers that were removed, each with the reason.
    #[serde(default)]
    pub(crate) consumers_removed: Vec<String>,
    /// What the crawl waits for while nothing moves, in words.
    #[serde(default)]
    pub(crate) waits: String,
    /// Instances with state that run on other machines, or that ran there and are missing; each in
    /// words.
    #[serde(default)]
    pub(crate) elsewhere: Vec<String>,
    /// What is known of processes with state; nothing from an earlier version.
    #[serde(default)]
    pub(crate) last_known: LastKnown,
}

/// What a topic has. Topics that are not configured count for the default one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicUse {
    /// New URLs.
    pub new: u64,
    /// Those of them that wait or are in flight.
    pub waiting: u64,
    /// Those of them that were fetched.
    pub fetched: u64,
    /// Bytes of their bodies, as sent.
    pub bytes: u64,
    /// Connections now.
    pub connections: u64,
    /// Connection time since the schedulers began, in whole seconds.
    pub connection_s: u64,
    /// Visits of known pages that may be planned in an hour: of the budget that the topic has for
    /// itself, 0 if it has none; of the default topic those of the crawl's budget.
    #[serde(default)]
    pub visits_per_hour: u64,
    /// What the last planned visits were worth of pages that are compared with those of the topic,
    /// in seconds, where that was most.
    #[serde(default)]
    pub visits_threshold_s: u64,
}

impl fmt::Display for TopicUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TopicUse {
            new,
            waiting,
            fetched,
            bytes,
            connections,
            connection_s,
            visits_per_hour,
            visits_threshold_s,
        } = self;
        write!(
            f,
            "new {new}  waiting {waiting}  fetched {fetched} ({bytes} bytes)  connections \
             {connections}, {connection_s} s in all"
        )?;
        if *visits_per_hour > 0 {
            write!(
                f,
                "  visits {visits_per_hour} an hour, each worth {visits_threshold_s} s"
            )?;
        }
        Ok(())
    }
}

impl TopicUse {
    /// Adds the numbers of a scheduler.
    pub(crate) fn add(&mut self, counts: &BTreeMap<String, u64>) {
        let of = |name: &str| counts.get(name).copied().unwrap_or_default();
        self.new += of("topic_new_total");
        self.waiting += of("topic_waiting");
        self.fetched += of("topic_fetched_total");
        self.bytes += of("topic_bytes_total");
        self.connections += of("topic_connections");
        self.connection_s += of("topic_connection_seconds_total");
        self.visits_per_hour += of("topic_visits_budget_per_hour");
        let threshold_s = of("topic_visits_threshold_seconds");
        self.visits_threshold_s = self.visits_threshold_s.max(threshold_s);
    }
}

/// Tells of walls, where there are some: how many, and their share among pages and walls.
pub(crate) fn walls_text(walls: u64, pages: u64) -> Option<String> {
    let share = walls as f64 * 100.0 / (pages + walls) as f64;
    (walls > 0).then(|| format!("{walls} walls, {share:.1} % of pages and walls"))
}

impl Summary {
    /// Says what was lost; nothing when nothing was.
    pub(crate) fn lost_text(&self) -> Option<String> {
        if self.lost == 0 && self.lost_messages.is_empty() {
            return None;
        }
        let edges: Vec<String> = self
            .lost_messages
            .iter()
            .map(|(edge, n)| format!("{edge} {n}"))
            .collect();
        let edges = if edges.is_empty() {
            "none".to_owned()
        } else {
            edges.join(", ")
        };
        Some(format!(
            "accepted as lost: {} URLs; messages: {edges}",
            self.lost
        ))
    }

    /// Waiting URLs that may go, as far as budgets and traps are concerned.
    pub(crate) fn going(&self) -> u64 {
        self.waiting
            .saturating_sub(self.waiting_over_budget + self.waiting_trapped)
    }

    /// How the crawl stands, in a word: `running`, `paused`, `held` for a moment, or `complete`.
    pub(crate) fn state(&self) -> &'static str {
        let is_paused = self.paused.iter().any(|pause| pause.what == Target::Crawl);
        match self {
            _ if self.complete => "complete",
            _ if self.held.is_some() => "held",
            _ if is_paused => "paused",
            _ => "running",
        }
    }

    /// The line that a crawl ends with.
    pub(crate) fn last_line(&self) -> String {
        let outcomes = self.outcomes_text(", ");
        format!(
            "{} in {:.1} s: {} pages, {} bytes; outcomes: {}{}; waiting {}{}{}",
            match (self.complete, self.pages) {
                (true, 0) => "ended without a page",
                (true, _) => "complete",
                (false, _) => "stopped",
            },
            self.elapsed_s,
            self.pages,
            self.bytes,
            if outcomes.is_empty() {
                "none"
            } else {
                &outcomes
            },
            match walls_text(self.walls, self.pages) {
                Some(walls) => format!(" ({walls})"),
                None => String::new(),
            },
            self.waiting + self.in_flight,
            match (self.waiting_over_budget, self.waiting_trapped) {
                (0, 0) => String::new(),
                (urls, 0) => format!(" ({urls} over budget)"),
                (0, urls) => format!(" ({urls} in traps)"),
                (over, trapped) => format!(" ({over} over budget, {trapped} in traps)"),
            },
            match self.lost_text() {
                Some(lost) => format!("; {lost}"),
                None => String::new(),
            },
        )
    }

    /// Lists the outcomes that some URL has had, each with its number of URLs, and `between` two of
    /// them.
    pub(crate) fn outcomes_text(&self, between: &str) -> String {
        let had = self.outcomes.iter().filter(|(_, n)| **n > 0);
        had.map(|(name, n)| format!("{name} {n}"))
            .collect::<Vec<_>>()
            .join(between)
    }
}

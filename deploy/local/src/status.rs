//! One picture of a crawl: what each process answers, and what lies in each stream.

use crate::crawl::{SUPERVISOR, SupervisorRequest};
use anyhow::Context as _;
use async_nats::jetstream;
use futures::StreamExt as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shared::bus::{Bus, consumer_name, required_by_interest, required_consumers};
use shared::config::Pipeline;
use shared::message::Outcome;
use shared::stage::{ControlRequest, ProcessStatus};
use shared::topology::{DEAD, Edge, STAGES, StageName};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A process in the summary.
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
    /// Found URLs that were known.
    pub urls_repeated: u64,
    /// Found URLs that were new.
    pub urls_new: u64,
    /// URLs by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// URLs in the frontier.
    pub waiting: u64,
    /// Of those: because a budget is used up (`limits.over_budget: wait`).
    #[serde(default)]
    pub waiting_over_budget: u64,
    /// URLs in connection jobs.
    pub in_flight: u64,
    /// Corrupt messages put aside.
    pub dead: u64,
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
pub struct Supervision {
    /// Processes that died and were started again.
    pub restarts: u64,
    /// Seconds since the crawl was started (in this run).
    pub elapsed_s: f64,
    /// The private broker.
    pub broker: Option<ProcessUse>,
}

/// What is known of a crawl at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Answers of the processes.
    pub processes: Vec<ProcessStatus>,
    /// Last sequence of each stream, by edge.
    pub last_sequences: BTreeMap<String, u64>,
    /// Messages of each stream that a required consumer has not acked, by edge.
    pub backlog: BTreeMap<String, u64>,
    /// Messages in the dead letters.
    pub dead: u64,
}

/// How long processes may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);
/// After the last answer, how long to wait for one more when nobody says how many there are.
const QUIET: Duration = Duration::from_millis(250);

impl Snapshot {
    /// Asks all processes (`expected` of them, if known) and looks at all streams.
    pub async fn take(bus: &Bus, pipeline: &Pipeline, expected: Option<usize>) -> anyhow::Result<Snapshot> {
        let mut processes: Vec<ProcessStatus> = ask_all(bus, &ControlRequest::Status, expected).await?;
        processes.sort_by(|a, b| (&a.stage, a.instance).cmp(&(&b.stage, b.instance)));
        let mut snapshot = Snapshot { processes, ..Snapshot::default() };
        for (key, _) in pipeline.edges.streams() {
            let Ok(stream) = bus.jetstream.get_stream(bus.subjects.stream(key)).await else { continue };
            let state = &stream.cached_info().state;
            let Some(edge) = Edge::from_name(key) else {
                snapshot.dead = state.messages;
                continue;
            };
            snapshot.last_sequences.insert(key.to_owned(), state.last_sequence);
            // Not by the messages in it: after a full disk a work queue was seen to keep one that is acked.
            let backlog = backlog(&stream, &required_consumers(edge, pipeline)).await;
            snapshot.backlog.insert(key.to_owned(), backlog);
        }
        Ok(snapshot)
    }

    fn total(&self, stage: &str, count: &str) -> u64 {
        self.processes.iter().filter(|p| p.stage == stage).filter_map(|p| p.counts.get(count)).sum()
    }

    /// Sums up.
    pub fn summary(&self) -> Summary {
        let outcomes: BTreeMap<String, u64> = Outcome::ALL
            .iter()
            .map(|outcome| {
                let count = format!("outcome_{}_total", outcome.name().replace('-', "_"));
                (outcome.name().to_owned(), self.total("scheduler", &count))
            })
            .collect();
        Summary {
            pages: outcomes["fetched"],
            bytes: self.total("scheduler", "bytes_total"),
            urls_found: self.total("dedup", "found_total"),
            urls_filtered: self.total("dedup", "filtered_total"),
            urls_repeated: self.total("dedup", "repeated_total"),
            urls_new: self.total("dedup", "new_total"),
            outcomes,
            waiting: self.total("scheduler", "waiting"),
            waiting_over_budget: self.total("scheduler", "waiting_over_budget"),
            in_flight: self.total("scheduler", "in_flight"),
            dead: self.dead,
            refetched: self.total("scheduler", "refetched_total"),
            processes: self
                .processes
                .iter()
                .map(|p| ProcessUse {
                    stage: p.stage.clone(),
                    instance: p.instance,
                    pid: p.pid,
                    cpu_s: p.cpu_s,
                    peak_rss_bytes: p.peak_rss_bytes,
                })
                .collect(),
            ..Summary::default()
        }
    }

    /// Whether nothing is waiting but for a larger budget, nor in flight, in hand or in a stream: twice in a row with
    /// the same last sequences, there is nothing left to do (with all `expected` processes there to say so).
    pub fn is_quiet(&self, pipeline: &Pipeline, expected: usize) -> bool {
        self.processes.len() >= expected
            && self.covers_partitions(pipeline)
            && self.processes.iter().all(|process| process.idle)
            && self.total("scheduler", "waiting") == self.total("scheduler", "waiting_over_budget")
            && self.total("scheduler", "in_flight") == 0
            && self.has_all_streams(pipeline)
            && self.backlog.values().all(|&backlog| backlog == 0)
    }

    /// Whether the broker told of every stream what lies in it.
    fn has_all_streams(&self, pipeline: &Pipeline) -> bool {
        pipeline.edges.streams().iter().all(|(key, _)| *key == DEAD || self.backlog.contains_key(*key))
    }

    fn covers_partitions(&self, pipeline: &Pipeline) -> bool {
        let instances = |stage: &str| {
            self.processes.iter().filter(|p| p.stage == stage).map(|p| p.instance).collect::<BTreeSet<_>>().len()
        };
        let with_state = STAGES.iter().filter(|row| row.has_state);
        with_state
            .map(|row| row.stage)
            .all(|stage| instances(stage.name()) == usize::from(pipeline.stages.of(stage).replicas))
    }

    /// Why the equations of P3 cannot be checked; nothing when they can.
    pub fn unknown(&self, pipeline: &Pipeline) -> Option<String> {
        (!self.covers_partitions(pipeline)).then(|| {
            "not every dedup and scheduler answers: what they hold is not known (try again in a moment)".to_owned()
        })
    }

    /// The equations of P3 that do not hold, in words; each process's numbers are those of one commit.
    pub fn violations(&self) -> Vec<String> {
        let mut violations = Vec::new();
        for process in &self.processes {
            let count = |name: &str| process.counts.get(name).copied().unwrap_or(0);
            let name = format!("{}.{}", process.stage, process.instance);
            if process.stage == "dedup" {
                let (found, parts) =
                    (count("found_total"), count("filtered_total") + count("repeated_total") + count("new_total"));
                if found != parts {
                    violations.push(format!("{name}: found {found} is not filtered + repeated + new = {parts}"));
                }
            }
            if process.stage == "scheduler" {
                let outcomes: u64 = Outcome::ALL
                    .iter()
                    .map(|outcome| count(&format!("outcome_{}_total", outcome.name().replace('-', "_"))))
                    .sum();
                let (new, parts) = (count("new_total"), outcomes + count("waiting") + count("in_flight"));
                if new != parts {
                    violations.push(format!("{name}: new {new} is not outcomes + waiting + in flight = {parts}"));
                }
            }
        }
        let (accepted, received) = (self.total("dedup", "new_total"), self.total("scheduler", "new_total"));
        if received > accepted {
            violations
                .push(format!("the schedulers took {received} new URLs, the URL-seen test passed only {accepted}"));
        }
        let under_way: u64 = ["urls.new", "urls.ready"].iter().filter_map(|edge| self.backlog.get(*edge)).sum();
        if received < accepted && under_way == 0 && self.processes.iter().all(|p| p.idle) {
            violations.push(format!(
                "the URL-seen test passed {accepted} new URLs, the schedulers took {received}, and none is under way"
            ));
        }
        violations
    }
}

/// Messages of a stream that some of its consumers have not been given or have not acked.
async fn backlog(stream: &jetstream::stream::Stream, consumers: &[String]) -> u64 {
    let mut backlog = 0;
    for name in consumers {
        backlog += match stream.consumer_info(name).await {
            Ok(info) => info.num_pending + info.num_ack_pending as u64,
            // It does not exist yet.
            Err(_) => stream.cached_info().state.messages,
        };
    }
    backlog
}

/// Messages that the archiver has not acked.
///
/// # Errors
/// The broker does not answer.
pub async fn unarchived(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<u64> {
    let mut left = 0;
    for (edge, stage) in required_by_interest(pipeline) {
        if stage == StageName::Archiver {
            let stream = bus.jetstream.get_stream(bus.subjects.stream(edge.name())).await?;
            left += backlog(&stream, &[consumer_name(stage.name(), None)]).await;
        }
    }
    Ok(left)
}

/// Asks all processes (`expected` of them, if known) the same.
pub(crate) async fn ask_all<T: DeserializeOwned>(
    bus: &Bus,
    request: &ControlRequest,
    expected: Option<usize>,
) -> anyhow::Result<Vec<T>> {
    let inbox = bus.client.new_inbox();
    let mut answers = bus.client.subscribe(inbox.clone()).await.context("cannot subscribe")?;
    let request = serde_json::to_vec(request)?;
    bus.client.publish_with_reply(bus.subjects.control("all"), inbox, request.into()).await?;
    let mut given = Vec::new();
    let end = tokio::time::Instant::now() + ANSWER_TIMEOUT;
    while expected.is_none_or(|expected| given.len() < expected) {
        let patience = match (expected, given.is_empty()) {
            (None, false) => (tokio::time::Instant::now() + QUIET).min(end),
            _ => end,
        };
        match tokio::time::timeout_at(patience, answers.next()).await {
            // A subject nobody listens to is answered by the broker, with a status.
            Ok(Some(answer)) if answer.status.is_some() => break,
            Ok(Some(answer)) => {
                if let Ok(answer) = serde_json::from_slice(&answer.payload) {
                    given.push(answer);
                }
            }
            Ok(None) | Err(_) => break,
        }
    }
    Ok(given)
}

/// How a crawl stands, as another command sees it.
pub async fn look(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<(Snapshot, Summary)> {
    let snapshot = Snapshot::take(bus, pipeline, None).await?;
    let mut summary = snapshot.summary();
    summary.complete = summary.waiting == 0 && snapshot.is_quiet(pipeline, snapshot.processes.len());
    let request = serde_json::to_vec(&SupervisorRequest::Status)?;
    // Where stages are deployed one by one nobody supervises them all.
    if let Ok(answer) = bus.client.request(bus.subjects.control(SUPERVISOR), request.into()).await {
        let supervision: Supervision = serde_json::from_slice(&answer.payload).context("the supervisor answers")?;
        summary.restarts = supervision.restarts;
        summary.elapsed_s = supervision.elapsed_s;
        summary.processes.extend(supervision.broker);
    }
    Ok((snapshot, summary))
}

/// Many lines for a person.
pub fn text(summary: &Summary, snapshot: &Snapshot) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let state = if summary.complete { "complete" } else { "running" };
    let _ = writeln!(
        text,
        "{state} for {:.1} s: {} pages, {} bytes; {} restarts",
        summary.elapsed_s, summary.pages, summary.bytes, summary.restarts
    );
    let _ = writeln!(
        text,
        "urls      found {}  filtered {}  repeated {}  new {}",
        summary.urls_found, summary.urls_filtered, summary.urls_repeated, summary.urls_new
    );
    let _ = writeln!(
        text,
        "frontier  waiting {} (over budget {})  in flight {}  dead {}",
        summary.waiting, summary.waiting_over_budget, summary.in_flight, summary.dead
    );
    let outcomes: Vec<String> =
        summary.outcomes.iter().filter(|(_, n)| **n > 0).map(|(name, n)| format!("{name} {n}")).collect();
    let _ = writeln!(text, "outcomes  {}", outcomes.join("  "));
    let backlog: Vec<String> = snapshot.backlog.iter().map(|(edge, n)| format!("{edge} {n}")).collect();
    let _ = writeln!(text, "backlog   {}", backlog.join("  "));
    for process in &snapshot.processes {
        let _ = writeln!(
            text,
            "process   {:<15} pid {:<8} {:>8.2} CPU s  {:>5} MB  {}  http://{}",
            format!("{}.{}", process.stage, process.instance),
            process.pid,
            process.cpu_s,
            process.peak_rss_bytes / 1_000_000,
            if process.ready { "ready".to_owned() } else { format!("not ready ({})", process.reason) },
            process.listen,
        );
    }
    text
}

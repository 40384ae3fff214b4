//! What each stage is doing, in words, and which one the crawl waits for.
//!
//! In: a look at the crawl. Out: a state and a sentence for each stage; for the short one the
//! reason and the remedy.

use super::snapshot::Snapshot;
use rhumb_config::Pipeline;
use rhumb_stage::{ProcessStatus, Shares};
use rhumb_wire::message::Edge;
use rhumb_wire::topology::{Party, STAGES, StageName, StageRow};
use serde::Serialize;
use std::collections::BTreeMap;

/// A stage that works for more than this part of its time is busy.
const BUSY: f64 = 0.7;
/// One that is held back for more than this part is held.
const HELD: f64 = 0.25;
/// One that waits for more than this part has little to do.
const WAITING: f64 = 0.5;
/// Fetchers whose connections are in use to this part have none to spare.
const CONNECTED: f64 = 0.95;
/// Messages from which on a backlog is one.
const BACKLOG: u64 = 1000;

/// Where the time of a stage goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Busy,
    Waiting,
    Held,
    Idle,
    /// An instance is not ready, or none answers.
    Down,
}

/// The stage that the crawl waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Short {
    pub(crate) stage: &'static str,
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

/// A stage in a look: its processes, and what they spend their time on together.
pub(crate) struct StageLook<'a> {
    pub(crate) row: &'static StageRow,
    pub(crate) processes: Vec<&'a ProcessStatus>,
    pub(crate) shares: Shares,
    /// Instances that there should be, as configured; more or fewer may have been wanted since.
    expected: u16,
}

/// All stages of a look, in the order of the flow; those that are optional and not there are left
/// out.
pub(crate) fn stages<'a>(snapshot: &'a Snapshot, pipeline: &Pipeline) -> Vec<StageLook<'a>> {
    let look = |row: &'static StageRow| {
        let processes: Vec<_> = snapshot
            .processes
            .iter()
            .filter(|process| process.stage == row.name)
            .collect();
        let shares = mean(&processes);
        StageLook {
            row,
            shares,
            processes,
            expected: pipeline.stages.of(row.stage).replicas,
        }
    };
    STAGES
        .iter()
        .map(look)
        .filter(|look| !look.processes.is_empty() || look.expected > 0)
        .collect()
}

fn mean(processes: &[&ProcessStatus]) -> Shares {
    let n = processes.len().max(1) as f64;
    let mut mean = Shares::default();
    for Shares {
        busy,
        waiting,
        held_back,
    } in processes.iter().map(|process| &process.shares)
    {
        mean.busy += busy / n;
        mean.waiting += waiting / n;
        for (edge, share) in held_back {
            *mean.held_back.entry(edge.clone()).or_default() += share / n;
        }
    }
    mean
}

impl StageLook<'_> {
    fn total(&self, count: &str) -> u64 {
        self.processes
            .iter()
            .filter_map(|process| process.counts.get(count))
            .sum()
    }

    /// Why an instance cannot work, if one cannot.
    fn trouble(&self) -> Option<String> {
        let down = self.processes.iter().find(|process| !process.ready);
        match down {
            Some(process) => Some(format!(
                "{}.{} is not ready: {}",
                process.stage, process.instance, process.reason
            )),
            None if self.processes.is_empty() => Some("no instance answers".to_owned()),
            None => None,
        }
    }

    /// The edge that holds it back most.
    fn held_by(&self) -> Option<(&str, f64)> {
        let most = self
            .shares
            .held_back
            .iter()
            .max_by(|(_, one), (_, other)| one.total_cmp(other));
        most.filter(|(_, share)| **share > HELD)
            .map(|(edge, share)| (edge.as_str(), *share))
    }

    /// Where its time goes.
    pub(crate) fn state(&self) -> State {
        match self {
            _ if self.trouble().is_some() => State::Down,
            _ if self.held_by().is_some() => State::Held,
            _ if self.shares.busy > BUSY || self.has_no_connection_to_spare() => State::Busy,
            _ if self.shares.busy < 0.01 => State::Idle,
            _ if self.shares.waiting > WAITING => State::Waiting,
            _ => State::Busy,
        }
    }

    /// What it is doing.
    pub(crate) fn says(&self) -> String {
        if let Some(trouble) = self.trouble() {
            return trouble;
        }
        if let Some((edge, share)) = self.held_by() {
            return format!("held back by {edge} for {} of its time", percent(share));
        }
        match self.row.stage {
            StageName::Fetcher => {
                let [used, all] = ["connections", "connections_max"].map(|count| self.total(count));
                format!("{used} of {all} connections in use")
            }
            StageName::Scheduler => {
                let [ready, servers] = ["servers_ready", "servers"].map(|count| self.total(count));
                format!("{ready} of {servers} servers may be contacted now")
            }
            _ => format!("works for {} of its time", percent(self.shares.busy)),
        }
    }

    fn has_no_connection_to_spare(&self) -> bool {
        let [used, all] = ["connections", "connections_max"].map(|count| self.total(count) as f64);
        self.row.stage == StageName::Fetcher && all > 0.0 && used >= CONNECTED * all
    }

    fn scale_up(&self, is_deployed: bool) -> String {
        match is_deployed {
            true => format!("scale {} to {}", self.row.name, self.processes.len() + 1),
            false => format!("rhumb scale {}={}", self.row.name, self.processes.len() + 1),
        }
    }

    fn short(&self, reason: String, remedy: String) -> Short {
        Short {
            stage: self.row.name,
            reason,
            remedy,
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// The stage that the crawl waits for, if one can be told. `is_deployed`: others start and end its
/// processes.
pub(crate) fn short(
    stages: &[StageLook<'_>],
    snapshot: &Snapshot,
    is_deployed: bool,
) -> Option<Short> {
    if let Some((stage, trouble)) = stages
        .iter()
        .find_map(|stage| Some((stage, stage.trouble()?)))
    {
        return Some(stage.short(
            trouble,
            format!("see the log of {} and `rhumb status`", stage.row.name),
        ));
    }
    let of = |name: StageName| stages.iter().find(|stage| stage.row.stage == name);
    // Who holds others back, or does not keep up with its input.
    let held_by = stages
        .iter()
        .filter_map(|stage| Some((stage.row.name, stage.held_by()?)));
    for (held, (edge, share)) in held_by {
        if let Some(reader) = slowest_reader(edge, stages) {
            let reason = format!(
                "{edge} is full and holds {held} back for {} of its time",
                percent(share)
            );
            return Some(reader.short(reason, reader.scale_up(is_deployed)));
        }
    }
    if let Some((stage, reason)) = stages
        .iter()
        .find_map(|stage| Some((stage, behind(stage, &snapshot.backlog)?)))
    {
        return Some(stage.short(reason, stage.scale_up(is_deployed)));
    }
    let fetcher = of(StageName::Fetcher)?;
    let scheduler = of(StageName::Scheduler)?;
    let ready = scheduler.total("servers_ready");
    if fetcher.has_no_connection_to_spare() && ready > 0 {
        let reason = format!("{}, {ready} servers ready", fetcher.says());
        return Some(fetcher.short(reason, fetcher.scale_up(is_deployed)));
    }
    polite(scheduler, ready)
}

/// The stage that takes an edge and is not held back itself: what is behind it makes those before
/// it wait.
fn slowest_reader<'a, 'b>(edge: &str, stages: &'b [StageLook<'a>]) -> Option<&'b StageLook<'a>> {
    let mut edge = edge.to_owned();
    let mut passed = Vec::new();
    loop {
        let read = |stage: &&StageLook<'_>| readers(&edge).any(|name| name == stage.row.stage);
        let reader = stages
            .iter()
            .filter(read)
            .max_by(|a, b| a.shares.busy.total_cmp(&b.shares.busy))?;
        match reader.held_by() {
            // The flow is a ring.
            Some((next, _)) if !passed.contains(&reader.row.name) => {
                passed.push(reader.row.name);
                edge = next.to_owned();
            }
            _ => return Some(reader),
        }
    }
}

/// The stages that take an edge.
fn readers(edge: &str) -> impl Iterator<Item = StageName> {
    let consumers = Edge::from_name(edge)
        .and_then(Edge::row)
        .map_or(&[][..], |row| row.consumers);
    consumers.iter().filter_map(|party| match party {
        Party::Stage(stage) => Some(*stage),
        _ => None,
    })
}

/// What a busy stage does not keep up with.
fn behind(stage: &StageLook<'_>, backlog: &BTreeMap<String, u64>) -> Option<String> {
    let waits = |source: &rhumb_wire::topology::Source| {
        let edge = source.edge().name();
        Some((edge, *backlog.get(edge)?)).filter(|(_, messages)| *messages >= BACKLOG)
    };
    let (edge, messages) = stage
        .row
        .inputs
        .iter()
        .filter_map(waits)
        .max_by_key(|(_, messages)| *messages)?;
    let is_busy = stage.shares.busy > BUSY;
    is_busy.then(|| {
        format!(
            "works for {} of its time, and {messages} messages wait on {edge}",
            percent(stage.shares.busy)
        )
    })
}

/// URLs wait, and no server may be contacted: it is not this crawler that is slow.
fn polite(scheduler: &StageLook<'_>, ready: u64) -> Option<Short> {
    let waiting = scheduler.total("waiting");
    let waiting = waiting.saturating_sub(
        scheduler.total("waiting_over_budget") + scheduler.total("waiting_trapped"),
    );
    if waiting == 0 || ready > 0 {
        return None;
    }
    let whys = [
        (
            "servers_waiting_delay",
            "for their delay",
            "more servers, or a shorter politeness.delay; more processes bring nothing",
        ),
        (
            "servers_waiting_back_off",
            "because they refused or did not answer",
            "rhumb queue --top 10 --by errors",
        ),
        (
            "servers_waiting_retry",
            "for another try",
            "rhumb queue --top 10 --by errors",
        ),
        (
            "servers_waiting_address",
            "for their address",
            "see the log of the resolver",
        ),
        (
            "servers_waiting_robots",
            "for the robots.txt of others",
            "wait",
        ),
        (
            "servers_waiting_budget",
            "for a larger budget",
            "raise the budget (limits.pages_per_host, topics.*.pages_max)",
        ),
        (
            "servers_waiting_room",
            "for room at their address or group",
            "see politeness.connections_per_address and groups",
        ),
        (
            "servers_waiting_pause",
            "because they are paused",
            "rhumb unpause",
        ),
        (
            "servers_waiting_trap",
            "because what waits at them is in traps",
            "rhumb release",
        ),
    ];
    let told = whys.map(|(count, why, remedy)| (scheduler.total(count), why, remedy));
    let (servers, why, remedy) = told
        .into_iter()
        .max_by_key(|(servers, ..)| *servers)
        .filter(|told| told.0 > 0)?;
    let reason = format!("no server may be contacted now; {servers} wait {why}");
    Some(scheduler.short(reason, remedy.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A look at a crawl with one instance of each stage; `counts` and `shares` are those of the
    /// stages that they name.
    fn look(
        counts: &[(&str, serde_json::Value)],
        shares: &[(&str, Shares)],
        backlog: &[(&str, u64)],
    ) -> Snapshot {
        let process = |row: &StageRow| {
            let counts = counts
                .iter()
                .find(|(stage, _)| *stage == row.name)
                .map_or(json!({}), |(_, counts)| counts.clone());
            let process = json!({
                "stage": row.name, "instance": 0, "pid": 1, "life": 1, "listen": "", "cpu_s": 0.0, "peak_rss_bytes": 0,
                "ready": true, "idle": false, "counts": counts,
            });
            let mut process: ProcessStatus = serde_json::from_value(process).unwrap();
            process.shares = shares
                .iter()
                .find(|(stage, _)| *stage == row.name)
                .map(|(_, of)| of.clone())
                .unwrap_or_default();
            process
        };
        let processes = STAGES
            .iter()
            .filter(|row| !row.is_optional)
            .map(process)
            .collect();
        let backlog = backlog
            .iter()
            .map(|(edge, n)| ((*edge).to_owned(), *n))
            .collect();
        Snapshot {
            processes,
            backlog,
            ..Snapshot::default()
        }
    }

    fn pipeline() -> Pipeline {
        let set = ["network.allow_private_addresses=true".to_owned()].into();
        rhumb_config::Layers { file: None, set }
            .load_with(std::iter::empty())
            .unwrap()
    }

    fn told(snapshot: &Snapshot) -> (BTreeMap<&'static str, (State, String)>, Option<Short>) {
        let stages = stages(snapshot, &pipeline());
        let told = stages
            .iter()
            .map(|stage| (stage.row.name, (stage.state(), stage.says())))
            .collect();
        (told, short(&stages, snapshot, false))
    }

    #[test]
    fn connections_that_are_all_in_use_make_the_fetcher_short_while_servers_are_ready() {
        let counts = |connections: u64, ready: u64| {
            [
                (
                    "fetcher",
                    json!({ "connections": connections, "connections_max": 64 }),
                ),
                (
                    "scheduler",
                    json!({ "servers_ready": ready, "servers": 400, "waiting": 10 }),
                ),
            ]
        };
        let (stages, short) = told(&look(&counts(64, 312), &[], &[]));
        assert_eq!(
            stages["fetcher"],
            (State::Busy, "64 of 64 connections in use".into())
        );
        let expected = Short {
            stage: "fetcher",
            reason: "64 of 64 connections in use, 312 servers ready".into(),
            remedy: "rhumb scale fetcher=2".into(),
        };
        assert_eq!(short, Some(expected));
        assert_eq!(told(&look(&counts(10, 312), &[], &[])).1, None);
    }

    #[test]
    fn the_stage_that_holds_others_back_or_does_not_keep_up_is_short() {
        let held = |edge: &str| Shares {
            busy: 0.2,
            waiting: 0.1,
            held_back: [(edge.to_owned(), 0.6)].into(),
        };
        let busy = Shares {
            busy: 0.9,
            ..Shares::default()
        };
        let (stages, short) = told(&look(
            &[],
            &[("fetcher", held("pages")), ("parser", busy.clone())],
            &[],
        ));
        assert_eq!(
            stages["fetcher"],
            (
                State::Held,
                "held back by pages for 60 % of its time".into()
            )
        );
        assert_eq!(short.unwrap().stage, "parser");
        let chain = [
            ("host-splitter", held("urls.split")),
            ("dedup", held("urls.new")),
            ("resolver", busy.clone()),
        ];
        assert_eq!(
            told(&look(&[], &chain, &[])).1.unwrap().stage,
            "resolver",
            "it makes those before it wait"
        );
        let (_, short) = told(&look(&[], &[("dedup", busy)], &[("urls.split", 5000)]));
        let short = short.unwrap();
        assert_eq!(short.stage, "dedup");
        assert_eq!(
            short.reason,
            "works for 90 % of its time, and 5000 messages wait on urls.split"
        );
    }

    #[test]
    fn servers_that_are_to_be_left_alone_and_instances_that_are_away_are_said() {
        let counts = json!({ "servers": 50, "waiting": 900, "servers_waiting_delay": 40, "servers_waiting_retry": 10 });
        let (_, short) = told(&look(&[("scheduler", counts)], &[], &[]));
        assert_eq!(
            short.unwrap().reason,
            "no server may be contacted now; 40 wait for their delay"
        );
        let mut away = look(&[], &[], &[]);
        away.processes.retain(|process| process.stage != "parser");
        let (stages, short) = told(&away);
        assert_eq!(
            (stages["parser"].0, short.unwrap().reason),
            (State::Down, "no instance answers".into())
        );
    }
}

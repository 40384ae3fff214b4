//! A view: what the page shows of one look at a crawl. Its picture is drawn from the tables of
//! stages and edges.

use super::curves::Point;
use crate::handle::Running;
use crate::status::rates::Rates;
use crate::status::words::{Short, StageLook, State, short, stages};
use crate::status::{Snapshot, StreamUse, Summary};
use rhumb_stage::{ProcessStatus, Shares};
use rhumb_wire::topology::{EDGES, EdgeRow, Kind, Party};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// What the page shows.
#[derive(Serialize)]
pub(super) struct View<'a> {
    crawl: &'a str,
    state: &'static str,
    words: String,
    at_ms: u64,
    allow_actions: bool,
    kubernetes: bool,
    summary: &'a Summary,
    stages: Vec<Stage<'a>>,
    edges: Vec<EdgeView>,
    short: Option<Short>,
    /// Who is silent, and what operators have ordered, in words.
    notes: Vec<String>,
    point: Point,
}

#[derive(Serialize)]
struct Stage<'a> {
    name: &'static str,
    says: String,
    state: State,
    shares: Shares,
    /// Cores.
    cpu: f64,
    cpu_ms_per_page: Option<f64>,
    rss_bytes: u64,
    instances: Vec<Instance<'a>>,
}

#[derive(Serialize)]
struct Instance<'a> {
    instance: u16,
    pid: u32,
    host: Option<&'a str>,
    ready: bool,
    reason: &'a str,
    listen: &'a str,
    cpu: f64,
    cpu_s: f64,
    rss_bytes: u64,
    shares: &'a Shares,
    numbers: &'a BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct EdgeView {
    name: &'static str,
    from: Vec<&'static str>,
    to: Vec<&'static str>,
    kind: &'static str,
    per: &'static str,
    message: &'static str,
    /// Messages a second; none of an edge that no stream keeps.
    rate: Option<f64>,
    backlog: Option<u64>,
    unacked: Option<u64>,
    oldest_s: Option<f64>,
    bytes: Option<u64>,
    bytes_max: Option<u64>,
}

/// When a look was taken, and what is known beside it.
pub(super) struct Moment {
    /// Since 1970.
    pub(super) now: Duration,
    pub(super) allow_actions: bool,
}

impl<'a> View<'a> {
    /// The view of a look.
    pub(super) fn of(
        running: &'a Running,
        (snapshot, summary): (&'a Snapshot, &'a Summary),
        rates: &Rates,
        point: Point,
        moment: &Moment,
    ) -> Self {
        let looks = stages(snapshot, &running.pipeline);
        let state = summary.state();
        let short = short(&looks, snapshot, summary.deployed);
        let shown: Vec<_> = looks
            .into_iter()
            .map(|look| Stage::of(look, rates))
            .collect();
        View {
            crawl: &running.pipeline.crawl,
            state,
            words: words(state, summary),
            at_ms: u64::try_from(moment.now.as_millis()).unwrap_or(u64::MAX),
            allow_actions: moment.allow_actions,
            kubernetes: summary.deployed,
            short: short.filter(|_| state == "running"),
            edges: EDGES
                .iter()
                .map(|row| EdgeView::of(row, &shown, snapshot, rates, moment.now))
                .collect(),
            stages: shown,
            notes: notes(summary),
            summary,
            point,
        }
    }

    /// In JSON.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Who is silent, what operators have ordered, and what is parked.
fn notes(summary: &Summary) -> Vec<String> {
    let Summary {
        paused,
        dropped,
        set,
        parked,
        silent,
        ..
    } = summary;
    let silent = silent.iter().map(|silent| format!("silent: {silent}"));
    let paused = paused.iter().map(|pause| format!("paused: {pause}"));
    let dropped = dropped.iter().map(|order| format!("dropped: {order}"));
    let set = set.iter().map(|setting| format!("set: {setting}"));
    let parked = parked.iter().map(|of| {
        format!(
            "parked for {}: {} messages of {}",
            of.stage, of.messages, of.edge
        )
    });
    silent
        .chain(paused)
        .chain(dropped)
        .chain(set)
        .chain(parked)
        .collect()
}

fn words(state: &str, summary: &Summary) -> String {
    let since = match summary.elapsed_s {
        elapsed if elapsed > 0.0 => format!(
            " for {}",
            humantime::format_duration(Duration::from_secs(elapsed as u64))
        ),
        _ => String::new(),
    };
    match (state, &summary.held) {
        ("complete", _) => "complete: nothing is left to do".to_owned(),
        (_, Some(hold)) => format!("stands still for a moment: {hold}"),
        ("paused", _) => "paused by an operator".to_owned(),
        _ => format!("running{since}"),
    }
}

impl<'a> Stage<'a> {
    fn of(look: StageLook<'a>, rates: &Rates) -> Self {
        let state = look.state();
        let says = look.says();
        let name = look.row.name;
        let instances: Vec<_> = look
            .processes
            .iter()
            .map(|process| Instance::of(process, rates))
            .collect();
        Stage {
            name,
            says,
            state,
            shares: look.shares,
            cpu: instances.iter().map(|instance| instance.cpu).sum(),
            cpu_ms_per_page: rates.cpu_ms_per_page.get(name).copied(),
            rss_bytes: instances.iter().map(|instance| instance.rss_bytes).sum(),
            instances,
        }
    }
}

impl<'a> Instance<'a> {
    fn of(process: &'a ProcessStatus, rates: &Rates) -> Self {
        Instance {
            instance: process.instance,
            pid: process.pid,
            host: process.host.as_deref(),
            ready: process.ready,
            reason: &process.reason,
            listen: &process.listen,
            cpu: rates
                .cpu
                .get(&(process.stage.clone(), process.instance))
                .copied()
                .unwrap_or_default(),
            cpu_s: process.cpu_s,
            rss_bytes: process.peak_rss_bytes,
            shares: &process.shares,
            numbers: &process.counts,
        }
    }
}

impl EdgeView {
    /// An edge among the stages that are shown. What no stage takes is there for taps.
    fn of(
        row: &'static EdgeRow,
        shown: &[Stage<'_>],
        snapshot: &Snapshot,
        rates: &Rates,
        now: Duration,
    ) -> Self {
        let stream = snapshot.streams.get(row.name);
        let of = |number: fn(&StreamUse) -> u64| stream.map(number);
        EdgeView {
            name: row.name,
            from: names(row.producers, shown),
            to: Some(names(row.consumers, shown))
                .filter(|to| !to.is_empty())
                .unwrap_or_else(|| vec![Party::Tap.name()]),
            per: row.division.per(),
            kind: if row.kind == Kind::Core {
                "core"
            } else {
                "stream"
            },
            message: row.message,
            rate: stream.map(|_| rates.edges.get(row.name).copied().unwrap_or_default()),
            backlog: of(|stream| stream.behind.messages()),
            unacked: of(|stream| stream.behind.unacked),
            oldest_s: stream
                .and_then(|stream| Some(now.saturating_sub(stream.oldest_at?).as_secs_f64())),
            bytes: of(|stream| stream.bytes),
            bytes_max: of(|stream| stream.bytes_max),
        }
    }
}

/// The names of parties; stages that are not shown are left out.
fn names(parties: &[Party], shown: &[Stage<'_>]) -> Vec<&'static str> {
    let is_shown = |party: &&Party| match party {
        Party::Stage(stage) => shown.iter().any(|of| of.name == stage.name()),
        Party::Rhumb | Party::Tap => true,
    };
    parties
        .iter()
        .filter(is_shown)
        .map(|party| party.name())
        .collect()
}

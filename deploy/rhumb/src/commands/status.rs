//! `rhumb status`: how a running crawl stands, and whether every URL is accounted for.

mod picture;

use super::arguments::Which;
use crate::handle::{self, Running};
use crate::inspect::look::look;
use crate::output::line;
use crate::status::rates::Looks;
use crate::status::{Parked, Recrawled, Snapshot, Summary, walls_text};
use anyhow::Context as _;
use clap::Args;
use rhumb_node::exit_codes::INTERRUPTED;
use rhumb_stage::Shares;
use rhumb_telemetry::process::host_name;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long a look at a crawl may take.
const LOOK_AT_MOST: Duration = Duration::from_secs(10);
/// This many looks in a row must find something wrong.
const LOOKS_AT_WRONG: u32 = 3;

/// Shows how a running crawl stands
#[derive(Args)]
pub(super) struct Status {
    /// Print JSON, with the keys of `crawl --summary`
    #[arg(long)]
    json: bool,
    /// Show the dataflow instead, anew every second, until Ctrl-C; with --json the same JSON every
    /// second
    #[arg(long)]
    watch: bool,
    /// Check that no URL is unaccounted for; otherwise exit 1 and say what is wrong
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    which: Which,
}

impl Status {
    /// Shows the crawl once, or every second.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let running = handle::find(&self.which.layers()).await?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut looks = Looks::default();
        loop {
            let Some((snapshot, summary)) = self.look(&running, &mut interrupt).await? else {
                return Ok(ExitCode::from(INTERRUPTED));
            };
            if self.json {
                line(serde_json::to_string(&summary)?);
            } else if self.watch {
                let rates = looks.take(
                    Instant::now(),
                    (&snapshot, &summary),
                    snapshot.unknown(&running.pipeline).is_none(),
                );
                picture::show(&running.pipeline, &snapshot, &summary, &rates);
            } else {
                line(text(&summary, &snapshot).trim_end());
            }
            if self.check && !self.is_accounted_for(&snapshot, &running) {
                return Ok(ExitCode::FAILURE);
            }
            if !self.watch {
                return Ok(ExitCode::SUCCESS);
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                _ = interrupt.recv() => return Ok(ExitCode::SUCCESS),
            }
        }
    }

    /// Looks at the crawl; nothing after Ctrl-C.
    async fn look(
        &self,
        running: &Running,
        interrupt: &mut Signal,
    ) -> anyhow::Result<Option<(Snapshot, Summary)>> {
        let mut looks = 0;
        loop {
            looks += 1;
            let looked = tokio::select! {
                looked = tokio::time::timeout(LOOK_AT_MOST, look(running)) => looked,
                _ = interrupt.recv() => return Ok(None),
            };
            let (snapshot, summary) = looked.context(
                "the broker or the processes of the crawl do not answer: has it just stopped?",
            )??;
            // Processes do not answer at the same moment: what is really wrong is still wrong in
            // the next looks.
            if !self.check || looks == LOOKS_AT_WRONG || snapshot.violations().is_empty() {
                return Ok(Some((snapshot, summary)));
            }
        }
    }

    /// Returns whether every URL is accounted for, and what is wrong otherwise.
    fn is_accounted_for(&self, snapshot: &Snapshot, running: &Running) -> bool {
        if let Some(unknown) = snapshot.unknown(&running.pipeline) {
            eprintln!("cannot be checked: {unknown}");
            return false;
        }
        let violations = snapshot.violations();
        for violation in &violations {
            eprintln!("check failed: {violation}");
        }
        if violations.is_empty() && !self.json {
            line("check     every URL is accounted for");
        }
        violations.is_empty()
    }
}

/// The lines about known pages.
fn visits_text(recrawl: &Recrawled) -> String {
    let mut text = format!("visits    {recrawl}\n");
    if let Some(signals) = &recrawl.signals {
        let _ = writeln!(text, "signals   {signals}");
    }
    if let Some(copies) = &recrawl.copies {
        let _ = writeln!(text, "copies    {copies}");
    }
    text
}

/// Tells in several lines for a person how a crawl stands.
fn text(summary: &Summary, snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let state = if summary.complete {
        "complete"
    } else {
        "running"
    };
    let _ = writeln!(
        text,
        "{state} for {:.1} s: {} pages, {} bytes; {} restarts",
        summary.elapsed_s, summary.pages, summary.bytes, summary.restarts
    );
    if !summary.waits.is_empty() {
        let _ = writeln!(text, "waits     {}", summary.waits);
    }
    let _ = writeln!(
        text,
        "urls      found {}  filtered {}  repeated {}  new {}",
        summary.urls_found, summary.urls_filtered, summary.urls_repeated, summary.urls_new
    );
    let _ = writeln!(
        text,
        "frontier  waiting {} (over budget {}, paused {}, in traps {})  in flight {}  dead {}",
        summary.waiting,
        summary.waiting_over_budget,
        summary.waiting_paused,
        summary.waiting_trapped,
        summary.in_flight,
        summary.dead
    );
    let _ = writeln!(text, "outcomes  {}", summary.outcomes_text("  "));
    text.extend(summary.recrawl.as_ref().map(visits_text));
    if let Some(walls) = walls_text(summary.walls, summary.pages) {
        let _ = writeln!(text, "walls     {walls}");
    }
    for (topic, has) in &summary.topics {
        let _ = writeln!(text, "topic     {topic}  {has}");
    }
    if let Some(lost) = summary.lost_text() {
        let _ = writeln!(text, "lost      {lost}");
    }
    let backlog: Vec<String> = snapshot
        .backlog
        .iter()
        .map(|(edge, n)| format!("{edge} {n}"))
        .collect();
    let _ = writeln!(text, "backlog   {}", backlog.join("  "));
    // The required ones are in the backlog.
    for consumer in summary
        .consumers
        .iter()
        .filter(|consumer| !consumer.required)
    {
        let _ = writeln!(text, "consumer  {}", consumer.text());
    }
    for removed in &summary.consumers_removed {
        let _ = writeln!(text, "removed   {removed}");
    }
    for silent in &summary.silent {
        let _ = writeln!(text, "silent    {silent}");
    }
    for elsewhere in &summary.elsewhere {
        let _ = writeln!(text, "elsewhere {elsewhere}");
    }
    orders_text(&mut text, summary);
    for too_large in &summary.unsplittable {
        let _ = writeln!(text, "too large {too_large}");
    }
    for Parked {
        stage,
        edge,
        version,
        messages,
    } in &summary.parked
    {
        let _ = writeln!(
            text,
            "parked    {stage}  {edge} version {version}: {messages} messages"
        );
    }
    processes_text(&mut text, summary, snapshot);
    text
}

/// Adds a line for each order that holds, and for each trap.
fn orders_text(text: &mut String, summary: &Summary) {
    for setting in &summary.set {
        let _ = writeln!(text, "set       {setting}");
    }
    for order in &summary.dropped {
        let _ = writeln!(text, "dropped   {order}");
    }
    if let Some(hold) = &summary.held {
        let _ = writeln!(text, "held      {hold}");
    }
    for pause in &summary.paused {
        let _ = writeln!(text, "paused    {pause}");
    }
    for trap in &summary.traps {
        let _ = writeln!(text, "trap      {trap}");
    }
    for release in &summary.released {
        let _ = writeln!(text, "released  {release}");
    }
}

/// Adds a line for the conductor, and one for each process.
fn processes_text(text: &mut String, summary: &Summary, snapshot: &Snapshot) {
    match summary.conductor.as_str() {
        "" => {
            let _ = writeln!(
                text,
                "conductor none answers: limits, completion and missing instances are not looked \
                 after"
            );
        }
        listen => {
            let _ = writeln!(text, "conductor http://{listen}");
        }
    }
    let here = host_name();
    for process in &snapshot.processes {
        let host = process.host.as_deref().filter(|_| process.host != here);
        let _ = writeln!(
            text,
            "process   {:<15} {} {:>8.2} CPU s  {:>5} MB  {}  {}  http://{}",
            format!("{}.{}", process.stage, process.instance),
            host.map_or_else(
                || format!("pid {:<8}", process.pid),
                |host| format!("on {host}")
            ),
            process.cpu_s,
            process.peak_rss_bytes / 1_000_000,
            shares_text(&process.shares),
            if process.ready {
                "ready".to_owned()
            } else {
                format!("not ready ({})", process.reason)
            },
            process.listen,
        );
    }
}

/// Tells what a process spent its time on lately.
fn shares_text(shares: &Shares) -> String {
    let percent = |share: &f64| format!("{:.0} %", 100.0 * share);
    let mut text = format!(
        "busy {:>5}  waiting {:>5}",
        percent(&shares.busy),
        percent(&shares.waiting)
    );
    for (edge, share) in &shares.held_back {
        let _ = write!(text, "  held back by {edge} {}", percent(share));
    }
    text
}

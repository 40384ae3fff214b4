//! `rhumb report`: a page about a crawl, or the model that it is made from.

use super::arguments::{BadArguments, Which};
use crate::handle::{self, Handle, Running};
use crate::inspect::look::look;
use crate::inspect::schedulers;
use crate::output::line;
use crate::report::{self, HOSTS, MODEL, Of, Report as Model, State, gather};
use anyhow::Context as _;
use clap::Args;
use rhumb_bus::find_buckets;
use rhumb_config::Pipeline;
use rhumb_node::log;
use rhumb_stage::report::NAMED_MAX;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the schedulers of a running crawl are asked for more hosts.
const ASK_MORE_MAX: Duration = Duration::from_secs(30);

/// Writes a page about a running or finished crawl: one HTML file that needs nothing else
///
/// What ended and why, statuses, speed over time, hosts, depths, media types, slow and troubled
/// servers, what was filtered, topics, and what of the configuration differs from the shipped one.
#[derive(Args)]
#[command(
    after_help = "`rhumb crawl` writes the same at its end, as report.html and report.json in the data directory. A running crawl is asked: that
changes nothing.

Examples:
  rhumb report                                the crawl in rhumb-data, into report.html
  rhumb report mycrawl --out monday.html
  rhumb report mycrawl --json | jq .leaders.by_errors
  rhumb report --set broker.url=nats://broker.example:4222"
)]
pub(super) struct Report {
    /// Data directory of the crawl (the same as --data)
    #[arg(value_name = "DIR", conflicts_with = "data")]
    dir: Option<PathBuf>,
    /// Where the page goes [default: report.html, unless --json is given]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print what the page is made from, as JSON
    #[arg(long)]
    json: bool,
    /// Of a running crawl: hosts and servers of each list, at most 200
    #[arg(long, value_name = "N", default_value_t = HOSTS as u16, value_parser = clap::value_parser!(u16).range(1..=NAMED_MAX as i64))]
    hosts: u16,
    #[command(flatten)]
    which: Which,
}

impl Report {
    /// Makes the report.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Report {
            dir,
            out,
            json,
            hosts,
            which,
        } = self;
        let is_named = dir.is_some();
        let layers = which.at(dir).layers();
        let own = handle::local(&layers)?;
        log::begin(&own.log, handle::PROGRAM);
        let has_handle = Handle::read(&own.data)?.is_some();
        let report = if has_handle || !is_named && !own.broker.url.is_empty() {
            let running = handle::find(&layers).await;
            let running = if has_handle {
                running.with_context(|| killed(&own.data))
            } else {
                running
            }?;
            of_running(&running, hosts.into()).await?
        } else {
            of_finished(&own)?
        };
        report
            .missing
            .iter()
            .for_each(|what| tracing::warn!("{what}"));
        if json {
            line(serde_json::to_string(&report)?);
        }
        if out.is_some() || !json {
            let out = out.unwrap_or_else(|| report::PAGE.into());
            // Whoever it is for reads it: what is there keeps its mode.
            std::fs::write(&out, report::page(&report))
                .with_context(|| format!("cannot write {}", out.display()))?;
            if !json {
                line(out.display());
            }
        }
        Ok(())
    }
}

/// What is said of a crawl that should run and does not answer.
fn killed(data: &Path) -> String {
    let data = data.display();
    format!(
        "the crawl in {data} was not ended and does not answer: if it was killed, `rhumb crawl \
         --resume --data {data}` goes on, and writes the report at its end"
    )
}

/// Reads what a crawl wrote at its end.
fn of_finished(own: &Pipeline) -> anyhow::Result<Model> {
    let data = own.data.display();
    if let Some(report) = report::read(&own.data)? {
        return Ok(report);
    }
    if !Pipeline::kept_file(&own.data).exists() {
        return Err(BadArguments(format!("{data} holds no crawl: name its data directory")).into());
    }
    anyhow::bail!(
        "{data} holds no {MODEL}, which a crawl writes when it ends: it was killed, or a version \
         without reports ran it. `rhumb crawl --resume --data {data}` goes on, and writes the \
         report at its end"
    )
}

/// Asks the processes of a running crawl.
async fn of_running(running: &Running, hosts: usize) -> anyhow::Result<Model> {
    let schedulers = schedulers::needed(running).await?;
    let gathered = gather(&running.bus, schedulers, hosts, ASK_MORE_MAX).await?;
    let (snapshot, summary) = look(running).await?;
    let configuration = match find_buckets(&running.bus).await? {
        Some(buckets) => buckets.register.configuration().await?,
        None => None,
    };
    Model::of(Of {
        crawl: &running.pipeline.crawl,
        state: State::Running,
        snapshot: &snapshot,
        summary: &summary,
        gathered,
        configuration: configuration.as_deref(),
    })
}

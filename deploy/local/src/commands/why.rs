//! `rhumb why`: where a URL is now, and why.
//!
//! Every process is asked; those that know something of the URL say it in a line. Those that should have answered and
//! did not are named.

use super::arguments::{BadArguments, Which};
use super::partitions::directory;
use crate::control::ask_all;
use crate::handle::{self, Running};
use crate::output::line;
use anyhow::ensure;
use clap::Args;
use serde::Serialize;
use shared::stage::{ControlRequest, ProcessReason, ProcessStatus};
use shared::topology::StageName;
use shared::url::{host_hash, host_of};

/// Tells where a URL is now and why: filtered, seen, waiting for what until when
#[derive(Args)]
#[command(after_help = "Every process that knows something of the URL says it in a line.

Example:
  rhumb why https://example.org/page --data rhumb-data")]
pub(super) struct Why {
    /// The URL
    url: String,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

/// What all processes say of a URL.
#[derive(Clone, Debug, Serialize)]
struct Whereabouts {
    /// Canonical.
    url: String,
    partition: u16,
    reasons: Vec<ProcessReason>,
    /// Processes that did not answer in time.
    silent: Vec<String>,
}

impl Why {
    /// Asks all processes about the URL and prints what they know.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let url = shared::url::canonical(&self.url, None, None)
            .map_err(|reason| BadArguments(format!("'{}' is no URL that can be crawled: {reason}", self.url)))?;
        let running = handle::find(&self.which.layers()).await?;
        let whereabouts = Whereabouts::ask(&running, &url).await?;
        if self.json {
            line(serde_json::to_string(&whereabouts)?);
        } else {
            whereabouts.print();
        }
        Ok(())
    }
}

impl Whereabouts {
    /// Asks all processes about a URL.
    ///
    /// # Errors
    /// No process of the crawl answers.
    async fn ask(running: &Running, url: &str) -> anyhow::Result<Whereabouts> {
        let url = running.pipeline.url.rewrite(url);
        let processes: Vec<ProcessStatus> = ask_all(&running.bus, &ControlRequest::Status, None).await?;
        let request = ControlRequest::Why(url.clone());
        let mut reasons: Vec<ProcessReason> = ask_all(&running.bus, &request, None).await?;
        ensure!(!reasons.is_empty(), "no process of the crawl answers");
        let has_answered = |process: &&ProcessStatus| {
            reasons.iter().any(|other| (&other.stage, other.instance) == (&process.stage, process.instance))
        };
        let silent = processes.iter().filter(|process| !has_answered(process));
        let silent: Vec<String> = silent.map(|process| format!("{} {}", process.stage, process.instance)).collect();
        reasons.retain(|process| process.reason.is_some());
        // In the order in which a URL passes the stages.
        reasons.sort_by_key(|process| (StageName::from_name(&process.stage), process.instance));
        // What all instances of a stage say is said once.
        reasons.dedup_by(|next, last| (&next.stage, &next.reason) == (&last.stage, &last.reason));
        let partition = directory(running).await.partition_of(host_hash(host_of(&url)));
        Ok(Whereabouts { url, partition, reasons, silent })
    }

    fn print(&self) {
        line(format_args!("{} (partition {})", self.url, self.partition));
        for ProcessReason { stage, instance, reason } in &self.reasons {
            line(format_args!("{:16} {}", format!("{stage} {instance}"), reason.as_deref().unwrap_or_default()));
        }
        for process in &self.silent {
            line(format_args!("{process:16} did not answer"));
        }
    }
}

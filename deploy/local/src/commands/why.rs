//! `rhumb why`: where a URL is now, and why.
//!
//! Every process is asked; those that know something of the URL say it in a line. Those that should have answered and
//! did not are named. The trace of a page is enough: messages about the page tell its URL.

use super::arguments::{BadArguments, Which};
use super::partitions::directory;
use super::sightings::{self, Sighting};
use crate::control::ask_all;
use crate::handle::{self, Running};
use crate::output::line;
use anyhow::ensure;
use clap::Args;
use serde::Serialize;
use shared::message::Trace;
use shared::stage::{ControlRequest, ProcessReason, ProcessStatus};
use shared::topology::StageName;
use shared::url::{host_hash, host_of};
use std::time::Duration;

/// Tells where a URL is now and why: filtered, seen, waiting for what until when
#[derive(Args)]
#[command(after_help = "Every process that knows something of the URL says it in a line.

Example:
  rhumb why https://example.org/page --data rhumb-data
  rhumb why --trace 0123456789abcdef --for 30s          the page of which a log line or a tap gives the trace")]
pub(super) struct Why {
    /// The URL
    #[arg(required_unless_present = "trace")]
    url: Option<String>,
    /// Instead of the URL the trace of its page: finds the URL by messages about the page
    #[arg(long, value_name = "ID", conflicts_with = "url")]
    trace: Option<Trace>,
    /// With --trace: how long to look for messages
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "5s")]
    at_most: Duration,
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
    /// Of its page.
    trace: Trace,
    /// Messages about the page, if it was looked for by its trace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Sighting>,
    reasons: Vec<ProcessReason>,
    /// Processes that did not answer in time.
    silent: Vec<String>,
}

impl Why {
    /// Asks all processes about the URL and prints what they know.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let url = self.url.as_deref().map(canonical).transpose()?;
        let running = handle::find(&self.which.layers()).await?;
        let (url, messages) = match (url, self.trace) {
            (None, Some(trace)) => sightings::find(&running, trace, self.at_most).await?,
            (url, _) => (running.pipeline.url.rewrite(&url.unwrap_or_default()), Vec::new()),
        };
        let whereabouts = Whereabouts { messages, ..Whereabouts::ask(&running, url).await? };
        if self.json {
            line(serde_json::to_string(&whereabouts)?);
        } else {
            whereabouts.print();
        }
        Ok(())
    }
}

fn canonical(url: &str) -> Result<String, BadArguments> {
    shared::url::canonical(url, None, None)
        .map_err(|reason| BadArguments(format!("'{url}' is no URL that can be crawled: {reason}")))
}

impl Whereabouts {
    /// Asks all processes about a URL.
    ///
    /// # Errors
    /// No process of the crawl answers.
    async fn ask(running: &Running, url: String) -> anyhow::Result<Whereabouts> {
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
        let (trace, messages) = (Trace::of(&url), Vec::new());
        Ok(Whereabouts { url, partition, trace, messages, reasons, silent })
    }

    fn print(&self) {
        line(format_args!("{} (partition {}, trace {})", self.url, self.partition, self.trace));
        for (edge, words) in self.messages.iter().map(Sighting::in_words) {
            line(format_args!("{edge:16} {words}"));
        }
        for ProcessReason { stage, instance, reason } in &self.reasons {
            line(format_args!("{:16} {}", format!("{stage} {instance}"), reason.as_deref().unwrap_or_default()));
        }
        for process in &self.silent {
            line(format_args!("{process:16} did not answer"));
        }
    }
}

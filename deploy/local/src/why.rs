//! `rhumb why`: where a URL is now, and why.
//!
//! Every process is asked; those that know something of the URL say it in a line. Those that should have answered and
//! did not are named.

use crate::handle::Running;
use crate::output::line;
use crate::status::ask_all;
use anyhow::ensure;
use serde::Serialize;
use shared::stage::{ControlRequest, ProcessReason, ProcessStatus};
use shared::topology::StageName;
use shared::url::{host_of, partition};

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

/// Asks all processes about a URL and prints what they know.
///
/// # Errors
/// No process of the crawl answers.
pub async fn run(running: &Running, url: &str, json: bool) -> anyhow::Result<()> {
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
    let partition = partition(host_of(&url), running.pipeline.partitions);
    if json {
        line(serde_json::to_string(&Whereabouts { url, partition, reasons, silent })?);
        return Ok(());
    }
    line(format_args!("{url} (partition {partition})"));
    for ProcessReason { stage, instance, reason } in &reasons {
        line(format_args!("{:16} {}", format!("{stage} {instance}"), reason.as_deref().unwrap_or_default()));
    }
    for process in silent {
        line(format_args!("{process:16} did not answer"));
    }
    Ok(())
}

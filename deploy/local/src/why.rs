//! `rhumb why`: where a URL is now, and why.
//!
//! Every process is asked; those that know something of the URL say it in a line.

use crate::handle::Running;
use crate::output::line;
use crate::status::ask_all;
use anyhow::ensure;
use serde::Serialize;
use shared::stage::{ControlRequest, ProcessReason};
use shared::url::{host_of, partition};

/// Stages in the order in which a URL passes them.
const ORDER: [&str; 4] = ["host-splitter", "dedup", "resolver", "scheduler"];

/// What all processes say of a URL.
#[derive(Clone, Debug, Serialize)]
struct Whereabouts {
    /// Canonical.
    url: String,
    partition: u16,
    reasons: Vec<ProcessReason>,
}

/// Asks all processes about a URL and prints what they know.
///
/// # Errors
/// No process of the crawl answers.
pub async fn run(running: &Running, url: &str, json: bool) -> anyhow::Result<()> {
    let url = running.pipeline.url.rewrite(url);
    let mut reasons: Vec<ProcessReason> = ask_all(&running.bus, &ControlRequest::Why(url.clone()), None).await?;
    ensure!(!reasons.is_empty(), "no process of the crawl answers");
    reasons.retain(|process| process.reason.is_some());
    reasons.sort_by_key(|process| (ORDER.iter().position(|stage| *stage == process.stage), process.instance));
    let partition = partition(host_of(&url), running.pipeline.partitions);
    if json {
        line(serde_json::to_string(&Whereabouts { url, partition, reasons })?);
        return Ok(());
    }
    line(format_args!("{url} (partition {partition})"));
    for ProcessReason { stage, instance, reason } in &reasons {
        line(format_args!("{:16} {}", format!("{stage} {instance}"), reason.as_deref().unwrap_or_default()));
    }
    Ok(())
}

//! Where a URL is now, and why: what every process says of it.

use super::look::awaited;
use super::owners::directory;
use super::sightings::Sighting;
use crate::control::{Awaited, ask_all};
use crate::handle::Running;
use anyhow::ensure;
use rhumb_stage::{ControlRequest, ProcessReason, ProcessStatus};
use rhumb_url::{host_hash, host_of};
use rhumb_wire::message::Trace;
use rhumb_wire::topology::StageName;
use serde::Serialize;

/// What all processes say of a URL.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Whereabouts {
    /// Canonical.
    pub(crate) url: String,
    pub(crate) partition: u16,
    /// Of its page.
    pub(crate) trace: Trace,
    /// Messages about the page, if it was looked for by its trace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) messages: Vec<Sighting>,
    pub(crate) reasons: Vec<ProcessReason>,
    /// Processes that did not answer in time.
    pub(crate) silent: Vec<String>,
}

impl Whereabouts {
    /// Asks all processes about a URL.
    ///
    /// # Errors
    /// No process of the crawl answers.
    pub(crate) async fn ask(running: &Running, url: String) -> anyhow::Result<Whereabouts> {
        let all = awaited(running).await;
        let processes: Vec<ProcessStatus> =
            ask_all(&running.bus, &ControlRequest::Status, all).await?;
        let request = ControlRequest::Why(url.clone());
        let those = Awaited::at_least(processes.len());
        let mut reasons: Vec<ProcessReason> = ask_all(&running.bus, &request, those).await?;
        ensure!(!reasons.is_empty(), "no process of the crawl answers");
        let has_answered = |process: &&ProcessStatus| {
            reasons
                .iter()
                .any(|other| (&other.stage, other.instance) == (&process.stage, process.instance))
        };
        let silent = processes.iter().filter(|process| !has_answered(process));
        let silent: Vec<String> = silent
            .map(|process| format!("{} {}", process.stage, process.instance))
            .collect();
        reasons.retain(|process| process.reason.is_some());
        // In the order in which a URL passes the stages.
        reasons.sort_by_key(|process| (StageName::from_name(&process.stage), process.instance));
        // What all instances of a stage say is said once.
        reasons.dedup_by(|next, last| (&next.stage, &next.reason) == (&last.stage, &last.reason));
        let partition = directory(running)
            .await
            .partition_of(host_hash(host_of(&url)));
        let trace = Trace::of(&url);
        let messages = Vec::new();
        Ok(Whereabouts {
            url,
            partition,
            trace,
            messages,
            reasons,
            silent,
        })
    }
}

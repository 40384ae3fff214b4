//! `rhumb why`: where a URL is now, and why.
//!
//! Every process is asked; those that know something of the URL say it in a line. Those that should
//! have answered and did not are named. The trace of a page is enough: messages about the page tell
//! its URL.

use super::arguments::{BadArguments, Which};
use crate::handle;
use crate::inspect::sightings::{self, Sighting};
use crate::inspect::whereabouts::Whereabouts;
use crate::output::line;
use clap::Args;
use rhumb_stage::ProcessReason;
use rhumb_wire::message::Trace;
use std::time::Duration;

/// Tells where a URL is now and why: filtered, seen, waiting for what until when
#[derive(Args)]
#[command(
    after_help = "Every process that knows something of the URL says it in a line.

Example:
  rhumb why https://example.org/page --data rhumb-data
  rhumb why --trace 0123456789abcdef --for 30s          the page of which a log line or a tap gives the trace"
)]
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

impl Why {
    /// Asks all processes about the URL and prints what they know.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let url = self.url.as_deref().map(canonical).transpose()?;
        let running = handle::find(&self.which.layers()).await?;
        let (url, messages) = match (url, self.trace) {
            (None, Some(trace)) => sightings::find(&running, trace, self.at_most).await?,
            (url, _) => (
                running.pipeline.url.rewrite(&url.unwrap_or_default()),
                Vec::new(),
            ),
        };
        let whereabouts = Whereabouts {
            messages,
            ..Whereabouts::ask(&running, url).await?
        };
        if self.json {
            line(serde_json::to_string(&whereabouts)?);
        } else {
            print(&whereabouts);
        }
        Ok(())
    }
}

fn canonical(url: &str) -> Result<String, BadArguments> {
    rhumb_url::canonical(url, None, None)
        .map_err(|reason| BadArguments(format!("'{url}' is no URL that can be crawled: {reason}")))
}

fn print(of: &Whereabouts) {
    line(format_args!(
        "{} (partition {}, trace {})",
        of.url, of.partition, of.trace
    ));
    for (edge, words) in of.messages.iter().map(Sighting::in_words) {
        line(format_args!("{edge:16} {words}"));
    }
    for ProcessReason {
        stage,
        instance,
        reason,
    } in &of.reasons
    {
        line(format_args!(
            "{:16} {}",
            format!("{stage} {instance}"),
            reason.as_deref().unwrap_or_default()
        ));
    }
    for process in &of.silent {
        line(format_args!("{process:16} did not answer"));
    }
}

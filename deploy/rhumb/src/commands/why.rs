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
use rhumb_stage::{Believed, Difference, KnownTold, NextVisit, ProcessReason};
use rhumb_wire::message::{PageState, Trace};
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
        known,
    } in &of.reasons
    {
        let process = format!("{stage} {instance}");
        let reason = reason.as_deref().unwrap_or_default();
        line(format_args!("{process:16} {reason}"));
        if let Some(known) = known {
            line(format_args!("{process:16} {}", known_in_words(known)));
        }
    }
    for process in &of.silent {
        line(format_args!("{process:16} did not answer"));
    }
}

/// What a scheduler tells of a known page, in a line.
fn known_in_words(known: &KnownTold) -> String {
    let KnownTold {
        visits,
        age_s,
        state,
        difference,
        change_s,
        worth_s,
        threshold_s,
        next,
        next_in_s,
        signals,
        believed,
    } = known;
    let state = match state {
        PageState::None => "nothing told yet",
        PageState::Page => "a page",
        PageState::Moved => "moved",
        PageState::Gone => "gone",
    };
    let difference = match difference {
        Difference::Untold => "",
        Difference::SameBody => " as before",
        Difference::OtherBody => " with another body",
        Difference::SameText => " with another body and the same text",
        Difference::OtherText => " with another text",
    };
    let age = in_words(*age_s);
    let change = in_words(*change_s);
    let mut text = format!(
        "visited {visits} times, {age} ago, {state}{difference}; changes about every {change}; \
         next visit: {next}"
    );
    if let Some(threshold_s) = threshold_s.filter(|_| *next == NextVisit::Threshold) {
        let worth = in_words(*worth_s);
        let threshold = in_words(threshold_s);
        text.push_str(&format!(" ({worth} of {threshold})"));
    }
    if let Some(next_in_s) = next_in_s {
        let wait = in_words(*next_in_s as f64);
        text.push_str(&format!(", for {wait} more"));
    }
    if let Some(believed) = believed {
        text.push_str(&signals_in_words(*signals, believed));
    }
    text
}

/// What is told of the signals of a page since its last visit, and of what they are worth.
fn signals_in_words(signals: u32, believed: &Believed) -> String {
    let percent = |share: f64| (100.0 * share).round();
    let kind = believed.kind.name();
    let recall = percent(believed.recall);
    let precision = percent(believed.precision);
    match precision > 0.0 {
        true => format!(
            "; signals of a {kind} since: {signals}, which tell {recall} % of the changes of this \
             server, {precision} % of them true"
        ),
        false => format!("; signals of a {kind} since: {signals}, not believed"),
    }
}

/// A time span: in whole seconds where it has some.
fn in_words(seconds: f64) -> String {
    let digits = if seconds < 10.0 { 10.0 } else { 1.0 };
    let rounded = (seconds * digits).round() / digits;
    let span = Duration::try_from_secs_f64(rounded).unwrap_or(Duration::MAX);
    humantime::format_duration(span).to_string()
}

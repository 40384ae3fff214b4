//! `rhumb tap`: a passive look at an edge. A core NATS subscription: it cannot slow or change the
//! crawl (P8); a tap that cannot keep up loses messages.

use super::arguments::{BadArguments, Format, Which};
use crate::handle::{self, Running};
use crate::inspect::edges::subscribe;
use crate::inspect::owners::directory;
use crate::output::line;
use clap::Args;
use futures::StreamExt as _;
use rhumb_bus::spool::{Reader, Unread};
use rhumb_wire::message::{Edge, Trace, tap};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Prints the messages on an edge as they pass, without any effect on the crawl
#[derive(Args)]
#[command(after_help = help())]
pub(super) struct Tap {
    /// The edge
    edge: String,
    /// Only this partition
    #[arg(long, value_name = "P")]
    partition: Option<u16>,
    /// Only messages about this host
    #[arg(long)]
    host: Option<String>,
    /// Only messages of the page with this trace: the page, what asks for it, how it ended, its
    /// links
    #[arg(long, value_name = "ID")]
    trace: Option<Trace>,
    /// How to print a message
    #[arg(long, default_value = "text")]
    format: Format,
    /// End after this number of messages
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Without bodies
    #[arg(long)]
    headers: bool,
    #[command(flatten)]
    which: Which,
}

/// The end of the command's help: the edges there are, and examples.
fn help() -> String {
    format!(
        "Edges: {}\n\nExamples:\n  rhumb tap urls.new --limit 5 --format json\n  rhumb tap pages \
         --host example.org --headers\n  rhumb tap urls.found --trace 0123456789abcdef",
        Edge::ALL.map(Edge::name).join(" ")
    )
}

/// Between two looks whether the crawl is still there.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Tap {
    /// Prints decoded messages, one a line, until the limit, the crawl's end or Ctrl-C.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let edge = Edge::from_name(&self.edge).ok_or_else(|| {
            let names: Vec<&str> = Edge::ALL.iter().map(|edge| edge.name()).collect();
            BadArguments(format!(
                "there is no edge '{}'; edges are {}",
                self.edge,
                names.join(", ")
            ))
        })?;
        let running = handle::find(&self.which.layers()).await?;
        let ids = directory(&running).await.ids();
        let mut spool = Reader::open(&running.bus, [edge]).await?;
        let mut messages =
            subscribe(&running.bus.client, self.subjects(edge, &running, ids)?).await?;
        let mut shown = 0;
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut interrupt = signal(SignalKind::interrupt())?;
        while self.limit.is_none_or(|limit| shown < limit) {
            let message = tokio::select! {
                message = messages.next() => message,
                _ = interrupt.recv() => break,
                _ = look.tick() => if running.has_stopped()? { break } else { continue },
            };
            let Some(message) = message else { break };
            let payload = match spool.payload(edge, message.payload) {
                Ok(payload) => payload,
                // What is damaged is left out.
                Err(Unread::Lost(_)) => continue,
                Err(Unread::Failed(error)) => return Err(error),
            };
            let values = tap::all(edge, &payload);
            let texts = values
                .into_iter()
                .filter_map(|value| self.shown(&message.subject, value));
            for text in texts.take(self.limit.map_or(usize::MAX, |limit| limit - shown)) {
                line(text);
                shown += 1;
            }
        }
        Ok(())
    }

    /// The subjects that the edge has, or the one of the partition that is asked for.
    fn subjects(&self, edge: Edge, running: &Running, ids: u16) -> anyhow::Result<Vec<String>> {
        let subjects = &running.bus.subjects;
        let Some(partition) = self.partition else {
            return Ok(subjects.all(edge));
        };
        if partition >= ids {
            let last = ids - 1;
            return Err(BadArguments(format!(
                "there is no partition {partition}: they are 0 to {last}"
            ))
            .into());
        }
        if !subjects.has_partitions(edge) {
            anyhow::bail!(
                "--partition: edge {} is not divided into partitions",
                edge.name()
            );
        }
        Ok(vec![subjects.partition(edge, partition)])
    }

    /// What is printed of a message; nothing when it is about another host or page.
    fn shown(&self, subject: &str, mut value: Value) -> Option<String> {
        if let Some(host) = &self.host {
            // As URLs have it.
            let host = host.to_ascii_lowercase();
            if !tap::urls(&value)
                .iter()
                .any(|url| rhumb_url::host_of(url) == host)
            {
                return None;
            }
        }
        if self
            .trace
            .is_some_and(|trace| tap::url_of(&value, trace).is_none())
        {
            return None;
        }
        if self.headers
            && let Some(fields) = value.as_object_mut()
        {
            fields.remove("body");
        }
        Some(match self.format {
            Format::Json => json_line(subject, value),
            Format::Text => text_line(subject, &value),
        })
    }
}

fn json_line(subject: &str, message: Value) -> String {
    json!({ "subject": subject, "message": message }).to_string()
}

/// URLs on a text line.
const URLS_SHOWN: usize = 5;

fn text_line(subject: &str, message: &Value) -> String {
    let subject = subject.splitn(3, '.').last().unwrap_or(subject);
    let urls = tap::urls(message);
    let shown: Vec<&str> = urls.iter().take(URLS_SHOWN).copied().collect();
    let more = urls.len().saturating_sub(URLS_SHOWN);
    let status = message
        .get("status")
        .map(|status| format!("{status} "))
        .unwrap_or_default();
    let tail = if more > 0 {
        format!(" (+{more} more)")
    } else {
        String::new()
    };
    format!("{subject}  {status}{}{tail}", shown.join(" "))
}

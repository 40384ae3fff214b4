//! `rhumb tap`: a passive look at an edge. A core NATS subscription: it cannot slow or change the crawl (P8); a
//! tap that cannot keep up loses messages.

use crate::handle::{Handle, Running};
use crate::output::line;
use futures::StreamExt as _;
use futures::stream::SelectAll;
use serde_json::{Value, json};
use shared::message::{Edge, tap};
use shared::stage::Token;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// What to show.
#[derive(Clone, Debug)]
pub struct Tap {
    /// The edge.
    pub edge: Edge,
    /// Only this partition.
    pub partition: Option<u16>,
    /// Only messages about this host.
    pub host: Option<String>,
    /// One JSON object a line instead of a short text.
    pub json: bool,
    /// End after so many messages.
    pub limit: Option<u64>,
    /// Leave out bodies.
    pub headers_only: bool,
}

/// The end of the command's help: the edges there are, and examples.
pub fn help() -> String {
    format!(
        "Edges: {}\n\nExamples:\n  rhumb tap urls.new --limit 5 --format json\n  rhumb tap pages --host example.org --headers",
        Edge::ALL.map(Edge::name).join(" ")
    )
}

/// Between two looks whether the crawl is still there.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Prints decoded messages, one a line, until the limit, the crawl's end or Ctrl-C.
pub async fn run(running: &Running, tap: &Tap) -> anyhow::Result<()> {
    let subjects = &running.bus.subjects;
    if tap.partition.is_some() && !subjects.has_partitions(tap.edge) {
        anyhow::bail!("--partition: edge {} is not divided into partitions", tap.edge.name());
    }
    let subjects = match tap.partition {
        Some(partition) => vec![subjects.of(tap.edge, &Token::Partition(partition))],
        None => subjects.all(tap.edge),
    };
    let mut messages = subscribe(&running.bus.client, subjects).await?;
    let mut shown = 0;
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut interrupt = signal(SignalKind::interrupt())?;
    while tap.limit.is_none_or(|limit| shown < limit) {
        let message = tokio::select! {
            message = messages.next() => message,
            _ = interrupt.recv() => break,
            _ = look.tick() => {
                let has_stopped = running.has_handle && Handle::read(&running.pipeline.data)?.is_none();
                if has_stopped { break } else { continue }
            }
        };
        let Some(message) = message else { break };
        let Ok(mut value) = tap::json(tap.edge, &message.payload) else { continue };
        if let Some(host) = &tap.host
            && !tap::urls(&value).iter().any(|url| shared::url::host_of(url) == host)
        {
            continue;
        }
        if tap.headers_only
            && let Some(fields) = value.as_object_mut()
        {
            fields.remove("body");
        }
        line(if tap.json { json_line(&message.subject, value) } else { text_line(&message.subject, &value) });
        shown += 1;
    }
    Ok(())
}

/// Core messages of all the subjects.
pub async fn subscribe(
    client: &async_nats::Client,
    subjects: Vec<String>,
) -> anyhow::Result<SelectAll<async_nats::Subscriber>> {
    let mut messages = SelectAll::new();
    for subject in subjects {
        messages.push(client.subscribe(subject).await?);
    }
    Ok(messages)
}

fn json_line(subject: &str, message: Value) -> String {
    json!({ "subject": subject, "message": message }).to_string()
}

/// URLs shown on a text line.
const URLS_SHOWN: usize = 5;

fn text_line(subject: &str, message: &Value) -> String {
    let subject = subject.splitn(3, '.').last().unwrap_or(subject);
    let urls = tap::urls(message);
    let shown: Vec<&str> = urls.iter().take(URLS_SHOWN).copied().collect();
    let more = urls.len().saturating_sub(URLS_SHOWN);
    let status = message.get("status").map(|status| format!("{status} ")).unwrap_or_default();
    let tail = if more > 0 { format!(" (+{more} more)") } else { String::new() };
    format!("{subject}  {status}{}{tail}", shown.join(" "))
}

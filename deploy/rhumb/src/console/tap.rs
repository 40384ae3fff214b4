//! A tap of an edge for a page: decoded messages, those that pass its filter, and no more than a
//! person can follow.
//!
//! In: an edge, a filter, what passes on the edge. Out: messages, and how many of all they are.
//! Invariant: a tap makes no consumer and holds nothing back (P8). Under load only some messages
//! are looked at, and of the pages, which are large, only some are asked for.

use super::events::{Events, Named};
use super::refusal::Refusal;
use super::{Shared, Which};
use crate::handle::Running;
use crate::inspect::edges::subscribe;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures::StreamExt as _;
use regex::{Regex, RegexBuilder};
use rhumb_bus::spool::{Reader, Unread};
use rhumb_url::host_of;
use rhumb_wire::message::{Edge, tap};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Semaphore, mpsc};

/// Messages are counted and chosen in times of this length.
const WINDOW: Duration = Duration::from_millis(250);
/// Messages that are looked at in a window, at most.
const LOOKED_AT_MAX: u64 = 50;
/// Pages that are asked for in a window: their bodies go through the broker.
const PAGES_MAX: u64 = 4;
/// Messages on their way to the page.
const WAITING_MAX: usize = 64;
/// Bytes of a compiled regular expression, and of what it remembers while it matches, at most.
const EXPRESSION_BYTES_MAX: usize = 64 << 10;
/// Characters of a message in which it is looked for.
const MATCHED_MAX: usize = 16 << 10;
/// Taps at once, at most.
const TAPS_MAX: usize = 32;
static TAPS: Semaphore = Semaphore::const_new(TAPS_MAX);
/// Of pages it is counted this often how many passed.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// Characters of a message that is shown in full, at most.
const SHOWN_MAX: usize = 100_000;

/// What a page asks for. An empty field asks for nothing.
#[derive(Deserialize)]
pub(super) struct Asked {
    edge: String,
    #[serde(default)]
    host: String,
    #[serde(default)]
    partition: String,
    #[serde(default)]
    outcome: String,
    #[serde(default)]
    topic: String,
    #[serde(default)]
    matches: String,
}

/// Which messages are shown.
struct Filter {
    host: String,
    outcome: String,
    topic: String,
    matches: Option<Regex>,
}

impl Filter {
    fn passes(&self, message: &Value, urls: &[&str]) -> bool {
        let is_of_host = self.host.is_empty() || urls.iter().any(|url| host_of(url) == self.host);
        is_of_host
            && (self.outcome.is_empty() || has(message, "outcome", &self.outcome))
            && (self.topic.is_empty() || has(message, "topic", &self.topic))
            && self
                .matches
                .as_ref()
                .is_none_or(|matches| matches.is_match(&clip(&message.to_string(), MATCHED_MAX)))
    }
}

/// Returns whether a message has this text under this key, at any depth; outcomes are named in
/// their own way in messages.
fn has(message: &Value, key: &str, text: &str) -> bool {
    match message {
        Value::Array(values) => values.iter().any(|value| has(value, key, text)),
        Value::Object(fields) => fields.iter().any(|(name, value)| match value {
            Value::String(value) if name == key => {
                value.eq_ignore_ascii_case(text)
                    || value.eq_ignore_ascii_case(&text.replace('-', ""))
            }
            value => has(value, key, text),
        }),
        _ => false,
    }
}

/// Messages of an edge, as they pass.
pub(super) async fn tap(
    State(shared): State<Arc<Shared>>,
    Query(which): Query<Which>,
    Query(asked): Query<Asked>,
) -> Result<Response, Refusal> {
    let edge = Edge::from_name(&asked.edge)
        .ok_or_else(|| Refusal::bad(format!("there is no edge '{}'", asked.edge)))?;
    let matches = match asked.matches.as_str() {
        "" => None,
        text => Some(
            RegexBuilder::new(text)
                .size_limit(EXPRESSION_BYTES_MAX)
                .dfa_size_limit(EXPRESSION_BYTES_MAX)
                .build()
                .map_err(|error| Refusal::bad(format!("this is no regular expression: {error}")))?,
        ),
    };
    let (watcher, running) = shared.running(which.crawl.as_deref()).await?;
    let permit = TAPS
        .try_acquire()
        .map_err(|_| Refusal::new(StatusCode::CONFLICT, "too many taps are open: close some"))?;
    let subjects = subjects(edge, &asked.partition, &running)?;
    let Asked {
        host,
        outcome,
        topic,
        ..
    } = asked;
    let filter = Filter {
        host: host.to_ascii_lowercase(),
        outcome,
        topic,
        matches,
    };
    let spool = Reader::open(&running.bus, [edge]).await?;
    let (to, messages) = mpsc::channel(WAITING_MAX);
    tokio::spawn(async move {
        let _permit = permit;
        let mut tap = Tap {
            edge,
            filter,
            spool,
            to,
            frames: 0,
            looked_at: 0,
            messages: 0,
            shown: 0,
        };
        if let Err(error) = tap.run(&running, subjects, || watcher.has(&running)).await {
            let _ = tap
                .to
                .send((
                    "error",
                    json!({ "error": format!("{error:#}") }).to_string(),
                ))
                .await;
        }
    });
    let events = futures::stream::unfold(messages, |mut messages| async move {
        Some((messages.recv().await?, messages))
    });
    Ok(Events::of(events).answer())
}

fn subjects(edge: Edge, partition: &str, running: &Running) -> Result<Vec<String>, Refusal> {
    let subjects = &running.bus.subjects;
    match partition {
        "" => Ok(subjects.all(edge)),
        _ if !subjects.has_partitions(edge) => Err(Refusal::bad(format!(
            "edge {} is not divided into partitions",
            edge.name()
        ))),
        text => {
            let partition = text
                .parse()
                .map_err(|_| Refusal::bad(format!("'{text}' is no partition")))?;
            Ok(vec![subjects.partition(edge, partition)])
        }
    }
}

/// A tap while a page listens.
struct Tap {
    edge: Edge,
    filter: Filter,
    spool: Reader,
    to: mpsc::Sender<Named>,
    /// What passed, as it travels: several messages may travel as one.
    frames: u64,
    /// Those of them that were looked at, the messages in these, and those of them that were shown.
    looked_at: u64,
    messages: u64,
    shown: u64,
}

impl Tap {
    /// Shows messages until the page listens no more, or the crawl is not there any more.
    async fn run(
        &mut self,
        running: &Running,
        subjects: Vec<String>,
        is_there: impl Fn() -> bool,
    ) -> anyhow::Result<()> {
        let client = &running.bus.client;
        let are_large = self.edge.is_spooled();
        let most = if are_large { PAGES_MAX } else { LOOKED_AT_MAX };
        let mut messages = subscribe(client, subjects.clone()).await?;
        let mut said = 0;
        let mut count_at = Instant::now();
        let mut before = None;
        while !self.to.is_closed() {
            anyhow::ensure!(is_there(), "the crawl is gone");
            let end = Instant::now() + WINDOW;
            let mut in_window = 0;
            while let Ok(message) = tokio::time::timeout_at(end.into(), messages.next()).await {
                let Some(message) = message else {
                    anyhow::bail!("the connection to the broker has ended")
                };
                in_window += 1;
                self.frames += u64::from(!are_large);
                if in_window <= most {
                    self.look_at(&message).await?;
                } else if are_large {
                    // The rest of the window is not asked for.
                    drop(messages);
                    tokio::time::sleep_until(end.into()).await;
                    messages = subscribe(client, subjects.clone()).await?;
                    break;
                }
            }
            if are_large && count_at <= Instant::now() {
                count_at = Instant::now() + COUNT_EVERY;
                let last = published(running, self.edge).await;
                self.frames += last
                    .zip(before)
                    .map_or(0, |(last, before): (u64, u64)| last.saturating_sub(before));
                before = last.or(before);
            }
            if self.frames.max(self.looked_at) != said {
                said = self.frames.max(self.looked_at);
                self.say_rate().await;
            }
        }
        Ok(())
    }

    /// Says how many messages passed, as far as that is known without a look at all of them.
    async fn say_rate(&mut self) {
        let frames = self.frames.max(self.looked_at);
        let looked_at = self.looked_at.max(1);
        let seen = (frames * self.messages)
            .div_ceil(looked_at)
            .max(self.messages);
        let rate =
            json!({ "seen": seen, "shown": self.shown, "every": frames.div_ceil(looked_at) });
        let _ = self.to.send(("rate", rate.to_string())).await;
    }

    async fn look_at(&mut self, message: &async_nats::Message) -> anyhow::Result<()> {
        self.looked_at += 1;
        let payload = match self.spool.payload(self.edge, message.payload.clone()) {
            Ok(payload) => payload,
            // What is damaged, or gone meanwhile, is left out.
            Err(Unread::Lost(_)) => return Ok(()),
            Err(Unread::Failed(error)) => return Err(error),
        };
        for value in tap::all(self.edge, &payload) {
            self.messages += 1;
            let urls = tap::urls(&value);
            if self.filter.passes(&value, &urls) {
                let shown = shown(&message.subject, &value, &urls);
                // A page that does not keep up misses some.
                self.shown += u64::from(self.to.try_send(("message", shown.to_string())).is_ok());
            }
        }
        Ok(())
    }
}

/// How many messages the stream of an edge has taken.
async fn published(running: &Running, edge: Edge) -> Option<u64> {
    let stream = running
        .bus
        .jetstream
        .get_stream(running.bus.subjects.stream(edge.name()))
        .await
        .ok()?;
    Some(stream.cached_info().state.last_sequence)
}

/// A message as the page gets it.
fn shown(subject: &str, message: &Value, urls: &[&str]) -> Value {
    let at_ms = SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default()
        .as_millis() as u64;
    let status = message
        .get("status")
        .map(|status| format!("{status} "))
        .unwrap_or_default();
    let more = if urls.len() > 1 {
        format!(" (+{} more)", urls.len() - 1)
    } else {
        String::new()
    };
    let short = format!(
        "{status}{}{more}",
        urls.first().copied().unwrap_or_default()
    );
    let is_long = message.to_string().len() > SHOWN_MAX;
    let message = if is_long {
        json!({ "too_long": true, "begins": clip(&message.to_string(), SHOWN_MAX) })
    } else {
        message.clone()
    };
    json!({ "at_ms": at_ms, "subject": subject, "short": short, "urls": urls.iter().take(URLS_MAX).collect::<Vec<_>>(), "message": message })
}

/// URLs of a message that can be pressed, at most.
const URLS_MAX: usize = 100;

fn clip(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_takes_messages_by_host_outcome_topic_and_expression() {
        let message = json!({ "entries": [{ "url": "http://a.test/x", "outcome": "NotModified", "origin": { "topic": "news" } }] });
        let passes = |host: &str, outcome: &str, topic: &str, matches: Option<&str>| {
            let matches = matches.map(|text| Regex::new(text).unwrap());
            let filter = Filter {
                host: host.into(),
                outcome: outcome.into(),
                topic: topic.into(),
                matches,
            };
            filter.passes(&message, &tap::urls(&message))
        };
        assert!(passes("", "", "", None) && passes("a.test", "not-modified", "news", Some("/x")));
        for (host, outcome, topic, matches) in [
            ("b.test", "", "", None),
            ("", "fetched", "", None),
            ("", "", "shop", None),
            ("", "", "", Some("/y")),
        ] {
            assert!(
                !passes(host, outcome, topic, matches),
                "{host} {outcome} {topic} {matches:?}"
            );
        }
    }

    #[test]
    fn a_message_is_shown_with_its_urls_and_a_very_long_one_is_cut() {
        let message =
            json!({ "status": 200, "url": "http://a.test/", "body": "x".repeat(2 * SHOWN_MAX) });
        let shown = shown("rhumb.c.pages", &message, &tap::urls(&message));
        assert_eq!(
            (shown["short"].as_str(), shown["urls"][0].as_str()),
            (Some("200 http://a.test/"), Some("http://a.test/"))
        );
        assert!(shown["message"]["too_long"] == true && shown.to_string().len() < 2 * SHOWN_MAX);
    }
}

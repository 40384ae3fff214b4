//! The story of a URL: what every stage says of it, in the order in which a URL passes them, and
//! messages about it that wait.

use super::refusal::Refusal;
use super::{Shared, Which};
use crate::inspect::sightings;
use crate::inspect::whereabouts::Whereabouts;
use axum::Json;
use axum::extract::{Query, State};
use rhumb_wire::message::Trace;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long streams are read for messages about the URL.
const READ_AT_MOST: Duration = Duration::from_secs(3);
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

#[derive(Deserialize)]
pub(super) struct Asked {
    url: String,
}

/// What is known of a URL.
pub(super) async fn story(
    State(shared): State<Arc<Shared>>,
    Query(which): Query<Which>,
    Query(asked): Query<Asked>,
) -> Result<Json<Value>, Refusal> {
    let canonical = rhumb_url::canonical(&asked.url, None, None).map_err(|reason| {
        Refusal::bad(format!(
            "'{}' is no URL that can be crawled: {reason}",
            asked.url
        ))
    })?;
    let (_, running) = shared.running(which.crawl.as_deref()).await?;
    let url = running.pipeline.url.rewrite(&canonical);
    let Whereabouts {
        url,
        partition,
        trace,
        reasons,
        silent,
        ..
    } = Whereabouts::ask(&running, url).await?;
    // Streams are read message by message: one story at a time, and not for long.
    let reading = async {
        let _one = ONE_AT_A_TIME.lock().await;
        sightings::waiting(&running, Trace::of(&url)).await
    };
    let read = tokio::time::timeout(READ_AT_MOST, reading).await;
    let cut = read.is_err();
    let waiting = read.unwrap_or(Ok(None))?;
    let step = |of: &rhumb_stage::ProcessReason| json!({ "stage": of.stage, "instance": of.instance, "says": of.reason });
    let messages = waiting.map(|(_, messages)| messages).unwrap_or_default();
    let message = |of: &sightings::Sighting| {
        let (subject, says) = of.in_words();
        let edge = running
            .bus
            .subjects
            .edge_of(of.subject())
            .map_or(subject, |edge| edge.name());
        json!({ "subject": subject, "edge": edge, "says": says })
    };
    Ok(Json(json!({
        "url": url,
        "partition": partition,
        "trace": trace.to_string(),
        "steps": reasons.iter().map(step).collect::<Vec<_>>(),
        "silent": silent,
        "messages": messages.iter().map(message).collect::<Vec<_>>(),
        "cut": cut,
    })))
}

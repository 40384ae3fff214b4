//! The story of a URL: what every stage says of it, in the order in which a URL passes them, and messages about it that wait.

use super::refusal::Refusal;
use super::{Shared, Which};
use crate::inspect::sightings;
use crate::inspect::whereabouts::Whereabouts;
use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::message::Trace;
use std::sync::Arc;

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
    let canonical = shared::url::canonical(&asked.url, None, None)
        .map_err(|reason| Refusal::bad(format!("'{}' is no URL that can be crawled: {reason}", asked.url)))?;
    let running = shared.running(which.crawl.as_deref()).await?;
    let url = running.pipeline.url.rewrite(&canonical);
    let waiting = sightings::waiting(&running, Trace::of(&url)).await?;
    let Whereabouts { url, partition, trace, reasons, silent, .. } = Whereabouts::ask(&running, url).await?;
    let step =
        |of: &shared::stage::ProcessReason| json!({ "stage": of.stage, "instance": of.instance, "says": of.reason });
    let messages = waiting.map(|(_, messages)| messages).unwrap_or_default();
    let message = |of: &sightings::Sighting| {
        let (edge, says) = of.in_words();
        json!({ "subject": edge, "edge": edge, "says": says, "at_ms": null })
    };
    Ok(Json(json!({
        "url": url,
        "partition": partition,
        "trace": trace.to_string(),
        "steps": reasons.iter().map(step).collect::<Vec<_>>(),
        "silent": silent,
        "messages": messages.iter().map(message).collect::<Vec<_>>(),
    })))
}

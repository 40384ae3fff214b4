//! The servers of a crawl: those of which there is most, and one with its queue.

use super::refusal::Refusal;
use super::{Shared, Which};
use crate::inspect::queues;
use axum::Json;
use axum::extract::{Query, State};
use rhumb_stage::{Measure, QueueQuestion};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Servers in a list, at most.
const SERVERS_MAX: usize = 2000;
/// URLs of a server that are shown.
const URLS_SHOWN: usize = 200;

#[derive(Deserialize)]
pub(super) struct Most {
    by: Measure,
    #[serde(default = "most")]
    n: usize,
}

const fn most() -> usize {
    SERVERS_MAX
}

#[derive(Deserialize)]
pub(super) struct One {
    host: String,
}

/// The servers of which there is most.
pub(super) async fn servers(
    State(shared): State<Arc<Shared>>,
    Query(which): Query<Which>,
    Query(Most { by, n }): Query<Most>,
) -> Result<Json<Value>, Refusal> {
    ask(
        &shared,
        &which,
        QueueQuestion::Top {
            n: n.min(SERVERS_MAX),
            by,
        },
    )
    .await
}

/// The servers of a host, with what waits there.
pub(super) async fn server(
    State(shared): State<Arc<Shared>>,
    Query(which): Query<Which>,
    Query(One { host }): Query<One>,
) -> Result<Json<Value>, Refusal> {
    ask(
        &shared,
        &which,
        QueueQuestion::OfHost {
            host: host.to_ascii_lowercase(),
            limit: URLS_SHOWN,
        },
    )
    .await
}

async fn ask(
    shared: &Shared,
    which: &Which,
    question: QueueQuestion,
) -> Result<Json<Value>, Refusal> {
    let (_, running) = shared.running(which.crawl.as_deref()).await?;
    let queues::Told {
        servers,
        silent,
        errors,
    } = queues::ask(&running, question).await?;
    let silent: Vec<String> = silent
        .iter()
        .map(|instance| format!("scheduler.{instance}"))
        .collect();
    Ok(Json(
        json!({ "servers": servers, "silent": silent, "errors": errors }),
    ))
}

//! How commands ask the processes of a crawl: over the crawl's control subjects at the broker.
//!
//! In: a request for all processes, or for the `rhumb` that supervises them. Out: their answers, in
//! JSON.

use anyhow::Context as _;
use futures::StreamExt as _;
use rhumb_bus::Bus;
use rhumb_stage::ControlRequest;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// Asks of the supervising process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SupervisorRequest {
    /// Run this number of instances of a stage.
    Scale {
        /// The stage.
        stage: String,
        /// Instances.
        replicas: u16,
        /// Those among them that are to have no partition.
        #[serde(default)]
        without: BTreeSet<u16>,
    },
    /// Have partitions of a stage leave for an instance.
    Move {
        /// The stage.
        stage: String,
        /// The partitions.
        partitions: Vec<u16>,
        /// The instance.
        to: u16,
    },
    /// Split partitions.
    Split {
        /// The partitions.
        partitions: Vec<u16>,
    },
    /// Answer with a [`Supervision`](crate::status::Supervision).
    Status,
}

/// Answers [`SupervisorRequest`]s on the control subject of this name.
pub(crate) const SUPERVISOR: &str = "supervisor";
/// Answers [`SupervisorRequest::Status`] alone on the control subject of this name: for users who
/// may change nothing.
pub(crate) const SUPERVISION: &str = "supervision";
/// How long processes may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long to wait for one more answer when nobody knows whether it will come.
const QUIET: Duration = Duration::from_millis(250);

/// For how many answers to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    /// So many will come: they have [`ANSWER_TIMEOUT`]. Behind them each answer has [`QUIET`].
    pub(crate) surely: usize,
    /// No more will come.
    pub(crate) at_most: usize,
}

impl Awaited {
    /// So many, one at least, and all that come beside them.
    pub(crate) fn at_least(number: usize) -> Awaited {
        Awaited {
            surely: number.max(1),
            at_most: usize::MAX,
        }
    }
}

impl From<Option<usize>> for Awaited {
    /// All of a known number, or those that come.
    fn from(expected: Option<usize>) -> Self {
        match expected {
            Some(number) => Awaited {
                surely: number,
                at_most: number,
            },
            None => Awaited::at_least(1),
        }
    }
}

/// Sends a request to the supervising process and returns its answer.
///
/// # Errors
/// Nobody supervises the crawl, or the broker does not answer.
pub(crate) async fn ask_supervisor(
    bus: &Bus,
    request: &SupervisorRequest,
) -> anyhow::Result<async_nats::Message> {
    let to = if matches!(request, SupervisorRequest::Status) {
        SUPERVISION
    } else {
        SUPERVISOR
    };
    let request = serde_json::to_vec(request)?;
    Ok(bus
        .client
        .request(bus.subjects.control(to), request.into())
        .await?)
}

/// What the supervising process is asked. Who may only look reaches [`SUPERVISION`] alone, where
/// nothing can be changed.
///
/// # Errors
/// The connection to the broker is closed.
pub(crate) async fn supervisor_requests(
    bus: &Bus,
) -> anyhow::Result<impl futures::Stream<Item = async_nats::Message> + Unpin + use<>> {
    let all = bus
        .client
        .subscribe(bus.subjects.control(SUPERVISOR))
        .await?;
    let looks = bus
        .client
        .subscribe(bus.subjects.control(SUPERVISION))
        .await?;
    let is_look = |request: &async_nats::Message| {
        std::future::ready(matches!(
            serde_json::from_slice(&request.payload),
            Ok(SupervisorRequest::Status)
        ))
    };
    Ok(futures::stream::select(all, looks.filter(is_look)))
}

/// Sends the same request to all processes and returns their answers.
///
/// # Errors
/// The broker does not take the request.
pub(crate) async fn ask_all<T: DeserializeOwned>(
    bus: &Bus,
    request: &ControlRequest,
    awaited: impl Into<Awaited>,
) -> anyhow::Result<Vec<T>> {
    let Awaited { surely, at_most } = awaited.into();
    let inbox = bus.client.new_inbox();
    let mut answers = bus
        .client
        .subscribe(inbox.clone())
        .await
        .context("cannot subscribe")?;
    let request = serde_json::to_vec(request)?;
    bus.client
        .publish_with_reply(bus.subjects.control("all"), inbox, request.into())
        .await?;
    let mut given = Vec::new();
    let end = tokio::time::Instant::now() + ANSWER_TIMEOUT;
    while given.len() < at_most {
        let patience = match given.len() < surely {
            true => end,
            false => (tokio::time::Instant::now() + QUIET).min(end),
        };
        match tokio::time::timeout_at(patience, answers.next()).await {
            // A subject nobody listens to is answered by the broker, with a status.
            Ok(Some(answer)) if answer.status.is_some() => break,
            Ok(Some(answer)) => {
                if let Ok(answer) = serde_json::from_slice(&answer.payload) {
                    given.push(answer);
                }
            }
            Ok(None) | Err(_) => break,
        }
    }
    Ok(given)
}

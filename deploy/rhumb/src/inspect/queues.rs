//! What waits at servers, as all schedulers together tell it.

use super::schedulers;
use crate::control::{Awaited, ask_all};
use crate::handle::Running;
use rhumb_stage::{ControlRequest, Measure, ProcessQueue, QueueQuestion, ServerQueue};
use std::collections::BTreeSet;

/// What the schedulers told.
pub(crate) struct Told {
    /// The servers that were asked for; of a question for those with most, in that order.
    pub(crate) servers: Vec<ServerQueue>,
    /// Schedulers that have partitions and did not answer.
    pub(crate) silent: BTreeSet<u16>,
    /// What schedulers cannot tell.
    pub(crate) errors: Vec<String>,
}

/// Asks all schedulers.
///
/// # Errors
/// The broker does not answer.
pub(crate) async fn ask(running: &Running, question: QueueQuestion) -> anyhow::Result<Told> {
    let request = ControlRequest::Queue(question.clone());
    let needed = schedulers::needed(running).await?;
    let awaited = Awaited::at_least(needed.len());
    let answers: Vec<ProcessQueue> = ask_all(&running.bus, &request, awaited).await?;
    let have_answered = answers.iter().map(|answer| answer.instance).collect();
    let silent = &needed - &have_answered;
    let error = |answer: &ProcessQueue| {
        Some(format!(
            "scheduler.{}: {}",
            answer.instance,
            answer.error.as_ref()?
        ))
    };
    let errors = answers.iter().filter_map(error).collect();
    let mut servers: Vec<ServerQueue> = answers
        .into_iter()
        .flat_map(|answer| answer.servers)
        .collect();
    if let QueueQuestion::Top { n, by } = question {
        let most = |server: &ServerQueue| measured(server, by);
        servers.sort_by(|a, b| {
            most(b)
                .total_cmp(&most(a))
                .then_with(|| a.server.cmp(&b.server))
        });
        servers.truncate(n);
    }
    Ok(Told {
        servers,
        silent,
        errors,
    })
}

fn measured(server: &ServerQueue, by: Measure) -> f64 {
    match by {
        Measure::Waiting => server.waiting as f64,
        Measure::Errors => server.failures.into(),
        Measure::Age => server.age_s.unwrap_or_default(),
        Measure::Slow => server.estimates.response_ms.unwrap_or_default(),
        Measure::Next => -server.next_s,
    }
}

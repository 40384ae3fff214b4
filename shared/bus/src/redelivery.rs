//! What was given to processes that are gone: it is given out again at once, and not when
//! `ack_wait` is over.
//!
//! In: consumers that have something unacked. Out: the broker gives it out again. When `ack_wait`
//! of a consumer changes, nats-server looks at once at what it has given out for longer than the
//! new value says. So it is made short for a moment.
//!
//! Invariant: a consumer whose value was not put back, since this process died meanwhile, gets the
//! configured one with the next start. What a process still has in hand comes twice, which is
//! harmless.

use super::Bus;
use async_nats::jetstream::consumer::Info;
use async_nats::jetstream::stream::Stream;
use futures::TryStreamExt as _;
use rhumb_config::Pipeline;
use rhumb_wire::topology::{Edge, StageName};
use std::time::Duration;

/// What was given out for so long counts as given to a process that is gone.
const SHORT: Duration = Duration::from_millis(10);
/// The broker looks after 100 ms.
const LOOKS_WITHIN: Duration = Duration::from_millis(250);

/// Makes the broker give out again all that stages have in hand and have not acked. Call it only
/// while no process of a stage lives. Returns the number of messages.
///
/// # Errors
/// The broker does not answer, or refuses.
pub async fn give_again(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<usize> {
    let is_of = |name: &str, stage: StageName| {
        name.strip_prefix(stage.name())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let is_meant = |name: &str| StageName::ALL.into_iter().any(|stage| is_of(name, stage));
    let mut given: Vec<(Stream, Info)> = Vec::new();
    for (key, _) in pipeline
        .edges
        .streams()
        .into_iter()
        .filter(|(key, _)| Edge::from_name(key).is_some())
    {
        let stream = bus.jetstream.get_stream(bus.subjects.stream(key)).await?;
        let infos: Vec<Info> = stream.consumers().try_collect().await?;
        let unacked = infos
            .into_iter()
            .filter(|info| info.num_ack_pending > 0 && is_meant(&info.name));
        given.extend(unacked.map(|info| (stream.clone(), info)));
    }
    let mut changed = Ok(());
    for (stream, info) in &given {
        let mut config = info.config.clone();
        config.ack_wait = SHORT;
        changed = changed.and(stream.update_consumer(config).await.map(drop));
    }
    if !given.is_empty() {
        tokio::time::sleep(LOOKS_WITHIN).await;
    }
    // All get their value back, whatever failed.
    for (stream, info) in &given {
        changed = changed.and(stream.update_consumer(info.config.clone()).await.map(drop));
    }
    changed?;
    Ok(given.iter().map(|(_, info)| info.num_ack_pending).sum())
}

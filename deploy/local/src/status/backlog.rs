//! What lies in a stream and is still to be acked by the consumers that the crawl waits for.

use async_nats::jetstream;
use futures::TryStreamExt as _;
use shared::bus::{Bus, consumer_name, required_by_interest};
use shared::config::Pipeline;
use shared::topology::StageName;

/// Counts the messages of a stream that some of these consumers have not been given or have not acked.
pub(super) async fn backlog(stream: &jetstream::stream::Stream, consumers: &[String]) -> u64 {
    let mut backlog = 0;
    for name in consumers {
        backlog += match stream.consumer_info(name).await {
            Ok(info) => info.num_pending + info.num_ack_pending as u64,
            // It does not exist yet.
            Err(_) => stream.cached_info().state.messages,
        };
    }
    backlog
}

/// Counts the messages of a stream that the owners of partitions have not been given or have not acked, whichever
/// instances they are; none while the broker does not tell. A partition on its way may have no consumer: then its owner is
/// missing, too.
pub(super) async fn owners_backlog(stream: &jetstream::stream::Stream) -> Option<u64> {
    let infos: Vec<jetstream::consumer::Info> = stream.consumers().try_collect().await.ok()?;
    match infos.is_empty() {
        true => Some(stream.cached_info().state.messages),
        false => Some(infos.iter().map(|info| info.num_pending + info.num_ack_pending as u64).sum()),
    }
}

/// Counts the messages that the archiver has not acked.
///
/// # Errors
/// The broker does not answer.
pub(crate) async fn unarchived(bus: &Bus, pipeline: &Pipeline) -> anyhow::Result<u64> {
    let mut left = 0;
    for (edge, stage) in required_by_interest(pipeline) {
        if stage == StageName::Archiver {
            let stream = bus.jetstream.get_stream(bus.subjects.stream(edge.name())).await?;
            left += backlog(&stream, &[consumer_name(stage.name(), None)]).await;
        }
    }
    Ok(left)
}

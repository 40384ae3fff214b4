//! What lies in a stream and is still to be acked by the consumers that the crawl waits for.

use async_nats::jetstream;
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

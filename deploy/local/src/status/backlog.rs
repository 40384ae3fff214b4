//! What lies in a stream and is still to be acked by the consumers that the crawl waits for.

use crate::stages::ARCHIVER;
use async_nats::jetstream;
use shared::bus::{Bus, consumer_name, lane_consumers, required_by_interest};
use shared::config::Pipeline;
use shared::message::Edge;

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
    for (key, stage) in required_by_interest(pipeline) {
        if stage == ARCHIVER {
            let stream = bus.jetstream.get_stream(bus.subjects.stream(key)).await?;
            left += backlog(&stream, &[consumer_name(stage, None)]).await;
        }
    }
    Ok(left)
}

/// Names the consumers that have to ack what lies in the stream of an edge.
pub(super) fn required_consumers(key: &str, pipeline: &Pipeline) -> Vec<String> {
    let owned = |stage: &str, replicas: u16| (0..replicas).map(|i| consumer_name(stage, Some(i))).collect();
    let in_lanes = |stage: &str, edge| {
        lane_consumers(stage, edge, pipeline.partitions).into_iter().map(|consumer| consumer.name).collect()
    };
    match key {
        "urls.found" => in_lanes("host-splitter", Edge::UrlsFound),
        "urls.split" => owned("dedup", pipeline.stages.dedup.replicas),
        "urls.new" => in_lanes("resolver", Edge::UrlsNew),
        "urls.ready" | "fetch.reports" => owned("scheduler", pipeline.stages.scheduler.replicas),
        _ => required_by_interest(pipeline)
            .into_iter()
            .filter(|(required, _)| *required == key)
            .map(|(_, stage)| consumer_name(stage, None))
            .collect(),
    }
}

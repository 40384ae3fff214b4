//! The crawls at a broker, by their names.

use crate::handle;
use futures::TryStreamExt as _;
use shared::bus::Bus;
use shared::config::Layers;
use std::time::Duration;

/// The name of a crawl to which nobody gave another.
const UNNAMED: &str = "default";
/// How long the broker may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The names of the crawls at the broker that a configuration names; none where it names none, or a crawl, or the broker does not
/// tell.
pub(crate) async fn at_broker(layers: &Layers) -> Vec<String> {
    let Ok(pipeline) = handle::local(layers) else { return Vec::new() };
    let url = &pipeline.broker.url;
    if url.is_empty() || pipeline.crawl != UNNAMED {
        return Vec::new();
    }
    let asked = async {
        let bus = Bus::connect_within(ANSWER_MAX, url, &pipeline, handle::PROGRAM).await.ok()?;
        let names: Vec<String> = bus.jetstream.stream_names().try_collect().await.ok()?;
        Some(names.iter().filter_map(|name| crawl_of(name)).map(str::to_owned).collect())
    };
    tokio::time::timeout(ANSWER_MAX, asked).await.ok().flatten().unwrap_or_default()
}

/// The crawl whose identity the stream of a bucket holds.
fn crawl_of(stream: &str) -> Option<&str> {
    stream.strip_prefix("KV_rhumb_")?.strip_suffix("_identity")
}

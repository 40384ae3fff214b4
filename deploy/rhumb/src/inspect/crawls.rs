//! The crawls at a broker, by their names.

use crate::handle;
use futures::TryStreamExt as _;
use rhumb_bus::Bus;
use rhumb_config::Layers;
use std::time::Duration;

/// How long the broker may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Which crawl a configuration names.
pub(crate) enum Named {
    /// The one in a data directory, or of a name.
    One,
    /// One of those at a broker, which has these.
    OneOf(Vec<String>),
}

/// Which crawl a configuration names.
///
/// # Errors
/// The configuration is bad, or its broker does not tell.
pub(crate) async fn named(layers: &Layers) -> anyhow::Result<Named> {
    let pipeline = handle::local(layers)?;
    if pipeline.broker.url.is_empty() || pipeline.crawl != handle::UNNAMED {
        return Ok(Named::One);
    }
    let bus =
        Bus::connect_within(ANSWER_MAX, &pipeline.broker.url, &pipeline, handle::PROGRAM).await?;
    let names = tokio::time::timeout(
        ANSWER_MAX,
        bus.jetstream.stream_names().try_collect::<Vec<String>>(),
    );
    let names = names
        .await
        .map_err(|_| anyhow::anyhow!("the broker does not tell which crawls it has"))??;
    Ok(Named::OneOf(
        names
            .iter()
            .filter_map(|name| crawl_of(name))
            .map(str::to_owned)
            .collect(),
    ))
}

/// The crawl whose identity the stream of a bucket holds.
fn crawl_of(stream: &str) -> Option<&str> {
    stream.strip_prefix("KV_rhumb_")?.strip_suffix("_identity")
}

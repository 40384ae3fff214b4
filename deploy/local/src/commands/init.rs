//! `rhumb init`: makes at the broker what the stages of a crawl need before they start.

use super::arguments::{BadArguments, Which};
use crate::crawl::begin_or_go_on;
use crate::handle;
use crate::output::line;
use crate::stages::owns_partitions;
use clap::Args;
use shared::bus::{Bus, ensure_buckets, leave_unarchived, shown, stream_names};
use shared::config::{Layers, Pipeline};
use shared::log;
use shared::partitions::Owners;
use tokio::signal::unix::{SignalKind, signal};

/// Makes a crawl's streams, consumers and buckets at the broker, where stages are deployed one by one
///
/// Stages wait until it is done. Run it before they are deployed for the first time, and again before each change of the
/// configuration or of the version reaches them: it makes what is missing, adapts what differs, and is harmless otherwise.
/// `rhumb crawl` and `rhumb up` do it by themselves.
#[derive(Args)]
#[command(
    after_help = "Needs broker.url. Ends with exit code 2 when the broker holds a crawl of the name that is another owner's
(configuration key owner), or that does not fit the configuration.

Examples:
  rhumb init --config pipeline.yaml --set broker.url=nats://broker.example:4222
  rhumb init --config pipeline.yaml --set owner=production/crawl"
)]
pub(super) struct Init {
    #[command(flatten)]
    which: Which,
}

impl Init {
    /// Waits for the broker, and makes what is missing there.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let layers = self.which.layers();
        let pipeline = handle::local(&layers)?;
        log::begin(&pipeline.log, handle::PROGRAM);
        let url = &pipeline.broker.url;
        if url.is_empty() {
            let message =
                "configuration key broker.url is empty: name the broker of the crawl, such as nats://host:4222";
            return Err(BadArguments(message.to_owned()).into());
        }
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            made = make(&layers, &pipeline) => made,
            // As the first process of a container it would not hear of it otherwise.
            _ = terminate.recv() => anyhow::bail!("told to end before all was made; the next init goes on"),
        }
    }
}

/// Waits for the broker, and makes what is missing there. The tables of owners come before the streams: who finds these
/// needs them.
async fn make(layers: &Layers, pipeline: &Pipeline) -> anyhow::Result<()> {
    let url = &pipeline.broker.url;
    let bus = Bus::connect(url, pipeline, "rhumb init").await?;
    let buckets = ensure_buckets(&bus, pipeline).await?;
    let with_state = pipeline.stages.common().into_iter().filter(|(stage, _)| owns_partitions(stage));
    for (stage, common) in with_state.clone() {
        buckets.owners.read_or_begin(stage, Owners::new(pipeline.partitions, common.replicas)).await?;
    }
    let identity = begin_or_go_on(&bus, pipeline, &buckets).await?;
    leave_unarchived(&bus, pipeline).await?;
    for (stage, common) in with_state {
        buckets.owners.change(stage, |owners| owners.configure(common.replicas)).await?;
    }
    buckets.register.keep_configuration(&layers.public_text()?).await?;
    let streams = stream_names(&bus, pipeline).len();
    line(format_args!(
        "the crawl '{}' ({}) is ready on {}: {streams} streams",
        pipeline.crawl,
        identity.mark,
        shown(url)
    ));
    Ok(())
}

//! `rhumb init`: makes at the broker what the stages of a crawl need before they start.

use super::arguments::{BadArguments, Which};
use crate::crawl::{Restore, begin_or_go_on, check_restored, check_set};
use crate::handle;
use crate::output::line;
use crate::stages::owns_partitions;
use clap::Args;
use rhumb_bus::{Bus, ensure_buckets, leave_unarchived, stream_names};
use rhumb_config::shown;
use rhumb_config::{Layers, Pipeline};
use rhumb_node::log;
use rhumb_partition::Owners;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

/// Makes a crawl's streams, consumers and buckets at the broker, where stages are deployed one by
/// one
///
/// Stages wait until it is done. Run it before they are deployed for the first time, and again
/// before each change of the configuration or of the version reaches them: it makes what is
/// missing, adapts what differs, and is harmless otherwise. `rhumb crawl` and `rhumb up` do it by
/// themselves.
#[derive(Args)]
#[command(
    after_help = "Needs broker.url. Ends with exit code 2 when the broker holds a crawl of the name that is another owner's
(configuration key owner), or that does not fit the configuration.

Examples:
  rhumb init --config pipeline.yaml --set broker.url=nats://broker.example:4222
  rhumb init --config pipeline.yaml --set owner=production/crawl
  rhumb init --restore /backup/news --set broker.url=nats://broker.example:4222       (needs the rights of an operator)"
)]
pub(super) struct Init {
    /// Begin the crawl with this checkpoint (rhumb checkpoint). Its configuration holds, unless
    /// --config names another, changed by the environment and --set
    #[arg(long, value_name = "DIR")]
    restore: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

impl Init {
    /// Waits for the broker, and makes what is missing there.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let restore = self.restore.as_deref().map(Restore::open).transpose()?;
        let mut layers = self.which.layers();
        if let Some(restore) = &restore {
            layers = restore.layers(layers);
        }
        let pipeline = handle::local(&layers)?;
        log::begin(&pipeline.log, handle::PROGRAM);
        if restore.is_none() {
            handle::warn(&pipeline);
        }
        restore
            .iter()
            .try_for_each(|restore| restore.check(&pipeline))?;
        let url = &pipeline.broker.url;
        if url.is_empty() {
            let message = "configuration key broker.url is empty: name the broker of the crawl, \
                           such as nats://host:4222";
            return Err(BadArguments(message.to_owned()).into());
        }
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            made = make(&layers, &pipeline, restore.as_ref()) => made,
            // As the first process of a container it would not hear of it otherwise.
            _ = terminate.recv() => anyhow::bail!("told to end before all was made; the next init goes on"),
        }
    }
}

/// Waits for the broker, and makes what is missing there. The tables of owners come before the
/// streams: who finds these needs them.
async fn make(
    layers: &Layers,
    pipeline: &Pipeline,
    restore: Option<&Restore>,
) -> anyhow::Result<()> {
    let url = &pipeline.broker.url;
    let bus = Bus::connect(url, pipeline, "rhumb init").await?;
    let buckets = ensure_buckets(&bus, pipeline).await?;
    match restore {
        Some(restore) => {
            if !restore.goes_on(&buckets, pipeline).await? {
                restore.announce(&buckets).await?;
            }
            restore.prepare(&buckets, pipeline).await?;
        }
        None => check_restored(&buckets).await?,
    }
    check_set(&buckets, layers, pipeline).await?;
    let with_state = pipeline
        .stages
        .common()
        .into_iter()
        .filter(|(stage, _)| owns_partitions(stage));
    for (stage, common) in with_state.clone() {
        buckets
            .owners
            .read_or_begin(stage, Owners::new(pipeline.partitions, common.replicas))
            .await?;
    }
    let identity = begin_or_go_on(&bus, pipeline, &buckets, restore).await?;
    leave_unarchived(&bus, pipeline).await?;
    if let Some(restore) = restore {
        restore.send(&bus, &buckets, &identity).await?;
    }
    for (stage, common) in with_state {
        buckets
            .owners
            .change(stage, |owners| owners.configure(common.replicas))
            .await?;
    }
    buckets
        .register
        .keep_configuration(&layers.public_text()?)
        .await?;
    let streams = stream_names(&bus, pipeline).len();
    line(format_args!(
        "the crawl '{}' ({}) is ready on {}: {streams} streams",
        pipeline.crawl,
        identity.mark,
        shown(url)
    ));
    Ok(())
}

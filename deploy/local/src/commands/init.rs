//! `rhumb init`: makes at the broker what the stages of a crawl need before they start.

use super::arguments::{BadArguments, Which};
use crate::crawl::begin_or_go_on;
use crate::handle;
use crate::output::line;
use crate::stages::owns_partitions;
use clap::Args;
use shared::bus::{Bus, ensure_buckets, leave_unarchived, shown, stream_names};
use shared::log;
use shared::partitions::Owners;

/// Makes a crawl's streams, consumers and buckets at the broker, where stages are deployed one by one
///
/// Stages wait until it is done. Run it before they are deployed for the first time, and again before each change of the
/// configuration or of the version reaches them: it makes what is missing, adapts what differs, and is harmless otherwise.
/// `rhumb crawl` and `rhumb up` do it by themselves.
#[derive(Args)]
#[command(
    after_help = "Needs broker.url. Ends with exit code 2 when the broker holds a crawl of the name that is another owner's, or
that does not fit the configuration.

Examples:
  rhumb init --config pipeline.yaml --set broker.url=nats://broker.example:4222
  rhumb init --owner production/crawl --config pipeline.yaml"
)]
pub(super) struct Init {
    /// Whose crawl it is, such as the namespace and the name of a release: another owner's init of the same crawl name on
    /// the same broker is refused
    #[arg(long, value_name = "NAME", default_value = "")]
    owner: String,
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
        let bus = Bus::connect(url, &pipeline, "rhumb init").await?;
        let buckets = ensure_buckets(&bus, &pipeline).await?;
        let identity = begin_or_go_on(&bus, &pipeline, &buckets, &self.owner).await?;
        leave_unarchived(&bus, &pipeline).await?;
        for (stage, common) in pipeline.stages.common() {
            if owns_partitions(stage) {
                buckets.owners.read_or_begin(stage, Owners::new(pipeline.partitions, common.replicas)).await?;
                buckets.owners.change(stage, |owners| owners.configure(common.replicas)).await?;
            }
        }
        buckets.register.keep_configuration(&layers.public_text()?).await?;
        let streams = stream_names(&bus, &pipeline).len();
        line(format_args!(
            "the crawl '{}' ({}) is ready on {}: {streams} streams",
            pipeline.crawl,
            identity.mark,
            shown(url)
        ));
        Ok(())
    }
}

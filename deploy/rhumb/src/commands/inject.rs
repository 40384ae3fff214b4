//! `rhumb inject`: adds URLs to a running crawl.

use super::arguments::{BadArguments, Which};
use super::topic;
use crate::handle;
use crate::seeds::{self, Given};
use clap::Args;
use rhumb_config::DEFAULT_TOPIC;
use std::ffi::OsString;
use std::path::PathBuf;

/// Adds URLs to a running crawl
#[derive(Args)]
#[command(
    after_help = "Works from anywhere that reaches the broker of the crawl.

Examples:
  rhumb inject https://example.org/ --data rhumb-data
  rhumb inject --seeds seeds.txt --set broker.url=nats://broker.example:4222
  zcat seeds.gz | rhumb inject --seeds - --data rhumb-data"
)]
pub(super) struct Inject {
    /// The URLs
    #[arg(value_name = "URL", required_unless_present = "seeds")]
    urls: Vec<OsString>,
    /// File with URLs, one a line; - reads standard input
    #[arg(long, value_name = "FILE")]
    seeds: Option<PathBuf>,
    /// The topic they belong to
    #[arg(long, default_value = DEFAULT_TOPIC)]
    topic: String,
    /// Fetch them although the crawl has met them before: only if they changed, as far as their
    /// servers tell
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    which: Which,
}

impl Inject {
    /// Publishes the URLs and waits until the broker has stored them.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let seeds = Given::read(&self.urls, self.seeds.as_deref()).map_err(BadArguments)?;
        let running = handle::find(&self.which.layers()).await?;
        let url_bytes_max = running.pipeline.limits.url_bytes_max;
        let seeds = seeds
            .in_crawl(&running.pipeline.url, url_bytes_max)
            .map_err(BadArguments)?;
        let again = if self.again { seeds::injection() } else { 0 };
        let pipeline = topic::pipeline(&running).await?;
        // Crawls without topics in their configuration may call their seeds as they like.
        if self.topic != DEFAULT_TOPIC && !pipeline.topics.is_empty() {
            topic::known(&pipeline, &self.topic)?;
        }
        let follow = pipeline.scope_of(&self.topic).follow;
        seeds::inject(&running.bus, follow, &self.topic, &seeds, again).await
    }
}

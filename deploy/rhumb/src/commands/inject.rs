//! `rhumb inject`: adds URLs to a running crawl, or pages that are known.

use super::arguments::{BadArguments, Which};
use super::topic;
use crate::crawl_log::CrawlLog;
use crate::handle;
use crate::seeds::{self, Given};
use clap::Args;
use rhumb_config::{DEFAULT_TOPIC, Pipeline};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

mod known;

/// Adds URLs to a running crawl
#[derive(Args)]
#[command(
    after_help = "Works from anywhere that reaches the broker of the crawl.

Examples:
  rhumb inject https://example.org/ --data rhumb-data
  rhumb inject --seeds seeds.txt --set broker.url=nats://broker.example:4222
  zcat seeds.gz | rhumb inject --seeds - --data rhumb-data
  rhumb inject --known old-crawl/archive --data rhumb-data

A crawl log of --known has a JSON object a line, with url, outcome and time, and may have topic, depth, visit, change
and before, as crawl.jsonl has them. Lines that cannot be read are counted and left out;
then the exit code is 2."
)]
pub(super) struct Inject {
    /// The URLs
    #[arg(value_name = "URL", required_unless_present_any = ["seeds", "known"])]
    urls: Vec<OsString>,
    /// File with URLs, one a line; - reads standard input
    #[arg(long, value_name = "FILE")]
    seeds: Option<PathBuf>,
    /// Makes the pages of a crawl log known without a fetch: a crawl.jsonl, the folder or the data
    /// directory that has it, or - for standard input. They are visited again as recrawl.policy
    /// says
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["urls", "seeds", "again"])]
    known: Option<PathBuf>,
    /// The topic they belong to; with --known, of lines that name none
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
    /// Publishes the URLs, or the pages, and waits until the broker has stored them.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        match &self.known {
            Some(path) => self.give(path).await,
            None => self.inject().await,
        }
    }

    async fn give(&self, path: &Path) -> anyhow::Result<()> {
        let log = CrawlLog::at(path).map_err(|error| BadArguments(format!("{error:#}")))?;
        let running = handle::find(&self.which.layers()).await?;
        let pipeline = topic::pipeline(&running).await?;
        self.check_topic(&pipeline)?;
        known::give(&running.bus, &pipeline, log, &self.topic).await
    }

    async fn inject(&self) -> anyhow::Result<()> {
        let seeds = Given::read(&self.urls, self.seeds.as_deref()).map_err(BadArguments)?;
        let running = handle::find(&self.which.layers()).await?;
        let url_bytes_max = running.pipeline.limits.url_bytes_max;
        let seeds = seeds
            .in_crawl(&running.pipeline.url, url_bytes_max)
            .map_err(BadArguments)?;
        let again = if self.again { seeds::injection() } else { 0 };
        let pipeline = topic::pipeline(&running).await?;
        self.check_topic(&pipeline)?;
        let follow = pipeline.scope_of(&self.topic).follow;
        seeds::inject(&running.bus, follow, &self.topic, &seeds, again).await
    }
    /// Crawls without topics in their configuration may call their seeds as they like.
    fn check_topic(&self, pipeline: &Pipeline) -> Result<(), BadArguments> {
        match self.topic != DEFAULT_TOPIC && !pipeline.topics.is_empty() {
            true => topic::known(pipeline, &self.topic),
            false => Ok(()),
        }
    }
}

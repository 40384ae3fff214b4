//! `rhumb up`: the pipeline without seeds.

use super::arguments::{Which, check_fixed};
use super::console::OwnConsole;
use super::crawl::exit_code;
use crate::crawl::{self, Plan, Runs};
use crate::handle;
use clap::Args;
use rhumb_config::DEFAULT_TOPIC;
use rhumb_node::log;
use std::process::ExitCode;

/// Runs the pipeline without seeds until stopped; feed it with `rhumb inject`
#[derive(Args)]
pub(super) struct Up {
    #[command(flatten)]
    console: OwnConsole,
    #[command(flatten)]
    which: Which,
}

impl Up {
    /// Runs the pipeline until it is stopped.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let layers = handle::resumed(self.which.layers())?;
        let pipeline = layers.load()?;
        log::begin(&pipeline.log, handle::PROGRAM);
        check_fixed(&pipeline)?;
        self.console.begin(&pipeline)?;
        let seeds = Vec::new();
        let topic = DEFAULT_TOPIC.into();
        let accept_loss = false;
        let ends = false;
        let plan = Plan {
            runs: Runs::Here,
            layers,
            pipeline,
            seeds,
            topic,
            restore: None,
            accept_loss,
            ends,
            at_most: None,
            summary: None,
        };
        Ok(exit_code(crawl::run(&plan).await?))
    }
}

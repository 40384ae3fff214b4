//! `rhumb conduct`: what `rhumb crawl` does beside starting processes, for a crawl whose stages are
//! deployed one by one.

use super::arguments::{BadArguments, Which};
use super::crawl::exit_code;
use crate::crawl::{self, Plan, Runs};
use crate::handle;
use crate::stages::owns_partitions;
use clap::Args;
use rhumb_config::DEFAULT_TOPIC;
use rhumb_node::exit_codes;
use rhumb_node::log;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Conducts a crawl whose stages are deployed one by one: limits, completion, summary, who is
/// missing
///
/// One conductor at a time conducts a crawl; it may die at any moment, and the next one goes on. It
/// waits for `rhumb init`.
#[derive(Args)]
#[command(
    after_help = help()
)]
pub(super) struct Conduct {
    /// Stop the crawl after this time, such as 90s or 2h, counted from when it was conducted for
    /// the first time: no job is granted any more. A conductor with a longer time, or with none,
    /// goes on
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
    at_most: Option<Duration>,
    /// End when the crawl is complete or at a limit (--for, limits.max_pages), instead of waiting
    /// for further URLs
    #[arg(long)]
    until_complete: bool,
    /// Write the final numbers to this file, as JSON
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// The StatefulSet of Kubernetes that runs dedup or scheduler: as many instances are wanted as
    /// it has replicas. Repeatable
    #[arg(long, value_name = "STAGE=NAME")]
    statefulset: Vec<String>,
    #[command(flatten)]
    which: Which,
}

const EXAMPLES: &str = "Examples:
  rhumb conduct --config pipeline.yaml --set broker.url=nats://broker.example:4222
  rhumb conduct --until-complete --for 2h --summary summary.json
  rhumb conduct --statefulset dedup=crawl-dedup --statefulset scheduler=crawl-scheduler     in a pod of Kubernetes";

fn help() -> String {
    format!(
        "Without --until-complete it runs until it is told to end, says when the crawl is \
         complete, and crawls URLs that are injected later.\n\n{}\n\n{EXAMPLES}",
        exit_codes::help(&exit_codes::CRAWL)
    )
}

impl Conduct {
    /// Conducts the crawl.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let layers = self.which.layers();
        let pipeline = handle::local(&layers)?;
        log::begin(&pipeline.log, handle::PROGRAM);
        if pipeline.broker.url.is_empty() {
            let message = "configuration key broker.url is empty: name the broker of the crawl, \
                           such as nats://host:4222";
            return Err(BadArguments(message.to_owned()).into());
        }
        super::crawl::check_summary(self.summary.as_deref())?;
        let runs = Runs::Deployed {
            statefulsets: statefulsets(&self.statefulset)?,
        };
        let seeds = Vec::new();
        let topic = DEFAULT_TOPIC.into();
        let accept_loss = false;
        let ends = self.until_complete;
        let Conduct {
            at_most, summary, ..
        } = self;
        let plan = Plan {
            runs,
            layers,
            pipeline,
            seeds,
            topic,
            restore: None,
            accept_loss,
            ends,
            at_most,
            summary,
        };
        Ok(exit_code(crawl::run(&plan).await?))
    }
}

/// The StatefulSets by stage.
fn statefulsets(assignments: &[String]) -> Result<BTreeMap<String, String>, BadArguments> {
    let parsed = |assignment: &String| {
        let parsed = assignment
            .split_once('=')
            .filter(|(stage, name)| owns_partitions(stage) && !name.is_empty());
        parsed
            .map(|(stage, name)| (stage.to_owned(), name.to_owned()))
            .ok_or_else(|| {
                BadArguments(format!(
                    "--statefulset {assignment}: accepted is dedup=NAME or scheduler=NAME"
                ))
            })
    };
    assignments.iter().map(parsed).collect()
}

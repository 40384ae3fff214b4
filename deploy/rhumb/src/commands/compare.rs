//! `rhumb compare`: what differs between two finished crawls.

use super::arguments::BadArguments;
use crate::comparison::{Comparison, Ending};
use crate::crawl_log::CrawlLog;
use crate::output::line;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Something differs.
const EXIT_DIFFERENT: u8 = 1;

/// Lists URLs that only one of two finished crawls found, and those whose outcomes, statuses or
/// titles differ
#[derive(Args)]
#[command(
    after_help = "Reads what the archivers of the crawls wrote down (crawl.jsonl): both need stages.archiver.replicas=1. Where a
URL ended several times, the last time counts. Ends with exit code 0 when nothing differs, 1 when something does, 2 when a
crawl has no log or it cannot be read.

Examples:
  rhumb compare april again
  rhumb compare april/archive may/archive --limit 1000 --json"
)]
pub(super) struct Compare {
    /// Data directory of one crawl, or a folder with its crawl.jsonl
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The same of the other
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Name at most so many URLs; all are counted
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Compare {
    /// Compares.
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let log =
            |dir: &PathBuf| CrawlLog::find(dir).map_err(|error| BadArguments(error.to_string()));
        let a = log(&self.a)?;
        let b = log(&self.b)?;
        // Exit code 1 says that they differ.
        let comparison = Comparison::of(&a, &b, self.limit)
            .map_err(|error| BadArguments(format!("{error:#}")))?;
        if self.json {
            line(format_args!("{}", serde_json::to_string(&comparison)?));
        } else {
            print(&comparison);
        }
        Ok(if comparison.is_equal() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(EXIT_DIFFERENT)
        })
    }
}

fn print(comparison: &Comparison) {
    for difference in &comparison.differences {
        let url = &difference.url;
        match (&difference.a, &difference.b) {
            (Some(a), None) => line(format_args!("only in A  {url}  {}", ended(a))),
            (None, Some(b)) => line(format_args!("only in B  {url}  {}", ended(b))),
            (Some(a), Some(b)) => line(format_args!("differs    {url}  {}", change(a, b))),
            (None, None) => {}
        }
    }
    let Comparison {
        urls_a,
        urls_b,
        only_a,
        only_b,
        outcomes,
        statuses,
        titles,
        differing,
        differences,
    } = comparison;
    if *differing > differences.len() as u64 {
        line(format_args!(
            "{} of {differing} URLs that differ are named; --limit N names more",
            differences.len()
        ));
    }
    line(format_args!(
        "A has {urls_a} URLs, B has {urls_b}; only in A {only_a}, only in B {only_b}, other \
         outcome {outcomes}, other status {statuses}, other title {titles}"
    ));
}

fn ended(ending: &Ending) -> String {
    format!("{} {}", ending.outcome, ending.status)
}

fn change(a: &Ending, b: &Ending) -> String {
    let mut parts = Vec::new();
    if (&a.outcome, a.status) != (&b.outcome, b.status) {
        parts.push(format!("{} -> {}", ended(a), ended(b)));
    }
    if a.title != b.title {
        parts.push(format!("title {:?} -> {:?}", a.title, b.title));
    }
    parts.join(", ")
}

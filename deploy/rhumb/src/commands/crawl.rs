//! `rhumb crawl`: the whole pipeline on this machine, from seeds to the end.

use super::arguments::{BadArguments, Which, check_fixed};
use super::console::OwnConsole;
use crate::crawl::{self, EndReason, Plan, Restore, Runs};
use crate::handle;
use crate::seeds::Given;
use crate::stages::owns_partitions;
use clap::{Args, ValueEnum};
use rhumb_config::{DEFAULT_TOPIC, Layers, Pipeline};
use rhumb_node::exit_codes;
use rhumb_node::log;
use rhumb_warc::warc_files;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Runs the whole pipeline here as separate processes, from seeds until nothing is left or a limit
/// is reached
#[derive(Args)]
#[command(
    after_help = help()
)]
pub(super) struct Crawl {
    /// URLs to begin with
    #[arg(value_name = "URL")]
    urls: Vec<OsString>,
    /// File with URLs to begin with, one a line
    #[arg(long, value_name = "FILE")]
    seeds: Option<PathBuf>,
    #[command(flatten)]
    console: OwnConsole,
    #[command(flatten)]
    which: Which,
    /// Replay: answer from the WARC files in this folder and below it, and contact nobody. What is
    /// not there ends as gone (configuration key stages.fetcher.archive)
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Stop when the crawl has this many pages, those of earlier runs included (configuration key
    /// limits.max_pages)
    #[arg(long, value_name = "N")]
    max_pages: Option<u64>,
    /// Stop when each known page has this many visits, the first included; pages that cannot be
    /// visited are not waited for. Needs a recrawl.policy (configuration key recrawl.visits_max)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    visits: Option<u32>,
    /// Follow links at most this far from a seed (configuration key scope.max_depth)
    #[arg(long, value_name = "N")]
    max_depth: Option<u16>,
    /// Stop after this time, such as 90s or 2h
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
    at_most: Option<Duration>,
    /// Which hosts to follow: those of the seeds, all under their registered domains, or any
    /// (scope.follow)
    #[arg(long)]
    scope: Option<Scope>,
    /// Write the final numbers to this file, as JSON
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Go on with the crawl in the data directory. It keeps the configuration of its last run
    /// (unless --config names another), changed by the environment and --set
    #[arg(long)]
    resume: bool,
    /// Begin with this checkpoint (rhumb checkpoint), in a new data directory. Its configuration
    /// holds, unless --config names another, changed by the environment and --set. When it is cut
    /// short, the same command goes on with it
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    restore: Option<PathBuf>,
    /// With --resume: go on without what is missing of the crawl (messages that its broker lost,
    /// state of a stage that is gone), and say how much that is, as far as it is known. Without
    /// this such a crawl is refused
    #[arg(long)]
    accept_loss: bool,
}

const EXAMPLES: &str = "Examples:
  rhumb crawl http://localhost:8000/ --set network.allow_private_addresses=true
  rhumb crawl https://example.org/ --max-pages 500 --set 'network.user_agent=mybot/1.0 (me@example.org)'
  rhumb crawl --resume --data rhumb-data
  rhumb crawl https://example.org/ --console      a page at http://127.0.0.1:7070/ that shows the crawl
  rhumb crawl https://example.org/ --from april/archive --data again      reads an archive in the place of the web
  rhumb crawl --restore /backup/news --data elsewhere --set crawl=news-2
  rhumb crawl --resume --accept-loss --data rhumb-data      after the broker lost messages";

fn help() -> String {
    format!(
        "{}\n\nA crawl that was stopped goes on with --resume. One that exit code 2 refuses says \
         what can be done.\n\n{EXAMPLES}",
        exit_codes::help(&exit_codes::CRAWL)
    )
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scope {
    Host,
    Domain,
    Any,
}

impl Crawl {
    /// Crawls.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        if self.accept_loss && !self.resume {
            let what = "--accept-loss goes on with a crawl of which something is missing: it needs \
                        --resume";
            return Err(BadArguments(what.into()).into());
        }
        let seeds = Given::read(&self.urls, self.seeds.as_deref()).map_err(BadArguments)?;
        let restore = self.restore.as_deref().map(Restore::open).transpose()?;
        let layers = self.layers(restore.as_ref())?;
        let mut pipeline = layers.load()?;
        if self.visits.is_some() && !pipeline.visits_again() {
            let what = "--visits needs pages that are visited again: add --set \
                        recrawl.policy=uniform, or another policy";
            return Err(BadArguments(what.into()).into());
        }
        log::begin(&pipeline.log, handle::PROGRAM);
        // A limit of this run: whoever resumes the crawl does not inherit it.
        pipeline.limits.max_pages = self.max_pages.unwrap_or(pipeline.limits.max_pages);
        let seeds = seeds
            .in_crawl(&pipeline.url, pipeline.limits.url_bytes_max)
            .map_err(BadArguments)?;
        match &restore {
            Some(restore) => restore.check(&pipeline)?,
            None => check_beginning(&pipeline, &seeds, self.resume)?,
        }
        if self.resume {
            check_fixed(&pipeline)?;
        }
        if let Some(archive) = pipeline.replayed() {
            warc_files::of_archive(archive).map_err(BadArguments)?;
        }
        check_summary(self.summary.as_deref())?;
        self.console.begin(&pipeline)?;
        let Crawl {
            accept_loss,
            at_most,
            summary,
            ..
        } = self;
        let topic = DEFAULT_TOPIC.into();
        let runs = Runs::Here;
        let ends = true;
        let plan = Plan {
            runs,
            layers,
            pipeline,
            seeds,
            topic,
            restore,
            accept_loss,
            ends,
            at_most,
            summary,
        };
        Ok(exit_code(crawl::run(&plan).await?))
    }

    /// The configuration with what the arguments change of it.
    fn layers(&self, restore: Option<&Restore>) -> anyhow::Result<Layers> {
        let mut layers = self.which.layers();
        if let Some(from) = &self.from {
            let from = std::path::absolute(from)?;
            layers.set.push(handle::assignment(
                "stages.fetcher.archive",
                &from.display().to_string(),
            ));
        }
        layers
            .set
            .extend(self.max_depth.map(|n| format!("scope.max_depth={n}")));
        layers
            .set
            .extend(self.visits.map(|n| format!("recrawl.visits_max={n}")));
        layers.set.extend(self.scope.map(|scope| {
            let name = scope
                .to_possible_value()
                .map(|value| value.get_name().to_owned())
                .unwrap_or_default();
            format!("scope.follow={name}")
        }));
        Ok(match restore {
            Some(restore) => restore.layers(layers),
            None if self.resume => handle::resumed(layers)?,
            None => layers,
        })
    }
}

/// The exit code of a crawl that ended for this reason.
pub(super) fn exit_code(reason: EndReason) -> ExitCode {
    match reason {
        EndReason::Complete | EndReason::AtLimit => ExitCode::SUCCESS,
        EndReason::Interrupted => ExitCode::from(exit_codes::INTERRUPTED),
    }
}

/// Checks that a crawl begins with seeds in an empty data directory, or goes on in one that holds a
/// crawl.
fn check_beginning(
    pipeline: &Pipeline,
    seeds: &[String],
    resume: bool,
) -> Result<(), BadArguments> {
    let holds_a_crawl = pipeline
        .stages
        .common()
        .iter()
        .any(|(stage, _)| owns_partitions(stage) && pipeline.data.join(stage).exists());
    let data = pipeline.data.display();
    if holds_a_crawl && !resume {
        return Err(BadArguments(format!(
            "the data directory {data} holds a crawl already: go on with it (--resume), take \
             another (--data DIR), or remove it"
        )));
    }
    if !holds_a_crawl && seeds.is_empty() {
        let what = if resume {
            "holds no crawl to resume"
        } else {
            "holds no crawl, and no seed was given"
        };
        return Err(BadArguments(format!(
            "the data directory {data} {what}: name URLs to begin with"
        )));
    }
    Ok(())
}

/// Checks that the summary can be written, before the crawl and not after it.
pub(super) fn check_summary(path: Option<&Path>) -> Result<(), BadArguments> {
    let Some(path) = path else { return Ok(()) };
    let opened = std::fs::File::options()
        .create(true)
        .append(true)
        .open(path);
    opened.map(drop).map_err(|error| {
        BadArguments(format!(
            "cannot write the summary to {}: {error}",
            path.display()
        ))
    })
}

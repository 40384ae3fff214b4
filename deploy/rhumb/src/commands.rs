//! The command line: which commands there are, and how they end.
//!
//! In: arguments. Out: an exit code; an error is told on standard error. Each command has a file,
//! with its arguments, its help and what it does.

mod adopt;
mod arguments;
mod auth;
mod canonical;
mod checkpoint;
mod compare;
mod conduct;
mod console;
mod consumers;
mod crawl;
mod dead;
mod delete;
mod drop;
mod export;
mod follow;
mod init;
mod inject;
mod links;
mod move_partitions;
mod orders;
mod partitions;
mod pause;
mod progress;
mod queue;
mod release;
mod report;
mod robots;
mod scale;
mod set;
mod split;
mod status;
mod tap;
mod topic;
mod topology;
mod up;
mod why;

use crate::handle::PROGRAM;
use crate::lab::{self, Experiment};
use arguments::BadArguments;
use clap::{Parser, Subcommand};
use rhumb_node::exit_codes::{self, BAD_INPUT};
use rhumb_node::log;
use std::process::ExitCode;

/// A web crawler: a dataflow of separate processes over NATS.
#[derive(Parser)]
#[command(
    name = "rhumb",
    version,
    after_help = help()
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  rhumb crawl https://example.org/ --set 'network.user_agent=mybot/1.0 (+https://example.org/bot)'
  rhumb crawl --seeds seeds.txt --scope domain --max-pages 10000 --data /var/lib/rhumb --summary summary.json
  rhumb tap urls.new --limit 5 --format json          in another terminal, while a crawl runs
  rhumb scale fetcher=4
  rhumb status --watch";

fn help() -> String {
    format!("{EXAMPLES}\n\n{}", exit_codes::help_of_all())
}

#[derive(Subcommand)]
enum Command {
    Crawl(crawl::Crawl),
    Up(up::Up),
    Init(init::Init),
    Conduct(conduct::Conduct),
    Inject(inject::Inject),
    Queue(queue::Queue),
    Pause(pause::Pause),
    Unpause(pause::Unpause),
    Release(release::ReleaseArgs),
    Drop(drop::Drop),
    Set(set::Set),
    Topic(topic::Topic),
    Checkpoint(checkpoint::Checkpoint),
    Scale(scale::Scale),
    Partitions(partitions::Partitions),
    Move(move_partitions::Move),
    Split(split::Split),
    Adopt(adopt::Adopt),
    Status(status::Status),
    Console(console::ConsoleCommand),
    Tap(tap::Tap),
    Consumers(consumers::Consumers),
    Why(why::Why),
    Report(report::Report),
    Compare(compare::Compare),
    Topology(topology::Topology),
    Auth(auth::Auth),
    Dead(dead::Dead),
    Delete(delete::Delete),
    #[command(subcommand)]
    Lab(Experiment),
    #[command(subcommand)]
    Export(export::Export),
    Canonical(canonical::Canonical),
    Robots(robots::Robots),
    Links(links::Links),
}

/// Runs the command that the command line names.
pub(crate) fn main() -> ExitCode {
    let command = CommandLine::parse().command;
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("rhumb: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(run(command));
    log::end();
    match ended {
        Ok(code) => code,
        Err(error) => {
            log::say_end(PROGRAM, format_args!("{error:#}"));
            let is_bad = error.downcast_ref::<BadArguments>().is_some()
                || error.is::<rhumb_config::ConfigError>()
                || error.is::<rhumb_config::identity::Misfit>();
            if is_bad {
                ExitCode::from(BAD_INPUT)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Crawl(crawl) => return crawl.run().await,
        Command::Up(up) => return up.run().await,
        Command::Init(init) => init.run().await?,
        Command::Conduct(conduct) => return conduct.run().await,
        Command::Inject(inject) => inject.run().await?,
        Command::Queue(queue) => queue.run().await?,
        Command::Pause(pause) => pause.run().await?,
        Command::Unpause(unpause) => unpause.run().await?,
        Command::Release(release) => release.run().await?,
        Command::Drop(drop) => return drop.run().await,
        Command::Set(set) => return set.run().await,
        Command::Topic(topic) => return topic.run().await,
        Command::Checkpoint(checkpoint) => return checkpoint.run().await,
        Command::Scale(scale) => scale.run().await?,
        Command::Partitions(partitions) => partitions.run().await?,
        Command::Move(moves) => moves.run().await?,
        Command::Split(split) => split.run().await?,
        Command::Adopt(adopt) => return adopt.run().await,
        Command::Status(status) => return status.run().await,
        Command::Console(console) => console.run().await?,
        Command::Tap(tap) => tap.run().await?,
        Command::Consumers(consumers) => consumers.run().await?,
        Command::Why(why) => why.run().await?,
        Command::Report(report) => report.run().await?,
        Command::Compare(compare) => return compare.run(),
        Command::Topology(topology) => topology.print(),
        Command::Auth(auth) => auth.run()?,
        Command::Dead(dead) => dead.run().await?,
        Command::Delete(delete) => return delete.run().await,
        Command::Lab(_) => return Err(lab::start()),
        Command::Export(export) => export.run().await?,
        Command::Canonical(canonical) => return canonical.run().await,
        Command::Robots(robots) => return robots.run(),
        Command::Links(links) => links.run()?,
    }
    Ok(ExitCode::SUCCESS)
}

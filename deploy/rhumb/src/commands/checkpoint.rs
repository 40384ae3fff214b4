//! `rhumb checkpoint`: writes all that a running crawl knows into a folder, from which another
//! crawl can begin.
//!
//! ```text
//!  hold ─▶ drain ─▶ capture ─▶ lift ─▶ collect ─▶ manifest
//!  └── dispatch stands still ───┘
//! ```
//! Flow: `holding` gives the order that the crawl stands still, and renews it; `draining` waits
//! until nothing is in flight; `collecting` has every owner capture its partitions, and afterwards,
//! while the crawl goes on, fetches them; `taking` is all of that. `habit` repeats it. Invariant:
//! whatever happens, the crawl goes on, and a folder with a manifest is whole.

mod collecting;
mod draining;
mod habit;
mod holding;
mod interrupt;
mod taking;

use super::arguments::{BadArguments, Which};
use super::orders::AuthorArgs;
use crate::handle;
use crate::output::line;
use clap::Args;
use habit::Habit;
use interrupt::Interrupt;
use rhumb_node::exit_codes::INTERRUPTED;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use taking::{Taking, stopped};

/// Writes all that a running crawl knows into a folder, from which another crawl can begin (rhumb
/// crawl --restore)
///
/// No job is handed out until what is in flight has ended and all partitions are captured; then the
/// crawl goes on while they are written. The pages that were archived stay where they are. The
/// restored crawl begins archive files of its own.
#[derive(Args)]
#[command(
    after_help = "Ends with exit code 1 when no checkpoint could be taken: the crawl goes on, and DIR is as it was; with 2
when DIR holds something else.

Examples:
  rhumb checkpoint /backup/news --data rhumb-data
  rhumb checkpoint /backup --every 6h --keep 4           one in /backup/CRAWL-TIME every six hours, the newest four stay
  rhumb crawl --restore /backup/news --data elsewhere    a crawl that begins with it"
)]
pub(super) struct Checkpoint {
    /// The folder; with --every or --keep that of all checkpoints
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Take one in DIR/CRAWL-TIME now, and again after each time of this length, until the crawl
    /// stops
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    every: Option<Duration>,
    /// Of the checkpoints of this crawl in DIR, keep the newest N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    keep: Option<u16>,
    /// Give up, and let the crawl go on, when something is still in flight after this time
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "2m")]
    drain_max: Duration,
    /// As JSON: one object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    which: Which,
}

/// The least time between two checkpoints of a habit.
const EVERY_MIN: Duration = Duration::from_secs(1);

impl Checkpoint {
    /// Takes a checkpoint, or one after the other.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let Checkpoint {
            dir,
            every,
            keep,
            drain_max,
            json,
            author,
            which,
        } = self;
        if every.is_some_and(|every| every < EVERY_MIN) {
            return Err(
                BadArguments("--every: accepted is a time of 1s or more".to_owned()).into(),
            );
        }
        let mut interrupt = Interrupt::listen()?;
        let taking = Taking {
            author: author.author(),
            drain_max,
            shows: !json,
        };
        if every.is_some() || keep.is_some() {
            let habit = Habit {
                dir,
                every,
                keep: keep.map(usize::from),
                layers: which.layers(),
                json,
            };
            return habit.run(&taking, &mut interrupt).await;
        }
        let running = handle::find(&which.layers()).await?;
        let taken = tokio::select! {
            taken = taking.take(&running, &dir, &mut interrupt) => taken?,
            stopped = stopped(&running) => {
                stopped?;
                anyhow::bail!("the crawl has stopped, and no checkpoint was taken");
            }
        };
        let Some(taken) = taken else {
            return Ok(ExitCode::from(INTERRUPTED));
        };
        line(if json {
            serde_json::to_string(&taken)?
        } else {
            taken.to_string()
        });
        Ok(ExitCode::SUCCESS)
    }
}

//! `rhumb split`: splits partitions into halves.

use super::arguments::Which;
use super::scale::order;
use crate::control::SupervisorRequest;
use crate::handle::{self, Running};
use crate::inspect::owners::owners;
use crate::output::line;
use clap::Args;
use rhumb_partition::Owners;
use rhumb_wire::topology::StageName;
use std::time::{Duration, Instant};

/// Splits partitions of dedup and scheduler into halves, while the crawl goes on
///
/// Both halves begin at the instance that has the partition, and can move when all that was on its
/// way to the partition has come. Partitions above stages.dedup.partition_urls_max are split
/// without this command.
#[derive(Args)]
#[command(after_help = "Examples:\n  rhumb split 3 17\n  rhumb partitions")]
pub(super) struct Split {
    /// The partitions
    #[arg(value_name = "PARTITION", required = true)]
    partitions: Vec<u16>,
    #[command(flatten)]
    which: Which,
}

/// How often the tables of owners are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Without any step of any split for so long the command gives up.
const PATIENCE: Duration = Duration::from_secs(60);

impl Split {
    /// Has the partitions split, and waits until their halves have all that is theirs.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let running = handle::find(&self.which.layers()).await?;
        let request = SupervisorRequest::Split {
            partitions: self.partitions.clone(),
        };
        order(&running, &request).await?;
        done(&running, &self.partitions).await
    }
}

/// What is still to be done for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    /// The scheduler has to halve its rows.
    Scheduler,
    /// Dedup has to halve what it knows.
    Dedup,
    /// URLs are on their way that dedup numbered before.
    Coming,
    Nothing,
}

impl Left {
    fn of(partition: u16, scheduler: &Owners, dedup: &Owners) -> Left {
        let half = |owners: &Owners| {
            owners
                .partitions
                .get(usize::from(partition))
                .and_then(|of| of.retired)
                .map(|retired| retired.into[0])
        };
        let is_halved = |owners: &Owners| half(owners).is_some_and(|half| owners.version(half) > 0);
        let is_late = |owners: &Owners| {
            owners.partitions[usize::from(partition)]
                .retired
                .is_some_and(|retired| retired.is_late)
        };
        match (is_halved(scheduler), is_halved(dedup)) {
            (false, _) => Left::Scheduler,
            (true, false) => Left::Dedup,
            (true, true) if is_late(scheduler) || is_late(dedup) => Left::Coming,
            _ => Left::Nothing,
        }
    }

    const fn in_words(self) -> &'static str {
        match self {
            Left::Scheduler => "its scheduler halves its rows",
            Left::Dedup => "its dedup halves what it knows",
            Left::Coming => "URLs that were numbered before come to its scheduler",
            Left::Nothing => "is split",
        }
    }
}

/// Waits until partitions are split, and says how far they are.
async fn done(running: &Running, partitions: &[u16]) -> anyhow::Result<()> {
    let mut said = vec![None; partitions.len()];
    let mut since = Instant::now();
    loop {
        let scheduler = owners(running, StageName::Scheduler.name()).await?;
        let dedup = owners(running, StageName::Dedup.name()).await?;
        for (partition, said) in partitions.iter().zip(&mut said) {
            let left = Left::of(*partition, &scheduler, &dedup);
            if *said != Some(left) {
                (*said, since) = (Some(left), Instant::now());
                let into = scheduler.partitions[usize::from(*partition)]
                    .retired
                    .map(|retired| retired.into);
                let into = into
                    .map(|[lower, upper]| format!(" into {lower} and {upper}"))
                    .unwrap_or_default();
                line(format_args!(
                    "partition {partition}{into}: {}",
                    left.in_words()
                ));
            }
        }
        if said.iter().all(|said| *said == Some(Left::Nothing)) {
            return Ok(());
        }
        if since.elapsed() > PATIENCE {
            anyhow::bail!(
                "nothing has come of the split for {} s: `rhumb status` says which instances do \
                 not answer, and their logs why; `rhumb dead` has what could not be read. It goes \
                 on when those are back",
                PATIENCE.as_secs()
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

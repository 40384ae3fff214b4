//! `rhumb scale`: changes how many instances of a stage run.

use super::arguments::{BadArguments, Which};
use crate::control::{SupervisorRequest, ask_supervisor};
use crate::handle::{self, Running};
use crate::inspect::owners::owners;
use crate::output::line;
use crate::stages::owns_partitions;
use anyhow::Context as _;
use async_nats::{RequestError, RequestErrorKind};
use clap::Args;
use rhumb_partition::Owners;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Changes how many instances of a stage run, while the crawl goes on
///
/// The partitions of dedup and scheduler move with their state to the instances that are wanted;
/// the command shows how far they are, and ends when all have arrived. Other stages are scaled at
/// once.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  rhumb scale fetcher=4 parser=2\n  rhumb scale dedup=3 \
                  scheduler=2\n  rhumb scale dedup=2 --without dedup.0    empties the first of \
                  two, so that its machine can go\n  rhumb partitions"
)]
pub(super) struct Scale {
    /// Stage and number of instances
    #[arg(value_name = "STAGE=N", required = true)]
    stages: Vec<String>,
    /// An instance of dedup or scheduler, one of the N, that is to give all its partitions away.
    /// Repeatable; without it a stage has no such instance any more
    #[arg(long, value_name = "STAGE.INSTANCE")]
    without: Vec<String>,
    #[command(flatten)]
    which: Which,
}

/// How often the table of owners is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A supervisor that begins may listen so much later than its broker answers.
const BEGINS_WITHIN: Duration = Duration::from_secs(5);
/// How often the command says how far the moves are.
const SAY_EVERY: Duration = Duration::from_secs(2);
/// Without any partition that arrives for so long the command gives up.
const PATIENCE: Duration = Duration::from_secs(60);

impl Scale {
    /// Asks the supervisor for each stage in turn; the first one that it refuses is the error. Then
    /// waits until all partitions are where they are to be.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let wanted = self.wanted()?;
        let running = handle::find(&self.which.layers()).await?;
        let mut moving = Vec::new();
        for (stage, (replicas, without)) in wanted {
            let before = if owns_partitions(&stage) {
                Some(owners(&running, &stage).await?)
            } else {
                None
            };
            let request = SupervisorRequest::Scale {
                stage: stage.clone(),
                replicas,
                without,
            };
            order(&running, &request).await?;
            if let Some(before) = before {
                let after = owners(&running, &stage).await?;
                let from = before.receivers().len();
                let to = after.receivers().len();
                let moves = after.to_move();
                line(format_args!(
                    "{stage} {from} → {to}{}: {moves} partitions move",
                    without_text(&after)
                ));
                moving.push((stage, moves));
            }
        }
        for (stage, moves) in moving {
            arrived(&running, &stage, moves).await?;
        }
        Ok(())
    }
}

impl Scale {
    /// By stage: how many instances there are to be, and which of them are to have no partition.
    fn wanted(&self) -> Result<BTreeMap<String, (u16, BTreeSet<u16>)>, BadArguments> {
        let mut wanted = BTreeMap::new();
        for assignment in &self.stages {
            let (stage, replicas) = parse(assignment)?;
            wanted.insert(stage, (replicas, BTreeSet::new()));
        }
        for name in &self.without {
            let (stage, instance) = parse_instance(name)?;
            let Some((replicas, without)) = wanted.get_mut(&stage) else {
                return Err(BadArguments(format!(
                    "--without {name}: say how many there are to be, too ({stage}=N)"
                )));
            };
            if instance >= *replicas {
                let message = format!(
                    "--without {name}: it is none of the {replicas} instances of \
                     {stage}={replicas} (from 0 on)"
                );
                return Err(BadArguments(message));
            }
            without.insert(instance);
        }
        match wanted
            .iter()
            .find(|(_, (replicas, without))| without.len() == usize::from(*replicas))
        {
            Some((stage, (replicas, _))) => Err(BadArguments(format!(
                "nobody would be left to have the partitions of {stage}: all of {stage}={replicas} \
                 are to have none"
            ))),
            None => Ok(wanted),
        }
    }
}

/// Waits until all partitions of a stage are where they are to be, and says how far they are.
pub(super) async fn arrived(running: &Running, stage: &str, moves: usize) -> anyhow::Result<()> {
    let mut left = moves;
    let mut since = Instant::now();
    let mut say_at = Instant::now() + SAY_EVERY;
    loop {
        let owners = owners(running, stage).await?;
        let receivers = owners.receivers();
        if owners.are_even() && owners.needed() == receivers {
            // One that was split has no URLs any more.
            let is_whole =
                |partition: &u16| owners.partitions[usize::from(*partition)].retired.is_none();
            let count = |instance| {
                owners
                    .used_by(instance)
                    .into_iter()
                    .filter(is_whole)
                    .count()
                    .to_string()
            };
            let counts: Vec<String> = receivers.iter().map(|instance| count(*instance)).collect();
            let n = receivers.len();
            let counts = counts.join(", ");
            line(format_args!(
                "{stage}: {n} instances{} have {counts} partitions",
                without_text(&owners)
            ));
            return Ok(());
        }
        let left_now = owners.to_move();
        if left_now != left {
            (left, since) = (left_now, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            anyhow::bail!(
                "no partition of {stage} has arrived for {} s, {left} are left: `rhumb status` \
                 says which instances do not answer, and their logs why. The partitions move on \
                 when those are back",
                PATIENCE.as_secs()
            );
        }
        if say_at <= Instant::now() {
            say_at = Instant::now() + SAY_EVERY;
            line(format_args!(
                "{stage}: {} of {} partitions have moved",
                moves.saturating_sub(left),
                moves.max(left)
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Has the supervisor of a crawl change it.
///
/// # Errors
/// There is none, or it refuses: why.
pub(super) async fn order(running: &Running, request: &SupervisorRequest) -> anyhow::Result<()> {
    let end = Instant::now() + BEGINS_WITHIN;
    let answer = loop {
        match ask_supervisor(&running.bus, request).await {
            Err(error) if is_unheard(&error) && Instant::now() < end => {
                tokio::time::sleep(LOOK_EVERY).await
            }
            answer => break answer,
        }
    };
    let answer = answer.context(
        "no `rhumb crawl` or `rhumb up` supervises this crawl; change its deployment instead",
    )?;
    match String::from_utf8_lossy(&answer.payload) {
        refused if refused.is_empty() => Ok(()),
        refused => Err(BadArguments(refused.into_owned()).into()),
    }
}

/// Returns whether nobody listens, yet.
fn is_unheard(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<RequestError>()
        .is_some_and(|error| error.kind() == RequestErrorKind::NoResponders)
}

/// Which of the instances are to have nothing, in brackets.
pub(super) fn without_text(owners: &Owners) -> String {
    let without: Vec<String> = owners.without.iter().map(u16::to_string).collect();
    if without.is_empty() {
        String::new()
    } else {
        format!(" (without {})", without.join(", "))
    }
}

fn parse(assignment: &str) -> Result<(String, u16), BadArguments> {
    let parsed = assignment
        .split_once('=')
        .and_then(|(stage, n)| Some((stage.to_owned(), n.parse::<u16>().ok()?)));
    parsed
        .filter(|(_, replicas)| (1..=1000).contains(replicas))
        .ok_or_else(|| {
            BadArguments(format!(
                "'{assignment}' is not of the form STAGE=N with N from 1 to 1000"
            ))
        })
}

/// The name of an instance that may have partitions.
pub(super) fn parse_instance(name: &str) -> Result<(String, u16), BadArguments> {
    let parsed = name
        .rsplit_once('.')
        .and_then(|(stage, n)| Some((stage.to_owned(), n.parse::<u16>().ok()?)));
    parsed
        .filter(|(stage, _)| owns_partitions(stage))
        .ok_or_else(|| {
            BadArguments(format!(
                "'{name}' is no instance that has partitions, such as dedup.1 or scheduler.0"
            ))
        })
}

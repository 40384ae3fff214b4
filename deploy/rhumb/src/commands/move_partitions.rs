//! `rhumb move`: moves partitions from one instance to another.

use super::arguments::{BadArguments, Which};
use super::scale::{arrived, order, parse_instance};
use crate::control::SupervisorRequest;
use crate::handle;
use crate::inspect::owners::owners;
use crate::output::line;
use clap::Args;

/// Moves partitions of dedup or scheduler to another instance, while the crawl goes on
///
/// The instances keep about as many partitions each: when the moves leave one with too many, others
/// move away from it.
#[derive(Args)]
#[command(after_help = "Example:\n  rhumb move 3 17 --to dedup.1")]
pub(super) struct Move {
    /// The partitions
    #[arg(value_name = "PARTITION", required = true)]
    partitions: Vec<u16>,
    /// The instance that is to have them
    #[arg(long, value_name = "STAGE.INSTANCE")]
    to: String,
    #[command(flatten)]
    which: Which,
}

impl Move {
    /// Has the partitions leave, and waits until all have arrived.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let (stage, instance) = parse_instance(&self.to)?;
        let running = handle::find(&self.which.layers()).await?;
        let there = owners(&running, &stage).await?;
        if let Some(unknown) = self
            .partitions
            .iter()
            .find(|partition| there.version(**partition) == 0)
        {
            return Err(BadArguments(format!(
                "there is no partition {unknown} of {stage} (rhumb partitions)"
            ))
            .into());
        }
        if !there.receivers().contains(&instance) {
            let wanted = there.receivers().len();
            let message = format!(
                "{stage} has {wanted} instances, none with the number {instance} (rhumb scale \
                 {stage}=N)"
            );
            return Err(BadArguments(message).into());
        }
        let request = SupervisorRequest::Move {
            stage: stage.clone(),
            partitions: self.partitions,
            to: instance,
        };
        order(&running, &request).await?;
        let moves = owners(&running, &stage).await?.moving();
        line(format_args!("{moves} partitions of {stage} move"));
        arrived(&running, &stage, moves).await
    }
}

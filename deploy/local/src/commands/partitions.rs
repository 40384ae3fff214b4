//! `rhumb partitions`: which instance has which partition, and which are on their way.

use super::arguments::Which;
use super::scale::owners;
use crate::handle;
use crate::output::line;
use clap::Args;
use serde_json::json;
use shared::partitions::{OwnerOf, Whereabouts};
use shared::topology::STAGES;

/// Lists who has the partitions of dedup and scheduler, and which are on their way
#[derive(Args)]
#[command(after_help = "Examples:\n  rhumb partitions\n  rhumb partitions --json | jq -c 'select(.moves_to)'")]
pub(super) struct Partitions {
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

impl Partitions {
    /// Prints a line for each partition.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let running = handle::find(&self.which.layers()).await?;
        if !self.json {
            line(format_args!("{:10} {:>9} {:>5} {:>7}  state", "stage", "partition", "owner", "version"));
        }
        for stage in STAGES.iter().filter(|row| row.has_state).map(|row| row.name) {
            for (partition, of) in owners(&running, stage).await?.all() {
                line(if self.json { in_json(stage, partition, of) } else { in_words(stage, partition, of) });
            }
        }
        Ok(())
    }
}

fn in_json(stage: &str, partition: u16, of: &OwnerOf) -> String {
    let (OwnerOf { owner, version, .. }, (state, to)) = (of, state(of));
    json!({ "stage": stage, "partition": partition, "owner": owner, "version": version, "state": state, "moves_to": to })
        .to_string()
}

fn in_words(stage: &str, partition: u16, of: &OwnerOf) -> String {
    let (OwnerOf { owner, version, .. }, (state, to)) = (of, state(of));
    let to = to.map(|to| format!(" to {to}")).unwrap_or_default();
    format!("{stage:10} {partition:>9} {owner:>5} {version:>7}  {state}{to}")
}

/// The state of a partition, and where it goes.
fn state(of: &OwnerOf) -> (&'static str, Option<u16>) {
    match of.is {
        Whereabouts::Owned => ("owned", None),
        Whereabouts::LeavingTo(to) if of.copy > 0 => ("copied", Some(to)),
        Whereabouts::LeavingTo(to) => ("leaving", Some(to)),
        Whereabouts::GivenTo(to) => ("given", Some(to)),
    }
}

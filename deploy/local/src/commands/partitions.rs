//! `rhumb partitions`: which instance has which partition, which are on their way, and which were split.

use super::arguments::Which;
use super::scale::{owners, without_text};
use crate::handle::{self, Running};
use crate::output::line;
use clap::Args;
use serde_json::json;
use shared::partitions::{Directory, OwnerOf, Retired, Whereabouts};
use shared::topology::{STAGES, StageName};

/// Lists who has the partitions of dedup and scheduler, which are on their way, and which were split
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
            line(format_args!(
                "{:10} {:>9} {:>5} {:>5} {:>7}  state",
                "stage", "partition", "depth", "owner", "version"
            ));
        }
        for stage in STAGES.iter().filter(|row| row.has_state).map(|row| row.name) {
            let owners = owners(&running, stage).await?;
            let directory = owners.directory();
            for (partition, &of) in owners.all() {
                let shown = Shown { stage, partition, depth: directory.depth_of(partition).unwrap_or(0), of };
                line(if self.json { shown.in_json() } else { shown.in_words() });
            }
            if !self.json && !owners.without.is_empty() {
                line(format_args!("{stage}: {} instances{}", owners.wanted, without_text(&owners)));
            }
        }
        Ok(())
    }
}

/// A partition as it is shown.
struct Shown<'a> {
    stage: &'a str,
    partition: u16,
    depth: u32,
    of: OwnerOf,
}

impl Shown<'_> {
    fn in_json(&self) -> String {
        let Shown { stage, partition, depth, of } = self;
        let (state, to) = state(of);
        let OwnerOf { owner, version, retired, .. } = of;
        let into = retired.map(|retired| retired.into);
        json!({
            "stage": stage, "partition": partition, "depth": depth, "owner": owner, "version": version, "state": state,
            "moves_to": to, "split_into": into,
        })
        .to_string()
    }

    fn in_words(&self) -> String {
        let Shown { stage, partition, depth, of } = self;
        let (state, to) = state(of);
        let to = to.map(|to| format!(" to {to}")).unwrap_or_default();
        let into = of.retired.map(|Retired { into: [lower, upper], .. }| format!(" into {lower} and {upper}"));
        let OwnerOf { owner, version, .. } = of;
        let into = into.unwrap_or_default();
        format!("{stage:10} {partition:>9} {depth:>5} {owner:>5} {version:>7}  {state}{to}{into}")
    }
}

/// The state of a partition, and where it goes.
fn state(of: &OwnerOf) -> (&'static str, Option<u16>) {
    match (of.is, of.retired) {
        (Whereabouts::LeavingTo(to), _) if of.copy > 0 => ("copied", Some(to)),
        (Whereabouts::LeavingTo(to), _) => ("leaving", Some(to)),
        (Whereabouts::GivenTo(to), _) => ("given", Some(to)),
        (Whereabouts::Owned, Some(Retired { is_late: true, .. })) => ("splitting", None),
        (Whereabouts::Owned, Some(_)) => ("split", None),
        (Whereabouts::Owned, None) if of.version == 0 => ("beginning", None),
        (Whereabouts::Owned, None) => ("owned", None),
    }
}

/// The partitions of a crawl, as dedup has them; those with which it began when the broker does not tell.
pub(super) async fn directory(running: &Running) -> Directory {
    match owners(running, StageName::Dedup.name()).await {
        Ok(owners) => owners.directory(),
        Err(_) => Directory::new(running.pipeline.partitions),
    }
}

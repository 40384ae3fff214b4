//! `rhumb partitions`: which instance has which partition, how large it is, which are on their way,
//! and which were split.
//!
//! In: the tables of owners; what the owners tell of their partitions. Out: a line for each
//! partition.

use super::arguments::Which;
use super::scale::without_text;
use crate::control::ask_all;
use crate::handle::{self, Running};
use crate::inspect::owners::owners;
use crate::output::line;
use clap::Args;
use rhumb_partition::{OwnerOf, Owners, Retired, Whereabouts};
use rhumb_stage::{ControlRequest, PartitionFigures, ProcessPartitions};
use rhumb_wire::topology::STAGES;
use serde_json::json;
use std::collections::BTreeMap;

/// Lists who has the partitions of dedup and scheduler, how large they are, which are on their way,
/// and which were split
///
/// urls: URLs that the partition knows. bytes: of dedup, of the files with these URLs; of the
/// scheduler, of the bodies that were fetched. urls/s: URLs that dedup was asked about, or that
/// ended in the scheduler, in the last 10 to 20 seconds. An owner that does not answer tells none
/// of them.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  rhumb partitions\n  rhumb partitions --json | jq -c 'select(.moves_to)'
  rhumb partitions --json | jq -s 'group_by([.stage, .owner]) | map({stage: .[0].stage, owner: .[0].owner, urls: map(.urls) | add})'"
)]
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
                "{:10} {:>9} {:>5} {:>5} {:>7} {:>11} {:>13} {:>8}  state",
                "stage", "partition", "depth", "owner", "version", "urls", "bytes", "urls/s"
            ));
        }
        let mut tables = Vec::new();
        for stage in STAGES
            .iter()
            .filter(|row| row.has_state)
            .map(|row| row.name)
        {
            tables.push((stage, owners(&running, stage).await?));
        }
        let told = told(&running, &tables).await?;
        for (stage, owners) in tables {
            let directory = owners.directory();
            for (partition, &of) in owners.all() {
                let depth = directory.depth_of(partition).unwrap_or(0);
                let figures = told.get(&(stage.to_owned(), of.owner, partition)).copied();
                let shown = Shown {
                    stage,
                    partition,
                    depth,
                    of,
                    figures,
                };
                line(if self.json {
                    shown.in_json()
                } else {
                    shown.in_words()
                });
            }
            if !self.json && !owners.without.is_empty() {
                line(format_args!(
                    "{stage}: {} instances{}",
                    owners.wanted,
                    without_text(&owners)
                ));
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
    /// What its owner tells of it.
    figures: Option<PartitionFigures>,
}

impl Shown<'_> {
    fn in_json(&self) -> String {
        let Shown {
            stage,
            partition,
            depth,
            of,
            figures,
        } = self;
        let (state, to) = state(of);
        let OwnerOf {
            owner,
            version,
            retired,
            ..
        } = of;
        let into = retired.map(|retired| retired.into);
        json!({
            "stage": stage, "partition": partition, "depth": depth, "owner": owner, "version": version, "state": state,
            "moves_to": to, "split_into": into, "urls": figures.map(|of| of.urls), "bytes": figures.map(|of| of.bytes),
            "urls_per_s": figures.and_then(|of| of.urls_per_s),
        })
        .to_string()
    }

    fn in_words(&self) -> String {
        let Shown {
            stage,
            partition,
            depth,
            of,
            figures,
        } = self;
        let (state, to) = state(of);
        let to = to.map(|to| format!(" to {to}")).unwrap_or_default();
        let into = of.retired.map(
            |Retired {
                 into: [lower, upper],
                 ..
             }| format!(" into {lower} and {upper}"),
        );
        let OwnerOf { owner, version, .. } = of;
        let into = into.unwrap_or_default();
        let number = |of: Option<u64>| of.map_or_else(|| "-".to_owned(), |of| of.to_string());
        let urls = number(figures.map(|of| of.urls));
        let bytes = number(figures.map(|of| of.bytes));
        let rate = figures
            .and_then(|of| of.urls_per_s)
            .map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
        format!(
            "{stage:10} {partition:>9} {depth:>5} {owner:>5} {version:>7} {urls:>11} {bytes:>13} \
             {rate:>8}  {state}{to}{into}"
        )
    }
}

/// What the owners tell of their partitions, by stage, owner and partition.
async fn told(
    running: &Running,
    tables: &[(&str, Owners)],
) -> anyhow::Result<BTreeMap<(String, u16, u16), PartitionFigures>> {
    let owners = tables
        .iter()
        .map(|(_, owners)| owners.instances().len())
        .sum();
    let answers: Vec<ProcessPartitions> =
        ask_all(&running.bus, &ControlRequest::Partitions, Some(owners)).await?;
    let mut told = BTreeMap::new();
    for ProcessPartitions {
        stage,
        instance,
        partitions,
    } in answers
    {
        told.extend(
            partitions
                .into_iter()
                .map(|of| ((stage.clone(), instance, of.partition), of)),
        );
    }
    Ok(told)
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

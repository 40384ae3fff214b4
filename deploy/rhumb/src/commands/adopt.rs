//! `rhumb adopt`: brings the partitions of a machine that died to the instances that live.
//!
//! In: the data directory of that machine, the table of owners, the leases. Out: its instances of
//! dedup and scheduler, run here until they have given all away. Invariant: the table changes only
//! when they run: a folder that they refuse, such as one of another crawl, changes nothing.

use super::arguments::{BadArguments, Which};
use crate::binaries;
use crate::control::{Awaited, ask_all};
use crate::handle::{self, Running, assignment};
use crate::output::line;
use crate::processes::{Launch, Name, Processes};
use anyhow::Context as _;
use clap::Args;
use rhumb_bus::{Buckets, ensure_buckets};
use rhumb_node::exit_codes::INTERRUPTED;
use rhumb_node::holder_of;
use rhumb_partition::Owners;
use rhumb_stage::{ControlRequest, ProcessStatus};
use rhumb_telemetry::whole_file;
use rhumb_wire::topology::STAGES;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// Brings the partitions of a machine that died to the instances that live
///
/// DIR is the data directory of that machine: a copy of it, or its disk. Its instances of dedup and
/// scheduler are run here until they have given all their partitions away; then DIR may be deleted.
/// Interrupted, the command can be repeated.
#[derive(Args)]
#[command(
    after_help = "Example:\n  rhumb adopt /mnt/disk-of-the-other-machine/rhumb-data --data mycrawl"
)]
pub(super) struct Adopt {
    /// Data directory of the machine that died
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    which: Which,
}

/// The configuration that the adopted instances run with, in their data directory.
const CONFIGURATION: &str = "adopt.json";
/// How often processes and table are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often the command says how far the moves are.
const SAY_EVERY: Duration = Duration::from_secs(2);

impl Adopt {
    /// Runs the instances until they are empty, or until it is interrupted.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let layers = self.which.layers();
        let running = handle::find(&layers).await?;
        let dir = std::fs::canonicalize(&self.dir).map_err(|error| {
            BadArguments(format!("{} cannot be read: {error}", self.dir.display()))
        })?;
        if std::fs::canonicalize(&running.pipeline.data).is_ok_and(|own| own == dir) {
            let message = format!(
                "{} is the data directory of the running crawl itself",
                dir.display()
            );
            return Err(BadArguments(message).into());
        }
        let buckets = ensure_buckets(&running.bus, &running.pipeline).await?;
        let adoption = Adoption {
            names: find(&dir, &buckets).await?,
            running,
            buckets,
            dir,
        };
        for name in &adoption.names {
            adoption.is_dead(name).await?;
        }
        let text = handle::resumed(layers)?.text()?;
        let mut processes = adoption.launch(&text).await?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let done = tokio::select! {
            done = adoption.empty(&mut processes) => Some(done),
            _ = interrupt.recv() => None,
            _ = terminate.recv() => None,
        };
        processes.drain().await;
        let Some(done) = done else {
            line("interrupted: what is left stays there; repeat the command to go on");
            return Ok(ExitCode::from(INTERRUPTED));
        };
        done?;
        adoption.check_empty().await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Instances that are brought back.
struct Adoption {
    names: Vec<Name>,
    running: Running,
    buckets: Buckets,
    dir: PathBuf,
}

/// The instances that have a folder in `dir` and partitions by the table, or something that they
/// had not passed on.
async fn find(dir: &Path, buckets: &Buckets) -> anyhow::Result<Vec<Name>> {
    let mut found = Vec::new();
    for stage in STAGES
        .iter()
        .filter(|row| row.has_state)
        .map(|row| row.name)
    {
        let folders = std::fs::read_dir(dir.join(stage))
            .into_iter()
            .flatten()
            .flatten();
        let mut instances: Vec<u16> = folders
            .filter_map(|folder| folder.file_name().to_str()?.parse().ok())
            .collect();
        instances.sort_unstable();
        if instances.is_empty() {
            continue;
        }
        let owners = owners(buckets, stage).await?;
        for instance in instances {
            if left(&owners, instance) > 0
                || buckets.register.state(stage, instance).await?.is_some()
            {
                found.push((stage.to_owned(), instance));
            }
        }
        if found.iter().any(|(of, _)| of == stage) {
            check_receivers(stage, &owners, &found)?;
        }
    }
    if found.is_empty() {
        let dir = dir.display();
        let message = format!(
            "nothing to adopt in {dir}: no instance of dedup or scheduler there has partitions"
        );
        return Err(BadArguments(message).into());
    }
    Ok(found)
}

/// Checks that there is somebody who may have the partitions.
fn check_receivers(stage: &str, owners: &Owners, found: &[Name]) -> Result<(), BadArguments> {
    let stays = |instance: &u16| !found.contains(&(stage.to_owned(), *instance));
    match owners.receivers().iter().any(stays) {
        true => Ok(()),
        false => Err(BadArguments(format!(
            "no other instance is to have the partitions of {stage}: ask for one first (rhumb \
             scale {stage}=N)"
        ))),
    }
}

/// How many partitions an instance has or is to take.
fn left(owners: &Owners, instance: u16) -> usize {
    owners
        .all()
        .filter(|(_, of)| of.owner == instance || of.comes_to(instance))
        .count()
}

async fn owners(buckets: &Buckets, stage: &str) -> anyhow::Result<Owners> {
    let found = buckets.owners.read(stage).await?;
    Ok(found
        .with_context(|| format!("the broker knows no owners of {stage}"))?
        .owners)
}

impl Adoption {
    /// Waits until the lease of an instance that has died is over.
    ///
    /// # Errors
    /// It renews its lease: it lives.
    async fn is_dead(&self, (stage, instance): &Name) -> anyhow::Result<()> {
        let mut before = None;
        while let Some(holder) = holder_of(&self.buckets.leases, stage, *instance).await? {
            let (life, revision) = *before.get_or_insert((holder.life, holder.revision));
            if (holder.life, holder.revision) != (life, revision) {
                let message = format!(
                    "{stage}.{instance} lives ({}): `rhumb scale {stage}=N` moves its partitions",
                    holder.whereabouts
                );
                return Err(BadArguments(message).into());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Starts the instances.
    async fn launch(&self, configuration: &str) -> anyhow::Result<Processes> {
        let (identity, _) = self
            .buckets
            .register
            .read()
            .await?
            .context("the broker holds no crawl of this name")?;
        let config = self.dir.join(CONFIGURATION);
        whole_file::replace(&config, configuration.as_bytes())
            .with_context(|| format!("cannot write {}", config.display()))?;
        let mut processes = Processes::new(Launch {
            binaries: binaries::folder()?,
            config,
            broker: self.running.broker.clone(),
            crawl_id: identity.mark.id,
            set: vec![assignment("data", &self.dir.display().to_string())],
            logs: self.dir.join("logs"),
        })?;
        for (stage, instances) in self.by_stage() {
            processes.run(&stage, &instances)?;
        }
        Ok(processes)
    }

    fn by_stage(&self) -> BTreeMap<String, BTreeSet<u16>> {
        let mut by_stage: BTreeMap<String, BTreeSet<u16>> = BTreeMap::new();
        for (stage, instance) in &self.names {
            by_stage.entry(stage.clone()).or_default().insert(*instance);
        }
        by_stage
    }

    /// Waits until the instances run, has the table empty them, and waits until they are.
    async fn empty(&self, processes: &mut Processes) -> anyhow::Result<()> {
        while !self.all_run().await? {
            processes.look_after()?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
        for (stage, instances) in self.by_stage() {
            let change = |owners: &mut Owners| {
                let without = owners
                    .without
                    .union(&instances)
                    .copied()
                    .filter(|of| *of < owners.wanted)
                    .collect();
                owners.want(owners.wanted, &without)
            };
            self.buckets.owners.change(&stage, change).await?;
        }
        let mut say_at = Instant::now();
        loop {
            processes.look_after()?;
            let mut total = 0;
            for (stage, instance) in &self.names {
                let left = left(&owners(&self.buckets, stage).await?, *instance);
                total += left;
                if say_at <= Instant::now() && left > 0 {
                    line(format_args!(
                        "{stage}.{instance}: {left} partitions are left"
                    ));
                }
            }
            if total == 0 {
                return Ok(());
            }
            if say_at <= Instant::now() {
                say_at = Instant::now() + SAY_EVERY;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Returns whether all are so far that they have found their state to be right.
    async fn all_run(&self) -> anyhow::Result<bool> {
        let awaited = Awaited::at_least(self.names.len());
        let asked = ask_all::<ProcessStatus>(&self.running.bus, &ControlRequest::Status, awaited);
        let there: BTreeSet<Name> = asked
            .await?
            .into_iter()
            .map(|process| (process.stage, process.instance))
            .collect();
        Ok(self.names.iter().all(|name| there.contains(name)))
    }

    /// Checks that the instances left nothing, now that they have ended.
    async fn check_empty(&self) -> anyhow::Result<()> {
        let dir = self.dir.display();
        for (stage, instance) in &self.names {
            let is_noted = self
                .buckets
                .register
                .state(stage, *instance)
                .await?
                .is_some();
            anyhow::ensure!(
                !is_noted,
                "{stage}.{instance} has no partitions any more, and ended before all that it had \
                 to pass on was stored: repeat the command ({dir}/logs says why)"
            );
            line(format_args!("{stage}.{instance} has given all away"));
        }
        line(format_args!("{dir} may be deleted"));
        Ok(())
    }
}

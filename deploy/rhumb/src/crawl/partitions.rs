//! How many instances of a stage with state there are: by the table of owners.
//!
//! In: the number that is wanted, and who is to have none. Out: processes. More are started at
//! once, and the partitions move to them; those that are too many end when they have given away all
//! that they had. One that runs on another machine is left there.
//!
//! Invariants: no instance that has a partition, or something in hand, is ended for good. What the
//! broker says of the owners is kept in the data directory, too, if there is one: a broker that
//! lost it is told.

use super::elsewhere::Elsewhere;
use super::standing::Standing;
use crate::processes::Processes;
use crate::stages::owns_partitions;
use anyhow::Context as _;
use rhumb_bus::{Buckets, OwnersBucket};
use rhumb_config::Pipeline;
use rhumb_config::identity::Misfit;
use rhumb_partition::{LEADER, Owners, OwnersTable};
use rhumb_telemetry::whole_file;
use rhumb_wire::topology::StageName;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file in the data directory that says who has the partitions.
pub(crate) const OWNERS: &str = "owners.json";
/// How often the tables are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long the broker may take to answer: the supervision does not wait for one that is away.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The instances that partitions are to be shared out among.
pub(super) struct Partitions {
    bucket: OwnersBucket,
    elsewhere: Elsewhere,
    /// By stage, as they were when they were looked at last.
    owners: BTreeMap<String, Owners>,
    /// None where no process runs here.
    file: Option<PathBuf>,
    next_look: Instant,
}

impl Partitions {
    /// Reads who has the partitions; from now on as many instances are wanted as the configuration
    /// has.
    ///
    /// # Errors
    /// The broker does not answer, or the file is damaged.
    pub(super) async fn open(
        buckets: &Buckets,
        pipeline: &Pipeline,
        data: &Path,
    ) -> anyhow::Result<Self> {
        let bucket = buckets.owners.clone();
        let elsewhere = Elsewhere::new(buckets.leases.clone(), buckets.lease);
        let file = data.join(OWNERS);
        let mut owners = read(&file)?;
        for (stage, common) in pipeline.stages.common() {
            if owns_partitions(stage) {
                let begun = owners
                    .remove(stage)
                    .unwrap_or_else(|| Owners::new(pipeline.partitions, common.replicas));
                let OwnersTable { owners: held, .. } = bucket.read_or_begin(stage, begun).await?;
                owners.insert(stage.to_owned(), held);
            }
        }
        let mut this = Partitions {
            bucket,
            elsewhere,
            owners,
            file: Some(file),
            next_look: Instant::now(),
        };
        for (stage, common) in pipeline.stages.common() {
            if owns_partitions(stage) {
                this.want(stage, common.replicas, &BTreeSet::new()).await?;
            }
        }
        this.keep()?;
        Ok(this)
    }

    /// Reads who has the partitions of a crawl whose stages are deployed. Nothing of it is changed.
    ///
    /// # Errors
    /// The broker does not answer, or has no table.
    pub(super) async fn find(buckets: &Buckets, pipeline: &Pipeline) -> anyhow::Result<Self> {
        let bucket = buckets.owners.clone();
        let elsewhere = Elsewhere::new(buckets.leases.clone(), buckets.lease);
        let mut owners = BTreeMap::new();
        for (stage, _) in pipeline.stages.common() {
            if owns_partitions(stage) {
                let table = bucket.read(stage).await?;
                let table = table.with_context(|| {
                    format!("the broker knows no owners of {stage}: `rhumb init` makes them")
                })?;
                owners.insert(stage.to_owned(), table.owners);
            }
        }
        Ok(Partitions {
            bucket,
            elsewhere,
            owners,
            file: None,
            next_look: Instant::now(),
        })
    }

    /// What runs on other machines.
    pub(super) fn elsewhere(&self) -> &Elsewhere {
        &self.elsewhere
    }

    /// From now on `wanted` instances of a stage share its partitions, but for some: the next look
    /// starts those that are not there.
    ///
    /// # Errors
    /// The broker does not answer.
    pub(super) async fn want(
        &mut self,
        stage: &str,
        wanted: u16,
        without: &BTreeSet<u16>,
    ) -> anyhow::Result<()> {
        let OwnersTable { owners, .. } = self
            .bucket
            .change(stage, |owners: &mut Owners| owners.want(wanted, without))
            .await?;
        self.owners.insert(stage.to_owned(), owners);
        self.next_look = Instant::now();
        Ok(())
    }

    /// The owners of the partitions of each stage, as they were when they were looked at last.
    pub(super) fn owners(&self) -> &BTreeMap<String, Owners> {
        &self.owners
    }

    /// Has the schedulers grant nothing from now on, or go on.
    ///
    /// # Errors
    /// The broker does not answer.
    pub(super) async fn stop(&mut self, is_stopped: bool) -> anyhow::Result<()> {
        let stop = |owners: &mut Owners| {
            std::mem::replace(&mut owners.is_stopped, is_stopped) != is_stopped
        };
        self.bucket
            .change(StageName::Scheduler.name(), stop)
            .await?;
        Ok(())
    }

    /// Has the schedulers end what is kept back in traps, or not any more. Returns whether that is
    /// news.
    ///
    /// # Errors
    /// The broker does not answer.
    pub(super) async fn end_traps(&mut self, traps_end: bool) -> anyhow::Result<bool> {
        let mut is_news = false;
        let end = |owners: &mut Owners| {
            is_news = std::mem::replace(&mut owners.traps_end, traps_end) != traps_end;
            is_news
        };
        self.bucket.change(StageName::Scheduler.name(), end).await?;
        Ok(is_news)
    }

    /// Has partitions of a stage leave for an instance.
    ///
    /// # Errors
    /// The broker does not answer.
    pub(super) async fn send(
        &mut self,
        stage: &str,
        partitions: &[u16],
        to: u16,
    ) -> anyhow::Result<()> {
        let send = |owners: &mut Owners| {
            partitions
                .iter()
                .map(|&partition| owners.send(partition, to))
                .fold(false, |any, sent| any | sent)
        };
        self.bucket.change(stage, send).await?;
        Ok(())
    }

    /// Splits partitions, all or none of them. The table of the other stage follows.
    ///
    /// # Errors
    /// One of them cannot be split: why; or the broker does not answer.
    pub(super) async fn split(&mut self, partitions: &[u16]) -> anyhow::Result<()> {
        let mut refused = Ok(());
        let split = |owners: &mut Owners| {
            refused = partitions.iter().try_for_each(|&partition| {
                let split = owners.split(partition);
                split
                    .map(|_| ())
                    .map_err(|why| Misfit(format!("partition {partition} is not split: {why}")))
            });
            refused.is_ok()
        };
        self.bucket.change(LEADER.name(), split).await?;
        Ok(refused?)
    }

    fn keep(&self) -> anyhow::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        whole_file::replace(file, &serde_json::to_vec(&self.owners)?)
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Looks at the tables, if it is time to; says whether it did.
    pub(super) async fn look(&mut self) -> bool {
        if self.next_look > Instant::now() {
            return false;
        }
        self.next_look = Instant::now() + LOOK_EVERY;
        for (stage, owners) in &mut self.owners {
            // A broker that is away is no news.
            if let Ok(Ok(Some(now))) =
                tokio::time::timeout(ANSWER_MAX, self.bucket.read(stage)).await
            {
                *owners = now.owners;
            }
        }
        true
    }

    /// Starts instances that are to have partitions, and ends those that are too many and have
    /// given all away.
    ///
    /// # Errors
    /// A process cannot be started, or the file cannot be written.
    pub(super) async fn look_after(
        &mut self,
        processes: &mut Processes,
        standing: &mut Standing,
    ) -> anyhow::Result<()> {
        let before = self.owners.clone();
        if !self.look().await {
            return Ok(());
        }
        for (stage, owners) in &self.owners {
            let there = processes.instances(stage);
            let needed = owners.needed();
            let stays = |instance: &u16| {
                needed.contains(instance) || !standing.is_emptied(stage, *instance)
            };
            let mut here: BTreeSet<u16> = there.iter().copied().filter(stays).collect();
            let absent: BTreeSet<u16> = needed.difference(&there).copied().collect();
            let (ending, absent) = absent
                .into_iter()
                .partition(|instance| processes.is_ending(&(stage.clone(), *instance)));
            here.extend::<BTreeSet<u16>>(ending);
            if let Ok(Ok(free)) =
                tokio::time::timeout(ANSWER_MAX, self.elsewhere.look(stage, &absent, owners)).await
            {
                here.extend(free);
            }
            if here != there {
                tracing::info!(stage, from = ?there, to = ?here, "instances here by the partitions that they have");
                processes.run(stage, &here)?;
            }
            here.extend(self.elsewhere.of(stage));
            standing.has(stage, here);
        }
        if self.owners == before {
            Ok(())
        } else {
            self.keep()
        }
    }
}

/// The owners as they were kept; nothing in a new crawl.
fn read(file: &Path) -> anyhow::Result<BTreeMap<String, Owners>> {
    match std::fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            let file = file.display();
            Misfit(format!(
                "{file} is damaged ({error}): put it back; or remove it, if the broker was not lost"
            ))
            .into()
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

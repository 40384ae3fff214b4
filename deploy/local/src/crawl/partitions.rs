//! How many instances of a stage with state there are: by the table of owners.
//!
//! In: the number that is wanted. Out: processes. More are started at once, and the partitions move to them; those that are
//! too many end when they have given away all that they had.
//!
//! Invariants: no instance that has a partition, or something in hand, is ended for good. What the broker says of the owners
//! is kept in the data directory, too: a broker that lost it is told.

use super::standing::Standing;
use crate::processes::Processes;
use crate::stages::owns_partitions;
use anyhow::Context as _;
use shared::bus::{OwnersBucket, OwnersTable};
use shared::config::Pipeline;
use shared::identity::Misfit;
use shared::partitions::{LEADER, Owners};
use shared::topology::StageName;
use shared::whole_file;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file in the data directory that says who has the partitions.
pub(crate) const OWNERS: &str = "owners.json";
/// Why schedulers keep their partitions, and what an operator can do.
const BUDGETS: &str = "the schedulers of this crawl divide limits.max_pages or limits.pages_per_domain among them; set both to 0 \
                       (--resume --set limits.max_pages=0 --set limits.pages_per_domain=0)";
/// How often the tables are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long the broker may take to answer: the supervision does not wait for one that is away.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The instances that partitions are to be shared out among.
pub(super) struct Partitions {
    bucket: OwnersBucket,
    /// By stage, as they were when they were looked at last.
    owners: BTreeMap<String, Owners>,
    file: PathBuf,
    /// A budget of the crawl or of its domains is divided among the schedulers.
    has_budgets: bool,
    next_look: Instant,
}

impl Partitions {
    /// Reads who has the partitions; from now on as many instances are wanted as the configuration has.
    ///
    /// # Errors
    /// The broker does not answer, the file is damaged, or the schedulers of a crawl with budgets are to be others.
    pub(super) async fn open(bucket: OwnersBucket, pipeline: &Pipeline, data: &Path) -> anyhow::Result<Self> {
        let file = data.join(OWNERS);
        let mut owners = read(&file)?;
        let limits = &pipeline.limits;
        let has_budgets = limits.max_pages > 0 || limits.pages_per_domain > 0;
        for (stage, common) in pipeline.stages.common() {
            if owns_partitions(stage) {
                let begun = owners.remove(stage).unwrap_or_else(|| Owners::new(pipeline.partitions, common.replicas));
                let OwnersTable { owners: held, .. } = bucket.read_or_begin(stage, begun).await?;
                owners.insert(stage.to_owned(), held);
            }
        }
        let mut this = Partitions { bucket, owners, file, has_budgets, next_look: Instant::now() };
        for (stage, common) in pipeline.stages.common() {
            if owns_partitions(stage) {
                this.check(stage, common.replicas)?;
                this.write(stage, common.replicas).await?;
            }
        }
        this.keep()?;
        Ok(this)
    }

    /// How many instances of a stage have to run; none for one that has no partitions.
    pub(super) fn needed(&self, stage: &str) -> Option<u16> {
        Some(self.owners.get(stage)?.needed())
    }

    /// From now on `wanted` instances of a stage share its partitions.
    ///
    /// # Errors
    /// The schedulers of a crawl with budgets cannot become others; the broker does not answer, or a process cannot be
    /// started.
    pub(super) async fn want(&mut self, stage: &str, wanted: u16, processes: &mut Processes) -> anyhow::Result<()> {
        self.check(stage, wanted)?;
        self.write(stage, wanted).await?;
        let there = processes.replicas(stage);
        processes.scale(stage, there.max(wanted))
    }

    /// Has partitions of a stage leave for an instance.
    ///
    /// # Errors
    /// The schedulers of a crawl with budgets keep theirs; or the broker does not answer.
    pub(super) async fn send(&mut self, stage: &str, partitions: &[u16], to: u16) -> anyhow::Result<()> {
        if self.divides_budgets(stage) {
            return Err(Misfit(format!("partitions of the scheduler do not move: {BUDGETS}")).into());
        }
        let send = |owners: &mut Owners| {
            partitions.iter().map(|&partition| owners.send(partition, to)).fold(false, |any, sent| any | sent)
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
                split.map(|_| ()).map_err(|why| Misfit(format!("partition {partition} is not split: {why}")))
            });
            refused.is_ok()
        };
        self.bucket.change(LEADER.name(), split).await?;
        Ok(refused?)
    }

    /// Tokens of budgets are the schedulers', and do not move with partitions yet.
    fn divides_budgets(&self, stage: &str) -> bool {
        stage == StageName::Scheduler.name() && self.has_budgets
    }

    fn check(&self, stage: &str, wanted: u16) -> Result<(), Misfit> {
        let now = self.owners.get(stage).map_or(wanted, |owners| owners.wanted);
        if !self.divides_budgets(stage) || now == wanted {
            return Ok(());
        }
        Err(Misfit(format!("{now} schedulers cannot become {wanted}: {BUDGETS}")))
    }

    async fn write(&mut self, stage: &str, wanted: u16) -> anyhow::Result<()> {
        let change = |owners: &mut Owners| std::mem::replace(&mut owners.wanted, wanted) != wanted;
        let OwnersTable { owners, .. } = self.bucket.change(stage, change).await?;
        self.owners.insert(stage.to_owned(), owners);
        Ok(())
    }

    fn keep(&self) -> anyhow::Result<()> {
        whole_file::replace(&self.file, &serde_json::to_vec(&self.owners)?)
            .with_context(|| format!("cannot write {}", self.file.display()))
    }

    /// Starts instances that are to have partitions, and ends those that are too many and have given all away.
    ///
    /// # Errors
    /// A process cannot be started, or the file cannot be written.
    pub(super) async fn look_after(
        &mut self,
        processes: &mut Processes,
        standing: &mut Standing,
    ) -> anyhow::Result<()> {
        if self.next_look > Instant::now() {
            return Ok(());
        }
        self.next_look = Instant::now() + LOOK_EVERY;
        let mut has_news = false;
        for (stage, owners) in &mut self.owners {
            // A broker that is away is no news.
            if let Ok(Ok(Some(now))) = tokio::time::timeout(ANSWER_MAX, self.bucket.read(stage)).await {
                has_news |= *owners != now.owners;
                *owners = now.owners;
            }
            let (there, needed) = (processes.replicas(stage), owners.needed());
            let stays = (needed..there).rev().find(|&instance| !standing.is_emptied(stage, instance));
            let replicas = stays.map_or(needed, |last| last + 1);
            if replicas != there {
                tracing::info!(stage, from = there, to = replicas, "instances by the partitions that they have");
                processes.scale(stage, replicas)?;
            }
            standing.has(stage, replicas);
        }
        if has_news { self.keep() } else { Ok(()) }
    }
}

/// The owners as they were kept; nothing in a new crawl.
fn read(file: &Path) -> anyhow::Result<BTreeMap<String, Owners>> {
    match std::fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            let file = file.display();
            Misfit(format!("{file} is damaged ({error}): put it back; or remove it, if the broker was not lost")).into()
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

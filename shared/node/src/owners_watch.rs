//! The watch on the owners: who has the partitions of the stages that a process has to know of.
//!
//! In: the tables of owners at the broker, looked at every second, and the leases of the instances.
//! Out: the tables as they are. An instance with state also sees to its stage's table: it has
//! partitions leave that others are to have, and keeps what it gave to an instance that has gone.
//! Every instance may do so; the table's compare-and-swap lets one of them.

use super::ownership::holders;
use rhumb_bus::Buckets;
use rhumb_partition::{Due, LEADER, Oversight, Owners, OwnersTable};
use rhumb_wire::topology::StageName;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How often the tables are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time between two plans of the same instance.
const PLAN_EVERY: Duration = Duration::from_secs(5);

/// The tables by stage.
pub(super) type Tables = BTreeMap<StageName, OwnersTable>;

/// An instance of a stage with state.
#[derive(Clone, Copy)]
pub(super) struct Seat {
    pub(super) stage: StageName,
    pub(super) instance: u16,
}

/// Looks at the tables for as long as it lives.
pub(super) struct OwnersWatch {
    pub(super) tables: watch::Receiver<Tables>,
    task: tokio::task::JoinHandle<()>,
}

impl OwnersWatch {
    /// Begins with these tables; `seat`: whose table it sees to.
    pub(super) fn begin(buckets: Buckets, tables: Tables, seat: Option<Seat>) -> Self {
        let (sender, receiver) = watch::channel(tables);
        let now = Instant::now();
        let overseer = Overseer {
            buckets,
            seat,
            oversight: Oversight::default(),
            plan_at: now,
            began: now,
        };
        OwnersWatch {
            tables: receiver,
            task: tokio::spawn(overseer.look_on(sender)),
        }
    }
}

impl Drop for OwnersWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Overseer {
    buckets: Buckets,
    seat: Option<Seat>,
    oversight: Oversight,
    /// Partitions leave again only then: a move that was undone is not tried every second.
    plan_at: Instant,
    began: Instant,
}

impl Overseer {
    async fn look_on(mut self, sender: watch::Sender<Tables>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let stages: Vec<StageName> = sender.borrow().keys().copied().collect();
            for stage in stages {
                // A broker that is away is no news.
                let Ok(Some(mut table)) = self.buckets.owners.read(stage.name()).await else {
                    continue;
                };
                if stage == LEADER && self.follows(&sender.borrow(), &table) {
                    self.follow(&table).await;
                }
                if self.seat.is_some_and(|seat| seat.stage == stage) {
                    match self.see_to(table.clone()).await {
                        Ok(seen_to) => table = seen_to,
                        Err(error) => tracing::debug!(
                            stage = stage.name(),
                            "the owners cannot be seen to: {error:#}"
                        ),
                    }
                }
                sender.send_if_modified(|tables| {
                    let is_news = tables
                        .get(&stage)
                        .is_none_or(|known| known.revision < table.revision);
                    if is_news {
                        tables.insert(stage, table);
                    }
                    is_news
                });
            }
        }
    }

    /// Returns whether the leading table tells of splits of which that of this instance's stage
    /// does not.
    fn follows(&self, tables: &Tables, leader: &OwnersTable) -> bool {
        let own = self
            .seat
            .filter(|seat| seat.stage != LEADER)
            .and_then(|seat| tables.get(&seat.stage));
        own.is_some_and(|own| own.owners.partitions.len() < leader.owners.partitions.len())
    }

    /// Splits in the table of this instance's stage what the leading one has split.
    async fn follow(&self, leader: &OwnersTable) {
        let Some(Seat { stage, .. }) = self.seat else {
            return;
        };
        let follow = |owners: &mut Owners| owners.follow(&leader.owners);
        if let Err(error) = self.buckets.owners.change(stage.name(), follow).await {
            tracing::debug!(
                stage = stage.name(),
                "the splits cannot be followed: {error:#}"
            );
        }
    }

    /// Does what is to be done about the owners of this instance's stage.
    async fn see_to(&mut self, table: OwnersTable) -> anyhow::Result<OwnersTable> {
        let (Some(Seat { stage, instance }), owners) = (self.seat, &table.owners) else {
            return Ok(table);
        };
        if owners.are_even() && self.oversight.is_at_ease() {
            return Ok(table);
        }
        let holders = holders(&self.buckets.leases).await?;
        let lives = |instance: u16| holders.contains_key(&format!("{}.{instance}", stage.name()));
        let due = self
            .oversight
            .due(self.began.elapsed(), owners, instance, lives);
        match &due {
            Due::Nothing => return Ok(table),
            Due::Plan if Instant::now() < self.plan_at => return Ok(table),
            Due::Plan => self.plan_at = Instant::now() + PLAN_EVERY,
            Due::Keep(kept) => {
                let stage = stage.name();
                let partitions = kept.len();
                let to = kept.first().map(|(_, to)| *to);
                tracing::warn!(
                    stage,
                    instance,
                    partitions,
                    to,
                    "keeps partitions that were on their way to one that has gone"
                );
            }
        }
        let change = |owners: &mut _| due.change(owners, instance, lives);
        self.buckets.owners.change(stage.name(), change).await
    }
}

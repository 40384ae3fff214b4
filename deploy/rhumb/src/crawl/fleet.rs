//! Fleet: the stages of a crawl that others deployed, as its conductor sees them.
//!
//! In: the leases at the broker, which every process of every stage holds; the table of owners; of
//! Kubernetes, how many replicas its StatefulSets have. Out: how many processes there are; which
//! instances are missing, and what to do about them; how many are wanted. Invariant: nothing is
//! started or ended here.

use super::kubernetes::Kubernetes;
use super::partitions::Partitions;
use super::standing::Standing;
use crate::control::SUPERVISOR;
use crate::processes::Name;
use crate::stages::owns_partitions;
use async_nats::jetstream::kv;
use rhumb_node::{Holder, holders};
use rhumb_partition::Owners;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// For so many leases the lease of an instance that is needed has to be free until it counts as
/// missing.
const FREE_LEASES: u32 = 3;
/// Between two looks at the leases.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long the broker may take to answer: the conductor does not wait for one that is away.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The processes that are deployed.
pub(super) struct Fleet {
    leases: kv::Store,
    lease: Duration,
    /// Who holds a lease, and so lives.
    alive: BTreeMap<Name, Holder>,
    /// Instances that are needed and hold no lease, and since when.
    absent_since: BTreeMap<Name, Instant>,
    /// Those that are missing, in words.
    missing: BTreeMap<Name, String>,
    kubernetes: Option<Kubernetes>,
    next_look: Instant,
}

impl Fleet {
    /// Nothing is known of it yet.
    pub(super) fn new(leases: kv::Store, lease: Duration, kubernetes: Option<Kubernetes>) -> Self {
        let next_look = Instant::now();
        let alive = BTreeMap::new();
        let absent_since = BTreeMap::new();
        let missing = BTreeMap::new();
        Fleet {
            leases,
            lease,
            alive,
            absent_since,
            missing,
            kubernetes,
            next_look,
        }
    }

    /// How many processes live, those of stages beside the pipeline among them: they answer, too.
    pub(super) fn expected(&self) -> usize {
        self.alive.len()
    }

    /// The instances that are missing, each with what can be done.
    pub(super) fn in_words(&self) -> Vec<String> {
        self.missing.values().cloned().collect()
    }

    /// How many instances are missing.
    pub(super) fn missing(&self) -> usize {
        self.missing.len()
    }

    /// Says something to whoever looks at the deployment.
    pub(super) async fn announce(&mut self, why: &str) {
        if let Some(kubernetes) = &mut self.kubernetes {
            kubernetes
                .event("Over", "Normal", &format!("the crawl is {why}"))
                .await;
        }
    }

    /// Returns whether a command may change how many instances of a stage are wanted.
    ///
    /// # Errors
    /// It may not: who decides.
    pub(super) fn may_scale(&self, stage: &str, replicas: u16) -> anyhow::Result<()> {
        if !owns_partitions(stage) {
            anyhow::bail!(
                "the processes of {stage} are deployed by others: start or end some there, such as \
                 with kubectl scale deployment/... --replicas={replicas}"
            );
        }
        match self
            .kubernetes
            .as_ref()
            .and_then(|kubernetes| kubernetes.followed(stage))
        {
            Some((name, wanted)) if wanted != Some(replicas) => anyhow::bail!(
                "{stage} follows the StatefulSet {name}: kubectl scale statefulset/{name} \
                 --replicas={replicas}"
            ),
            _ => Ok(()),
        }
    }

    /// Looks who lives, who is missing, and how many are wanted.
    ///
    /// # Errors
    /// The broker does not take another wish.
    pub(super) async fn look_after(
        &mut self,
        partitions: &mut Partitions,
        standing: &mut Standing,
    ) -> anyhow::Result<()> {
        if self.next_look > Instant::now() {
            return Ok(());
        }
        self.next_look = Instant::now() + LOOK_EVERY;
        self.follow(partitions).await?;
        partitions.look().await;
        // A broker that is away is no news.
        let Ok(Ok(found)) = tokio::time::timeout(ANSWER_MAX, holders(&self.leases)).await else {
            return Ok(());
        };
        self.alive = found
            .into_iter()
            .filter_map(|(key, holder)| Some((name_of(&key)?, holder)))
            .collect();
        let mut news = Vec::new();
        for (stage, owners) in partitions.owners() {
            news.extend(self.miss(stage, owners));
            let of_stage = self
                .alive
                .keys()
                .filter(|(of, _)| of == stage)
                .map(|(_, instance)| *instance);
            standing.has(stage, owners.needed().into_iter().chain(of_stage).collect());
        }
        for words in news {
            tracing::error!("{words}");
            if let Some(kubernetes) = &mut self.kubernetes {
                kubernetes.event("InstanceMissing", "Warning", &words).await;
            }
        }
        Ok(())
    }

    /// Has as many instances wanted as the StatefulSets have replicas.
    async fn follow(&mut self, partitions: &mut Partitions) -> anyhow::Result<()> {
        let Some(kubernetes) = &mut self.kubernetes else {
            return Ok(());
        };
        for (stage, replicas) in kubernetes.look().await {
            let Some(owners) = partitions.owners().get(&stage) else {
                continue;
            };
            if owners.wanted == replicas {
                continue;
            }
            let without: BTreeSet<u16> = owners
                .without
                .iter()
                .copied()
                .filter(|of| *of < replicas)
                .collect();
            tracing::info!(
                stage,
                from = owners.wanted,
                to = replicas,
                "the StatefulSet has other replicas: partitions move"
            );
            partitions.want(&stage, replicas, &without).await?;
        }
        Ok(())
    }

    /// Notes which instances of a stage are missing. Returns what is to be said of those that were
    /// not before.
    fn miss(&mut self, stage: &str, owners: &Owners) -> Vec<String> {
        let mut news = Vec::new();
        let needed = owners.needed();
        let is_back = |(of, instance): &Name, alive: &BTreeMap<Name, Holder>| {
            of == stage
                && (!needed.contains(instance) || alive.contains_key(&(of.clone(), *instance)))
        };
        self.absent_since
            .retain(|name, _| !is_back(name, &self.alive));
        self.missing.retain(|name, _| !is_back(name, &self.alive));
        for &instance in &needed {
            let name = (stage.to_owned(), instance);
            let has = owners.all().filter(|(_, of)| of.owner == instance).count();
            if self.alive.contains_key(&name) || has == 0 {
                continue;
            }
            let since = self
                .absent_since
                .entry(name.clone())
                .or_insert_with(Instant::now);
            if since.elapsed() > self.lease * FREE_LEASES && !self.missing.contains_key(&name) {
                let words = missing(stage, instance, has, owners);
                news.push(words.clone());
                self.missing.insert(name, words);
            }
        }
        news
    }
}

/// What is said of an instance that has partitions and does not live.
fn missing(stage: &str, instance: u16, partitions: usize, owners: &Owners) -> String {
    if owners.receivers().contains(&instance) {
        return format!(
            "{stage}.{instance} has {partitions} partitions and does not run: start it again where \
             its files are; their URLs wait until then"
        );
    }
    let out = u32::from(instance) + 1;
    let back = owners.wanted;
    format!(
        "{stage}.{instance} ended before it had given its {partitions} partitions away: scale \
         {stage} out to {out}, so that it comes back with its files, and when it runs in to {back} \
         again"
    )
}

/// The stage and the instance of a lease; none of the conductor's own.
fn name_of(key: &str) -> Option<Name> {
    let (stage, instance) = key.rsplit_once('.')?;
    Some((stage.to_owned(), instance.parse().ok()?)).filter(|_| stage != SUPERVISOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_missing_is_named_with_what_can_be_done() {
        let mut owners = Owners::new(4, 3);
        let words = missing("dedup", 2, 1, &owners);
        assert!(
            words.starts_with("dedup.2 has 1 partitions and does not run: start it again"),
            "{words}"
        );
        owners.want(1, &BTreeSet::new());
        let words = missing("dedup", 2, 1, &owners);
        assert!(
            words.contains("scale dedup out to 3") && words.contains("in to 1 again"),
            "{words}"
        );
    }

    #[test]
    fn leases_name_stages_and_instances() {
        assert_eq!(
            name_of("host-splitter.12"),
            Some(("host-splitter".to_owned(), 12))
        );
        assert_eq!(
            name_of("find-titles.0"),
            Some(("find-titles".to_owned(), 0)),
            "of a stage beside the pipeline"
        );
        for other in ["supervisor.0", "dedup", "dedup.x"] {
            assert_eq!(name_of(other), None, "{other}");
        }
    }
}

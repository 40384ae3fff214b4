//! Instances elsewhere: those that run on other machines, from other data directories, and are none
//! of this supervisor's.
//!
//! In: the leases at the broker, the table of owners. Out: which instances may be started here.
//! Invariant: an instance that was seen to live elsewhere is started here only when it has no
//! partitions any more: its state is not here.

use crate::processes::Name;
use async_nats::jetstream::kv;
use rhumb_node::{Holder, holder_of};
use rhumb_partition::Owners;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// For so many leases the lease of one that runs elsewhere has to be free until another may take
/// its place.
const FREE_LEASES: u32 = 3;

/// What is known of the instances that run elsewhere.
pub(super) struct Elsewhere {
    leases: kv::Store,
    lease: Duration,
    known: BTreeMap<Name, Known>,
}

/// An instance whose lease was held by a process that is not this supervisor's.
struct Known {
    /// As it was seen last.
    holder: Holder,
    /// It has renewed the lease: it is not one that has just died.
    lives: bool,
    /// Since when nobody holds the lease.
    free_since: Option<Instant>,
    /// The operator knows that it is missing.
    is_missed: bool,
}

impl Elsewhere {
    /// Knows of none yet. `lease`: how long a lease lasts.
    pub(super) fn new(leases: kv::Store, lease: Duration) -> Self {
        Elsewhere {
            leases,
            lease,
            known: BTreeMap::new(),
        }
    }

    /// How many there are, those that are missing among them.
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    /// How many are missing.
    pub(super) fn missing(&self) -> usize {
        self.known.values().filter(|known| known.is_missed).count()
    }

    /// Those of a stage.
    pub(super) fn of(&self, stage: &str) -> impl Iterator<Item = u16> {
        self.known
            .keys()
            .filter(move |(of, _)| of == stage)
            .map(|(_, instance)| *instance)
    }

    /// Each with what is to be said of it, for people.
    pub(super) fn in_words(&self) -> Vec<String> {
        let words = |((stage, instance), known): (&Name, &Known)| match known.is_missed {
            true => format!(
                "{stage}.{instance} is missing; it was {}",
                known.holder.whereabouts
            ),
            false => format!("{stage}.{instance} is {}", known.holder.whereabouts),
        };
        self.known
            .iter()
            .filter(|(_, known)| known.lives)
            .map(words)
            .collect()
    }

    /// Looks at the instances of a stage that do not run here. Returns those among `absent`, which
    /// are needed, that may be started here.
    ///
    /// # Errors
    /// The broker does not tell of the leases.
    pub(super) async fn look(
        &mut self,
        stage: &str,
        absent: &BTreeSet<u16>,
        owners: &Owners,
    ) -> anyhow::Result<BTreeSet<u16>> {
        let mut free = BTreeSet::new();
        for instance in absent
            .iter()
            .copied()
            .chain(self.of(stage))
            .collect::<BTreeSet<u16>>()
        {
            let holder = holder_of(&self.leases, stage, instance).await?;
            let name = (stage.to_owned(), instance);
            let is_needed = absent.contains(&instance);
            match (holder, self.known.get_mut(&name)) {
                (None, None) => {}
                (Some(holder), known) => {
                    let was_known = known.as_ref().is_some_and(|known| known.lives);
                    let renewed = |known: &&mut Known| {
                        holder.life == known.holder.life && holder.revision > known.holder.revision
                    };
                    let lives = was_known || known.as_ref().is_some_and(renewed);
                    if lives && !was_known {
                        tracing::info!(
                            stage,
                            instance,
                            at = holder.whereabouts,
                            "runs elsewhere, and is not started here"
                        );
                    }
                    self.known.insert(
                        name,
                        Known {
                            holder,
                            lives,
                            free_since: None,
                            is_missed: false,
                        },
                    );
                    continue;
                }
                (None, Some(known)) if known.lives && is_needed => {
                    let since = known.free_since.get_or_insert_with(Instant::now);
                    if since.elapsed() <= self.lease * FREE_LEASES {
                        continue;
                    }
                    let partitions = owners.all().filter(|(_, of)| of.owner == instance).count();
                    if partitions > 0 {
                        if !std::mem::replace(&mut known.is_missed, true) {
                            let was = &known.holder.whereabouts;
                            tracing::error!(
                                "{stage}.{instance} has {partitions} partitions and does not run: \
                                 it was {was}, and its state lies in the data directory there. \
                                 Start it there again; or, if that machine is gone, name a copy of \
                                 that directory (rhumb adopt DIR)"
                            );
                        }
                        continue;
                    }
                }
                (None, Some(_)) => {}
            }
            self.known.remove(&name);
            if is_needed {
                free.insert(instance);
            }
        }
        Ok(free)
    }
}

//! Moves ahead: what of the moves of an instance is done while its core works.
//!
//! ```text
//!  table ─▶ leaving ─▶ copy sent ─▶ the receiver has it ─▶ ready to be given ──┐
//!           coming ──▶ parts taken in ─▶ the last one, too ─▶ ready to be taken ┴─▶ the life of the core ends
//! ```
//!
//! In: the table of owners, as it is looked at; commits of the core. Out: partitions that are
//! ready, and what the mover needs to give and take them. Invariant: all rows that change after the
//! copy of a partition began are noted.

use super::desk::Desk;
use super::loading::{Coming, Event, Loaded, Receiving};
use super::sending::{Sending, Sent, ToSend};
use rhumb_partition::{Owners, Ready};
use rhumb_stage::Beside;
use rhumb_stage::Changed;
use rhumb_stage::store::{Changes, StoreError};
use std::collections::BTreeMap;
use std::time::Duration;

/// What an instance does of its moves while its core works.
pub(crate) struct Ahead {
    desk: Desk,
    /// The number of the copies of this life.
    copy: u64,
    changed: Changed,
    /// Partitions that leave, with their versions.
    leaving: BTreeMap<u16, u64>,
    sending: Sending,
    sent: BTreeMap<u16, Sent>,
    /// Partitions that come, with their versions.
    coming: BTreeMap<u16, u64>,
    receiving: Receiving,
    loaded: BTreeMap<u16, Loaded>,
}

/// What the life of a core leaves of its moves to the mover, and the mover to the next life.
#[derive(Default)]
pub(crate) struct Brought {
    pub(super) changed: Changed,
    pub(super) sent: BTreeMap<u16, Sent>,
    pub(super) coming: BTreeMap<u16, Coming>,
    pub(super) loaded: BTreeMap<u16, Loaded>,
}

impl Ahead {
    /// Goes on with the partitions that were coming in an earlier life. `epoch`: of this life.
    pub(crate) fn begin(desk: Desk, epoch: u64, Brought { coming, loaded, .. }: Brought) -> Self {
        let versions = coming
            .iter()
            .map(|(&partition, of)| (partition, of.version));
        let versions = versions
            .chain(
                loaded
                    .iter()
                    .map(|(&partition, of)| (partition, of.version)),
            )
            .collect();
        Ahead {
            copy: epoch,
            changed: Changed::default(),
            leaving: BTreeMap::new(),
            sending: Sending::begin(desk.clone()),
            sent: BTreeMap::new(),
            coming: versions,
            receiving: Receiving::begin(desk.clone(), coming),
            loaded,
            desk,
        }
    }

    /// Notes what is about to be committed.
    pub(crate) fn note(&mut self, changes: &Changes) {
        self.changed.note(&self.desk.rows, changes);
    }

    /// Looks at the table: begins what is to leave and to come, gives up what is not any more.
    /// Returns partitions that were to come, and of which rows are left.
    ///
    /// # Errors
    /// The store cannot be read, or what the stage keeps beside it.
    pub(crate) fn look(
        &mut self,
        owners: &Owners,
        mut beside: Option<&mut dyn Beside>,
    ) -> Result<Vec<u16>, StoreError> {
        self.hear();
        if usize::from(self.desk.rows.directory.ids()) != owners.partitions.len() {
            self.desk.rows.directory = owners.directory();
        }
        let leaving = owners.leaving(self.desk.instance).into_iter();
        let leaving: BTreeMap<u16, u64> = leaving
            .map(|(partition, _)| (partition, owners.version(partition)))
            .collect();
        for partition in differing(&self.leaving, &leaving) {
            self.sent.remove(&partition);
            self.changed.take(partition);
            if let Some(beside) = &mut beside {
                beside.take_later(partition, &mut |_| Ok(()))?;
            }
        }
        for partition in differing(&leaving, &self.leaving) {
            self.changed.watch(partition);
            let copied = match &mut beside {
                Some(beside) => Some((beside.name(), beside.copy(partition)?)),
                None => None,
            };
            let rows = self.desk.rows.clone();
            self.sending.send(ToSend {
                rows,
                partition,
                version: leaving[&partition],
                copy: self.copy,
                copied,
            });
        }
        self.leaving = leaving;
        let coming: BTreeMap<u16, u64> = owners.coming_to(self.desk.instance).into_iter().collect();
        let given_up = differing(&self.coming, &coming);
        for &partition in &given_up {
            self.receiving.give_up(partition);
            self.loaded.remove(&partition);
        }
        for partition in differing(&coming, &self.coming) {
            self.load(owners, partition, beside.as_deref_mut())?;
        }
        self.coming = coming;
        Ok(given_up)
    }

    /// Begins to take a partition in, unless an earlier process had all of it already.
    fn load(
        &mut self,
        owners: &Owners,
        partition: u16,
        beside: Option<&mut dyn Beside>,
    ) -> Result<(), StoreError> {
        let version = owners.version(partition);
        if let Some(copy) = owners.copy(partition)
            && self.desk.rows.has_whole(partition, version, copy)?
        {
            self.loaded.insert(
                partition,
                Loaded {
                    version,
                    copy,
                    importing: None,
                    worked: Duration::ZERO,
                },
            );
            return Ok(());
        }
        let importing = match beside {
            Some(beside) => Some((beside.name(), beside.importer(partition)?)),
            None => None,
        };
        self.receiving
            .load(self.desk.rows.clone(), partition, version, importing);
        Ok(())
    }

    /// Returns whether partitions are on their way from the instance, or to it.
    pub(crate) fn is_moving(&self) -> bool {
        !self.leaving.is_empty() || !self.coming.is_empty()
    }

    /// Partitions that are on their way to the instance: what the store has of them is theirs.
    pub(crate) fn comes(&self, partition: u16) -> bool {
        self.coming.contains_key(&partition)
    }

    /// What can be given and taken as soon as the life of the core ends.
    pub(crate) fn ready(&self) -> Ready {
        Ready {
            to_give: self
                .sent
                .iter()
                .map(|(&partition, of)| (partition, of.copy))
                .collect(),
            to_take: self
                .loaded
                .iter()
                .map(|(&partition, of)| (partition, of.copy))
                .collect(),
        }
    }

    /// Takes note of what the tasks have done.
    fn hear(&mut self) {
        while let Some((partition, sent)) = self.sending.next_done() {
            if self.leaving.get(&partition) == Some(&sent.version) {
                self.sent.insert(partition, sent);
            }
        }
        while let Some((partition, event)) = self.receiving.next_event() {
            self.receives(partition, event);
        }
    }

    fn receives(&mut self, partition: u16, event: Event) {
        match event {
            Event::Loaded(loaded) if self.coming.get(&partition) == Some(&loaded.version) => {
                self.loaded.insert(partition, loaded);
            }
            Event::Loaded(_) => {}
            Event::Ended => {
                // It begins anew with the next look.
                self.coming.remove(&partition);
                self.loaded.remove(&partition);
            }
        }
    }

    /// Ends with the life of the core.
    pub(crate) async fn end(mut self) -> Brought {
        self.hear();
        let Ahead {
            changed,
            sent,
            receiving,
            mut loaded,
            ..
        } = self;
        let (mut coming, last) = receiving.end().await;
        for (partition, event) in last {
            match event {
                Event::Loaded(of) => _ = loaded.insert(partition, of),
                Event::Ended => {
                    coming.remove(&partition);
                    loaded.remove(&partition);
                }
            }
        }
        Brought {
            changed,
            sent,
            coming,
            loaded,
        }
    }
}

/// The partitions of the one that the other does not have under the same version.
fn differing(one: &BTreeMap<u16, u64>, other: &BTreeMap<u16, u64>) -> Vec<u16> {
    one.iter()
        .filter(|(partition, version)| other.get(partition) != Some(version))
        .map(|(&partition, _)| partition)
        .collect()
}

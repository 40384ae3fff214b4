//! Moves ahead: what of its moves an instance does while its core works, a little with each upkeep,
//! as the tasks of a process do it: the steps are the same, the broker is one in memory.

use super::agenda::{Place, Process};
use super::around::Around;
use super::scaling::Asked;
use bytes::Bytes;
use rhumb_partition::{Owners, Ready};
use rhumb_stage::store::{Changes, Table};
use rhumb_stage::{
    Beside, Bill, Changed, Copied, Follows, Importing, Loading, Removal, Rows, Unfit,
};
use std::collections::{BTreeMap, VecDeque};

/// Rows that one commit removes.
const ROWS_REMOVED_AT_ONCE: usize = 7;

/// A partition that leaves.
pub(crate) struct Leaving {
    pub(crate) version: u64,
    pub(crate) copy: u64,
    state: Sending,
    /// The parts that follow the copy.
    pub(crate) loading: Option<Loading>,
}

enum Sending {
    /// The copy has begun; its rows are read some time later.
    Begun(Option<(Table, Box<dyn Copied>)>),
    /// Parts that are not in their stream yet.
    Parts(VecDeque<Bytes>),
}

/// A partition that comes.
pub(crate) struct Coming {
    version: u64,
    copy: Option<u64>,
    number: u32,
    sequence: u64,
    pub(crate) importing: Option<(Table, Box<dyn Importing>)>,
    is_to_tell: bool,
    pub(crate) is_whole: bool,
}

impl Coming {
    /// Returns whether all rows of this copy have come.
    pub(crate) fn is_all_of(&self, version: u64, copy: u64) -> bool {
        self.is_whole && self.version == version && self.copy == Some(copy)
    }
}

/// What an instance does of its moves while its core works, and what it leaves to the next life.
#[derive(Default)]
pub(crate) struct Ahead {
    pub(crate) changed: Changed,
    pub(crate) leaving: BTreeMap<u16, Leaving>,
    pub(crate) coming: BTreeMap<u16, Coming>,
}

impl Ahead {
    /// What a life that begins goes on with.
    pub(crate) fn going_on(self) -> Self {
        Ahead {
            coming: self.coming,
            ..Ahead::default()
        }
    }

    /// Looks at the table. Returns partitions of which rows are left.
    pub(crate) fn look(
        &mut self,
        owners: &Owners,
        (instance, epoch): (u16, u64),
        rows: &Rows,
        mut beside: Option<&mut dyn Beside>,
    ) -> Vec<u16> {
        let leaving: BTreeMap<u16, u64> = owners
            .leaving(instance)
            .into_iter()
            .map(|(partition, _)| (partition, owners.version(partition)))
            .collect();
        let undone: Vec<u16> = differing(
            self.leaving.iter().map(|(of, is)| (*of, is.version)),
            &leaving,
        );
        for partition in undone {
            self.leaving.remove(&partition);
            self.changed.take(partition);
            if let Some(beside) = &mut beside {
                beside
                    .take_later(partition, &mut |_| Ok(()))
                    .expect("it can be read");
            }
        }
        for (&partition, &version) in &leaving {
            if !self.leaving.contains_key(&partition) {
                self.changed.watch(partition);
                let copied = beside.as_mut().map(|beside| {
                    (
                        beside.name(),
                        beside.copy(partition).expect("it can be read"),
                    )
                });
                let state = Sending::Begun(copied);
                self.leaving.insert(
                    partition,
                    Leaving {
                        version,
                        copy: epoch,
                        state,
                        loading: None,
                    },
                );
            }
        }
        let coming: BTreeMap<u16, u64> = owners.coming_to(instance).into_iter().collect();
        let given_up = differing(
            self.coming.iter().map(|(of, is)| (*of, is.version)),
            &coming,
        );
        given_up
            .iter()
            .for_each(|partition| _ = self.coming.remove(partition));
        for (&partition, &version) in &coming {
            if self.coming.contains_key(&partition) {
                continue;
            }
            let copy = owners.copy(partition);
            let is_whole = copy.is_some_and(|copy| {
                rows.has_whole(partition, version, copy)
                    .expect("a store in memory does not fail")
            });
            let importing = beside.as_mut().filter(|_| !is_whole).map(|beside| {
                (
                    beside.name(),
                    beside.importer(partition).expect("it can be written"),
                )
            });
            let copy = copy.filter(|_| is_whole);
            let number = 0;
            let sequence = 0;
            let is_to_tell = false;
            self.coming.insert(
                partition,
                Coming {
                    version,
                    copy,
                    number,
                    sequence,
                    importing,
                    is_to_tell,
                    is_whole,
                },
            );
        }
        given_up
    }

    /// What can be given and taken as soon as the life of the core ends.
    pub(crate) fn ready(&self) -> Ready {
        let is_sent = |of: &&Leaving| matches!(&of.state, Sending::Parts(left) if left.is_empty());
        let to_give = self
            .leaving
            .iter()
            .filter(|(_, of)| is_sent(of))
            .map(|(partition, of)| (*partition, of.copy));
        let to_take = self.coming.iter().filter(|(_, of)| of.is_whole);
        let to_take = to_take.filter_map(|(partition, of)| Some((*partition, of.copy?)));
        Ready {
            to_give: to_give.collect(),
            to_take: to_take.collect(),
        }
    }

    /// Sends some parts and takes some in. `may_write`: the lease is held.
    pub(crate) fn work(
        &mut self,
        process: Process,
        rows: &Rows,
        may_write: bool,
        around: &mut Around,
    ) {
        for partition in self.leaving.keys().copied().collect::<Vec<_>>() {
            self.send(process.place, partition, rows, around);
        }
        for partition in self.coming.keys().copied().collect::<Vec<_>>() {
            for _ in 0..around.dice.below(4) {
                if may_write && !self.take_in(process.place, partition, rows, around) {
                    break;
                }
            }
        }
    }

    fn send(&mut self, place: Place, partition: u16, rows: &Rows, around: &mut Around) {
        if around.asks_broker(place) != Asked::Answered || around.dice.chance(3_000) {
            return;
        }
        let Some(leaving) = self.leaving.get_mut(&partition) else {
            return;
        };
        let version = leaving.version;
        let copy = leaving.copy;
        if let Sending::Begun(copied) = &mut leaving.state {
            // The stream does not take all parts in time.
            if around.dice.chance(200) {
                let keep = |owners: &mut Owners| {
                    owners.version(partition) == version && owners.keep(partition, place.instance)
                };
                around.change_owners(place.stage, keep);
                return;
            }
            around
                .moves
                .parts
                .retain(|(stage, of, _), _| (*stage, *of) != (place.stage, partition));
            let full = *around
                .dice
                .pick(&[64, 600, 1 << 19])
                .expect("three lengths");
            let mut loading = Loading::of_parts(bill(place, partition, version), copy, full);
            let mut parts = VecDeque::new();
            let copied = copied
                .as_mut()
                .map(|(name, copied)| (*name, copied.as_mut()));
            let read = rows.copy(copied, partition, &mut loading, &mut |part| {
                parts.push_back(part);
                Ok(())
            });
            read.expect("the store is read");
            (leaving.state, leaving.loading) = (Sending::Parts(parts), Some(loading));
        }
        let Sending::Parts(parts) = &mut leaving.state else {
            return;
        };
        let some = around.dice.below(parts.len() + 1);
        let some: Vec<Bytes> = parts.drain(..some).collect();
        around
            .moves
            .publish((place.stage, partition, version), some);
    }

    /// Takes a part in; false when there is none for now.
    fn take_in(&mut self, place: Place, partition: u16, rows: &Rows, around: &mut Around) -> bool {
        let Some(coming) = self.coming.get_mut(&partition) else {
            return false;
        };
        let version = coming.version;
        let instance = place.instance;
        if coming.is_to_tell {
            match around.asks_broker(place) {
                Asked::Lost => return false,
                asked => {
                    let copy = coming.copy.expect("it has a copy");
                    around.change_owners(place.stage, |owners| {
                        owners.copied(partition, version, copy, instance)
                    });
                    coming.is_to_tell = asked != Asked::Answered;
                }
            }
        }
        let Some((sequence, mut part)) = around
            .moves
            .next_part((place.stage, partition, version), coming.sequence)
        else {
            return false;
        };
        if around.asks_broker(place) != Asked::Answered {
            return false;
        }
        if around.dice.chance(50) {
            part = damaged(&part, around.dice.below(part.len()));
        }
        if coming.number == 0 && !coming.is_whole {
            remove_rows(rows, partition);
        }
        let importing = coming
            .importing
            .as_mut()
            .map(|(name, importing)| (*name, importing.as_mut()));
        let taken = rows.of_part(
            importing,
            partition,
            (&bill(place, partition, version), coming.copy, coming.number),
            &part,
        );
        match taken {
            Ok((changes, copy, follows)) => {
                rows.store
                    .commit(&changes)
                    .expect("a store in memory does not fail");
                (coming.copy, coming.number, coming.sequence) =
                    (Some(copy), coming.number + 1, sequence + 1);
                coming.is_to_tell |= follows == Follows::Changes;
                coming.is_whole = follows == Follows::Nothing;
                return true;
            }
            // Its sender begins anew.
            Err(Unfit::Copy { .. }) => {}
            Err(unfit) => {
                around.tell(|| format!("{place:?} refuses {partition}: {unfit}"));
                if around.asks_broker(place) != Asked::Lost {
                    around.change_owners(place.stage, |owners| {
                        owners.refuse(partition, version, instance)
                    });
                }
            }
        }
        self.coming.remove(&partition);
        false
    }
}

/// Who gives what: parts say so.
pub(crate) fn bill(place: Place, partition: u16, version: u64) -> Bill {
    Bill::new("simulation", place.stage.name(), partition, version)
}

/// Removes all rows of a partition.
pub(crate) fn remove_rows(rows: &Rows, partition: u16) {
    let mut removal = Removal::default();
    loop {
        let mut changes = Changes::default();
        if rows
            .remove(&mut changes, partition, &mut removal, ROWS_REMOVED_AT_ONCE)
            .expect("the store is read")
            == 0
        {
            return;
        }
        rows.store
            .commit(&changes)
            .expect("a store in memory does not fail");
    }
}

/// The partitions of the one that the other does not have under the same version.
fn differing(one: impl Iterator<Item = (u16, u64)>, other: &BTreeMap<u16, u64>) -> Vec<u16> {
    one.filter(|(partition, version)| other.get(partition) != Some(version))
        .map(|(partition, _)| partition)
        .collect()
}

fn damaged(part: &[u8], at: usize) -> Bytes {
    let mut bytes = part.to_vec();
    bytes[at] ^= 0x10;
    bytes.into()
}

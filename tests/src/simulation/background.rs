//! The work of a migration in the background: a little with each upkeep, over a broker in memory.
//! What is to be done the migration says, as in a process.

use super::agenda::{Place, Process};
use super::around::Around;
use super::scaling::Asked;
use bytes::Bytes;
use rhumb_stage::node::{Background, Coming, Copying, InstanceId, Migration, Sent, Taken};
use rhumb_stage::store::{MemoryStore, Store as _};
use std::collections::{BTreeMap, VecDeque};

/// An instance of the simulated crawl.
pub(crate) fn instance_id(place: Place) -> InstanceId {
    InstanceId {
        crawl: "simulation".to_owned(),
        stage: place.stage.name(),
        instance: place.instance,
    }
}

/// A copy that is being sent.
enum Sending {
    /// Its rows are read some time after it began.
    Begun(Copying),
    /// Parts that are not in their stream yet.
    Parts(u16, u64, VecDeque<Bytes>, Sent),
}

/// What is in hand.
#[derive(Default)]
pub(crate) struct Workers {
    /// One after the other.
    sending: VecDeque<Sending>,
    coming: BTreeMap<u16, Box<Coming>>,
}

impl Workers {
    /// What was being taken in, for the next life.
    pub(crate) fn end(self) -> impl Iterator<Item = Coming> {
        self.coming.into_values().map(|coming| *coming)
    }

    /// Sends some parts and takes some in. `may_write`: the lease is held.
    pub(crate) fn work(
        &mut self,
        process: Process,
        migration: &mut Migration,
        store: &MemoryStore,
        may_write: bool,
        around: &mut Around,
    ) {
        while let Some(work) = migration.next_background() {
            match work {
                Background::Copy(copying) => self.sending.push_back(Sending::Begun(copying)),
                Background::Load(coming) => _ = self.coming.insert(coming.partition, coming),
                Background::GiveUp(partition) => _ = self.coming.remove(&partition),
            }
        }
        for _ in 0..self.sending.len() {
            self.send(process.place, migration, around);
        }
        for partition in self.coming.keys().copied().collect::<Vec<_>>() {
            for _ in 0..around.dice.below(4) {
                if may_write && !self.take_in(process.place, partition, migration, store, around) {
                    break;
                }
            }
        }
    }

    /// Goes on with the first copy.
    fn send(&mut self, place: Place, migration: &mut Migration, around: &mut Around) {
        if around.asks_broker(place) != Asked::Answered || around.dice.chance(3_000) {
            return;
        }
        let (partition, version, mut parts, sent) = match self.sending.pop_front() {
            None => return,
            Some(Sending::Begun(copying)) => {
                // The stream does not take all parts in time.
                if around.dice.chance(200) {
                    let keep = instance_id(place).keeps(
                        copying.partition,
                        copying.version,
                        &"the stream is full",
                    );
                    around.make(place, &keep);
                    return;
                }
                read(place, copying, around)
            }
            Some(Sending::Parts(partition, version, parts, sent)) => {
                (partition, version, parts, sent)
            }
        };
        let some = around.dice.below(parts.len() + 1);
        let some: Vec<Bytes> = parts.drain(..some).collect();
        around
            .moves
            .publish((place.stage, partition, version), some);
        if parts.is_empty() {
            migration.sent(partition, sent);
        } else {
            self.sending
                .push_front(Sending::Parts(partition, version, parts, sent));
        }
    }

    /// Takes a part in; false when there is none for now.
    fn take_in(
        &mut self,
        place: Place,
        partition: u16,
        migration: &mut Migration,
        store: &MemoryStore,
        around: &mut Around,
    ) -> bool {
        let Some(coming) = self.coming.get_mut(&partition) else {
            return false;
        };
        if let Some(told) = coming.to_tell() {
            if !around.asks_to_make(place, &told) {
                return false;
            }
            coming.told();
        }
        let version = coming.version;
        let next = around
            .moves
            .next_part((place.stage, partition, version), coming.sequence());
        let Some((sequence, mut part)) = next else {
            return false;
        };
        if around.asks_broker(place) != Asked::Answered {
            return false;
        }
        if around.dice.chance(50) {
            part = damaged(&part, around.dice.below(part.len()));
        }
        let taken = coming.take(sequence, &part, &mut |changes| Ok(store.commit(changes)?));
        match taken {
            Taken::More => return true,
            Taken::Whole => {
                let loaded = coming.loaded();
                migration.loaded(partition, loaded);
                return true;
            }
            Taken::Ended => {}
            Taken::Refused(why) => {
                around.tell(|| format!("{place:?} refuses {partition}: {why}"));
                let refuse = instance_id(place).refuses(partition, version, &why);
                around.asks_to_make(place, &refuse);
            }
        }
        self.coming.remove(&partition);
        migration.ended(partition);
        false
    }
}

/// Reads a partition into parts.
fn read(place: Place, copying: Copying, around: &mut Around) -> (u16, u64, VecDeque<Bytes>, Sent) {
    let partition = copying.partition;
    let version = copying.version;
    around
        .moves
        .parts
        .retain(|(stage, of, _), _| (*stage, *of) != (place.stage, partition));
    let lengths = [64, 600, 1 << 19];
    let part_bytes = *around.dice.pick(&lengths).expect("three lengths");
    let mut parts = VecDeque::new();
    let sent = copying.read(part_bytes, &mut |part| {
        parts.push_back(part);
        Ok(())
    });
    (partition, version, parts, sent.expect("the store is read"))
}

fn damaged(part: &[u8], at: usize) -> Bytes {
    let mut bytes = part.to_vec();
    bytes[at] ^= 0x10;
    bytes.into()
}

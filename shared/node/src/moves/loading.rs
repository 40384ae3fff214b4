//! Takes in the parts of partitions that come, a part of each in turn, while the core works with
//! others.
//!
//! In: partitions that are on their way to the instance; their parts in the stream of moves. Out:
//! their rows, committed; the word that the instance has a copy, in the table of owners; which have
//! come to the last row. Invariants: the core does not use the partitions whose rows are written;
//! nothing is written after the end of the instance's lease.

use super::desk::{Desk, NotWritten};
use super::work::Work;
use bytes::Bytes;
use rhumb_stage::Importing;
use rhumb_stage::Rows;
use rhumb_stage::store::Table;
use rhumb_stage::{Bill, Follows, Unfit};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long to wait for the next part when there is none yet, or the broker does not answer.
const WAIT: Duration = Duration::from_millis(100);

/// A partition that comes: how far it has come.
pub(super) struct Coming {
    /// Where its rows go: which are its is told by the table that sent it.
    rows: Rows,
    pub(super) version: u64,
    /// The copy that is under way; none before its first part.
    copy: Option<u64>,
    /// The next part, and where in the stream it is at the earliest.
    number: u32,
    sequence: u64,
    /// The next part with its place, if it came while the one before was taken in.
    next: Option<(u64, Bytes)>,
    /// What the stage keeps beside its tables, with its name.
    importing: Option<(Table, Box<dyn Importing>)>,
    /// The owner is to be told that the copy is there.
    is_to_tell: bool,
    /// Of the processor, in all; the rest of the time it rested.
    worked: Duration,
}

/// A partition that has come.
pub(super) struct Loaded {
    pub(super) version: u64,
    pub(super) copy: u64,
    pub(super) importing: Option<Box<dyn Importing>>,
    /// How long the processor worked to take it in.
    pub(super) worked: Duration,
}

/// What the task that takes in is told.
enum Order {
    Load(u16, Box<Coming>),
    GiveUp(u16),
}

/// What has become of a partition.
pub(super) enum Event {
    Loaded(Loaded),
    /// Its sender begins anew, or it cannot be taken.
    Ended,
}

/// The task that takes in.
pub(super) struct Receiving {
    orders: mpsc::UnboundedSender<Order>,
    events: mpsc::UnboundedReceiver<(u16, Event)>,
    task: tokio::task::JoinHandle<BTreeMap<u16, Coming>>,
}

impl Receiving {
    /// Goes on with what an earlier life of the core began.
    pub(super) fn begin(desk: Desk, coming: BTreeMap<u16, Coming>) -> Self {
        let (orders, queue) = mpsc::unbounded_channel();
        let (tell, events) = mpsc::unbounded_channel();
        let task = tokio::spawn(Intake(desk).work(coming, queue, tell));
        Receiving {
            orders,
            events,
            task,
        }
    }

    /// Begins to take in a partition. `importing`: for what the stage keeps beside its tables, with
    /// its name.
    pub(super) fn load(
        &self,
        rows: Rows,
        partition: u16,
        version: u64,
        importing: Option<(Table, Box<dyn Importing>)>,
    ) {
        let copy = None;
        let worked = Duration::ZERO;
        let coming = Coming {
            rows,
            version,
            copy,
            number: 0,
            sequence: 1,
            next: None,
            importing,
            is_to_tell: false,
            worked,
        };
        // The task lives until this ends it.
        let _ = self.orders.send(Order::Load(partition, Box::new(coming)));
    }

    pub(super) fn give_up(&self, partition: u16) {
        let _ = self.orders.send(Order::GiveUp(partition));
    }

    /// What has become of a partition since this was asked last.
    pub(super) fn next_event(&mut self) -> Option<(u16, Event)> {
        self.events.try_recv().ok()
    }

    /// Ends after the part in hand. Returns what it was at, and the last events.
    pub(super) async fn end(self) -> (BTreeMap<u16, Coming>, Vec<(u16, Event)>) {
        let Receiving {
            orders,
            mut events,
            task,
        } = self;
        drop(orders);
        // A task that panicked has nothing in hand.
        let coming = task.await.unwrap_or_default();
        (
            coming,
            std::iter::from_fn(|| events.try_recv().ok()).collect(),
        )
    }
}

/// What a partition's turn came to.
enum Turn {
    /// There is nothing for it now.
    Waits(Coming),
    /// It is a part further.
    Went(Coming),
    /// It is there. A part that follows is one of another copy.
    Came(Coming, Loaded),
    Ended,
}

/// Why a part is not taken.
#[derive(Debug, thiserror::Error)]
enum NotTaken {
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error(transparent)]
    NotWritten(#[from] NotWritten),
}

/// The task.
struct Intake(Desk);

impl Intake {
    async fn work(
        self,
        mut coming: BTreeMap<u16, Coming>,
        mut orders: mpsc::UnboundedReceiver<Order>,
        tell: mpsc::UnboundedSender<(u16, Event)>,
    ) -> BTreeMap<u16, Coming> {
        while !orders.is_closed() {
            let mut has_worked = false;
            for partition in coming.keys().copied().collect::<Vec<_>>() {
                let Some(of) = coming.remove(&partition).filter(|_| !orders.is_closed()) else {
                    continue;
                };
                match self.turn(partition, of).await {
                    Turn::Waits(of) => _ = coming.insert(partition, of),
                    Turn::Went(of) => {
                        has_worked = true;
                        coming.insert(partition, of);
                    }
                    Turn::Came(of, loaded) => {
                        coming.insert(partition, of);
                        let _ = tell.send((partition, Event::Loaded(loaded)));
                    }
                    Turn::Ended => _ = tell.send((partition, Event::Ended)),
                }
            }
            let wait = match (coming.is_empty(), has_worked) {
                (true, _) => Duration::MAX,
                (false, true) => Duration::ZERO,
                (false, false) => WAIT,
            };
            let mut next = tokio::time::timeout(wait, orders.recv())
                .await
                .ok()
                .flatten();
            while let Some(order) = next {
                match order {
                    Order::Load(partition, of) => _ = coming.insert(partition, *of),
                    Order::GiveUp(partition) => _ = coming.remove(&partition),
                }
                next = orders.try_recv().ok();
            }
        }
        coming
    }

    /// Takes in the next part of a partition, if it is there.
    async fn turn(&self, partition: u16, mut coming: Coming) -> Turn {
        if coming.is_to_tell && !self.tell(partition, &mut coming).await {
            return Turn::Waits(coming);
        }
        let version = coming.version;
        let next = match coming.next.take() {
            Some(next) => Some(next),
            None => self.part(partition, version, coming.sequence).await,
        };
        let Some((sequence, part)) = next else {
            return Turn::Waits(coming);
        };
        let bill = self.0.stream.bill(partition, version);
        let desk = self.0.clone();
        let taking = tokio::task::spawn_blocking(move || {
            let work = Work::begin();
            let follows = coming.take(&desk, partition, &bill, &part);
            (coming, follows, work.done())
        });
        let (taken, next) = tokio::join!(taking, self.part(partition, version, sequence + 1));
        let Ok((mut coming, follows, worked)) = taken else {
            return Turn::Ended;
        };
        coming.next = next;
        coming.worked += worked;
        tokio::time::sleep(self.0.stream.rest(worked)).await;
        coming.sequence = sequence + 1;
        match follows {
            Ok(Follows::More) => Turn::Went(coming),
            Ok(Follows::Changes) => {
                coming.is_to_tell = true;
                Turn::Went(coming)
            }
            Ok(Follows::Nothing) => {
                let importing = coming.importing.take().map(|(_, importing)| importing);
                let copy = coming.copy.unwrap_or_default();
                let worked = coming.worked;
                Turn::Came(
                    coming,
                    Loaded {
                        version,
                        copy,
                        importing,
                        worked,
                    },
                )
            }
            // Its sender begins anew, or the lease is over.
            Err(
                NotTaken::Unfit(Unfit::Copy { .. }) | NotTaken::NotWritten(NotWritten::LeaseOver),
            ) => Turn::Ended,
            Err(why) => {
                self.0.refuses(partition, version, &why).await;
                Turn::Ended
            }
        }
    }

    /// The next part of a partition, with its place; none when there is none yet, or the broker
    /// does not answer.
    async fn part(&self, partition: u16, version: u64, sequence: u64) -> Option<(u64, Bytes)> {
        let next = self.0.stream.next(partition, version, sequence).await;
        next.inspect_err(|error| {
            tracing::debug!(partition, "no part of a partition that comes: {error:#}")
        })
        .ok()?
    }

    /// Tells the owner that the copy is there; says whether the broker heard it.
    async fn tell(&self, partition: u16, coming: &mut Coming) -> bool {
        let Desk {
            owners,
            stream,
            instance,
            ..
        } = &self.0;
        let version = coming.version;
        let copy = coming.copy.unwrap_or_default();
        let told = owners.change(stream.stage, |owners| {
            owners.copied(partition, version, copy, *instance)
        });
        coming.is_to_tell = told.await.is_err();
        !coming.is_to_tell
    }
}

impl Coming {
    /// Commits a part. Before the first one what earlier tries left goes.
    fn take(
        &mut self,
        desk: &Desk,
        partition: u16,
        bill: &Bill,
        part: &[u8],
    ) -> Result<Follows, NotTaken> {
        if self.number == 0 {
            desk.remove_rows(&self.rows, partition)?;
        }
        let importing = self
            .importing
            .as_mut()
            .map(|(name, importing)| (*name, importing.as_mut()));
        let (changes, copy, follows) =
            self.rows
                .of_part(importing, partition, (bill, self.copy, self.number), part)?;
        desk.commit(&changes)?;
        (self.copy, self.number) = (Some(copy), self.number + 1);
        Ok(follows)
    }
}

//! Takes in the parts of partitions that come, a part of each in turn, while the core works with
//! others.
//!
//! In: partitions that are on their way to the instance; their parts in the stream of moves. Out:
//! their rows, committed; the word that the instance has a copy, in the table of owners; which have
//! come to the last row. Invariants: the core does not use the partitions whose rows are written;
//! nothing is written after the end of the instance's lease.

use super::desk::Desk;
use super::work::Work;
use bytes::Bytes;
use rhumb_stage::node::{Change, Coming, Loaded, Taken};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long to wait for the next part when there is none yet, or the broker does not answer.
const WAIT: Duration = Duration::from_millis(100);

/// A partition that comes, with its next part and the place of that, if it came while the one
/// before was taken in.
struct InHand {
    coming: Box<Coming>,
    next: Option<(u64, Bytes)>,
}

/// What the task that takes in is told.
enum Order {
    Load(Box<Coming>),
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
    task: tokio::task::JoinHandle<BTreeMap<u16, Box<Coming>>>,
}

impl Receiving {
    pub(super) fn begin(desk: Desk) -> Self {
        let (orders, queue) = mpsc::unbounded_channel();
        let (tell, events) = mpsc::unbounded_channel();
        let task = tokio::spawn(Intake(desk).work(queue, tell));
        Receiving {
            orders,
            events,
            task,
        }
    }

    /// Takes in a partition.
    pub(super) fn load(&self, coming: Box<Coming>) {
        // The task lives until this ends it.
        let _ = self.orders.send(Order::Load(coming));
    }

    pub(super) fn give_up(&self, partition: u16) {
        let _ = self.orders.send(Order::GiveUp(partition));
    }

    /// What has become of a partition since this was asked last.
    pub(super) fn next_event(&mut self) -> Option<(u16, Event)> {
        self.events.try_recv().ok()
    }

    /// Ends after the part in hand. Returns what it was at, and the last events.
    pub(super) async fn end(self) -> (BTreeMap<u16, Box<Coming>>, Vec<(u16, Event)>) {
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
    Waits(InHand),
    /// It is a part further.
    Went(InHand),
    /// It is there. A part that follows is one of another copy.
    Came(InHand, Loaded),
    Ended,
}

/// The task.
struct Intake(Desk);

impl Intake {
    async fn work(
        self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        tell: mpsc::UnboundedSender<(u16, Event)>,
    ) -> BTreeMap<u16, Box<Coming>> {
        let mut all: BTreeMap<u16, InHand> = BTreeMap::new();
        while !orders.is_closed() {
            let mut has_worked = false;
            for partition in all.keys().copied().collect::<Vec<_>>() {
                let Some(of) = all.remove(&partition).filter(|_| !orders.is_closed()) else {
                    continue;
                };
                match self.turn(of).await {
                    Turn::Waits(of) => _ = all.insert(partition, of),
                    Turn::Went(of) => {
                        has_worked = true;
                        all.insert(partition, of);
                    }
                    Turn::Came(of, loaded) => {
                        all.insert(partition, of);
                        let _ = tell.send((partition, Event::Loaded(loaded)));
                    }
                    Turn::Ended => _ = tell.send((partition, Event::Ended)),
                }
            }
            let wait = match (all.is_empty(), has_worked) {
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
                    Order::Load(coming) => {
                        let partition = coming.partition;
                        all.insert(partition, InHand { coming, next: None });
                    }
                    Order::GiveUp(partition) => _ = all.remove(&partition),
                }
                next = orders.try_recv().ok();
            }
        }
        all.into_iter()
            .map(|(partition, of)| (partition, of.coming))
            .collect()
    }

    /// Takes in the next part of a partition, if it is there.
    async fn turn(&self, InHand { mut coming, next }: InHand) -> Turn {
        if let Some(told) = coming.to_tell() {
            if !self.tell(&told).await {
                return Turn::Waits(InHand { coming, next });
            }
            coming.told();
        }
        let next = match next {
            Some(next) => Some(next),
            None => {
                let sequence = coming.sequence();
                self.next(coming.partition, coming.version, sequence).await
            }
        };
        let Some((sequence, part)) = next else {
            return Turn::Waits(InHand { coming, next: None });
        };
        let partition = coming.partition;
        let version = coming.version;
        let desk = self.0.clone();
        let taking = tokio::task::spawn_blocking(move || {
            let work = Work::begin();
            let taken = coming.take(sequence, &part, &mut |changes| desk.commit(changes));
            (coming, taken, work.done())
        });
        let following = self.next(partition, version, sequence + 1);
        let (done, next) = tokio::join!(taking, following);
        let Ok((mut coming, taken, worked)) = done else {
            return Turn::Ended;
        };
        coming.worked(worked);
        tokio::time::sleep(self.0.stream.rest(worked)).await;
        match taken {
            Taken::More => Turn::Went(InHand { coming, next }),
            Taken::Whole => {
                let loaded = coming.loaded();
                Turn::Came(InHand { coming, next }, loaded)
            }
            Taken::Ended => Turn::Ended,
            Taken::Refused(why) => {
                let refuse = self.0.of.refuses(partition, version, &why);
                self.0.try_to_change(&refuse).await;
                Turn::Ended
            }
        }
    }

    /// The next part of a partition, with its place; none when there is none yet, or the broker
    /// does not answer.
    async fn next(&self, partition: u16, version: u64, sequence: u64) -> Option<(u64, Bytes)> {
        let next = self.0.stream.next(partition, version, sequence).await;
        next.inspect_err(|error| {
            tracing::debug!(partition, "no part of a partition that comes: {error:#}")
        })
        .ok()?
    }

    /// Tells the owner that the copy is there; says whether the broker heard it.
    async fn tell(&self, told: &Change) -> bool {
        self.0.change(told).await.is_ok()
    }
}

//! The queue of a topic at a server: the URLs of the topic that wait there, in the order in which
//! they go.
//!
//! [`Tried`] URLs go first; [`Fresh`] ones, which were never tried, go last. After their server was
//! set aside the fresh ones go first, so that the URLs that fail cannot keep it set aside.
//!
//! Each kind is read from its first slot on. A read from the beginning of the range would meet the
//! rows that are already removed.

use crate::frontier::fresh::Fresh;
use crate::frontier::rows::{FrontierUrl, read_url, remove_url, visit_urls, write_url};
use crate::frontier::tried::Tried;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::{Lane, NUMBERS, Order, RETRIES, trapped_slots};
use crate::keys::topic::TopicNumber;
use crate::store::codec::{Reader, Writer};
use crate::store::rows::Rows;
use rhumb_stage::store::StoreError;
use rhumb_url::time::Timestamp;
use std::ops::Range;

/// What is to be taken from the front of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// So many URLs, at most.
    pub(crate) limit: usize,
    /// Those that never failed go before the others.
    pub(crate) fresh_first: bool,
    /// Those of all lanes; else of those that never failed only the ones of the first lane that has
    /// any, and none of traps.
    pub(crate) all_lanes: bool,
}

impl Wanted {
    /// All of them, up to a limit, in the order in which they go.
    pub(crate) fn all(limit: usize) -> Self {
        Wanted {
            limit,
            fresh_first: false,
            all_lanes: true,
        }
    }
}

/// The URLs of a topic that wait at a server; their text is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    topic: TopicNumber,
    /// None while all goes well.
    tried: Option<Box<Tried>>,
    fresh: Fresh,
}

impl Queue {
    pub(crate) const fn new(topic: TopicNumber) -> Self {
        Queue {
            topic,
            tried: None,
            fresh: Fresh::new(topic),
        }
    }

    pub(crate) const fn topic(&self) -> TopicNumber {
        self.topic
    }

    fn tried(&mut self) -> &mut Tried {
        self.tried
            .get_or_insert_with(|| Box::new(Tried::new(self.topic)))
    }

    /// Number of URLs that wait.
    pub(crate) fn len(&self) -> u64 {
        self.tried.as_ref().map_or(0, |tried| tried.len()) + self.fresh.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers that were given out.
    pub(crate) fn numbered(&self) -> u64 {
        self.fresh.numbered()
    }

    /// Number of URLs of traps.
    pub(crate) fn trapped(&self) -> u64 {
        self.fresh.in_lane(Lane::Trapped)
    }

    /// Returns whether URLs wait in another lane than the first.
    pub(crate) fn has_lanes(&self) -> bool {
        self.fresh.in_lane(Lane::Ahead) < self.fresh.len()
    }

    /// Returns whether all that wait are of traps.
    pub(crate) fn is_trapped(&self) -> bool {
        self.trapped() == self.len()
    }

    /// Number of URLs that wait ahead of the others.
    pub(crate) fn ahead(&self) -> u64 {
        self.tried.as_ref().map_or(0, |tried| tried.len()) + self.fresh.in_lane(Lane::Ahead)
    }

    /// The lane of those that go next.
    pub(crate) fn lane(&self, now: Timestamp) -> Lane {
        if self.has_due(now) {
            Lane::Ahead
        } else {
            self.fresh.lane()
        }
    }

    /// Returns whether URLs that were tried before may be tried again.
    fn has_due(&self, now: Timestamp) -> bool {
        self.tried
            .as_ref()
            .is_some_and(|tried| tried.len() > 0 && tried.ready_at() <= now)
    }

    /// Takes URLs of traps, up to `limit`. Their rows stay.
    pub(crate) fn take_trapped(
        &mut self,
        rows: &Rows<'_>,
        server: ServerKey,
        limit: usize,
    ) -> Result<Vec<(u64, FrontierUrl)>, StoreError> {
        let mut taken = Vec::new();
        let wanted = usize::try_from(self.trapped())
            .unwrap_or(usize::MAX)
            .min(limit);
        if wanted > 0 {
            visit_urls(rows, server, trapped_slots(self.topic), &mut |slot, url| {
                taken.push((slot, url));
                taken.len() < wanted
            })?;
        }
        taken.iter().for_each(|(slot, _)| self.fresh.forget(*slot));
        Ok(taken)
    }

    /// When the first URL may be tried. There must be one that is not of a trap.
    pub(crate) fn ready_at(&self) -> Timestamp {
        match &self.tried {
            Some(tried) if self.fresh.lane() == Lane::Trapped => tried.ready_at(),
            _ => Timestamp::ZERO,
        }
    }

    /// Takes on a new URL. Gives its slot. `head_max`: slots of fresh URLs that are to be in
    /// memory.
    pub(crate) fn push(
        &mut self,
        rows: &mut Rows<'_>,
        server: ServerKey,
        url: &FrontierUrl,
        order: Order,
        head_max: usize,
    ) -> u64 {
        let slot = self.fresh.push(order, head_max);
        write_url(rows, server, slot, url);
        slot
    }

    /// Returns whether there are numbers left for lifts: half of them are kept for new URLs.
    pub(crate) fn may_lift(&self) -> bool {
        self.fresh.numbered() < NUMBERS / 2
    }

    /// Moves a fresh URL that waits in this slot to its place among the others. Gives its new slot,
    /// and whether it is, or was, among the first ones.
    pub(crate) fn lift(
        &mut self,
        rows: &mut Rows<'_>,
        server: ServerKey,
        from: u64,
        url: &FrontierUrl,
        order: Order,
        head_max: usize,
    ) -> (u64, bool) {
        let was_first = self.fresh.head().binary_search(&from).is_ok();
        self.fresh.forget(from);
        remove_url(rows, server, from);
        let slot = self.push(rows, server, url, order, head_max);
        (
            slot,
            was_first || self.fresh.head().binary_search(&slot).is_ok(),
        )
    }

    /// The ranges of slots in which the waiting URLs lie, in the order in which they go.
    pub(crate) fn spans(&self) -> Vec<Range<u64>> {
        let tried = self.tried.iter().flat_map(|tried| tried.spans());
        tried.chain(std::iter::once(self.fresh.span())).collect()
    }

    /// Slots of the fresh URLs that go first, as many as are in memory.
    pub(crate) fn head(&self) -> &[u64] {
        self.fresh.head()
    }

    /// Reads slots of fresh URLs into memory until `wanted` are there, or no more exist.
    pub(crate) fn read_head(
        &mut self,
        rows: &Rows<'_>,
        server: ServerKey,
        wanted: usize,
    ) -> Result<(), StoreError> {
        self.fresh.read_head(rows, server, wanted)
    }

    /// Appends a URL that failed and is not to be tried before `at`, which its `not_before` says
    /// too.
    pub(crate) fn push_retry(
        &mut self,
        rows: &mut Rows<'_>,
        server: ServerKey,
        url: &FrontierUrl,
        at: Timestamp,
    ) {
        self.tried().push(rows, server, url, at);
    }

    /// The URL that has waited for the longest time among those of its kind: returned, retried or
    /// fresh.
    pub(crate) fn first(
        &self,
        rows: &Rows<'_>,
        server: ServerKey,
    ) -> Result<Option<FrontierUrl>, StoreError> {
        match self.tried.as_ref().and_then(|tried| tried.first()) {
            Some(slot) => read_url(rows, server, slot).map(Some),
            None => self.fresh.first(rows, server),
        }
    }

    /// Puts a slot that was taken back to where it was. Of several the last goes first.
    pub(crate) fn give_back(&mut self, slot: u64, head_max: usize) {
        if slot < RETRIES {
            self.fresh.insert(slot, head_max);
        } else {
            self.tried().give_back(slot);
        }
    }

    /// Takes URLs that may be tried at `now` from the front: fewer than wanted only when there are
    /// no more. Their rows stay. `restore` reads points of the partition's clock. With `now` at the
    /// end of time it takes retries that are not due as well.
    pub(crate) fn take(
        &mut self,
        rows: &Rows<'_>,
        server: ServerKey,
        now: Timestamp,
        restore: impl Fn(u64) -> Timestamp,
        wanted: Wanted,
    ) -> Result<Vec<(u64, FrontierUrl)>, StoreError> {
        let Wanted {
            limit,
            fresh_first,
            all_lanes,
        } = wanted;
        let in_reach = match (all_lanes, self.lane(now)) {
            (true, _) => self.fresh.len(),
            (false, Lane::Trapped) => 0,
            (false, lane) => self.fresh.in_lane(lane),
        };
        let in_reach = usize::try_from(in_reach).unwrap_or(usize::MAX);
        let mut taken = Vec::with_capacity(limit.min(64));
        if fresh_first {
            self.fresh
                .take(rows, server, limit.min(in_reach), &mut |slot, url| {
                    taken.push((slot, url))
                })?;
        }
        let fresh_left = in_reach - taken.len();
        if let Some(tried) = &mut self.tried {
            tried.take(rows, server, now, restore, limit, &mut taken)?;
        }
        let limit = (limit - taken.len()).min(fresh_left);
        self.fresh.take(rows, server, limit, &mut |slot, url| {
            taken.push((slot, url))
        })?;
        Ok(taken)
    }

    /// URLs that wait no longer, wherever they stand; their rows are gone. `slots` is in order.
    pub(crate) fn forget(
        &mut self,
        rows: &mut Rows<'_>,
        server: ServerKey,
        restore: impl Fn(u64) -> Timestamp,
        slots: &[u64],
    ) -> Result<(), StoreError> {
        let (fresh, tried) = slots.split_at(slots.partition_point(|slot| *slot < RETRIES));
        fresh.iter().for_each(|slot| self.fresh.forget(*slot));
        match &mut self.tried {
            Some(queue) if !tried.is_empty() => queue.forget(rows, server, restore, tried),
            _ => Ok(()),
        }
    }

    /// Writes it into the server's record.
    pub(crate) fn write(&self, row: &mut Writer, store: impl Fn(Timestamp) -> u64) {
        match &self.tried {
            Some(tried) => tried.write(row, self.topic, store),
            None => Tried::new(self.topic).write(row, self.topic, store),
        }
        self.fresh.write(row);
    }

    pub(crate) fn read(
        row: &mut Reader<'_>,
        topic: TopicNumber,
        restore: impl Fn(u64) -> Timestamp,
    ) -> Option<Self> {
        Some(Queue {
            topic,
            tried: Tried::read(row, topic, restore)?,
            fresh: Fresh::read(row, topic)?,
        })
    }

    /// Writes how many of its URLs are in which lane.
    pub(crate) fn write_lanes(&self, row: &mut Writer) {
        self.fresh.write_lanes(row);
    }

    /// Reads it: most have none but the first, which is not written.
    pub(crate) fn read_lanes(&mut self, row: &mut Reader<'_>) -> Option<()> {
        self.fresh.read_lanes(row)
    }
}

#[cfg(test)]
mod tests;

//! The URLs of a topic at a server that were never tried, in the order in which they are to be
//! tried.
//!
//! Their rows lie on disk in the order in which they are to be taken. The *head* holds the slots of
//! the first of them in memory, as many as the policy looks at. The *tail* is on disk alone. Those
//! of one lane lie behind those of the one before.
//!
//! Invariants: head and tail hold each waiting URL once, and all of the head comes before all of
//! the tail. A row that is not waiting lies before the tail's beginning, or is in flight. Nothing
//! is taken from a server that has URLs in flight, so the tail is never read then.
//!
//! Source: Boldi, Marino, Santini and Vigna 2014 (BUbiNG's virtualiser: the tails of queues are on
//! disk).

use crate::frontier::rows::{FrontierUrl, URLS, read_url, visit_urls};
use crate::keys::server_key::ServerKey;
use crate::keys::slot::{Lane, Order, fresh_slots, lane_of};
use crate::keys::topic::TopicNumber;
use crate::store::codec::{Reader, Writer};
use crate::store::rows::{Rows, corrupt};
use rhumb_stage::store::StoreError;

/// Rows up to this number are read one by one, because filters say which file of the store has
/// each. More rows are read in one go.
const SINGLY_MAX: usize = 3;

/// The URLs of a topic at a server that were never tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fresh {
    topic: TopicNumber,
    /// The slots in memory, in order.
    head: Vec<u64>,
    /// All other slots are this one or later; the end of the topic's slots when there are none.
    tail: u64,
    tail_urls: u64,
    /// URLs in [`Lane::Behind`] and in [`Lane::Trapped`].
    behind: u64,
    trapped: u64,
    /// Number of the next URL.
    next: u64,
}

impl Fresh {
    pub(crate) const fn new(topic: TopicNumber) -> Self {
        Fresh {
            topic,
            head: Vec::new(),
            tail: fresh_slots(topic).end,
            tail_urls: 0,
            behind: 0,
            trapped: 0,
            next: 0,
        }
    }

    /// The end of the topic's slots.
    const fn end(&self) -> u64 {
        fresh_slots(self.topic).end
    }

    /// Number of URLs that wait.
    pub(crate) fn len(&self) -> u64 {
        self.head.len() as u64 + self.tail_urls
    }

    /// Number of URLs that wait in a lane.
    pub(crate) fn in_lane(&self, lane: Lane) -> u64 {
        match lane {
            Lane::Ahead => self.len() - self.behind - self.trapped,
            Lane::Behind => self.behind,
            Lane::Trapped => self.trapped,
        }
    }

    /// The lane of those that go next.
    pub(crate) fn lane(&self) -> Lane {
        match (self.in_lane(Lane::Ahead), self.behind) {
            (0, 0) => Lane::Trapped,
            (0, _) => Lane::Behind,
            _ => Lane::Ahead,
        }
    }

    /// Where those of a lane are counted; nowhere when it is the first.
    fn count_of(&mut self, lane: Lane) -> Option<&mut u64> {
        match lane {
            Lane::Ahead => None,
            Lane::Behind => Some(&mut self.behind),
            Lane::Trapped => Some(&mut self.trapped),
        }
    }

    /// One waits no longer in its lane. A scheduler of an earlier version may have written the
    /// server's record without counts.
    fn leave_lane(&mut self, slot: u64) {
        self.count_of(lane_of(slot))
            .into_iter()
            .for_each(|urls| *urls = urls.saturating_sub(1));
    }

    /// Numbers that were given out.
    pub(crate) fn numbered(&self) -> u64 {
        self.next
    }

    /// The slot of a new URL, which waits from now on. `head_max`: slots that are to be in memory.
    pub(crate) fn push(&mut self, order: Order, head_max: usize) -> u64 {
        let slot = order.slot(self.topic, self.next);
        self.next += 1;
        self.insert(slot, head_max);
        slot
    }

    /// Lets a URL that was taken wait again.
    pub(crate) fn insert(&mut self, slot: u64, head_max: usize) {
        self.count_of(lane_of(slot))
            .into_iter()
            .for_each(|urls| *urls += 1);
        if slot >= self.tail {
            self.tail_urls += 1;
            return;
        }
        let place = self.head.partition_point(|&other| other < slot);
        self.head.insert(place, slot);
        if self.head.len() > head_max
            && let Some(last) = self.head.pop()
        {
            self.tail = last;
            self.tail_urls += 1;
        }
    }

    /// A URL that waits no longer, wherever it stands.
    pub(crate) fn forget(&mut self, slot: u64) {
        self.leave_lane(slot);
        match self.head.binary_search(&slot) {
            Ok(at) => {
                self.head.remove(at);
            }
            Err(_) => self.tail_urls -= 1,
        }
        if self.tail_urls == 0 {
            self.tail = self.end();
        }
    }

    /// The first slots, as many as are in memory.
    pub(crate) fn head(&self) -> &[u64] {
        &self.head
    }

    /// The range of slots in which the URLs lie.
    pub(crate) fn span(&self) -> std::ops::Range<u64> {
        self.head.first().copied().unwrap_or(self.tail)..self.end()
    }

    /// The first URL.
    pub(crate) fn first(
        &self,
        rows: &Rows<'_>,
        server: ServerKey,
    ) -> Result<Option<FrontierUrl>, StoreError> {
        let mut first = None;
        visit_urls(rows, server, self.span(), &mut |_, url| {
            first = Some(url);
            false
        })?;
        Ok(first)
    }

    /// Reads slots into memory until `wanted` are there, or no more exist.
    pub(crate) fn read_head(
        &mut self,
        rows: &Rows<'_>,
        server: ServerKey,
        wanted: usize,
    ) -> Result<(), StoreError> {
        let mut read = Vec::new();
        self.read_tail(
            rows,
            server,
            wanted.saturating_sub(self.head.len()),
            &mut |slot, _| read.push(slot),
        )?;
        self.head.append(&mut read);
        Ok(())
    }

    /// Takes up to `limit` URLs from the front: fewer only when there are no more. Their rows stay.
    pub(crate) fn take(
        &mut self,
        rows: &Rows<'_>,
        server: ServerKey,
        limit: usize,
        take: &mut dyn FnMut(u64, FrontierUrl),
    ) -> Result<(), StoreError> {
        let mut slots = Vec::new();
        let mut take = |slot, url| {
            slots.extend((lane_of(slot) != Lane::Ahead).then_some(slot));
            take(slot, url);
        };
        let from_head = self.head.len().min(limit);
        if from_head <= SINGLY_MAX {
            for slot in self.head.drain(..from_head) {
                take(slot, read_url(rows, server, slot)?);
            }
        } else {
            let first = self.head[0];
            let end = self.end();
            let mut slots = self.head.drain(..from_head).peekable();
            visit_urls(rows, server, first..end, &mut |slot, url| {
                if slots.next_if_eq(&slot).is_some() {
                    take(slot, url);
                }
                slots.peek().is_some()
            })?;
            if slots.next().is_some() {
                return Err(corrupt(URLS, "a waiting URL is missing"));
            }
        }
        self.read_tail(rows, server, limit - from_head, &mut take)?;
        slots.into_iter().for_each(|slot| self.leave_lane(slot));
        Ok(())
    }

    /// Takes up to `wanted` URLs from the tail.
    fn read_tail(
        &mut self,
        rows: &Rows<'_>,
        server: ServerKey,
        wanted: usize,
        take: &mut dyn FnMut(u64, FrontierUrl),
    ) -> Result<(), StoreError> {
        let mut left = (wanted as u64).min(self.tail_urls);
        if left == 0 {
            return Ok(());
        }
        let slots = self.tail..self.end();
        let tail = &mut self.tail;
        let tail_urls = &mut self.tail_urls;
        visit_urls(rows, server, slots, &mut |slot, url| {
            take(slot, url);
            *tail = slot + 1;
            *tail_urls -= 1;
            left -= 1;
            left > 0
        })?;
        if left > 0 {
            return Err(corrupt(URLS, "fewer URLs than the server's queue has"));
        }
        if self.tail_urls == 0 {
            self.tail = self.end();
        }
        Ok(())
    }

    /// Writes it into the server's record.
    pub(crate) fn write(&self, row: &mut Writer) {
        row.number(self.next);
        row.number(self.len());
        row.number(self.head.first().copied().unwrap_or(self.tail) - fresh_slots(self.topic).start);
    }

    pub(crate) fn read(row: &mut Reader<'_>, topic: TopicNumber) -> Option<Self> {
        let next = row.number()?;
        let urls = row.number()?;
        let tail = row.number()?;
        let slots = fresh_slots(topic);
        let tail = tail.min(slots.end - slots.start) + slots.start;
        Some(Fresh {
            topic,
            head: Vec::new(),
            tail,
            tail_urls: urls,
            behind: 0,
            trapped: 0,
            next,
        })
    }

    /// Writes how many are in which lane.
    pub(crate) fn write_lanes(&self, row: &mut Writer) {
        row.number(self.behind);
        row.number(self.trapped);
    }

    pub(crate) fn read_lanes(&mut self, row: &mut Reader<'_>) -> Option<()> {
        (self.behind, self.trapped) = (row.number()?, row.number()?);
        (self.behind.checked_add(self.trapped)? <= self.len()).then_some(())
    }
}

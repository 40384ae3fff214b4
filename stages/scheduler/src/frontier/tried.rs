//! The URLs of a topic at a server that were tried before: those that came back from a job
//! untouched, and those that failed.
//!
//! - *returned*: retries that a job took and did not contact. They go first, in their order. There
//!   are never more of them than one job holds.
//! - *retries*: URLs that failed at least once, each with a point in time before which it is not
//!   tried again. They lie in a span of slots without gaps.
//!
//! Invariant: a slot of a retry is never given out again.

use crate::frontier::rows::{FrontierUrl, URLS, read_url, remove_url, visit_urls, write_url};
use crate::keys::server_key::ServerKey;
use crate::keys::slot::retry_slots;
use crate::keys::topic::TopicNumber;
use crate::store::codec::{Reader, Writer};
use crate::store::rows::{Rows, corrupt};
use rhumb_stage::store::StoreError;
use rhumb_url::time::Timestamp;
use std::collections::VecDeque;
use std::ops::Range;

/// Slots from `head` (included) to `next` (not included).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    head: u64,
    next: u64,
}

impl Span {
    const fn len(self) -> u64 {
        self.next - self.head
    }
}

/// URLs that failed, or that came back from a job untouched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tried {
    returned: VecDeque<u64>,
    retries: Span,
    /// When the first of the retries may be tried again.
    retry_at: Timestamp,
}

impl Tried {
    pub(crate) const fn new(topic: TopicNumber) -> Self {
        let first = retry_slots(topic).start;
        let retries = Span {
            head: first,
            next: first,
        };
        Tried {
            returned: VecDeque::new(),
            retries,
            retry_at: Timestamp::ZERO,
        }
    }

    /// Number of URLs that wait.
    pub(crate) fn len(&self) -> u64 {
        self.returned.len() as u64 + self.retries.len()
    }

    /// The time when the first of them may be tried. There must be one.
    pub(crate) fn ready_at(&self) -> Timestamp {
        if self.returned.is_empty() {
            self.retry_at
        } else {
            Timestamp::ZERO
        }
    }

    /// The slot of the one that goes first.
    pub(crate) fn first(&self) -> Option<u64> {
        let retry = (self.retries.len() > 0).then_some(self.retries.head);
        self.returned.front().copied().or(retry)
    }

    /// The slots in which they lie, in the order in which they go.
    pub(crate) fn spans(&self) -> impl Iterator<Item = Range<u64>> {
        let returned = self.returned.iter().map(|&slot| slot..slot + 1);
        returned.chain(std::iter::once(self.retries.head..self.retries.next))
    }

    /// Appends a URL that failed and is not to be tried before `at`, which its `not_before` says
    /// too.
    pub(crate) fn push(
        &mut self,
        rows: &mut Rows<'_>,
        server: ServerKey,
        url: &FrontierUrl,
        at: Timestamp,
    ) {
        write_url(rows, server, self.retries.next, url);
        if self.retries.len() == 0 {
            self.retry_at = at;
        }
        self.retries.next += 1;
    }

    /// A URL that a job took and did not contact goes before all others.
    pub(crate) fn give_back(&mut self, slot: u64) {
        self.returned.push_front(slot);
    }

    /// URLs that wait no longer, wherever they stand; their rows are gone. `slots` is in order. The
    /// retries behind them move up: those that wait lie without a gap.
    pub(crate) fn forget(
        &mut self,
        rows: &mut Rows<'_>,
        server: ServerKey,
        restore: impl Fn(u64) -> Timestamp,
        slots: &[u64],
    ) -> Result<(), StoreError> {
        self.returned
            .retain(|slot| slots.binary_search(slot).is_err());
        let Some(&first) = slots.iter().find(|slot| **slot >= self.retries.head) else {
            return Ok(());
        };
        let mut behind = Vec::new();
        visit_urls(rows, server, first..self.retries.next, &mut |slot, url| {
            behind.push((slot, url));
            true
        })?;
        self.retries.next = first;
        for (slot, url) in behind {
            remove_url(rows, server, slot);
            write_url(rows, server, self.retries.next, &url);
            self.retries.next += 1;
        }
        if first == self.retries.head && self.retries.len() > 0 {
            self.retry_at = restore(read_url(rows, server, first)?.not_before);
        }
        Ok(())
    }

    /// Takes those that came back, then retries that are due, up to `limit` in all.
    pub(crate) fn take(
        &mut self,
        rows: &Rows<'_>,
        server: ServerKey,
        now: Timestamp,
        restore: impl Fn(u64) -> Timestamp,
        limit: usize,
        taken: &mut Vec<(u64, FrontierUrl)>,
    ) -> Result<(), StoreError> {
        while taken.len() < limit
            && let Some(&slot) = self.returned.front()
        {
            taken.push((slot, read_url(rows, server, slot)?));
            self.returned.pop_front();
        }
        if self.retries.len() > 0 && self.retry_at <= now && taken.len() < limit {
            self.take_retries(rows, server, now, restore, limit, taken)?;
        }
        Ok(())
    }

    /// Takes retries that are due, and notes when the next one is.
    fn take_retries(
        &mut self,
        rows: &Rows<'_>,
        server: ServerKey,
        now: Timestamp,
        restore: impl Fn(u64) -> Timestamp,
        limit: usize,
        taken: &mut Vec<(u64, FrontierUrl)>,
    ) -> Result<(), StoreError> {
        let mut head = self.retries.head;
        let mut next_at = None;
        let mut gap = false;
        visit_urls(rows, server, head..self.retries.next, &mut |slot, url| {
            let at = restore(url.not_before);
            gap = slot != head;
            if gap || at > now || taken.len() >= limit {
                next_at = Some(at);
                return false;
            }
            taken.push((slot, url));
            head += 1;
            true
        })?;
        self.retries.head = head;
        if gap {
            return Err(corrupt(URLS, "a waiting URL is missing"));
        }
        match next_at {
            Some(at) => self.retry_at = at,
            None if self.retries.len() > 0 => {
                return Err(corrupt(URLS, "fewer retries than the server's queue has"));
            }
            None => {}
        }
        Ok(())
    }

    /// Writes it into the server's record.
    pub(crate) fn write(
        &self,
        row: &mut Writer,
        topic: TopicNumber,
        store: impl Fn(Timestamp) -> u64,
    ) {
        row.number(self.returned.len() as u64);
        for &slot in &self.returned {
            // With the uppermost bit in the lowest place the numbers stay short.
            row.number(slot.rotate_left(1));
        }
        row.number(self.retries.head - retry_slots(topic).start);
        row.number(self.retries.len());
        row.number(store(self.retry_at));
    }

    /// Reads it from the server's record. The outer option is none when the record is unreadable,
    /// the inner one when no URL failed so far.
    pub(crate) fn read(
        row: &mut Reader<'_>,
        topic: TopicNumber,
        restore: impl Fn(u64) -> Timestamp,
    ) -> Option<Option<Box<Self>>> {
        let mut returned = VecDeque::new();
        for _ in 0..row.number()? {
            returned.push_back(row.number()?.rotate_right(1));
        }
        let first = retry_slots(topic).start;
        let head = first.checked_add(row.number()?)?;
        let retries = Span {
            head,
            next: head.checked_add(row.number()?)?,
        };
        let retry_at = restore(row.number()?);
        let has_tried = !returned.is_empty() || retries.next > first;
        Some(has_tried.then(|| {
            Box::new(Tried {
                returned,
                retries,
                retry_at,
            })
        }))
    }
}

//! The frontier: URLs known and not yet ended, on disk, first in first out for each server.
//!
//! A URL lies in the table [`URLS`] under partition, server and slot until the commit that also holds its
//! outcome: neither a granted job nor a crash takes it away (P3). Slots are given out in ascending order and
//! never again. Three queues of slots make up a server's:
//!
//! - *returned*: granted and not contacted; they go first, in their order; never more than one job's;
//! - *retries*: failed at least once, each with a point before which it is not tried again;
//! - *fresh*: never tried.
//!
//! Retries and fresh are each a span of slots without gaps, read from its head: never from the beginning of
//! the server's range, where the rows already removed lie.

use crate::codec::{Reader, Writer};
use crate::server::ServerKey;
use crate::staged::Staged;
use shared::message::{Origin, Outcome, OutcomeEntry};
use shared::stage::store::{StoreError, Table};
use shared::time::Timestamp;
use std::collections::VecDeque;

/// Table of the frontier: partition, server and slot → URL.
pub(crate) const URLS: Table = "urls";

/// First slot of the retries; below it lie the fresh URLs, far above it no slot comes.
const RETRIES: u64 = 1 << 63;

/// A URL as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredUrl {
    /// Canonical.
    pub(crate) url: String,
    /// How it was found.
    pub(crate) origin: Origin,
    /// Its number among the new URLs of its partition.
    pub(crate) serial: u64,
    /// Contacts made for it.
    pub(crate) attempts: u8,
    /// Point of the partition's clock before which it is not tried again; 0 when it is fresh.
    pub(crate) not_before: u64,
}

/// How a URL ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) outcome: Outcome,
    pub(crate) reason: &'static str,
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    pub(crate) truncated: bool,
    pub(crate) elapsed_us: u32,
}

impl End {
    /// Without a response.
    pub(crate) fn without_response(outcome: Outcome, reason: &'static str) -> Self {
        End { outcome, reason, status: 0, bytes: 0, truncated: false, elapsed_us: 0 }
    }
}

impl Default for End {
    fn default() -> Self {
        End::without_response(Outcome::Failed, "")
    }
}

impl StoredUrl {
    fn to_row(&self) -> Vec<u8> {
        let mut row = Writer::with_capacity(self.url.len() + self.origin.page.len() + self.origin.topic.len() + 24);
        row.text(&self.url);
        row.text(&self.origin.page);
        row.text(&self.origin.topic);
        row.number(u64::from(self.origin.depth));
        row.byte(self.origin.redirects);
        row.byte(u8::from(self.origin.seed));
        row.number(self.serial);
        row.byte(self.attempts);
        row.number(self.not_before);
        row.finish()
    }

    fn from_row(row: &[u8]) -> Option<Self> {
        let mut row = Reader::new(row)?;
        Some(StoredUrl {
            url: row.text()?.to_owned(),
            origin: Origin {
                page: row.text()?.to_owned(),
                topic: row.text()?.to_owned(),
                depth: u16::try_from(row.number()?).ok()?,
                redirects: row.byte()?,
                seed: row.byte()? != 0,
            },
            serial: row.number()?,
            attempts: row.byte()?,
            not_before: row.number()?,
        })
    }

    /// Bytes it takes in a job.
    pub(crate) fn bytes(&self) -> usize {
        self.url.len() + self.origin.page.len() + self.origin.topic.len() + 64
    }

    pub(crate) fn into_outcome(self, end: End) -> OutcomeEntry {
        OutcomeEntry {
            url: self.url,
            origin: self.origin,
            outcome: end.outcome,
            status: end.status,
            bytes: end.bytes,
            truncated: end.truncated,
            elapsed_us: end.elapsed_us,
            attempts: self.attempts,
            reason: end.reason.to_owned(),
        }
    }
}

fn url_key(server: ServerKey, slot: u64) -> Vec<u8> {
    let mut key = server.to_bytes();
    key.extend_from_slice(&slot.to_be_bytes());
    key
}

fn slot_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(10..)?.try_into().ok()?))
}

/// A row that this program did not write, or that is gone: going on would lose URLs without a trace.
pub(crate) fn corrupt(table: Table, what: &str) -> StoreError {
    StoreError::Unusable(format!(
        "the scheduler's table '{table}' cannot be understood: {what}; use the version of the program that wrote it, restore \
         the stage's folder from a copy, or delete the crawl"
    ))
}

/// Reads a URL that waits or is in flight.
pub(crate) fn read_url(staged: &Staged<'_>, server: ServerKey, slot: u64) -> Result<StoredUrl, StoreError> {
    staged
        .get(URLS, &url_key(server, slot))?
        .and_then(|row| StoredUrl::from_row(&row))
        .ok_or_else(|| corrupt(URLS, "a waiting URL is missing or unreadable"))
}

/// Writes a URL that keeps its slot.
pub(crate) fn write_url(staged: &mut Staged<'_>, server: ServerKey, slot: u64, url: &StoredUrl) {
    staged.put(URLS, url_key(server, slot), url.to_row());
}

/// Takes the row of a URL away: it ended, or moves to another slot.
pub(crate) fn remove_url(staged: &mut Staged<'_>, server: ServerKey, slot: u64) {
    staged.remove(URLS, url_key(server, slot));
}

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

/// The waiting URLs of a server; their text is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    returned: VecDeque<u64>,
    retries: Span,
    /// When the first of the retries may be tried again.
    retry_at: Timestamp,
    fresh: Span,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            returned: VecDeque::new(),
            retries: Span { head: RETRIES, next: RETRIES },
            retry_at: Timestamp::ZERO,
            fresh: Span { head: 0, next: 0 },
        }
    }
}

impl Queue {
    /// How many URLs wait.
    pub(crate) fn len(&self) -> u64 {
        self.returned.len() as u64 + self.retries.len() + self.fresh.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// From when on there is a URL to try; only for a queue that is not empty.
    pub(crate) fn ready_at(&self) -> Timestamp {
        if self.returned.is_empty() && self.fresh.len() == 0 { self.retry_at } else { Timestamp::ZERO }
    }

    /// Appends a new URL.
    pub(crate) fn push(&mut self, staged: &mut Staged<'_>, server: ServerKey, url: &StoredUrl) {
        write_url(staged, server, self.fresh.next, url);
        self.fresh.next += 1;
    }

    /// Appends a URL that failed and is not to be tried before `at`, which its `not_before` says too.
    pub(crate) fn push_retry(&mut self, staged: &mut Staged<'_>, server: ServerKey, url: &StoredUrl, at: Timestamp) {
        write_url(staged, server, self.retries.next, url);
        if self.retries.len() == 0 {
            self.retry_at = at;
        }
        self.retries.next += 1;
    }

    /// Puts slots that were taken back to the front, in their order.
    pub(crate) fn give_back(&mut self, slots: impl DoubleEndedIterator<Item = u64>) {
        for slot in slots.rev() {
            self.returned.push_front(slot);
        }
    }

    /// Takes up to `limit` URLs that may be tried at `now` from the front: fewer only when there are no more.
    /// Their rows stay. `restore` reads points of the partition's clock. With `now` at the end of time it
    /// takes retries that are not due as well.
    pub(crate) fn take(
        &mut self,
        staged: &Staged<'_>,
        server: ServerKey,
        now: Timestamp,
        restore: impl Fn(u64) -> Timestamp,
        limit: usize,
    ) -> Result<Vec<(u64, StoredUrl)>, StoreError> {
        let mut taken = Vec::with_capacity(limit.min(64));
        while taken.len() < limit
            && let Some(&slot) = self.returned.front()
        {
            taken.push((slot, read_url(staged, server, slot)?));
            self.returned.pop_front();
        }
        if self.retries.len() > 0 && self.retry_at <= now && taken.len() < limit {
            self.take_retries(staged, server, now, restore, limit, &mut taken)?;
        }
        let wanted = limit - taken.len();
        if self.fresh.len() > 0 && wanted > 0 {
            let before = taken.len();
            scan(staged, server, self.fresh, &mut |slot, url| {
                taken.push((slot, url));
                taken.len() < limit
            })?;
            self.fresh.head += (taken.len() - before) as u64;
            if taken.len() < limit && self.fresh.len() > 0 {
                return Err(corrupt(URLS, "fewer URLs than the server's queue has"));
            }
        }
        Ok(taken)
    }

    /// Takes retries that are due, and notes when the next one is.
    fn take_retries(
        &mut self,
        staged: &Staged<'_>,
        server: ServerKey,
        now: Timestamp,
        restore: impl Fn(u64) -> Timestamp,
        limit: usize,
        taken: &mut Vec<(u64, StoredUrl)>,
    ) -> Result<(), StoreError> {
        let mut head = self.retries.head;
        let mut next_at = None;
        scan(staged, server, self.retries, &mut |slot, url| {
            let at = restore(url.not_before);
            if at > now || taken.len() >= limit {
                next_at = Some(at);
                return false;
            }
            taken.push((slot, url));
            head += 1;
            true
        })?;
        self.retries.head = head;
        match next_at {
            Some(at) => self.retry_at = at,
            None if self.retries.len() > 0 => return Err(corrupt(URLS, "fewer retries than the server's queue has")),
            None => {}
        }
        Ok(())
    }

    /// For the server's record.
    pub(crate) fn write(&self, row: &mut Writer, store: impl Fn(Timestamp) -> u64) {
        row.number(self.returned.len() as u64);
        for &slot in &self.returned {
            // The uppermost bit to the lowest place keeps the numbers short.
            row.number(slot.rotate_left(1));
        }
        row.number(self.retries.head - RETRIES);
        row.number(self.retries.len());
        row.number(store(self.retry_at));
        row.number(self.fresh.head);
        row.number(self.fresh.len());
    }

    pub(crate) fn read(row: &mut Reader<'_>, restore: impl Fn(u64) -> Timestamp) -> Option<Self> {
        let mut returned = VecDeque::new();
        for _ in 0..row.number()? {
            returned.push_back(row.number()?.rotate_right(1));
        }
        let head = RETRIES.checked_add(row.number()?)?;
        let retries = Span { head, next: head.checked_add(row.number()?)? };
        let retry_at = restore(row.number()?);
        let head = row.number()?;
        let fresh = Span { head, next: head.checked_add(row.number()?)? };
        Some(Queue { returned, retries, retry_at, fresh })
    }
}

/// Visits the URLs of a span from its head on until `visit` returns false.
fn scan(
    staged: &Staged<'_>,
    server: ServerKey,
    span: Span,
    visit: &mut dyn FnMut(u64, StoredUrl) -> bool,
) -> Result<(), StoreError> {
    let mut expected = span.head;
    let mut broken = false;
    staged.scan(URLS, &url_key(server, span.head), &url_key(server, span.next), &mut |key, row| {
        let (Some(slot), Some(url)) = (slot_of(key), StoredUrl::from_row(row)) else {
            broken = true;
            return false;
        };
        broken = slot != expected;
        expected += 1;
        !broken && visit(slot, url)
    })?;
    if broken { Err(corrupt(URLS, "a waiting URL is missing or unreadable")) } else { Ok(()) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use shared::stage::Output;
    use shared::stage::store::{MemoryStore, Store as _};
    use std::time::Duration;

    const SERVER: ServerKey = ServerKey { partition: 3, id: 0xfeed };

    pub(crate) fn url(number: u64) -> StoredUrl {
        StoredUrl {
            url: format!("http://a.test/{number}"),
            origin: Origin { page: "http://a.test/".into(), topic: "t".into(), depth: 2, redirects: 1, seed: true },
            serial: number,
            attempts: 3,
            not_before: 0,
        }
    }

    #[test]
    fn a_url_comes_back_as_it_was_and_damage_gives_none() {
        let stored = StoredUrl { not_before: 123_456_789, ..url(u64::MAX) };
        let row = stored.to_row();
        assert_eq!(StoredUrl::from_row(&row), Some(stored));
        for length in 0..row.len() {
            assert_eq!(StoredUrl::from_row(&row[..length]), None);
        }
    }

    #[derive(Clone, Debug)]
    enum Move {
        Push,
        Retry(u64),
        Take(usize),
        GiveBack,
        EndTaken,
        Commit,
        Pass(u64),
    }

    fn moves() -> impl Strategy<Value = Vec<Move>> {
        let one = prop_oneof![
            4 => Just(Move::Push),
            2 => (0u64..20).prop_map(Move::Retry),
            4 => (0usize..5).prop_map(Move::Take),
            1 => Just(Move::GiveBack),
            1 => Just(Move::EndTaken),
            2 => Just(Move::Commit),
            1 => (0u64..10).prop_map(Move::Pass),
        ];
        proptest::collection::vec(one, 0..80)
    }

    proptest! {
        /// Goal: no URL is lost or doubled, returned ones come first, retries not before their time, fresh ones
        /// in order. Method: against a plain list, with commits and reopening between any two moves.
        #[test]
        fn the_queue_is_first_in_first_out_apart_from_retries(moves in moves()) {
            let store = MemoryStore::default();
            let mut staged = Staged::new(&store, 0);
            let mut queue = Queue::default();
            let (mut returned, mut retries, mut fresh) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
            let mut taken: Vec<(u64, StoredUrl)> = Vec::new();
            let mut now = Timestamp::ZERO;
            let mut number = 0;
            let restore = Timestamp::from_micros;
            for next in moves {
                match next {
                    Move::Push => {
                        number += 1;
                        queue.push(&mut staged, SERVER, &url(number));
                        fresh.push_back(number);
                    }
                    Move::Retry(wait) => {
                        let Some((slot, failed)) = taken.pop() else { continue };
                        remove_url(&mut staged, SERVER, slot);
                        let at = now + Duration::from_micros(wait);
                        let failed = StoredUrl { not_before: at.as_micros(), ..failed };
                        queue.push_retry(&mut staged, SERVER, &failed, at);
                        retries.push_back((failed.serial, at));
                    }
                    Move::Take(limit) => {
                        let urls = queue.take(&staged, SERVER, now, restore, limit).unwrap();
                        let mut expected = Vec::new();
                        while expected.len() < limit && let Some(serial) = returned.pop_front() {
                            expected.push(serial);
                        }
                        while expected.len() < limit && retries.front().is_some_and(|&(_, at)| at <= now) {
                            expected.extend(retries.pop_front().map(|(serial, _)| serial));
                        }
                        while expected.len() < limit && let Some(serial) = fresh.pop_front() {
                            expected.push(serial);
                        }
                        prop_assert_eq!(urls.iter().map(|(_, url)| url.serial).collect::<Vec<_>>(), expected);
                        taken.extend(urls);
                    }
                    Move::GiveBack => {
                        queue.give_back(taken.iter().map(|(slot, _)| *slot));
                        for (_, url) in taken.drain(..).rev() {
                            returned.push_front(url.serial);
                        }
                    }
                    Move::EndTaken => {
                        for (slot, _) in taken.drain(..) {
                            remove_url(&mut staged, SERVER, slot);
                        }
                    }
                    Move::Commit => {
                        let mut out = Output::<()>::default();
                        std::mem::replace(&mut staged, Staged::new(&store, 0)).flush(&mut out, || 1);
                        store.commit(&out.changes).unwrap();
                        let mut row = Writer::with_capacity(0);
                        queue.write(&mut row, Timestamp::as_micros);
                        let row = row.finish();
                        let read = Queue::read(&mut Reader::new(&row).unwrap(), restore);
                        prop_assert_eq!(read.as_ref(), Some(&queue));
                    }
                    Move::Pass(micros) => now = now + Duration::from_micros(micros),
                }
                prop_assert_eq!(queue.len() as usize, returned.len() + retries.len() + fresh.len());
                if returned.is_empty() && fresh.is_empty() && let Some(&(_, at)) = retries.front() {
                    prop_assert_eq!(queue.ready_at(), at);
                }
            }
        }
    }
}

//! The frontier: URLs known and not yet ended, on disk, a queue for each server.
//!
//! A URL lies in the table [`URLS`] under partition, server and slot until the commit that also holds its
//! outcome: neither a granted job nor a crash takes it away (P3). A slot is never given out again. Three queues of
//! slots make up a server's:
//!
//! - *returned*: retries that were granted and not contacted; they go first, in their order; never more than one
//!   job's;
//! - *retries*: failed at least once, each with a point before which it is not tried again; a span of slots without
//!   gaps;
//! - *fresh*: never tried ([`Fresh`]); they go last, but first after their server was set aside, lest the URLs that
//!   fail keep it so.
//!
//! Each is read from its first slot: never from the beginning of the server's range, where the rows already removed
//! lie.

use crate::codec::{Reader, Writer};
use crate::fresh::{Fresh, Order};
use crate::server::ServerKey;
use crate::staged::Staged;
use shared::message::{Origin, Outcome, OutcomeEntry, Quality};
use shared::stage::store::{Store, StoreError, Table};
use shared::time::Timestamp;
use shared::url::server_of;
use std::collections::VecDeque;
use std::ops::Range;

/// Table of the frontier: partition, server and slot → URL.
pub(crate) const URLS: Table = "urls";

/// First slot of the retries; below it lie the fresh URLs, far above it no slot comes.
pub(crate) const RETRIES: u64 = 1 << 63;

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
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) outcome: Outcome,
    pub(crate) reason: &'static str,
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    pub(crate) truncated: bool,
    pub(crate) elapsed_us: u32,
    pub(crate) fetched_at_ms: u64,
    pub(crate) media_type: String,
}

impl End {
    /// Without a response.
    pub(crate) fn without_response(outcome: Outcome, reason: &'static str) -> Self {
        End {
            outcome,
            reason,
            status: 0,
            bytes: 0,
            truncated: false,
            elapsed_us: 0,
            fetched_at_ms: 0,
            media_type: String::new(),
        }
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
        // Most pages link to their own server.
        let page = self.origin.page.strip_prefix(server_of(&self.url));
        row.byte(u8::from(page.is_some()));
        row.text(page.unwrap_or(&self.origin.page));
        row.text(&self.origin.topic);
        row.number(u64::from(self.origin.depth));
        row.byte(self.origin.redirects);
        row.byte(u8::from(self.origin.seed));
        row.number(self.origin.again);
        row.number(u64::from(self.origin.flow.to_bits()));
        row.number(self.serial);
        row.byte(self.attempts);
        row.number(self.not_before);
        row.finish()
    }

    fn from_row(row: &[u8]) -> Option<Self> {
        let mut row = Reader::new(row)?;
        let url = row.text()?.to_owned();
        let of_server = if row.byte()? == 0 { "" } else { server_of(&url) };
        let page = [of_server, row.text()?].concat();
        Some(StoredUrl {
            url,
            origin: Origin {
                page,
                topic: row.text()?.to_owned(),
                depth: u16::try_from(row.number()?).ok()?,
                redirects: row.byte()?,
                seed: row.byte()? != 0,
                again: row.number()?,
                flow: Quality::from_bits(row.small()?),
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
            serial: self.serial,
            origin: self.origin,
            outcome: end.outcome,
            status: end.status,
            fetched_at_ms: end.fetched_at_ms,
            media_type: end.media_type,
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

/// URLs that failed, or that came back from a job.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tried {
    returned: VecDeque<u64>,
    retries: Span,
    /// When the first of the retries may be tried again.
    retry_at: Timestamp,
}

impl Default for Tried {
    fn default() -> Self {
        let retries = Span { head: RETRIES, next: RETRIES };
        Tried { returned: VecDeque::new(), retries, retry_at: Timestamp::ZERO }
    }
}

/// The waiting URLs of a server; their text is on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    /// None as long as all went well.
    tried: Option<Box<Tried>>,
    fresh: Fresh,
}

impl Queue {
    /// How many URLs wait.
    pub(crate) fn len(&self) -> u64 {
        let tried = self.tried.as_ref().map_or(0, |tried| tried.returned.len() as u64 + tried.retries.len());
        tried + self.fresh.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// From when on there is a URL to try; only for a queue that is not empty.
    pub(crate) fn ready_at(&self) -> Timestamp {
        match &self.tried {
            Some(tried) if tried.returned.is_empty() && self.fresh.len() == 0 => tried.retry_at,
            _ => Timestamp::ZERO,
        }
    }

    /// Takes on a new URL. `head_max`: slots of fresh URLs that are to be in memory.
    pub(crate) fn push(
        &mut self,
        staged: &mut Staged<'_>,
        server: ServerKey,
        url: &StoredUrl,
        order: Order,
        head_max: usize,
    ) {
        let slot = self.fresh.push(order, head_max);
        write_url(staged, server, slot, url);
    }

    /// Where the URLs that wait lie, in the order in which they go.
    pub(crate) fn spans(&self) -> Vec<Range<u64>> {
        let tried = self.tried.iter().flat_map(|tried| {
            let returned = tried.returned.iter().map(|&slot| slot..slot + 1);
            returned.chain(std::iter::once(tried.retries.head..tried.retries.next))
        });
        tried.chain(std::iter::once(self.fresh.span())).collect()
    }

    /// Slots of the fresh URLs that go first, as many as are in memory.
    pub(crate) fn head(&self) -> &[u64] {
        self.fresh.head()
    }

    /// Reads slots of fresh URLs into memory, until there are so many or no more.
    pub(crate) fn read_head(
        &mut self,
        staged: &Staged<'_>,
        server: ServerKey,
        wanted: usize,
    ) -> Result<(), StoreError> {
        self.fresh.read_head(staged, server, wanted)
    }

    /// Appends a URL that failed and is not to be tried before `at`, which its `not_before` says too.
    pub(crate) fn push_retry(&mut self, staged: &mut Staged<'_>, server: ServerKey, url: &StoredUrl, at: Timestamp) {
        let tried = self.tried.get_or_insert_default();
        write_url(staged, server, tried.retries.next, url);
        if tried.retries.len() == 0 {
            tried.retry_at = at;
        }
        tried.retries.next += 1;
    }

    /// The URL that has waited for longest of those of its kind, returned, retried or fresh.
    pub(crate) fn first(&self, staged: &Staged<'_>, server: ServerKey) -> Result<Option<StoredUrl>, StoreError> {
        let tried = self.tried.as_ref().and_then(|tried| {
            let retry = (tried.retries.len() > 0).then_some(tried.retries.head);
            tried.returned.front().copied().or(retry)
        });
        match tried {
            Some(slot) => read_url(staged, server, slot).map(Some),
            None => self.fresh.first(staged, server),
        }
    }

    /// Puts slots that were taken back to where they were.
    pub(crate) fn give_back(&mut self, slots: impl DoubleEndedIterator<Item = u64>, head_max: usize) {
        for slot in slots.rev() {
            if slot < RETRIES {
                self.fresh.insert(slot, head_max);
            } else {
                self.tried.get_or_insert_default().returned.push_front(slot);
            }
        }
    }

    /// Takes up to `limit` URLs that may be tried at `now` from the front: fewer only when there are no more.
    /// Their rows stay. `restore` reads points of the partition's clock. With `now` at the end of time it
    /// takes retries that are not due as well. `fresh_first`: those that never failed go before the others.
    pub(crate) fn take(
        &mut self,
        staged: &Staged<'_>,
        server: ServerKey,
        now: Timestamp,
        restore: impl Fn(u64) -> Timestamp,
        limit: usize,
        fresh_first: bool,
    ) -> Result<Vec<(u64, StoredUrl)>, StoreError> {
        let mut taken = Vec::with_capacity(limit.min(64));
        if fresh_first {
            self.fresh.take(staged, server, limit, &mut |slot, url| taken.push((slot, url)))?;
        }
        if let Some(tried) = &mut self.tried {
            tried.take(staged, server, now, restore, limit, &mut taken)?;
        }
        self.fresh.take(staged, server, limit - taken.len(), &mut |slot, url| taken.push((slot, url)))?;
        Ok(taken)
    }

    /// For the server's record.
    pub(crate) fn write(&self, row: &mut Writer, store: impl Fn(Timestamp) -> u64) {
        let none = Tried::default();
        let tried = self.tried.as_deref().unwrap_or(&none);
        row.number(tried.returned.len() as u64);
        for &slot in &tried.returned {
            // The uppermost bit to the lowest place keeps the numbers short.
            row.number(slot.rotate_left(1));
        }
        row.number(tried.retries.head - RETRIES);
        row.number(tried.retries.len());
        row.number(store(tried.retry_at));
        self.fresh.write(row);
    }

    pub(crate) fn read(row: &mut Reader<'_>, restore: impl Fn(u64) -> Timestamp) -> Option<Self> {
        let mut returned = VecDeque::new();
        for _ in 0..row.number()? {
            returned.push_back(row.number()?.rotate_right(1));
        }
        let head = RETRIES.checked_add(row.number()?)?;
        let retries = Span { head, next: head.checked_add(row.number()?)? };
        let retry_at = restore(row.number()?);
        let has_tried = !returned.is_empty() || retries.next > RETRIES;
        let tried = has_tried.then(|| Box::new(Tried { returned, retries, retry_at }));
        Some(Queue { tried, fresh: Fresh::read(row)? })
    }
}

impl Tried {
    /// Takes those that came back, then retries that are due, up to `limit` in all.
    fn take(
        &mut self,
        staged: &Staged<'_>,
        server: ServerKey,
        now: Timestamp,
        restore: impl Fn(u64) -> Timestamp,
        limit: usize,
        taken: &mut Vec<(u64, StoredUrl)>,
    ) -> Result<(), StoreError> {
        while taken.len() < limit
            && let Some(&slot) = self.returned.front()
        {
            taken.push((slot, read_url(staged, server, slot)?));
            self.returned.pop_front();
        }
        if self.retries.len() > 0 && self.retry_at <= now && taken.len() < limit {
            self.take_retries(staged, server, now, restore, limit, taken)?;
        }
        Ok(())
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
        let (mut next_at, mut gap) = (None, false);
        visit_urls(staged, server, head..self.retries.next, &mut |slot, url| {
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
            None if self.retries.len() > 0 => return Err(corrupt(URLS, "fewer retries than the server's queue has")),
            None => {}
        }
        Ok(())
    }
}

/// Visits the URLs of a range of slots in order until `visit` returns false.
pub(crate) fn visit_urls(
    staged: &Staged<'_>,
    server: ServerKey,
    slots: Range<u64>,
    visit: &mut dyn FnMut(u64, StoredUrl) -> bool,
) -> Result<(), StoreError> {
    let mut unreadable = false;
    staged.scan(URLS, &url_key(server, slots.start), &url_key(server, slots.end), &mut |key, row| {
        let (Some(slot), Some(url)) = (slot_of(key), StoredUrl::from_row(row)) else {
            unreadable = true;
            return false;
        };
        visit(slot, url)
    })?;
    if unreadable { Err(corrupt(URLS, "a waiting URL is unreadable")) } else { Ok(()) }
}

/// Visits the committed URLs of a range of slots in order until `visit` returns false; unreadable ones are left out.
pub(crate) fn scan_urls(
    store: &dyn Store,
    server: ServerKey,
    slots: Range<u64>,
    visit: &mut dyn FnMut(StoredUrl) -> bool,
) -> Result<(), StoreError> {
    store.scan(URLS, &url_key(server, slots.start), &url_key(server, slots.end), &mut |_, row| {
        StoredUrl::from_row(row).is_none_or(&mut *visit)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use shared::stage::Output;
    use shared::stage::store::MemoryStore;
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    const SERVER: ServerKey = ServerKey { partition: 3, id: 0xfeed };

    pub(crate) fn url(number: u64) -> StoredUrl {
        StoredUrl {
            url: format!("http://a.test/{number}"),
            origin: Origin {
                page: "http://a.test/".into(),
                topic: "t".into(),
                depth: 2,
                redirects: 1,
                seed: true,
                again: 1 << 40,
                flow: Quality::SEED,
            },
            serial: number,
            attempts: 3,
            not_before: 0,
        }
    }

    #[test]
    fn a_url_comes_back_as_it_was_and_damage_gives_none() {
        for page in ["http://a.test/", "http://a.test:8080/", "http://b.test/x", ""] {
            let mut stored = StoredUrl { not_before: 123_456_789, ..url(u64::MAX) };
            stored.origin.page = page.into();
            let row = stored.to_row();
            assert_eq!(StoredUrl::from_row(&row), Some(stored));
            for length in 0..row.len() {
                assert_eq!(StoredUrl::from_row(&row[..length]), None);
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Move {
        Push(u8),
        Retry(u64),
        Take(usize, bool),
        GiveBack,
        EndTaken,
        Commit { reopen: bool },
        Look(usize),
        Pass(u64),
    }

    fn moves() -> impl Strategy<Value = Vec<Move>> {
        let one = prop_oneof![
            4 => (0u8..5).prop_map(Move::Push),
            2 => (0u64..20).prop_map(Move::Retry),
            4 => (0usize..5, any::<bool>()).prop_map(|(limit, fresh_first)| Move::Take(limit, fresh_first)),
            1 => Just(Move::GiveBack),
            1 => Just(Move::EndTaken),
            2 => any::<bool>().prop_map(|reopen| Move::Commit { reopen }),
            3 => (0usize..8).prop_map(Move::Look),
            1 => (0u64..10).prop_map(Move::Pass),
        ];
        proptest::collection::vec(one, 0..80)
    }

    proptest! {
        /// Goal: no URL is lost or doubled, returned retries come first, retries not before their time, fresh ones
        /// in order. Method: against plain lists, with commits and reopening between any two moves.
        #[test]
        fn a_queue_gives_retries_first_and_the_best_of_the_others(
            moves in moves(),
            by_quality: bool,
            head_max in 0usize..6,
        ) {
            let store = MemoryStore::default();
            let mut staged = Staged::new(&store, 0);
            let mut queue = Queue::default();
            let (mut returned, mut retries, mut fresh) = (VecDeque::new(), VecDeque::new(), BTreeSet::new());
            // While URLs are in flight none are taken, but by those who took them, at once.
            let mut pushed = false;
            let mut orders = BTreeMap::new();
            let mut taken: Vec<(u64, StoredUrl)> = Vec::new();
            let mut now = Timestamp::ZERO;
            let mut number = 0;
            let restore = Timestamp::from_micros;
            for next in moves {
                match next {
                    Move::Push(quality) => {
                        number += 1;
                        let order = Order::of(Quality::new(quality.into()).unwrap());
                        let order = if by_quality { order } else { Order::LAST };
                        queue.push(&mut staged, SERVER, &url(number), order, head_max);
                        // The best first, of equal ones the first.
                        fresh.insert((order, number));
                        orders.insert(number, order);
                        pushed = true;
                    }
                    Move::Retry(wait) => {
                        let Some((slot, failed)) = taken.pop() else { continue };
                        remove_url(&mut staged, SERVER, slot);
                        let at = now + Duration::from_micros(wait);
                        let failed = StoredUrl { not_before: at.as_micros(), ..failed };
                        queue.push_retry(&mut staged, SERVER, &failed, at);
                        retries.push_back((failed.serial, at));
                    }
                    Move::Look(slots) if taken.is_empty() => {
                        queue.read_head(&staged, SERVER, slots.min(head_max)).unwrap();
                        prop_assert!(queue.head().len() >= slots.min(head_max).min(fresh.len()));
                        let first: Vec<u64> = fresh.iter().map(|(order, number)| order.slot(number - 1)).collect();
                        prop_assert!(first.starts_with(queue.head()));
                    }
                    Move::Look(_) => {}
                    Move::Take(..) if pushed && !taken.is_empty() => {}
                    Move::Take(limit, fresh_first) => {
                        pushed = false;
                        let urls = queue.take(&staged, SERVER, now, restore, limit, fresh_first).unwrap();
                        let mut expected = Vec::new();
                        while fresh_first && expected.len() < limit && let Some((_, serial)) = fresh.pop_first() {
                            expected.push(serial);
                        }
                        while expected.len() < limit && let Some(serial) = returned.pop_front() {
                            expected.push(serial);
                        }
                        while expected.len() < limit && retries.front().is_some_and(|&(_, at)| at <= now) {
                            expected.extend(retries.pop_front().map(|(serial, _)| serial));
                        }
                        while expected.len() < limit && let Some((_, serial)) = fresh.pop_first() {
                            expected.push(serial);
                        }
                        prop_assert_eq!(urls.iter().map(|(_, url)| url.serial).collect::<Vec<_>>(), expected);
                        taken.extend(urls);
                    }
                    Move::GiveBack => {
                        queue.give_back(taken.iter().map(|(slot, _)| *slot), head_max);
                        for (slot, url) in taken.drain(..).rev() {
                            if slot < RETRIES {
                                fresh.insert((orders[&url.serial], url.serial));
                            } else {
                                returned.push_front(url.serial);
                            }
                        }
                    }
                    Move::EndTaken => {
                        for (slot, _) in taken.drain(..) {
                            remove_url(&mut staged, SERVER, slot);
                        }
                    }
                    Move::Commit { reopen } => {
                        let mut out = Output::default();
                        std::mem::replace(&mut staged, Staged::new(&store, 0)).flush(&mut out, || 1);
                        store.commit(&out.changes).unwrap();
                        let mut row = Writer::with_capacity(0);
                        queue.write(&mut row, Timestamp::as_micros);
                        let row = row.finish();
                        let read = Queue::read(&mut Reader::new(&row).unwrap(), restore).unwrap();
                        prop_assert_eq!((read.len(), read.ready_at()), (queue.len(), queue.ready_at()));
                        if reopen {
                            queue = read;
                        }
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

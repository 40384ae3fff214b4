//! The URL-seen test: which of the found URLs were never met before?
//!
//! In: [`SplitUrls`]. Out: [`NewUrls`], each of one partition, and the counts of all found URLs. Beside it, the
//! content-seen test: in [`ContentAsk`], out [`ContentReply`].
//!
//! Invariants: a URL is new exactly once, up to collisions of full 64-bit fingerprints (P4); the new URLs of a
//! partition are numbered 1, 2, 3, … without a gap; found = filtered + repeated + new in every commit (P3).
//! Fingerprints, numbers, counts and outputs of a step are one commit, made before the next step: a step that
//! is given again after a crash finds the store either as before it or as after it.
//!
//! A URL is looked for in three places, the cheapest first: the URL cache (certain when there), the partition's Bloom filters (certain when not there), the store.
//!
//! Sources: Heydon and Najork 1999, section 3.2 (URL-seen test with a cache before the disk); Broder, Najork and
//! Wiener 2003 (which cache).

use crate::content::{CONTENT, first};
use crate::filters::{Allowance, Filters, bytes_for};
use shared::config::Pipeline;
use shared::message::{ContentAsk, ContentReply, Edge, FilterReason, NewUrls, Place, SplitUrls, Undecodable, decode};
use shared::stage::store::{Store, StoreError, Table};
use shared::stage::{Core, Count, Event, Output, Ticket, Token};
use shared::time::Timestamp;
use shared::url::{fingerprint, host_of, partition};
use shared::url_cache::UrlCache;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::sync::Arc;

/// Fingerprints of the URLs met: partition, fingerprint (both big-endian); no value.
const SEEN: Table = "seen";
/// Partition (big-endian): number of its next new URL. [`COUNTERS`]: the counts of the instance.
const META: Table = "meta";
/// Tables of the state.
pub const TABLES: [Table; 3] = [SEEN, CONTENT, META];
/// Key in [`META`]; longer than a partition.
const COUNTERS: &[u8] = b"counters";

/// Memory of all Bloom filters, in bytes: enough for 80 million URLs at 1 % false positives.
const FILTER_BYTES_MAX: usize = 96 << 20;

/// What the core is configured with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Partitions of the crawl.
    pub partitions: u16,
    /// URLs that the first Bloom filters are made for, over all partitions of the instance.
    pub filter_urls: u64,
    /// Memory of all Bloom filters, in bytes.
    pub filter_bytes_max: usize,
}

impl From<&Pipeline> for Settings {
    fn from(pipeline: &Pipeline) -> Self {
        Settings {
            partitions: pipeline.partitions,
            filter_urls: pipeline.stages.dedup.filter_urls,
            filter_bytes_max: FILTER_BYTES_MAX,
        }
    }
}

/// A partition of the instance.
struct Owned {
    number: u16,
    filters: Filters,
    next_serial: u64,
}

/// Counts since the crawl began, stored with each commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    found: u64,
    filtered: [u64; FilterReason::ALL.len()],
    repeated: u64,
    new: u64,
}

/// The URL-seen test of an instance.
pub struct Dedup {
    store: Arc<dyn Store>,
    settings: Settings,
    owned: Vec<Owned>,
    /// By partition, its place in `owned`.
    place_of: Vec<Option<u16>>,
    allowance: Allowance,
    cache: UrlCache,
    /// Accepted in this step: not yet to be found in the store.
    accepted: Vec<(u16, u64)>,
    counters: Counters,
    misrouted: u64,
}

impl Dedup {
    /// Opens the test over the instance's store, for the partitions that the instance owns. Reads all their
    /// fingerprints, to make the Bloom filters.
    pub fn open(
        settings: Settings,
        cache: UrlCache,
        partitions: Vec<u16>,
        store: Arc<dyn Store>,
    ) -> Result<Self, StoreError> {
        let mut place_of = vec![None; usize::from(settings.partitions)];
        let mut serials = Vec::with_capacity(partitions.len());
        for (place, &number) in (0..).zip(&partitions) {
            if let Some(slot) = place_of.get_mut(usize::from(number)) {
                *slot = Some(place);
            }
            let next = store.get(META, &number.to_be_bytes())?;
            serials.push(next.and_then(|bytes| bytes.try_into().ok()).map_or(1, u64::from_le_bytes));
        }
        let counters = store.get(META, COUNTERS)?.and_then(|bytes| Counters::from_bytes(&bytes)).unwrap_or_default();
        let mut allowance = Allowance { used: 0, max: settings.filter_bytes_max };
        let capacities = capacities(&settings, &serials);
        let mut owned = Vec::with_capacity(partitions.len());
        for ((number, next_serial), capacity) in partitions.into_iter().zip(serials).zip(capacities) {
            let filters = read_filters(store.as_ref(), number, capacity, &mut allowance)?;
            owned.push(Owned { number, filters, next_serial });
        }
        let accepted = Vec::new();
        Ok(Dedup { store, settings, owned, place_of, allowance, cache, accepted, counters, misrouted: 0 })
    }

    fn receive(&mut self, ticket: Ticket, batch: &SplitUrls, out: &mut Output<Infallible>) -> Result<(), StoreError> {
        let filtered: u64 = batch.filtered.iter().map(|&count| u64::from(count)).sum();
        for (sum, &count) in self.counters.filtered.iter_mut().zip(&batch.filtered) {
            *sum += u64::from(count);
        }
        self.counters.found += filtered + u64::from(batch.repeated);
        self.counters.repeated += u64::from(batch.repeated);
        let mut news: Vec<News> = Vec::new();
        let (mut last_host, mut place) = ("", None);
        for (url, &origin) in batch.urls.iter().zip(&batch.origin_of) {
            let host = host_of(url);
            if host != last_host {
                last_host = host;
                place = self.place_of_host(host);
            }
            let Some(place) = place else {
                self.misrouted += 1;
                continue;
            };
            self.counters.found += 1;
            if self.accept(place, fingerprint(url))? {
                self.counters.new += 1;
                News::of(&mut news, place, batch).push(url, origin, batch);
            } else {
                self.counters.repeated += 1;
            }
        }
        self.stage(ticket, news, out);
        out.finish(ticket);
        Ok(())
    }

    /// Where the host's partition lies in `owned`; none when another instance owns it.
    fn place_of_host(&self, host: &str) -> Option<u16> {
        let number = partition(host, self.settings.partitions);
        self.place_of.get(usize::from(number)).copied().flatten()
    }

    /// Whether a URL is met for the first time; it is known from now on.
    fn accept(&mut self, place: u16, fingerprint: u64) -> Result<bool, StoreError> {
        if self.cache.contains(fingerprint) {
            return Ok(false);
        }
        let owned = &mut self.owned[usize::from(place)];
        let known = owned.filters.may_contain(fingerprint)
            && (self.accepted.contains(&(place, fingerprint))
                || self.store.contains(SEEN, &seen_key(owned.number, fingerprint))?);
        // An accepted URL may be remembered before its commit: if that fails, the process ends.
        self.cache.insert(fingerprint);
        if !known {
            owned.filters.insert(fingerprint, &mut self.allowance);
            self.accepted.push((place, fingerprint));
        }
        Ok(!known)
    }

    /// Says of each body who had it first.
    fn look_up(&mut self, ticket: Ticket, ask: &ContentAsk, out: &mut Output<Infallible>) -> Result<(), StoreError> {
        let mut reply = ContentReply::default();
        let mut met: HashMap<u64, Place> = HashMap::new();
        for body in &ask.bodies {
            let number = (body.fingerprint % u64::from(self.settings.partitions)) as u16;
            if self.place_of.get(usize::from(number)).copied().flatten().is_none() {
                self.misrouted += 1;
                reply.first.push(None);
                continue;
            }
            // Twice in one ask: what the first put is not in the store yet.
            let place = match met.entry(body.fingerprint) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => *entry.insert(first(self.store.as_ref(), number, body, &mut out.changes)?),
            };
            reply.first.push((place.url != body.at.url).then_some(place));
        }
        out.reply(ticket, &reply);
        out.finish(ticket);
        Ok(())
    }

    /// Numbers the new URLs and hands everything over to be committed.
    fn stage(&mut self, ticket: Ticket, news: Vec<News>, out: &mut Output<Infallible>) {
        for (place, fingerprint) in self.accepted.drain(..) {
            out.put(SEEN, seen_key(self.owned[usize::from(place)].number, fingerprint), Vec::new());
        }
        for News { place, mut message, .. } in news {
            let owned = &mut self.owned[usize::from(place)];
            message.partition = owned.number;
            message.first_serial = owned.next_serial;
            owned.next_serial += message.urls.len() as u64;
            out.put(META, owned.number.to_be_bytes(), owned.next_serial.to_le_bytes());
            out.publish(Token::Partition(owned.number), &message, vec![ticket]);
        }
        out.put(META, COUNTERS, self.counters.to_bytes());
    }

    /// URLs known.
    fn known(&self) -> u64 {
        self.owned.iter().map(|owned| owned.next_serial - 1).sum()
    }
}

/// The new URLs of a batch that belong to one partition.
struct News {
    place: u16,
    message: NewUrls,
    /// For each origin of the batch its index in the message.
    origin_at: Vec<Option<u32>>,
}

impl News {
    /// That of a partition. A batch is of one partition, so there is rarely a second.
    fn of<'a>(news: &'a mut Vec<News>, place: u16, batch: &SplitUrls) -> &'a mut News {
        let at = news.iter().position(|news| news.place == place).unwrap_or_else(|| {
            let origin_at = vec![None; batch.origins.len()];
            news.push(News { place, message: NewUrls::default(), origin_at });
            news.len() - 1
        });
        &mut news[at]
    }

    fn push(&mut self, url: &str, origin: u32, batch: &SplitUrls) {
        let message = &mut self.message;
        let index = *self.origin_at[origin as usize].get_or_insert_with(|| {
            message.origins.push(batch.origins[origin as usize].clone());
            message.origins.len() as u32 - 1
        });
        message.urls.push(url);
        message.origin_of.push(index);
    }
}

impl Counters {
    fn to_bytes(self) -> Vec<u8> {
        let numbers = [self.found, self.repeated, self.new].into_iter().chain(self.filtered);
        numbers.flat_map(u64::to_le_bytes).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let numbers: Vec<u64> =
            bytes.chunks_exact(8).filter_map(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes).collect();
        let (&[found, repeated, new], filtered) = numbers.split_first_chunk()?;
        Some(Counters { found, filtered: filtered.try_into().ok()?, repeated, new })
    }
}

fn seen_key(partition: u16, fingerprint: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(10);
    key.extend_from_slice(&partition.to_be_bytes());
    key.extend_from_slice(&fingerprint.to_be_bytes());
    key
}

/// URLs that each partition's first filter is made for: twice those it knows, so that after a start there is one
/// filter to ask; less when that is more than all filters may have.
fn capacities(settings: &Settings, serials: &[u64]) -> Vec<u64> {
    let first = (settings.filter_urls / serials.len().max(1) as u64).max(1);
    let wanted: Vec<u64> = serials.iter().map(|next| first.max(next.saturating_mul(2))).collect();
    let bytes: usize = wanted.iter().map(|&urls| bytes_for(urls)).sum();
    if bytes <= settings.filter_bytes_max {
        return wanted;
    }
    let share = settings.filter_bytes_max as f64 / bytes as f64;
    wanted.into_iter().map(|urls| (urls as f64 * share) as u64).collect()
}

/// Reads the fingerprints of a partition into filters.
fn read_filters(
    store: &dyn Store,
    number: u16,
    capacity: u64,
    allowance: &mut Allowance,
) -> Result<Filters, StoreError> {
    let mut filters = Filters::new(capacity, allowance);
    let (from, to) = (number.to_be_bytes(), number.saturating_add(1).to_be_bytes());
    store.scan(SEEN, &from, &to, &mut |key, _| {
        if let Some(fingerprint) = key.last_chunk::<8>() {
            filters.insert(u64::from_be_bytes(*fingerprint), allowance);
        }
        true
    })?;
    Ok(filters)
}

/// What dedup is given.
#[derive(Clone, Debug)]
pub enum Input {
    /// URLs to be tested.
    Split(SplitUrls),
    /// Bodies to be tested.
    Content(ContentAsk),
}

impl Core for Dedup {
    type Input = Input;
    type Effect = Infallible;
    type Answer = Infallible;

    fn decode(edge: Edge, payload: &[u8]) -> Result<Input, Undecodable> {
        if edge == Edge::ContentAsks {
            return decode(payload).map(Input::Content);
        }
        let batch: SplitUrls = decode(payload)?;
        let fits = batch.origin_of.len() == batch.urls.len()
            && batch.origin_of.iter().all(|&origin| (origin as usize) < batch.origins.len());
        if fits { Ok(Input::Split(batch)) } else { Err(Undecodable::Corrupt("a URL without an origin".into())) }
    }

    fn step(
        &mut self,
        _now: Timestamp,
        event: Event<Input, Infallible>,
        out: &mut Output<Infallible>,
    ) -> Result<(), StoreError> {
        match event {
            Event::Message { ticket, input: Input::Split(batch) } => self.receive(ticket, &batch, out),
            Event::Message { ticket, input: Input::Content(ask) } => self.look_up(ticket, &ask, out),
            // Nothing is held between steps.
            Event::Answer(_) | Event::Stored(_) | Event::Wake | Event::Drain => Ok(()),
        }
    }

    fn wake_at(&self) -> Option<Timestamp> {
        None
    }

    fn counts(&self) -> Vec<Count> {
        let Counters { found, filtered, repeated, new } = self.counters;
        let by = |reason: FilterReason| filtered[reason as usize];
        vec![
            ("found_total", found),
            ("filtered_total", filtered.iter().sum()),
            ("filtered_scope_total", by(FilterReason::Scope)),
            ("filtered_depth_total", by(FilterReason::Depth)),
            ("filtered_redirects_total", by(FilterReason::Redirects)),
            ("filtered_form_total", by(FilterReason::Form)),
            ("filtered_pattern_total", by(FilterReason::Pattern)),
            ("filtered_segments_total", by(FilterReason::Segments)),
            ("filtered_parameters_total", by(FilterReason::Parameters)),
            ("repeated_total", repeated),
            ("new_total", new),
            ("misrouted_total", self.misrouted),
            ("known", self.known()),
            ("filter_bytes", self.allowance.used as u64),
        ]
    }
}

#[cfg(test)]
mod tests;

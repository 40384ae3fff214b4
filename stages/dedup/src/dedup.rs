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
//! A URL that was injected again ([`Origin::again`]) is new once more for each injection: what is asked then is whether
//! that injection's URL was met before, by a fingerprint of both, which is kept as those of URLs are. So its messages may
//! come as often as they like. The URL itself becomes known besides; links to it are repeats.
//!
//! A URL is looked for in the URL cache first (certain when there), then in the URL-seen store, which answers at once
//! or later: an input is finished, and so acked, when all its URLs are decided.
//!
//! Sources: Heydon and Najork 1999, section 3.2 (URL-seen test with a cache before the disk); Broder, Najork and
//! Wiener 2003 (which cache).

use crate::content::{CONTENT, first};
use crate::seen::{self, SeenError, SeenStore, Verdict};
use shared::config::Pipeline;
use shared::message::{
    ContentAsk, ContentReply, Edge, FilterReason, NewUrls, Origin, Place, SplitUrls, Undecodable, decode,
};
use shared::stage::store::{Store, StoreError, Table};
use shared::stage::{Core, Count, Event, Output, Ticket, Token};
use shared::time::Timestamp;
use shared::url::{fingerprint, host_of, partition};
use shared::url_cache::UrlCache;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Partition (big-endian): number of its next new URL. [`COUNTERS`]: the counts of the instance. [`SEEN`]: the state
/// of the URL-seen store.
const META: Table = "meta";
/// Tables of the state.
pub const TABLES: [Table; 2] = [CONTENT, META];
/// Keys in [`META`]; longer than a partition.
const COUNTERS: &[u8] = b"counters";
const SEEN: &[u8] = b"seen";

/// Without input for so long, the URL-seen store is flushed before its time.
const IDLE: Duration = Duration::from_millis(50);
/// New URLs of one message: no more, nor more bytes of them.
const URLS_MAX: usize = 256;
const BYTES_MAX: usize = 512 << 10;

/// What the core is configured with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Partitions of the crawl.
    pub partitions: u16,
    /// The URL-seen store.
    pub seen: seen::Settings,
}

impl From<&Pipeline> for Settings {
    fn from(pipeline: &Pipeline) -> Self {
        Settings { partitions: pipeline.partitions, seen: pipeline.into() }
    }
}

/// A partition of the instance.
struct Owned {
    number: u16,
    next_serial: u64,
}

/// A URL that waits for the URL-seen store's answer.
struct Waiting {
    place: u16,
    fingerprint: u64,
    /// Its place in the batch.
    index: usize,
    ticket: Ticket,
    /// Whether the answer decides what becomes of it, rather than making it known.
    decides: bool,
}

/// An input with URLs that wait: how many.
struct Held {
    waiting: usize,
    batch: Arc<SplitUrls>,
}

/// Memory of a batch, in bytes.
fn bytes_of(batch: &SplitUrls) -> usize {
    let origins = batch.origins.iter().map(|origin| size_of::<Origin>() + origin.page.len() + origin.topic.len());
    batch.urls.bytes() + batch.urls.len() * 8 + origins.sum::<usize>()
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
    partitions: u16,
    owned: Vec<Owned>,
    /// By partition, its place in `owned`.
    place_of: Vec<Option<u16>>,
    seen: Box<dyn SeenStore>,
    cache: UrlCache,
    /// By token.
    waiting: HashMap<u64, Waiting>,
    held: HashMap<Ticket, Held>,
    /// Memory of their batches, in bytes; when it is more than it may be, the URL-seen store is flushed.
    held_bytes: usize,
    held_bytes_max: usize,
    next_token: u64,
    /// When the URL-seen store is flushed although nothing is due.
    idle_at: Timestamp,
    draining: bool,
    counters: Counters,
    /// As they were when they were last handed over to be committed.
    committed: Counters,
    misrouted: u64,
}

impl Dedup {
    /// Opens the test over the instance's store and the URL-seen store's folder beside it, for the partitions that
    /// the instance owns.
    ///
    /// # Errors
    /// One of the stores cannot be read, or cannot go on from what was committed.
    pub fn open(
        settings: &Settings,
        cache: UrlCache,
        partitions: &[u16],
        store: Arc<dyn Store>,
        folder: PathBuf,
    ) -> Result<Self, StoreError> {
        let mut place_of = vec![None; usize::from(settings.partitions)];
        let mut owned = Vec::with_capacity(partitions.len());
        for (place, &number) in (0..).zip(partitions) {
            if let Some(slot) = place_of.get_mut(usize::from(number)) {
                *slot = Some(place);
            }
            let next = store.get(META, &number.to_be_bytes())?;
            let next_serial = next.and_then(|bytes| bytes.try_into().ok()).map_or(1, u64::from_le_bytes);
            owned.push(Owned { number, next_serial });
        }
        let counters = match store.get(META, COUNTERS)? {
            Some(bytes) => Counters::from_bytes(&bytes).ok_or_else(|| of_another_version("its counts"))?,
            None => Counters::default(),
        };
        let committed = store.get(META, SEEN)?;
        if committed.is_none() && owned.iter().any(|owned| owned.next_serial > 1) {
            return Err(of_another_version("which URLs were seen"));
        }
        let seen = seen::open(&settings.seen, folder, partitions, committed.as_deref()).map_err(failed)?;
        Ok(Dedup {
            store,
            partitions: settings.partitions,
            owned,
            place_of,
            seen,
            cache,
            waiting: HashMap::new(),
            held: HashMap::new(),
            held_bytes: 0,
            held_bytes_max: settings.seen.buffer_bytes,
            next_token: 0,
            idle_at: Timestamp::ZERO,
            draining: false,
            counters,
            committed: counters,
            misrouted: 0,
        })
    }

    fn receive(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        batch: SplitUrls,
        news: &mut News,
        out: &mut Output<Infallible>,
    ) -> Result<(), StoreError> {
        let mut waiting = 0;
        let (mut last_host, mut host_fingerprint, mut place) = ("", 0, None);
        for (index, (url, &origin)) in batch.urls.iter().zip(&batch.origin_of).enumerate() {
            let host = host_of(url);
            if host != last_host {
                last_host = host;
                host_fingerprint = fingerprint(host);
                place = self.place_of_host(host);
            }
            let Some(place) = place else {
                self.misrouted += 1;
                continue;
            };
            let origin = &batch.origins[origin as usize];
            let number = self.owned[usize::from(place)].number;
            let fingerprint = match origin.again {
                0 => fingerprint(url),
                again => of_injected(url, again),
            };
            if self.cache.contains(fingerprint) {
                self.counters.repeat();
                continue;
            }
            if origin.again != 0 {
                waiting += usize::from(self.make_known(now, place, host_fingerprint, url, index, ticket)?);
            }
            match self.seen.ask(now, number, host_fingerprint, fingerprint, self.next_token).map_err(failed)? {
                Verdict::Later => {
                    let decides = true;
                    self.waiting.insert(self.next_token, Waiting { place, fingerprint, index, ticket, decides });
                    self.next_token += 1;
                    waiting += 1;
                }
                verdict => self.decide(verdict == Verdict::New, place, fingerprint, url, origin, ticket, news),
            }
        }
        if waiting == 0 {
            self.finish(ticket, &batch, out);
        } else {
            self.held_bytes += bytes_of(&batch);
            self.held.insert(ticket, Held { waiting, batch: Arc::new(batch) });
        }
        self.idle_at = now + IDLE;
        Ok(())
    }

    /// Makes a URL known that is new because of its injection. Whether its input has to wait for that.
    fn make_known(
        &mut self,
        now: Timestamp,
        place: u16,
        host: u64,
        url: &str,
        index: usize,
        ticket: Ticket,
    ) -> Result<bool, StoreError> {
        let fingerprint = fingerprint(url);
        let number = self.owned[usize::from(place)].number;
        let verdict = self.seen.ask(now, number, host, fingerprint, self.next_token).map_err(failed)?;
        if verdict != Verdict::Later {
            return Ok(false);
        }
        self.waiting.insert(self.next_token, Waiting { place, fingerprint, index, ticket, decides: false });
        self.next_token += 1;
        Ok(true)
    }

    /// What is known of a URL now. One that is remembered before its commit: if that fails, the process ends.
    #[expect(clippy::too_many_arguments, reason = "a URL with all that belongs to it")]
    fn decide(
        &mut self,
        is_new: bool,
        place: u16,
        fingerprint: u64,
        url: &str,
        origin: &Origin,
        ticket: Ticket,
        news: &mut News,
    ) {
        self.cache.insert(fingerprint);
        if is_new {
            self.counters.found += 1;
            self.counters.new += 1;
            news.push(place, url, origin, ticket);
        } else {
            self.counters.repeat();
        }
    }

    /// Everything of an input is decided: the counts that were made upstream are taken over.
    fn finish(&mut self, ticket: Ticket, batch: &SplitUrls, out: &mut Output<Infallible>) {
        let filtered: u64 = batch.filtered.iter().map(|&count| u64::from(count)).sum();
        for (sum, &count) in self.counters.filtered.iter_mut().zip(&batch.filtered) {
            *sum += u64::from(count);
        }
        self.counters.found += filtered + u64::from(batch.repeated);
        self.counters.repeated += u64::from(batch.repeated);
        out.finish(ticket);
    }

    /// Takes the URL-seen store's answers.
    fn flush(
        &mut self,
        now: Timestamp,
        all: bool,
        news: &mut News,
        out: &mut Output<Infallible>,
    ) -> Result<(), StoreError> {
        let mut answers = Vec::new();
        self.seen.flush(now, all, &mut answers).map_err(failed)?;
        for (token, is_new) in answers {
            let Some(asked) = self.waiting.remove(&token) else { continue };
            let Waiting { place, fingerprint, index, ticket, decides } = asked;
            let Some(held) = self.held.get_mut(&ticket) else { continue };
            held.waiting -= 1;
            let (batch, is_last) = (Arc::clone(&held.batch), held.waiting == 0);
            let origin = &batch.origins[batch.origin_of[index] as usize];
            if decides {
                self.decide(is_new, place, fingerprint, batch.urls.get(index), origin, ticket, news);
            }
            if is_last {
                self.held.remove(&ticket);
                self.held_bytes -= bytes_of(&batch);
                self.finish(ticket, &batch, out);
            }
        }
        Ok(())
    }

    /// Whether the URL-seen store is to be flushed now, and then whether all of it.
    fn flush_due(&self, now: Timestamp) -> Option<bool> {
        let is_idle = self.draining || now >= self.idle_at;
        let all = (is_idle || self.held_bytes > self.held_bytes_max) && !self.seen.is_idle();
        (all || self.seen.flush_at().is_some_and(|at| at <= now)).then_some(all)
    }

    /// Where the host's partition lies in `owned`; none when another instance owns it.
    fn place_of_host(&self, host: &str) -> Option<u16> {
        let number = partition(host, self.partitions);
        self.place_of.get(usize::from(number)).copied().flatten()
    }

    /// Says of each body who had it first.
    fn look_up(&mut self, ticket: Ticket, ask: &ContentAsk, out: &mut Output<Infallible>) -> Result<(), StoreError> {
        let mut reply = ContentReply::default();
        let mut met: HashMap<u64, Place> = HashMap::new();
        for body in &ask.bodies {
            let number = (body.fingerprint % u64::from(self.partitions)) as u16;
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
    fn stage(&mut self, news: News, out: &mut Output<Infallible>) -> Result<(), StoreError> {
        for NewUrlsOf { place, mut message, causes, .. } in news.messages {
            let owned = &mut self.owned[usize::from(place)];
            message.partition = owned.number;
            message.first_serial = owned.next_serial;
            owned.next_serial += message.urls.len() as u64;
            out.put(META, owned.number.to_be_bytes(), owned.next_serial.to_le_bytes());
            out.publish(Token::Partition(owned.number), &message, causes);
        }
        if let Some(seen) = self.seen.stage().map_err(failed)? {
            out.put(META, SEEN, seen);
        }
        if self.counters != self.committed {
            self.committed = self.counters;
            out.put(META, COUNTERS, self.counters.to_bytes());
        }
        Ok(())
    }

    /// URLs known.
    fn known(&self) -> u64 {
        self.owned.iter().map(|owned| owned.next_serial - 1).sum()
    }
}

fn failed(error: SeenError) -> StoreError {
    match error {
        SeenError::Io { action, path, error } => StoreError::Io { action, path, error: error.to_string() },
        error => StoreError::Unusable(error.to_string()),
    }
}

fn of_another_version(what: &str) -> StoreError {
    StoreError::Unusable(format!(
        "the state of the URL-seen test does not say {what} in a way that is understood; use the version of the program that \
         began the crawl, or delete the crawl"
    ))
}

/// New URLs on their way into messages, each of one partition.
#[derive(Default)]
struct News {
    messages: Vec<NewUrlsOf>,
}

struct NewUrlsOf {
    place: u16,
    message: NewUrls,
    causes: Vec<Ticket>,
    bytes: usize,
}

impl News {
    fn push(&mut self, place: u16, url: &str, origin: &Origin, ticket: Ticket) {
        let has_room = |of: &NewUrlsOf| of.place == place && of.message.urls.len() < URLS_MAX && of.bytes < BYTES_MAX;
        // The latest is rarely another: a batch is of one partition, and answers come by partition.
        let at = self.messages.iter().rposition(has_room).unwrap_or_else(|| {
            self.messages.push(NewUrlsOf { place, message: NewUrls::default(), causes: Vec::new(), bytes: 0 });
            self.messages.len() - 1
        });
        let NewUrlsOf { message, causes, bytes, .. } = &mut self.messages[at];
        let index = message.origins.iter().rposition(|other| other == origin).unwrap_or_else(|| {
            message.origins.push(origin.clone());
            *bytes += origin.page.len() + origin.topic.len();
            message.origins.len() - 1
        });
        message.urls.push(url);
        message.origin_of.push(index as u32);
        *bytes += url.len();
        if causes.last() != Some(&ticket) && !causes.contains(&ticket) {
            causes.push(ticket);
        }
    }
}

impl Counters {
    fn repeat(&mut self) {
        self.found += 1;
        self.repeated += 1;
    }

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

/// What stands for a URL of an injection in the URL-seen test; no URL has a space.
fn of_injected(url: &str, again: u64) -> u64 {
    fingerprint(&format!("{again} {url}"))
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
        now: Timestamp,
        event: Event<Input, Infallible>,
        out: &mut Output<Infallible>,
    ) -> Result<(), StoreError> {
        // Every step before this one is committed.
        self.seen.committed().map_err(failed)?;
        let mut news = News::default();
        match event {
            Event::Message { ticket, input: Input::Split(batch) } => {
                self.receive(now, ticket, batch, &mut news, out)?
            }
            Event::Message { ticket, input: Input::Content(ask) } => self.look_up(ticket, &ask, out)?,
            Event::Drain => self.draining = true,
            Event::Answer(_) | Event::Stored(_) | Event::Wake => {}
        }
        if let Some(all) = self.flush_due(now) {
            self.flush(now, all, &mut news, out)?;
        }
        self.stage(news, out)
    }

    fn wake_at(&self) -> Option<Timestamp> {
        let idle_at = (!self.seen.is_idle()).then_some(self.idle_at);
        self.seen.flush_at().into_iter().chain(idle_at).min()
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    fn why(&self, _: Timestamp, url: &str) -> Result<Option<String>, StoreError> {
        let host = host_of(url);
        let Some(place) = self.place_of_host(host) else { return Ok(None) };
        let number = self.owned[usize::from(place)].number;
        let is_seen = self.seen.knows(number, fingerprint(host), fingerprint(url)).map_err(failed)?;
        Ok(Some(if is_seen { "seen: it passed the URL-seen test" } else { "not seen yet" }.into()))
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
            ("waiting", self.waiting.len() as u64),
            ("waiting_bytes", self.held_bytes as u64),
            ("seen_memory_bytes", self.seen.memory_bytes() as u64),
            ("seen_disk_bytes", self.seen.disk_bytes()),
        ]
    }
}

#[cfg(test)]
mod tests;

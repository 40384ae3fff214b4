//! The host-splitter's core: filters found URLs and regroups the others by partition.
//!
//! In: [`FoundUrls`], and the entries of the shared scope. Out: [`SplitUrls`], each of one partition.
//!
//! Invariants: every found URL is either placed in a batch or counted, as repeated or under one [`FilterReason`], and both
//! leave in messages caused by the input (P3); URLs of one host always go to the same partition. A URL is
//! judged only when the shared scope is known, and a seed only when its hosts have joined it. A URL that the cache
//! knows is counted as repeated instead of being placed: it enters the cache only when a batch with it is stored. One that
//! is to be fetched again is placed whatever the cache knows.
//!
//! Sources: Heydon and Najork 1999, section 3.5 (URL filters) and Najork and Heydon 2001, section 3 (the host
//! splitter); Broder, Najork and Wiener 2003, section 7 (a cache before it saves the messages of repeats).

use crate::filters::Filters;
use shared::config::{Follow, Pipeline};
use shared::message::{Edge, FilterReason, FilteredUrls, FoundUrls, SplitUrls, Undecodable, UrlList, decode};
use shared::stage::store::StoreError;
use shared::stage::{Core, Count, Event, Output, Ticket, Token};
use shared::time::Timestamp;
use shared::url::{fingerprint, host_of, partition, registered_domain};
use shared::url_cache::UrlCache;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

/// A batch is flushed at this size even when it holds fewer URLs: a message stays far below
/// `broker.max_payload`, however long the URLs may be.
const BATCH_BYTES_MAX: usize = 512 << 10;

/// Seeds that wait for their hosts to join the scope; with more, no further input is taken.
const PARKED_MAX: usize = 64;

/// What the core is configured with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Partitions of the crawl.
    pub partitions: u16,
    /// Which hosts a topic follows.
    pub follow: Follow,
    /// Links away from a seed.
    pub max_depth: u16,
    /// Redirects in a row.
    pub redirects: u8,
    /// Which URLs of a host that is followed pass.
    pub filters: Filters,
    /// Longest URL, in bytes.
    pub url_bytes_max: usize,
    /// URLs in one batch.
    pub batch_urls_max: usize,
    /// How long a URL waits for company.
    pub linger: Duration,
}

impl From<&Pipeline> for Settings {
    fn from(pipeline: &Pipeline) -> Self {
        Settings {
            partitions: pipeline.partitions,
            follow: pipeline.scope.follow,
            max_depth: pipeline.scope.max_depth,
            redirects: pipeline.limits.redirects,
            filters: Filters::from(pipeline),
            url_bytes_max: pipeline.limits.url_bytes_max,
            batch_urls_max: pipeline.stages.host_splitter.batch_urls_max,
            linger: pipeline.stages.host_splitter.linger,
        }
    }
}

/// Work on the scope that all instances share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Bring the next entry of the shared scope, or say that all there were have been brought.
    NextScope,
    /// Add an entry to the shared scope; repeated until it is there.
    Join {
        /// The topic.
        topic: String,
        /// A host, or with `scope.follow: domain` a registered domain.
        entry: String,
    },
}

/// What that work brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An entry of the shared scope.
    Scope {
        /// The topic.
        topic: String,
        /// A host, or a registered domain.
        entry: String,
    },
    /// All entries that were there at the start have been brought.
    ScopeCaughtUp,
    /// The entry is in the shared scope.
    Joined {
        /// The topic.
        topic: String,
        /// A host, or a registered domain.
        entry: String,
    },
}

/// How far the shared scope is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Learning {
    NotBegun,
    Underway,
    CaughtUp,
}

/// The batch of a partition that waits for company.
#[derive(Default)]
struct Pending {
    batch: SplitUrls,
    bytes: usize,
    /// Inputs of its URLs, each once, in order.
    causes: Vec<Ticket>,
    /// Of its URLs.
    fingerprints: Vec<u64>,
    due: Timestamp,
}

/// Counts of URLs that go no further, which wait for a batch to ride in.
#[derive(Default)]
struct Dropped {
    filtered: [u32; FilterReason::ALL.len()],
    repeated: u32,
    /// Inputs of the dropped URLs, each once, in order.
    causes: Vec<Ticket>,
    due: Timestamp,
    /// Where they go when no batch does.
    partition: u16,
}

/// Seeds whose hosts have yet to join the scope.
struct Parked {
    ticket: Ticket,
    found: FoundUrls,
    missing: usize,
}

/// The host-splitter's core.
pub struct Splitter {
    settings: Settings,
    /// Number of the next batch.
    number: u64,
    learning: Learning,
    /// By topic, the hosts or registered domains that it follows.
    scope: HashMap<String, HashSet<String>>,
    /// By ticket, inputs that wait for entries to join.
    parked: HashMap<Ticket, Parked>,
    /// By topic and entry that is joining, who waits for it.
    joining: HashMap<(String, String), Vec<Ticket>>,
    /// By partition.
    pending: Vec<Pending>,
    /// When pending batches are due, in order; an entry whose batch has left meanwhile means nothing.
    due: VecDeque<(Timestamp, u16)>,
    dropped: Dropped,
    cache: UrlCache,
    /// By number, batches that are on their way to their stream: the fingerprints that enter the cache then.
    leaving: HashMap<u64, Vec<u64>>,
    /// By input, in how many pending batches or counts something of it waits.
    held: HashMap<Ticket, u32>,
    draining: bool,
    found_total: u64,
    filtered_total: [u64; FilterReason::ALL.len()],
    repeated_total: u64,
    batches_total: u64,
    pending_urls: u64,
}

impl Splitter {
    /// A core with nothing in hand. `life` is a random number of this life of the process: batches are
    /// numbered from there.
    pub fn new(settings: Settings, cache: UrlCache, life: u64) -> Self {
        let pending = (0..settings.partitions).map(|_| Pending::default()).collect();
        Splitter {
            number: life,
            learning: match settings.follow {
                Follow::Any => Learning::CaughtUp,
                Follow::Host | Follow::Domain => Learning::NotBegun,
            },
            settings,
            scope: HashMap::new(),
            parked: HashMap::new(),
            joining: HashMap::new(),
            pending,
            due: VecDeque::new(),
            dropped: Dropped::default(),
            cache,
            leaving: HashMap::new(),
            held: HashMap::new(),
            draining: false,
            found_total: 0,
            filtered_total: [0; FilterReason::ALL.len()],
            repeated_total: 0,
            batches_total: 0,
            pending_urls: 0,
        }
    }

    /// Places the URLs of an input, after its seeds have joined the scope.
    fn receive(&mut self, now: Timestamp, ticket: Ticket, found: FoundUrls, out: &mut Output<Effect>) {
        let missing = self.missing_entries(&found);
        if missing.is_empty() {
            self.place(now, ticket, &found, out);
            return;
        }
        self.parked.insert(ticket, Parked { ticket, found, missing: missing.len() });
        for (topic, entry) in missing {
            let waiting = self.joining.entry((topic.clone(), entry.clone())).or_default();
            if waiting.is_empty() {
                out.effect(Effect::Join { topic, entry });
            }
            waiting.push(ticket);
        }
    }

    /// Topic and entry of the seeds that are not yet in the scope, each once.
    fn missing_entries(&self, found: &FoundUrls) -> BTreeSet<(String, String)> {
        let origin = &found.origin;
        if !origin.seed || self.settings.follow == Follow::Any || self.rejection_of_all(found).is_some() {
            return BTreeSet::new();
        }
        let known = self.scope.get(&origin.topic);
        let mut missing = BTreeSet::new();
        for host in found.urls.iter().filter_map(|url| checked_host(url, self.settings.url_bytes_max)) {
            let entry = scope_entry(self.settings.follow, host);
            if !known.is_some_and(|known| known.contains(entry)) {
                missing.insert((origin.topic.clone(), entry.to_owned()));
            }
        }
        missing
    }

    /// The entry is in the scope; inputs that waited for it alone are placed.
    fn learn(&mut self, now: Timestamp, topic: String, entry: String, out: &mut Output<Effect>) {
        let key = (topic, entry);
        let waiting = self.joining.remove(&key);
        let (topic, entry) = key;
        self.scope.entry(topic).or_default().insert(entry);
        for ticket in waiting.unwrap_or_default() {
            let Some(parked) = self.parked.get_mut(&ticket) else { continue };
            parked.missing -= 1;
            if parked.missing == 0
                && let Some(Parked { ticket, found, .. }) = self.parked.remove(&ticket)
            {
                self.place(now, ticket, &found, out);
            }
        }
    }

    /// Why none of the input's URLs may pass, if so.
    fn rejection_of_all(&self, found: &FoundUrls) -> Option<FilterReason> {
        if found.origin.redirects > self.settings.redirects {
            Some(FilterReason::Redirects)
        } else if found.origin.depth > self.settings.max_depth {
            Some(FilterReason::Depth)
        } else {
            None
        }
    }

    /// Puts each URL of an input into the batch of its partition, or counts that and why not.
    fn place(&mut self, now: Timestamp, ticket: Ticket, found: &FoundUrls, out: &mut Output<Effect>) {
        // Held until all of it has left: an input that were acked before would be lost with the process (P3).
        self.held.insert(ticket, 1);
        let rejection_of_all = self.rejection_of_all(found);
        // Links of a page stand next to links to the same host: what was found out for one holds for the next.
        let mut last_host = "";
        let mut last_verdict = Err(FilterReason::Form);
        let mut filtered = FilteredUrls { origin: found.origin.clone(), urls: UrlList::default(), reasons: Vec::new() };
        for url in found.urls.iter() {
            let verdict = match (checked_host(url, self.settings.url_bytes_max), rejection_of_all) {
                (None, _) => Err(FilterReason::Form),
                (_, Some(reason)) => Err(reason),
                (Some(host), None) => {
                    if host != last_host {
                        last_host = host;
                        last_verdict = self.partition_in_scope(&found.origin.topic, host);
                    }
                    last_verdict.and_then(|partition| self.settings.filters.rejection(url).map_or(Ok(partition), Err))
                }
            };
            match verdict {
                Ok(partition) => {
                    let fingerprint = fingerprint(url);
                    // What is to be fetched again is known; whether it was let pass already dedup knows.
                    if found.origin.again == 0 && self.cache.contains(fingerprint) {
                        self.repeated_total += 1;
                        self.drop(now, ticket, found).repeated += 1;
                    } else {
                        self.pending[usize::from(partition)].fingerprints.push(fingerprint);
                        self.append(now, ticket, found, url, partition, out);
                    }
                }
                Err(reason) => {
                    self.filtered_total[reason as usize] += 1;
                    self.drop(now, ticket, found).filtered[reason as usize] += 1;
                    filtered.urls.push(url);
                    filtered.reasons.push(reason);
                }
            }
        }
        self.found_total += found.urls.len() as u64;
        if !filtered.reasons.is_empty() {
            out.send(Token::None, &filtered);
        }
        self.release(ticket, out);
    }

    /// Something of the input has left; the input is finished with the last of it.
    fn release(&mut self, ticket: Ticket, out: &mut Output<Effect>) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        *held -= 1;
        if *held == 0 {
            self.held.remove(&ticket);
            out.finish(ticket);
        }
    }

    /// The partition of a host that the topic follows.
    fn partition_in_scope(&self, topic: &str, host: &str) -> Result<u16, FilterReason> {
        let follow = self.settings.follow;
        let in_scope = follow == Follow::Any
            || self.scope.get(topic).is_some_and(|entries| entries.contains(scope_entry(follow, host)));
        if in_scope { Ok(partition(host, self.settings.partitions)) } else { Err(FilterReason::Scope) }
    }

    fn append(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        found: &FoundUrls,
        url: &str,
        partition: u16,
        out: &mut Output<Effect>,
    ) {
        let pending = &mut self.pending[usize::from(partition)];
        if pending.batch.urls.is_empty() {
            pending.due = now + self.settings.linger;
            self.due.push_back((pending.due, partition));
        }
        if pending.causes.last() != Some(&ticket) {
            pending.causes.push(ticket);
            *self.held.entry(ticket).or_default() += 1;
            pending.batch.origins.push(found.origin.clone());
            pending.bytes += found.origin.page.len() + found.origin.topic.len();
        }
        pending.batch.urls.push(url);
        pending.batch.origin_of.push(pending.batch.origins.len() as u32 - 1);
        pending.bytes += url.len();
        self.pending_urls += 1;
        if pending.batch.urls.len() >= self.settings.batch_urls_max || pending.bytes >= BATCH_BYTES_MAX {
            self.flush(partition, out);
        }
    }

    /// A URL of the input goes no further: where to count it.
    fn drop(&mut self, now: Timestamp, ticket: Ticket, found: &FoundUrls) -> &mut Dropped {
        let dropped = &mut self.dropped;
        if dropped.causes.is_empty() {
            dropped.due = now + self.settings.linger;
            dropped.partition = partition(host_of(&found.origin.page), self.settings.partitions);
        }
        if dropped.causes.last() != Some(&ticket) {
            dropped.causes.push(ticket);
            *self.held.entry(ticket).or_default() += 1;
        }
        dropped
    }

    /// Publishes the batch of a partition with the counts of what was dropped so far.
    fn flush(&mut self, partition: u16, out: &mut Output<Effect>) {
        let pending = std::mem::take(&mut self.pending[usize::from(partition)]);
        let Pending { mut batch, causes: mut leaving, fingerprints, .. } = pending;
        self.pending_urls -= batch.urls.len() as u64;
        let dropped = std::mem::take(&mut self.dropped);
        batch.filtered = dropped.filtered;
        batch.repeated = dropped.repeated;
        batch.number = self.number;
        self.number = self.number.wrapping_add(1);
        self.batches_total += 1;
        leaving.extend(dropped.causes);
        let mut causes = leaving.clone();
        causes.sort_unstable();
        causes.dedup();
        out.publish_tagged(Token::Partition(partition), &batch, causes, batch.number);
        self.leaving.insert(batch.number, fingerprints);
        for ticket in leaving {
            self.release(ticket, out);
        }
    }

    /// Publishes what has waited long enough.
    fn flush_due(&mut self, now: Timestamp, out: &mut Output<Effect>) {
        while let Some(&(due, partition)) = self.due.front() {
            let pending = &self.pending[usize::from(partition)];
            let waits = !pending.batch.urls.is_empty() && pending.due == due;
            if waits && due > now && !self.draining {
                return;
            }
            self.due.pop_front();
            if waits {
                self.flush(partition, out);
            }
        }
        // No batch is pending: the counts travel alone.
        if !self.dropped.causes.is_empty() && (self.dropped.due <= now || self.draining) {
            self.flush(self.dropped.partition, out);
        }
    }
}

/// What the scope holds for a host.
fn scope_entry(follow: Follow, host: &str) -> &str {
    match follow {
        Follow::Domain => registered_domain(host),
        Follow::Host | Follow::Any => host,
    }
}

/// The host of a URL that is of the form of a canonical one, as far as a look at its bytes tells: `http://` or
/// `https://`, a lower-case host, perhaps a port, a path, nothing but printable ASCII, no NUL in an escape either, which
/// browsers would ask for and nothing is behind, at most `bytes_max` bytes.
fn checked_host(url: &str, bytes_max: usize) -> Option<&str> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let (authority, path) = rest.split_once('/')?;
    let has_form = url.len() <= bytes_max
        && authority
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b':' | b'[' | b']'))
        && path.bytes().all(|byte| byte.is_ascii_graphic())
        && !path.contains("%00");
    let host = host_of(url);
    (has_form && !host.is_empty()).then_some(host)
}

impl Core for Splitter {
    type Input = FoundUrls;
    type Effect = Effect;
    type Answer = Answer;

    fn decode(_edge: Edge, payload: &[u8]) -> Result<FoundUrls, Undecodable> {
        decode(payload)
    }

    fn step(
        &mut self,
        now: Timestamp,
        event: Event<FoundUrls, Answer>,
        out: &mut Output<Effect>,
    ) -> Result<(), StoreError> {
        match event {
            Event::Message { ticket, input } => self.receive(now, ticket, input, out),
            Event::Answer(Answer::Scope { topic, entry }) => {
                self.learn(now, topic, entry, out);
                out.effect(Effect::NextScope);
            }
            Event::Answer(Answer::ScopeCaughtUp) => {
                self.learning = Learning::CaughtUp;
                out.effect(Effect::NextScope);
            }
            Event::Answer(Answer::Joined { topic, entry }) => self.learn(now, topic, entry, out),
            Event::Wake if self.learning == Learning::NotBegun => {
                self.learning = Learning::Underway;
                out.effect(Effect::NextScope);
            }
            Event::Wake => {}
            Event::Stored(number) => {
                for fingerprint in self.leaving.remove(&number).unwrap_or_default() {
                    self.cache.insert(fingerprint);
                }
            }
            Event::Drain => self.draining = true,
        }
        self.flush_due(now, out);
        Ok(())
    }

    fn wake_at(&self) -> Option<Timestamp> {
        if self.learning == Learning::NotBegun {
            return Some(Timestamp::ZERO);
        }
        let dropped = (!self.dropped.causes.is_empty()).then_some(self.dropped.due);
        self.due.front().map(|&(due, _)| due).or(dropped)
    }

    fn wants_input(&self) -> bool {
        self.learning == Learning::CaughtUp && self.parked.len() < PARKED_MAX
    }

    fn is_idle(&self) -> bool {
        self.parked.is_empty() && self.pending_urls == 0 && self.dropped.causes.is_empty()
    }

    /// As a link of whatever topic follows it, however deep.
    fn why(&self, _: Timestamp, url: &str) -> Result<Option<String>, StoreError> {
        let verdict = match checked_host(url, self.settings.url_bytes_max) {
            None => Err(FilterReason::Form),
            Some(host)
                if self.settings.follow != Follow::Any
                    && !self.scope.keys().any(|topic| self.partition_in_scope(topic, host).is_ok()) =>
            {
                Err(FilterReason::Scope)
            }
            Some(_) => self.settings.filters.rejection(url).map_or(Ok(()), Err),
        };
        Ok(verdict.err().map(|reason| format!("a link to it is filtered: {}", reason.name())))
    }

    fn counts(&self) -> Vec<Count> {
        let filtered = |reason: FilterReason| self.filtered_total[reason as usize];
        vec![
            ("found_total", self.found_total),
            ("filtered_scope_total", filtered(FilterReason::Scope)),
            ("filtered_depth_total", filtered(FilterReason::Depth)),
            ("filtered_redirects_total", filtered(FilterReason::Redirects)),
            ("filtered_form_total", filtered(FilterReason::Form)),
            ("filtered_pattern_total", filtered(FilterReason::Pattern)),
            ("filtered_segments_total", filtered(FilterReason::Segments)),
            ("filtered_parameters_total", filtered(FilterReason::Parameters)),
            ("repeated_total", self.repeated_total),
            ("batches_total", self.batches_total),
            ("pending", self.pending_urls),
        ]
    }
}

#[cfg(test)]
mod tests;

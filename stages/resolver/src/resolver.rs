//! The resolver's core: which address?
//!
//! In: [`NewUrls`] and [`DnsRefresh`]. Out: [`ReadyUrls`], each URL with what is known of its server's address.
//!
//! URLs whose names are known leave at once; the others are parked under their names until the answer comes. Names
//! in use are asked for again before what is known of them expires, while half of the window is free, so that what
//! is in play does not wait. What is known goes to the shell as a snapshot from time to time and at the end.
//!
//! Invariants: each URL leaves exactly once, with its serial number and origin (P3); at most one query for a name
//! and at most `window` queries are under way; unless allowed, a private address leaves with nothing, also one that
//! an earlier life was allowed to remember (P7).
//!
//! Source: Najork and Heydon 2001, section 3 (DNS as the bottleneck of a crawler: many queries at once, answers
//! cached).

use crate::name_cache::{ADDRESSES_MAX, Damaged, Kept, Kind, Known, NameCache, read_snapshot, seconds};
use shared::address::is_private;
use shared::config::Pipeline;
use shared::message::{DnsRefresh, Edge, NewUrls, ReadyUrls, Resolution, ServerResolution, Undecodable, decode};
use shared::stage::store::StoreError;
use shared::stage::{Core, Count, Event, Output, Ticket, Token};
use shared::time::Timestamp;
use shared::url::{address_literal, host_of, server_of};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// With more URLs parked, no further input is taken.
const PARKED_URLS_MAX: u64 = 20_000;
/// Parked URLs of a name leave together up to this many, and up to so many bytes.
const BATCH_URLS_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 512 << 10;
/// A refresh is not answered by a query when the last one failed so recently.
const JUST_FAILED: Duration = Duration::from_secs(5);
/// A name without address is remembered for at least so long, or for the most that is configured if that is less;
/// also when its zone does not say how long (RFC 2308, section 5, would have it forgotten then).
const NEGATIVE_MIN: Duration = Duration::from_secs(60);

/// What the core is configured with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Queries outstanding.
    pub window: usize,
    /// Names in the cache.
    pub entries: usize,
    /// An address is used at least this long.
    pub refresh: Duration,
    /// And at most this long.
    pub lifetime_max: Duration,
    /// How long a name without address is remembered at most.
    pub negative: Duration,
    /// How long a failure is remembered; twice as long with every further one,
    pub temporary: Duration,
    /// up to this.
    pub temporary_max: Duration,
    /// How often a snapshot is taken at most; zero: never.
    pub snapshot_every: Duration,
    /// Whether private addresses may be contacted.
    pub allow_private: bool,
}

impl From<&Pipeline> for Settings {
    fn from(pipeline: &Pipeline) -> Self {
        let resolver = &pipeline.stages.resolver;
        Settings {
            window: resolver.window,
            entries: resolver.cache.entries,
            refresh: resolver.cache.refresh,
            lifetime_max: resolver.cache.lifetime_max,
            negative: resolver.cache.negative,
            temporary: resolver.cache.temporary,
            temporary_max: resolver.cache.temporary_max,
            snapshot_every: resolver.cache.snapshot_every,
            allow_private: pipeline.network.allow_private_addresses,
        }
    }
}

/// A message of an input edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// New URLs.
    New(NewUrls),
    /// Servers whose addresses are wanted anew.
    Refresh(DnsRefresh),
}

/// Work for the shell; each is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A query to make, which ends at the latest when it has timed out.
    Query {
        /// The name.
        name: String,
    },
    /// A snapshot to write where the next life finds it.
    Keep {
        /// See [`NameCache::snapshot`].
        snapshot: Vec<u8>,
    },
}

/// What the shell's work brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What a query brought.
    Found {
        /// The name.
        name: String,
        /// What was found.
        found: Found,
    },
    /// The snapshot was written, or could not be.
    Kept,
}

/// What name servers say of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its addresses, and for how many seconds they hold.
    Addresses {
        /// In any order.
        addresses: Vec<IpAddr>,
        /// Seconds.
        ttl_s: u32,
    },
    /// It does not exist, or has no address.
    NoAddress {
        /// For how many seconds that holds, if the zone says so.
        ttl_s: Option<u32>,
    },
    /// No answer, or a failure.
    Temporary,
}

/// Something that waits for a name: URLs of one input, or the servers of a refresh.
struct Draft {
    ticket: Ticket,
    /// Complete but for the resolutions.
    message: ReadyUrls,
}

/// Answers by kind.
#[derive(Default)]
struct Kinds {
    addresses: u64,
    no_address: u64,
    private: u64,
    temporary: u64,
}

/// The resolver's core.
pub struct Resolver {
    settings: Settings,
    cache: NameCache,
    /// When to take the next snapshot; none while nothing is new.
    snapshot_at: Option<Timestamp>,
    /// A snapshot is being written.
    keeping: bool,
    draining: bool,
    /// By name that is asked for or queued, what waits for it; nothing when it was asked for ahead of time.
    parked: HashMap<String, Vec<Draft>>,
    /// Names to ask for when the window allows.
    queue: VecDeque<String>,
    in_flight: usize,
    /// By input, how many of its drafts are parked.
    open: HashMap<Ticket, usize>,
    parked_urls: u64,
    queries: u64,
    hits: u64,
    misses: u64,
    /// Queries made ahead of time.
    ahead: u64,
    snapshots: u64,
    kinds: Kinds,
}

impl Resolver {
    /// A core that knows no name.
    pub fn new(settings: Settings) -> Self {
        Resolver {
            cache: NameCache::new(settings.entries),
            settings,
            snapshot_at: None,
            keeping: false,
            draining: false,
            parked: HashMap::new(),
            queue: VecDeque::new(),
            in_flight: 0,
            open: HashMap::new(),
            parked_urls: 0,
            queries: 0,
            hits: 0,
            misses: 0,
            ahead: 0,
            snapshots: 0,
            kinds: Kinds::default(),
        }
    }

    /// Begins with what an earlier life knew when it took a snapshot `elapsed` ago; tells how many names that are.
    ///
    /// # Errors
    /// The snapshot is damaged: nothing was taken from it.
    pub fn restore(&mut self, snapshot: &[u8], elapsed: Duration, now: Timestamp) -> Result<usize, Damaged> {
        for kept in read_snapshot(snapshot)? {
            if self.may_restore(&kept) {
                self.cache.restore(&kept, elapsed, now);
            }
        }
        Ok(self.cache.len())
    }

    /// Whether the present settings would have had it found out.
    fn may_restore(&self, kept: &Kept) -> bool {
        let Settings { allow_private, lifetime_max, negative, .. } = self.settings;
        match kept.kind {
            Kind::Addresses => {
                kept.lifetime <= lifetime_max && (allow_private || !kept.addresses.iter().any(|&ip| is_private(ip)))
            }
            Kind::NoAddress => kept.lifetime <= negative,
            Kind::Private => kept.lifetime <= lifetime_max && !allow_private,
            Kind::Temporary => false,
        }
    }

    /// Passes on the URLs whose names are known and parks the others.
    fn receive(&mut self, now: Timestamp, ticket: Ticket, batch: NewUrls, out: &mut Output<Effect>) {
        let (servers, server_of) = self.servers_of(now, &batch);
        if servers.iter().all(|(_, known)| known.is_some()) {
            let servers = servers
                .into_iter()
                .filter_map(|(server, known)| Some(ServerResolution { server: server.to_owned(), resolution: known? }))
                .collect();
            publish_whole(ticket, batch, servers, server_of, out);
            out.finish(ticket);
            return;
        }
        let Parts { ready, waiting } = split(&batch, &servers, &server_of);
        if !ready.urls.is_empty() {
            out.publish(Token::Partition(ready.partition), &ready, vec![ticket]);
        }
        for (name, message) in waiting {
            self.park(now, name, Draft { ticket, message }, out);
        }
    }

    /// The servers of a batch, each once, with what is known of them; and for each URL the index of its server.
    fn servers_of<'a>(&mut self, now: Timestamp, batch: &'a NewUrls) -> (Vec<(&'a str, Option<Resolution>)>, Vec<u32>) {
        let mut servers = Vec::new();
        let mut indices = Vec::with_capacity(batch.urls.len());
        let mut index_of = HashMap::new();
        let (mut last, mut last_index) = ("", 0);
        for url in batch.urls.iter() {
            let server = server_of(url);
            if server != last || servers.is_empty() {
                last = server;
                last_index = *index_of.entry(server).or_insert_with(|| {
                    servers.push((server, self.known(now, host_of(server), |_| true)));
                    servers.len() as u32 - 1
                });
            }
            indices.push(last_index);
        }
        (servers, indices)
    }

    /// What is known of a host, if that will do.
    fn known(&mut self, now: Timestamp, host: &str, will_do: impl Fn(Known) -> bool) -> Option<Resolution> {
        if let Some(address) = address_literal(host) {
            return Some(self.permitted(vec![address], seconds(self.settings.lifetime_max)));
        }
        let known = self.cache.get(host, now).filter(|&known| will_do(known));
        match known {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        known.map(|known| known.resolution(now))
    }

    /// Addresses that may be contacted, the fourth version of the protocol first; most networks have that.
    fn permitted(&self, mut addresses: Vec<IpAddr>, ttl_s: u32) -> Resolution {
        if addresses.is_empty() {
            return Resolution::NoAddress;
        }
        addresses.retain(|&address| self.settings.allow_private || !is_private(address));
        if addresses.is_empty() {
            return Resolution::Private;
        }
        let mut distinct = Vec::with_capacity(addresses.len().min(ADDRESSES_MAX));
        addresses.sort_by_key(IpAddr::is_ipv6);
        for address in addresses {
            if distinct.len() < ADDRESSES_MAX && !distinct.contains(&address) {
                distinct.push(address);
            }
        }
        Resolution::Addresses { addresses: distinct, ttl_s }
    }

    /// Answers from what is not about to expire and failures of just now, and asks for the other names.
    fn refresh(&mut self, now: Timestamp, ticket: Ticket, request: DnsRefresh, out: &mut Output<Effect>) {
        let blank = || ReadyUrls { partition: request.partition, refresh: request.number, ..ReadyUrls::default() };
        let mut ready = blank();
        let mut waiting: Vec<(String, ReadyUrls)> = Vec::new();
        for server in request.servers {
            let host = host_of(&server);
            let will_do = |known: Known| match known.kind() {
                Kind::Temporary => known.age(now) <= JUST_FAILED,
                _ => !known.is_about_to_expire(now),
            };
            if let Some(resolution) = self.known(now, host, will_do) {
                ready.servers.push(ServerResolution { server, resolution });
                continue;
            }
            let at = waiting.iter().position(|(name, _)| name == host).unwrap_or_else(|| {
                waiting.push((host.to_owned(), blank()));
                waiting.len() - 1
            });
            waiting[at].1.servers.push(unresolved(server));
        }
        if !ready.servers.is_empty() {
            out.publish(Token::Partition(ready.partition), &ready, vec![ticket]);
        }
        if waiting.is_empty() {
            out.finish(ticket);
        }
        for (name, message) in waiting {
            self.park(now, name, Draft { ticket, message }, out);
        }
    }

    fn park(&mut self, now: Timestamp, name: String, draft: Draft, out: &mut Output<Effect>) {
        self.parked_urls += weight(&draft.message);
        *self.open.entry(draft.ticket).or_default() += 1;
        match self.parked.entry(name) {
            Entry::Occupied(mut parked) => parked.get_mut().push(draft),
            Entry::Vacant(parked) => {
                self.queue.push_back(parked.key().clone());
                parked.insert(vec![draft]);
            }
        }
        self.ask(now, out);
    }

    /// Asks for queued names while the window allows, and then for names ahead of time.
    fn ask(&mut self, now: Timestamp, out: &mut Output<Effect>) {
        while self.in_flight < self.settings.window.max(1) {
            let Some(name) = self.queue.pop_front() else { break };
            self.query(name, out);
        }
        while self.may_ask_ahead() {
            let Some(name) = self.cache.take_due(now) else { break };
            if !self.parked.contains_key(&name) {
                self.parked.insert(name.clone(), Vec::new());
                self.ahead += 1;
                self.query(name, out);
            }
        }
    }

    fn may_ask_ahead(&self) -> bool {
        !self.draining && self.in_flight * 2 < self.settings.window.max(1)
    }

    fn query(&mut self, name: String, out: &mut Output<Effect>) {
        self.in_flight += 1;
        self.queries += 1;
        out.effect(Effect::Query { name });
    }

    /// Remembers what was found and passes on what waited for it.
    fn answer(&mut self, now: Timestamp, name: &str, found: Found, out: &mut Output<Effect>) {
        // Every query stands among the parked, and is answered once.
        let Some(drafts) = self.parked.remove(name) else { return };
        self.in_flight -= 1;
        let resolution = self.remember(now, name, found);
        self.parked_urls -= drafts.iter().map(|draft| weight(&draft.message)).sum::<u64>();
        publish_drafts(&drafts, &resolution, out);
        for Draft { ticket, .. } in drafts {
            self.close(ticket, out);
        }
        self.ask(now, out);
    }

    /// What now holds for a name.
    fn remember(&mut self, now: Timestamp, name: &str, found: Found) -> Resolution {
        let Settings { refresh, lifetime_max, negative, .. } = self.settings;
        let (resolution, lifetime) = match found {
            Found::NoAddress { ttl_s } => {
                let lifetime = Duration::from_secs(ttl_s.unwrap_or(0).into());
                (Resolution::NoAddress, lifetime.max(NEGATIVE_MIN).min(negative))
            }
            Found::Temporary => (Resolution::Temporary, self.back_off(name)),
            Found::Addresses { addresses, ttl_s } => {
                let lifetime = Duration::from_secs(ttl_s.into()).max(refresh).min(lifetime_max);
                (self.permitted(addresses, seconds(lifetime)), lifetime)
            }
        };
        let kinds = &mut self.kinds;
        match &resolution {
            Resolution::Addresses { .. } => kinds.addresses += 1,
            Resolution::NoAddress => kinds.no_address += 1,
            Resolution::Private => kinds.private += 1,
            Resolution::Temporary => {
                kinds.temporary += 1;
                // A refresh that failed says nothing against what was found out before and still holds.
                if let Some(known) = self.cache.peek(name, now).filter(|known| known.kind() != Kind::Temporary) {
                    let resolution = known.resolution(now);
                    self.cache.postpone(name, lifetime, now);
                    return resolution;
                }
            }
        }
        self.cache.insert(name, &resolution, lifetime, now);
        if self.snapshot_at.is_none() && !self.settings.snapshot_every.is_zero() {
            self.snapshot_at = Some(now + self.settings.snapshot_every);
        }
        resolution
    }

    /// How long one more failure of a name is remembered.
    fn back_off(&self, name: &str) -> Duration {
        let doubled = 2u32.saturating_pow(self.cache.failures(name).into());
        self.settings.temporary.saturating_mul(doubled).min(self.settings.temporary_max)
    }

    /// Has a snapshot written if there is something new and none is being written.
    fn keep(&mut self, now: Timestamp, out: &mut Output<Effect>) {
        if self.snapshot_at.is_some() && !self.keeping {
            self.snapshot_at = None;
            self.keeping = true;
            self.snapshots += 1;
            out.effect(Effect::Keep { snapshot: self.cache.snapshot(now) });
        }
    }

    fn kept(&mut self, now: Timestamp, out: &mut Output<Effect>) {
        self.keeping = false;
        if self.draining {
            self.keep(now, out);
        }
    }

    /// One draft of the input less.
    fn close(&mut self, ticket: Ticket, out: &mut Output<Effect>) {
        let Some(open) = self.open.get_mut(&ticket) else { return };
        *open -= 1;
        if *open == 0 {
            self.open.remove(&ticket);
            out.finish(ticket);
        }
    }
}

/// A server before its resolution is known.
fn unresolved(server: String) -> ServerResolution {
    ServerResolution { server, resolution: Resolution::Temporary }
}

/// How much a draft counts against [`PARKED_URLS_MAX`].
fn weight(message: &ReadyUrls) -> u64 {
    message.urls.len().max(1) as u64
}

/// Publishes a batch whose names are all known: nothing is copied.
fn publish_whole(
    ticket: Ticket,
    batch: NewUrls,
    servers: Vec<ServerResolution>,
    server_of: Vec<u32>,
    out: &mut Output<Effect>,
) {
    let message = ReadyUrls {
        partition: batch.partition,
        serials: (0..batch.urls.len() as u64).map(|at| batch.first_serial.wrapping_add(at)).collect(),
        servers,
        origins: batch.origins,
        urls: batch.urls,
        origin_of: batch.origin_of,
        server_of,
        refresh: 0,
    };
    out.publish(Token::Partition(message.partition), &message, vec![ticket]);
}

/// A batch taken apart.
struct Parts {
    /// URLs whose names are known.
    ready: ReadyUrls,
    /// The others by name; resolutions missing.
    waiting: Vec<(String, ReadyUrls)>,
}

/// A part of a batch being filled.
struct Part {
    message: ReadyUrls,
    /// For each origin of the batch its index in the message.
    origin_at: Vec<Option<u32>>,
}

impl Part {
    fn new(batch: &NewUrls) -> Self {
        let message = ReadyUrls { partition: batch.partition, ..ReadyUrls::default() };
        Part { message, origin_at: vec![None; batch.origins.len()] }
    }

    fn push(&mut self, batch: &NewUrls, at: usize, url: &str, server: u32) {
        let message = &mut self.message;
        let origin = batch.origin_of[at] as usize;
        let origin = *self.origin_at[origin].get_or_insert_with(|| {
            message.origins.push(batch.origins[origin].clone());
            message.origins.len() as u32 - 1
        });
        message.urls.push(url);
        message.origin_of.push(origin);
        message.server_of.push(server);
        message.serials.push(batch.first_serial.wrapping_add(at as u64));
    }
}

/// Takes a batch apart by what is known of its servers.
fn split(batch: &NewUrls, servers: &[(&str, Option<Resolution>)], server_of: &[u32]) -> Parts {
    let mut parts = vec![Part::new(batch)];
    let mut names: Vec<&str> = Vec::new();
    let mut part_of_name = HashMap::new();
    // For each server its part, and its index there.
    let places: Vec<(usize, u32)> = servers
        .iter()
        .map(|(server, known)| {
            let part = match known {
                Some(_) => 0,
                None => *part_of_name.entry(host_of(server)).or_insert_with_key(|name| {
                    names.push(name);
                    parts.push(Part::new(batch));
                    parts.len() - 1
                }),
            };
            let servers = &mut parts[part].message.servers;
            servers.push(ServerResolution {
                server: (*server).to_owned(),
                resolution: known.clone().unwrap_or(Resolution::Temporary),
            });
            (part, servers.len() as u32 - 1)
        })
        .collect();
    for (at, (url, &server)) in batch.urls.iter().zip(server_of).enumerate() {
        let (part, server) = places[server as usize];
        parts[part].push(batch, at, url, server);
    }
    let mut messages = parts.into_iter().map(|part| part.message);
    let ready = messages.next().unwrap_or_default();
    Parts { ready, waiting: names.into_iter().map(str::to_owned).zip(messages).collect() }
}

/// Publishes drafts whose name is resolved now: URLs of several inputs together, answers to refreshes each alone.
fn publish_drafts(drafts: &[Draft], resolution: &Resolution, out: &mut Output<Effect>) {
    let mut merged = ReadyUrls::default();
    let mut causes: Vec<Ticket> = Vec::new();
    for Draft { ticket, message } in drafts {
        if message.refresh != 0 || message.urls.is_empty() {
            let mut message = message.clone();
            resolve(&mut message.servers, resolution);
            out.publish(Token::Partition(message.partition), &message, vec![*ticket]);
            continue;
        }
        let full = merged.urls.len() >= BATCH_URLS_MAX || merged.urls.bytes() >= BATCH_BYTES_MAX;
        if !causes.is_empty() && (full || merged.partition != message.partition) {
            out.publish(Token::Partition(merged.partition), &merged, std::mem::take(&mut causes));
            merged = ReadyUrls::default();
        }
        merged.partition = message.partition;
        append(&mut merged, message);
        resolve(&mut merged.servers, resolution);
        causes.push(*ticket);
    }
    if !causes.is_empty() {
        out.publish(Token::Partition(merged.partition), &merged, causes);
    }
}

fn resolve(servers: &mut [ServerResolution], resolution: &Resolution) {
    for server in servers {
        server.resolution = resolution.clone();
    }
}

/// Appends the URLs of a draft of the same name; its servers differ in scheme and port at most.
fn append(merged: &mut ReadyUrls, draft: &ReadyUrls) {
    let servers_at: Vec<u32> = draft
        .servers
        .iter()
        .map(|server| {
            let at = merged.servers.iter().position(|known| known.server == server.server).unwrap_or_else(|| {
                merged.servers.push(server.clone());
                merged.servers.len() - 1
            });
            at as u32
        })
        .collect();
    let origins_before = merged.origins.len() as u32;
    merged.origins.extend_from_slice(&draft.origins);
    merged.origin_of.extend(draft.origin_of.iter().map(|origin| origins_before + origin));
    merged.server_of.extend(draft.server_of.iter().map(|&server| servers_at[server as usize]));
    merged.serials.extend_from_slice(&draft.serials);
    for url in draft.urls.iter() {
        merged.urls.push(url);
    }
}

impl Core for Resolver {
    type Input = Input;
    type Effect = Effect;
    type Answer = Answer;

    fn decode(edge: Edge, payload: &[u8]) -> Result<Input, Undecodable> {
        if edge == Edge::DnsRefresh {
            return decode(payload).map(Input::Refresh);
        }
        let batch: NewUrls = decode(payload)?;
        let fits = batch.origin_of.len() == batch.urls.len()
            && batch.origin_of.iter().all(|&origin| (origin as usize) < batch.origins.len());
        if fits { Ok(Input::New(batch)) } else { Err(Undecodable::Corrupt("a URL without an origin".into())) }
    }

    fn step(
        &mut self,
        now: Timestamp,
        event: Event<Input, Answer>,
        out: &mut Output<Effect>,
    ) -> Result<(), StoreError> {
        match event {
            Event::Message { ticket, input: Input::New(batch) } => self.receive(now, ticket, batch, out),
            Event::Message { ticket, input: Input::Refresh(request) } => self.refresh(now, ticket, request, out),
            Event::Answer(Answer::Found { name, found }) => self.answer(now, &name, found, out),
            Event::Answer(Answer::Kept) => self.kept(now, out),
            Event::Wake => {
                self.ask(now, out);
                if self.snapshot_at.is_some_and(|at| at <= now) {
                    self.keep(now, out);
                }
            }
            Event::Drain => {
                self.draining = true;
                self.keep(now, out);
            }
            Event::Stored(_) => {}
        }
        Ok(())
    }

    fn wake_at(&self) -> Option<Timestamp> {
        let due = self.cache.due_at().filter(|_| self.may_ask_ahead());
        let snapshot = self.snapshot_at.filter(|_| !self.draining && !self.keeping);
        due.into_iter().chain(snapshot).min()
    }

    fn wants_input(&self) -> bool {
        self.parked_urls <= PARKED_URLS_MAX
    }

    fn is_idle(&self) -> bool {
        self.open.is_empty() && !self.keeping
    }

    fn counts(&self) -> Vec<Count> {
        vec![
            ("queries_total", self.queries),
            ("cache_hits_total", self.hits),
            ("cache_misses_total", self.misses),
            ("answers_addresses_total", self.kinds.addresses),
            ("answers_no_address_total", self.kinds.no_address),
            ("answers_private_total", self.kinds.private),
            ("answers_temporary_total", self.kinds.temporary),
            ("queries_ahead_total", self.ahead),
            ("snapshots_total", self.snapshots),
            ("names_cached", self.cache.len() as u64),
            ("names_cached_bytes", self.cache.bytes() as u64),
            ("names_in_flight", self.in_flight as u64),
            ("parked", self.parked_urls),
        ]
    }
}

#[cfg(test)]
mod tests;

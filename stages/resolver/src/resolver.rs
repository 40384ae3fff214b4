//! The resolver's core: which address?
//!
//! In: [`NewUrls`] and [`DnsRefresh`]. Out: [`ReadyUrls`], each URL with what is known of its server's address.
//!
//! URLs whose names are known leave at once; the others are parked under their names until the answer comes.
//!
//! Invariants: each URL leaves exactly once, with its serial number and origin (P3); at most one query for a name
//! and at most `window` queries are under way; unless allowed, a private address leaves with nothing (P7).
//!
//! Source: Najork and Heydon 2001, section 3 (DNS as the bottleneck of a crawler: many queries at once, answers
//! cached).

use crate::address_cache::{AddressCache, Known};
use shared::address::is_private;
use shared::config::Pipeline;
use shared::message::{DnsRefresh, Edge, NewUrls, ReadyUrls, Resolution, ServerResolution, Undecodable, decode};
use shared::stage::store::StoreError;
use shared::stage::{Core, Count, Event, Output, Ticket, Token};
use shared::time::Timestamp;
use shared::url::{address_literal, host_of, server_of};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// With more URLs parked, no further input is taken.
const PARKED_URLS_MAX: u64 = 20_000;
/// Parked URLs of a name leave together up to this many, and up to so many bytes.
const BATCH_URLS_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 512 << 10;
/// Addresses of a name that are passed on.
const ADDRESSES_MAX: usize = 16;
/// A refresh is answered from the cache when the name was asked for so recently.
const JUST_FOUND: Duration = Duration::from_secs(5);

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
    /// How long a name without address is remembered.
    pub negative: Duration,
    /// How long a failure is remembered.
    pub temporary: Duration,
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

/// A query to make; each is answered, at the latest when it has timed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The name.
    pub name: String,
}

/// What a query brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The name.
    pub name: String,
    /// What was found.
    pub found: Found,
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
    NoAddress,
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
    cache: AddressCache,
    /// By name that is asked for or queued, what waits for it.
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
    kinds: Kinds,
}

impl Resolver {
    /// A core that knows no name.
    pub fn new(settings: Settings) -> Self {
        Resolver {
            cache: AddressCache::new(settings.entries),
            settings,
            parked: HashMap::new(),
            queue: VecDeque::new(),
            in_flight: 0,
            open: HashMap::new(),
            parked_urls: 0,
            queries: 0,
            hits: 0,
            misses: 0,
            kinds: Kinds::default(),
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
            self.park(name, Draft { ticket, message }, out);
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
                    servers.push((server, self.known(host_of(server), now, Duration::MAX)));
                    servers.len() as u32 - 1
                });
            }
            indices.push(last_index);
        }
        (servers, indices)
    }

    /// What is known of a host, found out at most `age_max` ago.
    fn known(&mut self, host: &str, now: Timestamp, age_max: Duration) -> Option<Resolution> {
        if let Some(address) = address_literal(host) {
            return Some(self.permitted(vec![address], seconds(self.settings.lifetime_max)));
        }
        let known = self.cache.get(host, now).filter(|known| now.since(known.found_at) <= age_max);
        match known {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        known.map(|known| still_holds(known, now))
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

    /// Answers from what was found out just now, and asks for the other names.
    fn refresh(&mut self, now: Timestamp, ticket: Ticket, request: DnsRefresh, out: &mut Output<Effect>) {
        let blank = || ReadyUrls { partition: request.partition, refresh: request.number, ..ReadyUrls::default() };
        let mut ready = blank();
        let mut waiting: Vec<(String, ReadyUrls)> = Vec::new();
        for server in request.servers {
            let host = host_of(&server);
            if let Some(resolution) = self.known(host, now, JUST_FOUND) {
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
            self.park(name, Draft { ticket, message }, out);
        }
    }

    fn park(&mut self, name: String, draft: Draft, out: &mut Output<Effect>) {
        self.parked_urls += weight(&draft.message);
        *self.open.entry(draft.ticket).or_default() += 1;
        let drafts = self.parked.entry(name.clone()).or_default();
        if drafts.is_empty() {
            self.queue.push_back(name);
        }
        drafts.push(draft);
        self.ask(out);
    }

    /// Asks for queued names while the window allows.
    fn ask(&mut self, out: &mut Output<Effect>) {
        while self.in_flight < self.settings.window.max(1) {
            let Some(name) = self.queue.pop_front() else { break };
            self.in_flight += 1;
            self.queries += 1;
            out.effect(Effect { name });
        }
    }

    /// Remembers what was found and passes on what waited for it.
    fn answer(&mut self, now: Timestamp, Answer { name, found }: Answer, out: &mut Output<Effect>) {
        // Every query parked something before it was made, and is answered once.
        let Some(drafts) = self.parked.remove(&name) else { return };
        self.in_flight -= 1;
        let resolution = self.remember(now, &name, found);
        self.parked_urls -= drafts.iter().map(|draft| weight(&draft.message)).sum::<u64>();
        publish_drafts(&drafts, &resolution, out);
        for Draft { ticket, .. } in drafts {
            self.close(ticket, out);
        }
        self.ask(out);
    }

    /// What now holds for a name.
    fn remember(&mut self, now: Timestamp, name: &str, found: Found) -> Resolution {
        let (resolution, lifetime) = match found {
            Found::NoAddress => (Resolution::NoAddress, self.settings.negative),
            Found::Temporary => (Resolution::Temporary, self.settings.temporary),
            Found::Addresses { addresses, ttl_s } => {
                let Settings { refresh, lifetime_max, .. } = self.settings;
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
                if let Some(known) = self.cache.get(name, now) {
                    return still_holds(known, now);
                }
            }
        }
        self.cache.insert(name, resolution.clone(), lifetime, now);
        resolution
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

/// A duration in whole seconds, rounded up.
fn seconds(duration: Duration) -> u32 {
    let whole = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    u32::try_from(whole).unwrap_or(u32::MAX)
}

/// What is known, with the time for which it still holds.
fn still_holds(known: &Known, now: Timestamp) -> Resolution {
    let mut resolution = known.resolution.clone();
    if let Resolution::Addresses { ttl_s, .. } = &mut resolution {
        *ttl_s = seconds(known.expires_at.since(now));
    }
    resolution
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
            Event::Answer(answer) => self.answer(now, answer, out),
            // Nothing is held back, and answers come by themselves.
            Event::Stored(_) | Event::Wake | Event::Drain => {}
        }
        Ok(())
    }

    fn wake_at(&self) -> Option<Timestamp> {
        None
    }

    fn wants_input(&self) -> bool {
        self.parked_urls <= PARKED_URLS_MAX
    }

    fn is_idle(&self) -> bool {
        self.parked.is_empty()
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
            ("names_cached", self.cache.len() as u64),
            ("names_in_flight", self.in_flight as u64),
            ("parked", self.parked_urls),
        ]
    }
}

#[cfg(test)]
mod tests;

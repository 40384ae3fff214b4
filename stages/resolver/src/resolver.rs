//! The resolver's core: which address?
//!
//! In: [`NewUrls`] and [`DnsRefresh`]. Out: [`ReadyUrls`]: URLs with what is known of their
//! servers' addresses, and addresses alone that were found out since.
//!
//! URLs leave at once, whatever is known: a server's address may be pending, and follows. To wait
//! for it is the scheduler's part, which asks again when no answer came; so what waits here may be
//! lost. Names in use are asked for again before what is known of them expires, while half of the
//! window is free, so that what is in play does not wait. What is known goes to the shell as a
//! snapshot from time to time and at the end.
//!
//! Invariants: each URL leaves exactly once, with its serial number and origin (P3); at most one
//! query for a name and at most `window` queries are under way; what waits is bounded (P6); unless
//! allowed, a private address leaves with nothing, also one that an earlier life was allowed to
//! remember (P7).
//!
//! Source: Najork and Heydon 2001, section 3 (DNS as the bottleneck of a crawler: many queries at
//! once, answers cached).

use crate::effect::{Answer, Effect, Found};
use crate::name_cache::{
    ADDRESSES_MAX, Damaged, Kept, Kind, Known, NameCache, read_snapshot, seconds,
};
use crate::silence::Silence;
use crate::special::is_answered_here;
use crate::tally::Tally;
use crate::told;
use foldhash::{HashMap, HashMapExt as _};
use rhumb_stage::doubt::Failure;
use rhumb_stage::store::StoreError;
use rhumb_stage::{Core, Count, Event, Output, Ticket};
use rhumb_telemetry::metrics::Histogram;
use rhumb_url::address::Reach;
use rhumb_url::time::Timestamp;
use rhumb_url::{address_literal, host_of, server_of};
use rhumb_wire::message::{
    DnsRefresh, Edge, NewUrls, ReadyUrls, Resolution, ServerResolution, Undecodable, decode,
};
use rhumb_wire::topology::Token;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

/// The most servers that may wait for their names, and for one name: what their answer tells fits a
/// message. Beyond, a server is pending without being asked for; the scheduler asks when its turn
/// comes.
const SERVERS_WAITING_MAX: usize = 20_000;
const SERVERS_PER_NAME_MAX: usize = 256;
/// A refresh is not answered by a query when the last one failed so recently.
const JUST_FAILED: Duration = Duration::from_secs(5);
/// A name without address is remembered for at least so long, or for the most that is configured if
/// that is less; also when its zone does not say how long (RFC 2308, section 5, would have it
/// forgotten then).
const NEGATIVE_MIN: Duration = Duration::from_secs(60);

pub use crate::settings::Settings;

/// A message of an input edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// New URLs.
    New(NewUrls),
    /// Servers whose addresses are wanted anew.
    Refresh(DnsRefresh),
}

/// What waits for a name: servers of the partition of its host, each once; none when it was asked
/// for ahead of time.
#[derive(Default)]
struct Waiting {
    partition: u16,
    /// When the query went out.
    asked_at: Timestamp,
    servers: Vec<String>,
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
    /// What waits for each name that is asked for or queued.
    waiting: HashMap<String, Waiting>,
    servers_waiting: usize,
    /// Names to ask for when the window allows.
    queue: VecDeque<String>,
    in_flight: usize,
    silence: Silence,
    tally: Tally,
}

impl Resolver {
    /// A core that knows no name.
    pub fn new(settings: Settings) -> Self {
        Resolver {
            cache: NameCache::new(settings.entries),
            silence: Silence::new(settings.doubt_max, settings.past),
            settings,
            snapshot_at: None,
            keeping: false,
            draining: false,
            waiting: HashMap::new(),
            servers_waiting: 0,
            queue: VecDeque::new(),
            in_flight: 0,
            tally: Tally::default(),
        }
    }

    /// Begins with what an earlier life knew when it took a snapshot `elapsed` ago; tells how many
    /// names that are.
    ///
    /// # Errors
    /// The snapshot is damaged: nothing was taken from it.
    pub fn restore(
        &mut self,
        snapshot: &[u8],
        elapsed: Duration,
        now: Timestamp,
    ) -> Result<usize, Damaged> {
        for kept in read_snapshot(snapshot)? {
            if self.may_restore(&kept) {
                self.cache.restore(&kept, elapsed, now);
            }
        }
        Ok(self.cache.len())
    }

    /// Returns whether the present settings would have had it found out.
    fn may_restore(&self, kept: &Kept) -> bool {
        let Settings {
            ref reach,
            lifetime_max,
            negative,
            ..
        } = self.settings;
        match kept.kind {
            Kind::Addresses => {
                kept.lifetime <= lifetime_max
                    && kept.addresses.iter().all(|&address| reach.has(address))
            }
            Kind::NoAddress => kept.lifetime <= negative,
            Kind::Private => kept.lifetime <= lifetime_max && *reach != Reach::All,
            Kind::Temporary => false,
        }
    }

    /// Passes a batch on, with what is known of its servers, and asks for the names of the others.
    fn receive(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        batch: NewUrls,
        out: &mut Output<Effect>,
    ) {
        let partition = batch.partition;
        let (servers, server_of) = self.servers_of(now, &batch);
        told::passed_on(&batch);
        for ServerResolution { server, .. } in
            servers.iter().filter(|found| found.resolution.is_none())
        {
            self.wait(partition, server);
        }
        let message = ReadyUrls {
            partition,
            serials: (0..batch.urls.len() as u64)
                .map(|at| batch.first_serial.wrapping_add(at))
                .collect(),
            servers,
            origins: batch.origins,
            urls: batch.urls,
            origin_of: batch.origin_of,
            server_of,
            refresh: 0,
        };
        out.publish(Token::Partition(partition), &message, vec![ticket]);
        out.finish(ticket);
    }

    /// The servers of a batch, each once, with what is known of them; and for each URL the index of
    /// its server.
    fn servers_of(&mut self, now: Timestamp, batch: &NewUrls) -> (Vec<ServerResolution>, Vec<u32>) {
        let mut servers: Vec<ServerResolution> = Vec::new();
        let mut indices = Vec::with_capacity(batch.urls.len());
        let mut index_of = HashMap::new();
        let mut last = "";
        let mut last_index = 0;
        for url in batch.urls.iter() {
            let server = server_of(url);
            if server != last || servers.is_empty() {
                last = server;
                last_index = *index_of.entry(server).or_insert_with(|| {
                    let resolution = self.known(now, host_of(server), |_| true);
                    servers.push(ServerResolution {
                        server: server.to_owned(),
                        resolution,
                    });
                    servers.len() as u32 - 1
                });
            }
            indices.push(last_index);
        }
        (servers, indices)
    }

    /// What is known of a host, if that will do.
    fn known(
        &mut self,
        now: Timestamp,
        host: &str,
        will_do: impl Fn(Known) -> bool,
    ) -> Option<Resolution> {
        if let Some(address) = address_literal(host) {
            return Some(self.permitted(vec![address], seconds(self.settings.lifetime_max)));
        }
        // What failed in doubt, or shortly before, may not have been the fault of the name.
        let in_doubt = self.silence.is_on(now);
        let tells = |known: Known| will_do(known) && !(in_doubt && known.kind() == Kind::Temporary);
        let known = self.cache.get(host, now).filter(|&known| tells(known));
        match known {
            Some(_) => self.tally.hits += 1,
            None => self.tally.misses += 1,
        }
        known.map(|known| known.resolution(now))
    }

    /// Addresses that may be contacted, the fourth version of the protocol first; most networks
    /// have that.
    fn permitted(&self, mut addresses: Vec<IpAddr>, ttl_s: u32) -> Resolution {
        if addresses.is_empty() {
            return Resolution::NoAddress;
        }
        addresses.retain(|&address| self.settings.reach.has(address));
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
        Resolution::Addresses {
            addresses: distinct,
            ttl_s,
        }
    }

    /// Answers from what is not about to expire and failures of just now, and asks for the other
    /// names.
    fn refresh(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        request: DnsRefresh,
        out: &mut Output<Effect>,
    ) {
        let partition = request.partition;
        let mut ready = ReadyUrls {
            partition,
            refresh: request.number,
            ..ReadyUrls::default()
        };
        for server in request.servers {
            let will_do = |known: Known| match known.kind() {
                Kind::Temporary => known.age(now) <= JUST_FAILED,
                _ => !known.is_about_to_expire(now),
            };
            match self.known(now, host_of(&server), will_do) {
                None => self.wait(partition, &server),
                resolution => ready.servers.push(ServerResolution { server, resolution }),
            }
        }
        if !ready.servers.is_empty() {
            out.publish(Token::Partition(partition), &ready, vec![ticket]);
        }
        out.finish(ticket);
    }

    /// A server waits for its name, which is asked for unless it is already; when there is room.
    fn wait(&mut self, partition: u16, server: &str) {
        if self.servers_waiting >= SERVERS_WAITING_MAX {
            return;
        }
        let name = host_of(server);
        let waiting = match self.waiting.get_mut(name) {
            Some(waiting) => waiting,
            None => {
                self.queue.push_back(name.to_owned());
                self.waiting.entry(name.to_owned()).or_default()
            }
        };
        waiting.partition = partition;
        if waiting.servers.len() < SERVERS_PER_NAME_MAX
            && !waiting.servers.iter().any(|known| known == server)
        {
            waiting.servers.push(server.to_owned());
            self.servers_waiting += 1;
        }
    }

    /// Asks for queued names while the window allows, and then for names ahead of time.
    fn ask(&mut self, now: Timestamp, out: &mut Output<Effect>) {
        let window = self.settings.window.max(1);
        while self.silence.room(now, window, self.in_flight) > 0 {
            let Some(name) = self.queue.pop_front().or_else(|| self.silence.next()) else {
                break;
            };
            self.query(now, name, out);
        }
        while self.may_ask_ahead() && self.silence.room(now, window, self.in_flight) > 0 {
            let Some(name) = self.cache.take_due(now) else {
                break;
            };
            if !self.waiting.contains_key(&name) {
                self.waiting.insert(name.clone(), Waiting::default());
                self.tally.ahead += 1;
                self.query(now, name, out);
            }
        }
    }

    fn may_ask_ahead(&self) -> bool {
        !self.draining && self.in_flight * 2 < self.settings.window.max(1)
    }

    fn query(&mut self, now: Timestamp, name: String, out: &mut Output<Effect>) {
        self.in_flight += 1;
        self.tally.queries += 1;
        if let Some(waiting) = self.waiting.get_mut(&name) {
            waiting.asked_at = now;
        }
        out.effect(Effect::Query { name });
    }

    /// A query ended. A name that nobody answered for, or all name servers failed on, is held back
    /// while there is doubt, unless it was asked for ahead of time: then nobody waits for it.
    fn answer(&mut self, now: Timestamp, name: &str, found: Found, out: &mut Output<Effect>) {
        // Every query has an entry, and is answered once.
        let Some(waiting) = self.waiting.get(name) else {
            return;
        };
        self.in_flight -= 1;
        self.tally.query_times.observe(now.since(waiting.asked_at));
        let began = waiting.asked_at;
        let is_waited_for = !waiting.servers.is_empty();
        let is_held = match found {
            Found::Silence | Found::ServerFailure => {
                self.silence
                    .heard(now, began, name, Failure::Silence, is_waited_for)
            }
            Found::Temporary => {
                self.queue.extend(self.silence.disturbed(now));
                self.silence
                    .heard(now, began, name, Failure::Refusal, is_waited_for)
            }
            // Nobody was asked: that is no news of any name server.
            Found::Addresses { .. } | Found::NoAddress { .. } if is_answered_here(name) => false,
            Found::Addresses { .. } | Found::NoAddress { .. } => {
                self.queue.extend(self.silence.broken(now, began, name));
                false
            }
        };
        if !is_held {
            self.found(now, name, found, out);
        }
    }

    /// Remembers what was found and tells those that wait for it, in a message of its own.
    fn found(&mut self, now: Timestamp, name: &str, found: Found, out: &mut Output<Effect>) {
        let Some(Waiting {
            partition, servers, ..
        }) = self.waiting.remove(name)
        else {
            return;
        };
        self.servers_waiting -= servers.len();
        let resolution = self.remember(now, name, found);
        if !servers.is_empty() {
            let found = |server| ServerResolution {
                server,
                resolution: Some(resolution.clone()),
            };
            let servers = servers.into_iter().map(found).collect();
            // The input is settled. Should this be lost with the process, the scheduler asks.
            let message = ReadyUrls {
                partition,
                servers,
                ..ReadyUrls::default()
            };
            out.publish(Token::Partition(partition), &message, Vec::new());
        }
    }

    /// What now holds for a name.
    fn remember(&mut self, now: Timestamp, name: &str, found: Found) -> Resolution {
        let Settings {
            refresh,
            lifetime_max,
            negative,
            ..
        } = self.settings;
        let (resolution, lifetime) = match found {
            Found::NoAddress { ttl_s } => {
                let lifetime = Duration::from_secs(ttl_s.unwrap_or(0).into());
                (
                    Resolution::NoAddress,
                    lifetime.max(NEGATIVE_MIN).min(negative),
                )
            }
            Found::Temporary | Found::ServerFailure | Found::Silence => {
                (Resolution::Temporary, self.back_off(name))
            }
            Found::Addresses { addresses, ttl_s } => {
                let lifetime = Duration::from_secs(ttl_s.into())
                    .max(refresh)
                    .min(lifetime_max);
                (self.permitted(addresses, seconds(lifetime)), lifetime)
            }
        };
        let kinds = &mut self.tally;
        match &resolution {
            Resolution::Addresses { .. } => kinds.addresses += 1,
            Resolution::NoAddress => kinds.no_address += 1,
            Resolution::Private => kinds.private += 1,
            Resolution::Temporary => {
                kinds.temporary += 1;
                // A refresh that failed says nothing against what was found out before and still
                // holds.
                if let Some(known) = self
                    .cache
                    .peek(name, now)
                    .filter(|known| known.kind() != Kind::Temporary)
                {
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
        self.settings
            .temporary
            .saturating_mul(doubled)
            .min(self.settings.temporary_max)
    }

    /// Has a snapshot written if there is something new and none is being written.
    fn keep(&mut self, now: Timestamp, out: &mut Output<Effect>) {
        if self.snapshot_at.is_some() && !self.keeping {
            self.snapshot_at = None;
            self.keeping = true;
            self.tally.snapshots += 1;
            out.effect(Effect::Keep {
                snapshot: self.cache.snapshot(now),
            });
        }
    }

    fn kept(&mut self, now: Timestamp, out: &mut Output<Effect>) {
        self.keeping = false;
        if self.draining {
            self.keep(now, out);
        }
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
            && batch
                .origin_of
                .iter()
                .all(|&origin| (origin as usize) < batch.origins.len());
        if fits {
            Ok(Input::New(batch))
        } else {
            Err(Undecodable::Corrupt("a URL without an origin".into()))
        }
    }

    fn step(
        &mut self,
        now: Timestamp,
        event: Event<Input, Answer>,
        out: &mut Output<Effect>,
    ) -> Result<(), StoreError> {
        for name in self.silence.look(now) {
            self.found(now, &name, Found::Silence, out);
        }
        match event {
            Event::Message {
                ticket,
                input: Input::New(batch),
            } => self.receive(now, ticket, batch, out),
            Event::Message {
                ticket,
                input: Input::Refresh(request),
            } => self.refresh(now, ticket, request, out),
            Event::Answer(Answer::Found { name, found }) => self.answer(now, &name, found, out),
            Event::Answer(Answer::Kept) => self.kept(now, out),
            Event::Wake => {
                if self.snapshot_at.is_some_and(|at| at <= now) {
                    self.keep(now, out);
                }
            }
            Event::Drain => {
                self.draining = true;
                self.keep(now, out);
            }
            Event::Stored(_) | Event::HearsAgain => {}
        }
        // After every event: a look at the time that asks for nothing would be the last one.
        self.ask(now, out);
        Ok(())
    }

    fn wake_at(&self) -> Option<Timestamp> {
        let due = self.cache.due_at().filter(|_| self.may_ask_ahead());
        let due = due
            .zip(self.silence.ahead_from(self.in_flight))
            .map(|(at, from)| at.max(from));
        let snapshot = self.snapshot_at.filter(|_| !self.draining && !self.keeping);
        due.into_iter()
            .chain(snapshot)
            .chain(self.silence.wake_at(self.in_flight))
            .min()
    }

    /// A drain does not wait for answers: the scheduler asks its next resolver.
    fn is_idle(&self) -> bool {
        !self.keeping && (self.draining || self.servers_waiting == 0)
    }

    fn why(&self, now: Timestamp, url: &str) -> Result<Option<String>, StoreError> {
        let name = host_of(url);
        let known = self.cache.peek(name, now).map(|known| {
            let left = known.left(now).as_secs();
            match known.kind() {
                Kind::Addresses => {
                    let addresses: Vec<String> = known
                        .addresses()
                        .map(|address| address.to_string())
                        .collect();
                    format!("{name} has {} for {left} s more", addresses.join(", "))
                }
                Kind::NoAddress => {
                    format!("{name} does not exist or has no address; that holds for {left} s more")
                }
                Kind::Private => {
                    format!("{name} has private addresses alone; that holds for {left} s more")
                }
                Kind::Temporary => format!(
                    "the name servers failed on {name}; that is remembered for {left} s more"
                ),
            }
        });
        let asked = self
            .waiting
            .contains_key(name)
            .then(|| format!("{name} is being asked for"));
        let known = known.into_iter().chain(asked).chain(self.hindrance(now));
        Ok(known.reduce(|known, more| format!("{known}; {more}")))
    }

    fn hindrance(&self, now: Timestamp) -> Option<String> {
        self.silence.hindrance(now)
    }

    fn counts(&self) -> Vec<Count> {
        let levels = [
            ("names_cached", self.cache.len() as u64),
            ("names_cached_bytes", self.cache.bytes() as u64),
            ("names_in_flight", self.in_flight as u64),
            ("servers_waiting", self.servers_waiting as u64),
        ];
        self.tally
            .counts()
            .into_iter()
            .chain(levels)
            .chain(self.silence.counts())
            .collect()
    }

    fn histograms(&self) -> Vec<(&'static str, &Histogram)> {
        vec![("query_seconds", &self.tally.query_times)]
    }
}

#[cfg(test)]
mod tests;

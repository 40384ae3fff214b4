//! The scheduler's core: takes events, keeps servers in their places, and commits what changed.
//!
//! In: new URLs with addresses, reports of jobs, asks of fetchers, errands, tokens. Out: outcomes; sitemaps; jobs,
//! renewals and revocations; requests for addresses; errands; needs of tokens.
//!
//! Invariants: a server has at most one lease, committed before its job is sent (P1); none is granted before
//! the server's next-contact time, which survives restarts (P2); after every step each new URL waits, is in
//! flight or has exactly one outcome (P3); a URL is only granted under a fresh robots.txt (P5), and within all
//! budgets; memory holds servers in play, never URLs (P6).
//!
//! Sources: Cao, Jiang and Singh 2003, two-level scheduling; Najork and Heydon 2001, Mercator's back queues.

use crate::connections::Connections;
use crate::counts::{Counts, outcome_metric};
use crate::fetchers::Fetchers;
use crate::frontier::{URLS, corrupt};
use crate::hosts::{HOSTS, Hosts};
use crate::jobs::{GRACE, JOBS, Lease};
use crate::partition::{META, Partition};
use crate::ready_queue::{Place, ReadyQueue, Room};
use crate::robots_policy::ROBOTS;
use crate::rules_cache::RulesCache;
use crate::server::{Load, SERVERS, Server, ServerKey};
use crate::settings::Settings;
use crate::shares::{DOMAINS, Shares};
use crate::speeds::Speeds;
use crate::staged::Staged;
use crate::tokens::{Need, Settled};
use crate::validators::VALIDATORS;
use shared::config::OverBudget;
use shared::message::{Ask, AskReply, Edge, Errand, Outcome, ReadyUrls, Report, Undecodable, decode};
use shared::stage::store::{Store, StoreError, Table};
use shared::stage::{Core, Count, Event, Output, Ticket};
use shared::time::Timestamp;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The tables of the scheduler's state.
pub const TABLES: [Table; 8] = [URLS, SERVERS, JOBS, ROBOTS, HOSTS, DOMAINS, VALIDATORS, META];

/// URLs that a step ends without a contact, servers it looks after because their wait is over, and jobs it
/// grants, at most: what is left is done by the next step, which follows at once.
const ENDINGS_PER_STEP: usize = 1000;
const DUE_PER_STEP: usize = 1000;
const JOBS_PER_STEP: usize = 64;

/// A message for the scheduler.
#[derive(Clone, Debug)]
pub enum Input {
    /// New URLs, or addresses that were asked for.
    Ready(ReadyUrls),
    /// What a job brought.
    Report(Report),
    /// A fetcher asks for jobs.
    Ask(Ask),
    /// From the scheduler of another partition.
    Errand(Errand),
}

/// The scheduler's core.
pub struct Scheduler {
    pub(crate) settings: Settings,
    pub(crate) instance: u16,
    pub(crate) epoch: u64,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) partitions: BTreeMap<u16, Partition>,
    /// In play; boxed, as the table has more places than servers.
    pub(crate) servers: HashMap<ServerKey, Box<Server>>,
    pub(crate) queue: ReadyQueue,
    pub(crate) connections: Connections,
    pub(crate) rules: RulesCache,
    pub(crate) fetchers: Fetchers,
    pub(crate) speeds: Speeds,
    pub(crate) shares: Shares,
    /// Servers read from the store whose place is not found yet.
    opened: Vec<ServerKey>,
    /// Jobs granted, and requests for addresses sent, in this epoch.
    pub(crate) jobs: u64,
    refreshes: u64,
    /// What all servers together have in hand.
    pub(crate) load: Load,
    /// Messages for partitions of other instances, and parts of messages that make no sense.
    pub(crate) foreign: u64,
    pub(crate) malformed: u64,
    /// There is more to do than one step does.
    more: bool,
    /// Told to end: a job granted now might go to a fetcher that ends as well, and block its server for a lease.
    pub(crate) draining: bool,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler")
            .field("instance", &self.instance)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Rebuilds the scheduler of `partitions` from its store.
    ///
    /// `epoch` must be larger than in any earlier life: it tells the jobs of this one from theirs. Outstanding
    /// jobs get a full lease from `now` on, waits go on from where they were.
    pub fn open(
        settings: Settings,
        instance: u16,
        epoch: u64,
        partitions: &[u16],
        store: Arc<dyn Store>,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let connections = Connections::new(settings.connections_per_address);
        let rules = RulesCache::new(settings.robots_cache_bytes);
        let shares = Shares::new(&settings, instance, epoch);
        let mut this = Scheduler {
            settings,
            instance,
            epoch,
            store: Arc::clone(&store),
            partitions: BTreeMap::new(),
            servers: HashMap::new(),
            queue: ReadyQueue::default(),
            connections,
            rules,
            fetchers: Fetchers::default(),
            speeds: Speeds::default(),
            shares,
            opened: Vec::new(),
            jobs: 0,
            refreshes: 0,
            load: Load::default(),
            foreign: 0,
            malformed: 0,
            more: true,
            draining: false,
        };
        for &partition in partitions {
            let hosts = Hosts::new(this.settings.pages_per_host);
            this.partitions.insert(partition, Partition::open(store.as_ref(), partition, hosts, now, epoch)?);
        }
        if this.settings.pages_max > 0 {
            let fetched = this.partitions.values().map(Partition::fetched).sum();
            this.shares.limit_crawl(now, this.settings.pages_max, fetched);
        }
        for &partition in partitions {
            this.open_servers(store.as_ref(), partition, now)?;
            this.open_leases(store.as_ref(), partition, now)?;
        }
        this.opened = this.servers.keys().copied().collect();
        this.opened.sort_unstable();
        for key in this.opened.clone() {
            this.account(key);
        }
        Ok(this)
    }

    /// Servers with something to do or to wait for; the others come when they are needed.
    fn open_servers(&mut self, store: &dyn Store, partition: u16, now: Timestamp) -> Result<(), StoreError> {
        let Some(clock) = self.partitions.get(&partition).map(|partition| partition.clock) else { return Ok(()) };
        let mut servers = Vec::new();
        let mut unreadable = false;
        let (from, to) = rows_of(partition);
        store.scan(SERVERS, &from, &to, &mut |key, row| {
            match (ServerKey::from_bytes(key), Server::from_row(row, clock)) {
                (Some(key), Some(server)) => {
                    if !server.queue.is_empty() || server.next_contact > now {
                        servers.push((key, server));
                    }
                }
                _ => unreadable = true,
            }
            !unreadable
        })?;
        for (key, server) in servers {
            self.enter(key, server)?;
        }
        if unreadable { Err(corrupt(SERVERS, "a server's record is unreadable")) } else { Ok(()) }
    }

    fn open_leases(&mut self, store: &dyn Store, partition: u16, now: Timestamp) -> Result<(), StoreError> {
        let deadline = now + self.settings.job_lease + GRACE;
        let mut leases = Vec::new();
        let mut unreadable = false;
        let (from, to) = rows_of(partition);
        store.scan(JOBS, &from, &to, &mut |key, row| {
            match (ServerKey::from_bytes(key), Lease::from_row(row, deadline)) {
                (Some(key), Some(lease)) => leases.push((key, lease)),
                _ => unreadable = true,
            }
            !unreadable
        })?;
        for (key, lease) in leases {
            self.connections.connect(lease.address);
            match self.load(key)? {
                Some(server) => server.lease = Some(Box::new(lease)),
                None => unreadable = true,
            }
        }
        if unreadable { Err(corrupt(JOBS, "a job is unreadable, or its server is unknown")) } else { Ok(()) }
    }

    /// The server, from memory or from its record.
    pub(crate) fn load(&mut self, key: ServerKey) -> Result<Option<&mut Server>, StoreError> {
        if !self.servers.contains_key(&key)
            && let Some(partition) = self.partitions.get(&key.partition)
            && let Some(row) = self.store.get(SERVERS, &key.to_bytes())?
        {
            let server = Server::from_row(&row, partition.clock)
                .ok_or_else(|| corrupt(SERVERS, "a server's record is unreadable"))?;
            self.enter(key, server)?;
        }
        Ok(self.servers.get_mut(&key).map(Box::as_mut))
    }

    /// Brings the server into memory, made when it is not known yet.
    pub(crate) fn load_or_make(&mut self, key: ServerKey, name: &str) -> Result<(), StoreError> {
        if self.load(key)?.is_none() {
            self.enter(key, Server::new(name))?;
        }
        Ok(())
    }

    /// A server comes into play, its host and its domain with it.
    fn enter(&mut self, key: ServerKey, server: Server) -> Result<(), StoreError> {
        if let Some(partition) = self.partitions.get_mut(&key.partition) {
            partition.hosts.enter(self.store.as_ref(), key, server.host)?;
        }
        self.shares.enter(self.store.as_ref(), key, &server)?;
        self.servers.insert(key, Box::new(server));
        Ok(())
    }

    /// Where a server belongs.
    pub(crate) fn key_of(&self, server: &str) -> ServerKey {
        let partition = shared::url::partition(shared::url::host_of(server), self.settings.partitions);
        ServerKey::of(partition, server)
    }

    /// Brings the sums over all servers, and over those of its host and its domain, up to date with one of them.
    pub(crate) fn account(&mut self, key: ServerKey) {
        let waits = self.settings.over_budget == OverBudget::Wait;
        let is_over = waits && self.budgets(key).used_up().is_some();
        let Some(server) = self.servers.get_mut(&key) else { return };
        let load = server.load();
        let has = Load { over_budget: if is_over { load.waiting } else { 0 }, ..load };
        let had = std::mem::replace(&mut server.accounted, has);
        self.load.replace(had, has);
        if let Some(partition) = self.partitions.get_mut(&key.partition) {
            partition.hosts.account(server.host, has.in_flight, had.in_flight);
        }
        self.shares.account(server.domain, had, has);
    }

    fn message(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        input: Input,
        staged: &mut Staged<'_>,
    ) -> Result<Option<(Ticket, String)>, StoreError> {
        match input {
            Input::Ready(ready) => self.take_on(now, ready, staged)?,
            Input::Report(report) => self.report(now, report, staged)?,
            Input::Errand(errand) => self.errand(now, errand, staged)?,
            Input::Ask(ask) => {
                self.fetchers.ask(now, &ask, self.settings.ask_lifetime);
                return Ok(Some((ticket, ask.fetcher)));
            }
        }
        Ok(None)
    }

    /// Looks after servers whose wait is over.
    fn look_after_due(&mut self, now: Timestamp, staged: &mut Staged<'_>) -> Result<(), StoreError> {
        for _ in 0..DUE_PER_STEP {
            let Some(key) = self.queue.first_due(now) else { return Ok(()) };
            if self
                .servers
                .get(&key)
                .and_then(|server| server.lease.as_ref())
                .is_some_and(|lease| lease.deadline <= now)
            {
                self.expire(now, key, staged)?;
            }
            self.find_place(now, key, staged)?;
        }
        self.more = true;
        Ok(())
    }

    /// Finds places, ends URLs and grants jobs until nothing more can be done now, or enough was.
    fn settle(&mut self, now: Timestamp, staged: &mut Staged<'_>) -> Result<Vec<String>, StoreError> {
        let mut granted = Vec::new();
        loop {
            while let Some(key) = staged.unsettled.pop_front() {
                self.find_place(now, key, staged)?;
            }
            if let Some(key) = self.queue.first_ending() {
                if staged.endings_left == 0 {
                    self.more = true;
                    return Ok(granted);
                }
                self.end_waiting(now, key, staged)?;
                continue;
            }
            if granted.len() >= JOBS_PER_STEP || staged.endings_left == 0 {
                self.more = true;
                return Ok(granted);
            }
            match self.grant(now, staged)? {
                Granted::Job(fetcher) => granted.push(fetcher),
                Granted::Nothing => {}
                Granted::NoneLeft => return Ok(granted),
            }
        }
    }

    /// Writes what changed, and lets go of servers that have nothing to do.
    fn save(&mut self, now: Timestamp, staged: &mut Staged<'_>) {
        for key in std::mem::take(&mut staged.dirty) {
            let clock = self.partitions.get(&key.partition).map(|partition| partition.clock);
            if let (Some(server), Some(clock)) = (self.servers.get(&key), clock) {
                staged.put(SERVERS, key.to_bytes(), server.to_row(clock));
            }
        }
        for partition in std::mem::take(&mut staged.serials) {
            if let Some(state) = self.partitions.get(&partition) {
                state.save_serials(staged, partition);
            }
        }
        for partition in std::mem::take(&mut staged.partitions) {
            if let Some(state) = self.partitions.get(&partition) {
                state.save(staged, partition, now);
            }
        }
        for key in std::mem::take(&mut staged.idle) {
            if let Entry::Occupied(server) = self.servers.entry(key)
                && server.get().place == Place::Idle
            {
                let Server { host, domain, .. } = *server.remove();
                if let Some(partition) = self.partitions.get_mut(&key.partition) {
                    partition.hosts.leave(key, host);
                }
                self.shares.leave(key, domain);
            }
        }
    }

    fn totals(&self) -> Counts {
        let mut totals = Counts::default();
        for partition in self.partitions.values() {
            totals.add(&partition.counts);
        }
        totals
    }

    /// P3: every new URL waits, is in flight, or has ended.
    fn conserves(&self) -> bool {
        let totals = self.totals();
        totals.new == totals.ended() + self.load.waiting + self.load.in_flight
    }
}

/// What became of an attempt to grant a job.
pub(crate) enum Granted {
    /// A job for this fetcher.
    Job(String),
    /// None for that server now; there may be for the next.
    Nothing,
    /// No server is ready, no fetcher has credit, or enough pages were fetched.
    NoneLeft,
}

/// The keys of a partition.
fn rows_of(partition: u16) -> (Vec<u8>, Vec<u8>) {
    let to = match partition.checked_add(1) {
        Some(next) => next.to_be_bytes().to_vec(),
        None => vec![0xff; 32],
    };
    (partition.to_be_bytes().to_vec(), to)
}

impl Core for Scheduler {
    type Input = Input;
    type Effect = Need;
    type Answer = Settled;

    fn decode(edge: Edge, payload: &[u8]) -> Result<Input, Undecodable> {
        match edge {
            Edge::UrlsReady => decode(payload).map(Input::Ready),
            Edge::FetchReports => decode(payload).map(Input::Report),
            Edge::FetchAsks => decode(payload).map(Input::Ask),
            Edge::Errands => decode(payload).map(Input::Errand),
            _ => Err(Undecodable::Corrupt(format!("the scheduler takes nothing from edge {}", edge.name()))),
        }
    }

    fn step(&mut self, now: Timestamp, event: Event<Input, Settled>, out: &mut Output<Need>) -> Result<(), StoreError> {
        let store = Arc::clone(&self.store);
        let mut staged = Staged::new(store.as_ref(), ENDINGS_PER_STEP);
        self.more = false;
        for key in std::mem::take(&mut self.opened) {
            staged.unsettle(key);
        }
        let mut asked = None;
        match event {
            Event::Message { ticket, input } => {
                out.finish(ticket);
                asked = self.message(now, ticket, input, &mut staged)?;
            }
            Event::Drain => self.draining = true,
            Event::Answer(settled) => {
                if let Some(domain) = self.shares.settled(now, &settled, &mut staged) {
                    self.pass_on(Room::Domain(domain), &mut staged);
                }
            }
            Event::Stored(_) | Event::Wake => {}
        }
        self.look_after_due(now, &mut staged)?;
        let granted = self.settle(now, &mut staged)?;
        if let Some((ticket, asker)) = asked {
            let granted = granted.iter().filter(|fetcher| **fetcher == asker).count();
            out.reply(ticket, &AskReply { granted: u32::try_from(granted).unwrap_or(u32::MAX) });
        }
        self.shares.ask(now, &mut staged);
        self.save(now, &mut staged);
        let (epoch, refreshes) = (self.epoch, &mut self.refreshes);
        staged.flush(out, || {
            *refreshes += 1;
            // Different in every life, so that no answer is taken for one to an earlier life's request.
            (epoch << 32).wrapping_add(*refreshes)
        });
        debug_assert!(self.conserves(), "P3: new URLs = outcomes + waiting + in flight");
        Ok(())
    }

    fn wake_at(&self) -> Option<Timestamp> {
        let dues = [self.queue.next_due(), self.shares.ask_at()];
        if self.more { Some(Timestamp::ZERO) } else { dues.into_iter().flatten().min() }
    }

    fn why(&self, now: Timestamp, url: &str) -> Result<Option<String>, StoreError> {
        self.why_url(now, url)
    }

    fn counts(&self) -> Vec<Count> {
        let totals = self.totals();
        let mut counts = vec![
            ("new_total", totals.new),
            ("waiting", self.load.waiting),
            ("in_flight", self.load.in_flight),
            ("waiting_over_budget", self.load.over_budget),
            ("servers", self.servers.len() as u64),
            ("servers_ready", self.queue.ready() as u64),
            ("retried_total", totals.retried),
            ("refetched_total", totals.refetched),
            ("contacts_total", totals.contacts),
            ("jobs_granted_total", totals.jobs),
            ("leases_expired_total", totals.leases_expired),
            ("bytes_total", totals.bytes),
            ("serials_repeated_total", totals.repeated),
            ("robots_fetched_total", totals.robots),
            ("foreign_total", self.foreign),
            ("malformed_total", self.malformed),
        ];
        for outcome in Outcome::ALL {
            counts.push((outcome_metric(outcome), totals.outcomes[outcome as usize]));
        }
        counts
    }
}

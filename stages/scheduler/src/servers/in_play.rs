//! The servers in play: those that this instance has in memory, with their partitions and budgets.
//!
//! In: servers by key, from memory or from their records. Out: records, counts and clocks of what a
//! step changed.
//!
//! Invariants: a server is in memory once; its host and its domain are in memory with it; the sums
//! over all servers are those of the servers (P3). Memory holds servers with something to do or to
//! wait for, never URLs (P6).

use crate::budget::shares::Shares;
use crate::keys::load::Load;
use crate::keys::server_key::{ServerKey, keys_of};
use crate::keys::topic::TopicIndex;
use crate::politeness::paused::Paused;
use crate::quota::Quota;
use crate::ranking::ready_queue::QueuePlace;
use crate::servers::counts::Counts;
use crate::servers::lease::Lease;
use crate::servers::partition::Partition;
use crate::servers::server::{SERVERS, Server};
use crate::servers::topic_counts::TopicCounts;
use crate::settings::Settings;
use crate::step::staged::Staged;
use crate::store::clock::Clock;
use crate::store::rows::corrupt;
use crate::visits::SignalTrust;
use foldhash::HashMap;
use rhumb_partition::Directory;
use rhumb_stage::store::{Store, StoreError};
use rhumb_stage::{Figures, Tallied};
use rhumb_url::Scheme;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{JobId, Outcome};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

mod accounts;
mod open;

/// The servers in play.
pub(crate) struct Servers {
    store: Arc<dyn Store>,
    /// Which partition each host belongs to, of all instances.
    directory: Directory,
    settings: Settings,
    partitions: BTreeMap<u16, Partition>,
    /// Servers are boxed, because the table has more places than servers.
    in_memory: HashMap<ServerKey, Box<Server>>,
    shares: Shares,
    /// What operators want to be left alone.
    paused: Paused,
    /// Those at which URLs of traps wait.
    with_traps: BTreeSet<ServerKey>,
    /// What is kept back as a trap ends.
    traps_end: bool,
    /// What all servers together have in hand.
    load: Load,
    /// Look-ups that found nothing where there must be something.
    invariants_broken: u64,
}

/// A server in memory, with what its URLs count for.
pub(crate) struct InPlay<'a> {
    pub(crate) server: &'a mut Server,
    pub(crate) partition: &'a mut Partition,
    pub(crate) shares: &'a mut Shares,
}

impl Servers {
    /// The store from which servers are read.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The key of `scheme://host[:port]`; none when that is not a server.
    pub(crate) fn key_of(&self, server: &str) -> Option<ServerKey> {
        ServerKey::of(server, &self.directory)
    }

    /// The key of the server of a host with this hash, at a port.
    pub(crate) fn key_at(&self, host: u64, scheme: Scheme, port: u16) -> ServerKey {
        ServerKey::at(host, scheme, port, &self.directory)
    }

    /// The partition of a host with this hash.
    pub(crate) fn partition_of_hash(&self, hash: u64) -> u16 {
        self.directory.partition_of(hash)
    }

    /// The partitions are these from now on; not while one of this instance's own is to be halved
    /// first.
    pub(crate) fn divided_by(&mut self, directory: Directory) {
        let is_as_it_was = |partition: &u16| {
            directory.hashes_of(*partition) == self.directory.hashes_of(*partition)
        };
        if self.partitions.keys().all(is_as_it_was) {
            self.directory = directory;
        }
    }

    /// Returns whether a server is in a partition, or was before that was split.
    pub(crate) fn covers(&self, partition: u16, key: ServerKey) -> bool {
        self.directory.covers(partition, key.host)
    }

    /// Returns whether a server was in a partition of this instance that was split.
    pub(crate) fn had(&self, key: ServerKey) -> bool {
        self.partitions
            .keys()
            .any(|&partition| self.covers(partition, key))
    }

    /// How many new URLs with serials after this one a partition was given.
    pub(crate) fn taken_on(&self, partition: u16, serial: u64) -> u64 {
        self.partitions
            .get(&partition)
            .map_or(0, |partition| partition.serials.count_above(serial))
    }

    /// Returns whether this instance owns the partition.
    pub(crate) fn owns(&self, partition: u16) -> bool {
        self.partitions.contains_key(&partition)
    }

    /// So many new URLs are of a partition of another instance. They are lost, and counted with
    /// this instance's first one.
    pub(crate) fn leave_out(&mut self, urls: u64, staged: &mut Staged<'_>) {
        if let Some((&number, partition)) = self.partitions.iter_mut().next() {
            partition.counts.foreign += urls;
            staged.partitions.insert(number);
        }
    }

    /// Returns whether nothing is left that only this instance can give back.
    pub(crate) fn is_settled(&self) -> bool {
        !self.partitions.is_empty() || self.shares.requests.all_rest()
    }

    /// The partitions of this instance, by id.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (u16, &Partition)> {
        self.partitions
            .iter()
            .map(|(&id, partition)| (id, partition))
    }

    /// The range of keys of a partition; none when it was split.
    pub(crate) fn keys_of(&self, partition: u16) -> Option<(Vec<u8>, Vec<u8>)> {
        self.directory
            .hashes_of(partition)
            .map(|hashes| keys_of(&hashes))
    }

    /// The partition of a server of this instance.
    #[cfg(test)]
    pub(crate) fn partition_of(&self, key: ServerKey) -> Option<&Partition> {
        self.partitions.get(&key.partition)
    }

    /// A partition of this instance.
    pub(crate) fn partition(&mut self, partition: u16) -> Option<&mut Partition> {
        self.partitions.get_mut(&partition)
    }

    /// This process could not hear, and can again. Time in which no report could be heard does not
    /// count against jobs: each gets a full lease from now on. It ends later than before, so no
    /// other job is granted any earlier (P1).
    pub(crate) fn hear_again(&mut self, staged: &mut Staged<'_>) {
        let mut keys = Vec::new();
        for (&key, server) in &mut self.in_memory {
            if let Some(lease) = &mut server.lease {
                lease.hear_again(staged.now, staged.settings.scheduler.job_lease);
                keys.push(key);
            }
        }
        if !keys.is_empty() {
            tracing::info!(
                jobs = keys.len(),
                "hears again after a while; the jobs that are out get a full lease"
            );
        }
        keys.sort_unstable();
        keys.into_iter().for_each(|key| staged.unsettle(key));
    }

    /// Keys of the servers in memory, in order.
    pub(crate) fn keys(&self) -> Vec<ServerKey> {
        let mut keys: Vec<_> = self.in_memory.keys().copied().collect();
        keys.sort_unstable();
        keys
    }

    /// The clock of a server's partition.
    pub(crate) fn clock_of(&self, key: ServerKey) -> Option<Clock> {
        self.partitions
            .get(&key.partition)
            .map(|partition| partition.clock)
    }

    /// The servers in memory.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = &Server> {
        self.in_memory.values().map(Box::as_ref)
    }

    /// Those for which jobs are out.
    pub(crate) fn connected(&self) -> impl Iterator<Item = (ServerKey, &Server, &Lease)> {
        self.in_memory
            .iter()
            .filter_map(|(key, server)| Some((*key, server.as_ref(), server.lease.as_deref()?)))
    }

    /// What this instance has of all partitions, from 0 to 1. A partition that was split is its
    /// halves.
    pub(crate) fn part(&self) -> f64 {
        let is_whole = |partition: &&u16| self.directory.hashes_of(**partition).is_some();
        let depths = self
            .partitions
            .keys()
            .filter(is_whole)
            .filter_map(|partition| self.directory.depth_of(*partition));
        depths.map(|depth| 0.5f64.powi(depth as i32)).sum()
    }

    /// How many servers are in memory.
    pub(crate) fn len(&self) -> usize {
        self.in_memory.len()
    }

    /// The server, if it is in memory.
    pub(crate) fn get(&self, key: ServerKey) -> Option<&Server> {
        self.in_memory.get(&key).map(Box::as_ref)
    }

    /// The server, if it is in memory.
    pub(crate) fn get_mut(&mut self, key: ServerKey) -> Option<&mut Server> {
        self.in_memory.get_mut(&key).map(Box::as_mut)
    }

    /// A server that must be in memory, in a partition that must be owned; `doing` says what needs
    /// it.
    ///
    /// It is none only because of a fault of the program. A debug build stops at once. A release
    /// build counts and logs it, and the caller leaves the server as it is.
    pub(crate) fn in_play(&mut self, key: ServerKey, doing: &'static str) -> Option<InPlay<'_>> {
        match (
            self.in_memory.get_mut(&key),
            self.partitions.get_mut(&key.partition),
        ) {
            (Some(server), Some(partition)) => Some(InPlay {
                server,
                partition,
                shares: &mut self.shares,
            }),
            (server, partition) => {
                let missing = match (server, partition) {
                    (None, _) => "the server is not in memory",
                    _ => "its partition is not owned",
                };
                self.invariants_broken += 1;
                tracing::error!(
                    partition = key.partition,
                    doing,
                    missing,
                    "an invariant of the scheduler is broken"
                );
                debug_assert!(false, "{doing}: {missing}");
                None
            }
        }
    }

    /// The server, from memory or from its record.
    ///
    /// # Errors
    /// The store cannot be read, or the record is not understood.
    pub(crate) fn load(&mut self, key: ServerKey) -> Result<Option<&mut Server>, StoreError> {
        if !self.in_memory.contains_key(&key)
            && let Some(partition) = self.partitions.get(&key.partition)
            && let Some(row) = self.store.get(SERVERS, &key.to_bytes())?
        {
            let server = Server::from_row(&row, partition.clock)
                .ok_or_else(|| corrupt(SERVERS, "a server's record is unreadable"))?;
            self.enter(key, server)?;
        }
        Ok(self.get_mut(key))
    }

    /// Brings the server into memory; makes it when it is not known yet.
    ///
    /// # Errors
    /// The store cannot be read, or the record is not understood.
    pub(crate) fn load_or_make(&mut self, key: ServerKey, name: &str) -> Result<(), StoreError> {
        if self.load(key)?.is_none() {
            self.enter(key, Server::new(name))?;
        }
        Ok(())
    }

    /// The server as it is now, without bringing it into memory.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn look_up(&self, key: ServerKey) -> Result<Option<Server>, StoreError> {
        let Some(partition) = self.partitions.get(&key.partition) else {
            return Ok(None);
        };
        if let Some(server) = self.get(key) {
            return Ok(Some(server.clone()));
        }
        let row = self.store.get(SERVERS, &key.to_bytes())?;
        let server = row.and_then(|row| Server::from_row(&row, partition.clock));
        Ok(server.map(|server| self.placed(key, server)))
    }

    /// What was learned of the signals of a server's pages, without bringing it into memory.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn signal_trust(&self, key: ServerKey) -> Result<SignalTrust, StoreError> {
        if let Some(server) = self.get(key) {
            return Ok(server.signal_trust.clone());
        }
        let server = self.look_up(key)?;
        Ok(server.map_or_else(SignalTrust::default, |server| server.signal_trust))
    }

    /// The server, of its group, and paused if it is.
    fn placed(&self, key: ServerKey, server: Server) -> Server {
        let mut server = server.grouped(&self.settings);
        server.is_paused = self.paused.has(key, server.domain);
        server.traps_end = self.traps_end;
        server
    }

    /// What operators want to be left alone.
    pub(crate) fn paused(&self) -> &Paused {
        &self.paused
    }

    /// Operators want this to be left alone from now on. Gives the servers in memory for which that
    /// is news.
    pub(crate) fn pause(&mut self, paused: Paused) -> Vec<ServerKey> {
        self.paused = paused;
        let mut changed = Vec::new();
        for (&key, server) in &mut self.in_memory {
            let is_paused = self.paused.has(key, server.domain);
            if std::mem::replace(&mut server.is_paused, is_paused) != is_paused {
                changed.push(key);
            }
        }
        changed.sort_unstable();
        changed
    }

    /// The servers at which URLs of traps wait, in order.
    pub(crate) fn with_traps(&self) -> Vec<ServerKey> {
        self.with_traps.iter().copied().collect()
    }

    /// Nothing else waits in the crawl: what is kept back as a trap ends, or does not any more.
    /// Gives the servers in memory for which that is news.
    pub(crate) fn end_traps(&mut self, traps_end: bool) -> Vec<ServerKey> {
        if std::mem::replace(&mut self.traps_end, traps_end) == traps_end {
            return Vec::new();
        }
        self.in_memory
            .values_mut()
            .for_each(|server| server.traps_end = traps_end);
        self.with_traps()
    }

    /// Jobs that are out for paused servers, in order: they are to stop. The fetcher of one from an
    /// earlier life is not known.
    pub(crate) fn stop_paused(&mut self) -> Vec<(JobId, Option<String>)> {
        let paused = self
            .in_memory
            .values_mut()
            .filter(|server| server.is_paused || self.paused.has_all());
        let mut stopped: Vec<_> = paused
            .filter_map(|server| Some(server.lease.as_mut()?.stop()))
            .collect();
        stopped.sort_unstable();
        stopped
    }

    /// Brings a server into play.
    fn enter(&mut self, key: ServerKey, server: Server) -> Result<(), StoreError> {
        if let Some(partition) = self.partitions.get_mut(&key.partition) {
            partition.hosts.enter(self.store.as_ref(), key)?;
        }
        self.shares
            .enter(self.store.as_ref(), key, server.domain, &server.name)?;
        self.in_memory
            .insert(key, Box::new(self.placed(key, server)));
        Ok(())
    }

    /// A server with nothing to do leaves memory, and its host and its domain with the last of
    /// their servers.
    fn leave(&mut self, key: ServerKey) {
        if let Entry::Occupied(server) = self.in_memory.entry(key)
            && server.get().place == QueuePlace::Idle
        {
            let Server { domain, .. } = *server.remove();
            if let Some(partition) = self.partitions.get_mut(&key.partition) {
                partition.hosts.leave(key);
            }
            self.shares.leave(key, domain);
        }
    }

    /// What all servers together have in hand.
    pub(crate) fn load_of_all(&self) -> Load {
        self.load
    }

    /// What this instance has of budgets that all schedulers share.
    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// What this instance has of budgets that all schedulers share.
    pub(crate) fn shares_mut(&mut self) -> &mut Shares {
        &mut self.shares
    }

    /// Another scheduler has no token left of a budget.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn call_for_tokens(
        &mut self,
        now: Timestamp,
        budget: Quota,
    ) -> Result<(), StoreError> {
        self.shares.call(now, budget, self.store.as_ref())
    }

    /// Writes what changed in a step, and lets go of servers that have nothing to do.
    pub(crate) fn save(&mut self, staged: &mut Staged<'_>) {
        for key in std::mem::take(&mut staged.dirty) {
            let clock = self
                .partitions
                .get(&key.partition)
                .map(|partition| partition.clock);
            if let (Some(server), Some(clock)) = (self.in_memory.get(&key), clock) {
                staged
                    .rows
                    .put(SERVERS, key.to_bytes(), server.to_row(clock));
            }
        }
        for partition in std::mem::take(&mut staged.serials) {
            if let Some(state) = self.partitions.get(&partition) {
                state.save_serials(staged, partition);
            }
        }
        for partition in std::mem::take(&mut staged.partitions) {
            if let Some(state) = self.partitions.get_mut(&partition) {
                state.save(staged, partition);
            }
        }
        for (partition, topic) in std::mem::take(&mut staged.topics) {
            if let Some(state) = self.partitions.get(&partition) {
                state.save_topic(staged, partition, topic);
            }
        }
        for key in std::mem::take(&mut staged.idle) {
            self.leave(key);
        }
    }

    /// What is told of each partition.
    pub(crate) fn figures(&self) -> Vec<Figures> {
        let figures = |(&partition, Partition { counts, .. }): (&u16, &Partition)| Figures {
            partition,
            urls: counts.new,
            bytes: counts.bytes,
            handled: counts.ended(),
            is_of_one_host: false,
        };
        self.partitions.iter().map(figures).collect()
    }

    /// What was counted, over all partitions.
    pub(crate) fn totals(&self) -> Counts {
        let mut totals = Counts::default();
        for partition in self.partitions.values() {
            totals.add(&partition.counts);
        }
        totals
    }

    /// What was counted of URLs that ended, over all partitions.
    pub(crate) fn tallied(&self) -> Tallied {
        let mut sum = Tallied::default();
        self.partitions
            .values()
            .for_each(|partition| partition.tally.add_to(&mut sum));
        sum
    }

    /// For how long the partitions were worked with: that of the oldest.
    pub(crate) fn ran(&self, now: Timestamp) -> Duration {
        let clocks = self
            .partitions
            .values()
            .map(|partition| partition.clock.store(now));
        Duration::from_micros(clocks.max().unwrap_or_default())
    }

    /// What was counted of each topic, over all partitions: of the others what is left of the
    /// totals.
    pub(crate) fn totals_by_topic(&self) -> BTreeMap<TopicIndex, TopicCounts> {
        let mut by_topic: BTreeMap<TopicIndex, TopicCounts> = BTreeMap::new();
        let mut others = TopicCounts::default();
        for Partition {
            counts,
            topics,
            topic_counts,
            ..
        } in self.partitions.values()
        {
            let fetched = counts.outcomes[Outcome::Fetched as usize];
            others.add(&TopicCounts {
                new: counts.new.saturating_sub(counts.given),
                ended: counts.ended(),
                fetched,
                bytes: counts.bytes,
            });
            for (number, of) in topic_counts
                .iter()
                .filter(|(number, _)| topics.index_of(**number) != TopicIndex::OTHERS)
            {
                by_topic
                    .entry(topics.index_of(*number))
                    .or_default()
                    .add(of);
                others = others.without(of);
            }
        }
        by_topic.insert(TopicIndex::OTHERS, others);
        by_topic
    }

    /// New URLs whose serials follow this one.
    pub(crate) fn new_after(&self, serial: u64) -> u64 {
        self.partitions
            .values()
            .map(|partition| partition.serials.count_above(serial))
            .sum()
    }

    /// How often a server or a partition was missing that must be there.
    pub(crate) fn invariants_broken(&self) -> u64 {
        self.invariants_broken
    }

    /// P3: every new URL waits, is in flight, or has ended.
    pub(crate) fn conserves(&self) -> bool {
        let totals = self.totals();
        let in_hand = self.load.waiting + self.load.in_flight;
        totals.new + totals.visits_out() == totals.left() + in_hand
    }
}

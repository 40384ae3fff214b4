//! Hosts and their budgets: how many pages of each were fetched, and how many URLs may still be asked for.
//!
//! All servers of a host are in one partition, so one scheduler counts them. A page is counted in the commit of its
//! outcome. A URL in flight is reserved until it ends or goes back. So pages fetched and URLs in flight together never
//! exceed the budget, whatever crashes, and nothing is over budget before that many pages were fetched.
//!
//! Pages are counted without a budget too: a budget that comes with `--resume` holds for the whole crawl. Memory holds
//! the hosts of servers in play (P6).

use crate::budget::left::Budget;
use crate::keys::server_key::ServerKey;
use crate::step::staged::Staged;
use crate::store::codec::{Reader, Writer};
use crate::store::rows::corrupt;
use shared::stage::store::{Store, StoreError, Table};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

/// Table of hosts: partition and host → pages fetched.
pub(crate) const HOSTS: Table = "hosts";

/// The pages of a host.
#[derive(Clone, Copy, Debug, Default)]
struct Pages {
    fetched: u64,
    /// Its URLs in flight, over all its servers.
    in_flight: u64,
}

/// The hosts of a partition that are in play, by the hash of their names.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// Pages of each that may be fetched; 0: no limit.
    pages_max: u64,
    pages: HashMap<u64, Pages>,
    /// Their servers in play: host and server.
    servers: BTreeSet<(u64, u64)>,
}

fn key(partition: u16, host: u64) -> Vec<u8> {
    let mut key = partition.to_be_bytes().to_vec();
    key.extend_from_slice(&host.to_be_bytes());
    key
}

impl Hosts {
    pub(crate) fn new(pages_max: u64) -> Self {
        Hosts { pages_max, pages: HashMap::new(), servers: BTreeSet::new() }
    }

    /// A server comes into play, and its host with it.
    pub(crate) fn enter(&mut self, store: &dyn Store, server: ServerKey, host: u64) -> Result<(), StoreError> {
        if let Entry::Vacant(place) = self.pages.entry(host) {
            place.insert(stored(store, server.partition, host)?);
        }
        self.servers.insert((host, server.id));
        Ok(())
    }

    /// A server leaves memory, and its host with the last of them.
    pub(crate) fn leave(&mut self, server: ServerKey, host: u64) {
        self.servers.remove(&(host, server.id));
        if self.servers_of(host).next().is_none() {
            self.pages.remove(&host);
        }
    }

    fn servers_of(&self, host: u64) -> impl Iterator<Item = u64> {
        self.servers.range((host, 0)..=(host, u64::MAX)).map(|&(_, server)| server)
    }

    /// Notes how many URLs of one of its servers are in flight now, and how many were before.
    pub(crate) fn account(&mut self, host: u64, now: u64, before: u64) {
        if let Some(pages) = self.pages.get_mut(&host) {
            pages.in_flight = pages.in_flight + now - before;
        }
    }

    /// Counts a page. After the last page of the budget all servers of the host are looked after, because their URLs
    /// end.
    pub(crate) fn fetched(&mut self, staged: &mut Staged<'_>, partition: u16, host: u64) {
        let Some(pages) = self.pages.get_mut(&host) else { return };
        pages.fetched += 1;
        let fetched = pages.fetched;
        let mut row = Writer::with_capacity(4);
        row.number(fetched);
        staged.rows.put(HOSTS, key(partition, host), row.finish());
        if fetched == self.pages_max {
            for id in self.servers_of(host) {
                staged.unsettle(ServerKey { partition, id });
            }
        }
    }

    /// What is left of a host's budget.
    pub(crate) fn budget(&self, host: u64) -> Budget {
        if self.pages_max == 0 {
            return Budget::UNLIMITED;
        }
        self.budget_after(self.pages.get(&host).copied().unwrap_or_default())
    }

    /// What is left of the budget of a host that may not be in play.
    pub(crate) fn stored_budget(&self, store: &dyn Store, partition: u16, host: u64) -> Result<Budget, StoreError> {
        match self.pages.contains_key(&host) || self.pages_max == 0 {
            true => Ok(self.budget(host)),
            false => Ok(self.budget_after(stored(store, partition, host)?)),
        }
    }

    fn budget_after(&self, pages: Pages) -> Budget {
        match self.pages_max.saturating_sub(pages.fetched) {
            0 => Budget::UsedUp,
            left => match left.saturating_sub(pages.in_flight) {
                0 => Budget::Reserved,
                left => Budget::Left(left),
            },
        }
    }
}

/// Reads the pages of a host that has nothing in flight.
fn stored(store: &dyn Store, partition: u16, host: u64) -> Result<Pages, StoreError> {
    let fetched = match store.get(HOSTS, &key(partition, host))? {
        Some(row) => read(&row).ok_or_else(|| corrupt(HOSTS, "a host's row is unreadable"))?,
        None => 0,
    };
    Ok(Pages { fetched, in_flight: 0 })
}

fn read(row: &[u8]) -> Option<u64> {
    Reader::new(row)?.number()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;
    use shared::stage::Output;
    use shared::stage::store::MemoryStore;
    use shared::time::Timestamp;

    const HOST: u64 = 9;

    const fn server(id: u64) -> ServerKey {
        ServerKey { partition: 3, id }
    }

    fn fetch(hosts: &mut Hosts, store: &MemoryStore, pages: u64) -> Vec<ServerKey> {
        let settings = settings();
        let mut staged = Staged::new(Timestamp::ZERO, &settings, store, 0);
        for _ in 0..pages {
            hosts.fetched(&mut staged, 3, HOST);
        }
        let unsettled = staged.unsettled.iter().copied().collect();
        let mut out = Output::default();
        staged.flush(&mut out, || 1);
        store.commit(&out.changes).unwrap();
        unsettled
    }

    #[test]
    fn what_is_in_flight_is_reserved_and_what_was_fetched_is_spent() {
        let store = MemoryStore::default();
        let mut hosts = Hosts::new(3);
        for id in [1, 2] {
            hosts.enter(&store, server(id), HOST).unwrap();
        }
        hosts.account(HOST, 2, 0);
        assert_eq!(hosts.budget(HOST), Budget::Left(1));
        hosts.account(HOST, 1, 0);
        assert_eq!(hosts.budget(HOST), Budget::Reserved);
        assert_eq!(fetch(&mut hosts, &store, 2), []);
        hosts.account(HOST, 0, 2);
        assert_eq!(hosts.budget(HOST), Budget::Reserved);
        hosts.account(HOST, 0, 1);
        assert_eq!(hosts.budget(HOST), Budget::Left(1));
        assert_eq!(fetch(&mut hosts, &store, 1), [server(1), server(2)], "all its servers are looked after");
        assert_eq!(hosts.budget(HOST), Budget::UsedUp);
    }

    #[test]
    fn a_host_leaves_memory_with_its_last_server_and_its_count_comes_back() {
        let store = MemoryStore::default();
        let mut hosts = Hosts::new(0);
        for id in [1, 2] {
            hosts.enter(&store, server(id), HOST).unwrap();
        }
        fetch(&mut hosts, &store, 2);
        assert_eq!(hosts.budget(HOST), Budget::Left(u64::MAX));
        hosts.leave(server(1), HOST);
        assert_eq!(hosts.pages.len(), 1);
        hosts.leave(server(2), HOST);
        assert!(hosts.pages.is_empty() && hosts.servers.is_empty());
        let mut hosts = Hosts::new(3);
        hosts.enter(&store, server(2), HOST).unwrap();
        assert_eq!(hosts.budget(HOST), Budget::Left(1));
    }
}

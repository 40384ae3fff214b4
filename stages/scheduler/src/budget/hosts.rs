//! Hosts and their budgets: how many pages of each were fetched, and how many URLs may still be
//! asked for.
//!
//! All servers of a host are in one partition, so one scheduler counts them. A page is counted in
//! the commit of its outcome. A URL in flight is reserved until it ends or goes back. So pages
//! fetched and URLs in flight together never exceed the budget, whatever crashes, and nothing is
//! over budget before that many pages were fetched.
//!
//! Pages are counted without a budget too: a budget that comes with `--resume` holds for the whole
//! crawl. So are bytes and errors, for reports. Memory holds the hosts of servers in play (P6).

use crate::keys::budget::Budget;
use crate::keys::server_key::ServerKey;
use crate::step::staged::Staged;
use crate::store::codec::{Reader, Writer};
use crate::store::rows::corrupt;
use foldhash::{HashMap, HashMapExt as _};
use rhumb_stage::store::{Store, StoreError, Table};
use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

/// Table of hosts: hash of the host → pages fetched, their bytes, errors.
pub(crate) const HOSTS: Table = "hosts";

/// What was counted of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostCounts {
    /// Pages fetched.
    pub(crate) fetched: u64,
    /// Bytes of their bodies.
    pub(crate) bytes: u64,
    /// URLs that ended as failed or refused.
    pub(crate) errors: u64,
}

impl HostCounts {
    fn to_row(self) -> Vec<u8> {
        let mut row = Writer::with_capacity(8);
        [self.fetched, self.bytes, self.errors]
            .into_iter()
            .for_each(|number| row.number(number));
        row.finish()
    }

    /// Reads a row. Those of earlier versions have the pages alone.
    pub(crate) fn from_row(row: &[u8]) -> Option<Self> {
        let mut row = Reader::new(row)?;
        let fetched = row.number()?;
        Some(HostCounts {
            fetched,
            bytes: row.number().unwrap_or(0),
            errors: row.number().unwrap_or(0),
        })
    }
}

/// The pages of a host.
#[derive(Clone, Copy, Debug, Default)]
struct Pages {
    counts: HostCounts,
    /// Its URLs in flight, over all its servers.
    in_flight: u64,
}

/// The hosts of a partition that are in play, by the hash of their names.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// Pages of each that may be fetched; 0: no limit.
    pages_max: u64,
    pages: HashMap<u64, Pages>,
    /// Their servers in play.
    servers: BTreeSet<ServerKey>,
}

impl Hosts {
    pub(crate) fn new(pages_max: u64) -> Self {
        Hosts {
            pages_max,
            pages: HashMap::new(),
            servers: BTreeSet::new(),
        }
    }

    /// A server comes into play, and its host with it.
    pub(crate) fn enter(&mut self, store: &dyn Store, server: ServerKey) -> Result<(), StoreError> {
        if let Entry::Vacant(place) = self.pages.entry(server.host) {
            place.insert(stored(store, server.host)?);
        }
        self.servers.insert(server);
        Ok(())
    }

    /// A server leaves memory, and its host with the last of them.
    pub(crate) fn leave(&mut self, server: ServerKey) {
        self.servers.remove(&server);
        if self.servers_of(server.host).next().is_none() {
            self.pages.remove(&server.host);
        }
    }

    fn servers_of(&self, host: u64) -> impl Iterator<Item = ServerKey> {
        self.servers.range(ServerKey::all_of(host)).copied()
    }

    /// Notes how many URLs of one of its servers are in flight now, and how many were before.
    pub(crate) fn account(&mut self, host: u64, now: u64, before: u64) {
        if let Some(pages) = self.pages.get_mut(&host) {
            pages.in_flight = pages.in_flight + now - before;
        }
    }

    /// Counts a page. After the last page of the budget all servers of the host are looked after,
    /// because their URLs end.
    pub(crate) fn fetched(&mut self, staged: &mut Staged<'_>, host: u64, bytes: u64) {
        let Some(Pages { counts, .. }) = self.pages.get_mut(&host) else {
            return;
        };
        counts.fetched += 1;
        counts.bytes += bytes;
        let fetched = counts.fetched;
        staged
            .rows
            .put(HOSTS, host.to_be_bytes().to_vec(), counts.to_row());
        if fetched == self.pages_max {
            for server in self.servers_of(host) {
                staged.unsettle(server);
            }
        }
    }

    /// Counts a URL that ended as failed or refused.
    pub(crate) fn failed(&mut self, staged: &mut Staged<'_>, host: u64) {
        let Some(Pages { counts, .. }) = self.pages.get_mut(&host) else {
            return;
        };
        counts.errors += 1;
        staged
            .rows
            .put(HOSTS, host.to_be_bytes().to_vec(), counts.to_row());
    }

    /// What is left of a host's budget.
    pub(crate) fn budget(&self, host: u64) -> Budget {
        if self.pages_max == 0 {
            return Budget::UNLIMITED;
        }
        self.budget_after(self.pages.get(&host).copied().unwrap_or_default())
    }

    /// What is left of the budget of a host that may not be in play.
    pub(crate) fn stored_budget(&self, store: &dyn Store, host: u64) -> Result<Budget, StoreError> {
        match self.pages.contains_key(&host) || self.pages_max == 0 {
            true => Ok(self.budget(host)),
            false => Ok(self.budget_after(stored(store, host)?)),
        }
    }

    fn budget_after(&self, pages: Pages) -> Budget {
        match self.pages_max.saturating_sub(pages.counts.fetched) {
            0 => Budget::UsedUp,
            left => match left.saturating_sub(pages.in_flight) {
                0 => Budget::Reserved,
                left => Budget::Left(left),
            },
        }
    }
}

/// Reads the pages of a host that has nothing in flight.
fn stored(store: &dyn Store, host: u64) -> Result<Pages, StoreError> {
    let counts = match store.get(HOSTS, &host.to_be_bytes())? {
        Some(row) => HostCounts::from_row(&row)
            .ok_or_else(|| corrupt(HOSTS, "a host's row is unreadable"))?,
        None => HostCounts::default(),
    };
    Ok(Pages {
        counts,
        in_flight: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontier::index::Index;
    use crate::settings::tests::settings;
    use rhumb_partition::Directory;
    use rhumb_stage::Output;
    use rhumb_stage::store::MemoryStore;
    use rhumb_url::time::Timestamp;

    /// Servers of one host, and the hash of that.
    fn host() -> ([ServerKey; 2], u64) {
        let servers = ["http://a.test", "https://a.test"]
            .map(|server| ServerKey::of(server, &Directory::new(4)).unwrap());
        (servers, servers[0].host)
    }

    fn fetch(hosts: &mut Hosts, store: &MemoryStore, pages: u64) -> Vec<ServerKey> {
        let settings = settings();
        let mut staged = Staged::new(Timestamp::ZERO, &settings, store, Index::default(), 0);
        for _ in 0..pages {
            hosts.fetched(&mut staged, host().1, 100);
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
        let (servers, host) = host();
        for server in servers {
            hosts.enter(&store, server).unwrap();
        }
        hosts.account(host, 2, 0);
        assert_eq!(hosts.budget(host), Budget::Left(1));
        hosts.account(host, 1, 0);
        assert_eq!(hosts.budget(host), Budget::Reserved);
        assert_eq!(fetch(&mut hosts, &store, 2), []);
        hosts.account(host, 0, 2);
        assert_eq!(hosts.budget(host), Budget::Reserved);
        hosts.account(host, 0, 1);
        assert_eq!(hosts.budget(host), Budget::Left(1));
        assert_eq!(
            fetch(&mut hosts, &store, 1),
            servers,
            "all its servers are looked after"
        );
        assert_eq!(hosts.budget(host), Budget::UsedUp);
    }

    #[test]
    fn a_host_leaves_memory_with_its_last_server_and_its_count_comes_back() {
        let store = MemoryStore::default();
        let mut hosts = Hosts::new(0);
        let (servers, host) = host();
        for server in servers {
            hosts.enter(&store, server).unwrap();
        }
        fetch(&mut hosts, &store, 2);
        assert_eq!(hosts.budget(host), Budget::Left(u64::MAX));
        hosts.leave(servers[0]);
        assert_eq!(hosts.pages.len(), 1);
        hosts.leave(servers[1]);
        assert!(hosts.pages.is_empty() && hosts.servers.is_empty());
        let mut hosts = Hosts::new(3);
        hosts.enter(&store, servers[1]).unwrap();
        assert_eq!(hosts.budget(host), Budget::Left(1));
    }

    #[test]
    fn bytes_and_errors_are_kept_beside_the_pages_and_rows_without_them_are_read() {
        let store = MemoryStore::default();
        let mut hosts = Hosts::new(0);
        let (servers, host) = host();
        hosts.enter(&store, servers[0]).unwrap();
        fetch(&mut hosts, &store, 3);
        let settings = settings();
        let mut staged = Staged::new(Timestamp::ZERO, &settings, &store, Index::default(), 0);
        hosts.failed(&mut staged, host);
        let row = staged
            .rows
            .get(HOSTS, &host.to_be_bytes())
            .unwrap()
            .unwrap();
        let counts = HostCounts {
            fetched: 3,
            bytes: 300,
            errors: 1,
        };
        assert_eq!(HostCounts::from_row(&row), Some(counts));
        let mut earlier = Writer::with_capacity(4);
        earlier.number(700);
        let counts = HostCounts {
            fetched: 700,
            ..HostCounts::default()
        };
        assert_eq!(HostCounts::from_row(&earlier.finish()), Some(counts));
    }
}

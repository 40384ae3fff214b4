//! Paused: the servers that operators want to be left alone.
//!
//! In: the orders of the crawl. Out: whether a server is paused, and by which order. Hosts and
//! domains are compared by their hashes, since orders are asked about each server in memory.

use crate::keys::server_key::ServerKey;
use foldhash::HashSet;
use rhumb_config::orders::{Orders, Pause, Target};
use rhumb_url::{fingerprint, host_hash};

/// What is paused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paused {
    orders: Orders,
    all: bool,
    hosts: HashSet<u64>,
    domains: HashSet<u64>,
}

impl Paused {
    /// What is paused by these orders.
    pub(crate) fn by(orders: &Orders) -> Self {
        let mut paused = Paused {
            orders: orders.clone(),
            all: orders.hold.is_some(),
            ..Paused::default()
        };
        for pause in &orders.paused {
            match &pause.what {
                Target::Crawl => paused.all = true,
                Target::Host(host) => {
                    paused.hosts.insert(host_hash(host));
                }
                Target::Domain(domain) => {
                    paused.domains.insert(fingerprint(domain));
                }
            }
        }
        paused
    }

    /// Number of orders.
    pub(crate) fn orders(&self) -> usize {
        self.orders.paused.len()
    }

    /// Returns whether the whole crawl is paused, or held.
    pub(crate) fn has_all(&self) -> bool {
        self.all
    }

    /// Returns whether a server is paused by itself. `domain`: the hash of its registered domain.
    pub(crate) fn has(&self, server: ServerKey, domain: u64) -> bool {
        self.hosts.contains(&server.host) || self.domains.contains(&domain)
    }

    /// The order by which a server, `scheme://host[:port]`, is paused.
    pub(crate) fn order(&self, server: &str) -> Option<&Pause> {
        self.orders.pause_of(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_config::orders::Author;
    use rhumb_partition::Directory;
    use rhumb_url::registered_domain;

    #[test]
    fn a_server_is_paused_by_hash_where_it_is_by_name() {
        let directory = Directory::new(4);
        let mut orders = Orders::default();
        for what in [
            Target::Host("a.example.org".into()),
            Target::Domain("example.com".into()),
        ] {
            orders.pause(Pause {
                what,
                author: Author::default(),
            });
        }
        let paused = Paused::by(&orders);
        for server in [
            "http://a.example.org",
            "https://a.example.org:8443",
            "http://b.example.org",
            "http://b.example.com",
        ] {
            let key = ServerKey::of(server, &directory).unwrap();
            let domain = fingerprint(registered_domain(rhumb_url::host_of(server)));
            assert_eq!(
                paused.has(key, domain),
                paused.order(server).is_some(),
                "{server}"
            );
        }
        assert!(!paused.has_all() && !Paused::default().has_all());
    }
}

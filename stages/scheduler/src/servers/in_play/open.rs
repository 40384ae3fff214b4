//! How the servers in play are read from the store when a life begins.

use super::Servers;
use crate::budget::hosts::Hosts;
use crate::budget::shares::Shares;
use crate::keys::load::Load;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::topic_of;
use crate::politeness::paused::Paused;
use crate::servers::lease::{JOBS, Lease};
use crate::servers::partition::Partition;
use crate::servers::server::{SERVERS, Server};
use crate::settings::Settings;
use crate::store::rows::corrupt;
use foldhash::{HashMap, HashMapExt as _};
use rhumb_stage::store::{Store, StoreError};
use rhumb_url::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Servers {
    /// Reads the servers of `partitions` that have something to do or to wait for; the others come
    /// when they are needed.
    ///
    /// Outstanding jobs get a full lease from `now` on, and waits go on from where they were.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn open(
        settings: &Settings,
        instance: u16,
        epoch: u64,
        partitions: &[u16],
        store: Arc<dyn Store>,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut this = Servers {
            store: Arc::clone(&store),
            directory: settings.directory.clone(),
            settings: settings.clone(),
            partitions: BTreeMap::new(),
            in_memory: HashMap::new(),
            shares: Shares::open(settings, (instance, epoch), partitions, store.as_ref())?,
            paused: Paused::default(),
            with_traps: BTreeSet::new(),
            traps_end: false,
            load: Load::default(),
            invariants_broken: 0,
        };
        // Epochs alone are those of other instances, and of a restored crawl, too.
        let life = settings.life.wrapping_add(epoch);
        for &partition in partitions {
            let hosts = Hosts::new(settings.limits.pages_per_host);
            this.partitions.insert(
                partition,
                Partition::open(
                    store.as_ref(),
                    partition,
                    hosts,
                    &settings.topics,
                    now,
                    life,
                )?,
            );
        }
        for &partition in partitions {
            this.open_servers(store.as_ref(), partition, now)?;
            this.open_leases(store.as_ref(), partition, now + settings.lease_with_grace())?;
        }
        let topics = this.totals_by_topic();
        let in_hand = topics
            .iter()
            .map(|(index, counts)| (*index, counts.in_hand().cast_signed()));
        this.shares.take_topic_urls(in_hand);
        for key in this.keys() {
            this.account(key);
        }
        this.shares.begin(now);
        if partitions.is_empty() {
            this.shares.give_all_back(store.as_ref(), now)?;
        }
        Ok(this)
    }

    fn open_servers(
        &mut self,
        store: &dyn Store,
        partition: u16,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let Some(clock) = self
            .partitions
            .get(&partition)
            .map(|partition| partition.clock)
        else {
            return Ok(());
        };
        let Some((from, to)) = self.keys_of(partition) else {
            return Ok(());
        };
        let mut servers = Vec::new();
        let mut unreadable = false;
        store.scan(SERVERS, &from, &to, &mut |key, row| {
            match (
                ServerKey::from_bytes(partition, key),
                Server::from_row(row, clock),
            ) {
                (Some(key), Some(server)) => {
                    if !server.queues.is_empty() || server.next_contact > now {
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
        if unreadable {
            Err(corrupt(SERVERS, "a server's record is unreadable"))
        } else {
            Ok(())
        }
    }

    fn open_leases(
        &mut self,
        store: &dyn Store,
        partition: u16,
        deadline: Timestamp,
    ) -> Result<(), StoreError> {
        let Some((from, to)) = self.keys_of(partition) else {
            return Ok(());
        };
        let mut leases = Vec::new();
        let mut unreadable = false;
        store.scan(JOBS, &from, &to, &mut |key, row| {
            match (
                ServerKey::from_bytes(partition, key),
                Lease::from_row(row, deadline),
            ) {
                (Some(key), Some(lease)) => leases.push((key, lease)),
                _ => unreadable = true,
            }
            !unreadable
        })?;
        for (key, mut lease) in leases {
            if let Some(&slot) = lease.slots.front()
                && let Some(partition) = self.partitions.get(&partition)
            {
                lease.topic = partition.topics.index_of(topic_of(slot));
            }
            match self.load(key)? {
                Some(server) => server.lease = Some(Box::new(lease)),
                None => unreadable = true,
            }
        }
        if unreadable {
            Err(corrupt(
                JOBS,
                "a job is unreadable, or its server is unknown",
            ))
        } else {
            Ok(())
        }
    }
}

//! New URLs come into the frontier, and addresses of servers with them.
//!
//! Each URL is taken on once: its serial number tells whether it was, however often and in whatever company it
//! comes (P3).

use crate::frontier::StoredUrl;
use crate::policy::order;
use crate::scheduler::Scheduler;
use crate::server::ServerKey;
use crate::staged::Staged;
use shared::message::{ReadyUrls, Resolution};
use shared::stage::store::StoreError;
use shared::time::Timestamp;

impl Scheduler {
    /// Takes on what is new of a batch; without URLs it is the answer to a request for addresses.
    pub(crate) fn take_on(
        &mut self,
        now: Timestamp,
        ready: ReadyUrls,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        if !self.partitions.contains_key(&ready.partition) {
            self.foreign += 1;
            return Ok(());
        }
        if ready.urls.is_empty() {
            return self.learn_addresses(now, &ready, staged);
        }
        let (policy, head_max) = (self.settings.policy(), self.settings.head_max());
        let mut keys: Vec<Option<ServerKey>> = vec![None; ready.servers.len()];
        for (index, url) in ready.urls.iter().enumerate() {
            let parts = (ready.serials.get(index), ready.server_of.get(index), ready.origin_of.get(index));
            let (Some(&serial), Some(&server), Some(&origin)) = parts else {
                self.malformed += 1;
                continue;
            };
            let (server, origin) = (server as usize, ready.origins.get(origin as usize));
            let (Some(found), Some(origin), Some(partition)) =
                (ready.servers.get(server), origin, self.partitions.get_mut(&ready.partition))
            else {
                self.malformed += 1;
                continue;
            };
            staged.partitions.insert(ready.partition);
            if !partition.serials.insert(serial) {
                partition.counts.repeated += 1;
                continue;
            }
            partition.counts.new += 1;
            staged.serials.insert(ready.partition);
            let key = match keys[server] {
                Some(key) => key,
                None => {
                    let key = ServerKey::of(ready.partition, &found.server);
                    self.load_or_make(key, &found.server)?;
                    self.learn_address(now, key, found.resolution.as_ref(), staged);
                    keys[server] = Some(key);
                    key
                }
            };
            if let Some(server) = self.servers.get_mut(&key) {
                let order = order(policy, self.settings.quality.quality(url, origin));
                let (url, origin) = (url.to_owned(), origin.clone());
                let url = StoredUrl { url, origin, serial, attempts: 0, not_before: 0 };
                server.queue.push(staged, key, &url, order, head_max);
            }
        }
        Ok(())
    }

    fn learn_addresses(
        &mut self,
        now: Timestamp,
        ready: &ReadyUrls,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        for found in &ready.servers {
            let key = ServerKey::of(ready.partition, &found.server);
            self.load(key)?;
            self.learn_address(now, key, found.resolution.as_ref(), staged);
        }
        Ok(())
    }

    fn learn_address(&mut self, now: Timestamp, key: ServerKey, found: Option<&Resolution>, staged: &mut Staged<'_>) {
        if let Some(server) = self.servers.get_mut(&key) {
            match found {
                Some(found) => server.address.learn(now, found, &self.settings),
                None => server.address.pending(now, &self.settings),
            }
            staged.touch(key);
        }
    }
}

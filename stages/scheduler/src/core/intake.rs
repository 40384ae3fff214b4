//! New URLs come into the frontier, and addresses of servers with them.
//!
//! Invariant: each URL is taken on once, however often and in whatever batch it comes: its serial number tells (P3).

use crate::frontier::rows::FrontierUrl;
use crate::keys::server_key::ServerKey;
use crate::ranking::policy::order;
use crate::servers::in_play::{InPlay, Servers};
use crate::step::staged::Staged;
use shared::message::{ReadyUrls, Resolution};
use shared::stage::store::StoreError;

/// Takes on the new URLs of a batch, and the addresses in it. A batch without URLs is the answer to a request for
/// addresses.
///
/// Gives the number of URLs that make no sense. They are counted and left out.
///
/// # Errors
///
/// The store cannot be read, or a row is not understood.
pub(crate) fn take_on(servers: &mut Servers, ready: &ReadyUrls, staged: &mut Staged<'_>) -> Result<u64, StoreError> {
    if ready.urls.is_empty() {
        learn_addresses(servers, ready, staged)?;
        return Ok(0);
    }
    let (settings, mut malformed) = (staged.settings, 0);
    let (policy, head_max) = (settings.policy(), settings.head_max());
    let mut keys: Vec<Option<ServerKey>> = vec![None; ready.servers.len()];
    for (index, url) in ready.urls.iter().enumerate() {
        let parts = (ready.serials.get(index), ready.server_of.get(index), ready.origin_of.get(index));
        let (Some(&serial), Some(&server), Some(&origin)) = parts else {
            malformed += 1;
            continue;
        };
        let (server, origin) = (server as usize, ready.origins.get(origin as usize));
        let (Some(found), Some(origin), Some(partition)) =
            (ready.servers.get(server), origin, servers.partition(ready.partition))
        else {
            malformed += 1;
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
                servers.load_or_make(key, &found.server)?;
                learn_address(servers, key, found.resolution.as_ref(), staged);
                keys[server] = Some(key);
                key
            }
        };
        if let Some(InPlay { server, .. }) = servers.in_play(key, "taking on a URL") {
            let order = order(policy, settings.quality.quality(url, origin));
            let (url, origin) = (url.to_owned(), origin.clone());
            let url = FrontierUrl { url, origin, serial, attempts: 0, not_before: 0 };
            server.queue.push(&mut staged.rows, key, &url, order, head_max);
        }
    }
    if let Some(partition) = servers.partition(ready.partition).filter(|_| malformed > 0) {
        partition.counts.malformed += malformed;
        staged.partitions.insert(ready.partition);
    }
    Ok(malformed)
}

fn learn_addresses(servers: &mut Servers, ready: &ReadyUrls, staged: &mut Staged<'_>) -> Result<(), StoreError> {
    for found in &ready.servers {
        let key = ServerKey::of(ready.partition, &found.server);
        servers.load(key)?;
        learn_address(servers, key, found.resolution.as_ref(), staged);
    }
    Ok(())
}

/// A server that is not known keeps nothing. Its address comes again with its first URL.
fn learn_address(servers: &mut Servers, key: ServerKey, found: Option<&Resolution>, staged: &mut Staged<'_>) {
    if let Some(server) = servers.get_mut(key) {
        match found {
            Some(found) => server.address.learn(staged.now, found, staged.settings),
            None => server.address.pending(staged.now, staged.settings),
        }
        staged.touch(key);
    }
}

//! New URLs come into the frontier, and addresses of servers with them.
//!
//! Invariant: each URL is taken on once, however often and in whatever batch it comes: its serial
//! number tells (P3). A partition that was split keeps the serial numbers that it gave; its URLs
//! are its halves', which are here as long as not all of them have come.

use crate::core::drops::Drops;
use crate::core::traps::Traps;
use crate::frontier::rows::FrontierUrl;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::Lane;
use crate::keys::topic::TopicNumber;
use crate::ranking::policy::order;
use crate::servers::in_play::{InPlay, Servers};
use crate::step::staged::Staged;
use rhumb_stage::store::StoreError;
use rhumb_url::fingerprint;
use rhumb_wire::message::{Origin, ReadyUrls, Resolution};

/// Takes on the new URLs of a batch, and the addresses in it. A batch without URLs is the answer to
/// a request for addresses.
///
/// Gives the number of URLs that make no sense, or of servers in a batch without URLs. They are
/// left out; URLs are counted.
///
/// # Errors
///
/// The store cannot be read, or a row is not understood.
pub(crate) fn take_on(
    servers: &mut Servers,
    drops: &Drops,
    traps: &mut Traps,
    ready: &ReadyUrls,
    staged: &mut Staged<'_>,
) -> Result<u64, StoreError> {
    if ready.urls.is_empty() {
        return learn_addresses(servers, ready, staged);
    }
    let mut malformed = 0;
    let keys: Vec<Option<ServerKey>> = ready
        .servers
        .iter()
        .map(|of| key_of(servers, ready, &of.server))
        .collect();
    let mut is_loaded = vec![false; keys.len()];
    // Of the origins of the batch, with the partitions that gave them.
    let mut numbers: Vec<Option<(u16, TopicNumber)>> = vec![None; ready.origins.len()];
    for (index, url) in ready.urls.iter().enumerate() {
        let parts = (
            ready.serials.get(index),
            ready.server_of.get(index),
            ready.origin_of.get(index),
        );
        let (Some(&serial), Some(&server), Some(&origin_at)) = parts else {
            malformed += 1;
            continue;
        };
        let server = server as usize;
        let origin_at = origin_at as usize;
        let origin = ready.origins.get(origin_at);
        let Some(numbered) = servers.partition(ready.partition) else {
            continue;
        };
        if numbered.serials.contains(serial) {
            numbered.counts.repeated += 1;
            staged.partitions.insert(ready.partition);
            continue;
        }
        let (Some(&Some(key)), Some(origin)) = (keys.get(server), origin) else {
            malformed += 1;
            continue;
        };
        numbered.serials.insert(serial);
        staged.serials.insert(ready.partition);
        // Another one when the partition that gave the number was split.
        let is_dropped = drops.order_for(url, origin).is_some();
        if let Some(partition) = servers.partition(key.partition) {
            partition.counts.new += 1;
            staged.partitions.insert(key.partition);
            if is_dropped {
                partition.end_on_arrival(
                    staged,
                    key,
                    frontier_url(url, origin, serial),
                    Drops::end(),
                );
                continue;
            }
        }
        if !std::mem::replace(&mut is_loaded[server], true) {
            let found = &ready.servers[server];
            servers.load_or_make(key, &found.server)?;
            learn_address(servers, key, found.resolution.as_ref(), staged);
        }
        let url = frontier_url(url, origin, serial);
        let known = numbers[origin_at]
            .filter(|(of, _)| *of == key.partition)
            .map(|(_, topic)| topic);
        numbers[origin_at] =
            put(servers, traps, key, &url, known, staged).map(|topic| (key.partition, topic));
    }
    if let Some(partition) = servers.partition(ready.partition).filter(|_| malformed > 0) {
        partition.counts.malformed += malformed;
        staged.partitions.insert(ready.partition);
    }
    Ok(malformed)
}

/// Puts a new URL into the queue of its topic. Gives the number of that, which may be `known`.
fn put(
    servers: &mut Servers,
    traps: &mut Traps,
    key: ServerKey,
    url: &FrontierUrl,
    known: Option<TopicNumber>,
    staged: &mut Staged<'_>,
) -> Option<TopicNumber> {
    let InPlay {
        server, partition, ..
    } = servers.in_play(key, "taking on a URL")?;
    let settings = staged.settings;
    let lane = traps.lane(key, server, url, settings);
    let order = order(
        settings.policy(),
        settings.quality.quality(&url.url, &url.origin),
    )
    .in_lane(lane);
    let topic =
        known.unwrap_or_else(|| partition.number_of(staged, key.partition, &url.origin.topic));
    partition.count_new(staged, key.partition, topic);
    let slot = server.queues.push(
        &mut staged.rows,
        key,
        topic,
        url,
        order,
        settings.head_max(),
    );
    if lane == Lane::Ahead && settings.later_links_count(&url.origin.topic) {
        staged
            .index
            .note(&mut staged.rows, key, fingerprint(&url.url), slot);
    }
    Some(topic)
}

fn frontier_url(url: &str, origin: &Origin, serial: u64) -> FrontierUrl {
    FrontierUrl {
        url: url.to_owned(),
        origin: origin.clone(),
        serial,
        attempts: 0,
        not_before: 0,
    }
}

/// The key of a server in a batch; none when it is no server, or not of the batch's partition or a
/// half of that one.
fn key_of(servers: &Servers, ready: &ReadyUrls, server: &str) -> Option<ServerKey> {
    servers
        .key_of(server)
        .filter(|key| servers.covers(ready.partition, *key))
}

fn learn_addresses(
    servers: &mut Servers,
    ready: &ReadyUrls,
    staged: &mut Staged<'_>,
) -> Result<u64, StoreError> {
    let mut malformed = 0;
    for found in &ready.servers {
        let Some(key) = key_of(servers, ready, &found.server) else {
            malformed += 1;
            continue;
        };
        // Asked for before its partition was split and moved: whoever has it asks again.
        if servers.owns(key.partition) {
            servers.load(key)?;
            learn_address(servers, key, found.resolution.as_ref(), staged);
        }
    }
    Ok(malformed)
}

/// A server that is not known keeps nothing. Its address comes again with its first URL.
fn learn_address(
    servers: &mut Servers,
    key: ServerKey,
    found: Option<&Resolution>,
    staged: &mut Staged<'_>,
) {
    if let Some(server) = servers.get_mut(key) {
        match found {
            Some(found) => server.address.learn(staged.now, found, staged.settings),
            None => server.address.pending(staged.now, staged.settings),
        }
        staged.touch(key);
    }
}

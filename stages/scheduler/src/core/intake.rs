//! New URLs come into the frontier, and addresses of servers with them.
//!
//! Invariant: each URL is taken on once, however often and in whatever batch it comes: its serial
//! number tells (P3). One whose page is given as known waits for nothing, and has no outcome. A
//! partition that was split keeps the serial numbers that it gave; its URLs are its halves', which
//! are here as long as not all of them have come.

use crate::core::doors::Doors;
use crate::core::recrawl::given::Given;
use crate::core::work::Work;
use crate::frontier::rows::FrontierUrl;
use crate::keys::server_key::ServerKey;
use crate::keys::topic::TopicNumber;
use crate::ranking::policy::order;
use crate::servers::in_play::Servers;
use rhumb_stage::store::StoreError;
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
    work: &mut Work<'_>,
    doors: &mut Doors,
    ready: &ReadyUrls,
) -> Result<u64, StoreError> {
    if ready.urls.is_empty() {
        return learn_addresses(work, ready);
    }
    let mut malformed = 0;
    let keys: Vec<Option<ServerKey>> = ready
        .servers
        .iter()
        .map(|of| key_of(work.servers, ready, &of.server))
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
        let Some(numbered) = work.servers.partition(ready.partition) else {
            continue;
        };
        if numbered.serials.contains(serial) {
            numbered.counts.repeated += 1;
            work.staged.partitions.insert(ready.partition);
            continue;
        }
        let (Some(&Some(key)), Some(origin)) = (keys.get(server), origin) else {
            malformed += 1;
            continue;
        };
        numbered.serials.insert(serial);
        work.staged.serials.insert(ready.partition);
        if arrives(work, doors, key, url, origin, serial)? {
            continue;
        }
        if !std::mem::replace(&mut is_loaded[server], true) {
            let found = &ready.servers[server];
            work.servers.load_or_make(key, &found.server)?;
            learn_address(work, key, found.resolution.as_ref());
        }
        let url = frontier_url(url, origin, serial);
        let known = numbers[origin_at]
            .filter(|(of, _)| *of == key.partition)
            .map(|(_, topic)| topic);
        numbers[origin_at] = put(work, doors, key, &url, known).map(|topic| (key.partition, topic));
    }
    if let Some(partition) = work
        .servers
        .partition(ready.partition)
        .filter(|_| malformed > 0)
    {
        partition.counts.malformed += malformed;
        work.staged.partitions.insert(ready.partition);
    }
    Ok(malformed)
}

/// Counts a new URL. Returns whether it waits for nothing: its page is given as known, or it ends at
/// once.
fn arrives(
    work: &mut Work<'_>,
    doors: &mut Doors,
    key: ServerKey,
    url: &str,
    origin: &Origin,
    serial: u64,
) -> Result<bool, StoreError> {
    // Another one when the partition that gave the number was split.
    if let Some(partition) = work.servers.partition(key.partition) {
        partition.counts.new += 1;
        work.staged.partitions.insert(key.partition);
    }
    if let Some(last) = origin.last_visit() {
        let given = Given {
            url,
            origin,
            serial,
            last,
        };
        doors.recrawl.give(work, key, &given)?;
        return Ok(true);
    }
    let Some(end) = doors.admitted(url, origin) else {
        return Ok(false);
    };
    let Some(partition) = work.servers.partition(key.partition) else {
        return Ok(false);
    };
    let url = frontier_url(url, origin, serial);
    partition.end_on_arrival(&mut work.staged, key, url, end);
    Ok(true)
}

/// Puts a new URL into the queue of its topic. Gives the number of that, which may be `known`.
fn put(
    work: &mut Work<'_>,
    doors: &mut Doors,
    key: ServerKey,
    url: &FrontierUrl,
    known: Option<TopicNumber>,
) -> Option<TopicNumber> {
    let mut at = work.at(key, "taking on a URL")?;
    let settings = at.staged.settings;
    let topic = known.unwrap_or_else(|| {
        at.partition
            .number_of(at.staged, key.partition, &url.origin.topic)
    });
    let lane = doors.queued(&mut at, topic, url);
    let quality = settings.quality.quality(&url.url, &url.origin);
    let order = order(settings.policy(), quality).in_lane(lane);
    let rows = &mut at.staged.rows;
    let queues = &mut at.server.queues;
    let slot = queues.push(rows, key, topic, url, order, settings.head_max());
    Doors::waits(&mut at, slot, url);
    Some(topic)
}

fn frontier_url(url: &str, origin: &Origin, serial: u64) -> FrontierUrl {
    FrontierUrl {
        url: url.to_owned(),
        origin: origin.clone(),
        serial,
        attempts: 0,
        not_before: 0,
        visit: 1,
    }
}

/// The key of a server in a batch; none when it is no server, or not of the batch's partition or a
/// half of that one.
fn key_of(servers: &Servers, ready: &ReadyUrls, server: &str) -> Option<ServerKey> {
    servers
        .key_of(server)
        .filter(|key| servers.covers(ready.partition, *key))
}

fn learn_addresses(work: &mut Work<'_>, ready: &ReadyUrls) -> Result<u64, StoreError> {
    let mut malformed = 0;
    for found in &ready.servers {
        let Some(key) = key_of(work.servers, ready, &found.server) else {
            malformed += 1;
            continue;
        };
        // Asked for before its partition was split and moved: whoever has it asks again.
        if work.servers.owns(key.partition) {
            work.servers.load(key)?;
            learn_address(work, key, found.resolution.as_ref());
        }
    }
    Ok(malformed)
}

/// A server that is not known keeps nothing. Its address comes again with its first URL.
fn learn_address(work: &mut Work<'_>, key: ServerKey, found: Option<&Resolution>) {
    let Work {
        servers, staged, ..
    } = work;
    if let Some(server) = servers.get_mut(key) {
        match found {
            Some(found) => server.address.learn(staged.now, found, staged.settings),
            None => server.address.pending(staged.now, staged.settings),
        }
        staged.touch(key);
    }
}

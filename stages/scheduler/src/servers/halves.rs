//! The halves of a partition that was split: what is kept under the number of a partition, halved.
//!
//! In: the rows of the partition. Out: a row of counts for each half and one for the partition
//! itself.
//!
//! Servers and URLs are rows by hash, and so their halves' already. The partition keeps what it has
//! counted and which serial numbers it took on, and its tally of what ended; a half begins with its
//! URLs that have not ended, and goes on with the partition's clock.
//!
//! Invariant: new = ended + waiting + in flight, in the partition and in each half, also of each
//! topic (P3); the sums over all are as before.

use crate::frontier::rows::scan_urls;
use crate::keys::server_key::{ServerKey, keys_of};
use crate::keys::slot::{planned_slots, retry_slots, topic_of};
use crate::keys::topic::TopicNumber;
use crate::servers::counts::Counts;
use crate::servers::lease::{JOBS, Lease};
use crate::servers::partition::{DropState, Stored};
use crate::servers::server::{SERVERS, Server};
use crate::servers::topic_counts::TopicCounts;
use crate::store::clock::Clock;
use crate::store::rows::corrupt;
use rhumb_partition::Split;
use rhumb_stage::store::{Changes, Store, StoreError};
use rhumb_url::time::Timestamp;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Halves what is kept of a partition that was split. It numbers no URLs itself, so there is no
/// last serial number.
///
/// # Errors
/// The store cannot be read, or a row is not understood.
pub fn halve(store: &dyn Store, split: &Split, changes: &mut Changes) -> Result<u64, StoreError> {
    let Some(mut whole) = Stored::read(store, split.partition)? else {
        return Ok(0);
    };
    for (half, hashes) in &split.halves {
        let NotEnded {
            new: of_topics,
            visits,
        } = not_ended(store, *half, hashes, whole.clock)?;
        let new = of_topics.values().sum();
        whole.counts.planned = whole.counts.planned.saturating_sub(visits);
        whole.counts.new = whole.counts.new.saturating_sub(new);
        let mut topic_counts = BTreeMap::new();
        for (topic, counts) in &mut whole.topic_counts {
            let new = of_topics.get(topic).copied().unwrap_or_default();
            counts.new = counts.new.saturating_sub(new);
            topic_counts.insert(*topic, TopicCounts::of_new(new));
        }
        let drops = whole
            .drops
            .iter()
            .map(|state| DropState {
                dropped: 0,
                ..*state
            })
            .collect();
        let counts = Counts {
            new,
            planned: visits,
            ..Counts::default()
        };
        Stored {
            clock: whole.clock,
            counts,
            drops,
            topics: whole.topics.clone(),
            topic_counts,
        }
        .write(*half, changes);
    }
    whole.write(split.partition, changes);
    Ok(0)
}

/// URLs that wait or are in flight.
struct NotEnded {
    /// Those that are new, by topic.
    new: BTreeMap<TopicNumber, u64>,
    /// Planned visits.
    visits: u64,
}

/// How many URLs of these hosts wait or are in flight.
fn not_ended(
    store: &dyn Store,
    half: u16,
    hashes: &RangeInclusive<u64>,
    clock: u64,
) -> Result<NotEnded, StoreError> {
    let clock = Clock::resume(clock, Timestamp::ZERO, 0);
    let mut urls = BTreeMap::new();
    let mut visited = Vec::new();
    let mut is_readable = true;
    let (from, to) = keys_of(hashes);
    let is_key = |key: &[u8]| ServerKey::from_bytes(half, key).is_some();
    store.scan(SERVERS, &from, &to, &mut |key, row| {
        let server = Server::from_row(row, clock);
        is_readable &= is_key(key) && server.is_some();
        for queue in server.iter().flat_map(|server| server.queues.waiting()) {
            *urls.entry(queue.topic()).or_default() += queue.len();
        }
        let has_visits = server.is_some_and(|server| server.visits_out > 0);
        visited.extend(ServerKey::from_bytes(half, key).filter(|_| has_visits));
        is_readable
    })?;
    store.scan(JOBS, &from, &to, &mut |key, row| {
        let lease = Lease::from_row(row, Timestamp::ZERO);
        is_readable &= is_key(key) && lease.is_some();
        for slot in lease.iter().flat_map(|lease| &lease.slots) {
            *urls.entry(topic_of(*slot)).or_default() += 1;
        }
        is_readable
    })?;
    if !is_readable {
        return Err(corrupt(
            SERVERS,
            "a record of a server or a job is unreadable",
        ));
    }
    let visits = leave_out_visits(store, &visited, &mut urls)?;
    Ok(NotEnded { new: urls, visits })
}

/// Takes planned visits off the URLs of these servers. Gives their number.
fn leave_out_visits(
    store: &dyn Store,
    servers: &[ServerKey],
    urls: &mut BTreeMap<TopicNumber, u64>,
) -> Result<u64, StoreError> {
    let mut visits = 0;
    for (topic, urls) in urls {
        for slots in [planned_slots(*topic), retry_slots(*topic)] {
            for server in servers {
                scan_urls(store, *server, slots.clone(), &mut |url| {
                    let is_planned = u64::from(url.is_planned());
                    visits += is_planned;
                    *urls -= is_planned;
                    true
                })?;
            }
        }
    }
    Ok(visits)
}

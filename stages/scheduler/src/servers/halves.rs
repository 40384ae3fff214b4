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

use crate::keys::server_key::{ServerKey, keys_of};
use crate::keys::slot::topic_of;
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
        let of_topics = not_ended(store, *half, hashes, whole.clock)?;
        let new = of_topics.values().sum();
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

/// How many URLs of these hosts wait or are in flight, by topic.
fn not_ended(
    store: &dyn Store,
    half: u16,
    hashes: &RangeInclusive<u64>,
    clock: u64,
) -> Result<BTreeMap<TopicNumber, u64>, StoreError> {
    let clock = Clock::resume(clock, Timestamp::ZERO, 0);
    let mut urls = BTreeMap::new();
    let mut is_readable = true;
    let (from, to) = keys_of(hashes);
    let is_key = |key: &[u8]| ServerKey::from_bytes(half, key).is_some();
    store.scan(SERVERS, &from, &to, &mut |key, row| {
        let server = Server::from_row(row, clock);
        is_readable &= is_key(key) && server.is_some();
        for queue in server.iter().flat_map(|server| server.queues.waiting()) {
            *urls.entry(queue.topic()).or_default() += queue.len();
        }
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
    if is_readable {
        Ok(urls)
    } else {
        Err(corrupt(
            SERVERS,
            "a record of a server or a job is unreadable",
        ))
    }
}

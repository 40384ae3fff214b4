//! Lifts: URLs that wait go before others when later links add to their quality.
//!
//! In: boosts, from host-splitters. Out: new slots. Invariants: a lift moves a URL within the queue
//! of its server and changes nothing else, in one commit (P3); a URL that is not fresh, that is in
//! flight, or that is not known here stays as it is.
//!
//! Source: Abiteboul, Preda and Cobena 2003 (OPIC).

use crate::core::drops::Drops;
use crate::core::work::Work;
use crate::frontier::queue::Queue;
use crate::frontier::rows::{FrontierUrl, find_url, write_url};
use crate::keys::server_key::ServerKey;
use crate::keys::slot::{Lane, lane_of, order_of, quality_of, topic_of};
use crate::ranking::policy::order;
use crate::step::staged::Staged;
use rhumb_stage::store::StoreError;
use rhumb_url::fingerprint;
use rhumb_wire::message::{Boost, Boosts, Quality};

/// Boosts that one step looks at, at most: a few milliseconds. Further ones of a message are
/// dropped.
const LIFTS_PER_STEP: usize = 200;

/// What was made of boosts in this life.
#[derive(Debug, Default)]
pub(crate) struct Lifts {
    lifted: u64,
    dropped: u64,
}

impl Lifts {
    /// Takes boosts.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn take(
        &mut self,
        work: &mut Work<'_>,
        drops: &Drops,
        boosts: &Boosts,
    ) -> Result<(), StoreError> {
        for boost in boosts.boosts.iter().take(LIFTS_PER_STEP) {
            let is_lifted = match find(work, drops, boost)? {
                Some(found) => lift(work, found, boost.worth),
                None => false,
            };
            match is_lifted {
                true => self.lifted += 1,
                false => self.dropped += 1,
            }
        }
        self.dropped += boosts.boosts.len().saturating_sub(LIFTS_PER_STEP) as u64;
        Ok(())
    }

    /// URLs that went before others, so often.
    pub(crate) fn lifted(&self) -> u64 {
        self.lifted
    }

    /// Boosts that changed nothing: of URLs that wait here no longer, that failed before, that are
    /// not known here, or that have their place already.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// A new URL waits in this slot: it is found there when later links count.
pub(crate) fn note(key: ServerKey, slot: u64, url: &FrontierUrl, staged: &mut Staged<'_>) {
    if lane_of(slot) == Lane::Ahead && staged.settings.later_links_count(&url.origin.topic) {
        staged
            .index
            .note(&mut staged.rows, key, fingerprint(&url.url), slot);
    }
}

/// A URL that may be lifted, with its server and slot.
fn find(
    work: &Work<'_>,
    drops: &Drops,
    boost: &Boost,
) -> Result<Option<(ServerKey, u64, FrontierUrl)>, StoreError> {
    let Work {
        servers, staged, ..
    } = work;
    let partition = servers.partition_of_hash(boost.host);
    // A drop that has looked at a part of the slots would miss what moves there.
    if !servers.owns(partition) || drops.are_at_work_on(partition) {
        return Ok(None);
    }
    let found = staged
        .index
        .find(&staged.rows, partition, boost.host, boost.url)?;
    let Some((key, slot)) = found else {
        return Ok(None);
    };
    // All servers at which URLs wait are in memory.
    let Some(server) = servers.get(key) else {
        return Ok(None);
    };
    if server
        .lease
        .as_ref()
        .is_some_and(|lease| lease.slots.contains(&slot))
    {
        return Ok(None);
    }
    // The index is older than the URL's row where it was not kept for a while.
    let url =
        find_url(&staged.rows, key, slot)?.filter(|found| fingerprint(&found.url) == boost.url);
    let counts = |url: &FrontierUrl| {
        staged
            .settings
            .later_links_count_as(&url.origin.topic, boost.is_cash)
    };
    Ok(url.filter(counts).map(|url| (key, slot, url)))
}

/// Moves a URL to where it belongs now. Returns whether that is another place.
fn lift(
    work: &mut Work<'_>,
    (key, slot, mut url): (ServerKey, u64, FrontierUrl),
    worth: Quality,
) -> bool {
    let Work {
        servers, staged, ..
    } = work;
    let settings = staged.settings;
    let quality = settings
        .quality
        .lift(&mut url.origin, quality_of(slot), worth);
    let order = order(settings.policy(), quality);
    let Some(server) = servers.get_mut(key) else {
        return false;
    };
    // Where a shape feeds itself, links say nothing.
    let may_lift = |queue: &&mut Queue| lane_of(slot) == Lane::Ahead && queue.may_lift();
    let Some(queue) = server.queues.get_mut(topic_of(slot)).filter(may_lift) else {
        return false;
    };
    if order == order_of(slot) {
        // Behind equal ones it would lose by it.
        write_url(&mut staged.rows, key, slot, &url);
        return false;
    }
    let (lifted, is_first) = queue.lift(
        &mut staged.rows,
        key,
        slot,
        &url,
        order,
        settings.head_max(),
    );
    staged
        .index
        .note(&mut staged.rows, key, fingerprint(&url.url), lifted);
    staged.dirty.insert(key);
    staged.partitions.insert(key.partition);
    // Its rank depends on the first ones. While a job is out it has none.
    if is_first && server.lease.is_none() {
        staged.unsettle(key);
    }
    true
}

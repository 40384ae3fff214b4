//! Lifts: URLs that wait go before others when later links add to their quality.
//!
//! In: boosts, from host-splitters. Out: new slots. Invariants: a lift moves a URL within the queue of its server and changes
//! nothing else, in one commit (P3); a URL that is not fresh, that is in flight, or that is not known here stays as it is.
//!
//! Source: Abiteboul, Preda and Cobena 2003 (OPIC).

use crate::frontier::index;
use crate::frontier::rows::{FrontierUrl, find_url};
use crate::keys::server_key::ServerKey;
use crate::keys::slot::{quality_of, topic_of};
use crate::ranking::policy::order;
use crate::servers::in_play::Servers;
use crate::step::staged::Staged;
use shared::message::{Boost, Boosts, Quality};
use shared::stage::store::StoreError;
use shared::url::fingerprint;

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
        servers: &mut Servers,
        boosts: &Boosts,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        for boost in &boosts.boosts {
            match find(servers, boost, staged)? {
                Some((key, slot, url)) => {
                    lift(servers, (key, slot, url), boost.worth, staged);
                    self.lifted += 1;
                }
                None => self.dropped += 1,
            }
        }
        Ok(())
    }

    /// URLs that went before others, so often.
    pub(crate) fn lifted(&self) -> u64 {
        self.lifted
    }

    /// Boosts of URLs that wait here no longer, that failed before, or that are not known here.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// A URL that may be lifted, with its server and slot.
fn find(
    servers: &Servers,
    boost: &Boost,
    staged: &Staged<'_>,
) -> Result<Option<(ServerKey, u64, FrontierUrl)>, StoreError> {
    let partition = servers.partition_of_hash(boost.host);
    if !servers.owns(partition) {
        return Ok(None);
    }
    let Some((key, slot)) = index::find(&staged.rows, partition, boost.host, boost.url)? else { return Ok(None) };
    // All servers at which URLs wait are in memory.
    let Some(server) = servers.get(key) else { return Ok(None) };
    if server.lease.as_ref().is_some_and(|lease| lease.slots.contains(&slot)) {
        return Ok(None);
    }
    // The index is older than the URL's row where it was not kept for a while.
    let url = find_url(&staged.rows, key, slot)?.filter(|found| fingerprint(&found.url) == boost.url);
    Ok(url.filter(|url| staged.settings.later_links_count(&url.origin.topic)).map(|url| (key, slot, url)))
}

fn lift(
    servers: &mut Servers,
    (key, slot, mut url): (ServerKey, u64, FrontierUrl),
    worth: Quality,
    staged: &mut Staged<'_>,
) {
    let settings = staged.settings;
    let quality = settings.quality.lift(&mut url.origin, quality_of(slot), worth);
    let order = order(settings.policy(), quality);
    let Some(server) = servers.get_mut(key) else { return };
    let Some(queue) = server.queues.get_mut(topic_of(slot)) else { return };
    let (lifted, is_first) = queue.lift(&mut staged.rows, key, slot, &url, order, settings.head_max());
    index::note(&mut staged.rows, key, fingerprint(&url.url), lifted);
    staged.dirty.insert(key);
    staged.partitions.insert(key.partition);
    // Its rank depends on the first ones. While a job is out it has none.
    if is_first && server.lease.is_none() {
        staged.unsettle(key);
    }
}

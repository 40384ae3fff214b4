//! Drops: what operators want to be rid of ends as `dropped`, some of it in each step.
//!
//! In: the orders of the crawl; URLs that are new, or lie in the table of URLs. Out: outcomes; jobs
//! that are to stop, because they have such URLs.
//!
//! Invariants: a URL that is dropped ends once (P3). Each partition looks once at all that waits,
//! whoever dies: it notes in the same commit how far it has come. What is in a job when it is
//! looked at is looked at again when the job is over; no other partition waits for that.

use crate::core::work::Work;
use crate::frontier::rows::{FrontierUrl, slot_of, visit_urls};
use crate::frontier::search::{Limits, Piece, search};
use crate::frontier::url_end::UrlEnd;
use crate::keys::server_key::{KEY_BYTES, ServerKey, keys_of};
use crate::keys::slot::RETRIES;
use crate::servers::in_play::{InPlay, Servers};
use crate::servers::partition::{DropState, Partition};
use rhumb_config::orders::{DropOrder, Orders, Selector};
use rhumb_stage::DropProgress;
use rhumb_stage::store::StoreError;
use rhumb_url::host_hash;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Origin, Outcome};
use std::collections::BTreeMap;
use std::time::Duration;

/// What one step looks at: a few milliseconds.
const PIECE: Limits = Limits {
    rows: 10_000,
    found: 2000,
};
/// How often a scheduler looks that has other things to do. One that has none goes on at once.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The drops that are asked for.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    orders: Vec<Asked>,
    /// By order and partition. One at most has keys left; the others wait for jobs.
    passes: BTreeMap<(u64, u16), Pass>,
    look_at: Timestamp,
}

#[derive(Debug)]
struct Asked {
    order: DropOrder,
    selector: Selector,
}

/// A partition on which an order is carried out.
#[derive(Debug)]
struct Pass {
    partition: u16,
    /// Keys that were not looked at yet: from the first (included) to the second (not included).
    left: Option<(Vec<u8>, Vec<u8>)>,
    /// Slots of such URLs in jobs, by server.
    in_jobs: BTreeMap<ServerKey, Vec<u64>>,
}

impl Drops {
    /// Operators ask for these from now on. An expression that this version does not understand
    /// drops nothing.
    pub(crate) fn heed(&mut self, orders: &Orders) {
        let asked = |order: &DropOrder| match order.what.selector() {
            Ok(selector) => Some(Asked {
                order: order.clone(),
                selector,
            }),
            Err(error) => {
                tracing::error!(%order, "an order is not understood, and drops nothing: {error}");
                None
            }
        };
        self.orders = orders.drops.iter().filter_map(asked).collect();
        self.passes
            .retain(|(id, _), _| self.orders.iter().any(|asked| asked.order.id == *id));
    }

    /// The order by which a new URL is dropped, if it is.
    pub(crate) fn order_for(&self, url: &str, origin: &Origin) -> Option<&DropOrder> {
        let holds = |asked: &&Asked| {
            asked.order.and_later && asked.selector.has_found(url, || origin.clone())
        };
        self.orders.iter().find(holds).map(|asked| &asked.order)
    }

    /// Returns whether what waits in a partition is being looked at.
    pub(crate) fn are_at_work_on(&self, partition: u16) -> bool {
        self.passes.keys().any(|(_, of)| *of == partition)
    }

    /// How a new URL ends that is dropped, if it is.
    pub(crate) fn end_of(&self, url: &str, origin: &Origin) -> Option<UrlEnd> {
        self.order_for(url, origin).map(|_| dropped())
    }

    /// Number of orders.
    pub(crate) fn len(&self) -> usize {
        self.orders.len()
    }

    /// How far this instance has come with an order.
    pub(crate) fn progress(&self, servers: &Servers, id: u64) -> DropProgress {
        let states = servers
            .partitions()
            .map(|(_, partition)| partition.drop_state(id));
        let is_heard = self.orders.iter().any(|asked| asked.order.id == id);
        states.fold(
            DropProgress {
                dropped: 0,
                is_done: is_heard,
            },
            |sum, state| DropProgress {
                dropped: sum.dropped + state.dropped,
                is_done: sum.is_done && state.is_done,
            },
        )
    }

    /// Looks at some of what waits, when it is time. Jobs that have such URLs stop. Returns whether
    /// there is more to do at once.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn look(&mut self, work: &mut Work<'_>, is_free: bool) -> Result<bool, StoreError> {
        let looks = self.passes.values().any(|pass| pass.left.is_some());
        let next = if looks {
            None
        } else {
            self.next_pass(work.servers)
        };
        let goes_on = looks || next.is_some();
        self.passes.extend(next);
        let is_time = is_free || self.look_at <= work.staged.now;
        for ((id, partition), mut pass) in std::mem::take(&mut self.passes) {
            let Some(asked) = self.orders.iter().find(|asked| asked.order.id == id) else {
                continue;
            };
            let mut dropped = pass.look_at_ended_jobs(work, &asked.selector)?;
            if is_time && pass.left.is_some() {
                self.look_at = work.staged.now + LOOK_EVERY;
                dropped += pass.look_on(work, &asked.selector)?;
            }
            let is_done = pass.left.is_none() && pass.in_jobs.is_empty();
            if let Some(of) = work
                .servers
                .partition(partition)
                .filter(|_| dropped > 0 || is_done)
            {
                let state = of.drop_state(id);
                let state = DropState {
                    dropped: state.dropped + dropped,
                    is_done,
                    ..state
                };
                let is_asked_for = |id| self.orders.iter().any(|asked| asked.order.id == id);
                of.save_drop(&mut work.staged, partition, state, is_asked_for);
            }
            if !is_done {
                self.passes.insert((id, partition), pass);
            }
        }
        Ok(goes_on)
    }

    /// The first order that a partition has not begun to carry out.
    fn next_pass(&self, servers: &Servers) -> Option<((u64, u16), Pass)> {
        let all = self
            .orders
            .iter()
            .flat_map(|asked| servers.partitions().map(move |of| (asked, of)));
        let is_next = |(asked, (partition, of)): &(&Asked, (u16, &Partition))| {
            let id = asked.order.id;
            !of.drop_state(id).is_done && !self.passes.contains_key(&(id, *partition))
        };
        let (asked, (partition, _)) = all.into_iter().find(is_next)?;
        let left = servers
            .keys_of(partition)
            .map(|keys| within(keys, &asked.selector));
        Some((
            (asked.order.id, partition),
            Pass {
                partition,
                left,
                in_jobs: BTreeMap::new(),
            },
        ))
    }
}

/// How a URL ends that is dropped.
fn dropped() -> UrlEnd {
    UrlEnd::without_response(Outcome::Dropped, "an operator dropped it")
}

/// The keys among these that such URLs may have.
pub(crate) fn within(keys: (Vec<u8>, Vec<u8>), selector: &Selector) -> (Vec<u8>, Vec<u8>) {
    match selector {
        Selector::Host(host) => {
            let of_host = keys_of(&(host_hash(host)..=host_hash(host)));
            (keys.0.max(of_host.0), keys.1.min(of_host.1))
        }
        _ => keys,
    }
}

impl Pass {
    /// Looks at the next piece. Gives how many URLs ended.
    fn look_on(&mut self, work: &mut Work<'_>, selector: &Selector) -> Result<u64, StoreError> {
        let Some((from, to)) = self.left.take() else {
            return Ok(0);
        };
        let mut found: BTreeMap<ServerKey, Vec<(u64, FrontierUrl)>> = BTreeMap::new();
        let Piece { next, .. } = search(
            &work.staged.rows,
            (&from, &to),
            selector,
            PIECE,
            &mut |key, row| {
                let server = ServerKey::from_bytes(self.partition, &key[..KEY_BYTES]);
                if let (Some(server), Some(slot), Some(url)) =
                    (server, slot_of(key), FrontierUrl::from_row(row))
                {
                    found.entry(server).or_default().push((slot, url));
                }
            },
        )?;
        self.left = next.map(|next| (next, to));
        let mut dropped = 0;
        for (key, mut urls) in found {
            let Some(server) = work.servers.load(key)? else {
                continue;
            };
            let in_job = |(slot, _): &(u64, FrontierUrl)| {
                server
                    .lease
                    .as_ref()
                    .is_some_and(|lease| lease.slots.contains(slot))
            };
            let in_job: Vec<u64> = urls
                .extract_if(.., |url| in_job(url))
                .map(|(slot, _)| slot)
                .collect();
            if !in_job.is_empty() {
                work.staged
                    .stopped
                    .extend(server.lease.as_mut().map(|lease| lease.stop()));
                // A piece before may have found other slots of the job.
                self.in_jobs.entry(key).or_default().extend(in_job);
            }
            dropped += end(work, key, urls)?;
        }
        Ok(dropped)
    }

    /// Looks at URLs whose jobs are over: where they lay, and where those lie that have failed
    /// since.
    fn look_at_ended_jobs(
        &mut self,
        work: &mut Work<'_>,
        selector: &Selector,
    ) -> Result<u64, StoreError> {
        let is_over = |key: &ServerKey| {
            work.servers
                .get(*key)
                .is_none_or(|server| server.lease.is_none())
        };
        let over: Vec<ServerKey> = self.in_jobs.keys().copied().filter(is_over).collect();
        let mut dropped = 0;
        for key in over {
            let slots = self.in_jobs.remove(&key).unwrap_or_default();
            let mut urls = Vec::new();
            let mut take = |slot, url: FrontierUrl| {
                if selector.has_found(&url.url, || url.origin.clone()) {
                    urls.push((slot, url));
                }
                true
            };
            for slot in slots.into_iter().filter(|slot| *slot < RETRIES) {
                visit_urls(&work.staged.rows, key, slot..slot + 1, &mut take)?;
            }
            visit_urls(&work.staged.rows, key, RETRIES..u64::MAX, &mut take)?;
            urls.sort_unstable_by_key(|(slot, _)| *slot);
            dropped += end(work, key, urls)?;
        }
        Ok(dropped)
    }
}

/// URLs of a server that wait, in the order of their slots, end. Gives how many.
fn end(
    work: &mut Work<'_>,
    key: ServerKey,
    urls: Vec<(u64, FrontierUrl)>,
) -> Result<u64, StoreError> {
    if urls.is_empty() {
        return Ok(0);
    }
    let Work {
        servers, staged, ..
    } = work;
    servers.load(key)?;
    let Some(InPlay {
        server, partition, ..
    }) = servers.in_play(key, "dropping URLs")
    else {
        return Ok(0);
    };
    let slots: Vec<u64> = urls.iter().map(|(slot, _)| *slot).collect();
    for (slot, url) in urls {
        partition.end(staged, key, slot, url, dropped());
    }
    let clock = partition.clock;
    server.queues.forget(
        &mut staged.rows,
        key,
        |stored| clock.restore(stored),
        &slots,
    )?;
    staged.touch(key);
    Ok(slots.len() as u64)
}

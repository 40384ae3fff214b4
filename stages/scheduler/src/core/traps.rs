//! Traps: URLs of shapes that bring only themselves go last, and those of shapes that also repeat
//! themselves are kept back.
//!
//! In: new URLs, signals of pages, the orders of operators. Out: the lanes of URLs.
//!
//! A URL that waits goes to a later lane when it comes to its turn; only operators bring it back.
//! What is kept back waits on disk until nothing else in the crawl waits, and ends then.
//!
//! Invariants: a URL that changes its lane keeps all else, in one commit (P3); nothing is kept back
//! that operators have released.

use crate::core::drops::Drops;
use crate::core::work::Work;
use crate::frontier::rows::{FrontierUrl, visit_urls};
use crate::frontier::shapes::Source;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::{Lane, Order, topic_of, trapped_slots};
use crate::servers::in_play::Servers;
use crate::servers::server::Server;
use crate::settings::Settings;
use foldhash::HashMap;
use rhumb_config::orders::Release;
use rhumb_stage::store::StoreError;
use rhumb_url::time::Timestamp;
use rhumb_url::{path_of, server_of, shape, shape_hash};
use rhumb_wire::message::{PageSignal, Trace};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// A server of which fewer URLs came has no shapes.
const URLS_MIN: u64 = 64;
/// Shapes that are behind whose servers are known, at most. One that is forgotten is known again
/// with its next URL.
const BEHIND_MAX: usize = 1 << 16;
/// URLs of traps that are looked at together when they are released: a few milliseconds.
const FREED_AT_ONCE: usize = 1000;
/// How often a scheduler looks at them that has other things to do. One that has none goes on at
/// once.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is known of traps beside the shapes of servers.
#[derive(Debug, Default)]
pub(crate) struct Traps {
    /// The servers of shapes that are behind.
    behind: HashMap<u64, ServerKey>,
    /// What operators have released.
    released: Vec<Release>,
    /// Servers at which URLs may lie in the lane of traps whose shapes are none, with the next slot
    /// to look at.
    to_free: BTreeMap<ServerKey, u64>,
    look_at: Timestamp,
    /// Shapes that became traps in this life.
    found: u64,
}

impl Traps {
    /// The lane of a new URL of a server.
    pub(crate) fn lane(
        &mut self,
        key: ServerKey,
        server: &mut Server,
        url: &FrontierUrl,
        settings: &Settings,
    ) -> Lane {
        if server.queues.numbered() < URLS_MIN {
            return Lane::Ahead;
        }
        let hash = shape_hash(&url.url);
        // A path without numbers and parameters is one URL's alone.
        let is_of_many = || shape(&url.url) != path_of(&url.url);
        let lane = server.shapes.found(
            hash,
            source(url.origin.found_on(), &server.name),
            is_of_many,
            || shape(&url.url),
        );
        let lane = match lane {
            // It was released, or nothing is a trap any more, since its last URL came.
            Lane::Trapped if self.is_no_trap(&server.name, hash, settings) => {
                server.shapes.release(hash);
                Lane::Behind
            }
            lane => lane,
        };
        if lane == Lane::Behind {
            if self.behind.len() >= BEHIND_MAX {
                self.behind.clear();
            }
            self.behind.insert(hash, key);
        }
        lane
    }

    /// Returns whether a shape of a server is no trap, whatever it looks like.
    fn is_no_trap(&self, server: &str, shape: u64, settings: &Settings) -> bool {
        settings.limits.shape_pages == 0
            || self
                .released
                .iter()
                .any(|release| release.has(server, shape))
    }

    /// The sketch of a page's text came.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn sketched(
        &mut self,
        work: &mut Work<'_>,
        page: &PageSignal,
    ) -> Result<(), StoreError> {
        let Work {
            servers, staged, ..
        } = work;
        let PageSignal { url, shape, .. } = *page;
        let Some(sketch) = page.sketch else {
            return Ok(());
        };
        let Some(&key) = self.behind.get(&shape) else {
            return Ok(());
        };
        // One at which a single URL waits at a time is out of memory between any two.
        let Some(server) = servers.load(key)? else {
            return Ok(());
        };
        let is_no_trap = self.is_no_trap(&server.name, shape, staged.settings);
        let pages_max = if is_no_trap {
            0
        } else {
            staged.settings.limits.shape_pages
        };
        if server.shapes.sketched(shape, sketch, pages_max) {
            self.behind.remove(&shape);
            self.found += 1;
            if let Some(verdict) = server.shapes.verdict(shape) {
                let trace = Trace(url);
                tracing::info!(
                    server = %server.name,
                    %trace,
                    "a trap: {verdict}; its URLs are kept back"
                );
            }
        }
        staged.touch(key);
        Ok(())
    }

    /// Operators have released this from now on.
    pub(crate) fn heed(
        &mut self,
        servers: &mut Servers,
        released: &[Release],
        settings: &Settings,
    ) {
        self.released = released.to_vec();
        for key in servers.with_traps() {
            let Some(server) = servers.get_mut(key) else {
                continue;
            };
            let of_traps = server
                .shapes
                .verdicts()
                .filter(|(_, verdict)| verdict.lane == Lane::Trapped);
            let free = of_traps
                .map(|(shape, _)| shape)
                .filter(|shape| self.is_no_trap(&server.name, *shape, settings));
            let free: Vec<u64> = free.collect();
            if !free.is_empty() {
                free.into_iter()
                    .for_each(|shape| server.shapes.release(shape));
                self.to_free.insert(key, 0);
            }
        }
    }

    /// Lets some of what was released wait behind all others again, when it is time. Returns
    /// whether there is more to do.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn free(
        &mut self,
        work: &mut Work<'_>,
        drops: &Drops,
        is_free: bool,
    ) -> Result<bool, StoreError> {
        let Work {
            servers, staged, ..
        } = work;
        // A drop that has looked at a part of the slots would miss what moves there.
        let may_be = |(key, _): &(&ServerKey, &u64)| !drops.are_at_work_on(key.partition);
        let Some((&key, &from)) = self.to_free.iter().find(may_be) else {
            return Ok(false);
        };
        if !is_free && self.look_at > staged.now {
            return Ok(true);
        }
        self.look_at = staged.now + LOOK_EVERY;
        self.to_free.remove(&key);
        let Some(server) = servers.get_mut(key) else {
            return Ok(true);
        };
        let Some(range) = trapped_from(server, from) else {
            return Ok(true);
        };
        let mut next = range.end;
        let mut looked_at = 0;
        let mut freed = Vec::new();
        visit_urls(
            &staged.rows,
            key,
            from.max(range.start)..range.end,
            &mut |slot, url| {
                if looked_at == FREED_AT_ONCE {
                    next = slot;
                    return false;
                }
                looked_at += 1;
                if server.shapes.lane(shape_hash(&url.url)) != Lane::Trapped {
                    freed.push((slot, url));
                }
                true
            },
        )?;
        for (slot, url) in freed {
            let Some(queue) = server.queues.get_mut(topic_of(slot)) else {
                continue;
            };
            let order = Order::LAST.in_lane(Lane::Behind);
            queue.lift(
                &mut staged.rows,
                key,
                slot,
                &url,
                order,
                staged.settings.head_max(),
            );
        }
        self.to_free.insert(key, next);
        staged.touch(key);
        Ok(true)
    }

    /// Shapes that became traps in this life.
    pub(crate) fn found(&self) -> u64 {
        self.found
    }
}

/// The next slots at which URLs of traps of a server may lie, that end behind this one.
fn trapped_from(server: &Server, from: u64) -> Option<Range<u64>> {
    let trapped = server.queues.waiting().filter(|queue| queue.trapped() > 0);
    trapped
        .map(|queue| trapped_slots(queue.topic()))
        .find(|range| range.end > from)
}

/// Where a URL of a server was found. A list of URLs is no page of a shape.
fn source(page: &str, server: &str) -> Source {
    let is_list = [".xml", ".xml.gz", ".txt"]
        .iter()
        .any(|name| path_of(page).ends_with(name));
    match !page.is_empty() && server_of(page) == server && !is_list {
        true => Source::Shape(shape_hash(page)),
        false => Source::Elsewhere,
    }
}

//! Traps: parts of a site that bring only themselves go last, and those that repeat themselves for very long are traps.
//!
//! In: new URLs, sketches of pages, the orders of operators. Out: the lanes of URLs.
//!
//! A URL that waits goes to a later lane when it comes to its turn; only operators bring it back. What is kept back
//! waits on disk until nothing else in the crawl waits, and ends then.
//!
//! Invariants: a URL that changes its lane keeps all else, in one commit (P3); nothing is kept back that
//! operators have released.

use crate::core::drops::Drops;
use crate::core::idle::Inquiry;
use crate::frontier::rows::{FrontierUrl, visit_urls};
use crate::frontier::shapes::Source;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::{Lane, Order, topic_of, trapped_slots};
use crate::servers::in_play::Servers;
use crate::servers::server::Server;
use crate::step::staged::Staged;
use foldhash::{HashMap, HashMapExt as _};
use shared::message::Sketched;
use shared::orders::Release;
use shared::stage::Trap;
use shared::stage::store::StoreError;
use shared::url::{host_of, path_of, server_of, shape, shape_hash};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A server of which fewer URLs came has no shapes.
const URLS_MIN: u64 = 64;
/// Shapes that are behind whose servers are known, at most. One that is forgotten is known again with its next URL.
const BEHIND_MAX: usize = 1 << 16;
/// URLs of traps that one step looks at when they are released, at most: a few milliseconds.
const FREED_PER_STEP: usize = 1000;
/// Traps that are told, at most.
const TOLD_MAX: usize = 20;

/// What is known of traps beside the shapes of servers.
#[derive(Debug)]
pub(crate) struct Traps {
    /// The servers of shapes that are behind.
    behind: HashMap<u64, ServerKey>,
    /// What operators have released.
    released: Vec<Release>,
    /// Servers at which URLs of released traps may lie, with the shapes that are released and the next slot to look at.
    to_free: BTreeMap<ServerKey, u64>,
    /// Shapes that became traps in this life.
    found: u64,
}

impl Default for Traps {
    fn default() -> Self {
        Traps { behind: HashMap::new(), released: Vec::new(), to_free: BTreeMap::new(), found: 0 }
    }
}

impl Traps {
    /// The lane of a new URL of a server.
    pub(crate) fn lane(&mut self, key: ServerKey, server: &mut Server, url: &FrontierUrl) -> Lane {
        if server.queues.numbered() < URLS_MIN {
            return Lane::Ahead;
        }
        let hash = shape_hash(&url.url);
        let page = url.origin.page.as_str();
        let is_of_server = !page.is_empty() && server_of(page) == &*server.name;
        let source = if is_of_server { Source::Shape(shape_hash(page)) } else { Source::Elsewhere };
        // A path without numbers and parameters is one URL's alone.
        let name = || Some(shape(&url.url)).filter(|shape| shape != path_of(&url.url));
        let lane = server.shapes.found(hash, source, name);
        if lane == Lane::Behind {
            if self.behind.len() >= BEHIND_MAX {
                self.behind.clear();
            }
            self.behind.insert(hash, key);
        }
        lane
    }

    /// Sketches of pages came.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn sketched(
        &mut self,
        servers: &mut Servers,
        sketches: &[Sketched],
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        for Sketched { shape, sketch } in sketches {
            let Some(&key) = self.behind.get(shape) else { continue };
            // One at which a single URL waits at a time is out of memory between any two.
            let Some(server) = servers.load(key)? else { continue };
            let is_released = self.released.iter().any(|release| release.has(&server.name, *shape));
            let pages_max = if is_released { 0 } else { staged.settings.shape_pages };
            if server.shapes.sketched(*shape, *sketch, pages_max) {
                self.behind.remove(shape);
                self.found += 1;
                if let Some(verdict) = server.shapes.verdict(*shape) {
                    tracing::info!(server = %server.name, "a trap: {verdict}; its URLs are kept back");
                }
            }
            staged.touch(key);
        }
        Ok(())
    }

    /// Operators have released this from now on.
    pub(crate) fn heed(&mut self, released: &[Release], servers: &mut Servers) {
        if self.released == released {
            return;
        }
        self.released = released.to_vec();
        for key in servers.keys() {
            let Some(server) = servers.get_mut(key).filter(|server| server.queues.trapped() > 0) else { continue };
            let mut releases = self.released.iter().filter(|release| release.host == host_of(&server.name)).peekable();
            if releases.peek().is_some() {
                self.to_free.insert(key, 0);
            }
            for release in releases {
                server.shapes.release(release.shape_at(&server.name));
            }
        }
    }

    /// Lets some of what was released wait behind all others again. Says whether there is more to do at once.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn free(
        &mut self,
        servers: &mut Servers,
        drops: &Drops,
        staged: &mut Staged<'_>,
    ) -> Result<bool, StoreError> {
        // A drop that has looked at a part of the slots would miss what moves there.
        let is_free = |key: &&ServerKey| !drops.are_at_work_on(key.partition);
        let Some(key) = self.to_free.keys().find(is_free).copied() else { return Ok(false) };
        let from = self.to_free.remove(&key).unwrap_or_default();
        let Some(server) = servers.get_mut(key) else { return Ok(true) };
        let trapped = server.queues.waiting().filter(|queue| queue.trapped() > 0);
        let range = trapped.map(|queue| trapped_slots(queue.topic())).find(|range| range.end > from);
        let Some(range) = range else { return Ok(true) };
        let (mut next, mut looked_at, mut freed) = (range.end, 0, Vec::new());
        visit_urls(&staged.rows, key, from.max(range.start)..range.end, &mut |slot, url| {
            if looked_at == FREED_PER_STEP {
                next = slot;
                return false;
            }
            looked_at += 1;
            let shape = shape_hash(&url.url);
            if self.released.iter().any(|release| release.has(&server.name, shape)) {
                freed.push((slot, url));
            }
            true
        })?;
        for (slot, url) in freed {
            let Some(queue) = server.queues.get_mut(topic_of(slot)) else { continue };
            let order = Order::LAST.in_lane(Lane::Behind);
            queue.lift(&mut staged.rows, key, slot, &url, order, staged.settings.head_max());
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

impl Inquiry<'_> {
    /// The traps whose URLs are kept back, those of the servers with most of them first.
    pub(crate) fn traps(&self) -> Vec<Trap> {
        if self.servers.load_of_all().trapped == 0 {
            return Vec::new();
        }
        let mut traps = Vec::new();
        for server in self.servers.keys().into_iter().filter_map(|key| self.servers.get(key)) {
            let waiting = server.queues.trapped();
            let of_traps = server.shapes.verdicts().filter(|(_, verdict)| waiting > 0 && verdict.lane == Lane::Trapped);
            traps.extend(of_traps.map(|(_, verdict)| Trap {
                server: server.name.to_string(),
                shape: verdict.shape.to_owned(),
                pages: verdict.pages,
                repeats_percent: verdict.repeats_permille / 10,
                waiting,
            }));
        }
        traps.sort_by(|one, other| (Reverse(one.waiting), &one.server).cmp(&(Reverse(other.waiting), &other.server)));
        traps.truncate(TOLD_MAX);
        traps
    }
}

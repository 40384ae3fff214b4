//! The first pages of the lots of all servers: which of them is visited next.
//!
//! In: first pages, as rows come and go; servers that are full or away. Out: the page of a pool
//! that is worth most now, and when to look again.
//!
//! Invariants: a first page is a head exactly while its server is open and its shortest interval is
//! over; each first page of a server that is not away is in one of the sets by time; memory is that
//! of servers with known pages times their lots.

use crate::core::recrawl::budgets::Pool;
use crate::core::recrawl::limits::is_done;
use crate::keys::server_key::ServerKey;
use crate::keys::topic::{TopicIndex, TopicNumber};
use crate::known::record::Record;
use crate::known::table::{Lot, Place};
use crate::settings::Settings;
use crate::visits::{Class, Heads, KnownPage, VisitKey};
use foldhash::HashMap;
use rhumb_url::time::millis;
use std::collections::{BTreeMap, BTreeSet};

/// The first page of a lot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct First {
    pub(crate) place: Place,
    pub(crate) page: KnownPage,
    /// It is compared with the pages of this pool.
    pub(crate) pool: Pool,
    /// When its shortest interval is over, …
    pub(crate) early_until_ms: u64,
    /// … and its longest one, in milliseconds of Unix time.
    pub(crate) late_from_ms: u64,
    /// It belongs to another lot.
    pub(crate) is_misplaced: bool,
}

impl First {
    /// A page where it lies. `number`: that of its topic, in its partition.
    pub(crate) fn new(
        place: Place,
        page: KnownPage,
        record: &Record,
        number: TopicNumber,
        settings: &Settings,
    ) -> Self {
        let topic = &record.origin.topic;
        let recrawl = settings.recrawl_of(topic);
        let VisitKey { class, clock_ms } = place.key;
        // It was known before its topic was, or to a program that knew no lots of topics.
        let is_elsewhere = place.topic == TopicNumber::OTHERS && number != TopicNumber::OTHERS;
        // More was learned of its signals since it was placed.
        let is_of_others = !record.signalled.is_none() && !page.belongs_to(class);
        let is_done = is_done(record, settings);
        First {
            place,
            page,
            pool: Pool::of(topic, settings),
            early_until_ms: clock_ms.saturating_add(millis(recrawl.interval_min)),
            late_from_ms: match millis(recrawl.interval_max) {
                0 => u64::MAX,
                longest_ms => page.visited_ms.saturating_add(longest_ms),
            },
            is_misplaced: is_elsewhere
                || is_done != (class == Class::DONE)
                || !is_done && is_of_others,
        }
    }
}

/// The first pages of a server.
#[derive(Debug, Default)]
struct OfServer {
    firsts: BTreeMap<Lot, First>,
    /// It has as many planned visits as it may have.
    is_closed: bool,
    /// Until when it stands back, in milliseconds of Unix time; 0: it does not.
    away_until_ms: u64,
}

/// Whether pages of a server may be visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Open,
    Closed,
    Away,
}

impl OfServer {
    fn stand(&self) -> Stand {
        match (self.away_until_ms, self.is_closed) {
            (0, false) => Stand::Open,
            (0, true) => Stand::Closed,
            _ => Stand::Away,
        }
    }
}

/// First pages by a time in milliseconds of Unix time.
type ByTime = BTreeSet<(u64, ServerKey, Lot)>;

/// The first pages of a pool at open servers.
#[derive(Debug, Default)]
struct OfPool {
    heads: Heads<(ServerKey, TopicNumber)>,
    /// The heads, by when their longest interval is over.
    late: ByTime,
    /// First pages that are no heads yet, by when they may be.
    early: ByTime,
}

/// The first pages of all servers.
#[derive(Debug, Default)]
pub(crate) struct FirstPages {
    servers: HashMap<ServerKey, OfServer>,
    pools: BTreeMap<Pool, OfPool>,
    /// First pages of closed servers, by when their longest interval is over.
    held_up: ByTime,
    /// First pages that belong to other lots.
    misplaced: BTreeSet<(ServerKey, Lot)>,
    /// Servers that stand back, by when they come back.
    away: BTreeSet<(u64, ServerKey)>,
}

impl FirstPages {
    /// Returns whether no page is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The first page of a lot is this one.
    pub(crate) fn put(&mut self, server: ServerKey, first: First) {
        let of_server = self.servers.entry(server).or_default();
        let stand = of_server.stand();
        let before = of_server.firsts.insert(first.place.lot(), first);
        if let Some(before) = before {
            self.leave(server, before);
        }
        self.enter(server, first, stand);
    }

    /// Returns whether a page is the first of its lot.
    pub(crate) fn has_first(&self, server: ServerKey, place: Place) -> bool {
        let first = self.first(server, place.lot());
        first.is_some_and(|first| first.place == place)
    }

    fn first(&self, server: ServerKey, lot: Lot) -> Option<&First> {
        self.servers.get(&server)?.firsts.get(&lot)
    }

    /// A page has come to a lot: it may be the first.
    pub(crate) fn offer(&mut self, server: ServerKey, page: First) {
        let first = self.first(server, page.place.lot());
        let order = |place: &Place| (place.key.clock_ms, place.fingerprint);
        if first.is_none_or(|first| order(&page.place) <= order(&first.place)) {
            self.put(server, page);
        }
    }

    /// A lot of a server has no page.
    pub(crate) fn remove(&mut self, server: ServerKey, lot: Lot) {
        let Some(of_server) = self.servers.get_mut(&server) else {
            return;
        };
        let first = of_server.firsts.remove(&lot);
        if let Some(first) = first {
            self.leave(server, first);
        }
        self.forget_empty(server);
    }

    /// A server without pages is not kept, unless it is known to be away.
    fn forget_empty(&mut self, server: ServerKey) {
        let is_empty = |of: &OfServer| of.firsts.is_empty() && of.away_until_ms == 0;
        if self.servers.get(&server).is_some_and(is_empty) {
            self.servers.remove(&server);
        }
    }

    /// A first page goes where its server stands. It may be visited from now on where that is open,
    /// or as soon as its shortest interval is over.
    fn enter(&mut self, server: ServerKey, first: First, stand: Stand) {
        let lot = first.place.lot();
        match stand {
            _ if first.is_misplaced => self.misplaced.insert((server, lot)),
            // It has no visit to come.
            _ if lot.class == Class::DONE => false,
            Stand::Open => {
                let of_pool = self.pools.entry(first.pool).or_default();
                of_pool.early.insert((first.early_until_ms, server, lot))
            }
            Stand::Closed => self.held_up.insert((first.late_from_ms, server, lot)),
            Stand::Away => false,
        };
    }

    /// A first page is none any more, or its server stands elsewhere.
    fn leave(&mut self, server: ServerKey, first: First) {
        let lot = first.place.lot();
        let by_late = (first.late_from_ms, server, lot);
        self.misplaced.remove(&(server, lot));
        self.held_up.remove(&by_late);
        if let Some(of_pool) = self.pools.get_mut(&first.pool) {
            if of_pool.late.remove(&by_late) {
                of_pool.heads.remove((server, lot.topic), lot.class);
            }
            of_pool.early.remove(&(first.early_until_ms, server, lot));
        }
    }

    /// A page that belongs to another lot; none where there is none.
    pub(crate) fn next_misplaced(&self) -> Option<(ServerKey, Place)> {
        let &(server, lot) = self.misplaced.first()?;
        Some((server, self.first(server, lot)?.place))
    }

    /// A server has as many planned visits as it may have.
    pub(crate) fn close(&mut self, server: ServerKey) {
        self.change(server, |of_server| of_server.is_closed = true);
    }

    /// A server may have another planned visit.
    pub(crate) fn open(&mut self, server: ServerKey) {
        self.change(server, |of_server| of_server.is_closed = false);
    }

    /// No page of a server may be visited before that time.
    pub(crate) fn stand_back(&mut self, server: ServerKey, until_ms: u64) {
        self.away.insert((until_ms, server));
        self.change(server, |of_server| of_server.away_until_ms = until_ms);
    }

    /// Servers come back whose time has come, and pages may be visited whose shortest interval is
    /// over.
    pub(crate) fn come_back(&mut self, now_ms: u64) {
        while let Some(&(until_ms, server)) = self.away.first()
            && until_ms <= now_ms
        {
            self.away.pop_first();
            self.change(server, |of_server| {
                if of_server.away_until_ms == until_ms {
                    of_server.away_until_ms = 0;
                }
            });
            self.forget_empty(server);
        }
        for of_pool in self.pools.values_mut() {
            of_pool.become_heads(&self.servers, now_ms);
        }
    }

    fn change(&mut self, server: ServerKey, change: impl FnOnce(&mut OfServer)) {
        let Some(of_server) = self.servers.get_mut(&server) else {
            return;
        };
        let before = of_server.stand();
        change(of_server);
        let stand = of_server.stand();
        if before == stand {
            return;
        }
        let firsts: Vec<First> = of_server.firsts.values().copied().collect();
        for first in firsts {
            self.leave(server, first);
            self.enter(server, first, stand);
        }
    }

    /// The page of a pool that is visited next, with what its visit is worth; none when none may
    /// be.
    pub(crate) fn next(&mut self, pool: Pool, now_ms: u64) -> Option<(ServerKey, Place, f64)> {
        let of_pool = self.pools.get_mut(&pool)?;
        of_pool.become_heads(&self.servers, now_ms);
        if let Some(&(late_from_ms, server, lot)) = of_pool.late.first()
            && late_from_ms <= now_ms
        {
            let first = self.first(server, lot)?;
            return Some((server, first.place, first.page.value(now_ms)));
        }
        let pick = of_pool.heads.pick(now_ms);
        let pick = pick.filter(|pick| pick.value > 0.0)?;
        let (server, topic) = pick.server;
        let class = pick.key.class;
        let first = self.first(server, Lot { topic, class })?;
        Some((server, first.place, pick.value))
    }

    /// When the longest interval of a page was over first, of those at servers that are not away,
    /// in milliseconds of Unix time; none without such a page.
    pub(crate) fn late_from_ms(&self) -> Option<u64> {
        let late = self.pools.values().map(|of_pool| &of_pool.late);
        let firsts = late.chain([&self.held_up]).filter_map(BTreeSet::first);
        firsts.map(|row| row.0).min()
    }

    /// When there may be a page to be visited by a budget, at the earliest, in milliseconds of Unix
    /// time; none when there is one now.
    pub(crate) fn wakes_ms(&self, budget: TopicIndex) -> Option<u64> {
        let of_budget = self.pools.iter().filter(|(pool, _)| pool.budget == budget);
        let mut at_ms = self
            .away
            .first()
            .map_or(u64::MAX, |(until_ms, _)| *until_ms);
        for (_, of_pool) in of_budget {
            if !of_pool.late.is_empty() {
                return None;
            }
            let early = of_pool.early.first();
            at_ms = early.map_or(at_ms, |(until_ms, ..)| at_ms.min(*until_ms));
        }
        // A server that is closed has a visit that ends, and that is a step.
        Some(at_ms)
    }
}

impl OfPool {
    fn become_heads(&mut self, servers: &HashMap<ServerKey, OfServer>, now_ms: u64) {
        while let Some(&(early_until_ms, server, lot)) = self.early.first()
            && early_until_ms <= now_ms
        {
            self.early.pop_first();
            let first = servers.get(&server).and_then(|of| of.firsts.get(&lot));
            if let Some(first) = first {
                self.late.insert((first.late_from_ms, server, lot));
                let key = first.place.key;
                self.heads.put((server, lot.topic), key, first.page);
            }
        }
    }
}

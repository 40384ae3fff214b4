//! The scheduler's core: takes events, keeps servers in their places, and commits what changed.
//!
//! In: new URLs with addresses, reports of jobs, asks of fetchers, errands, answers of
//! ledgers. Out: outcomes; sitemaps; jobs, renewals and revocations; requests for addresses; errands; claims on quotas.
//!
//! Invariants: a server has at most one lease, committed before its job is sent (P1); none is
//! granted before the server's next-contact time, which survives restarts (P2); after every step
//! each new URL waits, is in flight or has exactly one outcome (P3); a URL is only granted under a
//! fresh robots.txt (P5), and within all budgets; memory holds servers in play, never URLs (P6).
//!
//! Sources: Cao, Jiang and Singh 2003, two-level scheduling; Najork and Heydon 2001, Mercator's
//! back queues.

use crate::budget::hosts::HOSTS;
use crate::budget::shares::DOMAINS;
use crate::core::dispatcher::{Dispatcher, Input, reply_to};
use crate::core::doors::Doors;
use crate::core::idle::{Idle, Inquiry};
use crate::core::places::{Places, TURNS};
use crate::core::recrawl::Recrawl;
use crate::core::recrawl::told::Question;
use crate::core::work::Work;
use crate::frontier::index::{INDEX, Index};
use crate::frontier::rows::URLS;
use crate::frontier::validators::VALIDATORS;
use crate::keys::schedulers::Schedulers;
#[cfg(test)]
use crate::keys::server_key::ServerKey;
use crate::known::record::KNOWN;
use crate::known::table::VISITS;
use crate::politeness::circles::Circles;
use crate::politeness::paused::Paused;
use crate::quota::ledger::{Claim, ClaimAnswer};
use crate::robots::rules_cache::RulesCache;
use crate::robots::state::ROBOTS;
use crate::servers::in_play::Servers;
use crate::servers::lease::JOBS;
use crate::servers::partition::META;
use crate::servers::server::SERVERS;
use crate::settings::Settings;
use crate::step::staged::Staged;
use rhumb_config::identity::serials_follow;
use rhumb_config::orders::{Orders, Selector};
use rhumb_partition::Owners;
use rhumb_stage::store::{Store, StoreError, Table};
use rhumb_stage::{
    Core, Count, Counted, DropProgress, Event, Figures, Keyed, KnownTold, LabelledCount, Output,
    QueueQuestion, Reported, ServerQueue, Trap,
};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Edge, Origin, Undecodable, decode};
use rhumb_wire::topology::StageName;
use std::collections::BTreeMap;
use std::sync::Arc;

mod counts;

/// The tables of the scheduler's state, with how their keys begin.
pub const TABLES: [(Table, Keyed); 12] = [
    (URLS, Keyed::ByHash),
    (INDEX, Keyed::ByHash),
    (SERVERS, Keyed::ByHash),
    (JOBS, Keyed::ByHash),
    (ROBOTS, Keyed::ByHash),
    (HOSTS, Keyed::ByHash),
    (VALIDATORS, Keyed::ByHash),
    (KNOWN, Keyed::ByHash),
    (VISITS, Keyed::ByHash),
    (DOMAINS, Keyed::OfInstance),
    (TURNS, Keyed::OfInstance),
    (META, Keyed::ByPartition),
];

/// URLs that one step ends without a contact, at most. The next step follows at once and ends the
/// rest.
const ENDINGS_PER_STEP: usize = 1000;

/// The scheduler's core: it owns the parts, and runs each step over them.
pub struct Scheduler {
    settings: Arc<Settings>,
    instance: u16,
    pub(crate) servers: Servers,
    pub(crate) places: Places,
    rules: RulesCache,
    index: Index,
    pub(crate) dispatcher: Dispatcher,
    /// The last serial numbers of partitions that dedup has split.
    last_serials: BTreeMap<u16, u64>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler")
            .field("epoch", &self.dispatcher.epoch)
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Rebuilds the scheduler of `partitions` from its store.
    ///
    /// `epoch` must be larger than in any earlier life: it tells the jobs of this one from theirs.
    /// Outstanding jobs get a full lease from `now` on, waits go on from where they were.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub fn open(
        settings: Settings,
        instance: u16,
        epoch: u64,
        partitions: &[u16],
        store: Arc<dyn Store>,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let servers = Servers::open(&settings, instance, epoch, partitions, store, now)?;
        let circles = Circles::open(&settings, (instance, epoch), now);
        let mut places = Places::open(circles, &settings, &servers, now)?;
        let mut doors = Doors {
            recrawl: Recrawl::open(&settings, (instance, epoch), &servers, now)?,
            ..Doors::default()
        };
        for (key, server, lease) in servers.connected() {
            doors.restored(&mut places, key, server, lease, &settings);
        }
        Ok(Scheduler {
            instance,
            places,
            rules: RulesCache::new(settings.scheduler.robots_cache_bytes.as_usize()),
            index: Index::default(),
            dispatcher: Dispatcher::new(instance, epoch, doors, servers.keys()),
            servers,
            settings: Arc::new(settings),
            last_serials: BTreeMap::new(),
        })
    }

    /// Where a server belongs.
    #[cfg(test)]
    pub(crate) fn key_of(&self, server: &str) -> ServerKey {
        self.servers.key_of(server).unwrap()
    }

    fn inquiry(&self, now: Timestamp) -> Inquiry<'_> {
        let Scheduler {
            settings,
            servers,
            places,
            dispatcher,
            ..
        } = self;
        Inquiry {
            now,
            settings,
            servers,
            places,
            grants: &dispatcher.grants,
        }
    }

    /// Why a server, `scheme://host[:port]`, is not being fetched at `now`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn why_idle(&self, now: Timestamp, server: &str) -> Result<Idle, StoreError> {
        self.inquiry(now).why_idle(server)
    }
}

impl Core for Scheduler {
    type Input = Input;
    type Effect = Claim;
    type Answer = ClaimAnswer;

    fn decode(edge: Edge, payload: &[u8]) -> Result<Input, Undecodable> {
        match edge {
            Edge::UrlsReady => decode(payload).map(Input::Ready),
            Edge::FetchReports => decode(payload).map(Input::Report),
            Edge::FetchAsks => decode(payload).map(Input::Ask),
            Edge::Errands => decode(payload).map(Input::Errand),
            Edge::UrlsBoosts => decode(payload).map(Input::Boosts),
            Edge::PagesSignals => decode(payload).map(Input::Signals),
            _ => Err(Undecodable::Corrupt(format!(
                "the scheduler takes nothing from edge {}",
                edge.name()
            ))),
        }
    }

    fn step(
        &mut self,
        now: Timestamp,
        event: Event<Input, ClaimAnswer>,
        out: &mut Output<Claim>,
    ) -> Result<(), StoreError> {
        let settings = Arc::clone(&self.settings);
        let store = Arc::clone(self.servers.store());
        let index = std::mem::take(&mut self.index);
        let mut work = Work {
            servers: &mut self.servers,
            places: &mut self.places,
            rules: &mut self.rules,
            staged: Staged::new(now, &settings, store.as_ref(), index, ENDINGS_PER_STEP),
        };
        let dispatcher = &mut self.dispatcher;
        let is_free = matches!(event, Event::Wake);
        dispatcher.begin(&mut work);
        let asker = dispatcher.take(&mut work, event, out)?;
        dispatcher.look_after_due(&mut work)?;
        // Before any job is granted: a URL that is to be dropped may have come back.
        dispatcher.more |= dispatcher.doors.idle(&mut work, is_free)?;
        let granted = dispatcher.settle(&mut work)?;
        if let Some((ticket, asker)) = asker {
            out.reply(ticket, &reply_to(&asker, &granted, &work));
        }
        self.index = dispatcher.end(work, out);
        debug_assert!(
            self.servers.conserves(),
            "P3: new URLs + visits out = outcomes + given + waiting + in flight"
        );
        Ok(())
    }

    fn owned_since(&mut self, epoch: u64) {
        self.dispatcher.epoch = epoch;
        self.dispatcher.grants.owned_since(epoch);
        self.servers.shares_mut().requests.epoch = epoch;
        self.places.circles.requests.epoch = epoch;
        self.dispatcher.doors.recrawl.owned_since(epoch);
    }

    fn owners(&mut self, stage: StageName, owners: &Owners) {
        if stage == StageName::Scheduler {
            let schedulers = Schedulers::of(owners, self.instance);
            self.places.circles.requests.schedulers = schedulers.clone();
            self.servers.shares_mut().shared_by(schedulers);
            self.servers.divided_by(owners.directory());
            self.places.queue.limits.has_part(self.servers.part());
            self.dispatcher.grants.stop(owners.is_stopped);
            let opened = self.servers.end_traps(owners.traps_end);
            self.dispatcher.opened.extend(opened);
            self.dispatcher.more = true;
        } else if stage == StageName::Dedup {
            let halved = owners
                .all()
                .filter_map(|(partition, of)| Some((partition, of.retired?)));
            let halved = halved.filter(|(_, retired)| owners.version(retired.into[0]) > 0);
            self.last_serials = halved
                .map(|(partition, retired)| (partition, retired.last_serial))
                .collect();
        }
    }

    fn orders(&mut self, orders: &Orders) {
        let dispatcher = &mut self.dispatcher;
        let opened = self.servers.pause(Paused::by(orders));
        dispatcher.opened.extend(opened);
        dispatcher
            .doors
            .ordered(&mut self.servers, orders, &self.settings);
        dispatcher.are_others_paused = true;
        dispatcher.more = true;
    }

    /// All URLs that dedup has numbered within the partition: of this generation, since those of an
    /// earlier one may be lost.
    fn has_all(&self, partition: u16) -> bool {
        let follow = serials_follow(self.settings.generation);
        let last = self.last_serials.get(&partition);
        last.is_some_and(|last| {
            self.servers.taken_on(partition, follow) >= last.saturating_sub(follow)
        })
    }

    /// Reports come to whoever has the partition; without any, only tokens are left to be given
    /// back.
    fn is_idle(&self) -> bool {
        self.servers.is_settled() && self.dispatcher.doors.recrawl.is_settled()
    }

    fn wake_at(&self) -> Option<Timestamp> {
        if self.dispatcher.more {
            return Some(Timestamp::ZERO);
        }
        let due = self.places.queue.next_due();
        let doors = &self.dispatcher.doors;
        let asked = doors.wakes(&self.settings, &self.servers, &self.places);
        due.into_iter().chain(asked).min()
    }

    fn why(&self, now: Timestamp, url: &str) -> Result<Option<String>, StoreError> {
        // How it would be found is not known.
        let order = self
            .dispatcher
            .doors
            .drops
            .order_for(url, &Origin::default())
            .map(|order| format!("; {order}"))
            .unwrap_or_default();
        Ok(self.inquiry(now).why_url(url)?.map(|why| why + &order))
    }

    fn known(&self, now: Timestamp, url: &str) -> Result<Option<KnownTold>, StoreError> {
        let question = Question {
            now,
            settings: &self.settings,
            servers: &self.servers,
        };
        self.dispatcher.doors.recrawl.told(&question, url)
    }

    fn queue(
        &self,
        now: Timestamp,
        question: &QueueQuestion,
    ) -> Result<Option<Vec<ServerQueue>>, StoreError> {
        self.inquiry(now).queue(question).map(Some)
    }

    fn report(
        &self,
        now: Timestamp,
        hosts: usize,
        after: Option<&[u8]>,
    ) -> Result<Option<Reported>, StoreError> {
        self.inquiry(now).report(hosts, after).map(Some)
    }

    fn count(
        &self,
        selector: &Selector,
        after: Option<&[u8]>,
    ) -> Result<Option<Counted>, StoreError> {
        self.inquiry(Timestamp::ZERO)
            .count(selector, after)
            .map(Some)
    }

    fn drop_progress(&self, id: u64) -> Option<DropProgress> {
        Some(self.dispatcher.doors.drops.progress(&self.servers, id))
    }

    fn traps(&self) -> Vec<Trap> {
        self.inquiry(Timestamp::ZERO).traps()
    }

    fn figures(&self) -> Vec<Figures> {
        self.servers.figures()
    }

    fn labelled_counts(&self) -> Vec<LabelledCount> {
        let recrawl = &self.dispatcher.doors.recrawl;
        let mut counts = self.inquiry(Timestamp::ZERO).labelled_counts();
        counts.extend(recrawl.labelled_counts(&self.settings));
        counts
    }

    fn counts(&self) -> Vec<Count> {
        counts::of(self)
    }
}

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
use crate::core::drops::Drops;
use crate::core::errands::Errands;
use crate::core::grants::{Granted, Grants};
use crate::core::idle::{Idle, Inquiry};
use crate::core::intake;
use crate::core::lifts::Lifts;
use crate::core::places::{Places, TURNS};
use crate::core::reports::Reports;
use crate::core::traps::Traps;
use crate::frontier::index::{INDEX, Index};
use crate::frontier::rows::URLS;
use crate::frontier::validators::VALIDATORS;
use crate::keys::room::Room;
use crate::keys::schedulers::Schedulers;
use crate::keys::server_key::ServerKey;
use crate::politeness::circles::Circles;
use crate::politeness::paused::Paused;
use crate::quota::Quota;
use crate::quota::ledger::{Claim, ClaimAnswer};
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
    Core, Count, CountOfTopic, Counted, DropProgress, Event, Figures, Keyed, Output, QueueQuestion,
    Reported, ServerQueue, Ticket, Trap,
};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{
    Ask, AskReply, Boosts, Edge, Errand, Origin, ReadyUrls, Report, Undecodable, decode,
};
use rhumb_wire::topology::StageName;
use std::collections::BTreeMap;
use std::sync::Arc;

mod counts;

/// The tables of the scheduler's state, with how their keys begin.
pub const TABLES: [(Table, Keyed); 10] = [
    (URLS, Keyed::ByHash),
    (INDEX, Keyed::ByHash),
    (SERVERS, Keyed::ByHash),
    (JOBS, Keyed::ByHash),
    (ROBOTS, Keyed::ByHash),
    (HOSTS, Keyed::ByHash),
    (VALIDATORS, Keyed::ByHash),
    (DOMAINS, Keyed::OfInstance),
    (TURNS, Keyed::OfInstance),
    (META, Keyed::ByPartition),
];

/// URLs that one step ends without a contact, at most. The next step follows at once and ends the
/// rest.
const ENDINGS_PER_STEP: usize = 1000;
/// Servers that one step looks after because their wait is over, at most.
const DUE_PER_STEP: usize = 1000;
/// Jobs that one step grants, at most.
const JOBS_PER_STEP: usize = 64;

/// A message for the scheduler.
#[derive(Clone, Debug)]
pub enum Input {
    /// New URLs, or addresses that were asked for.
    Ready(ReadyUrls),
    /// What a job brought.
    Report(Report),
    /// A fetcher asks for jobs.
    Ask(Ask),
    /// From the scheduler of another partition.
    Errand(Errand),
    /// What later links add to URLs, and what pages look like.
    Boosts(Boosts),
}

/// The scheduler's core: it owns the parts, and runs each step over them.
pub struct Scheduler {
    settings: Arc<Settings>,
    instance: u16,
    epoch: u64,
    pub(crate) servers: Servers,
    pub(crate) places: Places,
    errands: Errands,
    grants: Grants,
    index: Index,
    lifts: Lifts,
    traps: Traps,
    /// What operators want to be rid of.
    drops: Drops,
    /// Servers that were read from the store, or are paused or not any more, and have no place yet.
    opened: Vec<ServerKey>,
    /// Requests for addresses sent in this epoch.
    refreshes: u64,
    /// Messages for partitions of other instances.
    foreign: u64,
    /// Messages, and parts of messages, that make no sense.
    malformed: u64,
    /// There is more to do than one step does.
    more: bool,
    /// There are other orders: jobs of servers that are paused are to stop.
    are_others_paused: bool,
    /// The last serial numbers of partitions that dedup has split.
    last_serials: BTreeMap<u16, u64>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler")
            .field("epoch", &self.epoch)
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
        let places = Places::open(circles, &settings, &servers, now)?;
        Ok(Scheduler {
            instance,
            epoch,
            places,
            errands: Errands::new(settings.robots_cache_bytes),
            grants: Grants::new(instance, epoch),
            index: Index::default(),
            lifts: Lifts::default(),
            traps: Traps::default(),
            drops: Drops::default(),
            opened: servers.keys(),
            servers,
            settings: Arc::new(settings),
            refreshes: 0,
            foreign: 0,
            malformed: 0,
            more: true,
            are_others_paused: false,
            last_serials: BTreeMap::new(),
        })
    }

    /// Where a server belongs.
    #[cfg(test)]
    pub(crate) fn key_of(&self, server: &str) -> ServerKey {
        self.servers.key_of(server).unwrap()
    }

    /// A step begins: servers that have no place yet are to be found one, and jobs of those that
    /// were paused stop.
    fn begin(&mut self, staged: &mut Staged<'_>) {
        self.more = false;
        for key in std::mem::take(&mut self.opened) {
            staged.unsettle(key);
        }
        if std::mem::take(&mut self.are_others_paused) {
            staged.stopped.extend(self.servers.stop_paused());
        }
    }

    /// Takes what the step is about. Gives the message and the fetcher of an ask, which is answered
    /// when it is known what was granted.
    fn take(
        &mut self,
        event: Event<Input, ClaimAnswer>,
        staged: &mut Staged<'_>,
        out: &mut Output<Claim>,
    ) -> Result<Option<(Ticket, String)>, StoreError> {
        match event {
            Event::Message { ticket, input } => {
                out.finish(ticket);
                let asker = self.message(input, staged)?;
                return Ok(asker.map(|asker| (ticket, asker)));
            }
            Event::Drain => self.grants.drain(),
            Event::HearsAgain => self.servers.hear_again(staged),
            Event::Answer(answer) => self.claimed(&answer, staged),
            Event::Stored(_) | Event::Wake => {}
        }
        Ok(None)
    }

    /// Goes on with what takes many steps: drops, and what traps set free. Before any job is
    /// granted, because a URL that is to be dropped may have come back.
    fn go_on(&mut self, is_free: bool, staged: &mut Staged<'_>) -> Result<(), StoreError> {
        let (jobs, drops_go_on) = self.drops.look(is_free, &mut self.servers, staged)?;
        staged.stopped.extend(jobs);
        let traps_go_on = self
            .traps
            .free(is_free, &mut self.servers, &self.drops, staged)?;
        self.more |= drops_go_on || traps_go_on;
        Ok(())
    }

    /// The answer to an ask, after all jobs of the step were granted.
    fn reply_to(&self, asker: &str, granted: &[String]) -> AskReply {
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        let granted = granted.iter().filter(|fetcher| *fetcher == asker).count();
        AskReply {
            granted: count(granted),
            ready: count(self.ready()),
        }
    }

    /// A step ends: what changed becomes rows and messages.
    fn end(&mut self, mut staged: Staged<'_>, out: &mut Output<Claim>) {
        self.grants.fetchers.stop_jobs(&mut staged);
        self.servers.take_topic_urls(&mut staged);
        self.servers.shares_mut().ask(&mut staged);
        self.servers.save(&mut staged);
        self.places.save(&mut staged);
        let epoch = self.epoch;
        let refreshes = &mut self.refreshes;
        self.index = staged.flush(out, || {
            *refreshes += 1;
            // The number differs in every life, so that no answer is taken for one to an earlier
            // life's request.
            (epoch << 32).wrapping_add(*refreshes)
        });
    }

    /// Takes a message. Gives the fetcher's name when it is an ask, which is answered at the end of
    /// the step.
    fn message(
        &mut self,
        input: Input,
        staged: &mut Staged<'_>,
    ) -> Result<Option<String>, StoreError> {
        match input {
            Input::Ready(ReadyUrls {
                partition, urls, ..
            }) if !self.servers.owns(partition) => {
                self.foreign += 1;
                self.servers.leave_out(urls.len() as u64, staged);
            }
            // Its lease runs out, and its URLs are tried again.
            Input::Report(Report { partition, .. }) if !self.servers.owns(partition) => {
                self.foreign += 1
            }
            Input::Ready(ready) => {
                self.malformed += intake::take_on(
                    &mut self.servers,
                    &self.drops,
                    &mut self.traps,
                    &ready,
                    staged,
                )?;
            }
            Input::Report(report) => match self.servers.key_of(&report.server) {
                Some(key) if !self.servers.covers(report.partition, key) => self.malformed += 1,
                Some(key) if self.servers.owns(key.partition) => {
                    self.reports().take(key, &report, staged)?
                }
                // Its partition was split since the job was granted, and its half has another
                // owner.
                Some(key) => staged.messages.pass_on(key.partition, report),
                None => self.malformed += 1,
            },
            Input::Errand(errand) => self.errand(errand, staged)?,
            Input::Boosts(boosts) => {
                self.lifts
                    .take(&mut self.servers, &self.drops, &boosts, staged)?;
                self.traps
                    .sketched(&mut self.servers, &boosts.sketches, staged)?;
            }
            Input::Ask(ask) => {
                self.grants
                    .fetchers
                    .ask(staged.now, &ask, staged.settings.ask_lifetime);
                return Ok(Some(ask.fetcher));
            }
        }
        Ok(None)
    }

    /// A message from the scheduler of another partition.
    fn errand(&mut self, errand: Errand, staged: &mut Staged<'_>) -> Result<(), StoreError> {
        let name = match &errand {
            Errand::Wanted { url, .. } => rhumb_url::server_of(url),
            Errand::Found { server, .. } => server,
            Errand::Quota { key } => return self.give_back(key, staged),
        };
        let Some(key) = self.servers.key_of(name) else {
            self.malformed += 1;
            return Ok(());
        };
        if !self.servers.owns(key.partition) {
            match self.servers.had(key) {
                true => staged.messages.errand(key.partition, errand),
                false => self.foreign += 1,
            }
            return Ok(());
        }
        self.errands.take(key, errand, &mut self.servers, staged)
    }

    /// Another scheduler has nothing left of a quota: what is not needed here goes back.
    fn give_back(&mut self, key: &str, staged: &mut Staged<'_>) -> Result<(), StoreError> {
        match Quota::of_key(key) {
            None => self.malformed += 1,
            Some(Quota::Circle(circle)) => {
                self.places
                    .circles
                    .call(circle, staged.now, staged.settings);
            }
            Some(pages) => self.servers.call_for_tokens(staged.now, pages)?,
        }
        Ok(())
    }

    /// The ledger of a quota has answered.
    fn claimed(&mut self, answer: &ClaimAnswer, staged: &mut Staged<'_>) {
        if let Quota::Circle(circle) = answer.claim.quota {
            self.places.circles.answered(circle, answer, staged);
        } else if let Some(domain) = self.servers.shares_mut().answered(answer, staged) {
            self.places.pass_on(Room::Domain(domain), staged);
        }
    }

    /// The parts that a report, or a lease that expires without one, changes.
    fn reports(&mut self) -> Reports<'_> {
        Reports {
            servers: &mut self.servers,
            places: &mut self.places,
            errands: &mut self.errands,
            fetchers: &mut self.grants.fetchers,
        }
    }

    /// Looks after servers whose wait is over.
    fn look_after_due(&mut self, staged: &mut Staged<'_>) -> Result<(), StoreError> {
        for _ in 0..DUE_PER_STEP {
            let Some(key) = self.places.queue.first_due(staged.now) else {
                return Ok(());
            };
            let lease = self
                .servers
                .get(key)
                .and_then(|server| server.lease.as_ref());
            if lease.is_some_and(|lease| lease.deadline <= staged.now) {
                self.reports().expire(key, staged)?;
            }
            self.places
                .find(key, &mut self.servers, &mut self.errands, staged)?;
        }
        self.more = true;
        Ok(())
    }

    /// Lets connections go to the topics whose turn it is, then finds places, ends URLs and grants
    /// jobs until nothing more can be done now, or the step has done enough.
    ///
    /// Gives the fetchers that got a job, one entry for each.
    fn settle(&mut self, staged: &mut Staged<'_>) -> Result<Vec<String>, StoreError> {
        self.places.queue.tend(staged.now);
        self.servers.look_after_topics(staged);
        let mut granted = Vec::new();
        loop {
            self.places
                .queue
                .limits
                .take_budgets(self.servers.shares().of_topics());
            while let Some(key) = staged.unsettled.pop_front() {
                self.places
                    .find(key, &mut self.servers, &mut self.errands, staged)?;
            }
            if self.places.tend_circles(staged) {
                continue;
            }
            if let Some(key) = self.places.queue.first_ending() {
                if staged.endings_left == 0 {
                    self.more = true;
                    return Ok(granted);
                }
                Places::end_waiting(key, &mut self.servers, staged)?;
                continue;
            }
            if granted.len() >= JOBS_PER_STEP || staged.endings_left == 0 {
                self.more = true;
                return Ok(granted);
            }
            match self.grants.grant(
                &mut self.servers,
                &mut self.places,
                &mut self.errands,
                staged,
            )? {
                Granted::Job(fetcher) => granted.push(fetcher),
                Granted::Nothing => {}
                Granted::NoFetcher => {
                    self.places.preempt(&mut self.servers, staged);
                    return Ok(granted);
                }
                Granted::NoneLeft => return Ok(granted),
            }
        }
    }

    /// Servers that may be given to a fetcher that asks.
    fn ready(&self) -> usize {
        if self.servers.paused().has_all() {
            0
        } else {
            self.places.queue.ready()
        }
    }

    fn inquiry(&self, now: Timestamp) -> Inquiry<'_> {
        let Scheduler {
            settings,
            servers,
            places,
            grants,
            ..
        } = self;
        Inquiry {
            now,
            settings,
            servers,
            places,
            grants,
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
        let mut staged = Staged::new(now, &settings, store.as_ref(), index, ENDINGS_PER_STEP);
        let is_free = matches!(event, Event::Wake);
        self.begin(&mut staged);
        let asker = self.take(event, &mut staged, out)?;
        self.look_after_due(&mut staged)?;
        self.go_on(is_free, &mut staged)?;
        let granted = self.settle(&mut staged)?;
        if let Some((ticket, asker)) = asker {
            out.reply(ticket, &self.reply_to(&asker, &granted));
        }
        self.end(staged, out);
        debug_assert!(
            self.servers.conserves(),
            "P3: new URLs = outcomes + waiting + in flight"
        );
        Ok(())
    }

    fn owned_since(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.grants.owned_since(epoch);
        self.servers.shares_mut().owned_since(epoch);
        self.places.circles.owned_since(epoch);
    }

    fn owners(&mut self, stage: StageName, owners: &Owners) {
        if stage == StageName::Scheduler {
            let schedulers = Schedulers::of(owners, self.instance);
            self.places.circles.shared_by(schedulers.clone());
            self.servers.shares_mut().shared_by(schedulers);
            self.servers.divided_by(owners.directory());
            self.places.queue.limits.has_part(self.servers.part());
            self.grants.stop(owners.is_stopped);
            self.opened.extend(self.servers.end_traps(owners.traps_end));
            self.more = true;
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
        self.opened.extend(self.servers.pause(Paused::by(orders)));
        self.traps
            .heed(&orders.released, &self.settings, &mut self.servers);
        self.drops.heed(orders);
        (self.are_others_paused, self.more) = (true, true);
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
        self.servers.is_settled()
    }

    fn wake_at(&self) -> Option<Timestamp> {
        let queue = &self.places.queue;
        let dues = [
            queue.next_due(),
            queue.unlimited_at(),
            self.servers.shares().ask_at(),
            self.places.circles.look_at(),
        ];
        if self.more {
            Some(Timestamp::ZERO)
        } else {
            dues.into_iter().flatten().min()
        }
    }

    fn why(&self, now: Timestamp, url: &str) -> Result<Option<String>, StoreError> {
        // How it would be found is not known.
        let order = self
            .drops
            .order_for(url, &Origin::default())
            .map(|order| format!("; {order}"))
            .unwrap_or_default();
        Ok(self.inquiry(now).why_url(url)?.map(|why| why + &order))
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
        Some(self.drops.progress(&self.servers, id))
    }

    fn traps(&self) -> Vec<Trap> {
        self.inquiry(Timestamp::ZERO).traps()
    }

    fn figures(&self) -> Vec<Figures> {
        self.servers.figures()
    }

    fn counts_by_topic(&self) -> Vec<CountOfTopic> {
        self.inquiry(Timestamp::ZERO).counts_by_topic()
    }

    fn counts(&self) -> Vec<Count> {
        counts::of(self)
    }
}

//! Recrawl: known pages are visited again, as often as the budget allows.
//!
//! In: visits that ended, pages that are given as known, signals of changes, and the passing of
//! time. Out: planned visits. Each waits at its server like a URL that is new, before all of these,
//! and is granted, tried again and reported like one.
//!
//! A token of a budget ([`Budgets`]) goes to the page that is worth most now, among the first pages
//! of the lots of all servers ([`FirstPages`]). A server has no more planned visits than a
//! connection of it takes; while it has so many, or is away, its pages stand back for those of
//! others.
//!
//! Invariants: a page has one planned visit at most, and none is planned without a token of its
//! topic's budget; planned visits = those that ended + those withdrawn + those that wait or are in
//! flight, in every commit.
//!
//! Source: Azar, Horvitz, Lubetzky, Peres and Shahaf 2018 (the page of the largest value next).

use crate::budget::shares::Pages;
use crate::core::drops::Drops;
use crate::core::recrawl::budgets::{Budgets, PLAN_EVERY};
use crate::core::recrawl::heard::Heard;
use crate::core::recrawl::learned::Learned;
use crate::core::recrawl::limits::{is_done, is_forgotten, is_full, stands_back_until};
use crate::core::recrawl::pages::{First, FirstPages};
use crate::core::recrawl::shares::Shares;
use crate::core::recrawl::texts::Early;
use crate::core::recrawl::trust::Trust;
use crate::core::work::{At, Work};
use crate::frontier::rows::FrontierUrl;
use crate::frontier::url_end::UrlEnd;
use crate::frontier::visited::Visited;
use crate::keys::budget::Budget;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::Order;
use crate::keys::topic::{TopicIndex, TopicNumber};
use crate::known::finding::{Finding, judge};
use crate::known::record::{self, Record};
use crate::known::table::{self, Place};
use crate::servers::in_play::Servers;
use crate::settings::Settings;
use crate::store::rows::Rows;
use crate::visits::{Class, Heeded};
use rhumb_config::RecrawlPolicy;
use rhumb_stage::store::StoreError;
use rhumb_url::time::Timestamp;
use rhumb_url::{fingerprint, server_of};
use rhumb_wire::message::PageState;
use std::collections::VecDeque;
use std::time::Duration;

mod budgets;
mod expected;
mod figures;
pub(crate) mod given;
mod heard;
mod learned;
mod limits;
mod pages;
mod shares;
mod texts;
pub(crate) mod told;
mod trust;

/// Time between two looks for a page, while none is worth a visit.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Visits that one step plans, at most.
const PLANS_PER_STEP: usize = 256;
/// Rows that one step looks at for pages that lie where they do not belong.
const SWEPT_PER_STEP: usize = 64;

/// Which known pages are visited again, and when.
#[derive(Debug, Default)]
pub(crate) struct Recrawl {
    pages: FirstPages,
    learned: Learned,
    budgets: Budgets,
    /// What this scheduler has of each of them; none: all.
    shares: Option<Shares>,
    early: Early,
    heard: Heard,
    /// Where pages of topics may still lie among the crawl's.
    unswept: VecDeque<Unswept>,
}

/// A range of rows.
#[derive(Debug)]
struct Unswept {
    partition: u16,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Recrawl {
    /// Begins with what the store has of the servers' partitions.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn open(
        settings: &Settings,
        (instance, epoch): (u16, u64),
        servers: &Servers,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let budgets = Budgets::new(settings, now);
        let mut this = Recrawl {
            learned: Learned::new(settings),
            shares: Shares::open(settings, (instance, epoch), &budgets, now),
            budgets,
            ..Recrawl::default()
        };
        if this.budgets.is_empty() {
            return Ok(this);
        }
        let rows = Rows::new(servers.store().as_ref());
        for (partition, _) in servers.partitions() {
            let Some((mut from, to)) = servers.keys_of(partition) else {
                continue;
            };
            if !settings.topic_recrawls.is_empty() {
                this.unswept.push_back(Unswept {
                    partition,
                    from: from.clone(),
                    to: to.clone(),
                });
            }
            while let Some((server, place)) = table::first(&rows, &from, &to, partition)? {
                from = table::behind(server, place.lot());
                this.show(&rows, settings, servers, server, place)?;
            }
        }
        Ok(this)
    }

    /// A page is the first of its lot at its server.
    fn show(
        &mut self,
        rows: &Rows<'_>,
        settings: &Settings,
        servers: &Servers,
        server: ServerKey,
        place: Place,
    ) -> Result<(), StoreError> {
        let record = record::read(rows, server, place.fingerprint)?;
        let first = record.map(|record| self.first(settings, servers, server, place, &record));
        let first = first.transpose()?;
        // Pages of which all are done are not kept.
        match first.filter(|first| first.is_misplaced || place.key.class != Class::DONE) {
            Some(first) => self.pages.put(server, first),
            None => self.pages.remove(server, place.lot()),
        }
        Ok(())
    }

    /// A page as the first of the lot in which it lies.
    fn first(
        &self,
        settings: &Settings,
        servers: &Servers,
        server: ServerKey,
        place: Place,
        record: &Record,
    ) -> Result<First, StoreError> {
        let topic = &record.origin.topic;
        let number = servers.topic_number(server.partition, topic);
        let heeded = heeded(servers, server, record)?;
        let page = self.learned.page(record, &heeded, settings);
        Ok(First::new(place, page, record, number, settings))
    }

    /// Takes in the visits that ended in this step, and plans others.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn tend(
        &mut self,
        work: &mut Work<'_>,
        drops: &Drops,
        may_plan: bool,
    ) -> Result<(), StoreError> {
        for visited in std::mem::take(&mut work.staged.visited) {
            self.take(work, visited)?;
        }
        if self.budgets.is_empty() {
            return Ok(());
        }
        self.sort(work)?;
        self.sweep(work)?;
        let now_ms = work.staged.settings.unix_ms(work.staged.now);
        self.pages.come_back(now_ms);
        let now = work.staged.now;
        let shares = self.shares.as_ref();
        self.budgets.count(now, |budget, per_second| {
            shares.map_or(per_second as f64, |shares| shares.rate(budget, now))
        });
        // Without a budget of the crawl no job is granted at all. More of it comes when URLs wait.
        let is_used_up = work.servers.shares().budget(Pages::Crawl) == Budget::UsedUp;
        if !may_plan || is_used_up || work.servers.paused().has_all() {
            return Ok(());
        }
        for _ in 0..PLANS_PER_STEP {
            let pages = &mut self.pages;
            let next = self.budgets.ready().find_map(|pool| {
                let next = pages.next(pool, now_ms)?;
                Some((pool, next))
            });
            let Some((pool, (server, place, value))) = next else {
                break;
            };
            self.budgets.take_turn(pool);
            if self.plan(work, drops, server, place)? {
                self.budgets.spend(pool);
                self.learned.bought(pool, value);
            }
        }
        Ok(())
    }

    /// Pages find their places that lie where they do not belong: they may have visits again, or no
    /// more, or have lots of their topics by now.
    fn sort(&mut self, work: &mut Work<'_>) -> Result<(), StoreError> {
        for _ in 0..PLANS_PER_STEP {
            let Some((server, place)) = self.pages.next_misplaced() else {
                break;
            };
            match record::read(&work.staged.rows, server, place.fingerprint)? {
                Some(known) if work.servers.owns(server.partition) => {
                    let is_barred = known.rests && known.class != Class::DONE;
                    self.lies_anew(work, server, place, known, is_barred)?;
                }
                _ => self.take_away(work, server, place)?,
            }
        }
        Ok(())
    }

    /// Pages that became known before their topic was configured lie among the crawl's: each finds
    /// its lot, also one behind pages that are never looked at.
    fn sweep(&mut self, work: &mut Work<'_>) -> Result<(), StoreError> {
        for _ in 0..SWEPT_PER_STEP {
            let Some(range) = self.unswept.front_mut() else {
                break;
            };
            let rows = &work.staged.rows;
            let next = table::first(rows, &range.from, &range.to, range.partition)?;
            let Some((server, place)) = next else {
                self.unswept.pop_front();
                continue;
            };
            if place.topic != TopicNumber::OTHERS {
                range.from = table::behind(server, place.lot());
                continue;
            }
            range.from = table::behind_row(server, place);
            let Some(known) = record::read(rows, server, place.fingerprint)? else {
                continue;
            };
            let topic = &known.origin.topic;
            let number = work.servers.topic_number(server.partition, topic);
            if number != TopicNumber::OTHERS {
                let is_barred = known.rests && known.class != Class::DONE;
                self.lies_anew(work, server, place, known, is_barred)?;
            }
        }
        Ok(())
    }

    /// Returns whether all pages have their places.
    pub(crate) fn is_settled(&self) -> bool {
        self.pages.next_misplaced().is_none()
    }

    /// A row is no more.
    fn take_away(
        &mut self,
        work: &mut Work<'_>,
        key: ServerKey,
        place: Place,
    ) -> Result<(), StoreError> {
        table::remove(&mut work.staged.rows, key, place);
        self.find_first(work, key, place)
    }

    /// Plans a visit of the first page of a lot. Returns whether there is one.
    fn plan(
        &mut self,
        work: &mut Work<'_>,
        drops: &Drops,
        key: ServerKey,
        place: Place,
    ) -> Result<bool, StoreError> {
        let settings = work.staged.settings;
        let known = record::read(&work.staged.rows, key, place.fingerprint)?;
        let Some(mut known) = known.filter(|_| work.servers.owns(key.partition)) else {
            self.take_away(work, key, place)?;
            return Ok(false);
        };
        let now = work.staged.now;
        let now_ms = settings.unix_ms(now);
        work.servers.load_or_make(key, server_of(&known.url))?;
        work.staged.touch(key);
        let is_used_up = is_used_up(work, key, &known);
        let Some(mut at) = work.at(key, "planning a visit") else {
            return Ok(false);
        };
        if let Some(until) = stands_back_until(at.server, now, settings) {
            // A crawl that ends after so many visits does not wait for it.
            let recrawl = settings.recrawl_of(&known.origin.topic);
            if recrawl.visits_max > 0 && !at.server.is_paused {
                known.counts_as_asked(now_ms);
                self.lies_anew(work, key, place, known, true)?;
                return Ok(false);
            }
            let until_ms = settings.unix_ms(until);
            self.pages.stand_back(key, until_ms);
            return Ok(false);
        }
        if is_full(at.server, settings) {
            self.pages.close(key);
            return Ok(false);
        }
        known.counts_as_asked(now_ms);
        if is_used_up || drops.end_of(&known.url, &known.origin).is_some() {
            // It waits as if it had been asked for, as long as it is to be dropped, or its topic
            // has no budget of pages.
            self.lies_anew(work, key, place, known, true)?;
            return Ok(false);
        }
        table::remove(&mut at.staged.rows, key, place);
        known.is_planned = true;
        record::write(&mut at.staged.rows, key, &known);
        wait(&mut at, known);
        if is_full(at.server, settings) {
            self.pages.close(key);
        }
        self.find_first(work, key, place)?;
        Ok(true)
    }

    /// No visit is planned of a page, which may lie elsewhere from now on. `is_barred`: it may not
    /// be visited.
    fn lies_anew(
        &mut self,
        work: &mut Work<'_>,
        key: ServerKey,
        place: Place,
        known: Record,
        is_barred: bool,
    ) -> Result<(), StoreError> {
        table::remove(&mut work.staged.rows, key, place);
        self.settle(work, key, known, is_barred)?;
        self.find_first(work, key, place)
    }

    /// A row is no more: if its page was the first of its lot, another one is.
    fn find_first(
        &mut self,
        work: &Work<'_>,
        server: ServerKey,
        place: Place,
    ) -> Result<(), StoreError> {
        if !self.pages.has_first(server, place) {
            return Ok(());
        }
        let rows = &work.staged.rows;
        match table::next_of_lot(rows, server, place)? {
            Some(first) => self.show(rows, work.staged.settings, work.servers, server, first),
            None => {
                self.pages.remove(server, place.lot());
                Ok(())
            }
        }
    }

    /// Takes in a visit that ended, or was withdrawn.
    fn take(&mut self, work: &mut Work<'_>, visited: Visited) -> Result<(), StoreError> {
        let settings = work.staged.settings;
        let now_ms = settings.unix_ms(work.staged.now);
        let server = visited.server;
        let known = record::read(&work.staged.rows, server, fingerprint(&visited.url))?;
        let is_first = visited.visit <= 1;
        if !is_first {
            self.give_room(work, server)?;
        }
        let mut record = match known {
            Some(known) => known,
            None if is_first => self.first_record(work, &visited),
            // It was planned, so it has one.
            None => return Ok(()),
        };
        // A page that is injected again is waiting for its next visit, which may be planned.
        let waits_on = is_first && record.is_planned;
        if is_first && record.visits > 0 && !waits_on {
            let place = record.place();
            self.take_away(work, server, place)?;
        }
        match visited.is_asked || is_first {
            true => {
                record.is_given = false;
                let mut trust = Trust::of(work.servers.load(server)?);
                let learned = self.learned.of(&record.origin.topic, settings);
                let seen = learned.take(&mut record, &visited, &mut trust, settings, now_ms);
                self.learned.expected.check(seen);
                self.heard.believe(server, &trust.signals);
                if let Some(server) = work.servers.get_mut(server) {
                    trust.keep(server);
                }
                self.read_early(work, &mut record, &visited)?;
            }
            // It was withdrawn: the page waits as if it had been asked for.
            false => record.counts_as_asked(now_ms),
        }
        record.is_planned = waits_on;
        match waits_on {
            _ if visited.finding.is_forgotten => forget(work, server, &record),
            true => record::write(&mut work.staged.rows, server, &record),
            false => self.settle(work, server, record, !visited.is_asked)?,
        }
        self.learned.look_around(work)
    }

    /// A page of which no visit is planned finds its place. `is_barred`: its visit was withdrawn.
    fn settle(
        &mut self,
        work: &mut Work<'_>,
        key: ServerKey,
        mut page: Record,
        is_barred: bool,
    ) -> Result<(), StoreError> {
        let settings = work.staged.settings;
        let is_done = is_done(&page, settings);
        if is_barred {
            // Else a page that is signalled would be asked for again at once.
            let now_ms = settings.unix_ms(work.staged.now);
            page.signalled = page.signalled.since(page.asked_ms, now_ms);
        }
        let heeded = heeded(work.servers, key, &page)?;
        let by_worth = self.learned.key(&page, &heeded, settings);
        // A page that did not answer waits like any other, whatever is said of it.
        page.moved_ms = match page.asked_ms > page.answered_ms {
            true => 0,
            false => page.asked_ms.saturating_sub(by_worth.clock_ms),
        };
        page.class = match is_done {
            true => Class::DONE,
            false => by_worth.class,
        };
        let rested = std::mem::replace(&mut page.rests, is_done || is_barred);
        if let Some(partition) = work.servers.partition(key.partition) {
            let topic = &page.origin.topic;
            page.topic = partition.number_of(&mut work.staged, key.partition, topic);
            partition.counts.rested += u64::from(!rested && page.rests);
            partition.counts.woken += u64::from(rested && !page.rests);
            work.staged.partitions.insert(key.partition);
        }
        let place = page.place();
        record::write(&mut work.staged.rows, key, &page);
        table::put(&mut work.staged.rows, key, place);
        if !is_done {
            let first = self.first(settings, work.servers, key, place, &page)?;
            self.pages.offer(key, first);
        }
        Ok(())
    }

    /// A visit of a server ended: it may have another.
    fn give_room(&mut self, work: &mut Work<'_>, key: ServerKey) -> Result<(), StoreError> {
        let settings = work.staged.settings;
        if let Some(server) = work.servers.load(key)? {
            server.visits_out = server.visits_out.saturating_sub(1);
            if !is_full(server, settings) {
                self.pages.open(key);
            }
            work.staged.touch(key);
        }
        Ok(())
    }

    fn first_record(&self, work: &mut Work<'_>, visited: &Visited) -> Record {
        if let Some(partition) = work.servers.partition(visited.server.partition) {
            partition.counts.known += 1;
            work.staged.partitions.insert(visited.server.partition);
        }
        Record {
            url: visited.url.clone(),
            origin: visited.origin.clone(),
            serial: visited.serial,
            ..Record::default()
        }
    }

    /// When a visit may be planned again, or a share is to be asked for.
    pub(crate) fn wakes(&self, settings: &Settings) -> Option<Timestamp> {
        let share_at = self
            .shares
            .as_ref()
            .and_then(|shares| shares.requests.look_at());
        self.plans_at(settings).into_iter().chain(share_at).min()
    }

    fn plans_at(&self, settings: &Settings) -> Option<Timestamp> {
        let counted = self.budgets.counted;
        if !self.is_settled() || !self.unswept.is_empty() {
            return Some(counted + PLAN_EVERY);
        }
        if self.pages.is_empty() {
            return None;
        }
        let wakes = |(budget, wait): (TopicIndex, Option<Duration>)| {
            let of_token = counted + wait.unwrap_or(LOOK_EVERY).max(PLAN_EVERY);
            let of_page = self.pages.wakes_ms(budget).map(|ms| {
                let since_origin = ms.saturating_sub(settings.origin_ms);
                Timestamp::ZERO + Duration::from_millis(since_origin)
            });
            of_page.map_or(of_token, |at| at.max(of_token))
        };
        self.budgets.waits().map(wakes).min()
    }
}

/// What a visit found that ended so.
///
/// # Errors
/// The store cannot be read, or a row is not understood.
pub(crate) fn found(
    at: &At<'_, '_>,
    url: &FrontierUrl,
    end: &UrlEnd,
) -> Result<Finding, StoreError> {
    let recrawl = at.staged.settings.recrawl_of(&url.origin.topic);
    let is_on = recrawl.policy != RecrawlPolicy::None;
    // A page that was given as known may have a URL that waits for its first visit.
    let may_be_known = url.origin.again != 0 || at.partition.counts.given > 0;
    let is_known = url.is_planned() || is_on && may_be_known;
    let known = match is_known {
        true => record::read(&at.staged.rows, at.key, fingerprint(&url.url))?,
        false => None,
    };
    let finding = judge(known.as_ref(), end.outcome, end.body);
    let is_gone = url.is_planned() && finding.after == PageState::Gone;
    let settings = at.staged.settings;
    Ok(Finding {
        is_forgotten: is_gone
            && known.is_some_and(|page| is_forgotten(&page, settings, at.staged.now)),
        ..finding
    })
}

/// The signals of a page that are heeded.
fn heeded(servers: &Servers, key: ServerKey, page: &Record) -> Result<Heeded, StoreError> {
    if page.signalled.is_none() {
        return Ok(Heeded::default());
    }
    Ok(servers.signal_trust(key)?.heeded(&page.signalled))
}

/// A page is known no more.
fn forget(work: &mut Work<'_>, server: ServerKey, page: &Record) {
    record::remove(&mut work.staged.rows, server, &page.url);
    if let Some(partition) = work.servers.partition(server.partition) {
        partition.counts.forgotten += 1;
        partition.counts.woken += u64::from(page.rests);
        work.staged.partitions.insert(server.partition);
    }
}

/// Returns whether the budget of pages of a page's topic is used up.
fn is_used_up(work: &mut Work<'_>, key: ServerKey, known: &Record) -> bool {
    if work.servers.shares().used_up().is_empty() {
        return false;
    }
    let Some(mut at) = work.at(key, "planning a visit") else {
        return false;
    };
    let number = topic_of(&mut at, known);
    let topic = at.partition.topics.index_of(number);
    work.servers.shares().used_up().contains(&topic)
}

/// The number of a page's topic.
fn topic_of(at: &mut At<'_, '_>, known: &Record) -> TopicNumber {
    let partition = at.key.partition;
    at.partition
        .number_of(at.staged, partition, &known.origin.topic)
}

/// A planned visit waits at its server.
fn wait(at: &mut At<'_, '_>, known: Record) {
    let settings = at.staged.settings;
    let topic = topic_of(at, &known);
    let url = FrontierUrl {
        url: known.url,
        origin: known.origin,
        serial: known.serial,
        attempts: 0,
        not_before: 0,
        visit: known.visits.saturating_add(1),
    };
    at.partition.counts.planned += 1;
    at.server.visits_out += 1;
    let rows = &mut at.staged.rows;
    let queues = &mut at.server.queues;
    queues.push(
        rows,
        at.key,
        topic,
        &url,
        Order::PLANNED,
        settings.head_max(),
    );
}

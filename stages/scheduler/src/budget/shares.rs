//! Shares: what this scheduler has of budgets that all schedulers share.
//!
//! A share says how many tokens are held, and how many of them URLs in flight and pages fetched have taken. A share
//! that has none left while URLs wait asks the ledger. It also calls upon schedulers that may have some to give back.
//! That ends when all schedulers together have fetched as many pages as the budget has. A scheduler that was always alone
//! has all tokens and asks nobody.
//!
//! What was fetched counts for the scheduler that took it in, also when the partition has moved since: it stays in the
//! ledger when that scheduler is gone. Tokens of URLs in flight go back only when the next owner of their partition has
//! entered them. A scheduler without partitions gives all back that it has not spent.
//!
//! A scheduler that was alone has entered nothing of what it fetched. So once partitions have moved, the ledger of a domain
//! gives tokens only when each scheduler that has partitions has said what it fetched; who has not is called upon.
//!
//! Invariants: tokens that are being given back are not spent: from the question on, only those count that were kept.
//! Budgets are taken in one order: tokens of the crawl are for URLs that have those of their domain, so that nobody
//! waits for one with the other in hand.

use crate::budget::left::Budget;
use crate::budget::schedulers::Schedulers;
use crate::keys::load::Load;
use crate::keys::server_key::ServerKey;
use crate::ledger_need::LedgerNeed;
use crate::settings::Settings;
use crate::step::staged::Staged;
use crate::store::codec::{Reader, Writer};
use crate::store::rows::corrupt;
use crate::tokens::{Need, Settled, SharedBudget};
use shared::message::Errand;
use shared::stage::store::{Store, StoreError, Table};
use shared::time::Timestamp;
use shared::url::{fingerprint, host_of, registered_domain};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Table of registered domains, of which the instance may hold tokens: domain → pages that it fetched, and the domain's
/// name. [`CRAWL`] leads to those of
/// all domains.
pub(crate) const DOMAINS: Table = "domains";
/// Shorter than the hash of a domain.
const CRAWL: &[u8] = b"crawl";

/// Wait between two questions for tokens, when there were none.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long tokens stay that URLs in flight of a partition had that was given away: until its next owner has entered them.
const KEEPS_FOR: Duration = Duration::from_secs(10);
/// Questions that are out at once, at most.
const QUESTIONS_MAX: usize = 256;

/// A shared budget, by the hash of the domain's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Id {
    Crawl,
    Domain(u64),
}

/// When the ledger is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// It is not asked.
    None,
    /// It is asked at that time.
    Due(Timestamp),
    /// The answer is awaited.
    Out,
}

/// What this scheduler has of one budget.
#[derive(Clone, Debug)]
struct Share {
    budget: SharedBudget,
    max: u64,
    /// Tokens held, counted from the beginning of the crawl.
    tokens: u64,
    fetched: u64,
    in_flight: u64,
    waiting: u64,
    /// Pages that the other schedulers have fetched, as far as is known.
    elsewhere: u64,
    question: Question,
    /// Another scheduler has called for tokens: it has none left.
    called: bool,
    /// The others are not called upon before then.
    call_at: Timestamp,
    /// The domain has a row: without one nobody would know of its tokens when the partitions are gone.
    has_row: bool,
}

impl Share {
    fn spent(&self) -> u64 {
        self.fetched + self.in_flight
    }

    fn budget(&self) -> Budget {
        if self.fetched + self.elsewhere >= self.max {
            return Budget::UsedUp;
        }
        match self.tokens.min(self.max).saturating_sub(self.spent()) {
            0 => Budget::Reserved,
            left => Budget::Left(left),
        }
    }

    /// Says whether URLs wait for tokens that others may have, or are in flight without: they came with a partition.
    fn is_short(&self) -> bool {
        let needs = self.waiting > 0 || self.spent() > self.tokens;
        needs && self.tokens < self.max && self.budget() == Budget::Reserved
    }
}

/// All shares in play.
#[derive(Debug)]
pub(crate) struct Shares {
    /// The budget of each domain; 0: no limit.
    pages_per_domain: u64,
    schedulers: Schedulers,
    instance: u16,
    epoch: u64,
    /// Pages that this scheduler fetched since the crawl began.
    fetched: u64,
    /// Tokens that no URL needs go back from then on.
    gives_back_at: Timestamp,
    shares: HashMap<Id, Share>,
    /// Servers in play of domains that have a budget: domain and server.
    servers: BTreeSet<(u64, ServerKey)>,
    /// Questions to be asked.
    due: BTreeSet<(Timestamp, Id)>,
    /// Questions that are out.
    out: usize,
}

impl Shares {
    /// The shares of a scheduler, none in play but that of the crawl when that has a limit.
    pub(crate) fn open(
        settings: &Settings,
        (instance, epoch): (u16, u64),
        store: &dyn Store,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut this = Shares {
            pages_per_domain: settings.pages_per_domain,
            schedulers: settings.schedulers.clone(),
            instance,
            epoch,
            fetched: stored(store, CRAWL)?.map_or(0, |(fetched, _)| fetched),
            gives_back_at: if settings.schedulers.gives { now + KEEPS_FOR } else { now },
            shares: HashMap::new(),
            servers: BTreeSet::new(),
            due: BTreeSet::new(),
            out: 0,
        };
        if settings.pages_max > 0 {
            let share = this.share(SharedBudget::Crawl, settings.pages_max, this.fetched);
            this.shares.insert(Id::Crawl, share);
            if this.schedulers.share() {
                this.call_upon(Id::Crawl, now);
            }
        }
        Ok(this)
    }

    /// Has all tokens go back that this scheduler has not spent, since it has no partition.
    pub(crate) fn give_all_back(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let at = self.gives_back_at;
        self.call_upon(Id::Crawl, at);
        if self.pages_per_domain > 0 && self.schedulers.share() {
            let mut domains = Vec::new();
            store.scan(DOMAINS, &[], &[0xff; 9], &mut |_, row| {
                domains.extend(read(row).filter(|(_, name)| !name.is_empty()));
                true
            })?;
            for (fetched, name) in domains {
                let id = Id::Domain(fingerprint(&name));
                let share = self.share(SharedBudget::Domain(name), self.pages_per_domain, fetched);
                self.shares.entry(id).or_insert(share);
                self.call_upon(id, at);
            }
        }
        Ok(())
    }

    /// Says whether a ledger is still to be asked.
    pub(crate) fn has_questions(&self) -> bool {
        !self.due.is_empty() || self.out > 0
    }

    /// Partitions have other owners.
    pub(crate) fn shared_by(&mut self, schedulers: Schedulers) {
        // Who was alone has all tokens, for the rest of its life.
        if self.schedulers.share() {
            self.schedulers = schedulers;
        }
    }

    /// The ledgers are asked under this epoch from now on: they take nothing from an earlier one.
    pub(crate) fn owned_since(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    fn share(&self, budget: SharedBudget, max: u64, fetched: u64) -> Share {
        Share {
            budget,
            max,
            tokens: if self.schedulers.share() { 0 } else { max },
            fetched,
            in_flight: 0,
            waiting: 0,
            elsewhere: 0,
            question: Question::None,
            called: false,
            call_at: Timestamp::ZERO,
            has_row: fetched > 0,
        }
    }

    /// Says whether no budget is in play.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    /// A server comes into play, and its domain with it.
    pub(crate) fn enter(
        &mut self,
        store: &dyn Store,
        key: ServerKey,
        domain: u64,
        server: &str,
    ) -> Result<(), StoreError> {
        if self.pages_per_domain == 0 {
            return Ok(());
        }
        let id = Id::Domain(domain);
        if !self.shares.contains_key(&id) {
            let name = registered_domain(host_of(server)).to_owned();
            let share = self.share(SharedBudget::Domain(name), self.pages_per_domain, fetched_of(store, domain)?);
            self.shares.insert(id, share);
        }
        self.servers.insert((domain, key));
        Ok(())
    }

    /// A server leaves memory, and its domain with the last of them.
    pub(crate) fn leave(&mut self, key: ServerKey, domain: u64) {
        if self.servers.remove(&(domain, key)) {
            self.forget(domain);
        }
    }

    /// Lets a domain without servers in play leave memory. That does not happen while an answer is awaited: the answer
    /// to a later question could overtake it.
    fn forget(&mut self, domain: u64) {
        let id = Id::Domain(domain);
        let is_asked = self.shares.get(&id).is_some_and(|share| share.question != Question::None);
        if !is_asked && self.servers_of(domain).next().is_none() {
            self.shares.remove(&id);
        }
    }

    fn servers_of(&self, domain: u64) -> impl Iterator<Item = ServerKey> {
        let (first, last) = (*ServerKey::all_of(0).start(), *ServerKey::all_of(u64::MAX).end());
        self.servers.range((domain, first)..=(domain, last)).map(|&(_, key)| key)
    }

    /// Notes what a server of a domain had in hand before, and has now.
    pub(crate) fn account(&mut self, domain: u64, had: Load, has: Load) {
        for id in [Id::Crawl, Id::Domain(domain)] {
            if let Some(share) = self.shares.get_mut(&id) {
                // URLs that wait for a larger budget need no tokens.
                share.waiting = share.waiting + (has.waiting - has.over_budget) - (had.waiting - had.over_budget);
                share.in_flight = share.in_flight + has.in_flight - had.in_flight;
            }
        }
    }

    /// Counts a page of a domain. After the last one of its budget all its servers are looked after.
    pub(crate) fn fetched(&mut self, staged: &mut Staged<'_>, domain: u64) {
        self.fetched += 1;
        staged.rows.put(DOMAINS, CRAWL.to_vec(), write(self.fetched, ""));
        if let Some(crawl) = self.shares.get_mut(&Id::Crawl) {
            crawl.fetched += 1;
        }
        let Some(share) = self.shares.get_mut(&Id::Domain(domain)) else { return };
        share.fetched += 1;
        let name = share.budget.domain().unwrap_or_default();
        staged.rows.put(DOMAINS, domain.to_be_bytes().to_vec(), write(share.fetched, name));
        if share.budget() == Budget::UsedUp {
            self.servers_of(domain).for_each(|key| staged.unsettle(key));
        }
    }

    /// What is left of the crawl's budget.
    pub(crate) fn crawl(&self) -> Budget {
        self.shares.get(&Id::Crawl).map_or(Budget::UNLIMITED, Share::budget)
    }

    /// What is left of a domain's budget, while a server of it is in play.
    pub(crate) fn domain(&self, domain: u64) -> Budget {
        self.shares.get(&Id::Domain(domain)).map_or(Budget::UNLIMITED, Share::budget)
    }

    /// What is left of the budget of a domain that may not be in play.
    pub(crate) fn stored_domain(&self, store: &dyn Store, domain: u64) -> Result<Budget, StoreError> {
        if self.pages_per_domain == 0 || self.shares.contains_key(&Id::Domain(domain)) {
            return Ok(self.domain(domain));
        }
        Ok(self.share(SharedBudget::Crawl, self.pages_per_domain, fetched_of(store, domain)?).budget())
    }

    /// Notes that a job could be granted if the crawl had pages left.
    pub(crate) fn want_for_crawl(&mut self, now: Timestamp) {
        self.want(Id::Crawl, now);
    }

    /// Notes that a server waits for its domain to have pages left.
    pub(crate) fn want_for_domain(&mut self, now: Timestamp, domain: u64) {
        self.want(Id::Domain(domain), now);
    }

    fn want(&mut self, id: Id, at: Timestamp) {
        if let Some(share) = self.shares.get_mut(&id)
            && share.question == Question::None
            && share.is_short()
        {
            share.question = Question::Due(at);
            self.due.insert((at, id));
        }
    }

    /// Another scheduler has no token left of a domain's budget, or of the crawl's. What is not needed here goes back.
    pub(crate) fn call(&mut self, now: Timestamp, domain: Option<&str>, store: &dyn Store) -> Result<(), StoreError> {
        let id = domain.map_or(Id::Crawl, |domain| Id::Domain(fingerprint(domain)));
        if let (Some(domain), Id::Domain(hash), false) = (domain, id, self.shares.contains_key(&id))
            && self.pages_per_domain > 0
        {
            let share =
                self.share(SharedBudget::Domain(domain.to_owned()), self.pages_per_domain, fetched_of(store, hash)?);
            self.shares.insert(id, share);
        }
        self.call_upon(id, now);
        Ok(())
    }

    /// The ledger is asked at that time, whether there is need or not.
    fn call_upon(&mut self, id: Id, at: Timestamp) {
        let Some(share) = self.shares.get_mut(&id) else { return };
        share.called = true;
        if share.question != Question::Out {
            if let Question::Due(earlier) = share.question {
                self.due.remove(&(earlier, id));
            }
            share.question = Question::Due(at);
            self.due.insert((at, id));
        }
    }

    /// URLs that need tokens of a budget.
    fn needing(&self, id: Id) -> u64 {
        if id == Id::Crawl && self.pages_per_domain > 0 {
            let domains = self.shares.iter().filter(|(id, _)| **id != Id::Crawl);
            return domains.map(|(_, share)| share.waiting.min(share.budget().left())).sum();
        }
        self.shares.get(&id).map_or(0, |share| share.waiting)
    }

    /// Asks what is to be asked by now.
    pub(crate) fn ask(&mut self, staged: &mut Staged<'_>) {
        let now = staged.now;
        while self.out < QUESTIONS_MAX
            && let Some(&(at, id)) = self.due.first()
            && at <= now
        {
            self.due.pop_first();
            let waiting = self.needing(id);
            let Some(share) = self.shares.get_mut(&id) else { continue };
            if !share.is_short() && !share.called {
                share.question = Question::None;
                if let Id::Domain(domain) = id {
                    self.forget(domain);
                }
                continue;
            }
            (share.question, share.called) = (Question::Out, false);
            share.tokens = share.tokens.min(share.spent() + waiting);
            if let (Id::Domain(domain), false) = (id, std::mem::replace(&mut share.has_row, true)) {
                let name = share.budget.domain().unwrap_or_default();
                staged.rows.put(DOMAINS, domain.to_be_bytes().to_vec(), write(share.fetched, name));
            }
            self.out += 1;
            staged.messages.need(LedgerNeed::Tokens(Need {
                budget: share.budget.clone(),
                max: share.max,
                schedulers: self.schedulers.count,
                known: self.schedulers.known(),
                instance: self.instance,
                epoch: self.epoch,
                fetched: share.fetched,
                in_flight: share.in_flight,
                waiting,
                gives_back: now >= self.gives_back_at,
            }));
        }
    }

    /// The time when there is something to be asked.
    pub(crate) fn ask_at(&self) -> Option<Timestamp> {
        self.due.first().filter(|_| self.out < QUESTIONS_MAX).map(|&(at, _)| at)
    }

    /// Takes an answer of the ledger. Returns the domain that has room now, if the budget is a domain's.
    pub(crate) fn settled(&mut self, settled: &Settled, staged: &mut Staged<'_>) -> Option<u64> {
        let now = staged.now;
        let id = match &settled.budget {
            SharedBudget::Crawl => Id::Crawl,
            SharedBudget::Domain(domain) => Id::Domain(fingerprint(domain)),
        };
        self.out = self.out.saturating_sub(1);
        let share = self.shares.get_mut(&id)?;
        share.question = Question::None;
        if let Some(ledger) = &settled.ledger {
            share.tokens = ledger.tokens(self.instance);
            share.elsewhere = ledger.fetched_elsewhere(self.instance);
        } else {
            // What was to be said was not heard, and what was to go back has not gone.
            share.called = true;
        }
        if share.is_short() || share.called {
            if share.is_short() && share.call_at <= now {
                share.call_at = now + ASK_EVERY;
                let known = self.schedulers.known();
                let ledger = settled.ledger.iter();
                let holders = ledger.clone().flat_map(|ledger| ledger.holders_elsewhere(self.instance));
                let silent = ledger.flat_map(|ledger| ledger.silent(self.instance, &known));
                // One without partitions gives back by itself.
                for partition in holders.chain(silent).filter_map(|other| self.schedulers.partition_of(other)) {
                    let domain = share.budget.domain().map(str::to_owned);
                    staged.messages.errand(partition, Errand::Tokens { domain });
                }
            }
            let at = if share.called && settled.ledger.is_some() { now } else { now + ASK_EVERY };
            share.question = Question::Due(at);
            self.due.insert((at, id));
        }
        let Id::Domain(domain) = id else { return None };
        let budget = share.budget();
        if budget == Budget::UsedUp {
            self.servers_of(domain).for_each(|key| staged.unsettle(key));
        }
        self.forget(domain);
        matches!(budget, Budget::Left(_)).then_some(domain)
    }
}

/// Pages of a domain that this scheduler fetched.
fn fetched_of(store: &dyn Store, domain: u64) -> Result<u64, StoreError> {
    Ok(stored(store, &domain.to_be_bytes())?.map_or(0, |(fetched, _)| fetched))
}

/// Pages fetched, and the name of their domain.
fn stored(store: &dyn Store, key: &[u8]) -> Result<Option<(u64, String)>, StoreError> {
    let row = store.get(DOMAINS, key)?;
    row.map(|row| read(&row).ok_or_else(|| corrupt(DOMAINS, "a row is unreadable"))).transpose()
}

fn write(fetched: u64, domain: &str) -> Vec<u8> {
    let mut row = Writer::with_capacity(8 + domain.len());
    row.number(fetched);
    row.text(domain);
    row.finish()
}

fn read(row: &[u8]) -> Option<(u64, String)> {
    let mut row = Reader::new(row)?;
    Some((row.number()?, row.text()?.to_owned()))
}

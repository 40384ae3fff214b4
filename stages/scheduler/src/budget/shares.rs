//! Shares: what this scheduler has of budgets that all schedulers share.
//!
//! A share says how many tokens are held, and how many of them URLs in flight and pages fetched have taken. A share
//! that has none left while URLs wait asks the ledger. It also calls upon schedulers that may have some to give back.
//! That ends when all schedulers together have fetched as many pages as the budget has.
//!
//! What was fetched counts for the scheduler that took it in, also when the partition has moved since: it stays in the
//! ledger when that scheduler is gone. URLs in flight count for the owner of their partition. Each life enters them first,
//! then says so in the crawl's ledger. Until all schedulers have said it since partitions moved last, nobody takes tokens
//! or gives some back, and a new life spends none. A scheduler without partitions gives all back that it has not spent.
//!
//! Invariants: tokens that are being given back are not spent: from the question on, only those count that were kept.
//! Budgets are taken in one order: tokens of the crawl are for URLs that have those of their domain, so that nobody
//! waits for one with the other in hand.

use crate::budget::left::Budget;
use crate::budget::schedulers::Schedulers;
use crate::budget::share::{NO_LIMIT, Question, Share};
use crate::keys::load::Load;
use crate::keys::server_key::ServerKey;
use crate::ledger_need::LedgerNeed;
use crate::settings::Settings;
use crate::step::staged::Staged;
use crate::store::codec::{Reader, Writer};
use crate::store::rows::corrupt;
use crate::tokens::{Holder, Ledger, Need, Settled, SharedBudget};
use foldhash::{HashMap, HashMapExt as _};
use shared::message::Errand;
use shared::stage::store::{Store, StoreError, Table};
use shared::time::Timestamp;
use shared::url::{fingerprint, host_of, registered_domain};
use std::collections::BTreeSet;
use std::time::Duration;

/// Table of registered domains, of which the instance may hold tokens: domain → pages that it fetched, and the domain's
/// name. [`CRAWL`] leads to those of all domains, [`BIRTH`] to the epoch in which the table began.
pub(crate) const DOMAINS: Table = "domains";
/// Shorter than the hash of a domain.
pub(crate) const CRAWL: &[u8] = b"crawl";
/// As short.
pub(crate) const BIRTH: &[u8] = b"birth";
/// Wait between two questions for tokens, when there were none.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Wait between two looks whether all schedulers have said what they have in hand.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Questions that are out at once, at most.
const QUESTIONS_MAX: usize = 256;

/// A shared budget, by the hash of the domain's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Id {
    Crawl,
    Domain(u64),
}

/// All shares in play.
#[derive(Debug)]
pub(crate) struct Shares {
    /// The budget of each domain; 0: no limit.
    pages_per_domain: u64,
    schedulers: Schedulers,
    holder: Holder,
    epoch: u64,
    /// Pages that this scheduler fetched since the crawl began.
    fetched: u64,
    /// Domains with URLs in flight that this life has not entered yet.
    unentered: BTreeSet<Id>,
    /// All schedulers have said what they have in hand, since partitions moved last.
    all_are_known: bool,
    /// The epoch of the birth has a row.
    is_born: bool,
    shares: HashMap<Id, Share>,
    /// Servers in play of domains that have a budget: domain and server.
    servers: BTreeSet<(u64, ServerKey)>,
    /// Questions to be asked.
    due: BTreeSet<(Timestamp, Id)>,
    /// Questions that are out.
    out: usize,
}

impl Shares {
    /// The shares of a scheduler, none in play but that of the crawl, when there are budgets, or no partition.
    pub(crate) fn open(
        settings: &Settings,
        (instance, epoch): (u16, u64),
        partitions: &[u16],
        store: &dyn Store,
    ) -> Result<Self, StoreError> {
        let born = stored(store, BIRTH)?.map(|(epoch, _)| epoch);
        let mut this = Shares {
            pages_per_domain: settings.pages_per_domain,
            schedulers: settings.schedulers.clone(),
            holder: Holder { instance, birth: born.unwrap_or(epoch) },
            epoch,
            fetched: stored(store, CRAWL)?.map_or(0, |(fetched, _)| fetched),
            unentered: BTreeSet::new(),
            all_are_known: false,
            is_born: born.is_some(),
            shares: HashMap::new(),
            servers: BTreeSet::new(),
            due: BTreeSet::new(),
            out: 0,
        };
        if settings.pages_max > 0 || settings.pages_per_domain > 0 || partitions.is_empty() {
            let max = if settings.pages_max > 0 { settings.pages_max } else { NO_LIMIT };
            this.shares.insert(Id::Crawl, Share::new(SharedBudget::Crawl, max, this.fetched));
        }
        Ok(this)
    }

    /// Has the ledgers asked what a new life asks: first what is in flight is entered, then the crawl's ledger is told.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        let in_flight = |(id, share): (&Id, &Share)| (*id != Id::Crawl && share.in_flight > 0).then_some(*id);
        self.unentered = self.shares.iter().filter_map(in_flight).collect();
        for id in self.unentered.clone() {
            self.call_upon(id, now);
        }
        if self.unentered.is_empty() {
            self.call_upon(Id::Crawl, now);
        }
    }

    /// Has all tokens go back that this scheduler has not spent, since it has no partition.
    pub(crate) fn give_all_back(&mut self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        let mut domains = Vec::new();
        if self.pages_per_domain > 0 {
            store.scan(DOMAINS, &[], &[0xff; 9], &mut |_, row| {
                domains.extend(read(row).filter(|(_, name)| !name.is_empty()));
                true
            })?;
        }
        for (fetched, name) in domains {
            let id = Id::Domain(fingerprint(&name));
            let share = Share::new(SharedBudget::Domain(name), self.pages_per_domain, fetched);
            self.shares.entry(id).or_insert(share);
            self.call_upon(id, now);
        }
        Ok(())
    }

    /// Says whether a ledger is still to be asked.
    pub(crate) fn has_questions(&self) -> bool {
        !self.due.is_empty() || self.out > 0
    }

    /// Partitions have other owners. A life that is to have others itself has nothing more to say; nor has an old table.
    pub(crate) fn shared_by(&mut self, schedulers: Schedulers) {
        let is_news = schedulers != self.schedulers && schedulers.since >= self.schedulers.since;
        if is_news && schedulers.uses_as(&self.schedulers) {
            self.all_are_known &=
                schedulers.since == self.schedulers.since && schedulers.all() == self.schedulers.all();
            self.schedulers = schedulers;
            if !self.all_are_known {
                self.call_upon(Id::Crawl, Timestamp::ZERO);
            }
        }
    }

    /// The ledgers are asked under this epoch from now on: they take nothing from an earlier one.
    pub(crate) fn owned_since(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// Says whether no budget of a domain is in play.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.shares.keys().all(|id| *id == Id::Crawl)
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
            let share = Share::new(SharedBudget::Domain(name), self.pages_per_domain, fetched_of(store, domain)?);
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
        let is_asked = |share: &Share| share.question != Question::None || share.called;
        let is_asked = self.shares.get(&id).is_some_and(is_asked);
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
        Ok(Share::new(SharedBudget::Crawl, self.pages_per_domain, fetched_of(store, domain)?).budget())
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
        if self.may_ask(id)
            && let Some(share) = self.shares.get_mut(&id)
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
                Share::new(SharedBudget::Domain(domain.to_owned()), self.pages_per_domain, fetched_of(store, hash)?);
            self.shares.insert(id, share);
        }
        self.call_upon(id, now);
        Ok(())
    }

    /// The ledger is asked at that time, whether there is need or not.
    fn call_upon(&mut self, id: Id, at: Timestamp) {
        let may_ask = self.may_ask(id);
        let Some(share) = self.shares.get_mut(&id) else { return };
        share.called = true;
        if share.question != Question::Out && may_ask {
            if let Question::Due(earlier) = share.question {
                self.due.remove(&(earlier, id));
            }
            share.question = Question::Due(at);
            self.due.insert((at, id));
        }
    }

    /// Says whether a ledger can be asked for something: before all are known, that of a domain only takes entries.
    fn may_ask(&self, id: Id) -> bool {
        self.all_are_known || id == Id::Crawl || self.unentered.contains(&id)
    }

    /// The schedulers that say what they have in hand: without any budget nobody does.
    fn known(&self) -> Vec<u16> {
        let has_limit = |share: &Share| share.max < NO_LIMIT || self.pages_per_domain > 0;
        if self.shares.get(&Id::Crawl).is_some_and(has_limit) { self.schedulers.all() } else { Vec::new() }
    }

    /// URLs that need tokens of a budget.
    fn needing(&self, id: Id) -> u64 {
        let share = self.shares.get(&id);
        if share.is_none_or(|share| share.max == NO_LIMIT) {
            return 0;
        }
        if id == Id::Crawl && self.pages_per_domain > 0 {
            let domains = self.shares.iter().filter(|(id, _)| **id != Id::Crawl);
            return domains.map(|(_, share)| share.waiting.min(share.budget().left())).sum();
        }
        share.map_or(0, |share| share.waiting)
    }

    /// Asks what is to be asked by now.
    pub(crate) fn ask(&mut self, staged: &mut Staged<'_>) {
        while self.out < QUESTIONS_MAX
            && let Some(&(at, id)) = self.due.first()
            && at <= staged.now
        {
            self.due.pop_first();
            let waiting = self.needing(id);
            let is_unknown = id == Id::Crawl && !self.all_are_known;
            let Some(share) = self.shares.get_mut(&id) else { continue };
            if !share.is_short() && !share.called && !is_unknown {
                share.question = Question::None;
                if let Id::Domain(domain) = id {
                    self.forget(domain);
                }
                continue;
            }
            self.question(id, waiting, staged);
        }
    }

    fn question(&mut self, id: Id, waiting: u64, staged: &mut Staged<'_>) {
        // The crawl's ledger is told when those of the domains have been.
        let since = if id == Id::Crawl && self.unentered.is_empty() { self.schedulers.since } else { 0 };
        let known = if id == Id::Crawl { self.known() } else { Vec::new() };
        let may_change = if id == Id::Crawl { since > 0 && !self.schedulers.gives } else { self.all_are_known };
        let Some(share) = self.shares.get_mut(&id) else { return };
        share.question = Question::Out;
        if may_change {
            share.called = false;
            share.tokens = share.tokens.min(share.spent() + waiting);
        }
        if !std::mem::replace(&mut self.is_born, true) {
            staged.rows.put(DOMAINS, BIRTH.to_vec(), write(self.holder.birth, ""));
        }
        if let (Id::Domain(domain), false) = (id, std::mem::replace(&mut share.has_row, true)) {
            let name = share.budget.domain().unwrap_or_default();
            staged.rows.put(DOMAINS, domain.to_be_bytes().to_vec(), write(share.fetched, name));
        }
        self.out += 1;
        staged.messages.need(LedgerNeed::Tokens(Need {
            budget: share.budget.clone(),
            max: share.max,
            schedulers: self.schedulers.count,
            known,
            since,
            may_change,
            holder: self.holder,
            epoch: self.epoch,
            fetched: share.fetched,
            in_flight: share.in_flight,
            waiting,
            counts_on: share.tokens,
        }));
    }

    /// The time when there is something to be asked.
    pub(crate) fn ask_at(&self) -> Option<Timestamp> {
        self.due.first().filter(|_| self.out < QUESTIONS_MAX).map(|&(at, _)| at)
    }

    /// Takes an answer of the ledger. Returns the domain that has room now, if the budget is a domain's.
    pub(crate) fn settled(&mut self, settled: &Settled, staged: &mut Staged<'_>) -> Option<u64> {
        let now = staged.now;
        let id = match &settled.need.budget {
            SharedBudget::Crawl => Id::Crawl,
            SharedBudget::Domain(domain) => Id::Domain(fingerprint(domain)),
        };
        self.out = self.out.saturating_sub(1);
        let share = self.shares.get_mut(&id)?;
        share.question = Question::None;
        let Some(ledger) = &settled.ledger else {
            // What was to be said was not heard, and what was to go back has not gone.
            self.call_upon(id, now + ASK_EVERY);
            return None;
        };
        share.elsewhere = ledger.fetched_elsewhere(self.holder);
        let may_change = ledger.may_change(&settled.need);
        if may_change {
            share.tokens = ledger.tokens(self.holder);
        }
        self.hear(id, may_change && settled.need.since == self.schedulers.since, now);
        self.ask_again(id, ledger, staged);
        let Id::Domain(domain) = id else { return None };
        let budget = self.domain(domain);
        if budget == Budget::UsedUp {
            self.servers_of(domain).for_each(|key| staged.unsettle(key));
        }
        self.forget(domain);
        matches!(budget, Budget::Left(_)).then_some(domain)
    }

    /// What an answer says of the other schedulers: once all are known, the ledgers of domains are asked.
    fn hear(&mut self, id: Id, all_are_known: bool, now: Timestamp) {
        if id == Id::Crawl {
            if all_are_known && !std::mem::replace(&mut self.all_are_known, true) {
                let asks = |(id, share): (&Id, &Share)| (share.is_short() || share.called).then_some(*id);
                let ids: Vec<_> = self.shares.iter().filter_map(asks).filter(|id| *id != Id::Crawl).collect();
                ids.into_iter().for_each(|id| self.call_upon(id, now));
            }
        } else if self.unentered.remove(&id) && self.unentered.is_empty() {
            self.call_upon(Id::Crawl, now);
        }
    }

    /// Asks again when something is missing, and calls upon those that may have it.
    fn ask_again(&mut self, id: Id, ledger: &Ledger, staged: &mut Staged<'_>) {
        let (now, is_unknown) = (staged.now, id == Id::Crawl && !self.all_are_known);
        let (may_ask, known) = (self.may_ask(id), self.known());
        let Some(share) = self.shares.get_mut(&id) else { return };
        if !may_ask || share.question != Question::None || !(share.is_short() || share.called || is_unknown) {
            return;
        }
        if share.call_at <= now {
            share.call_at = now + ASK_EVERY;
            let known = if is_unknown { known } else { Vec::new() };
            let holders = ledger.holders_elsewhere(self.holder).filter(|_| share.is_short());
            let silent = ledger.silent(self.holder.instance, &known, self.schedulers.since);
            // One without partitions gives back by itself.
            for partition in holders.chain(silent).filter_map(|other| self.schedulers.partition_of(other)) {
                let domain = share.budget.domain().map(str::to_owned);
                staged.messages.errand(partition, Errand::Tokens { domain });
            }
        }
        let at = match share.called {
            _ if is_unknown => now + LOOK_EVERY,
            true => now,
            false => now + ASK_EVERY,
        };
        share.question = Question::Due(at);
        self.due.insert((at, id));
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

/// Reads a row of the table.
pub(crate) fn read(row: &[u8]) -> Option<(u64, String)> {
    let mut row = Reader::new(row)?;
    Some((row.number()?, row.text()?.to_owned()))
}

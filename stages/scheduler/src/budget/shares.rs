//! Shares: what this scheduler has of budgets that all schedulers share.
//!
//! A share says how many tokens are held, and how many of them URLs in flight and pages fetched
//! have taken. A share that has none left while URLs wait asks the ledger. It also calls upon
//! schedulers that may have some to give back. That ends when all schedulers together have fetched
//! as many pages as the budget has.
//!
//! What was fetched counts for the scheduler that took it in, also when the partition has moved
//! since: it stays in the ledger when that scheduler is gone. URLs in flight count for the owner of
//! their partition. Each life enters them first, then says so in the crawl's ledger. Until all
//! schedulers have said it since partitions moved last, nobody takes tokens or gives some back, and
//! a new life spends none. A scheduler without partitions gives all back that it has not spent. A
//! topic's budget may come when pages of the topic have been fetched: its ledger gives nothing
//! before all schedulers have entered theirs.
//!
//! Invariants: tokens that are being given back are not spent: from the question on, only those
//! count that were kept. Budgets are taken in one order: tokens of the crawl are for URLs that have
//! those of their domain, or of their topic, so that nobody waits for one with the other in hand.
//! Domains and topics do not have budgets both (`rhumb_config`).

use crate::budget::share::{NO_LIMIT, Share};
use crate::keys::budget::Budget;
use crate::keys::load::Load;
use crate::keys::schedulers::Schedulers;
use crate::keys::server_key::ServerKey;
use crate::keys::topic::TopicIndex;
use crate::quota::Quota;
use crate::quota::ledger::Holder;
use crate::quota::requests::Requests;
use crate::settings::Settings;
use crate::step::staged::Staged;
use crate::store::codec::{Reader, Writer};
use crate::store::rows::corrupt;
use foldhash::{HashMap, HashMapExt as _};
use rhumb_stage::store::{Store, StoreError, Table};
use rhumb_url::time::Timestamp;
use rhumb_url::{fingerprint, host_of, registered_domain};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

mod asking;

/// Table of registered domains, of which the instance may hold tokens: domain → pages that it
/// fetched, and the domain's name. [`CRAWL`] leads to those of all domains, [`BIRTH`] to the epoch
/// in which the table began, and [`TOPIC`] with the hash of its name to those of a topic.
pub(crate) const DOMAINS: Table = "domains";
/// Shorter than the hash of a domain.
pub(crate) const CRAWL: &[u8] = b"crawl";
/// As short.
pub(crate) const BIRTH: &[u8] = b"birth";
/// With the hash of a name it is longer.
const TOPIC: &[u8] = b"topic";
/// Pages that have a shared budget: those of the crawl, of a domain by the hash of its name, of a
/// topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Pages {
    Crawl,
    Domain(u64),
    Topic(TopicIndex),
}

/// All shares in play.
#[derive(Debug)]
pub(crate) struct Shares {
    /// The budget of each domain; 0: no limit.
    pages_per_domain: u64,
    /// The topics that have a budget.
    limited_topics: Vec<TopicIndex>,
    /// Those of them whose budget is used up.
    used_up: BTreeSet<TopicIndex>,
    /// URLs of each that wait or are in flight.
    topic_urls: BTreeMap<TopicIndex, u64>,
    pub(crate) requests: Requests<Pages>,
    /// Pages that this scheduler fetched since the crawl began.
    fetched: u64,
    /// Domains with URLs in flight, and topics with a budget, that this life has not entered yet.
    unentered: BTreeSet<Pages>,
    /// All schedulers have said what they have in hand, since partitions moved last.
    all_are_known: bool,
    /// The epoch of the birth has a row.
    is_born: bool,
    shares: HashMap<Pages, Share>,
    /// Servers in play of domains that have a budget: domain and server.
    servers: BTreeSet<(u64, ServerKey)>,
}

impl Shares {
    /// The shares of a scheduler, none in play but that of the crawl, when there are budgets, or no
    /// partition.
    pub(crate) fn open(
        settings: &Settings,
        (instance, epoch): (u16, u64),
        partitions: &[u16],
        store: &dyn Store,
    ) -> Result<Self, StoreError> {
        let born = stored(store, BIRTH)?;
        let fetched = stored(store, CRAWL)?.unwrap_or_default();
        let holder = Holder {
            instance,
            birth: born.unwrap_or(epoch),
        };
        let mut this = Shares {
            pages_per_domain: settings.limits.pages_per_domain,
            limited_topics: Vec::new(),
            used_up: BTreeSet::new(),
            topic_urls: BTreeMap::new(),
            requests: Requests::new(settings.schedulers.clone(), holder, epoch),
            fetched,
            unentered: BTreeSet::new(),
            all_are_known: false,
            is_born: born.is_some(),
            shares: HashMap::new(),
            servers: BTreeSet::new(),
        };
        let limit = |max: u64| if max > 0 { max } else { NO_LIMIT };
        let topics = settings.topics.names();
        for (index, name) in topics.filter(|(index, _)| *index != TopicIndex::OTHERS) {
            let max = limit(settings.topics.pages_max(index));
            let fetched = stored(store, &topic_key(name))?.unwrap_or_default();
            let share = Share::new(Quota::Topic(name.to_owned()), max, fetched);
            this.shares.insert(Pages::Topic(index), share);
            this.limited_topics
                .extend((max < NO_LIMIT).then_some(index));
            this.note_used_up(index);
        }
        if settings.limits.max_pages > 0 || this.has_parts() || partitions.is_empty() {
            let share = Share::new(Quota::Crawl, limit(settings.limits.max_pages), fetched);
            this.shares.insert(Pages::Crawl, share);
        }
        Ok(this)
    }

    /// Returns whether domains or topics have budgets.
    fn has_parts(&self) -> bool {
        self.pages_per_domain > 0 || !self.limited_topics.is_empty()
    }

    /// Has the ledgers asked what a new life asks: first what is in flight is entered, then the
    /// crawl's ledger is told.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        let has_in_flight =
            |(id, share): &(&Pages, &Share)| matches!(id, Pages::Domain(_)) && share.in_flight > 0;
        let domains = self.shares.iter().filter(has_in_flight).map(|(id, _)| *id);
        // What was fetched of a topic counts from the beginning of the crawl, and its budget may be
        // new.
        let topics = self.limited_topics.iter().map(|topic| Pages::Topic(*topic));
        self.unentered = domains.chain(topics).collect();
        for id in self.unentered.clone() {
            self.call_upon(id, now);
        }
        if self.unentered.is_empty() {
            self.call_upon(Pages::Crawl, now);
        }
    }

    /// Has all tokens go back that this scheduler has not spent, since it has no partition.
    pub(crate) fn give_all_back(
        &mut self,
        store: &dyn Store,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut domains = Vec::new();
        if self.pages_per_domain > 0 {
            store.scan(DOMAINS, &[], &[0xff; 9], &mut |key, row| {
                if let Some((Some(Quota::Domain(name)), _)) = budget_of(key, row) {
                    domains.push(name);
                }
                true
            })?;
        }
        for name in domains {
            let domain = fingerprint(&name);
            self.open_domain(store, domain, || name)?;
            self.call_upon(Pages::Domain(domain), now);
        }
        // Topics without a budget, too: they may get one when this scheduler is gone.
        let topics = self
            .shares
            .iter()
            .filter(|(id, share)| matches!(id, Pages::Topic(_)) && share.fetched > 0);
        for topic in topics.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.call_upon(topic, now);
        }
        Ok(())
    }

    /// Partitions have other owners. A life that is to have others itself has nothing more to say;
    /// nor has an old table.
    pub(crate) fn shared_by(&mut self, schedulers: Schedulers) {
        let before = &self.requests.schedulers;
        let is_news = schedulers != *before && schedulers.since >= before.since;
        if is_news && schedulers.uses_as(before) {
            self.all_are_known &=
                schedulers.since == before.since && schedulers.all() == before.all();
            self.requests.schedulers = schedulers;
            if !self.all_are_known {
                self.call_upon(Pages::Crawl, Timestamp::ZERO);
            }
        }
    }

    /// Returns whether no budget of a domain is in play.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.shares.keys().all(|id| !matches!(id, Pages::Domain(_)))
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
        let name = || registered_domain(host_of(server)).to_owned();
        self.open_domain(store, domain, name)?;
        self.servers.insert((domain, key));
        Ok(())
    }

    /// The share of a domain comes into play, if it is not.
    fn open_domain(
        &mut self,
        store: &dyn Store,
        domain: u64,
        name: impl FnOnce() -> String,
    ) -> Result<(), StoreError> {
        if let Entry::Vacant(place) = self.shares.entry(Pages::Domain(domain)) {
            let fetched = fetched_of(store, domain)?;
            let quota = Quota::Domain(name());
            place.insert(Share::new(quota, self.pages_per_domain, fetched));
        }
        Ok(())
    }

    /// A server leaves memory, and its domain with the last of them.
    pub(crate) fn leave(&mut self, key: ServerKey, domain: u64) {
        if self.servers.remove(&(domain, key)) {
            self.forget(domain);
        }
    }

    /// Lets a domain without servers in play leave memory. That does not happen while an answer is
    /// awaited: the answer to a later question could overtake it.
    fn forget(&mut self, domain: u64) {
        let id = Pages::Domain(domain);
        let is_asked = !self.requests.rests(id) || self.requests.get(id).is_called;
        if !is_asked && self.servers_of(domain).next().is_none() {
            self.shares.remove(&id);
            self.requests.forget(id);
        }
    }

    fn servers_of(&self, domain: u64) -> impl Iterator<Item = ServerKey> {
        let first = *ServerKey::all_of(0).start();
        let last = *ServerKey::all_of(u64::MAX).end();
        self.servers
            .range((domain, first)..=(domain, last))
            .map(|&(_, key)| key)
    }

    /// Notes what a server of a domain had in hand before, and has now.
    pub(crate) fn account(&mut self, domain: u64, had: Load, has: Load) {
        for id in [Pages::Crawl, Pages::Domain(domain)] {
            if let Some(share) = self.shares.get_mut(&id) {
                // URLs that wait for a larger budget need no tokens.
                let going = |load: Load| load.waiting - load.over_budget - load.trapped;
                share.waiting = share.waiting + going(has) - going(had);
                share.in_flight = share.in_flight + has.in_flight - had.in_flight;
            }
        }
    }

    /// Notes how many URLs of a topic a job had in flight before, and how many one has now.
    pub(crate) fn account_topics(&mut self, had: (TopicIndex, u64), has: (TopicIndex, u64)) {
        if let Some(share) = self.shares.get_mut(&Pages::Topic(had.0)) {
            share.in_flight -= had.1;
        }
        if let Some(share) = self.shares.get_mut(&Pages::Topic(has.0)) {
            share.in_flight += has.1;
        }
    }

    /// So many URLs of topics have come, or have ended.
    pub(crate) fn take_topic_urls(&mut self, changes: impl IntoIterator<Item = (TopicIndex, i64)>) {
        for (topic, change) in changes {
            let urls = self.topic_urls.entry(topic).or_default();
            *urls = urls.saturating_add_signed(change);
        }
        for topic in &self.limited_topics {
            let urls = self.topic_urls.get(topic).copied().unwrap_or_default();
            if let Some(share) = self.shares.get_mut(&Pages::Topic(*topic)) {
                share.waiting = if self.used_up.contains(topic) {
                    0
                } else {
                    urls.saturating_sub(share.in_flight)
                };
            }
        }
    }

    /// Notes when the budget of a topic is used up. Returns whether it was not yet.
    fn note_used_up(&mut self, topic: TopicIndex) -> bool {
        self.budget(Pages::Topic(topic)) == Budget::UsedUp && self.used_up.insert(topic)
    }

    /// The topics whose budget is used up.
    pub(crate) fn used_up(&self) -> &BTreeSet<TopicIndex> {
        &self.used_up
    }

    /// The topics that have a budget, with what is left of it.
    pub(crate) fn of_topics(&self) -> impl Iterator<Item = (TopicIndex, Budget)> {
        self.limited_topics
            .iter()
            .map(|topic| (*topic, self.budget(Pages::Topic(*topic))))
    }

    /// Counts a page of a domain and a topic. After the last one of a budget all servers are looked
    /// after that have it.
    pub(crate) fn fetched(&mut self, staged: &mut Staged<'_>, domain: u64, topic: TopicIndex) {
        self.fetched += 1;
        staged
            .rows
            .put(DOMAINS, CRAWL.to_vec(), write(self.fetched, ""));
        for id in [Pages::Crawl, Pages::Topic(topic), Pages::Domain(domain)] {
            let Some(share) = self.shares.get_mut(&id) else {
                continue;
            };
            share.fetched += 1;
            share.save(id, staged);
            match (id, share.budget()) {
                (Pages::Topic(topic), Budget::UsedUp) => {
                    staged.topics_used_up |= self.used_up.insert(topic);
                }
                (Pages::Domain(domain), Budget::UsedUp) => {
                    self.servers_of(domain).for_each(|key| staged.unsettle(key));
                }
                _ => {}
            }
        }
    }

    /// What is left of a budget; of a domain's while a server of it is in play.
    pub(crate) fn budget(&self, id: Pages) -> Budget {
        self.shares
            .get(&id)
            .map_or(Budget::UNLIMITED, Share::budget)
    }

    /// What is left of the budget of a domain that may not be in play.
    pub(crate) fn stored_domain(
        &self,
        store: &dyn Store,
        domain: u64,
    ) -> Result<Budget, StoreError> {
        if self.pages_per_domain == 0 || self.shares.contains_key(&Pages::Domain(domain)) {
            return Ok(self.budget(Pages::Domain(domain)));
        }
        let fetched = fetched_of(store, domain)?;
        Ok(Share::new(Quota::Crawl, self.pages_per_domain, fetched).budget())
    }
}

impl Share {
    /// Writes the pages that were fetched of it.
    fn save(&self, id: Pages, staged: &mut Staged<'_>) {
        let name = self.budget.name();
        let key = match id {
            // Its row is written for all that this scheduler fetched.
            Pages::Crawl => return,
            Pages::Domain(domain) => domain.to_be_bytes().to_vec(),
            Pages::Topic(_) => topic_key(name),
        };
        staged.rows.put(DOMAINS, key, write(self.fetched, name));
    }
}

/// Pages of a domain that this scheduler fetched.
fn fetched_of(store: &dyn Store, domain: u64) -> Result<u64, StoreError> {
    Ok(stored(store, &domain.to_be_bytes())?.unwrap_or_default())
}

/// The key of the row of a topic.
fn topic_key(name: &str) -> Vec<u8> {
    [TOPIC, &fingerprint(name).to_be_bytes()].concat()
}

/// The number in a row: pages fetched, or the epoch of the birth.
fn stored(store: &dyn Store, key: &[u8]) -> Result<Option<u64>, StoreError> {
    let row = store.get(DOMAINS, key)?;
    let read = |row: Vec<u8>| read(&row).ok_or_else(|| corrupt(DOMAINS, "a row is unreadable"));
    Ok(row.map(read).transpose()?.map(|(number, _)| number))
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

/// Reads a row of the table: a budget, and the pages that were fetched of it; or no budget, and the
/// epoch of the birth.
pub(crate) fn budget_of(key: &[u8], row: &[u8]) -> Option<(Option<Quota>, u64)> {
    let (number, name) = read(row)?;
    let budget = match key {
        BIRTH => None,
        CRAWL => Some(Quota::Crawl),
        _ if key.len() > TOPIC.len() + 7 => Some(Quota::Topic(name)),
        _ => Some(Quota::Domain(name)),
    };
    Some((budget, number))
}

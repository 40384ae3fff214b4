//! How shares ask the ledgers, and what they do with the answers.
//!
//! In: shares that are short, calls of other schedulers, answers of ledgers. Out: questions, and
//! calls upon other schedulers.

use super::{
    ASK_EVERY, BIRTH, DOMAINS, Id, LOOK_EVERY, QUESTIONS_MAX, Shares, fetched_of, topic_key, write,
};
use crate::budget::share::{NO_LIMIT, Question, Share};
use crate::keys::budget::Budget;
use crate::quota::Quota;
use crate::quota::ledger::{Claim, ClaimAnswer, Ledger, Takes};
use crate::step::staged::Staged;
use rhumb_stage::store::{Store, StoreError};
use rhumb_url::fingerprint;
use rhumb_url::time::Timestamp;

impl Shares {
    /// Notes that a job could be granted if the crawl had pages left.
    pub(crate) fn want_for_crawl(&mut self, now: Timestamp) {
        self.want(Id::Crawl, now);
    }

    /// Notes that a server waits for its domain to have pages left.
    pub(crate) fn want_for_domain(&mut self, now: Timestamp, domain: u64) {
        self.want(Id::Domain(domain), now);
    }

    /// Asks for pages for topics that have none left, and have URLs that wait.
    pub(crate) fn want_for_topics(&mut self, now: Timestamp) {
        for place in 0..self.limited_topics.len() {
            self.want(Id::Topic(self.limited_topics[place]), now);
        }
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

    /// Another scheduler has no token left of a budget. What is not needed here goes back.
    pub(crate) fn call(
        &mut self,
        now: Timestamp,
        budget: Quota,
        store: &dyn Store,
    ) -> Result<(), StoreError> {
        let Some(id) = self.id_of(&budget) else {
            return Ok(());
        };
        if let (Id::Domain(hash), false) = (
            id,
            self.shares.contains_key(&id) || self.pages_per_domain == 0,
        ) {
            self.shares.insert(
                id,
                Share::new(budget, self.pages_per_domain, fetched_of(store, hash)?),
            );
        }
        self.call_upon(id, now);
        Ok(())
    }

    /// How a budget is called here; none of a topic that is not known, or of a
    /// circle.
    fn id_of(&self, budget: &Quota) -> Option<Id> {
        match budget {
            Quota::Crawl => Some(Id::Crawl),
            Quota::Domain(domain) => Some(Id::Domain(fingerprint(domain))),
            Quota::Circle(_) => None,
            Quota::Topic(_) => {
                let is = |(id, share): &(&Id, &Share)| {
                    matches!(id, Id::Topic(_)) && share.budget == *budget
                };
                self.shares.iter().find(is).map(|(id, _)| *id)
            }
        }
    }

    /// The ledger is asked at that time, whether there is need or not.
    pub(super) fn call_upon(&mut self, id: Id, at: Timestamp) {
        let may_ask = self.may_ask(id);
        let Some(share) = self.shares.get_mut(&id) else {
            return;
        };
        share.called = true;
        if share.question != Question::Out && may_ask {
            if let Question::Due(earlier) = share.question {
                self.due.remove(&(earlier, id));
            }
            share.question = Question::Due(at);
            self.due.insert((at, id));
        }
    }

    /// Returns whether a ledger can be asked for something: before all are known, that of a domain
    /// or a topic only takes entries.
    fn may_ask(&self, id: Id) -> bool {
        self.all_are_known || id == Id::Crawl || self.unentered.contains(&id)
    }

    /// The schedulers that say what they have in hand: without any budget nobody does.
    fn known(&self) -> Vec<u16> {
        let has_limit = |share: &Share| share.max < NO_LIMIT || self.has_parts();
        if self.shares.get(&Id::Crawl).is_some_and(has_limit) {
            self.schedulers.all()
        } else {
            Vec::new()
        }
    }

    /// URLs that need tokens of a budget.
    fn needing(&self, id: Id) -> u64 {
        let share = self.shares.get(&id);
        if share.is_none_or(|share| share.max == NO_LIMIT) {
            return 0;
        }
        let waiting = share.map_or(0, |share| share.waiting);
        if id != Id::Crawl || !self.has_parts() {
            return waiting;
        }
        // Only URLs that have a token of their domain, or of their topic.
        let parts = self
            .shares
            .iter()
            .filter(|(id, share)| **id != Id::Crawl && share.max < NO_LIMIT);
        let mut have = 0;
        let mut of_parts = 0;
        for (_, share) in parts {
            have += share.waiting.min(share.budget().left());
            of_parts += share.waiting;
        }
        // Every URL has a domain; not every one has a topic with a budget.
        if self.pages_per_domain > 0 {
            have
        } else {
            have + waiting.saturating_sub(of_parts)
        }
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
            let Some(share) = self.shares.get_mut(&id) else {
                continue;
            };
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
        let says_all = matches!(id, Id::Topic(_)) || id == Id::Crawl && self.unentered.is_empty();
        let since = if says_all { self.schedulers.since } else { 0 };
        let known = if matches!(id, Id::Domain(_)) {
            Vec::new()
        } else {
            self.known()
        };
        let may_change = if id == Id::Crawl {
            since > 0 && !self.schedulers.gives
        } else {
            self.all_are_known
        };
        let Some(share) = self.shares.get_mut(&id) else {
            return;
        };
        share.question = Question::Out;
        if may_change {
            share.called = false;
            share.tokens = share.tokens.min(share.spent() + waiting);
        }
        if !std::mem::replace(&mut self.is_born, true) {
            staged
                .rows
                .put(DOMAINS, BIRTH.to_vec(), write(self.holder.birth, ""));
        }
        let key = match id {
            Id::Crawl => None,
            Id::Domain(domain) => Some(domain.to_be_bytes().to_vec()),
            Id::Topic(_) => Some(topic_key(share.budget.name())),
        };
        if let (Some(key), false) = (key, share.has_row) {
            staged
                .rows
                .put(DOMAINS, key, write(share.fetched, share.budget.name()));
            share.has_row = true;
        }
        self.out += 1;
        let wanted = share.spent() + waiting;
        staged.messages.claim(Claim {
            quota: share.budget.clone(),
            max: share.max,
            holder: self.holder,
            epoch: self.epoch,
            number: 0,
            spent: share.fetched,
            in_use: share.in_flight,
            counts_on: share.tokens,
            wanted,
            keeps: wanted,
            takes: Takes::Blocks {
                schedulers: self.schedulers.count,
            },
            may_change,
            known,
            since,
            gone: Vec::new(),
        });
    }

    /// The time when there is something to be asked.
    pub(crate) fn ask_at(&self) -> Option<Timestamp> {
        self.due
            .first()
            .filter(|_| self.out < QUESTIONS_MAX)
            .map(|&(at, _)| at)
    }

    /// Takes an answer of the ledger. Returns the domain that has room now, if the budget is a
    /// domain's.
    pub(crate) fn answered(
        &mut self,
        answer: &ClaimAnswer,
        staged: &mut Staged<'_>,
    ) -> Option<u64> {
        let now = staged.now;
        self.out = self.out.saturating_sub(1);
        let id = self.id_of(&answer.claim.quota)?;
        let share = self.shares.get_mut(&id)?;
        share.question = Question::None;
        let Some(ledger) = &answer.ledger else {
            // What was to be said was not heard, and what was to go back has not gone.
            self.call_upon(id, now + ASK_EVERY);
            return None;
        };
        share.elsewhere = ledger.spent_elsewhere(self.holder);
        let may_change = ledger.may_change(&answer.claim);
        if may_change {
            share.tokens = ledger.held(self.holder);
        }
        self.hear(
            id,
            may_change && answer.claim.since == self.schedulers.since,
            now,
        );
        self.ask_again(id, ledger, staged);
        if let Id::Topic(topic) = id {
            staged.topics_used_up |= self.note_used_up(topic);
        }
        let Id::Domain(domain) = id else { return None };
        let budget = self.domain(domain);
        if budget == Budget::UsedUp {
            self.servers_of(domain).for_each(|key| staged.unsettle(key));
        }
        self.forget(domain);
        matches!(budget, Budget::Left(_)).then_some(domain)
    }

    /// What an answer says of the other schedulers: once all are known, the ledgers of domains are
    /// asked.
    fn hear(&mut self, id: Id, all_are_known: bool, now: Timestamp) {
        if id == Id::Crawl {
            if all_are_known && !std::mem::replace(&mut self.all_are_known, true) {
                let asks =
                    |(id, share): (&Id, &Share)| (share.is_short() || share.called).then_some(*id);
                let ids: Vec<_> = self
                    .shares
                    .iter()
                    .filter_map(asks)
                    .filter(|id| *id != Id::Crawl)
                    .collect();
                ids.into_iter().for_each(|id| self.call_upon(id, now));
            }
        } else if self.unentered.remove(&id) && self.unentered.is_empty() {
            self.call_upon(Id::Crawl, now);
        }
    }

    /// Asks again when something is missing, and calls upon those that may have it.
    fn ask_again(&mut self, id: Id, ledger: &Ledger, staged: &mut Staged<'_>) {
        let now = staged.now;
        let is_unknown = id == Id::Crawl && !self.all_are_known;
        let may_ask = self.may_ask(id);
        let known = self.known();
        let Some(share) = self.shares.get_mut(&id) else {
            return;
        };
        if !may_ask
            || share.question != Question::None
            || !(share.is_short() || share.called || is_unknown)
        {
            return;
        }
        if share.call_at <= now {
            share.call_at = now + ASK_EVERY;
            let known = if is_unknown || matches!(id, Id::Topic(_)) {
                known
            } else {
                Vec::new()
            };
            let holders = ledger
                .holders_elsewhere(self.holder)
                .filter(|_| share.is_short());
            let silent = ledger.silent(self.holder.instance, &known, self.schedulers.since);
            // One without partitions gives back by itself.
            for partition in holders
                .chain(silent)
                .filter_map(|other| self.schedulers.partition_of(other))
            {
                staged.messages.errand(partition, share.budget.call());
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

//! How shares ask the ledgers, and what they do with the answers.
//!
//! In: shares that are short, calls of other schedulers, answers of ledgers. Out: claims, and calls
//! upon other schedulers.

use super::{BIRTH, DOMAINS, Pages, Shares, write};
use crate::budget::share::{NO_LIMIT, Share};
use crate::keys::budget::Budget;
use crate::quota::Quota;
use crate::quota::ledger::{Claim, ClaimAnswer, Ledger, Takes};
use crate::quota::requests::{ASK_EVERY, Requests};
use crate::step::staged::Staged;
use rhumb_stage::store::{Store, StoreError};
use rhumb_url::fingerprint;
use rhumb_url::time::Timestamp;
use std::time::Duration;

/// Wait between two looks whether all schedulers have said what they have in hand.
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl Shares {
    /// Asks for pages for topics that have none left, and have URLs that wait.
    pub(crate) fn want_for_topics(&mut self, now: Timestamp) {
        for place in 0..self.limited_topics.len() {
            self.want(now, Pages::Topic(self.limited_topics[place]));
        }
    }

    /// Notes that there is use for pages of a budget, if none is left here.
    pub(crate) fn want(&mut self, now: Timestamp, id: Pages) {
        let is_short = self.shares.get(&id).is_some_and(Share::is_short);
        if is_short && self.may_ask(id) && self.requests.rests(id) {
            self.requests.look(id, now);
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
        if let (Pages::Domain(domain), Quota::Domain(name)) = (id, budget)
            && self.pages_per_domain > 0
        {
            self.open_domain(store, domain, || name)?;
        }
        self.call_upon(id, now);
        Ok(())
    }

    /// How a budget is called here; none of a topic that is not known, or of what is no pages.
    fn id_of(&self, budget: &Quota) -> Option<Pages> {
        match budget {
            Quota::Crawl => Some(Pages::Crawl),
            Quota::Domain(domain) => Some(Pages::Domain(fingerprint(domain))),
            Quota::Circle(_) | Quota::Visits(_) => None,
            Quota::Topic(_) => {
                let mut shares = self.shares.iter();
                let of_budget = shares.find(|(_, share)| share.budget == *budget);
                of_budget.map(|(id, _)| *id)
            }
        }
    }

    /// The ledger is asked at that time, whether there is need or not.
    pub(super) fn call_upon(&mut self, id: Pages, at: Timestamp) {
        if !self.shares.contains_key(&id) {
            return;
        }
        self.requests.get_mut(id).is_called = true;
        if self.may_ask(id) && self.requests.get(id).asked.is_none() {
            self.requests.look(id, at);
        }
    }

    /// Returns whether a ledger can be asked for something: before all are known, that of a domain
    /// or a topic only takes entries.
    fn may_ask(&self, id: Pages) -> bool {
        self.all_are_known || id == Pages::Crawl || self.unentered.contains(&id)
    }

    /// Returns whether a ledger has to be asked: something is missing here, or with another
    /// scheduler, or not all have said what they have in hand.
    fn has_to_ask(&self, id: Pages) -> bool {
        self.shares.get(&id).is_some_and(Share::is_short)
            || self.requests.get(id).is_called
            || self.waits_for_others(id)
    }

    fn waits_for_others(&self, id: Pages) -> bool {
        id == Pages::Crawl && !self.all_are_known
    }

    /// The schedulers that say what they have in hand: without any budget nobody does.
    fn known(&self) -> Vec<u16> {
        let crawl = self.shares.get(&Pages::Crawl);
        if crawl.is_some_and(|share| share.max < NO_LIMIT || self.has_parts()) {
            self.requests.schedulers.all()
        } else {
            Vec::new()
        }
    }

    /// URLs that need tokens of a budget.
    fn needing(&self, id: Pages) -> u64 {
        let share = self.shares.get(&id).filter(|share| share.max < NO_LIMIT);
        let waiting = share.map_or(0, |share| share.waiting);
        if id != Pages::Crawl || share.is_none() || !self.has_parts() {
            return waiting;
        }
        // Only URLs that have a token of their domain, or of their topic.
        let mut have = 0;
        let mut of_parts = 0;
        for (id, share) in &self.shares {
            if *id != Pages::Crawl && share.max < NO_LIMIT {
                have += share.waiting.min(share.budget().left());
                of_parts += share.waiting;
            }
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
        while let Some(id) = self.requests.next(staged.now) {
            if self.has_to_ask(id) && self.requests.get(id).asked.is_none() {
                self.question(id, staged);
            } else if let Pages::Domain(domain) = id {
                self.forget(domain);
            }
        }
    }

    fn question(&mut self, id: Pages, staged: &mut Staged<'_>) {
        let waiting = self.needing(id);
        let is_of_domain = matches!(id, Pages::Domain(_));
        let known = if is_of_domain {
            Vec::new()
        } else {
            self.known()
        };
        let Requests {
            schedulers, holder, ..
        } = &self.requests;
        // The crawl's ledger is told when those of the domains have been.
        let says_all = !is_of_domain && (id != Pages::Crawl || self.unentered.is_empty());
        let since = if says_all { schedulers.since } else { 0 };
        let may_change = if id == Pages::Crawl {
            since > 0 && !schedulers.gives
        } else {
            self.all_are_known
        };
        let takes = Takes::Blocks {
            schedulers: schedulers.count,
        };
        let birth = holder.birth;
        let Some(share) = self.shares.get_mut(&id) else {
            return;
        };
        if !std::mem::replace(&mut self.is_born, true) {
            staged.rows.put(DOMAINS, BIRTH.to_vec(), write(birth, ""));
        }
        // The crawl's row is written with each page.
        if id != Pages::Crawl && !std::mem::replace(&mut share.has_row, true) {
            share.save(id, staged);
        }
        let wanted = share.spent() + waiting;
        if may_change {
            self.requests.get_mut(id).is_called = false;
            share.tokens = share.tokens.min(wanted);
        }
        staged.messages.claim(Claim {
            max: share.max,
            // Others know by what it says of all pages that it lives.
            number: 0,
            spent: share.fetched,
            in_use: share.in_flight,
            counts_on: share.tokens,
            wanted,
            keeps: wanted,
            takes,
            may_change,
            known,
            since,
            ..self.requests.claim(id, share.budget.clone(), staged.now)
        });
    }

    /// Takes an answer of the ledger. Returns the domain that has room now, if the budget is a
    /// domain's.
    pub(crate) fn answered(
        &mut self,
        answer: &ClaimAnswer,
        staged: &mut Staged<'_>,
    ) -> Option<u64> {
        let now = staged.now;
        let claim = &answer.claim;
        let id = self.id_of(&claim.quota)?;
        let is_heard = answer.ledger.is_some();
        self.requests.answered(id, is_heard, now);
        let Some(ledger) = &answer.ledger else {
            // What was to be said was not heard, and what was to go back has not gone.
            self.requests.get_mut(id).is_called = true;
            return None;
        };
        let share = self.shares.get_mut(&id)?;
        share.elsewhere = ledger.spent_elsewhere(claim.holder);
        let may_change = ledger.may_change(claim);
        if may_change {
            share.tokens = ledger.held(claim.holder);
        }
        let is_new = claim.since == self.requests.schedulers.since;
        self.hear(id, may_change && is_new, now);
        self.ask_again(id, ledger, staged);
        if let Pages::Topic(topic) = id {
            staged.topics_used_up |= self.note_used_up(topic);
        }
        let Pages::Domain(domain) = id else {
            return None;
        };
        let budget = self.budget(id);
        if budget == Budget::UsedUp {
            self.servers_of(domain).for_each(|key| staged.unsettle(key));
        }
        self.forget(domain);
        matches!(budget, Budget::Left(_)).then_some(domain)
    }

    /// What an answer says of the other schedulers: once all are known, the ledgers of domains are
    /// asked.
    fn hear(&mut self, id: Pages, all_are_known: bool, now: Timestamp) {
        if id != Pages::Crawl {
            if self.unentered.remove(&id) && self.unentered.is_empty() {
                self.call_upon(Pages::Crawl, now);
            }
        } else if all_are_known && !std::mem::replace(&mut self.all_are_known, true) {
            let ids = self.shares.keys().copied();
            let ask = ids.filter(|id| *id != Pages::Crawl && self.has_to_ask(*id));
            for id in ask.collect::<Vec<_>>() {
                self.call_upon(id, now);
            }
        }
    }

    /// Asks again when something is missing, and calls upon those that may have it.
    fn ask_again(&mut self, id: Pages, ledger: &Ledger, staged: &mut Staged<'_>) {
        if !self.may_ask(id) || !self.requests.rests(id) || !self.has_to_ask(id) {
            return;
        }
        let now = staged.now;
        let waits = self.waits_for_others(id);
        let known = if waits || matches!(id, Pages::Topic(_)) {
            self.known()
        } else {
            Vec::new()
        };
        let Some(share) = self.shares.get(&id) else {
            return;
        };
        let holder = self.requests.holder;
        let since = self.requests.schedulers.since;
        let holders = ledger
            .holders_elsewhere(holder)
            .filter(|_| share.is_short());
        let silent = ledger.silent(holder.instance, &known, since);
        let others = holders.chain(silent);
        let calls = self.requests.calls(id, &share.budget, others, now);
        staged.messages.errands(calls);
        let wait = match self.requests.get(id).is_called {
            _ if waits => LOOK_EVERY,
            true => Duration::ZERO,
            false => ASK_EVERY,
        };
        self.requests.look(id, now + wait);
    }
}

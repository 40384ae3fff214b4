//! Requests: how a scheduler asks the ledgers of quotas, and calls upon other schedulers.
//!
//! In: when a quota is to be looked at, answers of ledgers, calls of other schedulers. Out: quotas
//! whose time it is, claims, calls. Whoever has use for a quota (pages, jobs, requests a second)
//! knows how much, and looks at it here: it claims what is missing, and what nobody needs here goes
//! back.
//!
//! Invariants: one question about a quota is out at a time, and [`QUESTIONS_MAX`] about all;
//! schedulers that both lack tokens call each other every [`ASK_EVERY`] and not more often.

use crate::keys::schedulers::Schedulers;
use crate::quota::Quota;
use crate::quota::ledger::{Claim, Holder, Takes};
use foldhash::{HashMap, HashMapExt as _};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Errand;
use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::Duration;

/// Wait between two questions for tokens, when there were none.
pub(crate) const ASK_EVERY: Duration = Duration::from_secs(1);
/// Questions that are out at once, at most.
const QUESTIONS_MAX: usize = 256;

/// How a scheduler stands with one ledger.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request {
    /// When the quota is looked at next.
    due: Option<Timestamp>,
    /// When the question was asked that is out.
    pub(crate) asked: Option<Timestamp>,
    /// Nothing is asked before then: the last question was not answered.
    pub(crate) retry_at: Timestamp,
    /// Another scheduler has called for tokens: it has none left.
    pub(crate) is_called: bool,
    /// The others are not called upon before then.
    call_at: Timestamp,
}

/// The questions of a scheduler about quotas of one kind, which it calls by `Id`.
#[derive(Debug)]
pub(crate) struct Requests<Id> {
    /// Those that divide the quotas.
    pub(crate) schedulers: Schedulers,
    pub(crate) holder: Holder,
    /// Under which the ledgers are asked: they take nothing from an earlier one.
    pub(crate) epoch: u64,
    requests: HashMap<Id, Request>,
    due: BTreeSet<(Timestamp, Id)>,
    /// Questions that are out.
    out: usize,
    /// Claims so far.
    claims: u64,
}

impl<Id: Copy + Eq + Hash + Ord> Requests<Id> {
    pub(crate) fn new(schedulers: Schedulers, holder: Holder, epoch: u64) -> Self {
        Requests {
            schedulers,
            holder,
            epoch,
            requests: HashMap::new(),
            due: BTreeSet::new(),
            out: 0,
            claims: 0,
        }
    }

    /// How the scheduler stands with a ledger.
    pub(crate) fn get(&self, id: Id) -> Request {
        self.requests.get(&id).copied().unwrap_or_default()
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, id: Id) -> &mut Request {
        self.requests.entry(id).or_default()
    }

    /// Returns whether a quota is not to be looked at, and no question about it is out.
    pub(crate) fn rests(&self, id: Id) -> bool {
        let request = self.get(id);
        request.due.is_none() && request.asked.is_none()
    }

    /// Returns whether all rest.
    pub(crate) fn all_rest(&self) -> bool {
        self.due.is_empty() && self.out == 0
    }

    /// Has a quota looked at then, if not earlier.
    pub(crate) fn look(&mut self, id: Id, at: Timestamp) {
        let request = self.requests.entry(id).or_default();
        if request.due.is_none_or(|earlier| earlier > at) {
            if let Some(later) = request.due.replace(at) {
                self.due.remove(&(later, id));
            }
            self.due.insert((at, id));
        }
    }

    /// Has a quota looked at then because another scheduler has called for tokens.
    pub(crate) fn call(&mut self, id: Id, at: Timestamp) {
        self.get_mut(id).is_called = true;
        self.look(id, at);
    }

    /// When a quota is to be looked at.
    pub(crate) fn look_at(&self) -> Option<Timestamp> {
        let may_ask = self.out < QUESTIONS_MAX;
        self.due.first().filter(|_| may_ask).map(|&(at, _)| at)
    }

    /// The next quota to be looked at by now.
    pub(crate) fn next(&mut self, now: Timestamp) -> Option<Id> {
        self.look_at().filter(|at| *at <= now)?;
        let (_, id) = self.due.pop_first()?;
        self.get_mut(id).due = None;
        Some(id)
    }

    /// Forgets a quota that nobody has use for.
    pub(crate) fn forget(&mut self, id: Id) {
        if let Some(at) = self.requests.remove(&id).and_then(|request| request.due) {
            self.due.remove(&(at, id));
        }
    }

    /// A question is out from now on: a claim that has to be filled in with what is needed.
    pub(crate) fn claim(&mut self, id: Id, quota: Quota, now: Timestamp) -> Claim {
        self.get_mut(id).asked = Some(now);
        self.out += 1;
        self.claims += 1;
        Claim {
            quota,
            max: 0,
            holder: self.holder,
            epoch: self.epoch,
            number: self.claims,
            spent: 0,
            in_use: 0,
            counts_on: 0,
            wanted: 0,
            keeps: 0,
            takes: Takes::Missing,
            may_change: false,
            known: Vec::new(),
            since: 0,
            gone: Vec::new(),
        }
    }

    /// The question is answered, or not. Gives when it was asked; none of one that is not out.
    pub(crate) fn answered(&mut self, id: Id, is_heard: bool, now: Timestamp) -> Option<Timestamp> {
        self.out = self.out.saturating_sub(1);
        let asked = self.requests.get_mut(&id)?.asked.take();
        if !is_heard {
            self.get_mut(id).retry_at = now + ASK_EVERY;
            self.look(id, now + ASK_EVERY);
        }
        asked
    }

    /// The calls upon other schedulers to give back what they do not need of a quota; none while
    /// the last ones are new. One without partitions cannot be called: it gives back by itself, or
    /// what it holds is taken from it.
    pub(crate) fn calls(
        &mut self,
        id: Id,
        quota: &Quota,
        others: impl Iterator<Item = u16>,
        now: Timestamp,
    ) -> Vec<(u16, Errand)> {
        let request = self.get_mut(id);
        if request.call_at > now {
            return Vec::new();
        }
        request.call_at = now + ASK_EVERY;
        others
            .filter_map(|other| self.schedulers.partition_of(other))
            .map(|partition| (partition, Errand::Quota { key: quota.key() }))
            .collect()
    }
}

#[cfg(test)]
mod tests;

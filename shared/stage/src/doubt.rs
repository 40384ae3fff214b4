//! Doubt: whether what fails is ours.
//!
//! In: how contacts ended, of a fetcher with servers, of a resolver with names. Out: whether a
//! failure may be held against whom it happened with; when the next contact may be tried.
//!
//! When a contact fails, the other side is at fault. When contacts with many different parties fail
//! in a row and none succeeds, what they have in common is more likely at fault: the network here.
//! Then there is doubt, and nobody is judged: what fails is withheld, and tried again one at a
//! time, which is enough to notice that the network is back. Doubt ends with the first success; it
//! also ends after a limit, since a list of dead hosts must end (P6), and does not come back before
//! something has succeeded.
//!
//! **Silence is no verdict while nothing has ever been heard.** A young crawl knows few parties. So
//! the first that is silent raises doubt, unless something has come before: in this life, or in the
//! crawl as far as the process was told. Whatever comes ends that doubt, a refusal too: then the
//! way is there, and the party is at fault.
//!
//! A refusal is an answer, but none that shows that the network works: one that is broken may
//! refuse for all. So refusals are evidence like silence once something has succeeded. Before, a
//! list of wrong ports is a list of wrong ports.
//!
//! A party is evidence once. One that failed while others could be reached is known to fail: so the
//! dead hosts that are left at the end of a healthy crawl raise no doubt. When the network breaks,
//! answers are still on their way, and contacts under way fail although others began later and were
//! answered. Two rules keep these parties evidence:
//!
//! - an answer says that the network worked when its contact began, so it counts against failures
//!   that began before that;
//! - one that has answered before is known to fail with the second such failure in a row.
//!
//! Invariant: what is remembered is bounded (P6); the oldest is forgotten first.

use crate::Count;
use rhumb_url::fingerprint;
use rhumb_url::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::time::Duration;

/// Different parties that have to fail in a row, with no success in between.
pub const PARTIES: usize = 8;
/// Parties that are remembered.
const REMEMBERED_MAX: usize = 10_000;
/// How long the next contact waits after one failed, while there is doubt.
pub const TRY_EVERY: Duration = Duration::from_secs(1);

/// How a contact failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing came from the other side.
    Silence,
    /// Something came that is no success: a refused connection, a broken one, an answer that does
    /// not help.
    Refusal,
}

/// What is known of contacts when a process begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// None has succeeded yet, as far as anybody knows.
    Unknown,
    /// Some have succeeded, in an earlier life or another process of the crawl.
    Successful,
}

/// What a failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is held against whom it happened with.
    Counts,
    /// It may be ours.
    Withheld {
        /// Doubt begins with it.
        begins: bool,
    },
}

/// Whether what fails is ours.
#[derive(Debug)]
pub struct Doubt {
    /// How long it lasts at most.
    max: Duration,
    /// Parties that failed since the last success and are news; no more than are needed.
    failing: BTreeSet<u64>,
    /// Parties that failed, and when that contact began: none that began later has succeeded yet.
    unsettled: BTreeMap<u64, Timestamp>,
    /// Parties that failed while others could be reached.
    known: Parties,
    /// Parties that answered, and have not failed since while others could be reached.
    answering: Parties,
    /// When the last contact began that succeeded.
    worked_at: Option<Timestamp>,
    /// A contact has succeeded, in this life or before.
    has_worked: bool,
    /// Something has come from a party, if only a refusal, in this life or before.
    has_heard: bool,
    /// When doubt began that nothing has ended.
    since: Option<Timestamp>,
    /// No contact is tried earlier while there is doubt.
    try_at: Timestamp,
    /// The time of the last look.
    looked_at: Timestamp,
    /// There was doubt at the last look.
    was_on: bool,
    begun: u64,
    withheld: u64,
}

impl Doubt {
    /// No doubt; when it comes it lasts `max` at most.
    pub fn new(max: Duration, past: Past) -> Self {
        let has_worked = past == Past::Successful;
        Doubt {
            max,
            has_worked,
            has_heard: has_worked,
            failing: BTreeSet::new(),
            unsettled: BTreeMap::new(),
            known: Parties::default(),
            answering: Parties::default(),
            worked_at: None,
            since: None,
            try_at: Timestamp::ZERO,
            looked_at: Timestamp::ZERO,
            was_on: false,
            begun: 0,
            withheld: 0,
        }
    }

    /// A contact with `party` failed that began at `began`. One that ended with a refusal was
    /// [`heard`](Self::heard) of.
    pub fn failed(
        &mut self,
        now: Timestamp,
        began: Timestamp,
        party: &str,
        failure: Failure,
    ) -> Verdict {
        if failure == Failure::Refusal && !self.has_worked {
            return Verdict::Counts;
        }
        let party = fingerprint(party);
        if self.worked_at.is_some_and(|at| at > began) {
            self.failed_alone(party);
        } else if !self.known.contains(party) {
            if self.unsettled.len() < REMEMBERED_MAX {
                self.unsettled.insert(party, began);
            }
            if self.failing.len() < PARTIES {
                self.failing.insert(party);
            }
        }
        let is_reason = !self.has_heard || self.failing.len() >= PARTIES;
        let begins = self.since.is_none() && is_reason && !self.max.is_zero();
        if begins {
            self.since = Some(now);
            self.was_on = true;
            self.begun += 1;
        }
        if !self.is_on(now) {
            return Verdict::Counts;
        }
        self.withheld += 1;
        self.try_at = now + TRY_EVERY;
        Verdict::Withheld { begins }
    }

    /// Something came from a party, whatever it is. Returns how long the doubt has lasted that ends
    /// with that: only one in which nothing had ever come before.
    pub fn heard(&mut self, now: Timestamp) -> Option<Duration> {
        let is_first = !std::mem::replace(&mut self.has_heard, true);
        // One that has lasted long enough is over, and does not come back before something has
        // succeeded.
        if !is_first || !self.is_on(now) {
            return None;
        }
        self.failing.clear();
        self.end(now)
    }

    /// A contact with `party` succeeded that began at `began`. Returns how long the doubt has
    /// lasted that ends with that: none ends with an answer that was on its way before, unless it
    /// is the first that ever came.
    pub fn succeeded(&mut self, now: Timestamp, began: Timestamp, party: &str) -> Option<Duration> {
        let lasted = self.heard(now);
        self.has_worked = true;
        self.worked_at = self.worked_at.max(Some(began));
        self.failing.clear();
        let mut settled = Vec::new();
        self.unsettled.retain(|&party, at| {
            let is_settled = *at <= began;
            settled.extend(is_settled.then_some(party));
            !is_settled
        });
        settled
            .into_iter()
            .for_each(|party| self.failed_alone(party));
        let party = fingerprint(party);
        self.known.remove(party);
        self.answering.insert(party);
        if self.since.is_some_and(|since| began < since) {
            return None;
        }
        lasted.or_else(|| self.end(now))
    }

    /// Ends doubt. Returns how long it has lasted, if there is any.
    fn end(&mut self, now: Timestamp) -> Option<Duration> {
        self.was_on = false;
        let since = self.since(now);
        self.since = None;
        since.map(|since| now.since(since))
    }

    /// A party failed while others could be reached.
    fn failed_alone(&mut self, party: u64) {
        if !self.answering.remove(party) {
            self.known.insert(party);
        }
    }

    /// Takes a look at the time. Returns whether doubt has ended since the last look because it has
    /// lasted long enough.
    pub fn look(&mut self, now: Timestamp) -> bool {
        self.looked_at = now;
        let is_over = self.was_on && !self.is_on(now);
        self.was_on &= !is_over;
        is_over
    }

    /// Returns whether a contact may be tried now, when none is under way.
    pub fn may_try(&self, now: Timestamp) -> bool {
        !self.is_on(now) || now >= self.try_at
    }

    /// While there is doubt no contact is tried earlier.
    pub fn try_at(&self) -> Timestamp {
        self.try_at
    }

    /// When to look again although nothing came: when doubt is over, and when the next contact may
    /// be tried, if one is `wanted`.
    pub fn wake_at(&self, wanted: bool) -> Option<Timestamp> {
        let until = self.until().filter(|_| self.was_on)?;
        let try_at = Some(self.try_at).filter(|&at| wanted && at > self.looked_at);
        Some(try_at.map_or(until, |at| at.min(until)))
    }

    /// Returns whether there is doubt now.
    pub fn is_on(&self, now: Timestamp) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// When doubt began, if there is any now.
    pub fn since(&self, now: Timestamp) -> Option<Timestamp> {
        self.since.filter(|_| self.is_on(now))
    }

    /// When the doubt began that there was at the last look.
    pub fn began(&self) -> Option<Timestamp> {
        self.since.filter(|_| self.was_on)
    }

    /// When doubt ends, or has ended, because it has lasted long enough.
    pub fn until(&self) -> Option<Timestamp> {
        self.since.map(|since| since + self.max)
    }

    /// Its numbers.
    pub fn counts(&self) -> [Count; 3] {
        [
            ("in_doubt", u64::from(self.was_on)),
            ("doubts_total", self.begun),
            ("withheld_total", self.withheld),
        ]
    }
}

/// Fingerprints of parties, the oldest first.
#[derive(Debug, Default)]
struct Parties {
    all: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Parties {
    fn contains(&self, party: u64) -> bool {
        self.all.contains(&party)
    }

    fn insert(&mut self, party: u64) {
        if self.all.insert(party) {
            self.order.push_back(party);
        }
        while self.order.len() > REMEMBERED_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.all.remove(&oldest);
            }
        }
    }

    /// Returns whether it was there.
    fn remove(&mut self, party: u64) -> bool {
        let was_there = self.all.remove(&party);
        if was_there {
            self.order.retain(|&other| other != party);
        }
        was_there
    }
}

#[cfg(test)]
mod tests;

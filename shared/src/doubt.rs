//! Doubt: whether what fails is ours.
//!
//! In: how contacts ended, of a fetcher with servers, of a resolver with names. Out: whether a failure may be held against
//! whom it happened with; when the next contact may be tried.
//!
//! When a contact fails, the other side is at fault. When contacts with many different parties fail in a row and none
//! succeeds, what they have in common is more likely at fault: the network here. Then there is doubt, and nobody is
//! judged: what fails is withheld, and tried again one at a time, which is enough to notice that the network is back.
//! Doubt ends with the first success; it also ends after a limit, since a list of dead hosts must end (P6), and does not
//! come back before something has succeeded.
//!
//! A party is evidence once. One that failed while others could be reached is known to fail: so the dead hosts that are
//! left at the end of a healthy crawl raise no doubt. When the network breaks, answers are still on their way, and contacts
//! under way fail although others began later and were answered. Two rules keep these parties evidence:
//!
//! - an answer says that the network worked when its contact began, so it counts against failures that began before that;
//! - one that has answered before is known to fail with the second such failure in a row.
//!
//! Invariant: what is remembered is bounded (P6); the oldest is forgotten first.

use crate::stage::Count;
use crate::time::Timestamp;
use crate::url::fingerprint;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::time::Duration;

/// Different parties that have to fail in a row, with no success in between.
pub const PARTIES: usize = 8;
/// Parties that are remembered.
const REMEMBERED_MAX: usize = 10_000;
/// How long the next contact waits after one failed, while there is doubt.
pub const TRY_EVERY: Duration = Duration::from_secs(1);

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
    /// When doubt began that no success has ended.
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
    pub fn new(max: Duration) -> Self {
        Doubt {
            max,
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

    /// A contact with `party` failed that began at `began`.
    pub fn failed(&mut self, now: Timestamp, began: Timestamp, party: &str) -> Verdict {
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
        let begins = self.since.is_none() && self.failing.len() >= PARTIES && !self.max.is_zero();
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

    /// A contact with `party` succeeded that began at `began`. Returns how long the doubt has lasted that ends with that:
    /// none ends with an answer that was on its way before.
    pub fn succeeded(&mut self, now: Timestamp, began: Timestamp, party: &str) -> Option<Duration> {
        self.worked_at = self.worked_at.max(Some(began));
        self.failing.clear();
        let mut settled = Vec::new();
        self.unsettled.retain(|&party, at| {
            let is_settled = *at <= began;
            settled.extend(is_settled.then_some(party));
            !is_settled
        });
        settled.into_iter().for_each(|party| self.failed_alone(party));
        let party = fingerprint(party);
        self.known.remove(party);
        self.answering.insert(party);
        if self.since.is_some_and(|since| began < since) {
            return None;
        }
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

    /// Takes a look at the time. Returns whether doubt has ended since the last look because it has lasted long enough.
    pub fn look(&mut self, now: Timestamp) -> bool {
        self.looked_at = now;
        let is_over = self.was_on && !self.is_on(now);
        self.was_on &= !is_over;
        is_over
    }

    /// Says whether a contact may be tried now, when none is under way.
    pub fn may_try(&self, now: Timestamp) -> bool {
        !self.is_on(now) || now >= self.try_at
    }

    /// While there is doubt no contact is tried earlier.
    pub fn try_at(&self) -> Timestamp {
        self.try_at
    }

    /// When to look again although nothing came: when doubt is over, and when the next contact may be tried, if one is
    /// `wanted`.
    pub fn wake_at(&self, wanted: bool) -> Option<Timestamp> {
        let until = self.until().filter(|_| self.was_on)?;
        let try_at = Some(self.try_at).filter(|&at| wanted && at > self.looked_at);
        Some(try_at.map_or(until, |at| at.min(until)))
    }

    /// Says whether there is doubt now.
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
        [("in_doubt", u64::from(self.was_on)), ("doubts_total", self.begun), ("withheld_total", self.withheld)]
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX: Duration = Duration::from_secs(600);

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    /// A contact fails that took no time. Says whether doubt begins.
    fn fails(doubt: &mut Doubt, second: u64, party: &str) -> bool {
        doubt.failed(at(second), at(second), party) == Verdict::Withheld { begins: true }
    }

    /// So many parties fail, one a second, from `from` on; each contact takes no time. Says when doubt began.
    fn fail(doubt: &mut Doubt, from: u64, parties: std::ops::Range<u64>) -> Option<u64> {
        let mut began = None;
        for (second, party) in (from..).zip(parties) {
            if fails(doubt, second, &format!("http://h{party}.test")) {
                began = Some(second);
            }
        }
        began
    }

    #[test]
    fn many_parties_that_fail_in_a_row_raise_doubt_and_a_success_ends_it() {
        let mut doubt = Doubt::new(MAX);
        assert_eq!(fail(&mut doubt, 1, 0..7), None);
        assert!(!doubt.is_on(at(7)));
        assert_eq!(fail(&mut doubt, 8, 7..30), Some(8));
        assert!(doubt.is_on(at(40)));
        assert_eq!(doubt.since(at(40)), Some(at(8)));
        assert_eq!(doubt.counts(), [("in_doubt", 1), ("doubts_total", 1), ("withheld_total", 23)]);
        assert_eq!(doubt.succeeded(at(68), at(68), "http://live.test"), Some(Duration::from_secs(60)));
        assert!(!doubt.is_on(at(68)));
        assert_eq!(doubt.succeeded(at(69), at(69), "http://live.test"), None);
    }

    #[test]
    fn the_same_few_parties_never_raise_it() {
        let mut doubt = Doubt::new(MAX);
        for round in 0..100 {
            assert_eq!(fail(&mut doubt, 10 * round + 1, 0..7), None);
        }
    }

    #[test]
    fn it_lasts_so_long_and_no_longer_and_comes_back_only_after_a_success() {
        let mut doubt = Doubt::new(MAX);
        fail(&mut doubt, 1, 0..8);
        assert_eq!(doubt.until(), Some(at(608)));
        assert!(doubt.is_on(at(607)) && !doubt.is_on(at(608)));
        assert_eq!(fail(&mut doubt, 700, 100..200), None);
        assert!(!doubt.is_on(at(800)));
        assert_eq!(doubt.succeeded(at(801), at(801), "http://live.test"), None, "it had ended before");
        assert_eq!(fail(&mut doubt, 802, 200..208), Some(809));
        let mut never = Doubt::new(Duration::ZERO);
        assert_eq!(fail(&mut never, 1, 0..100), None);
    }

    #[test]
    fn dead_hosts_among_live_ones_raise_none_not_even_when_they_are_all_that_is_left() {
        let mut doubt = Doubt::new(MAX);
        // All are contacted at once; the live ones answer first.
        doubt.succeeded(at(2), at(2), "http://live.test");
        for party in 0..50 {
            assert_eq!(doubt.failed(at(12), at(1), &format!("http://slow{party}.test")), Verdict::Counts);
        }
        // Some fail in between.
        for second in 20..60 {
            doubt.failed(at(second), at(second), &format!("http://dead{second}.test"));
            doubt.succeeded(at(second), at(second), "http://live.test");
        }
        for second in 100..200 {
            for party in (0..50).map(|n| format!("http://slow{n}.test")) {
                assert_eq!(doubt.failed(at(second), at(second), &party), Verdict::Counts);
            }
            for party in (20..60).map(|n| format!("http://dead{n}.test")) {
                assert_eq!(doubt.failed(at(second), at(second), &party), Verdict::Counts);
            }
        }
        // One that answers again is evidence again.
        for n in 0..8 {
            doubt.succeeded(at(300), at(300), &format!("http://slow{n}.test"));
        }
        let begins = (0..8).map(|n| fails(&mut doubt, 301, &format!("http://slow{n}.test")));
        assert_eq!(begins.filter(|begins| *begins).count(), 1);
    }

    /// Goal: what is under way when the network breaks does not hide that it does. Method: ten parties answer. Then those
    /// fail that were under way, though others began later and were answered, and then each twice while answers come that
    /// were on their way.
    #[test]
    fn what_is_under_way_when_the_network_breaks_hides_nothing() {
        let mut doubt = Doubt::new(MAX);
        let party = |n: u64| format!("http://h{n}.test");
        (0..10).for_each(|n| assert_eq!(doubt.succeeded(at(1), at(1), &party(n)), None));
        doubt.succeeded(at(3), at(2), "http://slow.test");
        (0..10).for_each(|n| assert_eq!(doubt.failed(at(12), at(1), &party(n)), Verdict::Counts));
        for second in [13, 14] {
            for n in 0..10 {
                assert_eq!(doubt.failed(at(second), at(second), &party(n)), Verdict::Counts);
                assert_eq!(doubt.succeeded(at(second), at(2), "http://slow.test"), None);
            }
        }
        assert_eq!(fail(&mut doubt, 30, 0..10), Some(37));
        assert_eq!(doubt.succeeded(at(40), at(2), "http://slow.test"), None, "it was on its way");
        assert!(doubt.is_on(at(41)));
        assert_eq!(doubt.succeeded(at(50), at(49), "http://slow.test"), Some(Duration::from_secs(13)));
        // Those that failed twice while others could be reached are known to fail.
        assert_eq!(fail(&mut doubt, 60, 0..10), None);
    }

    #[test]
    fn while_it_lasts_contacts_are_tried_one_a_second_and_nobody_is_woken_for_nothing() {
        let mut doubt = Doubt::new(MAX);
        assert_eq!((doubt.may_try(at(0)), doubt.wake_at(true)), (true, None));
        fail(&mut doubt, 1, 0..8);
        assert!(!doubt.look(at(8)));
        assert_eq!(
            (doubt.may_try(at(8)), doubt.wake_at(true), doubt.wake_at(false)),
            (false, Some(at(9)), Some(at(608)))
        );
        assert!(!doubt.look(at(9)));
        assert_eq!((doubt.may_try(at(9)), doubt.wake_at(true)), (true, Some(at(608))));
        assert!(doubt.look(at(608)), "it is over");
        assert!(!doubt.look(at(609)));
        assert_eq!((doubt.may_try(at(609)), doubt.wake_at(true)), (true, None));
    }

    proptest! {
        /// Goal: doubt is bounded in time, never without enough different failures since the last success, and what is
        /// remembered is bounded. Method: random contacts against a list of what happened.
        #[test]
        fn it_is_never_raised_without_evidence_and_never_lasts_too_long(
            contacts in proptest::collection::vec((0u64..40, any::<bool>(), 0u64..30), 0..300),
        ) {
            let mut doubt = Doubt::new(Duration::from_secs(60));
            let (mut now, mut failing, mut on_since) = (1, HashSet::new(), None);
            for (party, is_failure, wait) in contacts {
                now += wait;
                let name = format!("http://h{party}.test");
                if is_failure {
                    failing.insert(party);
                    if fails(&mut doubt, now, &name) {
                        prop_assert!(failing.len() >= PARTIES && on_since.is_none());
                        on_since = Some(now);
                    }
                } else {
                    failing.clear();
                    doubt.succeeded(at(now), at(now), &name);
                    on_since = None;
                }
                let is_on = on_since.is_some_and(|since| now < since + 60);
                prop_assert_eq!(doubt.is_on(at(now)), is_on);
                prop_assert!(doubt.failing.len() <= PARTIES && doubt.unsettled.len() <= REMEMBERED_MAX);
                for parties in [&doubt.known, &doubt.answering] {
                    prop_assert!(parties.order.len() <= REMEMBERED_MAX);
                    prop_assert_eq!(parties.all.len(), parties.order.len());
                }
            }
        }
    }
}

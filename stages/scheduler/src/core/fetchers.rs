//! Fetchers that ask for jobs, and how many each may still be given.
//!
//! An ask is soft state. It replaces the one before, holds for a moment, and dies with the
//! fetcher's life or the scheduler's. So a job is decided at the moment when a server may be
//! contacted, and never queued for a fetcher.
//!
//! Fetchers are compared: when servers answer others and one fetcher reaches none, the fault is
//! near that fetcher. What fails with it is not held against servers. It gets one job at a time,
//! and the next one a moment after that has ended: enough to notice that it is back. A fetcher
//! without a way out fails at once, and would soon have tried all servers. Before anybody can know,
//! a server that one fetcher could not reach goes to another one next, if one asks.

use crate::step::staged::Staged;
use rhumb_stage::doubt::TRY_EVERY;
use rhumb_url::fingerprint;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Ask, ToFetcher};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time after which a fetcher that has not asked is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// A fetcher is cut off when so many of its jobs in a row reached no server,
const UNREACHED_MIN: u32 = 3;
/// and so many of others' were answered meanwhile.
const ANSWERED_MIN: u64 = 8;
/// and one of these so lately. Where nobody is answered any more, dead servers alone may be left:
/// they are not charged to a fetcher for ever (P6).
const LATELY: Duration = Duration::from_secs(60);
/// A job of a fetcher that is cut off, and that nothing is heard of, is waited for so long.
const TRY_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
struct Asker {
    life: u64,
    ask: u64,
    /// Jobs it may still be given for this ask.
    credit: u32,
    expires: Timestamp,
    /// Jobs granted to this life of it. The count goes on from what it had received when it was
    /// first heard of.
    granted: u64,
    /// [`Answers::jobs`] when a job of it brought an answer last; 0 of one that came while others
    /// were here: if it reaches nothing where they did, it is cut off.
    answered_at: u64,
    /// Jobs of it since then that reached no server.
    unreached: u32,
    /// While it is cut off it gets no job earlier.
    try_at: Timestamp,
}

/// The answers of servers, to all fetchers.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    /// Jobs that brought one.
    jobs: u64,
    /// When the last one came.
    last: Timestamp,
}

impl Asker {
    fn is_cut_off(&self, now: Timestamp, answers: Answers) -> bool {
        self.unreached >= UNREACHED_MIN
            && answers.jobs - self.answered_at >= ANSWERED_MIN
            && now < answers.last + LATELY
    }

    /// Returns whether it may be given a job now.
    fn may_take(&self, now: Timestamp, answers: Answers) -> bool {
        self.credit > 0
            && self.expires > now
            && (self.try_at <= now || !self.is_cut_off(now, answers))
    }
}

/// A fetcher to which the next job goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grantee {
    pub(crate) fetcher: String,
    pub(crate) ask: u64,
    pub(crate) life: u64,
}

/// All fetchers that asked lately.
#[derive(Debug, Default)]
pub(crate) struct Fetchers {
    askers: BTreeMap<String, Asker>,
    /// Those with credit, by turn.
    turns: VecDeque<String>,
    answers: Answers,
    /// Failures that were not held against their servers.
    excused: u64,
}

impl Fetchers {
    /// A fetcher asks.
    pub(crate) fn ask(&mut self, now: Timestamp, ask: &Ask, lifetime: Duration) {
        self.askers
            .retain(|name, asker| *name == ask.fetcher || asker.expires + FORGOTTEN_AFTER > now);
        let others = self
            .askers
            .iter()
            .any(|(name, asker)| *name != ask.fetcher && asker.expires > now);
        let new = Asker {
            life: ask.life,
            ask: 0,
            credit: 0,
            expires: now,
            granted: ask.received,
            answered_at: if others { 0 } else { self.answers.jobs },
            unreached: 0,
            try_at: now,
        };
        let asker = self
            .askers
            .entry(ask.fetcher.clone())
            .or_insert_with(|| new.clone());
        if asker.life != ask.life {
            *asker = new;
        } else if ask.ask <= asker.ask && asker.ask > 0 {
            // An older ask that came late.
            return;
        }
        let on_the_way = asker.granted.saturating_sub(ask.received);
        asker.ask = ask.ask;
        asker.credit = ask
            .free
            .saturating_sub(u32::try_from(on_the_way).unwrap_or(u32::MAX));
        if asker.is_cut_off(now, self.answers) {
            asker.credit = asker.credit.min(1);
        }
        asker.expires = now + lifetime;
        if asker.credit > 0 && !self.turns.contains(&ask.fetcher) {
            self.turns.push_back(ask.fetcher.clone());
        }
    }

    /// Jobs that may still be given, over all fetchers.
    pub(crate) fn credit(&self, now: Timestamp) -> u64 {
        let asking = self.askers.values().filter(|asker| asker.expires > now);
        asking.map(|asker| u64::from(asker.credit)).sum()
    }

    /// Whose turn it is.
    pub(crate) fn next(&mut self, now: Timestamp) -> Option<Grantee> {
        while let Some(fetcher) = self.turns.front() {
            if let Some(asker) = self
                .askers
                .get(fetcher)
                .filter(|asker| asker.may_take(now, self.answers))
            {
                return Some(Grantee {
                    fetcher: fetcher.clone(),
                    ask: asker.ask,
                    life: asker.life,
                });
            }
            self.turns.pop_front();
        }
        None
    }

    /// Who takes a server that the fetcher of a certain fingerprint could not reach: not that one,
    /// if another may.
    pub(crate) fn but(&self, now: Timestamp, unreached_by: u64, grantee: Grantee) -> Grantee {
        if unreached_by == 0 || fingerprint(&grantee.fetcher) != unreached_by {
            return grantee;
        }
        let others = self
            .turns
            .iter()
            .filter(|fetcher| **fetcher != grantee.fetcher);
        let mut may_take = others.filter_map(|fetcher| {
            let asker = self
                .askers
                .get(fetcher)
                .filter(|asker| asker.may_take(now, self.answers))?;
            Some(Grantee {
                fetcher: fetcher.clone(),
                ask: asker.ask,
                life: asker.life,
            })
        });
        may_take.next().unwrap_or(grantee)
    }

    /// A fetcher was given a job; the next one is another's.
    pub(crate) fn granted(&mut self, now: Timestamp, grantee: &Grantee) {
        if let Some(asker) = self.askers.get_mut(&grantee.fetcher) {
            asker.credit = asker.credit.saturating_sub(1);
            asker.granted += 1;
            if asker.is_cut_off(now, self.answers) {
                asker.try_at = now + TRY_MAX;
            }
        }
        let place = self
            .turns
            .iter()
            .position(|fetcher| *fetcher == grantee.fetcher);
        if let Some(fetcher) = place.and_then(|place| self.turns.remove(place)) {
            self.turns.push_back(fetcher);
        }
    }

    /// A job of a fetcher has ended. `reached`: with an answer, or because its server could not be
    /// reached; none when it does not say.
    pub(crate) fn ended(&mut self, now: Timestamp, fetcher: &str, reached: Option<bool>) {
        if reached == Some(true) {
            self.answers.jobs += 1;
            self.reaches(now, fetcher);
        }
        let Some(asker) = self.askers.get_mut(fetcher) else {
            return;
        };
        asker.try_at = now + TRY_EVERY;
        match reached {
            Some(true) => {}
            Some(false) => asker.unreached = asker.unreached.saturating_add(1),
            None => {}
        }
    }

    /// A server answers a fetcher, whose job goes on.
    pub(crate) fn reaches(&mut self, now: Timestamp, fetcher: &str) {
        self.answers.last = now;
        if let Some(asker) = self.askers.get_mut(fetcher) {
            (asker.answered_at, asker.unreached) = (self.answers.jobs, 0);
        }
    }

    /// Tells the fetchers of jobs that are to stop that they do so before their next request.
    pub(crate) fn stop_jobs(&self, staged: &mut Staged<'_>) {
        for (job, fetcher) in std::mem::take(&mut staged.stopped) {
            match fetcher {
                Some(fetcher) => staged.messages.send(&fetcher, ToFetcher::Revoked { job }),
                // One of them has it.
                None => self.names().for_each(|name| {
                    staged.messages.send(name, ToFetcher::Revoked { job });
                }),
            }
        }
    }

    /// The fetchers that asked lately.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.askers.keys().map(String::as_str)
    }

    /// Returns whether servers answer other fetchers and not this one: what it cannot reach others
    /// may.
    pub(crate) fn is_cut_off(&self, now: Timestamp, fetcher: &str) -> bool {
        self.askers
            .get(fetcher)
            .is_some_and(|asker| asker.is_cut_off(now, self.answers))
    }

    /// A failure is not held against its server.
    pub(crate) fn excuse(&mut self) {
        self.excused += 1;
    }

    /// Failures so far that were not held against their servers.
    pub(crate) fn excused(&self) -> u64 {
        self.excused
    }

    /// Notes that a job never reported: it probably never arrived, and is not on the way any more.
    pub(crate) fn lost(&mut self, fetcher: &str, life: u64) {
        if let Some(asker) = self
            .askers
            .get_mut(fetcher)
            .filter(|asker| asker.life == life)
        {
            asker.granted = asker.granted.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(1);

    fn ask(fetcher: &str, life: u64, ask: u64, free: u32, received: u64) -> Ask {
        Ask {
            fetcher: fetcher.into(),
            ask,
            free,
            received,
            life,
        }
    }

    /// Grants until nobody has credit.
    fn grant_all(fetchers: &mut Fetchers, now: Timestamp) -> Vec<String> {
        let mut order = Vec::new();
        while let Some(grantee) = fetchers.next(now) {
            fetchers.granted(now, &grantee);
            order.push(grantee.fetcher);
        }
        order
    }

    #[test]
    fn jobs_on_the_way_are_taken_off() {
        let mut fetchers = Fetchers::default();
        let now = Timestamp::ZERO;
        // A scheduler that starts anew does not know how many jobs an earlier life granted.
        fetchers.ask(now, &ask("a", 1, 5, 3, 100), LIFETIME);
        assert_eq!(grant_all(&mut fetchers, now).len(), 3);
        fetchers.ask(now, &ask("a", 1, 6, 3, 101), LIFETIME);
        assert_eq!(grant_all(&mut fetchers, now).len(), 1);
        fetchers.ask(now, &ask("a", 1, 7, 1, 104), LIFETIME);
        assert_eq!(grant_all(&mut fetchers, now).len(), 1);
        // That one was lost on the way.
        fetchers.lost("a", 1);
        fetchers.ask(now, &ask("a", 1, 8, 2, 104), LIFETIME);
        assert_eq!(grant_all(&mut fetchers, now).len(), 2);
    }

    #[test]
    fn an_ask_holds_for_a_moment_and_replaces_the_one_before() {
        let mut fetchers = Fetchers::default();
        let now = Timestamp::ZERO;
        fetchers.ask(now, &ask("a", 1, 2, 3, 0), LIFETIME);
        assert_eq!(fetchers.next(now + LIFETIME), None);
        fetchers.ask(now, &ask("a", 1, 3, 1, 0), LIFETIME);
        fetchers.ask(now, &ask("a", 1, 2, 30, 0), LIFETIME);
        assert_eq!(grant_all(&mut fetchers, now).len(), 1);
        fetchers.ask(now, &ask("a", 2, 1, 2, 0), LIFETIME);
        assert_eq!(grant_all(&mut fetchers, now).len(), 2);
    }

    #[test]
    fn a_fetcher_that_reaches_nothing_while_others_are_answered_is_cut_off_and_gets_one_job_at_a_time()
     {
        let mut fetchers = Fetchers::default();
        let answered = Some(true);
        let failed = Some(false);
        let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
        for name in ["a", "b"] {
            fetchers.ask(at(0), &ask(name, 1, 1, 0, 0), LIFETIME);
        }
        (0..3).for_each(|_| fetchers.ended(at(0), "b", failed));
        (0..7).for_each(|_| fetchers.ended(at(0), "a", answered));
        assert!(!fetchers.is_cut_off(at(0), "b"));
        fetchers.ended(at(0), "a", answered);
        let is_cut_off = |fetchers: &Fetchers, name| fetchers.is_cut_off(at(0), name);
        assert!(
            is_cut_off(&fetchers, "b")
                && !is_cut_off(&fetchers, "a")
                && !is_cut_off(&fetchers, "unknown")
        );

        let granted = |fetchers: &mut Fetchers, number: u64, received: u64, now: Timestamp| {
            fetchers.ask(now, &ask("b", 1, number, 64, received), LIFETIME);
            grant_all(fetchers, now).len()
        };
        assert_eq!(
            granted(&mut fetchers, 2, 0, at(0)),
            0,
            "a moment after the last one ended"
        );
        assert_eq!(granted(&mut fetchers, 3, 0, at(1)), 1);
        assert_eq!(
            granted(&mut fetchers, 4, 1, at(9)),
            0,
            "that one has not ended"
        );
        fetchers.ended(at(9), "b", None);
        assert_eq!(granted(&mut fetchers, 5, 1, at(10)), 1);
        fetchers.ended(at(69), "a", answered);
        assert_eq!(granted(&mut fetchers, 6, 2, at(70)), 1, "that one was lost");
        fetchers.ended(at(70), "b", answered);
        assert!(!fetchers.is_cut_off(at(70), "b"));
        assert_eq!(granted(&mut fetchers, 7, 3, at(70)), 64);
        // Dead servers alone are left: nobody is answered, so nobody is cut off.
        (0..100).for_each(|_| {
            ["a", "b"]
                .iter()
                .for_each(|name| fetchers.ended(at(71), name, failed))
        });
        assert!(!fetchers.is_cut_off(at(71), "a") && !fetchers.is_cut_off(at(71), "b"));
    }

    /// Goal: a list of dead hosts ends also when the fetcher, or all of them, were started again
    /// (P6).
    #[test]
    fn answers_of_long_ago_or_of_a_fetchers_own_earlier_life_cut_nobody_off() {
        let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
        let mut fetchers = Fetchers::default();
        fetchers.ask(at(0), &ask("a", 1, 1, 0, 0), LIFETIME);
        (0..100).for_each(|_| fetchers.ended(at(0), "a", Some(true)));
        fetchers.ask(at(1), &ask("a", 2, 1, 0, 0), LIFETIME);
        (0..9).for_each(|_| fetchers.ended(at(1), "a", Some(false)));
        assert!(!fetchers.is_cut_off(at(1), "a"), "its own");
        fetchers.ask(at(1), &ask("b", 1, 1, 0, 0), LIFETIME);
        (0..9).for_each(|_| fetchers.ended(at(1), "b", Some(false)));
        assert!(fetchers.is_cut_off(at(1), "b") && fetchers.is_cut_off(at(59), "b"));
        assert!(
            !fetchers.is_cut_off(at(60), "b"),
            "nobody has been answered for a minute"
        );
    }

    #[test]
    fn a_job_that_goes_on_with_answers_shows_that_its_fetcher_is_not_cut_off() {
        let mut fetchers = Fetchers::default();
        let now = Timestamp::ZERO;
        for name in ["a", "b"] {
            fetchers.ask(now, &ask(name, 1, 1, 0, 0), LIFETIME);
        }
        (0..9).for_each(|_| fetchers.ended(now, "a", Some(true)));
        (0..3).for_each(|_| fetchers.ended(now, "b", Some(false)));
        assert!(fetchers.is_cut_off(now, "b"));
        fetchers.reaches(now, "b");
        assert!(!fetchers.is_cut_off(now, "b"));
    }

    #[test]
    fn fetchers_take_turns() {
        let mut fetchers = Fetchers::default();
        let now = Timestamp::ZERO;
        fetchers.ask(now, &ask("a", 1, 1, 3, 0), LIFETIME);
        fetchers.ask(now, &ask("b", 1, 1, 2, 0), LIFETIME);
        assert_eq!(grant_all(&mut fetchers, now), ["a", "b", "a", "b", "a"]);
    }

    #[test]
    fn a_server_that_one_fetcher_could_not_reach_goes_to_another_if_one_asks() {
        let mut fetchers = Fetchers::default();
        let now = Timestamp::ZERO;
        for name in ["a", "b", "c"] {
            fetchers.ask(now, &ask(name, 1, 1, 1, 0), LIFETIME);
        }
        let grant = |fetchers: &mut Fetchers, unreached_by: &str| {
            let grantee = fetchers.next(now).unwrap();
            let grantee = fetchers.but(now, fingerprint(unreached_by), grantee);
            fetchers.granted(now, &grantee);
            grantee.fetcher
        };
        assert_eq!(grant(&mut fetchers, "a"), "b");
        assert_eq!(grant(&mut fetchers, "b"), "a");
        assert_eq!(grant(&mut fetchers, "c"), "c", "nobody else asks");
        assert_eq!(fetchers.next(now), None);
    }
}

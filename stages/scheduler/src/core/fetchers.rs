//! Fetchers that ask for jobs, and how many each may still be given.
//!
//! An ask is soft state: it replaces the one before, holds for a moment, and dies with the fetcher's life or the
//! scheduler's. So a job is decided the moment a server may be contacted, never queued for a fetcher.
//!
//! Fetchers are compared: when servers answer others and one fetcher reaches none, the fault is near that fetcher. What
//! fails with it is not held against servers, and it gets one job at a time.

use shared::message::Ask;
use shared::time::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time after which a fetcher that has not asked is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// A fetcher is cut off when so many of its jobs in a row reached no server,
const UNREACHED_MIN: u32 = 3;
/// and so many of others' were answered meanwhile.
const ANSWERED_MIN: u64 = 8;

#[derive(Clone, Debug)]
struct Asker {
    life: u64,
    ask: u64,
    /// Jobs it may still be given for this ask.
    credit: u32,
    expires: Timestamp,
    /// Jobs granted to this life of it; counted on from what it had received when it was first heard of.
    granted: u64,
    /// [`Fetchers::answered`] when a job of it brought an answer last.
    answered_at: u64,
    /// Jobs of it since then that reached no server.
    unreached: u32,
}

impl Asker {
    /// `answered`: jobs that brought an answer, of all fetchers.
    fn is_cut_off(&self, answered: u64) -> bool {
        self.unreached >= UNREACHED_MIN && answered - self.answered_at >= ANSWERED_MIN
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
    /// Jobs that brought an answer, of all fetchers.
    answered: u64,
    /// Failures that were not held against their servers.
    excused: u64,
}

impl Fetchers {
    /// A fetcher asks.
    pub(crate) fn ask(&mut self, now: Timestamp, ask: &Ask, lifetime: Duration) {
        self.askers.retain(|name, asker| *name == ask.fetcher || asker.expires + FORGOTTEN_AFTER > now);
        let answered_at = self.answered;
        let new =
            Asker { life: ask.life, ask: 0, credit: 0, expires: now, granted: ask.received, answered_at, unreached: 0 };
        let asker = self.askers.entry(ask.fetcher.clone()).or_insert_with(|| new.clone());
        if asker.life != ask.life {
            *asker = new;
        } else if ask.ask <= asker.ask && asker.ask > 0 {
            // An older ask that came late.
            return;
        }
        let on_the_way = asker.granted.saturating_sub(ask.received);
        asker.ask = ask.ask;
        asker.credit = ask.free.saturating_sub(u32::try_from(on_the_way).unwrap_or(u32::MAX));
        if asker.is_cut_off(answered_at) {
            // Enough to notice that it is back.
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
            if let Some(asker) = self.askers.get(fetcher).filter(|asker| asker.credit > 0 && asker.expires > now) {
                return Some(Grantee { fetcher: fetcher.clone(), ask: asker.ask, life: asker.life });
            }
            self.turns.pop_front();
        }
        None
    }

    /// The fetcher whose turn it is was given a job; the next one is another's.
    pub(crate) fn granted(&mut self, grantee: &Grantee) {
        if let Some(asker) = self.askers.get_mut(&grantee.fetcher) {
            asker.credit = asker.credit.saturating_sub(1);
            asker.granted += 1;
        }
        if self.turns.front() == Some(&grantee.fetcher) {
            self.turns.rotate_left(1);
        }
    }

    /// A job of a fetcher has ended: with an answer, or because its server could not be reached.
    pub(crate) fn ended(&mut self, fetcher: &str, was_answered: bool) {
        self.answered += u64::from(was_answered);
        if let Some(asker) = self.askers.get_mut(fetcher) {
            if was_answered {
                (asker.answered_at, asker.unreached) = (self.answered, 0);
            } else {
                asker.unreached = asker.unreached.saturating_add(1);
            }
        }
    }

    /// Says whether servers answer other fetchers and not this one: what it cannot reach others may.
    pub(crate) fn is_cut_off(&self, fetcher: &str) -> bool {
        self.askers.get(fetcher).is_some_and(|asker| asker.is_cut_off(self.answered))
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
        if let Some(asker) = self.askers.get_mut(fetcher).filter(|asker| asker.life == life) {
            asker.granted = asker.granted.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(1);

    fn ask(fetcher: &str, life: u64, ask: u64, free: u32, received: u64) -> Ask {
        Ask { fetcher: fetcher.into(), ask, free, received, life }
    }

    /// Grants until nobody has credit.
    fn grant_all(fetchers: &mut Fetchers, now: Timestamp) -> Vec<String> {
        let mut order = Vec::new();
        while let Some(grantee) = fetchers.next(now) {
            fetchers.granted(&grantee);
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
    fn a_fetcher_that_reaches_nothing_while_others_are_answered_is_cut_off_and_gets_one_job_at_a_time() {
        let mut fetchers = Fetchers::default();
        let now = Timestamp::ZERO;
        for name in ["a", "b"] {
            fetchers.ask(now, &ask(name, 1, 1, 0, 0), LIFETIME);
        }
        (0..3).for_each(|_| fetchers.ended("b", false));
        (0..7).for_each(|_| fetchers.ended("a", true));
        assert!(!fetchers.is_cut_off("b"));
        fetchers.ended("a", true);
        assert!(fetchers.is_cut_off("b") && !fetchers.is_cut_off("a") && !fetchers.is_cut_off("unknown"));
        fetchers.ask(now, &ask("b", 1, 2, 64, 0), LIFETIME);
        assert_eq!(grant_all(&mut fetchers, now), ["b"]);
        fetchers.ended("b", true);
        assert!(!fetchers.is_cut_off("b"));
        // Dead servers alone are left: nobody is answered, so nobody is cut off.
        (0..100).for_each(|_| ["a", "b"].iter().for_each(|name| fetchers.ended(name, false)));
        assert!(!fetchers.is_cut_off("a") && !fetchers.is_cut_off("b"));
    }

    #[test]
    fn fetchers_take_turns() {
        let mut fetchers = Fetchers::default();
        let now = Timestamp::ZERO;
        fetchers.ask(now, &ask("a", 1, 1, 3, 0), LIFETIME);
        fetchers.ask(now, &ask("b", 1, 1, 2, 0), LIFETIME);
        assert_eq!(grant_all(&mut fetchers, now), ["a", "b", "a", "b", "a"]);
    }
}

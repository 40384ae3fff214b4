//! Turns: which topic gets the next connection.
//!
//! The highest priority goes first. Topics of one priority go round; the turn of each lasts for a
//! slice of connection time. A connection is charged when it is granted, by the time that it is
//! expected to take, and settled when it is closed. So many connections at once are shared as one
//! after another would be. What a topic used beyond its slice is taken from its next ones. A topic
//! that nothing stands for loses the rest of its turn.
//!
//! A topic that brings its least number of pages in time gets shorter turns, by a quantum, and
//! longer ones again when it falls behind.
//!
//! Invariant: among topics of one priority and slice that always have servers to connect to, the
//! connection times differ by no more than a slice and a connection each.
//!
//! Sources: Fan and Li 2015 (PQ-MCSA): priorities, slices, shorter slices. Shreedhar and Varghese
//! 1996 (deficit round robin): what is used too much is owed.

use crate::keys::topic::TopicIndex;
use crate::ranking::topics::{Topics, TurnRules};
use crate::store::codec::{Reader, Writer};
use rhumb_url::time::Timestamp;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The pages of a topic are counted for so long, and then its turns change.
const PERIOD: Duration = Duration::from_secs(60);

/// What stands for a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    /// No server.
    Nothing,
    /// Servers that may not be connected to now.
    Blocked,
    /// A server that may be connected to now.
    Server,
}

/// How a topic stands in the turns, as it is stored. Both in microseconds of connection time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// A turn of it.
    pub(crate) slice: i64,
    /// What is left of its turn; what it owes when that is negative.
    pub(crate) left: i64,
}

impl Account {
    pub(crate) fn to_row(self) -> Vec<u8> {
        let mut row = Writer::with_capacity(20);
        row.number(self.slice as u64);
        row.byte(u8::from(self.left < 0));
        row.number(self.left.unsigned_abs());
        row.finish()
    }

    pub(crate) fn from_row(row: &[u8]) -> Option<Self> {
        let mut row = Reader::new(row)?;
        let slice = i64::try_from(row.number()?).ok()?;
        let owes = row.byte()? != 0;
        let left = i64::try_from(row.number()?).ok()?;
        Some(Account {
            slice,
            left: if owes { -left } else { left },
        })
    }
}

#[derive(Clone, Debug)]
struct Taker {
    priority: u8,
    account: Account,
    slice_max: i64,
    pages_min: u64,
    /// Connections now, and connection time since this life began.
    connections: u64,
    used: Duration,
    /// Pages in this period.
    pages: u64,
    is_in_ring: bool,
}

/// The turns of all topics.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    takers: Vec<Taker>,
    /// Those that something stands for, or stood for lately, in the order of their turns. The
    /// highest priority comes first.
    rings: BTreeMap<Reverse<u8>, VecDeque<TopicIndex>>,
    quantum: i64,
    slice_min: i64,
    period_ends: Timestamp,
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

impl Turns {
    pub(crate) fn new(topics: &Topics, now: Timestamp) -> Self {
        let taker = |rules: &TurnRules| {
            let slice = micros(rules.slice).max(1);
            Taker {
                priority: rules.priority,
                account: Account { slice, left: 0 },
                slice_max: slice,
                pages_min: rules.pages_min,
                connections: 0,
                used: Duration::ZERO,
                pages: 0,
                is_in_ring: false,
            }
        };
        Turns {
            takers: topics.rules().iter().map(taker).collect(),
            rings: BTreeMap::new(),
            quantum: micros(topics.quantum),
            slice_min: micros(topics.slice_min).max(1),
            period_ends: now + PERIOD,
        }
    }

    /// Something stands for a topic.
    pub(crate) fn enter(&mut self, of: TopicIndex) {
        if let Some(taker) = self.takers.get_mut(usize::from(of.0))
            && !std::mem::replace(&mut taker.is_in_ring, true)
        {
            self.rings
                .entry(Reverse(taker.priority))
                .or_default()
                .push_back(of);
        }
    }

    /// The topic whose turn it is, by what stands for each.
    pub(crate) fn next(&mut self, stands: impl Fn(TopicIndex) -> Stands) -> Option<TopicIndex> {
        let Turns { takers, rings, .. } = self;
        rings.values_mut().find_map(|ring| {
            let mut rounds = 0;
            loop {
                let mut passed = 0;
                let mut rounds_left = i64::MAX;
                while passed < ring.len() {
                    let of = *ring.front()?;
                    let taker = &mut takers[usize::from(of.0)];
                    let Account { slice, left } = &mut taker.account;
                    match stands(of) {
                        Stands::Nothing => {
                            taker.is_in_ring = false;
                            *left = (*left).min(0);
                            ring.pop_front();
                            continue;
                        }
                        Stands::Server if *left > 0 => return Some(of),
                        Stands::Server => {
                            *left += *slice * (1 + rounds);
                            rounds_left = rounds_left.min((-*left).max(0) / *slice);
                        }
                        Stands::Blocked => {}
                    }
                    ring.rotate_left(1);
                    passed += 1;
                }
                if rounds_left == i64::MAX {
                    return None;
                }
                rounds = rounds_left;
            }
        })
    }

    /// The highest priority for which a server stands.
    pub(crate) fn highest(&self, stands: impl Fn(TopicIndex) -> Stands) -> Option<u8> {
        let stands =
            |ring: &VecDeque<TopicIndex>| ring.iter().any(|of| stands(*of) == Stands::Server);
        self.rings
            .iter()
            .find(|(_, ring)| stands(ring))
            .map(|(priority, _)| priority.0)
    }

    /// A connection is granted that is expected to take so long; no time at all when it was out
    /// when this life began.
    pub(crate) fn charge(&mut self, of: TopicIndex, expected: Duration) {
        if let Some(taker) = self.takers.get_mut(usize::from(of.0)) {
            taker.connections += 1;
            taker.account.left = taker.account.left.saturating_sub(micros(expected));
        }
    }

    /// A connection is closed that took so long.
    pub(crate) fn settle(&mut self, of: TopicIndex, expected: Duration, took: Duration) {
        if let Some(taker) = self.takers.get_mut(usize::from(of.0)) {
            taker.connections = taker.connections.saturating_sub(1);
            taker.used += took;
            taker.account.left = taker
                .account
                .left
                .saturating_add(micros(expected) - micros(took));
        }
    }

    /// Connections of a topic now, and its connection time since this life began.
    pub(crate) fn use_of(&self, of: TopicIndex) -> (u64, Duration) {
        self.takers
            .get(usize::from(of.0))
            .map_or_else(Default::default, |taker| (taker.connections, taker.used))
    }

    /// A topic brought a page.
    pub(crate) fn fetched(&mut self, of: TopicIndex) {
        if let Some(taker) = self.takers.get_mut(usize::from(of.0)) {
            taker.pages += 1;
        }
    }

    /// At the end of a period: shorter turns for topics that brought enough pages, longer ones for
    /// those that did not. `part`: of all that the crawl's schedulers do, what this one does.
    pub(crate) fn tend(&mut self, now: Timestamp, part: f64) {
        if now < self.period_ends {
            return;
        }
        self.period_ends = now + PERIOD;
        for taker in self.takers.iter_mut().filter(|taker| taker.pages_min > 0) {
            let has_enough =
                std::mem::take(&mut taker.pages) as f64 >= taker.pages_min as f64 * part;
            let slice = taker.account.slice
                + if has_enough {
                    -self.quantum
                } else {
                    self.quantum
                };
            taker.account.slice = slice.max(self.slice_min).min(taker.slice_max);
        }
    }

    /// How a topic stands.
    pub(crate) fn account(&self, of: TopicIndex) -> Account {
        self.takers
            .get(usize::from(of.0))
            .map_or_else(Account::default, |taker| taker.account)
    }

    /// A topic stands as it was stored, as far as its rules let it.
    pub(crate) fn restore(&mut self, of: TopicIndex, account: Account) {
        let slice_min = self.slice_min;
        if let Some(taker) = self.takers.get_mut(usize::from(of.0)) {
            let slice = if taker.pages_min > 0 {
                account.slice.max(slice_min)
            } else {
                taker.slice_max
            };
            taker.account = Account {
                slice: slice.min(taker.slice_max),
                left: account.left.min(taker.slice_max),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranking::topics::tests::topics;
    use proptest::prelude::*;

    const fn of(index: u16) -> TopicIndex {
        TopicIndex(index)
    }

    fn turns(rules: &[(u8, u64)]) -> Turns {
        Turns::new(&topics(rules), Timestamp::ZERO)
    }

    /// Grants connections of the topics, one after another, and gives how long each topic had one.
    fn share(
        turns: &mut Turns,
        grants: usize,
        lasts_ms: impl Fn(TopicIndex) -> u64,
        stands: &[u16],
    ) -> Vec<u64> {
        let mut times = vec![0; turns.takers.len()];
        for _ in 0..grants {
            stands.iter().for_each(|&index| turns.enter(of(index)));
            let standing = |index: TopicIndex| match stands.contains(&index.0) {
                true => Stands::Server,
                false => Stands::Nothing,
            };
            let Some(next) = turns.next(standing) else {
                return times;
            };
            turns.charge(next, Duration::from_millis(500));
            turns.settle(
                next,
                Duration::from_millis(500),
                Duration::from_millis(lasts_ms(next)),
            );
            times[usize::from(next.0)] += lasts_ms(next);
        }
        times
    }

    #[test]
    fn equal_topics_share_connection_time_however_long_their_connections_last() {
        let mut turns = turns(&[(0, 1000), (0, 1000)]);
        let times = share(
            &mut turns,
            1000,
            |topic| [10, 100, 5000][usize::from(topic.0)],
            &[0, 1, 2],
        );
        let least = times[..3].iter().min().unwrap();
        let most = times[..3].iter().max().unwrap();
        assert!(most - least <= 6000, "{times:?}");
    }

    #[test]
    fn turns_are_as_long_as_their_slices() {
        let mut turns = turns(&[(0, 1000), (0, 3000)]);
        let times = share(&mut turns, 4000, |_| 100, &[1, 2]);
        assert!(times[2].abs_diff(3 * times[1]) <= 4000, "{times:?}");
    }

    #[test]
    fn the_highest_priority_goes_first_and_what_is_blocked_lets_others_pass() {
        let mut turns = turns(&[(9, 1000), (5, 1000)]);
        assert_eq!(
            share(&mut turns, 10, |_| 100, &[0, 1, 2])[..3],
            [0, 1000, 0]
        );
        assert_eq!(share(&mut turns, 10, |_| 100, &[0, 2])[..3], [0, 0, 1000]);
        (0..3).for_each(|index| turns.enter(of(index)));
        let blocked = |index: TopicIndex| {
            if index == of(1) {
                Stands::Blocked
            } else {
                Stands::Server
            }
        };
        assert_eq!(
            (turns.next(blocked), turns.highest(blocked)),
            (Some(of(2)), Some(5))
        );
        assert_eq!(
            (
                turns.next(|_| Stands::Blocked),
                turns.highest(|_| Stands::Blocked)
            ),
            (None, None)
        );
        assert_eq!(
            turns.next(|_| Stands::Server),
            Some(of(1)),
            "it has kept its place"
        );
        assert_eq!(turns.next(|_| Stands::Nothing), None);
    }

    #[test]
    fn a_topic_that_comes_back_has_saved_nothing_and_owes_what_it_owed() {
        let mut turns = turns(&[(0, 1000), (0, 1000)]);
        share(&mut turns, 1, |_| 60_000, &[1]);
        let times = share(&mut turns, 500, |_| 100, &[2]);
        assert_eq!(times[2], 50_000, "alone it goes on");
        let times = share(&mut turns, 500, |_| 100, &[1, 2]);
        assert!(times[1] == 0 && times[2] == 50_000, "{times:?}");
        let times = share(&mut turns, 1000, |_| 100, &[1, 2]);
        assert!((40_000..=50_000).contains(&times[1]), "{times:?}");
    }

    #[test]
    fn turns_become_shorter_when_enough_pages_come_and_longer_again_when_not() {
        let rules = topics(&[(0, 1000)]);
        let mut turns = Turns::new(&rules, Timestamp::ZERO);
        turns.takers[1].pages_min = 10;
        let mut now = Timestamp::ZERO;
        let mut minute = |turns: &mut Turns, pages| {
            (0..pages).for_each(|_| turns.fetched(of(1)));
            turns.tend(now + PERIOD / 2, 0.5);
            now = now + PERIOD;
            turns.tend(now, 0.5);
            turns.account(of(1)).slice / 1000
        };
        assert_eq!(
            [5, 5, 4, 4].map(|pages| minute(&mut turns, pages)),
            [900, 800, 900, 1000],
            "half is done here"
        );
        assert_eq!(minute(&mut turns, 4), 1000);
        assert_eq!((0..20).map(|_| minute(&mut turns, 9)).last(), Some(200));
        let stored = turns.account(of(1));
        let mut later = Turns::new(&rules, now);
        later.takers[1].pages_min = 10;
        later.restore(of(1), stored);
        assert_eq!(later.account(of(1)), stored);
        later.takers[1].pages_min = 0;
        later.restore(of(1), stored);
        assert_eq!(
            later.account(of(1)).slice,
            1_000_000,
            "its rules have changed"
        );
    }

    proptest! {
        /// Goal: no topic starves among its equals, and a lower one never goes before a higher one,
        /// whatever comes and goes.
        #[test]
        fn nobody_starves_among_equals_and_priorities_are_strict(
            priorities in proptest::collection::vec(0u8..3, 1..6),
            steps in proptest::collection::vec((any::<u8>(), 1u64..3000), 1..200),
        ) {
            let rules: Vec<_> = priorities.iter().map(|&priority| (priority, 1000)).collect();
            let mut turns = turns(&rules);
            let priority = |turns: &Turns, of: TopicIndex| turns.takers[usize::from(of.0)].priority;
            // The first topic that is configured stands all the time.
            let mut waited = 0;
            for (others, lasts_ms) in steps {
                let stand = |index: TopicIndex| match index.0 {
                    1 => Stands::Server,
                    index if usize::from(index) <= priorities.len() && others >> index & 1 == 1 => Stands::Server,
                    _ => Stands::Nothing,
                };
                (0..=priorities.len() as u16).filter(|&index| stand(of(index)) == Stands::Server).for_each(|index| {
                    turns.enter(of(index));
                });
                let next = turns.next(stand).unwrap();
                prop_assert_eq!(stand(next), Stands::Server);
                let highest = (0..=priorities.len() as u16).map(of).filter(|index| stand(*index) == Stands::Server);
                let highest = highest.map(|index| priority(&turns, index)).max().unwrap();
                prop_assert_eq!(priority(&turns, next), highest);
                prop_assert_eq!(turns.highest(stand), Some(highest));
                let lasts = Duration::from_millis(lasts_ms);
                turns.charge(next, lasts);
                waited = if next == of(1) || highest > priority(&turns, of(1)) { 0 } else { waited + lasts_ms };
                // Each of the others has at most its slice and one connection in each round, and so
                // has this one.
                prop_assert!(waited <= 4000 * 6 * 4, "{waited} ms");
            }
        }
    }
}

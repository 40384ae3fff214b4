//! Limits: how much of a node each topic may have, however much waits of it.
//!
//! In: what jobs of a topic request and bring. Out: whether the topic may have another job now, and
//! when if not.
//!
//! Each scheduler keeps to its part of a rate: as much as it has of all partitions. A topic saves
//! up what it did not use for a second, and owes what it used beyond.
//!
//! Invariant: over a long time a topic has no more than its rates, and one job; and nothing beyond
//! its budget.

use crate::keys::budget::Budget;
use crate::keys::topic::TopicIndex;
use crate::ranking::topics::{TopicLimits, Topics};
use rhumb_url::time::Timestamp;
use std::time::Duration;

/// A topic whose rate is used up is looked at again after so long, at least: numbers are rounded.
const WAIT_MIN: Duration = Duration::from_millis(1);
/// And after so many seconds, at most.
const WAIT_MAX_S: f64 = 3600.0;
/// Bytes that a page is taken for while none of its topic has come.
const PAGE_BYTES_GUESS: u64 = 16 << 10;

/// What a topic may have of something in a second, and what is left of it.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// 0: as much as it likes.
    rate: f64,
    left: f64,
    filled: Timestamp,
}

impl Bucket {
    fn new(rate: u64, now: Timestamp) -> Self {
        Bucket {
            rate: rate as f64,
            left: rate as f64,
            filled: now,
        }
    }

    fn at(&self, now: Timestamp, part: f64) -> f64 {
        let rate = self.rate * part;
        (self.left + rate * now.since(self.filled).as_secs_f64()).min(rate.max(1.0))
    }

    fn take(&mut self, now: Timestamp, part: f64, amount: f64) {
        if self.rate > 0.0 {
            (self.left, self.filled) = (self.at(now, part) - amount, now);
        }
    }

    /// When there is something left; none when there is now, or never.
    fn due(&self, now: Timestamp, part: f64) -> Option<Timestamp> {
        let lacks = 1.0 - self.at(now, part);
        let wait = lacks / (self.rate * part);
        let is_due_later = self.rate > 0.0 && lacks > 0.0 && wait.is_finite();
        is_due_later.then(|| now + Duration::from_secs_f64(wait.min(WAIT_MAX_S)).max(WAIT_MIN))
    }
}

#[derive(Clone, Debug)]
struct Limit {
    pages: Bucket,
    bytes: Bucket,
    /// Pages that came, and their bytes.
    came: u64,
    came_bytes: u64,
    connections_percent: u8,
    connections: u64,
    /// What is left of its budget.
    budget: Budget,
}

impl Limit {
    /// What a page is expected to bring, where bytes are limited.
    fn page_bytes(&self) -> u64 {
        let mean = self
            .came_bytes
            .checked_div(self.came)
            .unwrap_or(PAGE_BYTES_GUESS)
            .max(1);
        if self.bytes.rate > 0.0 { mean } else { 0 }
    }
}

/// The limits of all topics.
#[derive(Debug)]
pub(crate) struct Limits {
    of_topics: Vec<Limit>,
    /// What this scheduler has of all partitions, from 0 to 1.
    part: f64,
}

impl Limits {
    pub(crate) fn new(topics: &Topics, now: Timestamp) -> Self {
        let limit = |of: &TopicLimits| Limit {
            pages: Bucket::new(of.pages_per_second, now),
            bytes: Bucket::new(of.bytes_per_second, now),
            came: 0,
            came_bytes: 0,
            connections_percent: of.connections_percent,
            connections: 0,
            budget: Budget::UNLIMITED,
        };
        Limits {
            of_topics: topics
                .rules()
                .iter()
                .map(|rules| limit(&rules.limits))
                .collect(),
            part: 1.0,
        }
    }

    /// The scheduler has so much of all partitions from now on.
    pub(crate) fn has_part(&mut self, part: f64) {
        self.part = part;
    }

    /// So much is left of the budgets of topics.
    pub(crate) fn take_budgets(&mut self, budgets: impl Iterator<Item = (TopicIndex, Budget)>) {
        budgets.for_each(|(of, budget)| {
            self.get(of)
                .into_iter()
                .for_each(|limit| limit.budget = budget)
        });
    }

    /// What is left of the budget of a topic.
    pub(crate) fn budget(&self, of: TopicIndex) -> Budget {
        self.of_topics
            .get(usize::from(of.0))
            .map_or(Budget::UNLIMITED, |limit| limit.budget)
    }

    /// What this scheduler has of all partitions.
    pub(crate) fn part(&self) -> f64 {
        self.part
    }

    fn get(&mut self, of: TopicIndex) -> Option<&mut Limit> {
        self.of_topics.get_mut(usize::from(of.0))
    }

    /// Returns whether a topic may have another job, of so many `connections` that there are.
    pub(crate) fn may(&self, of: TopicIndex, now: Timestamp, connections: u64) -> bool {
        let Some(limit) = self.of_topics.get(usize::from(of.0)) else {
            return true;
        };
        let most = (connections * u64::from(limit.connections_percent)).div_ceil(100);
        let has_room = limit.connections_percent >= 100 || limit.connections < most;
        has_room && !self.waits(of, now)
    }

    /// Returns whether its rates or its budget keep a topic from having another job.
    pub(crate) fn waits(&self, of: TopicIndex, now: Timestamp) -> bool {
        self.budget(of).left() == 0 || self.due(of, now).is_some()
    }

    /// Jobs more that a topic may have now, of so many `connections` that there are. What one
    /// brings decides on the next where it has a rate.
    pub(crate) fn jobs_max(&self, of: TopicIndex, now: Timestamp, connections: u64) -> usize {
        let Some(limit) = self
            .of_topics
            .get(usize::from(of.0))
            .filter(|_| self.may(of, now, connections))
        else {
            return 0;
        };
        let most = (connections * u64::from(limit.connections_percent)).div_ceil(100);
        let jobs = match limit.connections_percent {
            _ if limit.pages.rate > 0.0 || limit.bytes.rate > 0.0 => 1,
            100.. => u64::MAX,
            _ => most - limit.connections.min(most),
        };
        usize::try_from(jobs.min(limit.budget.left())).unwrap_or(usize::MAX)
    }

    /// When the rates of a topic let it have another job; none when they do now.
    pub(crate) fn due(&self, of: TopicIndex, now: Timestamp) -> Option<Timestamp> {
        let limit = self.of_topics.get(usize::from(of.0))?;
        [&limit.pages, &limit.bytes]
            .into_iter()
            .filter_map(|bucket| bucket.due(now, self.part))
            .max()
    }

    /// Pages that its next job may have: no more than a second's, and no more than are left.
    pub(crate) fn pages_max(&self, of: TopicIndex) -> usize {
        let Some(limit) = self.of_topics.get(usize::from(of.0)) else {
            return usize::MAX;
        };
        let by_bytes = limit.bytes.rate / limit.page_bytes().max(1) as f64;
        let rates = [limit.pages.rate, by_bytes]
            .into_iter()
            .filter(|rate| *rate > 0.0);
        let of_a_second = rates
            .map(|rate| ((rate * self.part).ceil() as usize).max(1))
            .min();
        of_a_second
            .unwrap_or(usize::MAX)
            .min(usize::try_from(limit.budget.left()).unwrap_or(usize::MAX))
    }

    /// A topic has a connection more.
    pub(crate) fn connected(&mut self, of: TopicIndex) {
        self.get(of)
            .into_iter()
            .for_each(|limit| limit.connections += 1);
    }

    /// A topic has a connection less.
    pub(crate) fn closed(&mut self, of: TopicIndex) {
        self.get(of)
            .into_iter()
            .for_each(|limit| limit.connections = limit.connections.saturating_sub(1));
    }

    /// A job of a topic is to request so many pages. Gives the bytes that each is expected to
    /// bring.
    pub(crate) fn request(&mut self, of: TopicIndex, now: Timestamp, pages: usize) -> u64 {
        let part = self.part;
        let Some(limit) = self.get(of) else { return 0 };
        let page_bytes = limit.page_bytes();
        limit.pages.take(now, part, pages as f64);
        limit
            .bytes
            .take(now, part, (pages as u64 * page_bytes) as f64);
        page_bytes
    }

    /// So many pages of a job were not requested, which were expected to bring so many bytes each.
    pub(crate) fn spare(&mut self, of: TopicIndex, now: Timestamp, pages: usize, page_bytes: u64) {
        let part = self.part;
        if let Some(limit) = self.get(of) {
            limit.pages.take(now, part, -(pages as f64));
            limit
                .bytes
                .take(now, part, -((pages as u64 * page_bytes) as f64));
        }
    }

    /// A page of a job brought so many bytes, in the place of those that were expected; none when
    /// no answer came.
    pub(crate) fn brought(&mut self, of: TopicIndex, now: Timestamp, bytes: u64, page_bytes: u64) {
        let part = self.part;
        if let Some(limit) = self.get(of) {
            limit.came += u64::from(bytes > 0);
            limit.came_bytes += bytes;
            limit
                .bytes
                .take(now, part, bytes as f64 - page_bytes as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranking::topics::tests::limited;

    const T: TopicIndex = TopicIndex(1);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(millis * 1000)
    }

    #[test]
    fn a_topic_has_no_more_than_its_rates_over_time_and_a_scheduler_its_part_of_them() {
        for (part, expected) in [(1.0, 100), (0.5, 50)] {
            let mut limits = Limits::new(
                &limited(TopicLimits {
                    pages_per_second: 10,
                    ..TopicLimits::default()
                }),
                at(0),
            );
            limits.has_part(part);
            let mut pages = 0;
            for now in (0..10_000).step_by(10).map(at) {
                if limits.may(T, now, 64) {
                    let job = limits.pages_max(T).min(50);
                    limits.request(T, now, job);
                    // Some come back.
                    limits.spare(T, now, 2, 0);
                    pages += job - 2;
                } else {
                    assert!(limits.due(T, now).unwrap() > now);
                }
            }
            assert!(
                (expected..=expected + 12).contains(&pages),
                "{pages} pages in ten seconds"
            );
        }
        let other = Limits::new(&limited(TopicLimits::default()), at(0));
        assert!(
            other.may(T, at(0), 0)
                && other.due(T, at(0)).is_none()
                && other.pages_max(T) == usize::MAX
        );
        assert_eq!(other.jobs_max(T, at(0), 0), usize::MAX);
    }

    #[test]
    fn bytes_beyond_the_rate_are_owed() {
        let mut limits = Limits::new(
            &limited(TopicLimits {
                bytes_per_second: 1000,
                ..TopicLimits::default()
            }),
            at(0),
        );
        assert!(limits.may(T, at(0), 64));
        assert_eq!(limits.pages_max(T), 1, "nobody knows how long they are");
        let expected = limits.request(T, at(0), 2);
        limits.spare(T, at(0), 1, expected);
        limits.brought(T, at(0), 6000, expected);
        assert!(!limits.may(T, at(4900), 64));
        let due = limits.due(T, at(4900)).unwrap();
        assert!(
            due > at(5000) && due < at(5010) && limits.may(T, due, 64),
            "{due:?}"
        );
        // What is not used is saved for a second.
        assert_eq!(
            limits.request(T, at(60_000), 1),
            6000,
            "as long as the one before"
        );
        limits.brought(T, at(60_000), 1500, 6000);
        assert!(!limits.may(T, at(60_400), 64) && limits.may(T, at(60_600), 64));
    }

    #[test]
    fn a_share_of_the_connections_is_kept_and_never_less_than_one() {
        let mut limits = Limits::new(
            &limited(TopicLimits {
                connections_percent: 25,
                ..TopicLimits::default()
            }),
            at(0),
        );
        for connected in 0..3 {
            assert_eq!(
                [limits.may(T, at(0), 8), limits.may(T, at(0), 3)],
                [connected < 2, connected < 1]
            );
            assert_eq!(
                limits.jobs_max(T, at(0), 8),
                2usize.saturating_sub(connected)
            );
            limits.connected(T);
        }
        (0..3).for_each(|_| limits.closed(T));
        assert!(limits.may(T, at(0), 1));
    }
}

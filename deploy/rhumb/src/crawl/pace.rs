//! The pace of a crawl, and when to look at it again: rarely while there is much to do, often when
//! its end is near.
//!
//! In: how many URLs had an outcome at each look. Out: the wait until the next look. Invariant: it
//! is within [`LOOK_AFTER_MIN`] and [`LOOK_AFTER_MAX`], whatever is known.

use std::collections::VecDeque;
use std::time::Duration;

/// Processes take about so long to start.
pub(super) const FIRST_LOOK_AFTER: Duration = Duration::from_millis(400);
/// The pace is that of the last so much.
const PACE_OVER: Duration = Duration::from_secs(2);
/// Between two looks when the end is near.
const LOOK_AFTER_MIN: Duration = Duration::from_millis(100);
/// The same at first; grows with the crawl.
const LOOK_AFTER: Duration = Duration::from_millis(200);
const LOOK_AFTER_MAX: Duration = Duration::from_secs(1);
/// The same of a crawl that is over and goes on being conducted: looks are most of what it costs.
pub(super) const LOOK_AFTER_IDLE: Duration = Duration::from_secs(5);

/// How fast URLs come to their outcomes.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When there were so many outcomes: at looks of the last [`PACE_OVER`], and at the one before.
    looks: VecDeque<(Duration, u64)>,
}

impl Pace {
    /// At this time of the crawl so many URLs had an outcome.
    pub(super) fn learn(&mut self, elapsed: Duration, outcomes: u64) {
        self.looks.push_back((elapsed, outcomes));
        while self
            .looks
            .get(1)
            .is_some_and(|(at, _)| elapsed.saturating_sub(*at) > PACE_OVER)
        {
            self.looks.pop_front();
        }
    }

    /// How long to wait until the next look when so many URLs are left.
    pub(super) fn next_look(&self, elapsed: Duration, left: u64) -> Duration {
        let by_age = (elapsed / 20).clamp(LOOK_AFTER, LOOK_AFTER_MAX);
        self.rest(left)
            .map_or(by_age, |rest| (rest / 4).clamp(LOOK_AFTER_MIN, by_age))
    }

    /// How long those that are left take at this pace; none while nothing moves.
    fn rest(&self, left: u64) -> Option<Duration> {
        let (begin, before) = self.looks.front()?;
        let (end, now) = self.looks.back()?;
        let ended = u32::try_from(now.saturating_sub(*before))
            .ok()
            .filter(|&ended| ended > 0)?;
        Some((*end - *begin).saturating_mul(u32::try_from(left).unwrap_or(u32::MAX)) / ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_rare_while_much_is_left_and_frequent_near_the_end() {
        let mut pace = Pace::default();
        let minute = Duration::from_secs(60);
        assert_eq!(pace.next_look(Duration::ZERO, 0), LOOK_AFTER);
        for (ms, outcomes) in [(0, 0), (500, 500), (1000, 1000)] {
            pace.learn(minute + Duration::from_millis(ms), outcomes);
        }
        assert_eq!(pace.next_look(minute, 100_000), LOOK_AFTER_MAX);
        assert_eq!(
            pace.next_look(minute, 1600),
            Duration::from_millis(400),
            "a quarter of what is left"
        );
        assert_eq!(pace.next_look(minute, 10), LOOK_AFTER_MIN);
        assert_eq!(pace.next_look(minute, 0), LOOK_AFTER_MIN);
        for second in 2..9 {
            pace.learn(minute + Duration::from_secs(second), 1000);
        }
        assert_eq!(
            pace.next_look(minute, 10),
            LOOK_AFTER_MAX,
            "nothing moves: nobody knows how long it takes"
        );
    }
}

//! A partition's clock: how a point of a process's time is stored.
//!
//! It goes only while a scheduler has the partition open, and is stored with every commit of the
//! partition. So it never runs ahead of true time. A stored wait goes on from where it was, or from
//! earlier, and is never shorter than it was meant to be (P2), whatever the process or the
//! machine's clock did in between. An age measured by this clock leaves out the time between two
//! lives. So what must not be older than it seems (P5) is not carried over.

use rhumb_url::time::Timestamp;
use std::time::Duration;

/// Turns points of this process's time into points of the partition's and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Microseconds that the partition's clock showed when the partition was opened.
    base: u64,
    opened: Timestamp,
    life: u64,
}

impl Clock {
    /// A clock that goes on from `base` at `now`. `life`: a number that no other life of the
    /// partition has, wherever it was.
    pub(crate) fn resume(base: u64, now: Timestamp, life: u64) -> Self {
        Clock {
            base,
            opened: now,
            life,
        }
    }

    /// Turns a point of the process's time into one for storing. Points before the partition was
    /// opened count as that moment.
    pub(crate) fn store(self, at: Timestamp) -> u64 {
        let micros = u64::try_from(at.since(self.opened).as_micros()).unwrap_or(u64::MAX);
        self.base.saturating_add(micros)
    }

    /// Turns a stored point into a point of the process's time. Points before the partition was
    /// opened count as that moment.
    pub(crate) fn restore(self, stored: u64) -> Timestamp {
        self.opened + Duration::from_micros(stored.saturating_sub(self.base))
    }

    /// The life of the partition in which this clock goes.
    pub(crate) fn life(self) -> u64 {
        self.life
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_wait_goes_on_after_a_restart_from_where_it_was() {
        let before = Clock::resume(0, at(5), 1);
        let next_contact = before.store(at(40));
        let stopped = before.store(at(10));
        // The next process counts its time from another origin.
        let after = Clock::resume(stopped, at(1000), 2);
        assert_eq!(after.restore(next_contact), at(1030));
        assert_eq!(after.restore(before.store(at(6))), at(1000));
    }
}

//! The lease on an instance's partitions, as far as the settlement needs it: until when it is held,
//! and whether it was renewed without a gap.
//!
//! In: until when each renewal lets it be held. Out: whether something may be committed, whether the
//! process could not hear for a while, and the core's clock. Invariant: the core never knows a time
//! in which it could not hear before it is told so: to it, that time would count against others.
//!
//! A renewal is a question to the broker and its answer, every quarter of the lease. When they stay
//! away, the process stood still, had no connection, or the broker did: nothing that others sent
//! was heard meanwhile.

use rhumb_url::time::Timestamp;
use std::time::Duration;

/// The lease.
#[derive(Debug)]
pub(super) struct PartitionLease {
    until: Timestamp,
    /// Two renewals that are further apart have at least two between them that did not come about.
    gap_max: Duration,
    was_deaf: bool,
    /// Until when it is held as far as the core knows.
    told_until: Timestamp,
}

impl PartitionLease {
    /// A lease that lasts so long and is not held yet.
    pub(super) fn new(length: Duration) -> Self {
        PartitionLease {
            until: Timestamp::ZERO,
            gap_max: length * 3 / 4,
            was_deaf: false,
            told_until: Timestamp::ZERO,
        }
    }

    /// It is held until then. To be called as often as one likes.
    pub(super) fn leased(&mut self, until: Timestamp) {
        let is_first = self.until == Timestamp::ZERO;
        self.was_deaf |= !is_first && until.since(self.until) > self.gap_max;
        self.until = until;
        if !self.was_deaf {
            self.told_until = until;
        }
    }

    /// Returns whether it is held.
    pub(super) fn is_held(&self, now: Timestamp) -> bool {
        now < self.until
    }

    /// Says, once, while the lease is held, that the process hears again.
    pub(super) fn hears_again(&mut self, now: Timestamp) -> bool {
        let hears_again = self.is_held(now) && std::mem::take(&mut self.was_deaf);
        if hears_again {
            self.told_until = self.until;
        }
        hears_again
    }

    /// The time that the core may know. A process may stand still at any instruction, and in the
    /// midst of its work: then the core's clock stops at the end of the lease, until it is told
    /// that it hears again.
    pub(super) fn clock(&self, now: Timestamp) -> Timestamp {
        now.min(self.told_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn who_misses_two_renewals_in_a_row_was_deaf_and_hears_that_once() {
        let mut lease = PartitionLease::new(Duration::from_secs(4));
        assert!(!lease.is_held(at(0)));
        for until in [4, 4, 5, 6, 8, 11] {
            lease.leased(at(until));
            assert!(!lease.hears_again(at(0)), "{until}");
        }
        assert!(lease.is_held(at(10)) && !lease.is_held(at(11)));
        lease.leased(at(15));
        assert!(!lease.hears_again(at(15)), "it is over already");
        assert!(lease.hears_again(at(14)));
        assert!(!lease.hears_again(at(14)));
        lease.leased(at(50));
        lease.leased(at(51));
        assert!(lease.hears_again(at(50)), "however much later it is asked");
    }
    #[test]
    fn the_cores_clock_stops_with_the_lease_until_it_is_told_that_it_hears_again() {
        let mut lease = PartitionLease::new(Duration::from_secs(4));
        lease.leased(at(4));
        assert_eq!((lease.clock(at(3)), lease.clock(at(9))), (at(3), at(4)));
        lease.leased(at(5));
        assert_eq!(lease.clock(at(9)), at(5), "held without a gap");
        lease.leased(at(14));
        assert_eq!(lease.clock(at(11)), at(5), "not told yet");
        assert!(lease.hears_again(at(11)));
        assert_eq!((lease.clock(at(11)), lease.clock(at(20))), (at(11), at(14)));
    }
}

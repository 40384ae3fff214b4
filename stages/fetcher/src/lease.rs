//! The lease of a job: until when its requests may be sent (P1), and when the next renewal is due.
//!
//! In: when renewals were sent and which were confirmed. Out: the deadline.
//!
//! Invariant: a confirmed renewal counts from when its report was sent, not from when the
//! confirmation came. So the deadline here is never later than the scheduler's.

use rhumb_url::time::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

pub(crate) struct Lease {
    length: Duration,
    deadline: Timestamp,
    renew_at: Timestamp,
    /// Renewals that are not confirmed yet: number of the report, and time of sending.
    unconfirmed: VecDeque<(u32, Timestamp)>,
}

impl Lease {
    /// A lease that ends at `deadline`; a confirmed renewal makes it last `length` from its
    /// sending.
    pub(crate) fn new(length: Duration, deadline: Timestamp, renew_at: Timestamp) -> Self {
        Lease {
            length,
            deadline,
            renew_at,
            unconfirmed: VecDeque::new(),
        }
    }

    /// No request at this time or later.
    pub(crate) fn deadline(&self) -> Timestamp {
        self.deadline
    }

    /// When to send the next renewal; none when that would be too late.
    pub(crate) fn renew_at(&self) -> Option<Timestamp> {
        (self.renew_at < self.deadline).then_some(self.renew_at)
    }

    /// A renewal is sent with the report of that number.
    pub(crate) fn sent(&mut self, sequence: u32, now: Timestamp, renew_every: Duration) {
        self.unconfirmed.push_back((sequence, now));
        self.renew_at = now + renew_every;
    }

    /// A renewal was confirmed. One that is not known changes nothing.
    pub(crate) fn confirmed(&mut self, sequence: u32) {
        while let Some(&(renewal, sent)) = self.unconfirmed.front()
            && renewal <= sequence
        {
            self.unconfirmed.pop_front();
            if renewal == sequence {
                self.deadline = self.deadline.max(sent + self.length);
            }
        }
    }
}

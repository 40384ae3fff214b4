//! Times of a job: how long its connection took to open, how long there was a request in hand, how
//! long answers took.

use rhumb_url::time::Timestamp;
use std::time::Duration;

pub(crate) struct Times {
    /// To connect, in microseconds; none without a connection.
    pub(crate) connect_us: Option<u32>,
    /// Since when there has been a request in hand.
    pub(crate) busy_since: Timestamp,
    /// How long there was before that.
    pub(crate) busy: Duration,
    /// How long the answered requests took together.
    pub(crate) elapsed: Duration,
}

impl Times {
    pub(crate) fn new(now: Timestamp) -> Self {
        Times {
            connect_us: None,
            busy_since: now,
            busy: Duration::ZERO,
            elapsed: Duration::ZERO,
        }
    }

    /// A request ended; the first one says how long it took to connect, which does not count as its
    /// time. `is_idle`: it was the last one in hand.
    pub(crate) fn ended(&mut self, now: Timestamp, connect_us: Option<u32>, is_idle: bool) {
        if let Some(connect_us) = connect_us.filter(|_| self.connect_us.is_none()) {
            self.busy_since = (self.busy_since + Duration::from_micros(connect_us.into())).min(now);
            self.connect_us = Some(connect_us);
        }
        if is_idle {
            self.busy += now.since(self.busy_since);
        }
    }
}

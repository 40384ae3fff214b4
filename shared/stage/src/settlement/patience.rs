//! How long the answer of a stream is awaited: a little longer than answers take, by the rule that
//! TCP has for its acknowledgements (RFC 6298: smoothed time and variation, doubled when an answer
//! does not come).
//!
//! In: how long answers took, and that one did not come. Out: the time-out of what is published
//! next. A broker that syncs every message on a slow disk answers late; to send everything again
//! meanwhile would make it later.

use std::time::Duration;

/// The least time for an answer.
const ACK_TIMEOUT_MIN: Duration = Duration::from_secs(2);
/// The most: what a broker really lost is published again after so long.
const ACK_TIMEOUT_MAX: Duration = Duration::from_secs(16);
/// Longer than answers usually take, even when they take always the same.
const MARGIN_MIN: Duration = Duration::from_millis(100);

/// How long answers are awaited.
#[derive(Debug)]
pub(super) struct Patience {
    /// How long answers take, and how much that varies; none before the first.
    usual: Option<(Duration, Duration)>,
    timeout: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            usual: None,
            timeout: ACK_TIMEOUT_MIN,
        }
    }
}

impl Patience {
    /// The time-out of what is published now.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The answer to a message that was published once came after this time.
    pub(super) fn answered(&mut self, took: Duration) {
        let (smoothed, variation) = match self.usual {
            None => (took, took / 2),
            Some((smoothed, variation)) => (
                (7 * smoothed + took) / 8,
                (3 * variation + smoothed.abs_diff(took)) / 4,
            ),
        };
        self.usual = Some((smoothed, variation));
        self.timeout =
            (smoothed + (4 * variation).max(MARGIN_MIN)).clamp(ACK_TIMEOUT_MIN, ACK_TIMEOUT_MAX);
    }

    /// An answer did not come within the time-out that its message was published with. All that
    /// were published with the same one double it once, not once each.
    pub(super) fn expired(&mut self, timeout: Duration) {
        self.timeout = self.timeout.max(2 * timeout).min(ACK_TIMEOUT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn fast_answers_leave_the_least() {
        let mut patience = Patience::default();
        for millis in [1, 5, 300, 2, 1] {
            patience.answered(Duration::from_millis(millis));
            assert_eq!(patience.timeout(), 2 * SECOND);
        }
    }

    /// The figures of RFC 6298: R, R/2; then 7/8 and 3/4 of what was.
    #[test]
    fn slow_answers_are_awaited_for_longer_than_they_take() {
        let mut patience = Patience::default();
        patience.answered(3 * SECOND);
        assert_eq!(patience.timeout(), 9 * SECOND);
        patience.answered(5 * SECOND);
        // 3.25 s, varying by (3 x 1.5 + 2) / 4.
        assert_eq!(patience.timeout(), Duration::from_millis(3_250 + 4 * 1_625));
        for _ in 0..100 {
            patience.answered(5 * SECOND);
        }
        assert!(
            patience.timeout() >= 5 * SECOND && patience.timeout() < 6 * SECOND,
            "{:?}",
            patience.timeout()
        );
        for _ in 0..100 {
            patience.answered(Duration::from_millis(10));
        }
        assert_eq!(patience.timeout(), 2 * SECOND);
    }

    #[test]
    fn answers_that_do_not_come_double_it_once_for_all_that_waited_alike_up_to_the_most() {
        let mut patience = Patience::default();
        let mut timeouts = Vec::new();
        for _ in 0..5 {
            let timeout = patience.timeout();
            (0..1_000).for_each(|_| patience.expired(timeout));
            timeouts.push(patience.timeout().as_secs());
        }
        assert_eq!(timeouts, [4, 8, 16, 16, 16]);
        // One answer tells how long they take.
        patience.answered(SECOND);
        assert_eq!(patience.timeout(), 3 * SECOND);
    }
}

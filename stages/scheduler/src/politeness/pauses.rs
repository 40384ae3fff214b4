//! Pauses: how long a server is left alone after a contact, and after failures.
//!
//! Invariant: every wait is capped, and none after a failure is zero, so that a crawl of a finite
//! scope ends (P6).

use crate::settings::Settings;
use rhumb_wire::message::{RequestEnd, ResponseSummary};
use std::time::Duration;

/// No failure is without a wait, whatever is configured.
const BACK_OFF_MIN: Duration = Duration::from_millis(100);

/// Returns the pause between two contacts of a server. `crawl_delay` is what its robots.txt asks
/// for, `download` the time of its last answer. Within a job the fetcher lengthens the pause by the
/// answers that come.
pub(crate) fn gap(settings: &Settings, crawl_delay: Duration, download: Duration) -> Duration {
    settings
        .politeness
        .delay
        .max(crawl_delay.min(settings.politeness.crawl_delay_max))
        .max(settings.download_pause().after(download))
}

/// Wait after the `failures`-th failure in a row: `retry_wait`, doubling, at most `retry_wait_max`.
pub(crate) fn back_off(settings: &Settings, failures: u8) -> Duration {
    let doublings = u32::from(failures.saturating_sub(1)).min(31);
    settings
        .scheduler
        .retry_wait
        .saturating_mul(1 << doublings)
        .min(settings.scheduler.retry_wait_max)
        .max(BACK_OFF_MIN)
}

/// Returns for how long a response asks to leave the whole server alone; capped by the settings.
pub(crate) fn retry_after(settings: &Settings, end: &RequestEnd) -> Option<Duration> {
    match *end {
        RequestEnd::Response(ResponseSummary {
            status: 429 | 503,
            retry_after_s: Some(seconds),
            ..
        }) => {
            Some(Duration::from_secs(u64::from(seconds)).min(settings.politeness.retry_after_max))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::politeness::tests::response;
    use crate::settings::tests::settings;

    #[test]
    fn waits_double_up_to_their_cap() {
        let settings = settings();
        let waits: Vec<_> = [1, 2, 3, 4, 5, 6, 255]
            .map(|n| back_off(&settings, n).as_secs())
            .to_vec();
        assert_eq!(waits, [30, 60, 120, 240, 480, 900, 900]);
    }

    #[test]
    fn retry_after_is_capped_and_counts_with_two_statuses_alone() {
        let settings = settings();
        assert_eq!(
            retry_after(&settings, &response(503, Some(7))),
            Some(Duration::from_secs(7))
        );
        assert_eq!(
            retry_after(&settings, &response(429, Some(u32::MAX))),
            Some(settings.politeness.retry_after_max)
        );
        assert_eq!(retry_after(&settings, &response(200, Some(7))), None);
    }
}

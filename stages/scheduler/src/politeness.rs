//! Politeness: how long to leave a server alone, and what the end of a request means for its URL.
//!
//! Every wait is capped and every series of retries is bounded in number, so that a crawl of a finite scope
//! ends (P6). Sources: Cao, Jiang and Singh 2003 for the job's length; BUbiNG for waits by class of error.

use crate::settings::Settings;
use shared::message::{FailureKind, Outcome, RequestEnd};
use std::time::Duration;

/// No failure is without a wait, whatever is configured.
const BACK_OFF_MIN: Duration = Duration::from_millis(100);

/// Pause between two contacts of a server: `crawl_delay` is what its robots.txt asks for.
pub(crate) fn gap(settings: &Settings, crawl_delay: Duration) -> Duration {
    settings.delay.max(crawl_delay.min(settings.crawl_delay_max))
}

/// Wait after the `failures`-th failure in a row: `retry_wait`, doubling, at most `retry_wait_max`.
pub(crate) fn back_off(settings: &Settings, failures: u8) -> Duration {
    let doublings = u32::from(failures.saturating_sub(1)).min(31);
    settings.retry_wait.saturating_mul(1 << doublings).min(settings.retry_wait_max).max(BACK_OFF_MIN)
}

/// Number of URLs in the next job for a server: what one of its connections serves, and what fits into a visit.
/// `learned` is the server's own limit of requests for a connection, 0 when it is not known.
pub(crate) fn requests_max(settings: &Settings, learned: u32, gap: Duration) -> usize {
    let limit = if learned == 0 { settings.requests_per_connection } else { learned };
    let in_visit = match gap.as_micros() {
        0 => u128::MAX,
        gap => 1 + settings.visit_budget.as_micros() / gap,
    };
    usize::try_from(u128::from(limit.max(1)).min(in_visit)).unwrap_or(usize::MAX)
}

/// The server's limit of requests for a connection after one that served `requests`; 0 when it is not known.
/// A server that closes has shown its limit; one that did not close at what was taken for it has a higher one.
pub(crate) fn learn_requests(settings: &Settings, learned: u32, requests: u32, closed_by_server: bool) -> u32 {
    let most = settings.requests_per_connection;
    if closed_by_server && requests > 0 {
        requests.min(most)
    } else if learned > 0 && requests >= learned {
        learned.saturating_mul(2).min(most)
    } else {
        learned
    }
}

/// What a kind of failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ErrorClass {
    /// It is the server's: the URL keeps its attempts, the server is left alone for a while.
    pub(crate) server_down: bool,
    /// Another try may help.
    pub(crate) retry: bool,
    /// The server was contacted.
    pub(crate) contacted: bool,
}

/// The class of each kind of failure.
pub(crate) const fn class_of(kind: FailureKind) -> ErrorClass {
    match kind {
        FailureKind::Connect | FailureKind::Tls => ErrorClass { server_down: true, retry: true, contacted: true },
        FailureKind::Timeout | FailureKind::Reset | FailureKind::Protocol | FailureKind::HeaderTooLarge => {
            ErrorClass { server_down: false, retry: true, contacted: true }
        }
        FailureKind::Forbidden => ErrorClass { server_down: false, retry: false, contacted: false },
    }
}

/// What becomes of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It ended.
    Ends(Outcome, &'static str),
    /// It waits for another try after so long.
    Retry(Duration),
    /// It goes back to the front of its server's queue.
    Untried,
}

/// What the end of a request means for its URL, which was contacted `attempts` times with this one.
pub(crate) fn verdict(settings: &Settings, end: &RequestEnd, attempts: u8) -> Verdict {
    let again = |wait: Duration, outcome, reason| {
        if attempts < settings.attempts { Verdict::Retry(wait) } else { Verdict::Ends(outcome, reason) }
    };
    match *end {
        RequestEnd::Untried => Verdict::Untried,
        RequestEnd::Failure(kind) if class_of(kind).server_down => Verdict::Untried,
        RequestEnd::Failure(kind) if class_of(kind).retry => {
            again(back_off(settings, attempts), Outcome::Failed, kind.name())
        }
        RequestEnd::Failure(kind) => Verdict::Ends(Outcome::Failed, kind.name()),
        RequestEnd::Response { status, retry_after_s, .. } => {
            let wait = retry_after(settings, retry_after_s).unwrap_or_else(|| back_off(settings, attempts));
            match status {
                200..=299 => Verdict::Ends(Outcome::Fetched, ""),
                304 => Verdict::Ends(Outcome::NotModified, ""),
                300..=399 => Verdict::Ends(Outcome::Redirected, ""),
                404 | 410 => Verdict::Ends(Outcome::Gone, ""),
                408 | 429 => again(wait, Outcome::Refused, "retries exhausted"),
                400..=499 => Verdict::Ends(Outcome::Refused, ""),
                500..=599 => again(wait, Outcome::Failed, "retries exhausted"),
                _ => Verdict::Ends(Outcome::Failed, "status out of range"),
            }
        }
    }
}

/// How long a response asks to leave the whole server alone.
pub(crate) fn server_wait(settings: &Settings, end: &RequestEnd) -> Option<Duration> {
    match *end {
        RequestEnd::Response { status: 429 | 503, retry_after_s, .. } => retry_after(settings, retry_after_s),
        _ => None,
    }
}

fn retry_after(settings: &Settings, retry_after_s: Option<u32>) -> Option<Duration> {
    retry_after_s.map(|seconds| Duration::from_secs(u64::from(seconds)).min(settings.retry_after_max))
}

/// A smoothed estimate after another measurement: 0.8 of the old and 0.2 of the new (Cao, Jiang and Singh 2003).
/// 0 means that nothing was measured.
pub(crate) fn smooth(estimate: u32, measured: u32) -> u32 {
    if estimate == 0 {
        return measured.max(1);
    }
    let sum = 4 * u64::from(estimate) + u64::from(measured);
    u32::try_from(sum / 5).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler_tests::settings;

    fn response(status: u16, retry_after_s: Option<u32>) -> RequestEnd {
        RequestEnd::Response { status, bytes: 1, truncated: false, elapsed_us: 1, retry_after_s }
    }

    #[test]
    fn every_status_has_its_outcome() {
        let settings = Settings { attempts: 1, ..settings() };
        for (status, outcome) in [
            (200, Outcome::Fetched),
            (206, Outcome::Fetched),
            (301, Outcome::Redirected),
            (304, Outcome::NotModified),
            (404, Outcome::Gone),
            (410, Outcome::Gone),
            (401, Outcome::Refused),
            (408, Outcome::Refused),
            (429, Outcome::Refused),
            (500, Outcome::Failed),
            (503, Outcome::Failed),
            (0, Outcome::Failed),
            (999, Outcome::Failed),
        ] {
            let verdict = verdict(&settings, &response(status, None), 1);
            assert!(matches!(verdict, Verdict::Ends(found, _) if found == outcome), "{status}: {verdict:?}");
        }
    }

    #[test]
    fn only_what_another_try_may_help_is_tried_again_and_only_so_often() {
        let settings = settings();
        for end in
            [response(500, None), response(429, None), response(408, None), RequestEnd::Failure(FailureKind::Reset)]
        {
            for attempts in 1..settings.attempts {
                assert_eq!(verdict(&settings, &end, attempts), Verdict::Retry(back_off(&settings, attempts)));
            }
            assert!(matches!(verdict(&settings, &end, settings.attempts), Verdict::Ends(..)));
        }
        for end in [response(403, None), response(404, None), RequestEnd::Failure(FailureKind::Forbidden)] {
            assert!(matches!(verdict(&settings, &end, 1), Verdict::Ends(..)));
        }
        for kind in [FailureKind::Connect, FailureKind::Tls] {
            assert_eq!(verdict(&settings, &RequestEnd::Failure(kind), 200), Verdict::Untried);
        }
    }

    #[test]
    fn retry_after_holds_for_the_server_and_is_capped() {
        let settings = settings();
        assert_eq!(server_wait(&settings, &response(503, Some(7))), Some(Duration::from_secs(7)));
        assert_eq!(server_wait(&settings, &response(429, Some(u32::MAX))), Some(settings.retry_after_max));
        assert_eq!(server_wait(&settings, &response(200, Some(7))), None);
        assert_eq!(verdict(&settings, &response(503, Some(7)), 1), Verdict::Retry(Duration::from_secs(7)));
    }

    #[test]
    fn waits_double_up_to_their_cap() {
        let settings = settings();
        let waits: Vec<_> = [1, 2, 3, 4, 5, 6, 255].map(|n| back_off(&settings, n).as_secs()).to_vec();
        assert_eq!(waits, [30, 60, 120, 240, 480, 900, 900]);
    }

    #[test]
    fn a_job_is_as_long_as_a_connection_and_a_visit_allow() {
        let settings = settings();
        assert_eq!(requests_max(&settings, 0, Duration::ZERO), 50);
        assert_eq!(requests_max(&settings, 7, Duration::ZERO), 7);
        assert_eq!(requests_max(&settings, 0, Duration::from_secs(10)), 7);
        assert_eq!(requests_max(&settings, 0, Duration::from_secs(3600)), 1);
    }

    #[test]
    fn the_limit_of_a_connection_is_learned_and_unlearned() {
        let settings = settings();
        assert_eq!(learn_requests(&settings, 0, 5, true), 5);
        assert_eq!(learn_requests(&settings, 5, 5, false), 10);
        assert_eq!(learn_requests(&settings, 40, 40, false), 50);
        assert_eq!(learn_requests(&settings, 5, 3, false), 5);
        assert_eq!(learn_requests(&settings, 0, 500, true), 50);
        assert_eq!(learn_requests(&settings, 0, 0, true), 0);
    }
}

//! Politeness: how long to leave a server alone, and what the end of a request means for its URL.
//!
//! Every wait is capped and every series of retries is bounded in number, so that a crawl of a finite scope
//! ends (P6); [`crate::trouble`] has the table of what can go wrong. Source: Cao, Jiang and Singh 2003 for the job's
//! length.

use crate::settings::Settings;
use crate::trouble::{ForUrl, Trouble};
use shared::message::{Outcome, Report, RequestEnd};
use std::time::Duration;

/// No failure is without a wait, whatever is configured.
const BACK_OFF_MIN: Duration = Duration::from_millis(100);

/// Pause between two contacts of a server: `crawl_delay` is what its robots.txt asks for, `download` how long its last
/// answer took. Within a job the fetcher stretches it by the answers that come.
pub(crate) fn gap(settings: &Settings, crawl_delay: Duration, download: Duration) -> Duration {
    settings.delay.max(crawl_delay.min(settings.crawl_delay_max)).max(settings.download_pause.after(download))
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

/// How much the requests of a server's connection overlap, in thousandths, after another connection: the times of its
/// requests together by the time in which there was one. 0 when it is not known; one request overlaps with nothing.
pub(crate) fn learn_overlap(learned: u32, report: &Report) -> u32 {
    if report.requests < 2 || report.busy_us == 0 {
        return learned;
    }
    let permille = u128::from(report.elapsed_us) * 1000 / u128::from(report.busy_us);
    let most = 1000 * report.requests;
    smooth(learned, u32::try_from(permille).unwrap_or(u32::MAX).clamp(1000, most))
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

/// What the end of a request means for its URL, which was contacted `attempts` times with this one. Its wait counts
/// from when its server may be contacted again, so that others go first.
pub(crate) fn verdict(settings: &Settings, end: &RequestEnd, attempts: u8) -> Verdict {
    if let Some(class) = Trouble::of(end).map(Trouble::class) {
        return match class.url {
            ForUrl::GoesBack => Verdict::Untried,
            ForUrl::Attempt if attempts < settings.attempts => {
                let wait = back_off(settings, attempts);
                Verdict::Retry(retry_after(settings, end).map_or(wait, |shorter| shorter.min(wait)))
            }
            ForUrl::Attempt | ForUrl::Ends => Verdict::Ends(class.outcome, class.reason),
        };
    }
    match *end {
        RequestEnd::Untried | RequestEnd::Failure(_) => Verdict::Untried,
        RequestEnd::Response { status, .. } => match status {
            200..=299 => Verdict::Ends(Outcome::Fetched, ""),
            304 => Verdict::Ends(Outcome::NotModified, ""),
            300..=399 => Verdict::Ends(Outcome::Redirected, ""),
            404 | 410 => Verdict::Ends(Outcome::Gone, ""),
            400..=499 => Verdict::Ends(Outcome::Refused, ""),
            _ => Verdict::Ends(Outcome::Failed, "status out of range"),
        },
    }
}

/// How long a response asks to leave the whole server alone.
pub(crate) fn retry_after(settings: &Settings, end: &RequestEnd) -> Option<Duration> {
    match *end {
        RequestEnd::Response { status: 429 | 503, retry_after_s: Some(seconds), .. } => {
            Some(Duration::from_secs(u64::from(seconds)).min(settings.retry_after_max))
        }
        _ => None,
    }
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
    use shared::message::{FailureKind, Validators};

    fn response(status: u16, retry_after_s: Option<u32>) -> RequestEnd {
        RequestEnd::Response {
            status,
            bytes: 1,
            truncated: false,
            elapsed_us: 1,
            retry_after_s,
            fetched_at_ms: 0,
            media_type: String::new(),
            validators: Validators::default(),
        }
    }

    #[test]
    fn the_overlap_is_what_connections_of_several_requests_show() {
        let report = |requests, elapsed_us, busy_us| Report {
            job: shared::message::JobId { scheduler: 0, epoch: 1, number: 1 },
            fetcher: "f".into(),
            partition: 0,
            server: "http://a.test".into(),
            sequence: 1,
            last: true,
            results: Vec::new(),
            connect_us: None,
            requests,
            busy_us,
            elapsed_us,
            closed_by_server: false,
            robots: None,
        };
        assert_eq!(learn_overlap(0, &report(1, 500, 500)), 0, "one shows nothing");
        assert_eq!(learn_overlap(0, &report(5, 0, 0)), 0, "not measured");
        assert_eq!(learn_overlap(0, &report(10, 1000, 1000)), 1000);
        assert_eq!(learn_overlap(1000, &report(10, 4000, 1000)), 1600, "a fifth of the way");
        assert_eq!(learn_overlap(0, &report(3, 9000, 1000)), 3000, "no more than there are requests");
        assert_eq!(learn_overlap(0, &report(3, 900, 1000)), 1000);
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
        for kind in [FailureKind::Connect, FailureKind::Tls, FailureKind::Certificate] {
            assert_eq!(verdict(&settings, &RequestEnd::Failure(kind), 200), Verdict::Untried);
        }
    }

    #[test]
    fn retry_after_holds_for_the_server_and_is_capped() {
        let settings = settings();
        assert_eq!(retry_after(&settings, &response(503, Some(7))), Some(Duration::from_secs(7)));
        assert_eq!(retry_after(&settings, &response(429, Some(u32::MAX))), Some(settings.retry_after_max));
        assert_eq!(retry_after(&settings, &response(200, Some(7))), None);
        assert_eq!(verdict(&settings, &response(503, Some(7)), 1), Verdict::Retry(Duration::from_secs(7)));
        assert_eq!(verdict(&settings, &response(503, Some(700)), 1), Verdict::Retry(settings.retry_wait));
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

//! A visit: how many URLs the next job of a server gets, and what a finished one teaches.
//!
//! Source: Cao, Jiang and Singh 2003, the length of a connection and its time.

use crate::settings::Settings;
use rhumb_wire::message::Report;
use std::time::Duration;

/// Returns the number of URLs in the next job of a server: as many as one of its connections serves
/// and a visit has time for. `learned` is the server's own limit of requests on a connection; 0:
/// not known.
pub(crate) fn requests_max(settings: &Settings, learned: u32, gap: Duration) -> usize {
    let limit = if learned == 0 {
        settings.scheduler.requests_per_connection
    } else {
        learned
    };
    let in_visit = match gap.as_micros() {
        0 => u128::MAX,
        gap => 1 + settings.scheduler.visit_budget.as_micros() / gap,
    };
    usize::try_from(u128::from(limit.max(1)).min(in_visit)).unwrap_or(usize::MAX)
}

/// Where later links count, a job takes a URL for so many pages that were fetched of its server
/// before. The first pages tell most about what waits there, and what is in a job already gains
/// nothing by it.
const PAGES_PER_URL: u32 = 2;
/// A job takes so many at least: connections cost.
const URLS_MIN: usize = 4;

/// Returns the number of URLs in a job, at most `limit`, for a server of which so many `pages` were
/// fetched before.
pub(crate) fn growing(limit: usize, pages: u32) -> usize {
    limit.min(
        usize::try_from(pages / PAGES_PER_URL)
            .unwrap_or(usize::MAX)
            .max(URLS_MIN),
    )
}

/// Returns the server's limit of requests on a connection, after a connection that served
/// `requests`; 0: not known.
///
/// A server that closes has shown its limit. A server that served as many as its supposed limit and
/// did not close has a higher one.
pub(crate) fn learn_requests(
    settings: &Settings,
    learned: u32,
    requests: u32,
    closed_by_server: bool,
) -> u32 {
    let most = settings.scheduler.requests_per_connection;
    if closed_by_server && requests > 0 {
        requests.min(most)
    } else if learned > 0 && requests >= learned {
        learned.saturating_mul(2).min(most)
    } else {
        learned
    }
}

/// Returns how much the requests on a connection of the server overlap, in thousandths; 0: not
/// known.
///
/// A connection shows it by the sum of its requests' times, divided by the time with a request in
/// hand. One request alone shows nothing.
pub(crate) fn learn_overlap(learned: u32, report: &Report) -> u32 {
    if report.requests < 2 || report.busy_us == 0 {
        return learned;
    }
    let permille = u128::from(report.elapsed_us) * 1000 / u128::from(report.busy_us);
    let most = 1000 * report.requests;
    smooth(
        learned,
        u32::try_from(permille)
            .unwrap_or(u32::MAX)
            .clamp(1000, most),
    )
}

/// A smoothed estimate after another measurement: 0.8 of the old and 0.2 of the new (Cao, Jiang and
/// Singh 2003). 0 means that nothing was measured.
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
    use crate::settings::tests::settings;

    #[test]
    fn jobs_grow_with_the_pages_that_were_fetched_before() {
        assert_eq!(
            [0, 9, 10, 11, 41, 1000].map(|pages| growing(50, pages)),
            [4, 4, 5, 5, 20, 50]
        );
        assert_eq!(growing(3, 1000), 3);
    }

    #[test]
    fn the_overlap_is_what_connections_of_several_requests_show() {
        let report = |requests, elapsed_us, busy_us| Report {
            job: rhumb_wire::message::JobId {
                scheduler: 0,
                epoch: 1,
                number: 1,
            },
            fetcher: "f".into(),
            server: "http://a.test".into(),
            sequence: 1,
            last: true,
            requests,
            busy_us,
            elapsed_us,
            ..Report::default()
        };
        assert_eq!(
            learn_overlap(0, &report(1, 500, 500)),
            0,
            "one shows nothing"
        );
        assert_eq!(learn_overlap(0, &report(5, 0, 0)), 0, "not measured");
        assert_eq!(learn_overlap(0, &report(10, 1000, 1000)), 1000);
        assert_eq!(
            learn_overlap(1000, &report(10, 4000, 1000)),
            1600,
            "a fifth of the way"
        );
        assert_eq!(
            learn_overlap(0, &report(3, 9000, 1000)),
            3000,
            "no more than there are requests"
        );
        assert_eq!(learn_overlap(0, &report(3, 900, 1000)), 1000);
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

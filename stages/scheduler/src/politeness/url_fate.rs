//! The fate of a URL: what the end of a request means for it.
//!
//! Every series of tries is bounded in number (P6). [`crate::politeness::trouble`] has the table of
//! what can go wrong.

use crate::politeness::pauses::{back_off, retry_after};
use crate::politeness::trouble::{ForUrl, NO_LENGTH, Trouble};
use crate::settings::Settings;
use rhumb_wire::message::{FailureKind, Lack, Outcome, RequestEnd, ResponseSummary};
use std::time::Duration;

/// The reason in the outcome of a redirect that leads nowhere.
const NO_TARGET: &str = "no target: the redirect has no Location, or none that can be crawled";

/// What becomes of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UrlFate {
    /// It ended.
    Ends(Outcome, &'static str),
    /// It waits this long for another try.
    Retry(Duration),
    /// It goes back to the front of its server's queue.
    Untried,
}

/// Decides what becomes of a URL by the end of its request. The URL was contacted `attempts` times,
/// this one included.
///
/// The wait of a retry begins when its server may be contacted again, so that other URLs go first.
pub(crate) fn url_fate(settings: &Settings, end: &RequestEnd, attempts: u8) -> UrlFate {
    if let Some(class) = Trouble::of(end).map(Trouble::class) {
        return match class.url {
            ForUrl::GoesBack => UrlFate::Untried,
            ForUrl::Attempt if attempts < settings.scheduler.attempts => {
                let wait = back_off(settings, attempts);
                UrlFate::Retry(retry_after(settings, end).map_or(wait, |shorter| shorter.min(wait)))
            }
            ForUrl::Attempt | ForUrl::Ends => UrlFate::Ends(class.outcome, class.reason),
        };
    }
    match *end {
        RequestEnd::Failure(FailureKind::NotArchived) => {
            UrlFate::Ends(Outcome::Gone, "not in the archive")
        }
        RequestEnd::Untried | RequestEnd::Failure(_) => UrlFate::Untried,
        RequestEnd::Response(ResponseSummary { status, lacks, .. }) => {
            let (outcome, reason) = answered(status, lacks);
            UrlFate::Ends(outcome, reason)
        }
    }
}

/// The outcome of a response in which nothing went wrong, and a reason where its status alone does
/// not say it.
fn answered(status: u16, lacks: Option<Lack>) -> (Outcome, &'static str) {
    let reason = if lacks == Some(Lack::Length) {
        NO_LENGTH
    } else {
        ""
    };
    match status {
        200..=299 => (Outcome::Fetched, reason),
        304 => (Outcome::NotModified, reason),
        301..=303 | 307 | 308 if lacks == Some(Lack::Target) => (Outcome::Failed, NO_TARGET),
        // The body lists the choices (RFC 9110, section 15.4.1). A 3xx that is not known counts as
        // 300 (section 15).
        300..=399 if lacks == Some(Lack::Target) => (Outcome::Fetched, reason),
        300..=399 => (Outcome::Redirected, reason),
        404 | 410 => (Outcome::Gone, reason),
        400..=499 => (Outcome::Refused, reason),
        _ => (Outcome::Failed, "status out of range"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::politeness::tests::response;
    use crate::settings::tests::{settings, with};

    #[test]
    fn every_status_has_its_outcome() {
        let settings = with(|set| set.scheduler.attempts = 1);
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
            let fate = url_fate(&settings, &response(status, None), 1);
            assert!(
                matches!(fate, UrlFate::Ends(found, _) if found == outcome),
                "{status}: {fate:?}"
            );
        }
    }

    #[test]
    fn a_redirect_without_a_target_has_failed_and_a_list_of_choices_was_fetched() {
        let without = |status, lack| {
            let mut end = response(status, None);
            if let RequestEnd::Response(ResponseSummary { lacks, .. }) = &mut end {
                *lacks = Some(lack);
            }
            url_fate(&settings(), &end, 1)
        };
        for status in [301, 302, 303, 307, 308] {
            assert_eq!(
                without(status, Lack::Target),
                UrlFate::Ends(Outcome::Failed, NO_TARGET),
                "{status}"
            );
            assert_eq!(
                without(status, Lack::Length),
                UrlFate::Ends(Outcome::Redirected, NO_LENGTH),
                "{status}"
            );
        }
        for status in [300, 305, 306, 309, 399] {
            assert_eq!(
                without(status, Lack::Target),
                UrlFate::Ends(Outcome::Fetched, ""),
                "{status}"
            );
        }
        assert_eq!(
            without(200, Lack::Length),
            UrlFate::Ends(Outcome::Fetched, NO_LENGTH)
        );
        assert_eq!(
            without(404, Lack::Length),
            UrlFate::Ends(Outcome::Gone, NO_LENGTH)
        );
        // What may be tried again is.
        assert!(matches!(without(500, Lack::Length), UrlFate::Retry(_)));
    }

    #[test]
    fn only_what_another_try_may_help_is_tried_again_and_only_so_often() {
        let settings = settings();
        for end in [
            response(500, None),
            response(429, None),
            response(408, None),
            RequestEnd::Failure(FailureKind::Reset),
        ] {
            for attempts in 1..settings.scheduler.attempts {
                assert_eq!(
                    url_fate(&settings, &end, attempts),
                    UrlFate::Retry(back_off(&settings, attempts))
                );
            }
            assert!(matches!(
                url_fate(&settings, &end, settings.scheduler.attempts),
                UrlFate::Ends(..)
            ));
        }
        for end in [
            response(403, None),
            response(404, None),
            RequestEnd::Failure(FailureKind::Forbidden),
        ] {
            assert!(matches!(url_fate(&settings, &end, 1), UrlFate::Ends(..)));
        }
        for kind in [
            FailureKind::Connect,
            FailureKind::Tls,
            FailureKind::Certificate,
        ] {
            assert_eq!(
                url_fate(&settings, &RequestEnd::Failure(kind), 200),
                UrlFate::Untried
            );
        }
    }

    #[test]
    fn what_an_archive_does_not_have_is_gone_at_once() {
        let end = RequestEnd::Failure(FailureKind::NotArchived);
        assert_eq!(
            url_fate(&settings(), &end, 1),
            UrlFate::Ends(Outcome::Gone, "not in the archive")
        );
    }

    #[test]
    fn retry_after_shortens_the_wait_of_a_url_and_never_lengthens_it() {
        let settings = settings();
        assert_eq!(
            url_fate(&settings, &response(503, Some(7)), 1),
            UrlFate::Retry(Duration::from_secs(7))
        );
        assert_eq!(
            url_fate(&settings, &response(503, Some(700)), 1),
            UrlFate::Retry(settings.scheduler.retry_wait)
        );
    }
}

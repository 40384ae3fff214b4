//! The fate of a URL: what the end of a request means for it.
//!
//! Every series of tries is bounded in number (P6). [`crate::politeness::trouble`] has the table of what can go wrong.

use crate::politeness::pauses::{back_off, retry_after};
use crate::politeness::trouble::{ForUrl, Trouble};
use crate::settings::Settings;
use shared::message::{FailureKind, Outcome, RequestEnd};
use std::time::Duration;

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

/// Decides what becomes of a URL by the end of its request. The URL was contacted `attempts` times, this one included.
///
/// The wait of a retry begins when its server may be contacted again, so that other URLs go first.
pub(crate) fn url_fate(settings: &Settings, end: &RequestEnd, attempts: u8) -> UrlFate {
    if let Some(class) = Trouble::of(end).map(Trouble::class) {
        return match class.url {
            ForUrl::GoesBack => UrlFate::Untried,
            ForUrl::Attempt if attempts < settings.attempts => {
                let wait = back_off(settings, attempts);
                UrlFate::Retry(retry_after(settings, end).map_or(wait, |shorter| shorter.min(wait)))
            }
            ForUrl::Attempt | ForUrl::Ends => UrlFate::Ends(class.outcome, class.reason),
        };
    }
    match *end {
        RequestEnd::Failure(FailureKind::NotArchived) => UrlFate::Ends(Outcome::Gone, "not in the archive"),
        RequestEnd::Untried | RequestEnd::Failure(_) => UrlFate::Untried,
        RequestEnd::Response { status, .. } => match status {
            200..=299 => UrlFate::Ends(Outcome::Fetched, ""),
            304 => UrlFate::Ends(Outcome::NotModified, ""),
            300..=399 => UrlFate::Ends(Outcome::Redirected, ""),
            404 | 410 => UrlFate::Ends(Outcome::Gone, ""),
            400..=499 => UrlFate::Ends(Outcome::Refused, ""),
            _ => UrlFate::Ends(Outcome::Failed, "status out of range"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::politeness::tests::response;
    use crate::settings::tests::settings;

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
            let fate = url_fate(&settings, &response(status, None), 1);
            assert!(matches!(fate, UrlFate::Ends(found, _) if found == outcome), "{status}: {fate:?}");
        }
    }

    #[test]
    fn only_what_another_try_may_help_is_tried_again_and_only_so_often() {
        let settings = settings();
        for end in
            [response(500, None), response(429, None), response(408, None), RequestEnd::Failure(FailureKind::Reset)]
        {
            for attempts in 1..settings.attempts {
                assert_eq!(url_fate(&settings, &end, attempts), UrlFate::Retry(back_off(&settings, attempts)));
            }
            assert!(matches!(url_fate(&settings, &end, settings.attempts), UrlFate::Ends(..)));
        }
        for end in [response(403, None), response(404, None), RequestEnd::Failure(FailureKind::Forbidden)] {
            assert!(matches!(url_fate(&settings, &end, 1), UrlFate::Ends(..)));
        }
        for kind in [FailureKind::Connect, FailureKind::Tls, FailureKind::Certificate] {
            assert_eq!(url_fate(&settings, &RequestEnd::Failure(kind), 200), UrlFate::Untried);
        }
    }

    #[test]
    fn what_an_archive_does_not_have_is_gone_at_once() {
        let end = RequestEnd::Failure(FailureKind::NotArchived);
        assert_eq!(url_fate(&settings(), &end, 1), UrlFate::Ends(Outcome::Gone, "not in the archive"));
    }

    #[test]
    fn retry_after_shortens_the_wait_of_a_url_and_never_lengthens_it() {
        let settings = settings();
        assert_eq!(url_fate(&settings, &response(503, Some(7)), 1), UrlFate::Retry(Duration::from_secs(7)));
        assert_eq!(url_fate(&settings, &response(503, Some(700)), 1), UrlFate::Retry(settings.retry_wait));
    }
}

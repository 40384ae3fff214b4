//! Validators: how a page names its version, and whether a request has that version (RFC 9110,
//! sections 8.8 and 13.1).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::change::{Manners, Tags};
use super::life::Version;
use super::plan::Plan;

/// When all pages were written: Tue, 01 Sep 2020 12:00:00 GMT, in seconds since 1970.
const WRITTEN_S: u64 = 1_598_961_600;

/// What a request says of the version that its sender has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conditions<'a> {
    /// If-None-Match; empty when there is none.
    pub(crate) if_none_match: &'a str,
    /// If-Modified-Since; empty when there is none.
    pub(crate) if_modified_since: &'a str,
}

/// The validators of one page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Validators {
    etag: Option<String>,
    last_modified: Option<String>,
    /// Any condition is met.
    always_match: bool,
}

impl Validators {
    /// Of a page that never changes.
    pub(crate) fn of(plan: &Plan, host: u32, page: u32) -> Self {
        Self {
            etag: Some(format!("\"{}-{host}-{page}\"", plan.profile.seed)),
            last_modified: Some(httpdate::fmt_http_date(written())),
            always_match: false,
        }
    }

    /// Of a version of a page of a host with these manners. `answers` differs in each answer.
    pub(crate) fn of_version(
        manners: Manners,
        page: (u32, u32),
        version: Version,
        changed: SystemTime,
        answers: usize,
    ) -> Self {
        let (host, page) = page;
        let etag = match manners.tags {
            Tags::Missing => None,
            Tags::Right => Some(format!("\"{host}-{page}-v{}\"", version.number)),
            Tags::Frozen => Some(format!("\"{host}-{page}\"")),
            Tags::Fickle => Some(format!("\"{host}-{page}-a{answers}\"")),
        };
        Self {
            etag,
            last_modified: manners.has_dates.then(|| httpdate::fmt_http_date(changed)),
            always_match: manners.tags == Tags::Frozen,
        }
    }

    /// Their header fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let etag = self.etag.as_deref().map(|etag| ("ETag", etag));
        let date = self.last_modified.as_deref();
        etag.into_iter()
            .chain(date.map(|date| ("Last-Modified", date)))
    }

    /// Returns whether the request wants the page only if it has changed since. A date counts where
    /// there is no tag, and only if it is exactly the one that was sent.
    pub(crate) fn match_those_of(&self, asked: Conditions<'_>) -> bool {
        let Conditions {
            if_none_match,
            if_modified_since,
        } = asked;
        if self.always_match {
            return !if_none_match.is_empty() || !if_modified_since.is_empty();
        }
        if if_none_match.is_empty() {
            return self.last_modified.as_deref() == Some(if_modified_since);
        }
        let tags = if_none_match
            .split(',')
            .map(|tag| tag.trim().trim_start_matches("W/"));
        tags.into_iter()
            .any(|tag| tag == "*" || Some(tag) == self.etag.as_deref())
    }
}

/// When all pages were written.
fn written() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(WRITTEN_S)
}

/// A time in seconds since the start of the web, as a date; none lies before the pages were
/// written.
pub(crate) fn date(started: SystemTime, at_s: f64) -> SystemTime {
    let date = match Duration::try_from_secs_f64(at_s.abs()) {
        Ok(distance) if at_s < 0.0 => started.checked_sub(distance),
        Ok(distance) => started.checked_add(distance),
        Err(_) => None,
    };
    date.unwrap_or_else(written).max(written())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_never_before_the_pages_were_written() {
        let started = written() + Duration::from_secs(1_000);
        for (at_s, after_s) in [
            (0.0, 1_000),
            (5.0, 1_005),
            (-5.0, 995),
            (-2_000.0, 0),
            (f64::NEG_INFINITY, 0),
        ] {
            assert_eq!(
                date(started, at_s),
                written() + Duration::from_secs(after_s)
            );
        }
        let text = httpdate::fmt_http_date(written());
        assert_eq!(text, "Tue, 01 Sep 2020 12:00:00 GMT");
    }
}

//! Validators: how a page names its version, and whether a request has that version (RFC 9110,
//! sections 8.8 and 13.1).

use super::http::Request;
use super::plan::Plan;

/// When all pages were written.
const LAST_MODIFIED: &str = "Tue, 01 Sep 2020 12:00:00 GMT";

/// The validators of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Validators {
    etag: String,
}

impl Validators {
    pub(crate) fn of(plan: &Plan, host: u32, page: u32) -> Self {
        Self {
            etag: format!("\"{}-{host}-{page}\"", plan.profile.seed),
        }
    }

    /// Their header lines.
    pub(crate) fn fields(&self) -> String {
        format!("ETag: {}\r\nLast-Modified: {LAST_MODIFIED}\r\n", self.etag)
    }

    /// Returns whether the request wants the page only if it has changed since. A date counts where
    /// there is no tag, and only if it is exactly the one that was sent.
    pub(crate) fn match_those_of(&self, request: &Request) -> bool {
        if request.if_none_match.is_empty() {
            return request.if_modified_since == LAST_MODIFIED;
        }
        let tags = request
            .if_none_match
            .split(',')
            .map(|tag| tag.trim().trim_start_matches("W/"));
        tags.into_iter().any(|tag| tag == "*" || tag == self.etag)
    }
}

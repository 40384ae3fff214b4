//! How a URL ended: its outcome, and what the response said that ended it.

use rhumb_wire::message::{Outcome, RequestEnd};
use std::time::Duration;

/// How a URL ended.
#[derive(Clone, Debug)]
pub(crate) struct UrlEnd {
    pub(crate) outcome: Outcome,
    pub(crate) reason: &'static str,
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    pub(crate) truncated: bool,
    pub(crate) elapsed_us: u32,
    pub(crate) fetched_at_ms: u64,
    pub(crate) media_type: String,
    /// How long before its report came; no time at all of a URL that ended in the scheduler.
    pub(crate) before: Duration,
}

impl UrlEnd {
    /// Without a response.
    pub(crate) fn without_response(outcome: Outcome, reason: &'static str) -> Self {
        UrlEnd {
            outcome,
            reason,
            status: 0,
            bytes: 0,
            truncated: false,
            elapsed_us: 0,
            fetched_at_ms: 0,
            media_type: String::new(),
            before: Duration::ZERO,
        }
    }

    /// The end of a URL whose request ended with `end` and brought `outcome`.
    pub(crate) fn of(end: &RequestEnd, outcome: Outcome, reason: &'static str) -> Self {
        match end {
            &RequestEnd::Response {
                status,
                bytes,
                truncated,
                elapsed_us,
                fetched_at_ms,
                ref media_type,
                ..
            } => {
                let media_type = media_type.clone();
                let before = Duration::ZERO;
                UrlEnd {
                    outcome,
                    reason,
                    status,
                    bytes,
                    truncated,
                    elapsed_us,
                    fetched_at_ms,
                    media_type,
                    before,
                }
            }
            _ => UrlEnd::without_response(outcome, reason),
        }
    }
}

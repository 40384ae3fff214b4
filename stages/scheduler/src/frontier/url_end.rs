//! How a URL ended: its outcome, and what the response said that ended it.

use crate::known::finding::Finding;
use crate::visits::Dates;
use rhumb_usage::Signals;
use rhumb_wire::message::{Outcome, RequestEnd, ResponseSummary};
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
    /// Whose challenge the response was; empty when it was none.
    pub(crate) wall: String,
    /// What the page would cost; empty when its server does not say so.
    pub(crate) price: String,
    /// What robots.txt says of its use, when it was not fetched for that, or a wall hides the rest.
    pub(crate) usage: Signals,
    /// Its robots.txt or its headers say something of its use.
    pub(crate) says_usage: bool,
    /// Fingerprint of the body that came; 0 without one.
    pub(crate) body: u64,
    /// For how many seconds the response says that it is fresh.
    pub(crate) fresh_s: u32,
    /// What it and the visit before said of the last change of the page.
    pub(crate) dates: Dates,
    /// What it says of its page.
    pub(crate) finding: Finding,
    /// A request was made for it.
    pub(crate) is_asked: bool,
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
            wall: String::new(),
            price: String::new(),
            usage: Signals::default(),
            says_usage: false,
            body: 0,
            fresh_s: 0,
            dates: Dates::default(),
            finding: Finding::default(),
            is_asked: false,
            before: Duration::ZERO,
        }
    }

    /// Its robots.txt refuses a purpose of the crawl.
    pub(crate) fn unwanted(usage: Signals) -> Self {
        UrlEnd {
            usage,
            ..UrlEnd::without_response(Outcome::Disallowed, "usage")
        }
    }

    /// The end of a URL whose request ended with `end` and brought `outcome`.
    pub(crate) fn of(end: &RequestEnd, outcome: Outcome, reason: &'static str) -> Self {
        match end {
            &RequestEnd::Response(ResponseSummary {
                status,
                bytes,
                truncated,
                elapsed_us,
                fetched_at_ms,
                ref media_type,
                ref wall,
                ref price,
                says_usage,
                body,
                fresh_s,
                ..
            }) => {
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
                    wall: wall.clone(),
                    price: price.clone(),
                    usage: Signals::default(),
                    says_usage,
                    body,
                    fresh_s,
                    dates: Dates::default(),
                    finding: Finding::default(),
                    is_asked: false,
                    before,
                }
            }
            _ => UrlEnd::without_response(outcome, reason),
        }
    }
}

//! Visited: a visit that ended, or was withdrawn, for the record of its page.

use crate::frontier::rows::FrontierUrl;
use crate::frontier::url_end::UrlEnd;
use crate::keys::server_key::ServerKey;
use crate::known::finding::Finding;
use crate::visits::Dates;
use rhumb_wire::message::Origin;

/// A visit that ended, or was withdrawn.
#[derive(Clone, Debug)]
pub(crate) struct Visited {
    pub(crate) server: ServerKey,
    pub(crate) url: String,
    pub(crate) origin: Origin,
    pub(crate) serial: u64,
    /// Which visit of its page it is: 1 is the first.
    pub(crate) visit: u32,
    /// A request was made for it: it is a visit. Else it was withdrawn, unless it was the first.
    pub(crate) is_asked: bool,
    /// When its answer came, in milliseconds of Unix time; 0 without one.
    pub(crate) fetched_at_ms: u64,
    /// Fingerprint of the body that came; 0 without one.
    pub(crate) body: u64,
    /// For how many seconds its answer says that it is fresh.
    pub(crate) fresh_s: u32,
    /// What it and the visit before said of the last change of the page.
    pub(crate) dates: Dates,
    pub(crate) finding: Finding,
}

impl Visited {
    /// Of a URL that ended so.
    pub(crate) fn of(server: ServerKey, url: &FrontierUrl, end: &UrlEnd) -> Self {
        Visited {
            server,
            url: url.url.clone(),
            origin: Origin {
                // A sitemap is known by it.
                page: match url.origin.sitemap_of() {
                    Some(_) => url.origin.page.clone(),
                    None => String::new(),
                },
                redirects: 0,
                ..url.origin.clone()
            },
            serial: url.serial,
            visit: url.visit,
            is_asked: end.is_asked,
            fetched_at_ms: end.fetched_at_ms,
            body: end.body,
            fresh_s: end.fresh_s,
            dates: end.dates,
            finding: end.finding,
        }
    }
}

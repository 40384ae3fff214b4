//! Servers that answer over HTTP/1.1 alone, although they offer HTTP/2: later jobs begin with
//! HTTP/1.1.
//!
//! In: servers that answered over HTTP/1.1 when HTTP/2 had failed, and those that want another
//! version after all or break over this one. Out: whether one is to be asked over HTTP/1.1 from the
//! start.
//!
//! This is soft state, as jobs are: a fetcher that does not know of a server finds out by one
//! request.
//!
//! Invariants: at most [`KEPT`] servers are known, those that were met last; each for [`LIFE`] at
//! most, so that one that was mended is found out.

use foldhash::HashMap;
use rhumb_url::fingerprint;
use rhumb_url::time::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// Servers, at most.
const KEPT: usize = 1 << 14;
/// How long a server is known.
const LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// The servers, by the fingerprints of their names.
#[derive(Default)]
pub(crate) struct Http11 {
    until: HashMap<u64, Timestamp>,
    /// The one that was met first comes first.
    order: VecDeque<u64>,
}

impl Http11 {
    /// A server answered over HTTP/1.1, and not over HTTP/2.
    pub(crate) fn note(&mut self, now: Timestamp, server: &str) {
        let server = fingerprint(server);
        if self.until.insert(server, now + LIFE).is_some() {
            self.order.retain(|&other| other != server);
        }
        self.order.push_back(server);
        if self.order.len() > KEPT
            && let Some(first) = self.order.pop_front()
        {
            self.until.remove(&first);
        }
    }

    /// A server is not to be had over HTTP/1.1, or wants another version.
    pub(crate) fn forget(&mut self, server: &str) {
        let server = fingerprint(server);
        if self.until.remove(&server).is_some() {
            self.order.retain(|&other| other != server);
        }
    }

    /// Returns whether a server is to be asked over HTTP/1.1 from the start.
    pub(crate) fn has(&self, now: Timestamp, server: &str) -> bool {
        !self.until.is_empty()
            && self
                .until
                .get(&fingerprint(server))
                .is_some_and(|&until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    #[test]
    fn a_server_is_known_for_a_day_from_when_it_was_met_last() {
        let mut servers = Http11::default();
        let begun = Timestamp::ZERO;
        servers.note(begun, "https://a.test");
        servers.note(begun, "https://b.test");
        servers.note(begun + HOUR, "https://a.test");
        let has = |at, server| servers.has(begun + at, server);
        assert!(!has(HOUR, "https://c.test"));
        assert!(has(23 * HOUR, "https://a.test") && has(23 * HOUR, "https://b.test"));
        assert!(has(24 * HOUR, "https://a.test") && !has(24 * HOUR, "https://b.test"));
        assert!(!has(25 * HOUR, "https://a.test"));
        servers.forget("https://a.test");
        assert!(!servers.has(begun, "https://a.test"));
    }

    #[test]
    fn the_last_ones_are_known() {
        let mut servers = Http11::default();
        for number in 0..=KEPT {
            servers.note(Timestamp::ZERO, &number.to_string());
            servers.note(Timestamp::ZERO, &number.to_string());
        }
        let now = Timestamp::ZERO;
        assert!(
            !servers.has(now, "0") && servers.has(now, "1") && servers.has(now, &KEPT.to_string())
        );
        assert_eq!((servers.until.len(), servers.order.len()), (KEPT, KEPT));
    }
}

//! Sitemaps elsewhere: which hosts beyond the scope may a robots.txt of a host in the scope lead
//! to?
//!
//! In: found URLs, and whether they are sitemaps. Out: whether one on this host may pass.
//!
//! Invariants: a robots.txt widens the scope by sitemaps alone, and those on few hosts. An index on
//! one of these leads to no other. What a sitemap lists is judged by its own host, wherever the
//! sitemap lies. Source: sitemaps.org protocol 0.9, "Sitemaps & Cross Submits": who names a sitemap
//! in his robots.txt vouches for it. "Using Sitemap index files": an index lists sitemaps of its
//! own site.

use crate::followed::Followed;
use rhumb_config::topics::Rules;
use rhumb_url::host_of;
use rhumb_wire::message::{FilterReason, FoundUrls};

/// Hosts beyond the scope to which one message of sitemaps may lead: a robots.txt that lists the
/// whole web must not have it asked.
const HOSTS_MAX: usize = 10;
/// URLs of one message that may lie on them. So many sitemaps list fifty million pages.
const URLS_MAX: usize = 1_000;

/// What found URLs may do beyond the scope.
pub(crate) struct Elsewhere<'h> {
    /// They are sitemaps that a robots.txt or an index names.
    pub(crate) are_sitemaps: bool,
    /// They are named by the robots.txt of a host that the topic follows, or listed by an index
    /// that it names.
    is_vouched: bool,
    /// The host of the index that lists them, or of what redirects to them and was listed; none
    /// when robots.txt names them.
    lister: Option<&'h str>,
    /// Hosts on which they lie so far, beyond the scope.
    hosts: Vec<&'h str>,
    /// URLs on these so far.
    urls: usize,
}

impl<'h> Elsewhere<'h> {
    /// What these URLs may do.
    pub(crate) fn of(found: &'h FoundUrls, rules: &Rules, followed: &Followed) -> Elsewhere<'h> {
        let origin = &found.origin;
        let server = origin.sitemap_of();
        let follows = |server| followed.follows(&origin.topic, rules.follow, host_of(server));
        Elsewhere {
            are_sitemaps: server.is_some(),
            is_vouched: server.is_some_and(follows),
            lister: origin
                .is_listed_sitemap()
                .then(|| host_of(origin.found_on())),
            hosts: Vec::new(),
            urls: 0,
        }
    }

    /// Returns whether sitemaps on this host, which the topic does not follow, may pass all the
    /// same.
    pub(crate) fn has(&mut self, host: &'h str) -> bool {
        if !self.is_vouched || self.lister.is_some_and(|lister| lister != host) {
            return false;
        }
        let is_known = self.hosts.contains(&host);
        if !is_known && self.hosts.len() < HOSTS_MAX {
            self.hosts.push(host);
            return true;
        }
        is_known
    }

    /// Why one more URL on this host, where URLs may pass, is too much; none when it is not. A host
    /// that the topic follows takes any number.
    pub(crate) fn surplus(&mut self, host: &str) -> Option<FilterReason> {
        if !self.hosts.contains(&host) {
            return None;
        }
        self.urls += 1;
        (self.urls > URLS_MAX).then_some(FilterReason::Scope)
    }
}

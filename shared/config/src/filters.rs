//! Which URLs of a host that is followed pass? By how they were found, by what the operator lists,
//! and by the form of traps.
//!
//! In: a canonical URL, its origin. Out: why it may not pass, if so. What costs least is asked
//! first.
//!
//! Source: Heydon and Najork 1999, sections 3.5 (URL filters) and 5 (crawler traps).

use crate::{Limits, Patterns, Scope};
use rhumb_url::{path_of, surt};
use rhumb_wire::message::{FilterReason, Origin};
use serde::{Deserialize, Serialize};

/// The filters of a crawl.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filters {
    /// Links away from a seed.
    pub max_depth: u16,
    /// Redirects in a row.
    pub redirects: u8,
    /// Longest URL, in bytes.
    pub url_bytes_max: usize,
    /// Prefixes of canonical URLs in SURT form; when there are any, a URL begins with one of them.
    pub prefixes: Vec<String>,
    /// When there are any, a URL matches one of them.
    pub accept: Patterns,
    /// A URL matches none of them.
    pub reject: Patterns,
    /// How often one segment may stand in a path.
    pub segment_repeats: usize,
    /// How many parameters a query may have.
    pub query_parameters: usize,
}

impl Filters {
    /// Those of a scope, within the limits of the crawl.
    pub fn new(scope: &Scope, limits: &Limits) -> Self {
        Filters {
            max_depth: scope.max_depth,
            redirects: limits.redirects,
            url_bytes_max: limits.url_bytes_max,
            prefixes: scope
                .prefixes
                .iter()
                .map(|prefix| prefix.to_ascii_lowercase())
                .collect(),
            accept: scope.accept.clone(),
            reject: scope.reject.clone(),
            segment_repeats: limits.segment_repeats,
            query_parameters: limits.query_parameters,
        }
    }

    /// Why no URL may pass that was found so; nothing when one may.
    pub fn rejection_of_all(&self, origin: &Origin) -> Option<FilterReason> {
        if origin.redirects > self.redirects {
            return Some(FilterReason::Redirects);
        }
        (origin.depth > self.max_depth).then_some(FilterReason::Depth)
    }

    /// Returns whether a URL is not too long.
    pub fn fits(&self, url: &str) -> bool {
        url.len() <= self.url_bytes_max
    }

    /// Why a URL may not pass; nothing when it may.
    ///
    /// Prefixes and what is accepted say which pages are wanted. A sitemap that is named as one is
    /// none: it lists them. So it passes without, unless it is rejected.
    pub fn rejection(&self, url: &str, is_sitemap: bool) -> Option<FilterReason> {
        if !self.fits(url) {
            return Some(FilterReason::Form);
        }
        let (path, query) = path_of(url).split_once('?').unwrap_or((path_of(url), ""));
        if query
            .split(['&', ';'])
            .filter(|parameter| !parameter.is_empty())
            .count()
            > self.query_parameters
        {
            return Some(FilterReason::Parameters);
        }
        if repeats_more_than(path, self.segment_repeats) {
            return Some(FilterReason::Segments);
        }
        self.list_against(url, is_sitemap)
            .map(|_| FilterReason::Pattern)
    }

    /// The key of the operator's list by which a URL may not pass ([`FilterReason::Pattern`]); none
    /// when it may.
    pub fn list_against(&self, url: &str, is_sitemap: bool) -> Option<&'static str> {
        let is_listed = is_sitemap || self.prefixes.is_empty() || {
            let surt = surt(url);
            self.prefixes.iter().any(|prefix| surt.starts_with(prefix))
        };
        if !is_listed {
            Some("scope.prefixes")
        } else if !is_sitemap && !self.accept.is_empty() && !self.accept.matches(url) {
            Some("scope.accept")
        } else if !self.reject.is_empty() && self.reject.matches(url) {
            Some("scope.reject")
        } else {
            None
        }
    }
}

/// Returns whether a segment of the path stands in it more than `limit` times: `/a/b/a/b/a/b` is
/// what relative links on a page that answers under every path lead to.
fn repeats_more_than(path: &str, limit: usize) -> bool {
    let n_segments = path.bytes().filter(|&byte| byte == b'/').count();
    if n_segments <= limit {
        return false;
    }
    let mut segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    segments.sort_unstable();
    segments
        .chunk_by(|a, b| a == b)
        .any(|same| same.len() > limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters() -> Filters {
        Filters {
            max_depth: 5,
            redirects: 3,
            url_bytes_max: 40,
            prefixes: Vec::new(),
            accept: Patterns::default(),
            reject: Patterns::default(),
            segment_repeats: 2,
            query_parameters: 3,
        }
    }

    #[test]
    fn traps_are_known_by_their_form() {
        let filters = filters();
        for (url, reason) in [
            ("http://a.test/", None),
            ("http://a.test/a/b/a/b", None),
            ("http://a.test/a/b/a/b/a", Some(FilterReason::Segments)),
            ("http://a.test/x/x/y?x/x/x", None),
            ("http://a.test//////", None),
            ("http://a.test/?a&b=1&c", None),
            ("http://a.test/?a&b=1&c&d", Some(FilterReason::Parameters)),
            ("http://a.test/?a;b;c;d", Some(FilterReason::Parameters)),
            ("http://a.test/?&&&&&&", None),
            ("http://a.test/67890123456789012345678901", None),
            (
                "http://a.test/678901234567890123456789012",
                Some(FilterReason::Form),
            ),
        ] {
            assert_eq!(filters.rejection(url, false), reason, "{url}");
        }
    }

    #[test]
    fn what_is_too_far_from_a_seed_or_came_by_too_many_redirects_may_not_pass() {
        for (depth, redirects, reason) in [
            (5, 3, None),
            (6, 0, Some(FilterReason::Depth)),
            (0, 4, Some(FilterReason::Redirects)),
        ] {
            let origin = Origin {
                depth,
                redirects,
                ..Origin::default()
            };
            assert_eq!(
                filters().rejection_of_all(&origin),
                reason,
                "{depth} {redirects}"
            );
        }
    }

    #[test]
    fn what_the_operator_lists_decides() {
        let mut filters = filters();
        filters.prefixes = vec!["http://(test,a,)/docs/".into(), "http://(test,b,".into()];
        filters.reject = Patterns::new(&[r"\.pdf$"]).unwrap();
        for (url, list) in [
            ("http://a.test/docs/x", None),
            ("http://a.test/docs/x.pdf", Some("scope.reject")),
            ("http://a.test/other", Some("scope.prefixes")),
            ("http://www.b.test/any", None),
            ("http://bb.test/any", Some("scope.prefixes")),
        ] {
            assert_eq!(filters.list_against(url, false), list, "{url}");
            assert_eq!(
                filters.rejection(url, false),
                list.map(|_| FilterReason::Pattern),
                "{url}"
            );
        }
        filters.accept = Patterns::new(&["/x$", "/y$"]).unwrap();
        assert_eq!(filters.rejection("http://a.test/docs/x", false), None);
        assert_eq!(
            filters.list_against("http://a.test/docs/z", false),
            Some("scope.accept")
        );
    }

    #[test]
    fn a_sitemap_need_not_be_listed_but_may_be_rejected() {
        let mut filters = filters();
        filters.prefixes = vec!["http://(test,a,)/docs/".into()];
        filters.accept = Patterns::new(&["/docs/"]).unwrap();
        filters.reject = Patterns::new(&["/no"]).unwrap();
        for (url, reason) in [
            ("http://a.test/s.xml", None),
            ("http://b.test/s.xml", None),
            ("http://a.test/no.xml", Some(FilterReason::Pattern)),
            ("http://a.test/x/x/x/s.xml", Some(FilterReason::Segments)),
        ] {
            assert_eq!(filters.rejection(url, true), reason, "{url}");
        }
        assert_eq!(
            filters.rejection("http://a.test/s.xml", false),
            Some(FilterReason::Pattern)
        );
    }
}

//! Rewritings of canonical URLs that may change the resource: each is off unless the operator says
//! otherwise.
//!
//! In: a canonical URL. Out: a canonical URL. Invariant: `rewrite(rewrite(x)) == rewrite(x)`.
//!
//! Source: Bar-Yossef, Keidar and Schonfeld 2007 (different URLs with similar text), whose rules
//! these are; Lee, Kim and Hong 2005 (URL normalisation beyond RFC 3986).

use foldhash::{HashSet, HashSetExt as _};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Which rewritings are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Rules {
    pub sort_query: bool,
    pub drop_session_ids: bool,
    pub drop_tracking: bool,
    pub drop_index_files: bool,
}

/// Names of parameters that hold a session, in lower case.
const SESSION_IDS: [&str; 10] = [
    "phpsessid",
    "jsessionid",
    "sessionid",
    "session_id",
    "sessid",
    "sid",
    "cfid",
    "cftoken",
    "asp.net_sessionid",
    "zenid",
];
/// Names that begin like one of these, too.
const SESSION_PREFIXES: [&str; 1] = ["aspsessionid"];
/// Names of parameters that tell where a visitor came from, in lower case.
const TRACKING: [&str; 12] = [
    "gclid", "gclsrc", "dclid", "fbclid", "msclkid", "yclid", "twclid", "mc_cid", "mc_eid",
    "igshid", "_ga", "_hsenc",
];
/// Names that begin like one of these, too.
const TRACKING_PREFIXES: [&str; 2] = ["utm_", "pk_"];
/// Files that stand for their folder, in lower case.
const INDEX_FILES: [&str; 7] = [
    "index.html",
    "index.htm",
    "index.php",
    "index.asp",
    "index.aspx",
    "default.asp",
    "default.aspx",
];

impl Rules {
    /// The keys of `pipeline.yaml` and what each says.
    pub fn by_key(&self) -> [(&'static str, bool); 4] {
        let Rules {
            sort_query,
            drop_session_ids,
            drop_tracking,
            drop_index_files,
        } = *self;
        [
            ("url.sort_query", sort_query),
            ("url.drop_session_ids", drop_session_ids),
            ("url.drop_tracking", drop_tracking),
            ("url.drop_index_files", drop_index_files),
        ]
    }

    /// Returns whether any is done.
    pub fn are_active(&self) -> bool {
        *self != Rules::default()
    }

    /// A canonical URL rewritten.
    pub fn rewrite(&self, canonical: &str) -> String {
        let (rest, query) = match canonical.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (canonical, None),
        };
        let mut url = self.path(rest);
        let mut parameters: Vec<&str> = query
            .map(|query| query.split('&').collect())
            .unwrap_or_default();
        parameters.retain(|parameter| !self.drops(parameter));
        if self.sort_query {
            // By name alone, and stably: the order of equal names may matter.
            parameters.sort_by_key(|parameter| name_of(parameter));
        }
        let query = parameters.join("&");
        if !query.is_empty() {
            url.push('?');
            url.push_str(&query);
        }
        url
    }

    /// Canonical URLs rewritten, each once, in order.
    pub fn rewrite_all(&self, urls: Vec<String>) -> Vec<String> {
        if !self.are_active() {
            return urls;
        }
        let mut met = HashSet::new();
        let rewritten = urls.iter().map(|url| self.rewrite(url));
        rewritten
            .filter(|url| met.insert(super::fingerprint(url)))
            .collect()
    }

    /// Everything before the query.
    fn path(&self, rest: &str) -> String {
        let mut path = if self.drop_session_ids && rest.contains(';') {
            let segments: Vec<_> = rest.split('/').map(without_session).collect();
            segments.join("/")
        } else {
            rest.to_owned()
        };
        let folder = path.rfind('/').map_or(0, |at| at + 1);
        let file = path[folder..].to_ascii_lowercase();
        if self.drop_index_files && INDEX_FILES.contains(&file.as_str()) {
            path.truncate(folder);
        }
        path
    }

    fn drops(&self, parameter: &str) -> bool {
        let name = name_of(parameter).to_ascii_lowercase();
        let is_one = |names: &[&str], prefixes: &[&str]| {
            names.contains(&&*name) || prefixes.iter().any(|p| name.starts_with(p))
        };
        self.drop_session_ids && is_one(&SESSION_IDS, &SESSION_PREFIXES)
            || self.drop_tracking && is_one(&TRACKING, &TRACKING_PREFIXES)
    }
}

/// A segment of a path without a parameter `;jsessionid=`.
fn without_session(segment: &str) -> Cow<'_, str> {
    const NAME: &str = "jsessionid=";
    let is_session = |part: &str| {
        part.get(..NAME.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(NAME))
    };
    let mut parts = segment.split(';');
    // What stands before the parameters is a name, whatever it looks like.
    let name = parts.next().unwrap_or_default();
    let kept: Vec<&str> = std::iter::once(name)
        .chain(parts.filter(|part| !is_session(part)))
        .collect();
    match kept[..] {
        // A dot alone would be another path.
        ["." | ".."] => Cow::Borrowed(segment),
        _ => Cow::Owned(kept.join(";")),
    }
}

fn name_of(parameter: &str) -> &str {
    parameter.split('=').next().unwrap_or(parameter)
}

#[cfg(test)]
mod tests {
    use super::super::canonical;
    use super::*;
    use proptest::prelude::*;

    const ALL: Rules = Rules {
        sort_query: true,
        drop_session_ids: true,
        drop_tracking: true,
        drop_index_files: true,
    };

    #[test]
    fn each_rule_does_its_own_and_no_more() {
        let url = "http://a.test/x/Index.html;jsessionid=1A?b=2&PHPSESSID=3&utm_source=n&a=1&b=1";
        let one = |rules: Rules| rules.rewrite(url);
        assert_eq!(one(Rules::default()), url);
        assert_eq!(
            one(Rules {
                sort_query: true,
                ..Rules::default()
            }),
            "http://a.test/x/Index.html;jsessionid=1A?PHPSESSID=3&a=1&b=2&b=1&utm_source=n"
        );
        assert_eq!(
            one(Rules {
                drop_session_ids: true,
                ..Rules::default()
            }),
            "http://a.test/x/Index.html?b=2&utm_source=n&a=1&b=1"
        );
        assert_eq!(
            one(Rules {
                drop_tracking: true,
                ..Rules::default()
            }),
            "http://a.test/x/Index.html;jsessionid=1A?b=2&PHPSESSID=3&a=1&b=1"
        );
        assert_eq!(
            one(Rules {
                drop_index_files: true,
                ..Rules::default()
            }),
            url
        );
        assert_eq!(one(ALL), "http://a.test/x/?a=1&b=2&b=1");
        assert_eq!(ALL.rewrite("http://a.test/?sid=1"), "http://a.test/");
        assert_eq!(
            ALL.rewrite("http://a.test/.;jsessionid=1"),
            "http://a.test/.;jsessionid=1"
        );
        assert_eq!(
            ALL.rewrite("http://a.test/x;JSESSIONID=1;v=2/y;jsessionid=2/jsessionid=3"),
            "http://a.test/x;v=2/y/jsessionid=3"
        );
        assert_eq!(
            ALL.rewrite("http://a.test/inside/?aside=1"),
            "http://a.test/inside/?aside=1"
        );
        let urls = ["http://a.test/?b&a", "http://a.test/", "http://a.test/?a&b"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(
            ALL.rewrite_all(urls),
            ["http://a.test/?a&b", "http://a.test/"]
        );
    }

    proptest! {
        #[test]
        fn a_rewritten_url_is_canonical_and_stays_as_it_is(
            path in "([a-z/;=.]{0,9}(index\\.html|;jsessionid=1|/)?){0,2}",
            query in "[a-c&=;_?%]{0,12}(&utm_x=1|&sid=2)?",
            bits in 0u8..16,
        ) {
            let rules = Rules {
                sort_query: bits & 1 != 0,
                drop_session_ids: bits & 2 != 0,
                drop_tracking: bits & 4 != 0,
                drop_index_files: bits & 8 != 0,
            };
            let Ok(url) = canonical(&format!("http://a.test/{path}?{query}"), None, None) else { return Ok(()) };
            let rewritten = rules.rewrite(&url);
            let again = canonical(&rewritten, None, None);
            prop_assert_eq!(again.as_deref(), Ok(rewritten.as_str()));
            prop_assert_eq!(rules.rewrite(&rewritten), rewritten);
        }
    }
}

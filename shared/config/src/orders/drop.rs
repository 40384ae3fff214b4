//! Drops: waiting URLs that operators want to be rid of.

use super::Author;
use crate::topics::TopicFilters;
use regex::Regex;
use rhumb_url::{host_of, registered_domain, server_of, surt};
use rhumb_wire::message::Origin;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which URLs a drop is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// Those of a host: a canonical name.
    Host(String),
    /// Those of a registered domain, and of all names below it.
    Domain(String),
    /// Those whose SURT begins so.
    Prefix(String),
    /// Those that match a regular expression somewhere.
    Match(String),
    /// Those of a topic.
    Topic(String),
    /// Those that the filters of their topics reject.
    Rejected(TopicFilters),
}

impl Selection {
    /// What finds its URLs.
    ///
    /// # Errors
    /// The expression is none, or too large.
    pub fn selector(&self) -> Result<Selector, BadExpression> {
        Ok(match self {
            Selection::Host(host) => Selector::Host(host.clone()),
            Selection::Domain(domain) => Selector::Domain(domain.clone()),
            Selection::Prefix(prefix) => Selector::Prefix(prefix.to_ascii_lowercase()),
            Selection::Match(expression) => Selector::Match(Regex::new(expression)?),
            Selection::Topic(topic) => Selector::Topic(topic.clone()),
            Selection::Rejected(filters) => Selector::Rejected(filters.clone()),
        })
    }
}

/// Why an expression selects nothing.
#[derive(Debug, thiserror::Error)]
pub enum BadExpression {
    /// It is none.
    #[error("this is no regular expression: {0}")]
    NotOne(regex::Error),
    /// Compiled, it would have more bytes than this.
    #[error(
        "this regular expression is too large: compiled, it has more than {0} bytes. Shorten it, \
         or make counted repetitions such as {{1,1000}} smaller"
    )]
    TooLarge(usize),
}

impl From<regex::Error> for BadExpression {
    fn from(error: regex::Error) -> Self {
        match error {
            regex::Error::CompiledTooBig(bytes_max) => BadExpression::TooLarge(bytes_max),
            error => BadExpression::NotOne(error),
        }
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selection::Host(host) => write!(f, "host {host}"),
            Selection::Domain(domain) => write!(f, "domain {domain}"),
            Selection::Prefix(prefix) => write!(f, "prefix {prefix}"),
            Selection::Match(expression) => write!(f, "match {expression}"),
            Selection::Topic(topic) => write!(f, "topic {topic}"),
            Selection::Rejected(_) => f.write_str("what the filters reject"),
        }
    }
}

/// Finds the URLs of a [`Selection`].
#[derive(Clone, Debug)]
pub enum Selector {
    /// See [`Selection::Host`].
    Host(String),
    /// See [`Selection::Domain`].
    Domain(String),
    /// See [`Selection::Prefix`]; in lower case.
    Prefix(String),
    /// See [`Selection::Match`].
    Match(Regex),
    /// See [`Selection::Topic`].
    Topic(String),
    /// See [`Selection::Rejected`].
    Rejected(TopicFilters),
}

impl Selector {
    /// Returns whether a canonical URL is selected that was found so. Few selections ask how.
    pub fn has_found(&self, url: &str, origin: impl FnOnce() -> Origin) -> bool {
        match self {
            Selector::Topic(topic) => origin().topic == *topic,
            Selector::Rejected(filters) => {
                let origin = origin();
                let filters = filters.of(&origin.topic);
                let is_sitemap = origin.sitemap_of().is_some();
                filters.rejection(url, is_sitemap).is_some()
                    || filters.rejection_of_all(&origin).is_some()
            }
            _ => self.has(url),
        }
    }

    /// Returns whether a canonical URL is selected, however it was found.
    pub fn has(&self, url: &str) -> bool {
        match self {
            Selector::Host(_) | Selector::Domain(_) => self.may_have(server_of(url)),
            Selector::Prefix(prefix) => surt(url).starts_with(prefix),
            Selector::Match(expression) => expression.is_match(url),
            Selector::Topic(_) => false,
            Selector::Rejected(TopicFilters { others, topics }) => std::iter::once(others)
                .chain(topics.values())
                .all(|filters| filters.rejection(url, true).is_some()),
        }
    }

    /// Returns whether a URL of this server, `scheme://host[:port]`, may be selected.
    pub fn may_have(&self, server: &str) -> bool {
        match self {
            Selector::Host(host) => host_of(server) == host,
            Selector::Domain(domain) => registered_domain(host_of(server)) == domain,
            Selector::Prefix(prefix) => {
                let server = surt(server);
                server.starts_with(prefix) || prefix.starts_with(&server)
            }
            Selector::Match(_) | Selector::Topic(_) | Selector::Rejected(_) => true,
        }
    }
}

/// An order that what waits, or is found later, ends as `dropped`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropOrder {
    /// Tells it from all other orders, those taken back too.
    pub id: u64,
    /// Which URLs.
    pub what: Selection,
    /// Those that are found later, too.
    #[serde(default)]
    pub and_later: bool,
    /// Who asked for it, when and why.
    #[serde(flatten)]
    pub author: Author,
}

impl fmt::Display for DropOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DropOrder {
            what,
            and_later,
            author,
            ..
        } = self;
        let later = if *and_later {
            ", found now or later,"
        } else {
            ""
        };
        write!(f, "{what}{later} is dropped {author}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Patterns;
    use crate::filters::Filters;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_selection_has_its_urls_and_no_others() {
        for (what, urls) in [
            (Selection::Host("a.test".into()), [true, true, false, false]),
            (
                Selection::Domain("a.test".into()),
                [true, true, true, false],
            ),
            (
                Selection::Prefix("http://(test,a,)/cal/".into()),
                [true, false, false, false],
            ),
            (
                Selection::Prefix("http://(TEST,a,".into()),
                [true, false, true, false],
            ),
            (Selection::Prefix("http".into()), [true; 4]),
            (
                Selection::Match(r"[?&]day=\d+".into()),
                [true, false, false, true],
            ),
        ] {
            let selector = what.selector().unwrap();
            let all = [
                "http://a.test/Cal/?day=1",
                "https://a.test:8443/cal/",
                "http://b.a.test/",
                "http://c.test/?day=2",
            ];
            assert_eq!(all.map(|url| selector.has(url)), urls, "{what}");
        }
        for (expression, why) in [
            ("(", "this is no regular expression"),
            (r"(\w{1000}){1000}", "this regular expression is too large"),
        ] {
            let error = Selection::Match(expression.into())
                .selector()
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(why), "{error}");
        }
    }

    #[test]
    fn what_the_filters_reject_is_selected_by_how_it_was_found_too() {
        let mut filters = Filters {
            max_depth: 2,
            redirects: 1,
            url_bytes_max: 16,
            prefixes: Vec::new(),
            accept: Patterns::default(),
            reject: Patterns::default(),
            segment_repeats: 5,
            query_parameters: 5,
        };
        let has = |filters: &Filters, url: &str, depth, redirects| {
            let filters = TopicFilters {
                others: filters.clone(),
                topics: BTreeMap::new(),
            };
            let selector = Selection::Rejected(filters).selector().unwrap();
            selector.has_found(url, || Origin {
                depth,
                redirects,
                ..Origin::default()
            })
        };
        assert!(!has(&filters, "http://a.test/12", 2, 1));
        assert!(has(&filters, "http://a.test/12", 3, 1) && has(&filters, "http://a.test/12", 2, 2));
        assert!(has(&filters, "http://a.test/123", 0, 0));
        filters.reject = Patterns::new(&["/12$"]).unwrap();
        assert!(has(&filters, "http://a.test/12", 0, 0) && !has(&filters, "http://a.test/1", 0, 0));
        // The filters of its own topic decide.
        let topics = BTreeMap::from([(
            "t".to_owned(),
            Filters {
                reject: Patterns::default(),
                ..filters.clone()
            },
        )]);
        let selector = Selection::Rejected(TopicFilters {
            others: filters,
            topics,
        })
        .selector()
        .unwrap();
        let of = |topic: &str| selector.has_found("http://a.test/12", || Origin::seed(topic));
        assert!(of("default") && !of("t") && !selector.has("http://a.test/12"));
        let by_topic = Selection::Topic("t".into()).selector().unwrap();
        let of = |topic: &str| by_topic.has_found("http://a.test/12", || Origin::seed(topic));
        assert!(of("t") && !of("default") && by_topic.may_have("http://a.test"));
        let by_host = Selector::Host("a.test".into());
        assert!(by_host.has_found("http://a.test/", || unreachable!(
            "a host is known without it"
        )));
    }

    #[test]
    fn an_order_is_written_so_that_people_can_read_it() {
        let author = Author {
            by: "anna@desk".into(),
            since_s: 1_700_000_000,
            note: "a calendar".into(),
        };
        let order = DropOrder {
            id: 7,
            what: Selection::Match("/cal/".into()),
            and_later: true,
            author,
        };
        let text = serde_json::to_string(&order).unwrap();
        let fields = r#""by":"anna@desk","since_s":1700000000,"note":"a calendar""#;
        assert_eq!(
            text,
            format!(r#"{{"id":7,"what":{{"match":"/cal/"}},"and_later":true,{fields}}}"#)
        );
        assert_eq!(serde_json::from_str::<DropOrder>(&text).unwrap(), order);
        assert_eq!(
            order.to_string(),
            "match /cal/, found now or later, is dropped by anna@desk since 2023-11-14T22:13:20Z: \
             a calendar"
        );
    }

    proptest! {
        #[test]
        fn a_server_without_selected_urls_is_passed_over(
            scheme in "https?", host in "([ab]\\.){0,2}test", port in "(:81)?", path in "/[ab]?", cut in 0usize..40,
        ) {
            let url = format!("{scheme}://{host}{port}{path}");
            for other in ["http://a.test/", "http://b.a.test:81/a", "https://test/", &url] {
                let whole = surt(other);
                let prefix = Selector::Prefix(whole[..cut.min(whole.len())].to_owned());
                let all = [prefix, Selector::Host(host_of(other).into()), Selector::Domain("a.test".into())];
                for selector in all {
                    prop_assert!(!selector.has(&url) || selector.may_have(server_of(&url)), "{:?} {}", selector, url);
                }
            }
        }
    }
}

//! Known pages as they are given: lines of a crawl log.
//!
//! In: a line, of this crawl, of another one, or of another crawler's list. Out: the page, and how
//! its last visit ended; nothing where the page is not known by that; or what is wrong with the
//! line.

use rhumb_config::{DEFAULT_TOPIC, Pipeline, is_name};
use rhumb_url::canonical;
use rhumb_url::time::WEB_BEGAN_S;
use rhumb_wire::message::{LastVisit, Outcome, PageState};
use serde::Deserialize;
use std::time::UNIX_EPOCH;

/// A page that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownPage {
    /// As the crawl spells it.
    pub(crate) url: String,
    pub(crate) topic: String,
    /// Links from a seed.
    pub(crate) depth: u16,
    pub(crate) last: LastVisit,
}

/// What a line must have, and may have.
#[derive(Deserialize)]
struct Line {
    url: String,
    outcome: String,
    time: String,
    #[serde(default)]
    topic: String,
    #[serde(default)]
    depth: u16,
    #[serde(default)]
    visit: u32,
    #[serde(default)]
    change: String,
    #[serde(default)]
    before: PageState,
}

/// Reads lines for a crawl.
pub(crate) struct KnownPages {
    pipeline: Pipeline,
    /// That of lines that name none.
    topic: String,
    /// Now, in milliseconds of Unix time: no visit was later.
    now_ms: u64,
}

impl KnownPages {
    /// For a crawl with this configuration.
    pub(crate) fn new(pipeline: &Pipeline, topic: &str) -> Self {
        let since_1970 = UNIX_EPOCH.elapsed().unwrap_or_default();
        KnownPages {
            pipeline: pipeline.clone(),
            topic: topic.to_owned(),
            now_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The page of a line; none where its outcome makes no page known.
    ///
    /// # Errors
    /// The text is no JSON, or lacks something.
    pub(crate) fn read(&self, text: &[u8]) -> Result<Option<KnownPage>, serde_json::Error> {
        self.page(serde_json::from_slice(text)?)
            .map_err(serde::de::Error::custom)
    }

    fn page(&self, line: Line) -> Result<Option<KnownPage>, String> {
        let outcome = Outcome::ALL
            .into_iter()
            .find(|of| of.name() == line.outcome);
        let outcome = outcome.ok_or_else(|| format!("there is no outcome '{}'", line.outcome))?;
        let at_ms = self.time(&line.time)?;
        let url = self.url(&line.url)?;
        let topic = match line.topic.as_str() {
            "" => self.topic.clone(),
            topic => self.topic_of(topic)?,
        };
        Ok(outcome.makes_known().then(|| KnownPage {
            url,
            topic,
            depth: line.depth,
            last: LastVisit {
                at_ms,
                number: line.visit.max(1),
                state: state(outcome, &line.change, line.before),
            },
        }))
    }

    fn time(&self, text: &str) -> Result<u64, String> {
        let at = humantime::parse_rfc3339_weak(text).ok();
        let since_1970 = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let at_ms = since_1970.and_then(|since| u64::try_from(since.as_millis()).ok());
        at_ms
            .filter(|at_ms| *at_ms >= 1_000 * WEB_BEGAN_S)
            .map(|at_ms| at_ms.min(self.now_ms))
            .ok_or_else(|| {
                format!("'{text}' is no time of a visit, such as 2026-01-31T12:00:00.000Z")
            })
    }

    fn url(&self, text: &str) -> Result<String, String> {
        let url = canonical(text, None, None)
            .map_err(|reason| format!("'{text}' is no URL that can be crawled: {reason}"))?;
        let url = self.pipeline.url.rewrite(&url);
        let most = self.pipeline.limits.url_bytes_max;
        match url.len() <= most {
            true => Ok(url),
            false => Err(format!(
                "the URL has {} bytes, limits.url_bytes_max accepts {most}",
                url.len()
            )),
        }
    }

    /// Crawls without topics in their configuration may call their pages as they like.
    fn topic_of(&self, topic: &str) -> Result<String, String> {
        let topics = &self.pipeline.topics;
        let is_one = match topics.get(topic) {
            Some(topic) => !topic.removed,
            None => topic == DEFAULT_TOPIC || topics.is_empty() && is_name(topic),
        };
        match is_one {
            true => Ok(topic.to_owned()),
            false => Err(format!("there is no topic '{topic}'")),
        }
    }
}

/// What was told of a page when a visit had ended so. `change` is empty where nobody said what it
/// found.
fn state(outcome: Outcome, change: &str, before: PageState) -> PageState {
    match outcome {
        _ if change == "none" => before,
        Outcome::Fetched | Outcome::NotModified => PageState::Page,
        Outcome::Redirected => PageState::Moved,
        Outcome::Gone => PageState::Gone,
        _ => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_config::Layers;

    fn reader(set: &[&str]) -> KnownPages {
        let set = [
            "network.allow_private_addresses=true",
            "limits.url_bytes_max=64",
        ]
        .iter()
        .chain(set)
        .map(|&assignment| assignment.to_owned())
        .collect();
        let pipeline = Layers { file: None, set }
            .load_with(std::iter::empty())
            .expect("a configuration");
        KnownPages {
            // 2026-01-31T12:00:00Z.
            now_ms: 1_769_860_800_000,
            ..KnownPages::new(&pipeline, DEFAULT_TOPIC)
        }
    }

    fn read(text: &str) -> Result<Option<KnownPage>, String> {
        let read = reader(&[]).read(text.as_bytes());
        read.map_err(|error| error.to_string())
    }

    fn last(text: &str) -> LastVisit {
        read(text).expect("a line").expect("a known page").last
    }

    #[test]
    fn a_line_of_a_crawl_log_says_how_the_last_visit_ended() {
        let line = r#"{"time":"2026-01-31T11:00:00.123Z","url":"HTTP://a.test",
            "outcome":"not-modified","status":304,"depth":2,"topic":"news","serial":7,
            "visit":3,"change":"unchanged","before":"page","final":false}"#;
        let page = KnownPage {
            url: "http://a.test/".into(),
            topic: "news".into(),
            depth: 2,
            last: LastVisit {
                at_ms: 1_769_857_200_123,
                number: 3,
                state: PageState::Page,
            },
        };
        assert_eq!(read(line), Ok(Some(page)));
    }

    #[test]
    fn time_url_and_outcome_are_enough() {
        let line = r#"{"time":"2026-01-31 11:00:00","url":"http://a.test/","outcome":"fetched"}"#;
        let page = KnownPage {
            url: "http://a.test/".into(),
            topic: DEFAULT_TOPIC.into(),
            depth: 0,
            last: LastVisit {
                at_ms: 1_769_857_200_000,
                number: 1,
                state: PageState::Page,
            },
        };
        assert_eq!(read(line), Ok(Some(page)));
    }

    /// A line with this outcome, and with these other keys.
    fn ended(outcome: &str, keys: &str) -> String {
        let time = "2026-01-31T11:00:00Z";
        format!(r#"{{"time":"{time}","url":"http://a.test/","outcome":"{outcome}"{keys}}}"#)
    }

    #[test]
    fn the_state_of_a_page_is_what_was_told_of_it_last() {
        let none = r#","change":"none","before":"page""#;
        for (outcome, keys, state) in [
            ("fetched", "", PageState::Page),
            ("redirected", r#","change":"new""#, PageState::Moved),
            ("gone", "", PageState::Gone),
            ("gone", none, PageState::Page),
            ("failed", "", PageState::None),
            ("failed", none, PageState::Page),
            ("unresolvable", "", PageState::None),
            ("refused", r#","before":"gone""#, PageState::Gone),
        ] {
            assert_eq!(last(&ended(outcome, keys)).state, state, "{outcome}{keys}");
        }
        for outcome in ["disallowed", "over-budget", "trapped", "dropped"] {
            assert_eq!(read(&ended(outcome, "")), Ok(None), "{outcome}");
        }
    }

    #[test]
    fn a_visit_of_the_future_was_now_and_one_before_the_web_never() {
        let at = |time: &str| {
            read(&format!(
                r#"{{"time":"{time}","url":"http://a.test/","outcome":"gone"}}"#
            ))
        };
        let future = at("2126-01-31T11:00:00Z").unwrap().unwrap();
        assert_eq!(future.last.at_ms, 1_769_860_800_000);
        assert!(at("1991-01-01T00:00:00Z").is_ok());
        for time in [
            "1990-12-31T23:59:59Z",
            "1970-01-01T00:00:00.000Z",
            "1969-12-31T23:59:59Z",
            "yesterday",
            "",
        ] {
            let error = at(time).unwrap_err();
            assert!(
                error.starts_with(&format!("'{time}' is no time")),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        let whole = ended("fetched", "");
        let long = format!("http://a.test/{}", "x".repeat(60));
        for (line, said) in [
            ("no line".to_owned(), "expected ident"),
            ("[]".to_owned(), "invalid length 0"),
            (whole.replace("url", "uri"), "missing field `url`"),
            (whole.replace("time", "date"), "missing field `time`"),
            (whole.replace("outcome", "end"), "missing field `outcome`"),
            (ended("eaten", ""), "there is no outcome 'eaten'"),
            (
                whole.replace("http://a.test/", "a.test"),
                "'a.test' is no URL",
            ),
            (
                whole.replace("http://a.test/", &long),
                "the URL has 74 bytes",
            ),
            (ended("gone", r#","depth":-1"#), "invalid value"),
            (ended("gone", r#","before":"away""#), "unknown variant"),
        ] {
            let error = read(&line).unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
        assert!(reader(&[]).read(b"{\"url\":\"\xff\"}").is_err());
        let cut = reader(&[]).read(&whole.as_bytes()[..20]).unwrap_err();
        assert!(cut.is_eof());
    }

    #[test]
    fn a_topic_is_one_of_the_crawl_where_it_has_some() {
        let line = |topic: &str| ended("gone", &format!(r#","topic":"{topic}""#));
        assert!(read(&line("any")).is_ok());
        let reader = reader(&["topics.news.priority=1"]);
        for (topic, is_one) in [("news", true), ("default", true), ("any", false)] {
            assert_eq!(
                reader.read(line(topic).as_bytes()).is_ok(),
                is_one,
                "{topic}"
            );
        }
    }
}

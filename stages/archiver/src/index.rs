//! A line of a CDXJ index: where in which file a response lies.
//!
//! Key (SURT and timestamp), a space, a JSON object; the lines of a finished index are sorted by
//! their bytes. Source: the CDXJ format of pywb; SURT as in its keys (surt 0.3), by which it looks
//! a URL up.

use crate::record::Digest;
use crate::time::date;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, percent_encode};
use rhumb_url::{host_of, path_of, server_of};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What an index says of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) url: String,
    /// Media type; `warc/revisit` for a record without the body.
    pub(crate) mime: String,
    pub(crate) status: String,
    /// The digest of the payload; `-` when it is not known.
    pub(crate) digest: String,
    /// The length of the member, in bytes.
    #[serde(with = "text")]
    pub(crate) length: u64,
    #[serde(with = "text")]
    pub(crate) offset: u64,
    pub(crate) filename: String,
    /// `WARC-Date`, which has milliseconds.
    pub(crate) date: String,
}

/// The media type of records without a body.
pub(crate) const REVISIT: &str = "warc/revisit";

impl Line {
    /// A line; where the record lies is known when it is written.
    pub(crate) fn new(
        url: &str,
        fetched_at_ms: u64,
        mime: &str,
        status: u16,
        digest: Option<Digest>,
    ) -> Line {
        Line {
            url: url.to_owned(),
            mime: if mime.is_empty() {
                "unk".to_owned()
            } else {
                mime.to_owned()
            },
            status: status.to_string(),
            digest: digest.map_or("-".to_owned(), Digest::text),
            length: 0,
            offset: 0,
            filename: String::new(),
            date: date(fetched_at_ms),
        }
    }

    /// Returns the line as the index holds it, without the line's end.
    pub(crate) fn text(&self) -> String {
        let digits: String = self
            .date
            .chars()
            .filter(char::is_ascii_digit)
            .take(14)
            .collect();
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{} {digits} {json}", key(&self.url))
    }

    /// Reads what [`Line::text`] wrote.
    pub(crate) fn parse(text: &str) -> Option<Line> {
        // Key, timestamp, object; no URL has a space.
        serde_json::from_str(text.splitn(3, ' ').nth(2)?).ok()
    }
}

/// The key of a canonical URL: `org,example)/path?query`, what belongs to a site side by side.
/// Session ids are kept.
fn key(canonical: &str) -> String {
    let host = host_of(canonical);
    let server = server_of(canonical);
    let port = &server[server
        .rfind(host)
        .map_or(server.len(), |at| at + host.len())..];
    let (path, query) = match path_of(canonical).split_once('?') {
        Some((path, query)) => (path, plainly(query)),
        None => (path_of(canonical), String::new()),
    };
    let path = plainly(path);
    let mut key = match host.strip_prefix('[') {
        Some(address) => address.trim_end_matches(']').to_owned(),
        None => without_www(host).rsplit('.').collect::<Vec<_>>().join(","),
    };
    key.push_str(port);
    key.push(')');
    for name in path.split('/').filter(|name| !name.is_empty()) {
        key.push('/');
        key.push_str(name);
    }
    if key.ends_with(')') {
        key.push('/');
    }
    if !query.is_empty() {
        // Parameters are sorted by name, then by value: `a=` comes before `a-b=`.
        let mut parameters: Vec<&str> = query.split('&').collect();
        parameters.sort_by_key(|parameter| {
            parameter
                .split_once('=')
                .map_or((*parameter, None), |(n, v)| (n, Some(v)))
        });
        key.push('?');
        key.push_str(&parameters.join("&"));
    }
    key
}

/// Without a first label of `www` and digits.
fn without_www(host: &str) -> &str {
    let rest = host
        .strip_prefix("www")
        .map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.and_then(|rest| rest.strip_prefix('.')).unwrap_or(host)
}

/// In lower case, and escaped only where it must be.
fn plainly(text: &str) -> String {
    const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'#').add(b'%');
    let mut bytes = text.as_bytes().to_vec();
    // What was escaped several times as well.
    while let Cow::Owned(decoded) = Cow::from(percent_decode(&bytes)) {
        bytes = decoded;
    }
    bytes.make_ascii_lowercase();
    percent_encode(&bytes, ESCAPED)
        .to_string()
        .to_ascii_lowercase()
}

/// Numbers as text, as the format has them.
mod text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_that_archives_look_up() {
        // As surt 0.3.1 prints them.
        for (url, expected) in [
            (
                "http://www.example.org/A/b?z=1&a=2",
                "org,example)/a/b?a=2&z=1",
            ),
            ("https://example.org/", "org,example)/"),
            ("https://example.org/docs/", "org,example)/docs"),
            ("https://example.org/docs/?a=1", "org,example)/docs?a=1"),
            ("http://a.test/a//", "test,a)/a"),
            ("http://www.org/", "org)/"),
            ("http://www2.example.org/", "org,example)/"),
            ("http://www3www.a.test/", "test,a,www3www)/"),
            ("http://h1.web.test:8080/x", "test,web,h1:8080)/x"),
            ("http://127.0.0.1:81/", "1,0,0,127:81)/"),
            ("http://[2001:db8::1]/", "2001:db8::1)/"),
            ("http://a.test/x?", "test,a)/x"),
            ("http://a.test/?q={1}", "test,a)/?q={1}"),
            ("http://a.test/?B=1&a=2", "test,a)/?a=2&b=1"),
            ("http://a.test/?a-b=1&a=2", "test,a)/?a=2&a-b=1"),
            ("http://a.test/?b=2&b=1&&a", "test,a)/?&a&b=1&b=2"),
            ("http://a.test/?a=b=c&a=b&a", "test,a)/?a&a=b&a=b=c"),
            (
                "http://a.test/%7Eb%2fc%2525?c=%20D",
                "test,a)/~b/c%25?c=%20d",
            ),
            ("http://a.test/%C3%A9?%c3%bc=1", "test,a)/%c3%a9?%c3%bc=1"),
        ] {
            assert_eq!(key(url), expected, "{url}");
        }
    }

    #[test]
    fn a_line_comes_back_as_it_was() {
        let mut line = Line::new(
            "http://a.test/{é}",
            1_769_860_800_123,
            "",
            200,
            Some(Digest([7; 20])),
        );
        (line.length, line.offset, line.filename) = (5, 6, "x.warc.gz".to_owned());
        let text = line.text();
        assert!(
            text.starts_with(
                "test,a)/{%c3%a9} 20260131120000 {\"url\":\"http://a.test/{é}\",\"mime\":\"unk\","
            ),
            "{text}"
        );
        assert!(text.contains("\"length\":\"5\",\"offset\":\"6\""), "{text}");
        assert_eq!(Line::parse(&text), Some(line));
        assert_eq!(Line::parse(&text[..text.len() - 1]), None);
        assert_eq!(Line::parse(""), None);
    }
}

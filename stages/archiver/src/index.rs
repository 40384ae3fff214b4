//! A line of a CDXJ index: where in which file a response lies.
//!
//! Key (SURT and timestamp), a space, a JSON object; the lines of a finished index are sorted by their bytes.
//! Source: the CDXJ format of pywb and OpenWayback; SURT as in their keys, without scheme and `www`.

use crate::record::Digest;
use crate::time::date;
use serde::{Deserialize, Serialize};
use shared::url::{address_literal, host_of, path_of, server_of};

/// What an index says of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) url: String,
    /// Media type; `warc/revisit` for a record without the body.
    pub(crate) mime: String,
    pub(crate) status: String,
    /// Of the payload; `-` when that is not known.
    pub(crate) digest: String,
    /// Of the gzip member, in bytes.
    #[serde(with = "text")]
    pub(crate) length: u64,
    #[serde(with = "text")]
    pub(crate) offset: u64,
    pub(crate) filename: String,
    /// `WARC-Date`, which has milliseconds.
    pub(crate) date: String,
}

/// Of records without a body.
pub(crate) const REVISIT: &str = "warc/revisit";

impl Line {
    /// A line; where the record lies is known when it is written.
    pub(crate) fn new(url: &str, fetched_at_ms: u64, mime: &str, status: u16, digest: Option<Digest>) -> Line {
        Line {
            url: url.to_owned(),
            mime: if mime.is_empty() { "unk".to_owned() } else { mime.to_owned() },
            status: status.to_string(),
            digest: digest.map_or("-".to_owned(), Digest::text),
            length: 0,
            offset: 0,
            filename: String::new(),
            date: date(fetched_at_ms),
        }
    }

    /// As it stands in the index, without the line's end.
    pub(crate) fn text(&self) -> String {
        let digits: String = self.date.chars().filter(char::is_ascii_digit).take(14).collect();
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
fn key(canonical: &str) -> String {
    let host = host_of(canonical);
    let server = server_of(canonical);
    let port = &server[server.rfind(host).map_or(server.len(), |at| at + host.len())..];
    let mut key = if address_literal(host).is_some() {
        host.to_owned()
    } else {
        let host = host.strip_prefix("www.").filter(|rest| rest.contains('.')).unwrap_or(host);
        host.rsplit('.').collect::<Vec<_>>().join(",")
    };
    key.push_str(port);
    key.push(')');
    let path = path_of(canonical);
    match path.split_once('?') {
        None => key.push_str(path),
        Some((path, query)) => {
            let mut parameters: Vec<&str> = query.split('&').collect();
            parameters.sort_unstable();
            key.push_str(path);
            key.push('?');
            key.push_str(&parameters.join("&"));
        }
    }
    key.make_ascii_lowercase();
    // The first brace of a line is where readers look for the object.
    key.replace('{', "%7b").replace('}', "%7d")
}

/// Numbers as text, as the format has them.
mod text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_that_archives_look_up() {
        for (url, expected) in [
            ("http://www.example.org/A/b?z=1&a=2", "org,example)/a/b?a=2&z=1"),
            ("https://example.org/", "org,example)/"),
            ("http://www.org/", "org,www)/"),
            ("http://h1.web.test:8080/x", "test,web,h1:8080)/x"),
            ("http://127.0.0.1:81/", "127.0.0.1:81)/"),
            ("http://[2001:db8::1]/", "[2001:db8::1])/"),
            ("http://a.test/?q={1}", "test,a)/?q=%7b1%7d"),
        ] {
            assert_eq!(key(url), expected, "{url}");
        }
    }

    #[test]
    fn a_line_comes_back_as_it_was() {
        let mut line = Line::new("http://a.test/{é}", 1_769_860_800_123, "", 200, Some(Digest([7; 20])));
        (line.length, line.offset, line.filename) = (5, 6, "x.warc.gz".to_owned());
        let text = line.text();
        assert!(
            text.starts_with("test,a)/%7bé%7d 20260131120000 {\"url\":\"http://a.test/{é}\",\"mime\":\"unk\","),
            "{text}"
        );
        assert!(text.contains("\"length\":\"5\",\"offset\":\"6\""), "{text}");
        assert_eq!(Line::parse(&text), Some(line));
        assert_eq!(Line::parse(&text[..text.len() - 1]), None);
        assert_eq!(Line::parse(""), None);
    }
}

//! The head of a WARC record.
//!
//! In: a stream at the beginning of a record. Out: what its head says, with the stream at the
//! beginning of its block; or what is wrong with it. Limit: [`HEAD_BYTES_MAX`]. Source: WARC 1.1
//! (ISO 28500:2017), and what wget, Heritrix and warcio write.

use rhumb_wire::message::Truncation;
use std::io::{self, BufRead, Read as _};
use std::net::IpAddr;
use std::time::UNIX_EPOCH;

/// A longer head is none.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// Why a record cannot be used.
pub(crate) type Damage = String;

/// What a record is, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An HTTP response.
    Response,
    /// An HTTP response whose body is that of another record.
    Revisit,
    /// A body without a response.
    Resource,
    /// Nothing that answers a request.
    #[default]
    Other,
}

/// The head of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) url: String,
    pub(crate) date_ms: u64,
    pub(crate) content_type: String,
    pub(crate) block_bytes: u64,
    /// Of the payload.
    pub(crate) digest: Option<String>,
    /// The record whose body a revisit has: its URL and its date.
    pub(crate) refers_to: Option<(String, u64)>,
    pub(crate) truncated: Option<Truncation>,
    pub(crate) is_http2: bool,
    pub(crate) address: Option<IpAddr>,
}

impl Head {
    /// Reads the head of the next record; none at the end of the stream.
    pub(crate) fn read(from: &mut impl BufRead) -> Result<Option<Head>, Damage> {
        let mut lines = Lines {
            from: from.take(HEAD_BYTES_MAX),
            line: Vec::new(),
        };
        let version = loop {
            match lines.next()? {
                None => return Ok(None),
                // Some writers put more empty lines between records than they should.
                Some([]) => {}
                Some(line) => break line,
            }
        };
        if !version.starts_with(b"WARC/") {
            return Err("no WARC record begins here".into());
        }
        let mut fields: Vec<(String, String)> = Vec::new();
        loop {
            let line = lines.next()?.ok_or("the head of the record ends early")?;
            let text = String::from_utf8_lossy(line);
            if text.is_empty() {
                return Head::of(&fields).map(Some);
            }
            match (text.split_once(':'), fields.last_mut()) {
                (_, Some((_, value))) if text.starts_with([' ', '\t']) => {
                    value.push(' ');
                    value.push_str(text.trim());
                }
                (Some((name, value)), _) => {
                    fields.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
                }
                (None, _) => {
                    return Err("the head of the record has a line that is no field".into());
                }
            }
        }
    }

    fn of(fields: &[(String, String)]) -> Result<Head, Damage> {
        let field = |name: &str| {
            fields
                .iter()
                .find(|(other, _)| other == name)
                .map(|(_, value)| value.as_str())
        };
        let block_bytes = field("content-length").and_then(|length| length.parse().ok());
        let block_bytes =
            block_bytes.ok_or("the head of the record does not say how long it is")?;
        // wget puts URLs into angle brackets.
        let url = |name| field(name).map(|url| url.trim_matches(['<', '>']).to_owned());
        let refers_date = field("warc-refers-to-date").map_or(0, millis);
        // A server that says that nothing has changed gives no answer to somebody who has nothing,
        // unless the record names the response that it stands for.
        let is_unchanged =
            field("warc-profile").is_some_and(|profile| profile.ends_with("server-not-modified"));
        let names_nothing = is_unchanged && refers_date == 0;
        let kind = match field("warc-type").unwrap_or_default() {
            "response" => Kind::Response,
            "revisit" if !names_nothing => Kind::Revisit,
            "resource" => Kind::Resource,
            _ => Kind::Other,
        };
        Ok(Head {
            kind,
            url: url("warc-target-uri").unwrap_or_default(),
            date_ms: field("warc-date").map_or(0, millis),
            content_type: field("content-type").unwrap_or_default().to_owned(),
            block_bytes,
            digest: field("warc-payload-digest").map(str::to_owned),
            refers_to: url("warc-refers-to-target-uri").map(|url| (url, refers_date)),
            truncated: field("warc-truncated").map(truncation),
            is_http2: field("warc-protocol") == Some("h2"),
            address: field("warc-ip-address").and_then(|address| address.parse().ok()),
        })
    }

    /// Returns whether it may answer a request for its URL.
    pub(crate) fn is_recording(&self) -> bool {
        match self.kind {
            // Names that Heritrix resolved are `response` records, too.
            Kind::Response | Kind::Revisit | Kind::Resource => {
                self.url.starts_with("http://") || self.url.starts_with("https://")
            }
            Kind::Other => false,
        }
    }
}

/// The reason that a record gives for what it lacks (`WARC-Truncated`; WARC 1.1, section 5.15).
fn truncation(reason: &str) -> Truncation {
    let known = [Truncation::Length, Truncation::Time, Truncation::Disconnect];
    known
        .into_iter()
        .find(|known| known.name().eq_ignore_ascii_case(reason))
        .unwrap_or(Truncation::Unspecified)
}

/// A point of time as records have it, in milliseconds since 1970; 0 when it is none.
pub(crate) fn millis(date: &str) -> u64 {
    let at = humantime::parse_rfc3339(date)
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    at.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}

/// The lines of a head, without their ends.
struct Lines<R> {
    from: io::Take<R>,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<&[u8]>, Damage> {
        self.line.clear();
        self.from
            .read_until(b'\n', &mut self.line)
            .map_err(|error| error.to_string())?;
        if self.line.is_empty() {
            return if self.from.limit() == 0 {
                Err("the head of the record is too long".into())
            } else {
                Ok(None)
            };
        }
        let line = self
            .line
            .strip_suffix(b"\n")
            .ok_or("the head of the record ends early")?;
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Head>, Damage> {
        Head::read(&mut text.as_bytes())
    }

    #[test]
    fn a_head_is_read_as_others_write_it() {
        let text = "\r\nWARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: <http://a.test/>\r\n\
                    warc-date: 2026-01-31T12:00:00Z\r\nContent-Type: application/http;\r\n \
                    msgtype=response\r\n\
                    WARC-IP-Address: 127.0.0.1\r\nContent-Length: 7\r\n\r\nHTTP";
        let head = read(text).unwrap().unwrap();
        assert_eq!(
            (head.kind, head.url.as_str(), head.block_bytes),
            (Kind::Response, "http://a.test/", 7)
        );
        assert_eq!(
            (head.date_ms, head.address),
            (1_769_860_800_000, Some([127, 0, 0, 1].into()))
        );
        assert_eq!(head.content_type, "application/http; msgtype=response");
        assert!(
            head.is_recording()
                && !Head {
                    url: "dns:a.test".into(),
                    ..head
                }
                .is_recording()
        );
        assert_eq!(read("\r\n\r\n"), Ok(None));
    }

    #[test]
    fn a_record_says_why_it_is_not_whole() {
        for (field, reason) in [
            ("", None),
            ("WARC-Truncated: length\r\n", Some(Truncation::Length)),
            ("WARC-Truncated: Time\r\n", Some(Truncation::Time)),
            (
                "WARC-Truncated: disconnect\r\n",
                Some(Truncation::Disconnect),
            ),
            (
                "WARC-Truncated: unspecified\r\n",
                Some(Truncation::Unspecified),
            ),
            (
                "WARC-Truncated: bandwidth\r\n",
                Some(Truncation::Unspecified),
            ),
        ] {
            let head = read(&format!(
                "WARC/1.1\r\nWARC-Type: response\r\n{field}Content-Length: 0\r\n\r\n"
            ));
            assert_eq!(head.unwrap().unwrap().truncated, reason, "{field}");
        }
    }

    #[test]
    fn what_is_no_head_is_named() {
        for (text, reason) in [
            ("HTTP/1.1 200 OK\r\n\r\n", "no WARC record begins here"),
            ("WARC/1.0\r\nContent-Length: 7\r\n", "ends early"),
            ("WARC/1.0\r\nContent-Length: 7", "ends early"),
            ("WARC/1.0\r\nnothing\r\n\r\n", "no field"),
            ("WARC/1.0\r\nWARC-Type: response\r\n\r\n", "how long"),
        ] {
            assert!(read(text).unwrap_err().contains(reason), "{text}");
        }
        let long = format!("WARC/1.0\r\nx: {}", "y".repeat(HEAD_BYTES_MAX as usize));
        assert!(read(&long).is_err());
    }
}

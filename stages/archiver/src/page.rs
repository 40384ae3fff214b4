//! A page as WARC records: the request, what is known of the URL, and the response last.
//!
//! In: a page. Out: members and the line for the index. The body is written as the server sent it:
//! without its transfer coding, with its content coding. A body that is in the archive, or that the
//! server says has not changed, is referred to instead (revisit).
//!
//! Source: WARC 1.1, sections 6.2 to 6.7.

use crate::digests::{Digests, Original};
use crate::index::{Line, REVISIT};
use crate::record::{Digest, Record, Writer, record_id};
use crate::time::date;
use http::StatusCode;
use rhumb_url::{path_of, server_of};
use rhumb_warc::media_type;
use rhumb_wire::message::{HttpVersion, Page};
use std::ops::Range;

const RESPONSE: &str = "application/http;msgtype=response";
const REQUEST: &str = "application/http;msgtype=request";
const SAME_BODY: &str = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";
const NOT_MODIFIED: &str = "http://netpreserve.org/warc/1.1/revisit/server-not-modified";

/// The longest media type that an index repeats, in bytes.
const MEDIA_TYPE_BYTES_MAX: usize = 127;

/// What was written of a page.
pub(crate) struct Written {
    /// The index line of the response.
    pub(crate) line: Line,
    /// Where in the buffer the response lies.
    pub(crate) response: Range<usize>,
    /// Returns whether it was written without its body.
    pub(crate) is_revisit: bool,
}

/// Appends a page's records.
pub(crate) fn write(
    page: &Page,
    digests: &mut Digests,
    writer: &mut Writer,
    out: &mut Vec<u8>,
) -> Written {
    let date = date(page.fetched_at_ms);
    let response_id = record_id("response", &page.url, &date);
    let address = page.address.map(|address| address.to_string());
    let mut fields = vec![("WARC-Target-URI", page.url.as_str())];
    fields.extend(
        address
            .as_deref()
            .map(|address| ("WARC-IP-Address", address)),
    );
    if page.http_version == HttpVersion::Http2 {
        fields.push(("WARC-Protocol", "h2"));
    }
    write_request(page, &date, &response_id, fields.clone(), writer, out);
    write_metadata(page, &date, &response_id, writer, out);
    let payload = Payload::of(page, digests);
    let response = write_response(page, &date, &response_id, fields, &payload, writer, out);
    if let Payload::New(digest) = payload
        && is_kept_whole(page)
    {
        digests.insert(
            digest,
            Original {
                url: page.url.clone(),
                date,
            },
        );
    }
    let is_revisit = payload.is_revisit();
    let media_type = media_type(page);
    let mime = if is_revisit { REVISIT } else { &media_type };
    let line = Line::new(
        &page.url,
        page.fetched_at_ms,
        mime,
        page.status,
        payload.digest(),
    );
    Written {
        line,
        response,
        is_revisit,
    }
}

/// Named fields of a record.
type Fields<'a> = Vec<(&'static str, &'a str)>;

/// What the archive has of a response's payload.
enum Payload {
    /// The server says that it is the one it sent before.
    NotModified,
    /// The same body is in the archive.
    Known(Digest, Original),
    /// It is not in the archive, as far as is remembered.
    New(Digest),
}

impl Payload {
    fn of(page: &Page, digests: &mut Digests) -> Payload {
        if page.status == StatusCode::NOT_MODIFIED.as_u16() {
            return Payload::NotModified;
        }
        let digest = Digest::of(&[&page.body]);
        let original = if is_kept_whole(page) {
            digests.get(digest)
        } else {
            None
        };
        original.map_or(Payload::New(digest), |original| {
            Payload::Known(digest, original)
        })
    }

    fn digest(&self) -> Option<Digest> {
        match self {
            Payload::NotModified => None,
            Payload::Known(digest, _) | Payload::New(digest) => Some(*digest),
        }
    }

    fn is_revisit(&self) -> bool {
        !matches!(self, Payload::New(_))
    }
}

/// Returns whether the body is one that later responses may refer to.
fn is_kept_whole(page: &Page) -> bool {
    page.truncated.is_none() && !page.body.is_empty()
}

fn write_request<'a>(
    page: &'a Page,
    date: &str,
    response_id: &'a str,
    mut fields: Fields<'a>,
    writer: &mut Writer,
    out: &mut Vec<u8>,
) {
    fields.push(("WARC-Concurrent-To", response_id));
    let record = Record {
        kind: "request",
        id: &record_id("request", &page.url, date),
        date,
        fields: &fields,
        content_type: REQUEST,
        payload: None,
        block: [&request_head(page), &[]],
        is_coded: false,
    };
    writer.write(&record, out);
}

fn write_metadata(
    page: &Page,
    date: &str,
    response_id: &str,
    writer: &mut Writer,
    out: &mut Vec<u8>,
) {
    let about = about(page);
    let record = Record {
        kind: "metadata",
        id: &record_id("metadata", &page.url, date),
        date,
        fields: &[
            ("WARC-Target-URI", page.url.as_str()),
            ("WARC-Concurrent-To", response_id),
        ],
        content_type: "application/warc-fields",
        payload: None,
        block: [about.as_bytes(), &[]],
        is_coded: false,
    };
    writer.write(&record, out);
}

/// Returns where in `out` the record lies.
fn write_response(
    page: &Page,
    date: &str,
    id: &str,
    fields: Fields<'_>,
    payload: &Payload,
    writer: &mut Writer,
    out: &mut Vec<u8>,
) -> Range<usize> {
    let mut fields: Fields<'_> = fields;
    match payload {
        Payload::NotModified => {
            fields.push(("WARC-Profile", NOT_MODIFIED));
            fields.push(("WARC-Refers-To-Target-URI", &page.url));
        }
        Payload::Known(_, Original { url, date }) => {
            fields.push(("WARC-Profile", SAME_BODY));
            fields.push(("WARC-Refers-To-Target-URI", url));
            fields.push(("WARC-Refers-To-Date", date));
            // The record ends behind the headers of a response that has a body.
            fields.push(("WARC-Truncated", "length"));
        }
        Payload::New(_) => {}
    }
    if let Some(reason) = page.truncated {
        fields.push(("WARC-Truncated", reason.name()));
    }
    let is_revisit = payload.is_revisit();
    let record = Record {
        kind: if is_revisit { "revisit" } else { "response" },
        id,
        date,
        fields: &fields,
        content_type: RESPONSE,
        payload: payload.digest(),
        block: [
            &response_head(page),
            if is_revisit { &[] } else { &page.body },
        ],
        is_coded: header(page, "content-encoding").is_some(),
    };
    writer.write(&record, out)
}

/// The media type for the index; empty when it is too long, or would pass for a word of the index.
fn media_type(page: &Page) -> String {
    let values = page
        .headers
        .iter()
        .filter(|(name, _)| name == "content-type")
        .map(|(_, value)| value.as_slice());
    let media_type = media_type::essence(values, MEDIA_TYPE_BYTES_MAX);
    if media_type == REVISIT {
        String::new()
    } else {
        media_type
    }
}

fn header<'a>(page: &'a Page, name: &str) -> Option<&'a [u8]> {
    page.headers
        .iter()
        .find(|(other, _)| other == name)
        .map(|(_, value)| value.as_slice())
}

/// Archives read HTTP/1.1: what came over HTTP/2 is written as if it had come so, and
/// `WARC-Protocol` tells.
fn version(page: &Page) -> &'static str {
    match page.http_version {
        HttpVersion::Http10 => "HTTP/1.0",
        HttpVersion::Http11 | HttpVersion::Http2 => "HTTP/1.1",
    }
}

fn request_head(page: &Page) -> Vec<u8> {
    let server = server_of(&page.url);
    let authority = server
        .split_once("://")
        .map_or(server, |(_, authority)| authority);
    // What was sent, whatever the server answered.
    let mut head = format!(
        "GET {} HTTP/1.1\r\nhost: {authority}\r\n",
        path_of(&page.url)
    )
    .into_bytes();
    for (name, value) in &page.request_headers {
        push_header(&mut head, name, value);
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Status line and headers. The transfer coding is undone, so the header that names it goes under
/// another name, and the length is said: the server's own has not been true beside a coding.
fn response_head(page: &Page) -> Vec<u8> {
    let reason = StatusCode::from_u16(page.status)
        .ok()
        .and_then(|status| status.canonical_reason());
    let mut head = format!(
        "{} {} {}\r\n",
        version(page),
        page.status,
        reason.unwrap_or("")
    )
    .into_bytes();
    let was_coded = header(page, "transfer-encoding").is_some();
    for (name, value) in &page.headers {
        match name.as_str() {
            "transfer-encoding" => push_header(&mut head, "x-crawler-transfer-encoding", value),
            "content-length" if was_coded => {
                push_header(&mut head, "x-crawler-content-length", value)
            }
            _ => push_header(&mut head, name, value),
        }
    }
    if was_coded && page.status != StatusCode::NOT_MODIFIED.as_u16() {
        push_header(
            &mut head,
            "content-length",
            page.body.len().to_string().as_bytes(),
        );
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn push_header(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

/// How the URL was found and how long it took, in the words of WARC's metadata records.
fn about(page: &Page) -> String {
    let origin = &page.origin;
    let mut about = String::new();
    let mut field = |name: &str, value: &str| {
        about.push_str(name);
        about.push_str(": ");
        about.push_str(value);
        about.push_str("\r\n");
    };
    if !origin.page.is_empty() {
        field("via", origin.found_on());
    }
    let hops = "L".repeat(usize::from(origin.depth.min(HOPS_MAX)))
        + &"R".repeat(usize::from(origin.redirects));
    // What has to be known before a page may be fetched.
    let hops = if page.is_robots { "P" } else { &hops };
    field("hopsFromSeed", hops);
    field("fetchTimeMs", &(page.elapsed_us / 1000).to_string());
    field("topic", &origin.topic);
    about
}

/// Links from a seed that are spelled out; the line would only grow.
const HOPS_MAX: u16 = 1000;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rhumb_config::WarcFormat;
    use rhumb_wire::message::{Origin, Truncation};
    use std::io::Read as _;

    pub(crate) fn page(url: &str, fetched_at_ms: u64, body: &[u8]) -> Page {
        Page {
            url: url.into(),
            origin: Origin {
                page: "http://a.test/".into(),
                topic: "default".into(),
                depth: 2,
                redirects: 1,
                ..Origin::default()
            },
            status: 200,
            fetched_at_ms,
            elapsed_us: 12_345,
            address: Some([127, 1, 0, 1].into()),
            http_version: HttpVersion::Http11,
            request_headers: vec![("user-agent".into(), b"rhumb".to_vec())],
            headers: vec![
                ("content-type".into(), b"Text/HTML; charset=utf-8".to_vec()),
                ("transfer-encoding".into(), b"chunked".to_vec()),
            ],
            truncated: None,
            body: body.to_vec(),
            is_robots: false,
        }
    }

    /// What each member holds.
    fn members(mut bytes: &[u8]) -> Vec<String> {
        let mut members = Vec::new();
        while !bytes.is_empty() {
            let mut decoder = flate2::bufread::GzDecoder::new(bytes);
            let mut text = Vec::new();
            decoder.read_to_end(&mut text).unwrap();
            members.push(String::from_utf8(text).unwrap());
            bytes = decoder.into_inner();
        }
        members
    }

    fn written(page: &Page, digests: &mut Digests) -> (Written, Vec<String>) {
        let mut out = Vec::new();
        let written = write(
            page,
            digests,
            &mut Writer::new(WarcFormat::Gzip, 1),
            &mut out,
        );
        assert_eq!(
            written.response.end,
            out.len(),
            "the response is last: its end is the page's"
        );
        (written, members(&out))
    }

    #[test]
    fn a_page_is_a_request_what_is_known_of_it_and_its_response() {
        let (written, members) = written(
            &page("http://a.test:81/x?y", 1000, b"<p>hi"),
            &mut Digests::new(10),
        );
        let [request, metadata, response] = &members[..] else {
            panic!("{members:?}")
        };
        assert!(request.contains("WARC-Type: request\r\n"), "{request}");
        assert!(
            request.contains(
                "\r\n\r\nGET /x?y HTTP/1.1\r\nhost: a.test:81\r\nuser-agent: rhumb\r\n\r\n"
            ),
            "{request}"
        );
        let about = "\r\n\r\nvia: http://a.test/\r\nhopsFromSeed: LLR\r\nfetchTimeMs: 12\r\ntopic: \
                     default\r\n";
        assert!(metadata.contains(about), "{metadata}");
        assert!(response.contains("WARC-Type: response\r\n"), "{response}");
        assert!(
            response.contains("WARC-IP-Address: 127.1.0.1\r\n"),
            "{response}"
        );
        let digest = Digest::of(&[b"<p>hi"]).text();
        assert!(
            response.contains(&format!("WARC-Payload-Digest: {digest}\r\n")),
            "{response}"
        );
        let has_digest = |record: &String| {
            record.contains("WARC-Block-Digest: ") != record.contains("WARC-Payload-Digest: ")
        };
        assert!(members.iter().all(has_digest), "validators want one");
        let block = "\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: Text/HTML; charset=utf-8\r\n\
                     x-crawler-transfer-encoding: chunked\r\ncontent-length: \
                     5\r\n\r\n<p>hi\r\n\r\n";
        assert!(response.ends_with(block), "{response}");
        let id = record_id(
            "response",
            "http://a.test:81/x?y",
            "1970-01-01T00:00:01.000Z",
        );
        assert!(response.contains(&format!("WARC-Record-ID: {id}\r\n")));
        assert!(
            [request, metadata]
                .iter()
                .all(|other| other.contains(&format!("WARC-Concurrent-To: {id}\r\n")))
        );
        assert_eq!(
            (written.line.mime.as_str(), written.line.status.as_str()),
            ("text/html", "200")
        );
        assert!(!written.is_revisit);
    }

    #[test]
    fn a_length_beside_a_coding_does_not_count() {
        let mut page = page("http://a.test/", 1000, b"<p>hi");
        page.headers.push(("content-length".into(), b"3".to_vec()));
        let (_, members) = written(&page, &mut Digests::new(10));
        let head = "\r\nx-crawler-content-length: 3\r\ncontent-length: 5\r\n\r\n<p>hi";
        assert!(members[2].contains(head), "{}", members[2]);
    }

    #[test]
    fn a_body_that_comes_again_or_has_not_changed_is_referred_to() {
        let mut digests = Digests::new(10);
        written(&page("http://a.test/1", 1000, b"same"), &mut digests);
        let (again, members) = written(&page("http://a.test/2", 2000, b"same"), &mut digests);
        assert_eq!(
            (again.is_revisit, again.line.mime.as_str()),
            (true, "warc/revisit")
        );
        let revisit = &members[2];
        for expected in [
            "WARC-Type: revisit\r\n",
            "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n",
            "WARC-Refers-To-Target-URI: http://a.test/1\r\nWARC-Refers-To-Date: \
             1970-01-01T00:00:01.000Z\r\n",
        ] {
            assert!(revisit.contains(expected), "{revisit}");
        }
        assert!(
            revisit.ends_with("content-length: 4\r\n\r\n\r\n\r\n"),
            "no body: {revisit}"
        );

        let (same, members) = written(
            &Page {
                status: 304,
                ..page("http://a.test/1", 3000, b"")
            },
            &mut digests,
        );
        assert!(
            same.is_revisit && members[2].contains("server-not-modified\r\n"),
            "{}",
            members[2]
        );
        assert!(
            !members[2].contains("Payload-Digest") && same.line.digest == "-",
            "{}",
            members[2]
        );
        assert!(
            members[2].contains("WARC-Refers-To-Target-URI: http://a.test/1\r\n"),
            "{}",
            members[2]
        );

        for other in [
            Page {
                truncated: Some(Truncation::Time),
                ..page("http://a.test/3", 4000, b"same")
            },
            page("http://a.test/4", 4000, b""),
            page("http://a.test/5", 4000, b""),
        ] {
            let (written, members) = written(&other, &mut digests);
            assert!(!written.is_revisit, "{}", members[2]);
            assert_eq!(
                members[2].contains("WARC-Truncated"),
                other.truncated.is_some()
            );
        }
    }
    #[test]
    fn a_response_says_why_its_body_is_not_whole() {
        let reasons = [
            (Truncation::Length, "length"),
            (Truncation::Time, "time"),
            (Truncation::Disconnect, "disconnect"),
            (Truncation::Unspecified, "unspecified"),
        ];
        for (reason, word) in reasons {
            let cut = Page {
                truncated: Some(reason),
                ..page("http://a.test/", 1000, b"<p>h")
            };
            let (_, members) = written(&cut, &mut Digests::new(10));
            assert!(
                members[2].contains(&format!("\r\nWARC-Truncated: {word}\r\n")),
                "{}",
                members[2]
            );
        }
    }
}

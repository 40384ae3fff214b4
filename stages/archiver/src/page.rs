//! A page as WARC records: the request, what is known of the URL, and the response last.
//!
//! In: a page. Out: members and the line for the index. The body is written as the server sent it:
//! without its transfer coding, with its content coding. A body that is in the archive, or that the
//! server says has not changed, is referred to instead (revisit): by the page's own record that has
//! it, where that is known.
//!
//! Source: WARC 1.1, sections 6.2 to 6.7.

use crate::index::{Line, REVISIT};
use crate::originals::{Original, Originals, PageRecord};
use crate::record::{Digest, Record, Writer, record_id};
use crate::time::date;
use crate::usage::Usage;
use http::StatusCode;
use rhumb_url::{path_of, server_of};
use rhumb_usage::Verdict;
use rhumb_warc::media_type;
use rhumb_wire::message::{HttpVersion, Page, Truncation};
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
    usage: &Usage,
    originals: &mut Originals,
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
    write_metadata(page, usage, &date, &response_id, writer, out);
    let payload = Payload::of(page, usage, originals);
    let response = write_response(page, &date, &response_id, fields, &payload, writer, out);
    remember(page, date, &payload, originals);
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

/// Later responses may refer to the record.
fn remember(page: &Page, date: String, payload: &Payload, originals: &mut Originals) {
    let body = payload.digest().filter(|_| is_kept_whole(page));
    // A wall is not the page, and another status none that a server says has not changed.
    if matches!(page.status, 200..=299) && page.wall.is_empty() {
        originals.insert_page(PageRecord {
            page: rhumb_url::fingerprint(&page.url),
            fetched_at_ms: page.fetched_at_ms,
            body,
            is_revisit: payload.is_revisit(),
            version: validator_of(&page.headers, ["etag", "last-modified"]),
        });
    }
    if let Payload::New(_) = payload
        && let Some(body) = body
    {
        let url = page.url.clone();
        originals.insert_body(body, Original { url, date });
    }
}

/// Fingerprint of a validator: of the first of these headers that is there.
fn validator_of(headers: &[(String, Vec<u8>)], names: [&str; 2]) -> Option<u64> {
    let value = |name: &str| headers.iter().find(|(other, _)| other == name);
    let (_, value) = names.into_iter().find_map(value)?;
    Some(rhumb_url::body_fingerprint(value))
}

/// Named fields of a record.
type Fields<'a> = Vec<(&'static str, &'a str)>;

/// What the archive has of a response's payload.
enum Payload {
    /// The server says that it is the one it sent before; which that is, where it is known.
    NotModified(Option<(Digest, Original)>),
    /// The page's owner refuses a purpose of the crawl: it is not kept.
    Withheld,
    /// The same body is in the archive.
    Known(Digest, Original),
    /// It is not in the archive, as far as is remembered.
    New(Digest),
}

impl Payload {
    fn of(page: &Page, usage: &Usage, originals: &mut Originals) -> Payload {
        if page.status == StatusCode::NOT_MODIFIED.as_u16() {
            let asked = ["if-none-match", "if-modified-since"];
            let asked = validator_of(&page.request_headers, asked);
            return Payload::NotModified(originals.of_version(&page.url, asked));
        }
        if usage.verdict.withholds() {
            return Payload::Withheld;
        }
        let digest = Digest::of(&[&page.body]);
        let original = if is_kept_whole(page) {
            originals.of_body(digest, &page.url)
        } else {
            None
        };
        original.map_or(Payload::New(digest), |original| {
            Payload::Known(digest, original)
        })
    }

    fn digest(&self) -> Option<Digest> {
        match self {
            Payload::NotModified(None) | Payload::Withheld => None,
            Payload::NotModified(Some((digest, _)))
            | Payload::Known(digest, _)
            | Payload::New(digest) => Some(*digest),
        }
    }

    /// The record that has it.
    fn original(&self) -> Option<&Original> {
        match self {
            Payload::NotModified(Some((_, original))) | Payload::Known(_, original) => {
                Some(original)
            }
            Payload::NotModified(None) | Payload::Withheld | Payload::New(_) => None,
        }
    }

    fn is_revisit(&self) -> bool {
        matches!(self, Payload::NotModified(_) | Payload::Known(..))
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
    usage: &Usage,
    date: &str,
    response_id: &str,
    writer: &mut Writer,
    out: &mut Vec<u8>,
) {
    let about = about(page, usage);
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
    let original = payload.original();
    let original_id = original.map(|of| record_id("response", &of.url, &of.date));
    if let (Some(Original { url, date }), Some(id)) = (original, &original_id) {
        fields.push(("WARC-Refers-To", id));
        fields.push(("WARC-Refers-To-Target-URI", url));
        fields.push(("WARC-Refers-To-Date", date));
    }
    match payload {
        Payload::NotModified(own) => {
            fields.push(("WARC-Profile", NOT_MODIFIED));
            if own.is_none() {
                fields.push(("WARC-Refers-To-Target-URI", &page.url));
            }
        }
        Payload::Known(..) => {
            fields.push(("WARC-Profile", SAME_BODY));
            // The record ends behind the headers of a response that has a body.
            fields.push(("WARC-Truncated", "length"));
        }
        // None of the standard's reasons: the metadata record says it.
        Payload::Withheld => fields.push(("WARC-Truncated", Truncation::Unspecified.name())),
        Payload::New(_) => {}
    }
    let is_withheld = matches!(payload, Payload::Withheld);
    if let Some(reason) = page.truncated.filter(|_| !is_withheld) {
        fields.push(("WARC-Truncated", reason.name()));
    }
    let is_revisit = payload.is_revisit();
    let has_body = !is_revisit && !is_withheld;
    let record = Record {
        kind: if is_revisit { "revisit" } else { "response" },
        id,
        date,
        fields: &fields,
        content_type: RESPONSE,
        payload: payload.digest(),
        block: [
            &response_head(page),
            if has_body { &page.body } else { &[] },
        ],
        is_coded: has_body && header(page, "content-encoding").is_some(),
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

/// How the URL was found, how long it took, and what is said of its use, in the words of WARC's
/// metadata records.
fn about(page: &Page, usage: &Usage) -> String {
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
    if !page.wall.is_empty() {
        field("wall", &page.wall);
    }
    let Usage { signals, verdict } = usage;
    if signals.are_silent() {
        return about;
    }
    field("usage-version", &signals.version.to_string());
    field("usage", &signals.stances.to_string());
    for statement in &signals.statements {
        field("usage-statement", &statement.to_string());
    }
    if signals.left_out > 0 {
        field("usage-left-out", &signals.left_out.to_string());
    }
    if *verdict != Verdict::Kept {
        let refused: Vec<&str> = verdict.refused().iter().map(|of| of.name()).collect();
        field("usage-verdict", verdict.name());
        field("usage-refused", &refused.join(", "));
    }
    about
}

/// Links from a seed that are spelled out; the line would only grow.
const HOPS_MAX: u16 = 1000;

#[cfg(test)]
pub(crate) mod tests;

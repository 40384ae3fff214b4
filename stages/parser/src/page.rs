//! Page: from a fetched response to its links.
//!
//! In: status, headers and body exactly as the server sent them. Out: canonical, absolute URLs, each once, in the
//! order of the document, and what was left out.
//!
//! Invariants: never fails and never panics, whatever the response holds; output and work are bounded by [`Limits`];
//! the same response always gives the same links.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use encoding_rs::{Encoding, UTF_8};
use lol_html::AsciiCompatibleEncoding;
use shared::url::{body_fingerprint, canonical};
use url::Url;

use crate::charset::charset;
use crate::content_coding::{self, Ending};
use crate::links::{Kind, Mentions, expose_noscript, mentions};
use crate::media_type::is_html;
use crate::refresh::refresh_target;
use crate::robots_meta::header_says_nofollow;

/// How much of a page is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a body after its content codings are undone; the rest is not scanned.
    pub decoded_bytes_max: usize,
    /// Distinct URLs taken from one page; the rest is not looked at.
    pub links_per_page_max: usize,
    /// Bytes of a URL; a longer one counts as uncrawlable.
    pub url_bytes_max: usize,
}

/// A response as it came from the server.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The canonical URL that was requested.
    pub url: &'a str,
    /// HTTP status.
    pub status: u16,
    /// Headers in the order sent; values are bytes, because `Location` may hold anything.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The body, content codings kept, perhaps cut off.
    pub body: &'a [u8],
}

impl<'a> Response<'a> {
    /// The values of all headers of this name, in order.
    fn headers(self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.headers.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

/// The links of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Canonical, absolute URLs, each once, in document order; of a redirect its target, unless that is the page
    /// itself.
    pub urls: Vec<String>,
    /// Fingerprint of the decoded body of a document; none without a body.
    pub body: Option<u64>,
    /// The response redirects, and `urls` or `literal` hold the target.
    pub redirect: bool,
    /// The target of a redirect to another spelling of the page's own canonical URL, absolute, as the server spells
    /// it. The caller requests it once, as it is. None when it is spelled like the page's URL: a loop.
    pub literal: Option<String>,
    /// A robots `meta` or `X-Robots-Tag` says nofollow, so links were left out.
    pub nofollow: bool,
    /// Distinct hrefs that are no crawlable URL: another scheme, malformed, too long.
    pub uncrawlable: u32,
    /// More than `links_per_page_max` distinct URLs were found; those beyond were left out.
    pub truncated: bool,
    /// How undoing the content codings ended.
    pub ending: Ending,
}

/// Finds the links of a response.
///
/// `agent` is our product token (or a user agent string that starts with it), which robots directives may address.
///
/// - Status 301, 302, 303, 307 or 308 with a `Location`: the target is the only link.
/// - Status 2xx and HTML, declared or recognised by its start: the links of the document.
/// - Anything else has no links.
///
/// Nofollow leaves out links, not directions of the page about itself: a redirect, a meta refresh and
/// `link rel=canonical` are taken in any case.
pub fn links(response: &Response<'_>, limits: &Limits, agent: &str) -> Links {
    let Ok(page) = Url::parse(response.url) else { return Links::default() };
    match response.status {
        301 | 302 | 303 | 307 | 308 => match response.headers("location").next() {
            Some(location) => redirect(location, &page, limits),
            None => Links::default(),
        },
        200..=299 => document_links(response, &page, limits, agent),
        _ => Links::default(),
    }
}

fn redirect(location: &[u8], page: &Url, limits: &Limits) -> Links {
    let location = ascii_location(location);
    let mut links = Links { redirect: true, ..Links::default() };
    let target = canonical(&location, Some(page), None).ok().filter(|url| url.len() <= limits.url_bytes_max);
    match target {
        None => links.uncrawlable = 1,
        Some(url) if url != page.as_str() => links.urls.push(url),
        Some(_) => links.literal = literal(&location, page).filter(|url| url.len() <= limits.url_bytes_max),
    }
    links
}

/// The target as the server spells it, made absolute; `None` when that is the page's own spelling.
fn literal(location: &str, page: &Url) -> Option<String> {
    let mut target = page.join(location).ok()?;
    target.set_fragment(None);
    (target != *page).then(|| target.into())
}

/// Escapes the bytes outside ASCII one by one: whatever encoding the server meant, it gets its own bytes back.
fn ascii_location(location: &[u8]) -> String {
    let mut text = String::with_capacity(location.len());
    for &byte in location.trim_ascii() {
        if byte.is_ascii() {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn document_links(response: &Response<'_>, page: &Url, limits: &Limits, agent: &str) -> Links {
    let decoded = content_coding::decode(response.headers("content-encoding"), response.body, limits.decoded_bytes_max);
    let body = (!decoded.body.is_empty()).then(|| body_fingerprint(&decoded.body));
    let mut links = Links { ending: decoded.ending, body, ..Links::default() };
    let content_type = response.headers("content-type").next();
    if !is_html(content_type, &decoded.body) {
        return links;
    }
    let document = Document::new(decoded.body, content_type, page.host_str());
    let found = mentions(&document.bytes, document.scanned_as, agent);
    links.nofollow = found.nofollow || response.headers("x-robots-tag").any(|value| header_says_nofollow(value, agent));
    resolve(&found, &document, page, limits, &mut links);
    links
}

/// A document ready for scanning.
struct Document<'a> {
    bytes: Cow<'a, [u8]>,
    /// The encoding of `bytes`; UTF-8 where the document's own does not contain ASCII.
    scanned_as: AsciiCompatibleEncoding,
    /// The encoding of non-ASCII queries, `None` for UTF-8.
    query_encoding: Option<&'static Encoding>,
}

impl<'a> Document<'a> {
    fn new(body: Cow<'a, [u8]>, content_type: Option<&[u8]>, host: Option<&str>) -> Self {
        let charset = charset(&body, content_type, host);
        let output = charset.encoding.output_encoding();
        let query_encoding = (output != UTF_8).then_some(output);
        let (bytes, scanned_as) = match AsciiCompatibleEncoding::new(charset.encoding) {
            Some(encoding) => (body, encoding),
            // UTF-16 and ISO-2022-JP.
            None => {
                let (text, _) = charset.encoding.decode_without_bom_handling(&body[charset.mark_bytes..]);
                (Cow::Owned(text.into_owned().into_bytes()), AsciiCompatibleEncoding::utf_8())
            }
        };
        Document { bytes: expose_noscript(bytes), scanned_as, query_encoding }
    }

    /// An attribute value as text: decoded, character references resolved.
    fn text<'v>(&self, value: &'v [u8]) -> Cow<'v, str> {
        let encoding: &'static Encoding = self.scanned_as.into();
        let (text, _) = encoding.decode_without_bom_handling(value);
        if memchr::memchr(b'&', value).is_none() {
            return text;
        }
        htmlize::unescape_attribute(text)
    }

    /// What relative URLs refer to: the first `base` if it has a URL that can be one, else the page.
    fn base(&self, found: &Mentions, page: &Url) -> Url {
        found
            .base
            .as_ref()
            .and_then(|at| page.join(&self.text(&self.bytes[at.clone()])).ok())
            .filter(|base| !matches!(base.scheme(), "data" | "javascript"))
            .unwrap_or_else(|| page.clone())
    }
}

/// Turns what the document mentions into canonical URLs, each once.
fn resolve(found: &Mentions, document: &Document<'_>, page: &Url, limits: &Limits, links: &mut Links) {
    let base = document.base(found, page);
    // Repeated spellings are the common case and comparing them is cheap; different spellings of one URL are told
    // apart only once they are canonical.
    let mut seen_values = HashSet::new();
    let mut seen_urls = HashSet::new();
    for mention in &found.values {
        if links.nofollow && mention.kind == Kind::Link {
            continue;
        }
        let value = &document.bytes[mention.at.clone()];
        if !seen_values.insert((mention.kind == Kind::Refresh, without_fragment(value))) {
            continue;
        }
        let text = document.text(value);
        let href = match mention.kind {
            Kind::Link | Kind::Canonical => Some(&*text),
            Kind::Refresh => refresh_target(&text),
        };
        let Some(href) = href else { continue };
        let url = canonical(href, Some(&base), document.query_encoding).ok();
        let Some(url) = url.filter(|url| url.len() <= limits.url_bytes_max) else {
            links.uncrawlable += 1;
            continue;
        };
        if seen_urls.contains(&url) {
            continue;
        }
        if links.urls.len() == limits.links_per_page_max {
            links.truncated = true;
            return;
        }
        seen_urls.insert(url.clone());
        links.urls.push(url);
    }
}

/// Cuts an attribute value before its fragment, where that is visible without decoding.
fn without_fragment(value: &[u8]) -> &[u8] {
    match memchr::memchr2(b'#', b'&', value) {
        Some(at) if value[at] == b'#' => &value[..at],
        _ => value,
    }
}

//! Documents: what a body is, decided once and before it is read.
//!
//! In: a body without its codings, and what is said of it. Out: a [`Document`].
//!
//! A sitemap or a feed is known by its root element, text by the name that robots.txt, an index or
//! its URL gives it, HTML by its type or its start, and what pages are made with by its type or its
//! name. The first of these counts.
//!
//! Source: sitemaps.org protocol 0.9: a sitemap is XML or a text file, packed or not, whatever its
//! name and type.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use url::Url;

use crate::feed::{self, Root, root};
use rhumb_markup::media_type::{MediaType, has_text_sitemap_name};
use rhumb_markup::scanner::Dialect;

/// Bytes of a document in which its root element is looked for first; then in eight times as many,
/// and so on.
const HEAD_BYTES: usize = 4096;
/// Bytes in which the first character that is no white space is looked for.
const START_BYTES: usize = 256;

/// What is known of a body before it is read.
#[derive(Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) page: &'a Url,
    /// What its server says that it is.
    pub(crate) said: MediaType<'a>,
    /// robots.txt, or an index, names it as a sitemap.
    pub(crate) is_named_sitemap: bool,
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// A sitemap in XML, an index of sitemaps, or a feed.
    Feed(feed::Kind),
    /// A sitemap as text: a URL on each line.
    Text,
    /// HTML, to be read like this.
    Html(Dialect),
    /// A style sheet.
    Css,
    /// The manifest of a web app.
    Manifest,
    /// Nothing that has links.
    Other,
}

impl Document {
    /// What a body is of which this is known.
    pub(crate) fn of(body: &[u8], about: About<'_>) -> Self {
        let path = about.page.path();
        if let Some(kind) = feed_kind(|bytes| Cow::Borrowed(&body[..body.len().min(bytes)])) {
            return Document::Feed(kind);
        }
        if about.is_named_sitemap && !begins_like_markup(body) {
            return Document::Text;
        }
        let html = about.said.html(body);
        let has_name = has_text_sitemap_name(path) && !about.is_named_sitemap;
        if has_name && html.is_none() && !about.said.is_markup_or_data() {
            return Document::Text;
        }
        match html {
            Some(dialect) => Document::Html(dialect),
            None if about.said.is_style_sheet(path) => Document::Css,
            None if about.said.is_manifest(path) => Document::Manifest,
            None => Document::Other,
        }
    }

    /// Returns whether it is a sitemap: by itself, or because it is named as one and may be one, as
    /// a feed may (sitemaps.org).
    pub(crate) fn is_sitemap(self, about: About<'_>) -> bool {
        match self {
            Document::Feed(kind) => kind.is_sitemap() || about.is_named_sitemap,
            Document::Text => true,
            Document::Html(_) | Document::Css | Document::Manifest | Document::Other => false,
        }
    }
}

/// What kind of sitemap or feed a document is, if it is one. `head` gives so many first bytes of it,
/// or all.
pub(crate) fn feed_kind<'a>(head: impl Fn(usize) -> Cow<'a, [u8]>) -> Option<feed::Kind> {
    let mut bytes = HEAD_BYTES;
    loop {
        let head = head(bytes);
        let is_whole = head.len() < bytes;
        match root(&with_ascii(&head), is_whole) {
            Root::Of(kind) => return Some(kind),
            Root::Beyond if !is_whole => bytes = bytes.saturating_mul(8),
            Root::Beyond | Root::Other => return None,
        }
    }
}

/// The beginning of a body, as text that contains ASCII. XML in UTF-16 is known by its first
/// characters, too (XML 1.0, appendix F).
fn with_ascii(head: &[u8]) -> Cow<'_, [u8]> {
    let marked = match head {
        [b'<', 0, ..] => Some((UTF_16LE, 0)),
        [0, b'<', ..] => Some((UTF_16BE, 0)),
        _ => Encoding::for_bom(head).filter(|(encoding, _)| *encoding != UTF_8),
    };
    match marked {
        None => Cow::Borrowed(head),
        Some((encoding, mark_bytes)) => Cow::Owned(
            encoding
                .decode_without_bom_handling(&head[mark_bytes..])
                .0
                .into_owned()
                .into_bytes(),
        ),
    }
}

/// A file that begins like markup is no text.
fn begins_like_markup(body: &[u8]) -> bool {
    let head = with_ascii(&body[..body.len().min(START_BYTES)]);
    let head = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&head);
    head.trim_ascii_start().first() == Some(&b'<')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a body is at `http://a.test` and this path, with this type.
    fn document(path: &str, media_type: &str, is_named_sitemap: bool, body: &str) -> Document {
        let page = Url::parse("http://a.test").and_then(|url| url.join(path));
        let values = [media_type.as_bytes()];
        let about = About {
            page: &page.unwrap(),
            said: MediaType::of(values.into_iter().filter(|value| !value.is_empty())),
            is_named_sitemap,
        };
        Document::of(body.as_bytes(), about)
    }

    #[test]
    fn a_body_is_one_document_whatever_its_server_calls_it() {
        let sitemap = "<?xml version='1.0'?><urlset>";
        let urls = "http://a.test/1";
        let html = Document::Html(Dialect::Html);
        for (path, media_type, body, expected) in [
            (
                "/",
                "text/html",
                sitemap,
                Document::Feed(feed::Kind::Sitemap),
            ),
            ("/", "text/css", "<rss>", Document::Feed(feed::Kind::Rss)),
            ("/sitemap.txt", "image/png", urls, Document::Text),
            ("/sitemap.txt", "application/json", urls, Document::Other),
            ("/sitemap.txt", "text/plain", "<html>", html),
            ("/", "text/html", urls, html),
            ("/", "text/plain", "<!doctype html>", html),
            ("/", "text/xml", "<html>", Document::Html(Dialect::Xhtml)),
            ("/", "text/css", "a {}", Document::Css),
            ("/a.css", "", "a {}", Document::Css),
            ("/a.css", "text/plain", "a {}", Document::Other),
            (
                "/manifest.json",
                "application/json",
                "{}",
                Document::Manifest,
            ),
            ("/", "", "", Document::Other),
        ] {
            let found = document(path, media_type, false, body);
            assert_eq!(found, expected, "{path}, {media_type}, {body}");
        }
    }

    #[test]
    fn what_is_named_as_a_sitemap_is_one_unless_it_begins_like_markup() {
        for (body, expected) in [
            ("http://a.test/1", Document::Text),
            ("a {}", Document::Text),
            ("", Document::Text),
            (" <feed>", Document::Feed(feed::Kind::Atom)),
            ("<p>", Document::Html(Dialect::Html)),
            ("<x>", Document::Css),
        ] {
            assert_eq!(document("/", "text/css", true, body), expected, "{body}");
        }
    }
}

//! Opened bodies: without their codings, as far as they are read, and what they are.
//!
//! In: a body as it was sent, and what is said of it. Out: its plain bytes, within the limit of
//! what they turn out to be: of pages or of sitemaps.
//!
//! Source: sitemaps.org protocol 0.9: a sitemap is XML or a text file, packed or not, whatever its
//! name and type.

use std::borrow::Cow;

use rhumb_warc::content_coding::{Completeness, Decoded};
use url::Url;

use crate::document::{feed_kind, unzipped, with_ascii};
use crate::feed;
use crate::media_type::{MediaType, has_text_sitemap_name};

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

/// What a body is, as far as it does not take its type to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Feed(feed::Kind),
    TextSitemap,
    Other,
}

/// An opened body.
pub(crate) struct Opened<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) completeness: Completeness,
    pub(crate) kind: Kind,
    /// It is a sitemap: by itself, or because it is named as one and may be one, as a feed may
    /// (sitemaps.org).
    pub(crate) is_sitemap: bool,
}

/// Opens a body. `decode` undoes its content codings within so many bytes. One that turns out to be
/// a sitemap, and has more or may have fewer bytes than a page, is opened once more: few are.
pub(crate) fn open<'a>(
    decode: impl Fn(usize) -> Decoded<'a>,
    about: About<'_>,
    page_bytes_max: usize,
    sitemap_bytes_max: usize,
) -> Opened<'a> {
    let opened = within(decode(page_bytes_max), about, page_bytes_max);
    let is_cut = opened.completeness == Completeness::Cut || opened.bytes.len() > sitemap_bytes_max;
    if is_cut && opened.is_sitemap && sitemap_bytes_max != page_bytes_max {
        return within(decode(sitemap_bytes_max), about, sitemap_bytes_max);
    }
    opened
}

fn within<'a>(decoded: Decoded<'a>, about: About<'_>, bytes_max: usize) -> Opened<'a> {
    let is_wanted = about.is_named_sitemap || has_text_sitemap_name(about.page.path());
    let Decoded {
        body: bytes,
        completeness,
    } = unzipped(decoded, is_wanted, bytes_max);
    let kind = match feed_kind(&bytes) {
        Some(kind) => Kind::Feed(kind),
        None if is_text_sitemap(about, &bytes) => Kind::TextSitemap,
        None => Kind::Other,
    };
    let is_sitemap = match kind {
        Kind::Feed(kind) => kind.is_sitemap() || about.is_named_sitemap,
        Kind::TextSitemap => true,
        Kind::Other => false,
    };
    Opened {
        bytes,
        completeness,
        kind,
        is_sitemap,
    }
}

/// Text, or packed text, that is named as a sitemap, whatever its type, or that has the name of
/// one. A file that begins like markup is no text.
fn is_text_sitemap(about: About<'_>, body: &[u8]) -> bool {
    if about.is_named_sitemap {
        return !begins_like_markup(body);
    }
    has_text_sitemap_name(about.page.path())
        && !about.said.is_markup_or_data()
        && about.said.html(body).is_none()
}

fn begins_like_markup(body: &[u8]) -> bool {
    let head = with_ascii(&body[..body.len().min(START_BYTES)]);
    let head = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&head);
    head.trim_ascii_start().first() == Some(&b'<')
}

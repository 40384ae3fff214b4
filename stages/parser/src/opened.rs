//! Opened bodies: without their codings, as far as they are read, and what they are.
//!
//! In: a body as it was sent, and what is said of it. Out: its plain bytes, within the limit of
//! what they turn out to be: of pages or of sitemaps.

use std::borrow::Cow;

use rhumb_warc::content_coding::{self, Completeness, Decoded};

use crate::document::{About, Document, feed_kind};
use rhumb_markup::media_type::has_text_sitemap_name;

/// An opened body.
pub(crate) struct Opened<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) completeness: Completeness,
    pub(crate) document: Document,
    /// It is a sitemap, or named as one that it may be.
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
    let document = Document::of(&bytes, about);
    Opened {
        is_sitemap: document.is_sitemap(about),
        bytes,
        completeness,
        document,
    }
}

/// Undoes gzip where it is not a coding of the body but the body itself: `sitemap.xml.gz`. What
/// else is packed remains as it is, unless it `is_wanted`: most archives are nothing to read, and
/// are not unpacked for nothing.
fn unzipped(packed: Decoded<'_>, is_wanted: bool, bytes_max: usize) -> Decoded<'_> {
    if !packed.body.starts_with(&[0x1F, 0x8B]) {
        return packed;
    }
    let plain = |bytes: usize| {
        let coding = [b"gzip".as_slice()].into_iter();
        content_coding::decode(coding, &packed.body, bytes.min(bytes_max))
    };
    let is_feed = || feed_kind(|bytes| Cow::Owned(plain(bytes).body.into_owned())).is_some();
    if !is_wanted && !is_feed() {
        return packed;
    }
    let Decoded { body, completeness } = plain(bytes_max);
    Decoded {
        body: Cow::Owned(body.into_owned()),
        completeness: completeness.max(packed.completeness),
    }
}

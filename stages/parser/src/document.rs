//! Documents: bodies made ready for reading.
//!
//! In: decoded bodies and their charsets. Out: text, or bytes in an encoding that contains ASCII,
//! which need not be decoded as a whole; what relative URLs in them refer to.

use std::borrow::Cow;
use std::ops::Range;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use rhumb_url::URL_BYTES_MAX;
use rhumb_warc::content_coding::{self, Decoded};
use url::Url;

use crate::charset::Charset;
use crate::feed::{Kind, Root, root};
use crate::links::Mentions;
use crate::references::{Syntax, text};
use crate::scanner::Dialect;

/// Bytes of a document in which its root element is looked for first; then in eight times as many,
/// and so on.
const HEAD_BYTES: usize = 4096;

/// An HTML document ready for scanning.
pub(crate) struct Document<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    /// The encoding of `bytes`; UTF-8 where the document's own does not contain ASCII.
    pub(crate) encoding: &'static Encoding,
    /// The encoding of non-ASCII queries, `None` for UTF-8.
    pub(crate) query_encoding: Option<&'static Encoding>,
    pub(crate) dialect: Dialect,
}

impl<'a> Document<'a> {
    pub(crate) fn new(body: Cow<'a, [u8]>, dialect: Dialect, charset: Charset) -> Self {
        let query_encoding = query_encoding(charset);
        if charset.encoding.is_ascii_compatible() {
            return Document {
                bytes: body,
                encoding: charset.encoding,
                query_encoding,
                dialect,
            };
        }
        // UTF-16 and ISO-2022-JP.
        let bytes = Cow::Owned(decoded_text(&body, charset).into_owned().into_bytes());
        Document {
            bytes,
            encoding: UTF_8,
            query_encoding,
            dialect,
        }
    }

    /// What is written in a text or, so `syntax` says, in an attribute.
    pub(crate) fn said(&self, at: Range<usize>, syntax: Syntax) -> Cow<'_, str> {
        let syntax = if self.dialect.is_xml() {
            Syntax::Xml
        } else {
            syntax
        };
        text(&self.bytes[at], self.encoding, syntax)
    }

    /// What relative URLs refer to: the first `base` if it has a URL that can be one, else the
    /// page.
    pub(crate) fn base(&self, found: &Mentions, page: &Url) -> Url {
        found
            .base
            .clone()
            .and_then(|at| page.join(&self.said(at, Syntax::Attribute)).ok())
            // A longer one makes no URL that could be crawled, and would be read anew for each
            // link.
            .filter(|base| {
                base.as_str().len() <= URL_BYTES_MAX
                    && !matches!(base.scheme(), "data" | "javascript")
            })
            .unwrap_or_else(|| page.clone())
    }
}

/// The encoding in which a document of this charset writes non-ASCII queries, `None` for UTF-8.
pub(crate) fn query_encoding(charset: Charset) -> Option<&'static Encoding> {
    let output = charset.encoding.output_encoding();
    (output != UTF_8).then_some(output)
}

/// A body as text.
pub(crate) fn decoded_text(body: &[u8], charset: Charset) -> Cow<'_, str> {
    charset
        .encoding
        .decode_without_bom_handling(&body[charset.mark_bytes..])
        .0
}

/// What kind of sitemap or feed a body is, if it is one.
pub(crate) fn feed_kind(body: &[u8]) -> Option<Kind> {
    kind_by_head(|bytes| Cow::Borrowed(&body[..body.len().min(bytes)]))
}

/// The kind of a document of which `head` gives so many first bytes, or all.
fn kind_by_head<'a>(head: impl Fn(usize) -> Cow<'a, [u8]>) -> Option<Kind> {
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
pub(crate) fn with_ascii(head: &[u8]) -> Cow<'_, [u8]> {
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

/// Undoes gzip where it is not a coding of the body but the body itself: `sitemap.xml.gz`. What
/// else is packed remains as it is, unless it `is_wanted`: most archives are nothing to read, and
/// are not unpacked for nothing.
pub(crate) fn unzipped(packed: Decoded<'_>, is_wanted: bool, bytes_max: usize) -> Decoded<'_> {
    if !packed.body.starts_with(&[0x1F, 0x8B]) {
        return packed;
    }
    let plain = |bytes: usize| {
        let coding = [b"gzip".as_slice()].into_iter();
        content_coding::decode(coding, &packed.body, bytes.min(bytes_max))
    };
    let is_feed = || kind_by_head(|bytes| Cow::Owned(plain(bytes).body.into_owned())).is_some();
    if !is_wanted && !is_feed() {
        return packed;
    }
    let Decoded { body, completeness } = plain(bytes_max);
    Decoded {
        body: Cow::Owned(body.into_owned()),
        completeness: completeness.max(packed.completeness),
    }
}

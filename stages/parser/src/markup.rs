//! Markup: HTML made ready for scanning, and bodies as text.
//!
//! In: decoded bodies and their charsets. Out: text, or bytes in an encoding that contains ASCII,
//! which need not be decoded as a whole; what relative URLs in them refer to.

use std::borrow::Cow;
use std::ops::Range;

use encoding_rs::{Encoding, UTF_8};
use rhumb_url::URL_BYTES_MAX;
use url::Url;

use crate::charset::Charset;
use crate::links::Mentions;
use crate::references::{Syntax, text};
use rhumb_markup::scanner::Dialect;

/// An HTML document ready for scanning.
pub(crate) struct Markup<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    /// The encoding of `bytes`; UTF-8 where the document's own does not contain ASCII.
    pub(crate) encoding: &'static Encoding,
    /// The encoding of non-ASCII queries, `None` for UTF-8.
    pub(crate) query_encoding: Option<&'static Encoding>,
    pub(crate) dialect: Dialect,
}

impl<'a> Markup<'a> {
    pub(crate) fn new(body: Cow<'a, [u8]>, dialect: Dialect, charset: Charset) -> Self {
        let query_encoding = query_encoding(charset);
        if charset.encoding.is_ascii_compatible() {
            return Markup {
                bytes: body,
                encoding: charset.encoding,
                query_encoding,
                dialect,
            };
        }
        // UTF-16 and ISO-2022-JP.
        let bytes = Cow::Owned(decoded_text(&body, charset).into_owned().into_bytes());
        Markup {
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

//! Documents: bodies made ready for reading.
//!
//! In: decoded bodies and their charsets. Out: text, or bytes in an encoding that contains ASCII, which need not be
//! decoded as a whole; what relative URLs in them refer to.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};
use shared::content_coding;
use shared::url::URL_BYTES_MAX;
use url::Url;

use crate::charset::Charset;
use crate::feed;
use crate::links::{Mentions, text};
use crate::media_type::has_text_sitemap_name;

/// An HTML document ready for scanning.
pub(crate) struct Document<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    /// The encoding of `bytes`; UTF-8 where the document's own does not contain ASCII.
    pub(crate) encoding: &'static Encoding,
    /// The encoding of non-ASCII queries, `None` for UTF-8.
    pub(crate) query_encoding: Option<&'static Encoding>,
}

impl<'a> Document<'a> {
    pub(crate) fn new(body: Cow<'a, [u8]>, charset: Charset) -> Self {
        let query_encoding = query_encoding(charset);
        if charset.encoding.is_ascii_compatible() {
            return Document { bytes: body, encoding: charset.encoding, query_encoding };
        }
        // UTF-16 and ISO-2022-JP.
        let bytes = Cow::Owned(decoded_text(&body, charset).into_owned().into_bytes());
        Document { bytes, encoding: UTF_8, query_encoding }
    }

    /// What relative URLs refer to: the first `base` if it has a URL that can be one, else the page.
    pub(crate) fn base(&self, found: &Mentions, page: &Url) -> Url {
        found
            .base
            .as_ref()
            .and_then(|at| page.join(&text(&self.bytes[at.clone()], self.encoding, true)).ok())
            // A longer one makes no URL that could be crawled, and would be read anew for each link.
            .filter(|base| base.as_str().len() <= URL_BYTES_MAX && !matches!(base.scheme(), "data" | "javascript"))
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
    charset.encoding.decode_without_bom_handling(&body[charset.mark_bytes..]).0
}

/// The beginning of a body, as text that contains ASCII.
pub(crate) fn utf_8_head(body: &[u8]) -> Cow<'_, [u8]> {
    let head = &body[..body.len().min(feed::HEAD_BYTES)];
    match Encoding::for_bom(head) {
        Some((encoding, mark_bytes)) if encoding != UTF_8 => {
            Cow::Owned(encoding.decode_without_bom_handling(&head[mark_bytes..]).0.into_owned().into_bytes())
        }
        _ => Cow::Borrowed(head),
    }
}

/// Undoes gzip where it is not a coding of the body but the body itself: `sitemap.xml.gz`. What else is packed remains
/// as it is.
pub(crate) fn unzipped<'a>(body: Cow<'a, [u8]>, page: &Url, bytes_max: usize) -> Cow<'a, [u8]> {
    if !body.starts_with(&[0x1F, 0x8B]) {
        return body;
    }
    let plain =
        |bytes_max| content_coding::decode([b"gzip".as_slice()].into_iter(), &body, bytes_max).body.into_owned();
    // Most archives are none of these, and are not unpacked for nothing.
    let is_feed = feed::kind(&utf_8_head(&plain(feed::HEAD_BYTES.min(bytes_max)))).is_some();
    if is_feed || has_text_sitemap_name(page.path()) { Cow::Owned(plain(bytes_max)) } else { body }
}

//! Media types: is this response HTML, a style sheet, a manifest?
//!
//! In: the values of `Content-Type`, and the decoded body or the path. Out: the type and its
//! charset; yes or no.
//!
//! A declared HTML type is believed. A missing or another type is checked against how the body
//! starts, because HTML is often served as something else; what does not start like HTML is not
//! scanned. Style sheets and manifests have no such start: they are what browsers take for them.
//!
//! Where the standards leave documents unread that are HTML, they are read: a byte order mark does
//! not make text of HTML, a tag's name may end with `/`. Sources: Fetch Standard, "extract a MIME
//! type"; MIME Sniffing Standard, sections 4.4 and 7.1.

use encoding_rs::Encoding;

use crate::scanner::Dialect;
use rhumb_warc::media_type;

/// Bytes looked at of a body in UTF-16.
const SNIFFED_BYTES: usize = 1445;

/// What HTML starts with, in lower case; a space, `/`, `>` or the end follows.
const STARTS: [&str; 20] = [
    "<!doctype html",
    "<html",
    "<head",
    "<script",
    "<iframe",
    "<h1",
    "<div",
    "<font",
    "<table",
    "<a",
    "<style",
    "<title",
    "<b",
    "<body",
    "<br",
    "<p",
    // Not in the standard's table.
    "<meta",
    "<base",
    "<link",
    "<frameset",
];

/// What a server says that a body is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaType<'a> {
    /// Type and subtype, as written; empty when there is none, or none that can be read.
    essence: &'a [u8],
    /// The encoding of its `charset`.
    pub charset: Option<&'static Encoding>,
}

impl<'a> MediaType<'a> {
    /// The type that the values of all `Content-Type` headers say: the last that is one, with the
    /// charset of those before it that are the same.
    pub fn of(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut said = MediaType::default();
        for (essence, parameters) in media_type::types(values) {
            let is_same = essence.eq_ignore_ascii_case(said.essence);
            let label = media_type::parts(parameters, b';').find_map(charset_of);
            let charset = label
                .and_then(Encoding::for_label_no_replacement)
                .or(said.charset.filter(|_| is_same));
            said = MediaType { essence, charset };
        }
        said
    }

    fn is(&self, essence: &str) -> bool {
        self.essence.eq_ignore_ascii_case(essence.as_bytes())
    }

    /// Returns whether nothing is said.
    fn is_unknown(&self) -> bool {
        self.essence.is_empty() || self.is("unknown/unknown") || self.is("application/unknown")
    }

    /// Returns whether it is XML of any kind.
    fn is_xml(&self) -> bool {
        let suffix = self
            .essence
            .len()
            .checked_sub(4)
            .map_or(&[][..], |at| &self.essence[at..]);
        self.is("text/xml") || self.is("application/xml") || suffix.eq_ignore_ascii_case(b"+xml")
    }

    /// Returns whether it is some markup or data, and no text for readers.
    pub fn is_markup_or_data(&self) -> bool {
        let essence = self.essence.to_ascii_lowercase();
        [&b"html"[..], b"xml", b"json"]
            .iter()
            .any(|word| memchr::memmem::find(&essence, word).is_some())
    }

    /// How the response is to be read as HTML; none when it is none.
    pub fn html(&self, body: &[u8]) -> Option<Dialect> {
        if self.is("text/html") {
            return Some(Dialect::Html);
        }
        // Browsers read it as XML, where every element may close itself.
        if self.is("application/xhtml+xml") {
            return Some(Dialect::Xhtml);
        }
        let marked = Encoding::for_bom(body);
        let start = match marked {
            Some((encoding, mark_bytes)) if !encoding.is_ascii_compatible() => {
                let sniffed = &body[mark_bytes..body.len().min(SNIFFED_BYTES).max(mark_bytes)];
                encoding
                    .decode_without_bom_handling(sniffed)
                    .0
                    .into_owned()
                    .into_bytes()
                    .into()
            }
            Some((_, mark_bytes)) => std::borrow::Cow::Borrowed(&body[mark_bytes..]),
            None => std::borrow::Cow::Borrowed(body),
        };
        self.html_by_start(start.trim_ascii_start())
    }

    fn html_by_start(&self, start: &[u8]) -> Option<Dialect> {
        if self.is_unknown() && start.starts_with(b"<!--") {
            return Some(Dialect::Html);
        }
        let is_xml = self.is_xml() || self.is_unknown() && start.starts_with(b"<?xml");
        starts_like_html(start).then_some(if is_xml {
            Dialect::Xhtml
        } else {
            Dialect::Html
        })
    }

    /// Returns whether browsers take the response for a style sheet, when a page asks for one.
    pub fn is_style_sheet(&self, path: &str) -> bool {
        self.is("text/css") || self.essence.is_empty() && path.ends_with(".css")
    }

    /// Returns whether the response is the manifest of a web app, by its type or its name: browsers
    /// take any JSON for one that a page calls so.
    pub fn is_manifest(&self, path: &str) -> bool {
        self.is("application/manifest+json")
            || path.ends_with(".webmanifest")
            || path.ends_with("/manifest.json")
    }
}

/// `sitemap.txt`, `sitemap-2.txt.gz` and the like.
pub fn has_text_sitemap_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().as_bytes();
    let begins = |with: &str| {
        name.get(..with.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
    };
    let ends = |with: &str| {
        let start = name.len().saturating_sub(with.len());
        name[start..].eq_ignore_ascii_case(with.as_bytes())
    };
    begins("sitemap") && (ends(".txt") || ends(".txt.gz"))
}

/// What a parameter says if it is a charset: with quotes of any kind, and white space that the
/// grammar does not allow.
fn charset_of(parameter: &[u8]) -> Option<&[u8]> {
    let equals = memchr::memchr(b'=', parameter)?;
    let is_it = parameter[..equals]
        .trim_ascii()
        .eq_ignore_ascii_case(b"charset");
    let value = parameter[equals + 1..].trim_ascii();
    let value = match value.split_first() {
        Some((quote @ (b'"' | b'\''), quoted)) => quoted
            .split(|byte| byte == quote)
            .next()
            .unwrap_or_default(),
        _ => value,
    };
    (is_it && !value.is_empty()).then_some(value)
}

/// Skips white space, comments and an XML declaration.
fn starts_like_html(start: &[u8]) -> bool {
    let mut rest = start;
    loop {
        let (opening, ending): (&[u8], &[u8]) = if rest.starts_with(b"<!--") {
            (b"<!--", b"-->")
        } else if rest.starts_with(b"<?xml") {
            (b"<?xml", b"?>")
        } else {
            break;
        };
        let Some(end) = memchr::memmem::find(&rest[opening.len()..], ending) else {
            return false;
        };
        rest = rest[opening.len() + end + ending.len()..].trim_ascii_start();
    }
    STARTS.iter().any(|known| {
        rest.get(..known.len())
            .is_some_and(|tag| tag.eq_ignore_ascii_case(known.as_bytes()))
            && rest
                .get(known.len())
                .is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>'))
    })
}

#[cfg(test)]
mod tests {
    use super::MediaType;
    use crate::scanner::Dialect;
    use encoding_rs::{GBK, KOI8_R, UTF_8, WINDOWS_1255};

    fn said<'a>(values: &'a [&'a str]) -> MediaType<'a> {
        MediaType::of(values.iter().map(|value| value.as_bytes()))
    }

    #[test]
    fn declared_html_is_believed_and_everything_else_is_looked_at() {
        const HTML: Option<Dialect> = Some(Dialect::Html);
        const XHTML: Option<Dialect> = Some(Dialect::Xhtml);
        let long = format!("<?xml version='1.0'?><!-- {} --><html>", "x".repeat(5000));
        let cases: &[(&str, &[u8], Option<Dialect>)] = &[
            ("text/html", b"anything", HTML),
            ("TEXT/HTML; charset=utf-8", b"", HTML),
            ("application/xhtml+xml", b"", XHTML),
            ("text/html charset=x", b"anything", HTML),
            ("text/html\t;", b"anything", HTML),
            ("text/htmlx", b"x", None),
            ("text/html/x", b"x", None),
            ("text / html", b"x", None),
            ("", b"<!DOCTYPE html><p>", HTML),
            ("", b" \r\n\x0C<HTML lang=x>", HTML),
            ("", b"\xEF\xBB\xBF<head>", HTML),
            ("", b"\xFF\xFE<\0h\0t\0m\0l\0>\0", HTML),
            ("", b"<!-- a --> <!-- b --><body>", HTML),
            ("", b"<!-- never closed", HTML),
            ("", b"<b>x", HTML),
            ("", b"<BR/>x", HTML),
            ("", b"<font size=2>", HTML),
            ("", b"<?xml version='1.0'?><!doctype html>", XHTML),
            ("", b"<?xml version='1.0'?><rss>", None),
            ("", b"<abbr>", None),
            ("", b"<bx>", None),
            ("", b"<b:x>", None),
            ("", b"x<b>", None),
            ("", b"%PDF-1.7 <html>", None),
            ("", b"", None),
            ("*/*", b"<!-- x", HTML),
            ("Unknown/Unknown", b"<!-- x", HTML),
            ("application/unknown; x", b"<!-- x", HTML),
            ("nonsense", b"<!-- x", HTML),
            ("text/plain", b"<html>", HTML),
            ("text/plain", b"<!-- x --> y", None),
            ("image/svg+xml", b"<!-- x --><svg>", None),
            ("application/xml", long.as_bytes(), XHTML),
            ("image/png", b"\x89PNG\r\n", None),
            ("application/json", b"{\"a\":\"<html>\"}", None),
        ];
        for (content_type, body, expected) in cases {
            let found = said(&[content_type]).html(body);
            assert_eq!(
                found,
                *expected,
                "{content_type} {:?}",
                String::from_utf8_lossy(body)
            );
        }
        assert_eq!(said(&[]).html(b"<p>"), HTML);
    }

    #[test]
    fn of_several_types_the_last_valid_one_counts_with_the_charset_of_its_like() {
        let cases: &[(&[&str], &str, Option<&encoding_rs::Encoding>)] = &[
            (&[], "", None),
            (&["text/plain, text/html"], "text/html", None),
            (&["text/plain", "text/html"], "text/html", None),
            (&["text/html, */*"], "text/html", None),
            (&["text/html, nonsense, ,"], "text/html", None),
            (&["text/plain;charset=gbk, text/html"], "text/html", None),
            (
                &["text/html;charset=gbk, TEXT/HTML"],
                "TEXT/HTML",
                Some(GBK),
            ),
            (
                &[
                    "text/html;charset=gbk",
                    "text/html;x=y;charset=windows-1255",
                ],
                "text/html",
                Some(WINDOWS_1255),
            ),
            (
                &["text/html;charset=gbk, text/plain, text/html"],
                "text/html",
                None,
            ),
            (&["text/html;x=\",text/plain\", x/y"], "x/y", None),
            (&["text/html;x=\"\\\",text/plain\""], "text/html", None),
            (&["text/html;x=\",text/plain"], "text/html", None),
            (&["text/html;;charset=UTF-8;"], "text/html", Some(UTF_8)),
            (
                &["text/html; charset=\"koi8-r\""],
                "text/html",
                Some(KOI8_R),
            ),
            (&["text/html; charset='koi8-r'"], "text/html", Some(KOI8_R)),
            (&["text/html; CHARSET = koi8-r"], "text/html", Some(KOI8_R)),
            (&["text/html charset=koi8-r"], "text/html", Some(KOI8_R)),
            (
                &["text/html; charset=; charset=koi8-r; charset=gbk"],
                "text/html",
                Some(KOI8_R),
            ),
            (
                &["text/html; charset=nonsense; charset=gbk"],
                "text/html",
                None,
            ),
            (
                &["text/html; x-charset=gbk; x=\";charset=gbk\""],
                "text/html",
                None,
            ),
        ];
        for (values, essence, charset) in cases {
            let found = said(values);
            assert_eq!(
                (found.essence, found.charset),
                (essence.as_bytes(), *charset),
                "{values:?}"
            );
        }
    }

    #[test]
    fn style_sheets_and_manifests_are_known_by_type_or_else_by_name() {
        let cases: [(&str, &str, bool, bool); 9] = [
            ("text/css", "/x", true, false),
            ("Text/CSS; charset=utf-8", "/x.css", true, false),
            ("", "/x.css", true, false),
            (" ", "/x.css", true, false),
            ("", "/x", false, false),
            ("text/plain", "/x.css", false, false),
            ("application/manifest+json; x", "/x", false, true),
            ("application/json", "/x/manifest.json", false, true),
            ("", "/app.webmanifest", false, true),
        ];
        for (content_type, path, style_sheet, manifest) in cases {
            let values = [content_type];
            let said = said(&values);
            assert_eq!(
                said.is_style_sheet(path),
                style_sheet,
                "{content_type:?} {path}"
            );
            assert_eq!(said.is_manifest(path), manifest, "{content_type:?} {path}");
        }
    }
}

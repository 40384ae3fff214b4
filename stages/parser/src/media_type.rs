//! Media types: is this response HTML, a style sheet, a manifest?
//!
//! In: the value of `Content-Type`, and the decoded body or the path. Out: yes or no.
//!
//! A declared HTML type is believed. A missing or another type is checked against how the body starts, because HTML
//! is often served as something else; what does not start like HTML is not scanned. Style sheets and manifests have no
//! such start: they are what browsers take for them.
//! Source: MIME Sniffing Standard, section 7.1.

use encoding_rs::Encoding;

/// Bytes looked at.
const SNIFFED_BYTES: usize = 512;

/// What HTML starts with; a space, `/`, `>` or the end follows.
const STARTS: [&str; 17] = [
    "<!doctype html",
    "<html",
    "<head",
    "<body",
    "<title",
    "<meta",
    "<base",
    "<link",
    "<script",
    "<style",
    "<iframe",
    "<frameset",
    "<h1",
    "<div",
    "<table",
    "<a",
    "<p",
];

/// Says whether the response is HTML.
pub fn is_html(content_type: Option<&[u8]>, body: &[u8]) -> bool {
    essence(content_type).eq_ignore_ascii_case(b"text/html") || is_xhtml(content_type) || starts_like_html(body)
}

/// Says whether the server calls it XHTML: browsers read it as XML then, where every element may close itself.
pub fn is_xhtml(content_type: Option<&[u8]>) -> bool {
    essence(content_type).eq_ignore_ascii_case(b"application/xhtml+xml")
}

/// Says whether browsers take the response for a style sheet, when a page asks for one.
pub fn is_style_sheet(content_type: Option<&[u8]>, path: &str) -> bool {
    match essence(content_type) {
        b"" => path.ends_with(".css"),
        essence => essence.eq_ignore_ascii_case(b"text/css"),
    }
}

/// Says whether the response is the manifest of a web app, by its type or its name: browsers take any JSON for one that
/// a page calls so.
pub fn is_manifest(content_type: Option<&[u8]>, path: &str) -> bool {
    let has_name = || path.ends_with(".webmanifest") || path.ends_with("/manifest.json");
    essence(content_type).eq_ignore_ascii_case(b"application/manifest+json") || has_name()
}

/// `sitemap.txt`, `sitemap-2.txt.gz` and the like.
pub(crate) fn has_text_sitemap_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    name.starts_with("sitemap") && (name.ends_with(".txt") || name.ends_with(".txt.gz"))
}

fn essence(content_type: Option<&[u8]>) -> &[u8] {
    content_type
        .and_then(|value| value.split(|&byte| byte == b';' || byte == b',').next())
        .unwrap_or_default()
        .trim_ascii()
}

fn starts_like_html(body: &[u8]) -> bool {
    let start = &body[..body.len().min(SNIFFED_BYTES)];
    match Encoding::for_bom(start) {
        Some((encoding, mark_bytes)) => {
            let (text, _) = encoding.decode_without_bom_handling(&start[mark_bytes..]);
            is_html_start(text.as_bytes())
        }
        None => is_html_start(start),
    }
}

/// Skips white space, comments and an XML declaration.
fn is_html_start(start: &[u8]) -> bool {
    let mut rest = start.trim_ascii_start();
    loop {
        let (opening, ending): (&[u8], &[u8]) = if rest.starts_with(b"<!--") {
            (b"<!--", b"-->")
        } else if rest.starts_with(b"<?xml") {
            (b"<?xml", b"?>")
        } else {
            break;
        };
        let Some(end) = memchr::memmem::find(&rest[opening.len()..], ending) else { return false };
        rest = rest[opening.len() + end + ending.len()..].trim_ascii_start();
    }
    STARTS.iter().any(|known| {
        rest.get(..known.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(known.as_bytes()))
            && rest.get(known.len()).is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>'))
    })
}

#[cfg(test)]
mod tests {
    use super::{is_html, is_manifest, is_style_sheet};

    #[test]
    fn declared_html_is_believed_and_everything_else_is_looked_at() {
        let cases: [(Option<&str>, &[u8], bool); 18] = [
            (Some("text/html"), b"anything", true),
            (Some("TEXT/HTML; charset=utf-8"), b"", true),
            (Some("application/xhtml+xml"), b"", true),
            (Some("text/html, text/html"), b"", true),
            (Some("text/htmlx"), b"x", false),
            (None, b"<!DOCTYPE html><p>", true),
            (None, b" \r\n<HTML lang=x>", true),
            (None, b"\xEF\xBB\xBF<head>", true),
            (None, b"\xFF\xFE<\0h\0t\0m\0l\0>\0", true),
            (None, b"<!-- a --> <!-- b --><body>", true),
            (None, b"<?xml version='1.0'?><!doctype html>", true),
            (None, b"<?xml version='1.0'?><rss>", false),
            (None, b"<!-- never closed", false),
            (None, b"<abbr>", false),
            (None, b"", false),
            (Some("text/plain"), b"<html>", true),
            (Some("image/png"), b"\x89PNG\r\n", false),
            (Some("application/json"), b"{\"a\":\"<html>\"}", false),
        ];
        for (content_type, body, expected) in cases {
            let found = is_html(content_type.map(str::as_bytes), body);
            assert_eq!(found, expected, "{content_type:?} {:?}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn style_sheets_and_manifests_are_known_by_type_or_else_by_name() {
        let cases: [(Option<&str>, &str, bool, bool); 9] = [
            (Some("text/css"), "/x", true, false),
            (Some("Text/CSS; charset=utf-8"), "/x.css", true, false),
            (None, "/x.css", true, false),
            (Some(" "), "/x.css", true, false),
            (None, "/x", false, false),
            (Some("text/plain"), "/x.css", false, false),
            (Some("application/manifest+json; x"), "/x", false, true),
            (Some("application/json"), "/x/manifest.json", false, true),
            (None, "/app.webmanifest", false, true),
        ];
        for (content_type, path, style_sheet, manifest) in cases {
            let content_type = content_type.map(str::as_bytes);
            assert_eq!(is_style_sheet(content_type, path), style_sheet, "{content_type:?} {path}");
            assert_eq!(is_manifest(content_type, path), manifest, "{content_type:?} {path}");
        }
    }
}

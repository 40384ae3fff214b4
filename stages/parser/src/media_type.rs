//! Media types: is this response HTML?
//!
//! In: the value of `Content-Type` and the decoded body. Out: yes or no.
//!
//! A declared HTML type is believed. A missing or another type is checked against how the body starts, because HTML
//! is often served as something else; what does not start like HTML is not scanned.
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
    use super::is_html;

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
}

//! Metas: what the `meta` elements of a page say that have wanted names.
//!
//! In: a body without its codings, and what its server says that it is. Out: names and contents, as
//! written, in their order. A body that is no HTML has none; what stands in comments, scripts and
//! texts is no meta.
//!
//! Invariant: the time is linear in the body. Where no wanted name is, which is nearly always, the
//! tags before and behind the metas are not looked at.

use crate::media_type::MediaType;
use crate::scanner::{Dialect, Scanner, Token, attributes, local};
use encoding_rs::Encoding;
use memchr::memmem;
use std::borrow::Cow;

/// Name and content of a `meta`, as written.
pub type Meta = (Vec<u8>, Vec<u8>);

/// Bytes of a body, without its codings, that are looked at: metas stand at its beginning, and who
/// unpacks a body for them alone unpacks no more.
pub const METAS_BYTES_MAX: usize = 64 << 10;
/// Metas of one page that are taken, at most; the first ones.
pub const METAS_MAX: usize = 1_000;

/// The metas of a body, in its first [`METAS_BYTES_MAX`], whose names are wanted.
pub fn metas(said: MediaType<'_>, body: &[u8], is_wanted: impl Fn(&[u8]) -> bool) -> Vec<Meta> {
    let Some(dialect) = said.html(body) else {
        return Vec::new();
    };
    let start = &body[..body.len().min(METAS_BYTES_MAX)];
    let document = with_ascii(said, start);
    if may_have(&document, &is_wanted) {
        read(&document, dialect, is_wanted)
    } else {
        Vec::new()
    }
}

/// The body in an encoding that contains ASCII.
fn with_ascii<'a>(said: MediaType<'_>, body: &'a [u8]) -> Cow<'a, [u8]> {
    let marked = Encoding::for_bom(body).map(|(encoding, _)| encoding);
    match marked.or(said.charset) {
        Some(encoding) if !encoding.is_ascii_compatible() => {
            Cow::Owned(encoding.decode(body).0.into_owned().into_bytes())
        }
        _ => Cow::Borrowed(body),
    }
}

/// Returns whether a `meta` of a wanted name may be there. Where finding that out would cost more
/// than reading all, it may.
fn may_have(document: &[u8], is_wanted: &impl Fn(&[u8]) -> bool) -> bool {
    let mut bytes_left = document.len();
    for opening in [b"<m", b"<M"] {
        for at in memmem::find_iter(document, opening) {
            let name_end = at + b"<meta".len();
            let is_meta = document
                .get(at + 1..name_end)
                .is_some_and(|name| name.eq_ignore_ascii_case(b"meta"));
            if !is_meta {
                continue;
            }
            let mut is_found = false;
            let end = attributes(document, name_end, |attribute| {
                let is_name = attribute.name.eq_ignore_ascii_case(b"name");
                is_found |= is_name && is_wanted(&document[attribute.value]);
            });
            let end = end.map_or(document.len(), |(end, _)| end);
            bytes_left = bytes_left.saturating_sub(end - at);
            if is_found || bytes_left == 0 {
                return true;
            }
        }
    }
    false
}

fn read(document: &[u8], dialect: Dialect, is_wanted: impl Fn(&[u8]) -> bool) -> Vec<Meta> {
    let mut metas = Vec::new();
    let mut scanner = Scanner::new(document, dialect);
    while let Some(token) = scanner.next() {
        let Token::Start(name) = token else { continue };
        let name = if dialect.is_xml() { local(name) } else { name };
        if !name.eq_ignore_ascii_case(b"meta") || scanner.is_foreign() {
            continue;
        }
        // A tag that does not end is none.
        let Some([name, content]) = scanner.values(["name", "content"]) else {
            break;
        };
        let bytes = |at: Option<std::ops::Range<usize>>| at.map_or(&[][..], |at| &document[at]);
        if is_wanted(bytes(name.clone())) {
            metas.push((bytes(name).to_vec(), bytes(content).to_vec()));
        }
        if metas.len() >= METAS_MAX {
            break;
        }
    }
    metas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(content_type: &str, body: &[u8]) -> Vec<String> {
        let said = MediaType::of([content_type.as_bytes()].into_iter());
        let is_wanted = |name: &[u8]| name.trim_ascii().eq_ignore_ascii_case(b"robots");
        let metas = metas(said, body, is_wanted);
        let contents = metas.into_iter().map(|(_, content)| content);
        contents
            .map(|content| String::from_utf8_lossy(&content).into_owned())
            .collect()
    }

    #[test]
    fn metas_of_a_wanted_name_are_found_however_they_are_written() {
        let html = "text/html";
        for body in [
            "<head><meta name=robots content=noai>",
            "<META CONTENT='noai' NAME=' Robots '/>",
            "<mEtA charset=x><meta name=\"a>b\"><MeTa\nname = robots content = \"noai\" >",
            // It ends a drawing.
            "<svg><meta name=robots content=noai>",
            "<body><p><meta name=robots content=noai></body>",
            "<!-- <meta a=\" --><meta name=robots content=noai><p title=\"\">",
        ] {
            assert_eq!(found(html, body.as_bytes()), ["noai"], "{body}");
        }
        let both = b"<meta name=robots content=noai><meta name=robots>";
        assert_eq!(found(html, both), ["noai", ""]);
        let xhtml = b"<h xmlns='x'><meta name='robots' content='noai' /></h>";
        assert_eq!(found("application/xhtml+xml", xhtml), ["noai"]);
        let wide: Vec<u8> = "<meta name=robots content=noai>"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(found("text/html; charset=utf-16le", &wide), ["noai"]);
        let marked = [&b"\xff\xfe"[..], &wide].concat();
        assert_eq!(found(html, &marked), ["noai"]);
        assert_eq!(
            found("", b"<html><meta name=robots content=noai>"),
            ["noai"]
        );
    }

    #[test]
    fn what_is_no_meta_of_the_page_is_not_found() {
        let meta = "<meta name=robots content=noai>";
        for body in [
            String::new(),
            format!("<!-- {meta} -->"),
            format!("<script>'{meta}'</script>"),
            format!("<title>{meta}</title>"),
            format!("<textarea>{meta}</textarea>"),
            "<meta name=viewport content=robots>".to_owned(),
            "<metadata name=robots content=noai>".to_owned(),
            "<meta name=robots content=noai".to_owned(),
            "&lt;meta name=robots content=noai>".to_owned(),
        ] {
            assert_eq!(found("text/html", body.as_bytes()), [""; 0], "{body}");
        }
        assert_eq!(
            found("text/plain", meta.as_bytes()),
            ["noai"],
            "it begins as HTML does"
        );
        let quoted = format!("Write {meta} so");
        assert_eq!(found("text/plain", quoted.as_bytes()), [""; 0]);
        assert_eq!(found("text/javascript", quoted.as_bytes()), [""; 0]);
    }

    #[test]
    fn hostile_documents_are_bounded() {
        let tags = "<meta ".repeat(500_000);
        let quotes = "<meta a='".repeat(300_000);
        for body in [&tags, &quotes, &format!("{tags}>")] {
            assert_eq!(found("text/html", body.as_bytes()), [""; 0]);
        }
        let many = "<meta name=robots content=x>".repeat(METAS_MAX + 1);
        assert_eq!(found("text/html", many.as_bytes()).len(), METAS_MAX);
        let far = format!("{}{}", " ".repeat(METAS_BYTES_MAX), "<meta name=robots>");
        assert_eq!(found("text/html", far.as_bytes()), [""; 0]);
    }
}

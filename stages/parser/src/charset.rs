//! Charsets: in which encoding is a document written?
//!
//! In: the first bytes of the decoded body, the charset of `Content-Type`, the host. Out: an
//! encoding.
//!
//! Asked in this order, the first answer wins: byte order mark, `Content-Type`, the document's own
//! declaration in its first 1,024 bytes, UTF-8 if it is valid UTF-8, a declaration further down,
//! and a guess from the bytes. Invariant: any body has an encoding, and the same body always the
//! same. Source: HTML Living Standard, "Determining the character encoding" and "Prescan a byte
//! stream"; unlike a browser we also recognise undeclared UTF-8.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};

/// Bytes searched for a declaration before anything else is tried.
const PRESCAN_BYTES: usize = 1024;
/// Bytes searched for a late declaration, and bytes the guess is made from.
const DETECT_BYTES_MAX: usize = 64 * 1024;

/// A document's encoding and the bytes of its byte order mark, which are not part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charset {
    /// The encoding.
    pub encoding: &'static Encoding,
    /// Length of the byte order mark, 0 without one.
    pub mark_bytes: usize,
}

/// The encoding of `body`.
///
/// `said` is what `Content-Type` says; `host` (lower case) lends its top-level domain to the guess.
pub fn charset(body: &[u8], said: Option<&'static Encoding>, host: Option<&str>) -> Charset {
    if let Some((encoding, mark_bytes)) = Encoding::for_bom(body) {
        return Charset {
            encoding,
            mark_bytes,
        };
    }
    let encoding = said
        .or_else(|| prescan(&body[..body.len().min(PRESCAN_BYTES)]))
        .or_else(|| is_utf_8(body).then_some(UTF_8))
        .or_else(|| prescan(&body[..body.len().min(DETECT_BYTES_MAX)]))
        .unwrap_or_else(|| guess(body, host));
    Charset {
        encoding,
        mark_bytes: 0,
    }
}

/// The encoding of a style sheet: of its byte order mark, of `Content-Type`, of its `@charset`,
/// else UTF-8.
///
/// Source: CSS Syntax Module Level 3, section 3.2. What the page is written in, of which the parser
/// knows nothing here, would come before UTF-8; where sheet and page are not in ASCII, the sheet
/// says so by itself.
pub fn style_sheet_charset(body: &[u8], said: Option<&'static Encoding>) -> Charset {
    if let Some((encoding, mark_bytes)) = Encoding::for_bom(body) {
        return Charset {
            encoding,
            mark_bytes,
        };
    }
    let declared = || cssparser::stylesheet_encoding::<Labels>(body, None, None);
    Charset {
        encoding: said.unwrap_or_else(declared),
        mark_bytes: 0,
    }
}

/// The encodings that the CSS library asks for.
struct Labels;

impl cssparser::EncodingSupport for Labels {
    type Encoding = &'static Encoding;

    fn from_label(label: &[u8]) -> Option<&'static Encoding> {
        Encoding::for_label_no_replacement(label)
    }

    fn utf8() -> &'static Encoding {
        UTF_8
    }

    fn is_utf16_be_or_le(encoding: &&'static Encoding) -> bool {
        *encoding == UTF_16BE || *encoding == UTF_16LE
    }
}

/// Returns whether `body` is UTF-8, perhaps cut inside its last character.
fn is_utf_8(body: &[u8]) -> bool {
    match std::str::from_utf8(body) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}

fn guess(body: &[u8], host: Option<&str>) -> &'static Encoding {
    // The detector panics on labels that are not lower-case ASCII.
    let top_level_domain = host
        .and_then(|host| host.rsplit('.').next())
        .filter(|label| {
            !label.is_empty()
                && label
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        })
        .map(str::as_bytes);
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(&body[..body.len().min(DETECT_BYTES_MAX)], true);
    detector.guess(top_level_domain, Utf8Detection::Deny)
}

/// The encoding named by the `charset` in the `content` of a `meta`, as in `text/html;
/// charset="utf-8"`.
///
/// Source: "Extracting a character encoding from a meta element". Labels of encodings that are not
/// decoded for safety ("replacement") count as none.
pub fn charset_in_content_type(value: &[u8]) -> Option<&'static Encoding> {
    const WORD: &[u8] = b"charset";
    let mut rest = value;
    loop {
        let at = rest
            .windows(WORD.len())
            .position(|window| window.eq_ignore_ascii_case(WORD))?;
        rest = rest[at + WORD.len()..].trim_ascii_start();
        if let [b'=', after @ ..] = rest {
            return Encoding::for_label_no_replacement(label(after.trim_ascii_start())?);
        }
    }
}

fn label(value: &[u8]) -> Option<&[u8]> {
    match value {
        [quote @ (b'"' | b'\''), quoted @ ..] => {
            memchr::memchr(*quote, quoted).map(|end| &quoted[..end])
        }
        _ => value
            .split(|&byte| byte.is_ascii_whitespace() || byte == b';')
            .next(),
    }
}

/// The encoding a document declares in `head`, its first bytes: in `<meta>`, or in an XML
/// declaration.
fn prescan(head: &[u8]) -> Option<&'static Encoding> {
    match head {
        [b'<', 0, b'?', 0, b'x', 0, ..] => Some(UTF_16LE),
        [0, b'<', 0, b'?', 0, b'x', ..] => Some(UTF_16BE),
        _ => meta(head)
            .or_else(|| xml_declaration(head))
            .map(as_declared),
    }
}

/// The encoding that a `<meta>` declares; none when `head` ends before one that does.
fn meta(head: &[u8]) -> Option<&'static Encoding> {
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'<', head.get(at..)?) {
        at += found;
        let rest = &head[at..];
        if rest.starts_with(b"<!--") {
            // `<!-->` is a whole comment: its end may overlap its start.
            at += 2 + memchr::memmem::find(&rest[2..], b"-->")? + 3;
        } else if is_meta(rest) {
            let mut attributes = Attributes { head, at: at + 5 };
            if let Some(encoding) = declared(&mut attributes) {
                return Some(encoding);
            }
            at = attributes.at;
        } else if let [b'<', b'/', c, ..] | [b'<', c, ..] = rest
            && c.is_ascii_alphabetic()
        {
            let name_bytes = rest
                .iter()
                .position(|&b| b.is_ascii_whitespace() || b == b'>')?;
            let mut attributes = Attributes {
                head,
                at: at + name_bytes,
            };
            while attributes.next().is_some() {}
            at = attributes.at;
        } else if let [b'<', b'!' | b'/' | b'?', ..] = rest {
            at += memchr::memchr(b'>', rest)? + 1;
        } else {
            at += 1;
        }
    }
    None
}

fn is_meta(rest: &[u8]) -> bool {
    rest.len() > 5
        && rest[1..5].eq_ignore_ascii_case(b"meta")
        && (rest[5].is_ascii_whitespace() || rest[5] == b'/')
}

/// A document that could be read this far is not UTF-16, whatever it says.
fn as_declared(encoding: &'static Encoding) -> &'static Encoding {
    if encoding == UTF_16LE || encoding == UTF_16BE {
        UTF_8
    } else if encoding == X_USER_DEFINED {
        WINDOWS_1252
    } else {
        encoding
    }
}

/// The encoding that the attributes of one `<meta>` declare.
fn declared(attributes: &mut Attributes<'_>) -> Option<&'static Encoding> {
    let mut says_content_type = false;
    let mut charset = None;
    let mut content = None;
    for (name, value) in attributes {
        match name.as_slice() {
            b"http-equiv" => says_content_type |= value == b"content-type",
            b"charset" if charset.is_none() => {
                charset = Some(Encoding::for_label_no_replacement(&value))
            }
            b"content" if content.is_none() => content = charset_in_content_type(&value),
            _ => {}
        }
    }
    match charset {
        Some(encoding) => encoding,
        None => content.filter(|_| says_content_type),
    }
}

/// `<?xml version="1.0" encoding="x"?>` at the very start.
fn xml_declaration(head: &[u8]) -> Option<&'static Encoding> {
    if !head.starts_with(b"<?xml") {
        return None;
    }
    let declaration = &head[..memchr::memchr(b'>', head)?];
    let after = &declaration[memchr::memmem::find(declaration, b"encoding")? + 8..];
    let value = after
        .trim_ascii_start()
        .strip_prefix(b"=")?
        .trim_ascii_start();
    Encoding::for_label_no_replacement(label(value)?)
}

/// The attributes of one tag, names and values in lower case; ends behind the tag.
///
/// Source: "Get an attribute when sniffing". Each step consumes at least one byte, so it ends.
struct Attributes<'a> {
    head: &'a [u8],
    at: usize,
}

impl Attributes<'_> {
    fn peek(&self) -> Option<u8> {
        self.head.get(self.at).copied()
    }

    fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&is_skipped) {
            self.at += 1;
        }
    }

    fn take_until(&mut self, is_end: impl Fn(u8) -> bool) -> Vec<u8> {
        let start = self.at;
        self.skip(|byte| !is_end(byte));
        self.head[start..self.at].to_ascii_lowercase()
    }

    fn value(&mut self) -> Vec<u8> {
        match self.peek() {
            Some(quote @ (b'"' | b'\'')) => {
                self.at += 1;
                let value = self.take_until(|byte| byte == quote);
                self.at += 1;
                value
            }
            _ => self.take_until(|byte| byte.is_ascii_whitespace() || byte == b'>'),
        }
    }
}

impl Iterator for Attributes<'_> {
    type Item = (Vec<u8>, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        self.skip(|byte| byte.is_ascii_whitespace() || byte == b'/');
        if self.peek()? == b'>' {
            return None;
        }
        let start = self.at;
        // A name may start with `=`.
        self.at += 1;
        self.skip(|byte| !(byte.is_ascii_whitespace() || matches!(byte, b'=' | b'/' | b'>')));
        let name = self.head[start..self.at].to_ascii_lowercase();
        self.skip(|byte| byte.is_ascii_whitespace());
        if self.peek() != Some(b'=') {
            return Some((name, Vec::new()));
        }
        self.at += 1;
        self.skip(|byte| byte.is_ascii_whitespace());
        let value = self.value();
        Some((name, value))
    }
}

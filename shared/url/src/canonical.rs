//! From a reference in a page to the canonical URL.
//!
//! Parsing is WHATWG's, as in browsers. On top of it only what cannot change the resource (RFC
//! 3986, 6.2.2 and 6.2.3): the fragment and the default port are dropped, escapes are in upper
//! case, escaped unreserved characters are decoded, the root's dot behind a host is dropped, and so
//! is a `?` with nothing behind it. (RFC 3986 calls `/?` and `/` different; servers do not, and
//! where one redirects between them the literal target is requested.) What RFC 3986 forbids in a
//! URI but browsers let through is escaped, a `%` that starts no escape included; the result is a
//! valid URI, and no second pass can find an escape that the first one made. Not done, because it
//! can change the resource: sorting the query, collapsing slashes, dropping session ids or index
//! files.
//!
//! Most links are clean already. They take a shortcut that assembles the result from the base and
//! the reference and accepts it only if nothing in it would be rewritten; a property test holds it
//! to the parser's result.

use super::host::{address_literal, is_name, is_plain_name};
use encoding_rs::{EncoderResult, Encoding};
use std::borrow::Cow;
use url::{ParseError, Position, Url};

/// The longest canonical URL, in bytes. Sitemaps stop at 2,048 (sitemaps.org); common servers
/// refuse a request line above 8,192.
pub const URL_BYTES_MAX: usize = 4_096;

/// A reference longer than this (without its fragment) is not worth parsing: escapes and white
/// space can make the canonical form shorter than the reference, but not by this much in any honest
/// page.
const REFERENCE_BYTES_MAX: usize = 4 * URL_BYTES_MAX;

/// Why a reference gives no URL to crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCrawlable {
    /// No URL by the WHATWG standard, or relative without a base.
    #[error("not a URL")]
    NotAUrl(#[source] ParseError),
    /// Another scheme than http and https: `mailto:`, `javascript:`, `data:`, `ftp:`.
    #[error("the scheme is neither http nor https")]
    Scheme,
    /// No host, such as `http://?a`.
    #[error("no host")]
    NoHost,
    /// The host is no name that could be registered and no address.
    #[error("the host is neither a valid name nor an address")]
    HostInvalid,
    /// A name or password before the host: never sent, never stored.
    #[error("contains user information")]
    UserInfo,
    /// The canonical form would have more than [`URL_BYTES_MAX`] bytes.
    #[error("longer than {URL_BYTES_MAX} bytes")]
    TooLong,
}

/// The canonical form of `href`, resolved against `base`.
///
/// `encoding` is the document's: the query is encoded with it, as browsers do (WHATWG URL, query
/// state); `None` means UTF-8. Costs about 0.2 µs for a clean link and about 1.1 µs for one that
/// has to be parsed.
pub fn canonical(
    href: &str,
    base: Option<&Url>,
    encoding: Option<&'static Encoding>,
) -> Result<String, NotCrawlable> {
    let href = href.trim_matches(|c| c <= ' ');
    if scheme_of(href).is_some_and(|scheme| !is_web(scheme)) {
        return Err(NotCrawlable::Scheme);
    }
    let fragment = href.find('#');
    match clean(&href[..fragment.unwrap_or(href.len())], base) {
        Some(canonical) => Ok(canonical),
        // the `#` stays: without it the parser would take white space before it for the reference's
        // end
        None => parsed(
            &href[..fragment.map_or(href.len(), |at| at + 1)],
            base,
            encoding,
        ),
    }
}

/// The scheme a reference starts with, if it is written without tabs or line breaks inside.
fn scheme_of(href: &str) -> Option<&str> {
    let end = href.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')))?;
    let is_scheme =
        href[end..].starts_with(':') && href.starts_with(|c: char| c.is_ascii_alphabetic());
    is_scheme.then(|| &href[..end])
}

fn is_web(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

// ---- the shortcut ----

/// The canonical form of a reference in which nothing has to be rewritten; `None` when it may have
/// to be.
fn clean(href: &str, base: Option<&Url>) -> Option<String> {
    let url = assembled(href, base)?;
    let path_start = url.len() - super::path_of(&url).len();
    (url.len() <= URL_BYTES_MAX && is_clean_path(&url.as_bytes()[path_start..])).then_some(url)
}

/// Base and reference put together, the server known to be canonical, the path and query not
/// checked yet.
fn assembled(href: &str, base: Option<&Url>) -> Option<String> {
    let absolute = href
        .strip_prefix("http://")
        .or_else(|| href.strip_prefix("https://"));
    if let Some(rest) = absolute {
        if base.is_some_and(|base| is_on_server_of(href, base)) {
            return Some(href.to_owned());
        }
        return is_plain_name(&rest[..rest.find('/')?]).then(|| href.to_owned());
    }
    if scheme_of(href).is_some() {
        return None;
    }
    let base = base.filter(|base| is_clean_server(base))?;
    if let Some(rest) = href.strip_prefix("//") {
        return is_plain_name(&rest[..rest.find('/')?])
            .then(|| [base.scheme(), ":", href].concat());
    }
    let kept = match href.as_bytes().first() {
        None => &base[..Position::AfterQuery],
        Some(b'/') => &base[..Position::BeforePath],
        Some(b'?') => &base[..Position::AfterPath],
        Some(_) => {
            let path = &base[..Position::AfterPath];
            &path[..=path.rfind('/')?]
        }
    };
    Some([kept, href].concat())
}

/// Returns whether a reference begins with the base's server, spelled as in its canonical form:
/// most links of a page lead to its own server, and many spell it out.
fn is_on_server_of(href: &str, base: &Url) -> bool {
    href.strip_prefix(&base[..Position::BeforePath])
        .is_some_and(|rest| rest.starts_with('/'))
        && is_clean_server(base)
}

/// Returns whether the base's scheme and authority are what they would be in its canonical form.
fn is_clean_server(base: &Url) -> bool {
    let authority = &base[Position::BeforeUsername..Position::BeforePort];
    let host = authority.strip_suffix(':').unwrap_or(authority);
    matches!(base.scheme(), "http" | "https") && (is_name(host) || address_literal(host).is_some())
}

/// Returns whether path and query are what [`push_path`] and [`push_query`] would make of them, and
/// free of dot segments.
fn is_clean_path(path_and_query: &[u8]) -> bool {
    let mut previous = 0;
    for (at, &byte) in path_and_query.iter().enumerate() {
        match CLASS[usize::from(byte)] {
            // stricter than needed: `/.well-known/` is parsed, too
            Class::Kept if byte == b'.' && previous == b'/' => return false,
            Class::Kept if byte == b'?' => return is_clean_query(&path_and_query[at + 1..]),
            Class::Kept => {}
            Class::Percent if is_clean_escape(&path_and_query[at..]) => {}
            Class::Percent | Class::Escaped => return false,
        }
        previous = byte;
    }
    true
}

fn is_clean_query(query: &[u8]) -> bool {
    let is_clean = |(at, &byte): (usize, &u8)| match CLASS[usize::from(byte)] {
        // the parser escapes apostrophes in queries
        Class::Kept => byte != b'\'',
        Class::Percent => is_clean_escape(&query[at..]),
        Class::Escaped => false,
    };
    !query.is_empty() && query.iter().enumerate().all(is_clean)
}

/// Returns whether the bytes start with an escape in upper case of a character that has to be
/// escaped.
fn is_clean_escape(bytes: &[u8]) -> bool {
    let Some((byte, digits)) = escape(bytes) else {
        return false;
    };
    !is_unreserved(byte) && !digits.iter().any(u8::is_ascii_lowercase)
}

// ---- the parser's way ----

/// The canonical form by way of the WHATWG parser.
fn parsed(
    href: &str,
    base: Option<&Url>,
    encoding: Option<&'static Encoding>,
) -> Result<String, NotCrawlable> {
    if href.len() > REFERENCE_BYTES_MAX {
        return Err(NotCrawlable::TooLong);
    }
    let encoder = encoding.map(encoder);
    let mut options = Url::options().base_url(base);
    // written out because a reference to a closure does not coerce inside an `Option`
    if let Some(encoder) = &encoder {
        options = options.encoding_override(Some(encoder));
    }
    let with_scheme = base.filter(|base| is_web(base.scheme()) && starts_with_three_slashes(href));
    let href = match with_scheme {
        Some(base) => Cow::Owned([base.scheme(), ":", href].concat()),
        None => Cow::Borrowed(href),
    };
    let url = options.parse(&href).map_err(|error| match error {
        ParseError::EmptyHost => NotCrawlable::NoHost,
        ParseError::IdnaError
        | ParseError::InvalidIpv4Address
        | ParseError::InvalidIpv6Address
        | ParseError::InvalidDomainCharacter => NotCrawlable::HostInvalid,
        other => NotCrawlable::NotAUrl(other),
    })?;
    rewritten(&url)
}

/// `///host/path` names a host (WHATWG URL, special authority ignore slashes state); the library
/// sees an empty one unless the scheme stands before it.
fn starts_with_three_slashes(href: &str) -> bool {
    href.len() >= 3
        && href
            .bytes()
            .take(3)
            .all(|byte| matches!(byte, b'/' | b'\\'))
}

/// Checks what the parser accepted, and rewrites what it leaves in more than one spelling.
fn rewritten(url: &Url) -> Result<String, NotCrawlable> {
    if !is_web(url.scheme()) {
        return Err(NotCrawlable::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(NotCrawlable::UserInfo);
    }
    let host = url.host_str().ok_or(NotCrawlable::NoHost)?;
    let host = host.strip_suffix('.').unwrap_or(host);
    if !is_name(host) && address_literal(host).is_none() {
        return Err(NotCrawlable::HostInvalid);
    }
    let mut canonical = String::with_capacity(url.as_str().len() + 16);
    canonical.push_str(&url[..Position::BeforeHost]);
    canonical.push_str(host);
    canonical.push_str(&url[Position::AfterHost..Position::BeforePath]);
    push_escaped(&mut canonical, url.path());
    if let Some(query) = url.query().filter(|query| !query.is_empty()) {
        canonical.push('?');
        push_escaped(&mut canonical, query);
    }
    if canonical.len() > URL_BYTES_MAX {
        Err(NotCrawlable::TooLong)
    } else {
        Ok(canonical)
    }
}

/// How a query is encoded for the parser.
fn encoder(encoding: &'static Encoding) -> impl for<'q> Fn(&'q str) -> Cow<'q, [u8]> {
    move |query| encoded(query, encoding)
}

/// The query's bytes in the document's encoding. What the encoding lacks becomes an escaped numeric
/// character reference, as in a form (WHATWG URL, percent-encode after encoding).
fn encoded<'q>(query: &'q str, encoding: &'static Encoding) -> Cow<'q, [u8]> {
    if query.is_ascii() {
        return Cow::Borrowed(query.as_bytes());
    }
    let mut encoder = encoding.new_encoder();
    let mut bytes = Vec::with_capacity(query.len() * 2);
    let mut rest = query;
    while !rest.is_empty() {
        // room for the rest even if all of it is encoded, so that a full output cannot stop the
        // loop
        bytes.reserve(
            encoder
                .max_buffer_length_from_utf8_without_replacement(rest.len())
                .unwrap_or(rest.len() * 4),
        );
        let (result, read) =
            encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut bytes, true);
        rest = &rest[read..];
        if let EncoderResult::Unmappable(c) = result {
            bytes.extend_from_slice(format!("%26%23{}%3B", u32::from(c)).as_bytes());
        }
    }
    Cow::Owned(bytes)
}

/// Appends a path or query as the parser left it: escapes normalised, everything RFC 3986 forbids
/// escaped.
fn push_escaped(out: &mut String, text: &str) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let kept = bytes[at..]
            .iter()
            .take_while(|&&byte| CLASS[usize::from(byte)] == Class::Kept)
            .count();
        out.push_str(&text[at..at + kept]);
        at += kept;
        let Some(&byte) = bytes.get(at) else { break };
        match escape(&bytes[at..]) {
            Some((decoded, _)) => {
                push_escape(out, decoded);
                at += 3;
            }
            None => {
                push_escape(out, byte);
                at += 1;
            }
        }
    }
}

/// Appends an escape for the byte, or the byte itself if it is unreserved.
fn push_escape(out: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if is_unreserved(byte) {
        out.push(char::from(byte));
    } else {
        out.push('%');
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 0x0f)]));
    }
}

/// The byte that an escape at the start of `bytes` stands for, and its two digits.
fn escape(bytes: &[u8]) -> Option<(u8, [u8; 2])> {
    let &[b'%', high, low, ..] = bytes else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let value = digit(high)? * 16 + digit(low)?;
    // two hexadecimal digits always fit
    Some((value as u8, [high, low]))
}

/// RFC 3986, 2.3.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// What happens to a byte of a path or query.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Stays: `pchar`, `/` and `?` of RFC 3986, 3.3 and 3.4.
    Kept,
    /// `%`: part of an escape, or escaped itself.
    Percent,
    /// Not allowed in a URI.
    Escaped,
}

const CLASS: [Class; 256] = {
    let mut class = [Class::Escaped; 256];
    let mut byte = 0;
    while byte < 256 {
        if is_unreserved(byte as u8) {
            class[byte] = Class::Kept;
        }
        byte += 1;
    }
    let kept = b"!$&'()*+,;=:@/?";
    let mut at = 0;
    while at < kept.len() {
        class[kept[at] as usize] = Class::Kept;
        at += 1;
    }
    class[b'%' as usize] = Class::Percent;
    class
};

#[cfg(test)]
mod tests;

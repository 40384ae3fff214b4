//! Media types: what a server says that a body is.
//!
//! In: the values of `Content-Type`. Out: the types among them. All stages go by this, so that what
//! is left unread, what is archived and what is read for links are the same bodies.
//!
//! One thing is read that the grammar does not allow, as browsers read it: a type is cut at white
//! space (`text/html charset=x`). Source: Fetch Standard, "extract a MIME type".

use memchr::memchr;

/// The types that the values of all `Content-Type` headers say, in order, each with its parameters.
/// What is no type, and `*/*`, is left out.
pub fn types<'a>(
    values: impl Iterator<Item = &'a [u8]>,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    values
        .flat_map(|value| parts(value, b','))
        .filter_map(of_value)
        .filter(|(essence, _)| *essence != b"*/*")
}

/// `type/subtype` in lower case as the values of all `Content-Type` headers say it: the last that
/// is one. Empty when none is, or when it is longer than `bytes_max`.
pub fn essence<'a>(values: impl Iterator<Item = &'a [u8]>, bytes_max: usize) -> String {
    let said = types(values)
        .last()
        .map(|(essence, _)| essence)
        .filter(|essence| essence.len() <= bytes_max);
    said.map(|essence| String::from_utf8_lossy(essence).to_ascii_lowercase())
        .unwrap_or_default()
}

/// What stands between separators that are not in quotes.
pub fn parts(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    value.split(move |&byte| {
        if is_escaped {
            is_escaped = false;
        } else if byte == b'"' {
            is_quoted = !is_quoted;
        } else {
            is_escaped = is_quoted && byte == b'\\';
        }
        byte == separator && !is_quoted
    })
}

/// The type in one value, and its parameters.
fn of_value(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let value = value.trim_ascii();
    let end = value
        .iter()
        .position(|byte| *byte == b';' || byte.is_ascii_whitespace())
        .unwrap_or(value.len());
    let (essence, parameters) = value.split_at(end);
    let slash = memchr(b'/', essence)?;
    let is_type = is_token(&essence[..slash]) && is_token(&essence[slash + 1..]);
    is_type.then_some((essence, parameters))
}

fn is_token(name: &[u8]) -> bool {
    !name.is_empty()
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_type_counts_in_lower_case() {
        let cases: &[(&[&str], &str)] = &[
            (&[], ""),
            (&["Text/HTML; charset=utf-8"], "text/html"),
            (&["text/html charset=x"], "text/html"),
            (&["image/png", "text/html"], "text/html"),
            (&["image/png, text/html"], "text/html"),
            (&["text/html, */*, nonsense, "], "text/html"),
            (&["text/html;x=\", image/png\""], "text/html"),
            (&["text/html/x"], ""),
            (&["a/a-subtype-that-is-too-long"], ""),
        ];
        for (values, expected) in cases {
            let found = essence(values.iter().map(|value| value.as_bytes()), 20);
            assert_eq!(found, *expected, "{values:?}");
        }
    }
}

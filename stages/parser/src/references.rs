//! References: text and attribute values as written become what they say.
//!
//! In: bytes of a document, its encoding, the syntax. Out: text, in which character references are
//! resolved once and NUL is U+FFFD.
//!
//! In XML a reference ends with a semicolon; what has none is text, `&section=7` in the URLs of
//! sitemaps above all. Of the names those of HTML are known, which many feeds use without a
//! declaration; another stays as it is written, as does a declared one: no reference makes a text
//! much longer. A number that is no character of XML is U+FFFD. Sources: XML 1.0, sections 2.2, 4.1
//! and 4.6; HTML Living Standard, sections 13.2.5.1 and 13.2.5.72.

use std::borrow::Cow;

use encoding_rs::Encoding;
use memchr::{memchr, memchr2};

/// The syntax of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// Those of a text in HTML.
    Text,
    /// Those of an attribute in HTML.
    Attribute,
    /// Those of XML, in texts and attributes.
    Xml,
}

/// Bytes of the longest name of HTML.
const NAME_BYTES_MAX: usize = 31;

/// Attribute values or texts of a document in an encoding that contains ASCII, decoded, their
/// references resolved.
pub(crate) fn text<'d>(
    written: &'d [u8],
    encoding: &'static Encoding,
    syntax: Syntax,
) -> Cow<'d, str> {
    let (text, _) = encoding.decode_without_bom_handling(written);
    if memchr2(b'&', 0, written).is_none() {
        return text;
    }
    let text = match memchr(0, written) {
        None => text,
        Some(_) => Cow::Owned(text.replace('\0', "\u{FFFD}")),
    };
    match syntax {
        Syntax::Text => htmlize::unescape(text),
        Syntax::Attribute => htmlize::unescape_attribute(text),
        Syntax::Xml => resolved(text),
    }
}

/// A text with the references of XML resolved.
fn resolved(text: Cow<'_, str>) -> Cow<'_, str> {
    let Some(first) = memchr(b'&', text.as_bytes()) else {
        return text;
    };
    let mut resolved = String::with_capacity(text.len());
    resolved.push_str(&text[..first]);
    let mut rest = &text[first..];
    while let Some(behind) = rest.strip_prefix('&') {
        let reference = end_of_name(behind).and_then(|end| Some((meaning(&behind[..end])?, end)));
        rest = match reference {
            Some((meaning, end)) => {
                resolved.push_str(&meaning);
                &behind[end + 1..]
            }
            None => {
                resolved.push('&');
                behind
            }
        };
        let next = memchr(b'&', rest.as_bytes()).unwrap_or(rest.len());
        resolved.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    Cow::Owned(resolved)
}

/// Where the semicolon is that ends what may be a name or a number. A number may have zeros before
/// it.
fn end_of_name(behind: &str) -> Option<usize> {
    let bytes = behind.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'#';
    let end = bytes.iter().position(|byte| !is_part(byte))?;
    (bytes[end] == b';').then_some(end)
}

/// What a reference to this name or number says; none when it is no reference.
fn meaning(name: &str) -> Option<Cow<'static, str>> {
    match name {
        "amp" => Some("&".into()),
        "lt" => Some("<".into()),
        "gt" => Some(">".into()),
        "quot" => Some("\"".into()),
        "apos" => Some("'".into()),
        _ => match name.strip_prefix('#') {
            Some(number) => numbered(number).map(|character| String::from(character).into()),
            None => named(name),
        },
    }
}

fn numbered(number: &str) -> Option<char> {
    let (digits, radix) = match number.strip_prefix('x') {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let character = u32::from_str_radix(digits, radix)
        .ok()
        .and_then(char::from_u32);
    Some(
        character
            .filter(is_of_xml)
            .unwrap_or(char::REPLACEMENT_CHARACTER),
    )
}

fn is_of_xml(character: &char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..)
}

/// What HTML means by a name.
fn named(name: &str) -> Option<Cow<'static, str>> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return None;
    }
    let written = format!("&{name};");
    let meaning = htmlize::unescape(written.as_str());
    // HTML also knows beginnings of some names, without the semicolon.
    let is_whole = name == "semi" || !meaning.ends_with(';');
    is_whole.then(|| meaning.into_owned().into())
}

#[cfg(test)]
mod tests {
    use super::{Syntax, text};
    use encoding_rs::UTF_8;
    use proptest::prelude::*;

    fn xml(written: &str) -> String {
        text(written.as_bytes(), UTF_8, Syntax::Xml).into_owned()
    }

    #[test]
    fn in_xml_only_what_ends_with_a_semicolon_is_a_reference() {
        let cases = [
            (
                "?a=1&lang=de&copy=2&para=3&reg",
                "?a=1&lang=de&copy=2&para=3&reg",
            ),
            ("&amp;&lt;&gt;&quot;&apos;", "&<>\"'"),
            ("&amp;amp;&amp;#38;&#38;amp;", "&amp;&#38;&amp;"),
            (
                "&#65;&#x42;&#x0063;&#000000000000000000000000000000000000100;",
                "ABcd",
            ),
            (
                "&#65&#x42 &#;&#x;&#-1;&#1a;&#X41;&#xg;&;& ;&&amp;",
                "&#65&#x42 &#;&#x;&#-1;&#1a;&#X41;&#xg;&;& ;&&",
            ),
            (
                "&#0;&#xD800;&#x110000;&#xFFFF;&#8;&#99999999999;",
                "\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}",
            ),
            ("&#9;&#x85;&#150;&#x10FFFF;", "\t\u{85}\u{96}\u{10FFFF}"),
            (
                "caf&eacute;&nbsp;&semi;&NotEqualTilde;",
                "café\u{A0};\u{2242}\u{338}",
            ),
            (
                "&notit;&ampx;&unknown;&AMPX;&eacuté;",
                "&notit;&ampx;&unknown;&AMPX;&eacuté;",
            ),
            ("a&amp", "a&amp"),
            ("a\0&amp;", "a\u{FFFD}&"),
            ("", ""),
        ];
        for (written, expected) in cases {
            assert_eq!(xml(written), expected, "{written}");
        }
    }

    #[test]
    fn nul_is_replaced_before_references_are_resolved() {
        for (written, syntax, expected) in [
            ("/\0?a&amp;b", Syntax::Attribute, "/\u{FFFD}?a&b"),
            ("&am\0p;", Syntax::Attribute, "&am\u{FFFD}p;"),
            ("a\0b", Syntax::Text, "a\u{FFFD}b"),
        ] {
            assert_eq!(text(written.as_bytes(), UTF_8, syntax), expected);
        }
    }

    proptest! {
        #[test]
        fn what_is_escaped_comes_back(said in "[a-z&<>;#\"'=é]{0,40}") {
            let written = said.replace('&', "&amp;").replace('<', "&#60;").replace('>', "&#x3e;");
            prop_assert_eq!(xml(&written), said);
        }

        #[test]
        fn text_without_semicolons_stays(written in "[a-zA-Z0-9&#=/?]{0,60}") {
            prop_assert_eq!(xml(&written), written);
        }

        #[test]
        fn a_text_at_most_doubles_but_for_nuls(written in "(&[a-zA-Z]{1,6};|&#x?[0-9a-f]{1,7};|.){0,40}") {
            // U+FFFD, which stands for NUL, has three bytes.
            let nuls = written.matches('\0').count();
            prop_assert!(xml(&written).len() <= 2 * written.len() + nuls);
        }
    }
}

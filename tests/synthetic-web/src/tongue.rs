//! Tongue: the encoding of a host's pages, and a word of its language in paths and queries.
//!
//! The host's own pages have the word as it is, in their encoding. Everywhere else it is escaped:
//! in paths always as UTF-8, in queries in the encoding of the pages that link there (WHATWG URL,
//! query state).

use std::fmt::Write as _;

use encoding_rs::{Encoding, UTF_16LE};

/// How a host writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tongue {
    pub(crate) encoding: &'static Encoding,
    pub(crate) word: &'static str,
}

impl Tongue {
    /// The word in a path, as a crawler requests it.
    pub(crate) fn in_path(self) -> String {
        escaped(self.word.as_bytes())
    }

    /// The word in a query, as a crawler requests it.
    pub(crate) fn in_query(self) -> String {
        // The word is in UTF-8 where the pages are in UTF-16.
        let (bytes, _, _) = self.encoding.encode(self.word);
        escaped(&bytes)
    }

    /// A page in the encoding.
    pub(crate) fn encode(self, page: &str) -> Vec<u8> {
        if self.encoding == UTF_16LE {
            let marked = std::iter::once(0xfeff).chain(page.encode_utf16());
            return marked.flat_map(u16::to_le_bytes).collect();
        }
        let (bytes, _, _) = self.encoding.encode(page);
        bytes.into_owned()
    }
}

/// Escapes everything except letters of ASCII and hyphens.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let written = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'-' => write!(text, "{}", char::from(*byte)),
            _ => write!(text, "%{byte:02X}"),
        };
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::Hostility;

    #[test]
    fn words_are_escaped_as_browsers_do() {
        for (hostility, in_path, in_query) in [
            (
                Hostility::Cyrillic,
                "%D0%BA%D0%B0%D1%80%D1%82%D0%B0",
                "%EA%E0%F0%F2%E0",
            ),
            (Hostility::Japanese, "%E8%A1%A8%E7%A4%BA", "%95%5C%8E%A6"),
            (Hostility::Utf16, "%CE%A9mega-%C3%A9", "%CE%A9mega-%C3%A9"),
        ] {
            let tongue = hostility.tongue().unwrap();
            assert_eq!(
                (tongue.in_path().as_str(), tongue.in_query().as_str()),
                (in_path, in_query)
            );
            let url = url::Url::parse(&format!("http://h/{}", tongue.word)).unwrap();
            assert_eq!(url.path(), format!("/{in_path}"));
        }
        let page = Hostility::Utf16.tongue().unwrap().encode("<p>");
        assert_eq!(page, b"\xff\xfe<\0p\0>\0");
    }
}

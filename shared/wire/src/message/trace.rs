//! The trace of a page: one id by which messages, log lines and people name it on its whole way.
//!
//! In: the URL of a page, or an id as a person types it. Out: the id.
//!
//! Invariant: the id follows from the URL alone. Every stage that meets the page, or a link that
//! stood on it, has that URL in hand ([`Page::url`], [`Origin::page`]), so no message carries the
//! id and no store keeps it. A page that is fetched again has the same trace: time and job tell its
//! fetches apart.

use super::fetch::{Page, Request};
use super::outcomes::OutcomeEntry;
use super::urls::Origin;
use rhumb_url::fingerprint;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Hexadecimal digits of an id.
const DIGITS: usize = 16;

/// The trace of a page: the fingerprint of its URL, shown as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Trace(pub u64);

impl Trace {
    /// The trace of the page at a canonical URL.
    pub fn of(url: &str) -> Self {
        Trace(fingerprint(url))
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:01$x}", self.0, DIGITS)
    }
}

impl FromStr for Trace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_id = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u64::from_str_radix(text, 16).ok().filter(|_| is_id);
        id.map(Trace).ok_or_else(|| {
            format!("'{text}' is no trace: accepted are {DIGITS} hexadecimal digits")
        })
    }
}

impl Serialize for Trace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Origin {
    /// The trace of the page on which the URLs stood; none of seeds.
    pub fn trace(&self) -> Option<Trace> {
        let page = self.found_on();
        (!page.is_empty()).then(|| Trace::of(page))
    }
}

impl Page {
    /// The trace of the page.
    pub fn trace(&self) -> Trace {
        Trace::of(&self.url)
    }
}

impl Request {
    /// The trace of the page that is asked for.
    pub fn trace(&self) -> Trace {
        Trace::of(&self.url)
    }
}

impl OutcomeEntry {
    /// The trace of the page that ended.
    pub fn trace(&self) -> Trace {
        Trace::of(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_shown_as_it_is_typed() {
        for id in [0, 1, 0x00ab_cdef_0123_4567, u64::MAX] {
            let shown = Trace(id).to_string();
            assert_eq!((shown.len(), shown.parse()), (16, Ok(Trace(id))));
        }
        for text in [
            "",
            "1",
            "00abcdef0123456",
            "00abcdef012345678",
            "+0abcdef01234567",
            "00abcdef0123456g",
            "0xabcdef01234567",
        ] {
            assert!(
                text.parse::<Trace>()
                    .unwrap_err()
                    .contains("16 hexadecimal digits"),
                "{text}"
            );
        }
    }

    #[test]
    fn links_carry_the_trace_of_the_page_on_which_they_stood_and_seeds_carry_none() {
        let origin = Origin {
            page: "http://a.test/x".into(),
            ..Origin::default()
        };
        assert_eq!(origin.trace(), Some(Trace::of("http://a.test/x")));
        assert_eq!(Origin::seed("t").trace(), None);
    }
}

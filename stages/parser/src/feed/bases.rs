//! Bases: what relative URLs refer to in an XML document whose elements may say so.
//!
//! In: start and end tags. Out: the base URL at a place: that of the innermost open element with
//! `xml:base`, relative to that of the one around, the outermost relative to the document's URL.
//!
//! An element that says it is closed by the end tag of its name, or by one of an element around it:
//! others may be left open. Nothing is joined before a link needs it. Source: XML Base (second
//! edition), sections 3 and 4.

use rhumb_url::URL_BYTES_MAX;
use url::Url;

/// Elements with a base in one another that count; deeper ones refer to what those around refer to.
const DEPTH_MAX: usize = 8;

/// The bases of the elements open around a place.
pub(super) struct Bases<'a> {
    document: &'a Url,
    open: Vec<Element<'a>>,
}

struct Element<'a> {
    name: &'a [u8],
    /// Elements of the same name open in it.
    alike: usize,
    /// What it says.
    base: String,
    joined: Option<Url>,
}

impl<'a> Bases<'a> {
    pub(super) fn new(document: &'a Url) -> Self {
        Bases {
            document,
            open: Vec::new(),
        }
    }

    /// A start tag with this `xml:base`.
    pub(super) fn start(&mut self, name: &'a [u8], base: Option<String>) {
        match base {
            // A longer one makes no URL that could be crawled, and would be read anew for each
            // link.
            Some(base) if base.len() <= URL_BYTES_MAX && self.open.len() < DEPTH_MAX => {
                self.open.push(Element {
                    name,
                    alike: 0,
                    base,
                    joined: None,
                });
            }
            _ => {
                if let Some(element) = self.open.iter_mut().rfind(|element| element.name == name) {
                    element.alike += 1;
                }
            }
        }
    }

    /// An end tag.
    pub(super) fn end(&mut self, name: &[u8]) {
        let Some(at) = self.open.iter().rposition(|element| element.name == name) else {
            return;
        };
        match self.open[at].alike.checked_sub(1) {
            Some(alike) => self.open[at].alike = alike,
            None => self.open.truncate(at),
        }
    }

    /// Returns whether a base but the document's URL may be in force.
    pub(super) fn are_said(&self) -> bool {
        !self.open.is_empty()
    }

    /// What relative URLs refer to here.
    pub(super) fn here(&mut self) -> &Url {
        let mut around = self.document;
        for element in &mut self.open {
            let Element { base, joined, .. } = element;
            around = joined.get_or_insert_with(|| {
                let joined = around
                    .join(base)
                    .ok()
                    .filter(|joined| joined.as_str().len() <= URL_BYTES_MAX);
                joined.unwrap_or_else(|| around.clone())
            });
        }
        around
    }
}

#[cfg(test)]
mod tests {
    use super::{Bases, DEPTH_MAX};
    use rhumb_url::URL_BYTES_MAX;
    use url::Url;

    /// Tags, `name=base` or `/name`, and the base behind them.
    const CASES: &[(&str, &str)] = &[
        ("", "http://h.example/d/f"),
        ("feed=/a/", "http://h.example/a/"),
        ("feed=/a/ entry=b/ link=c/", "http://h.example/a/b/c/"),
        ("feed=/a/ entry=b/ /entry", "http://h.example/a/"),
        ("feed=/a/ entry=b/ /entry entry", "http://h.example/a/"),
        (
            "feed=/a/ entry=//o.example/x/ link=c",
            "http://o.example/x/c",
        ),
        ("feed entry=b/", "http://h.example/d/b/"),
        ("feed entry=b/ entry /entry", "http://h.example/d/b/"),
        ("feed entry=b/ entry /entry /entry", "http://h.example/d/f"),
        ("feed entry=b/ p p /entry", "http://h.example/d/f"),
        ("feed=/a/ entry=b/ p=c/ /feed", "http://h.example/d/f"),
        ("feed=/a/ /other", "http://h.example/a/"),
        ("feed=/a/ entry=http://[ ", "http://h.example/a/"),
        ("feed=/a/ entry=", "http://h.example/a/"),
    ];

    #[test]
    fn a_base_is_that_of_the_innermost_open_element_that_says_one() {
        let document = Url::parse("http://h.example/d/f").expect("a URL");
        for (tags, expected) in CASES {
            let mut bases = Bases::new(&document);
            for tag in tags.split_whitespace() {
                match (tag.strip_prefix('/'), tag.split_once('=')) {
                    (Some(name), _) => bases.end(name.as_bytes()),
                    (None, Some((name, base))) => {
                        bases.start(name.as_bytes(), Some(base.to_owned()))
                    }
                    (None, None) => bases.start(tag.as_bytes(), None),
                }
            }
            assert_eq!(bases.here().as_str(), *expected, "{tags}");
        }
    }

    #[test]
    fn bases_that_are_too_deep_or_too_long_count_as_none() {
        let document = Url::parse("http://h.example/").expect("a URL");
        let mut bases = Bases::new(&document);
        bases.start(b"x", Some("y/".repeat(URL_BYTES_MAX)));
        for _ in 0..3 * DEPTH_MAX {
            bases.start(b"a", Some("b/".to_owned()));
        }
        assert_eq!(
            bases.here().path(),
            "/".to_owned() + &"b/".repeat(DEPTH_MAX)
        );
        for _ in 0..2 * DEPTH_MAX {
            bases.end(b"a");
        }
        assert_eq!(
            bases.here().path(),
            "/".to_owned() + &"b/".repeat(DEPTH_MAX),
            "those that count are open"
        );
        bases.end(b"a");
        assert_eq!(
            bases.here().path(),
            "/".to_owned() + &"b/".repeat(DEPTH_MAX - 1)
        );
    }
}

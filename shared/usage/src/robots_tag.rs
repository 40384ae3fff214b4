//! Directives of `X-Robots-Tag` and of robots metas.
//!
//! In: a value and our product token. Out: the directives that are for us, and what they say of the
//! use of the page. A directive that is addressed to a product counts only if that product is ours;
//! names are compared whole, without case (RFC 9309, section 2.2.1).
//!
//! Sources: Google's "Robots meta tag, data-nosnippet, and X-Robots-Tag specifications" for all but
//! `nocache` (Bing), `noai` and `noimageai` (DeviantArt, 2022), and the opposites `index` and
//! `archive`, which Google ignores. `nofollow` says nothing of use.

use crate::date;
use crate::{Purpose, Stance, Stances};

/// A directive of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directive<'a> {
    /// Its name, as written.
    pub name: &'a [u8],
    /// What stands behind its colon, if it takes a value.
    pub value: Option<&'a [u8]>,
}

impl Directive<'_> {
    /// Returns whether it has this name.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Returns whether it says that the links of the page are not to be followed.
    pub fn says_nofollow(&self) -> bool {
        self.is("nofollow") || self.is("none")
    }

    /// Returns whether it is about the use of the page, though it may say nothing yet.
    pub fn is_of_use(&self) -> bool {
        self.is("unavailable_after") || self.is("noimageai")
    }

    /// What it says at a time, in seconds since 1970. `is_image`: the response is one.
    pub fn stances(&self, now_s: i64, is_image: bool) -> Stances {
        let mut stances = Stances::default();
        let is_over = || {
            self.value
                .and_then(date::seconds)
                .is_some_and(|end| end <= now_s)
        };
        if self.is("noindex") || self.is("none") || self.is("unavailable_after") && is_over() {
            stances.say(Purpose::Search, Stance::Refused);
        } else if self.is("index") || self.is("all") {
            stances.say(Purpose::Search, Stance::Allowed);
        } else if self.is("noarchive") || self.is("nocache") {
            stances.say(Purpose::Archive, Stance::Refused);
        } else if self.is("archive") {
            stances.say(Purpose::Archive, Stance::Allowed);
        } else if self.is("nosnippet") || self.is("max-snippet") && self.value == Some(b"0") {
            stances.say(Purpose::AiInput, Stance::Refused);
        } else if self.is("noai") || self.is("noimageai") && is_image {
            stances.say(Purpose::AiInput, Stance::Refused);
            stances.say(Purpose::AiTrain, Stance::Refused);
        }
        stances
    }
}

/// Directives that take a value behind a colon; any other name before a colon is a product's.
const WITH_VALUE: [&str; 4] = [
    "unavailable_after",
    "max-snippet",
    "max-image-preview",
    "max-video-preview",
];

/// Gives each directive of one value of `X-Robots-Tag` that is for the crawler with this product
/// token.
///
/// A name followed by a colon addresses what comes after it in the same value to that product:
/// `otherbot: noindex, nofollow`.
pub fn of_header<'a>(value: &'a [u8], product_token: &str, mut each: impl FnMut(Directive<'a>)) {
    read(value, Some(product_token), &mut each);
}

/// Gives each directive of the content of a robots meta, which its name has addressed.
pub fn of_meta<'a>(content: &'a [u8], mut each: impl FnMut(Directive<'a>)) {
    read(content, None, &mut each);
}

/// Returns whether a meta of this name addresses the crawler with this product token.
pub fn addresses(name: &[u8], product_token: &str) -> bool {
    let name = name.trim_ascii();
    name.eq_ignore_ascii_case(b"robots") || is_product(name, product_token)
}

/// `product_token`: ours, where directives may be addressed.
fn read<'a>(mut rest: &'a [u8], product_token: Option<&str>, each: &mut impl FnMut(Directive<'a>)) {
    let mut is_ours = true;
    while !rest.is_empty() {
        let end = end_of_part(rest, 0);
        let Some(colon) = memchr::memchr(b':', &rest[..end]) else {
            if is_ours {
                words(&rest[..end], each);
            }
            rest = behind(rest, end);
            continue;
        };
        let before = rest[..colon].trim_ascii();
        let last = before.iter().rposition(u8::is_ascii_whitespace);
        let name = &before[last.map_or(0, |space| space + 1)..];
        if takes_value(name) {
            if is_ours {
                words(&before[..last.unwrap_or(0)], each);
            }
            // The weekday of a date may have a comma behind it.
            let end = if date::is_weekday(rest[colon + 1..end].trim_ascii()) {
                end_of_part(rest, end + 1)
            } else {
                end
            };
            if is_ours {
                let value = rest[colon + 1..end].trim_ascii();
                let value_end = if is_date(name) {
                    value.len()
                } else {
                    let space = value.iter().position(u8::is_ascii_whitespace);
                    space.unwrap_or(value.len())
                };
                let (value, after) = value.split_at(value_end);
                let value = Some(value);
                each(Directive { name, value });
                words(after, each);
            }
            rest = behind(rest, end);
        } else if let Some(ours) = product_token.filter(|_| last.is_none()) {
            is_ours = is_product(name, ours);
            rest = &rest[colon + 1..];
        } else {
            rest = behind(rest, end);
        }
    }
}

/// Some authors separate directives by white space instead of commas.
fn words<'a>(words: &'a [u8], each: &mut impl FnMut(Directive<'a>)) {
    let names = words.split(u8::is_ascii_whitespace);
    for name in names.filter(|name| !name.is_empty()) {
        each(Directive { name, value: None });
    }
}

/// Returns whether the value of this directive has white space in it.
fn is_date(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"unavailable_after")
}

/// Where the part ends that goes on at a place.
fn end_of_part(value: &[u8], at: usize) -> usize {
    let rest = value.get(at..).unwrap_or_default();
    memchr::memchr(b',', rest).map_or(value.len(), |comma| at + comma)
}

fn behind(value: &[u8], end: usize) -> &[u8] {
    value.get(end + 1..).unwrap_or_default()
}

fn takes_value(name: &[u8]) -> bool {
    WITH_VALUE
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

fn is_product(name: &[u8], product_token: &str) -> bool {
    !product_token.is_empty() && name.eq_ignore_ascii_case(product_token.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::purpose::tests::said;
    use Purpose::{AiInput, AiTrain, Archive, Search};
    use Stance::{Allowed, Refused};

    /// 25 June 2010, 15:00 in UTC.
    const AT: i64 = 1_277_478_000;

    fn heard_at(value: &str, now_s: i64) -> Vec<(Purpose, Stance)> {
        let mut stances = Stances::default();
        of_header(value.as_bytes(), "rhumb", |directive| {
            stances.join(directive.stances(now_s, false));
        });
        said(stances)
    }

    fn heard(value: &str) -> Vec<(Purpose, Stance)> {
        heard_at(value, AT)
    }

    /// Google's specification, the table of rules and the examples; Bing's `nocache`; DeviantArt's
    /// `noai`.
    #[test]
    fn each_directive_is_read() {
        for (value, expected) in [
            ("noindex", &[(Search, Refused)][..]),
            ("none", &[(Search, Refused)]),
            ("all", &[(Search, Allowed)]),
            ("index, follow", &[(Search, Allowed)]),
            ("noarchive", &[(Archive, Refused)]),
            ("nocache", &[(Archive, Refused)]),
            ("archive", &[(Archive, Allowed)]),
            ("nosnippet", &[(AiInput, Refused)]),
            ("max-snippet:0", &[(AiInput, Refused)]),
            ("noai", &[(AiInput, Refused), (AiTrain, Refused)]),
            ("noai, noimageai", &[(AiInput, Refused), (AiTrain, Refused)]),
            ("NoIndex NOFOLLOW", &[(Search, Refused)]),
            (
                "noarchive, noindex",
                &[(Search, Refused), (Archive, Refused)],
            ),
            ("nofollow", &[]),
            ("noimageai", &[]),
            ("notranslate", &[]),
            ("noimageindex", &[]),
            ("indexifembedded", &[]),
            ("max-snippet:20, max-image-preview:large", &[]),
            ("max-video-preview:-1", &[]),
            ("", &[]),
        ] {
            assert_eq!(heard(value), expected, "{value}");
        }
        let image = Directive {
            name: b"noimageai",
            value: None,
        };
        assert_eq!(image.stances(AT, true).on(AiTrain), Refused);
    }

    #[test]
    fn a_page_is_refused_to_search_from_the_given_moment_on() {
        for date in [
            "25 Jun 2010 15:00:00 GMT",
            "Friday, 25-Jun-10 15:00:00 GMT",
            "Fri, 25 Jun 2010 15:00:00 GMT",
            "2010-06-25T15:00:00Z",
        ] {
            let value = format!("unavailable_after: {date}, noarchive");
            assert_eq!(heard_at(&value, AT - 1), [(Archive, Refused)], "{value}");
            let both = [(Search, Refused), (Archive, Refused)];
            assert_eq!(heard_at(&value, AT), both, "{value}");
        }
        assert_eq!(
            heard("unavailable_after: soon, noarchive"),
            [(Archive, Refused)]
        );
        assert_eq!(
            heard("max-image-preview:large, noarchive, max-snippet:0"),
            [(AiInput, Refused), (Archive, Refused)]
        );
        assert_eq!(heard("unavailable_after: some day"), []);
        assert_eq!(heard("unavailable_after:"), []);
    }

    #[test]
    fn white_space_separates_directives_beside_those_with_values() {
        let both = [(Search, Refused), (Archive, Refused)];
        assert_eq!(heard("noindex max-snippet:-1 noarchive"), both);
        assert_eq!(heard("noindex noarchive max-snippet: 20"), both);
        let date = "noindex unavailable_after: 25 Jun 3010 15:00:00 GMT, noarchive";
        assert_eq!(heard(date), both);
        assert_eq!(
            heard("max-snippet:0 noarchive"),
            [(AiInput, Refused), (Archive, Refused)]
        );
    }

    #[test]
    fn directives_for_other_products_are_not_ours() {
        assert_eq!(heard("otherbot: noindex, noarchive"), []);
        assert_eq!(heard("rhumb: noindex"), [(Search, Refused)]);
        assert_eq!(heard("RHUMB: noindex"), [(Search, Refused)]);
        assert_eq!(heard("noindex, otherbot: noarchive"), [(Search, Refused)]);
        assert_eq!(
            heard("otherbot: noindex, rhumb: noarchive"),
            [(Archive, Refused)]
        );
        // A name that contains ours, and one that ours contains.
        assert_eq!(heard("rhumbline: noindex"), []);
        assert_eq!(heard("rhu: noindex"), []);
        assert_eq!(
            heard("otherbot: unavailable_after: 25 Jun 2010 15:00:00 GMT"),
            []
        );
        assert_eq!(
            heard("rhumb: unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT"),
            [(Search, Refused)]
        );
    }

    #[test]
    fn a_meta_is_addressed_by_its_name() {
        assert!(addresses(b"robots", "rhumb") && addresses(b" Robots ", ""));
        assert!(addresses(b"RHUMB", "rhumb"));
        assert!(!addresses(b"rhumbline", "rhumb") && !addresses(b"googlebot", "rhumb"));
        assert!(!addresses(b"", ""));
        let mut names = Vec::new();
        of_meta(b"noindex, googlebot: nosnippet, noai", |directive| {
            names.push(directive.name);
        });
        assert_eq!(names, [&b"noindex"[..], b"noai"]);
    }

    #[test]
    fn none_and_nofollow_say_nofollow_and_noindex_does_not() {
        let says = |value: &[u8]| {
            let mut says = false;
            of_header(value, "rhumb", |directive| {
                says |= directive.says_nofollow()
            });
            says
        };
        assert!(says(b"nofollow") && says(b"none") && says(b"noindex, NoFollow"));
        assert!(!says(b"noindex") && !says(b"otherbot: nofollow") && !says(b"nofollowing"));
    }
}

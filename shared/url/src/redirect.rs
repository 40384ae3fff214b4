//! Redirects: where a response says that its content is.
//!
//! In: status and Location of a response. Out: the target that is followed, if there is one.
//! Fetcher and parser go by this alone, so that what a URL ended as and which links were taken from
//! it agree.
//!
//! Sources: RFC 9110, sections 10.2.2 and 15.4; Fetch, HTTP-redirect fetch.

use crate::{canonical, header_reference};
use url::Url;

/// The target of a redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As the server writes it.
    pub reference: String,
    /// Its canonical URL.
    pub url: String,
}

/// The target of a response to the request for `page`. There is none without a status that is
/// followed, without a Location, and with one that gives no URL: of another scheme, malformed. One
/// that is longer than `limits.url_bytes_max` is a target all the same, from which no link is
/// taken.
pub fn target<'a>(
    status: u16,
    locations: impl Iterator<Item = &'a [u8]>,
    page: &Url,
) -> Option<Target> {
    if !matches!(status, 300..=303 | 307 | 308) {
        return None;
    }
    let reference = reference(locations)?;
    let url = canonical(&reference, Some(page), None).ok()?;
    Some(Target { reference, url })
}

/// What stands in the first Location that is not empty, as browsers choose it.
pub fn reference<'a>(mut locations: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    locations
        .find(|location| !location.trim_ascii().is_empty())
        .map(header_reference)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(status: u16, locations: &[&str]) -> Option<String> {
        let page = Url::parse("http://a.test/dir/page").unwrap();
        target(
            status,
            locations.iter().map(|location| location.as_bytes()),
            &page,
        )
        .map(|target| target.url)
    }

    #[test]
    fn a_target_needs_a_status_that_is_followed_and_a_location_that_can_be_crawled() {
        for status in [300, 301, 302, 303, 307, 308] {
            assert_eq!(
                found(status, &["../b#c"]).as_deref(),
                Some("http://a.test/b"),
                "{status}"
            );
            for nowhere in [
                &[][..],
                &[""],
                &["", " "],
                &["mailto:a@a.test"],
                &["http://["],
                &["http://u@b.test/"],
            ] {
                assert_eq!(found(status, nowhere), None, "{status} {nowhere:?}");
            }
        }
        for status in [200, 201, 304, 305, 306, 309, 399, 404, 503] {
            assert_eq!(found(status, &["/b"]), None, "{status}");
        }
    }

    #[test]
    fn of_several_locations_the_first_that_is_not_empty_counts() {
        assert_eq!(
            found(302, &["", " ", "/b", "/c"]).as_deref(),
            Some("http://a.test/b")
        );
        assert_eq!(found(302, &["http://[", "/c"]), None);
    }
}

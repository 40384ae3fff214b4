//! Records that later responses may refer to: the one that has a body, and a page's own.
//!
//! In: responses that were written, in this life or an earlier one. Out: the record that has a
//! certain body, and the one that has the latest body of a page. Limits: so many bodies, and so
//! many pages. A body that is forgotten is kept whole once more; a page that is forgotten has no
//! record of its own until it is written again.

use crate::record::Digest;
use crate::remembered::Remembered;
use crate::time::date;

/// The record that has a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Original {
    pub(crate) url: String,
    /// `WARC-Date`.
    pub(crate) date: String,
}

/// How a page (a response of 2xx) was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRecord {
    /// Fingerprint of the URL.
    pub(crate) page: u64,
    pub(crate) fetched_at_ms: u64,
    /// None: its body is not kept, or not whole.
    pub(crate) body: Option<Digest>,
    /// The record refers to another one that has the body.
    pub(crate) is_revisit: bool,
    /// Fingerprint of the validator that the server gave; none: it gave none, or nobody knows.
    pub(crate) version: Option<u64>,
}

/// A page's own record, which has the page's latest body.
#[derive(Clone, Copy)]
struct Own {
    body: Digest,
    fetched_at_ms: u64,
    version: Option<u64>,
}

pub(crate) struct Originals {
    bodies: Remembered<Digest, Original>,
    pages: Remembered<u64, Own>,
}

impl Originals {
    /// None are known; so many bodies and pages will be, at most.
    pub(crate) fn new(bodies: usize, pages: usize) -> Originals {
        Originals {
            bodies: Remembered::new(bodies),
            pages: Remembered::new(pages),
        }
    }

    /// From now on so many pages are remembered, at most.
    pub(crate) fn allow_pages(&mut self, max: usize) {
        self.pages.allow(max);
    }

    /// The record that has a body: the page's own before another.
    pub(crate) fn of_body(&mut self, body: Digest, url: &str) -> Option<Original> {
        let own = self.of_page(url).filter(|(own, _)| *own == body);
        own.map(|(_, original)| original)
            .or_else(|| self.bodies.get(body))
    }

    /// The body of a page that has not changed, with the page's own record that has it. `asked`: the
    /// validator that was asked with. Another archiver may have written a later body: then the
    /// version is another one.
    pub(crate) fn of_version(
        &mut self,
        url: &str,
        asked: Option<u64>,
    ) -> Option<(Digest, Original)> {
        let own = self.pages.get(rhumb_url::fingerprint(url))?;
        let is_another = own.version.is_some() && own.version != asked;
        self.of_page(url).filter(|_| !is_another)
    }

    /// The latest body of a page, with the page's own record that has it.
    fn of_page(&mut self, url: &str) -> Option<(Digest, Original)> {
        let own = self.pages.get(rhumb_url::fingerprint(url))?;
        let original = Original {
            url: url.to_owned(),
            date: date(own.fetched_at_ms),
        };
        Some((own.body, original))
    }

    /// A record that has a body was written.
    pub(crate) fn insert_body(&mut self, body: Digest, original: Original) {
        self.bodies.insert(body, original);
    }

    /// A page was written; the latest must come last.
    pub(crate) fn insert_page(&mut self, record: PageRecord) {
        let PageRecord {
            page,
            fetched_at_ms,
            body,
            is_revisit,
            version,
        } = record;
        let own = self.pages.get(page);
        if own.is_some_and(|own| own.fetched_at_ms > fetched_at_ms) {
            // It comes late.
            return;
        }
        match body {
            Some(body) if !is_revisit => self.pages.insert(
                page,
                Own {
                    body,
                    fetched_at_ms,
                    version,
                },
            ),
            // It refers to the page's own record, which goes on to have the latest body.
            Some(body) if self.pages.get(page).is_some_and(|own| own.body == body) => {}
            _ => self.pages.remove(&page),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://a.test/";

    fn record(fetched_at_ms: u64, body: Option<u8>, is_revisit: bool) -> PageRecord {
        PageRecord {
            page: rhumb_url::fingerprint(URL),
            fetched_at_ms,
            body: body.map(|byte| Digest([byte; 20])),
            is_revisit,
            version: None,
        }
    }

    #[test]
    fn a_page_has_a_record_of_its_own_while_that_has_the_latest_body() {
        let mut originals = Originals::new(10, 10);
        let mut after = |record: PageRecord| {
            originals.insert_page(record);
            let own = originals.of_page(URL);
            own.map(|(body, original)| (body.0[0], original.date))
        };
        let at = |ms| date(ms);
        assert_eq!(after(record(1, Some(1), false)), Some((1, at(1))));
        assert_eq!(after(record(2, Some(1), true)), Some((1, at(1))));
        assert_eq!(after(record(3, Some(2), false)), Some((2, at(3))));
        assert_eq!(after(record(4, Some(1), true)), None, "another page's");
        assert_eq!(after(record(5, Some(3), false)), Some((3, at(5))));
        assert_eq!(after(record(6, None, false)), None, "not whole");
    }

    #[test]
    fn a_page_that_has_not_changed_is_the_version_that_was_asked_for() {
        let mut originals = Originals::new(10, 10);
        let of_version = |version, at_ms| PageRecord {
            version,
            ..record(at_ms, Some(1), false)
        };
        originals.insert_page(of_version(Some(7), 2));
        // It comes late, and says nothing.
        originals.insert_page(of_version(Some(8), 1));
        assert!(originals.of_version(URL, Some(7)).is_some());
        assert!(originals.of_version(URL, Some(8)).is_none());
        originals.insert_page(of_version(None, 3));
        assert!(originals.of_version(URL, Some(8)).is_some());
    }

    #[test]
    fn a_body_is_that_of_the_page_itself_before_another_and_none_unless_pages_are_remembered() {
        let body = Digest([1; 20]);
        let elsewhere = Original {
            url: "http://b.test/".into(),
            date: date(2),
        };
        for (pages, expected) in [(10, (URL, date(1))), (0, ("http://b.test/", date(2)))] {
            let mut originals = Originals::new(10, pages);
            originals.insert_page(record(1, Some(1), false));
            originals.insert_body(body, elsewhere.clone());
            let original = originals.of_body(body, URL).unwrap();
            assert_eq!((original.url.as_str(), original.date), expected);
            assert_eq!(originals.of_page(URL).is_some(), pages > 0);
        }
    }
}
